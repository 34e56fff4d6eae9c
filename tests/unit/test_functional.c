/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program that brings its own tensors builds a graph of: layers over values, buffers that the forward pass changes,
 * tensors that become part of the PEF. Functional forms make the same nodes as layers do;
 * values of compiled programs are compared with plain sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/stat.h>

#include "failing_allocator.h"
#include "graph/graph.h"
#include "training.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0};
static const samba_value none = {0};

static samba_graph *graph_with_input(samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_graph *graph;
    samba_tensor *example;
    need(samba_graph_new(context, "model", &graph));
    need(samba_tensor_empty(context, "x", dtype, rank, shape, &example));
    need(samba_graph_add_input(graph, example));
    samba_tensor_free(example);
    return graph;
}

static samba_value parameter(samba_graph *g, const char *name, int rank, const int64_t *shape, samba_initializer initializer)
{
    return samba_parameter(g, name, SAMBA_FLOAT32, rank, shape, initializer);
}

static char *text_of(samba_graph *graph)
{
    char *text;
    need(samba_graph_print(graph, &text));
    return text;
}

/* ---- functions and layers ---- */

static void layers_are_functions(void **state)
{
    (void)state;
    samba_graph *a = graph_with_input(SAMBA_FLOAT32, 4, SHAPE(2, 4, 6, 8)),
                *b = graph_with_input(SAMBA_FLOAT32, 4, SHAPE(2, 4, 6, 8));
    samba_initializer conv = {SAMBA_INIT_UNIFORM, -1.0 / 6, 1.0 / 6}, linear = {SAMBA_INIT_UNIFORM, -0.5, 0.5},
                      one = {SAMBA_INIT_CONSTANT, 1, 0};
    samba_conv2d_options o = {.padding = {1, 1}, .stride = {1, 2}};
    samba_value x = samba_conv2d(samba_input(a, "x"), "conv", 8, SHAPE(3, 3), &o);
    samba_output(a, "y", samba_layer_norm(samba_linear(x, "lin", 5), "norm"));

    samba_scope_push(b, "conv");
    samba_value weight = parameter(b, "weight", 4, SHAPE(8, 4, 3, 3), conv), bias = parameter(b, "bias", 1, SHAPE(8), conv);
    x = samba_functional_conv2d(samba_input(b, "x"), weight, bias, &o);
    samba_scope_pop(b);
    samba_scope_push(b, "lin");
    weight = parameter(b, "weight", 2, SHAPE(5, 4), linear), bias = parameter(b, "bias", 1, SHAPE(5), linear);
    x = samba_functional_linear(x, weight, bias);
    samba_scope_pop(b);
    samba_scope_push(b, "norm");
    weight = parameter(b, "weight", 1, SHAPE(5), one), bias = parameter(b, "bias", 1, SHAPE(5), zeros);
    x = samba_functional_layer_norm(x, 1, SHAPE(5), weight, bias, 1e-5);
    samba_scope_pop(b);
    samba_output(b, "y", x);

    char *of_layers = text_of(a), *of_functions = text_of(b);
    assert_string_equal(of_layers, of_functions);
    samba_text_free(context, of_layers);
    samba_text_free(context, of_functions);
    samba_graph_free(a);
    samba_graph_free(b);
}

static void what_is_left_out(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_FLOAT32, 3, SHAPE(4, 6, 8));
    samba_value x = samba_input(g, "x");
    samba_value y = samba_functional_conv2d(x, parameter(g, "w", 4, SHAPE(2, 4, 3, 3), zeros), none, NULL); /* one image */
    assert_int_equal(samba_value_rank(y), 3);
    assert_int_equal(samba_value_size(y, 2), 6);
    y = samba_functional_layer_norm(x, 2, SHAPE(6, 8), none, none, 1e-5);
    assert_int_equal(samba_value_rank(y), 3);
    /* one output feature without a dim, as torch's */
    y = samba_functional_linear(x, parameter(g, "v", 1, SHAPE(8), zeros), none);
    assert_int_equal(samba_value_rank(y), 2);
    need(samba_graph_status(g));
    samba_graph_free(g);
}

