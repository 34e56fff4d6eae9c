/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout of whole channels and alpha dropout, and numbers of other distributions. A mask is the operator dropout of ones: 0 or
 * 1 / (1 - p), and 1 throughout in a run that does not train. */
#include "trace/trace.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/layers.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <string.h>

/* dropout of ones (its rate too, where asked for), as wide as the result is computed in. */
static samba_value mask_of(samba_graph *graph, const char *what, samba_dtype dtype, const char *name, double p, int rank,
                           const int64_t *shape, samba_value *rate)
{
    samba_ref p_ref, seed;
    if (!samba_trace_dropout(graph, what, name, p, &p_ref, &seed))
        return samba_trace_none(graph);
    samba_value ones = samba_constant(graph, 1, dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32, rank, shape);
    if (rate)
        *rate = samba_trace_value(graph, p_ref);
    return samba_trace_value(graph, samba_emit3(graph, SAMBA_OP_dropout, ones.index, p_ref, seed));
}

/* The shape of a mask of channels: a number for each of them, the rest of the shape 1. */
static void channel_shape(const samba_node *x, bool batched, int64_t shape[SAMBA_MAX_RANK])
{
    for (int d = 0; d < x->rank; d++)
        shape[d] = d < 1 + batched ? x->shape[d] : 1;
}

static samba_value of_channels(const char *what, samba_value input, const char *name, double p, int least, int batched_rank)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &input, &graph) || !samba_trace_need_floating(input, what))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (x.rank < least)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what, "expected an input of rank %d or %d, given %s", least, least + 1,
                                SAMBA_TYPE_OF(&x));
    int64_t shape[SAMBA_MAX_RANK];
    channel_shape(&x, x.rank >= batched_rank, shape);
    samba_value mask = mask_of(graph, what, x.dtype, name, p, x.rank, shape, NULL);
    return samba_cast(samba_mul(input, mask), x.dtype);
}

samba_value samba_dropout1d(samba_value input, const char *name, double p)
{
    return of_channels("dropout1d", input, name, p, 2, 3);
}

samba_value samba_dropout2d(samba_value input, const char *name, double p)
{
    return of_channels("dropout2d", input, name, p, 3, 3);
}

samba_value samba_dropout3d(samba_value input, const char *name, double p)
{
    return of_channels("dropout3d", input, name, p, 4, 5);
}

/* Klambauer et al. 2017: what is dropped becomes -alpha, and a x + b has the mean and the variance that x had. */
static samba_value alpha_dropout(const char *what, samba_value input, const char *name, double p, bool channels)
{
    const double alpha = 1.7580993408473766;
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &input, &graph) || !samba_trace_need_floating(input, what))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (channels && x.rank < 2)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what, "expected an input (N, C, ...) of rank 2 or more, given %s",
                                SAMBA_TYPE_OF(&x));
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, x.shape, sizeof shape);
    if (channels)
        channel_shape(&x, true, shape);
    samba_value rate, mask = mask_of(graph, what, x.dtype, name, p, x.rank, shape, &rate);
    samba_dtype wide = x.dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    if (graph->status != SAMBA_OK)
        return samba_trace_none(graph);
    samba_value one = samba_constant(graph, 1, SAMBA_FLOAT64, 0, NULL), zero = samba_constant(graph, 0, wide, 0, NULL);
    samba_value kept = samba_sub(one, rate); /* numbers of a run, in double */
    samba_value a = samba_rsqrt(samba_mul(samba_add_scalar(samba_mul_scalar(rate, alpha * alpha), 1), kept));
    samba_value b = samba_mul_scalar(samba_mul(a, rate), alpha);
    samba_value low = samba_cast(samba_sub(b, samba_mul_scalar(a, alpha)), wide), scale = samba_cast(a, wide),
                shift = samba_cast(b, wide);
    samba_value stays = samba_add(samba_mul(samba_cast(input, wide), scale), shift);
    samba_value result = samba_where(samba_gt(mask, zero), stays, low);
    samba_value all = samba_eq(rate, one); /* p = 1: nothing is left, and 0 instead of infinity */
    return samba_cast(samba_where(all, zero, result), x.dtype);
}

