/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d and its two gradients: three views of one relation between x (N,C,H,W), w (O,C/groups,KH,KW), y (N,O,OH,OW).
 * Element (kh,kw) of the kernel sees, from (oh,ow) of y, row oh*stride - padding + kh*dilation of x, and so the column.
 * Each triple of x, w and y elements that see each other, inside x and in one group, is one product:
 *   conv2d  y = sum of x*w     conv2d_input_grad  dx = sum of w*dy     conv2d_weight_grad  dw = sum of x*dy
 * so one shape rule, the y of an x and a w, checks all three. The gradients carry the shape they deliver in attrs.shape.
 * As with matmul, the result for 16-bit floats is the float32 sum. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

enum { N, C, H, W };      /* dims of x; y: N, O = C, OH = H, OW = W */
enum { OUT, IN, KH, KW }; /* dims of w */

/* ---- shapes ---- */

static samba_status check_attributes(const samba_infer *infer, const samba_attrs_conv2d *attrs)
{
    SAMBA_TRY(samba_infer_need_count(infer, "stride", &attrs->stride, 2));
    SAMBA_TRY(samba_infer_need_count(infer, "padding", &attrs->padding, 2));
    SAMBA_TRY(samba_infer_need_count(infer, "dilation", &attrs->dilation, 2));
    for (int i = 0; i < 2; i++) {
        if (attrs->stride.at[i] < 1 || attrs->dilation.at[i] < 1)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                    "stride and dilation must be 1 or more, given stride (%lld, %lld) and dilation (%lld, %lld)",
                                    (long long)attrs->stride.at[0], (long long)attrs->stride.at[1],
                                    (long long)attrs->dilation.at[0], (long long)attrs->dilation.at[1]);
        if (attrs->padding.at[i] < 0)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "padding must not be negative, given (%lld, %lld)",
                                    (long long)attrs->padding.at[0], (long long)attrs->padding.at[1]);
    }
    if (attrs->groups < 1)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "groups must be 1 or more, given %lld", (long long)attrs->groups);
    return SAMBA_OK;
}

/* The channels of x (N,C,H,W) and w (O,C/groups,KH,KW) fit. */
static samba_status check_channels(const samba_infer *infer, const int64_t *x, const int64_t *w, int64_t groups)
{
    char x_text[SAMBA_SHAPE_TEXT], w_text[SAMBA_SHAPE_TEXT];
    samba_shape_format(4, x, x_text, sizeof x_text);
    samba_shape_format(4, w, w_text, sizeof w_text);
    if (x[C] % groups != 0 || w[OUT] % groups != 0)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "groups %lld must divide the channels of the input %s, %lld, and of the result, %lld (weight %s)",
                                (long long)groups, x_text, (long long)x[C], (long long)w[OUT], w_text);
    if (w[IN] != x[C] / groups)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "input %s in %lld groups needs a weight of shape (O, %lld, KH, KW), given %s", x_text,
                                (long long)groups, (long long)(x[C] / groups), w_text);
    if (w[KH] < 1 || w[KW] < 1)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "the kernel must have at least one element, given weight %s", w_text);
    return SAMBA_OK;
}

/* y's size along one axis, 0: height, 1: width. */
static samba_status output_size(const samba_infer *infer, const samba_attrs_conv2d *attrs, int axis, int64_t size, int64_t kernel,
                                int64_t *result)
{
    int64_t padding, padded, reach; /* reach: from the first to the last element under the kernel */
    if (!samba_mul_checked(2, attrs->padding.at[axis], &padding) || !samba_add_checked(size, padding, &padded) ||
        !samba_mul_checked(attrs->dilation.at[axis], kernel - 1, &reach) || !samba_add_checked(reach, 1, &reach))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "padding %lld or dilation %lld is too large",
                                (long long)attrs->padding.at[axis], (long long)attrs->dilation.at[axis]);
    if (reach > padded)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "the padded input has %s %lld, but the kernel reaches over %lld (size %lld, dilation %lld)",
                                axis == 0 ? "height" : "width", (long long)padded, (long long)reach, (long long)kernel,
                                (long long)attrs->dilation.at[axis]);
    *result = (padded - reach) / attrs->stride.at[axis] + 1;
    return SAMBA_OK;
}

