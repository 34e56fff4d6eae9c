/* SPDX-License-Identifier: Apache-2.0
 *
 * Max and average pooling over windows of (N,C,H,W) or (C,H,W): every plane H x W on its own, so all kernels loop over planes.
 * Window `o` of an axis begins at o*stride - padding and has `kernel` elements, `dilation` apart; elements outside the plane
 * do not take part.
 *
 * ceil_mode lets the last window reach over the edge, but only when it begins inside the plane or its left padding. The
 * average divides by the window's size cut at the padded edge (count_include_pad) or at the plane's edge, or by attrs.divisor
 * where that is not 0. The maximum of a window is its first greatest element; NaNs count as greatest, the last of them most.
 * Gradients are recomputed from x, nothing is kept; they carry x's shape in attrs.shape.
 *
 * With attrs.adaptive, attrs.kernel is the size of the result: window o of n begins at floor(o * size / n) and ends before
 * ceil((o + 1) * size / n). */
#include "ops/families.h"
#include <math.h>
#include <string.h>

/* ---- shapes ---- */

static const char *axis_name(const samba_infer *infer, int axis)
{
    return infer->graph->axes ? infer->graph->axes[axis] : axis == 0 ? "height" : "width";
}

static samba_status check_attributes(const samba_infer *infer, const samba_attrs_pool2d *attrs)
{
    SAMBA_TRY(samba_infer_need_count(infer, "kernel", &attrs->kernel, 2));
    SAMBA_TRY(samba_infer_need_count(infer, "stride", &attrs->stride, 2));
    SAMBA_TRY(samba_infer_need_count(infer, "padding", &attrs->padding, 2));
    SAMBA_TRY(samba_infer_need_count(infer, "dilation", &attrs->dilation, 2));
    bool average = infer->op == SAMBA_OP_avg_pool2d || infer->op == SAMBA_OP_avg_pool2d_grad;
    if (attrs->divisor && !average)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "a maximum has no divisor: expected 0, given %lld",
                                (long long)attrs->divisor);
    if (attrs->adaptive && (attrs->kernel.at[0] < 0 || attrs->kernel.at[1] < 0 || attrs->divisor))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                "expected a result of 0 or more windows each way and no divisor, given (%lld, %lld) and %lld",
                                (long long)attrs->kernel.at[0], (long long)attrs->kernel.at[1], (long long)attrs->divisor);
    for (int i = 0; i < 2 && !attrs->adaptive; i++) {
        long long kernel = attrs->kernel.at[i], padding = attrs->padding.at[i], dilation = attrs->dilation.at[i];
        if (kernel < 1 || attrs->stride.at[i] < 1 || dilation < 1)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                    "expected kernel, stride and dilation of 1 or more, given %lld, %lld and %lld for the %s",
                                    kernel, (long long)attrs->stride.at[i], dilation, axis_name(infer, i));
        if (average && dilation != 1)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "average pooling has no dilation: expected 1, given %lld",
                                    dilation);
        if (padding < 0 || padding > kernel / 2)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                    "padding of the %s must be from 0 to half the kernel, given %lld for kernel %lld",
                                    axis_name(infer, i), padding, kernel);
    }
    return SAMBA_OK;
}

/* The number of windows along one axis, 0: height, 1: width. */
static samba_status output_size(const samba_infer *infer, const samba_attrs_pool2d *attrs, int axis, int64_t size,
                                int64_t *result)
{
    int64_t kernel = attrs->kernel.at[axis], stride = attrs->stride.at[axis], padding = attrs->padding.at[axis];
    int64_t padded, reach, room; /* reach: from a window's first element to its last; room: how far a window can move */
    if (attrs->adaptive) {
        *result = kernel;
        if (size < 1 || !samba_mul_checked(kernel + 1, size, &room))
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "%lld windows cannot share a %s of %lld", (long long)kernel,
                                    axis_name(infer, axis), (long long)size);
        return SAMBA_OK;
    }
    if (!samba_add_checked(size, 2 * padding, &padded) || !samba_mul_checked(attrs->dilation.at[axis], kernel - 1, &reach) ||
        !samba_add_checked(reach, 1, &reach) || !samba_add_checked(padded, stride - 1, &room))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "kernel %lld, stride %lld or dilation %lld is too large",
                                (long long)kernel, (long long)stride, (long long)attrs->dilation.at[axis]);
    room = (attrs->ceil_mode ? room : padded) - reach;
    if (size < 1 || room < 0)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "no window fits: %s %lld, padding %lld, a window reaches over %lld (kernel %lld, dilation %lld)",
                                axis_name(infer, axis), (long long)size, (long long)padding, (long long)reach, (long long)kernel,
                                (long long)attrs->dilation.at[axis]);
    *result = room / stride + 1;
    if (attrs->ceil_mode && (*result - 1) * stride >= size + padding)
        --*result;
    return SAMBA_OK;
}