samba_value samba_alpha_dropout(samba_value input, const char *name, double p)
{
    return alpha_dropout("alpha_dropout", input, name, p, false);
}

samba_value samba_feature_alpha_dropout(samba_value input, const char *name, double p)
{
    return alpha_dropout("feature_alpha_dropout", input, name, p, true);
}

/* ---- other distributions ---- */

samba_value samba_randn(samba_graph *graph, const char *name, int rank, const int64_t *shape)
{
    /* Box and Muller 1958 */
    samba_value first = samba_rand(graph, name, rank, shape), second = samba_rand(graph, name, rank, shape);
    if (!graph || graph->status != SAMBA_OK)
        return samba_trace_none(graph);
    samba_value radius = samba_sqrt(samba_mul_scalar(samba_log1p(samba_neg(first)), -2));
    return samba_mul(radius, samba_cos(samba_mul_scalar(second, 2 * 3.14159265358979323846)));
}

samba_value samba_bernoulli(samba_value p, const char *name)
{
    samba_graph *graph;
    if (!samba_trace_enter("bernoulli", 1, &p, &graph) || !samba_trace_need_floating(p, "bernoulli"))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(p);
    return samba_cast(samba_lt(samba_rand(graph, name, x.rank, x.shape), p), x.dtype);
}

samba_value samba_randint(samba_graph *graph, const char *name, int64_t low, int64_t high, int rank, const int64_t *shape)
{
    if (!samba_trace_check_shape(graph, "randint", rank, shape))
        return samba_trace_none(graph);
    if (low >= high || (double)high - (double)low > 0x1p24)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "randint",
                                "expected low below high by at most 2^24, given %lld and %lld", (long long)low, (long long)high);
    samba_value wide = samba_cast(samba_rand(graph, name, rank, shape), SAMBA_FLOAT64); /* multiples of 2^-24 */
    samba_value steps = samba_cast(samba_floor(samba_mul_scalar(wide, (double)(high - low))), SAMBA_INT64);
    return samba_add(steps, samba_constant(graph, (double)low, SAMBA_INT64, 0, NULL));
}

samba_value samba_gumbel_softmax(samba_value logits, const char *name, double tau, bool hard, int dim)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("gumbel_softmax", 1, &logits, &graph) || !samba_trace_need_floating(logits, "gumbel_softmax"))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(logits);
    if (!samba_trace_dim(graph, "gumbel_softmax", x.rank, dim, &at))
        return samba_trace_none(graph);
    if (!(tau > 0))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "gumbel_softmax", "tau must be more than 0, given %g", tau);
    /* in the middle of its step: never 0 */
    samba_value uniform = samba_add_scalar(samba_rand(graph, name, x.rank, x.shape), 0x1p-25);
    samba_value gumbels = samba_neg(samba_log(samba_neg(samba_log(uniform))));
    samba_value soft = samba_softmax(samba_mul_scalar(samba_add(logits, samba_cast(gumbels, x.dtype)), 1 / tau), at);
    if (!hard || x.rank == 0)
        return soft;
    int64_t shape[SAMBA_MAX_RANK];
    for (int d = 0; d < x.rank; d++)
        shape[d] = d == at ? x.shape[d] : 1;
    samba_value numbers = samba_reshape(samba_arange(graph, x.shape[at], SAMBA_INT64), x.rank, shape);
    samba_value is_greatest = samba_eq(samba_argmax(soft, at, true), numbers);
    /* the value of one, the gradient of the other */
    samba_value nothing = samba_sub(soft, samba_detach(soft)), greatest = samba_cast(is_greatest, x.dtype);
    return samba_add(greatest, nothing);
}
