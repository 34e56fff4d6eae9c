/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor of tile programs against a naive interpreter (naive_tiles.h): maps, column sums, broadcast and
 * permuted operands, odd sizes, in-place results, blocks of a contraction, and random programs whose seed is printed when they
 * fail. Where values are whole numbers results must be equal; elsewhere tolerances are given with the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "failing_allocator.h"
#include "naive_tiles.h"

#define FULL SAMBA_FULL
#define ROW SAMBA_ROW

/* ---- maps ---- */
static void test_map(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 0},     {0, 7}, {1, 1},    {1, 255}, {1, 256},  {1, 257},
                                        {1, 10000}, {3, 5}, {100, 10}, {7, 300}, {1000, 1}, {300, 2}};
    srand(1);
    for (int s = 0; s < SAMBA_COUNT(shapes); s++)
        for (int flat = 0; flat <= (shapes[s][0] == 1); flat++)
            for (int direct = 0; direct < 2; direct++) {
                tile_case t;
                case_begin(&t, flat ? 1 : 2, flat ? shapes[s] + 1 : shapes[s]);
                int x = case_contiguous(&t, SAMBA_FLOAT32), y = case_contiguous(&t, SAMBA_FLOAT32),
                    z = case_contiguous(&t, SAMBA_FLOAT32);
                int a = case_register(&t, SAMBA_F32, FULL, 0, direct ? x : -1),
                    b = case_register(&t, SAMBA_F32, FULL, 0, direct ? y : -1);
                int c = case_register(&t, SAMBA_F32, FULL, 0, direct ? z : -1), two = case_register(&t, SAMBA_F32, FULL, 0, -1);
                case_emit(&t, SAMBA_TILE_constant, two, -1, -1, -1, -1, 2.5);
                case_setup_ends(&t);
                case_load(&t, a, x);
                case_load(&t, b, y);
                case_op(&t, SAMBA_TILE_mul, c, a, two);
                case_op(&t, SAMBA_TILE_add, c, c, b);
                case_op(&t, SAMBA_TILE_maximum, c, c, a);
                case_store(&t, c, z);
                case_step(&t, 1);
                case_check(&t, 0, "map");
                case_end(&t);
            }
}

/* p -= rate * g in place, rate and a count read from one element, the count raised in a stage of its own. */
static void test_update_in_place(void **state)
{
    (void)state;
    static const int64_t domain[] = {3, 700}, none[] = {0, 0};
    tile_case t;
    case_begin(&t, 2, domain);
    int p = case_contiguous(&t, SAMBA_FLOAT32), g = case_contiguous(&t, SAMBA_FLOAT32),
        rate = case_operand(&t, SAMBA_FLOAT64, 0, none);
    int before = case_register(&t, SAMBA_F32, FULL, 0, p), gradient = case_register(&t, SAMBA_F32, FULL, 0, g);
    int result = case_register(&t, SAMBA_F32, FULL, 0, p), rate64 = case_register(&t, SAMBA_F64, FULL, 0, -1);
    int rate32 = case_register(&t, SAMBA_F32, FULL, 0, -1), step = case_register(&t, SAMBA_F32, FULL, 0, -1);
    case_load(&t, rate64, rate);
    case_op(&t, SAMBA_TILE_neg, rate64, rate64, -1);
    case_op(&t, SAMBA_TILE_cast, rate32, rate64, -1);
    case_setup_ends(&t);
    case_load(&t, before, p);
    case_load(&t, gradient, g);
    case_op(&t, SAMBA_TILE_mul, step, gradient, rate32);
    case_op(&t, SAMBA_TILE_add, result, before, step);
    case_store(&t, result, p);
    case_step(&t, 1);
    case_check(&t, 0, "update");
    case_end(&t);
}

