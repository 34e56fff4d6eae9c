/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that only move elements (device/cpu/tile/move.h) against the naive interpreter: permuted, reversed, repeated, strided
 * and sliced views of all dtypes, several moves in one program, random ones whose seed is printed when they fail; and programs
 * that look like moves and are not. Every result must be equal to the bit. */
#include "failing_allocator.h"
#include "device/cpu/tile/move.h"
#include "naive_tiles.h"

static void move(tile_case *t, samba_dtype dtype, samba_extent extent, int from, int to)
{
    int r = case_register(t, samba_class_of(dtype), extent, 0, rand() % 2 ? to : from);
    case_load(t, r, from);
    case_store(t, r, to);
}

static samba_status prepare_move(samba_context *of, const tile_case *t, bool *moves)
{
    samba_arena arena;
    samba_prepared prepared;
    volatile int32_t fault = 0;
    *moves = false;
    samba_arena_init(&arena, of);
    samba_preparing prepare = case_prepare(t, of, &arena, SAMBA_ISA_generic, 1, t->memory, &fault);
    samba_status status = samba_prepare_move(&prepare, &t->stage, &prepared, moves);
    samba_arena_free(&arena);
    return status;
}

/* Is the stage taken for a move? */
static bool is_move(const tile_case *t)
{
    bool moves;
    need(prepare_move(context, t, &moves));
    return moves;
}

/* One move or two; of some, one value a row, stored once. */
static void test_random(void **state)
{
    for (unsigned seed = 1; seed <= 1800; seed++) {
        tile_case t;
        int64_t strides[2][SAMBA_MAX_RANK];
        srand(seed);
        random_domain(&t, seed % 8 == 0, false);
        for (int pairs = 1 + (rand() % 4 == 0); pairs > 0; pairs--) {
            samba_dtype dtype = (samba_dtype)(rand() % SAMBA_DTYPE_COUNT);
            bool rows = rand() % 8 == 0;
            random_strides(&t, true, true, strides[0]);
            random_strides(&t, true, false, strides[1]);
            if (rows)
                strides[0][t.stage.rank - 1] = strides[1][t.stage.rank - 1] = 0;
            int from = case_operand(&t, "", dtype, rand() % 3, strides[0]),
                to = case_operand(&t, "", dtype, rand() % 3, strides[1]);
            move(&t, dtype, rows ? SAMBA_ROW : SAMBA_FULL, from, to);
        }
        case_step(&t, 1);
        if (!is_move(&t))
            fail_msg("seed %u: not a move", seed);
        case_check(&t, 0, "seed %u", seed);
    }
}

/* Other dtypes, places written twice, memory that is read and written, arithmetic, setup: tiles do these. */
static void test_others(void **state)
{
    static const struct {
        int64_t columns;
        const char *program;
    } others[] = {{12, "float16 y; load r x; store r y; step"},          {12, "float32 y:1; load r x; store r y; step"},
                  {12, "load r x; store r overlapping; step"},           {12, "load r x; store r x; step"},
                  {12, "float32 y; load r x; neg r r; store r y; step"}, {12, "float32 y; load r x; setup; store r y; step"}};
    for (int i = 0; i < LENGTH(others); i++) {
        tile_case t;
        srand(9);
        case_begin(&t, 2, SHAPE(9, others[i].columns));
        case_text(&t, "float32 x:10");
        case_operand(&t, "overlapping", SAMBA_FLOAT32, 0, SHAPE(3, 1));
        case_text(&t, "%s", others[i].program);
        if (is_move(&t))
            fail_msg("\"%s\" is taken for a move", others[i].program);
        case_end(&t);
    }
}

/* Of many rows without columns none is gone through. */
static void test_nothing(void **state)
{
    tile_case t;
    srand(11);
    case_begin(&t, 2, SHAPE(9, 0));
    case_text(&t, "float32 x y; load r x; store r y; step");
    assert_true(is_move(&t));
    case_check(&t, 0, "nothing");
}

/* Zeros all over contiguous memory are cleared: not -0 or another number, nor through gaps. */
static void test_zeros(void **state)
{
    static const int64_t domains[][3] = {{3, 5, 7}, {1, 1, 1}, {40, 1, 100}};
    static const double values[] = {0, -0.0, 1};
    srand(10);
    for (int d = 0; d < LENGTH(domains); d++)
        for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++)
            for (int v = 0; v < LENGTH(values); v++)
                for (int gap = 0; gap < (d == 0 ? 2 : 1); gap++) {
                    tile_case t;
                    case_begin(&t, 3, domains[d]);
                    t.dtype = (samba_dtype)dtype;
                    if (gap)
                        case_operand(&t, "y", t.dtype, 0, SHAPE(36, 7, 1));
                    case_text(&t, "%s; constant r %g; setup; store r y; step", gap ? "" : "T y", values[v]);
                    assert_int_equal(is_move(&t), v == 0 && !gap);
                    case_check(&t, 0, "zeros");
                }
}

static samba_status prepare_once(samba_context *of, void *user)
{
    bool moves;
    samba_status status = prepare_move(of, user, &moves);
    assert_true(moves == (status == SAMBA_OK));
    return status;
}

static void test_memory(void **state)
{
    tile_case t;
    case_begin(&t, 2, SHAPE(9, 12));
    case_text(&t, "float32 x:10 y; load r x; store r y; step");
    fail_each_allocation(prepare_once, &t);
    case_end(&t);
}

TEST_MAIN(test_random, test_others, test_nothing, test_zeros, test_memory)
