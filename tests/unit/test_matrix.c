/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear algebra: LAPACK's kernels against the reference's own algorithms, of odd sizes, of 0 and 1, of views; the same bits by
 * one thread and by two, and again; what fails and how it says so; a library without the plugin. Factors of drawn shapes, ranks
 * and scales, of tens of thousands of rows too, by what makes them factors. Values and gradients against
 * PyTorch's: tests/operators/linalg.py. */
#include "training.h"
#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/shape.h>

typedef struct matrix_case {
    const char *name;
    samba_value (*traced)(samba_value a); /* of (..., n, n), well apart from what has no result */
    bool many;                            /* of many rows, too: by kernels of our own */
} matrix_case;

static samba_value of_cholesky(samba_value a) { return samba_cholesky(a, false); }
static samba_value of_inv(samba_value a) { return samba_inv(a); }
static samba_value of_det(samba_value a) { return samba_det(a); }
static samba_value of_solve(samba_value a) { return samba_solve(a, samba_transpose(a, -1, -2), true); }
static samba_value of_triangle(samba_value a) { return samba_solve_triangular(a, a, true, false, false); }
static samba_value columns_of(samba_value a) /* 7 n of them, and 1 */
{
    samba_value one = samba_narrow(a, -1, 0, samba_value_size(a, -1) ? 1 : 0);
    return samba_concat(8, (samba_value[]){a, a, one, a, a, a, a, a}, -1);
}
static samba_value of_upper_unit(samba_value a) { return samba_solve_triangular(a, columns_of(a), true, true, true); }
static samba_value of_lower_unit(samba_value a) { return samba_solve_triangular(a, columns_of(a), false, true, true); }
static samba_value of_lower(samba_value a) { return samba_solve_triangular(a, columns_of(a), false, true, false); }
static samba_value of_upper(samba_value a) { return samba_solve_triangular(a, columns_of(a), true, true, false); }
static samba_value of_solve_right(samba_value a) { return samba_solve(a, samba_transpose(columns_of(a), -1, -2), false); }
static samba_value of_solve_wide(samba_value a) { return samba_solve(a, columns_of(a), true); }
static samba_value of_solve_one(samba_value a)
{
    return samba_solve(a, samba_narrow(a, -1, 0, samba_value_size(a, -1) ? 1 : 0), true);
}
/* Rows of which almost every one is exchanged. */
static samba_value turned(samba_value a) { return samba_flip(a, 1, (const int[]){-2}); }
static samba_value of_turned_inv(samba_value a) { return samba_inv(turned(a)); }
static samba_value of_turned_det(samba_value a) { return samba_det(turned(a)); }
static samba_value of_turned_solve(samba_value a) { return samba_solve(turned(a), columns_of(a), true); }
static samba_value of_exp(samba_value a) { return samba_matrix_exp(samba_mul_scalar(a, 0.2)); }
static samba_value of_pinv(samba_value a) { return samba_pinv(a, 0, -1); }
/* Of n / 2 columns, or rows, and of a matrix whose last column is a copy of its first. */
static samba_value half(samba_value a) { return samba_narrow(a, -1, 0, samba_value_size(a, -1) / 2); }
static samba_value twice(samba_value a)
{
    int64_t n = samba_value_size(a, -1);
    return n < 2 ? a : samba_concat(2, (samba_value[]){samba_narrow(a, -1, 0, n - 1), samba_narrow(a, -1, 0, 1)}, -1);
}
static samba_value of_tall_pinv(samba_value a) { return samba_pinv(half(a), 0, -1); }
static samba_value of_wide_pinv(samba_value a) { return samba_pinv(samba_transpose(half(a), -1, -2), 0, -1); }
static samba_value of_deficient_pinv(samba_value a) { return samba_pinv(twice(a), 0, 1e-4); }
static samba_value of_cut_pinv(samba_value a) { return samba_pinv(a, 5, -1); } /* the lesser values */
static samba_value of_lstsq(samba_value a) { return samba_lstsq(a, columns_of(a), -1); }
static samba_value of_tall_lstsq(samba_value a) { return samba_lstsq(half(a), columns_of(a), -1); }
static samba_value of_wide_lstsq(samba_value a)
{
    a = samba_transpose(half(a), -1, -2);
    return samba_lstsq(a, samba_concat(2, (samba_value[]){a, a}, -1), -1);
}
static samba_value of_deficient_lstsq(samba_value a) { return samba_lstsq(twice(a), a, 1e-4); }
static samba_value of_wide_deficient_lstsq(samba_value a)
{
    a = samba_transpose(twice(a), -1, -2);
    return samba_lstsq(samba_concat(2, (samba_value[]){a, a}, -1), a, 1e-4);
}
static samba_value of_many_sides(samba_value a) /* a product */
{
    samba_value some = columns_of(columns_of(a)), all = samba_concat(3, (samba_value[]){some, some, some}, -1);
    return samba_lstsq(half(a), all, -1);
}
static samba_value of_eigvalsh(samba_value a) { return samba_eigvalsh(a, false); }
static samba_value of_svdvals(samba_value a) { return samba_svdvals(a); }
static samba_value of_qr(samba_value a)
{
    samba_value r, q = samba_qr(samba_narrow(a, -1, 0, samba_value_size(a, -1) / 2), &r);
    return samba_concat(2, (samba_value[]){q, r}, -2);
}
static samba_value of_eigh(samba_value a)
{
    samba_value vectors, values = samba_eigh(a, true, &vectors);
    return samba_add(vectors, samba_unsqueeze(values, -2));
}
static samba_value of_svd(samba_value a)
{
    samba_value s, vh, u = samba_svd(a, &s, &vh);
    return samba_add(samba_add(u, vh), samba_unsqueeze(s, -2));
}

