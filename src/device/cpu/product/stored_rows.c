/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of products with stored weights: see stored.h. Two rows of the weights that lie far apart are read at once (rows.c
 * says why), widened in registers and multiplied with up to four rows of x. More rows of x find these two in the nearest cache.
 *
 * Words of 4-bit groups: lane w of a vector has four bytes of a group, eight elements, of which a shift and a mask give one in
 * each lane. x is put into that order once (`arrange`), so that no lanes are moved. An element is its bits less 8: what that
 * takes away, 8 times the sum of x, is known before the weights are. */
#include "device/cpu/product/stored.h"
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/bytes.h"
#include "device/cpu/product/row_lanes.h"

enum {
    MOST = SAMBA_STORED_ROWS,
    FAR = 2, /* rows of the weights at once */
    GROUP = SAMBA_STORED_GROUP,
    BYTES = GROUP / 2,
    WORDS = BYTES / 4, /* lanes that a group takes */
    NIBBLES = 8,       /* elements of a word */
    GROUPS = LANES / WORDS,
    AHEAD = 1024,                 /* bytes */
    BLOCK = (NIBBLES + 1) * LANES /* floats of x that go with a vector of words: the last are what the offset takes */
};

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
    INLINE void some_##name(const int rows, const int m, const samba_stored_rows *some, int64_t row, int64_t apart,              \
                            int64_t first)                                                                                       \
    {                                                                                                                            \
        const memory *w = (const memory *)some->rows + row * some->ld;                                                           \
        const float *x = (const float *)some->x + first * some->x_ld;                                                            \
        const int64_t k = some->k, far = apart * some->ld;                                                                       \
        floats sums[FAR][MOST] = {{{0}}};                                                                                        \
        int64_t l = 0;                                                                                                           \
        for (; l + LANES <= k; l += LANES) {                                                                                     \
            floats v[FAR];                                                                                                       \
            UNROLL for (int r = 0; r < rows; r++)                                                                                \
                v[r] = load(w + r * far + l);                                                                                    \
            UNROLL for (int i = 0; i < m; i++) {                                                                                 \
                const floats a = load_f32(x + i * some->x_ld + l);                                                               \
                UNROLL for (int r = 0; r < rows; r++)                                                                            \
                    sums[r][i] = fused_floats(a, v[r], sums[r][i]);                                                              \
            }                                                                                                                    \
        }                                                                                                                        \
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
static int64_t arranged(int64_t k) { return blocks_of(k) * BLOCK; }
static int64_t room_of(int64_t k) { return k / GROUP + 2 * LANES; }

/* Element of a group that word `w` has at nibble j. */
static int element_of(int w, int j) { return 4 * w + j / 2 + BYTES * (j & 1); }

static void arrange(const float *x, int64_t k, float *to)
{
    const int64_t groups = k / GROUP;
    for (int64_t b = 0; b < blocks_of(k); b++, to += BLOCK)
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t group = b * GROUPS + lane / WORDS;
            float sum = 0;
            for (int j = 0; j < NIBBLES; j++) {
                const float a = group < groups ? x[group * GROUP + element_of(lane % WORDS, j)] : 0;
                to[j * LANES + lane] = a;
                sum += a;
            }
            to[NIBBLES * LANES + lane] = -8 * sum;
        }
}

/* A row's scales as floats, and zeros behind them. */
static void read_scales(const uint16_t *scales, int64_t groups, float *to)
{
    int64_t g = 0;
    for (; g + LANES <= groups; g += LANES) {
        const floats v = floats_of_float16(load_halves(scales + g));
        __builtin_memcpy(to + g, &v, sizeof v);
    }
    const floats last = floats_of_float16(load_part_halves(scales + g, (int)(groups - g)));
    const floats none = {0};
    __builtin_memcpy(to + g, &last, sizeof last);
    __builtin_memcpy(to + g + LANES, &none, sizeof none);
}

/* A vector of words of the groups of block b, with as many rows of x. */
INLINE void add_block(const int m, words v, floats scale, const float *x, int64_t x_ld, floats *sums)
{
    floats part[MOST];
    UNROLL for (int i = 0; i < m; i++)
        part[i] = load_f32(x + i * x_ld + NIBBLES * LANES);
    UNROLL for (int j = 0; j < NIBBLES; j++) {
        const floats q = __builtin_convertvector((ints)(v >> 4 * j & 15u), floats);
        UNROLL for (int i = 0; i < m; i++)
            part[i] = fused_floats(q, load_f32(x + i * x_ld + j * LANES), part[i]);
    }
    UNROLL for (int i = 0; i < m; i++)
        sums[i] = fused_floats(scale, part[i], sums[i]);
}

