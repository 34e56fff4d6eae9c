/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm, group_norm and rms_norm: rows because of their gradients. What the chain rule makes of their parts passes over x
 * once more for each statistic; the closed formulas below need sums of g and of g times x, both in one pass, and a second pass
 * that gives dx.
 *
 * x is (N, C, ...). A plane is what one image has of one channel. Statistics of planes come first, both in one pass while a plane
 * is in the cache, and are put together afterwards (Chan, Golub and LeVeque 1979): the mean of means; the mean of variances plus
 * the variance of means. Nothing is lost to cancellation, and no second pass over memory is needed. Planes of a few elements are
 * not worth it: there the mean of all comes first. 16-bit floats are computed in float32 and rounded once, at the end.
 *
 * Forward, gradient and running statistics emit the same expressions, so that hash-consing makes them one.
 *
 * sync_batch_norm has the statistics of the batches of all replicas, which are of one size. Each replica finds its own as
 * batch_norm does; what they exchange is two numbers a channel, once forward and once backward. */
#include "ops/norm.h"
#include "ops/families.h"
#include <math.h>
#include <string.h>

#define SMALL_PLANE 64 /* elements of a plane below which its own statistics do not pay */

/* ---- what the rules share ---- */

typedef struct planes { /* of x (N, C, ...) */
    int rank;
    int64_t shape[SAMBA_MAX_RANK], images, channels, pixels;
} planes;

static planes planes_of(const samba_graph *graph, samba_ref x)
{
    const samba_node *node = samba_node_at(graph, x);
    planes p = {.rank = node->rank, .images = node->shape[0], .channels = node->shape[1], .pixels = 1};
    memcpy(p.shape, node->shape, sizeof p.shape);
    for (int d = 2; d < p.rank; d++)
        p.pixels *= p.shape[d];
    return p;
}

/* A value a channel (C), or an image and channel, as broadcasts to x: (1 or N, C, 1, ...). */
static samba_ref beside(samba_graph *graph, const planes *p, samba_ref a, int64_t images)
{
    int64_t shape[SAMBA_MAX_RANK] = {images, p->channels, 1, 1, 1, 1, 1, 1};
    return samba_emit_reshape(graph, a, p->rank, shape);
}

/* The sum over each plane, (N, C, 1, ...). */
static samba_ref plane_sum(samba_graph *graph, const planes *p, samba_ref a)
{
    static const int64_t dims[SAMBA_MAX_RANK] = {2, 3, 4, 5, 6, 7};
    return p->rank > 2 ? samba_emit_reduce(graph, SAMBA_OP_sum, a, p->rank - 2, dims) : a;
}

static samba_ref channel_sum(samba_graph *graph, const planes *p, samba_ref a)
{
    static const int64_t dims[SAMBA_MAX_RANK] = {0, 2, 3, 4, 5, 6, 7};
    if (p->pixels >= SMALL_PLANE)
        return samba_emit_reduce(graph, SAMBA_OP_sum, plane_sum(graph, p, a), 1, dims);
    return samba_emit_reduce(graph, SAMBA_OP_sum, a, p->rank - 1, dims);
}

static samba_ref scaled(samba_graph *graph, samba_ref a, double factor)
{
    return samba_emit_scalar(graph, SAMBA_OP_mul, a, factor);
}

static samba_ref square(samba_graph *graph, samba_ref a) { return samba_emit2(graph, SAMBA_OP_mul, a, a); }

static samba_ref sub(samba_graph *graph, samba_ref a, samba_ref b) { return samba_emit2(graph, SAMBA_OP_sub, a, b); }

static samba_ref mul(samba_graph *graph, samba_ref a, samba_ref b) { return samba_emit2(graph, SAMBA_OP_mul, a, b); }

static samba_ref reciprocal_deviation(samba_graph *graph, samba_ref variance, double eps)
{
    return samba_emit1(graph, SAMBA_OP_rsqrt, samba_emit_scalar(graph, SAMBA_OP_add, variance, eps));
}

