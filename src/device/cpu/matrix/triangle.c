/* SPDX-License-Identifier: Apache-2.0
 *
 * Triangular systems of equations, a x = b, by substitution (Golub and Van Loan, Matrix Computations, 3.1): some columns of b at
 * once, as many rows of them as registers hold. What the rows that are solved take from these is a product of vectors; the rest
 * is a small triangle in registers. Of one column of b the time is that of reading a, some rows or columns at once. Compiled once
 * for each ISA. */
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/matrix/triangle.h"
#include "device/cpu/tile/parts.h"

enum {
    ROWS = 6,
    ONE_ROWS = 4,                /* of one column: streams that are read at once */
    MOST = VECTOR_REGISTERS / 8, /* vectors of a row: with ROWS of them there is room for one more row and a factor */
};

/* One column: what rows, or the rows after some columns, take of those that are solved; between them a small triangle. */
#define ONE(name, type)                                                                                                          \
    INLINE void little_##name(const type *a, int64_t row, int64_t column, int rows, bool upper, bool unit, type *x)              \
    {                                                                                                                            \
        for (int s = 0; s < rows; s++) {                                                                                         \
            const int r = upper ? rows - 1 - s : s;                                                                              \
            for (int t = 0; t < s; t++) {                                                                                        \
                const int q = upper ? rows - 1 - t : t;                                                                          \
                x[r] -= a[r * row + q * column] * x[q];                                                                          \
            }                                                                                                                    \
            if (!unit)                                                                                                           \
                x[r] /= a[r * row + r * column];                                                                                 \
        }                                                                                                                        \
    }                                                                                                                            \
    static void one_by_rows_##name(const type *a, int64_t pitch, int64_t n, bool upper, bool unit, type *b)                      \
    {                                                                                                                            \
        for (int64_t done = 0; done < n; done += ONE_ROWS) {                                                                     \
            const int rows = n - done < ONE_ROWS ? (int)(n - done) : ONE_ROWS;                                                   \
            const int64_t i = upper ? n - done - rows : done, begin = upper ? i + rows : 0, end = upper ? n : i;                 \
            const type *r0 = a + i * pitch, *r1 = rows > 1 ? r0 + pitch : r0, *r2 = rows > 2 ? r1 + pitch : r0,                  \
                       *r3 = rows > 3 ? r2 + pitch : r0;                                                                         \
            type s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                                 \
            _Pragma("omp simd reduction(+ : s0, s1, s2, s3)") for (int64_t k = begin; k < end; k++)                              \
            {                                                                                                                    \
                s0 += r0[k] * b[k];                                                                                              \
                s1 += r1[k] * b[k];                                                                                              \
                s2 += r2[k] * b[k];                                                                                              \
                s3 += r3[k] * b[k];                                                                                              \
            }                                                                                                                    \
            const type taken[ONE_ROWS] = {s0, s1, s2, s3};                                                                       \
            for (int r = 0; r < rows; r++)                                                                                       \
                b[i + r] -= taken[r];                                                                                            \
            little_##name(r0 + i, pitch, 1, rows, upper, unit, b + i);                                                           \
        }                                                                                                                        \
    }                                                                                                                            \
    static void one_by_columns_##name(const type *a, int64_t pitch, int64_t n, bool upper, bool unit, type *b)                   \
    {                                                                                                                            \
        for (int64_t done = 0, columns; done < n; done += columns) {                                                             \
            columns = n - done < ONE_ROWS ? 1 : ONE_ROWS;                                                                        \
            const int64_t j = upper ? n - done - columns : done, begin = upper ? 0 : j + columns, end = upper ? j : n;           \
            const type *c0 = a + j * pitch;                                                                                      \
            little_##name(c0 + j, 1, pitch, (int)columns, upper, unit, b + j);                                                   \
            const type x0 = b[j];                                                                                                \
            if (columns == 1) {                                                                                                  \
                SAMBA_VECTOR_LOOP for (int64_t i = begin; i < end; i++)                                                          \
                    b[i] -= c0[i] * x0;                                                                                          \
                continue;                                                                                                        \
            }                                                                                                                    \
            const type *c1 = c0 + pitch, *c2 = c1 + pitch, *c3 = c2 + pitch, x1 = b[j + 1], x2 = b[j + 2], x3 = b[j + 3];        \
            SAMBA_VECTOR_LOOP for (int64_t i = begin; i < end; i++)                                                              \
                b[i] -= c0[i] * x0 + c1[i] * x1 + (c2[i] * x2 + c3[i] * x3);                                                     \
        }                                                                                                                        \
    }

/* A function of its own for each kind of triangle, and each number of vectors in it. */
#define KIND(kind, name, type, upper, unit)                                                                                      \
    static void kind##_##name(const type *a, int64_t pitch, int64_t n, type *b, int64_t line, int vectors)                       \
    {                                                                                                                            \
        vectors == 1 ? all_rows_##name(a, pitch, n, upper, unit, b, line, 1)                                                     \
                     : all_rows_##name(a, pitch, n, upper, unit, b, line, MOST);                                                 \
    }