/* Operands of all layouts and dtypes over a domain of rank 4. */
static void test_layouts(void **state)
{
    (void)state;
    static const int64_t domains[][4] = {{2, 3, 4, 5}, {3, 1, 17, 8}, {2, 2, 2, 300}, {1, 6, 1, 1}, {2, 0, 3, 4}, {4, 5, 16, 1}};
    static const int orders[][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {0, 1, 3, 2}};
    srand(2);
    for (int s = 0; s < SAMBA_COUNT(domains); s++)
        for (int o = 0; o < SAMBA_COUNT(orders); o++)
            for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++) {
                tile_case t;
                case_begin(&t, 4, domains[s]);
                int64_t permuted[4], bias[4] = {0, 0, 0, 1}, channel[4] = {0, 3, 0, 0}, size = 1;
                for (int k = 3; k >= 0; k--) { /* the memory's order of dims is orders[o] */
                    permuted[orders[o][k]] = size;
                    size *= domains[s][orders[o][k]];
                }
                samba_register_class class_ = samba_class_of((samba_dtype)dtype);
                int x = case_operand(&t, (samba_dtype)dtype, 3, permuted), b = case_operand(&t, (samba_dtype)dtype, 1, bias);
                int c = case_operand(&t, (samba_dtype)dtype, 0, channel), y = case_operand(&t, (samba_dtype)dtype, 2, permuted);
                int z = case_contiguous(&t, (samba_dtype)dtype);
                int r0 = case_register(&t, class_, FULL, 0, x), r1 = case_register(&t, class_, FULL, 0, b);
                int r2 = case_register(&t, class_, FULL, 0, c), r3 = case_register(&t, class_, FULL, 0, y),
                    r4 = case_register(&t, class_, FULL, 0, z);
                case_load(&t, r0, x);
                case_load(&t, r1, b);
                case_load(&t, r2, c);
                case_op(&t, SAMBA_TILE_maximum, r3, r0, r1);
                case_store(&t, r3, y);
                case_op(&t, SAMBA_TILE_minimum, r4, r3, r2);
                case_store(&t, r4, z);
                case_step(&t, 1);
                case_check(&t, 0, samba_dtype_name((samba_dtype)dtype));
                case_end(&t);
            }
}

static void test_transpose(void **state)
{
    (void)state;
    static const int64_t domains[][2] = {{40, 50}, {16, 16}, {17, 300}, {300, 17}, {5, 100}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64, SAMBA_BFLOAT16};
    for (int s = 0; s < SAMBA_COUNT(domains); s++)
        for (int k = 0; k < SAMBA_COUNT(dtypes); k++)
            for (int back = 0; back < 2; back++) {
                tile_case t;
                case_begin(&t, 2, domains[s]);
                int64_t strides[2] = {1, domains[s][0]}, one_column[2] = {1, 0}, one_row[2] = {0, 1};
                samba_register_class class_ = samba_class_of(dtypes[k]);
                int x = back ? case_contiguous(&t, dtypes[k]) : case_operand(&t, dtypes[k], 0, strides);
                int y = back ? case_operand(&t, dtypes[k], 0, strides) : case_contiguous(&t, dtypes[k]);
                int z = case_operand(&t, SAMBA_FLOAT64, 0, one_column), w = case_operand(&t, SAMBA_FLOAT64, 0, one_row);
                int b = case_operand(&t, dtypes[k], 0, one_row);
                int r = case_register(&t, class_, FULL, 0, -1), f = case_register(&t, SAMBA_F64, FULL, 0, -1);
                int bias = case_register(&t, class_, FULL, 0, b);
                case_load(&t, r, x);
                case_load(&t, bias, b);
                case_op(&t, SAMBA_TILE_add, r, r, bias);
                case_op(&t, SAMBA_TILE_cast, f, r, -1);
                case_emit(&t, SAMBA_TILE_collect_sum, -1, f, -1, -1, z, 0);
                case_emit(&t, SAMBA_TILE_collect_sum, -1, f, -1, -1, w, 0);
                case_store(&t, r, y);
                case_step(&t, 1);
                case_check(&t, 0, "transpose");
                case_end(&t);
            }
}

/* Rounding and its store, which become one instruction where nothing stands between: read by nobody else, by others too, stored
 * twice, rounded in place, and with the source written again before the store. */
