/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as functions of host tensors: values against arithmetic, gradients and second derivatives against central differences in
 * float64, views, tensors of no and of one element, outputs over inputs, dropout, what is refused,
 * and that a run allocates nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "training.h"
#include <sambaflow/function.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

#define STEP 1e-5
#define TOLERANCE 1e-7 /* relative: an error of STEP^2 in the difference, and rounding / STEP */

typedef samba_value operation(samba_value x, samba_value y);

static samba_graph *graph_of(operation *op, const samba_tensor *x, const samba_tensor *y)
{
    samba_graph *g;
    need(samba_graph_new(context, "f", &g));
    need(samba_graph_add_input(g, x));
    need(samba_graph_add_input(g, y));
    samba_output(g, "z", op(samba_input(g, "x"), samba_input(g, "y")));
    need(samba_graph_status(g));
    return g;
}

static bool by_reference; /* whether functions are evaluated by the reference kernels: the same tests again */

static samba_function *function_of(const samba_graph *g)
{
    samba_function *f;
    samba_function_options options = samba_function_defaults(); /* as many threads as OpenMP offers: valgrind asks for one */
    options.reference = by_reference;
    need(samba_function_new(context, g, by_reference ? &options : NULL, &f));
    return f;
}

static samba_tensor *output_of(const samba_function *f, int index)
{
    samba_tensor_info info;
    need(samba_function_output(f, index, &info));
    return tensor(info.name, info.dtype, info.rank, info.shape);
}

static double at(const samba_tensor *t, int64_t i)
{
    return samba_load_double(samba_tensor_dtype(t),
                             (const char *)samba_tensor_data(t) + i * (int64_t)samba_dtype_size(samba_tensor_dtype(t)));
}

/* ---- values ---- */

/* One row of a product takes the memory of what is added to it, which looks like a bias. */
static samba_value row_plus(samba_value x, samba_value y)
{
    samba_value w = samba_constant(x.graph, 0.5, SAMBA_FLOAT32, 2, SHAPE(512, 640));
    return samba_add(samba_matmul(x, w), samba_mul(y, y));
}

static void row_over_what_is_added(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(1, 512), 1), *y = normal("y", SAMBA_FLOAT32, 1, SHAPE(640), 2);
    samba_graph *g = graph_of(row_plus, x, y);
    samba_function *f = function_of(g);
    samba_tensor *z = output_of(f, 0);
    need(samba_function_run(f, (samba_tensor *[]){x, y}, &z));
    double sum = 0;
    for (int64_t i = 0; i < 512; i++)
        sum += 0.5 * at(x, i);
    for (int64_t i = 0; i < 640; i++)
        assert_true(fabs(at(z, i) - sum - at(y, i) * at(y, i)) < 1e-4);
    samba_function_free(f);
    samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(z);
}

static samba_value times_plus(samba_value x, samba_value y) { return samba_add(samba_mul(x, y), x); }

static void values_and_repeats(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(3, 4), 1), *y = normal("y", SAMBA_FLOAT32, 1, SHAPE(4), 2);
    samba_graph *g = graph_of(times_plus, x, y);
    samba_function *f = function_of(g);
    samba_graph_free(g); /* not needed any more */
    assert_int_equal(samba_function_input_count(f), 2);
    assert_int_equal(samba_function_output_count(f), 1);
    samba_tensor_info info;
    need(samba_function_input(f, 1, &info));
    assert_string_equal(info.name, "y");
    samba_memory_info memory;
    need(samba_function_memory(f, &memory));
    assert_true(memory.total >= (12 + 4 + 12) * 4);
    samba_tensor *z = output_of(f, 0);
    for (uint64_t round = 0; round < 3; round++) {
        need(samba_fill_normal(x, 10 + round, 0, 1));
        if (round == 1) {
            need(samba_function_run_memory(f, (void *[]){samba_tensor_data(x), samba_tensor_data(y)},
                                           (void *[]){samba_tensor_data(z)}));
        } else {
            need(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){z}));
        }
        for (int64_t i = 0; i < 12; i++)
            assert_float_equal(at(z, i), at(x, i) * at(y, i % 4) + at(x, i), 1e-6);
    }
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(z);
    samba_function_free(f);
    samba_function_free(NULL);
}

