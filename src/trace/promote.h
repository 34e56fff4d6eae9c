/* SPDX-License-Identifier: Apache-2.0
 *
 * Promotion, for functions of several operands: what torch.result_type says, and operands in it. Formulas of several operators
 * are written with the short names below; they compute 16-bit floats in float32 and are rounded once. */
#ifndef SAMBA_TRACE_PROMOTE_H
#define SAMBA_TRACE_PROMOTE_H

#include "ops/families.h"
#include "trace/trace.h"

/* torch.result_type of values that were checked: those with dims count before those of rank 0, these before numbers.
 * One without a graph was left out. */
samba_dtype samba_trace_result_type(int count, const samba_value *values);
/* Checks the values; the dtype they meet in. */
bool samba_trace_promote(const char *what, int count, const samba_value *values, samba_graph **graph, samba_dtype *dtype);
/* The same; integers and bool become float32. */
bool samba_trace_promote_floating(const char *what, int count, const samba_value *values, samba_graph **graph,
                                  samba_dtype *dtype);
/* A value in `dtype`. A number that is known becomes a constant of it. */
samba_ref samba_trace_operand(samba_value value, samba_dtype dtype);
/* An operator of two operands in the dtype they meet in, to which they are rounded, as PyTorch does for all but arithmetic. */
samba_value samba_trace_promoted(samba_op op, samba_value a, samba_value b);
/* Whether it is a number whose value stands in the graph. */
bool samba_trace_known(samba_value value, double *number);
/* `number` as a value of `dtype` holds it: integers wrap, 16-bit floats are rounded. */
double samba_trace_held(double number, samba_dtype dtype);

/* One operand that must be floating-point, or is made so; *x is in the dtype that formulas compute in. */
bool samba_trace_floating(const char *what, samba_value a, samba_graph **graph, samba_ref *x);
bool samba_trace_as_floating(const char *what, samba_value a, samba_graph **graph, samba_ref *x);
/* The result of a formula, in `dtype`. */
static inline samba_value samba_trace_result(samba_graph *graph, samba_ref ref, samba_dtype dtype)
{
    return samba_trace_value(graph, samba_emit_cast(graph, ref, dtype));
}

/* Nodes of `graph`: E1(exp, x), E2(add, x, y), E3(where, condition, x, y); EN(mul, x, 2) with a number;
 * CONSTANT(2, x) in x's dtype. */
#define E1(op, a) samba_emit1(graph, SAMBA_OP_##op, a)
#define E2(op, a, b) samba_emit2(graph, SAMBA_OP_##op, a, b)
#define E3(op, a, b, c) samba_emit3(graph, SAMBA_OP_##op, a, b, c)
#define EN(op, a, number) samba_emit_scalar(graph, SAMBA_OP_##op, a, number)
#define CONSTANT(number, like) samba_emit_constant(graph, number, samba_ref_dtype(graph, like))

#endif
