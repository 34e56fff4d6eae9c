/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile programs that reduce rows, against a naive interpreter (naive_tiles.h): programs of several steps, rows in one chunk and
 * in several, rows that lie down the columns of memory, rows without columns. test_tile_programs.c has the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "naive_tiles.h"

#define FULL SAMBA_FULL
#define ROW SAMBA_ROW

static const int64_t columns[] = {10, 77, 300, 1000};

/* softmax, its row's greatest index and the sum of all: exp(x - max) / sum */
static void test_softmax(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 37};
    for (int s = 0; s < 2 * SAMBA_COUNT(columns); s++)
        for (int direct = 0; direct < 2; direct++) {
            tile_case t;
            int64_t domain[2] = {rows[s % 2], columns[s / 2]}, per_row[2] = {1, 0}, none[2] = {0, 0};
            case_begin(&t, 2, domain);
            int x = case_contiguous(&t, SAMBA_FLOAT32), y = case_contiguous(&t, SAMBA_FLOAT32),
                index = case_operand(&t, SAMBA_INT32, 0, per_row);
            int total = case_operand(&t, SAMBA_FLOAT32, 0, none), highest = case_operand(&t, SAMBA_FLOAT32, 0, none);
            int in = case_register(&t, SAMBA_F32, FULL, 1, direct ? x : -1),
                out = case_register(&t, SAMBA_F32, FULL, 1, direct ? y : -1);
            int best = case_register(&t, SAMBA_F32, ROW, 1, -1), where = case_register(&t, SAMBA_I64, ROW, 1, -1);
            int sum = case_register(&t, SAMBA_F32, ROW, 1, -1), wide = case_register(&t, SAMBA_F32, FULL, 0, -1);
            case_load(&t, in, x);
            case_op(&t, SAMBA_TILE_amax, best, in, -1);
            case_op(&t, SAMBA_TILE_argmax, where, in, -1);
            case_step(&t, 1);
            case_emit(&t, SAMBA_TILE_collect_amax, -1, best, -1, -1, highest, 0);
            case_store(&t, where, index);
            case_step(&t, 0);
            case_op(&t, SAMBA_TILE_spread, wide, best, -1);
            case_op(&t, SAMBA_TILE_sub, out, in, wide);
            case_op(&t, SAMBA_TILE_exp, out, out, -1);
            case_op(&t, SAMBA_TILE_sum, sum, out, -1);
            case_step(&t, 1);
            case_op(&t, SAMBA_TILE_reciprocal, sum, sum, -1);
            case_step(&t, 0);
            case_op(&t, SAMBA_TILE_spread, wide, sum, -1);
            case_op(&t, SAMBA_TILE_mul, out, out, wide);
            case_emit(&t, SAMBA_TILE_collect_sum, -1, out, -1, -1, total, 0);
            case_store(&t, out, y);
            case_step(&t, 1);
            case_check(&t, 1e-6, "softmax");
            case_end(&t);
        }
}

