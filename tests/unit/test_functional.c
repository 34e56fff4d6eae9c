/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program that brings its own tensors builds a graph of: functional forms, which make the same nodes as layers do, buffers
 * that the forward pass changes, tensors that become part of the PEF. */
#include "traced.h"
#include "training.h"
#include "failing_allocator.h"
#include <sys/stat.h>

static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0};

#define OWN_TEXT __attribute__((cleanup(free_own_text))) char
static void free_own_text(char **own) { samba_text_free(context, *own); }

/* A graph with an input "x" of this type: the caller's. */
static samba_graph *graph_of(const char *type)
{
    char inputs[64];
    snprintf(inputs, sizeof inputs, "x %s", type);
    trace(inputs);
    return traced;
}

static samba_value parameter(const char *name, int rank, const int64_t *shape, samba_initializer initializer)
{
    const samba_value shared = samba_parameter(traced, name, SAMBA_FLOAT32, rank, shape, initializer);
    const samba_attrs_parameter *has =
        &samba_node_at(traced, shared.index)->attrs->parameter; /* of the first that asked for it */
    assert_true(has->init == initializer.kind && has->init_a == initializer.a && has->init_b == initializer.b);
    return shared;
}

static char *text_of(samba_graph *graph)
{
    char *text;
    need(samba_graph_print(graph, &text));
    return text;
}

/* ---- functions and layers ---- */

TEST(layers_are_functions) /* the same nodes of the same parameters */
{
    const samba_initializer conv = {SAMBA_INIT_UNIFORM, -1.0 / 6, 1.0 / 6}, linear = {SAMBA_INIT_UNIFORM, -0.5, 0.5},
                            one = {SAMBA_INIT_CONSTANT, 1, 0};
    const samba_conv2d_options o = {.padding = {1, 1}, .stride = {1, 2}};
    trace("x float32[2,4,6,8]");
    samba_value x = samba_conv2d(in("x"), "conv", 8, SHAPE(3, 3), &o), y = samba_linear(x, "lin", 5);
    samba_value w = parameter("conv.weight", SIZES(8, 4, 3, 3), conv), bias = parameter("conv.bias", SIZES(8), conv);
    assert_int_equal(samba_functional_conv2d(in("x"), w, bias, &o).index, x.index);
    w = parameter("lin.weight", SIZES(5, 4), linear), bias = parameter("lin.bias", SIZES(5), linear);
    assert_int_equal(samba_functional_linear(x, w, bias).index, y.index);
    x = samba_layer_norm(y, "norm");
    w = parameter("norm.weight", SIZES(5), one), bias = parameter("norm.bias", SIZES(5), zeros);
    assert_int_equal(samba_functional_layer_norm(y, SIZES(5), w, bias, 1e-5).index, x.index);
    need(samba_graph_status(traced));
    untrace();
}

TEST(what_is_left_out)
{
    trace("x float32[4,6,8] at int64[2,3]");
    samba_conv_transpose2d_options o = {{2, 3}, {1, 2}, {1, 0}, {1, 2}, 2, false};
    samba_value x = in("x"), rows = samba_reshape(in("at"), 1, SHAPE(6));
    expect_type(samba_functional_conv2d(x, weight("w", "float32[2,4,3,3]"), none, NULL), "float32[2,4,6]"); /* one image */
    expect_type(samba_functional_layer_norm(x, 2, SHAPE(6, 8), none, none, 1e-5), "float32[4,6,8]");
    /* one output feature without a dim, as torch's */
    expect_type(samba_functional_linear(x, weight("v", "float32[8]"), none), "float32[4,6]");
    expect_type(samba_functional_conv_transpose2d(x, weight("t", "float32[4,3,3,2]"), weight("b", "float32[6]"), &o),
                "float32[6,12,20]"); /* 5 2 - 2 + 2 + 1 + 1, 7 3 - 4 + 2 + 1 */
    expect_type(samba_index_add(weight("base", "float32[5,4]"), 0, rows, weight("rows", "float32[6,4]"), 1), "float32[5,4]");
    untrace();
}

