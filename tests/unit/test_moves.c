/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that only move elements (device/cpu/tile/move.h) against the naive interpreter: permuted, reversed, repeated, strided
 * and sliced views of all dtypes, several moves in one program, random ones whose seed is printed when they fail; and programs
 * that look like moves and are not. Every result must be equal to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "failing_allocator.h"
#include "device/cpu/tile/move.h"
#include "naive_tiles.h"
#include <stdio.h>

/* An operand whose strides may be negative: its offset is that of its first element in a buffer which holds all. */
static int view(tile_case *t, samba_dtype dtype, int64_t before, const int64_t *strides)
{
    int64_t plain[SAMBA_MAX_RANK], first = before;
    for (int i = 0; i < t->stage.rank; i++) {
        plain[i] = strides[i] < 0 ? -strides[i] : strides[i];
        first += strides[i] < 0 ? (t->stage.domain[i] - 1) * plain[i] : 0;
    }
    int operand = case_operand(t, dtype, before, plain);
    t->operands[operand].offset = first;
    memcpy(t->operands[operand].strides, strides, (size_t)t->stage.rank * sizeof *strides);
    return operand;
}

static void move(tile_case *t, samba_dtype dtype, samba_extent extent, int from, int to)
{
    int r = case_register(t, samba_class_of(dtype), extent, 0, rand() % 2 ? to : from);
    case_load(t, r, from);
    case_store(t, r, to);
}

/* Is the stage taken for a move? */
static bool is_move(tile_case *t)
{
    samba_context *context;
    samba_arena arena;
    samba_prepared prepared;
    volatile int32_t fault = 0;
    bool moves;
    assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
    samba_arena_init(&arena, context);
    samba_prepare prepare = case_prepare(t, context, &arena, SAMBA_ISA_generic, 1, t->memory, &fault);
    assert_int_equal(samba_prepare_move(&prepare, &t->stage, &prepared, &moves), SAMBA_OK);
    samba_arena_free(&arena);
    samba_context_free(context);
    return moves;
}

/* Strides of a memory in which the dims lie in some order, some reversed, with a gap here and there. */
static void random_strides(const tile_case *t, bool repeats, int64_t *strides)
{
    int order[SAMBA_MAX_RANK], rank = t->stage.rank;
    for (int i = 0; i < rank; i++)
        order[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int j = rand() % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    int64_t stride = rand() % 6 == 0 ? 2 : 1;
    for (int i = 0; i < rank; i++) {
        int k = order[i];
        strides[k] = rand() % 4 == 0 ? -stride : stride;
        if (repeats && rand() % 6 == 0)
            strides[k] = 0;
        else
            stride *= t->stage.domain[k] + (rand() % 5 == 0);
    }
}

static void test_random(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64, 70};
    for (unsigned seed = 1; seed <= 1500; seed++) {
        srand(seed);
        tile_case t;
        int rank = 1 + rand() % 5, pairs = 1 + (rand() % 4 == 0);
        int64_t domain[SAMBA_MAX_RANK], numel = 1, strides[SAMBA_MAX_RANK];
        for (int i = 0; i < rank; i++) {
            do
                domain[i] = sizes[rand() % SAMBA_COUNT(sizes)];
            while (numel * domain[i] > 20000);
            numel *= domain[i];
        }
        case_begin(&t, rank, domain);
        for (int k = 0; k < pairs; k++) {
            samba_dtype dtype = (samba_dtype)(rand() % SAMBA_DTYPE_COUNT);
            random_strides(&t, true, strides);
            int from = view(&t, dtype, rand() % 3, strides);
            random_strides(&t, false, strides);
            move(&t, dtype, SAMBA_FULL, from, view(&t, dtype, rand() % 3, strides));
        }
        case_step(&t, 1);
        char what[40];
        snprintf(what, sizeof what, "seed %u", seed);
        if (!is_move(&t))
            fail_msg("%s: not a move", what);
        case_check(&t, 0, what);
        case_end(&t);
    }
}

/* Planes of many tiles, whose last ones are cut. */
static void test_large(void **state)
{
    (void)state;
    static const int64_t domains[][3] = {{3, 130, 77}, {2, 70, 300}, {2, 5, 3000}, {2, 3000, 5}, {1, 1, 40000}, {2, 3, 9000}};
    srand(7);
    for (int s = 0; s < SAMBA_COUNT(domains); s++)
        for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++)
            for (int way = 0; way < 4; way++) {
                const int64_t *n = domains[s], turned[3] = {n[1] * n[2], 1, n[1]}, back[3] = {n[1] * n[2], -n[2], -1};
                const int64_t rotated[3] = {n[1] * n[2], -1, n[1]}, swapped[3] = {n[2], n[0] * n[2], 1};
                tile_case t;
                case_begin(&t, 3, n);
                int from = view(&t, (samba_dtype)dtype, 0, way == 0 ? turned : way == 1 ? back : way == 2 ? rotated : swapped);
                move(&t, (samba_dtype)dtype, SAMBA_FULL, from, case_contiguous(&t, (samba_dtype)dtype));
                case_step(&t, 1);
                assert_true(is_move(&t));
                case_check(&t, 0, samba_dtype_name((samba_dtype)dtype));
                case_end(&t);
            }
}