/* Mean and variance over `dims` of `a`. */
static void moments(samba_graph *graph, samba_ref a, int count, const int64_t *dims, double size, samba_ref *mean,
                    samba_ref *variance)
{
    *mean = scaled(graph, samba_emit_reduce(graph, SAMBA_OP_sum, a, count, dims), 1 / size);
    samba_ref squares = square(graph, sub(graph, a, *mean));
    *variance = scaled(graph, samba_emit_reduce(graph, SAMBA_OP_sum, squares, count, dims), 1 / size);
}

/* Of each plane of `wide`, (N, C, 1, ...). */
static void plane_moments(samba_graph *graph, const planes *p, samba_ref wide, samba_ref *mean, samba_ref *variance)
{
    static const int64_t dims[SAMBA_MAX_RANK] = {2, 3, 4, 5, 6, 7};
    moments(graph, wide, p->rank - 2, dims, (double)p->pixels, mean, variance);
}

static bool is_constant(const samba_graph *graph, samba_ref ref, double *value)
{
    const samba_node *node = ref == SAMBA_NONE ? NULL : samba_node_at(graph, ref);
    if (!node || node->op != SAMBA_OP_constant)
        return false;
    *value = node->attrs->constant.value;
    return true;
}

/* `a` where the number `training` is not 0, else `b`: decided now where it is known, else by each run. */
static samba_ref chosen(samba_graph *graph, samba_ref training, samba_ref a, samba_ref b)
{
    double value;
    if (is_constant(graph, training, &value))
        return value != 0 ? a : b;
    samba_ref trains = samba_emit2(graph, SAMBA_OP_ne, training, samba_emit_constant(graph, 0, samba_ref_dtype(graph, training)));
    return samba_emit3(graph, SAMBA_OP_where, trains, a, b);
}

/* Whether it is known already that all runs train, or none does. */
static bool decided(const samba_graph *graph, samba_ref training, bool trains)
{
    double value;
    return is_constant(graph, training, &value) && (value != 0) == trains;
}

/* ---- inference ---- */

/* x (N, C, ...) of a floating-point dtype, and factors (C) of it or of the dtype it is computed in. */
static samba_status need_channels(samba_infer *infer, const char *const *factors, int count)
{
    const samba_node *x = infer->inputs[0];
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    if (x->rank < 2)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected an input (N, C, ...) of rank 2 or more, given %s",
                                SAMBA_SHAPE_OF(x));
    for (int i = 1; i <= count; i++) {
        const samba_node *factor = infer->inputs[i];
        if (factor->dtype != x->dtype && factor->dtype != samba_compute_dtype(x->dtype))
            return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected the %s to be %s as the input, given %s; cast it",
                                    factors[i - 1], samba_dtype_name(x->dtype), samba_dtype_name(factor->dtype));
        if (factor->rank != 1 || factor->shape[0] != x->shape[1])
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                    "expected the %s to have a number for each of the %lld channels, given %s", factors[i - 1],
                                    (long long)x->shape[1], SAMBA_SHAPE_OF(factor));
    }
    return SAMBA_OK;
}

static samba_status need_eps(const samba_infer *infer, double eps)
{
    return eps >= 0 ? SAMBA_OK : samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "eps must be 0 or more, given %g", eps);
}

/* ---- batch_norm(x, weight, bias, running_mean, running_var, training) ---- */

samba_status samba_infer_batch_norm(samba_infer *infer)
{
    static const char *const factors[] = {"weight", "bias", "running mean", "running variance"};
    SAMBA_TRY(need_channels(infer, factors, 4));
    SAMBA_TRY(samba_infer_need_dtype(infer, 5, SAMBA_FLOAT64));
    SAMBA_TRY(samba_infer_need_rank(infer, 5, 0));
    SAMBA_TRY(need_eps(infer, infer->attrs->batch_norm.eps));
    return samba_infer_set_like(infer, 0);
}

