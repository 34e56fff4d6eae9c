/* SPDX-License-Identifier: Apache-2.0
 *
 * A linear layer over weights as they are kept, as a public function: the operator says what they may be (ops/stored.c). */
#include "trace/trace.h"

#include <sambaflow/linalg.h>

samba_value samba_stored_linear(samba_value x, samba_value weights, samba_value scales, bool transposed)
{
    static const char what[] = "stored_linear";
    const int count = scales.graph ? 3 : 2;
    samba_graph *graph;
    if (!samba_trace_enter_optional(what, 3, (samba_value[]){x, weights, scales}, &graph))
        return samba_trace_none(graph);
    const samba_attrs attrs = {.stored = {.transposed = transposed}};
    const samba_ref inputs[3] = {x.index, weights.index, scales.index};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_stored_linear, count, inputs, &attrs));
}
