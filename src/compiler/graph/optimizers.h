/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers as the compiler has them: their table (optimizer_table.c) and their rules as nodes (rules.c).
 * optimizer.c is the pass. */
#ifndef SAMBA_COMPILER_OPTIMIZERS_H
#define SAMBA_COMPILER_OPTIMIZERS_H

#include "compiler/compiler.h"
#include "plan/optimizers.h"

typedef struct samba_hyper_row {
    const char *name;
    size_t offset; /* in samba_optimizer */
    samba_hyper_range range;
    bool run; /* a run may change it */
} samba_hyper_row;
extern const samba_hyper_row samba_hypers[SAMBA_HYPERS];
/* Its value in an optimizer. */
double samba_hyper_of(const samba_optimizer *optimizer, samba_hyper hyper);
void samba_hyper_set_in(samba_optimizer *optimizer, samba_hyper hyper, double value);
/* Does the kind of optimizer have it? */
bool samba_optimizer_takes(samba_optimizer_kind kind, samba_hyper hyper);
/* Can a program set that flag of it? */
bool samba_optimizer_has(samba_optimizer_kind kind, const char *flag);
/* The flags that the optimizer's rule sees: the caller's, those of its kind, maximize. */
unsigned samba_optimizer_flags(const samba_optimizer *optimizer);
/* What a state begins with. */
double samba_state_initial(const samba_optimizer *optimizer, samba_state state);

typedef struct samba_rule { /* one optimizer at one parameter */
    samba_graph *graph;
    const samba_optimizer *optimizer;
    unsigned flags;
    const char *name, *parameter_name; /* the optimizer's and the parameter's, for state */
    const samba_ref *hypers;           /* the optimizer's argins, in float64 */
    samba_ref leaf;                    /* the parameter */
    uint32_t scope;                    /* its module, for people */
    samba_dtype stored, dtype;         /* of parameter and state; of the update */
    samba_ref parameter, gradient;     /* as the update reads them */
    samba_ref coefficient;             /* that clips gradients; SAMBA_NONE */
    bool entered;                      /* nodes are the parameter's; before they are the optimizer's */
    samba_ref result;                  /* what the parameter becomes, not yet stored */
    bool first;                        /* of the optimizer's parameters: totals are kept once */
} samba_rule;
/* Nodes of the rule: state, assignments to it, and `result`. Errors stick to the graph. */
void samba_rule_emit(samba_rule *rule);

/* Shared with optimizer.c: an assignment in OPT; to a leaf, of a value of the update's dtype, as it is stored. */
void samba_optimizer_assign(samba_graph *graph, samba_ref target, samba_ref value);
void samba_optimizer_hold(samba_graph *graph, samba_ref leaf, samba_ref value);
/* share_optimizer.c: the name of optimizer `k` of a graph among several, which is that of an earlier graph's over the same
 * parameters, where both are alike and the caller has not named this one; `parameters` are those that it trains.
 * Else `own`, and a warning where they are trained by both. */
samba_status samba_shared_optimizer(samba_compiler *compiler, int k, const char *own, int64_t count,
                                    const char *const *parameters, const char **name);
/* The graph's name "prefix.name", or "name" alone. */
int64_t samba_optimizer_joined(samba_graph *graph, const char *prefix, const char *name);

#endif
