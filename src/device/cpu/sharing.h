/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stages threads share. One that takes one thread less time than waking and meeting the others does is done by thread 0. */
#ifndef SAMBA_CPU_SHARING_H
#define SAMBA_CPU_SHARING_H

#include "device/cpu/machine.h"
#include "plan/plan.h"

typedef struct samba_sharing {
    const samba_plan *plan;
    const samba_constants *constants;
    int threads;
    double *held; /* per stage: bytes that one core holds alone when it begins */
} samba_sharing;

/* before_is_shared: whether threads share the stage before. held[i] is known. */
bool samba_stage_is_shared(const samba_sharing *sharing, const samba_cpu_machine *machine, int32_t i, bool before_is_shared);

/* Of all stages, if the model has its way. The arena keeps what it needs for that. */
samba_status samba_sharing_find_held(const samba_sharing *sharing, const samba_cpu_machine *machine, samba_arena *arena);

#endif
