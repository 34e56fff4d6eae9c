/* SPDX-License-Identifier: Apache-2.0
 *
 * The replicas of a launch, which this process is one of, and the mean of a range of memory over all of them.
 *
 * exchange.c gives each replica a part of a range: everyone sends each part to whom it belongs to, which sums what came, in the
 * order of ranks, divides, and sends the result to all. So all hold the same bits, whatever the network and the order of arrival.
 * Parts travel in pieces, several at once. */
#ifndef SAMBA_REPLICAS_H
#define SAMBA_REPLICAS_H

#include <sambaflow/parallel.h>

#include "base/base.h"
#include "parallel/network.h"
#include "tensor/tensor.h"

/* ---- launch.c ---- */
typedef struct samba_launch {
    const char *mpi, *title; /* the plugin's name and the MPI's; NULL: this process uses none */
    const char *starter;     /* of several processes; NULL: nobody has started any */
    int count;               /* of them, or of tasks that a batch script may start */
    samba_replicas self;     /* among them */
} samba_launch;
/* NAME: SAMBAFLOW_MPI says nothing that is known; ARGUMENT: torchrun's variables contradict each other. */
samba_status samba_launch_find(samba_context *context, samba_launch *launch);

/* ---- replicas.c ---- */
typedef struct samba_world { /* one a process; its network is used under samba_world_lock */
    samba_replicas replicas;
    samba_launch launch;
    const samba_network_interface *interface; /* NULL: there is one replica */
    samba_network *network;
    int sharers;     /* replicas that have the processors of this one, itself among them */
    bool any_thread; /* calls may come from a thread other than the one that began MPI */
    long process;    /* that has joined the others: a child that it forks has not; 0: nobody has */
} samba_world;
/* STATE in a process that was forked from one of several replicas. */
samba_status samba_world_find(samba_context *context, const samba_world **world);
/* The same for who needs the others: UNSUPPORTED where there are some that MPI does not reach. */
samba_status samba_world_meet(samba_context *context, const samba_world **world);
void samba_world_lock(void);
void samba_world_unlock(void);
/* DEVICE, by what the network says of the error. */
samba_status samba_world_fail(samba_context *context, const samba_world *world, const char *what, int error);
/* All replicas' `bytes` bytes, rank after rank. */
samba_status samba_world_gather(samba_context *context, const samba_world *world, const void *own, size_t bytes, void *all);
samba_status samba_world_broadcast(samba_context *context, const samba_world *world, void *data, size_t bytes, int root);

/* Bytes of all replicas to the first, which others' `sizes` (bytes, by rank) come one after the other in `all` of; the own
 * `bytes` too. `all` and `sizes` are read by rank 0 alone. Each replica calls it, with no exchange under way. */
samba_status samba_world_collect(samba_context *context, const samba_world *world, const void *own, size_t bytes,
                                 const size_t *sizes, char *all);

/* ---- parts.c: which replica sums, and with shard_optimizer updates, what of a range ---- */
/* Parts begin at multiples of so many elements, and so of bytes that memory is aligned to. */
#define SAMBA_PART_ELEMENTS 64
/* The first element of a replica's part of `count`; that of replica `size` is `count`. */
int64_t samba_part_begin(int64_t count, int rank, int size);
/* The same within elements first .. first + count - 1 of a range of `whole`: 0 .. count. */
int64_t samba_part_begin_within(int64_t whole, int64_t first, int64_t count, int rank, int size);

/* ---- mean.c ---- */
/* out[i] = the mean of sources[0][i] ... sources[size - 1][i], summed in that order. A source may be `out` itself. Sums of 16-bit
 * floats are float32, rounded once. */
void samba_find_mean(samba_dtype dtype, char *out, const char *const *sources, int size, int64_t count);
/* The same of float32 where all sources but `own` are bfloat16. */
void samba_find_mean_of_rounded(float *out, const char *const *sources, int own, int size, int64_t count);
/* out = x + rest, rounded to bfloat16; rest becomes what rounding has left of it. Where x + rest is not finite, nothing is left.
 * No operand is another; in place, x becomes what `out` says. */
void samba_round_with_rest(uint16_t *out, const float *x, float *rest, int64_t count);
void samba_round_in_place(uint16_t *out, float *x, float *rest, int64_t count);
void samba_widen(float *out, const uint16_t *x, int64_t count);

/* ---- exchange.c ---- */
enum { SAMBA_EXCHANGE_SLOTS = 4 }; /* pieces that travel at once */
#define SAMBA_EXCHANGE_NAP 50e-6   /* seconds that the thread of an exchange sleeps where nothing has come */
/* Bytes that a piece has of each replica's part, where there are so many replicas. */
int64_t samba_exchange_block(int replicas);
typedef struct samba_exchange samba_exchange;
typedef enum samba_exchange_way {
    SAMBA_EXCHANGE_MEAN,    /* every element becomes its mean over all replicas */
    SAMBA_EXCHANGE_SCATTER, /* those of the own part do; the others stay */
    SAMBA_EXCHANGE_GATHER   /* every element becomes that of the replica whose part it is of */
} samba_exchange_way;
typedef struct samba_exchange_range { /* of this process's memory */
    char *data;
    samba_dtype dtype; /* MEAN, SCATTER: floating-point */
    int64_t count;
    samba_exchange_way way;
    int64_t first,
        whole; /* parts are those of `whole` elements, of which the range is those from `first` on; whole 0: of itself */
    /* NULL: elements travel as they are. Else float32 travels as bfloat16, and these `count` numbers, 0 at first, are what
     * rounding has left, which is added the next time */
    float *rest;
} samba_exchange_range;
/* `rounds`: some of its ranges will have a `rest`. */
samba_status samba_exchange_new(samba_context *context, const samba_world *world, bool rounds, samba_exchange **exchange);
void samba_exchange_free(samba_exchange *exchange);
/* Each replica calls it with ranges of the same kinds and sizes in the same order. Returns when it is done. */
samba_status samba_exchange_run(samba_exchange *exchange, const samba_exchange_range *range);
/* The same, begun: a thread goes on with it. Ranges begun are done in order. */
samba_status samba_exchange_begin(samba_exchange *exchange, const samba_exchange_range *range);
/* As samba_exchange_run, without waiting for ranges that were begun: this one has a slot of its own, so that messages of the two
 * kinds cannot be taken for each other. All replicas come to such ranges in the same order. */
samba_status samba_exchange_now(samba_exchange *exchange, const samba_exchange_range *range);
/* Until `count` of all ranges so far are done; -1: all. */
samba_status samba_exchange_wait(samba_exchange *exchange, int64_t count);
int64_t samba_exchange_count(const samba_exchange *exchange); /* ranges so far */
/* Range `number` (from 0) of the last SAMBA_EXCHANGE_KNOWN, when it is done: seconds on the network, from when it began and the
 * range before was done; and of those the seconds that the caller waited. */
#define SAMBA_EXCHANGE_KNOWN 1024
typedef struct samba_exchange_time {
    double began, seconds, waited; /* began: as samba_seconds counts */
} samba_exchange_time;
samba_exchange_time samba_exchange_took(const samba_exchange *exchange, int64_t number);

#endif