void samba_emit_batch_moments(samba_graph *graph, samba_ref x, samba_ref *mean, samba_ref *variance)
{
    static const int64_t dims[SAMBA_MAX_RANK] = {0, 2, 3, 4, 5, 6, 7};
    *mean = *variance = SAMBA_NONE;
    if (x == SAMBA_NONE)
        return;
    planes p = planes_of(graph, x);
    samba_ref wide = samba_emit_lift(graph, x);
    if (p.pixels < SMALL_PLANE) {
        moments(graph, wide, p.rank - 1, dims, (double)p.images * (double)p.pixels, mean, variance);
        return;
    }
    samba_ref means, variances, between;
    plane_moments(graph, &p, wide, &means, &variances);
    if (p.images == 1) {
        *mean = means, *variance = variances;
        return;
    }
    moments(graph, means, 1, dims, (double)p.images, mean, &between);
    samba_ref within = scaled(graph, samba_emit_reduce(graph, SAMBA_OP_sum, variances, 1, dims), 1 / (double)p.images);
    *variance = samba_emit2(graph, SAMBA_OP_add, within, between);
}

/* a and b, one behind the other along dim 0, and row `index` of what has two. */
static samba_ref rows_of(samba_graph *graph, samba_ref a, samba_ref b)
{
    const samba_ref both[] = {a, b};
    samba_attrs axis = {.axis = {.dim = 0}};
    return samba_emit(graph, SAMBA_OP_concat, 2, both, &axis);
}

