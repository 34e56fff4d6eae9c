/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of products with stored weights: see stored.h. Two rows of the weights that lie far apart are read at once (rows.c
 * says why), widened in registers and multiplied with up to four rows of x. More rows of x find these two in the nearest cache.
 *
 * Groups of 4 bits are multiplied as integers, which takes an instruction for as many bytes as a vector has. `arrange` makes of
 * each group of x the nearest multiples of its greatest element / (127 65536): integers of three bytes, the digits, in the order
 * of the group's elements. So a product is exact but for this rounding, which is that of a float, and sums of a group are exact.
 * An element of W is its four bits less 8: what that takes away is known before W is. */
#include "device/cpu/product/stored.h"
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/bytes.h"
#include "device/cpu/isa/processor.h"
#include "device/cpu/product/row_lanes.h"

enum {
    MOST = SAMBA_STORED_ROWS,
    FAR = 2, /* rows of the weights at once */
    GROUP = SAMBA_STORED_GROUP,
    BYTES = GROUP / 2,
    WORDS = BYTES / 4, /* lanes that a group takes */
    GROUPS = LANES / WORDS,
    AHEAD = 2048, /* bytes */
    LINE = 64,    /* bytes that memory gives at once */
    DIGITS = 3,
    GREATEST = 127 << 8 * (DIGITS - 1)
};

/* What goes with a vector of groups: in the places of its bytes the digits of elements, those of low halves and of high ones; 8
 * times the sum of a group's integers, in its first lane, which is to be taken away; and what an integer stands for. */
typedef struct arranged_block {
    int8_t digits[DIGITS][2][VECTOR_BYTES];
    int32_t less[LANES];
    float unit[LANES];
} arranged_block;

INLINE floats load_part_i8(const int8_t *p, int n)
{
    int8_t all[LANES] = {0};
    for (int i = 0; i < n; i++)
        all[i] = p[i];
    return load_i8(all);
}

/* ---- rows that lie element by element ---- */

#define SCALE_NONE(row) 1
#define SCALE_ROW(row) (((const float *)some->scales)[row])
/* Rows `row` and, of two, `row` + `apart` of the weights with `m` rows of x from row `first` on. */
#define STORED_DOTS(name, memory, load, load_part, scale)                                                                        \
    INLINE void add_##name(const int rows, const int m, const memory *w, int64_t far, const float *x, int64_t x_ld,              \
                           floats(*sums)[MOST])                                                                                  \
    {                                                                                                                            \
        floats v[FAR];                                                                                                           \
        UNROLL for (int r = 0; r < rows; r++)                                                                                    \
            v[r] = load(w + r * far);                                                                                            \
        UNROLL for (int i = 0; i < m; i++) {                                                                                     \
            const floats a = load_f32(x + i * x_ld);                                                                             \
            UNROLL for (int r = 0; r < rows; r++)                                                                                \
                sums[r][i] = fused_floats(a, v[r], sums[r][i]);                                                                  \
        }                                                                                                                        \
    }                                                                                                                            \
    INLINE void some_##name(const int rows, const int m, const samba_stored_rows *some, int64_t row, int64_t apart,              \
                            int64_t first)                                                                                       \
    {                                                                                                                            \
        enum { VECTORS = LINE / (int)sizeof(memory) / LANES };                                                                   \
        const memory *w = (const memory *)some->rows + row * some->ld;                                                           \
        const float *x = (const float *)some->x + first * some->x_ld;                                                            \
        const int64_t k = some->k, far = apart * some->ld;                                                                       \
        floats sums[FAR][MOST] = {{{0}}};                                                                                        \
        int64_t l = 0;                                                                                                           \
        for (; l + VECTORS * LANES <= k; l += VECTORS * LANES) {                                                                 \
            if (first == 0) UNROLL                                                                                               \
                for (int r = 0; r < rows; r++)                                                                                   \
                    __builtin_prefetch((const char *)(w + r * far + l) + AHEAD, 0, 1);                                           \
            UNROLL for (int u = 0; u < VECTORS; u++)                                                                             \
                add_##name(rows, m, w + l + u * LANES, far, x + l + u * LANES, some->x_ld, sums);                                \
        }                                                                                                                        \
        for (; l + LANES <= k; l += LANES)                                                                                       \
            add_##name(rows, m, w + l, far, x + l, some->x_ld, sums);                                                            \
        if (l < k) {                                                                                                             \
            floats v[FAR];                                                                                                       \
            UNROLL for (int r = 0; r < rows; r++)                                                                                \
                v[r] = load_part(w + r * far + l, (int)(k - l));                                                                 \
            UNROLL for (int i = 0; i < m; i++) {                                                                                 \
                const floats a = load_part_f32(x + i * some->x_ld + l, (int)(k - l));                                            \
                UNROLL for (int r = 0; r < rows; r++)                                                                            \
                    sums[r][i] = fused_floats(a, v[r], sums[r][i]);                                                              \
            }                                                                                                                    \
        }                                                                                                                        \
        UNROLL for (int r = 0; r < rows; r++) UNROLL                                                                             \
            for (int i = 0; i < m; i++)                                                                                          \
                some->y[(first + i) * some->y_ld + row + r * apart] = total(sums[r][i]) * scale(row + r * apart);                \
    }                                                                                                                            \
    EACH_ROW(name)
