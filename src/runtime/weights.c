/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of parameters, buffers and gradients. A random value depends on the session's seed, its tensor's name and its
 * element's number alone, so weights are the same for a seed whatever the threads, the order of tensors in the PEF or the device.
 *
 * Threads fill blocks on their stacks and write them to the device. */
#include "runtime/runtime.h"
#include "tensor/fill.h"

#include <omp.h>
#include <sambaflow/graph.h> /* samba_initializer_kind */
#include <string.h>

#define BLOCK 4096  /* elements */
#define ALONE 32768 /* elements that one thread fills in less time than a team needs to meet */

static void fill_block(const samba_plan_tensor *tensor, uint64_t seed, int64_t first, int64_t count, char *block)
{
    samba_dtype dtype = (samba_dtype)tensor->dtype;
    switch ((samba_initializer_kind)tensor->init) {
    case SAMBA_INIT_ZEROS:
        break; /* device memory begins as zeros */
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

static samba_status fill(samba_session *session, const samba_plan_tensor *tensor)
{
    int64_t numel = 1, size = (int64_t)samba_dtype_size((samba_dtype)tensor->dtype), failed = 0;
    for (int32_t i = 0; i < tensor->rank; i++)
        numel *= tensor->shape[i]; /* checked with the plan */
    const uint64_t seed = samba_hash(tensor->name, strlen(tensor->name), session->seed);
    const int64_t offset = samba_session_offset(session, tensor->buffer);
    samba_device *device = session->device;
#pragma omp parallel for num_threads(session->threads) schedule(static) reduction(+ : failed) if (numel > ALONE)
    for (int64_t first = 0; first < numel; first += BLOCK) {
        _Alignas(64) char block[BLOCK * 8];
        int64_t count = numel - first < BLOCK ? numel - first : BLOCK;
        fill_block(tensor, seed, first, count, block);
        failed += device->interface->write(device, offset + first * size, block, (size_t)(count * size)) != SAMBA_OK;
    }
    return failed == 0 ? SAMBA_OK
                       : samba_fail(session->context, SAMBA_ERROR_INTERNAL, "the device refused the initial values of \"%.128s\"",
                                    tensor->name);
}

samba_status samba_weights_fill(samba_session *session)
{
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        const samba_plan_tensor *tensor = &session->plan.tensors[i];
        bool filled =
            tensor->kind == SAMBA_KIND_PARAMETER || tensor->kind == SAMBA_KIND_BUFFER || tensor->kind == SAMBA_KIND_GRADIENT;
        if (filled && tensor->init != SAMBA_INIT_ZEROS)
            SAMBA_TRY(fill(session, tensor));
    }
    return SAMBA_OK;
}
