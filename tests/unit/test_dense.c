/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of large products on every instruction set: packing puts each element where dense.h says, and the sums are those of
 * loops in double, for any rows, columns and depths, packed in strips or where they lie, with sums before or none. Nothing beside
 * the block is written. The same of pairs of bfloat16, where the processor multiplies them.
 *
 * How a product ends: any bits of sums, NaN and subnormal ones among them, become what the scalar conversions make of them.
 *
 * Values of products are multiples of 1/4 below 2 in size, so sums of fewer than 2^18 of them are exact: results are equal to the
 * last bit. */
#include "training.h"
#include "machines.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/finish.h"
#include "device/cpu/product/micro_kernel.h"
#include "device/cpu/product/pairs.h"

static float quarter(void) /* -2 to 1.75 */ { return (float)((int)(next_random() % 16) - 8) / 4; }
static int64_t up_to(int64_t most) { return (int64_t)(next_random() % (uint64_t)(most + 1)); }

enum {
    MOST_ROWS = 40,
    MOST_COLS = 150,
    MOST_DEPTH = 70,
    PITCH = 160,
    SPILL = 16, /* floats that packing may write beyond the last strip */
    MOST_PACKED = (MOST_COLS + 64) * (MOST_DEPTH + 1)
};
#define UNTOUCHED 123456.0f

typedef struct sides {
    int64_t rows, cols, depth;
    float a[PITCH * PITCH], b[PITCH * PITCH], strips[MOST_PACKED], panels[MOST_PACKED];
    int64_t row_stride, k_stride;
} sides;

static void draw_sides(sides *s)
{
    s->rows = 1 + up_to(MOST_ROWS - 1);
    s->cols = 1 + up_to(MOST_COLS - 1);
    s->depth = up_to(MOST_DEPTH);
    bool rows_lie = up_to(1);
    s->row_stride = rows_lie ? 1 : MOST_DEPTH + up_to(5);
    s->k_stride = rows_lie ? MOST_ROWS + up_to(5) : 1;
    for (int64_t i = 0; i < PITCH * PITCH; i++) {
        s->a[i] = quarter();
        s->b[i] = quarter();
    }
    for (int64_t i = 0; i < MOST_PACKED; i++)
        s->strips[i] = s->panels[i] = UNTOUCHED;
}

static float a_at(const sides *s, int64_t i, int64_t l) { return s->a[i * s->row_stride + l * s->k_stride]; }

static void check_packs(const samba_blocks *blocks, sides *s)
{
    int64_t most = blocks->dense_rows, width = blocks->dense_cols, strips = samba_dense_strips(s->rows, most);
    blocks->pack_strips(s->a, s->row_stride, s->k_stride, s->rows, s->depth, s->strips);
    for (int64_t strip = 0; strip < strips; strip++) {
        int64_t first = samba_dense_strip_row(s->rows, strips, strip), end = samba_dense_strip_row(s->rows, strips, strip + 1);
        assert_true(end > first && end - first <= most);
        for (int64_t l = 0; l < s->depth; l++)
            for (int64_t i = first; i < end; i++)
                assert_true(s->strips[(strip * s->depth + l) * most + i - first] == a_at(s, i, l));
    }
    for (int64_t i = strips * s->depth * most + SPILL; i < MOST_PACKED; i++)
        assert_true(s->strips[i] == UNTOUCHED);

    int64_t panels = (s->cols + width - 1) / width;
    blocks->pack_panels(s->b, PITCH, s->depth, s->cols, s->panels);
    for (int64_t j = 0; j < panels * width; j++)
        for (int64_t l = 0; l < s->depth; l++)
            assert_true(s->panels[(j / width * s->depth + l) * width + j % width] == (j < s->cols ? s->b[l * PITCH + j] : 0));
    for (int64_t i = panels * width * s->depth; i < MOST_PACKED; i++)
        assert_true(s->panels[i] == UNTOUCHED);
}

static void check_sums(const float *c, const float *before, const sides *s, int64_t first, int64_t width)
{
    for (int64_t i = 0; i < MOST_ROWS; i++)
        for (int64_t j = 0; j < PITCH; j++) {
            double sum = before ? (double)before[i * PITCH + j] : 0;
            for (int64_t l = 0; l < s->depth; l++)
                sum += (double)a_at(s, i, l) * (double)s->b[l * PITCH + first + j];
            assert_true((double)c[i * PITCH + j] == (i < s->rows && j < width ? sum : (double)UNTOUCHED));
        }
}

