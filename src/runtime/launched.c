/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session warns of where several processes were started, before its first training run: that each trains a model of its
 * own, or that all replicas read the same samples. Both train well, and for nothing. */
#include "runtime/runtime.h"

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

static samba_status compare_samples(samba_session *session, const samba_run_options *options)
{
    const int size = samba_session_size(session);
    const samba_world *world;
    const uint64_t own = hash_inputs(options);
    uint64_t *all;
    bool same = options->input_count > 0;
    if (size == 1)
        return SAMBA_OK;
    SAMBA_TRY(samba_world_meet(session->context, &world));
    all = samba_alloc(session->context, sizeof *all * (size_t)size);
    if (!all)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_world_gather(session->context, world, &own, sizeof own, all);
    for (int i = 1; i < size; i++)
        same = same && all[i] == all[0];
    samba_free(session->context, all, sizeof *all * (size_t)size);
    if (status == SAMBA_OK && same)
        snprintf(session->launch_warning, sizeof session->launch_warning,
                 "all %d replicas begin with the same samples, so they do the same work: give each its part of the data, by its "
                 "rank",
                 size);
    return status;
}

samba_status samba_look_at_launch(samba_session *session, const samba_run_options *options)
{
    if (session->launch_looked_at)
        return SAMBA_OK;
    session->launch_looked_at = true;
    if (options->data_parallel)
        return compare_samples(session, options);
    look_for_others(session);
    return SAMBA_OK;
}