static void transposed_convolutions(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_FLOAT32, 3, SHAPE(4, 6, 8));
    samba_conv_transpose2d_options o = {{2, 3}, {1, 2}, {1, 0}, {1, 2}, 2, false};
    samba_value y = samba_functional_conv_transpose2d(samba_input(g, "x"), parameter(g, "w", 4, SHAPE(4, 3, 3, 2), zeros),
                                                      parameter(g, "b", 1, SHAPE(6), zeros), &o);
    const int64_t expected[3] = {6, 5 * 2 - 2 + 2 + 1 + 1, 7 * 3 - 4 + 2 + 1};
    assert_int_equal(samba_value_rank(y), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(samba_value_size(y, i), expected[i]);
    need(samba_graph_status(g));
    samba_graph_free(g);
}

static void rows_are_added(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_INT64, 2, SHAPE(2, 3));
    samba_value base = parameter(g, "base", 2, SHAPE(5, 4), zeros), rows = parameter(g, "rows", 2, SHAPE(6, 4), zeros);
    samba_value y = samba_index_add(base, 0, samba_reshape(samba_input(g, "x"), 1, SHAPE(6)), rows, 1);
    need(samba_graph_status(g));
    assert_int_equal(samba_value_rank(y), 2);
    assert_int_equal(samba_value_size(y, 0), 5);
    samba_graph_free(g);
}

static void refuse_graph(samba_graph *g, samba_status status, const char *part)
{
    refuse(samba_graph_status(g), status, part);
    samba_graph_free(g);
}

static void wrong_shapes(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_FLOAT32, 2, SHAPE(4, 6));
    samba_functional_linear(samba_input(g, "x"), parameter(g, "w", 2, SHAPE(3, 5), zeros), none);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "linear: expected an input (..., in_features)");
    g = graph_with_input(SAMBA_FLOAT32, 2, SHAPE(4, 6));
    samba_functional_conv2d(samba_input(g, "x"), parameter(g, "w", 2, SHAPE(3, 5), zeros), none, NULL);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "conv2d: expected (N, C, H, W)");
    g = graph_with_input(SAMBA_FLOAT32, 4, SHAPE(1, 2, 6, 6));
    samba_functional_conv2d(samba_input(g, "x"), parameter(g, "w", 4, SHAPE(3, 2, 3, 3), zeros),
                            parameter(g, "b", 1, SHAPE(4), zeros), NULL);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "a bias (3), a number for each channel of the result, given float32(4)");
    g = graph_with_input(SAMBA_FLOAT32, 2, SHAPE(4, 6));
    samba_functional_conv_transpose2d(samba_input(g, "x"), parameter(g, "w", 2, SHAPE(3, 5), zeros), none, NULL);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "conv_transpose2d: expected (N, C, H, W)");
    static const samba_conv_transpose2d_options wrong[] = {
        {.stride = {-1, 1}},
        {.dilation = {1, -1}},
        {.groups = -1},
        {.padding = {1, 99}},
        {.padding = {-1, 0}},
        {.output_padding = {1, 0}},
        {.stride = {INT64_MAX, 1}},
        {.output_padding = {0, -1}, .stride = {2, 2}},
    };
    for (int i = 0; i < 8; i++) {
        g = graph_with_input(SAMBA_FLOAT32, 4, SHAPE(1, 2, 6, 6));
        samba_functional_conv_transpose2d(samba_input(g, "x"), parameter(g, "w", 4, SHAPE(2, 3, 3, 3), zeros), none, &wrong[i]);
        refuse_graph(g, SAMBA_ERROR_ARGUMENT, "conv_transpose2d: expected stride, dilation and groups of 1 or more");
    }
    g = graph_with_input(SAMBA_FLOAT32, 4, SHAPE(1, 2, 6, 6));
    samba_functional_conv_transpose2d(samba_input(g, "x"), parameter(g, "w", 4, SHAPE(2, 3, 3, 3), zeros),
                                      parameter(g, "b", 1, SHAPE(4), zeros), NULL);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "a bias (3), a number for each channel of the result, given float32(4)");
    g = graph_with_input(SAMBA_INT64, 2, SHAPE(2, 3));
    samba_index_add(parameter(g, "base", 2, SHAPE(5, 4), zeros), 0, samba_input(g, "x"),
                    parameter(g, "rows", 2, SHAPE(6, 4), zeros), 1);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "index_add");
    g = graph_with_input(SAMBA_FLOAT32, 2, SHAPE(4, 6));
    samba_functional_layer_norm(samba_input(g, "x"), 1, SHAPE(4), none, none, 1e-5);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "layer_norm: expected an input whose last dims are");
    g = graph_with_input(SAMBA_FLOAT32, 2, SHAPE(4, 6));
    samba_functional_layer_norm(samba_input(g, "x"), 99, SHAPE(4), none, none, 1e-5);
    refuse_graph(g, SAMBA_ERROR_SHAPE, "1 to its rank");
    g = graph_with_input(SAMBA_FLOAT32, 2, SHAPE(4, 6));
    samba_functional_embedding(samba_input(g, "x"), parameter(g, "w", 2, SHAPE(3, 5), zeros), NULL);
    refuse_graph(g, SAMBA_ERROR_DTYPE, "embedding");
}