/* The shape of the pooled x. */
static samba_status output_shape(const samba_infer *infer, int rank, const int64_t *x, int64_t *y)
{
    const samba_attrs_pool2d *attrs = &infer->attrs->pool2d;
    SAMBA_TRY(check_attributes(infer, attrs));
    if (rank != 3 && rank != 4)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected an input (N, C, H, W) or (C, H, W), given shape %s",
                                SAMBA_SHAPE(rank, x));
    memcpy(y, x, (size_t)rank * sizeof *y);
    SAMBA_TRY(output_size(infer, attrs, 0, x[rank - 2], &y[rank - 2]));
    return output_size(infer, attrs, 1, x[rank - 1], &y[rank - 1]);
}

/* Averages are of floats and, as in PyTorch, of int64; a greatest one have all numbers. */
static samba_status check_dtype(const samba_infer *infer, const samba_attrs_pool2d *attrs)
{
    samba_dtype dtype = infer->inputs[0]->dtype;
    bool average = infer->op == SAMBA_OP_avg_pool2d;
    if (dtype == SAMBA_BOOL)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected numbers, given bool");
    if (average && (dtype != SAMBA_INT64 || attrs->adaptive || attrs->divisor < 0))
        return samba_infer_need_floating(infer, 0);
    return SAMBA_OK;
}

samba_status samba_infer_pool2d(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0];
    int64_t y[SAMBA_MAX_RANK];
    SAMBA_TRY(check_dtype(infer, &infer->attrs->pool2d));
    SAMBA_TRY(output_shape(infer, x->rank, x->shape, y));
    return samba_infer_set(infer, x->dtype, x->rank, y);
}

samba_status samba_infer_max_pool2d_indices(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_pool2d(infer));
    infer->dtype = SAMBA_INT64;
    return SAMBA_OK;
}

/* Gradients deliver attrs.shape; dy, their last input, must have the shape of its pooling. */
static samba_status infer_gradient(samba_infer *infer)
{
    const samba_dims *x = &infer->attrs->pool2d.shape;
    const samba_node *dy = infer->inputs[infer->arity - 1];
    int rank = x->count == 3 ? 3 : 4;
    int64_t y[SAMBA_MAX_RANK];
    SAMBA_TRY(samba_infer_need_floating(infer, infer->arity - 1));
    SAMBA_TRY(samba_infer_need_count(infer, "shape", x, rank));
    SAMBA_TRY(output_shape(infer, rank, x->at, y));
    SAMBA_TRY(samba_infer_need_shape(infer, infer->arity - 1, rank, y));
    return samba_infer_set(infer, dy->dtype, rank, x->at);
}

samba_status samba_infer_max_pool2d_grad(samba_infer *infer)
{
    const samba_dims *shape = &infer->attrs->pool2d.shape;
    const samba_node *x = infer->inputs[0];
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(infer_gradient(infer));
    if (!samba_shape_equal(x->rank, x->shape, (int)shape->count, shape->at))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected an input of attribute shape %s, given shape %s",
                                SAMBA_SHAPE((int)shape->count, shape->at), SAMBA_SHAPE_OF(x));
    return SAMBA_OK;
}

samba_status samba_infer_avg_pool2d_grad(samba_infer *infer) { return infer_gradient(infer); }

/* ---- gradient ---- */

static samba_status emit_gradient(samba_vjp *vjp, samba_op op, int arity, const samba_ref *inputs)
{
    const samba_node *x = samba_node_at(vjp->graph, vjp->inputs[0]);
    samba_attrs attrs = {.pool2d = vjp->node->attrs->pool2d};
    attrs.pool2d.shape = samba_dims_of(x->rank, x->shape);
    vjp->input_gradients[0] = samba_emit(vjp->graph, op, arity, inputs, &attrs);
    return SAMBA_OK;
}

samba_status samba_vjp_max_pool2d(samba_vjp *vjp)
{
    return emit_gradient(vjp, SAMBA_OP_max_pool2d_grad, 2, (samba_ref[]){vjp->inputs[0], vjp->gradient});
}

samba_status samba_vjp_avg_pool2d(samba_vjp *vjp) { return emit_gradient(vjp, SAMBA_OP_avg_pool2d_grad, 1, &vjp->gradient); }