/* Rows [i, i + rows) of `vectors` vectors of columns; those before them are solved or, where a is upper, those behind. */
#define SOLVE(name, type, VECTOR)                                                                                                \
    INLINE void some_rows_##name(const type *a, int64_t pitch, int64_t n, const bool upper, const bool unit, type *b,            \
                                 int64_t line, int64_t i, const int rows, const int vectors)                                     \
    {                                                                                                                            \
        enum { LANES = VECTOR_BYTES / (int)sizeof(type) };                                                                       \
        VECTOR x[ROWS][MOST], solved[MOST];                                                                                      \
        const type *of = a + i * pitch;                                                                                          \
        const int64_t begin = upper ? i + rows : 0, end = upper ? n : i;                                                         \
        UNROLL for (int r = 0; r < rows; r++) {                                                                                  \
            UNROLL for (int v = 0; v < vectors; v++)                                                                             \
                __builtin_memcpy(&x[r][v], b + (i + r) * line + v * LANES, sizeof(VECTOR));                                      \
        }                                                                                                                        \
        for (int64_t k = begin; k < end; k++) {                                                                                  \
            UNROLL for (int v = 0; v < vectors; v++)                                                                             \
                __builtin_memcpy(&solved[v], b + k * line + v * LANES, sizeof(VECTOR));                                          \
            UNROLL for (int r = 0; r < rows; r++) {                                                                              \
                UNROLL for (int v = 0; v < vectors; v++)                                                                         \
                    x[r][v] -= of[r * pitch + k] * solved[v];                                                                    \
            }                                                                                                                    \
        }                                                                                                                        \
        UNROLL for (int s = 0; s < rows; s++) {                                                                                  \
            const int r = upper ? rows - 1 - s : s;                                                                              \
            UNROLL for (int t = 0; t < s; t++) {                                                                                 \
                const int q = upper ? rows - 1 - t : t;                                                                          \
                UNROLL for (int v = 0; v < vectors; v++)                                                                         \
                    x[r][v] -= of[r * pitch + i + q] * x[q][v];                                                                  \
            }                                                                                                                    \
            UNROLL for (int v = 0; v < vectors && !unit; v++)                                                                    \
                x[r][v] /= of[r * pitch + i + r] - (VECTOR){0};                                                                  \
        }                                                                                                                        \
        UNROLL for (int r = 0; r < rows; r++) {                                                                                  \
            UNROLL for (int v = 0; v < vectors; v++)                                                                             \
                __builtin_memcpy(b + (i + r) * line + v * LANES, &x[r][v], sizeof(VECTOR));                                      \
        }                                                                                                                        \
    }                                                                                                                            \
    INLINE void all_rows_##name(const type *a, int64_t pitch, int64_t n, const bool upper, const bool unit, type *b,             \
                                int64_t line, const int vectors)                                                                 \
    {                                                                                                                            \
        int64_t i = upper ? n - n % ROWS : 0; /* the rows that are left over are the last ones either way */                     \
        for (; !upper && i + ROWS <= n; i += ROWS)                                                                               \
            some_rows_##name(a, pitch, n, upper, unit, b, line, i, ROWS, vectors);                                               \
        switch (n % ROWS) {                                                                                                      \
        case 1: some_rows_##name(a, pitch, n, upper, unit, b, line, i, 1, vectors); break;                                       \
        case 2: some_rows_##name(a, pitch, n, upper, unit, b, line, i, 2, vectors); break;                                       \
        case 3: some_rows_##name(a, pitch, n, upper, unit, b, line, i, 3, vectors); break;                                       \
        case 4: some_rows_##name(a, pitch, n, upper, unit, b, line, i, 4, vectors); break;                                       \
        case 5: some_rows_##name(a, pitch, n, upper, unit, b, line, i, 5, vectors); break;                                       \
        }                                                                                                                        \
        for (i -= ROWS; upper && i >= 0; i -= ROWS)                                                                              \
            some_rows_##name(a, pitch, n, upper, unit, b, line, i, ROWS, vectors);                                               \
    }                                                                                                                            \
    KIND(lower, name, type, false, false)                                                                                        \
    KIND(lower_unit, name, type, false, true)                                                                                    \
    KIND(upper, name, type, true, false)                                                                                         \
    KIND(upper_unit, name, type, true, true)                                                                                     \
    void SAMBA_ISA_NAME(samba_triangle_##name)(const samba_triangle *t, void *b_)                                                \
    {                                                                                                                            \
        enum { LANES = VECTOR_BYTES / (int)sizeof(type) };                                                                       \
        type *b = b_;                                                                                                            \
        if (t->line == 1) {                                                                                                      \
            (t->turned ? one_by_columns_##name : one_by_rows_##name)(t->a, t->pitch, t->n, t->upper, t->unit, b);                \
            return;                                                                                                              \
        }                                                                                                                        \
        for (int64_t j = 0, vectors; j < t->columns; j += vectors * LANES) {                                                     \
            vectors = t->room - j >= MOST * LANES && t->columns - j > LANES ? MOST : 1;                                          \
            (t->upper  ? t->unit ? upper_unit_##name : upper_##name                                                              \
             : t->unit ? lower_unit_##name                                                                                       \
                       : lower_##name)(t->a, t->pitch, t->n, b + j, t->line, (int)vectors);                                      \
        }                                                                                                                        \
    }
ONE(f32, float)
ONE(f64, double)
SOLVE(f32, float, floats)
SOLVE(f64, double, doubles)
