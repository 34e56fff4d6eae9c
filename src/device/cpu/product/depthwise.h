/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolutions: one filter a plane, and nothing to multiply but its few weights. See depthwise.c. */
#ifndef SAMBA_CPU_DEPTHWISE_H
#define SAMBA_CPU_DEPTHWISE_H

#include "device/cpu/product/contract_plan.h"

/* What the road would take, in the plans' currency; negative where the problem is not of this kind. */
double samba_depthwise_cost(const samba_contract_problem *problem);
samba_status samba_prepare_depthwise(const samba_prepare *prepare, const samba_stage *stage, const samba_contract_problem *problem,
                                     const samba_tile_program *program, samba_prepared *prepared);

#endif
