/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers beside values, and the common dtype of operands of different dtypes. */
#include "trace/promote.h"

#include <sambaflow/elementwise.h>

/* ---- numbers ---- */

static samba_value as_number(samba_value value, samba_dtype dtype)
{
    value.number = 1 + (uint32_t)dtype;
    return value;
}

samba_value samba_number(samba_graph *graph, double value)
{
    return as_number(samba_constant(graph, value, SAMBA_FLOAT64, 0, NULL), SAMBA_FLOAT32);
}

samba_value samba_integer(samba_graph *graph, int64_t value)
{
    if (value >= -(INT64_C(1) << 53) && value <= INT64_C(1) << 53)
        return as_number(samba_constant(graph, (double)value, SAMBA_INT64, 0, NULL), SAMBA_INT64);
    if (!graph || graph->status != SAMBA_OK)
        return samba_trace_none(graph);
    return as_number(samba_trace_literal(graph, SAMBA_INT64, 0, NULL, &value), SAMBA_INT64); /* a double would round it */
}

samba_value samba_as_number(samba_value value, samba_dtype dtype)
{
    samba_graph *graph;
    if (!samba_trace_enter("as_number", 1, &value, &graph))
        return samba_trace_none(graph);
    const samba_node *node = samba_node_at(graph, value.index);
    bool known = (int)dtype >= 0 && dtype < SAMBA_DTYPE_COUNT;
    if (node->rank != 0 || !known || samba_dtype_table[node->dtype].category != samba_dtype_table[dtype].category)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "as_number",
                                "expected a value of rank 0 and a dtype of its kind, given %s and %s", SAMBA_TYPE_OF(node),
                                samba_dtype_name(dtype));
    return as_number(value, dtype);
}

bool samba_trace_known(samba_value value, double *number)
{
    const samba_node *node = samba_node_at(value.graph, value.index);
    if (!value.number || node->op != SAMBA_OP_constant)
        return false;
    *number = node->attrs->constant.value;
    return true;
}

double samba_trace_held(double number, samba_dtype dtype)
{
    char element[8];
    if (dtype == SAMBA_FLOAT32 || dtype == SAMBA_FLOAT64)
        return number;
    samba_store_double(dtype, element, number);
    return samba_load_double(dtype, element);
}

/* ---- promotion ---- */

/* The dtype of each kind of operand by itself; then a lower kind counts where its category is higher. */
samba_dtype samba_trace_result_type(int count, const samba_value *values)
{
    enum { NONE = -1 };
    int found[3] = {NONE, NONE, NONE};
    for (int i = 0; i < count; i++) {
        if (!values[i].graph)
            continue;
        const samba_node *node = samba_node_at(values[i].graph, values[i].index);
        samba_promotion kind = values[i].number ? SAMBA_NUMBER : node->rank == 0 ? SAMBA_ZERO_DIM : SAMBA_DIMENSIONED;
        samba_dtype dtype = values[i].number ? (samba_dtype)(values[i].number - 1) : node->dtype;
        found[kind] = found[kind] == NONE
                          ? (int)dtype
                          : (int)samba_promote((samba_dtype)found[kind], SAMBA_DIMENSIONED, dtype, SAMBA_DIMENSIONED);
    }
    int result = NONE;
    for (int kind = SAMBA_NUMBER; kind >= SAMBA_DIMENSIONED; kind--) {
        if (found[kind] == NONE)
            continue;
        result = result == NONE
                     ? found[kind]
                     : (int)samba_promote((samba_dtype)found[kind], SAMBA_DIMENSIONED, (samba_dtype)result, SAMBA_ZERO_DIM);
    }
    return (samba_dtype)result;
}

bool samba_trace_promote(const char *what, int count, const samba_value *values, samba_graph **graph, samba_dtype *dtype)
{
    if (!samba_trace_enter(what, count, values, graph))
        return false;
    *dtype = samba_trace_result_type(count, values);
    return true;
}

bool samba_trace_promote_floating(const char *what, int count, const samba_value *values, samba_graph **graph, samba_dtype *dtype)
{
    if (!samba_trace_promote(what, count, values, graph, dtype))
        return false;
    *dtype = samba_dtype_is_floating_point(*dtype) ? *dtype : SAMBA_FLOAT32;
    return true;
}

samba_ref samba_trace_operand(samba_value value, samba_dtype dtype)
{
    double number;
    if (samba_trace_known(value, &number))
        return samba_emit_constant(value.graph, samba_trace_held(number, dtype), dtype);
    return samba_emit_cast(value.graph, value.index, dtype);
}

bool samba_trace_as_floating(const char *what, samba_value a, samba_graph **graph, samba_ref *x)
{
    if (!samba_trace_enter(what, 1, &a, graph))
        return false;
    bool floating = samba_dtype_is_floating_point(samba_value_dtype(a));
    *x = floating ? samba_emit_lift(*graph, a.index) : samba_emit_cast(*graph, a.index, SAMBA_FLOAT32);
    return true;
}

bool samba_trace_floating(const char *what, samba_value a, samba_graph **graph, samba_ref *x)
{
    return samba_trace_enter(what, 1, &a, graph) && samba_trace_need_floating(a, what) &&
           samba_trace_as_floating(what, a, graph, x);
}
