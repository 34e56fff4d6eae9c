/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of one row and attention of one query: the loops against double on every instruction set, of every length of what is
 * left over; and stages of attention against the reference kernels, in float32 and bfloat16, masked and not, by 1 and 2 threads.
 *
 * Values are multiples of 1/4 below 2 in size, so products and sums of fewer than 2^18 of them are exact in float: results of the
 * loops are equal to the last bit. What goes through exp may differ by a few units of the last place. */
#include "training.h"
#include "device/cpu/product/rows.h"

static float quarter(void) /* -2 to 1.75 */ { return (float)((int)(next_random() % 16) - 8) / 4; }

static uint16_t half_of(float x) /* exact: such a number has few digits */
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* ---- the loops ---- */
enum { MOST = 150, LD = 160, COUNT = 11 };

static void check_loops(const samba_rows *rows, int64_t width)
{
    static float x[MOST], matrix[COUNT * LD], d[MOST], before[MOST];
    static uint16_t half[COUNT * LD], half_x[MOST];
    for (int64_t i = 0; i < COUNT * LD; i++) {
        matrix[i] = quarter();
        half[i] = half_of(matrix[i]);
    }
    for (int64_t i = 0; i < MOST; i++) {
        x[i] = quarter();
        half_x[i] = half_of(x[i]);
    }
    for (int kind = 0; kind < 2; kind++)
        for (int64_t count = 0; count <= COUNT; count++) {
            const void *m = kind == SAMBA_ROWS_BF16 ? (const void *)half : (const void *)matrix;
            memset(d, 0x7f, sizeof d);
            rows->dots[kind](kind == SAMBA_ROWS_BF16 ? (const void *)half_x : (const void *)x, m, LD, count, width, d);
            for (int64_t i = 0; i < count; i++) {
                double sum = 0;
                for (int64_t l = 0; l < width; l++)
                    sum += (double)x[l] * (double)matrix[i * LD + l];
                assert_true((double)d[i] == sum);
            }
            for (int64_t i = 0; i < MOST; i++)
                d[i] = before[i] = quarter();
            rows->sums[kind](x, m, LD, count, width, d);
            for (int64_t j = 0; j < MOST; j++) {
                double sum = (double)before[j];
                for (int64_t i = 0; i < count && j < width; i++)
                    sum += (double)x[i] * (double)matrix[i * LD + j];
                assert_true((double)d[j] == sum);
            }
        }
}

TEST(loops)
{
    seed_anew();
    SAMBA_EACH_KERNELS (isa)
        for (int64_t width = 0; width <= MOST; width += width < 70 ? 1 : 40)
            check_loops(samba_kernels_for((samba_isa)isa)->rows, width);
}

/* ---- attention of one query ---- */
static samba_tensor *quarters(const char *name, int rank, const int64_t *shape)
{
    samba_tensor *made = tensor(name, SAMBA_FLOAT32, rank, shape);
    for (int64_t i = 0; i < samba_tensor_numel(made); i++)
        ((float *)samba_tensor_data(made))[i] = quarter();
    return made;
}

enum { HEADS = 4, KEY_HEADS = 2, KEYS = 203, D = 20 };

/* On the threads and the instruction set, or by the reference kernels. */
static void attend(samba_dtype dtype, samba_tensor **inputs, bool reference, int threads, const char *isa, samba_tensor *y)
{
    OWN_GRAPH *g;
    samba_function *made;
    samba_value part[3];
    need(samba_graph_new(context, "query", &g));
    for (int i = 0; i < 4; i++)
        need(samba_graph_add_input(g, inputs[i]));
    for (int i = 0; i < 3; i++)
        part[i] = samba_cast(samba_input(g, samba_tensor_name(inputs[i])), dtype);
    samba_attention_options o = {.mask = samba_input(g, "mask"), .enable_gqa = true};
    samba_output(g, "y", samba_cast(samba_scaled_dot_product_attention(part[0], part[1], part[2], &o), SAMBA_FLOAT32));
    need(samba_function_new(context, g, FUNCTION(.threads = threads, .isa = isa, .reference = reference), &made));
    need(samba_function_run(made, inputs, &y));
    samba_function_free(made);
}

/* Of keys that the mask, of bool or added to the scores, shows from the first on. */
static void check_query(samba_dtype mask, samba_dtype dtype, int64_t seen, int threads, const char *isa)
{
    samba_tensor *inputs[4] = {quarters("q", SIZES(1, HEADS, 1, D)), quarters("k", SIZES(1, KEY_HEADS, KEYS, D)),
                               quarters("v", SIZES(1, KEY_HEADS, KEYS, D)), tensor("mask", mask, SIZES(1, KEYS))};
    for (int64_t k = 0; k < KEYS; k++)
        samba_store_double(mask, (char *)samba_tensor_data(inputs[3]) + (size_t)k * samba_dtype_size(mask),
                           mask == SAMBA_BOOL ? k < seen
                           : k < seen         ? (double)quarter()
                                              : -INFINITY);
    OWN_TENSOR *y = tensor("y", SAMBA_FLOAT32, SIZES(1, HEADS, 1, D)),
               *by_reference = tensor("y", SAMBA_FLOAT32, SIZES(1, HEADS, 1, D));
    attend(dtype, inputs, false, threads, isa, y);
    attend(dtype, inputs, true, 1, NULL, by_reference);
    const float *given = samba_tensor_data(y), *expected = samba_tensor_data(by_reference);
    const double tolerance = dtype == SAMBA_BFLOAT16 ? 2 * 0x1p-8 : 1e-5; /* the result is rounded */
    for (int64_t i = 0; i < HEADS * D; i++)
        if (!(fabs((double)given[i] - (double)expected[i]) <= tolerance))
            fail_msg("%s, %d threads, %s, mask %s, %lld keys: %.9g, expected %.9g", isa, threads, samba_dtype_name(dtype),
                     samba_dtype_name(mask), (long long)seen, (double)given[i], (double)expected[i]);
    free_each_tensor(4, inputs);
}

TEST(queries)
{
    static const int64_t seen[] = {0, 1, 63, 64, 65, 150, KEYS};
    for (int i = 0; i < 7; i++)
        for (int how = 0; how < 4; how++) {
            samba_dtype dtype = how & 1 ? SAMBA_BFLOAT16 : SAMBA_FLOAT32;
            SAMBA_EACH_KERNELS (isa)
                check_query(how & 2 ? SAMBA_BOOL : dtype, dtype, seen[i], 1 + (i + how + isa) % 2, samba_isa_names[isa]);
        }
}

TEST_MAIN(loops, queries)
