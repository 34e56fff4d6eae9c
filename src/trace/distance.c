/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors made of unit length, and how far or how unlike two are: of samba_vector_norm, whose gradient at 0 is 0. */
#include "trace/losses.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>

static const int last = -1;

samba_value samba_normalize(samba_value a, double p, int dim, double eps)
{
    samba_losses common;
    samba_value v[] = {a};
    if (!samba_losses_enter(&common, "normalize", 1, v, SAMBA_MEAN))
        return samba_trace_none(common.graph);
    int at;
    if (!samba_trace_dim(common.graph, "normalize", samba_value_rank(a), dim, &at))
        return samba_trace_none(common.graph);
    samba_value length = samba_maximum(samba_vector_norm(v[0], p, 1, &dim, true), samba_losses_number(&common, eps));
    return samba_losses_leave(&common, samba_div(v[0], length), SAMBA_NO_REDUCTION);
}

samba_value samba_weight_norm(samba_value v, samba_value g, int dim)
{
    samba_losses common;
    samba_value both[] = {v, g};
    if (!samba_losses_enter(&common, "weight_norm", 2, both, SAMBA_MEAN))
        return samba_trace_none(common.graph);
    int rank = samba_value_rank(v), kept = -1, dims[SAMBA_MAX_RANK], count = 0;
    if (dim != SAMBA_ALL_DIMS && !samba_trace_dim(common.graph, "weight_norm", rank, dim, &kept))
        return samba_trace_none(common.graph);
    for (int d = 0; d < rank; d++)
        if (d != kept)
            dims[count++] = d;
    /* no dims: each element alone */
    samba_value length = count || rank == 0 ? samba_vector_norm(both[0], 2, count, dims, true) : samba_abs(both[0]);
    return samba_losses_leave(&common, samba_mul(both[0], samba_div(both[1], length)), SAMBA_NO_REDUCTION);
}

/* A vector by its length, which the least length bounds in value and not in gradient, as torch's. */
static samba_value unit(const samba_losses *common, samba_value a, int dim, double eps)
{
    samba_value length = samba_vector_norm(a, 2, 1, &dim, true);
    samba_value more = samba_detach(samba_sub(samba_maximum(length, samba_losses_number(common, eps)), length));
    return samba_div(a, samba_add(length, more));
}

samba_value samba_cosine_similarity(samba_value a, samba_value b, int dim, double eps)
{
    samba_losses common;
    samba_value v[] = {a, b};
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    if (!samba_losses_enter(&common, "cosine_similarity", 2, v, SAMBA_MEAN))
        return samba_trace_none(common.graph);
    samba_node left = samba_trace_node(a), right = samba_trace_node(b);
    samba_shape_broadcast(left.rank, left.shape, right.rank, right.shape, &rank, shape); /* which was checked */
    if (!samba_trace_dim(common.graph, "cosine_similarity", rank, dim, &dim))
        return samba_trace_none(common.graph);
    for (int i = 0; i < 2; i++)
        v[i] = samba_expand(v[i], rank, shape);
    if (rank == 0)
        for (int i = 0; i < 2; i++)
            v[i] = samba_losses_unsqueeze(v[i], 0);
    samba_value unit_b = unit(&common, v[1], dim, eps), unit_a = unit(&common, v[0], dim, eps);
    samba_value product = samba_mul(unit_a, unit_b);
    return samba_losses_leave(&common, samba_sum(product, 1, &dim, false), SAMBA_NO_REDUCTION);
}

samba_value samba_pairwise_distance(samba_value a, samba_value b, double p, double eps, bool keepdim)
{
    samba_losses common;
    samba_value v[] = {a, b};
    if (!samba_losses_enter(&common, "pairwise_distance", 2, v, SAMBA_MEAN))
        return samba_trace_none(common.graph);
    samba_value away = samba_add_scalar(samba_sub(v[0], v[1]), eps);
    return samba_losses_leave(&common, samba_vector_norm(away, p, 1, &last, keepdim), SAMBA_NO_REDUCTION);
}

/* sqrt(a a + b b - 2 a b), in float32 whatever contractions are in, as what is left is of rounding's size where rows are near. No
 * gradient flows to what is at no distance. */
