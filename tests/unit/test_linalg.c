/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that are composed while tracing: products of matrices by labels, reductions and what is chosen by sorting, compiled
 * and run at once, against sums written out. Integers are exact; halves and quarters are, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "training.h"

#include <math.h>
#include <sambaflow/function.h>
#include <sambaflow/functional.h>

#define F64 SAMBA_FLOAT64

static samba_graph *begin(void)
{
    samba_graph *g;
    need(samba_graph_new(context, "products", &g));
    return g;
}

static samba_value numbers(samba_graph *g, int rank, const int64_t *shape, const double *values)
{
    samba_tensor *tensor;
    need(samba_tensor_new(context, NULL, F64, rank, shape, &tensor));
    memcpy(samba_tensor_data(tensor), values, (size_t)samba_tensor_numel(tensor) * sizeof *values);
    samba_value value = samba_constant_tensor(g, tensor);
    samba_tensor_free(tensor);
    return value;
}

/* The elements of `value`, compiled and by the reference kernels; frees the graph. */
static void expect(samba_graph *g, samba_value value, int rank, const int64_t *shape, const double *expected)
{
    samba_output(g, "y", samba_cast(value, F64));
    need(samba_graph_status(g));
    assert_int_equal(samba_value_rank(value), rank);
    for (int d = 0; d < rank; d++)
        assert_int_equal(samba_value_size(value, d), shape[d]);
    for (int by_reference = 0; by_reference < 2; by_reference++) {
        samba_function *function;
        samba_tensor *output;
        samba_function_options options = samba_function_defaults();
        options.reference = by_reference;
        need(samba_function_new(context, g, &options, &function));
        need(samba_tensor_new(context, NULL, F64, rank, shape, &output));
        need(samba_function_run(function, NULL, &output));
        const double *y = samba_tensor_data(output);
        for (int64_t i = 0; i < samba_tensor_numel(output); i++)
            if (isnan(expected[i]) ? !isnan(y[i]) : !(fabs(y[i] - expected[i]) <= 1e-12 * fabs(expected[i])))
                fail_msg("element %lld is %g, expected %g", (long long)i, y[i], expected[i]);
        samba_tensor_free(output);
        samba_function_free(function);
    }
    samba_graph_free(g);
}

#define VALUES(...) ((const double[]){__VA_ARGS__})

static void products_by_labels(void **state)
{
    (void)state;
    const double six[] = {1, 2, 3, 4, 5, 6};
    samba_graph *g = begin();
    samba_value a = numbers(g, 2, SHAPE(2, 3), six), b = numbers(g, 2, SHAPE(3, 2), six);
    expect(g, samba_einsum("ij,jk->ki", 2, (samba_value[]){a, b}), 2, SHAPE(2, 2), VALUES(22, 49, 28, 64));
    g = begin();
    expect(g, samba_einsum("ii", 1, (samba_value[]){numbers(g, 2, SHAPE(2, 2), six)}), 0, NULL, VALUES(5));
    g = begin();
    a = numbers(g, 2, SHAPE(2, 3), six);
    expect(g, samba_einsum("...i->i...", 1, &a), 2, SHAPE(3, 2), VALUES(1, 4, 2, 5, 3, 6));
    g = begin();
    a = numbers(g, 2, SHAPE(2, 3), six);
    expect(g, samba_inner(a, a), 2, SHAPE(2, 2), VALUES(14, 32, 32, 77));
    g = begin();
    a = numbers(g, 2, SHAPE(2, 3), six);
    expect(g, samba_tensordot(a, a, 1, (const int[]){0}, (const int[]){-2}), 2, SHAPE(3, 3),
           VALUES(17, 22, 27, 22, 29, 36, 27, 36, 45));
    g = begin();
    expect(g, samba_kron(numbers(g, 1, SHAPE(2), six), numbers(g, 2, SHAPE(1, 2), six)), 2, SHAPE(1, 4), VALUES(1, 2, 2, 4));
    g = begin();
    a = numbers(g, 2, SHAPE(2, 3), six);
    expect(g, samba_diagonal(a, 1, 0, 1), 1, SHAPE(2), VALUES(2, 6));
    g = begin();
    a = numbers(g, 2, SHAPE(2, 3), six);
    expect(g, samba_diagonal(a, -5, 0, 1), 1, SHAPE(0), VALUES(0));
}