#define EACH_ROW(name)                                                                                                           \
    INLINE void all_##name(const int rows, const samba_stored_rows *some, int64_t row, int64_t apart)                            \
    {                                                                                                                            \
        for (int64_t i = 0; i < some->m; i += MOST)                                                                              \
            switch (some->m - i) {                                                                                               \
            case 1: some_##name(rows, 1, some, row, apart, i); break;                                                            \
            case 2: some_##name(rows, 2, some, row, apart, i); break;                                                            \
            case 3: some_##name(rows, 3, some, row, apart, i); break;                                                            \
            default: some_##name(rows, MOST, some, row, apart, i); break;                                                        \
            }                                                                                                                    \
    }                                                                                                                            \
    static void name(const samba_stored_rows *some)                                                                              \
    {                                                                                                                            \
        const int64_t part = some->count / FAR;                                                                                  \
        for (int64_t row = 0; row < part; row++)                                                                                 \
            all_##name(FAR, some, row, part);                                                                                    \
        for (int64_t row = part * FAR; row < some->count; row++)                                                                 \
            all_##name(1, some, row, 0);                                                                                         \
    }
STORED_DOTS(dots_f32, float, load_f32, load_part_f32, SCALE_NONE)
STORED_DOTS(dots_bf16, uint16_t, load_bf16, load_part_bf16, SCALE_NONE)
STORED_DOTS(dots_i8, int8_t, load_i8, load_part_i8, SCALE_ROW)

/* ---- groups of 4 bits ---- */

static int64_t blocks_of(int64_t k) { return (k / GROUP + GROUPS - 1) / GROUPS; }
static int64_t arranged(int64_t k) { return blocks_of(k) * (int64_t)(sizeof(arranged_block) / sizeof(float)); }

enum { GROUP_VECTORS = GROUP / LANES, HALF = GROUP_VECTORS / 2 };

INLINE words greatest_lane(words v)
{
    UNROLL for (int width = LANES / 2; width > 0; width /= 2) {
        const words other = SHUFFLE1(v, lane_numbers() ^ width);
        v = select_words((ints)v > (ints)other, v, other);
    }
    return v;
}

INLINE ints all_lanes(ints v)
{
    UNROLL for (int width = LANES / 2; width > 0; width /= 2)
        v += SHUFFLE1(v, lane_numbers() ^ width);
    return v;
}

