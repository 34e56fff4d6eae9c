/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions as large products: all pixels that a unit computes are columns (im2col), gathered a step of k at a time. See columns.c. */
#ifndef SAMBA_CPU_COLUMNS_H
#define SAMBA_CPU_COLUMNS_H

#include "device/cpu/product/contract_plan.h"

/* What the road would take, in the plans' currency; negative where the problem is no convolution of float32 that moves pixel by pixel. */
double samba_columns_cost(const samba_contract_problem *problem);
samba_status samba_prepare_columns(const samba_prepare *prepare, const samba_stage *stage, const samba_contract_problem *problem,
                                   const samba_tile_program *program, samba_prepared *prepared);

#endif