static void test_rounding(void **state)
{
    (void)state;
    static const int64_t domains[][2] = {{1, 1}, {1, 1000}, {3, 5}, {7, 300}, {40, 33}, {2, 513}};
    enum { ALONE, READ, TWICE, IN_PLACE, OVERWRITTEN, WAYS };
    srand(6);
    for (int s = 0; s < SAMBA_COUNT(domains); s++)
        for (int layout = 0; layout < 3; layout++)
            for (int way = 0; way < WAYS; way++) {
                char name[60];
                tile_case t;
                case_begin(&t, 2, domains[s]);
                int64_t gaps[2] = {domains[s][1] + 3, 1}, turned[2] = {1, domains[s][0]};
                int x = case_contiguous(&t, SAMBA_FLOAT32);
                int low = layout == 0 ? case_contiguous(&t, SAMBA_BFLOAT16)
                                      : case_operand(&t, SAMBA_BFLOAT16, 1, layout == 1 ? gaps : turned);
                int other = case_contiguous(&t, way == TWICE ? SAMBA_BFLOAT16 : SAMBA_FLOAT32);
                int a = case_register(&t, SAMBA_F32, FULL, 0, -1), r = case_register(&t, SAMBA_F32, FULL, 0, -1);
                int third = case_register(&t, SAMBA_F32, FULL, 0, -1);
                case_emit(&t, SAMBA_TILE_constant, third, -1, -1, -1, -1, 0.3331298828125);
                case_setup_ends(&t);
                case_load(&t, a, x);
                case_op(&t, SAMBA_TILE_mul, a, a, third);
                case_op(&t, SAMBA_TILE_round_bfloat16, way == IN_PLACE ? a : r, a, -1);
                if (way == OVERWRITTEN)
                    case_op(&t, SAMBA_TILE_add, a, a, third);
                case_store(&t, way == IN_PLACE ? a : r, low);
                if (way == READ || way == IN_PLACE)
                    case_op(&t, SAMBA_TILE_sub, a, a, way == READ ? r : third);
                if (way == TWICE)
                    case_store(&t, r, other);
                else if (way != ALONE)
                    case_store(&t, a, other);
                case_step(&t, 1);
                snprintf(name, sizeof name, "rounding, domain %d, layout %d, way %d", s, layout, way);
                case_check(&t, 0, name);
                case_end(&t);
            }
}

/* ---- coordinates and random numbers ---- */
static void test_iota_random(void **state)
{
    (void)state;
    static const int64_t domains[][3] = {{2, 5, 7}, {3, 4, 300}, {1, 1, 1000}, {40, 3, 1}};
    for (int s = 0; s < SAMBA_COUNT(domains); s++)
        for (int layout = 0; layout < 3; layout++) {
            const int64_t *d = domains[s];
            tile_case t;
            int64_t contiguous[3] = {d[1] * d[2], d[2], 1}, turned[3] = {1, d[0] * d[2], d[0]}, rows[3] = {d[1], 1, 0},
                    none[3] = {0, 0, 0};
            const int64_t *strides = layout == 0 ? contiguous : layout == 1 ? turned : rows;
            case_begin(&t, 3, d);
            int seed = case_operand(&t, SAMBA_INT64, 0, none), y = case_contiguous(&t, SAMBA_FLOAT32),
                z = case_contiguous(&t, SAMBA_INT64);
            int by_row = case_operand(&t, SAMBA_INT16, 0, rows);
            int index = t.stage.operand_count++;
            t.operands[index] = (samba_operand){.buffer = -1, .dtype = SAMBA_FLOAT32, .offset = 5};
            memcpy(t.operands[index].strides, strides, sizeof contiguous);
            int key = case_register(&t, SAMBA_I64, FULL, 0, -1), number = case_register(&t, SAMBA_F32, FULL, 0, y),
                i0 = case_register(&t, SAMBA_I64, FULL, 0, -1);
            int i1 = case_register(&t, SAMBA_I64, FULL, 0, -1), i2 = case_register(&t, SAMBA_I64, FULL, 0, z),
                row = case_register(&t, SAMBA_I64, ROW, 0, -1);
            case_load(&t, key, seed);
            case_setup_ends(&t);
            case_emit(&t, SAMBA_TILE_random, number, key, -1, -1, index, 0);
            case_store(&t, number, y);
            case_emit(&t, SAMBA_TILE_iota, i0, -1, -1, -1, -1, 0);
            case_emit(&t, SAMBA_TILE_iota, i1, -1, -1, -1, -1, 1);
            case_emit(&t, SAMBA_TILE_iota, i2, -1, -1, -1, -1, 2);
            case_emit(&t, SAMBA_TILE_iota, row, -1, -1, -1, -1, 1);
            case_store(&t, row, by_row);
            case_op(&t, SAMBA_TILE_mul, i0, i0, i1);
            case_op(&t, SAMBA_TILE_add, i2, i2, i0);
            case_store(&t, i2, z);
            case_step(&t, 1);
            case_check(&t, 0, "iota and random");
            case_end(&t);
        }
}

