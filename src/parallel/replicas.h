/* SPDX-License-Identifier: Apache-2.0
 *
 * The replicas of a launch, which this process is one of, and the mean of a range of memory over all of them.
 *
 * exchange.c splits a range into pieces and each piece into a part for each replica: everyone sends each part to whom it belongs
 * to, which sums what came, in the order of ranks, divides, and sends the result to all. So all hold the same bits, whatever the
 * network and the order of arrival. Several pieces travel at once. */
#ifndef SAMBA_REPLICAS_H
#define SAMBA_REPLICAS_H

#include <sambaflow/parallel.h>

#include "base/base.h"
#include "parallel/network.h"
#include "tensor/tensor.h"

/* ---- replicas.c ---- */
typedef struct samba_world { /* one a process; its network is used under samba_world_lock */
    samba_replicas replicas;
    const samba_network_interface *interface; /* NULL: there is one replica */
    samba_network *network;
    int sharers; /* replicas that have the processors of this one, itself among them */
    bool any_thread;
} samba_world;
samba_status samba_world_find(samba_context *context, const samba_world **world);
void samba_world_lock(void);
void samba_world_unlock(void);
/* DEVICE, by what the network says of the error. */
samba_status samba_world_fail(samba_context *context, const samba_world *world, const char *what, int error);
/* All replicas' `bytes` bytes, rank after rank. */
samba_status samba_world_gather(samba_context *context, const samba_world *world, const void *own, size_t bytes, void *all);
samba_status samba_world_broadcast(samba_context *context, const samba_world *world, void *data, size_t bytes, int root);

/* ---- exchange.c ---- */
typedef struct samba_exchange samba_exchange;
typedef struct samba_exchange_range { /* of this process's memory */
    char *data;
    samba_dtype dtype; /* floating-point */
    int64_t count;
} samba_exchange_range;
samba_status samba_exchange_new(samba_context *context, const samba_world *world, samba_exchange **exchange);
void samba_exchange_free(samba_exchange *exchange);
/* Every element becomes its mean over all replicas; each calls it with ranges of the same sizes in the same order. Returns when
 * it is done. */
samba_status samba_exchange_run(samba_exchange *exchange, const samba_exchange_range *range);
/* The same, begun: a thread goes on with it. Ranges begun are done in order. */
samba_status samba_exchange_begin(samba_exchange *exchange, const samba_exchange_range *range);
/* Until `count` of all ranges so far are done; -1: all. */
samba_status samba_exchange_wait(samba_exchange *exchange, int64_t count);
int64_t samba_exchange_count(const samba_exchange *exchange); /* ranges so far */

#endif
