/* SPDX-License-Identifier: Apache-2.0
 *
 * Products folded into an image (col2im): the road of a convolution's input gradient that multiplies no zeros. See fold.c. */
#ifndef SAMBA_CPU_FOLD_H
#define SAMBA_CPU_FOLD_H

#include "device/cpu/product/contract_plan.h"

/* What the road would take, in the plans' currency; negative where the problem is no input gradient of float32. */
double samba_fold_cost(const samba_contract_problem *problem);
samba_status samba_prepare_fold(const samba_prepare *prepare, const samba_stage *stage, const samba_contract_problem *problem,
                                const samba_tile_program *program, samba_prepared *prepared);

#endif
