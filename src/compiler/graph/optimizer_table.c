/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of optimizers.def as tables: what compiler/graph/optimizers.h and sambaflow/optimizers.h ask of them. */
#include "compiler/graph/optimizers.h"

#include <string.h>

#define RUN true
#define COMPILE false
const samba_hyper_row samba_hypers[SAMBA_HYPERS] = {
#define HYPERPARAMETER(name, option, range, when, help) {#name, offsetof(samba_optimizer, name), SAMBA_RANGE_##range, when},
#include "optimizers.def"
};

double samba_hyper_of(const samba_optimizer *optimizer, samba_hyper hyper)
{
    double value;
    memcpy(&value, (const char *)optimizer + samba_hypers[hyper].offset, sizeof value);
    return value;
}

void samba_hyper_set_in(samba_optimizer *optimizer, samba_hyper hyper, double value)
{
    memcpy((char *)optimizer + samba_hypers[hyper].offset, &value, sizeof value);
}

/* ---- one optimizer's cells ---- */
enum { /* facts of hyperparameters and state, for the tables below */
#define HYPERPARAMETER(name, option, range, when, help) RUN_##name = when,
#define STATE(name, of, idle) OWNER_##name = SAMBA_STATE_OF_##of == SAMBA_STATE_OF_PARAMETER,
#include "optimizers.def"
};
#define NEVER ""
#define WHILE(hyperparameter) #hyperparameter
#define STATE(name, of, idle) static const char idle_##name[] = idle;
#include "optimizers.def"

#define ALWAYS ""
#define WHERE(flag) #flag
#define TAKES(hyperparameter, value) {#hyperparameter, value, RUN_##hyperparameter},
#define HAS(flag) #flag,
#define KEEPS(state, initial, when) {#state, OWNER_##state, when, idle_##state},
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    static const samba_optimizer_hyperparameter name##_takes[] = {takes};                                                        \
    static const char *const name##_flags[] = {flags "maximize"};                                                                \
    static const samba_optimizer_state name##_keeps[] = {keeps};
#include "optimizers.def"

static const samba_optimizer_facts all[] = {
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    [number] = {SAMBA_##KIND,                                                                                                    \
                #name,                                                                                                           \
                #title,                                                                                                          \
                SAMBA_COUNT(name##_takes),                                                                                       \
                SAMBA_COUNT(name##_flags),                                                                                       \
                SAMBA_COUNT(name##_keeps),                                                                                       \
                name##_takes,                                                                                                    \
                name##_flags,                                                                                                    \
                name##_keeps},
#include "optimizers.def"
};
#undef TAKES
#undef HAS
#undef KEEPS

int samba_optimizer_count(void) { return SAMBA_COUNT(all); }

const samba_optimizer_facts *samba_optimizer_facts_at(int index)
{
    return index >= 0 && index < SAMBA_COUNT(all) ? &all[index] : NULL;
}

bool samba_optimizer_takes(samba_optimizer_kind kind, samba_hyper hyper)
{
    bool takes = false;
    for (int i = 0; i < all[kind].hyperparameter_count; i++)
        takes = takes || strcmp(all[kind].hyperparameters[i].name, samba_hypers[hyper].name) == 0;
    return takes;
}

bool samba_optimizer_has(samba_optimizer_kind kind, const char *flag)
{
    bool has = false;
    for (int i = 0; i < all[kind].flag_count; i++)
        has = has || strcmp(all[kind].flags[i], flag) == 0;
    return has;
}

samba_optimizer samba_optimizer_defaults(samba_optimizer_kind kind)
{
    samba_optimizer o = {.struct_size = sizeof o, .kind = kind};
    switch ((int)kind) {
#define TAKES(hyperparameter, value) o.hyperparameter = value;
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    case number: takes break;
#include "optimizers.def"
    }
    return o;
}

#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    samba_optimizer samba_##name(double lr)                                                                                      \
    {                                                                                                                            \
        samba_optimizer o = samba_optimizer_defaults(SAMBA_##KIND);                                                              \
        o.lr = lr;                                                                                                               \
        return o;                                                                                                                \
    }
#include "optimizers.def"

unsigned samba_optimizer_flags(const samba_optimizer *o)
{
    unsigned set = o->maximize ? SAMBA_FLAG_MAXIMIZE : 0;
    switch ((int)o->kind) {
#define SET(flag) set |= SAMBA_FLAG_##flag;
#define HAS(flag) set |= o->flag ? SAMBA_FLAG_##flag : 0;
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    case number: fixed flags break;
#include "optimizers.def"
    }
    return set;
}

double samba_state_initial(const samba_optimizer *o, samba_state state)
{
    double value = 0;
    switch ((int)o->kind) {
#define KEEPS(its, initial, when) value = state == SAMBA_STATE_##its ? initial : value;
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    case number: keeps break;
#include "optimizers.def"
    }
    return value;
}
