/* SPDX-License-Identifier: Apache-2.0
 *
 * The road of large matrix products. The vector side (n) is packed once, by all threads, into panels of 64 columns; then each
 * thread takes blocks of rows, packs a block's step of k into its own scratch and multiplies it with every panel, so that nothing
 * is packed twice and all that block kernels read is contiguous. Smaller, windowed and integer contractions take contract.c's
 * road, whose plan looks for ways not to pack at all. */
#ifndef SAMBA_CPU_PANEL_H
#define SAMBA_CPU_PANEL_H

#include "device/cpu/product/contract_plan.h"
#include "device/cpu/product/finish.h"

/* May this (simplified) contraction go by panels, and is it large enough that packing pays? */
bool samba_panel_suits(const samba_contract_problem *problem);
samba_status samba_prepare_panel(const samba_prepare *prepare, const samba_contract_problem *problem,
                                 const samba_tile_program *program, const samba_finish *finish, const samba_blocks *blocks,
                                 samba_prepared *prepared);

#endif