static samba_ref row_of(samba_graph *graph, samba_ref rows, int64_t index)
{
    static const int64_t steps[SAMBA_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (rows == SAMBA_NONE)
        return rows;
    const samba_node *node = samba_node_at(graph, rows);
    int64_t start[SAMBA_MAX_RANK] = {index}, stop[SAMBA_MAX_RANK];
    memcpy(stop, node->shape, sizeof stop);
    stop[0] = index + 1;
    samba_attrs attrs = {.slice = {.start = samba_dims_of(node->rank, start),
                                   .stop = samba_dims_of(node->rank, stop),
                                   .step = samba_dims_of(node->rank, steps)}};
    return samba_emit(graph, SAMBA_OP_slice, 1, &rows, &attrs);
}

/* The means over all replicas of a and b, both (1, C, 1, ...), by one exchange. */
static void replica_means(samba_graph *graph, samba_ref *a, samba_ref *b)
{
    samba_ref means = samba_emit1(graph, SAMBA_OP_replica_mean, rows_of(graph, *a, *b));
    *a = row_of(graph, means, 0);
    *b = row_of(graph, means, 1);
}

/* As samba_emit_batch_moments, over the batches of all replicas. The variance is mean(x^2) - mean(x)^2, of which one exchange
 * brings both parts, in float64: with a standard deviation of d times the mean it loses 2^-53 / d^2 to cancellation, which is
 * less than the 2^-24 / d that float32's own rounding of the mean costs while d is more than 2^-29; float32 cannot hold
 * smaller ones. float64 has no wider dtype to do that in, and exchanges twice: means, then squares about the mean of all. */
static void sync_moments(samba_graph *graph, samba_ref x, samba_ref *mean, samba_ref *variance)
{
    samba_emit_batch_moments(graph, x, mean, variance);
    const samba_dtype dtype = samba_ref_dtype(graph, *mean);
    if (*mean == SAMBA_NONE)
        return;
    if (dtype == SAMBA_FLOAT64) {
        samba_ref all = samba_emit1(graph, SAMBA_OP_replica_mean, *mean);
        samba_ref squares = samba_emit2(graph, SAMBA_OP_add, *variance, square(graph, sub(graph, *mean, all)));
        *mean = all;
        *variance = samba_emit1(graph, SAMBA_OP_replica_mean, squares);
        return;
    }
    samba_ref wide = samba_emit_cast(graph, *mean, SAMBA_FLOAT64);
    samba_ref squares = square(graph, wide);
    squares = samba_emit2(graph, SAMBA_OP_add, samba_emit_cast(graph, *variance, SAMBA_FLOAT64), squares);
    replica_means(graph, &wide, &squares);
    squares = samba_emit_scalar(graph, SAMBA_OP_maximum, sub(graph, squares, square(graph, wide)), 0);
    *mean = samba_emit_cast(graph, wide, dtype);
    *variance = samba_emit_cast(graph, squares, dtype);
}

/* The statistics that normalize x, (1, C, 1, ...): the batch's statistics while training, the running ones else. */
static void batch_statistics(samba_graph *graph, const planes *p, const samba_ref *inputs, double eps, bool sync, samba_ref *mean,
                             samba_ref *reciprocal)
{
    samba_ref variance, running_mean = SAMBA_NONE, running_variance = SAMBA_NONE;
    if (!decided(graph, inputs[5], true)) {
        running_mean = beside(graph, p, samba_emit_lift(graph, inputs[3]), 1);
        running_variance = beside(graph, p, samba_emit_lift(graph, inputs[4]), 1);
    }
    *mean = running_mean, variance = running_variance;
    if (!decided(graph, inputs[5], false)) {
        (sync ? sync_moments : samba_emit_batch_moments)(graph, inputs[0], mean, &variance);
        *mean = chosen(graph, inputs[5], *mean, running_mean);
        variance = chosen(graph, inputs[5], variance, running_variance);
    }
    *reciprocal = reciprocal_deviation(graph, variance, eps);
}

/* (x - mean) reciprocal weight + bias */
static samba_ref affine(samba_graph *graph, const planes *p, const samba_ref *inputs, samba_ref mean, samba_ref reciprocal,
                        samba_dtype dtype)
{
    samba_ref scale = mul(graph, reciprocal, beside(graph, p, samba_emit_lift(graph, inputs[1]), 1));
    samba_ref result = mul(graph, sub(graph, samba_emit_lift(graph, inputs[0]), mean), scale);
    result = samba_emit2(graph, SAMBA_OP_add, result, beside(graph, p, samba_emit_lift(graph, inputs[2]), 1));
    return samba_emit_cast(graph, result, dtype);
}

samba_ref samba_expand_batch_norm(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    double eps = node->attrs->batch_norm.eps;
    bool sync = node->op == SAMBA_OP_sync_batch_norm;
    planes p = planes_of(graph, inputs[0]);
    samba_ref mean, reciprocal;
    batch_statistics(graph, &p, inputs, eps, sync, &mean, &reciprocal);
    return affine(graph, &p, inputs, mean, reciprocal, dtype);
}

/* With c = x - mean, a = weight / deviation and n elements a channel: dx = a g - a sum(g) / n - c a sum(g c) / (n deviation^2),
 * of which only a g is left where the statistics are running ones; dweight = sum(g c) / deviation; dbias = sum(g).
 *
 * With statistics of all replicas dx has the means over them of both sums; dweight and dbias are a replica's own. For with s the
 * mean over N replicas of what each has as a_r, and L the sum of their losses, dL/da_r = sum over q of (1/N) dL/ds_q: the
 * gradient of a mean over replicas is the mean over replicas of the gradients. REDUCE divides what comes of L by N. */
samba_status samba_vjp_batch_norm(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    double eps = vjp->node->attrs->batch_norm.eps;
    planes p = planes_of(graph, vjp->inputs[0]);
    double n = (double)p.images * (double)p.pixels;
    bool through = vjp->needed[0] && !decided(graph, vjp->inputs[5], false), sync = vjp->node->op == SAMBA_OP_sync_batch_norm;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), mean, reciprocal, sum = SAMBA_NONE, along = SAMBA_NONE,
              centered = SAMBA_NONE;
    batch_statistics(graph, &p, vjp->inputs, eps, sync, &mean, &reciprocal);
    if (through || vjp->needed[2])
        sum = channel_sum(graph, &p, g);
    if (through || vjp->needed[1]) {
        centered = sub(graph, samba_emit_lift(graph, vjp->inputs[0]), mean);
        along = channel_sum(graph, &p, mul(graph, g, centered));
    }
    if (vjp->needed[0]) {
        samba_ref scale = mul(graph, reciprocal, beside(graph, &p, samba_emit_lift(graph, vjp->inputs[1]), 1)),
                  dx = mul(graph, g, scale);
        if (through) {
            samba_ref zero = samba_emit_constant(graph, 0, samba_ref_dtype(graph, scale)), step = scaled(graph, scale, 1 / n);
            samba_ref sums = sum, products = along;
            if (sync)
                replica_means(graph, &sums, &products);
            samba_ref level = chosen(graph, vjp->inputs[5], mul(graph, step, sums), zero);
            samba_ref squared = square(graph, reciprocal);
            samba_ref slope = chosen(graph, vjp->inputs[5], mul(graph, mul(graph, step, products), squared), zero);
            samba_ref inclined = mul(graph, centered, slope);
            dx = sub(graph, sub(graph, dx, level), inclined);
        }
        samba_vjp_deliver(vjp, 0, dx);
    }
    if (vjp->needed[1])
        /* of nothing: 0 */
        samba_vjp_deliver(vjp, 1, samba_emit_reshape(graph, n > 0 ? mul(graph, along, reciprocal) : along, 1, &p.channels));
    if (vjp->needed[2])
        samba_vjp_deliver(vjp, 2, samba_emit_reshape(graph, sum, 1, &p.channels));
    return SAMBA_OK;
}

