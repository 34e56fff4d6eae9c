/* SPDX-License-Identifier: Apache-2.0
 *
 * Images (N, C, H, W) or volumes (N, C, D, H, W) read at the positions of a grid (N, ..., 2 or 3), x first, -1 to 1 across:
 * torch.nn.functional.grid_sample. Each element is a weighted sum of 1, 2 or 4 pixels along each axis. The gradient of the image
 * adds to those what the element got; that of the grid goes through the weights. */
#include "ops/families.h"
#include <math.h>

enum { NEAREST = 0, LINEAR = 2, CUBIC = 3 };
enum { ZEROS, BORDER, REFLECTION };

/* ---- inference ---- */

static samba_status check(const samba_infer *infer, int rank, const int64_t *x, const samba_node *grid)
{
    const samba_attrs_grid *a = &infer->attrs->grid;
    bool fits = (rank == 4 || rank == 5) && grid->rank == rank && grid->shape[0] == x[0] && grid->shape[rank - 1] == rank - 2;
    for (int i = 2; fits && i < rank; i++)
        fits = x[i] >= 1;
    if (!fits)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected an image (N, C, H, W) and a grid (N, Ho, Wo, 2), or (N, C, D, H, W) and "
                                "(N, Do, Ho, Wo, 3), sizes of space of 1 or more, given %s and %s",
                                SAMBA_SHAPE(rank, x), SAMBA_SHAPE_OF(grid));
    if ((a->mode != NEAREST && a->mode != LINEAR && (a->mode != CUBIC || rank != 4)) || a->padding < ZEROS ||
        a->padding > REFLECTION)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                "expected a mode of 0, 2 or, of images, 3, and a padding of 0 to 2, given %lld and %lld",
                                (long long)a->mode, (long long)a->padding);
    if (grid->dtype != SAMBA_FLOAT32 && grid->dtype != SAMBA_FLOAT64)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected float32 or float64, given %s; cast it first",
                                samba_dtype_name((samba_dtype)grid->dtype));
    return SAMBA_OK;
}

/* (N, C) of x, then the grid's space */
static void result_shape(const int64_t *x, const samba_node *grid, int64_t *y)
{
    y[0] = x[0];
    y[1] = x[1];
    for (int i = 2; i < grid->rank; i++)
        y[i] = grid->shape[i - 1];
}

samba_status samba_infer_grid_sample(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0], *grid = infer->inputs[1];
    int64_t y[SAMBA_MAX_RANK];
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(check(infer, x->rank, x->shape, grid));
    result_shape(x->shape, grid, y);
    return samba_infer_set(infer, x->dtype, x->rank, y);
}

samba_status samba_infer_grid_sample_input_grad(samba_infer *infer)
{
    const samba_node *grid = infer->inputs[0];
    const samba_dims *x = &infer->attrs->grid.shape;
    int64_t y[SAMBA_MAX_RANK];
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(samba_infer_need_count(infer, "shape", x, grid->rank));
    SAMBA_TRY(check(infer, (int)x->count, x->at, grid));
    result_shape(x->at, grid, y);
    SAMBA_TRY(samba_infer_need_shape(infer, 1, grid->rank, y));
    return samba_infer_set(infer, grid->dtype, grid->rank, x->at);
}

samba_status samba_infer_grid_sample_grid_grad(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0], *grid = infer->inputs[1];
    int64_t y[SAMBA_MAX_RANK];
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 2));
    SAMBA_TRY(check(infer, x->rank, x->shape, grid));
    result_shape(x->shape, grid, y);
    SAMBA_TRY(samba_infer_need_shape(infer, 2, grid->rank, y));
    return samba_infer_set(infer, grid->dtype, grid->rank, grid->shape);
}

/* ---- gradient ---- */

static samba_ref emit_grid_gradient(samba_vjp *vjp, samba_ref x, samba_ref grid, samba_ref dy)
{
    samba_attrs attrs = {.grid = vjp->node->attrs->grid};
    attrs.grid.shape = (samba_dims){0};
    return samba_emit(vjp->graph, SAMBA_OP_grid_sample_grid_grad, 3, (samba_ref[]){x, grid, dy}, &attrs);
}