static void views_and_places(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(3, 4), 1), *y = normal("y", SAMBA_FLOAT32, 1, SHAPE(4), 2);
    samba_graph *g = graph_of(times_plus, x, y);
    samba_function *f = function_of(g);
    samba_tensor *z = output_of(f, 0), *turned = normal("x", SAMBA_FLOAT32, 2, SHAPE(4, 3), 3),
                 *turned_z = tensor("z", SAMBA_FLOAT32, 2, SHAPE(4, 3));
    samba_tensor *view, *view_z, *wide;
    need(samba_tensor_permute(turned, (const int[]){1, 0}, &view));
    need(samba_tensor_permute(turned_z, (const int[]){1, 0}, &view_z));
    need(samba_function_run(f, (samba_tensor *[]){view, y}, (samba_tensor *[]){view_z}));
    for (int64_t r = 0; r < 3; r++)
        for (int64_t c = 0; c < 4; c++)
            assert_float_equal(at(turned_z, c * 3 + r), at(turned, c * 3 + r) * (at(y, c) + 1), 1e-6);
    need(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){z}));
    need(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){x})); /* over its own input */
    assert_memory_equal(samba_tensor_data(x), samba_tensor_data(z), 12 * sizeof(float));
    need(samba_tensor_expand(y, 2, SHAPE(3, 4), &wide));
    need(samba_function_run(f, (samba_tensor *[]){wide, y}, (samba_tensor *[]){z}));
    assert_float_equal(at(z, 5), at(y, 1) * (at(y, 1) + 1), 1e-6);
    refuse(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){wide}), SAMBA_ERROR_ARGUMENT, "share memory");
    samba_tensor *const all[] = {x, y, z, turned, turned_z, view, view_z, wide};
    for (int i = 0; i < SAMBA_COUNT(all); i++)
        samba_tensor_free(all[i]);
    samba_function_free(f);
    samba_graph_free(g);
}

static samba_value sum_of_product(samba_value x, samba_value y) { return samba_sum(samba_mul(x, y), 0, NULL, false); }
static samba_value first_alone(samba_value x, samba_value y)
{
    (void)y;
    return x;
}

static void no_elements_and_one(void **state)
{
    (void)state;
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(0, 4)), *y = normal("y", SAMBA_FLOAT32, 1, SHAPE(4), 2);
    samba_graph *g = graph_of(times_plus, x, y), *gradient;
    samba_function *f = function_of(g);
    samba_tensor *z = output_of(f, 0);
    need(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){z}));
    need(samba_function_run_memory(f, (void *[]){NULL, samba_tensor_data(y)}, (void *[]){NULL}));
    samba_function_free(f), samba_tensor_free(z), samba_graph_free(g);

    g = graph_of(sum_of_product, x, y); /* the sum of nothing; and its gradients */
    f = function_of(g);
    z = output_of(f, 0);
    need(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){z}));
    assert_true(at(z, 0) == 0);
    samba_function_free(f);
    need(samba_graph_gradient(g, 1, (const char *[]){"y"}, &gradient));
    f = function_of(gradient);
    samba_tensor *dy = output_of(f, 0);
    need(samba_fill_normal(dy, 1, 0, 1));
    samba_tensor *given[2];
    int count = samba_function_input_count(f);
    for (int i = 0; i < count; i++) {
        samba_tensor_info info;
        need(samba_function_input(f, i, &info));
        given[i] = strcmp(info.name, "x") == 0 ? x : z;
    }
    need(samba_function_run(f, given, &dy));
    for (int64_t i = 0; i < 4; i++)
        assert_true(at(dy, i) == 0);
    samba_function_free(f), samba_graph_free(gradient), samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(z), samba_tensor_free(dy);

    x = normal("x", SAMBA_BFLOAT16, 0, NULL, 5);
    y = normal("y", SAMBA_BFLOAT16, 0, NULL, 6);
    g = graph_of(first_alone, x, y); /* nothing to compute */
    f = function_of(g);
    z = output_of(f, 0);
    need(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){z}));
    assert_true(at(z, 0) == at(x, 0));
    samba_function_free(f), samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(z);
}

/* ---- in place ---- */

enum { LARGE = 192 }; /* squared, of float32: more than IN_PLACE_BYTES */