TEST(wrong_shapes)
{
    static const char bias[] = "a bias (3), a number for each channel of the result, given float32(4)";
    static const samba_conv_transpose2d_options options[] = {
        {.stride = {-1, 1}},
        {.dilation = {1, -1}},
        {.groups = -1},
        {.padding = {1, 99}},
        {.padding = {-1, 0}},
        {.output_padding = {1, 0}},
        {.stride = {INT64_MAX, 1}},
        {.output_padding = {0, -1}, .stride = {2, 2}},
    };
    trace("x float32[4,6] image float32[1,2,6,6] rows int64[2,3]");
    wrong_as(SAMBA_ERROR_SHAPE, samba_functional_linear(in("x"), weight("w", "float32[3,5]"), none),
             "linear: the last dim of the input is 6 and the weight, (out_features, in_features), takes 5 features");
    wrong_as(SAMBA_ERROR_SHAPE, samba_functional_conv2d(in("x"), weight("w", "float32[3,5]"), none, NULL),
             "conv2d: the weight float32(3, 5) has 2 dims, expected 4, (out_channels, C / groups, kernel height, kernel width)");
    wrong_as(SAMBA_ERROR_SHAPE,
             samba_functional_conv2d(in("image"), weight("w", "float32[3,2,3,3]"), weight("b", "float32[4]"), NULL), bias);
    wrong_as(SAMBA_ERROR_SHAPE, samba_functional_conv_transpose2d(in("x"), weight("w", "float32[3,5]"), none, NULL),
             "conv_transpose2d: expected (N, C, H, W)");
    for (int i = 0; i < LENGTH(options); i++)
        wrong_as(SAMBA_ERROR_ARGUMENT,
                 samba_functional_conv_transpose2d(in("image"), weight("w", "float32[2,3,3,3]"), none, &options[i]),
                 "conv_transpose2d: expected stride, dilation and groups of 1 or more");
    wrong_as(SAMBA_ERROR_SHAPE,
             samba_functional_conv_transpose2d(in("image"), weight("w", "float32[2,3,3,3]"), weight("b", "float32[4]"), NULL),
             bias);
    wrong_as(SAMBA_ERROR_SHAPE,
             samba_index_add(weight("base", "float32[5,4]"), 0, in("rows"), weight("added", "float32[6,4]"), 1), "index_add");
    wrong_as(SAMBA_ERROR_SHAPE, samba_functional_layer_norm(in("x"), 1, SHAPE(4), none, none, 1e-5),
             "layer_norm: expected an input whose last dims are");
    wrong_as(SAMBA_ERROR_SHAPE, samba_functional_layer_norm(in("x"), 99, SHAPE(4), none, none, 1e-5), "1 to its rank");
    wrong_as(SAMBA_ERROR_DTYPE, samba_functional_embedding(in("x"), weight("w", "float32[3,5]"), NULL), "embedding");
    untrace();
}

/* ---- constants ---- */

static samba_session *inference_session(samba_graph *graph, const char *name)
{
    samba_compile_options o = inference_of(name, NULL, NULL, 0, NULL);
    o.graph = graph;
    return compile_and_open(&o, 1, 0);
}

/* Values come from a text that was written and read, and are one constant of the PEF. */
TEST(tensors_in_the_graph)
{
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64, SAMBA_INT8, SAMBA_BOOL};
    for (int i = 0; i < 15; i++) {
        const samba_dtype dtype = dtypes[i / 3], sum = dtype == SAMBA_BOOL ? SAMBA_INT64 : dtype;
        const int64_t rows = i % 3;
        char type[32];
        snprintf(type, sizeof type, "%s[%d,7]", samba_dtype_name(sum), (int)rows);
        OWN_GRAPH *g = graph_of(type), *parsed;
        OWN_TENSOR *values = tensor("values", dtype, 2, SHAPE(rows, 7));
        need(samba_fill_integers(values, 5 + (uint64_t)i, 0, 2));
        samba_output(g, "y", samba_add(in("x"), samba_cast(samba_constant_tensor(g, values), sum)));
        OWN_TEXT *text = text_of(g);
        need(samba_graph_parse(context, text, &parsed)); /* the text has all of it */
        OWN_TEXT *again = text_of(parsed);
        assert_string_equal(text, again);
        OWN_SESSION *session = inference_session(parsed, "constants");
        OWN_TENSOR *x = get(session, "x");
        need(samba_fill_integers(x, 3, 0, 9));
        samba_run_options run = giving(1, &x);
        need(samba_run(session, &run));
        samba_memory_info memory;
        need(samba_session_memory(session, &memory));
        assert_true(memory.constants > 0);
        OWN_TENSOR *y = get(session, "y");
        for (int64_t e = 0; e < rows * 7; e++)
            assert_true(element_of(y, e) == element_of(x, e) + element_of(values, e));
    }
}

