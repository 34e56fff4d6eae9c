/* SPDX-License-Identifier: Apache-2.0
 *
 * What the network between the replicas of a launch does, measured by swaps between all of them, apart from any exchange: one
 * small swap after the other (latency), many small ones at once (overhead), and swaps as large and as many at once as an
 * exchange has (bandwidth). Then the rate at which one thread sums, all replicas at once.
 *
 * Replicas measure together, and the figures are the means of theirs. Memory is measure's own. */
#include "parallel/cost.h"

#include <sched.h>
#include <string.h>
#include <time.h>

enum { SMALL = 8, ROUNDS = 200, MANY = 32, BLOCK = 1024, LOOKS = 64, SUMS = 64 };
#define STREAM_SECONDS 1.0
#define MOST_SHARE 0.9  /* of a processor; the rest is polling */
#define STREAM_PIECES 8 /* in each slot between two looks at the clock */

typedef struct meter {
    samba_context *context;
    const samba_world *world;
    int peers;
    samba_network_part *parts; /* one for each other replica */
    char *out, *in;
    int64_t bytes; /* of each of the two */
    double begin;
    bool naps; /* as the thread of an exchange does */
} meter;

static samba_status fail_if(const meter *m, int error)
{
    return error ? samba_world_fail(m->context, m->world, "measuring the network", error) : SAMBA_OK;
}

/* `bytes` to each other replica and from it. */
static samba_status begin(const meter *m, int slot, int64_t bytes)
{
    const int rank = m->world->replicas.rank;
    for (int i = 0; i < m->peers; i++)
        m->parts[i] = (samba_network_part){i + (i >= rank), m->out + i * bytes, (size_t)bytes, m->in + i * bytes, (size_t)bytes};
    return fail_if(m, m->world->interface->swap(m->world->network, slot, m->parts, m->peers));
}

static samba_status end(const meter *m, int slot)
{
    const struct timespec nap = {.tv_nsec = (long)(1e9 * SAMBA_EXCHANGE_NAP)};
    bool done = false;
    for (int64_t looks = 0; !done; looks++) {
        SAMBA_TRY(fail_if(m, m->world->interface->done(m->world->network, slot, &done)));
        if (!done && m->naps && looks >= LOOKS)
            nanosleep(&nap, NULL);
        else if (!done)
            sched_yield();
    }
    return SAMBA_OK;
}

static samba_status meet(const meter *m) { return fail_if(m, m->world->interface->barrier(m->world->network)); }

/* Seconds of a small swap: one after the other, and `MANY` at once. */
static samba_status measure_small(const meter *m, double *one, double *each)
{
    double start = 0;
    SAMBA_TRY(meet(m));
    for (int i = -ROUNDS / 10; i < ROUNDS; i++) { /* the first ones connect */
        if (i == 0)
            start = samba_seconds();
        SAMBA_TRY(begin(m, 0, SMALL));
        SAMBA_TRY(end(m, 0));
    }
    *one = (samba_seconds() - start) / ROUNDS;
    SAMBA_TRY(meet(m));
    start = samba_seconds();
    for (int i = 0; i < ROUNDS; i += 4) {
        for (int slot = 0; slot < MANY; slot++)
            SAMBA_TRY(begin(m, slot, SMALL));
        for (int slot = 0; slot < MANY; slot++)
            SAMBA_TRY(end(m, slot));
    }
    *each = (samba_seconds() - start) / (ROUNDS / 4) / MANY;
    return SAMBA_OK;
}

static double process_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Parts as an exchange has them, in as many slots. Replica 0 says when it is enough. */
static samba_status measure_stream(const meter *m, double wanted, double *bandwidth, double *processor)
{
    const int64_t bytes = samba_exchange_block(m->peers + 1);
    int64_t pieces = 0;
    bool enough = false;
    SAMBA_TRY(meet(m));
    double start = samba_seconds();
    const double worked = process_seconds();
    for (int slot = 0; slot < SAMBA_EXCHANGE_SLOTS; slot++)
        SAMBA_TRY(begin(m, slot, bytes));
    while (!enough) {
        for (int i = 0; i < STREAM_PIECES * SAMBA_EXCHANGE_SLOTS; i++, pieces++) {
            SAMBA_TRY(end(m, i % SAMBA_EXCHANGE_SLOTS));
            SAMBA_TRY(begin(m, i % SAMBA_EXCHANGE_SLOTS, bytes));
        }
        enough = samba_seconds() - start > wanted;
        SAMBA_TRY(fail_if(m, m->world->interface->broadcast(m->world->network, &enough, sizeof enough, 0)));
    }
    for (int slot = 0; slot < SAMBA_EXCHANGE_SLOTS; slot++, pieces++)
        SAMBA_TRY(end(m, slot));
    const double seconds = samba_seconds() - start;
    *bandwidth = (double)(pieces * bytes * m->peers) / seconds;
    *processor = (process_seconds() - worked) / seconds;
    return SAMBA_OK;
}