/* Mean and variance of `count` runs of `run` elements, `stride` apart. */
static void moments_of(const samba_array *x, int64_t first, int64_t count, int64_t run, int64_t stride, double *mean,
                       double *variance)
{
    double total = 0, squares = 0, size = (double)count * (double)run;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < run; j++)
            total += samba_array_double(x, first + i * stride + j);
    *mean = total / size;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < run; j++)
            squares += pow(samba_array_double(x, first + i * stride + j) - *mean, 2);
    *variance = squares / size;
}

static int64_t pixels_of(const samba_array *x)
{
    int64_t pixels = 1;
    for (int d = 2; d < x->rank; d++)
        pixels *= x->shape[d];
    return pixels;
}

samba_status samba_ref_batch_norm(const samba_reference *reference)
{
    const samba_array *in = reference->inputs, *x = &in[0];
    int64_t images = x->shape[0], channels = x->shape[1], pixels = pixels_of(x);
    bool training = samba_array_double(&in[5], 0) != 0;
    for (int64_t c = 0; c < channels; c++) {
        double mean = samba_array_double(&in[3], c), variance = samba_array_double(&in[4], c);
        if (training)
            moments_of(x, c * pixels, images, pixels, channels * pixels, &mean, &variance);
        double deviation = sqrt(variance + reference->attrs->batch_norm.eps);
        for (int64_t i = 0; i < images * pixels; i++) {
            int64_t at = (i / pixels * channels + c) * pixels + i % pixels;
            double xhat = (samba_array_double(x, at) - mean) / deviation;
            samba_array_set_double(reference->output, at, xhat * samba_array_double(&in[1], c) + samba_array_double(&in[2], c));
        }
    }
    return SAMBA_OK;
}

/* ---- replica_mean(a) ---- */

samba_status samba_vjp_replica_mean(samba_vjp *vjp)
{
    return samba_vjp_deliver(vjp, 0, samba_emit1(vjp->graph, SAMBA_OP_replica_mean, vjp->gradient));
}

/* ---- sync_batch_norm: the same as batch_norm, by the statistics of all replicas ---- */

samba_status samba_vjp_sync_batch_norm(samba_vjp *vjp) { return samba_vjp_batch_norm(vjp); }

samba_ref samba_expand_sync_batch_norm(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    return samba_expand_batch_norm(graph, node, inputs);
}

/* ---- sync_batch_moments(x): mean and variance (over n, not n - 1) of each channel, (2, C), over all replicas ---- */

samba_status samba_infer_sync_batch_moments(samba_infer *infer)
{
    SAMBA_TRY(need_channels(infer, NULL, 0));
    const int64_t shape[] = {2, infer->inputs[0]->shape[1]};
    return samba_infer_set(infer, samba_compute_dtype((samba_dtype)infer->inputs[0]->dtype), 2, shape);
}

/* Two rows of a number a channel. */
static samba_ref moment_rows(samba_graph *graph, samba_ref mean, samba_ref variance, int64_t channels)
{
    const int64_t row[] = {1, channels};
    samba_ref first = samba_emit_reshape(graph, mean, 2, row), second = samba_emit_reshape(graph, variance, 2, row);
    return rows_of(graph, first, second);
}

samba_ref samba_expand_sync_batch_moments(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    const int64_t channels = node->shape[1];
    samba_ref mean, variance;
    sync_moments(graph, inputs[0], &mean, &variance);
    return moment_rows(graph, mean, variance, channels);
}

