/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers of several graphs of a PEF over the same weights. State of a parameter is one for all graphs, since it is named by
 * the parameter; the count of steps and hyperparameters are named by the optimizer. Two counts over one state would correct its
 * bias wrongly, so an optimizer that the caller has not named takes the name of an earlier graph's, where both train a common
 * parameter and are alike. Where they do not become one a warning says so: the caller has named them, or they differ.
 *
 * Sizes of a function are one graph here: their optimizers have one name from the start. */
#include "compiler/graph/optimizers.h"

#include <string.h>

static bool is_alike(const samba_optimizer *a, const samba_optimizer *b)
{
    bool alike =
        a->kind == b->kind && samba_optimizer_flags(a) == samba_optimizer_flags(b) && a->max_grad_norm == b->max_grad_norm;
    for (int i = 0; i < SAMBA_HYPERS && alike; i++)
        alike = !samba_optimizer_takes(a->kind, (samba_hyper)i) ||
                samba_hyper_of(a, (samba_hyper)i) == samba_hyper_of(b, (samba_hyper)i);
    return alike;
}

/* What earlier graphs have train the parameter; NULL: nothing. `graph` is the one's name. */
static const samba_trained *trained_before(const samba_compiler *c, const char *parameter, const char **graph)
{
    for (int o = 0; o < c->other_count; o++) {
        const samba_compiler *other = c->others[o];
        for (int64_t i = 0; i < other->trained_count && !samba_is_size_like(other->name, c->name); i++)
            if (strcmp(other->trained[i].parameter, parameter) == 0) {
                *graph = other->name;
                return &other->trained[i];
            }
    }
    return NULL;
}

/* Another optimizer of this graph is called so. */
static bool is_used(const samba_compiler *c, const char *name)
{
    bool used = false;
    for (int64_t i = 0; i < c->trained_count && !used; i++)
        used = strcmp(c->trained[i].optimizer, name) == 0;
    return used;
}

static samba_status warn(samba_compiler *c, const char *parameter, const char *graph, const char *own, const char *theirs,
                         const char *why)
{
    samba_text text;
    if (c->warning)
        return SAMBA_OK;
    samba_text_init(&text, c->context);
    samba_text_add(
        &text,
        "graphs \"%.64s\" and \"%.64s\" both train \"%.128s\", by optimizers \"%.64s\" and \"%.64s\" that do not share "
        "their hyperparameters and count of steps, since %s: give both one name and the same numbers to have them shared",
        graph, c->name, parameter, theirs, own, why);
    return samba_text_keep(&text, &c->arena, &c->warning);
}

static samba_status note(samba_compiler *c, int k, const char *name, int64_t count, const char *const *parameters)
{
    samba_trained *all;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, all, c->trained_count + count));
    if (c->trained_count > 0)
        memcpy(all, c->trained, (size_t)c->trained_count * sizeof *all);
    for (int64_t i = 0; i < count; i++) {
        char *parameter, *optimizer;
        SAMBA_TRY(samba_arena_copy(&c->arena, parameters[i], &parameter));
        SAMBA_TRY(samba_arena_copy(&c->arena, name, &optimizer));
        all[c->trained_count + i] = (samba_trained){parameter, optimizer, c->options->optimizers[k]};
    }
    c->trained = all;
    c->trained_count += count;
    return SAMBA_OK;
}

samba_status samba_shared_optimizer(samba_compiler *c, int k, const char *own, int64_t count, const char *const *parameters,
                                    const char **name)
{
    const samba_optimizer *o = &c->options->optimizers[k];
    *name = own;
    for (int64_t i = 0; i < count; i++) {
        const char *graph = NULL, *why = NULL;
        const samba_trained *before = trained_before(c, parameters[i], &graph);
        if (!before || strcmp(before->optimizer, *name) == 0)
            continue;
        if (!c->named_here || !c->named_here[k])
            why = "they have names of their own";
        else if (!is_alike(o, &before->settings))
            why = "their kinds, flags or numbers differ";
        else if (*name != own || is_used(c, before->optimizer))
            why = "one of them trains what several of the other graph do";
        else
            *name = before->optimizer;
        if (why)
            SAMBA_TRY(warn(c, parameters[i], graph, *name, before->optimizer, why));
    }
    return note(c, k, *name, count, parameters);
}
