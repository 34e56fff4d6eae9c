/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators over matrices mean (matrix.c), by the plainest algorithms in float64: Cholesky by rows, elimination with the
 * greatest element as pivot, Householder's reflections, Jacobi's rotations, Taylor's series. Composites have theirs by the
 * same functions. A matrix is rows of doubles here. */
#include "ops/matrix_ref.h"

#include <math.h>
#include <string.h>

enum { SWEEPS = 60 }; /* Jacobi's method takes six or ten */

/* ---- matrices in and out ---- */

samba_status samba_matrices_begin(samba_matrices *s, const samba_reference *reference, const char *name, int64_t doubles)
{
    const samba_array *a = &reference->inputs[0];
    *s = (samba_matrices){.reference = reference, .name = name, .batch = 1, .bytes = sizeof(double) * (size_t)(doubles + 1)};
    s->m = a->shape[a->rank - 2];
    s->n = a->shape[a->rank - 1];
    s->k = s->m < s->n ? s->m : s->n;
    for (int i = 0; i < a->rank - 2; i++)
        s->batch *= a->shape[i];
    s->room = samba_calloc(reference->context, s->bytes);
    return s->room ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

samba_status samba_matrices_end(samba_matrices *s, samba_status status)
{
    samba_free(s->reference->context, s->room, s->bytes);
    return status;
}

void samba_matrices_load(const samba_matrices *s, int input, int64_t element, double *to)
{
    const samba_array *a = &s->reference->inputs[input];
    const int64_t size = a->shape[a->rank - 2] * a->shape[a->rank - 1];
    for (int64_t i = 0; i < size; i++)
        to[i] = samba_array_double(a, element * size + i);
}

void samba_matrices_store(const samba_matrices *s, int64_t element, int64_t size, int64_t offset, int64_t count,
                          const double *from)
{
    for (int64_t i = 0; i < count; i++)
        samba_array_set_double(s->reference->output, element * size + offset + i, from[i]);
}

samba_status samba_matrices_fail(const samba_matrices *s, int64_t element, const char *what)
{
    return samba_fail(s->reference->context, SAMBA_ERROR_ARGUMENT, "%s: matrix %lld of its batch %s", s->name, (long long)element,
                      what);
}

static const char not_finite[] = "has NaN or infinite elements, or the iteration for it does not end";

static bool is_finite(const double *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(a[i]))
            return false;
    return true;
}

/* ---- the algorithms ---- */

static bool cholesky(int64_t n, double *a)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                sum -= a[i * n + k] * a[j * n + k];
            if (i == j && !(sum > 0))
                return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
        for (int64_t j = i + 1; j < n; j++)
            a[i * n + j] = 0;
    }
    return true;
}

static void triangular(int64_t n, int64_t right, const double *a, double *b, bool upper, bool unit, bool transposed)
{
    for (int64_t step = 0; step < n; step++) {
        const int64_t i = upper != transposed ? n - 1 - step : step;
        for (int64_t c = 0; c < right; c++) {
            double sum = b[i * right + c];
            for (int64_t done = 0; done < step; done++) {
                const int64_t j = upper != transposed ? n - 1 - done : done;
                sum -= (transposed ? a[j * n + i] : a[i * n + j]) * b[j * right + c];
            }
            b[i * right + c] = unit ? sum : sum / a[i * n + i];
        }
    }
}

static void exchange(double *a, int64_t width, int64_t i, int64_t j)
{
    for (int64_t c = 0; c < width && i != j; c++) {
        const double kept = a[i * width + c];
        a[i * width + c] = a[j * width + c];
        a[j * width + c] = kept;
    }
}

bool samba_matrix_lu(int64_t n, double *a, double *pivots)
{
    bool regular = true;
    for (int64_t j = 0; j < n; j++) {
        int64_t pivot = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs(a[i * n + j]) > fabs(a[pivot * n + j]))
                pivot = i;
        pivots[j] = (double)pivot;
        exchange(a, n, j, pivot);
        regular = regular && a[j * n + j] != 0;
        for (int64_t i = j + 1; i < n && a[j * n + j] != 0; i++) {
            const double factor = a[i * n + j] /= a[j * n + j];
            for (int64_t c = j + 1; c < n; c++)
                a[i * n + c] -= factor * a[j * n + c];
        }
    }
    return regular;
}