/* The shape of y for the shapes of x and w, or what is wrong with them. */
static samba_status output_shape(const samba_infer *infer, const int64_t *x, const int64_t *w, int64_t *y)
{
    const samba_attrs_conv2d *attrs = &infer->attrs->conv2d;
    SAMBA_TRY(check_attributes(infer, attrs));
    SAMBA_TRY(check_channels(infer, x, w, attrs->groups));
    y[N] = x[N];
    y[C] = w[OUT];
    SAMBA_TRY(output_size(infer, attrs, 0, x[H], w[KH], &y[H]));
    return output_size(infer, attrs, 1, x[W], w[KW], &y[W]);
}

static samba_status check_operands(const samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(samba_infer_need_rank(infer, 0, 4));
    return samba_infer_need_rank(infer, 1, 4);
}

samba_status samba_infer_conv2d(samba_infer *infer)
{
    int64_t y[4];
    SAMBA_TRY(check_operands(infer));
    SAMBA_TRY(output_shape(infer, infer->inputs[0]->shape, infer->inputs[1]->shape, y));
    return samba_infer_set(infer, samba_compute_dtype((samba_dtype)infer->inputs[0]->dtype), 4, y);
}

/* A gradient delivers attrs.shape; its second input dy must be of the shape of y. */
static samba_status infer_gradient(samba_infer *infer, const int64_t *x, const int64_t *w)
{
    int64_t y[4];
    const samba_node *dy = infer->inputs[1];
    SAMBA_TRY(output_shape(infer, x, w, y));
    if (!samba_shape_equal(4, y, dy->rank, dy->shape)) {
        char y_text[SAMBA_SHAPE_TEXT], dy_text[SAMBA_SHAPE_TEXT];
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected the gradient of a result of shape %s, given shape %s",
                                samba_shape_format(4, y, y_text, sizeof y_text),
                                samba_shape_format(dy->rank, dy->shape, dy_text, sizeof dy_text));
    }
    return samba_infer_set(infer, samba_compute_dtype((samba_dtype)infer->inputs[0]->dtype), 4, infer->attrs->conv2d.shape.at);
}

samba_status samba_infer_conv2d_input_grad(samba_infer *infer)
{
    SAMBA_TRY(check_operands(infer));
    SAMBA_TRY(samba_infer_need_count(infer, "shape", &infer->attrs->conv2d.shape, 4));
    return infer_gradient(infer, infer->attrs->conv2d.shape.at, infer->inputs[0]->shape);
}

samba_status samba_infer_conv2d_weight_grad(samba_infer *infer)
{
    SAMBA_TRY(check_operands(infer));
    SAMBA_TRY(samba_infer_need_count(infer, "shape", &infer->attrs->conv2d.shape, 4));
    return infer_gradient(infer, infer->inputs[0]->shape, infer->attrs->conv2d.shape.at);
}

/* ---- gradient ---- */

samba_status samba_vjp_conv2d(samba_vjp *vjp)
{
    samba_node x = *samba_node_at(vjp->graph, vjp->inputs[0]), w = *samba_node_at(vjp->graph, vjp->inputs[1]);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.conv2d = vjp->node->attrs->conv2d;
    attrs.conv2d.shape = (samba_dims){.count = 4};
    samba_ref g = samba_emit_cast(vjp->graph, vjp->gradient, (samba_dtype)x.dtype);
    if (vjp->needed[0]) {
        memcpy(attrs.conv2d.shape.at, x.shape, 4 * sizeof x.shape[0]);
        samba_vjp_deliver(vjp, 0, samba_emit(vjp->graph, SAMBA_OP_conv2d_input_grad, 2, (samba_ref[]){vjp->inputs[1], g}, &attrs));
    }
    if (vjp->needed[1]) {
        memcpy(attrs.conv2d.shape.at, w.shape, 4 * sizeof w.shape[0]);
        samba_vjp_deliver(vjp, 1, samba_emit(vjp->graph, SAMBA_OP_conv2d_weight_grad, 2, (samba_ref[]){vjp->inputs[0], g}, &attrs));
    }
    return SAMBA_OK;
}

