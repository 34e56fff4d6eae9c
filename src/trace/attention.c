/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.nn.functional.scaled_dot_product_attention over the operator attention, which knows one rank: all dims before the heads
 * become one batch dim, absent ones a dim of 1, and the result gets them back. */
#include "trace/trace.h"

#include <sambaflow/attention.h>
#include <math.h>
#include <string.h>

static const char what[] = "scaled_dot_product_attention";

/* Equal but for the heads, the third dim from the end, and the last two. */
static bool leading_dims_equal(const samba_node *a, const samba_node *b)
{
    return a->rank == b->rank && (a->rank < 4 || memcmp(a->shape, b->shape, (size_t)(a->rank - 3) * sizeof *a->shape) == 0);
}

static bool check(samba_graph *graph, const samba_value values[3], const samba_attention_options *o)
{
    samba_node q = samba_trace_node(values[0]), k = samba_trace_node(values[1]), v = samba_trace_node(values[2]);
    int t = q.rank - 2, d = q.rank - 1, h = q.rank - 3;
    if (!samba_dtype_is_floating_point(q.dtype) || q.dtype != k.dtype || q.dtype != v.dtype)
        return samba_graph_refuse(graph, SAMBA_ERROR_DTYPE, what,
                                  "q, k and v must have one floating-point dtype, given %s, %s and %s; cast them",
                                  SAMBA_TYPE_OF(&q), SAMBA_TYPE_OF(&k), SAMBA_TYPE_OF(&v));
    if (q.rank < 2 || !leading_dims_equal(&q, &k) || !leading_dims_equal(&q, &v) || q.shape[d] != k.shape[d] ||
        k.shape[t] != v.shape[t] || (h >= 0 && k.shape[h] != v.shape[h]))
        return samba_graph_refuse(
            graph, SAMBA_ERROR_SHAPE, what,
            "expected q (..., H, Tq, D), k (..., H, Tk, D) and v (..., H, Tk, Dv) with equal leading dims, given %s, %s and "
            "%s; expand repeats what should broadcast",
            SAMBA_TYPE_OF(&q), SAMBA_TYPE_OF(&k), SAMBA_TYPE_OF(&v));
    if (h >= 0 && k.shape[h] != q.shape[h] && (!o->enable_gqa || k.shape[h] == 0 || q.shape[h] % k.shape[h] != 0))
        return samba_graph_refuse(
            graph, SAMBA_ERROR_SHAPE, what,
            o->enable_gqa ? "with enable_gqa the heads of k and v must divide those of q, given %s, %s and %s"
                          : "q, k and v must have as many heads as each other unless enable_gqa is set, given %s, %s and %s",
            SAMBA_TYPE_OF(&q), SAMBA_TYPE_OF(&k), SAMBA_TYPE_OF(&v));
    if (isnan(o->scale))
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what, "the scale must be a number, given NaN");
    if (!o->dropout && o->dropout_p != 0)
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what,
                                  "dropout_p is %g: dropout needs the name of its hyperparameters in the option dropout",
                                  o->dropout_p);
    return true;
}

/* The mask over (B, H, Tq, Tk), in a dtype that the operator takes; it need not have all dims. */
static samba_ref mask_of(samba_graph *graph, samba_value value, const samba_node *q, int64_t tk)
{
    samba_node mask = samba_trace_node(value);
    samba_ref ref = value.index;
    bool floating = samba_dtype_is_floating_point(mask.dtype), fits = mask.rank <= (q->rank < 4 ? 4 : q->rank);
    if (!floating && mask.dtype != SAMBA_BOOL)
        return samba_graph_fail_at(graph, SAMBA_ERROR_DTYPE, what,
                                   "a mask is bool (true: may see) or floating-point (added), given %s", SAMBA_TYPE_OF(&mask));
    for (int i = 1; fits && i <= mask.rank; i++) {
        int64_t size = mask.shape[mask.rank - i], whole = i == 1 ? tk : i <= q->rank ? q->shape[q->rank - i] : 1;
        fits = size == 1 || size == whole;
    }
    if (!fits)
        return samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, what,
                                   "the mask %s does not broadcast to the scores (..., H, Tq, Tk) of q %s and %lld keys",
                                   SAMBA_TYPE_OF(&mask), SAMBA_TYPE_OF(q), (long long)tk);
    if (floating)
        ref = samba_emit_cast(graph, ref, q->dtype);
    if (mask.rank <= 3 || q->rank <= 4)
        return ref;
    int64_t wide[SAMBA_MAX_RANK], flat[4] = {1, 0, 0, 0}; /* a mask with dims in front of the heads: they become one here too */
    for (int i = 0; i < q->rank; i++) {
        wide[i] = i < q->rank - 3 ? q->shape[i] : mask.shape[mask.rank - q->rank + i];
        if (i < q->rank - 3)
            flat[0] *= wide[i];
        else
            flat[i - q->rank + 4] = wide[i];
    }
    return samba_emit_reshape(graph, samba_emit_expand(graph, ref, q->rank, wide), 4, flat);
}

static samba_ref as_batch(samba_graph *graph, samba_value value)
{
    samba_node node = samba_trace_node(value);
    int64_t shape[4] = {1, 1, node.shape[node.rank - 2], node.shape[node.rank - 1]};
    for (int i = 0; i < node.rank - 3; i++)
        shape[0] *= node.shape[i];
    if (node.rank > 2)
        shape[1] = node.shape[node.rank - 3];
    return node.rank == 4 ? value.index : samba_emit_reshape(graph, value.index, 4, shape);
}

samba_value samba_scaled_dot_product_attention(samba_value q, samba_value k, samba_value v,
                                               const samba_attention_options *options)
{
    samba_attention_options o = options ? *options : samba_attention_defaults();
    samba_graph *graph;
    const samba_value values[4] = {q, k, v, o.mask};
    bool masked = o.mask.graph != NULL;
    if (!samba_trace_enter(what, masked ? 4 : 3, values, &graph) || !check(graph, values, &o))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node query = samba_trace_node(q), value = samba_trace_node(v);
    int64_t depth = query.shape[query.rank - 1];
    samba_attrs attrs = {.attention = {.causal = o.is_causal,
                                       .masked = masked,
                                       .dropout = o.dropout != NULL,
                                       .scale = o.scale != 0 ? o.scale
                                                : depth > 0  ? 1 / sqrt((double)depth)
                                                             : 1}};
    samba_ref inputs[6];
    int count = 0;
    for (; count < 3; count++)
        inputs[count] = as_batch(graph, values[count]);
    if (masked)
        inputs[count++] = mask_of(graph, o.mask, &query, value.shape[value.rank - 2]);
    if (o.dropout) {
        if (!samba_trace_dropout(graph, what, o.dropout, o.dropout_p, &inputs[count], &inputs[count + 1]))
            return samba_trace_value(graph, SAMBA_NONE);
        count += 2;
    }
    samba_ref result = samba_emit(graph, SAMBA_OP_attention, count, inputs, &attrs);
    result = samba_emit_permute(graph, result, (int64_t[]){0, 2, 1, 3});
    if (query.rank != 4) {
        query.shape[query.rank - 1] = value.shape[value.rank - 1];
        result = samba_emit_reshape(graph, result, query.rank, query.shape);
    }
    return samba_trace_value(graph, result);
}