static void check_products(const samba_blocks *blocks, const sides *s, bool strips)
{
    static float c[MOST_ROWS * PITCH], before[MOST_ROWS * PITCH];
    int64_t width = blocks->dense_cols;
    for (int64_t j = 0; j < s->cols; j += width)
        for (int again = 0; again < 2; again++) {
            int64_t cols = s->cols - j < width ? s->cols - j : width;
            for (int64_t i = 0; i < MOST_ROWS * PITCH; i++) {
                c[i] = UNTOUCHED;
                before[i] = quarter();
            }
            samba_fetch fetch = {0};
            samba_fetch_rows(&fetch, s->a, PITCH, PITCH, PITCH); /* a hint that changes nothing */
            samba_dense block = {.rows = s->rows,
                                 .cols = cols,
                                 .k = s->depth,
                                 .strips = strips,
                                 .a = strips ? s->strips : s->a,
                                 .lda = strips ? s->depth * blocks->dense_rows : s->row_stride,
                                 .ska = s->k_stride,
                                 .b = strips ? s->panels + j * s->depth : s->b + j,
                                 .ldb = strips ? width : PITCH,
                                 .from = again ? before : NULL,
                                 .from_ld = PITCH,
                                 .c = c,
                                 .ldc = PITCH};
            blocks->dense(&block, &fetch);
            check_sums(c, again ? before : NULL, s, j, cols);
        }
}

TEST(blocks)
{
    static sides s;
    seed_anew();
    SAMBA_EACH_KERNELS (isa)
        for (int i = 0; i < 60; i++) {
            const samba_blocks *blocks = samba_kernels_for((samba_isa)isa)->blocks;
            draw_sides(&s);
            check_packs(blocks, &s);
            check_products(blocks, &s, true);
            check_products(blocks, &s, false);
        }
}

static void to_bfloat16(const float *from, uint16_t *to)
{
    for (int64_t i = 0; i < PITCH * PITCH; i++)
        to[i] = samba_float_to_bfloat16(from[i]); /* exactly */
}

/* AMX has rows one under the other alone. */
static void check_pairs(const samba_cpu_machine *machine, samba_dense_fn *multiply, bool may_lie, const sides *s)
{
    static float c[MOST_ROWS * PITCH], before[MOST_ROWS * PITCH];
    static uint16_t a[PITCH * PITCH], b[PITCH * PITCH], rows[2 * MOST_PACKED], panel[2 * MOST_PACKED];
    int64_t pairs = (s->depth + 1) / 2, width = (s->cols + SAMBA_DENSE_ROUND - 1) / SAMBA_DENSE_ROUND * SAMBA_DENSE_ROUND;
    bool rows_lie = may_lie && s->row_stride == 1;
    int64_t row_ld = rows_lie ? s->rows : pairs + up_to(2);
    to_bfloat16(s->a, a);
    to_bfloat16(s->b, b);
    memset(panel, 0, sizeof panel);
    if (rows_lie)
        samba_pack_pairs(machine->kernels, a, s->k_stride, 1, s->depth, s->rows, rows, row_ld);
    else
        samba_pack_rows_of_pairs(machine->kernels, a, s->k_stride, s->row_stride, s->depth, s->rows, rows, 2 * row_ld);
    samba_pack_pairs(machine->kernels, b, PITCH, 1, s->depth, s->cols, panel, width);
    for (int again = 0; again < 2; again++) {
        for (int64_t i = 0; i < MOST_ROWS * PITCH; i++) {
            c[i] = UNTOUCHED;
            before[i] = quarter();
        }
        samba_fetch fetch = {0};
        samba_dense block = {.rows = s->rows,
                             .cols = s->cols,
                             .k = pairs,
                             .a = (const float *)rows,
                             .lda = rows_lie ? 1 : row_ld,
                             .ska = rows_lie ? row_ld : 1,
                             .b = (const float *)panel,
                             .ldb = width,
                             .from = again ? before : NULL,
                             .from_ld = PITCH,
                             .c = c,
                             .ldc = PITCH};
        samba_fetch_rows(&fetch, rows, PITCH, PITCH, PITCH);
        multiply(&block, &fetch);
        check_sums(c, again ? before : NULL, s, 0, s->cols);
    }
}

TEST(pairs)
{
    static sides s;
    seed_anew();
    const samba_cpu_machine *machine = machine_with(samba_isa_best(), false);
    samba_dense_fn *vectors = samba_dense_pairs_of(machine),
                   *amx = samba_dense_amx_of(machine); /* NULL: the processor has none */
    for (int i = 0; i < 100; i++) {
        draw_sides(&s);
        if (vectors)
            check_pairs(machine, vectors, true, &s);
        if (amx)
            check_pairs(machine, amx, false, &s);
    }
}