static const matrix_case cases[] = {
    {"cholesky", of_cholesky, false},
    {"inv", of_inv, true},
    {"det", of_det, true},
    {"solve", of_solve, true},
    {"triangle", of_triangle, true},
    {"matrix_exp", of_exp, false},
    {"pinv", of_pinv, true},
    {"pinv, tall", of_tall_pinv, true},
    {"pinv, wide", of_wide_pinv, true},
    {"pinv, a column twice", of_deficient_pinv, true},
    {"pinv, values cut off", of_cut_pinv, true},
    {"lstsq", of_lstsq, true},
    {"lstsq, tall", of_tall_lstsq, true},
    {"lstsq, wide", of_wide_lstsq, true},
    {"lstsq, a column twice", of_deficient_lstsq, true},
    {"lstsq, a row twice", of_wide_deficient_lstsq, true},
    {"lstsq, many sides", of_many_sides, false},
    {"eigvalsh", of_eigvalsh, false},
    {"svdvals", of_svdvals, false},
    {"qr", of_qr, true},
    {"eigh", of_eigh, false},
    {"svd", of_svd, false},
    {"upper unit", of_upper_unit, true},
    {"lower unit", of_lower_unit, true},
    {"lower", of_lower, true},
    {"upper", of_upper, true},
    {"solve right", of_solve_right, true},
    {"solve wide", of_solve_wide, true},
    {"solve one", of_solve_one, true},
    {"inv, turned", of_turned_inv, true},
    {"det, turned", of_turned_det, true},
    {"solve, turned", of_turned_solve, true},
};

/* Symmetric, with eigenvalues apart, all above 0 */
static samba_tensor *definite(samba_dtype dtype, int64_t batch, int64_t n)
{
    samba_tensor *a = tensor("a", dtype, SIZES(batch, n, n));
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                const double value = i == j ? 2 + (double)i * 1.5 : ((double)(next_random() % 2001) - 1000) / 4000;
                for (int k = 0; k < 2; k++)
                    samba_store_double(dtype,
                                       (char *)samba_tensor_data(a) +
                                           (size_t)(b * n * n + (k ? j * n + i : i * n + j)) * samba_dtype_size(dtype),
                                       value);
            }
    return a;
}

