/* SPDX-License-Identifier: Apache-2.0
 *
 * Transforms of F(2 x 2, 3 x 3): see winograd_tile.h, and winograd.c for where they come from. With A, B and G from Lavin and
 * Gray, "Fast algorithms for convolutional neural networks", 2015:
 *
 *   weights  G g G^T     G = 1 0 0 | 1/2 1/2 1/2 | 1/2 -1/2 1/2 | 0 0 1
 *   input    B^T d B     B^T = 1 0 -1 0 | 0 1 1 0 | 0 -1 1 0 | 0 1 0 -1
 *   output   A^T m A     A^T = 1 1 1 0 | 0 1 -1 -1
 *
 * and of F(3 x 3, 2 x 2), where the window is what is asked for and a tile of the result's gradient is what moves over the image:
 *
 *   gradient G g G^T     G = 1 0 | 1/2 1/2 | 1/2 -1/2 | 0 1
 *   window   A^T s A     A^T = 1 1 1 0 | 0 1 -1 0 | 0 1 1 -1 */
#include "device/cpu/product/winograd_tile.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/isa/some_lanes.h"

enum { LANES = VECTOR_BYTES / 4 };

INLINE floats load(const float *p)
{
    floats v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store(float *p, floats v) { __builtin_memcpy(p, &v, sizeof v); }

/* G times a column of three. */
INLINE void times_g(const floats *g, floats *d)
{
    floats ends = g[0] + g[2];
    d[0] = g[0];
    d[1] = 0.5f * (ends + g[1]);
    d[2] = 0.5f * (ends - g[1]);
    d[3] = g[2];
}

static void weights(const float *w, int64_t step, const int64_t *taps, int64_t n, float *u, int64_t pitch)
{
    for (int64_t i = 0; i < n; i += LANES) {
        floats columns[3][4];
        for (int x = 0; x < 3; x++) {
            floats g[3];
            UNROLL for (int y = 0; y < 3; y++)
                g[y] = load_apart(w + i * step + taps[3 * y + x], step, n - i);
            times_g(g, columns[x]);
        }
        UNROLL for (int y = 0; y < 4; y++) {
            const floats row[3] = {columns[0][y], columns[1][y], columns[2][y]};
            floats d[4];
            times_g(row, d);
            UNROLL for (int x = 0; x < 4; x++)
                store_span_f32(u + (4 * y + x) * pitch + i, span_of_f32(n - i), d[x]);
        }
    }
}

static void split(const float *row, int64_t x, int64_t limit, int64_t pairs, float *even, float *odd)
{
    int64_t j = 0;
    for (; row && j < pairs && x + 2 * j < 0; j++) {
        int64_t at = x + 2 * j;
        even[j] = 0;
        odd[j] = at + 1 >= 0 && at + 1 < limit ? row[at + 1] : 0;
    }
    for (; j < pairs; j += LANES) {
        int64_t at = x + 2 * j, left = row && limit > at ? limit - at : 0;
        floats a = {0}, b = {0};
        if (left > 0)
            a = load_span_f32(row + at, span_of_f32(left));
        if (left > LANES)
            b = load_span_f32(row + at + LANES, span_of_f32(left - LANES));
        store(even + j, EVEN_LANES(a, b));
        store(odd + j, ODD_LANES(a, b));
    }
}

static void input(const float *const *even, const float *const *odd, int64_t tiles, float *v, int64_t pitch)
{
    for (int64_t j = 0; j < tiles; j += LANES) {
        floats t[4][4];
        UNROLL for (int y = 0; y < 4; y++) {
            floats a = load(even[y] + j), b = load(odd[y] + j), c = load(even[y] + j + 1), d = load(odd[y] + j + 1);
            t[y][0] = a - c;
            t[y][1] = b + c;
            t[y][2] = c - b;
            t[y][3] = b - d;
        }
        UNROLL for (int x = 0; x < 4; x++) {
            store(v + x * pitch + j, t[0][x] - t[2][x]);
            store(v + (4 + x) * pitch + j, t[1][x] + t[2][x]);
            store(v + (8 + x) * pitch + j, t[2][x] - t[1][x]);
            store(v + (12 + x) * pitch + j, t[1][x] - t[3][x]);
        }
    }
}

/* A row's pixels, side by side. What is not finite is no number times 0. */
INLINE floats store_pixels(float *row, int64_t left, floats even, floats odd, floats wrong)
{
    floats low = LOW_LANES(even, odd), high = HIGH_LANES(even, odd);
    if (left >= 2 * LANES) {
        store(row, low);
        store(row + LANES, high);
        return wrong + (low + high) * 0.0f;
    }
    store_span_f32(row, span_of_f32(left), low);
    store_span_f32(row + LANES, span_of_f32(left - LANES), high);
    return wrong + (first_of(low, left) + first_of(high, left - LANES)) * 0.0f;
}

static bool output(const float *m, int64_t pitch, int64_t width, float *upper, float *lower)
{
    floats wrong = {0};
    for (int64_t j = 0; 2 * j < width; j += LANES) {
        floats s[4], t[4];
        UNROLL for (int x = 0; x < 4; x++) {
            floats a = load(m + x * pitch + j), b = load(m + (4 + x) * pitch + j), c = load(m + (8 + x) * pitch + j),
                   d = load(m + (12 + x) * pitch + j);
            s[x] = a + b + c;
            t[x] = b - c - d;
        }
        wrong = store_pixels(upper + 2 * j, width - 2 * j, s[0] + s[1] + s[2], s[1] - s[2] - s[3], wrong);
        if (lower)
            wrong = store_pixels(lower + 2 * j, width - 2 * j, t[0] + t[1] + t[2], t[1] - t[2] - t[3], wrong);
    }
    for (int i = 0; i < LANES; i++)
        if (!(wrong[i] == 0))
            return false;
    return true;
}

INLINE void times_g2(floats a, floats b, floats *d)
{
    d[0] = a;
    d[1] = 0.5f * (a + b);
    d[2] = 0.5f * (a - b);
    d[3] = b;
}

static void gradient(const float *const *even, const float *const *odd, int64_t tiles, float *d, int64_t pitch)
{
    for (int64_t j = 0; j < tiles; j += LANES) {
        floats upper[4], lower[4], column[4];
        times_g2(load(even[0] + j), load(odd[0] + j), upper);
        times_g2(load(even[1] + j), load(odd[1] + j), lower);
        UNROLL for (int x = 0; x < 4; x++) {
            times_g2(upper[x], lower[x], column);
            UNROLL for (int y = 0; y < 4; y++)
                store(d + (4 * y + x) * pitch + j, column[y]);
        }
    }
}

INLINE void times_a3(const floats *s, floats *w)
{
    floats sum = s[1] + s[2];
    w[0] = s[0] + sum;
    w[1] = s[1] - s[2];
    w[2] = sum - s[3];
}

static bool window(const float *s, int64_t pitch, int64_t n, float *w)
{
    float wrong = 0;
    for (int64_t i = 0; i < n; i += LANES) {
        floats rows[3][4];
        float lanes[9][LANES];
        UNROLL for (int x = 0; x < 4; x++) {
            floats column[4], three[3];
            UNROLL for (int y = 0; y < 4; y++)
                column[y] = load_span_f32(s + (4 * y + x) * pitch + i, span_of_f32(n - i));
            times_a3(column, three);
            UNROLL for (int y = 0; y < 3; y++)
                rows[y][x] = three[y];
        }
        UNROLL for (int y = 0; y < 3; y++) {
            floats three[3];
            times_a3(rows[y], three);
            UNROLL for (int x = 0; x < 3; x++)
                store(lanes[3 * y + x], three[x]);
        }
        for (int64_t l = 0; l < LANES && i + l < n; l++)
            for (int t = 0; t < 9; t++) {
                w[(i + l) * 9 + t] = lanes[t][l];
                wrong += lanes[t][l] * 0.0f;
            }
    }
    return wrong == 0;
}

const samba_winograd SAMBA_ISA_NAME(samba_winograd_kernels) = {weights, split, input, output, gradient, window};