/* ---- how products end ---- */
static float of_half(samba_dtype dtype, uint16_t x)
{
    return dtype == SAMBA_BFLOAT16 ? samba_bfloat16_to_float(x) : samba_float16_to_float(x);
}

static uint16_t half_of(samba_dtype dtype, float x)
{
    return dtype == SAMBA_BFLOAT16 ? samba_float_to_bfloat16(x) : samba_float_to_float16(x);
}

/* One that is NaN, infinite or subnormal, half way between two of 16 bits, or any; finite where a bias is added: which of two NaN
 * comes out is the CPU's choice. */
static float any_float(bool finite)
{
    static const uint32_t shapes[] = {0x7fc00001u, 0x7f800000u, 0x00000001u, 0x00400000u, 0x3f808000u, 0x3f818000u,
                                      0x3f801000u, 0x33000001u, 0x38001000u, 0x7f7fffffu, 0x80000000u};
    uint32_t bits = (uint32_t)next_random();
    if (up_to(1))
        bits = shapes[up_to(LENGTH(shapes) - 1)] | (bits & 0x80000000u);
    if (finite && (bits & 0x7f000000u) >= 0x7e000000u)
        bits &= 0xbfffffffu;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void check_end(samba_finish_fn *finish, samba_dtype dtype, bool biased)
{
    enum { ROWS = 3, LD = 90 };
    static float sums[ROWS * LD], bias[LD], result[ROWS * LD], more[ROWS * LD];
    static uint16_t half_bias[LD], half_result[ROWS * LD];
    const bool wide = dtype == SAMBA_FLOAT32;
    samba_finish_rows rows = {.sums = sums,
                              .bias = !biased ? NULL
                                      : wide  ? (const void *)bias
                                              : (const void *)half_bias,
                              .result = wide ? (void *)result : (void *)half_result,
                              .ld = LD,
                              .pitch = LD,
                              .rows = up_to(ROWS),
                              .cols = up_to(LD - 1),
                              .bias_col = (int)up_to(1),
                              .dtype = dtype,
                              .low = -quarter() * 2,
                              .high = quarter() + 1,
                              .more = wide && up_to(1) ? up_to(1) ? result : more : NULL, /* added to where it lies, too */
                              .more_pitch = LD,
                              .clamp = up_to(1),
                              .relu = up_to(1),
                              .round_sums = !wide && up_to(1)};
    rows.bias_row = rows.bias_col ? 0 : 1;
    for (int i = 0; i < ROWS * LD; i++) {
        sums[i] = any_float(biased || rows.more);
        more[i] = quarter();
        result[i] = rows.more == result ? more[i] : UNTOUCHED;
        half_result[i] = 0x1234;
    }
    for (int i = 0; i < LD; i++) {
        half_bias[i] = half_of(dtype == SAMBA_FLOAT16 ? dtype : SAMBA_BFLOAT16, quarter());
        bias[i] = wide ? quarter() : of_half(dtype, half_bias[i]);
    }
    finish(&rows);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < LD; j++) {
            float x = sums[i * LD + j];
            bool inside = i < rows.rows && j < rows.cols;
            if (biased)
                x = (rows.round_sums ? of_half(dtype, half_of(dtype, x)) : x) + bias[rows.bias_col ? j : i];
            if (rows.more)
                x += more[i * LD + j];
            if (rows.clamp) {
                x = x > rows.low || isnan(x) ? x : rows.low;
                x = x < rows.high || isnan(x) ? x : rows.high;
            } else {
                x = rows.relu && x <= 0 ? 0 : x;
            }
            if (wide) {
                float expected = inside ? x : rows.more == result ? more[i * LD + j] : UNTOUCHED;
                assert_memory_equal(&result[i * LD + j], &expected, sizeof expected);
            } else if (half_result[i * LD + j] != (inside ? half_of(dtype, x) : 0x1234)) {
                fail_msg("%s of %.9g at %lld, %lld: %04x, expected %04x", samba_dtype_name(dtype), (double)x, (long long)i,
                         (long long)j, half_result[i * LD + j], half_of(dtype, x));
            }
        }
}

TEST(ends)
{
    seed_anew();
    SAMBA_EACH_ISA (isa) {
        samba_finish_fn *finish[] = {samba_kernels_for((samba_isa)isa)->blocks->finish,
                                     samba_finish_fn_of(machine_with((samba_isa)isa, false))};
        for (int i = 0; i < 4800; i++)
            check_end(finish[i % 2], (samba_dtype)(i / 4 % 3), i / 2 % 2);
    }
}

TEST_MAIN(blocks, pairs, ends)
