/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a team that wait for each other every few microseconds must not share a processor: the one that waits spins or
 * yields while the other wants to run, and a step of 130 microseconds takes as many time slices as it has barriers, 8 ms and
 * more. Schedulers start a thread beside the one that made it, and take their time to part the two. So a thread that finds itself
 * on the processor of an earlier one of its team moves away, once. Nothing is pinned: the scheduler stays free to move it later.
 *
 * Each thread has a record, which belongs to the caller and is zeroed at first. Others read it while its thread writes. */
#ifndef SAMBA_AFFINITY_H
#define SAMBA_AFFINITY_H

#include <stdatomic.h>

typedef struct samba_affinity {
    _Alignas(64) atomic_int processor; /* processor + 1; 0: not known */
    int wait, patience;                /* regions until it may move again; how many it will wait after that */
} samba_affinity;

/* By each thread as it enters a region, thread 0 first. */
void samba_affinity_enter(samba_affinity *team, int thread);

#endif
