/* SPDX-License-Identifier: Apache-2.0
 *
 * What optimizers keep, and what their hyperparameters may be, by name: see optimizers.h. */
#include "plan/optimizers.h"

#include <float.h>
#include <string.h>

#define NEVER ""
#define WHILE(hyperparameter) #hyperparameter
const samba_state_row samba_states[SAMBA_STATES] = {
#define STATE(name, of, idle) {#name, SAMBA_STATE_OF_##of, idle},
#include "optimizers.def"
};

static const struct {
    double least, most;
    const char *text;
} ranges[] = {[SAMBA_RANGE_ANY] = {-DBL_MAX, DBL_MAX, "a finite number"},
              [SAMBA_RANGE_NONNEGATIVE] = {0, DBL_MAX, "a number in [0, inf)"},
              [SAMBA_RANGE_FRACTION] = {0, 1 - DBL_EPSILON / 2, "a number in [0, 1)"},
              [SAMBA_RANGE_SHARE] = {0, 1, "a number in [0, 1]"}};

bool samba_range_has(samba_hyper_range range, double value)
{
    return value >= ranges[range].least && value <= ranges[range].most;
}

const char *samba_range_text(samba_hyper_range range) { return ranges[range].text; }

samba_hyper_range samba_range_of(const char *hyperparameter)
{
    static const struct {
        const char *name;
        samba_hyper_range range;
    } rows[] = {
#define HYPERPARAMETER(name, option, range, when, help) {#name, SAMBA_RANGE_##range},
#include "optimizers.def"
    };
    samba_hyper_range found = SAMBA_RANGE_ANY;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        found = strcmp(rows[i].name, hyperparameter) == 0 ? rows[i].range : found;
    return found;
}
