/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of pairs of bfloat16 by AMX. Linux asks a process to ask for these registers first, as they make the frames of its
 * signals larger; so nothing asks before there is a product in bfloat16. */
#ifndef SAMBA_CPU_AMX_H
#define SAMBA_CPU_AMX_H

#include "device/cpu/product/dense.h"

enum { SAMBA_AMX_SIDE = 16 /* of a register */, SAMBA_AMX_ROWS = 32, SAMBA_AMX_COLS = 32 /* of a block in registers */ };

/* samba_dense_pairs, for rows whose k lies together (ska 1) and blocks that are not in strips. Only on a thread of a process
 * that samba_processor_gives_amx() has said yes to. */
void samba_dense_amx(const samba_dense *block, samba_fetch *fetch);

#endif