/* Layer norm, its weight's gradient summed over rows, its row means stored. */
static void test_layer_norm(void **state)
{
    (void)state;
    for (int s = 0; s < SAMBA_COUNT(columns); s++)
        for (int half = 0; half < 2; half++) {
            tile_case t;
            int64_t c = columns[s], domain[3] = {3, 7, c}, per_column[3] = {0, 0, 1}, per_row[3] = {7, 1, 0},
                    wider[3] = {7 * (c + 3), c + 3, 1};
            case_begin(&t, 3, domain);
            samba_dtype dtype = half ? SAMBA_BFLOAT16 : SAMBA_FLOAT32;
            int x = case_operand(&t, dtype, 1, wider), w = case_operand(&t, dtype, 0, per_column), y = case_contiguous(&t, dtype);
            int dw = case_operand(&t, dtype, 0, per_column), db = case_operand(&t, SAMBA_FLOAT32, 0, per_column),
                mean = case_operand(&t, SAMBA_FLOAT32, 0, per_row);
            int g = case_contiguous(&t, SAMBA_FLOAT32);
            int scale = case_register(&t, SAMBA_F32, ROW, 0, -1), in = case_register(&t, SAMBA_F32, FULL, 1, x),
                sum = case_register(&t, SAMBA_F32, ROW, 1, -1);
            int wide = case_register(&t, SAMBA_F32, FULL, 0, -1), square = case_register(&t, SAMBA_F32, FULL, 0, -1),
                spread = case_register(&t, SAMBA_F32, ROW, 1, mean);
            int weight = case_register(&t, SAMBA_F32, FULL, 0, w), out = case_register(&t, SAMBA_F32, FULL, 0, y),
                gradient = case_register(&t, SAMBA_F32, FULL, 0, g);
            int centred = case_register(&t, SAMBA_F32, FULL, 1, -1), deviation = case_register(&t, SAMBA_F32, ROW, 1, -1);
            case_emit(&t, SAMBA_TILE_constant, scale, -1, -1, -1, -1, 1.0 / (double)c);
            case_setup_ends(&t);
            case_load(&t, in, x);
            case_op(&t, SAMBA_TILE_sum, sum, in, -1);
            case_step(&t, 1);
            case_op(&t, SAMBA_TILE_mul, spread, sum, scale);
            case_store(&t, spread, mean);
            case_step(&t, 0);
            case_op(&t, SAMBA_TILE_spread, wide, spread, -1);
            case_op(&t, SAMBA_TILE_sub, centred, in, wide);
            case_op(&t, SAMBA_TILE_mul, square, centred, centred);
            case_op(&t, SAMBA_TILE_sum, deviation, square, -1);
            case_step(&t, 1);
            case_op(&t, SAMBA_TILE_mul, deviation, deviation, scale);
            case_op(&t, SAMBA_TILE_rsqrt, deviation, deviation, -1);
            case_step(&t, 0);
            case_op(&t, SAMBA_TILE_spread, wide, deviation, -1);
            case_op(&t, SAMBA_TILE_mul, wide, wide, centred);
            case_load(&t, weight, w);
            case_op(&t, SAMBA_TILE_mul, out, wide, weight);
            case_store(&t, out, y);
            case_load(&t, gradient, g);
            case_emit(&t, SAMBA_TILE_collect_sum, -1, gradient, -1, -1, db, 0);
            case_op(&t, SAMBA_TILE_mul, wide, wide, gradient);
            case_emit(&t, SAMBA_TILE_collect_sum, -1, wide, -1, -1, dw, 0);
            case_step(&t, 1);
            case_check(&t, half ? 1e-2 : 1e-4, "layer norm");
            case_end(&t);
        }
}

/* Reductions that store no element have longer tiles: many short rows in one, long rows in few chunks. */
static void test_long_tiles(void **state)
{
    (void)state;
    static const int64_t domains[][2] = {{9, 20000}, {300, 257}, {3, 4097}, {9000, 5}};
    for (int s = 0; s < SAMBA_COUNT(domains); s++) {
        tile_case t;
        static const int64_t per_row[2] = {1, 0}, none[2] = {0, 0};
        case_begin(&t, 2, domains[s]);
        int x = case_contiguous(&t, SAMBA_FLOAT32), y = case_operand(&t, SAMBA_FLOAT32, 0, per_row),
            z = case_operand(&t, SAMBA_FLOAT32, 0, per_row);
        int index = case_operand(&t, SAMBA_INT64, 0, per_row), all = case_operand(&t, SAMBA_FLOAT32, 0, none);
        int in = case_register(&t, SAMBA_F32, FULL, 0, x), sum = case_register(&t, SAMBA_F32, ROW, 1, -1);
        int best = case_register(&t, SAMBA_F32, ROW, 1, -1), where = case_register(&t, SAMBA_I64, ROW, 1, -1);
        case_load(&t, in, x);
        case_op(&t, SAMBA_TILE_sum, sum, in, -1);
        case_op(&t, SAMBA_TILE_amax, best, in, -1);
        case_op(&t, SAMBA_TILE_argmax, where, in, -1);
        case_emit(&t, SAMBA_TILE_collect_amin, -1, in, -1, -1, all, 0);
        case_step(&t, 1);
        case_store(&t, sum, y), case_store(&t, best, z), case_store(&t, where, index);
        case_step(&t, 0);
        case_check(&t, 1e-4, "long tiles");
        case_end(&t);
    }
}

/* Long rows that lie down the columns of memory are taken a line of cache at a time, in chunks, with all that such programs do
 * beside: operands in order, stores both ways, sums of rows and columns, a second pass. */