static samba_function *made_of(const samba_tensor *a, samba_value (*traced)(samba_value), bool view,
                               const samba_function_options *options, int *rank, int64_t *shape)
{
    samba_graph *g;
    samba_function *made;
    need(samba_graph_new(context, "matrices", &g));
    need(samba_graph_add_input(g, (samba_tensor *)(uintptr_t)a));
    samba_value x = samba_input(g, "a");
    if (view) /* every second matrix, turned around: strides and an offset */
        x = samba_transpose(samba_slice(x, 0, 1, samba_value_size(x, 0), 2), -1, -2);
    samba_value y = traced(x);
    *rank = samba_value_rank(y);
    for (int i = 0; i < *rank; i++)
        shape[i] = samba_value_size(y, i);
    samba_output(g, "y", y);
    need(samba_function_new(context, g, options, &made));
    samba_graph_free(g);
    return made;
}

static samba_tensor *run(samba_tensor *a, samba_value (*traced)(samba_value), bool view, const samba_function_options *options)
{
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    samba_function *made = made_of(a, traced, view, options, &rank, shape);
    samba_tensor *y = tensor("y", samba_tensor_dtype(a), rank, shape);
    need(samba_function_run(made, &a, &y));
    samba_function_free(made);
    return y;
}

TEST(without_the_plugin)
{
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    OWN_TENSOR *a = definite(SAMBA_FLOAT32, 1, 3);
    char before[1024];
    samba_graph *g;
    samba_function *made;
    snprintf(before, sizeof before, "%s", getenv("SAMBAFLOW_PLUGINS"));
    setenv("SAMBAFLOW_PLUGINS", "/nowhere", 1);
    need(samba_graph_new(context, "matrices", &g));
    need(samba_graph_add_input(g, a));
    samba_output(g, "y", samba_cholesky(samba_input(g, "a"), false));
    refuse(samba_function_new(context, g, FUNCTION(.threads = 1), &made), SAMBA_ERROR_UNSUPPORTED, "Debian's liblapacke-dev");
    samba_graph_free(g);
    samba_function_free(made_of(a, of_inv, false, FUNCTION(.threads = 1), &rank, shape)); /* which needs none */
    setenv("SAMBAFLOW_PLUGINS", before, 1);
    made = made_of(a, of_cholesky, false, FUNCTION(.threads = 1), &rank, shape);
    samba_function_free(made);
}

static void check_case(const matrix_case *c, samba_dtype dtype, int64_t batch, int64_t n, bool view)
{
    OWN_TENSOR *a = definite(dtype, batch, n);
    OWN_TENSOR *expected = run(a, c->traced, view, FUNCTION(.reference = true));
    OWN_TENSOR *one = run(a, c->traced, view, FUNCTION(.threads = 1));
    OWN_TENSOR *two = run(a, c->traced, view, FUNCTION(.threads = 2));
    const size_t bytes = (size_t)samba_tensor_numel(one) * samba_dtype_size(dtype);
    assert_int_equal(samba_tensor_numel(one), samba_tensor_numel(expected));
    if (bytes > 0 && memcmp(samba_tensor_data(one), samba_tensor_data(two), bytes) != 0) {
        print_error("%s of %s, %lld x %lld, view %d: one thread and two give different bits\n", c->name, samba_dtype_name(dtype),
                    (long long)batch, (long long)n, view);
        fail();
    }
    for (int64_t i = 0; i < samba_tensor_numel(one); i++) {
        const size_t at = (size_t)i * samba_dtype_size(dtype);
        const double x = samba_load_double(dtype, (char *)samba_tensor_data(one) + at),
                     y = samba_load_double(dtype, (char *)samba_tensor_data(expected) + at);
        const double most = (dtype == SAMBA_FLOAT64 ? 1e-12 : 5e-4) * (1 + fabs(y));
        if (!(x == y || fabs(x - y) <= most)) { /* determinants of many rows are infinite */
            print_error("%s of %s, %lld x %lld, view %d: element %lld is %.17g, expected %.17g\n", c->name,
                        samba_dtype_name(dtype), (long long)batch, (long long)n, view, (long long)i, x, y);
            fail();
        }
    }
}