/* ---- constants ---- */

static void tensors_in_the_graph(void **state)
{
    (void)state;
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64, SAMBA_INT8, SAMBA_BOOL};
    for (int d = 0; d < 5; d++)
        for (int64_t rows = 0; rows < 3; rows++) {
            samba_graph *g = graph_with_input(dtypes[d] == SAMBA_BOOL ? SAMBA_INT64 : dtypes[d], 2, SHAPE(rows, 7)), *parsed;
            samba_tensor *values = tensor("values", dtypes[d], 2, SHAPE(rows, 7)), *x, *y;
            need(samba_fill_integers(values, 5 + (uint64_t)d, 0, 2));
            samba_value c = samba_constant_tensor(g, values);
            samba_output(g, "y", samba_add(samba_input(g, "x"), samba_cast(c, samba_value_dtype(samba_input(g, "x")))));
            char *text = text_of(g), *again;
            need(samba_graph_parse(context, text, &parsed)); /* the text has all of it */
            again = text_of(parsed);
            assert_string_equal(text, again);
            samba_text_free(context, text);
            samba_text_free(context, again);
            samba_compile_options o = compile_of("constants", NULL, NULL, 0, NULL);
            char path[256];
            o.graph = parsed;
            o.inference = true;
            need(samba_compile(context, &o, path, sizeof path));
            samba_graph_free(g);
            samba_graph_free(parsed);
            samba_session *session = open_session(path, 1, 0);
            need(samba_session_get_by_name(session, "x", &x));
            need(samba_session_get_by_name(session, "y", &y));
            need(samba_fill_integers(x, 3, 0, 9));
            samba_run_options run = samba_run_defaults();
            run.input_count = run.output_count = 1;
            run.inputs = &x;
            run.outputs = &y;
            need(samba_run(session, &run));
            samba_memory_info memory;
            need(samba_session_memory(session, &memory));
            assert_true(memory.constants > 0);
            samba_tensor *sums = tensor("sums", SAMBA_FLOAT64, 2, SHAPE(rows, 7)),
                         *a = tensor("a", SAMBA_FLOAT64, 2, SHAPE(rows, 7)), *b = tensor("b", SAMBA_FLOAT64, 2, SHAPE(rows, 7));
            need(samba_tensor_copy(sums, y));
            need(samba_tensor_copy(a, x));
            need(samba_tensor_copy(b, values));
            for (int64_t i = 0; i < rows * 7; i++)
                assert_true(((double *)samba_tensor_data(sums))[i] ==
                            ((double *)samba_tensor_data(a))[i] + ((double *)samba_tensor_data(b))[i]);
            samba_tensor *all[] = {sums, a, b, x, y, values};
            for (int i = 0; i < 6; i++)
                samba_tensor_free(all[i]);
            samba_session_free(session);
        }
}

