/* SPDX-License-Identifier: Apache-2.0
 *
 * Teams of more threads than there are processors: barriers of one counter and of groups, which stages need none, who touches
 * which page first, and how a team settles on nodes of memory. */
#ifdef __linux__
#define _GNU_SOURCE
#include <sched.h>
#endif
#include "harness.h"
#include "base/team.h"
#include "device/cpu/affinity.h"
#include "device/cpu/apart.h"
#include "device/cpu/barrier.h"
#include "device/cpu/machine.h"
#include <pthread.h>

enum { MOST_THREADS = 140, ROUNDS = 60 };

typedef struct meeting {
    samba_barrier barrier;
    int threads;
    int round[MOST_THREADS]; /* each thread's, which all read after they have met */
    atomic_int wrong;
} meeting;

typedef struct member {
    meeting *of;
    int thread;
} member;

static void *meet(void *argument)
{
    const member *m = argument;
    meeting *of = m->of;
    for (int round = 1; round <= (of->threads > 16 ? ROUNDS / 10 : ROUNDS); round++) {
        of->round[m->thread] = round;
        samba_barrier_wait(&of->barrier, m->thread, of->threads);
        for (int i = 0; i < of->threads; i++)
            if (of->round[i] != round)
                atomic_fetch_add(&of->wrong, 1);
        samba_barrier_wait(&of->barrier, m->thread, of->threads);
    }
    return NULL;
}

