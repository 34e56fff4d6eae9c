/* SPDX-License-Identifier: Apache-2.0
 *
 * A barrier for the threads of one parallel region. Stages are microseconds long and the threads are there already, so waiting
 * spins; after a few thousand turns it gives the processor away each time, so more threads than processors are slow but never
 * stuck.
 *
 * The last thread to arrive begins the next turn; the others wait for the turn to change. What a thread wrote before the barrier
 * every thread sees after it. One counter serves a few threads. Many would queue for its cache line: they arrive in groups of
 * neighbours, which a node of memory has together, and the last of each group arrives for it. */
#ifndef SAMBA_BARRIER_H
#define SAMBA_BARRIER_H

#include <sched.h>
#include <stdatomic.h>

#define SAMBA_BARRIER_SPINS 4096 /* some 100 microseconds: longer than the threads of a stage differ */

enum {
    SAMBA_BARRIER_FEW = 8,     /* threads that share one counter, and of a group */
    SAMBA_BARRIER_GROUPS = 16, /* at most; of more threads than these have, each group is larger */
};

typedef struct samba_barrier_counter { /* each number on a cache line of its own */
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_uint turn;
} samba_barrier_counter;

typedef struct samba_barrier { /* zeroed at first */
    samba_barrier_counter all, groups[SAMBA_BARRIER_GROUPS];
} samba_barrier;

/* Some tens of cycles, as x86's pause takes. ARM's yield takes none on cores with one thread: the turns would be over after 10
 * microseconds. Its isb takes about as many. */
static inline void samba_barrier_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Is this the last of `count` to arrive? Then all of them wait until samba_barrier_open; the others return after it. */
static inline int samba_barrier_arrive(samba_barrier_counter *counter, int count, unsigned *turn)
{
    /* No thread can begin the next turn before this one has arrived, so reading the turn first is safe. */
    *turn = atomic_load_explicit(&counter->turn, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&counter->arrived, 1, memory_order_acq_rel) == count - 1) {
        atomic_store_explicit(&counter->arrived, 0, memory_order_relaxed);
        return 1;
    }
    for (int spins = 0; atomic_load_explicit(&counter->turn, memory_order_acquire) == *turn; spins++) {
        if (spins < SAMBA_BARRIER_SPINS) {
            samba_barrier_pause();
        } else {
            spins = SAMBA_BARRIER_SPINS;
            sched_yield();
        }
    }
    return 0;
}

static inline void samba_barrier_open(samba_barrier_counter *counter, unsigned turn)
{
    atomic_store_explicit(&counter->turn, turn + 1, memory_order_release);
}

/* By each of the threads 0 .. threads - 1 of a team. */
static inline void samba_barrier_wait(samba_barrier *barrier, int thread, int threads)
{
    unsigned turn, all;
    if (threads <= SAMBA_BARRIER_FEW) {
        if (samba_barrier_arrive(&barrier->all, threads, &turn))
            samba_barrier_open(&barrier->all, turn);
        return;
    }
    int groups = (threads + SAMBA_BARRIER_FEW - 1) / SAMBA_BARRIER_FEW;
    groups = groups < SAMBA_BARRIER_GROUPS ? groups : SAMBA_BARRIER_GROUPS;
    int size = (threads + groups - 1) / groups, group = thread / size, last = (threads - 1) / size;
    samba_barrier_counter *own = &barrier->groups[group];
    if (!samba_barrier_arrive(own, group < last ? size : threads - last * size, &turn))
        return;
    if (samba_barrier_arrive(&barrier->all, last + 1, &all))
        samba_barrier_open(&barrier->all, all);
    samba_barrier_open(own, turn);
}

#endif