static void bad_constants(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(2));
    samba_constant_tensor(g, NULL);
    refuse_graph(g, SAMBA_ERROR_ARGUMENT, "constant: a tensor with values is needed, given NULL");
    samba_tensor *empty, *whole = tensor("t", SAMBA_FLOAT32, 2, SHAPE(2, 3)), *view;
    need(samba_tensor_empty(context, "t", SAMBA_FLOAT32, 1, SHAPE(2), &empty));
    g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(2));
    samba_constant_tensor(g, empty);
    refuse_graph(g, SAMBA_ERROR_ARGUMENT, "given one without");
    need(samba_tensor_permute(whole, (int[]){1, 0}, &view));
    g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(2));
    samba_constant_tensor(g, view);
    refuse_graph(g, SAMBA_ERROR_ARGUMENT, "a contiguous tensor is needed");
    samba_tensor_free(empty);
    samba_tensor_free(view);
    samba_tensor_free(whole);
    static const char *const data[][2] = {{"\"\"", "0 bytes, which is not what the shape takes"},
                                          {"\"0\"", "two hexadecimal digits"},
                                          {"\"00000\"", "two hexadecimal digits"},
                                          {"\"0000000g\"", "two hexadecimal digits"},
                                          {"\"0000000G\"", "two hexadecimal digits"},
                                          {"\"000000000\"", "two hexadecimal digits"},
                                          {"\"zz\"", "two hexadecimal digits"},
                                          {"\"00000000", "two hexadecimal digits"},
                                          {"00000000", "quoted digits, or '&' and a number"},
                                          {"\"0000000000000000\"", "8 bytes, which is not what the shape takes"},
                                          {"&0", "give both to samba_graph_parse_beside"},
                                          {"&", "the number of a literal"},
                                          {"&-1", "give both to samba_graph_parse_beside"}};
    for (int i = 0; i < (int)(sizeof data / sizeof *data); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "graph \"g\"\n%%0 = literal dtype=float32 shape=[1] data=%s : float32[1]\noutput \"y\" %%0 @FWD\n", data[i][0]);
        refuse(samba_graph_parse(context, text, &g), SAMBA_ERROR_FORMAT, data[i][1]);
    }
    const float one = 1;
    const samba_literal given[] = {{&one, 4}, {&one, 3}, {NULL, 4}, {&one, -4}, {NULL, 0}};
    static const struct {
        const char *data;
        int64_t first, count;
        samba_status status;
        const char *message;
    } beside[] = {{"&1", 0, 1, SAMBA_ERROR_FORMAT, "the number of a literal beside the text, found '1'"},
                  {"&-1", 0, 1, SAMBA_ERROR_FORMAT, "the number of a literal beside the text, found '-1'"},
                  {"&99999999999999999999", 0, 1, SAMBA_ERROR_FORMAT, "fits 64 bits"},
                  {"&0", 1, 1, SAMBA_ERROR_FORMAT, "3 bytes, which is not what the shape takes"},
                  {"&0", 4, 1, SAMBA_ERROR_FORMAT, "0 bytes, which is not what the shape takes"},
                  {"&0", 1, 2, SAMBA_ERROR_ARGUMENT, "literal 1 beside a graph's text has 4 bytes at NULL"},
                  {"&0", 3, 1, SAMBA_ERROR_ARGUMENT, "literal 0 beside a graph's text has -4 bytes"},
                  {"&0", 0, -1, SAMBA_ERROR_ARGUMENT, "-1 literals"}};
    for (int i = 0; i < (int)(sizeof beside / sizeof *beside); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "graph \"g\"\n%%0 = literal dtype=float32 shape=[1] data=%s : float32[1]\noutput \"y\" %%0 @FWD\n",
                 beside[i].data);
        refuse(samba_graph_parse_beside(context, text, beside[i].count, given + beside[i].first, &g), beside[i].status,
               beside[i].message);
    }
    refuse(samba_graph_parse_beside(context, "graph \"g\"", 1, NULL, &g), SAMBA_ERROR_ARGUMENT, "in a list that is NULL");
}