static samba_value two_steps(samba_value x, samba_value y) { return samba_softmax(samba_matmul(x, samba_exp(y)), -1); }

static samba_tensor *unaligned_copy(const samba_tensor *source, char **memory)
{
    samba_tensor *copy;
    *memory = malloc((size_t)samba_tensor_numel(source) * sizeof(float) + 128);
    assert_non_null(*memory);
    char *place = *memory + 64 - (uintptr_t)*memory % 64 + 4;
    need(samba_tensor_from_memory(context, "x", SAMBA_FLOAT32, 2, samba_tensor_shape(source), NULL, place, NULL, NULL, &copy));
    need(samba_tensor_copy(copy, source));
    return copy;
}

/* Wherever tensors lie, results are the same bits. */
static void large_tensors_stay(void **state)
{
    (void)state;
    operation *const ops[] = {times_plus, two_steps, samba_matmul};
    const size_t bytes = sizeof(float) * LARGE * LARGE;
    for (int k = 0; k < SAMBA_COUNT(ops); k++) {
        samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(LARGE, LARGE), 21),
                     *y = normal("y", SAMBA_FLOAT32, 2, SHAPE(LARGE, LARGE), 22);
        samba_graph *g = graph_of(ops[k], x, y);
        samba_function *f = function_of(g);
        samba_memory_info memory;
        need(samba_function_memory(f, &memory));
        assert_int_equal(memory.inputs_outputs, 0);
        samba_tensor *z = output_of(f, 0), *again = output_of(f, 0), *turned = tensor("t", SAMBA_FLOAT32, 2, SHAPE(LARGE, LARGE)),
                     *view;
        need(samba_tensor_permute(turned, (const int[]){1, 0}, &view));
        need(samba_tensor_copy(view, x));
        char *place, *behind;
        samba_tensor *odd = unaligned_copy(x, &place), *odd_z = unaligned_copy(x, &behind);
        need(samba_function_run(f, (samba_tensor *[]){x, y}, &z));
        assert_float_equal(at(z, 7), k == 0 ? at(x, 7) * at(y, 7) + at(x, 7) : at(z, 7), 1e-5);
        for (int64_t i = 0; i < LARGE && k == 2; i++) { /* one row of the product by hand */
            double sum = 0;
            for (int64_t j = 0; j < LARGE; j++)
                sum += at(x, 2 * LARGE + j) * at(y, j * LARGE + i);
            assert_float_equal(at(z, 2 * LARGE + i), sum, 1e-3);
        }
        samba_tensor *const given[] = {view, odd, x}, *const wanted[] = {again, odd_z, again};
        for (int i = 0; i < 3; i++) {
            need(samba_function_run(f, (samba_tensor *[]){given[i], y}, (samba_tensor *const *)&wanted[i]));
            assert_memory_equal(samba_tensor_data(wanted[i]), samba_tensor_data(z), bytes);
            need(samba_fill_normal((samba_tensor *)wanted[i], 5, 0, 1));
        }
        need(samba_function_run(f, (samba_tensor *[]){view, y}, &view)); /* a view over itself */
        need(samba_tensor_copy(again, view));
        assert_memory_equal(samba_tensor_data(again), samba_tensor_data(z), bytes);
        need(samba_function_run(f, (samba_tensor *[]){x, y}, &y)); /* over an input that later steps still read */
        assert_memory_equal(samba_tensor_data(y), samba_tensor_data(z), bytes);
        refuse(samba_function_run(f, (samba_tensor *[]){x, NULL}, &z), SAMBA_ERROR_ARGUMENT, "input 1 of the run is NULL");
        samba_tensor *const all[] = {x, y, z, again, turned, view, odd, odd_z};
        for (int i = 0; i < SAMBA_COUNT(all); i++)
            samba_tensor_free(all[i]);
        free(place), free(behind);
        samba_function_free(f), samba_graph_free(g);
    }
}

/* ---- gradients ---- */

