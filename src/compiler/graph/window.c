/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of simplify about convolutions whose windows meet padding. They hold for conv2d, conv3d and both their gradients, which
 * are one relation between x, w and y (ops/conv.c). On small images, the last of a network, much of a window lies in the padding:
 *   - rows and columns of the kernel that meet nothing but padding, whatever the window's position, are cut off: their products
 *   are zeros,
 *     and their part of a weight's gradient is zero;
 *   - a kernel of one element for each channel by itself is a factor of the channel;
 *   - a kernel that covers all of its image, at one position, is a matrix, and images are rows: a product of matrices;
 *   - zeros that were put around x by a pad of its own, as many on both sides, are padding of the convolution, which stores none.
 *
 * 3 x 3 kernels on images of one pixel, as ResNet's last stage has them from 32 x 32 pixels, come to a ninth of the products.
 *
 * Needs: inputs already simplified. Gives: a node of the same value, or SAMBA_NONE. */
#include "compiler/compiler.h"

#include <string.h>

enum { SPACE = 2 }; /* dims before those of space: image and channel, or two of channels */

typedef struct relation {
    samba_op op;
    const samba_attrs_conv *attrs;
    samba_dtype dtype;                                               /* of the result */
    int rank;                                                        /* of x, w and y */
    int64_t x[SAMBA_MAX_RANK], w[SAMBA_MAX_RANK], y[SAMBA_MAX_RANK]; /* shapes */
    samba_ref x_ref, w_ref, y_ref;                                   /* what is there of them; the result is SAMBA_NONE */
} relation;

static relation relation_of(const samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    relation r = {.op = (samba_op)node->op,
                  .attrs = &node->attrs->conv,
                  .dtype = (samba_dtype)node->dtype,
                  .rank = node->rank,
                  .x_ref = SAMBA_NONE,
                  .w_ref = SAMBA_NONE,
                  .y_ref = SAMBA_NONE};
    const int64_t *first = samba_node_at(g, inputs[0])->shape, *second = samba_node_at(g, inputs[1])->shape,
                  *result = node->shape;
    const int64_t *x = first, *w = second, *y = result;
    const samba_conv_role of = samba_ops[node->op].conv;
    if (of == SAMBA_CONV_forward)
        r.x_ref = inputs[0], r.w_ref = inputs[1];
    else if (of == SAMBA_CONV_input_grad)
        x = result, w = first, y = second, r.w_ref = inputs[0], r.y_ref = inputs[1];
    else
        x = first, w = result, y = second, r.x_ref = inputs[0], r.y_ref = inputs[1];
    memcpy(r.x, x, sizeof *x * (size_t)r.rank);
    memcpy(r.w, w, sizeof *w * (size_t)r.rank);
    memcpy(r.y, y, sizeof *y * (size_t)r.rank);
    return r;
}

/* Whether row, column or slab `k` of the kernel meets an element of x from some position. */
static bool meets(const relation *r, int axis, int64_t k)
{
    for (int64_t o = 0; o < r->y[SPACE + axis]; o++) {
        int64_t at = o * r->attrs->stride.at[axis] - r->attrs->padding.at[axis] + k * r->attrs->dilation.at[axis];
        if (at >= 0)
            return at < r->x[SPACE + axis]; /* further positions lie further on */
    }
    return false;
}

/* The part [from, to) of the kernel that is left along an axis and the padding that goes with them. Without ones to cut, all. */
static void cut(const relation *r, int axis, int64_t *from, int64_t *to, int64_t *padding)
{
    const int64_t size = r->w[SPACE + axis], dilation = r->attrs->dilation.at[axis], stride = r->attrs->stride.at[axis];
    int64_t first = 0, end = size;
    while (first < end && !meets(r, axis, first))
        first++;
    while (end > first && !meets(r, axis, end - 1))
        end--;
    int64_t left = r->attrs->padding.at[axis] - first * dilation,
            room = r->x[SPACE + axis] + 2 * left - dilation * (end - first - 1) - 1;
    bool fits = end > first && left >= 0 && room >= 0 && room / stride + 1 == r->y[SPACE + axis];
    *from = fits ? first : 0;
    *to = fits ? end : size;
    *padding = fits ? left : r->attrs->padding.at[axis];
}

static samba_ref emit_pad(samba_graph *g, samba_ref a, int rank, const int64_t *before, const int64_t *after)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.pad.before.count = attrs.pad.after.count = attrs.pad.interior.count = rank;
    memcpy(attrs.pad.before.at, before, sizeof *before * (size_t)rank);
    memcpy(attrs.pad.after.at, after, sizeof *after * (size_t)rank);
    return samba_emit(g, SAMBA_OP_pad, 1, &a, &attrs);
}

static samba_ref trimmed(samba_graph *g, const relation *r)
{
    int64_t start[SAMBA_MAX_RANK] = {0}, stop[SAMBA_MAX_RANK], after[SAMBA_MAX_RANK] = {0}, less = 0;
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.conv = *r->attrs;
    memcpy(stop, r->w, sizeof stop);
    for (int axis = 0; axis < r->rank - SPACE; axis++) {
        const int d = SPACE + axis;
        cut(r, axis, &start[d], &stop[d], &attrs.conv.padding.at[axis]);
        after[d] = r->w[d] - stop[d];
        less += start[d] + after[d];
    }
    if (less == 0)
        return SAMBA_NONE;
    if (samba_ops[r->op].conv == SAMBA_CONV_weight_grad) {
        for (int d = SPACE; d < r->rank; d++)
            attrs.conv.shape.at[d] = stop[d] - start[d];
        return emit_pad(g, samba_emit(g, r->op, 2, (samba_ref[]){r->x_ref, r->y_ref}, &attrs), r->rank, start, after);
    }
    samba_ref w = samba_emit_slice(g, r->w_ref, r->rank, start, stop);
    return samba_emit(g, r->op, 2,
                      samba_ops[r->op].conv == SAMBA_CONV_forward ? (samba_ref[]){r->x_ref, w} : (samba_ref[]){w, r->y_ref},
                      &attrs);
}