samba_ref samba_emit_own_moments(samba_graph *graph, samba_ref x, int64_t channels)
{
    samba_ref mean, variance;
    samba_emit_batch_moments(graph, x, &mean, &variance);
    return moment_rows(graph, mean, variance, channels);
}

/* dx = (g of the mean + 2 (x - mean) g of the variance) / n, of gradients' means over replicas */
samba_status samba_vjp_sync_batch_moments(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    planes p = planes_of(graph, vjp->inputs[0]);
    samba_ref wide = samba_emit_lift(graph, vjp->inputs[0]), mean, variance;
    sync_moments(graph, vjp->inputs[0], &mean, &variance);
    samba_ref gradients = samba_emit1(graph, SAMBA_OP_replica_mean, vjp->gradient);
    samba_ref level = row_of(graph, gradients, 0), slope = row_of(graph, gradients, 1);
    level = beside(graph, &p, level, 1);
    slope = beside(graph, &p, slope, 1);
    samba_ref centered = sub(graph, wide, mean), steep = scaled(graph, slope, 2);
    samba_ref dx = samba_emit2(graph, SAMBA_OP_add, mul(graph, centered, steep), level);
    return samba_vjp_deliver(vjp, 0, scaled(graph, dx, 1 / ((double)p.images * (double)p.pixels)));
}

samba_status samba_ref_sync_batch_moments(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0];
    int64_t images = x->shape[0], channels = x->shape[1], pixels = pixels_of(x);
    for (int64_t c = 0; c < channels; c++) {
        double mean, variance;
        moments_of(x, c * pixels, images, pixels, channels * pixels, &mean, &variance);
        samba_array_set_double(reference->output, c, mean);
        samba_array_set_double(reference->output, channels + c, variance);
    }
    return SAMBA_OK;
}

/* ---- group_norm(x, weight, bias): attrs.groups of neighbouring channels of an image are normalized together ---- */

samba_status samba_infer_group_norm(samba_infer *infer)
{
    static const char *const factors[] = {"weight", "bias"};
    const samba_attrs_group_norm *attrs = &infer->attrs->group_norm;
    SAMBA_TRY(need_channels(infer, factors, 2));
    if (attrs->groups < 1 || infer->inputs[0]->shape[1] % attrs->groups != 0)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "the number of groups must divide the %lld channels, given %lld",
                                (long long)infer->inputs[0]->shape[1], (long long)attrs->groups);
    SAMBA_TRY(need_eps(infer, attrs->eps));
    return samba_infer_set_like(infer, 0);
}

/* (N, C, 1 ...) as (N, G, C / G), where the last dim is what a group has. */
static samba_ref grouped(samba_graph *graph, const planes *p, int64_t groups, samba_ref a)
{
    return samba_emit_reshape(graph, a, 3, (int64_t[]){p->images, groups, p->channels / groups});
}

/* A value a group (N, G, 1) for each of its channels: (N, C, 1, ...). */
static samba_ref spread(samba_graph *graph, const planes *p, int64_t groups, samba_ref a)
{
    return beside(graph, p, samba_emit_expand(graph, a, 3, (int64_t[]){p->images, groups, p->channels / groups}), p->images);
}

static samba_ref group_sum(samba_graph *graph, const planes *p, int64_t groups, samba_ref a)
{
    return samba_emit_reduce(graph, SAMBA_OP_sum, grouped(graph, p, groups, a), 1, (int64_t[]){2});
}

/* Mean and reciprocal deviation of each group, for each channel of it: (N, C, 1, ...). */
static void group_statistics(samba_graph *graph, const planes *p, samba_ref x, int64_t groups, double eps, samba_ref *mean,
                             samba_ref *reciprocal)
{
    int64_t each = p->channels / groups, last = 2;
    samba_ref wide = samba_emit_lift(graph, x), variance;
    if (p->pixels < SMALL_PLANE) {
        moments(graph, samba_emit_reshape(graph, wide, 3, (int64_t[]){p->images, groups, each * p->pixels}), 1, &last,
                (double)(each * p->pixels), mean, &variance);
    } else {
        samba_ref variances, between;
        plane_moments(graph, p, wide, mean, &variance);
        if (each == 1) { /* a plane is a group */
            *reciprocal = reciprocal_deviation(graph, variance, eps);
            return;
        }
        variances = scaled(graph, group_sum(graph, p, groups, variance), 1 / (double)each);
        moments(graph, grouped(graph, p, groups, *mean), 1, &last, (double)each, mean, &between);
        variance = samba_emit2(graph, SAMBA_OP_add, variances, between);
    }
    *mean = spread(graph, p, groups, *mean);
    *reciprocal = spread(graph, p, groups, reciprocal_deviation(graph, variance, eps));
}