static samba_value product(samba_value x, samba_value y) { return samba_matmul(samba_tanh(x), y); }
static samba_value activations(samba_value x, samba_value y) { return samba_mul(samba_gelu(x), samba_sigmoid(samba_exp(y))); }
static samba_value normed(samba_value x, samba_value y)
{
    return samba_functional_layer_norm(x, 1, SHAPE(4), samba_sum(y, 1, (const int[]){0}, false), (samba_value){0}, 1e-5);
}
static samba_value distribution(samba_value x, samba_value y) { return samba_add(samba_softmax(x, -1), samba_log_softmax(y, 0)); }
static samba_value attended(samba_value x, samba_value y)
{
    return samba_scaled_dot_product_attention(x, y, samba_mul(x, y), NULL);
}
static samba_value images(samba_value x, samba_value y)
{
    samba_value image = samba_reshape(x, 4, SHAPE(1, 1, 4, 4)), kernel = samba_reshape(y, 4, SHAPE(4, 1, 2, 2));
    return samba_max_pool2d(samba_functional_conv2d(image, kernel, (samba_value){0}, NULL), (const int64_t[]){2, 2}, NULL);
}
static samba_value shapes(samba_value x, samba_value y)
{
    samba_value both = samba_concat(2, (samba_value[]){samba_slice(x, 0, 1, 4, 2), samba_transpose(y, 0, 1)}, 0);
    return samba_where(samba_gt(both, samba_mul_scalar(both, 0)), samba_mul(both, both), samba_neg(both));
}

static double weighted(samba_function *f, samba_tensor *const *inputs, samba_tensor *z, const samba_tensor *weights)
{
    double sum = 0;
    need(samba_function_run(f, inputs, &z));
    for (int64_t i = 0; i < samba_tensor_numel(z); i++)
        sum += at(z, i) * at(weights, i);
    return sum;
}

/* The gradients of `op`, or of those gradients, against differences of the function itself. */
static void check_gradient(const samba_graph *g, samba_tensor *const *inputs, int input_count, int wanted)
{
    samba_function *f = function_of(g);
    samba_tensor *z = output_of(f, 0), *given[8];
    samba_tensor_info info;
    need(samba_function_output(f, 0, &info));
    char name[64];
    snprintf(name, sizeof name, "%s.grad", info.name);
    samba_tensor *weights = normal(name, SAMBA_FLOAT64, info.rank, info.shape, 77);
    const char *names[2];
    for (int i = 0; i < wanted; i++)
        names[i] = samba_tensor_name(inputs[i]);
    samba_graph *gradient;
    need(samba_graph_gradient(g, wanted, names, &gradient));
    samba_function *df = function_of(gradient);
    for (int i = 0; i < samba_function_input_count(df); i++) {
        need(samba_function_input(df, i, &info));
        given[i] = strcmp(info.name, name) == 0 ? weights : NULL;
        for (int k = 0; k < input_count; k++)
            given[i] = strcmp(info.name, samba_tensor_name(inputs[k])) == 0 ? inputs[k] : given[i];
        assert_non_null(given[i]);
    }
    samba_tensor *gradients[2];
    for (int i = 0; i < wanted; i++)
        gradients[i] = output_of(df, i);
    need(samba_function_run(df, given, gradients));
    for (int k = 0; k < wanted; k++)
        for (int64_t i = 0; i < samba_tensor_numel(inputs[k]); i++) {
            double *place = (double *)samba_tensor_data(inputs[k]) + i, value = *place;
            *place = value + STEP;
            double above = weighted(f, inputs, z, weights);
            *place = value - STEP;
            double difference = (above - weighted(f, inputs, z, weights)) / (2 * STEP);
            *place = value;
            if (!(fabs(at(gradients[k], i) - difference) <= TOLERANCE * (1 + fabs(difference))))
                fail_msg("gradient %d[%lld]: %.12g, difference %.12g", k, (long long)i, at(gradients[k], i), difference);
        }
    for (int i = 0; i < wanted; i++)
        samba_tensor_free(gradients[i]);
    samba_function_free(f), samba_function_free(df), samba_graph_free(gradient);
    samba_tensor_free(z), samba_tensor_free(weights);
}