/* A graph's values of `size` bytes, one byte off at `changed`. */
static samba_graph *graph_of_bytes(int64_t size, int64_t changed)
{
    samba_graph *g = graph_with_input(SAMBA_UINT8, 1, SHAPE(size));
    samba_tensor *values = tensor("values", SAMBA_UINT8, 1, &size);
    uint8_t *bytes = samba_tensor_data(values);
    for (int64_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7 + (i == changed));
    samba_output(g, "y", samba_add(samba_input(g, "x"), samba_constant_tensor(g, values)));
    samba_output(g, "z", samba_mul(samba_input(g, "x"), samba_constant_tensor(g, values))); /* the same node */
    samba_tensor *halves;
    need(samba_tensor_new(context, "halves", SAMBA_INT16, 1, SHAPE(size / 2), &halves)); /* the same bytes, another node */
    memcpy(samba_tensor_data(halves), bytes, (size_t)(size / 2 * 2));
    samba_output(g, "w", samba_mul_scalar(samba_constant_tensor(g, halves), 2));
    samba_tensor_free(halves);
    samba_tensor_free(values);
    return g;
}

/* What a PEF's text refers to is what it has once, and compares as what was traced. */
static void literals_beside_the_text(void **state)
{
    (void)state;
    static const int64_t sizes[] = {64, 66, 1000, 300000};
    for (int i = 0; i < 4; i++) {
        samba_graph *g = graph_of_bytes(sizes[i], -1), *other = graph_of_bytes(sizes[i], sizes[i] - 1), *live, *read;
        samba_compile_options o = compile_of("beside", NULL, NULL, 0, NULL);
        char path[256];
        struct stat facts;
        o.graph = g;
        o.inference = true;
        need(samba_compile(context, &o, path, sizeof path));
        assert_int_equal(stat(path, &facts), 0);
        assert_true(facts.st_size < sizes[i] + 8192); /* once, and not as digits */
        samba_session *session = open_session(path, 1, 0);
        const char *text = samba_session_graph_text(session);
        const int64_t count = samba_session_literal_count(session, 0);
        assert_int_equal(count, i > 0);
        assert_true((strstr(text, "data=&0") != NULL) == (i > 0) && !strstr(text, "data=&1"));
        samba_literal literal = {NULL, 0};
        if (count > 0) {
            need(samba_session_literal(session, 0, 0, &literal));
            assert_int_equal(literal.size, sizes[i]);
            refuse(samba_graph_parse(context, text, &read), SAMBA_ERROR_FORMAT, "give both to samba_graph_parse_beside");
        }
        refuse(samba_session_literal(session, 0, count, &literal), SAMBA_ERROR_ARGUMENT, "there is no literal");
        refuse(samba_session_literal(session, 0, -1, &literal), SAMBA_ERROR_ARGUMENT, "there is no literal -1");
        refuse(samba_session_literal(session, 1, 0, &literal), SAMBA_ERROR_ARGUMENT, "of graph 1: it has 0");
        refuse(samba_session_literal(session, 0, 0, NULL), SAMBA_ERROR_ARGUMENT, "samba_session_literal was given no place");
        assert_int_equal(samba_session_literal_count(session, -1), 0);
        need(samba_graph_parse_beside(context, text, count, &literal, &read));
        need(samba_graph_copy(g, &live));
        need(samba_graph_compare(read, live));
        char *whole = text_of(read), *again = text_of(live);
        assert_string_equal(whole, again); /* all digits */
        samba_graph_free(live);
        need(samba_graph_copy(other, &live));
        refuse(samba_graph_compare(read, live), SAMBA_ERROR_STATE, "First difference");
        samba_graph_free(live);
        samba_graph_free(read);
        need(samba_graph_parse(context, whole, &read));
        need(samba_graph_copy(g, &live));
        need(samba_graph_compare(read, live));
        samba_graph_free(live);
        samba_text_free(context, whole);
        samba_text_free(context, again);
        samba_session_free(session);
        samba_graph_free(read);
        samba_graph_free(other);
        samba_graph_free(g);
    }
}

