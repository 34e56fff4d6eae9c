/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d, conv3d and their two gradients: three views of one relation between x (N,C,H,W), w (O,C/groups,KH,KW), y (N,O,OH,OW),
 * with a depth before the height in three dims. Element (kh,kw) of the kernel sees, from (oh,ow) of y, row oh*stride - padding +
 * kh*dilation of x, and so the column. Each triple of x, w and y elements that see each other, inside x and in one group, is one
 * product:
 *   conv  y = sum of x*w     conv_input_grad  dx = sum of w*dy     conv_weight_grad  dw = sum of x*dy
 * so one shape rule, the y of an x and a w, checks all three. The gradients carry the shape they deliver in attrs.shape.
 * As with matmul, the result for 16-bit floats is the float32 sum; integers wrap. Kernels may multiply the zeros around x or dy
 * as well, where that is quicker: what an infinite weight or gradient gives beside them, NaN or nothing,
 * depends on the road taken, as in PyTorch. */
#include "ops/families.h"
#include <math.h>

enum { N, C, SPACE }; /* dims of x; y: N, O = C, then its own */
enum { OUT, IN };     /* dims of w, then the kernel's */

static bool is_3d(samba_op op)
{
    return op == SAMBA_OP_conv3d || op == SAMBA_OP_conv3d_input_grad || op == SAMBA_OP_conv3d_weight_grad;
}

static int spatial_of(samba_op op) { return is_3d(op) ? 3 : 2; }

/* ---- shapes ---- */

static const char *axis_name(const samba_infer *infer, int axis)
{
    static const char *const names[] = {"depth", "height", "width"};
    return infer->graph->axes ? infer->graph->axes[axis] : names[axis + 3 - spatial_of(infer->op)];
}

static samba_status check_attributes(const samba_infer *infer, const samba_attrs_conv *attrs)
{
    int spatial = spatial_of(infer->op);
    SAMBA_TRY(samba_infer_need_count(infer, "stride", &attrs->stride, spatial));
    SAMBA_TRY(samba_infer_need_count(infer, "padding", &attrs->padding, spatial));
    SAMBA_TRY(samba_infer_need_count(infer, "dilation", &attrs->dilation, spatial));
    for (int i = 0; i < spatial; i++) {
        if (attrs->stride.at[i] < 1 || attrs->dilation.at[i] < 1)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                    "stride and dilation must be 1 or more, given stride %lld and dilation %lld for the %s",
                                    (long long)attrs->stride.at[i], (long long)attrs->dilation.at[i], axis_name(infer, i));
        if (attrs->padding.at[i] < 0)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "padding must be 0 or more, given %lld for the %s",
                                    (long long)attrs->padding.at[i], axis_name(infer, i));
    }
    if (attrs->groups < 1)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "groups must be 1 or more, given %lld", (long long)attrs->groups);
    return SAMBA_OK;
}

/* The channels of x (N,C,...) and w (O,C/groups,...) fit. */
static samba_status check_channels(const samba_infer *infer, const int64_t *x, const int64_t *w, int64_t groups)
{
    if (x[C] % groups != 0 || w[OUT] % groups != 0)
        return samba_infer_fail(
            infer, SAMBA_ERROR_SHAPE,
            "groups must divide the channels of the input, %lld, and dim 0 of the weight, %lld; given groups %lld",
            (long long)x[C], (long long)w[OUT], (long long)groups);
    if (w[IN] != x[C] / groups)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "dim 1 of the weight must be %lld, the %lld channels of the input over groups %lld; given %lld",
                                (long long)(x[C] / groups), (long long)x[C], (long long)groups, (long long)w[IN]);
    for (int i = 0; i < spatial_of(infer->op); i++)
        if (w[SPACE + i] < 1)
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "the kernel must have at least one element, given a %s of %lld",
                                    axis_name(infer, i), (long long)w[SPACE + i]);
    return SAMBA_OK;
}

/* y's size along one axis, the last one the width. */
static samba_status output_size(const samba_infer *infer, const samba_attrs_conv *attrs, int axis, int64_t size, int64_t kernel,
                                int64_t *result)
{
    int64_t padding, padded, reach; /* reach: from the first to the last element under the kernel */
    if (!samba_mul_checked(2, attrs->padding.at[axis], &padding) || !samba_add_checked(size, padding, &padded) ||
        !samba_mul_checked(attrs->dilation.at[axis], kernel - 1, &reach) || !samba_add_checked(reach, 1, &reach))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "padding %lld or dilation %lld is too large",
                                (long long)attrs->padding.at[axis], (long long)attrs->dilation.at[axis]);
    if (reach > padded)
        return samba_infer_fail(
            infer, SAMBA_ERROR_SHAPE,
            "the padded input has %s %lld, but the kernel reaches over %lld (size %lld, dilation %lld): pad it, or take a "
            "smaller kernel",
            axis_name(infer, axis), (long long)padded, (long long)reach, (long long)kernel, (long long)attrs->dilation.at[axis]);
    *result = (padded - reach) / attrs->stride.at[axis] + 1;
    return SAMBA_OK;
}

