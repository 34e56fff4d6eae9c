/* SPDX-License-Identifier: Apache-2.0
 *
 * The roads of products, one a file: frame.h says what a road is, frame.c chooses among them. */
#ifndef SAMBA_CPU_ROADS_H
#define SAMBA_CPU_ROADS_H

#include "device/cpu/product/frame.h"

extern const samba_road samba_road_row;           /* row.c: one row times a large matrix */
extern const samba_road samba_road_panel;         /* panel.c: large products, packed in panels */
extern const samba_road samba_road_blocks;        /* contract.c: everything; blocks as they lie in memory, or packed */
extern const samba_road samba_road_depthwise;     /* depthwise.c: one filter a plane */
extern const samba_road samba_road_winograd;      /* winograd.c: convolutions of 3 x 3 by fewer products */
extern const samba_road samba_road_winograd_grad; /* winograd_grad.c: their weight gradients */
extern const samba_road samba_road_columns;       /* columns.c: convolutions as large products */
extern const samba_road samba_road_fold;          /* fold.c: input gradients of convolutions */

/* contract_plan.c: drops dims of size 1, makes windows that never leave the image into strides,
 * merges dims that are one in memory. */
void samba_contract_simplify(samba_contract *contract);

#endif
