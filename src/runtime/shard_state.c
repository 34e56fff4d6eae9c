/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving optimizer state that is spread over replicas. The first gets the parts of all, as host memory, before it writes
 * anything: so no failure of a file leaves another replica waiting for it to go on. Then it tells the others how writing went. */
#include "runtime/runtime.h"

#include "base/null.h"
#include <string.h>

typedef struct outcome { /* of a save, as the first replica tells it */
    int32_t status;
    char message[252];
} outcome;

static int64_t size_of(const samba_plan_tensor *tensor) { return (int64_t)samba_dtype_size((samba_dtype)tensor->dtype); }

static int64_t bytes_of(const samba_plan_tensor *tensor)
{
    int64_t bytes = size_of(tensor);
    for (int32_t i = 0; i < tensor->rank; i++)
        bytes *= tensor->shape[i]; /* checked with the plan */
    return bytes;
}

const char *samba_whole_state(const samba_session *session, int32_t tensor)
{
    int64_t at = 0;
    if (!session->whole_state || !session->shards.tensors[tensor].is)
        return NULL;
    for (int32_t i = 0; i < tensor; i++)
        at += session->shards.tensors[i].is ? bytes_of(&session->plan.tensors[i]) : 0;
    return session->whole_state + at;
}

samba_status samba_check_whole(const samba_session *session, int32_t tensor)
{
    const samba_plan_tensor *its = &session->plan.tensors[tensor];
    bool scattered = false;
    if (!session->shards.tensors)
        return SAMBA_OK;
    for (int32_t g = 0; g < session->plan.graph_count; g++)
        scattered = scattered || (session->shards.scatters[g] && session->graphs[g].reduced > 0);
    if (session->shards.tensors[tensor].is && !session->whole_state)
        return samba_fail(session->context, SAMBA_ERROR_UNSUPPORTED,
                          "\"%.128s\": with shard_optimizer each replica has a part of it: save a checkpoint and read it there",
                          its->name);
    if (its->kind == SAMBA_KIND_GRADIENT && scattered && samba_is_of(session, its, ".grad", SAMBA_KIND_PARAMETER))
        return samba_fail(session->context, SAMBA_ERROR_UNSUPPORTED,
                          "\"%.128s\": with shard_optimizer each replica has the mean of a part of it: read it before REDUCE, or "
                          "train without shard_optimizer",
                          its->name);
    return SAMBA_OK;
}

/* Every replica's part of a tensor to the first, into place. */
static samba_status collect(samba_session *session, int32_t tensor, char *whole, samba_shard *all, size_t *sizes)
{
    const samba_world *world = samba_session_world(session);
    const samba_shard *own = &session->shards.tensors[tensor];
    const int64_t size = size_of(&session->plan.tensors[tensor]);
    SAMBA_TRY(samba_world_gather(session->context, world, own, sizeof *own, all));
    for (int i = 0; i < world->replicas.size; i++)
        sizes[i] = (size_t)(all[i].count * size);
    /* parts are in the order of ranks, and make up the whole */
    return samba_world_collect(session->context, world,
                               own->count > 0 ? session->device->interface->map(session->device, own->offset) : "",
                               (size_t)(own->count * size), sizes, whole);
}

static samba_status collect_all(samba_session *session)
{
    const samba_world *world = samba_session_world(session);
    const size_t count = (size_t)world->replicas.size;
    samba_shard *all = samba_alloc(session->context, sizeof *all * count);
    size_t *sizes = samba_alloc(session->context, sizeof *sizes * count);
    samba_status status = all && sizes ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    size_t at = 0;
    for (int32_t i = 0; i < session->plan.tensor_count && status == SAMBA_OK; i++) {
        if (!session->shards.tensors[i].is)
            continue;
        status = samba_weights_need(session, i);
        if (status == SAMBA_OK)
            status = collect(session, i, session->whole_state ? session->whole_state + at : NULL, all, sizes);
        at += (size_t)bytes_of(&session->plan.tensors[i]);
    }
    if (all)
        samba_free(session->context, all, sizeof *all * count);
    if (sizes)
        samba_free(session->context, sizes, sizeof *sizes * count);
    return status;
}

samba_status samba_save_begin(samba_session *session, bool *writes)
{
    *writes = true;
    if (!session->shards.tensors)
        return SAMBA_OK;
    *writes = samba_session_rank(session) == 0;
    session->whole_bytes = 1;
    for (int32_t i = 0; i < session->plan.tensor_count; i++)
        session->whole_bytes += session->shards.tensors[i].is ? (size_t)bytes_of(&session->plan.tensors[i]) : 0;
    if (*writes) {
        session->whole_state = samba_alloc(session->context, session->whole_bytes);
        if (!session->whole_state)
            return SAMBA_ERROR_MEMORY;
    }
    return collect_all(session);
}

samba_status samba_save_end(samba_session *session, samba_status status)
{
    outcome how = {.status = status};
    if (!session->shards.tensors)
        return status;
    const bool writes = samba_session_rank(session) == 0;
    if (writes && status != SAMBA_OK)
        snprintf(how.message, sizeof how.message, "%s", samba_error_message(session->context));
    if (session->whole_state)
        samba_free(session->context, session->whole_state, session->whole_bytes);
    session->whole_state = NULL;
    if (status == SAMBA_ERROR_NETWORK)
        return status;
    SAMBA_TRY(samba_world_broadcast(session->context, samba_session_world(session), &how, sizeof how, 0));
    if (writes || how.status == SAMBA_OK)
        return status;
    return samba_fail(session->context, (samba_status)how.status, "replica 0 has saved nothing: %.250s", how.message);
}