/* ---- buffers ---- */

static void buffers_change(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_FLOAT32, 2, SHAPE(3, 5));
    samba_value x = samba_input(g, "x"), sum = samba_register_buffer(g, "sum", SAMBA_FLOAT32, 1, SHAPE(5), zeros);
    samba_value steps = samba_register_buffer(g, "steps", SAMBA_INT64, 0, NULL, (samba_initializer){SAMBA_INIT_CONSTANT, 7, 0});
    samba_assign(sum, samba_add(sum, samba_sum(x, 1, (int[]){0}, false)));
    samba_assign(steps, samba_add(steps, samba_constant(g, 1, SAMBA_INT64, 0, NULL)));
    samba_output(g, "y", samba_mul(samba_linear(x, "lin", 5), sum)); /* reads what the buffer held before this run */
    need(samba_graph_status(g));
    samba_compile_options o = compile_of("buffers", NULL, NULL, 0, NULL);
    samba_optimizer sgd = samba_sgd(0.1);
    char path[256];
    o.graph = g;
    o.optimizers = &sgd;
    o.optimizer_count = 1;
    need(samba_compile(context, &o, path, sizeof path));
    samba_graph_free(g);
    samba_session *session = open_session(path, 2, 0);
    samba_tensor *inputs = normal("x", SAMBA_FLOAT32, 2, SHAPE(3, 5), 1), *y, *found;
    need(samba_session_get_by_name(session, "y", &y));
    samba_run_options run = samba_run_defaults();
    run.input_count = run.output_count = 1;
    run.inputs = &inputs;
    run.outputs = &y;
    for (int step = 1; step <= 3; step++) {
        need(samba_run(session, &run));
        need(samba_session_get_by_name(session, "sum", &found));
        for (int c = 0; c < 5; c++) {
            const float *in = samba_tensor_data(inputs);
            assert_float_equal(((float *)samba_tensor_data(found))[c], (float)step * (in[c] + in[5 + c] + in[10 + c]), 1e-5);
            assert_true(step > 1 || ((float *)samba_tensor_data(y))[c] == 0);
        }
        samba_tensor_free(found);
        int64_t count;
        need(samba_session_get_by_name(session, "steps", &found));
        need(samba_tensor_item_int64(found, &count));
        assert_int_equal(count, 7 + step);
        samba_tensor_free(found);
    }
    samba_tensor_free(inputs);
    samba_tensor_free(y);
    samba_session_free(session);
}

static void bad_buffers(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(5));
    samba_assign(samba_neg(samba_input(g, "x")), samba_input(g, "x"));
    refuse_graph(g, SAMBA_ERROR_ARGUMENT, "assign: the target must be a buffer");
    g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(5));
    samba_assign(samba_register_buffer(g, "b", SAMBA_FLOAT32, 1, SHAPE(4), zeros), samba_input(g, "x"));
    refuse_graph(g, SAMBA_ERROR_SHAPE, "buffer \"b\" is float32");
    g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(5));
    samba_register_buffer(g, "b", SAMBA_INT64, 1, SHAPE(4), (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
    refuse_graph(g, SAMBA_ERROR_DTYPE, "a floating-point dtype for random values");
    g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(5));
    samba_register_buffer(g, "", SAMBA_INT64, 1, SHAPE(4), zeros);
    refuse_graph(g, SAMBA_ERROR_NAME, "buffer: a name that is not empty");
    g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(5));
    samba_value b = samba_register_buffer(g, "b", SAMBA_FLOAT32, 1, SHAPE(5), zeros);
    /* shared, like a parameter */
    assert_int_equal(samba_register_buffer(g, "b", SAMBA_FLOAT32, 1, SHAPE(5), zeros).index, b.index);
    samba_register_buffer(g, "b", SAMBA_FLOAT32, 1, SHAPE(6), zeros);
    refuse_graph(g, SAMBA_ERROR_NAME, "b");
}

/* ---- copies and texts ---- */