static void products_and_sums(void **state)
{
    (void)state;
    const double six[] = {1, 2, 3, 4, 5, 6};
    samba_graph *g = begin();
    samba_value lost = numbers(g, 1, SHAPE(2), VALUES(NAN, NAN)), a = numbers(g, 2, SHAPE(2, 3), six),
                b = numbers(g, 2, SHAPE(3, 2), six);
    expect(g, samba_addmm(lost, a, b, 0, 2), 2, SHAPE(2, 2), VALUES(44, 56, 98, 128)); /* beta 0: the input does not count */
    g = begin();
    a = numbers(g, 2, SHAPE(2, 3), six), b = numbers(g, 1, SHAPE(3), six);
    expect(g, samba_addmv(numbers(g, 1, SHAPE(1), six), a, b, 10, 1), 1, SHAPE(2), VALUES(24, 42));
    g = begin();
    a = numbers(g, 3, SHAPE(2, 1, 3), six), b = numbers(g, 3, SHAPE(2, 3, 1), six);
    expect(g, samba_addbmm(numbers(g, 2, SHAPE(1, 1), six), a, b, 1, 1), 2, SHAPE(1, 1), VALUES(92));
    g = begin();
    const samba_value chain[] = {numbers(g, 1, SHAPE(2), six), numbers(g, 2, SHAPE(2, 3), six), numbers(g, 1, SHAPE(3), six)};
    expect(g, samba_multi_dot(3, chain), 0, NULL, VALUES(78));
    g = begin();
    a = numbers(g, 2, SHAPE(3, 0), six), b = numbers(g, 2, SHAPE(0, 1), six);
    expect(g, samba_mm(a, b), 2, SHAPE(3, 1), VALUES(0, 0, 0));
}

static void reductions(void **state)
{
    (void)state;
    const double x[] = {1, 2, NAN, 4, 0, -6};
    samba_value second;
    samba_graph *g = begin();
    expect(g, samba_nanmean(numbers(g, 2, SHAPE(2, 3), x), 1, (const int[]){1}, false), 1, SHAPE(2), VALUES(1.5, -2.0 / 3));
    g = begin();
    expect(g, samba_prod(numbers(g, 2, SHAPE(2, 3), x), 1, (const int[]){0}, true), 2, SHAPE(1, 3), VALUES(4, 0, NAN));
    g = begin();
    expect(g, samba_std(numbers(g, 1, SHAPE(2), x), 0, NULL, 0, false), 0, NULL, VALUES(0.5));
    g = begin();
    expect(g, samba_var(numbers(g, 1, SHAPE(1), x), 0, NULL, 1, false), 0, NULL, VALUES(NAN)); /* 0 of 0 */
    g = begin();
    expect(g, samba_vector_norm(numbers(g, 1, SHAPE(2), VALUES(-3, 4)), -INFINITY, 0, NULL, false), 0, NULL, VALUES(3));
    g = begin();
    samba_min(numbers(g, 2, SHAPE(2, 3), x), 1, false, &second);
    expect(g, second, 1, SHAPE(2), VALUES(2, 2));
    g = begin();
    expect(g, samba_count_nonzero(numbers(g, 2, SHAPE(2, 3), x), 1, (const int[]){1}), 1, SHAPE(2), VALUES(3, 2));
    g = begin();
    expect(g, samba_all(numbers(g, 2, SHAPE(2, 0), x), 1, (const int[]){1}, false), 1, SHAPE(2), VALUES(1, 1));
    g = begin();
    expect(g, samba_median(numbers(g, 2, SHAPE(2, 3), x), 1, false, &second), 1, SHAPE(2), VALUES(NAN, 0));
    g = begin();
    expect(g, samba_median_of_all(numbers(g, 2, SHAPE(2, 3), x)), 0, NULL, VALUES(NAN));
    g = begin();
    expect(g, samba_median_of_all(numbers(g, 2, SHAPE(2, 2), VALUES(2, 1, 2, 2))), 0, NULL, VALUES(2));
    g = begin();
    expect(g, samba_kthvalue(numbers(g, 2, SHAPE(2, 3), x), 2, -1, true, &second), 2, SHAPE(2, 1), VALUES(2, 0));
    g = begin();
    samba_topk(numbers(g, 2, SHAPE(2, 3), x), 2, 1, true, &second);
    expect(g, second, 2, SHAPE(2, 2), VALUES(2, 1, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_by_labels),
        cmocka_unit_test(products_and_sums),
        cmocka_unit_test(reductions),
    };
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, NULL, NULL));
}
