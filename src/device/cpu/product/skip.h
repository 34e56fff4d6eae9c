/* SPDX-License-Identifier: Apache-2.0
 *
 * Zeros of a plane that need not be multiplied. Where a window's row lies in the padding, or between the rows that a stride
 * spread, nothing of that row of k adds to the sums: a third of the work for the input gradient of a 5 x 5 convolution of 14 x 14
 * pixels, half of it for one of stride 2. So k is put in an order in which what a run of columns needs is one range. */
#ifndef SAMBA_CPU_SKIP_H
#define SAMBA_CPU_SKIP_H

#include "device/cpu/product/blocks.h"
#include "device/cpu/product/pack.h"

typedef struct samba_skip {
    const samba_source *source; /* the vector side */
    int64_t runs, rows;         /* runs of columns of a block; rows of k: steps of the outer window */
    int64_t *own;               /* [runs] where a run's window begins, from that of the block's first element */
    int64_t *step, *begin;      /* [rows] how far a row of k goes on, [rows + 1] its position in the new order */
    int64_t *order;             /* [k] old positions of the new order */
} samba_skip;

/* About which share of the products is needed; 1 where skipping is not worth looking, or blocks of k differ in size. */
double samba_skip_share(const samba_source *source);
/* *skip is NULL where that is 1. */
samba_status samba_skip_new(const samba_source *source, samba_arena *arena, const samba_skip **skip);
/* What each run of the block needs: ranges[runs]. */
void samba_skip_find(const samba_skip *skip, const samba_box *own, const samba_box *inner, samba_range *ranges);

#endif
