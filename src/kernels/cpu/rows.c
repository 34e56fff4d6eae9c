/* SPDX-License-Identifier: Apache-2.0
 *
 * A vector and the rows of a matrix that comes from memory: see rows.h. Products take one row after the other, which is memory from one end to the other,
 * as the CPU expects it: four rows at once, with what comes next asked for, were slower by up to a fifth on a 2-core machine. Sums take four rows, for
 * else each element of them would be read and written for each of the matrix. */
#include "kernels/cpu/rows.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/lanes.h"

enum { LANES = VECTOR_BYTES / 4, SUMS = 4, ROWS = 4 };

typedef uint16_t halves __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));

INLINE floats load_f32(const float *p)
{
    floats v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

INLINE floats load_bf16(const uint16_t *p)
{
    halves h;
    __builtin_memcpy(&h, p, sizeof h);
    return (floats)(__builtin_convertvector(h, words) << 16);
}

INLINE floats load_part_bf16(const uint16_t *p, int n)
{
    halves h = {0};
    for (int i = 0; i < n; i++)
        h[i] = p[i];
    return (floats)(__builtin_convertvector(h, words) << 16);
}

INLINE float total(floats v)
{
    float parts[LANES];
    __builtin_memcpy(parts, &v, sizeof v);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            parts[i] += parts[i + width];
    return parts[0];
}

#define ROW_DOTS(name, memory, load, load_part)                                                         \
    static void name(const float *x, const void *rows_, int64_t ld, int64_t count, int64_t k, float *d) \
    {                                                                                                   \
        const memory *row = (const memory *)rows_;                                                      \
        for (int64_t i = 0; i < count; i++, row += ld) {                                                \
            floats sums[SUMS] = {{0}};                                                                  \
            int64_t l = 0;                                                                              \
            for (; l + SUMS * LANES <= k; l += SUMS * LANES)                                            \
                UNROLL for (int s = 0; s < SUMS; s++)                                                   \
                    sums[s] += load_f32(x + l + s * LANES) * load(row + l + s * LANES);                 \
            for (int n; l < k; l += n) {                                                                \
                n = k - l < LANES ? (int)(k - l) : LANES;                                               \
                sums[0] += load_part_f32(x + l, n) * load_part(row + l, n);                             \
            }                                                                                           \
            d[i] = total((sums[0] + sums[1]) + (sums[2] + sums[3]));                                    \
        }                                                                                               \
    }
ROW_DOTS(dots_f32, float, load_f32, load_part_f32)
ROW_DOTS(dots_bf16, uint16_t, load_bf16, load_part_bf16)

#define ROW_SUMS(name, memory, load, load_part)                                                                     \
    INLINE void name##_some(const int count, const float *x, const memory *rows, int64_t ld, int64_t n, float *d)  \
    {                                                                                                               \
        floats a[ROWS];                                                                                             \
        UNROLL for (int r = 0; r < count; r++)                                                                      \
            a[r] = (floats){0} + x[r];                                                                              \
        int64_t i = 0;                                                                                              \
        for (; i + LANES <= n; i += LANES) {                                                                        \
            floats sum = load_f32(d + i);                                                                           \
            UNROLL for (int r = 0; r < count; r++) {                                                                \
                __builtin_prefetch((const char *)(rows + (r + count) * ld + i), 0, 1);                              \
                sum += a[r] * load(rows + r * ld + i);                                                              \
            }                                                                                                       \
            __builtin_memcpy(d + i, &sum, sizeof sum);                                                              \
        }                                                                                                           \
        if (i < n) {                                                                                                \
            floats sum = load_part_f32(d + i, (int)(n - i));                                                        \
            UNROLL for (int r = 0; r < count; r++)                                                                  \
                sum += a[r] * load_part(rows + r * ld + i, (int)(n - i));                                           \
            store_part_f32(d + i, (int)(n - i), sum);                                                               \
        }                                                                                                           \
    }                                                                                                               \
    static void name(const float *x, const void *rows_, int64_t ld, int64_t count, int64_t n, float *d)             \
    {                                                                                                               \
        const memory *rows = (const memory *)rows_;                                                                 \
        for (; count >= ROWS; count -= ROWS, rows += ROWS * ld, x += ROWS)                                          \
            name##_some(ROWS, x, rows, ld, n, d);                                                                   \
        for (; count > 0; count--, rows += ld, x++)                                                                 \
            name##_some(1, x, rows, ld, n, d);                                                                      \
    }
ROW_SUMS(sums_f32, float, load_f32, load_part_f32)
ROW_SUMS(sums_bf16, uint16_t, load_bf16, load_part_bf16)

const samba_rows SAMBA_ISA_NAME(samba_rows) = {{dots_f32, dots_bf16}, {sums_f32, sums_bf16}};