/* The shape of y for the shapes of x and w, or what is wrong with them. */
static samba_status output_shape(const samba_infer *infer, const int64_t *x, const int64_t *w, int64_t *y)
{
    const samba_attrs_conv *attrs = &infer->attrs->conv;
    SAMBA_TRY(check_attributes(infer, attrs));
    SAMBA_TRY(check_channels(infer, x, w, attrs->groups));
    y[N] = x[N];
    y[C] = w[OUT];
    for (int i = 0; i < spatial_of(infer->op); i++)
        SAMBA_TRY(output_size(infer, attrs, i, x[SPACE + i], w[SPACE + i], &y[SPACE + i]));
    return SAMBA_OK;
}

static samba_status check_operands(const samba_infer *infer)
{
    if (infer->inputs[0]->dtype == SAMBA_BOOL)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected numbers, given bool");
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(samba_infer_need_rank(infer, 0, 2 + spatial_of(infer->op)));
    return samba_infer_need_rank(infer, 1, 2 + spatial_of(infer->op));
}

samba_status samba_infer_conv(samba_infer *infer)
{
    int64_t y[SAMBA_MAX_RANK];
    SAMBA_TRY(check_operands(infer));
    SAMBA_TRY(output_shape(infer, infer->inputs[0]->shape, infer->inputs[1]->shape, y));
    return samba_infer_set(infer, samba_compute_dtype(infer->inputs[0]->dtype), 2 + spatial_of(infer->op), y);
}

/* A gradient delivers attrs.shape; its second input dy must be of the shape of y. */
static samba_status infer_gradient(samba_infer *infer, const int64_t *x, const int64_t *w)
{
    int64_t y[SAMBA_MAX_RANK];
    int rank = 2 + spatial_of(infer->op);
    SAMBA_TRY(output_shape(infer, x, w, y));
    SAMBA_TRY(samba_infer_need_shape(infer, 1, rank, y));
    return samba_infer_set(infer, samba_compute_dtype(infer->inputs[0]->dtype), rank, infer->attrs->conv.shape.at);
}

samba_status samba_infer_conv_input_grad(samba_infer *infer)
{
    SAMBA_TRY(check_operands(infer));
    SAMBA_TRY(samba_infer_need_count(infer, "shape", &infer->attrs->conv.shape, 2 + spatial_of(infer->op)));
    return infer_gradient(infer, infer->attrs->conv.shape.at, infer->inputs[0]->shape);
}

samba_status samba_infer_conv_weight_grad(samba_infer *infer)
{
    SAMBA_TRY(check_operands(infer));
    SAMBA_TRY(samba_infer_need_count(infer, "shape", &infer->attrs->conv.shape, 2 + spatial_of(infer->op)));
    return infer_gradient(infer, infer->inputs[0]->shape, infer->attrs->conv.shape.at);
}

/* ---- gradient ---- */

/* The node's attributes with the shape that a gradient delivers; without one: the forward's. */
static samba_attrs with_shape(const samba_vjp *vjp, const samba_node *shape)
{
    samba_attrs attrs = {.conv = vjp->node->attrs->conv};
    attrs.conv.shape = shape ? samba_dims_of(shape->rank, shape->shape) : (samba_dims){0};
    return attrs;
}

/* Delivers to input `i` what the operator, or that of three dims, makes of a and b. */
static void deliver(samba_vjp *vjp, int i, samba_op op, samba_op op_3d, samba_ref a, samba_ref b, const samba_attrs *attrs)
{
    if (vjp->needed[i])
        samba_vjp_deliver(vjp, i,
                          samba_emit(vjp->graph, is_3d((samba_op)vjp->node->op) ? op_3d : op, 2, (samba_ref[]){a, b}, attrs));
}

samba_status samba_vjp_conv(samba_vjp *vjp)
{
    samba_node x = *samba_node_at(vjp->graph, vjp->inputs[0]), w = *samba_node_at(vjp->graph, vjp->inputs[1]);
    samba_attrs for_x = with_shape(vjp, &x), for_w = with_shape(vjp, &w);
    samba_ref g = samba_emit_cast(vjp->graph, vjp->gradient, x.dtype);
    deliver(vjp, 0, SAMBA_OP_conv2d_input_grad, SAMBA_OP_conv3d_input_grad, vjp->inputs[1], g, &for_x);
    deliver(vjp, 1, SAMBA_OP_conv2d_weight_grad, SAMBA_OP_conv3d_weight_grad, vjp->inputs[0], g, &for_w);
    return SAMBA_OK;
}

