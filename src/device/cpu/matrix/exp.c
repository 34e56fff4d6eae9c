/* SPDX-License-Identifier: Apache-2.0
 *
 * The exponential of a matrix by scaling and squaring: exp(a) = exp(a / 2^s)^(2^s), with s such that the norm of a / 2^s is small
 * enough for Taylor's polynomial of degree 16. That takes six products, after Paterson and Stockmeyer, and s more
 * (Higham, Functions of Matrices, 10.3). */
#include "device/cpu/matrix/matrix.h"

#include <math.h>
#include <string.h>

/* 1 / k! */
static const double taylor[17] = {1.0,
                                  1.0,
                                  1.0 / 2,
                                  1.0 / 6,
                                  1.0 / 24,
                                  1.0 / 120,
                                  1.0 / 720,
                                  1.0 / 5040,
                                  1.0 / 40320,
                                  1.0 / 362880,
                                  1.0 / 3628800,
                                  1.0 / 39916800,
                                  1.0 / 479001600,
                                  1.0 / 6227020800,
                                  1.0 / 87178291200,
                                  1.0 / 1307674368000,
                                  1.0 / 20922789888000};

/* p plus the terms first to first + 3 of Taylor's series over a to the power of `first` */
#define EXPONENTIAL(name, real, is_wide, most)                                                                                   \
    static inline __attribute__((always_inline)) void name##_product(const int n, const real *a, const real *b, real *c)         \
    {                                                                                                                            \
        for (int j = 0; j < n; j++)                                                                                              \
            for (int i = 0; i < n; i++) {                                                                                        \
                double sum = 0;                                                                                                  \
                for (int k = 0; k < n; k++)                                                                                      \
                    sum += (double)a[k * n + i] * (double)b[j * n + k];                                                          \
                c[j * n + i] = (real)sum;                                                                                        \
            }                                                                                                                    \
    }                                                                                                                            \
    static void name##_multiply(const samba_lapack_interface *lapack, int n, const real *a, const real *b, real *c)              \
    {                                                                                                                            \
        switch (n) { /* small ones take less than a call */                                                                      \
        case 2: name##_product(2, a, b, c); break;                                                                               \
        case 3: name##_product(3, a, b, c); break;                                                                               \
        case 4: name##_product(4, a, b, c); break;                                                                               \
        default: lapack->multiply(is_wide, n, a, b, c);                                                                          \
        }                                                                                                                        \
    }                                                                                                                            \
    static void name##_terms(int n, int first, const real *a, const real *a2, const real *a3, real *p)                           \
    {                                                                                                                            \
        const double *c = taylor + first;                                                                                        \
        for (int64_t i = 0; i < (int64_t)n * n; i++)                                                                             \
            p[i] += (real)(c[1] * (double)a[i] + c[2] * (double)a2[i] + c[3] * (double)a3[i]);                                   \
        for (int64_t i = 0; i < n; i++)                                                                                          \
            p[i * n + i] += (real)c[0];                                                                                          \
    }                                                                                                                            \
    void samba_matrix_exp_##name(const samba_lapack_interface *lapack, int n, real *a, real *result, real *room)                 \
    {                                                                                                                            \
        const int64_t size = (int64_t)n * n;                                                                                     \
        const size_t bytes = sizeof(real) * (size_t)size;                                                                        \
        real *a2 = room, *a3 = a2 + size, *a4 = a3 + size, *p = a4 + size, *q = p + size;                                        \
        double norm = 0;                                                                                                         \
        for (int64_t j = 0; j < n; j++) {                                                                                        \
            double sum = 0;                                                                                                      \
            for (int64_t i = 0; i < n; i++)                                                                                      \
                sum += fabs((double)a[j * n + i]);                                                                               \
            norm = sum <= norm ? norm : sum; /* NaN stays */                                                                     \
        }                                                                                                                        \
        if (!isfinite(norm)) {                                                                                                   \
            for (int64_t i = 0; i < size; i++)                                                                                   \
                result[i] = (real)NAN;                                                                                           \
            return;                                                                                                              \
        }                                                                                                                        \
        int squarings = 0;                                                                                                       \
        if (norm > (most))                                                                                                       \
            squarings = (int)ceil(log2(norm / (most)));                                                                          \
        const double scale = ldexp(1, -squarings);                                                                               \
        for (int64_t i = 0; i < size; i++)                                                                                       \
            a[i] = (real)((double)a[i] * scale);                                                                                 \
        name##_multiply(lapack, n, a, a, a2);                                                                                    \
        name##_multiply(lapack, n, a, a2, a3);                                                                                   \
        name##_multiply(lapack, n, a2, a2, a4);                                                                                  \
        for (int64_t i = 0; i < size; i++)                                                                                       \
            q[i] = (real)((double)a4[i] * taylor[16]);                                                                           \
        name##_terms(n, 12, a, a2, a3, q);                                                                                       \
        for (int first = 8; first >= 0; first -= 4) {                                                                            \
            name##_multiply(lapack, n, q, a4, p);                                                                                \
            name##_terms(n, first, a, a2, a3, p);                                                                                \
            memcpy(q, p, bytes);                                                                                                 \
        }                                                                                                                        \
        for (; squarings > 0; squarings--) {                                                                                     \
            name##_multiply(lapack, n, q, q, p);                                                                                 \
            memcpy(q, p, bytes);                                                                                                 \
        }                                                                                                                        \
        memcpy(result, q, bytes);                                                                                                \
    }
EXPONENTIAL(f32, float, false, 2.0)
EXPONENTIAL(f64, double, true, 0.75)
