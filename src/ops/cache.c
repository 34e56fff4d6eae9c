/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of new tokens over a cache of keys and values, as generating text makes it: the positions of the tokens come with
 * the run, not with the graph, so that one graph serves every length.
 *
 * A cache of C slots is used as a ring of the first `slots`: the key of position p lies in slot p mod slots. Query i of sequence
 * b stands at position t = start[b] + i. It sees position p where 0 <= p <= t and p > t - window; without a window, or where it
 * is wider than the ring, p > t - slots. So one rule serves caches that hold everything, for which slots is never reached, and
 * caches that hold a window: what N new tokens write over is out of everyone's sight if slots >= window + N - 1.
 *
 * It has no gradient: training sees whole sequences, for which there is attention. */
#include "ops/families.h"
#include "tensor/positions.h"
#include <math.h>

enum { Q, K, V, START };

samba_status samba_infer_cache_attention(samba_infer *infer)
{
    const samba_attrs_cache *attrs = &infer->attrs->cache;
    SAMBA_TRY(samba_infer_need_floating(infer, Q));
    const samba_node *q = infer->inputs[Q], *k = infer->inputs[K], *v = infer->inputs[V], *start = infer->inputs[START];
    for (int i = K; i <= V; i++)
        SAMBA_TRY(samba_infer_need_same_dtype(infer, Q, i));
    if (start->dtype != SAMBA_INT64 && start->dtype != SAMBA_INT32)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected the start as int64 or int32, given %s",
                                samba_dtype_name((samba_dtype)start->dtype));
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || q->shape[0] != k->shape[0] || q->shape[0] != v->shape[0] ||
        k->shape[1] != v->shape[1] || k->shape[2] != v->shape[2] || q->shape[3] != k->shape[3]) {
        char q_text[SAMBA_SHAPE_TEXT], k_text[SAMBA_SHAPE_TEXT], v_text[SAMBA_SHAPE_TEXT];
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected q (B, H, N, D), k (B, Hkv, C, D) and v (B, Hkv, C, Dv), given %s, %s and %s",
                                samba_shape_format(q->rank, q->shape, q_text, sizeof q_text),
                                samba_shape_format(k->rank, k->shape, k_text, sizeof k_text),
                                samba_shape_format(v->rank, v->shape, v_text, sizeof v_text));
    }
    if (k->shape[1] == 0 ? q->shape[1] != 0 : q->shape[1] % k->shape[1] != 0)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "the heads of k and v must divide those of q, given %lld heads of q and %lld of k",
                                (long long)q->shape[1], (long long)k->shape[1]);
    if (start->rank != 1 || start->shape[0] != q->shape[0])
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected a start for each of %lld sequences, given shape %s",
                                (long long)q->shape[0], SAMBA_SHAPE_OF(start));
    if (attrs->slots < 1 || attrs->slots > k->shape[2])
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                "the slots in use must be at least 1 and at most the %lld that the cache has, given %lld",
                                (long long)k->shape[2], (long long)attrs->slots);
    if (attrs->window < 0)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "the window must be 0, for none, or more, given %lld",
                                (long long)attrs->window);
    if (isnan(attrs->scale) || !(attrs->cap >= 0) || isinf(attrs->cap))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "the scale must be a number and the cap 0 or more, given %g and %g",
                                attrs->scale, attrs->cap);
    return samba_infer_set(infer, q->dtype, 4, (int64_t[]){q->shape[0], q->shape[2], q->shape[1], v->shape[3]});
}

samba_status samba_vjp_cache_attention(samba_vjp *vjp)
{
    return samba_fail(vjp->graph->context, SAMBA_ERROR_UNSUPPORTED,
                      "cache_attention: it has no gradient, as it is there for generating; train with "
                      "scaled_dot_product_attention over whole sequences, or detach what this gives");
}

/* ---- reference ---- */

static double element(const samba_array *a, int64_t b, int64_t h, int64_t t, int64_t i)
{
    return samba_array_double(a, ((b * a->shape[1] + h) * a->shape[2] + t) * a->shape[3] + i);
}

/* One query; weights: room for `slots`. */
static void attend(const samba_reference *reference, double *weights, int64_t b, int64_t h, int64_t i)
{
    const samba_attrs_cache *a = &reference->attrs->cache;
    const samba_array *q = &reference->inputs[Q], *k = &reference->inputs[K], *v = &reference->inputs[V];
    const int64_t heads = q->shape[1], head = h / (heads / k->shape[1]), n = q->shape[2], dv = v->shape[3];
    samba_positions seen;
    double greatest = -INFINITY, sum = 0;
    samba_cache_sees(samba_array_int64(&reference->inputs[START], b), i, 1, n, a->slots, a->window, &seen);
    for (int64_t p = seen.from; p < seen.to; p++) {
        double score = 0;
        for (int64_t d = 0; d < q->shape[3]; d++)
            score += element(q, b, h, i, d) * element(k, b, head, p % a->slots, d);
        score *= a->scale;
        score = a->cap > 0 ? a->cap * tanh(score / a->cap) : score;
        weights[p % a->slots] = score;
        greatest = score > greatest || isnan(score) ? score : greatest;
    }
    for (int64_t p = seen.from; p < seen.to; p++)
        sum += weights[p % a->slots] = greatest == -INFINITY ? 0 : exp(weights[p % a->slots] - greatest);
    for (int64_t d = 0; d < dv; d++) {
        double y = 0;
        for (int64_t p = seen.from; p < seen.to; p++)
            y += weights[p % a->slots] * element(v, b, head, p % a->slots, d);
        samba_array_set_double(reference->output, ((b * n + i) * heads + h) * dv + d, sum == 0 ? 0 : y / sum);
    }
}

samba_status samba_ref_cache_attention(const samba_reference *reference)
{
    const samba_array *q = &reference->inputs[Q];
    const size_t size = (size_t)reference->attrs->cache.slots * sizeof(double);
    double *weights = samba_alloc(reference->context, size);
    if (!weights)
        return SAMBA_ERROR_MEMORY;
    for (int64_t b = 0; b < q->shape[0]; b++)
        for (int64_t h = 0; h < q->shape[1]; h++)
            for (int64_t i = 0; i < q->shape[2]; i++)
                attend(reference, weights, b, h, i);
    samba_free(reference->context, weights, size);
    return SAMBA_OK;
}

/* Of a cache that is full: how full it is a run knows. */
int64_t samba_flops_cache_attention(const samba_node *node, const samba_node *const *inputs)
{
    const samba_attrs_cache *a = &node->attrs->cache;
    const int64_t *q = inputs[Q]->shape;
    const double seen = a->window > 0 && a->window < a->slots ? (double)a->window : (double)a->slots;
    const double depth = (double)q[3] + (double)inputs[V]->shape[3];
    return (int64_t)fmin(2 * (double)q[0] * (double)q[1] * (double)q[2] * seen * depth, 9e18);
}