/* Each window takes what stands where its greatest element is; one that sees only padding has no such place. */
samba_status samba_vjp_max_pool2d_grad(samba_vjp *vjp)
{
    samba_graph *g = vjp->graph;
    samba_node node = *vjp->node, dy = *samba_node_at(g, vjp->inputs[1]);
    if (!vjp->needed[1])
        return SAMBA_OK; /* where the greatest one is does not change with it */
    int rank = dy.rank;
    int64_t flat[SAMBA_MAX_RANK], windows[SAMBA_MAX_RANK];
    memcpy(flat, node.shape, sizeof flat);
    memcpy(windows, dy.shape, sizeof windows);
    flat[rank - 2] = node.shape[rank - 2] * node.shape[rank - 1];
    windows[rank - 2] = dy.shape[rank - 2] * dy.shape[rank - 1];
    samba_attrs attrs = {.pool2d = node.attrs->pool2d};
    attrs.pool2d.shape = (samba_dims){0};
    samba_ref indices = samba_emit(g, SAMBA_OP_max_pool2d_indices, 1, &vjp->inputs[0], &attrs);
    indices = samba_emit_reshape(g, indices, rank - 1, windows);
    samba_ref nothing = samba_emit_constant(g, 0, SAMBA_INT64), planes = samba_emit_reshape(g, vjp->gradient, rank - 1, flat);
    samba_ref there = samba_emit2(g, SAMBA_OP_ge, indices, nothing);
    samba_ref taken = samba_emit_gather(g, planes, samba_emit2(g, SAMBA_OP_maximum, indices, nothing), rank - 2, false);
    taken = samba_emit3(g, SAMBA_OP_where, there, taken, samba_emit_constant(g, 0, (samba_dtype)dy.dtype));
    return samba_vjp_deliver(vjp, 1, samba_emit_reshape(g, taken, rank, dy.shape));
}

samba_status samba_vjp_avg_pool2d_grad(samba_vjp *vjp)
{
    samba_attrs attrs = {.pool2d = vjp->node->attrs->pool2d};
    attrs.pool2d.shape = (samba_dims){0};
    return samba_vjp_deliver(vjp, 0, samba_emit(vjp->graph, SAMBA_OP_avg_pool2d, 1, &vjp->gradient, &attrs));
}

/* ---- reference ---- */

typedef struct planes { /* x and y seen as (planes, H, W) and (planes, OH, OW) */
    const samba_attrs_pool2d *attrs;
    int64_t size[2], result[2]; /* H, W; OH, OW */
} planes;

static planes planes_of(const samba_reference *reference, const samba_array *x, const samba_array *y)
{
    const int64_t *size = x->shape + x->rank - 2, *result = y->shape + y->rank - 2;
    return (planes){&reference->attrs->pool2d, {size[0], size[1]}, {result[0], result[1]}};
}

/* The rows or columns of the plane that window `o` sees: begin, begin + step ... before end; and the length it has up to the
 * padded edge. Without dilation they are begin .. end - 1. */
typedef struct span {
    int64_t begin, end, step, padded_length;
} span;

static span span_of(const planes *p, int axis, int64_t o)
{
    int64_t size = p->size[axis], padding = p->attrs->padding.at[axis],
            step = p->attrs->adaptive ? 1 : p->attrs->dilation.at[axis];
    if (p->attrs->adaptive) {
        int64_t count = p->attrs->kernel.at[axis], begin = o * size / count, end = ((o + 1) * size + count - 1) / count;
        return (span){begin, end, 1, end - begin};
    }
    int64_t begin = o * p->attrs->stride.at[axis] - padding, end = begin + (p->attrs->kernel.at[axis] - 1) * step + 1;
    if (end > size + padding)
        end = size + padding;
    int64_t padded_length = end - begin;
    while (begin < 0)
        begin += step;
    return (span){begin, end > size ? size : end, step, padded_length};
}

/* The flat index in x of the greatest element under window (oh, ow), -1 when the window sees only padding. */
static int64_t greatest(const planes *p, const samba_array *x, int64_t plane, int64_t oh, int64_t ow)
{
    span h = span_of(p, 0, oh), w = span_of(p, 1, ow);
    int64_t best = -1;
    for (int64_t row = h.begin; row < h.end; row += h.step)
        for (int64_t column = w.begin; column < w.end; column += w.step) {
            int64_t at = (plane * p->size[0] + row) * p->size[1] + column;
            bool floating = samba_dtype_is_floating_point(x->dtype);
            bool more = best < 0 ||
                        (floating ? samba_array_double(x, at) > samba_array_double(x, best) || isnan(samba_array_double(x, at))
                                  : samba_array_int64(x, at) > samba_array_int64(x, best));
            if (more)
                best = at;
        }
    return best;
}

/* The window of element i of a result. */
static int64_t greatest_of(const planes *p, const samba_array *x, int64_t i)
{
    return greatest(p, x, i / p->result[1] / p->result[0], i / p->result[1] % p->result[0], i % p->result[1]);
}

samba_status samba_ref_max_pool2d(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *y = reference->output;
    planes p = planes_of(reference, x, y);
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t best = greatest_of(&p, x, i);
        if (samba_dtype_is_floating_point(x->dtype))
            samba_array_set_double(y, i, best < 0 ? -INFINITY : samba_array_double(x, best));
        else
            samba_array_set_int64(y, i, best < 0 ? INT64_MIN : samba_array_int64(x, best));
    }
    return SAMBA_OK;
}

