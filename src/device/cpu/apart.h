/* SPDX-License-Identifier: Apache-2.0
 *
 * Where threads meet: between two stages, unless nothing that one of them touches is what the other writes. An optimizer's
 * updates, a stage a parameter, are all apart from each other: threads go through them without waiting, so a stage too small to
 * be dealt evenly delays nobody.
 *
 * Working memory is the same for all stages, so of two that need some the second waits. */
#ifndef SAMBA_CPU_APART_H
#define SAMBA_CPU_APART_H

#include "device/cpu/kernel.h"
#include "plan/plan.h"

typedef enum samba_stage_before { SAMBA_NOTHING, SAMBA_ALONE, SAMBA_TOGETHER } samba_stage_before; /* since the last barrier */
/* Do all threads meet before a stage? One thread after itself needs nobody, nor do stages that touch nothing of each other. */
static inline bool samba_stage_meets(samba_stage_before before, bool shared, bool apart)
{
    return !apart && (before == SAMBA_TOGETHER || (before == SAMBA_ALONE && shared));
}
static inline samba_stage_before samba_stage_after(samba_stage_before before, bool shared, bool met)
{
    return shared || (before == SAMBA_TOGETHER && !met) ? SAMBA_TOGETHER : SAMBA_ALONE;
}

typedef struct samba_stages { /* of a plan, as a device has prepared them */
    const samba_plan *plan;
    const samba_prepared *stages;
    const uint8_t *shared; /* run by all threads */
    const uint8_t *apart;  /* need not meet those before it since the last barrier */
    int threads;
} samba_stages;

/* apart, of a byte for each stage of the plan: 1 where it need not meet those before it in its section. Those that it touches
 * nothing of are all since the threads met last, in whatever order sections run. */
samba_status samba_apart_find(const samba_stages *stages, samba_arena *arena, uint8_t *apart);

#endif
