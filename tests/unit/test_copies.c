/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs and outputs of a run: large ones, copied by all threads as a part of the run, small ones, ones without elements and
 * views that are no single piece, for teams of 1 to 3; the null device, which gives back what it got; and a run that met bad
 * data, which delivers nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "training.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

enum { ROWS = 300, COLUMNS = 130, WIDTH = 9001, INPUTS = 3, OUTPUTS = 4 };

MODEL(model)
{
    samba_value x = samba_input(g, "x"), y = samba_input(g, "y");
    samba_output(g, "sum", samba_add(x, y));
    samba_output(g, "product", samba_matmul(x, samba_transpose(samba_linear(y, "fc", COLUMNS), 0, 1))); /* worth a team */
    samba_output(g, "few", samba_slice(x, 0, 1, 3, 1));
    samba_output(g, "nothing", samba_add_scalar(samba_input(g, "none"), 1));
}

MODEL(lookup) /* the index is computed, so nobody looks at it before the run */
{
    samba_value rows =
        samba_embedding(samba_add(samba_input(g, "index"), samba_constant(g, 1, SAMBA_INT64, 0, NULL)), "words", 4, WIDTH);
    samba_output(g, "rows", rows);
    samba_output(g, "product", samba_matmul(rows, samba_transpose(rows, 0, 1)));
}

/* A tensor, or every second column of one that is wider. */
static samba_tensor *host(const char *name, const int64_t *shape, bool strided, uint64_t seed, samba_tensor **whole)
{
    samba_tensor *view;
    *whole = normal(name, SAMBA_FLOAT32, 2, SHAPE(shape[0], shape[1] * (strided ? 2 : 1)), seed);
    if (!strided)
        return *whole;
    need(samba_tensor_slice(*whole, 1, 0, 2 * shape[1], 2, &view));
    need(samba_tensor_set_name(view, name));
    return view;
}

static float at(const samba_tensor *t, int64_t row, int64_t column)
{
    const int64_t *strides = samba_tensor_strides(t);
    return ((const float *)samba_tensor_data(t))[row * strides[0] + column * strides[1]];
}

/* Bits of `strided`: which tensors are views. */
static void check(const char *path, int threads, unsigned strided)
{
    static const char *const in_names[INPUTS] = {"x", "y", "none"}, *const out_names[OUTPUTS] = {"sum", "product", "few",
                                                                                                 "nothing"};
    static const int64_t in_shapes[INPUTS][2] = {{ROWS, COLUMNS}, {ROWS, COLUMNS}, {0, 7}};
    static const int64_t out_shapes[OUTPUTS][2] = {{ROWS, COLUMNS}, {ROWS, ROWS}, {2, COLUMNS}, {0, 7}};
    samba_tensor *in[INPUTS], *out[OUTPUTS], *whole_in[INPUTS], *whole_out[OUTPUTS];
    samba_session *session = open_session(path, threads, 1);
    samba_run_options run = samba_run_defaults();
    for (int i = 0; i < INPUTS; i++)
        in[i] = host(in_names[i], in_shapes[i], i < 2 && strided >> i & 1, 3 + (uint64_t)i, &whole_in[i]);
    for (int i = 0; i < OUTPUTS; i++)
        out[i] = host(out_names[i], out_shapes[i], i < 3 && strided >> (2 + i) & 1, 9, &whole_out[i]);
    run.inputs = in;
    run.input_count = INPUTS;
    run.outputs = out;
    run.output_count = OUTPUTS;
    for (int again = 0; again < 2; again++) {
        need(samba_run(session, &run));
        samba_tensor *product = get(session, "product");
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < COLUMNS; j++) {
                assert_true(at(out[0], i, j) == at(in[0], i, j) + at(in[1], i, j));
                assert_true(i >= 2 || at(out[2], i, j) == at(in[0], i + 1, j));
            }
            for (int64_t j = 0; j < ROWS; j++)
                assert_true(at(out[1], i, j) == at(product, i, j));
        }
        samba_tensor_free(product);
        need(samba_fill_normal(whole_in[0], 77, 0, 1)); /* the next run sees it */
    }
    for (int i = 0; i < INPUTS; i++) {
        if (in[i] != whole_in[i])
            samba_tensor_free(in[i]);
        samba_tensor_free(whole_in[i]);
    }
    for (int i = 0; i < OUTPUTS; i++) {
        if (out[i] != whole_out[i])
            samba_tensor_free(out[i]);
        samba_tensor_free(whole_out[i]);
    }
    samba_session_free(session);
}

TEST(test_copies)
{
    samba_tensor *examples[INPUTS] = {tensor("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, COLUMNS)),
                                      tensor("y", SAMBA_FLOAT32, 2, SHAPE(ROWS, COLUMNS)),
                                      tensor("none", SAMBA_FLOAT32, 2, SHAPE(0, 7))};
    samba_compile_options options = compile_of("copies", model, NULL, INPUTS, examples);
    char path[512];
    options.inference = true;
    need(samba_compile(context, &options, path, sizeof path));
    for (int threads = 1; threads <= 3; threads++)
        for (unsigned strided = 0; strided < 32; strided++)
            check(path, threads, strided);
    for (int i = 0; i < INPUTS; i++)
        samba_tensor_free(examples[i]);
}

/* The run fails, and what the caller's tensors held they still hold; with a good index they get all rows. */
TEST(test_fault)
{
    enum { COUNT = 600 };
    samba_tensor *index = tensor("index", SAMBA_INT64, 1, SHAPE(COUNT)),
                 *rows = tensor("rows", SAMBA_FLOAT32, 2, SHAPE(COUNT, WIDTH));
    samba_compile_options options = compile_of("lookup", lookup, NULL, 1, &index);
    char path[512];
    options.inference = true;
    need(samba_compile(context, &options, path, sizeof path));
    for (int threads = 1; threads <= 3; threads++) {
        samba_session *session = open_session(path, threads, 1);
        samba_run_options run = samba_run_defaults();
        int64_t *indices = samba_tensor_data(index);
        float *values = samba_tensor_data(rows);
        run.inputs = &index;
        run.input_count = 1;
        run.outputs = &rows;
        run.output_count = 1;
        for (int64_t i = 0; i < COUNT; i++)
            indices[i] = i % 4 - 1;
        for (int64_t i = 0; i < COUNT * WIDTH; i++)
            values[i] = 5;
        indices[COUNT - 1] = 7;
        refuse(samba_run(session, &run), SAMBA_ERROR_ARGUMENT, "out of range");
        for (int64_t i = 0; i < COUNT * WIDTH; i++)
            assert_true(values[i] == 5);
        indices[COUNT - 1] = 2;
        need(samba_run(session, &run));
        samba_tensor *words = get(session, "words.weight");
        for (int64_t i = 0; i < COUNT; i++)
            assert_memory_equal(values + i * WIDTH, (float *)samba_tensor_data(words) + (indices[i] + 1) * WIDTH,
                                WIDTH * sizeof(float));
        samba_tensor_free(words);
        samba_session_free(session);
    }
    samba_tensor_free(rows);
    samba_tensor_free(index);
}

static int setup(void **unused)
{
    (void)unused;
    return training_begin() ? 0 : 1;
}

static int teardown(void **unused)
{
    (void)unused;
    return training_end(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies), cmocka_unit_test(test_fault)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
