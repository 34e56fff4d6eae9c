/* SPDX-License-Identifier: Apache-2.0
 *
 * Values whose gradient the model gives itself: how a model calls the two operators, which ops/custom.c defines. */
#include "trace/trace.h"

#include <sambaflow/elementwise.h>

samba_value samba_grad_output(samba_value value)
{
    samba_graph *graph;
    if (!samba_trace_enter("grad_output", 1, &value, &graph) || !samba_trace_need_floating(value, "grad_output"))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit1(graph, SAMBA_OP_grad_output, value.index));
}

samba_value samba_custom_gradient(samba_value value, samba_value grad_output, int count, const samba_value *inputs,
                                  const samba_value *gradients)
{
    samba_graph *graph;
    samba_ref all[SAMBA_MAX_ARITY];
    if (!samba_trace_enter("custom_gradient", 2, (samba_value[]){value, grad_output}, &graph))
        return samba_trace_none(graph);
    if (count < 1 || count > SAMBA_MAX_ARITY / 2 - 1 || !inputs || !gradients)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "custom_gradient",
                                "expected 1 to %d inputs and as many gradients, given %d%s", SAMBA_MAX_ARITY / 2 - 1, count,
                                inputs && gradients ? "" : " and NULL for them");
    all[0] = value.index, all[1] = grad_output.index;
    for (int i = 0; i < count; i++) {
        samba_graph *same;
        if (!samba_trace_enter("custom_gradient", 3, (samba_value[]){value, inputs[i], gradients[i]}, &same))
            return samba_trace_none(same);
        all[2 * i + 2] = inputs[i].index, all[2 * i + 3] = gradients[i].index;
    }
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_custom_gradient, 2 * count + 2, all, NULL));
}
