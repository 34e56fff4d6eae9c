/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates that need no interpreter: the tile programs of SGD, with momentum, Nesterov's too, or without, and of AdamW, each with
 * clipping or without, over float32 tensors that lie in one piece. As one loop they take what the caches give; instruction by instruction
 * each passes over its tile three times and more. A program is recognised by what it computes (update.c), so the result is the
 * interpreter's to the last bit. SGD whose momentum is 0 in a run costs what SGD without one does: its buffer is neither read nor written. */
#ifndef SAMBA_CPU_UPDATE_H
#define SAMBA_CPU_UPDATE_H

#include "device/cpu/machine.h"

typedef struct samba_update {
    int64_t count;                /* elements */
    float *parameter, *mean, *square; /* mean: SGD's momentum; NULL where the rule has none */
    const float *gradient;
    const float *clip;            /* factor of the gradient; NULL: none */
    const float *decay;           /* SGD: added to the gradient, times the parameter. AdamW: factor of the parameter */
    const float *keep_mean;       /* SGD: the momentum's factor */
    const float *share;           /* SGD: the gradient's factor in the momentum; NULL: 1 */
    const uint8_t *active;        /* SGD: the momentum counts while this is not 0; NULL: always */
    bool nesterov;                /* SGD */
    const float *share_mean;      /* AdamW: how far the mean moves towards the gradient */
    const float *keep_square, *share_square, *scale, *eps; /* AdamW */
    const float *rate;
    void (*run)(const struct samba_update *update, int64_t first, int64_t count);
} samba_update;

typedef struct samba_updates { /* updates.c, once for each ISA */
    void (*sgd)(const samba_update *update, int64_t first, int64_t count);
    void (*adamw)(const samba_update *update, int64_t first, int64_t count);
} samba_updates;

/* Is the stage, of kind TILE, such an update? */
bool samba_update_init(samba_update *update, const samba_prepare *prepare, const samba_stage *stage);

#endif