static samba_ref covered(samba_graph *g, const relation *r)
{
    int64_t count = r->x[1];
    for (int axis = 0; axis < r->rank - SPACE; axis++) {
        const int d = SPACE + axis;
        if (r->attrs->padding.at[axis] != 0 || r->attrs->dilation.at[axis] != 1 || r->x[d] != r->w[d])
            return SAMBA_NONE;
        count *= r->x[d];
    }
    if (r->attrs->groups != 1)
        return SAMBA_NONE;
    const int64_t x_shape[2] = {r->x[0], count}, w_shape[2] = {r->w[0], count}, y_shape[2] = {r->x[0], r->w[0]};
    samba_ref x = r->x_ref == SAMBA_NONE ? SAMBA_NONE : samba_emit_reshape(g, r->x_ref, 2, x_shape);
    samba_ref w = r->w_ref == SAMBA_NONE ? SAMBA_NONE : samba_emit_reshape(g, r->w_ref, 2, w_shape);
    samba_ref y = r->y_ref == SAMBA_NONE ? SAMBA_NONE : samba_emit_reshape(g, r->y_ref, 2, y_shape);
    switch (samba_ops[r->op].conv) {
    case SAMBA_CONV_forward:
        return samba_emit_reshape(g, samba_emit2(g, SAMBA_OP_matmul, x, samba_emit_transpose(g, w, 0, 1)), r->rank, r->y);
    case SAMBA_CONV_input_grad: return samba_emit_reshape(g, samba_emit2(g, SAMBA_OP_matmul, y, w), r->rank, r->x);
    default: return samba_emit_reshape(g, samba_emit2(g, SAMBA_OP_matmul, samba_emit_transpose(g, y, 0, 1), x), r->rank, r->w);
    }
}

static samba_ref padded(samba_graph *g, const relation *r)
{
    const samba_node *pad = r->x_ref == SAMBA_NONE ? NULL : samba_node_at(g, r->x_ref);
    if (!pad || pad->op != SAMBA_OP_pad || pad->attrs->pad.value != 0)
        return SAMBA_NONE;
    const samba_attrs_pad *p = &pad->attrs->pad;
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.conv = *r->attrs;
    for (int d = 0; d < r->rank; d++) {
        const int64_t zeros = p->before.at[d];
        if (p->after.at[d] != zeros || p->interior.at[d] != 0 || zeros < 0 || (d < SPACE && zeros != 0))
            return SAMBA_NONE;
        if (d >= SPACE && !samba_add_checked(attrs.conv.padding.at[d - SPACE], zeros, &attrs.conv.padding.at[d - SPACE]))
            return SAMBA_NONE;
    }
    return samba_emit(g, r->op, 2, (samba_ref[]){pad->inputs[0], r->w_ref != SAMBA_NONE ? r->w_ref : r->y_ref}, &attrs);
}

/* The weight's gradient is a sum of many products, and stays a convolution. */
static samba_ref scaled(samba_graph *g, const relation *r)
{
    int64_t shape[SAMBA_MAX_RANK] = {1, r->x[1]};
    if (samba_ops[r->op].conv == SAMBA_CONV_weight_grad || r->attrs->groups != r->x[1] || r->w[0] != r->x[1] || r->w[1] != 1)
        return SAMBA_NONE;
    for (int axis = 0; axis < r->rank - SPACE; axis++) {
        if (r->w[SPACE + axis] != 1 || r->attrs->padding.at[axis] != 0 || r->x[SPACE + axis] != r->y[SPACE + axis])
            return SAMBA_NONE;
        shape[SPACE + axis] = 1;
    }
    /* products of 16-bit floats are float32 */
    samba_ref image = samba_emit_cast(g, r->x_ref == SAMBA_NONE ? r->y_ref : r->x_ref, r->dtype);
    samba_ref factor = samba_emit_cast(g, samba_emit_reshape(g, r->w_ref, r->rank, shape), r->dtype);
    return samba_emit2(g, SAMBA_OP_mul, image, factor);
}

static samba_ref simpler_once(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    if (samba_ops[node->op].conv == SAMBA_CONV_none)
        return SAMBA_NONE;
    relation r = relation_of(g, node, inputs);
    for (int d = 0; d < r.rank; d++)
        if (r.x[d] == 0 || r.w[d] == 0 || r.y[d] == 0)
            return SAMBA_NONE;
    samba_ref simpler = padded(g, &r);
    if (simpler == SAMBA_NONE)
        simpler = trimmed(g, &r);
    if (simpler == SAMBA_NONE)
        simpler = scaled(g, &r);
    return simpler != SAMBA_NONE ? simpler : covered(g, &r);
}

/* One rule's result may be the next one's: padding first, then a kernel that mostly meets padding, then one of one element. */
samba_ref samba_simplify_window(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    enum { RULES = 4 };
    samba_ref result = simpler_once(g, node, inputs), next = result;
    for (int i = 1; i < RULES && next != SAMBA_NONE && samba_ops[samba_node_at(g, next)->op].conv != SAMBA_CONV_none; i++) {
        const samba_node copy = *samba_node_at(g, next);
        const samba_ref its_inputs[2] = {copy.inputs[0], copy.inputs[1]};
        next = simpler_once(g, &copy, its_inputs);
        result = next != SAMBA_NONE ? next : result;
    }
    return result;
}