samba_ref samba_expand_group_norm(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    const samba_attrs_group_norm attrs = node->attrs->group_norm;
    planes p = planes_of(graph, inputs[0]);
    samba_ref mean, reciprocal;
    group_statistics(graph, &p, inputs[0], attrs.groups, attrs.eps, &mean, &reciprocal);
    return affine(graph, &p, inputs, mean, reciprocal, dtype);
}

/* As batch_norm's, but that the factors stand inside the sums over a group: of each plane sum(g) and sum(g c) are taken, times
 * the weight they add up to what the group needs, over images to dweight and dbias. */
samba_status samba_vjp_group_norm(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_attrs_group_norm attrs = vjp->node->attrs->group_norm;
    planes p = planes_of(graph, vjp->inputs[0]);
    double n = (double)(p.channels / attrs.groups) * (double)p.pixels;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), mean, reciprocal, along = SAMBA_NONE, centered = SAMBA_NONE;
    samba_ref sum = plane_sum(graph, &p, g);
    int64_t images = 0;
    if (vjp->needed[0] || vjp->needed[1]) {
        group_statistics(graph, &p, vjp->inputs[0], attrs.groups, attrs.eps, &mean, &reciprocal);
        centered = sub(graph, samba_emit_lift(graph, vjp->inputs[0]), mean);
        along = plane_sum(graph, &p, mul(graph, g, centered));
    }
    if (vjp->needed[0]) {
        samba_ref weight = beside(graph, &p, samba_emit_lift(graph, vjp->inputs[1]), 1), step = scaled(graph, reciprocal, 1 / n);
        samba_ref level =
            mul(graph, step, spread(graph, &p, attrs.groups, group_sum(graph, &p, attrs.groups, mul(graph, sum, weight))));
        samba_ref sums = spread(graph, &p, attrs.groups, group_sum(graph, &p, attrs.groups, mul(graph, along, weight)));
        samba_ref slope = mul(graph, mul(graph, step, square(graph, reciprocal)), sums);
        samba_ref dx = sub(graph, mul(graph, g, mul(graph, reciprocal, weight)), level);
        samba_vjp_deliver(vjp, 0, sub(graph, dx, mul(graph, centered, slope)));
    }
    if (vjp->needed[1]) {
        /* of nothing: 0 */
        samba_ref all = samba_emit_reduce(graph, SAMBA_OP_sum, n > 0 ? mul(graph, along, reciprocal) : along, 1, &images);
        samba_vjp_deliver(vjp, 1, samba_emit_reshape(graph, all, 1, &p.channels));
    }
    if (vjp->needed[2])
        samba_vjp_deliver(vjp, 2,
                          samba_emit_reshape(graph, samba_emit_reduce(graph, SAMBA_OP_sum, sum, 1, &images), 1, &p.channels));
    return SAMBA_OK;
}

samba_status samba_ref_group_norm(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *weight = &reference->inputs[1], *bias = &reference->inputs[2];
    int64_t channels = x->shape[1], pixels = pixels_of(x), each = channels / reference->attrs->group_norm.groups * pixels;
    for (int64_t first = 0; each > 0 && first < x->numel; first += each) {
        double mean, variance;
        moments_of(x, first, 1, each, 0, &mean, &variance);
        double deviation = sqrt(variance + reference->attrs->group_norm.eps);
        for (int64_t at = first; at < first + each; at++) {
            int64_t c = at / pixels % channels;
            double xhat = (samba_array_double(x, at) - mean) / deviation;
            samba_array_set_double(reference->output, at, xhat * samba_array_double(weight, c) + samba_array_double(bias, c));
        }
    }
    return SAMBA_OK;
}

