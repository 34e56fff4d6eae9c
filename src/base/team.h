/* SPDX-License-Identifier: Apache-2.0
 *
 * Work by several threads. All OpenMP regions of the library begin here. */
#ifndef SAMBA_TEAM_H
#define SAMBA_TEAM_H

#include <stdbool.h>
#include <stdint.h>

typedef void samba_team_work(void *argument, int thread, int team);
/* work(argument, 0 .. team - 1, team) by each thread of a team of `threads`, or of fewer where there are no more;
 * returns when all are done. */
void samba_team(int threads, samba_team_work *work, void *argument);
/* As many as OpenMP offers. */
int samba_team_offered(void);
/* Has the program, or its environment, bound OpenMP's threads to processors? */
bool samba_team_bound(void);
/* A thread's share of `count` things: [*begin, *end). */
static inline void samba_team_share(int64_t count, int thread, int team, int64_t *begin, int64_t *end)
{
    *begin = count / team * thread + (thread < count % team ? thread : count % team);
    *end = *begin + count / team + (thread < count % team);
}

#endif
