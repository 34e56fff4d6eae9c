/* SPDX-License-Identifier: Apache-2.0
 *
 * How many sums of a large product the registers of an instruction set hold at once: rows by vectors. dense.c multiplies so many,
 * and strips.c packs for it. */
#ifndef SAMBA_CPU_DENSE_SHAPE_H
#define SAMBA_CPU_DENSE_SHAPE_H

#include "device/cpu/isa/lanes.h"

/* sums, a row of b and one element of a fit the registers */
#if VECTOR_REGISTERS >= 32
#define DENSE_VECTORS 4
#else
#define DENSE_VECTORS 2
#endif
#if VECTOR_FUSED
#define DENSE_ROWS 6
#else
#define DENSE_ROWS 5 /* a product that is added apart takes a register */
#endif

enum { DENSE_LANES = VECTOR_BYTES / 4, DENSE_COLS = DENSE_VECTORS * DENSE_LANES };

#endif
