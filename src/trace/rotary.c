/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding (Su et al. 2021): pairs of features turn by an angle that grows with the position. A pair is a
 * feature and the one half a row away, as Llama's and GPT-NeoX's checkpoints have it, or two neighbours, as the paper has it. */
#include "trace/trace.h"

#include <sambaflow/attention.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/shape.h>
#include <math.h>

static const char what[] = "rotary_embedding";

static samba_value part(samba_value a, int dim, int64_t start, int64_t stop, int64_t step)
{
    return samba_slice(a, dim, start, stop, step);
}

/* cos or sin of position / base^(2 i / D), (T, D / 2): float32, as models compute it. */
static samba_value angles(samba_graph *graph, samba_value positions, int64_t half, double base)
{
    samba_value pair = samba_cast(samba_arange(graph, half, SAMBA_INT64), SAMBA_FLOAT32);
    samba_value frequency = samba_exp(samba_mul_scalar(pair, -log(base) / (double)half));
    samba_node at = samba_trace_node(positions);
    int64_t column[SAMBA_MAX_RANK];
    for (int d = 0; d <= at.rank; d++)
        column[d] = d < at.rank ? at.shape[d] : 1;
    return samba_mul(samba_reshape(samba_cast(positions, SAMBA_FLOAT32), at.rank + 1, column), frequency);
}

/* The turned pairs and what is left of x: (..., T, D). Pairs of neighbours lie beside each other again, others in two halves. */
static samba_value together(samba_value x, const samba_node *node, samba_value turned[2], const int64_t *pairs, bool interleaved)
{
    int last = node->rank - 1;
    int64_t dims = 2 * pairs[last], width = node->shape[last];
    if (!interleaved) {
        const samba_value parts[3] = {turned[0], turned[1], part(x, last, dims, width, 1)};
        return samba_concat(dims < width ? 3 : 2, parts, last);
    }
    if (node->rank == SAMBA_MAX_RANK)
        return samba_trace_fail(x.graph, SAMBA_ERROR_SHAPE, what,
                                "neighbours of an input of rank %d cannot be put together: at most %d", node->rank,
                                SAMBA_MAX_RANK - 1);
    int64_t apart[SAMBA_MAX_RANK], whole[SAMBA_MAX_RANK];
    for (int d = 0; d < node->rank; d++)
        apart[d] = pairs[d], whole[d] = d < last ? node->shape[d] : dims;
    apart[node->rank] = 1;
    for (int i = 0; i < 2; i++)
        turned[i] = samba_reshape(turned[i], node->rank + 1, apart);
    samba_value result = samba_reshape(samba_concat(2, turned, node->rank), node->rank, whole);
    return dims < width ? samba_concat(2, (samba_value[]){result, part(x, last, dims, width, 1)}, last) : result;
}

samba_value samba_rotary_embedding(samba_value x, const samba_rotary_options *options)
{
    samba_rotary_options o = options ? *options : samba_rotary_defaults();
    samba_graph *graph;
    const samba_value values[] = {x, o.cos, o.sin, o.positions};
    if (!samba_trace_enter_optional(what, 4, values, &graph) || !samba_trace_need_floating(x, what))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(x);
    int64_t width = node.rank ? node.shape[node.rank - 1] : 0, dims = o.dims ? o.dims : width;
    if (node.rank < 2 || dims < 2 || dims % 2 != 0 || dims > width)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what,
                                "expected an input (..., T, D) and an even number of turned features, 2 to D, given %s and %lld",
                                SAMBA_TYPE_OF(&node), (long long)dims);
    if (!o.cos.graph != !o.sin.graph || (o.cos.graph && o.positions.graph))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what, "give cos and sin together, or positions, or none of them");
    if (!(o.base > 0))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what, "base must be more than 0, given %g", o.base);
    int last = node.rank - 1;
    int64_t half = dims / 2;
    if (!o.cos.graph) {
        samba_value positions = o.positions.graph ? o.positions : samba_arange(graph, node.shape[node.rank - 2], SAMBA_INT64);
        samba_value turn = angles(graph, positions, half, o.base);
        o.cos = samba_cos(turn), o.sin = samba_sin(turn);
    } else if (samba_value_size(o.cos, -1) == dims && samba_value_size(o.sin, -1) == dims) {
        /* one for each feature: pairs have the same */
        int64_t step = o.interleaved ? 2 : 1, stop = o.interleaved ? dims : half;
        o.cos = part(o.cos, -1, 0, stop, step), o.sin = part(o.sin, -1, 0, stop, step);
    }
    samba_node c = samba_trace_node(o.cos), s = samba_trace_node(o.sin);
    if (graph->status != SAMBA_OK)
        return samba_trace_none(graph);
    int rank;
    int64_t shape[SAMBA_MAX_RANK], pairs[SAMBA_MAX_RANK];
    for (int d = 0; d < node.rank; d++)
        pairs[d] = d < last ? node.shape[d] : half;
    if (!samba_shape_equal(c.rank, c.shape, s.rank, s.shape) ||
        !samba_shape_broadcast(node.rank, pairs, c.rank, c.shape, &rank, shape) ||
        !samba_shape_equal(rank, shape, node.rank, pairs))
        return samba_trace_fail_shape(
            graph, what, "cos and sin (or positions) that broadcast to (..., T, D / 2) or (..., T, D) of the input", &node, &c);
    samba_dtype wide = node.dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    samba_value in = samba_cast(x, wide), cosine = samba_cast(o.cos, wide), sine = samba_cast(o.sin, wide);
    int64_t step = o.interleaved ? 2 : 1;
    samba_value a = part(in, last, 0, o.interleaved ? dims : half, step),
                b = part(in, last, o.interleaved ? 1 : half, dims, step);
    samba_value b_sine = samba_mul(b, sine), turned_a = samba_sub(samba_mul(a, cosine), b_sine);
    samba_value a_sine = samba_mul(a, sine), turned_b = samba_add(samba_mul(b, cosine), a_sine);
    samba_value turned[2] = {turned_a, turned_b};
    return samba_cast(together(in, &node, turned, pairs, o.interleaved), node.dtype);
}