TEST(as_the_reference)
{
    const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 12, 19};
    seed_anew();
    for (int c = 0; c < LENGTH(cases); c++)
        for (int s = 0; s < LENGTH(sizes); s++)
            for (int k = 0; k < 4; k++)
                check_case(&cases[c], k % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64, k < 2 ? 40 : 3, sizes[s], k >= 2);
    for (int c = 0; c < LENGTH(cases); c++)
        check_case(&cases[c], SAMBA_FLOAT32, 0, 3, false);
    for (int c = 0; c < LENGTH(cases); c++)
        for (int k = 0; cases[c].many && k < 4; k++)
            check_case(&cases[c], k % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64, 3, k < 2 ? 50 : 81, k % 2);
}

/* ---- factors by what makes them factors: at right angles, in order, turned by the rule, and a again when multiplied ---- */

typedef struct drawn {
    samba_dtype dtype;
    int64_t batch, m, n, k;
    double greatest; /* element */
    double *a;       /* as the tensor has it */
} drawn;

static double *doubles_of(const samba_tensor *x)
{
    const int64_t count = samba_tensor_numel(x);
    double *values = malloc(sizeof *values * (size_t)(count + 1));
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = samba_load_double(samba_tensor_dtype(x),
                                      (const char *)samba_tensor_data(x) + (size_t)i * samba_dtype_size(samba_tensor_dtype(x)));
    return values;
}

static double fraction(void) { return ((double)(next_random() % 2000001) - 1e6) / 1e6; }

/* Of full rank, of one less, of rank 1, zeros, columns of very different lengths, or equal to the identity; of any scale. */
static samba_tensor *draw(drawn *d, bool symmetric)
{
    const int kind = (int)(next_random() % 6);
    const double range = d->dtype == SAMBA_FLOAT64 ? 250 : 30, scale = next_random() % 3 ? 1 : pow(10, range * fraction());
    samba_tensor *a = tensor("a", d->dtype, SIZES(d->batch, d->m, d->n));
    d->k = d->m < d->n ? d->m : d->n;
    for (int64_t b = 0; b < d->batch; b++) {
        double *rows = malloc(sizeof *rows * (size_t)(d->m + d->n));
        assert_non_null(rows);
        for (int64_t i = 0; i < d->m + d->n; i++)
            rows[i] = fraction();
        for (int64_t i = 0; i < d->m; i++)
            for (int64_t j = 0; j < d->n; j++) {
                double x = kind == 2 ? rows[i] * rows[symmetric ? j : d->m + j] : kind == 3 ? 0 : kind == 5 ? i == j : fraction();
                if (kind == 4)
                    x *= pow(10, -3.0 * (double)(d->m < d->n ? i : j));
                if (kind == 1 && (d->m < d->n ? i : j) > 0 && d->k > 1)
                    x = d->m < d->n ? (i == 1 ? rows[j] : x) : (j == 1 ? rows[i] : x);
                if (kind == 1 && (d->m < d->n ? i : j) == 0 && d->k > 1)
                    x = rows[d->m < d->n ? j : i];
                samba_store_double(
                    d->dtype, (char *)samba_tensor_data(a) + (size_t)((b * d->m + i) * d->n + j) * samba_dtype_size(d->dtype),
                    x * scale);
            }
        free(rows);
    }
    d->a = doubles_of(a);
    for (int64_t b = 0; symmetric && b < d->batch; b++)
        for (int64_t i = 0; i < d->n; i++)
            for (int64_t j = i + 1; j < d->n; j++) /* which the function does not read */
                d->a[(b * d->n + i) * d->n + j] = d->a[(b * d->n + j) * d->n + i];
    d->greatest = 0;
    for (int64_t i = 0; i < samba_tensor_numel(a); i++)
        d->greatest = fmax(d->greatest, fabs(d->a[i]));
    return a;
}