static samba_value euclidean(const samba_losses *common, samba_value a, samba_value b, int rank_b)
{
    samba_graphamp_push(common->graph, false);
    samba_value squares_a = samba_sum(samba_mul(a, a), 1, &last, true), squares_b = samba_sum(samba_mul(b, b), 1, &last, false);
    samba_value products = samba_matmul(a, samba_transpose(b, rank_b - 2, rank_b - 1));
    samba_graphamp_pop(common->graph);
    samba_value squares = samba_add(squares_a, samba_losses_unsqueeze(squares_b, rank_b - 2));
    samba_value squared = samba_losses_positive(common, samba_sub(squares, samba_mul_scalar(products, 2)));
    return samba_trace_value(common->graph, samba_trace_root(common->graph, squared.index));
}

samba_value samba_cdist(samba_value a, samba_value b, double p, samba_cdist_mode mode)
{
    samba_losses common;
    samba_value v[] = {a, b};
    if (!samba_losses_enter_any(&common, "cdist", 2, v, SAMBA_MEAN))
        return samba_trace_none(common.graph);
    samba_node x = samba_trace_node(a), y = samba_trace_node(b);
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    if (x.rank < 2 || y.rank < 2 || x.rank >= SAMBA_MAX_RANK || y.rank >= SAMBA_MAX_RANK ||
        x.shape[x.rank - 1] != y.shape[y.rank - 1] ||
        !samba_shape_broadcast(x.rank - 2, x.shape, y.rank - 2, y.shape, &rank, shape))
        return samba_losses_fail_shapes(&common, "values (..., P, M) and (..., R, M) of rank 2 to 7 whose leading dims broadcast",
                                        a, b);
    if (!(p >= 0))
        return samba_trace_fail(common.graph, SAMBA_ERROR_ARGUMENT, "cdist", "p must be 0 or more, given %g", p);
    if (mode < SAMBA_CDIST_MM_IF_NECESSARY || mode > SAMBA_CDIST_NO_MM)
        return samba_trace_fail(common.graph, SAMBA_ERROR_ARGUMENT, "cdist", "mode must be a samba_cdist_mode, given %d",
                                (int)mode);
    bool many = x.shape[x.rank - 2] > 25 || y.shape[y.rank - 2] > 25;
    if (p == 2 && (mode == SAMBA_CDIST_MM || (mode == SAMBA_CDIST_MM_IF_NECESSARY && many)))
        return samba_losses_leave(&common, euclidean(&common, v[0], v[1], y.rank), SAMBA_NO_REDUCTION);
    samba_value rows_b = samba_losses_unsqueeze(v[1], y.rank - 2), rows_a = samba_losses_unsqueeze(v[0], x.rank - 1);
    samba_value away = samba_sub(rows_a, rows_b);
    return samba_losses_leave(&common, samba_vector_norm(away, p, 1, &last, false), SAMBA_NO_REDUCTION);
}

/* Of all pairs those above the diagonal: each is computed twice, which takes less than gathering both rows of each would. */
samba_value samba_pdist(samba_value a, double p)
{
    enum { MOST = 8192 };
    samba_losses common;
    samba_value v[] = {a};
    if (!samba_losses_enter_any(&common, "pdist", 1, v, SAMBA_MEAN))
        return samba_trace_none(common.graph);
    samba_node x = samba_trace_node(a);
    if (x.rank != 2 || x.shape[0] > MOST)
        return samba_trace_fail(common.graph, SAMBA_ERROR_SHAPE, "pdist", "expected a value (N, M) of at most %d rows, given %s",
                                MOST, SAMBA_TYPE_OF(&x));
    if (!(p >= 0))
        return samba_trace_fail(common.graph, SAMBA_ERROR_ARGUMENT, "pdist", "p must be 0 or more, given %g", p);
    const int64_t n = x.shape[0], pairs = n * (n - 1) / 2, all = n * n;
    const size_t bytes = sizeof(int64_t) * (size_t)(pairs + 1);
    int64_t *places = samba_alloc(common.graph->context, bytes), count = 0;
    if (!places)
        return samba_trace_value(common.graph, samba_graph_stick(common.graph, SAMBA_ERROR_MEMORY));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            places[count++] = i * n + j;
    samba_value upper = samba_trace_literal(common.graph, SAMBA_INT64, 1, &pairs, places);
    samba_free(common.graph->context, places, bytes);
    if (x.shape[1] == 0)
        p = 1; /* points without coordinates are 0 apart; the greatest of none is no number */
    samba_value rows = samba_losses_unsqueeze(v[0], 1), others = samba_losses_unsqueeze(v[0], 0);
    samba_value far = samba_reshape(samba_vector_norm(samba_sub(rows, others), p, 1, &last, false), 1, &all);
    return samba_losses_leave(&common, samba_index_select(far, 0, upper), SAMBA_NO_REDUCTION);
}