/* What cross entropy does: the element in the column of a row's label, a mask of it, rows left out; and programs that look alike
 * but need every comparison. Labels stand in all chunks, and outside. */
enum { CHOICES, SWAPPED, MASK_STORED, NOT_NUMBERS, LABEL_AGAIN, LABEL_FORMS };
static void label_case(tile_case *t, int64_t rows, int64_t cols, int form, int direct)
{
    int64_t domain[2] = {rows, cols}, per_row[2] = {1, 0};
    case_begin(t, 2, domain);
    int x = case_contiguous(t, SAMBA_FLOAT32), y = case_contiguous(t, SAMBA_FLOAT32);
    int other = case_contiguous(t, form == LABEL_AGAIN ? SAMBA_INT64 : SAMBA_FLOAT32);
    samba_dtype numbered = form == SWAPPED ? SAMBA_INT32 : SAMBA_INT64;
    int labels = case_operand(t, numbered, 0, per_row), taken = case_operand(t, SAMBA_BOOL, 0, per_row),
        scale = case_operand(t, SAMBA_FLOAT32, 0, per_row), found = case_operand(t, SAMBA_FLOAT32, 0, per_row),
        sum = case_operand(t, SAMBA_FLOAT32, 0, per_row);
    char *numbers_at = t->memory + t->buffers[t->operands[labels].buffer].offset;
    for (int64_t r = 0; r < rows; r++)
        samba_store_double(numbered, numbers_at + r * (int64_t)samba_dtype_size(numbered),
                           (double)(r % 5 == 4 ? -1 : r * 613 % (cols + 1)));
    int least = case_register(t, SAMBA_F32, FULL, 0, -1), one = case_register(t, SAMBA_F32, FULL, 0, -1),
        zero = case_register(t, SAMBA_F32, FULL, 0, -1);
    case_emit(t, SAMBA_TILE_constant, least, -1, -1, -1, -1, -INFINITY);
    case_emit(t, SAMBA_TILE_constant, one, -1, -1, -1, -1, 1);
    case_emit(t, SAMBA_TILE_constant, zero, -1, -1, -1, -1, 0);
    case_setup_ends(t);
    int in = case_register(t, SAMBA_F32, FULL, 1, direct ? x : -1), numbers = case_register(t, SAMBA_I64, FULL, 0, -1),
        label = case_register(t, SAMBA_I64, FULL, 1, -1), mask = case_register(t, SAMBA_F32, FULL, 1, -1),
        only = case_register(t, SAMBA_F32, FULL, 0, -1), hot = case_register(t, SAMBA_F32, FULL, 1, -1),
        best = case_register(t, SAMBA_F32, ROW, 1, -1), total = case_register(t, SAMBA_F32, ROW, 1, -1),
        factor = case_register(t, SAMBA_F32, FULL, 0, -1), out = case_register(t, SAMBA_F32, FULL, 0, direct ? y : -1),
        part = case_register(t, SAMBA_F32, FULL, 0, -1), kept = case_register(t, SAMBA_F32, FULL, 0, -1);
    case_load(t, in, x);
    case_op(t, SAMBA_TILE_sum, total, in, -1);
    case_emit(t, SAMBA_TILE_iota, numbers, -1, -1, -1, -1, 1);
    case_load(t, label, labels);
    case_op(t, SAMBA_TILE_eq, mask, form == SWAPPED ? label : numbers, form == SWAPPED ? numbers : label);
    if (form == MASK_STORED)
        case_store(t, mask, other);
    if (form == LABEL_AGAIN) {
        case_op(t, SAMBA_TILE_add, numbers, numbers, label);
        case_store(t, numbers, other);
    }
    case_emit(t, SAMBA_TILE_where, only, mask, in, least, -1, 0);
    case_op(t, SAMBA_TILE_amax, best, only, -1);
    case_emit(t, SAMBA_TILE_where, hot, mask, form == NOT_NUMBERS ? in : one, zero, -1, 0);
    case_step(t, 1);
    case_store(t, best, found);
    case_store(t, total, sum);
    case_step(t, 0);
    case_load(t, factor, scale);
    case_op(t, SAMBA_TILE_mul, part, in, factor);
    case_op(t, SAMBA_TILE_sub, part, part, hot);
    case_load(t, kept, taken);
    case_emit(t, SAMBA_TILE_where, out, kept, part, zero, -1, 0);
    case_store(t, out, y);
    case_step(t, 1);
}