/* Group `at` of a block. A greatest element that is not finite makes every product NaN. */
static void arrange_group(const float *x, int at, arranged_block *block)
{
    ints n[DIGITS][GROUP_VECTORS];
    words size = {0};
    ints sum = {0};
    UNROLL for (int i = 0; i < GROUP_VECTORS; i++) { /* of sizes, bits have the order of numbers, and NaN is the greatest */
        const words here = (words)load_f32(x + i * LANES) & 0x7fffffffu;
        size = select_words((ints)here > (ints)size, here, size);
    }
    const float greatest = ((floats)greatest_lane(size))[0];
    const bool finite = greatest < __builtin_inff(), some = finite && greatest > 1e-30f;
    const float factor = some ? GREATEST / greatest : 0, unit = finite ? greatest / GREATEST : __builtin_nanf("");
    UNROLL for (int i = 0; i < GROUP_VECTORS; i++) {
        n[0][i] = rounded_ints(load_f32(x + i * LANES) * factor) & (some ? -1 : 0);
        n[1][i] = (n[0][i] + 128) >> 8; /* n = 256 of it + a digit from -128 on */
        n[2][i] = (n[1][i] + 128) >> 8;
        sum += n[0][i];
    }
    UNROLL for (int half = 0; half < 2; half++) {
        int8_t *to[DIGITS];
        UNROLL for (int d = 0; d < DIGITS; d++)
            to[d] = block->digits[d][half] + at * BYTES;
        store_low_bytes(n[0] + half * HALF, n[1] + half * HALF, n[2] + half * HALF, to);
    }
    const int32_t less = 8 * all_lanes(sum)[0];
    const quarter_words first = {(uint32_t)less};
    const quarter_floats units = {unit, unit, unit, unit};
    __builtin_memcpy(block->less + at * WORDS, &first, sizeof first);
    __builtin_memcpy(block->unit + at * WORDS, &units, sizeof units);
}

static void arrange(const float *x, int64_t k, float *to)
{
    static const float nothing[GROUP];
    const int64_t groups = k / GROUP;
    for (int64_t b = 0; b < blocks_of(k); b++, to += sizeof(arranged_block) / sizeof(float))
        for (int at = 0; at < GROUPS; at++)
            arrange_group(b * GROUPS + at < groups ? x + (b * GROUPS + at) * GROUP : nothing, at, (arranged_block *)(void *)to);
}