void samba_matrix_lu_solve(int64_t n, int64_t right, const double *lu, double *b, bool transposed)
{
    const double *pivots = lu + n * n;
    for (int64_t i = 0; i < n && !transposed; i++)
        exchange(b, right, i, (int64_t)pivots[i]);
    triangular(n, right, lu, b, transposed, !transposed, transposed);
    triangular(n, right, lu, b, !transposed, transposed, transposed);
    for (int64_t i = n - 1; i >= 0 && transposed; i--)
        exchange(b, right, i, (int64_t)pivots[i]);
}

/* What Householder's reflection number j, which stands below the diagonal of a (m, n), makes of columns from `first` on of x
 * (m, width). */
static void reflect(int64_t m, int64_t n, const double *a, int64_t j, double factor, double *x, int64_t width, int64_t first)
{
    for (int64_t c = first; c < width; c++) {
        double sum = x[j * width + c];
        for (int64_t i = j + 1; i < m; i++)
            sum += a[i * n + j] * x[i * width + c];
        x[j * width + c] -= factor * sum;
        for (int64_t i = j + 1; i < m; i++)
            x[i * width + c] -= factor * sum * a[i * n + j];
    }
}

/* Q (m, k) and R (k, n), by reflections that leave a column as it is where nothing stands below its diagonal. */
void samba_matrix_qr(int64_t m, int64_t n, double *a, double *q, double *r, double *factors)
{
    const int64_t k = m < n ? m : n;
    for (int64_t j = 0; j < k; j++) {
        double below = 0, alpha = a[j * n + j];
        for (int64_t i = j + 1; i < m; i++)
            below = hypot(below, a[i * n + j]);
        factors[j] = 0;
        if (below == 0)
            continue;
        const double beta = -copysign(hypot(alpha, below), alpha);
        factors[j] = (beta - alpha) / beta;
        for (int64_t i = j + 1; i < m; i++)
            a[i * n + j] /= alpha - beta;
        a[j * n + j] = beta;
        reflect(m, n, a, j, factors[j], a, n, j + 1);
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t c = 0; c < k; c++)
            q[i * k + c] = i == c;
    for (int64_t j = k - 1; j >= 0; j--)
        reflect(m, n, a, j, factors[j], q, k, 0);
    for (int64_t i = 0; i < k; i++)
        for (int64_t c = 0; c < n; c++)
            r[i * n + c] = c >= i ? a[i * n + c] : 0;
}

/* Jacobi's rotation that makes the product of two columns 0, from their norms squared and that product. */
static bool rotation(double p, double q, double both, double *cosine, double *sine)
{
    if (fabs(both) <= 1e-300 || fabs(both) <= 1e-17 * sqrt(fabs(p)) * sqrt(fabs(q)))
        return false;
    const double zeta = (q - p) / (2 * both), t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + hypot(1, zeta));
    *cosine = 1 / hypot(1, t);
    *sine = *cosine * t;
    return true;
}

static void rotate(double *a, int64_t rows, int64_t width, int64_t p, int64_t q, double cosine, double sine)
{
    for (int64_t i = 0; i < rows; i++) {
        const double x = a[i * width + p], y = a[i * width + q];
        a[i * width + p] = cosine * x - sine * y;
        a[i * width + q] = sine * x + cosine * y;
    }
}

static void swap_columns(double *a, int64_t rows, int64_t width, int64_t i, int64_t j)
{
    for (int64_t r = 0; r < rows; r++) {
        const double kept = a[r * width + i];
        a[r * width + i] = a[r * width + j];
        a[r * width + j] = kept;
    }
}