/* One row: two at once would share loads of x, and have no registers for them. What comes later in memory is asked for. */
INLINE void some_dots_i4(const int m, const samba_stored_rows *some, int64_t row, int64_t first)
{
    const uint8_t *w = (const uint8_t *)some->rows + row * some->ld;
    const float *x = (const float *)some->x + first * some->x_ld, *scales = some->room;
    const int64_t x_ld = some->x_ld, bytes = some->k / GROUP * BYTES;
    const ints spread = lane_numbers() / WORDS;
    floats sums[MOST] = {{0}};
    int64_t at = 0;
    for (; at + VECTOR_BYTES <= bytes; at += VECTOR_BYTES, x += BLOCK, scales += GROUPS) {
        words v;
        __builtin_memcpy(&v, w + at, sizeof v);
        if (first == 0)
            __builtin_prefetch(w + at + AHEAD, 0, 1);
        add_block(m, v, SHUFFLE1(load_f32(scales), spread), x, x_ld, sums);
    }
    if (at < bytes) {
        words v = {0};
        __builtin_memcpy(&v, w + at, (size_t)(bytes - at));
        add_block(m, v, SHUFFLE1(load_f32(scales), spread), x, x_ld, sums);
    }
    UNROLL for (int i = 0; i < m; i++)
        some->y[(first + i) * some->y_ld + row] = total(sums[i]);
}

static void dots_i4(const samba_stored_rows *some)
{
    const int64_t groups = some->k / GROUP;
    for (int64_t row = 0; row < some->count; row++) {
        read_scales((const uint16_t *)some->scales + row * groups, groups, some->room);
        for (int64_t i = 0; i < some->m; i += MOST)
            switch (some->m - i) {
            case 1: some_dots_i4(1, some, row, i); break;
            case 2: some_dots_i4(2, some, row, i); break;
            case 3: some_dots_i4(3, some, row, i); break;
            default: some_dots_i4(MOST, some, row, i); break;
            }
    }
}

/* ---- weights (k, n): rows are added up ---- */

/* Four rows of the weights for up to four of x: each part of a row of the weights is read once for these, and what comes next
 * asked for. */
#define STORED_SUMS(name, memory, load, load_part)                                                                               \
    INLINE void some_##name(const int rows, const int m, const samba_stored_rows *some, int64_t l, int64_t first)                \
    {                                                                                                                            \
        const memory *w = (const memory *)some->rows + l * some->ld;                                                             \
        const float *x = (const float *)some->x + first * some->x_ld + l;                                                        \
        const int64_t n = some->count;                                                                                           \
        float *y = some->y + first * some->y_ld;                                                                                 \
        int64_t j = 0;                                                                                                           \
        for (; j < n; j += LANES) {                                                                                              \
            const int lanes = n - j < LANES ? (int)(n - j) : LANES;                                                              \
            floats v[4];                                                                                                         \
            UNROLL for (int r = 0; r < rows; r++) {                                                                              \
                v[r] = lanes == LANES ? load(w + r * some->ld + j) : load_part(w + r * some->ld + j, lanes);                     \
                if (first == 0)                                                                                                  \
                    __builtin_prefetch((const char *)(w + (r + rows) * some->ld + j), 0, 1);                                     \
            }                                                                                                                    \
            UNROLL for (int i = 0; i < m; i++) {                                                                                 \
                float *at = y + i * some->y_ld + j;                                                                              \
                floats sum = lanes == LANES ? load_f32(at) : load_part_f32(at, lanes);                                           \
                UNROLL for (int r = 0; r < rows; r++)                                                                            \
                    sum = fused_floats((floats){0} + x[i * some->x_ld + r], v[r], sum);                                          \
                if (lanes == LANES)                                                                                              \
                    __builtin_memcpy(at, &sum, sizeof sum);                                                                      \
                else                                                                                                             \
                    store_part_f32(at, lanes, sum);                                                                              \
            }                                                                                                                    \
        }                                                                                                                        \
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
                                                   .arranged = arranged,
                                                   .room_of = room_of};
