/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients that a model speaks of: values whose gradient it gives itself, by the two operators that ops/custom.c defines, and
 * gradients of values as values, by the reverse pass of ops/reverse.c. */
#include "trace/trace.h"

#include "ops/ops.h"
#include <sambaflow/elementwise.h>

#include <limits.h>

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

/* ---- gradients as values ---- */

samba_value samba_variable(samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter("variable", 1, &a, &graph) || !samba_trace_need_floating(a, "variable"))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit_variable(graph, a.index));
}

/* All values are of one graph and floating-point. */
static bool enter_all(samba_value first, int count, const samba_value *values, samba_graph **graph)
{
    for (int i = 0; i < count; i++)
        if (!samba_trace_enter("gradients", 2, (samba_value[]){first, values[i]}, graph) ||
            !samba_trace_need_floating(values[i], "gradients"))
            return false;
    return true;
}

static bool starts_of(samba_graph *graph, int count, const samba_value *outputs, const samba_value *given, samba_ref *starts)
{
    for (int i = 0; i < count; i++) {
        samba_node like = samba_trace_node(outputs[i]);
        if (!given) {
            samba_ref one = samba_emit_constant(graph, 1, (samba_dtype)like.dtype);
            starts[i] = samba_emit_expand(graph, one, like.rank, like.shape);
            continue;
        }
        samba_node start = samba_trace_node(given[i]);
        if (start.dtype != like.dtype || !samba_shape_equal(start.rank, start.shape, like.rank, like.shape))
            return samba_graph_refuse(graph, start.dtype != like.dtype ? SAMBA_ERROR_DTYPE : SAMBA_ERROR_SHAPE, "gradients",
                                      "output %d starts from a gradient of its dtype and shape, %s, given %s", i,
                                      SAMBA_TYPE_OF(&like), SAMBA_TYPE_OF(&start));
        starts[i] = given[i].index;
    }
    return graph->status == SAMBA_OK;
}

static void find_gradients(samba_graph *graph, int output_count, const samba_value *outputs, const samba_value *given,
                           int input_count, const samba_value *inputs, samba_value *gradients, bool *depends)
{
    samba_arena arena;
    samba_arena_init(&arena, graph->context);
    size_t room = (size_t)(2 * output_count + 2 * input_count) * sizeof(samba_ref);
    samba_ref *out = samba_arena_alloc(&arena, room);
    if (!out) {
        samba_graph_stick(graph, SAMBA_ERROR_MEMORY);
        return;
    }
    samba_ref *starts = out + output_count, *in = starts + output_count, *results = in + input_count;
    for (int i = 0; i < output_count; i++)
        out[i] = outputs[i].index;
    for (int i = 0; i < input_count; i++)
        in[i] = inputs[i].index;
    if (starts_of(graph, output_count, outputs, given, starts)) {
        samba_status status = samba_reverse(graph, output_count, out, starts, input_count, in, results);
        if (status != SAMBA_OK)
            samba_graph_stick(graph, status);
        for (int i = 0; i < input_count && graph->status == SAMBA_OK; i++) {
            samba_node like = samba_trace_node(inputs[i]);
            if (depends)
                depends[i] = results[i] != SAMBA_NONE;
            if (results[i] == SAMBA_NONE) {
                samba_ref zero = samba_emit_constant(graph, 0, (samba_dtype)like.dtype);
                results[i] = samba_emit_expand(graph, zero, like.rank, like.shape);
            }
            gradients[i] = samba_trace_value(graph, results[i]);
        }
    }
    samba_arena_free(&arena);
}

void samba_gradients(int output_count, const samba_value *outputs, const samba_value *grad_outputs, int input_count,
                     const samba_value *inputs, samba_value *gradients, bool *depends)
{
    samba_graph *graph = output_count > 0 && outputs ? outputs[0].graph : NULL;
    for (int i = 0; gradients && i < input_count; i++) {
        gradients[i] = samba_trace_none(graph);
        if (depends)
            depends[i] = false;
    }
    if (!graph)
        return;
    if (input_count < 1 || !inputs || !gradients || output_count > INT_MAX / 4 || input_count > INT_MAX / 4) {
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "gradients",
                            "expected outputs, inputs and a place for as many gradients, given %d outputs and %d inputs%s",
                            output_count, input_count, inputs && gradients ? "" : " and NULL for them");
        return;
    }
    if (enter_all(outputs[0], output_count, outputs, &graph) && enter_all(outputs[0], input_count, inputs, &graph) &&
        (!grad_outputs || enter_all(outputs[0], output_count, grad_outputs, &graph)))
        find_gradients(graph, output_count, outputs, grad_outputs, input_count, inputs, gradients, depends);
}
