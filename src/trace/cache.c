/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a cache as a public function: the defaults of its options; the operator says what its values may be. */
#include "trace/trace.h"

#include <sambaflow/attention.h>
#include <math.h>

samba_value samba_cache_attention(samba_value q, samba_value k, samba_value v, samba_value start,
                                  const samba_cache_options *options)
{
    static const char what[] = "cache_attention";
    samba_cache_options o = {.struct_size = sizeof o};
    const samba_value values[4] = {q, k, v, start};
    samba_graph *graph;
    if (!samba_trace_enter(what, 4, values, &graph))
        return samba_trace_none(graph);
    if (options) {
        samba_status status = samba_options_take(graph->context, what, options, sizeof *options, &o);
        if (status != SAMBA_OK)
            return samba_trace_fail(graph, status, what, "%s", samba_error_message(graph->context));
    }
    samba_node query = samba_trace_node(q), key = samba_trace_node(k);
    if (o.slots < 0 || o.window < 0)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what, "slots and window must be 0 or more, given %lld and %lld",
                                (long long)o.slots, (long long)o.window);
    const int64_t depth = query.rank > 0 ? query.shape[query.rank - 1] : 0;
    samba_attrs attrs = {.cache = {.slots = o.slots == 0 && key.rank == 4 ? key.shape[2] : o.slots,
                                   .window = o.window,
                                   .scale = o.scale != 0 ? o.scale
                                            : depth > 0  ? 1 / sqrt((double)depth)
                                                         : 1,
                                   .cap = o.cap}};
    const samba_ref inputs[4] = {q.index, k.index, v.index, start.index};
    samba_ref result = samba_emit(graph, SAMBA_OP_cache_attention, 4, inputs, &attrs);
    return samba_trace_value(graph, samba_emit_permute(graph, result, (int64_t[]){0, 2, 1, 3}));
}