/* As a layer of its own conv_input_grad is a transposed convolution; what it does with dy is linear, and conv leads back. */
samba_status samba_vjp_conv_input_grad(samba_vjp *vjp)
{
    samba_node w = *samba_node_at(vjp->graph, vjp->inputs[0]);
    samba_attrs forward = with_shape(vjp, NULL), for_w = with_shape(vjp, &w);
    samba_ref g = samba_emit_cast(vjp->graph, vjp->gradient, w.dtype);
    deliver(vjp, 1, SAMBA_OP_conv2d, SAMBA_OP_conv3d, g, vjp->inputs[0], &forward);
    deliver(vjp, 0, SAMBA_OP_conv2d_weight_grad, SAMBA_OP_conv3d_weight_grad, g, vjp->inputs[1], &for_w);
    return SAMBA_OK;
}

/* Of x*w*y, which all three products are sums of, this one is linear in x and dy: the other two lead back. */
samba_status samba_vjp_conv_weight_grad(samba_vjp *vjp)
{
    samba_node x = *samba_node_at(vjp->graph, vjp->inputs[0]);
    samba_attrs forward = with_shape(vjp, NULL), for_x = with_shape(vjp, &x);
    samba_ref g = samba_emit_cast(vjp->graph, vjp->gradient, x.dtype);
    deliver(vjp, 0, SAMBA_OP_conv2d_input_grad, SAMBA_OP_conv3d_input_grad, g, vjp->inputs[1], &for_x);
    deliver(vjp, 1, SAMBA_OP_conv2d, SAMBA_OP_conv3d, vjp->inputs[0], g, &forward);
    return SAMBA_OK;
}

/* ---- reference: all positions of y and of the kernel, whose triples are added up ---- */

typedef struct position { /* in space: two dims have a depth of 1 */
    int64_t at[3];
} position;

typedef struct problem { /* the operator's sizes, the same for all three; space of two dims has a depth of one before it */
    int64_t images, channels, outputs, in_per_group, out_per_group;
    int64_t x[3], w[3], y[3], stride[3], padding[3], dilation[3];
} problem;

static problem problem_of(const samba_reference *reference, const samba_array *x, const samba_array *w, const samba_array *y)
{
    const samba_attrs_conv *attrs = &reference->attrs->conv;
    int first = 5 - x->rank; /* of 3 dims */
    problem p = {x->shape[N], x->shape[C], w->shape[OUT], w->shape[IN], w->shape[OUT] / attrs->groups, {1, 1, 1}, {1, 1, 1},
                 {1, 1, 1},   {1, 1, 1},   {0},           {1, 1, 1}};
    for (int i = first; i < 3; i++) {
        p.x[i] = x->shape[SPACE + i - first];
        p.w[i] = w->shape[SPACE + i - first];
        p.y[i] = y->shape[SPACE + i - first];
        p.stride[i] = attrs->stride.at[i - first];
        p.padding[i] = attrs->padding.at[i - first];
        p.dilation[i] = attrs->dilation.at[i - first];
    }
    return p;
}

static position position_of(int64_t flat, const int64_t *size)
{
    return (position){{flat / size[2] / size[1], flat / size[2] % size[1], flat % size[2]}};
}

static int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

static int64_t flat_of(const int64_t *size, const position *p) { return (p->at[0] * size[1] + p->at[1]) * size[2] + p->at[2]; }

/* The position in x that kernel element `k` sees from result element `o`; false when it lies outside. */
static bool seen(const problem *p, const position *o, const position *k, position *x)
{
    bool inside = true;
    for (int i = 0; i < 3; i++) {
        x->at[i] = o->at[i] * p->stride[i] - p->padding[i] + k->at[i] * p->dilation[i];
        inside = inside && x->at[i] >= 0 && x->at[i] < p->x[i];
    }
    return inside;
}

/* The reverse: the result element from which kernel element `k` sees position `x`; false when there is none. */
static bool seen_from(const problem *p, const position *x, const position *k, position *o)
{
    bool inside = true;
    for (int i = 0; i < 3; i++) {
        int64_t distance = x->at[i] + p->padding[i] - k->at[i] * p->dilation[i];
        o->at[i] = distance / p->stride[i];
        inside = inside && distance >= 0 && distance % p->stride[i] == 0 && o->at[i] < p->y[i];
    }
    return inside;
}

/* A sum of products: floats in double, integers modulo 2^64, which wraps narrower ones too. */
typedef struct total {
    double real;
    uint64_t whole;
    bool floating;
} total;