/* The sign of columns of u, and of the columns of v with them. */
static void turn(int64_t rows, int64_t columns, double *u, double *v, int64_t others)
{
    for (int64_t j = 0; j < columns; j++) {
        double greatest = 0;
        int64_t at = 0;
        for (int64_t i = 0; i < rows; i++)
            greatest = fmax(greatest, fabs(u[i * columns + j]));
        while (at < rows && fabs(u[at * columns + j]) <= 0.37 * greatest)
            at++;
        if (at == rows || u[at * columns + j] >= 0)
            continue;
        for (int64_t i = 0; i < rows; i++)
            u[i * columns + j] = -u[i * columns + j];
        for (int64_t i = 0; v && i < others; i++)
            v[i * columns + j] = -v[i * columns + j];
    }
}

/* Values, ascending, and vectors (n, n) of a symmetric a, of which the lower triangle counts. */
bool samba_matrix_eigh(int64_t n, double *a, double *values, double *vectors)
{
    if (!is_finite(a, n * n))
        return false;
    double norm = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            vectors[i * n + j] = i == j;
            if (j > i)
                a[i * n + j] = a[j * n + i];
            norm = fmax(norm, fabs(j > i ? a[j * n + i] : a[i * n + j]));
        }
    for (int sweep = 0, turned = 1; sweep < SWEEPS && turned; sweep++) {
        turned = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                const double both = a[p * n + q];
                if (fabs(both) <= 1e-18 * norm)
                    continue;
                const double theta = (a[q * n + q] - a[p * n + p]) / (2 * both),
                             t = (theta >= 0 ? 1 : -1) / (fabs(theta) + hypot(1, theta)), cosine = 1 / hypot(1, t);
                rotate(a, n, n, p, q, cosine, cosine * t);
                for (int64_t i = 0; i < n; i++) { /* the same of the rows */
                    const double x = a[p * n + i], y = a[q * n + i];
                    a[p * n + i] = cosine * x - cosine * t * y;
                    a[q * n + i] = cosine * t * x + cosine * y;
                }
                a[p * n + q] = a[q * n + p] = 0;
                rotate(vectors, n, n, p, q, cosine, cosine * t);
                turned = 1;
            }
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = n - 1; j > i; j--)
            if (values[j] < values[j - 1]) {
                const double kept = values[j];
                values[j] = values[j - 1];
                values[j - 1] = kept;
                swap_columns(vectors, n, n, j, j - 1);
            }
    turn(n, n, vectors, NULL, 0);
    return true;
}

/* A unit vector at right angles to columns 0 to j - 1 becomes column j. */
static void complete(double *u, int64_t m, int64_t k, int64_t j)
{
    double best = 0;
    int64_t unit = 0;
    for (int64_t e = 0; e < m; e++) { /* the axis of which least lies in the others */
        double left = 1;
        for (int64_t c = 0; c < j; c++)
            left -= u[e * k + c] * u[e * k + c];
        if (left > best) {
            best = left;
            unit = e;
        }
    }
    for (int64_t i = 0; i < m; i++)
        u[i * k + j] = i == unit;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t c = 0; c < j; c++) {
            double dot = 0;
            for (int64_t i = 0; i < m; i++)
                dot += u[i * k + c] * u[i * k + j];
            for (int64_t i = 0; i < m; i++)
                u[i * k + j] -= dot * u[i * k + c];
        }
    double norm = 0;
    for (int64_t i = 0; i < m; i++)
        norm = hypot(norm, u[i * k + j]);
    for (int64_t i = 0; i < m; i++)
        u[i * k + j] /= norm;
}

