/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers over weights as they are kept: compiled for every instruction set, by 1 and 2 threads, against the reference
 * kernels, whatever the form of the weights, in odd sizes, those of 0 and 1 among them, of few rows and of many. A row gives the
 * same bits alone and among up to 12, and whatever the number of threads. What is refused: values/matmul.txt. */
#include "training.h"
#include "device/cpu/kernel.h"
#include <sambaflow/linalg.h>

typedef enum layer_form { FLOAT, FLOAT_TURNED, BFLOAT, BFLOAT_TURNED, EIGHT, FOUR, FORMS } layer_form;

static float drawn(void) { return (float)((int)(next_random() % 2001) - 1000) / 500; }

static samba_tensor *filled(const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *made = tensor(name, dtype, rank, shape);
    for (int64_t i = 0; i < samba_tensor_numel(made); i++) {
        char *at = (char *)samba_tensor_data(made) + (size_t)i * samba_dtype_size(dtype);
        if (dtype == SAMBA_INT8 || dtype == SAMBA_UINT8)
            *at = (char)next_random();
        else
            samba_store_double(dtype, at, (double)drawn());
    }
    return made;
}

typedef struct layer {
    layer_form form;
    int64_t m, n, k;
    samba_tensor *inputs[3];
    int count;
} layer;

static layer make_layer(layer_form form, int64_t m, int64_t n, int64_t k)
{
    const bool turned = form == FLOAT_TURNED || form == BFLOAT_TURNED;
    layer l = {.form = form, .m = m, .n = n, .k = k, .count = form == EIGHT || form == FOUR ? 3 : 2};
    l.inputs[0] = filled("x", SAMBA_FLOAT32, 2, (int64_t[]){m, k});
    if (form == FOUR) {
        l.inputs[1] = filled("w", SAMBA_UINT8, 3, (int64_t[]){n, k / 32, 16});
        l.inputs[2] = filled("s", SAMBA_FLOAT16, 3, (int64_t[]){n, k / 32, 1});
        return l;
    }
    const samba_dtype dtype = form == EIGHT ? SAMBA_INT8 : form >= BFLOAT ? SAMBA_BFLOAT16 : SAMBA_FLOAT32;
    l.inputs[1] = filled("w", dtype, 2, (int64_t[]){turned ? k : n, turned ? n : k});
    if (form == EIGHT)
        l.inputs[2] = filled("s", SAMBA_FLOAT32, 2, (int64_t[]){n, 1});
    return l;
}

static samba_tensor *run(const layer *l, const samba_function_options *options)
{
    OWN_GRAPH *g;
    samba_function *made;
    samba_value value[3] = {{0}};
    samba_tensor *y = tensor("y", SAMBA_FLOAT32, SIZES(l->m, l->n));
    need(samba_graph_new(context, "layer", &g));
    for (int i = 0; i < l->count; i++) {
        need(samba_graph_add_input(g, l->inputs[i]));
        value[i] = samba_input(g, samba_tensor_name(l->inputs[i]));
    }
    const bool turned = l->form == FLOAT_TURNED || l->form == BFLOAT_TURNED;
    samba_output(g, "y", samba_stored_linear(value[0], value[1], value[2], turned));
    need(samba_function_new(context, g, options, &made));
    need(samba_function_run(made, (samba_tensor **)(uintptr_t)l->inputs, &y));
    samba_function_free(made);
    return y;
}