INLINE whole_bytes load_digits(const int8_t *p)
{
    whole_bytes v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

/* A vector of groups of each row of W, with as many rows of x. */
INLINE void add_block(const bool byte_sums, const int rows, const int m, const words *v, const floats *scale, const float *x,
                      int64_t x_ld, floats (*sums)[MOST])
{
    const words mask = (words){0} + 0x0f0f0f0fu;
    UNROLL for (int i = 0; i < m; i++) {
        const arranged_block *block = (const arranged_block *)(const void *)(x + i * x_ld);
        UNROLL for (int r = 0; r < rows; r++) {
            const whole_bytes low = (whole_bytes)(v[r] & mask), high = (whole_bytes)(v[r] >> 4 & mask);
            ints sum = {0}, less;
            UNROLL for (int d = DIGITS - 1; d >= 0; d--) {
                const whole_bytes x_low = load_digits(block->digits[d][0]), x_high = load_digits(block->digits[d][1]);
                sum = byte_sums ? add_byte_products(add_byte_products(sum << 8, low, x_low), high, x_high)
                                : (sum << 8) + add_pairs(multiply_bytes(low, x_low) + multiply_bytes(high, x_high));
            }
            __builtin_memcpy(&less, block->less, sizeof less);
            const floats part = __builtin_convertvector(sum - less, floats);
            sums[r][i] = fused_floats(scale[r] * load_f32(block->unit), part, sums[r][i]);
        }
    }
}

/* Row `row` of W, and for one row of x another `apart` rows behind it: they share its loads, and the processor computes one's
 * total beside the other's. What comes later in memory is asked for. */
INLINE void some_dots_i4(const bool byte_sums, const int rows, const int m, const samba_stored_rows *some, int64_t row,
                         int64_t apart, int64_t first)
{
    const int64_t groups = some->k / GROUP, ld = some->ld, far = apart * ld;
    const uint8_t *w = (const uint8_t *)some->rows + row * ld;
    const float *x = (const float *)some->x + first * some->x_ld;
    const int64_t x_ld = some->x_ld, bytes = groups * BYTES;
    const uint16_t *scales = (const uint16_t *)some->scales + row * groups;
    floats sums[FAR][MOST] = {{{0}}}, scale[FAR];
    words v[FAR] = {{0}};
    int64_t at = 0;
    for (; at + VECTOR_BYTES <= bytes; at += VECTOR_BYTES, x += sizeof(arranged_block) / sizeof(float), scales += GROUPS) {
        UNROLL for (int r = 0; r < rows; r++) {
            __builtin_memcpy(&v[r], w + r * far + at, sizeof v[r]);
            if (first == 0)
                __builtin_prefetch(w + r * far + at + AHEAD, 0, 1);
            scale[r] = spread_float16(scales + r * apart * groups, GROUPS);
        }
        add_block(byte_sums, rows, m, v, scale, x, x_ld, sums);
    }
    if (at < bytes) {
        UNROLL for (int r = 0; r < rows; r++) {
            v[r] = (words)load_part_f32((const float *)(const void *)(w + r * far + at), (int)((bytes - at) / 4));
            if (first == 0)
                __builtin_prefetch(w + r * far + at + AHEAD, 0, 1);
            scale[r] = spread_float16(scales + r * apart * groups, (int)((bytes - at) / BYTES));
        }
        add_block(byte_sums, rows, m, v, scale, x, x_ld, sums);
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL
        for (int i = 0; i < m; i++)
            some->y[(first + i) * some->y_ld + row + r * apart] = total(sums[r][i]);
}

INLINE void all_dots_i4(const bool byte_sums, const samba_stored_rows *some)
{
    const int64_t part = some->m == 1 ? some->count / FAR : 0;
    int64_t row = 0;
    for (; row < part; row++)
        some_dots_i4(byte_sums, FAR, 1, some, row, part, 0);
    row = part * FAR;
    for (; row < some->count; row++)
        for (int64_t i = 0; i < some->m; i += MOST)
            switch (some->m - i) {
            case 1: some_dots_i4(byte_sums, 1, 1, some, row, 0, i); break;
            case 2: some_dots_i4(byte_sums, 1, 2, some, row, 0, i); break;
            case 3: some_dots_i4(byte_sums, 1, 3, some, row, 0, i); break;
            default: some_dots_i4(byte_sums, 1, MOST, some, row, 0, i); break;
            }
}

static void dots_i4(const samba_stored_rows *some)
{
    if (samba_processor_has_byte_sums())
        all_dots_i4(true, some);
    else
        all_dots_i4(false, some);
}

/* ---- weights (k, n): rows are added up ---- */

/* Four rows of the weights for up to four of x: each line of a row of the weights is read once for these, and the same line of
 * the next four is asked for. */
#define STORED_SUMS(name, memory, load, load_part)                                                                               \
    INLINE void add_##name(const int rows, const int m, const int lanes, const memory *w, int64_t ld, const float *x,            \
                           int64_t x_ld, float *y, int64_t y_ld)                                                                 \
    {                                                                                                                            \
        floats v[4];                                                                                                             \
        UNROLL for (int r = 0; r < rows; r++)                                                                                    \
            v[r] = lanes == LANES ? load(w + r * ld) : load_part(w + r * ld, lanes);                                             \
        UNROLL for (int i = 0; i < m; i++) {                                                                                     \
            floats sum = lanes == LANES ? load_f32(y + i * y_ld) : load_part_f32(y + i * y_ld, lanes);                           \
            UNROLL for (int r = 0; r < rows; r++)                                                                                \
                sum = fused_floats((floats){0} + x[i * x_ld + r], v[r], sum);                                                    \
            if (lanes == LANES)                                                                                                  \
                __builtin_memcpy(y + i * y_ld, &sum, sizeof sum);                                                                \
            else                                                                                                                 \
                store_part_f32(y + i * y_ld, lanes, sum);                                                                        \
        }                                                                                                                        \
    }                                                                                                                            \
    INLINE void some_##name(const int rows, const int m, const samba_stored_rows *some, int64_t l, int64_t first)                \
    {                                                                                                                            \
        enum { VECTORS = LINE / (int)sizeof(memory) / LANES };                                                                   \
        const int64_t n = some->count, ld = some->ld, x_ld = some->x_ld, y_ld = some->y_ld;                                      \
        const memory *w = (const memory *)some->rows + l * ld;                                                                   \
        const float *x = (const float *)some->x + first * x_ld + l;                                                              \
        float *y = some->y + first * y_ld;                                                                                       \
        int64_t j = 0;                                                                                                           \
        for (; j + VECTORS * LANES <= n; j += VECTORS * LANES) {                                                                 \
            if (first == 0) UNROLL                                                                                               \
                for (int r = 0; r < rows; r++)                                                                                   \
                    __builtin_prefetch((const char *)(w + (r + rows) * ld + j), 0, 1);                                           \
            UNROLL for (int u = 0; u < VECTORS; u++)                                                                             \
                add_##name(rows, m, LANES, w + j + u * LANES, ld, x, x_ld, y + j + u * LANES, y_ld);                             \
        }                                                                                                                        \
        for (; j + LANES <= n; j += LANES)                                                                                       \
            add_##name(rows, m, LANES, w + j, ld, x, x_ld, y + j, y_ld);                                                         \
        if (j < n)                                                                                                               \
            add_##name(rows, m, (int)(n - j), w + j, ld, x, x_ld, y + j, y_ld);                                                  \
    }                                                                                                                            \
    INLINE void all_##name(const int rows, const samba_stored_rows *some, int64_t l)                                             \
    {                                                                                                                            \
        for (int64_t i = 0; i < some->m; i += MOST)                                                                              \
            switch (some->m - i) {                                                                                               \
            case 1: some_##name(rows, 1, some, l, i); break;                                                                     \
            case 2: some_##name(rows, 2, some, l, i); break;                                                                     \
            case 3: some_##name(rows, 3, some, l, i); break;                                                                     \
            default: some_##name(rows, MOST, some, l, i); break;                                                                 \
            }                                                                                                                    \
    }                                                                                                                            \
    static void name(const samba_stored_rows *some)                                                                              \
    {                                                                                                                            \
        int64_t l = 0;                                                                                                           \
        for (int64_t i = 0; i < some->m; i++)                                                                                    \
            for (int64_t j = 0; j < some->count; j++)                                                                            \
                some->y[i * some->y_ld + j] = 0;                                                                                 \
        for (; l + 4 <= some->k; l += 4)                                                                                         \
            all_##name(4, some, l);                                                                                              \
        for (; l < some->k; l++)                                                                                                 \
            all_##name(1, some, l);                                                                                              \
    }
STORED_SUMS(sums_f32, float, load_f32, load_part_f32)
STORED_SUMS(sums_bf16, uint16_t, load_bf16, load_part_bf16)

/* ---- a part of a row as floats ---- */

static void widen_f32(const void *row, const void *scales, int64_t first, int64_t n, float *to)
{
    (void)scales;
    __builtin_memcpy(to, (const float *)row + first, (size_t)n * sizeof(float));
}

static void widen_bf16(const void *row, const void *scales, int64_t first, int64_t n, float *to)
{
    const uint16_t *from = (const uint16_t *)row + first;
    (void)scales;
    for (int64_t l = 0; l < n; l++) {
        const uint32_t bits = (uint32_t)from[l] << 16;
        __builtin_memcpy(to + l, &bits, sizeof bits);
    }
}

static void widen_i8(const void *row, const void *scales, int64_t first, int64_t n, float *to)
{
    const int8_t *from = (const int8_t *)row + first;
    const float scale = *(const float *)scales;
    for (int64_t l = 0; l < n; l++)
        to[l] = (float)from[l] * scale;
}

static void widen_i4(const void *row, const void *scales, int64_t first, int64_t n, float *to)
{
    const uint8_t *from = (const uint8_t *)row + first / 2;
    for (int64_t g = 0; g < n / GROUP; g++, from += BYTES, to += GROUP) {
        const floats all = float16_floats((words){0} + ((const uint16_t *)scales)[first / GROUP + g]);
        const float scale = all[0];
        for (int j = 0; j < BYTES; j++) {
            to[j] = (float)((int)(from[j] & 15) - 8) * scale;
            to[j + BYTES] = (float)((int)(from[j] >> 4) - 8) * scale;
        }
    }
}

const samba_stored SAMBA_ISA_NAME(samba_stored) = {.dots = {dots_f32, dots_bf16, dots_i8, dots_i4},
                                                   .sums = {sums_f32, sums_bf16},
                                                   .widen = {widen_f32, widen_bf16, widen_i8, widen_i4},
                                                   .arrange = arrange,
                                                   .arranged = arranged};