static void copies_have_what_is_needed(void **state)
{
    (void)state;
    samba_graph *g = graph_with_input(SAMBA_FLOAT32, 1, SHAPE(5)), *copy, *same;
    samba_value x = samba_input(g, "x");
    samba_exp(x); /* nobody needs it */
    samba_output(g, "y", samba_tanh(x));
    need(samba_graph_copy(g, &copy));
    char *text = text_of(copy), *again;
    assert_null(strstr(text, "exp"));
    assert_non_null(strstr(text, "tanh"));
    samba_compile_options o = compile_of("copies", NULL, NULL, 0, NULL);
    char path[256];
    o.graph = g;
    o.name = "model";
    o.inference = true;
    need(samba_compile(context, &o, path, sizeof path));
    samba_session *session = open_session(path, 1, 0);
    assert_string_equal(samba_session_graph_text(session), text);
    need(samba_graph_copy(copy, &same));
    again = text_of(same);
    assert_string_equal(text, again);
    samba_session_free(session);
    samba_text_free(context, text);
    samba_text_free(context, again);
    samba_graph_free(same);
    samba_graph_free(copy);
    samba_reshape(x, 1, SHAPE(4)); /* an error sticks */
    assert_int_equal(samba_graph_copy(g, &copy), SAMBA_ERROR_SHAPE);
    assert_null(copy);
    samba_graph_free(g);
}

/* The graph with its literals beside its text, and read back. */
static samba_status read_back(samba_context *from, const samba_graph *g)
{
    samba_arena arena;
    samba_graph *read = NULL;
    char *text = NULL;
    int32_t count;
    uint32_t *numbers;
    samba_arena_init(&arena, from);
    samba_status status = samba_graph_print_beside(g, &arena, &text, &count, &numbers);
    if (status == SAMBA_OK) {
        assert_int_equal(count, 1);
        const samba_blob *blob = samba_graph_blob_at(g, numbers[0]);
        status = samba_graph_parse_beside(from, text, 1, &(samba_literal){blob->data, blob->size}, &read);
    }
    samba_graph_free(read);
    samba_text_free(from, text);
    samba_arena_free(&arena);
    return status;
}

static samba_status build(samba_context *from, void *user)
{
    (void)user;
    samba_graph *g, *copy = NULL;
    samba_tensor *example, *values = NULL;
    SAMBA_TRY(samba_graph_new(from, "memory", &g));
    samba_status status = samba_tensor_new(from, "x", SAMBA_FLOAT32, 1, SHAPE(50), &example);
    if (status == SAMBA_OK) {
        status = samba_graph_add_input(g, example);
        values = example;
    }
    if (status == SAMBA_OK) {
        samba_value x = samba_input(g, "x"), b = samba_register_buffer(g, "b", SAMBA_FLOAT32, 1, SHAPE(50), zeros);
        samba_assign(b, samba_add(x, samba_constant_tensor(g, values)));
        samba_output(g, "y", samba_functional_layer_norm(b, 1, SHAPE(50), none, none, 1e-5));
        status = samba_graph_status(g);
    }
    if (status == SAMBA_OK)
        status = samba_graph_copy(g, &copy);
    if (status == SAMBA_OK)
        status = read_back(from, copy);
    samba_graph_free(copy);
    samba_graph_free(g);
    samba_tensor_free(values);
    return status;
}

static void refused_allocations(void **state)
{
    (void)state;
    fail_each_allocation(build, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_functions),
        cmocka_unit_test(what_is_left_out),
        cmocka_unit_test(transposed_convolutions),
        cmocka_unit_test(rows_are_added),
        cmocka_unit_test(wrong_shapes),
        cmocka_unit_test(tensors_in_the_graph),
        cmocka_unit_test(bad_constants),
        cmocka_unit_test(literals_beside_the_text),
        cmocka_unit_test(buffers_change),
        cmocka_unit_test(bad_buffers),
        cmocka_unit_test(copies_have_what_is_needed),
        cmocka_unit_test(refused_allocations),
    };
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, NULL, NULL));
}