static void gradients(void **state)
{
    (void)state;
    operation *const ops[] = {times_plus, product, activations, normed, distribution, attended, images, shapes, sum_of_product};
    samba_tensor *inputs[2] = {normal("x", SAMBA_FLOAT64, 2, SHAPE(4, 4), 11), normal("y", SAMBA_FLOAT64, 2, SHAPE(4, 4), 12)};
    for (int i = 0; i < SAMBA_COUNT(ops); i++) {
        samba_graph *g = graph_of(ops[i], inputs[0], inputs[1]);
        check_gradient(g, inputs, 2, 2);
        samba_graph_free(g);
    }
    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]);
}

static samba_value cubed(samba_value x, samba_value y) { return samba_mul(samba_mul(x, samba_mul(x, x)), samba_exp(y)); }

static void second_derivatives(void **state)
{
    (void)state;
    samba_tensor *inputs[3] = {normal("x", SAMBA_FLOAT64, 2, SHAPE(4, 4), 11), normal("y", SAMBA_FLOAT64, 2, SHAPE(4, 4), 12),
                               normal("z.grad", SAMBA_FLOAT64, 2, SHAPE(4, 4), 13)};
    operation *const ops[] = {cubed, product};
    for (int i = 0; i < SAMBA_COUNT(ops); i++) {
        samba_graph *g = graph_of(ops[i], inputs[0], inputs[1]), *gradient;
        need(samba_graph_gradient(g, 1, (const char *[]){"x"}, &gradient));
        check_gradient(gradient, inputs, 3, 2);
        samba_graph_free(g), samba_graph_free(gradient);
    }
    for (int i = 0; i < 3; i++)
        samba_tensor_free(inputs[i]);
}

static void gradients_need_little(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 1, SHAPE(4), 1), *y = normal("y", SAMBA_FLOAT32, 1, SHAPE(4), 2);
    samba_graph *g = graph_of(samba_add, x, y), *gradient;
    need(samba_graph_gradient(g, 2, (const char *[]){"x", "y"}, &gradient));
    assert_false(samba_graph_has_input(gradient, "x")); /* a sum's gradient is that of its result */
    assert_true(samba_graph_has_input(gradient, "z.grad"));
    assert_false(samba_graph_has_input(gradient, "x.grad"));
    samba_graph_free(gradient), samba_graph_free(g);
    g = graph_of(first_alone, x, y);
    need(samba_graph_gradient(g, 1, (const char *[]){"y"}, &gradient)); /* zeros, of nothing */
    samba_function *f = function_of(gradient);
    assert_int_equal(samba_function_input_count(f), 0);
    samba_tensor *dy = output_of(f, 0);
    need(samba_fill_normal(dy, 1, 0, 1));
    need(samba_function_run(f, NULL, &dy));
    for (int64_t i = 0; i < 4; i++)
        assert_true(at(dy, i) == 0);
    samba_function_free(f), samba_graph_free(gradient), samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(dy);
}

static void gradients_refused(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 1, SHAPE(4), 1), *y = tensor("y", SAMBA_INT64, 1, SHAPE(4));
    samba_graph *g = graph_of(times_plus, x, y), *gradient;
    refuse(samba_graph_gradient(g, 1, (const char *[]){"w"}, &gradient), SAMBA_ERROR_NAME, "no input \"w\"");
    assert_null(gradient);
    refuse(samba_graph_gradient(g, 1, (const char *[]){"y"}, &gradient), SAMBA_ERROR_DTYPE, "only floating-point inputs");
    refuse(samba_graph_gradient(g, 2, (const char *[]){"x", "x"}, &gradient), SAMBA_ERROR_NAME, "named twice");
    refuse(samba_graph_gradient(g, 0, NULL, &gradient), SAMBA_ERROR_ARGUMENT, "1 or more inputs");
    samba_graph_free(g);
    g = graph_of(samba_lt, x, y);
    refuse(samba_graph_gradient(g, 1, (const char *[]){"x"}, &gradient), SAMBA_ERROR_ARGUMENT, "no floating-point output");
    samba_reshape(samba_input(g, "x"), 1, SHAPE(5));
    refuse(samba_graph_gradient(g, 1, (const char *[]){"x"}, &gradient), SAMBA_ERROR_SHAPE, "reshape");
    assert_int_equal(samba_graph_gradient(NULL, 0, NULL, &gradient), SAMBA_ERROR_ARGUMENT);
    assert_false(samba_graph_has_input(NULL, "x") || samba_graph_has_input(g, NULL));
    samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y);
}