/* The nearest pixel stays the same: no gradient of the grid. */
samba_status samba_vjp_grid_sample(samba_vjp *vjp)
{
    const samba_node *x = samba_node_at(vjp->graph, vjp->inputs[0]);
    samba_attrs attrs = {.grid = vjp->node->attrs->grid};
    const bool smooth = attrs.grid.mode != NEAREST;
    attrs.grid.shape = samba_dims_of(x->rank, x->shape);
    if (vjp->needed[1] && smooth)
        vjp->input_gradients[1] = emit_grid_gradient(vjp, vjp->inputs[0], vjp->inputs[1], vjp->gradient);
    if (vjp->needed[0])
        vjp->input_gradients[0] =
            samba_emit(vjp->graph, SAMBA_OP_grid_sample_input_grad, 2, (samba_ref[]){vjp->inputs[1], vjp->gradient}, &attrs);
    return SAMBA_OK;
}

/* Linear in dy, of which grid_sample is the transpose; in the grid as grid_sample of the gradient is. */
samba_status samba_vjp_grid_sample_input_grad(samba_vjp *vjp)
{
    samba_attrs attrs = {.grid = vjp->node->attrs->grid};
    attrs.grid.shape = (samba_dims){0};
    if (vjp->needed[0] && attrs.grid.mode != NEAREST)
        vjp->input_gradients[0] = emit_grid_gradient(vjp, vjp->gradient, vjp->inputs[0], vjp->inputs[1]);
    if (vjp->needed[1])
        vjp->input_gradients[1] =
            samba_emit(vjp->graph, SAMBA_OP_grid_sample, 2, (samba_ref[]){vjp->gradient, vjp->inputs[0]}, &attrs);
    return SAMBA_OK;
}

/* ---- reference ---- */

typedef struct axis { /* pixels of one axis, -1: outside; weights, and their slopes by the grid */
    int count;
    int64_t at[4];
    double weight[4], slope[4];
} axis;

/* Where a coordinate lies after padding; *slope becomes 0 where it stays at an edge, or changes its sign. */
static double padded(const samba_attrs_grid *a, int64_t size, double at, double *slope)
{
    double low = a->align_corners ? 0 : -0.5, span = (double)(a->align_corners ? size - 1 : size), last = (double)(size - 1);
    if (a->padding == ZEROS)
        return at;
    if (a->padding == REFLECTION && span == 0) {
        *slope = 0;
        at *= 0;
    } else if (a->padding == REFLECTION) {
        double away = at - low, far = fabs(away), rest = far - floor(far / (2 * span)) * (2 * span);
        *slope *= (away < 0) != (rest > 2 * span - rest) ? -1 : 1;
        at = (rest > 2 * span - rest ? 2 * span - rest : rest) + low;
    }
    if (at <= 0 || at >= last)
        *slope = 0;
    return at < 0 ? 0 : at > last ? last : at;
}

static int64_t pixel(double at, int64_t size) { return at >= 0 && at <= (double)(size - 1) ? (int64_t)at : -1; }

