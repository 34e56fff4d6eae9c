/* SPDX-License-Identifier: Apache-2.0
 *
 * Planes (planes, height, width) of another size: each element of the result is a weighted sum of a few rows and columns, which
 * tensor/resample.h names. The gradient adds to those what the element got, with the same weights.
 * 16-bit floats are computed in float32. */
#include "ops/families.h"
#include "tensor/resample.h"
#include <math.h>

static samba_resample_axis axis_of(const samba_attrs_resample *attrs, int i, int64_t in, samba_dtype dtype)
{
    return (samba_resample_axis){.in = in,
                                 .out = attrs->size.at[i],
                                 .mode = attrs->mode,
                                 .align_corners = attrs->align_corners != 0,
                                 .antialias = attrs->antialias != 0,
                                 .wide = dtype == SAMBA_FLOAT64,
                                 .scale = i == 0 ? attrs->scale_height : attrs->scale_width};
}

static samba_status check(const samba_infer *infer, const int64_t *planes, samba_dtype dtype)
{
    const samba_attrs_resample *attrs = &infer->attrs->resample;
    SAMBA_TRY(samba_infer_need_count(infer, "size", &attrs->size, 2));
    for (int i = 0; i < 2; i++) {
        samba_resample_axis axis = axis_of(attrs, i, planes[1 + i], dtype);
        if (!samba_resample_possible(&axis))
            return samba_infer_fail(
                infer, SAMBA_ERROR_SHAPE,
                "a %s of %lld cannot become %lld by mode %lld and scale %g: expected sizes of 1 or more, a mode of 0 "
                "to 3, antialias with 2 or 3 alone, and a finite scale that is not negative",
                i == 0 ? "height" : "width", (long long)axis.in, (long long)axis.out, (long long)axis.mode, axis.scale);
    }
    if (dtype == SAMBA_BOOL || (attrs->mode > 1 && !samba_dtype_is_floating_point(dtype)))
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE,
                                "expected floating-point values (of the nearest modes numbers), given %s; cast it first",
                                samba_dtype_name(dtype));
    return SAMBA_OK;
}

samba_status samba_infer_resample2d(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0];
    SAMBA_TRY(samba_infer_need_rank(infer, 0, 3));
    SAMBA_TRY(check(infer, x->shape, x->dtype));
    const int64_t *size = infer->attrs->resample.size.at;
    return samba_infer_set(infer, x->dtype, 3, (int64_t[]){x->shape[0], size[0], size[1]});
}

samba_status samba_infer_resample2d_grad(samba_infer *infer)
{
    const samba_node *dy = infer->inputs[0];
    const samba_attrs_resample *attrs = &infer->attrs->resample;
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    SAMBA_TRY(samba_infer_need_rank(infer, 0, 3));
    SAMBA_TRY(samba_infer_need_count(infer, "shape", &attrs->shape, 3));
    SAMBA_TRY(check(infer, attrs->shape.at, dy->dtype));
    int64_t y[3] = {attrs->shape.at[0], attrs->size.at[0], attrs->size.at[1]};
    SAMBA_TRY(samba_infer_need_shape(infer, 0, 3, y));
    return samba_infer_set(infer, dy->dtype, 3, attrs->shape.at);
}

samba_status samba_vjp_resample2d(samba_vjp *vjp)
{
    const samba_node *x = samba_node_at(vjp->graph, vjp->inputs[0]);
    samba_attrs attrs = {.resample = vjp->node->attrs->resample};
    attrs.resample.shape = samba_dims_of(3, x->shape);
    vjp->input_gradients[0] = samba_emit(vjp->graph, SAMBA_OP_resample2d_grad, 1, &vjp->gradient, &attrs);
    return SAMBA_OK;
}

/* The operator is linear in dy, and resample2d is its transpose. */
samba_status samba_vjp_resample2d_grad(samba_vjp *vjp)
{
    samba_attrs attrs = {.resample = vjp->node->attrs->resample};
    attrs.resample.shape = (samba_dims){0};
    vjp->input_gradients[0] = samba_emit(vjp->graph, SAMBA_OP_resample2d, 1, &vjp->gradient, &attrs);
    return SAMBA_OK;
}

/* ---- reference ---- */