/* As a layer of its own conv2d_input_grad is a transposed convolution; what it does with dy is linear, and conv2d leads back. */
samba_status samba_vjp_conv2d_input_grad(samba_vjp *vjp)
{
    samba_node w = *samba_node_at(vjp->graph, vjp->inputs[0]);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.conv2d = vjp->node->attrs->conv2d;
    attrs.conv2d.shape = (samba_dims){0};
    samba_ref g = samba_emit_cast(vjp->graph, vjp->gradient, (samba_dtype)w.dtype);
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, samba_emit(vjp->graph, SAMBA_OP_conv2d, 2, (samba_ref[]){g, vjp->inputs[0]}, &attrs));
    if (vjp->needed[0]) {
        attrs.conv2d.shape.count = 4;
        memcpy(attrs.conv2d.shape.at, w.shape, 4 * sizeof w.shape[0]);
        samba_vjp_deliver(vjp, 0, samba_emit(vjp->graph, SAMBA_OP_conv2d_weight_grad, 2, (samba_ref[]){g, vjp->inputs[1]}, &attrs));
    }
    return SAMBA_OK;
}

/* ---- reference ---- */

typedef struct problem { /* the operator's sizes, the same for all three */
    const samba_attrs_conv2d *attrs;
    const int64_t *x, *w, *y; /* shapes */
    int64_t out_per_group, in_per_group;
} problem;

static problem problem_of(const samba_reference *reference, const samba_array *x, const samba_array *w, const samba_array *y)
{
    const samba_attrs_conv2d *attrs = &reference->attrs->conv2d;
    return (problem){attrs, x->shape, w->shape, y->shape, w->shape[OUT] / attrs->groups, w->shape[IN]};
}

static int64_t flat(const int64_t *shape, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((a * shape[1] + b) * shape[2] + c) * shape[3] + d;
}

/* The place in x that kernel element `k` sees from result element `o`, along an axis; may lie outside x. */
static int64_t seen(const problem *p, int axis, int64_t o, int64_t k)
{
    return o * p->attrs->stride.at[axis] - p->attrs->padding.at[axis] + k * p->attrs->dilation.at[axis];
}

/* The reverse: the result element from which kernel element `k` sees place `i` of x, or -1. */
static int64_t seen_from(const problem *p, int axis, int64_t i, int64_t k)
{
    int64_t distance = i + p->attrs->padding.at[axis] - k * p->attrs->dilation.at[axis];
    int64_t stride = p->attrs->stride.at[axis];
    if (distance < 0 || distance % stride != 0 || distance / stride >= p->y[H + axis])
        return -1;
    return distance / stride;
}

static double output_element(const problem *p, const samba_array *x, const samba_array *w, int64_t n, int64_t o, int64_t oh,
                             int64_t ow)
{
    double sum = 0;
    int64_t first_channel = o / p->out_per_group * p->in_per_group;
    for (int64_t c = 0; c < p->w[IN]; c++)
        for (int64_t kh = 0; kh < p->w[KH]; kh++)
            for (int64_t kw = 0; kw < p->w[KW]; kw++) {
                int64_t h = seen(p, 0, oh, kh), v = seen(p, 1, ow, kw);
                if (h >= 0 && h < p->x[H] && v >= 0 && v < p->x[W])
                    sum += samba_array_double(x, flat(p->x, n, first_channel + c, h, v)) *
                           samba_array_double(w, flat(p->w, o, c, kh, kw));
            }
    return sum;
}