static void test_labels(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 10, 63, 64, 77, 300, 512, 1300};
    for (int s = 0; s < 2 * SAMBA_COUNT(sizes); s++)
        for (int form = 0; form < 2 * LABEL_FORMS; form++) {
            char name[64];
            tile_case t;
            snprintf(name, sizeof name, "labels of %d columns, form %d", (int)sizes[s / 2], form);
            label_case(&t, s % 2 ? 41 : 1, sizes[s / 2], form / 2, form % 2);
            case_check(&t, 0, name);
            case_end(&t);
        }
}

/* gelu_tanh beside its gradient, in either order, in place, and where something stands between that keeps them apart */
static void test_gelu_both(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 77, 512, 1300};
    for (int s = 0; s < SAMBA_COUNT(sizes); s++)
        for (int form = 0; form < 8; form++) {
            char name[64];
            tile_case t;
            bool first = form & 1, direct = form & 2, apart = form & 4;
            samba_tile value = SAMBA_TILE_gelu_tanh, grad = SAMBA_TILE_gelu_tanh_grad;
            int64_t domain[2] = {7, sizes[s]};
            case_begin(&t, 2, domain);
            int x = case_contiguous(&t, SAMBA_FLOAT32), y = case_contiguous(&t, SAMBA_FLOAT32);
            int f = case_contiguous(&t, SAMBA_FLOAT32);
            int a = case_register(&t, SAMBA_F32, FULL, 0, direct ? x : -1);
            int b = case_register(&t, SAMBA_F32, FULL, 0, direct ? y : -1);
            int d = case_register(&t, SAMBA_F32, FULL, 0, direct ? f : -1);
            int e = case_register(&t, SAMBA_F32, FULL, 0, direct ? y : -1);
            case_load(&t, a, x);
            case_load(&t, b, y);
            if (!first) {
                case_op(&t, value, d, a, -1);
                case_store(&t, d, f);
            }
            if (apart)
                case_op(&t, SAMBA_TILE_add, b, b, a);
            case_op(&t, grad, e, a, b);
            if (first)
                case_op(&t, value, d, a, -1);
            case_store(&t, e, y);
            if (first)
                case_store(&t, d, f);
            case_step(&t, 1);
            snprintf(name, sizeof name, "gelu and gradient of %d columns, form %d", (int)sizes[s], form);
            case_check(&t, 2e-6, name);
            case_end(&t);
        }
}

/* ---- sums over any dims, all classes ---- */
static void test_collect(void **state)
{
    (void)state;
    static const int64_t domains[][4] = {{2, 3, 4, 5}, {3, 2, 1, 300}, {5, 40, 2, 1}, {1, 1, 1, 700}, {2, 3, 50, 16}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64, SAMBA_INT32, SAMBA_FLOAT16};
    srand(3);
    for (int s = 0; s < SAMBA_COUNT(domains); s++)
        for (int mask = 0; mask < 16; mask++)
            for (int k = 0; k < SAMBA_COUNT(dtypes); k++) {
                tile_case t;
                case_begin(&t, 4, domains[s]);
                int64_t kept[4] = {0}, turned[4] = {0}, size = 1, turned_size = 1, by_row[4];
                for (int d = 3; d >= 0; d--)
                    if (mask >> d & 1) {
                        kept[d] = size;
                        size *= domains[s][d];
                    }
                for (int d = 0; d < 4; d++) {
                    by_row[d] = d < 3 ? kept[d] : 0;
                    if (mask >> d & 1) {
                        turned[d] = turned_size;
                        turned_size *= domains[s][d];
                    }
                }
                samba_register_class class_ = samba_class_of(dtypes[k]);
                int x = case_contiguous(&t, dtypes[k]), sum = case_operand(&t, dtypes[k], 0, kept),
                    most = case_operand(&t, dtypes[k], 4, turned);
                int least = case_operand(&t, dtypes[k], 0, kept), rows = case_operand(&t, dtypes[k], 0, by_row);
                int in = case_register(&t, class_, FULL, 0, x), total = case_register(&t, class_, ROW, 0, -1);
                case_load(&t, in, x);
                case_op(&t, SAMBA_TILE_amax, total, in, -1);
                case_emit(&t, SAMBA_TILE_collect_sum, -1, in, -1, -1, sum, 0);
                case_emit(&t, SAMBA_TILE_collect_amax, -1, in, -1, -1, most, 0);
                case_emit(&t, SAMBA_TILE_collect_amin, -1, in, -1, -1, least, 0);
                case_step(&t, 1);
                case_emit(&t, SAMBA_TILE_collect_sum, -1, total, -1, -1, rows, 0);
                case_step(&t, 0);
                case_check(&t, 0, "collect");
                case_end(&t);
            }
}