static void count_release(void *count) { ++*(int *)count; }

/* Over memory that is not aligned, of which nothing is copied until a session is. */
TEST(constants_in_memory)
{
    enum { SIZE = 8 };
    int released = 0;
    float values[SIZE];
    char bytes[sizeof values + 1];
    for (int i = 0; i < SIZE; i++)
        values[i] = (float)(3 * i);
    memcpy(bytes + 1, values, sizeof values);
    samba_graph *g = graph_of("float32[8]");
    samba_value constant = samba_constant_memory(g, SAMBA_FLOAT32, 1, SHAPE(SIZE), bytes + 1, count_release, &released);
    samba_output(g, "y", samba_add(in("x"), constant));
    samba_value again = samba_constant_memory(g, SAMBA_FLOAT32, 1, SHAPE(SIZE), bytes + 1, count_release, &released);
    assert_true(released == 1 && again.index == constant.index); /* there already */
    {
        OWN_SESSION *session = inference_session(g, "memory");
        OWN_TENSOR *x = get(session, "x");
        need(samba_fill_integers(x, 3, 0, 9));
        samba_run_options run = giving(1, &x);
        need(samba_run(session, &run));
        OWN_TENSOR *y = get(session, "y");
        for (int64_t i = 0; i < SIZE; i++)
            assert_true(element_of(y, i) == element_of(x, i) + (double)values[i]);
    }
    assert_int_equal(released, 1);
    samba_graph_free(g);
    assert_int_equal(released, 2);
    trace("x float32[2]");
#define REFUSED(dtype, size, data) samba_constant_memory(traced, dtype, 1, SHAPE(size), data, count_release, &released)
    wrong_as(SAMBA_ERROR_ARGUMENT, REFUSED(SAMBA_FLOAT32, 8, NULL), "constant: values are needed, given NULL");
    wrong_as(SAMBA_ERROR_SHAPE, REFUSED(SAMBA_FLOAT32, -8, bytes), "constant: a shape is needed, given (-8)");
    wrong_as(SAMBA_ERROR_ARGUMENT, REFUSED((samba_dtype)99, 8, bytes), "constant");
    untrace();
    assert_int_equal(released, 5);
}

static samba_value constant_of(const samba_tensor *values) { return samba_constant_tensor(traced, values); }

TEST(bad_constants)
{
    OWN_TENSOR *empty, *whole = tensor("t", SAMBA_FLOAT32, 2, SHAPE(2, 3)), *view;
    samba_graph *g;
    need(samba_tensor_empty(context, "t", SAMBA_FLOAT32, 1, SHAPE(2), &empty));
    need(samba_tensor_permute(whole, (int[]){1, 0}, &view));
    trace("x float32[2]");
    wrong_as(SAMBA_ERROR_ARGUMENT, constant_of(NULL), "constant: a tensor with values is needed, given NULL");
    wrong_as(SAMBA_ERROR_ARGUMENT, constant_of(empty), "given one without");
    wrong_as(SAMBA_ERROR_ARGUMENT, constant_of(view), "a contiguous tensor is needed");
    untrace();
    const float one = 1;
    const samba_literal given[] = {{&one, 4}, {&one, 3}, {NULL, 4}, {&one, -4}, {NULL, 0}};
    static const struct {
        const char *data, *words;
        int64_t first, count; /* of what is given beside the text */
        bool argument;
    } rows[] = {
        {"&1", "the number of a literal beside the text, found '1'", 0, 1, 0},
        {"&-1", "the number of a literal beside the text, found '-1'", 0, 1, 0},
        {"&99999999999999999999", "fits 64 bits", 0, 1, 0},
        {"&0", "3 bytes, which is not what the shape takes", 1, 1, 0},
        {"&0", "0 bytes, which is not what the shape takes", 4, 1, 0},
        {"&0", "literal 1 beside a graph's text has 4 bytes at NULL", 1, 2, 1},
        {"&0", "literal 0 beside a graph's text has -4 bytes", 3, 1, 1},
        {"&0", "-1 literals", 0, -1, 1},
    };
    for (int i = 0; i < LENGTH(rows); i++) {
        static const char format[] = "graph \"g\"\n%%0 = literal dtype=float32 shape=[1] data=%s : float32[1]\n";
        char text[256];
        snprintf(text, sizeof text, format, rows[i].data);
        refuse(samba_graph_parse_beside(context, text, rows[i].count, given + rows[i].first, &g),
               rows[i].argument ? SAMBA_ERROR_ARGUMENT : SAMBA_ERROR_FORMAT, rows[i].words);
    }
    refuse(samba_graph_parse_beside(context, "graph \"g\"", 1, NULL, &g), SAMBA_ERROR_ARGUMENT, "in a list that is NULL");
}

