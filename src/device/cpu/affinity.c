/* SPDX-License-Identifier: Apache-2.0
 *
 * See affinity.h. Elsewhere than on Linux threads stay where they are. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "device/cpu/affinity.h"

#include "base/team.h"

#include <sched.h>
#include <stdbool.h>

#ifdef __linux__
/* regions between two moves of a thread that is put back again and again: it and the scheduler shall not quarrel */
#define LONGEST 64

static void move_away(const samba_affinity *team, int thread)
{
    cpu_set_t allowed, rest;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    rest = allowed;
    for (int i = 0; i < thread; i++) {
        int processor = atomic_load_explicit(&team[i].processor, memory_order_relaxed);
        if (processor > 0 && processor <= CPU_SETSIZE)
            CPU_CLR((size_t)processor - 1, &rest);
    }
    if (CPU_COUNT(&rest) > 0 && sched_setaffinity(0, sizeof rest, &rest) == 0)
        sched_setaffinity(0, sizeof allowed, &allowed);
}

void samba_affinity_enter(samba_affinity *team, int thread)
{
    int here = sched_getcpu() + 1;
    bool taken = false;
    for (int i = 0; i < thread; i++)
        taken = taken || atomic_load_explicit(&team[i].processor, memory_order_relaxed) == here;
    if (!taken || here == 0) {
        team[thread].patience -= team[thread].patience > 0;
    } else if (team[thread].wait > 0) {
        team[thread].wait--;
    } else {
        team[thread].wait = team[thread].patience;
        team[thread].patience = team[thread].patience < LONGEST / 2 ? 2 * team[thread].patience + 1 : LONGEST;
        move_away(team, thread);
        here = sched_getcpu() + 1;
    }
    atomic_store_explicit(&team[thread].processor, here, memory_order_relaxed);
}

typedef struct settling {
    const samba_nodes *nodes;
    int home;
    cpu_set_t allowed; /* the caller's */
} settling;

static void settle(void *argument, int thread, int team)
{
    const settling *s = argument;
    const int node = samba_affinity_node(s->nodes->count, s->home, thread, team);
    cpu_set_t near = s->allowed;
    if (thread == 0)
        return;
    for (int i = 0; i < CPU_SETSIZE && i < SAMBA_PROCESSORS; i++)
        if (s->nodes->of[i] != node)
            CPU_CLR((size_t)i, &near);
    if (CPU_COUNT(&near) > 0)
        sched_setaffinity(0, sizeof near, &near);
}

int samba_affinity_settle(const samba_nodes *nodes, int threads)
{
    settling s = {.nodes = nodes};
    int here = sched_getcpu();
    if (nodes->count <= 1 || samba_team_bound() || sched_getaffinity(0, sizeof s.allowed, &s.allowed) != 0)
        return 0;
    s.home = here >= 0 && here < SAMBA_PROCESSORS ? nodes->of[here] : 0;
    samba_team(threads, settle, &s);
    return s.home;
}
#else
int samba_affinity_settle(const samba_nodes *nodes, int threads)
{
    (void)nodes;
    (void)threads;
    return 0;
}

void samba_affinity_enter(samba_affinity *team, int thread)
{
    (void)team;
    (void)thread;
}
#endif