/* ---- dropout ---- */

static samba_value dropped(samba_value x, samba_value y)
{
    (void)y;
    return samba_dropout(x, "drop", 0.5);
}

static void dropout(void **state)
{
    (void)state;
    enum { N = 64 };
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 1, SHAPE(N)), *y = tensor("y", SAMBA_FLOAT32, 1, SHAPE(N));
    for (int i = 0; i < N; i++)
        ((float *)samba_tensor_data(x))[i] = 1;
    samba_graph *g = graph_of(dropped, x, y), *gradient;
    samba_function *f = function_of(g), *df;
    samba_tensor *first = output_of(f, 0), *second = output_of(f, 0);
    need(samba_function_run(f, (samba_tensor *[]){x, y}, &first)); /* without train nothing is dropped */
    assert_memory_equal(samba_tensor_data(first), samba_tensor_data(x), N * sizeof(float));
    const samba_hyperparameter seed = {"drop.seed", 7};
    refuse(samba_function_set(f, &seed), SAMBA_ERROR_NAME, "this function has none");
    samba_function_free(f);
    samba_function_options options = samba_function_defaults();
    options.train = true;
    options.reference = by_reference;
    need(samba_function_new(context, g, &options, &f));
    need(samba_function_run(f, (samba_tensor *[]){x, y}, &first));
    need(samba_function_run(f, (samba_tensor *[]){x, y}, &second));
    assert_memory_not_equal(samba_tensor_data(first), samba_tensor_data(second), N * sizeof(float));
    need(samba_function_set(f, &seed));
    need(samba_function_run(f, (samba_tensor *[]){x, y}, &first));
    need(samba_graph_gradient(g, 1, (const char *[]){"x"}, &gradient));
    need(samba_function_new(context, gradient, &options, &df));
    need(samba_function_set(df, &seed));
    need(samba_function_run(df, &x, &second)); /* a gradient of ones: the mask itself */
    assert_memory_equal(samba_tensor_data(first), samba_tensor_data(second), N * sizeof(float));
    refuse(samba_function_set(df, NULL), SAMBA_ERROR_ARGUMENT, "no hyperparameter");
    refuse(samba_function_set(df, &(samba_hyperparameter){"drop.p", 2}), SAMBA_ERROR_ARGUMENT, "[0, 1]");
    samba_function_free(f), samba_function_free(df), samba_graph_free(g), samba_graph_free(gradient);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(first), samba_tensor_free(second);
}

/* ---- what is refused ---- */

static samba_value looked_up(samba_value x, samba_value y) { return samba_functional_embedding(y, x, NULL); }

static void runs_refused(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(3, 2), 1), *y = tensor("y", SAMBA_INT64, 1, SHAPE(4));
    samba_graph *g = graph_of(looked_up, x, y);
    samba_function *f = function_of(g);
    samba_tensor *z = output_of(f, 0), *empty;
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, 2, SHAPE(3, 2), &empty));
    samba_tensor_info info;
    refuse(samba_function_input(f, 2, &info), SAMBA_ERROR_ARGUMENT, "no input 2");
    refuse(samba_function_output(f, -1, &info), SAMBA_ERROR_ARGUMENT, "no output -1");
    refuse(samba_function_run(f, NULL, &z), SAMBA_ERROR_ARGUMENT, "without a list of inputs");
    refuse(samba_function_run(f, (samba_tensor *[]){x, y}, NULL), SAMBA_ERROR_ARGUMENT, "without a list of outputs");
    refuse(samba_function_run(f, (samba_tensor *[]){x, NULL}, &z), SAMBA_ERROR_ARGUMENT, "input 1 of the run is NULL");
    refuse(samba_function_run(f, (samba_tensor *[]){x, y}, (samba_tensor *[]){NULL}), SAMBA_ERROR_ARGUMENT,
           "output 0 of the run is NULL");
    refuse(samba_function_run(f, (samba_tensor *[]){y, y}, &z), SAMBA_ERROR_DTYPE, "\"x\" is float32 in the function");
    refuse(samba_function_run(f, (samba_tensor *[]){z, y}, &z), SAMBA_ERROR_SHAPE, "(3, 2) in the function and (4, 2) was given");
    refuse(samba_function_run(f, (samba_tensor *[]){empty, y}, &z), SAMBA_ERROR_ARGUMENT, "no memory");
    refuse(samba_function_run_memory(f, (void *[]){NULL, samba_tensor_data(y)}, (void *[]){samba_tensor_data(z)}),
           SAMBA_ERROR_ARGUMENT, "input 0");
    refuse(samba_function_run_memory(f, NULL, (void *[]){samba_tensor_data(z)}), SAMBA_ERROR_ARGUMENT, "input 0");
    refuse(samba_function_run_memory(f, (void *[]){samba_tensor_data(x), samba_tensor_data(y)}, NULL), SAMBA_ERROR_ARGUMENT,
           "output 0");
    ((int64_t *)samba_tensor_data(y))[2] = 3;
    ((float *)samba_tensor_data(z))[0] = 42;
    refuse(samba_function_run(f, (samba_tensor *[]){x, y}, &z), SAMBA_ERROR_ARGUMENT, "y[2] = 3 is outside [0, 3)");
    assert_true(at(z, 0) == 42);
    samba_function_free(f), samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(z), samba_tensor_free(empty);
}