/* ---- the block of a contraction, in pieces of all sizes ---- */
static void region_check(int64_t m, int64_t n, int64_t height, int64_t width, int64_t extra, bool rows)
{
    tile_case t;
    int64_t domain[3] = {2, m, n}, per_column[3] = {0, 0, 1}, per_row[3] = {m, 1, 0};
    case_begin(&t, 3, domain);
    int bias = case_operand(&t, SAMBA_FLOAT32, 0, per_column), y = case_contiguous(&t, SAMBA_FLOAT32),
        sums = case_operand(&t, SAMBA_FLOAT32, 0, per_column);
    int raw = case_contiguous(&t, SAMBA_FLOAT32), norm = case_operand(&t, SAMBA_FLOAT32, 0, per_row),
        counted = case_operand(&t, SAMBA_FLOAT32, 0, per_row);
    int given = case_operand(&t, SAMBA_FLOAT32, 0, per_row), raw_scale = case_register(&t, SAMBA_F32, ROW, 0, given);
    int block = case_register(&t, SAMBA_F32, FULL, rows, -1), b = case_register(&t, SAMBA_F32, FULL, 0, bias),
        out = case_register(&t, SAMBA_F32, FULL, 0, y);
    int copy = case_register(&t, SAMBA_F32, FULL, 0, raw), most = case_register(&t, SAMBA_F32, ROW, 0, -1),
        scale = case_register(&t, SAMBA_F32, ROW, 0, counted);
    case_emit(&t, SAMBA_TILE_block, block, -1, -1, -1, -1, 0);
    if (rows) {
        case_op(&t, SAMBA_TILE_amax, most, block, -1);
        case_step(&t, 1);
        case_store(&t, most, norm);
        case_step(&t, 0);
    }
    case_load(&t, b, bias);
    case_load(&t, raw_scale, given);
    case_op(&t, SAMBA_TILE_neg, scale, raw_scale, -1);
    case_store(&t, scale, counted);
    case_op(&t, SAMBA_TILE_add, out, block, b);
    case_op(&t, SAMBA_TILE_relu, out, out, -1);
    case_store(&t, out, y);
    case_emit(&t, SAMBA_TILE_collect_sum, -1, out, -1, -1, sums, 0);
    if (!rows) {
        case_emit(&t, SAMBA_TILE_block, copy, -1, -1, -1, -1, 0);
        case_store(&t, copy, raw);
    }
    case_step(&t, 1);
    t.block = malloc((size_t)(2 * m * n) * sizeof *t.block);
    for (int64_t i = 0; i < 2 * m * n; i++)
        t.block[i] = rand() % 9 - 4;
    char *want = malloc((size_t)t.bytes), *got = aligned_alloc(64, (size_t)(t.bytes + 63) / 64 * 64);
    memcpy(want, t.memory, (size_t)t.bytes);
    naive_run(&t, want);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
        for (int threads = 1; samba_kernels_for((samba_isa)isa) && threads <= 2; threads++) {
            samba_context *context;
            samba_arena arena;
            const samba_tile_program *program;
            volatile int32_t fault = 0;
            assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
            samba_arena_init(&arena, context);
            memcpy(got, t.memory, (size_t)t.bytes);
            samba_prepare prepare = case_prepare(&t, context, &arena, isa, threads, got, &fault);
            assert_int_equal(samba_tile_program_new(&prepare, &t.stage, &program), SAMBA_OK);
            assert_true(samba_tile_has_collect(program));
            int64_t pitch = samba_tile_thread_scratch(program), ld = width + extra;
            char *scratch = aligned_alloc(64, (size_t)(pitch * threads));
            float *values = malloc((size_t)(height * ld) * sizeof *values);
            for (int thread = 0; thread < threads; thread++) {
                samba_tile_begin(program, scratch + thread * pitch);
                for (int batch = 0; batch < 2; batch++)
                    for (int64_t i = 0; i < m; i += height)
                        for (int64_t j = 0; j < n; j += width) {
                            int64_t h = m - i < height ? m - i : height, w = n - j < width ? n - j : width;
                            if ((i / height + j / width) % threads != thread && !rows)
                                continue;
                            if (rows && i / height % threads != thread)
                                continue;
                            for (int64_t r = 0; r < h; r++)
                                for (int64_t c = 0; c < w; c++)
                                    values[r * ld + c] = (float)t.block[(batch * m + i + r) * n + j + c];
                            samba_tile_region(program, scratch + thread * pitch, batch * m + i, h, j, w, values, ld);
                        }
            }
            samba_tile_finish(program, scratch, pitch, threads);
            case_compare(&t, got, want, 0, "region");
            free(scratch);
            free(values);
            samba_arena_free(&arena);
            samba_context_free(context);
        }
    free(want);
    free(got);
    case_end(&t);
}

