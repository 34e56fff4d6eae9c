/* SPDX-License-Identifier: Apache-2.0
 *
 * A barrier for the threads of one parallel region. Stages are microseconds long and the threads are there already, so waiting
 * spins; after a few thousand turns it gives the processor away each time, so more threads than processors are slow but never
 * stuck.
 *
 * The last thread to arrive begins the next turn; the others wait for the turn to change. What a thread wrote before the barrier
 * every thread sees after it. */
#ifndef SAMBA_BARRIER_H
#define SAMBA_BARRIER_H

#include <sched.h>
#include <stdatomic.h>

#define SAMBA_BARRIER_SPINS 4096 /* some 100 microseconds: longer than the threads of a stage differ */

typedef struct samba_barrier { /* zeroed at first; each counter on a cache line of its own */
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_uint turn;
} samba_barrier;

static inline void samba_barrier_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void samba_barrier_wait(samba_barrier *barrier, int threads)
{
    /* No thread can begin the next turn before this one has arrived, so reading the turn first is safe. */
    unsigned turn = atomic_load_explicit(&barrier->turn, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) == threads - 1) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&barrier->turn, turn + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&barrier->turn, memory_order_acquire) == turn; spins++) {
        if (spins < SAMBA_BARRIER_SPINS) {
            samba_barrier_pause();
        } else {
            spins = SAMBA_BARRIER_SPINS;
            sched_yield();
        }
    }
}

#endif