static double rounding(const drawn *d) { return d->dtype == SAMBA_FLOAT64 ? 2e-14 : 1e-5; }

static void need_near(const drawn *d, const char *what, double x, double y, double most)
{
    if (fabs(x - y) <= most)
        return;
    print_error("%s of %s, %lld x %lld x %lld: %.17g, expected %.17g within %g\n", what, samba_dtype_name(d->dtype),
                (long long)d->batch, (long long)d->m, (long long)d->n, x, y, most);
    fail();
}

/* Columns of length 1 at right angles to each other. */
static void check_columns(const drawn *d, const char *what, const double *x, int64_t rows, int64_t columns, int64_t row,
                          int64_t column)
{
    for (int64_t p = 0; p < columns; p++)
        for (int64_t q = 0; q <= p; q++) {
            double dot = 0;
            for (int64_t i = 0; i < rows; i++)
                dot += x[i * row + p * column] * x[i * row + q * column];
            need_near(d, what, dot, p == q, rounding(d) * (double)(columns + 4));
        }
}

static void check_signs(const drawn *d, const double *x, int64_t rows, int64_t columns)
{
    const double margin = 1e-4; /* elements as near to the limit are those of another rounding */
    for (int64_t j = 0; j < columns; j++) {
        double greatest = 0;
        int64_t at = 0;
        for (int64_t i = 0; i < rows; i++)
            greatest = fmax(greatest, fabs(x[i * columns + j]));
        while (fabs(x[at * columns + j]) <= (0.37 - margin) * greatest)
            at++;
        if (fabs(x[at * columns + j]) > (0.37 + margin) * greatest)
            need_near(d, "the sign of a vector", x[at * columns + j] > 0, 1, 0);
    }
}

/* Each element of a is the sum of left x value x right. */
static void check_product(const drawn *d, const double *a, const double *left, const double *values, const double *right,
                          int64_t right_row, int64_t right_column)
{
    for (int64_t i = 0; i < d->m; i++)
        for (int64_t j = 0; j < d->n; j++) {
            double sum = 0;
            for (int64_t c = 0; c < d->k; c++)
                sum += left[i * d->k + c] * values[c] * right[c * right_row + j * right_column];
            need_near(d, "an element of the product", sum, a[i * d->n + j],
                      rounding(d) * d->greatest * sqrt((double)(d->m * d->n)) + (d->dtype == SAMBA_FLOAT64 ? 1e-300 : 1e-37));
        }
}

static void run_into(const samba_tensor *a, samba_value (*traced)(samba_value a, samba_value *s, samba_value *v), int threads,
                     samba_tensor **results, int count)
{
    samba_graph *g;
    samba_function *made;
    samba_value of[3];
    int64_t shape[SAMBA_MAX_RANK];
    need(samba_graph_new(context, "factors", &g));
    need(samba_graph_add_input(g, (samba_tensor *)(uintptr_t)a));
    of[0] = traced(samba_input(g, "a"), &of[1], &of[2]);
    for (int i = 0; i < count; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        for (int k = 0; k < samba_value_rank(of[i]); k++)
            shape[k] = samba_value_size(of[i], k);
        results[i] = tensor(name, samba_tensor_dtype(a), samba_value_rank(of[i]), shape);
        samba_output(g, name, of[i]);
    }
    need(samba_function_new(context, g, FUNCTION(.threads = threads), &made));
    samba_graph_free(g);
    need(samba_function_run(made, (samba_tensor *[]){(samba_tensor *)(uintptr_t)a}, results));
    samba_function_free(made);
}