static void check_layer(const layer *l)
{
    OWN_TENSOR *by_reference = run(l, FUNCTION(.reference = true));
    const float *expected = samba_tensor_data(by_reference);
    SAMBA_EACH_ISA (isa) {
        OWN_TENSOR *one = run(l, FUNCTION(.threads = 1, .isa = samba_isa_names[isa]));
        OWN_TENSOR *two = run(l, FUNCTION(.threads = l->m < 128 ? 2 : 2 + (int)(next_random() % 6), .isa = samba_isa_names[isa]));
        const float *given = samba_tensor_data(one);
        for (int64_t i = 0; i < l->m * l->n; i++) {
            /* elements up to 2, and of integers up to 127 scales of 2 */
            const double most = 2 * (l->form == EIGHT ? 256 : l->form == FOUR ? 16 : 2) * (double)l->k;
            if (!(fabs((double)given[i] - (double)expected[i]) <= most * 3e-7))
                fail_msg("%s, form %d, %lld x %lld x %lld: element %lld is %.9g, expected %.9g", samba_isa_names[isa], l->form,
                         (long long)l->m, (long long)l->n, (long long)l->k, (long long)i, (double)given[i], (double)expected[i]);
        }
        if (l->m * l->n > 0)
            assert_memory_equal(given, samba_tensor_data(two), (size_t)(l->m * l->n) * sizeof(float));
        if (l->form == FOUR && l->m * l->n > 0) { /* whatever instructions add products of bytes */
            setenv("TEST_NO_BYTE_SUMS", "1", 1);
            OWN_TENSOR *plain = run(l, FUNCTION(.threads = 1, .isa = samba_isa_names[isa]));
            unsetenv("TEST_NO_BYTE_SUMS");
            assert_memory_equal(given, samba_tensor_data(plain), (size_t)(l->m * l->n) * sizeof(float));
        }
    }
}

static void free_layer(layer *l)
{
    for (int i = 0; i < l->count; i++)
        samba_tensor_free(l->inputs[i]);
}

static void check_sizes(layer_form form, int64_t m, int64_t n, int64_t k)
{
    layer l = make_layer(form, m, n, form == FOUR ? k / 32 * 32 : k);
    check_layer(&l);
    free_layer(&l);
}

TEST(test_forms)
{
    static const int64_t ks[] = {0, 1, 7, 8, 31, 32, 33, 64, 96, 160, 224}, ns[] = {0, 1, 2, 3, 15, 17, 33, 40};
    seed_anew();
    for (int f = 0; f < FORMS; f++) {
        for (int64_t m = 0; m <= 13; m++)
            check_sizes((layer_form)f, m, ns[next_random() % LENGTH(ns)], ks[next_random() % LENGTH(ks)]);
        for (int i = 0; i < LENGTH(ks); i++)
            check_sizes((layer_form)f, 1 + (int64_t)(next_random() % 5), 1 + (int64_t)(next_random() % 20), ks[i]);
        for (int i = 0; i < LENGTH(ns); i++)
            check_sizes((layer_form)f, 1 + (int64_t)(next_random() % 20), ns[i], ks[next_random() % LENGTH(ks)]);
        check_sizes((layer_form)f, 19, 70, 544); /* more than a step of k */
        check_sizes((layer_form)f, 33, 37, 1060);
        check_sizes((layer_form)f, 21, 66, 1664); /* more than two, also of long steps */
        check_sizes((layer_form)f, 3, 700, 576);
        check_sizes((layer_form)f, 130, 70, 64); /* rows in parts, beside too few columns for all threads */
        check_sizes((layer_form)f, 128 + (int64_t)(next_random() % 200), 1 + (int64_t)(next_random() % 400), 96);
    }
}

/* ---- a row among others ---- */

TEST(test_rows_alone)
{
    enum { M = 12, N = 37, K = 96 };
    seed_anew();
    for (int f = 0; f < FORMS; f++) {
        layer all = make_layer((layer_form)f, M, N, K);
        SAMBA_EACH_ISA (isa) {
            OWN_TENSOR *together = run(&all, FUNCTION(.threads = 1, .isa = samba_isa_names[isa]));
            for (int64_t i = 0; i < M; i++) {
                layer one = all;
                one.m = 1;
                one.inputs[0] = tensor("x", SAMBA_FLOAT32, SIZES(1, K));
                memcpy(samba_tensor_data(one.inputs[0]), (const float *)samba_tensor_data(all.inputs[0]) + i * K,
                       K * sizeof(float));
                OWN_TENSOR *alone = run(&one, FUNCTION(.threads = 2, .isa = samba_isa_names[isa]));
                assert_memory_equal(samba_tensor_data(alone), (const float *)samba_tensor_data(together) + i * N,
                                    N * sizeof(float));
                samba_tensor_free(one.inputs[0]);
            }
        }
        free_layer(&all);
    }
}