typedef struct line { /* what makes each element along one axis */
    int64_t taps, *index;
    double *weight;
    size_t bytes; /* of index, and of weight */
} line;

static samba_status line_new(samba_context *context, const samba_resample_axis *axis, line *l)
{
    l->taps = samba_resample_taps(axis);
    l->bytes = (size_t)(l->taps * axis->out) * sizeof(int64_t);
    l->index = samba_alloc(context, l->bytes);
    l->weight = l->index ? samba_alloc(context, l->bytes) : NULL;
    if (!l->weight) {
        samba_free(context, l->index, l->bytes);
        return SAMBA_ERROR_MEMORY;
    }
    for (int64_t o = 0; o < axis->out; o++)
        samba_resample_taps_of(axis, o, l->index + o * l->taps, l->weight + o * l->taps);
    return SAMBA_OK;
}

static void line_free(samba_context *context, line *l)
{
    samba_free(context, l->weight, l->bytes);
    samba_free(context, l->index, l->bytes);
}

/* Both ways: y from x, or with `sums` (of x's elements, at 0) the reverse. */
static void pass(const samba_array *x, const samba_array *y, const line *rows, const line *columns, const int64_t *in,
                 double *sums)
{
    const int64_t *out = y->shape + 1;
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t plane = i / out[1] / out[0], h = i / out[1] % out[0] * rows->taps, w = i % out[1] * columns->taps, whole = 0;
        double sum = 0;
        for (int64_t a = 0; a < rows->taps; a++)
            for (int64_t b = 0; b < columns->taps; b++) {
                int64_t at = (plane * in[0] + rows->index[h + a]) * in[1] + columns->index[w + b];
                double weight = rows->weight[h + a] * columns->weight[w + b];
                if (sums) {
                    sums[at] += weight * samba_array_double(y, i);
                } else if (samba_dtype_is_floating_point(x->dtype)) {
                    sum += weight * samba_array_double(x, at);
                } else {
                    whole = samba_array_int64(x, at);
                }
            }
        if (!sums && samba_dtype_is_floating_point(y->dtype))
            samba_array_set_double(y, i, sum);
        else if (!sums)
            samba_array_set_int64(y, i, whole);
    }
}

/* x and y are one the output of the reference, the other its input. */
static samba_status run(const samba_reference *reference, const samba_array *x, const samba_array *y, double *sums)
{
    const samba_attrs_resample *attrs = &reference->attrs->resample;
    line rows, columns;
    samba_resample_axis height = axis_of(attrs, 0, x->shape[1], x->dtype), width = axis_of(attrs, 1, x->shape[2], x->dtype);
    SAMBA_TRY(line_new(reference->context, &height, &rows));
    samba_status status = line_new(reference->context, &width, &columns);
    if (status == SAMBA_OK) {
        pass(x, y, &rows, &columns, x->shape + 1, sums);
        line_free(reference->context, &columns);
    }
    line_free(reference->context, &rows);
    return status;
}

samba_status samba_ref_resample2d(const samba_reference *reference)
{
    return run(reference, &reference->inputs[0], reference->output, NULL);
}

samba_status samba_ref_resample2d_grad(const samba_reference *reference)
{
    const samba_array *dx = reference->output;
    size_t bytes = (size_t)dx->numel * sizeof(double);
    double *sums = samba_calloc(reference->context, bytes);
    if (!sums && dx->numel > 0)
        return SAMBA_ERROR_MEMORY;
    samba_status status = run(reference, dx, &reference->inputs[0], sums);
    for (int64_t i = 0; i < dx->numel && status == SAMBA_OK; i++)
        samba_array_set_double(dx, i, sums[i]);
    samba_free(reference->context, sums, bytes);
    return status;
}

int64_t samba_flops_resample2d(const samba_node *node, const samba_node *const *inputs)
{
    const samba_node *y = node->op == SAMBA_OP_resample2d ? node : inputs[0];
    double count = node->attrs->resample.mode == 3 ? 16 : node->attrs->resample.mode == 2 ? 8 : 1; /* of a small filter */
    for (int i = 0; i < 3; i++)
        count *= (double)y->shape[i];
    return (int64_t)fmin(count, 9e18);
}