/* A graph's values of `size` bytes, one byte off at `changed`. */
static samba_graph *graph_of_bytes(int64_t size, int64_t changed)
{
    char type[32];
    snprintf(type, sizeof type, "uint8[%d]", (int)size);
    samba_graph *g = graph_of(type);
    OWN_TENSOR *values = tensor("values", SAMBA_UINT8, 1, &size);
    OWN_TENSOR *halves = tensor("halves", SAMBA_INT16, 1, SHAPE(size / 2)); /* the same bytes, another node */
    uint8_t *bytes = samba_tensor_data(values);
    for (int64_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7 + (i == changed));
    samba_output(g, "y", samba_add(samba_input(g, "x"), samba_constant_tensor(g, values)));
    samba_output(g, "z", samba_mul(samba_input(g, "x"), samba_constant_tensor(g, values))); /* the same node */
    memcpy(samba_tensor_data(halves), bytes, (size_t)(size / 2 * 2));
    samba_output(g, "w", samba_mul_scalar(samba_constant_tensor(g, halves), 2));
    return g;
}

/* What a PEF's text refers to is what it has once, and compares as what was traced. */
TEST(literals_beside_the_text)
{
    static const int64_t sizes[] = {64, 66, 1000, 300000};
    for (int i = 0; i < 4; i++) {
        OWN_GRAPH *g = graph_of_bytes(sizes[i], -1), *other = graph_of_bytes(sizes[i], sizes[i] - 1), *read, *same, *whole, *live;
        char path[256];
        struct stat facts;
        OWN_SESSION *session = inference_session(g, "beside");
        snprintf(path, sizeof path, "%s/beside/beside.pef", folder);
        assert_int_equal(stat(path, &facts), 0);
        assert_true(facts.st_size < sizes[i] + 8192); /* once, and not as digits */
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
        need(samba_graph_copy(g, &same));
        need(samba_graph_compare(read, same));
        OWN_TEXT *digits = text_of(read), *again = text_of(same);
        assert_string_equal(digits, again);
        need(samba_graph_copy(other, &live));
        refuse(samba_graph_compare(read, live), SAMBA_ERROR_STATE, "First difference");
        need(samba_graph_parse(context, digits, &whole));
        need(samba_graph_compare(whole, same));
    }
}

/* ---- buffers ---- */

TEST(buffers_change)
{
    OWN_GRAPH *g = graph_of("float32[3,5]");
    samba_value x = samba_input(g, "x"), sum = samba_register_buffer(g, "sum", SAMBA_FLOAT32, 1, SHAPE(5), zeros);
    samba_value steps = samba_register_buffer(g, "steps", SAMBA_INT64, 0, NULL, (samba_initializer){SAMBA_INIT_CONSTANT, 7, 0});
    samba_assign(sum, samba_add(sum, samba_sum(x, 1, (int[]){0}, false)));
    samba_assign(steps, samba_add(steps, samba_constant(g, 1, SAMBA_INT64, 0, NULL)));
    samba_output(g, "y", samba_mul(samba_linear(x, "lin", 5), sum)); /* reads what the buffer held before this run */
    need(samba_graph_status(g));
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options o = training_of("buffers", NULL, NULL, 0, NULL, &sgd);
    o.graph = g;
    OWN_SESSION *session = compile_and_open(&o, 2, 0);
    OWN_TENSOR *inputs = normal("x", SAMBA_FLOAT32, 2, SHAPE(3, 5), 1);
    const float *given = samba_tensor_data(inputs);
    samba_run_options run = giving(1, &inputs);
    for (int step = 1; step <= 3; step++) {
        int64_t count;
        need(samba_run(session, &run));
        OWN_TENSOR *sums = get(session, "sum"), *y = get(session, "y"), *found = get(session, "steps");
        for (int c = 0; c < 5; c++) {
            assert_float_equal((float)element_of(sums, c), (float)step * (given[c] + given[5 + c] + given[10 + c]), 1e-5);
            assert_true(step > 1 || element_of(y, c) == 0);
        }
        need(samba_tensor_item_int64(found, &count));
        assert_int_equal(count, 7 + step);
    }
}

