/* SPDX-License-Identifier: Apache-2.0
 *
 * What replicas of a training agree on. Each trains on batches of its own; losses, figures and the wish to stop are summed over
 * all, in the order of ranks, so that all have the same bits and go the same way. All replicas call these functions together. */
#include "train/train.h"

#include <string.h>

samba_status samba_train_sum(samba_context *context, const samba_replicas *replicas, int count, double *numbers)
{
    const size_t bytes = sizeof *numbers * (size_t)count;
    if (replicas->size <= 1)
        return SAMBA_OK;
    double *all = samba_alloc(context, bytes * (size_t)replicas->size);
    if (!all)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_replicas_gather(context, numbers, bytes, all);
    for (int i = 0; i < count && status == SAMBA_OK; i++) {
        numbers[i] = 0;
        for (int r = 0; r < replicas->size; r++)
            numbers[i] += all[r * count + i];
    }
    samba_free(context, all, bytes * (size_t)replicas->size);
    return status;
}

samba_status samba_loop_agree(samba_loop *loop)
{
    double stop = loop->stopped;
    SAMBA_TRY(samba_train_sum(loop->context, &loop->replicas, 1, &stop));
    loop->stopped = stop > 0;
    return SAMBA_OK;
}

bool samba_loop_saves(const samba_loop *loop) { return loop->replicas.rank == 0 || loop->session->shards.tensors != NULL; }

samba_status samba_loop_wait(const samba_loop *loop)
{
    return loop->replicas.size > 1 ? samba_replicas_wait(loop->context) : SAMBA_OK;
}

samba_status samba_loop_join(samba_loop *loop)
{
    samba_train_options *o = &loop->o;
    loop->replicas = (samba_replicas){.size = 1, .local_size = 1};
    if (o->data_parallel)
        SAMBA_TRY(samba_replicas_find(loop->context, &loop->replicas));
    if (loop->replicas.rank > 0) { /* one tells what all have alike */
        o->progress = NULL;
        o->history = NULL;
    }
    return SAMBA_OK;
}