/* ---- several layers of one input ---- */

/* Threads go through them without meeting; the smallest join a large one, and each has its own working memory. */
static void check_several(layer_form form, int64_t m, int64_t k, const int64_t ns[4])
{
    layer layers[4];
    samba_tensor *y[2][4], *inputs[4][3];
    for (int i = 0; i < 4; i++) {
        layers[i] = make_layer(form, m, ns[i], k);
        memcpy(inputs[i], layers[i].inputs, sizeof inputs[i]);
    }
    for (int threads = 1; threads <= 2; threads++) {
        OWN_GRAPH *g;
        samba_function *made;
        samba_tensor *all[9] = {layers[0].inputs[0]};
        int count = 1;
        need(samba_graph_new(context, "layers", &g));
        need(samba_graph_add_input(g, all[0]));
        samba_value x = samba_input(g, "x");
        for (int i = 0; i < 4; i++) {
            char name[8];
            samba_value value[3] = {{0}};
            snprintf(name, sizeof name, "y%d", i);
            y[threads - 1][i] = tensor(name, SAMBA_FLOAT32, SIZES(m, ns[i]));
            for (int of = 1; of < layers[i].count; of++) {
                char other[8];
                snprintf(other, sizeof other, "%c%d", of == 1 ? 'w' : 's', i);
                samba_tensor *t = inputs[i][of];
                samba_tensor *named = tensor(other, samba_tensor_dtype(t), samba_tensor_rank(t), samba_tensor_shape(t));
                memcpy(samba_tensor_data(named), samba_tensor_data(t),
                       (size_t)samba_tensor_numel(t) * samba_dtype_size(samba_tensor_dtype(t)));
                need(samba_graph_add_input(g, named));
                value[of] = samba_input(g, other);
                all[count++] = named;
            }
            samba_output(g, name, samba_stored_linear(x, value[1], value[2], form == BFLOAT_TURNED));
        }
        need(samba_function_new(context, g, FUNCTION(.threads = threads), &made));
        need(samba_function_run(made, all, y[threads - 1]));
        samba_function_free(made);
        for (int i = 1; i < count; i++)
            samba_tensor_free(all[i]);
    }
    for (int i = 0; i < 4; i++) {
        if (m * ns[i] > 0)
            assert_memory_equal(samba_tensor_data(y[0][i]), samba_tensor_data(y[1][i]), (size_t)(m * ns[i]) * sizeof(float));
        OWN_TENSOR *alone = run(&(layer){form, m, ns[i], k, {layers[0].inputs[0], inputs[i][1], inputs[i][2]}, layers[i].count},
                                FUNCTION(.threads = 1));
        if (m * ns[i] > 0)
            assert_memory_equal(samba_tensor_data(y[1][i]), samba_tensor_data(alone), (size_t)(m * ns[i]) * sizeof(float));
        samba_tensor_free(y[0][i]);
        samba_tensor_free(y[1][i]);
    }
    for (int i = 0; i < 4; i++)
        free_layer(&layers[i]);
}

TEST(test_layers_of_one_input)
{
    static const layer_form forms[] = {BFLOAT, BFLOAT_TURNED, EIGHT, FOUR};
    seed_anew();
    for (int turn = 0; turn < 12; turn++)
        for (int f = 0; f < LENGTH(forms); f++) {
            int64_t ns[4];
            for (int i = 0; i < 4; i++)
                ns[i] = next_random() % 3 == 0 ? (int64_t)(next_random() % 4) : 1 + (int64_t)(next_random() % 900);
            check_several(forms[f], 1 + (int64_t)(next_random() % 14), 32 * (int64_t)(1 + next_random() % 20), ns);
        }
}

TEST_MAIN(test_forms, test_rows_alone, test_layers_of_one_input)
