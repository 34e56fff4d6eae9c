/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of traced functions share: a graph of inputs that one line says, and calls that must be refused. Types are those of
 * rows of text: trace("x float32[4,6] label int64[4]"). */
#ifndef SAMBA_TEST_TRACED_H
#define SAMBA_TEST_TRACED_H

#include "operator_rows.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static samba_graph *traced __attribute__((unused)); /* the graph at hand */
static const char *traced_inputs;
static const samba_value none __attribute__((unused));

static inline void trace(const char *inputs)
{
    row_reader reader = {.file = inputs, .at = inputs};
    char name[ROW_TEXT], type[ROW_TEXT];
    traced_inputs = inputs;
    need(samba_graph_new(context, "model", &traced));
    while (row_word(&reader, name) && row_word(&reader, type)) {
        operand of = row_type(&reader, type);
        samba_tensor *example;
        need(samba_tensor_empty(context, name, of.dtype, of.rank, of.shape, &example));
        need(samba_graph_add_input(traced, example));
        samba_tensor_free(example);
    }
}

static inline void untrace(void)
{
    samba_graph_free(traced);
    traced = NULL;
}

static inline samba_value in(const char *name) { return samba_input(traced, name); }

static inline operand type_of(const char *text)
{
    row_reader reader = {.file = text, .at = text};
    return row_type(&reader, text);
}

/* Zeros of this type. */
static inline samba_value zeros_of(const char *type)
{
    const operand of = type_of(type);
    return samba_constant(traced, 0, of.dtype, of.rank, of.shape);
}

static inline samba_value weight(const char *name, const char *type)
{
    const operand of = type_of(type);
    return samba_parameter(traced, name, of.dtype, of.rank, of.shape, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
}

/* The call that made `value` was refused with these words; the graph begins anew. wrong_as: with this status. */
#define wrong(value, words) wrong_at((value), SAMBA_OK, (words), #value, __FILE__, __LINE__)
#define wrong_as(status, value, words) wrong_at((value), (status), (words), #value, __FILE__, __LINE__)
static inline void wrong_at(samba_value value, samba_status status, const char *words, const char *call, const char *file,
                            int line)
{
    (void)value;
    samba_status found = samba_graph_status(traced);
    if (found == SAMBA_OK) {
        print_error("%s was not refused\n", call);
        _fail(file, line);
    }
    refuse_at(context, found, status == SAMBA_OK ? found : status, words, call, file, line);
    untrace();
    trace(traced_inputs);
}

static inline void expect_type(samba_value value, const char *type)
{
    const operand of = type_of(type);
    need(samba_graph_status(traced));
    const samba_node *node = samba_node_at(traced, value.index);
    assert_int_equal(node->dtype, of.dtype);
    assert_true(samba_shape_equal(node->rank, node->shape, of.rank, of.shape));
}

#endif
