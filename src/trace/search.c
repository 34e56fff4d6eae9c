/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements found by order or by index: searchsorted, max_unpool. */
#include "trace/index.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/pool.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <sambaflow/sort.h>

/* Binary search without branches. The last that comes before is `at` or one of the `left` behind it: half of these are stepped
 * over where the last of them comes before too. How many are left does not depend on that, so no step leaves the sequence. A
 * value that is NaN comes after all, as torch has it. */
samba_value samba_searchsorted(samba_value sorted, samba_value values, bool right)
{
    static const char what[] = "searchsorted";
    samba_graph *graph;
    if (!samba_trace_enter(what, 2, (samba_value[]){sorted, values}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, what);
    samba_node s = samba_trace_node(sorted), v = samba_trace_node(values);
    bool fits = s.rank == 1 || (s.rank > 1 && s.rank == v.rank);
    for (int d = 0; fits && d < s.rank - 1; d++)
        fits = s.shape[d] == v.shape[d];
    if (!fits)
        return samba_trace_fail(
            graph, SAMBA_ERROR_SHAPE, what,
            "expected a sequence (N), or (..., N) with the dims of the values but the last, given a sequence %s and values %s",
            SAMBA_TYPE_OF(&s), SAMBA_TYPE_OF(&v));
    if (s.dtype != v.dtype || s.dtype == SAMBA_BOOL)
        return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, what,
                                "expected numbers of one dtype, given a sequence %s and values %s; cast one of them",
                                SAMBA_TYPE_OF(&s), SAMBA_TYPE_OF(&v));
    int64_t left = s.shape[s.rank - 1], numel = 1;
    if (!samba_shape_numel(v.rank, v.shape, &numel))
        return samba_trace_none(graph);
    int last = s.rank - 1;
    samba_value x = s.rank == 1 ? samba_reshape(values, 1, &numel) : values;
    samba_node wide = samba_trace_node(x);
    samba_value at = samba_constant(graph, -1, SAMBA_INT64, wide.rank, wide.shape);
    while (left > 0) {
        int64_t half = left > 1 ? left / 2 : 1;
        samba_value next = samba_add(at, samba_constant(graph, (double)half, SAMBA_INT64, 0, NULL));
        samba_value there = samba_gather(sorted, last, next);
        at = samba_where(right ? samba_gt(there, x) : samba_ge(there, x), at, next);
        left = left > 1 ? left - half : 0;
    }
    return samba_reshape(samba_add(at, samba_constant(graph, 1, SAMBA_INT64, 0, NULL)), v.rank, v.shape);
}

samba_value samba_max_unpool(samba_value a, samba_value indices, int spatial, const int64_t *output_size)
{
    static const char *const names[] = {"max_unpool", "max_unpool1d", "max_unpool2d", "max_unpool3d"};
    const char *what = names[spatial >= 1 && spatial <= 3 ? spatial : 0];
    samba_graph *graph;
    if (!samba_trace_enter(what, 2, (samba_value[]){a, indices}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, what);
    samba_node x = samba_trace_node(a), i = samba_trace_node(indices);
    int before = x.rank - spatial;
    bool fits = spatial >= 1 && spatial <= 3 && (before == 1 || before == 2) && output_size && i.dtype == SAMBA_INT64 &&
                samba_shape_equal(x.rank, x.shape, i.rank, i.shape);
    int64_t planes = 1, each = 1, elements = 1, shape[SAMBA_MAX_RANK];
    for (int d = 0; fits && d < x.rank; d++) {
        shape[d] = d < before ? x.shape[d] : output_size[d - before];
        fits = shape[d] >= 0 && samba_mul_checked(d < before ? planes : each, shape[d], d < before ? &planes : &each);
        elements *= d < before ? 1 : x.shape[d];
    }
    if (!fits)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what,
                                "expected an input (N, C, ...) or (C, ...) with %d dims of space, int64 indices of its shape and "
                                "sizes of 0 or more, given %s and %s",
                                spatial, SAMBA_TYPE_OF(&x), SAMBA_TYPE_OF(&i));
    samba_value flat = samba_reshape(a, 2, (int64_t[]){planes, elements}),
                to = samba_reshape(indices, 2, (int64_t[]){planes, elements});
    samba_value empty = samba_constant(graph, 0, x.dtype, 2, (int64_t[]){planes, each});
    return samba_reshape(samba_scatter(empty, 1, to, flat), x.rank, shape);
}
