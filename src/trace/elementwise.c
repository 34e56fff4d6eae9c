/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise functions. Operators of the graph take one dtype, so promotion happens here: operands are cast to what
 * torch.result_type says, then the operator broadcasts them. Functions that PyTorch computes in floating point take integers as
 * float32. */
#include "trace/trace.h"

#include <sambaflow/elementwise.h>

static samba_promotion promotion_of(const samba_node *node) { return node->rank == 0 ? SAMBA_ZERO_DIM : SAMBA_DIMENSIONED; }

static samba_dtype result_type(samba_value a, samba_value b)
{
    const samba_node *left = samba_node_at(a.graph, a.index), *right = samba_node_at(b.graph, b.index);
    return samba_promote(left->dtype, promotion_of(left), right->dtype, promotion_of(right));
}

static samba_value binary_in(samba_op op, samba_value a, samba_value b, samba_dtype dtype)
{
    samba_ref left = samba_emit_cast(a.graph, a.index, dtype), right = samba_emit_cast(a.graph, b.index, dtype);
    return samba_trace_value(a.graph, samba_emit2(a.graph, op, left, right));
}

static samba_value binary(samba_op op, samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 2, (samba_value[]){a, b}, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    return binary_in(op, a, b, result_type(a, b));
}

samba_value samba_add(samba_value a, samba_value b) { return binary(SAMBA_OP_add, a, b); }