/* u (m, k) holds the columns to be turned, m >= k; v (k, k). Jacobi's one-sided method (Demmel and Veselic 1992). */
static void one_sided(int64_t m, int64_t k, double *u, double *values, double *v)
{
    double greatest = 0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++)
            v[i * k + j] = i == j;
    for (int sweep = 0, turned = 1; sweep < SWEEPS && turned; sweep++) {
        turned = 0;
        for (int64_t p = 0; p < k; p++)
            for (int64_t q = p + 1; q < k; q++) {
                double of_p = 0, of_q = 0, both = 0, cosine, sine;
                for (int64_t i = 0; i < m; i++) {
                    of_p += u[i * k + p] * u[i * k + p];
                    of_q += u[i * k + q] * u[i * k + q];
                    both += u[i * k + p] * u[i * k + q];
                }
                if (!rotation(of_p, of_q, both, &cosine, &sine))
                    continue;
                rotate(u, m, k, p, q, cosine, sine);
                rotate(v, k, k, p, q, cosine, sine);
                turned = 1;
            }
    }
    for (int64_t j = 0; j < k; j++) {
        values[j] = 0;
        for (int64_t i = 0; i < m; i++)
            values[j] = hypot(values[j], u[i * k + j]);
        greatest = fmax(greatest, values[j]);
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = k - 1; j > i; j--)
            if (values[j] > values[j - 1]) {
                const double kept = values[j];
                values[j] = values[j - 1];
                values[j - 1] = kept;
                swap_columns(u, m, k, j, j - 1);
                swap_columns(v, k, k, j, j - 1);
            }
    for (int64_t j = 0; j < k; j++)
        if (values[j] <= 1e-15 * greatest) /* what is left of it is rounding */
            complete(u, m, k, j);
        else
            for (int64_t i = 0; i < m; i++)
                u[i * k + j] /= values[j];
}

bool samba_matrix_svd(int64_t m, int64_t n, const double *a, double *u, double *values, double *v)
{
    const int64_t k = m < n ? m : n;
    if (!is_finite(a, m * n))
        return false;
    double *tall = m >= n ? u : v, *small = m >= n ? v : u;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            tall[m >= n ? i * k + j : j * k + i] = a[i * n + j];
    one_sided(m >= n ? m : n, k, tall, values, small);
    turn(m, k, u, v, n);
    return true;
}

static void multiply(int64_t n, const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

/* term and next: room */
static void exponential(int64_t n, double *a, double *result, double *term, double *next)
{
    double norm = 0;
    int squarings = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += fabs(a[i * n + j]);
        norm = sum <= norm ? norm : sum;
    }
    if (!isfinite(norm)) {
        for (int64_t i = 0; i < n * n; i++)
            result[i] = NAN;
        return;
    }
    for (; norm > 0.5; norm /= 2)
        squarings++;
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = ldexp(a[i], -squarings);
        result[i] = term[i] = i / n == i % n;
    }
    for (int degree = 1; degree < 24; degree++) {
        multiply(n, term, a, next);
        for (int64_t i = 0; i < n * n; i++)
            result[i] += term[i] = next[i] / degree;
    }
    for (; squarings > 0; squarings--) {
        multiply(n, result, result, next);
        memcpy(result, next, sizeof *next * (size_t)(n * n));
    }
}

/* ---- the operators with a kernel ---- */

samba_status samba_ref_cholesky(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *y = reference->output;
    const int64_t size = y->shape[y->rank - 1] * y->shape[y->rank - 1];
    SAMBA_TRY(samba_matrices_begin(&s, reference, "cholesky", size));
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!cholesky(s.n, s.room))
            status = samba_matrices_fail(&s, e, "is not positive definite");
        samba_matrices_store(&s, e, size, 0, size, s.room);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_triangular_solve(const samba_reference *reference)
{
    samba_matrices s;
    const samba_attrs_triangular *attrs = &reference->attrs->triangular;
    const samba_array *y = reference->output;
    const int64_t n = y->shape[y->rank - 2], right = y->shape[y->rank - 1];
    SAMBA_TRY(samba_matrices_begin(&s, reference, "triangular_solve", n * n + n * right));
    for (int64_t e = 0; e < s.batch; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        samba_matrices_load(&s, 1, e, s.room + n * n);
        triangular(n, right, s.room, s.room + n * n, attrs->upper != 0, attrs->unit != 0, false);
        samba_matrices_store(&s, e, n * right, 0, n * right, s.room + n * n);
    }
    return samba_matrices_end(&s, SAMBA_OK);
}

samba_status samba_ref_lu_factors(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *y = reference->output;
    const int64_t n = y->shape[y->rank - 1], size = n * n + n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "lu_factors", size));
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!samba_matrix_lu(n, s.room, s.room + n * n) && !reference->attrs->lu.singular)
            status = samba_matrices_fail(&s, e, "is singular");
        samba_matrices_store(&s, e, size, 0, size, s.room);
    }
    return samba_matrices_end(&s, status);
}