/* Bytes read a second: sums of all replicas' parts in their order, as exchange.c makes them. */
static double measure_sums(const meter *m)
{
    const int64_t part = samba_exchange_block(m->peers + 1) / (int64_t)sizeof(float);
    const float *in = (const float *)(const void *)m->in;
    float *out = (float *)(void *)m->out, sums[BLOCK];
    const double start = samba_seconds();
    for (int round = 0; round < SUMS; round++)
        for (int64_t first = 0; first + BLOCK <= part; first += BLOCK) {
            memcpy(sums, out + first, sizeof sums);
            for (int peer = 0; peer < m->peers; peer++)
                for (int64_t i = 0; i < BLOCK; i++)
                    sums[i] += in[peer * part + first + i];
            for (int64_t i = 0; i < BLOCK; i++)
                out[first + i] = sums[i] / (float)(m->peers + 1);
        }
    return (double)(SUMS * part * (int64_t)sizeof(float) * (m->peers + 1)) / (samba_seconds() - start);
}

static samba_status measure(meter *m, samba_network_cost *network)
{
    double one, each;
    SAMBA_TRY(measure_small(m, &one, &each));
    if (each > one / 2) /* a message on its own is at work at two ends, at most half of the time at this one */
        each = one / 2;
    network->overhead = each / (2 * m->peers);
    network->latency = one - each;
    m->naps = true;
    SAMBA_TRY(measure_stream(m, STREAM_SECONDS, &network->bandwidth, &network->processor));
    network->processor = network->processor < MOST_SHARE ? network->processor : MOST_SHARE;
    network->sum_rate = measure_sums(m);
    network->beside = 1;
    return meet(m);
}

/* Of all replicas. */
static samba_status average(const meter *m, samba_network_cost *network)
{
    samba_network_cost *all = samba_alloc(m->context, sizeof *all * (size_t)(m->peers + 1)), sum = {0};
    if (!all)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_world_gather(m->context, m->world, network, sizeof *network, all);
    for (int i = 0; i <= m->peers; i++) {
        const double part = 1.0 / (m->peers + 1);
        sum.bandwidth += part * all[i].bandwidth;
        sum.latency += part * all[i].latency;
        sum.overhead += part * all[i].overhead;
        sum.sum_rate += part * all[i].sum_rate;
        sum.processor += part * all[i].processor;
        sum.beside += part * all[i].beside;
    }
    samba_free(m->context, all, sizeof *all * (size_t)(m->peers + 1));
    *network = sum;
    return status;
}

static samba_status meter_new(samba_context *context, const samba_world *world, meter *m)
{
    *m = (meter){.context = context, .world = world, .peers = world->replicas.size - 1};
    if (m->peers < 1)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "measuring a network takes two replicas, and this process is the only one: start it by mpirun -n 2");
    m->bytes = samba_exchange_block(m->peers + 1) * (m->peers + 1);
    m->parts = samba_calloc(context, sizeof *m->parts * (size_t)m->peers);
    m->out = samba_calloc(context, (size_t)m->bytes);
    m->in = samba_calloc(context, (size_t)m->bytes);
    return m->parts && m->out && m->in ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static void meter_free(meter *m)
{
    if (m->parts)
        samba_free(m->context, m->parts, sizeof *m->parts * (size_t)m->peers);
    if (m->out)
        samba_free(m->context, m->out, (size_t)m->bytes);
    if (m->in)
        samba_free(m->context, m->in, (size_t)m->bytes);
}

samba_status samba_network_measure(samba_context *context, const samba_world *world, samba_network_cost *network)
{
    meter m;
    samba_status status = meter_new(context, world, &m);
    if (status == SAMBA_OK) {
        samba_world_lock();
        status = measure(&m, network);
        samba_world_unlock();
    }
    if (status == SAMBA_OK)
        status = average(&m, network);
    meter_free(&m);
    return status;
}

samba_status samba_network_stream(samba_context *context, const samba_world *world, double seconds, double *bandwidth)
{
    meter m;
    double unused;
    samba_status status = meter_new(context, world, &m);
    if (status == SAMBA_OK) {
        m.naps = true;
        samba_world_lock();
        status = measure_stream(&m, seconds, bandwidth, &unused);
        samba_world_unlock();
    }
    meter_free(&m);
    return status;
}