static double input_gradient_element(const problem *p, const samba_array *w, const samba_array *dy, int64_t n, int64_t c,
                                     int64_t h, int64_t v)
{
    double sum = 0;
    int64_t first_output = c / p->in_per_group * p->out_per_group;
    for (int64_t o = first_output; o < first_output + p->out_per_group; o++)
        for (int64_t kh = 0; kh < p->w[KH]; kh++)
            for (int64_t kw = 0; kw < p->w[KW]; kw++) {
                int64_t oh = seen_from(p, 0, h, kh), ow = seen_from(p, 1, v, kw);
                if (oh >= 0 && ow >= 0)
                    sum += samba_array_double(w, flat(p->w, o, c % p->in_per_group, kh, kw)) *
                           samba_array_double(dy, flat(p->y, n, o, oh, ow));
            }
    return sum;
}

static double weight_gradient_element(const problem *p, const samba_array *x, const samba_array *dy, int64_t o, int64_t c,
                                      int64_t kh, int64_t kw)
{
    double sum = 0;
    int64_t first_channel = o / p->out_per_group * p->in_per_group;
    for (int64_t n = 0; n < p->y[N]; n++)
        for (int64_t oh = 0; oh < p->y[H]; oh++)
            for (int64_t ow = 0; ow < p->y[W]; ow++) {
                int64_t h = seen(p, 0, oh, kh), v = seen(p, 1, ow, kw);
                if (h >= 0 && h < p->x[H] && v >= 0 && v < p->x[W])
                    sum += samba_array_double(x, flat(p->x, n, first_channel + c, h, v)) *
                           samba_array_double(dy, flat(p->y, n, o, oh, ow));
            }
    return sum;
}

/* Fills the output with the element function's value at each place. */
typedef double element_fn(const problem *p, const samba_array *first, const samba_array *second, int64_t a, int64_t b, int64_t c,
                          int64_t d);
static samba_status fill(const samba_reference *reference, const problem *p, element_fn *element)
{
    const samba_array *output = reference->output;
    const int64_t *shape = output->shape;
    for (int64_t i = 0; i < output->numel; i++)
        samba_array_set_double(output, i,
                               element(p, &reference->inputs[0], &reference->inputs[1], i / shape[3] / shape[2] / shape[1],
                                       i / shape[3] / shape[2] % shape[1], i / shape[3] % shape[2], i % shape[3]));
    return SAMBA_OK;
}

samba_status samba_ref_conv2d(const samba_reference *reference)
{
    problem p = problem_of(reference, &reference->inputs[0], &reference->inputs[1], reference->output);
    return fill(reference, &p, output_element);
}

samba_status samba_ref_conv2d_input_grad(const samba_reference *reference)
{
    problem p = problem_of(reference, reference->output, &reference->inputs[0], &reference->inputs[1]);
    return fill(reference, &p, input_gradient_element);
}

samba_status samba_ref_conv2d_weight_grad(const samba_reference *reference)
{
    problem p = problem_of(reference, &reference->inputs[0], reference->output, &reference->inputs[1]);
    return fill(reference, &p, weight_gradient_element);
}

/* ---- flops: one multiply-add for each element of y and each element of the kernel above it, inside x or not ---- */

static int64_t flops(const int64_t *y, const int64_t *w)
{
    double products = (double)w[IN] * (double)w[KH] * (double)w[KW]; /* double: cannot overflow */
    for (int i = 0; i < 4; i++)
        products *= (double)y[i];
    return (int64_t)fmin(2 * products, 9e18);
}

int64_t samba_flops_conv2d(const samba_node *node, const samba_node *const *inputs)
{
    return flops(node->shape, inputs[1]->shape);
}

int64_t samba_flops_conv2d_input_grad(const samba_node *node, const samba_node *const *inputs)
{
    (void)node;
    return flops(inputs[1]->shape, inputs[0]->shape);
}

int64_t samba_flops_conv2d_weight_grad(const samba_node *node, const samba_node *const *inputs)
{
    return flops(inputs[1]->shape, node->shape);
}
