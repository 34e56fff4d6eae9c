/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of optimizers (optimizers.def) as numbers: of hyperparameters, flags and state, for arrays and sets of them. They are
 * no part of the file format, which has names. */
#ifndef SAMBA_OPTIMIZERS_H
#define SAMBA_OPTIMIZERS_H

#include <stdbool.h>

typedef enum samba_hyper {
#define HYPERPARAMETER(name, option, range, when, help) SAMBA_HYPER_##name,
#include "optimizers.def"
    SAMBA_HYPERS
} samba_hyper;

/* The numbers that PyTorch takes for a hyperparameter. */
typedef enum samba_hyper_range {
    SAMBA_RANGE_ANY,
    SAMBA_RANGE_NONNEGATIVE,
    SAMBA_RANGE_FRACTION,
    SAMBA_RANGE_SHARE
} samba_hyper_range;
/* Is the number in it? "a number in [0, 1)" */
bool samba_range_has(samba_hyper_range range, double value);
const char *samba_range_text(samba_hyper_range range);
/* Of the hyperparameter of that name; ANY where no optimizer has one. */
samba_hyper_range samba_range_of(const char *hyperparameter);

/* Bits of a set. CLIP, ACTIVE and MAXIMIZE are no flags of the table: every optimizer may be clipped and go up;
 * ACTIVE is what a condition said. */
enum {
    SAMBA_BIT_CLIP,
    SAMBA_BIT_ACTIVE,
#define FLAG(name, option, help) SAMBA_BIT_##name,
#include "optimizers.def"
    SAMBA_FLAG_BITS
};
enum {
    SAMBA_FLAG_CLIP = 1 << SAMBA_BIT_CLIP,
    SAMBA_FLAG_ACTIVE = 1 << SAMBA_BIT_ACTIVE,
    SAMBA_FLAG_MAXIMIZE = 1 << SAMBA_FLAG_BITS,
#define FLAG(name, option, help) SAMBA_FLAG_##name = 1 << SAMBA_BIT_##name,
#include "optimizers.def"
};

typedef enum samba_state {
#define STATE(name, of, idle) SAMBA_STATE_##name,
#include "optimizers.def"
    SAMBA_STATES
} samba_state;

typedef enum samba_state_owner { SAMBA_STATE_OF_PARAMETER, SAMBA_STATE_OF_OPTIMIZER } samba_state_owner;

typedef struct samba_state_row {
    const char *name;
    samba_state_owner of;
    const char *idle; /* hyperparameter whose 0 leaves it alone; "": none does */
} samba_state_row;
extern const samba_state_row samba_states[SAMBA_STATES];

#endif
