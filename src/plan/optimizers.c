/* SPDX-License-Identifier: Apache-2.0
 *
 * What optimizers keep, by name: see optimizers.h. */
#include "plan/optimizers.h"

#define NEVER ""
#define WHILE(hyperparameter) #hyperparameter
const samba_state_row samba_states[SAMBA_STATES] = {
#define STATE(name, of, idle) {#name, SAMBA_STATE_OF_##of, idle},
#include "optimizers.def"
};
