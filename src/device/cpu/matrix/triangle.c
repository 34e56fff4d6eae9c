/* SPDX-License-Identifier: Apache-2.0
 *
 * Triangular systems of equations, a x = b, by substitution (Golub and Van Loan, Matrix Computations, 3.1): some columns of b at
 * once, as many rows of them as registers hold. What the rows that are solved take from these is a product of vectors; the rest
 * is a small triangle in registers. Compiled once for each ISA. */
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/matrix/triangle.h"
#include "device/cpu/tile/parts.h"

enum {
    ROWS = 6,
    MOST = VECTOR_REGISTERS / 8, /* vectors of a row: with ROWS of them there is room for one more row and a factor */
};

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
        for (int64_t j = 0, vectors; j < t->columns; j += vectors * LANES) {                                                     \
            vectors = t->room - j >= MOST * LANES && t->columns - j > LANES ? MOST : 1;                                          \
            (t->upper  ? t->unit ? upper_unit_##name : upper_##name                                                              \
             : t->unit ? lower_unit_##name                                                                                       \
                       : lower_##name)(t->a, t->pitch, t->n, b + j, t->line, (int)vectors);                                      \
        }                                                                                                                        \
    }
SOLVE(f32, float, floats)
SOLVE(f64, double, doubles)