samba_status samba_ref_max_pool2d_indices(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *y = reference->output;
    planes p = planes_of(reference, x, y);
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t best = greatest_of(&p, x, i);
        samba_array_set_int64(y, i, best < 0 ? -1 : best % (p.size[0] * p.size[1]));
    }
    return SAMBA_OK;
}

static double divisor(const planes *p, const span *h, const span *w)
{
    if (p->attrs->divisor)
        return (double)p->attrs->divisor;
    if (p->attrs->count_include_pad)
        return (double)h->padded_length * (double)w->padded_length;
    return (double)(h->end - h->begin) * (double)(w->end - w->begin);
}

samba_status samba_ref_avg_pool2d(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *y = reference->output;
    planes p = planes_of(reference, x, y);
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t plane = i / p.result[1] / p.result[0];
        span h = span_of(&p, 0, i / p.result[1] % p.result[0]), w = span_of(&p, 1, i % p.result[1]);
        bool empty = h.begin >= h.end || w.begin >= w.end;
        double sum = 0;
        uint64_t whole = 0; /* int64 wraps */
        for (int64_t row = h.begin; row < h.end; row++)
            for (int64_t column = w.begin; column < w.end; column++) {
                int64_t at = (plane * p.size[0] + row) * p.size[1] + column;
                sum += samba_array_double(x, at);
                whole += (uint64_t)samba_array_int64(x, at);
            }
        if (samba_dtype_is_floating_point(x->dtype))
            samba_array_set_double(y, i, empty ? 0 : sum / divisor(&p, &h, &w));
        else
            samba_array_set_int64(y, i, empty ? 0 : (int64_t)whole / (int64_t)divisor(&p, &h, &w));
    }
    return SAMBA_OK;
}

/* Gradients: windows overlap, so sums are kept in double until all windows are done. */
static samba_status sums_new(const samba_reference *reference, double **sums)
{
    *sums = samba_calloc(reference->context, (size_t)reference->output->numel * sizeof **sums);
    return *sums ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static void sums_store(const samba_reference *reference, double *sums)
{
    for (int64_t i = 0; i < reference->output->numel; i++)
        samba_array_set_double(reference->output, i, sums[i]);
    samba_free(reference->context, sums, (size_t)reference->output->numel * sizeof *sums);
}

samba_status samba_ref_max_pool2d_grad(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *dy = &reference->inputs[1];
    planes p = planes_of(reference, x, dy);
    double *dx;
    SAMBA_TRY(sums_new(reference, &dx));
    for (int64_t i = 0; i < dy->numel; i++) {
        int64_t best = greatest_of(&p, x, i);
        if (best >= 0)
            dx[best] += samba_array_double(dy, i);
    }
    sums_store(reference, dx);
    return SAMBA_OK;
}

samba_status samba_ref_avg_pool2d_grad(const samba_reference *reference)
{
    const samba_array *dy = &reference->inputs[0];
    planes p = planes_of(reference, reference->output, dy);
    double *dx;
    SAMBA_TRY(sums_new(reference, &dx));
    for (int64_t i = 0; i < dy->numel; i++) {
        int64_t plane = i / p.result[1] / p.result[0];
        span h = span_of(&p, 0, i / p.result[1] % p.result[0]), w = span_of(&p, 1, i % p.result[1]);
        double share = samba_array_double(dy, i) / divisor(&p, &h, &w);
        for (int64_t row = h.begin; row < h.end; row++)
            for (int64_t column = w.begin; column < w.end; column++)
                dx[(plane * p.size[0] + row) * p.size[1] + column] += share;
    }
    sums_store(reference, dx);
    return SAMBA_OK;
}

/* ---- flops: a comparison or addition for each element of each window ---- */

static int64_t flops(const samba_node *node, const samba_node *x, const samba_node *y)
{
    const samba_attrs_pool2d *attrs = &node->attrs->pool2d;
    double count = attrs->adaptive ? 1 : (double)attrs->kernel.at[0] * (double)attrs->kernel.at[1]; /* double: cannot overflow */
    const samba_node *counted = attrs->adaptive ? x : y; /* adaptive windows see each element about once */
    for (int i = 0; i < counted->rank; i++)
        count *= (double)counted->shape[i];
    return (int64_t)fmin(count, 9e18);
}

int64_t samba_flops_pool2d(const samba_node *node, const samba_node *const *inputs) { return flops(node, inputs[0], node); }

int64_t samba_flops_pool2d_grad(const samba_node *node, const samba_node *const *inputs)
{
    return flops(node, node, inputs[node->arity - 1]);
}