static void test_lines_of_rows(void **state)
{
    (void)state;
    static const int64_t domains[][3] = {{1, 50, 600}, {2, 37, 1025}, {3, 64, 520}, {1, 300, 2100}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64, SAMBA_BFLOAT16};
    for (int s = 0; s < SAMBA_COUNT(domains); s++)
        for (int k = 0; k < SAMBA_COUNT(dtypes); k++)
            for (int passes = 1; passes <= 2; passes++) {
                tile_case t;
                int64_t rows = domains[s][1], cols = domains[s][2], down[3] = {rows * cols, 1, rows}, per_row[3] = {rows, 1, 0},
                        per_column[3] = {0, 0, 1};
                samba_register_class class_ = samba_class_of(dtypes[k]);
                case_begin(&t, 3, domains[s]);
                int x = case_operand(&t, dtypes[k], 0, down), other = case_contiguous(&t, dtypes[k]),
                    weight = case_operand(&t, dtypes[k], 0, per_column);
                int index = case_operand(&t, SAMBA_INT64, 0, per_row), best = case_operand(&t, dtypes[k], 0, per_row),
                    sums = case_operand(&t, SAMBA_FLOAT64, 0, per_column);
                int y = case_contiguous(&t, dtypes[k]), z = case_operand(&t, dtypes[k], 0, down);
                int in = case_register(&t, class_, FULL, 0, x), beside = case_register(&t, class_, FULL, 0, other),
                    scale = case_register(&t, class_, FULL, 0, weight);
                int out = case_register(&t, class_, FULL, 0, y), where = case_register(&t, SAMBA_I64, ROW, 1, -1),
                    most = case_register(&t, class_, ROW, 1, -1);
                int wide = case_register(&t, SAMBA_F64, FULL, 0, -1), spread = case_register(&t, class_, FULL, 0, -1);
                case_load(&t, in, x);
                case_op(&t, SAMBA_TILE_argmax, where, in, -1);
                case_op(&t, SAMBA_TILE_amax, most, in, -1);
                case_op(&t, SAMBA_TILE_cast, wide, in, -1);
                case_emit(&t, SAMBA_TILE_collect_sum, -1, wide, -1, -1, sums, 0);
                if (passes == 1) {
                    case_load(&t, beside, other);
                    case_op(&t, SAMBA_TILE_maximum, out, in, beside);
                    case_store(&t, out, y);
                    case_store(&t, out, z);
                }
                case_step(&t, 1);
                case_store(&t, where, index), case_store(&t, most, best);
                case_step(&t, 0);
                if (passes == 2) {
                    case_load(&t, in, x);
                    case_load(&t, scale, weight);
                    case_op(&t, SAMBA_TILE_spread, spread, most, -1);
                    case_op(&t, SAMBA_TILE_sub, out, in, spread);
                    case_op(&t, SAMBA_TILE_maximum, out, out, scale);
                    case_store(&t, out, y);
                    case_store(&t, out, z);
                    case_step(&t, 1);
                }
                case_check(&t, 0, "lines of rows");
                case_end(&t);
            }
}

/* Rows without columns reduce to the start. */
static void test_empty_rows(void **state)
{
    (void)state;
    tile_case t;
    static const int64_t domain[2] = {5, 0}, per_row[2] = {1, 0}, none[2] = {0, 0}, no_rows[2] = {0, 6}, per_column[2] = {0, 1};
    case_begin(&t, 2, domain);
    int x = case_contiguous(&t, SAMBA_FLOAT32), y = case_operand(&t, SAMBA_FLOAT32, 0, per_row),
        all = case_operand(&t, SAMBA_INT32, 0, none);
    int in = case_register(&t, SAMBA_F32, FULL, 0, x), sum = case_register(&t, SAMBA_F32, ROW, 0, y),
        whole = case_register(&t, SAMBA_I64, ROW, 0, -1);
    case_load(&t, in, x);
    case_op(&t, SAMBA_TILE_sum, sum, in, -1);
    case_step(&t, 1);
    case_store(&t, sum, y);
    case_op(&t, SAMBA_TILE_cast, whole, sum, -1);
    case_emit(&t, SAMBA_TILE_collect_sum, -1, whole, -1, -1, all, 0);
    case_step(&t, 0);
    case_check(&t, 0, "no columns");
    case_end(&t);
    case_begin(&t, 2, no_rows);
    x = case_contiguous(&t, SAMBA_FLOAT32);
    y = case_operand(&t, SAMBA_FLOAT32, 0, per_column);
    in = case_register(&t, SAMBA_F32, FULL, 0, x);
    case_load(&t, in, x);
    case_emit(&t, SAMBA_TILE_collect_sum, -1, in, -1, -1, y, 0);
    case_step(&t, 1);
    case_check(&t, 0, "no rows");
    case_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),       cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_long_tiles),
        cmocka_unit_test(test_lines_of_rows), cmocka_unit_test(test_empty_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
