/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates that need no interpreter: the tile programs of the rules of updates.def, with clipping or without, up or down
 * the gradient, over float32 tensors that lie in one piece. As one loop they take what the caches give; instruction by
 * instruction each passes over its tile three times and more. A program is recognised by what it computes (update.c), so the
 * result is the interpreter's to the last bit.
 * State that a run leaves alone, as SGD's buffer while momentum is 0, is neither read nor written. */
#ifndef SAMBA_CPU_UPDATE_H
#define SAMBA_CPU_UPDATE_H

#include "device/cpu/machine.h"
#include "plan/optimizers.h"

enum {
    SAMBA_UPDATE_NUMBERS = 16 /* of a rule, at most */
};
typedef enum samba_update_rule { /* one an optimizer: what is fixed for it is known to its loop */
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps) SAMBA_UPDATE_##name,
#define EARLIER(rule) SAMBA_UPDATE_##rule,
#include "optimizers.def"
                                 SAMBA_UPDATE_RULES
} samba_update_rule;

typedef struct samba_update {
    int64_t count;                          /* elements */
    float *parameter, *state[SAMBA_STATES]; /* NULL where the rule has none */
    const float *gradient;
    const float *clip;                          /* factor of the gradient; NULL: none */
    const uint8_t *condition;                   /* NULL where the rule has none */
    const float *numbers[SAMBA_UPDATE_NUMBERS]; /* in the order of the rule */
    unsigned flags;
    double element; /* ns that one takes, about */
    void (*run)(const struct samba_update *update, int64_t first, int64_t count);
} samba_update;

typedef struct samba_updates { /* updates.c, once for each ISA */
    void (*run[SAMBA_UPDATE_RULES])(const samba_update *update, int64_t first, int64_t count);
} samba_updates;

/* Is the stage, of kind TILE, such an update? */
bool samba_update_init(samba_update *update, const samba_preparing *prepare, const samba_stage *stage);

#endif
