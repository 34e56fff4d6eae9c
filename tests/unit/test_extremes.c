/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that only find extremes of narrow integers (device/cpu/tile/extreme.h) against the naive interpreter: all of a domain,
 * some of its dims, rows; contiguous memory and views with gaps; one thread and several; and programs that are none. */
#include "failing_allocator.h"
#include "device/cpu/tile/extreme.h"
#include "naive_tiles.h"

static samba_status prepare_extreme(samba_context *of, const tile_case *t, bool *extreme)
{
    samba_arena arena;
    samba_prepared prepared;
    volatile int32_t fault = 0;
    *extreme = false;
    samba_arena_init(&arena, of);
    samba_preparing prepare = case_prepare(t, of, &arena, SAMBA_ISA_generic, 1, t->memory, &fault);
    samba_status status = samba_prepare_extreme(&prepare, &t->stage, &prepared, extreme);
    samba_arena_free(&arena);
    return status;
}

static bool is_extreme(const tile_case *t)
{
    bool extreme;
    need(prepare_extreme(context, t, &extreme));
    return extreme;
}

/* Strides of memory that holds the dims of `kept` in their order, with a gap behind one of them now and then. */
static void some_strides(const tile_case *t, int kept, bool gaps, int64_t *strides)
{
    int64_t step = 1;
    for (int d = t->stage.rank - 1; d >= 0; d--) {
        strides[d] = kept >> d & 1 ? step : 0;
        if (strides[d])
            step = step * t->stage.domain[d] + (gaps && rand() % 3 == 0);
    }
}

/* Domains of which a part are longer than what is worked on at once. */
static void test_random(void **state)
{
    static const samba_dtype dtypes[] = {SAMBA_INT8, SAMBA_UINT8, SAMBA_INT16, SAMBA_INT32};
    static const int64_t sizes[] = {1, 2, 3, 5, 33, 130};
    int taken = 0;
    for (unsigned seed = 1; seed <= 1200; seed++) {
        tile_case t;
        int64_t domain[4], strides[SAMBA_MAX_RANK];
        srand(seed);
        int rank = 1 + rand() % 4;
        for (int d = 0; d < rank; d++)
            domain[d] = sizes[rand() % (rank > 2 ? 4 : LENGTH(sizes))];
        if (rand() % 8 == 0)
            domain[rank - 1] = 4200 + rand() % 100;
        else if (rand() % 2)
            domain[rank - 1] = 70;
        bool rows = rand() % 3 == 0, gaps = rand() % 4 == 0, greatest = rand() % 2;
        samba_dtype dtype = dtypes[rand() % LENGTH(dtypes)];
        case_begin(&t, rank, domain);
        some_strides(&t, -1, gaps, strides);
        case_operand(&t, "x", dtype, rand() % 3, strides);
        some_strides(&t, rows ? (1 << (rank - 1)) - 1 : rand() % (1 << rank), gaps, strides);
        case_operand(&t, "y", dtype, rand() % 3, strides);
        if (rows)
            case_text(&t, "load r x; %s best r; step; store best y; once", greatest ? "amax" : "amin");
        else
            case_text(&t, "load r x; collect_%s r y; step", greatest ? "amax" : "amin");
        taken += is_extreme(&t);
        case_check(&t, 0, "seed %u", seed);
    }
    assert_true(taken > 400);
}

static void test_others(void **state)
{
    static const char *const others[] = {
        "float32 x y:0; load r x; collect_amax r y; step", "int64 x y:0; load r x; collect_amax r y; step",
        "int16 x y:0; load r x; collect_sum r y; step", "int16 x y:0; load r x; add r r r; collect_amax r y; step"};
    for (int i = 0; i < LENGTH(others); i++) {
        tile_case t;
        srand(9);
        case_begin(&t, 2, SHAPE(9, 70));
        case_text(&t, "%s", others[i]);
        if (is_extreme(&t))
            fail_msg("\"%s\" is taken for an extreme of narrow integers", others[i]);
        case_end(&t);
    }
}

static samba_status prepare_once(samba_context *of, void *user)
{
    bool extreme;
    samba_status status = prepare_extreme(of, user, &extreme);
    assert_true(extreme == (status == SAMBA_OK));
    return status;
}

static void test_memory(void **state)
{
    tile_case t;
    case_begin(&t, 2, SHAPE(9, 70));
    case_operand(&t, "x", SAMBA_INT16, 0, SHAPE(70, 1));
    case_operand(&t, "y", SAMBA_INT16, 0, SHAPE(1, 0));
    case_text(&t, "load r x; collect_amin r y; step");
    fail_each_allocation(prepare_once, &t);
    case_end(&t);
}

TEST_MAIN(test_random, test_others, test_memory)
