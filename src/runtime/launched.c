/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session warns of where several processes were started, before its first training run: that each trains a model of its
 * own, or that all replicas read the same samples, which both train well, and for nothing; or that replicas round in different
 * ways, so that their weights, which nothing compares, drift apart. */
#include "runtime/runtime.h"

#include "runtime/tune.h"

#include <string.h>

/* Several processes that nothing joins: the first tells. */
static void look_for_others(samba_session *session)
{
    samba_launch launch;
    if (samba_launch_find(session->context, &launch) != SAMBA_OK || launch.self.size <= 1 || launch.self.rank > 0)
        return;
    snprintf(
        session->launch_warning, sizeof session->launch_warning,
        "%s has started this process as one of %d, and each trains a model of its own: compile and run with data_parallel to "
        "train one together, or set SAMBAFLOW_MPI=off where they are meant to",
        launch.starter, launch.self.size);
}

typedef struct outset { /* with what a replica begins to train */
    uint64_t inputs, choices;
    samba_tune_machine machine;
} outset;

/* Values of the run's inputs, of which the caller has some. */
static uint64_t hash_inputs(const samba_run_options *options)
{
    uint64_t hash = 0;
    for (int i = 0; i < options->input_count; i++)
        hash = samba_hash(
            samba_tensor_data(options->inputs[i]),
            (size_t)samba_tensor_numel(options->inputs[i]) * samba_dtype_size(samba_tensor_dtype(options->inputs[i])), hash);
    return hash;
}

/* 0: the device has none. */
static uint64_t hash_choices(const samba_session *session)
{
    uint64_t hash = 0;
    for (int32_t i = 0; session->tuned.choices && i < session->plan.stage_count; i++) {
        const samba_choice *choice = session->tuned.choices[i];
        if (!choice)
            continue;
        hash = samba_hash(&i, sizeof i, hash);
        if (choice->road)
            hash = samba_hash(choice->road, strlen(choice->road), hash);
        for (int32_t k = 0; k < choice->figure_count; k++) {
            hash = samba_hash(choice->figures[k].name, strlen(choice->figures[k].name), hash);
            hash = samba_hash(&choice->figures[k].value, sizeof choice->figures[k].value, hash);
        }
    }
    return hash;
}

static samba_status find_outset(const samba_session *session, const samba_run_options *options, outset *own)
{
    memset(own, 0, sizeof *own);
    if (session->device->interface->describe)
        SAMBA_TRY(samba_tune_machine_find(session->context, session->device, session->threads, &own->machine));
    own->inputs = hash_inputs(options);
    own->choices = hash_choices(session);
    return SAMBA_OK;
}

static bool same_samples(const outset *all, int size)
{
    for (int i = 1; i < size; i++)
        if (all[i].inputs != all[0].inputs)
            return false;
    return true;
}

/* What has replica i round otherwise than replica 0; false: nothing has. Where all that is behind the exchange works element by
 * element, only the instruction set does. */
static bool rounds_otherwise(const samba_session *session, const outset *all, int i, char *why, size_t size)
{
    const samba_tune_machine *one = &all[i].machine, *first = &all[0].machine;
    if (strcmp(one->isa, first->isa) != 0)
        return snprintf(why, size, "instruction set %s and replica 0 %s", one->isa, first->isa) > 0;
    if (one->threads != first->threads)
        snprintf(why, size, "%d threads and replica 0 %d", (int)one->threads, (int)first->threads);
    else if (all[i].choices != all[0].choices)
        snprintf(why, size, "other choices of a tune file than replica 0");
    else if (memcmp(one->caches, first->caches, sizeof one->caches) != 0 || one->figures != first->figures)
        snprintf(why, size, "another kind of processor than replica 0");
    else
        return false;
    return samba_plan_sums_behind_reduce(&session->plan);
}

static bool is_shard_update(const samba_session *session, int32_t stage)
{
    for (int32_t i = 0; i < session->shards.update_count; i++)
        if (session->shards.updates[i].stage == stage)
            return true;
    return false;
}

static bool writes_parameter(const samba_plan *plan, const samba_stage *stage)
{
    for (int32_t k = 0; k < plan->tensor_count; k++)
        if (plan->tensors[k].kind == SAMBA_KIND_PARAMETER &&
            samba_stage_touches(stage, plan->buffers, plan->buffers[plan->tensors[k].buffer], SAMBA_WRITES))
            return true;
    return false;
}

/* Does each replica update all of some parameter? */
static bool updates_whole(const samba_session *session)
{
    const samba_plan *plan = &session->plan;
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        for (int32_t k = section->first_stage; k < section->first_stage + section->stage_count; k++)
            if (section->phase == SAMBA_PLAN_OPT && !is_shard_update(session, k) && writes_parameter(plan, &plan->stages[k]))
                return true;
    }
    return false;
}

static samba_status compare_outsets(samba_session *session, const samba_run_options *options)
{
    const int size = samba_session_size(session);
    const samba_world *world;
    outset own, *all;
    char why[128];
    if (size == 1)
        return SAMBA_OK;
    SAMBA_TRY(samba_world_meet(session->context, &world));
    SAMBA_TRY(find_outset(session, options, &own));
    all = samba_alloc(session->context, sizeof *all * (size_t)size);
    if (!all)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_world_gather(session->context, world, &own, sizeof own, all);
    int other = 1;
    while (status == SAMBA_OK && other < size && !rounds_otherwise(session, all, other, why, sizeof why))
        other++;
    if (status == SAMBA_OK && other < size && updates_whole(session))
        snprintf(session->launch_warning, sizeof session->launch_warning,
                 "replica %d has %s: they round in different ways, and their weights drift apart; give all replicas the same "
                 "isa, threads and tune, or shard_optimizer, with which each parameter is updated by one",
                 other, why);
    if (status == SAMBA_OK && options->input_count > 0 && same_samples(all, size))
        snprintf(session->launch_warning, sizeof session->launch_warning,
                 "all %d replicas begin with the same samples, so they do the same work: give each its part of the data, by its "
                 "rank",
                 size);
    samba_free(session->context, all, sizeof *all * (size_t)size);
    return status;
}

samba_status samba_look_at_launch(samba_session *session, const samba_run_options *options)
{
    if (session->launch_looked_at)
        return SAMBA_OK;
    session->launch_looked_at = true;
    if (options->data_parallel)
        return compare_outsets(session, options);
    look_for_others(session);
    return SAMBA_OK;
}
