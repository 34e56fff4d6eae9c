/* SPDX-License-Identifier: Apache-2.0
 *
 * LU with partial pivoting, P a = L U, of a matrix that lies by rows (lu.h): columns are halved until a line of cache of them is
 * left (Toledo, Locality of Reference in LU Decomposition with Partial Pivoting, SIAM J. Matrix Anal. Appl. 1997). Those are
 * turned, so that a column is a row of vectors, and done one by one; what they mean for the columns behind is a triangular system
 * (triangle.c) and a product of vectors. Compiled once for each ISA. */
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/matrix/lu.h"
#include "device/cpu/tile/parts.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    ROWS = 6,
    MOST = VECTOR_REGISTERS / 8, /* vectors of a row, as triangle.c has them */
};

#define LU(name, type, VECTOR, MASK, index, least)                                                                               \
    enum { LANES_##name = VECTOR_BYTES / (int)sizeof(type), WIDTH_##name = 64 / (int)sizeof(type) };                             \
    /* rows x vectors of c less the product of l (rows x depth) and u (depth x vectors) */                                       \
    INLINE void less_rows_##name(type *c, int64_t pitch, const type *l, const type *u, int64_t depth, const int rows,            \
                                 const int vectors)                                                                              \
    {                                                                                                                            \
        VECTOR x[ROWS][MOST], of[MOST];                                                                                          \
        UNROLL for (int r = 0; r < rows; r++) {                                                                                  \
            UNROLL for (int v = 0; v < vectors; v++)                                                                             \
                __builtin_memcpy(&x[r][v], c + r * pitch + v * LANES_##name, sizeof(VECTOR));                                    \
        }                                                                                                                        \
        for (int64_t k = 0; k < depth; k++) {                                                                                    \
            UNROLL for (int v = 0; v < vectors; v++)                                                                             \
                __builtin_memcpy(&of[v], u + k * pitch + v * LANES_##name, sizeof(VECTOR));                                      \
            UNROLL for (int r = 0; r < rows; r++) {                                                                              \
                UNROLL for (int v = 0; v < vectors; v++)                                                                         \
                    x[r][v] -= l[r * pitch + k] * of[v];                                                                         \
            }                                                                                                                    \
        }                                                                                                                        \
        UNROLL for (int r = 0; r < rows; r++) {                                                                                  \
            UNROLL for (int v = 0; v < vectors; v++)                                                                             \
                __builtin_memcpy(c + r * pitch + v * LANES_##name, &x[r][v], sizeof(VECTOR));                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    INLINE void less_columns_##name(const samba_lu *lu, int64_t first, int64_t depth, int64_t j, const int vectors)              \
    {                                                                                                                            \
        type *a = lu->a;                                                                                                         \
        const int64_t pitch = lu->pitch;                                                                                         \
        int64_t i = first + depth;                                                                                               \
        for (; i + ROWS <= lu->n; i += ROWS)                                                                                     \
            less_rows_##name(a + i * pitch + j, pitch, a + i * pitch + first, a + first * pitch + j, depth, ROWS, vectors);      \
        for (; i < lu->n; i++)                                                                                                   \
            less_rows_##name(a + i * pitch + j, pitch, a + i * pitch + first, a + first * pitch + j, depth, 1, vectors);         \
    }                                                                                                                            \
    /* Columns [j, end) follow from `depth` columns that are done. */                                                            \
    static void follow_##name(const samba_lu *lu, int64_t first, int64_t depth, int64_t j, int64_t end)                          \
    {                                                                                                                            \
        type *a = lu->a;                                                                                                         \
        const samba_triangle above = {.a = a + first * lu->pitch + first,                                                        \
                                      .pitch = lu->pitch,                                                                        \
                                      .n = depth,                                                                                \
                                      .line = lu->pitch,                                                                         \
                                      .columns = end - j,                                                                        \
                                      .room = (end - j + WIDTH_##name - 1) / WIDTH_##name * WIDTH_##name,                        \
                                      .unit = true};                                                                             \
        SAMBA_ISA_NAME(samba_triangle_##name)(&above, a + first * lu->pitch + j);                                                \
        for (; j + MOST * LANES_##name <= end; j += MOST * LANES_##name)                                                         \
            less_columns_##name(lu, first, depth, j, MOST);                                                                      \
        for (; j < end; j += LANES_##name)                                                                                       \
            less_columns_##name(lu, first, depth, j, 1);                                                                         \
    }                                                                                                                            \
    /* The first of the greatest sizes among x[from] to x[n - 1]; x has zeros up to a whole vector. */                           \
    INLINE int64_t greatest_##name(const type *x, int64_t from, int64_t n)                                                       \
    {                                                                                                                            \
        VECTOR most = {0}, v;                                                                                                    \
        MASK at = {0}, here;                                                                                                     \
        int64_t found = from, i = from / LANES_##name * LANES_##name;                                                            \
        type best = -1;                                                                                                          \
        for (int l = 0; l < LANES_##name; l++) {                                                                                 \
            most[l] = -1;                                                                                                        \
            here[l] = (index)(i + l);                                                                                            \
        }                                                                                                                        \
        for (; i < n; i += LANES_##name) {                                                                                       \
            __builtin_memcpy(&v, x + i, sizeof v);                                                                               \
            MASK below = v < 0;                                                                                                  \
            v = (VECTOR)(((MASK)(-v) & below) | ((MASK)v & ~below));                                                             \
            MASK better = (v > most) & (here >= (index)from) & (here < (index)n);                                                \
            most = (VECTOR)(((MASK)v & better) | ((MASK)most & ~better));                                                        \
            at = (here & better) | (at & ~better);                                                                               \
            here += (index)LANES_##name;                                                                                         \
        }                                                                                                                        \
        for (int l = 0; l < LANES_##name; l++)                                                                                   \
            if (most[l] > best || (most[l] == best && at[l] < found)) {                                                          \
                best = most[l];                                                                                                  \
                found = at[l];                                                                                                   \
            }                                                                                                                    \
        return best >= 0 ? found : from;                                                                                         \
    }                                                                                                                            \
    /* A line of columns, turned into `room`: `height` elements each, of which those of rows from `first` on count. */           \
    static bool line_##name(const samba_lu *lu, int64_t first, int64_t columns)                                                  \
    {                                                                                                                            \
        type *a = (type *)lu->a + first * lu->pitch + first, *room = lu->room;                                                   \
        const int64_t rows = lu->n - first, height = (lu->n + 15) / 16 * 16, pitch = lu->pitch;                                  \
        type *lower = room + WIDTH_##name * height;                                                                              \
        bool regular = true;                                                                                                     \
        for (int64_t i = 0; i < rows; i++) UNROLL                                                                                \
            for (int c = 0; c < WIDTH_##name; c++)                                                                               \
                room[c * height + i] = a[i * pitch + c];                                                                         \
        for (int c = 0; c < WIDTH_##name; c++)                                                                                   \
            memset(room + c * height + rows, 0, sizeof(type) * (size_t)((rows + 15) / 16 * 16 - rows));                          \
        for (int64_t c = 0; c < columns; c++) {                                                                                  \
            type *x = room + c * height;                                                                                         \
            const int64_t at = greatest_##name(x, c, rows);                                                                      \
            lu->pivots[first + c] = (int32_t)(first + at);                                                                       \
            for (int k = 0; k < WIDTH_##name; k++) {                                                                             \
                const type other = room[k * height + at];                                                                        \
                room[k * height + at] = room[k * height + c];                                                                    \
                room[k * height + c] = other;                                                                                    \
            }                                                                                                                    \
            const type pivot = x[c];                                                                                             \
            if (pivot == 0) {                                                                                                    \
                regular = false;                                                                                                 \
                continue;                                                                                                        \
            }                                                                                                                    \
            const int64_t begin = (c + 1) / LANES_##name * LANES_##name;                                                         \
            const bool inverts = pivot >= (least) || pivot <= -(least);                                                          \
            const type factor = inverts ? 1 / pivot : 1;                                                                         \
            for (int64_t i = begin; i < rows; i += LANES_##name) {                                                               \
                VECTOR v;                                                                                                        \
                __builtin_memcpy(&v, x + i, sizeof v);                                                                           \
                v = inverts ? v * factor : v / (pivot - (VECTOR){0});                                                            \
                for (int l = 0; i == begin && l < LANES_##name; l++)                                                             \
                    v[l] = i + l > c ? v[l] : 0;                                                                                 \
                __builtin_memcpy(lower + i, &v, sizeof v);                                                                       \
            }                                                                                                                    \
            for (int64_t k = c + 1; k < columns; k++) {                                                                          \
                type *y = room + k * height;                                                                                     \
                const type upper = y[c];                                                                                         \
                for (int64_t i = begin; i < rows; i += LANES_##name) {                                                           \
                    VECTOR v, l;                                                                                                 \
                    __builtin_memcpy(&v, y + i, sizeof v);                                                                       \
                    __builtin_memcpy(&l, lower + i, sizeof l);                                                                   \
                    v -= l * upper;                                                                                              \
                    __builtin_memcpy(y + i, &v, sizeof v);                                                                       \
                }                                                                                                                \
            }                                                                                                                    \
            memcpy(x + c + 1, lower + c + 1, sizeof(type) * (size_t)(rows - c - 1));                                             \
        }                                                                                                                        \
        for (int64_t c = 0; c < columns; c++) {                                                                                  \
            type *x = (type *)lu->a + (first + c) * pitch, *y = (type *)lu->a + lu->pivots[first + c] * pitch;                   \
            for (int64_t k = 0; x != y && k < pitch; k++) {                                                                      \
                const type other = x[k];                                                                                         \
                x[k] = y[k];                                                                                                     \
                y[k] = other;                                                                                                    \
            }                                                                                                                    \
        }                                                                                                                        \
        for (int64_t i = 0; i < rows; i++) UNROLL                                                                                \
            for (int c = 0; c < WIDTH_##name; c++)                                                                               \
                a[i * pitch + c] = room[c * height + i];                                                                         \
        return regular;                                                                                                          \
    }                                                                                                                            \
    static bool columns_##name(const samba_lu *lu, int64_t first, int64_t end)                                                   \
    {                                                                                                                            \
        if (end - first <= WIDTH_##name)                                                                                         \
            return line_##name(lu, first, end - first);                                                                          \
        const int64_t half = first + ((end - first) / 2 + WIDTH_##name - 1) / WIDTH_##name * WIDTH_##name;                       \
        const bool regular = columns_##name(lu, first, half);                                                                    \
        follow_##name(lu, first, half - first, half, end);                                                                       \
        return columns_##name(lu, half, end) && regular;                                                                         \
    }                                                                                                                            \
    bool SAMBA_ISA_NAME(samba_lu_##name)(const samba_lu *lu) { return columns_##name(lu, 0, lu->n); }
LU(f32, float, floats, ints, int32_t, FLT_MIN)
LU(f64, double, doubles, longs, int64_t, DBL_MIN)