static samba_status check_exchanges(const samba_matrices *s, int64_t element, int64_t n, const double *pivots)
{
    for (int64_t i = 0; i < n; i++)
        if (!(pivots[i] >= (double)i && pivots[i] < (double)n) || pivots[i] != trunc(pivots[i]))
            return samba_matrices_fail(s, element, "was not made by lu_factors: its last row names no rows to exchange");
    return SAMBA_OK;
}

samba_status samba_ref_lu_inverse(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *y = reference->output;
    const int64_t n = y->shape[y->rank - 1], size = n * n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "lu_inverse", size + n + size));
    double *lu = s.room, *x = lu + size + n;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, lu);
        status = check_exchanges(&s, e, n, lu + size);
        for (int64_t i = 0; i < size; i++)
            x[i] = i / n == i % n;
        if (status == SAMBA_OK)
            samba_matrix_lu_solve(n, n, lu, x, false);
        samba_matrices_store(&s, e, size, 0, size, x);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_lu_solve(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *y = reference->output;
    const int64_t n = y->shape[y->rank - 2], right = y->shape[y->rank - 1];
    SAMBA_TRY(samba_matrices_begin(&s, reference, "lu_solve", n * n + n + n * right));
    double *lu = s.room, *b = lu + n * n + n;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, lu);
        samba_matrices_load(&s, 1, e, b);
        status = check_exchanges(&s, e, n, lu + n * n);
        if (status == SAMBA_OK)
            samba_matrix_lu_solve(n, right, lu, b, reference->attrs->lu_solve.transposed != 0);
        samba_matrices_store(&s, e, n * right, 0, n * right, b);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_qr_factors(const samba_reference *reference)
{
    samba_matrices s;
    const samba_array *a = &reference->inputs[0];
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], k = m < n ? m : n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "qr_factors", m * n + m * k + k * n + k + n * k));
    double *q = s.room + m * n, *r = q + m * k, *factors = r + k * n, *turned = factors + k;
    for (int64_t e = 0; e < s.batch; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        samba_matrix_qr(m, n, s.room, q, r, factors);
        for (int64_t i = 0; i < n * k; i++)
            turned[i] = r[i % k * n + i / k];
        samba_matrices_store(&s, e, (m + n) * k, 0, m * k, q);
        samba_matrices_store(&s, e, (m + n) * k, m * k, n * k, turned);
    }
    return samba_matrices_end(&s, SAMBA_OK);
}

samba_status samba_ref_eigh_factors(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *y = reference->output;
    const bool all = !reference->attrs->spectrum.values;
    const int64_t n = y->shape[y->rank - 1], size = all ? n + n * n : n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "eigh_factors", n * n + n + n * n));
    double *values = s.room + n * n;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!samba_matrix_eigh(n, s.room, values, values + n))
            status = samba_matrices_fail(&s, e, not_finite);
        samba_matrices_store(&s, e, size, 0, size, values);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_svd_factors(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *a = &reference->inputs[0];
    const bool all = !reference->attrs->spectrum.values;
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], k = m < n ? m : n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "svd_factors", m * n + m * k + k + n * k));
    double *u = s.room + m * n, *values = u + m * k, *v = values + k;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!samba_matrix_svd(m, n, s.room, u, values, v))
            status = samba_matrices_fail(&s, e, not_finite);
        if (all)
            samba_matrices_store(&s, e, (m + 1 + n) * k, 0, (m + 1 + n) * k, u);
        else
            samba_matrices_store(&s, e, k, 0, k, values);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_matrix_exp(const samba_reference *reference)
{
    samba_matrices s;
    const samba_array *y = reference->output;
    const int64_t n = y->shape[y->rank - 1], size = n * n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "matrix_exp", 4 * size));
    for (int64_t e = 0; e < s.batch; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        exponential(n, s.room, s.room + size, s.room + 2 * size, s.room + 3 * size);
        samba_matrices_store(&s, e, size, 0, size, s.room + size);
    }
    return samba_matrices_end(&s, SAMBA_OK);
}
