/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops behind move.h, compiled once for each ISA. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/tile/move.h"
#include "device/cpu/tile/parts.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/shuffle.h"
#include <string.h>

/* A square of 16 bytes a row changes rows for columns: each step puts rows of the first half between those of the second, and
 * after log2 of them a row's elements have gone where a column's were. */
#define TRANSPOSE(name, type, lanes)                                                                                             \
    typedef type name##_vector __attribute__((vector_size(16)));                                                                 \
    static void name##_square(type *d, int64_t ldd, const type *s, int64_t lds)                                                  \
    {                                                                                                                            \
        name##_vector v[lanes], next[lanes], low, high;                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < (lanes); i++)                                                               \
        {                                                                                                                        \
            low[i] = (type)(i / 2 + (i % 2) * (lanes));                                                                          \
            high[i] = (type)(low[i] + (lanes) / 2);                                                                              \
        }                                                                                                                        \
        _Pragma("GCC unroll 16") for (int i = 0; i < (lanes); i++) memcpy(&v[i], s + i * lds, sizeof v[i]);                      \
        _Pragma("GCC unroll 4") for (int step = 1; step < (lanes); step *= 2)                                                    \
        {                                                                                                                        \
            _Pragma("GCC unroll 8") for (int i = 0; i < (lanes) / 2; i++)                                                        \
            {                                                                                                                    \
                next[2 * i] = SHUFFLE2(v[i], v[i + (lanes) / 2], low);                                                           \
                next[2 * i + 1] = SHUFFLE2(v[i], v[i + (lanes) / 2], high);                                                      \
            }                                                                                                                    \
            _Pragma("GCC unroll 16") for (int i = 0; i < (lanes); i++) v[i] = next[i];                                           \
        }                                                                                                                        \
        _Pragma("GCC unroll 16") for (int i = 0; i < (lanes); i++) memcpy(d + i * ldd, &v[i], sizeof v[i]);                      \
    }                                                                                                                            \
    static void name(void *d_, int64_t ldd, const void *s_, int64_t lds, int64_t rows, int64_t cols)                             \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *s = s_;                                                                                                      \
        int64_t high = rows - rows % (lanes), wide = cols - cols % (lanes);                                                      \
        for (int64_t r = 0; r < high; r += (lanes))                                                                              \
            for (int64_t c = 0; c < wide; c += (lanes))                                                                          \
                name##_square(d + c * ldd + r, ldd, s + r * lds + c, lds);                                                       \
        for (int64_t c = 0; c < cols; c++)                                                                                       \
            for (int64_t r = c < wide ? high : 0; r < rows; r++)                                                                 \
                d[c * ldd + r] = s[r * lds + c];                                                                                 \
    }
TRANSPOSE(transpose1, uint8_t, 16)
TRANSPOSE(transpose2, uint16_t, 8)

#define STRIDE(name, type)                                                                                                       \
    static inline __attribute__((always_inline)) void name##_row(type *d, const int64_t d_col, const type *s,                    \
                                                                 const int64_t s_col, int64_t cols)                              \
    {                                                                                                                            \
        SAMBA_VECTOR_LOOP for (int64_t c = 0; c < cols; c++)                                                                     \
            d[c * d_col] = s[c * s_col];                                                                                         \
    }                                                                                                                            \
    static void name(void *d_, int64_t d_row, int64_t d_col, const void *s_, int64_t s_row, int64_t s_col, int64_t rows,         \
                     int64_t cols)                                                                                               \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *s = s_;                                                                                                      \
        for (int64_t r = 0; r < rows; r++, d += d_row, s += s_row)                                                               \
            if (d_col == 1 && s_col == -1)                                                                                       \
                name##_row(d, 1, s, -1, cols);                                                                                   \
            else if (d_col == 1 && s_col == 0)                                                                                   \
                name##_row(d, 1, s, 0, cols);                                                                                    \
            else if (d_col == 1 && s_col == 2)                                                                                   \
                name##_row(d, 1, s, 2, cols);                                                                                    \
            else if (d_col == 1)                                                                                                 \
                name##_row(d, 1, s, s_col, cols);                                                                                \
            else                                                                                                                 \
                name##_row(d, d_col, s, s_col, cols);                                                                            \
    }
STRIDE(stride1, uint8_t)
STRIDE(stride2, uint16_t)
STRIDE(stride4, uint32_t)
STRIDE(stride8, uint64_t)

static void numbers(int64_t *d, int64_t first, int64_t step, int64_t n)
{
    enum { WIDE = VECTOR_BYTES / 8 };
    longs some, by = WIDE * step - (longs){0};
    int64_t i = 0;
    UNROLL for (int k = 0; k < WIDE; k++)
        some[k] = first + k * step;
    for (; i + WIDE <= n; i += WIDE, some += by)
        memcpy(d + i, &some, sizeof some);
    for (; i < n; i++)
        d[i] = first + i * step;
}

const samba_moves SAMBA_ISA_NAME(samba_moves) = {
    {transpose1, transpose2, SAMBA_ISA_NAME(samba_transpose4), SAMBA_ISA_NAME(samba_transpose8)},
    {stride1, stride2, stride4, stride8},
    numbers,
};
