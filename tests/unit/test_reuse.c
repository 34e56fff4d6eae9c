/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse distances (device/cpu/reuse.h) of small plans, by hand: what the step before left behind, buffers that share memory,
 * sides of products, buffers given twice, a plan without stages, memory that does not suffice. */
#include "harness.h"
#include "failing_allocator.h"
#include "device/cpu/reuse.h"

#define MIB (1 << 20)

static samba_operand at(int buffer) { return (samba_operand){.buffer = buffer}; }

/* Which stages are far, as a number of as many bits: 3: the first two. */
static unsigned far_of(const samba_plan *plan, int64_t near)
{
    uint8_t far[3] = {0};
    need(samba_reuse_find(context, plan, near, far));
    return far[0] | far[1] << 1u | far[2] << 2u;
}

/* Stage 0 walks over buffers 0 and 1, stage 1 over 1 and 2, stage 2 over a small one alone. Counted from middle to middle: buffer
 * 1 is touched again (2 + 3) / 2 = 2.5 MiB later, buffer 0 a whole step later, after 6 MiB. */
static void test_steps(void **state)
{
    samba_buffer buffers[] = {{0, MIB}, {MIB, MIB}, {2 * MIB, 2 * MIB}, {4 * MIB, 1 * MIB}};
    samba_operand first[] = {at(0), at(1), at(0)}, second[] = {at(1), at(2), at(-1)}, third[] = {at(3)};
    samba_stage stages[] = {{.kind = SAMBA_STAGE_TILE, .operand_count = 3, .operands = first},
                            {.kind = SAMBA_STAGE_TILE, .operand_count = 3, .operands = second},
                            {.kind = SAMBA_STAGE_TILE, .operand_count = 1, .operands = third}};
    samba_plan plan = {.memory_bytes = 5 * MIB, .buffer_count = 4, .buffers = buffers, .stage_count = 3, .stages = stages};
    assert_int_equal(far_of(&plan, 2 * MIB), 7);
    /* of stage 1, buffer 1 is near, and buffer 2, twice as large, is not; of stage 0 buffer 1 comes 3.5 MiB later */
    assert_int_equal(far_of(&plan, 3 * MIB), 7);
    assert_int_equal(far_of(&plan, 5 * MIB), 6); /* half of stage 0 is near: not most of it is far */
    assert_int_equal(far_of(&plan, 7 * MIB), 0);
}

/* A product's sides count, and two buffers in one place are one place. */
static void test_sides_and_places(void **state)
{
    samba_buffer buffers[] = {{0, 4 * MIB}, {4 * MIB, 4 * MIB}, {0, 4 * MIB}, {8 * MIB, 0}};
    samba_operand result[] = {at(3)}, read[] = {at(2)};
    samba_stage stages[] = {{.kind = SAMBA_STAGE_CONTRACT,
                             .operand_count = 1,
                             .operands = result,
                             .contract = {.a = {.buffer = 0}, .b = {.buffer = 1}}},
                            {.kind = SAMBA_STAGE_TILE, .operand_count = 1, .operands = read}};
    samba_plan plan = {.memory_bytes = 8 * MIB, .buffer_count = 4, .buffers = buffers, .stage_count = 2, .stages = stages};
    assert_int_equal(far_of(&plan, 5 * MIB), 3); /* from the product's middle to the reader's: 6 MiB */
    assert_int_equal(far_of(&plan, 7 * MIB), 0); /* of the product only its second side comes after more, 12 MiB */
    plan.stage_count = 1;                        /* by itself: 8 MiB from one run to the next */
    assert_int_equal(far_of(&plan, 7 * MIB), 1);
    plan.stage_count = 0;
    plan.memory_bytes = 0;
    far_of(&plan, MIB);
    plan.memory_bytes = INT64_MAX - 1000; /* as a file may say: 2^47 bytes in pieces of 64 KiB */
    far_of(&plan, MIB);
}

static samba_status find_one(samba_context *of, void *user)
{
    uint8_t far[1];
    return samba_reuse_find(of, &(samba_plan){.memory_bytes = MIB}, MIB, far);
}

static void test_memory(void **state) { fail_each_allocation(find_one, NULL); }

TEST_MAIN(test_steps, test_sides_and_places, test_memory)
