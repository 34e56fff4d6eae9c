/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions that the column `call` of ops.def asks for (sambaflow/operators.h): one operator each, of one operand or
 * two. A function with options or a formula stands in its family's file instead. */
#include "trace/promote.h"

#include <sambaflow/operators.h>

static samba_value given(samba_op op, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit1(graph, op, a.index));
}

static samba_value real(samba_op op, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_none(graph);
    if (!samba_dtype_is_floating_point(samba_value_dtype(a)))
        a.index = samba_emit_cast(graph, a.index, SAMBA_FLOAT32);
    return samba_trace_value(graph, samba_emit1(graph, op, a.index));
}

static samba_value two_real(samba_op op, samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote_floating(samba_op_table[op].name, 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    samba_ref y = samba_trace_operand(b, dtype), x = samba_trace_operand(a, dtype);
    return samba_trace_value(graph, samba_emit2(graph, op, x, y));
}

samba_value samba_trace_promoted(samba_op op, samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote(samba_op_table[op].name, 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    samba_ref y = samba_trace_operand(b, dtype), x = samba_trace_operand(a, dtype);
    return samba_trace_value(graph, samba_emit2(graph, op, x, y));
}

#define FORMALS_1 (samba_value a)
#define FORMALS_2 (samba_value a, samba_value b)
#define given_1(op) given(op, a)
#define real_1(op) real(op, a)
#define real_2(op) two_real(op, a, b)
#define promoted_2(op) samba_trace_promoted(op, a, b)

#define FUNCTION(name, arity, call)                                                                                              \
    samba_value samba_##name FORMALS_##arity { return call##_##arity(SAMBA_OP_##name); }
#define CALL_none(name, arity)
#define CALL_given(name, arity) FUNCTION(name, arity, given)
#define CALL_real(name, arity) FUNCTION(name, arity, real)
#define CALL_promoted(name, arity) FUNCTION(name, arity, promoted)
#define OP(name, arity, attrs, class, tile, infer, vjp, ref, flops, expand, amp, traits, call) CALL_##call(name, arity)
#include "ops.def"