/* One value a row, stored once. */
static void test_rows(void **state)
{
    (void)state;
    static const int64_t domain[] = {5, 6, 40}, x[] = {1, 5, 0}, y[] = {6, 1, 0};
    tile_case t;
    srand(8);
    case_begin(&t, 3, domain);
    int from = case_operand(&t, SAMBA_INT16, 0, x), to = case_operand(&t, SAMBA_INT16, 0, y);
    move(&t, SAMBA_INT16, SAMBA_ROW, from, to);
    case_step(&t, 1);
    assert_true(is_move(&t));
    case_check(&t, 0, "rows");
    case_end(&t);
}

/* Other dtypes, arithmetic, memory that is read and written, places written twice, no elements, setup: tiles do these. */
static void test_others(void **state)
{
    (void)state;
    static const int64_t domain[] = {9, 12}, empty[] = {9, 0}, turned[] = {1, 9}, repeated[] = {0, 1}, overlapping[] = {3, 1};
    for (int other = 0; other < 7; other++) {
        tile_case t;
        srand(9);
        case_begin(&t, 2, other == 4 ? empty : domain);
        int x = case_operand(&t, SAMBA_FLOAT32, 0, turned), y = -1;
        switch (other) {
        case 0: y = case_contiguous(&t, SAMBA_FLOAT16); break;
        case 1: y = case_operand(&t, SAMBA_FLOAT32, 0, repeated); break;
        case 2: y = case_operand(&t, SAMBA_FLOAT32, 0, overlapping); break;
        case 3: y = x; break;
        default: y = case_contiguous(&t, SAMBA_FLOAT32); break;
        }
        int r = case_register(&t, SAMBA_F32, SAMBA_FULL, 0, -1);
        case_load(&t, r, x);
        if (other == 5)
            case_op(&t, SAMBA_TILE_neg, r, r, -1);
        if (other == 6)
            case_setup_ends(&t);
        case_store(&t, r, y);
        case_step(&t, 1);
        if (is_move(&t))
            fail_msg("program %d is taken for a move", other);
        case_end(&t);
    }
}

/* Zeros all over contiguous memory are cleared: not -0 or another number, nor through gaps. */
static void test_zeros(void **state)
{
    (void)state;
    static const int64_t domains[][3] = {{3, 5, 7}, {1, 1, 1}, {40, 1, 100}}, gaps[] = {36, 7, 1};
    static const double values[] = {0, -0.0, 1};
    srand(10);
    for (int d = 0; d < SAMBA_COUNT(domains); d++)
        for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++)
            for (int v = 0; v < SAMBA_COUNT(values); v++)
                for (int gap = 0; gap < (d == 0 ? 2 : 1); gap++) {
                    tile_case t;
                    case_begin(&t, 3, domains[d]);
                    int y = gap ? case_operand(&t, (samba_dtype)dtype, 0, gaps) : case_contiguous(&t, (samba_dtype)dtype);
                    int r = case_register(&t, samba_class_of((samba_dtype)dtype), SAMBA_FULL, 0, -1);
                    case_emit(&t, SAMBA_TILE_constant, r, -1, -1, -1, -1, values[v]);
                    case_setup_ends(&t);
                    case_store(&t, r, y);
                    case_step(&t, 1);
                    assert_int_equal(is_move(&t), v == 0 && !gap);
                    case_check(&t, 0, "zeros");
                    case_end(&t);
                }
}

static samba_status prepare_once(samba_context *context, void *user)
{
    tile_case *t = user;
    samba_arena arena;
    samba_prepared prepared;
    samba_arena_init(&arena, context);
    volatile int32_t fault = 0;
    bool moves = false;
    samba_prepare prepare = case_prepare(t, context, &arena, SAMBA_ISA_generic, 1, t->memory, &fault);
    samba_status status = samba_prepare_move(&prepare, &t->stage, &prepared, &moves);
    assert_true(moves == (status == SAMBA_OK));
    samba_arena_free(&arena);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    static const int64_t domain[] = {9, 12}, turned[] = {1, 9};
    tile_case t;
    srand(10);
    case_begin(&t, 2, domain);
    int from = case_operand(&t, SAMBA_FLOAT32, 0, turned);
    move(&t, SAMBA_FLOAT32, SAMBA_FULL, from, case_contiguous(&t, SAMBA_FLOAT32));
    case_step(&t, 1);
    fail_each_allocation(prepare_once, &t);
    case_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_large), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_others), cmocka_unit_test(test_zeros), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