static void graphs_refused(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(3, 2), 1), *y = normal("y", SAMBA_FLOAT32, 2, SHAPE(3, 2), 1);
    samba_function *f;
    samba_function_options options = samba_function_defaults();
    samba_graph *g = graph_of(samba_add, x, y);
    options.isa = "mmx";
    refuse(samba_function_new(context, g, &options, &f), SAMBA_ERROR_UNSUPPORTED, "mmx");
    assert_null(f);
    options = samba_function_defaults();
    options.struct_size = 4096;
    refuse(samba_function_new(context, g, &options, &f), SAMBA_ERROR_ARGUMENT, "struct_size");
    refuse(samba_function_new(context, NULL, NULL, &f), SAMBA_ERROR_ARGUMENT, "no graph");
    samba_output(g, "w", samba_linear(samba_input(g, "x"), "layer", 3));
    refuse(samba_function_new(context, g, NULL, &f), SAMBA_ERROR_ARGUMENT, "parameter \"layer.");
    samba_reshape(samba_input(g, "x"), 1, SHAPE(5));
    refuse(samba_function_new(context, g, NULL, &f), SAMBA_ERROR_SHAPE, "reshape");
    samba_graph_free(g);
    need(samba_graph_new(context, "none", &g));
    refuse(samba_function_new(context, g, NULL, &f), SAMBA_ERROR_ARGUMENT, "no output");
    samba_value held = samba_register_buffer(g, "held", SAMBA_FLOAT32, 0, NULL, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    samba_assign(held, samba_exp(held));
    refuse(samba_function_new(context, g, NULL, &f), SAMBA_ERROR_ARGUMENT, "buffer \"held\"");
    samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y);
}

/* ---- memory ---- */

static samba_status make_and_run(samba_context *owner, void *user)
{
    const int64_t size = *(const int64_t *)user, shape[2] = {size, size};
    samba_graph *g = NULL, *gradient = NULL;
    samba_function *f = NULL;
    samba_tensor *x = NULL, *y = NULL;
    samba_status status = samba_tensor_new(owner, "x", SAMBA_FLOAT32, 2, shape, &x);
    if (status == SAMBA_OK)
        status = samba_tensor_new(owner, "y", SAMBA_FLOAT32, 2, shape, &y);
    if (status == SAMBA_OK)
        status = samba_graph_new(owner, "f", &g);
    if (status == SAMBA_OK)
        status = samba_graph_add_input(g, x);
    if (status == SAMBA_OK)
        status = samba_graph_add_input(g, y);
    if (status == SAMBA_OK) {
        samba_output(g, "z", product(samba_input(g, "x"), samba_input(g, "y")));
        status = samba_graph_status(g);
    }
    if (status == SAMBA_OK)
        status = samba_graph_gradient(g, 2, (const char *[]){"x", "y"}, &gradient);
    samba_function_options options = samba_function_defaults();
    options.threads = 1;
    options.reference = by_reference;
    if (status == SAMBA_OK)
        status = samba_function_new(owner, gradient, &options, &f);
    if (status == SAMBA_OK)
        status = samba_function_run(f, (samba_tensor *[]){x, y, x}, (samba_tensor *[]){x, y});
    samba_function_free(f);
    samba_graph_free(g), samba_graph_free(gradient);
    samba_tensor_free(x), samba_tensor_free(y);
    return status;
}