samba_value samba_sub(samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter("sub", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    /* As PyTorch; the cast would hide it from inference. */
    if (samba_value_dtype(a) == SAMBA_BOOL || samba_value_dtype(b) == SAMBA_BOOL)
        return samba_trace_value(graph, samba_graph_fail_at(graph, SAMBA_ERROR_DTYPE, "sub",
                                                            "bool values cannot be subtracted, given %s and %s; cast them first",
                                                            samba_dtype_name(samba_value_dtype(a)),
                                                            samba_dtype_name(samba_value_dtype(b))));
    return binary_in(SAMBA_OP_sub, a, b, result_type(a, b));
}

samba_value samba_mul(samba_value a, samba_value b) { return binary(SAMBA_OP_mul, a, b); }

samba_value samba_div(samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter("div", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_dtype dtype = result_type(a, b);
    return binary_in(SAMBA_OP_div, a, b, samba_dtype_is_floating_point(dtype) ? dtype : SAMBA_FLOAT32);
}

samba_value samba_pow(samba_value a, samba_value b) { return binary(SAMBA_OP_pow, a, b); }

samba_value samba_maximum(samba_value a, samba_value b) { return binary(SAMBA_OP_maximum, a, b); }

samba_value samba_minimum(samba_value a, samba_value b) { return binary(SAMBA_OP_minimum, a, b); }

samba_value samba_eq(samba_value a, samba_value b) { return binary(SAMBA_OP_eq, a, b); }

samba_value samba_ne(samba_value a, samba_value b) { return binary(SAMBA_OP_ne, a, b); }

samba_value samba_lt(samba_value a, samba_value b) { return binary(SAMBA_OP_lt, a, b); }

samba_value samba_le(samba_value a, samba_value b) { return binary(SAMBA_OP_le, a, b); }

samba_value samba_gt(samba_value a, samba_value b) { return binary(SAMBA_OP_gt, a, b); }

samba_value samba_ge(samba_value a, samba_value b) { return binary(SAMBA_OP_ge, a, b); }

samba_value samba_where(samba_value condition, samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter("where", 3, (samba_value[]){condition, a, b}, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_dtype dtype = result_type(a, b);
    samba_ref left = samba_emit_cast(graph, a.index, dtype), right = samba_emit_cast(graph, b.index, dtype);
    return samba_trace_value(graph, samba_emit3(graph, SAMBA_OP_where, condition.index, left, right));
}

/* ---- a number on the right ---- */

/* `a` in the dtype it has beside a number: a float leaves floats as they are and makes float32 of integers. */
static samba_value beside_number(const char *what, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    const samba_node *node = samba_node_at(graph, a.index);
    samba_dtype dtype = samba_promote(node->dtype, promotion_of(node), SAMBA_FLOAT32, SAMBA_NUMBER);
    return samba_trace_value(graph, samba_emit_cast(graph, a.index, dtype));
}

static samba_value binary_number(samba_op op, samba_value a, double b)
{
    a = beside_number(samba_op_table[op].name, a);
    return a.index == SAMBA_NONE ? a : samba_trace_value(a.graph, samba_emit_scalar(a.graph, op, a.index, b));
}

samba_value samba_add_scalar(samba_value a, double b) { return binary_number(SAMBA_OP_add, a, b); }

samba_value samba_mul_scalar(samba_value a, double b) { return binary_number(SAMBA_OP_mul, a, b); }

samba_value samba_pow_scalar(samba_value a, double b)
{
    if (b != 2.0)
        return binary_number(SAMBA_OP_pow, a, b);
    a = beside_number("pow", a);
    return a.index == SAMBA_NONE ? a : samba_trace_value(a.graph, samba_emit2(a.graph, SAMBA_OP_mul, a.index, a.index));
}

/* ---- one operand ---- */

static samba_value unary(samba_op op, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    return samba_trace_value(graph, samba_emit1(graph, op, a.index));
}

/* Integers and bool become float32 first. */
static samba_value unary_floating(samba_op op, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    if (!samba_dtype_is_floating_point(samba_value_dtype(a)))
        a.index = samba_emit_cast(graph, a.index, SAMBA_FLOAT32);
    return samba_trace_value(graph, samba_emit1(graph, op, a.index));
}

samba_value samba_neg(samba_value a) { return unary(SAMBA_OP_neg, a); }

samba_value samba_abs(samba_value a) { return unary(SAMBA_OP_abs, a); }

samba_value samba_relu(samba_value a) { return unary(SAMBA_OP_relu, a); }

samba_value samba_exp(samba_value a) { return unary_floating(SAMBA_OP_exp, a); }

samba_value samba_log(samba_value a) { return unary_floating(SAMBA_OP_log, a); }

samba_value samba_log1p(samba_value a) { return unary_floating(SAMBA_OP_log1p, a); }

samba_value samba_expm1(samba_value a) { return unary_floating(SAMBA_OP_expm1, a); }

samba_value samba_sin(samba_value a) { return unary_floating(SAMBA_OP_sin, a); }

samba_value samba_cos(samba_value a) { return unary_floating(SAMBA_OP_cos, a); }

samba_value samba_floor(samba_value a) { return unary(SAMBA_OP_floor, a); }

samba_value samba_round(samba_value a) { return unary(SAMBA_OP_round, a); }

samba_value samba_sign(samba_value a) { return unary(SAMBA_OP_sign, a); }

samba_value samba_softplus(samba_value a) /* of integers an error, as in PyTorch */ { return unary(SAMBA_OP_softplus, a); }

samba_value samba_detach(samba_value a) { return unary(SAMBA_OP_detach, a); }

samba_value samba_sqrt(samba_value a) { return unary_floating(SAMBA_OP_sqrt, a); }

samba_value samba_rsqrt(samba_value a) { return unary_floating(SAMBA_OP_rsqrt, a); }

samba_value samba_reciprocal(samba_value a) { return unary_floating(SAMBA_OP_reciprocal, a); }

samba_value samba_tanh(samba_value a) { return unary_floating(SAMBA_OP_tanh, a); }

samba_value samba_sigmoid(samba_value a) { return unary_floating(SAMBA_OP_sigmoid, a); }

samba_value samba_erf(samba_value a) { return unary_floating(SAMBA_OP_erf, a); }

samba_value samba_gelu(samba_value a) /* of integers an error, as in PyTorch */ { return unary(SAMBA_OP_gelu, a); }

samba_value samba_gelu_tanh(samba_value a) { return unary(SAMBA_OP_gelu_tanh, a); }

samba_value samba_cast(samba_value a, samba_dtype dtype)
{
    samba_graph *graph;
    if (!samba_trace_enter("cast", 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    return samba_trace_value(graph, samba_emit_cast(graph, a.index, dtype));
}
