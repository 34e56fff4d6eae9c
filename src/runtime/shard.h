/* SPDX-License-Identifier: Apache-2.0
 *
 * A replica's share of the optimizer: with shard_optimizer each updates a part of the parameters and keeps the state of that part
 * alone (Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", stage 1).
 * shard.c makes a plan one of such a replica; how many there are is known at load. */
#ifndef SAMBA_SHARD_H
#define SAMBA_SHARD_H

#include "parallel/replicas.h"
#include "plan/plan.h"

typedef struct samba_shard { /* of a tensor of optimizer state: elements first .. first + count - 1 are here */
    bool is;                 /* false: all of it is */
    int64_t first, count;
    int64_t offset; /* in the arena, bytes: where the first lies */
} samba_shard;

typedef struct samba_shard_update { /* a stage of OPT that updates a part; then the other parts come */
    int32_t stage;
    int64_t offset; /* in the arena, bytes: the parameters, all of them, whose parts are those of `whole` from `first` on */
    samba_dtype dtype;
    int64_t count, first, whole;
} samba_shard_update;

typedef struct samba_shards {
    samba_shard *tensors; /* per tensor of the plan; NULL: nothing is sharded */
    samba_shard_update *updates;
    int32_t update_count;
    int64_t saved_bytes; /* of state that is elsewhere */
    /* per graph: nobody but updates reads the mean of gradients, so each replica needs its part alone */
    bool *scatters;
} samba_shards;

/* ARGUMENT where the plan has no section of REDUCE: the option of replicas would have no effect. */
samba_status samba_check_reduces(samba_context *context, const samba_plan *plan, const char *option);
/* Of a checked plan, with sections of REDUCE (ARGUMENT). Lists are in the arena. UNSUPPORTED where two graphs part a state
 * differently, or something else than updates reads it: the plan is then of no use. */
samba_status samba_shard_plan(samba_context *context, samba_arena *arena, samba_plan *plan, int rank, int size,
                              samba_shards *shards);
/* Whether only updates read the means of a graph's gradients, so that each replica needs its part alone; where a norm reads them
 * too they go to all. Errors as above; the plan is not changed. */
samba_status samba_shard_scatters(samba_context *context, samba_arena *arena, samba_plan *plan, int32_t graph, bool *scatters);

#endif