static void no_memory(void **state)
{
    (void)state;
    fail_each_allocation(make_and_run, &(int64_t){3});
    fail_each_allocation(make_and_run, &(int64_t){160}); /* in place, outputs over inputs */
}

static void runs_allocate_nothing(void **state)
{
    (void)state;
    failing_allocator counted;
    samba_context *usual = context;
    context = counting_context_new(&counted);
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(300, 300), 1), *y = normal("y", SAMBA_FLOAT32, 2, SHAPE(300, 300), 2);
    samba_graph *g = graph_of(product, x, y);
    samba_function *f = function_of(g);
    samba_tensor *z = output_of(f, 0);
    need(samba_function_run(f, (samba_tensor *[]){x, y}, &z));
    int64_t before = counted.calls;
    for (int i = 0; i < 3; i++) /* large, but where they were */
        need(samba_function_run(f, (samba_tensor *[]){x, y}, &z));
    assert_int_equal(counted.calls, before);
    samba_function_free(f), samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(z);
    g = graph_of(times_plus, x = normal("x", SAMBA_FLOAT32, 1, SHAPE(30), 1), y = normal("y", SAMBA_FLOAT32, 1, SHAPE(30), 2));
    f = function_of(g);
    z = output_of(f, 0);
    before = counted.calls;
    need(samba_function_run(f, (samba_tensor *[]){x, y}, &z));
    need(samba_function_run(f, (samba_tensor *[]){y, x}, &z));
    assert_int_equal(counted.calls, before);
    samba_function_free(f), samba_graph_free(g);
    samba_tensor_free(x), samba_tensor_free(y), samba_tensor_free(z);
    counting_context_free(context, &counted);
    context = usual;
}

/* The reference stands behind the same checks and transfers. Its masks are those of the compiled dropout:
 * of one seed and index. */
static void the_same_by_reference(void **state)
{
    by_reference = true;
    values_and_repeats(state);
    views_and_places(state);
    no_elements_and_one(state);
    gradients(state);
    dropout(state);
    graphs_refused(state);
    fail_each_allocation(make_and_run, &(int64_t){3});
    by_reference = false;
}

static void masks_by_reference(void **state)
{
    (void)state;
    enum { N = 64 };
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 1, SHAPE(N), 3), *y = normal("y", SAMBA_FLOAT32, 1, SHAPE(N), 4);
    samba_graph *g = graph_of(dropped, x, y);
    samba_tensor *results[2];
    for (int k = 0; k < 2; k++) {
        samba_function_options options = samba_function_defaults();
        samba_function *f;
        options.train = true;
        options.reference = k == 1;
        need(samba_function_new(context, g, &options, &f));
        need(samba_function_set(f, &(samba_hyperparameter){"drop.seed", 11}));
        results[k] = output_of(f, 0);
        need(samba_function_run(f, (samba_tensor *[]){x, y}, &results[k]));
        samba_function_free(f);
    }
    for (int64_t i = 0; i < N; i++)
        assert_float_equal(at(results[0], i), at(results[1], i), 1e-6);
    samba_tensor_free(results[0]), samba_tensor_free(results[1]);
    samba_tensor_free(x), samba_tensor_free(y);
    samba_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_repeats),
                                       cmocka_unit_test(row_over_what_is_added),
                                       cmocka_unit_test(views_and_places),
                                       cmocka_unit_test(no_elements_and_one),
                                       cmocka_unit_test(large_tensors_stay),
                                       cmocka_unit_test(gradients),
                                       cmocka_unit_test(second_derivatives),
                                       cmocka_unit_test(gradients_need_little),
                                       cmocka_unit_test(gradients_refused),
                                       cmocka_unit_test(dropout),
                                       cmocka_unit_test(runs_refused),
                                       cmocka_unit_test(graphs_refused),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(runs_allocate_nothing),
                                       cmocka_unit_test(the_same_by_reference),
                                       cmocka_unit_test(masks_by_reference)};
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, NULL, NULL));
}