static void test_region(void **state)
{
    (void)state;
    srand(4);
    for (int extra = 0; extra < 2; extra++) {
        region_check(64, 64, 32, 64, extra * 7, false);
        region_check(50, 130, 32, 64, extra * 7, false);
        region_check(5, 700, 3, 600, extra * 7, false);
        region_check(9, 10, 9, 10, extra * 7, false);
        region_check(33, 1, 16, 1, extra * 7, false);
        region_check(20, 48, 7, 48, extra * 7, true);
        region_check(20, 700, 7, 700, extra * 7, true);
        region_check(40, 5, 40, 5, extra * 7, true);
    }
}

/* ---- random programs ---- */
static int pick(int n) { return rand() % n; }

static int random_operand(tile_case *t, samba_dtype dtype, bool result)
{
    int rank = t->stage.rank, order[SAMBA_MAX_RANK];
    int64_t strides[SAMBA_MAX_RANK], size = 1;
    for (int i = 0; i < rank; i++)
        order[i] = i;
    for (int i = rank - 1, kind = pick(3); i > 0 && kind == 0; i--) { /* a third is permuted */
        int k = pick(i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    int gaps = pick(3) == 0, broadcast = !result && pick(3) == 0;
    for (int i = rank - 1; i >= 0; i--) {
        int d = order[i];
        if (broadcast && pick(2)) {
            strides[d] = 0;
            continue;
        }
        strides[d] = size;
        size *= (t->stage.domain[d] > 0 ? t->stage.domain[d] : 1) + (gaps ? pick(3) : 0);
        if (gaps && pick(4) == 0)
            size *= 2;
    }
    return case_operand(t, dtype, pick(5), strides);
}

static void random_case(tile_case *t)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 10, 16, 17, 33, 77, 256, 257, 300, 1000, 0};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_BFLOAT16, SAMBA_FLOAT16, SAMBA_BOOL};
    static const samba_tile binary[] = {SAMBA_TILE_add,     SAMBA_TILE_sub, SAMBA_TILE_maximum,
                                        SAMBA_TILE_minimum, SAMBA_TILE_gt,  SAMBA_TILE_eq};
    static const samba_tile unary[] = {SAMBA_TILE_neg, SAMBA_TILE_abs, SAMBA_TILE_relu, SAMBA_TILE_not_zero};
    int64_t domain[4], total = 1;
    int rank = 1 + pick(4);
    for (int i = rank - 1; i >= 0; i--) {
        domain[i] = sizes[pick(30) == 0 ? 14 : pick(14)];
        while (total * domain[i] > 6000)
            domain[i] = sizes[pick(5)];
        total *= domain[i] > 0 ? domain[i] : 1;
    }
    case_begin(t, rank, domain);
    int full[40], count = 0, steps = 1 + pick(3), two = case_register(t, SAMBA_F32, FULL, 0, -1);
    case_emit(t, SAMBA_TILE_constant, two, -1, -1, -1, -1, 2);
    full[count++] = two;
    case_setup_ends(t);
    for (int s = 0; s < steps; s++) {
        for (int k = 1 + pick(3); k > 0; k--) {
            samba_dtype dtype = dtypes[pick(SAMBA_COUNT(dtypes))];
            int operand = random_operand(t, dtype, false), r = case_register(t, SAMBA_F32, FULL, 1, pick(2) ? operand : -1);
            case_load(t, r, operand);
            full[count++] = r;
        }
        for (int k = 1 + pick(4); k > 0; k--) {
            int a = full[pick(count)], b = full[pick(count)], c = full[pick(count)], kind = pick(5);
            int d = case_register(t, SAMBA_F32, FULL, 1, -1);
            if (kind == 0)
                case_op(t, unary[pick(SAMBA_COUNT(unary))], d, a, -1);
            else if (kind == 1)
                case_emit(t, SAMBA_TILE_where, d, a, b, c, -1, 0);
            else
                case_op(t, binary[pick(SAMBA_COUNT(binary))], d, a, b);
            full[count++] = d;
        }
        int last = full[count - 1];
        if (pick(2)) {
            int operand = random_operand(t, SAMBA_FLOAT32, true);
            if (pick(2) && t->registers[last].direct < 0)
                t->registers[last].direct = (int16_t)operand;
            case_store(t, last, operand);
        }
        if (pick(3) == 0)
            case_emit(t, pick(2) ? SAMBA_TILE_collect_sum : SAMBA_TILE_collect_amin, -1, last, -1, -1,
                      random_operand(t, SAMBA_FLOAT32, false), 0);
        if (s + 1 == steps) {
            case_step(t, 1);
            break;
        }
        static const samba_tile reduce[] = {SAMBA_TILE_sum, SAMBA_TILE_amax, SAMBA_TILE_amin};
        int sum = case_register(t, SAMBA_F32, ROW, 1, -1), negative = case_register(t, SAMBA_F32, ROW, 1, -1),
            wide = case_register(t, SAMBA_F32, FULL, 1, -1);
        case_op(t, domain[rank - 1] ? reduce[pick(3)] : SAMBA_TILE_sum, sum, last, -1);
        case_step(t, 1);
        case_op(t, SAMBA_TILE_neg, negative, sum, -1);
        if (pick(2)) {
            int operand = random_operand(t, SAMBA_FLOAT32, false);
            t->operands[operand].strides[rank - 1] = 0;
            case_emit(t, SAMBA_TILE_collect_sum, -1, negative, -1, -1, operand, 0);
        }
        case_step(t, 0);
        case_op(t, SAMBA_TILE_spread, wide, negative, -1);
        full[count++] = wide;
    }
}