static samba_value buffer(const char *name, samba_dtype dtype, int64_t size, samba_initializer initializer)
{
    return samba_register_buffer(traced, name, dtype, 1, &size, initializer);
}

static samba_value assigned(samba_value target, samba_value value)
{
    samba_assign(target, value);
    return target;
}

TEST(bad_buffers)
{
    trace("x float32[5]");
    wrong_as(SAMBA_ERROR_ARGUMENT, assigned(samba_neg(in("x")), in("x")), "assign: the target must be a buffer");
    wrong_as(SAMBA_ERROR_SHAPE, assigned(buffer("b", SAMBA_FLOAT32, 4, zeros), in("x")), "buffer \"b\" is float32");
    wrong_as(SAMBA_ERROR_DTYPE, buffer("b", SAMBA_INT64, 4, (samba_initializer){SAMBA_INIT_NORMAL, 0, 1}),
             "a floating-point dtype for random values");
    wrong_as(SAMBA_ERROR_NAME, buffer("", SAMBA_INT64, 4, zeros), "buffer: a name that is not empty");
    samba_value b = buffer("b", SAMBA_FLOAT32, 5, zeros);
    assert_int_equal(buffer("b", SAMBA_FLOAT32, 5, zeros).index, b.index); /* shared, like a parameter */
    wrong_as(SAMBA_ERROR_NAME, buffer("b", SAMBA_FLOAT32, 6, zeros), "b");
    untrace();
}

/* ---- copies and texts ---- */

TEST(copies_have_what_is_needed)
{
    OWN_GRAPH *g = graph_of("float32[5]"), *copy, *nothing;
    samba_value x = samba_input(g, "x");
    samba_exp(x); /* nobody needs it */
    samba_output(g, "y", samba_tanh(x));
    need(samba_graph_copy(g, &copy));
    OWN_TEXT *text = text_of(copy);
    assert_null(strstr(text, "exp"));
    assert_non_null(strstr(text, "tanh"));
    OWN_SESSION *session = inference_session(g, "model");
    assert_string_equal(samba_session_graph_text(session), text);
    samba_reshape(x, 1, SHAPE(4)); /* an error sticks */
    assert_int_equal(samba_graph_copy(g, &nothing), SAMBA_ERROR_SHAPE);
    assert_null(nothing);
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
    OWN_GRAPH *g, *copy = NULL;
    OWN_TENSOR *values = NULL;
    SAMBA_TRY(samba_graph_new(from, "memory", &g));
    samba_status status = samba_tensor_new(from, "x", SAMBA_FLOAT32, 1, SHAPE(50), &values);
    THEN(status, samba_graph_add_input(g, values));
    if (status == SAMBA_OK) {
        samba_value x = samba_input(g, "x"), b = samba_register_buffer(g, "b", SAMBA_FLOAT32, 1, SHAPE(50), zeros);
        samba_assign(b, samba_add(x, samba_constant_tensor(g, values)));
        samba_output(g, "y", samba_functional_layer_norm(b, 1, SHAPE(50), none, none, 1e-5));
        status = samba_graph_status(g);
    }
    THEN(status, samba_graph_copy(g, &copy));
    THEN(status, read_back(from, copy));
    return status;
}

TEST(refused_allocations) { fail_each_allocation(build, NULL); }

TEST_MAIN(layers_are_functions, what_is_left_out, wrong_shapes, tensors_in_the_graph, constants_in_memory, bad_constants,
          literals_beside_the_text, buffers_change, bad_buffers, copies_have_what_is_needed, refused_allocations)