/* ---- rms_norm(x, weight) over the last attrs.dims dims ---- */

samba_status samba_infer_rms_norm(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0], *weight = infer->inputs[1];
    const samba_attrs_norm *attrs = &infer->attrs->norm;
    SAMBA_TRY(samba_infer_need_norm(infer, attrs->dims, attrs->eps));
    if (weight->dtype != x->dtype && weight->dtype != samba_compute_dtype(x->dtype))
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected the weight to be %s as the input, given %s; cast it",
                                samba_dtype_name(x->dtype), samba_dtype_name(weight->dtype));
    if (!samba_shape_equal((int)attrs->dims, x->shape + x->rank - attrs->dims, weight->rank, weight->shape))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "the weight must have the shape of the last %lld dims, %s, given %s",
                                (long long)attrs->dims, SAMBA_SHAPE((int)attrs->dims, x->shape + x->rank - attrs->dims),
                                SAMBA_SHAPE_OF(weight));
    return samba_infer_set_like(infer, 0);
}

samba_norm_rows samba_norm_rows_of(int rank, const int64_t *shape, int64_t count)
{
    samba_norm_rows rows = {.count = (int)count, .size = 1};
    for (int i = 0; i < rows.count; i++) {
        rows.dims[i] = rank - rows.count + i;
        rows.size *= (double)shape[rows.dims[i]];
    }
    return rows;
}

samba_ref samba_emit_row_mean(samba_graph *graph, const samba_norm_rows *rows, samba_ref a)
{
    return scaled(graph, samba_emit_reduce(graph, SAMBA_OP_sum, a, rows->count, rows->dims), 1 / rows->size);
}

samba_ref samba_expand_rms_norm(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    const samba_attrs_norm attrs = node->attrs->norm;
    samba_norm_rows r = samba_norm_rows_of(node->rank, node->shape, attrs.dims);
    samba_ref wide = samba_emit_lift(graph, inputs[0]);
    samba_ref reciprocal = reciprocal_deviation(graph, samba_emit_row_mean(graph, &r, square(graph, wide)), attrs.eps);
    samba_ref weight = samba_emit_lift(graph, inputs[1]);
    return samba_emit_cast(graph, mul(graph, mul(graph, wide, reciprocal), weight), dtype);
}

/* With xhat = x / root mean square: dx = (gw - xhat mean(gw xhat)) / root, gw = g weight; dweight = sum of g xhat over rows. */
samba_status samba_vjp_rms_norm(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_attrs_norm attrs = vjp->node->attrs->norm;
    samba_norm_rows r = samba_norm_rows_of(vjp->node->rank, vjp->node->shape, attrs.dims);
    samba_ref g = samba_emit_lift(graph, vjp->gradient), wide = samba_emit_lift(graph, vjp->inputs[0]);
    samba_ref reciprocal = reciprocal_deviation(graph, samba_emit_row_mean(graph, &r, square(graph, wide)), attrs.eps);
    samba_ref xhat = mul(graph, wide, reciprocal);
    if (vjp->needed[0]) {
        samba_ref gw = mul(graph, g, samba_emit_lift(graph, vjp->inputs[1]));
        samba_ref along = samba_emit_row_mean(graph, &r, mul(graph, gw, xhat));
        samba_vjp_deliver(vjp, 0, mul(graph, reciprocal, sub(graph, gw, mul(graph, xhat, along))));
    }
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, mul(graph, g, xhat));
    return SAMBA_OK;
}

samba_status samba_ref_rms_norm(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *weight = &reference->inputs[1];
    for (int64_t first = 0; weight->numel > 0 && first < x->numel; first += weight->numel) {
        double squares = 0;
        for (int64_t i = 0; i < weight->numel; i++)
            squares += pow(samba_array_double(x, first + i), 2);
        double root = sqrt(squares / (double)weight->numel + reference->attrs->norm.eps);
        for (int64_t i = 0; i < weight->numel; i++)
            samba_array_set_double(reference->output, first + i,
                                   samba_array_double(x, first + i) / root * samba_array_double(weight, i));
    }
    return SAMBA_OK;
}