/* Keys' cubic with a = -0.75 at a distance, and its slope */
static double cubic(double x, double *slope)
{
    const double a = -0.75;
    *slope = x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static axis axis_of(const samba_attrs_grid *a, int64_t size, double g)
{
    double unit = (double)(a->align_corners ? size - 1 : size) / 2, none;
    double at = a->align_corners ? (g + 1) * unit : ((g + 1) * (double)size - 1) * 0.5;
    axis x = {.count = a->mode == NEAREST ? 1 : a->mode == LINEAR ? 2 : 4};
    if (a->mode != CUBIC)
        at = padded(a, size, at, &unit);
    if (a->mode == NEAREST) {
        x.at[0] = pixel(nearbyint(at), size);
        x.weight[0] = 1;
        return x;
    }
    double below = floor(at), t = at - below, upper = below + 1;
    if (a->mode == LINEAR) {
        x.at[0] = pixel(below, size);
        x.at[1] = pixel(upper, size); /* behind the last its weight is 0 */
        x.weight[0] = 1 - t;
        x.weight[1] = t;
        x.slope[0] = -unit;
        x.slope[1] = unit;
        return x;
    }
    for (int k = 0; k < 4; k++) {
        double slope;
        x.at[k] = pixel(padded(a, size, below + k - 1, &none), size);
        x.weight[k] = cubic(k < 2 ? t + 1 - k : k - 1 - t, &slope);
        x.slope[k] = slope * (k < 2 ? unit : -unit);
    }
    return x;
}

typedef struct sampling {
    const samba_attrs_grid *attrs;
    int spatial;
    const int64_t *size; /* of x's space, by z, y, x or y, x */
    int64_t channels, pixels, positions;
} sampling;

static sampling sampling_of(const samba_reference *reference, const int64_t *x, const samba_array *grid)
{
    sampling s = {&reference->attrs->grid, grid->rank - 2, x + 2, x[1], 1, 1};
    for (int i = 0; i < s.spatial; i++) {
        s.pixels *= x[2 + i];
        s.positions *= grid->shape[1 + i];
    }
    return s;
}

/* Calls for each tap of each position and channel. `way`: y += w x; dx += w dy; dgrid += slope x dy */
enum { VALUES, IMAGE, GRID };
static void run(const sampling *s, int way, const samba_array *x, const samba_array *grid, const samba_array *dy, double *sums)
{
    for (int64_t i = 0; i < grid->numel / s->spatial; i++) {
        axis axes[3] = {{0}};
        int taps = 1;
        for (int d = 0; d < s->spatial; d++) { /* x is the grid's first and the last dim of space */
            axes[d] = axis_of(s->attrs, s->size[s->spatial - 1 - d], samba_array_double(grid, i * s->spatial + d));
            taps *= axes[d].count;
        }
        for (int64_t c = 0; c < s->channels; c++)
            for (int k = 0; k < taps; k++) {
                int64_t image = i / s->positions, at = 0, result = (image * s->channels + c) * s->positions + i % s->positions;
                double weight = 1, slopes[3] = {1, 1, 1};
                bool inside = true;
                for (int d = s->spatial - 1, rest = k; d >= 0; d--, rest /= axes[0].count) {
                    int tap = rest % axes[0].count;
                    inside = inside && axes[d].at[tap] >= 0;
                    weight *= axes[d].weight[tap];
                    for (int e = 0; e < s->spatial; e++)
                        slopes[e] *= e == d ? axes[d].slope[tap] : axes[d].weight[tap];
                    at = at * s->size[s->spatial - 1 - d] + axes[d].at[tap];
                }
                at += (image * s->channels + c) * s->pixels;
                double pixel = inside && x ? samba_array_double(x, at) : 0;
                if (way == VALUES)
                    sums[result] += weight * pixel;
                else if (way == IMAGE && inside)
                    sums[at] += weight * samba_array_double(dy, result);
                else if (way == GRID)
                    for (int d = 0; d < s->spatial; d++)
                        sums[i * s->spatial + d] += slopes[d] * pixel * samba_array_double(dy, result);
            }
    }
}

static samba_status reference_of(const samba_reference *reference, int way, const samba_array *x, const samba_array *grid,
                                 const samba_array *dy)
{
    const samba_array *result = reference->output;
    size_t bytes = (size_t)result->numel * sizeof(double);
    double *sums = samba_calloc(reference->context, bytes);
    if (!sums && result->numel > 0)
        return SAMBA_ERROR_MEMORY;
    sampling s = sampling_of(reference, x ? x->shape : result->shape, grid);
    run(&s, way, x, grid, dy, sums);
    for (int64_t i = 0; i < result->numel; i++)
        samba_array_set_double(result, i, sums[i]);
    samba_free(reference->context, sums, bytes);
    return SAMBA_OK;
}

samba_status samba_ref_grid_sample(const samba_reference *reference)
{
    return reference_of(reference, VALUES, &reference->inputs[0], &reference->inputs[1], NULL);
}

samba_status samba_ref_grid_sample_input_grad(const samba_reference *reference)
{
    return reference_of(reference, IMAGE, NULL, &reference->inputs[0], &reference->inputs[1]);
}

samba_status samba_ref_grid_sample_grid_grad(const samba_reference *reference)
{
    return reference_of(reference, GRID, &reference->inputs[0], &reference->inputs[1], &reference->inputs[2]);
}

int64_t samba_flops_grid_sample(const samba_node *node, const samba_node *const *inputs)
{
    const bool forward = node->op == SAMBA_OP_grid_sample;
    const samba_node *y = forward ? node : node->op == SAMBA_OP_grid_sample_grid_grad ? inputs[2] : inputs[1];
    double each = node->attrs->grid.mode == NEAREST ? 1 : node->attrs->grid.mode == LINEAR ? 2 : 4, count = 2;
    for (int i = 0; i < y->rank; i++)
        count *= (double)y->shape[i] * (i >= 2 ? each : 1);
    return (int64_t)fmin(node->op == SAMBA_OP_grid_sample_grid_grad ? 2 * count : count, 9e18);
}