static void add_product(total *sum, const samba_array *a, int64_t i, const samba_array *b, int64_t j)
{
    if (sum->floating)
        sum->real += samba_array_double(a, i) * samba_array_double(b, j);
    else
        sum->whole += (uint64_t)samba_array_int64(a, i) * (uint64_t)samba_array_int64(b, j);
}

static void output_element(const problem *p, const samba_array *x, const samba_array *w, int64_t n, int64_t o, int64_t flat,
                           total *sum)
{
    position at = position_of(flat, p->y), pixel;
    for (int64_t c = 0; c < p->in_per_group; c++)
        for (int64_t k = 0; k < volume(p->w); k++) {
            position tap = position_of(k, p->w);
            if (seen(p, &at, &tap, &pixel))
                add_product(sum, x,
                            (n * p->channels + o / p->out_per_group * p->in_per_group + c) * volume(p->x) + flat_of(p->x, &pixel),
                            w, (o * p->in_per_group + c) * volume(p->w) + k);
        }
}

static void input_gradient_element(const problem *p, const samba_array *w, const samba_array *dy, int64_t n, int64_t c,
                                   int64_t flat, total *sum)
{
    position pixel = position_of(flat, p->x), at;
    int64_t first = c / p->in_per_group * p->out_per_group;
    for (int64_t o = first; o < first + p->out_per_group; o++)
        for (int64_t k = 0; k < volume(p->w); k++) {
            position tap = position_of(k, p->w);
            if (seen_from(p, &pixel, &tap, &at))
                add_product(sum, w, (o * p->in_per_group + c % p->in_per_group) * volume(p->w) + k, dy,
                            (n * p->outputs + o) * volume(p->y) + flat_of(p->y, &at));
        }
}

static void weight_gradient_element(const problem *p, const samba_array *x, const samba_array *dy, int64_t o, int64_t c,
                                    int64_t flat, total *sum)
{
    position tap = position_of(flat, p->w), pixel;
    for (int64_t n = 0; n < p->images; n++)
        for (int64_t i = 0; i < volume(p->y); i++) {
            position at = position_of(i, p->y);
            if (seen(p, &at, &tap, &pixel))
                add_product(sum, x,
                            (n * p->channels + o / p->out_per_group * p->in_per_group + c) * volume(p->x) + flat_of(p->x, &pixel),
                            dy, (n * p->outputs + o) * volume(p->y) + i);
        }
}

/* Fills the output with the element function's sum at each position (a, b, position in space). */
typedef void element_fn(const problem *p, const samba_array *first, const samba_array *second, int64_t a, int64_t b, int64_t flat,
                        total *sum);
static samba_status fill(const samba_reference *reference, const problem *p, const int64_t *space, element_fn *element)
{
    const samba_array *output = reference->output;
    for (int64_t i = 0; i < output->numel; i++) {
        total sum = {.floating = samba_dtype_is_floating_point(output->dtype)};
        int64_t outer = i / volume(space);
        element(p, &reference->inputs[0], &reference->inputs[1], outer / output->shape[1], outer % output->shape[1],
                i % volume(space), &sum);
        if (sum.floating)
            samba_array_set_double(output, i, sum.real);
        else
            samba_array_set_int64(output, i, (int64_t)sum.whole);
    }
    return SAMBA_OK;
}

samba_status samba_ref_conv(const samba_reference *reference)
{
    problem p = problem_of(reference, &reference->inputs[0], &reference->inputs[1], reference->output);
    return fill(reference, &p, p.y, output_element);
}

samba_status samba_ref_conv_input_grad(const samba_reference *reference)
{
    problem p = problem_of(reference, reference->output, &reference->inputs[0], &reference->inputs[1]);
    return fill(reference, &p, p.x, input_gradient_element);
}

samba_status samba_ref_conv_weight_grad(const samba_reference *reference)
{
    problem p = problem_of(reference, &reference->inputs[0], reference->output, &reference->inputs[1]);
    return fill(reference, &p, p.w, weight_gradient_element);
}

/* ---- flops: one multiply-add for each element of y and each element of the kernel above it, inside x or not ---- */

static int64_t flops(const samba_node *y, const samba_node *w)
{
    double products = 1; /* double: cannot overflow */
    for (int i = 0; i < y->rank; i++)
        products *= (double)y->shape[i] * (i == OUT ? 1 : (double)w->shape[i]);
    return (int64_t)fmin(2 * products, 9e18);
}

int64_t samba_flops_conv(const samba_node *node, const samba_node *const *inputs) { return flops(node, inputs[1]); }

int64_t samba_flops_conv_input_grad(const samba_node *node, const samba_node *const *inputs)
{
    (void)node;
    return flops(inputs[1], inputs[0]);
}

int64_t samba_flops_conv_weight_grad(const samba_node *node, const samba_node *const *inputs) { return flops(inputs[1], node); }
