/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread on the processor of another of its team moves away (device/cpu/affinity.h) and may run where it could before; one that
 * is put back every time waits longer from move to move; where there is one processor nothing happens. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "harness.h"
#include "device/cpu/affinity.h"
#include <sched.h>

#ifdef __linux__
static cpu_set_t allowed;
static int first;

static int setup(void **state)
{
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    first = 0;
    while (!CPU_ISSET((size_t)first, &allowed))
        first++;
    return 0;
}

static void put(const cpu_set_t *set) { assert_int_equal(sched_setaffinity(0, sizeof *set, set), 0); }

/* On the first processor, free to leave it. */
static void come_back(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)first, &one);
    put(&one);
    put(&allowed);
}

static void test_moves(void **state)
{
    samba_affinity team[2] = {0};
    cpu_set_t after;
    int moves = 0;
    for (int i = 0; i < 200; i++) {
        atomic_store(&team[0].processor, first + 1);
        come_back();
        samba_affinity_enter(team, 1);
        moves += atomic_load(&team[1].processor) != first + 1;
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_true(CPU_EQUAL(&after, &allowed));
        if (i == 0 && CPU_COUNT(&allowed) > 1)
            assert_int_equal(moves, 1);
    }
    assert_true(CPU_COUNT(&allowed) > 1 ? moves >= 5 : moves == 0);
    if (team[1].wait == 0 && team[1].patience == 0)
        fail_msg("put back 200 times, and as ready to move as before");
}

static void test_one_processor(void **state)
{
    samba_affinity team[2] = {0};
    cpu_set_t one, after;
    CPU_ZERO(&one);
    CPU_SET((size_t)first, &one);
    put(&one);
    for (int i = 0; i < 10; i++) {
        samba_affinity_enter(team, 0);
        samba_affinity_enter(team, 1);
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_true(CPU_EQUAL(&after, &one));
        assert_int_equal(atomic_load(&team[1].processor), first + 1);
    }
    put(&allowed);
}

TEST_MAIN_WITH(setup, NULL, test_moves, test_one_processor)
#else
int main(void) { return 0; }
#endif
