/* SPDX-License-Identifier: Apache-2.0
 *
 * The exponential of a matrix by scaling and squaring: exp(a) = exp(a / 2^s)^(2^s), with s such that the norm of a / 2^s is small
 * enough for Taylor's polynomial of degree 16. That takes six products, after Paterson and Stockmeyer, and s more
 * (Higham, Functions of Matrices, 10.3). */
#include "device/cpu/matrix/matrix.h"

#include <math.h>
#include <string.h>

/* p plus the terms first to first + 3 of Taylor's series over a to the power of `first` */
#define EXPONENTIAL(name, real, is_wide, most)                                                                                   \
    static void name##_terms(int n, int first, const real *a, const real *a2, const real *a3, real *p)                           \
    {                                                                                                                            \
        double c[4] = {1};                                                                                                       \
        for (int i = 2; i <= first; i++)                                                                                         \
            c[0] /= i;                                                                                                           \
        for (int i = 1; i < 4; i++)                                                                                              \
            c[i] = c[i - 1] / (first + i);                                                                                       \
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
        for (int64_t i = 0; i < size; i++)                                                                                       \
            a[i] = (real)ldexp((double)a[i], -squarings);                                                                        \
        lapack->multiply(is_wide, n, a, a, a2);                                                                                  \
        lapack->multiply(is_wide, n, a, a2, a3);                                                                                 \
        lapack->multiply(is_wide, n, a2, a2, a4);                                                                                \
        for (int64_t i = 0; i < size; i++)                                                                                       \
            q[i] = (real)((double)a4[i] / 20922789888000.0); /* 16! */                                                           \
        name##_terms(n, 12, a, a2, a3, q);                                                                                       \
        for (int first = 8; first >= 0; first -= 4) {                                                                            \
            lapack->multiply(is_wide, n, q, a4, p);                                                                              \
            name##_terms(n, first, a, a2, a3, p);                                                                                \
            memcpy(q, p, bytes);                                                                                                 \
        }                                                                                                                        \
        for (; squarings > 0; squarings--) {                                                                                     \
            lapack->multiply(is_wide, n, q, q, p);                                                                               \
            memcpy(q, p, bytes);                                                                                                 \
        }                                                                                                                        \
        memcpy(result, q, bytes);                                                                                                \
    }
EXPONENTIAL(f32, float, false, 2.0)
EXPONENTIAL(f64, double, true, 0.75)
