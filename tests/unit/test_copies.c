/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs and outputs of a run: large ones, copied by all threads as a part of the run, small ones, ones without elements and
 * views that are no single piece, for teams of 1 to 3; and a run that met bad data, which delivers nothing. */
#include "training.h"

enum { ROWS = 300, COLUMNS = 130, WIDTH = 9001 };

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

/* What a run takes and gives: inputs, then outputs. */
enum { X, Y, NONE, SUM, PRODUCT, FEW, NOTHING, THINGS };
static const struct {
    const char *name;
    int64_t shape[2];
} things[THINGS] = {{"x", {ROWS, COLUMNS}},    {"y", {ROWS, COLUMNS}}, {"none", {0, 7}},   {"sum", {ROWS, COLUMNS}},
                    {"product", {ROWS, ROWS}}, {"few", {2, COLUMNS}},  {"nothing", {0, 7}}};

static float at(const samba_tensor *t, int64_t row, int64_t column)
{
    const int64_t *strides = samba_tensor_strides(t);
    return ((const float *)samba_tensor_data(t))[row * strides[0] + column * strides[1]];
}

/* Bits of `strided`: which things are every second column of a tensor that is wider. */
static void check(const char *path, int threads, unsigned strided)
{
    samba_tensor *given[THINGS], *whole[THINGS];
    samba_session *session = kept_session(open_session(path, threads, 1));
    for (int i = 0; i < THINGS; i++) {
        const int64_t *shape = things[i].shape;
        bool view = strided >> i & 1;
        whole[i] = kept(normal(things[i].name, SAMBA_FLOAT32, 2, SHAPE(shape[0], shape[1] * (view ? 2 : 1)), 3 + (uint64_t)i));
        need(samba_tensor_slice(whole[i], 1, 0, shape[1] * (view ? 2 : 1), view ? 2 : 1, &given[i]));
        need(samba_tensor_set_name(kept(given[i]), things[i].name));
    }
    samba_run_options run = giving(SUM, given);
    run.outputs = given + SUM;
    run.output_count = THINGS - SUM;
    for (int again = 0; again < 2; again++) {
        need(samba_run(session, &run));
        OWN_TENSOR *product = get(session, "product");
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < COLUMNS; j++) {
                assert_true(at(given[SUM], i, j) == at(given[X], i, j) + at(given[Y], i, j));
                assert_true(i >= 2 || at(given[FEW], i, j) == at(given[X], i + 1, j));
            }
            for (int64_t j = 0; j < ROWS; j++)
                assert_true(at(given[PRODUCT], i, j) == at(product, i, j));
        }
        need(samba_fill_normal(whole[X], 77, 0, 1)); /* the next run sees it */
    }
    drop_kept(NULL);
}

TEST(test_copies)
{
    samba_tensor *examples[SUM];
    for (int i = 0; i < SUM; i++)
        examples[i] = kept(tensor(things[i].name, SAMBA_FLOAT32, 2, things[i].shape));
    samba_compile_options options = inference_of("copies", model, NULL, SUM, examples);
    char path[512];
    need(samba_compile(context, &options, path, sizeof path));
    for (int threads = 1; threads <= 3; threads++)
        for (unsigned views = 0; views < 32; views++) /* all but those without elements */
            check(path, threads, (views & 3) | (views >> 2) << SUM);
}

/* The run fails, and what the caller's tensors held they still hold; with a good index they get all rows. */
TEST(test_fault)
{
    enum { COUNT = 600 };
    samba_tensor *index = kept(tensor("index", SAMBA_INT64, 1, SHAPE(COUNT))),
                 *rows = kept(tensor("rows", SAMBA_FLOAT32, 2, SHAPE(COUNT, WIDTH)));
    samba_compile_options options = inference_of("lookup", lookup, NULL, 1, &index);
    for (int threads = 1; threads <= 3; threads++) {
        samba_session *session = open_kept(&options, threads, 1);
        int64_t *indices = samba_tensor_data(index);
        float *values = samba_tensor_data(rows);
        samba_run_options run = giving(1, &index);
        run.outputs = &rows, run.output_count = 1;
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
        samba_tensor *words = kept(get(session, "words.weight"));
        for (int64_t i = 0; i < COUNT; i++)
            assert_memory_equal(values + i * WIDTH, (float *)samba_tensor_data(words) + (indices[i] + 1) * WIDTH,
                                WIDTH * sizeof(float));
    }
}

TEST_MAIN_WITH(NULL, drop_kept, test_copies, test_fault)