static samba_value parts_of_svd(samba_value a, samba_value *s, samba_value *v) { return samba_svd(a, s, v); }
static samba_value parts_of_eigh(samba_value a, samba_value *s, samba_value *v)
{
    *s = samba_eigh(a, false, v);
    return *v;
}

static void check_drawn(drawn d, bool symmetric)
{
    OWN_TENSOR *a = draw(&d, symmetric);
    samba_tensor *one[3], *two[3];
    double *values[3];
    const int count = symmetric ? 2 : 3;
    run_into(a, symmetric ? parts_of_eigh : parts_of_svd, 1, one, count);
    run_into(a, symmetric ? parts_of_eigh : parts_of_svd, 2, two, count);
    for (int i = 0; i < count; i++) {
        const size_t bytes = (size_t)samba_tensor_numel(one[i]) * samba_dtype_size(d.dtype);
        assert_memory_equal(samba_tensor_data(one[i]), samba_tensor_data(two[i]), bytes);
        values[i] = doubles_of(one[i]);
        samba_tensor_free(one[i]);
        samba_tensor_free(two[i]);
    }
    for (int64_t b = 0; b < d.batch; b++) {
        const double *u = values[0] + b * d.m * d.k, *s = values[1] + b * d.k, *v = symmetric ? u : values[2] + b * d.k * d.n;
        for (int64_t j = 0; j < d.k; j++) {
            assert_true(symmetric || s[j] >= 0);
            assert_true(j == 0 || (symmetric ? s[j] >= s[j - 1] : s[j] <= s[j - 1]));
        }
        check_columns(&d, "a product of left vectors", u, d.m, d.k, d.k, 1);
        check_columns(&d, "a product of right vectors", v, d.n, d.k, symmetric ? d.k : 1, symmetric ? 1 : d.n);
        check_signs(&d, u, d.m, d.k);
        check_product(&d, d.a + b * d.m * d.n, u, s, v, symmetric ? 1 : d.n, symmetric ? d.k : 1);
    }
    for (int i = 0; i < count; i++)
        free(values[i]);
    free(d.a);
}

TEST(factors_of_drawn_shapes)
{
    seed_anew();
    for (int i = 0; i < 300; i++) {
        const samba_dtype dtype = i % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64;
        const int64_t few = 1 + (int64_t)(next_random() % 6), more = few + (int64_t)(next_random() % (i % 5 ? 9 : 1300)),
                      batch = (int64_t)(next_random() % 4);
        const bool wide = next_random() % 2 == 0;
        check_drawn((drawn){.dtype = dtype, .batch = batch, .m = wide ? few : more, .n = wide ? more : few}, false);
        check_drawn((drawn){.dtype = dtype, .batch = batch + 1, .m = few, .n = few}, true);
    }
    for (int i = 0; i < 6; i++) { /* more rows than LAPACK's square matrices may have */
        const int64_t few = 1 + (int64_t)(next_random() % 6), more = 16385 + (int64_t)(next_random() % 40000);
        const samba_dtype dtype = i % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64;
        check_drawn((drawn){.dtype = dtype, .batch = 1, .m = i % 3 ? more : few, .n = i % 3 ? few : more}, false);
    }
}

/* QR, least squares and the inverse of tens of thousands of rows: against each other. */
static samba_value parts_of_long(samba_value a, samba_value *s, samba_value *v)
{
    samba_value r, q = samba_qr(a, &r);
    *s = samba_sub(samba_matmul(q, r), a);
    *v = samba_sub(samba_matmul(samba_pinv(a, 0, -1), a), samba_lstsq(a, a, -1)); /* both are the identity */
    return samba_matmul(samba_transpose(q, -1, -2), q);
}

