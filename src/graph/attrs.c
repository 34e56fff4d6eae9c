/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes and operators as data: attrs.def as a table of named fields, the columns of ops.def that the graph needs, and the
 * one normal form of attributes. Fields follow each other without gaps, so a walk over the table walks the bytes.
 *
 * Everything here is constant; clean attributes live where the caller put them. */
#include "graph/graph.h"
#include <math.h>
#include <string.h>

#define INT(field) {#field, SAMBA_FIELD_INT},
#define REAL(field) {#field, SAMBA_FIELD_REAL},
#define DIMS(field) {#field, SAMBA_FIELD_DIMS},
#define DTYPE(field) {#field, SAMBA_FIELD_DTYPE},
#define NAME(field) {#field, SAMBA_FIELD_NAME},
#define BLOB(field) {#field, SAMBA_FIELD_BLOB},
#define ATTRS(kind, fields) static const samba_attrs_field fields_of_##kind[] = {fields{NULL, SAMBA_FIELD_INT}};
#include "graph/attrs.def"

const samba_attrs_facts samba_attrs_table[SAMBA_ATTRS_COUNT] = {
#define ATTRS(kind, fields) {#kind, sizeof(samba_attrs_##kind), SAMBA_COUNT(fields_of_##kind) - 1, fields_of_##kind},
#include "graph/attrs.def"
};

/* The walk relies on it: the fields' sizes and the closing unused_ add up to the struct. */
#define INT(field) +sizeof(int64_t)
#define REAL(field) +sizeof(double)
#define DIMS(field) +sizeof(samba_dims)
#define DTYPE(field) +sizeof(int64_t)
#define NAME(field) +sizeof(int64_t)
#define BLOB(field) +sizeof(int64_t)
#define ATTRS(kind, fields) _Static_assert(sizeof(samba_attrs_##kind) == sizeof(int64_t) fields, "a gap in attributes " #kind);
#include "graph/attrs.def"

enum {
    CLASS_LEAF = 1,
    CLASS_MAP = 0,
    CLASS_REDUCE = 0,
    CLASS_VIEW = 0,
    CLASS_MOVE = 0,
    CLASS_CONTRACT = 0,
    CLASS_KERNEL = 0,
    CLASS_COMPOSITE = 0
};
const samba_op_syntax samba_op_table[SAMBA_OP_COUNT] = {
#define OP(name, arity, attrs, class_, ...) {#name, arity, SAMBA_ATTRS_##attrs, CLASS_##class_},
#include "ops.def"
};

size_t samba_field_size(samba_field_kind kind) { return kind == SAMBA_FIELD_DIMS ? sizeof(samba_dims) : sizeof(int64_t); }

static samba_status clean_field(const samba_graph *graph, const char *op, const samba_attrs_field *field, const char *from,
                                char *to)
{
    if (field->kind == SAMBA_FIELD_REAL) {
        double value;
        memcpy(&value, from, sizeof(value));
        value = isnan(value) ? (double)NAN : value;
        memcpy(to, &value, sizeof(value));
        return SAMBA_OK;
    }
    int64_t value; /* of a list: its count, which comes first */
    memcpy(&value, from, sizeof(value));
    memcpy(to, &value, sizeof(value));
    if (field->kind == SAMBA_FIELD_DTYPE && (value < 0 || value >= SAMBA_DTYPE_COUNT))
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "%s: attribute %s is %lld, which is no dtype", op, field->name,
                          (long long)value);
    if (field->kind == SAMBA_FIELD_NAME && (value < 0 || value >= graph->name_count))
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "%s: attribute %s is %lld, which is no name of the graph", op,
                          field->name, (long long)value);
    if (field->kind == SAMBA_FIELD_BLOB && (value < 0 || value >= graph->blob_count))
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "%s: attribute %s is %lld, which is no blob of the graph", op,
                          field->name, (long long)value);
    if (field->kind == SAMBA_FIELD_DIMS) {
        if (value < 0 || value > SAMBA_MAX_RANK)
            return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "%s: attribute %s has %lld numbers, at most %d are possible",
                              op, field->name, (long long)value, SAMBA_MAX_RANK);
        memcpy(to + offsetof(samba_dims, at), from + offsetof(samba_dims, at), (size_t)value * sizeof(int64_t));
    }
    return SAMBA_OK;
}

samba_status samba_attrs_clean(const samba_graph *graph, samba_op op, const samba_attrs *attrs, samba_attrs *clean)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_op_table[op].attrs];
    memset(clean, 0, sizeof(*clean));
    if (facts->field_count > 0 && !attrs)
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "%s: needs attributes of the kind %s, none were given",
                          samba_op_table[op].name, facts->name);
    size_t offset = 0;
    for (int i = 0; i < facts->field_count; i++) {
        SAMBA_TRY(
            clean_field(graph, samba_op_table[op].name, &facts->fields[i], (const char *)attrs + offset, (char *)clean + offset));
        offset += samba_field_size(facts->fields[i].kind);
    }
    return SAMBA_OK;
}

void samba_attrs_carry(samba_graph *into, const samba_graph *from, const samba_node *node, samba_attrs *attrs)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_op_table[node->op].attrs];
    memset(attrs, 0, sizeof(*attrs));
    memcpy(attrs, node->attrs, facts->size);
    char *at = (char *)attrs;
    for (int i = 0; i < facts->field_count; at += samba_field_size(facts->fields[i].kind), i++) {
        const samba_field_kind kind = facts->fields[i].kind;
        int64_t index;
        if (kind != SAMBA_FIELD_NAME && kind != SAMBA_FIELD_BLOB)
            continue;
        memcpy(&index, at, sizeof(index));
        index = kind == SAMBA_FIELD_NAME ? samba_graph_intern(into, samba_graph_name_at(from, index))
                                         : samba_graph_blob(into, samba_graph_blob_at(from, index));
        memcpy(at, &index, sizeof(index));
    }
}
