/* SPDX-License-Identifier: Apache-2.0
 *
 * How a plan's work lies on the threads of a machine, by arithmetic: nothing runs, and the machine need not be there. Stages are
 * prepared as the machine would, and asked how they deal their work (samba_dealing in kernel.h), so that what is counted is what
 * runs. Units that are taken as they come free go to the thread that has least.
 *
 * Between two barriers nobody is faster than the slowest. So a step takes the sum of the slowest threads' work, and could take
 * the sum of the means: their ratio is what uneven dealing costs. */
#ifndef SAMBA_CPU_LOAD_H
#define SAMBA_CPU_LOAD_H

#include "device/cpu/apart.h"

typedef struct samba_stage_load {
    double slowest,
        mean;         /* ns of its phases, about: of the thread that takes longest in each; of all threads over their number */
    double bytes;     /* that come from other cores */
    int64_t units;    /* of the phase with the most work */
    const char *road; /* of a contraction; else NULL */
    int held_count;
    samba_held held[SAMBA_HELD];
} samba_stage_load;

typedef struct samba_load { /* of a step: the schedule of the first graph once, after others like it */
    double slowest, mean, bytes;
    int64_t barriers;
    samba_stage_load *stages; /* of the plan; in the arena */
} samba_load;

/* As a device of that machine would run the plan. */
samba_status samba_cpu_load(samba_context *context, const samba_cpu_machine *machine, int threads, const samba_plan *plan,
                            samba_arena *arena, samba_load *load);
/* Of what a device has prepared. */
samba_status samba_load_find(const samba_stages *stages, samba_arena *arena, samba_load *load);

#endif
