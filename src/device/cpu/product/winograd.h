/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of 3 x 3 by fewer multiplications: see winograd.c. */
#ifndef SAMBA_CPU_WINOGRAD_H
#define SAMBA_CPU_WINOGRAD_H

#include "device/cpu/product/contract_plan.h"

/* What the road would take, in the plans' currency; negative where the problem is no convolution of 3 x 3 that moves pixel by pixel. */
double samba_winograd_cost(const samba_contract_problem *problem);
samba_status samba_prepare_winograd(const samba_prepare *prepare, const samba_stage *stage, const samba_contract_problem *problem,
                                    const samba_tile_program *program, samba_prepared *prepared);
/* The same of weight gradients: winograd_grad.c. */
double samba_winograd_grad_cost(const samba_contract_problem *problem);
samba_status samba_prepare_winograd_grad(const samba_prepare *prepare, const samba_stage *stage, const samba_contract_problem *problem,
                                         const samba_tile_program *program, samba_prepared *prepared);

#endif