/* One barrier serves teams of any size, one after the other. */
TEST(test_barriers)
{
    static const int teams[] = {1, 2, 3, 8, 9, 12, 16, 17, 40, 129, 140, 16, 2};
    meeting *of = aligned_alloc(64, (sizeof *of + 63) / 64 * 64);
    assert_non_null(of);
    memset(of, 0, sizeof *of);
    for (int t = 0; t < LENGTH(teams); t++) {
        pthread_t threads[MOST_THREADS];
        member members[MOST_THREADS];
        of->threads = teams[t];
        memset(of->round, 0, sizeof of->round);
        for (int i = 0; i < of->threads; i++) {
            members[i] = (member){of, i};
            assert_int_equal(pthread_create(&threads[i], NULL, meet, &members[i]), 0);
        }
        for (int i = 0; i < of->threads; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(of->wrong, 0);
    }
    free(of);
}

/* Pages of a buffer go to the threads in order, as many to each; those of small ones to whom they are the most. */
TEST(test_page_owners)
{
    enum { PAGES = 64, THREADS = 8, SMALL = 4 };
    samba_buffer buffers[] = {{0, SMALL * SAMBA_LARGE_PAGE},
                              {SMALL * SAMBA_LARGE_PAGE, 32 * SAMBA_LARGE_PAGE},
                              {SMALL * SAMBA_LARGE_PAGE + 64, 4096},
                              {50 * SAMBA_LARGE_PAGE, 100 * SAMBA_LARGE_PAGE}}; /* the last reaches beyond the arena */
    const samba_plan plan = {.buffers = buffers, .buffer_count = LENGTH(buffers)};
    samba_arena arena;
    uint16_t *owners;
    samba_arena_init(&arena, context);
    need(samba_page_owners(&plan, PAGES * SAMBA_LARGE_PAGE - 5, THREADS, &arena, &owners));
    for (int page = 0; page < SMALL; page++)
        assert_int_equal(owners[page], page * THREADS / SMALL + THREADS / SMALL / 2);
    for (int page = 0; page < 32; page++)
        assert_int_equal(owners[SMALL + page], page / (32 / THREADS));
    for (int page = SMALL + 32; page < 50; page++)
        assert_int_equal(owners[page], page * THREADS / PAGES);
    for (int page = 50; page < PAGES; page++)
        assert_int_equal(owners[page], (2 * (page - 50) + 1) * THREADS / 200);
    samba_host_memory memory;
    need(samba_host_memory_new_for(context, 5 * SAMBA_LARGE_PAGE + 77, 2, owners, &memory));
    for (size_t i = 0; i < memory.size; i += 61)
        assert_int_equal(memory.data[i], 0);
    assert_int_equal(memory.data[memory.size - 1], 0);
    samba_host_memory_free(&memory);
    samba_arena_free(&arena);
}

/* Stages that read one buffer and write another; which of them wait for those before. */
TEST(test_apart)
{
    enum { STAGES = 8 };
    static const int reads[STAGES] = {0, 0, 0, 2, 0, 3, 0, 0}, writes[STAGES] = {1, 2, 3, 4, 5, 6, 7, 7};
    static const uint8_t shared[STAGES] = {1, 1, 1, 1, 1, 0, 1, 1}, expected[STAGES] = {0, 0, 1, 0, 1, 1, 1, 0};
    samba_buffer buffers[8];
    samba_operand operands[STAGES][2];
    samba_stage list[STAGES];
    samba_prepared prepared[STAGES];
    uint8_t apart[STAGES];
    samba_plan_section section = {.first_stage = 0, .stage_count = STAGES};
    samba_plan plan = {
        .buffers = buffers, .buffer_count = 8, .stages = list, .stage_count = STAGES, .sections = &section, .section_count = 1};
    samba_arena arena;
    for (int i = 0; i < 8; i++)
        buffers[i] = (samba_buffer){i * 128, 100};
    for (int i = 0; i < STAGES; i++) {
        operands[i][0] = (samba_operand){.buffer = reads[i]};
        operands[i][1] = (samba_operand){.buffer = writes[i]};
        list[i] = (samba_stage){.kind = SAMBA_STAGE_POOL, .operand_count = 2, .operands = operands[i]};
        prepared[i] = (samba_prepared){.phases = 1};
    }
    const samba_stages stages = {&plan, prepared, shared, apart, 4};
    samba_arena_init(&arena, context);
    need(samba_apart_find(&stages, &arena, apart));
    assert_memory_equal(apart, expected, STAGES);
    prepared[1].thread_scratch = prepared[2].thread_scratch = 64; /* both would work in the same memory */
    need(samba_apart_find(&stages, &arena, apart));
    assert_int_equal(apart[2], 0);
    prepared[2].thread_scratch = 0;
    prepared[0].phases = 2; /* they meet within the first */
    need(samba_apart_find(&stages, &arena, apart));
    assert_int_equal(apart[1], 1);
    prepared[0].phases = 1;
    buffers[3].offset = buffers[2].offset + 99; /* results overlap by a byte */
    need(samba_apart_find(&stages, &arena, apart));
    assert_int_equal(apart[2], 0);
    samba_arena_free(&arena);
}

TEST(test_nodes)
{
    samba_nodes nodes;
    samba_cpu_machine_nodes(&nodes);
    assert_in_range(nodes.count, 1, 64);
    for (int i = 0; i < SAMBA_PROCESSORS; i++)
        assert_in_range(nodes.of[i], 0, nodes.count - 1);
    for (int threads = 2; threads <= 128; threads *= 2)
        for (int home = 0; home < 2; home++)
            for (int thread = 0; thread < threads; thread++)
                assert_int_equal(samba_affinity_node(2, home, thread, threads), (thread >= threads / 2) ^ home);
}

#ifdef __linux__
typedef struct seen {
    cpu_set_t of[2], before;
} seen;

static void look(void *argument, int thread, int team)
{
    seen *s = argument;
    if (team == 2)
        sched_getaffinity(0, sizeof(cpu_set_t), &s->of[thread]);
}

static void put_back(void *argument, int thread, int team)
{
    seen *s = argument;
    (void)thread;
    (void)team;
    sched_setaffinity(0, sizeof s->before, &s->before);
}

/* Two nodes that are not there: every second processor belongs to the other one. */
TEST(test_settling)
{
    seen s;
    samba_nodes nodes = {.count = 2}, one = {.count = 1};
    memset(&s, 0, sizeof s);
    for (int i = 0; i < SAMBA_PROCESSORS; i++)
        nodes.of[i] = (uint8_t)(i % 2);
    assert_int_equal(sched_getaffinity(0, sizeof s.before, &s.before), 0);
    int each[2] = {0, 0};
    for (int i = 0; i < CPU_SETSIZE; i++)
        each[i % 2] += CPU_ISSET(i, &s.before) != 0;
    if (each[0] == 0 || each[1] == 0 || samba_team_bound())
        skip();
    assert_int_equal(samba_affinity_settle(&one, 2), 0);
    samba_team(2, look, &s);
    for (int t = 0; t < 2; t++)
        assert_true(CPU_COUNT(&s.of[t]) == 0 || CPU_EQUAL(&s.of[t], &s.before));
    int home = samba_affinity_settle(&nodes, 2);
    samba_team(2, look, &s);
    if (CPU_COUNT(&s.of[1]) > 0) { /* the team may have been smaller */
        assert_true(CPU_EQUAL(&s.of[0], &s.before));
        for (int i = 0; i < CPU_SETSIZE; i++)
            assert_int_equal(CPU_ISSET(i, &s.of[1]) != 0, CPU_ISSET(i, &s.before) && i % 2 != home);
    }
    samba_team(2, put_back, &s);
}
#else
TEST(test_settling) { skip(); }
#endif

TEST_MAIN(test_barriers, test_page_owners, test_apart, test_nodes, test_settling)