static void test_random_programs(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 600; seed++) {
        char name[64];
        tile_case t;
        snprintf(name, sizeof name, "random program, seed %u", seed);
        srand(seed);
        random_case(&t);
        case_check(&t, 0, name);
        case_end(&t);
    }
}

/* ---- errors ---- */
static samba_status prepare_some(samba_context *context, void *user)
{
    tile_case *t = user;
    samba_arena arena;
    samba_prepared prepared;
    samba_arena_init(&arena, context);
    volatile int32_t fault = 0;
    samba_prepare prepare = case_prepare(t, context, &arena, SAMBA_ISA_generic, 1, t->memory, &fault);
    samba_status status = samba_prepare_stage(&prepare, &t->stage, &prepared);
    samba_arena_free(&arena);
    return status;
}

static void test_errors(void **state)
{
    (void)state;
    tile_case t;
    static const int64_t domain[1] = {20}, huge[2] = {INT64_MAX / 4, INT64_MAX / 4};
    samba_context *context;
    assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
    case_begin(&t, 1, domain);
    int x = case_contiguous(&t, SAMBA_INT64), in = case_register(&t, SAMBA_I64, FULL, 0, x);
    case_load(&t, in, x);
    case_step(&t, 1);
    fail_each_allocation(prepare_some, &t);
    case_op(&t, SAMBA_TILE_exp, in, in, -1);
    t.steps[0].end = 2;
    assert_int_equal(prepare_some(context, &t), SAMBA_ERROR_UNSUPPORTED);
    assert_non_null(strstr(samba_error_message(context), "exp"));
    t.stage.program.instruction_count = 1;
    t.steps[0].end = 1;
    t.stage.rank = 2;
    memcpy(t.stage.domain, huge, sizeof huge);
    t.registers[0].wide = 1;
    assert_int_equal(prepare_some(context, &t), SAMBA_ERROR_UNSUPPORTED);
    t.stage.kind = 77;
    assert_int_equal(prepare_some(context, &t), SAMBA_ERROR_INTERNAL);
    case_end(&t);
    samba_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),       cmocka_unit_test(test_update_in_place), cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_transpose), cmocka_unit_test(test_rounding),        cmocka_unit_test(test_iota_random),
        cmocka_unit_test(test_labels),    cmocka_unit_test(test_gelu_both),       cmocka_unit_test(test_collect),
        cmocka_unit_test(test_region),    cmocka_unit_test(test_random_programs), cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
