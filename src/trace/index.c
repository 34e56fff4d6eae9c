/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements by their index. */
#include "trace/trace.h"

#include <sambaflow/index.h>

samba_value samba_functional_embedding(samba_value index, samba_value weight)
{
    samba_graph *graph;
    if (!samba_trace_enter("embedding", 2, (samba_value[]){index, weight}, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit2(graph, SAMBA_OP_embedding, weight.index, index.index));
}

samba_value samba_index_add(samba_value base, samba_value index, samba_value rows)
{
    samba_graph *graph;
    if (!samba_trace_enter("index_add", 3, (samba_value[]){base, index, rows}, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit3(graph, SAMBA_OP_index_add, base.index, index.index, rows.index));
}
