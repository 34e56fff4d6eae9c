/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a team that wait for each other every few microseconds must not share a processor: the one that waits spins or
 * yields while the other wants to run, and a step of 130 microseconds takes as many time slices as it has barriers, 8 ms and
 * more. Schedulers start a thread beside the one that made it, and take their time to part the two. So a thread that finds itself
 * on the processor of an earlier one of its team moves away, once. Nothing is pinned: the scheduler stays free to move it later.
 *
 * Where memory has several nodes, a team of many settles before it touches memory: neighbours on one node, as many on each, and
 * from then on the scheduler moves a thread within its node. The first thread is the caller's and stays what it is: the node that
 * it is found on comes first. A program that binds OpenMP's threads itself has them where it wants them.
 *
 * Each thread has a record, which belongs to the caller and is zeroed at first. Others read it while its thread writes. */
#ifndef SAMBA_AFFINITY_H
#define SAMBA_AFFINITY_H

#include <stdatomic.h>
#include <stdint.h>

enum { SAMBA_PROCESSORS = 1024 /* whose nodes are known; others count as the first's */ };

typedef struct samba_affinity {
    _Alignas(64) atomic_int processor; /* processor + 1; 0: not known */
    int wait, patience;                /* regions until it may move again; how many it will wait after that */
} samba_affinity;

typedef struct samba_nodes { /* of memory */
    int count;
    uint8_t of[SAMBA_PROCESSORS]; /* the node that each processor is near to */
} samba_nodes;
/* Settles a team, by the thread that begins its regions; nothing where there is one node. Returns the first thread's node. */
int samba_affinity_settle(const samba_nodes *nodes, int threads);
/* The node of a thread, where the first one's is `home`. */
static inline int samba_affinity_node(int nodes, int home, int thread, int threads)
{
    return (home + (int)((int64_t)thread * nodes / threads)) % nodes;
}

/* By each thread as it enters a region, thread 0 first. */
void samba_affinity_enter(samba_affinity *team, int thread);

#endif
