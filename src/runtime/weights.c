/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of parameters, buffers and gradients. A random value depends on the session's seed, its tensor's name and its
 * element's number alone. So weights are the same for a seed whatever the threads, the order of tensors in the PEF or the device.
 *
 * Values are drawn when they are first needed, by a run or by a reader of the tensor. Weights that a file or a program sets
 * before are never drawn. When a value is drawn makes no difference to it.
 *
 * Threads fill blocks on their stacks and write them to the device. */
#include "base/team.h"
#include "runtime/runtime.h"
#include "tensor/fill.h"

#include <sambaflow/graph.h> /* samba_initializer_kind */
#include <string.h>

#define BLOCK 4096  /* elements */
#define ALONE 32768 /* elements that one thread fills in less time than a team needs to meet */

static void fill_block(const samba_plan_tensor *tensor, uint64_t seed, int64_t first, int64_t count, char *block)
{
    samba_dtype dtype = (samba_dtype)tensor->dtype;
    switch ((samba_initializer_kind)tensor->init) {
    case SAMBA_INIT_ZEROS: /* device memory begins as zeros */
    case SAMBA_INIT_NONE: break;
    case SAMBA_INIT_CONSTANT:
        for (int64_t i = 0; i < count; i++)
            samba_store_double(dtype, block + i * (int64_t)samba_dtype_size(dtype), tensor->init_a);
        break;
    case SAMBA_INIT_UNIFORM:
        samba_fill_uniform_range(dtype, block, seed, (uint64_t)first, count, tensor->init_a, tensor->init_b);
        break;
    case SAMBA_INIT_NORMAL:
        samba_fill_normal_range(dtype, block, seed, (uint64_t)first, count, tensor->init_a, tensor->init_b);
        break;
    case SAMBA_INIT_NORMAL_BUT_ROW:
        samba_fill_normal_range(dtype, block, seed, (uint64_t)first, count, 0, tensor->init_b);
        for (int64_t i = 0; i < count; i++)
            if ((first + i) / tensor->shape[1] == (int64_t)tensor->init_a)
                samba_store_double(dtype, block + i * (int64_t)samba_dtype_size(dtype), 0);
        break;
    }
}

typedef struct weights_work {
    samba_session *session;
    const samba_plan_tensor *tensor;
    int64_t numel, offset; /* elements that are here, and where */
    uint64_t seed;
    atomic_bool failed;
} weights_work;

static void fill_part(void *argument, int thread, int team)
{
    weights_work *work = argument;
    samba_device *device = work->session->device;
    const int64_t offset = work->offset, size = (int64_t)samba_dtype_size((samba_dtype)work->tensor->dtype);
    int64_t begin, end;
    samba_team_share((work->numel + BLOCK - 1) / BLOCK, thread, team, &begin, &end);
    for (int64_t first = begin * BLOCK; first < work->numel && first < end * BLOCK; first += BLOCK) {
        _Alignas(64) char block[BLOCK * 8];
        int64_t count = work->numel - first < BLOCK ? work->numel - first : BLOCK;
        fill_block(work->tensor, work->seed, first, count, block);
        if (device->interface->write(device, offset + first * size, block, (size_t)(count * size)) != SAMBA_OK)
            atomic_store_explicit(&work->failed, true, memory_order_relaxed);
    }
}

static samba_status fill(samba_session *session, int32_t index)
{
    const samba_plan_tensor *tensor = &session->plan.tensors[index];
    if (tensor->init == SAMBA_INIT_NONE)
        return samba_fail(
            session->context, SAMBA_ERROR_STATE,
            "\"%.200s\" has no value: the PEF does not say what it starts from; load the model's weights first (--load, "
            "samba_session_load)",
            tensor->name);
    const samba_shard *shard = session->shards.tensors ? &session->shards.tensors[index] : NULL;
    weights_work work = {.session = session,
                         .tensor = tensor,
                         .numel = 1,
                         .offset = samba_session_offset(session, tensor->buffer),
                         .seed = samba_hash(tensor->name, strlen(tensor->name), session->seed)};
    for (int32_t i = 0; i < tensor->rank; i++)
        work.numel *= tensor->shape[i]; /* checked with the plan */
    if (shard && shard->is)             /* optimizer state, whose elements all begin alike */
        work.numel = shard->count, work.offset = shard->offset;
    samba_team(work.numel > ALONE ? session->threads : 1, fill_part, &work);
    return !work.failed ? SAMBA_OK
                        : samba_fail(session->context, SAMBA_ERROR_INTERNAL,
                                     "the device refused the initial values of \"%.128s\"", tensor->name);
}

void samba_weights_begin(samba_session *session)
{
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        const samba_plan_tensor *tensor = &session->plan.tensors[i];
        bool filled =
            tensor->kind == SAMBA_KIND_PARAMETER || tensor->kind == SAMBA_KIND_BUFFER || tensor->kind == SAMBA_KIND_GRADIENT;
        session->undrawn[i] = filled && tensor->init != SAMBA_INIT_ZEROS;
        session->undrawn_count += session->undrawn[i];
    }
}

void samba_weights_are_set(samba_session *session, int32_t tensor)
{
    session->undrawn_count -= session->undrawn[tensor];
    session->undrawn[tensor] = false;
}

samba_status samba_weights_need(samba_session *session, int32_t tensor)
{
    if (!session->undrawn[tensor])
        return SAMBA_OK;
    SAMBA_TRY(fill(session, tensor));
    samba_weights_are_set(session, tensor);
    return SAMBA_OK;
}

samba_status samba_weights_need_all(samba_session *session)
{
    for (int32_t i = 0; session->undrawn_count > 0 && i < session->plan.tensor_count; i++)
        SAMBA_TRY(samba_weights_need(session, i));
    return SAMBA_OK;
}