TEST(long_matrices)
{
    seed_anew();
    for (int i = 0; i < 4; i++) {
        const int64_t n = 1 + (int64_t)(next_random() % 5), m = 16385 + (int64_t)(next_random() % 30000);
        drawn d = {.dtype = i % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64, .batch = 1, .m = m, .n = n};
        OWN_TENSOR *a = tensor("a", d.dtype, SIZES(m, n));
        samba_tensor *results[3];
        for (int64_t k = 0; k < m * n; k++)
            samba_store_double(d.dtype, (char *)samba_tensor_data(a) + (size_t)k * samba_dtype_size(d.dtype), fraction());
        run_into(a, parts_of_long, 1, results, 3);
        for (int r = 0; r < 3; r++) {
            double *x = doubles_of(results[r]);
            for (int64_t k = 0; k < samba_tensor_numel(results[r]); k++)
                need_near(&d,
                          r == 0   ? "a product of Q"
                          : r == 1 ? "Q R less a"
                                   : "an inverse less what lstsq gives",
                          x[k], r == 0 && k % (n + 1) == 0, 20 * rounding(&d));
            free(x);
            samba_tensor_free(results[r]);
        }
    }
}

/* The run fails for the first such matrix of the batch; the next run, of right ones, does not. */
static void check_fault(samba_value (*traced)(samba_value), double diagonal, const char *words, int64_t n, int threads)
{
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    OWN_TENSOR *a = definite(SAMBA_FLOAT32, 40, n), *right = definite(SAMBA_FLOAT32, 40, n);
    float *values = samba_tensor_data(a);
    for (int b = 7; b < 40; b += 11)
        for (int64_t i = 0; i < n * n; i++)
            values[b * n * n + i] = i % (n + 1) == 0 ? (float)diagonal : 0;
    samba_function *made = made_of(a, traced, false, FUNCTION(.threads = threads), &rank, shape);
    OWN_TENSOR *y = tensor("y", SAMBA_FLOAT32, rank, shape);
    refuse(samba_function_run(made, &a, &y), SAMBA_ERROR_ARGUMENT, words);
    need(samba_function_run(made, &right, &y));
    samba_function_free(made);
}

TEST(faults)
{
    for (int k = 0; k < 6; k++) {
        const int64_t n = (int64_t[]){1, 3, 6}[k / 2];
        const int threads = 1 + k % 2;
        check_fault(of_cholesky, -1, "\"cholesky\": matrix 7 of its batch is not positive definite", n, threads);
        check_fault(of_cholesky, NAN, "matrix 7 of its batch is not positive definite", n, threads);
        check_fault(of_inv, 0, "matrix 7 of its batch is singular", n, threads);
        check_fault(of_solve, 0, "matrix 7 of its batch is singular", n, threads);
        check_fault(of_eigh, NAN, "matrix 7 of its batch has NaN or infinite elements", n, threads);
        check_fault(of_lstsq, NAN, "matrix 7 of its batch has NaN or infinite elements", n, threads);
        check_fault(of_pinv, NAN, "matrix 7 of its batch has NaN or infinite elements", n, threads);
        check_fault(of_svdvals, INFINITY, "matrix 7 of its batch has NaN or infinite elements", n, threads);
    }
}

/* NaN goes through where there is a result for it. */
TEST(not_numbers)
{
    samba_value (*const through[])(samba_value) = {of_inv, of_det, of_exp, of_qr, of_triangle};
    for (int f = 0; f < LENGTH(through); f++) {
        OWN_TENSOR *a = definite(SAMBA_FLOAT64, 2, 4);
        ((double *)samba_tensor_data(a))[5] = NAN;
        OWN_TENSOR *y = run(a, through[f], false, FUNCTION(.threads = 1));
        const double *values = samba_tensor_data(y);
        bool any = false;
        for (int64_t i = 0; i < samba_tensor_numel(y); i++)
            any = any || isnan(values[i]);
        assert_true(any);
    }
}

TEST_MAIN(without_the_plugin, as_the_reference, factors_of_drawn_shapes, long_matrices, faults, not_numbers)
