/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean of ranges over all replicas. Ranges are cut into pieces, numbered in the order in which they began; piece n travels
 * in slot n % SLOTS once that is free, on every replica alike, so that messages meet. A piece has two swaps: everyone's parts to
 * those whom they belong to; and the means of the own part to all.
 *
 * Whoever wants a range done drives the pieces. For ranges that were begun that is a thread, which sleeps while nothing comes, so
 * that it takes no core from those that compute. */
#include "parallel/replicas.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 4, BLOCK = 1024, QUEUE = 1024, PATIENCE = 64 };
#define PIECE_BYTES ((int64_t)1 << 20)
#define PART_BYTES ((int64_t)64 << 10) /* at least, where there are many replicas: what a network's latency is worth */
#define NAP_NANOSECONDS 50000

typedef enum phase { IDLE, SCATTER, GATHER } phase;

typedef struct piece {
    phase phase;
    samba_exchange_range range;
    int64_t number; /* of the range that it is a piece of */
    char *room;     /* what others send of the own part, rank after rank */
} piece;

struct samba_exchange {
    samba_context *context;
    const samba_world *world;
    int rank, size;
    int64_t piece_bytes, room_bytes;
    piece pieces[SLOTS];
    samba_network_part *parts; /* one for each other replica */
    char *room;
    /* ranges that began and are not cut up yet: a ring */
    samba_exchange_range queue[QUEUE];
    int64_t asked, known, taken; /* ranges so far; of those, seen by whoever drives; cut up */
    int64_t at;                  /* elements of the range in hand that are under way */
    int64_t piece_count;         /* so far */
    int64_t finished;            /* ranges */
    int error;                   /* the network's, as whoever drives knows it; then nothing goes on */
    const char *failed;          /* what did */
    int broken;                  /* the same, as all know it */
    /* between the thread and its master */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, stop;
};

/* ---- parts ---- */
static int64_t part_begin(const samba_exchange *e, int64_t count, int rank)
{
    return count / e->size * rank + (count % e->size < rank ? count % e->size : rank);
}

static int64_t part_count(const samba_exchange *e, int64_t count, int rank)
{
    return part_begin(e, count, rank + 1) - part_begin(e, count, rank);
}

/* Elements first .. first + n - 1 of the own part as replica `rank` has them. */
static const char *part_of(const samba_exchange *e, const piece *p, int rank, int64_t first)
{
    const int64_t size = (int64_t)samba_dtype_size(p->range.dtype), count = p->range.count;
    if (rank == e->rank)
        return p->range.data + (part_begin(e, count, rank) + first) * size;
    return p->room + ((rank - (rank > e->rank)) * part_count(e, count, e->rank) + first) * size;
}

/* ---- means ---- */
#define MEAN(name, type)                                                                                                         \
    static void name(const samba_exchange *e, const piece *p, int64_t first, int64_t n)                                          \
    {                                                                                                                            \
        type sums[BLOCK], *out = (type *)(void *)(uintptr_t)part_of(e, p, e->rank, first);                                       \
        const type divisor = (type)e->size;                                                                                      \
        memcpy(sums, part_of(e, p, 0, first), sizeof(type) * (size_t)n);                                                         \
        for (int rank = 1; rank < e->size; rank++) {                                                                             \
            const type *x = (const type *)(const void *)part_of(e, p, rank, first);                                              \
            for (int64_t i = 0; i < n; i++)                                                                                      \
                sums[i] += x[i];                                                                                                 \
        }                                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                          \
            out[i] = sums[i] / divisor;                                                                                          \
    }
MEAN(mean_float32, float)
MEAN(mean_float64, double)

/* 16 bits: sums are float32, rounded once. */
static void mean_half(const samba_exchange *e, const piece *p, int64_t first, int64_t n)
{
    const samba_dtype dtype = p->range.dtype;
    char *out = (char *)(uintptr_t)part_of(e, p, e->rank, first);
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int rank = 0; rank < e->size; rank++)
            sum += (float)samba_load_double(dtype, part_of(e, p, rank, first) + 2 * i);
        samba_store_double(dtype, out + 2 * i, sum / (float)e->size);
    }
}

static void find_means(const samba_exchange *e, const piece *p)
{
    const int64_t count = part_count(e, p->range.count, e->rank);
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t n = count - first < BLOCK ? count - first : BLOCK;
        (p->range.dtype == SAMBA_FLOAT32   ? mean_float32
         : p->range.dtype == SAMBA_FLOAT64 ? mean_float64
                                           : mean_half)(e, p, first, n);
    }
}

/* ---- pieces ---- */
static int swap(samba_exchange *e, int slot)
{
    piece *p = &e->pieces[slot];
    const int64_t size = (int64_t)samba_dtype_size(p->range.dtype), count = p->range.count;
    const size_t own = (size_t)(part_count(e, count, e->rank) * size);
    int used = 0;
    for (int rank = 0; rank < e->size; rank++) {
        if (rank == e->rank)
            continue;
        char *theirs = p->range.data + part_begin(e, count, rank) * size,
             *mine = p->range.data + part_begin(e, count, e->rank) * size;
        const size_t bytes = (size_t)(part_count(e, count, rank) * size);
        e->parts[used++] = p->phase == SCATTER
                               ? (samba_network_part){rank, theirs, bytes, (char *)(uintptr_t)part_of(e, p, rank, 0), own}
                               : (samba_network_part){rank, mine, own, theirs, bytes};
    }
    return e->world->interface->swap(e->world->network, slot, e->parts, used);
}

/* The next piece of what was asked for, where its slot is free. */
static bool take(samba_exchange *e)
{
    const int slot = (int)(e->piece_count % SLOTS);
    piece *p = &e->pieces[slot];
    if (e->taken == e->known || p->phase != IDLE)
        return false;
    const samba_exchange_range *range = &e->queue[e->taken % QUEUE];
    const int64_t size = (int64_t)samba_dtype_size(range->dtype), most = e->piece_bytes / size, left = range->count - e->at;
    p->range = (samba_exchange_range){range->data + e->at * size, range->dtype, left < most ? left : most};
    p->phase = SCATTER;
    e->at += p->range.count;
    p->number = e->taken;
    e->piece_count++;
    if (e->at == range->count) {
        e->taken++;
        e->at = 0;
    }
    e->error = swap(e, slot);
    e->failed = "sending gradients";
    return true;
}

/* Whether anything went on. Under the lock of the world. */
static bool go_on(samba_exchange *e)
{
    bool any = false;
    for (int slot = 0; slot < SLOTS && !e->error; slot++) {
        piece *p = &e->pieces[slot];
        bool done = false;
        if (p->phase == IDLE)
            continue;
        e->error = e->world->interface->done(e->world->network, slot, &done);
        e->failed = "exchanging gradients";
        if (e->error || !done)
            continue;
        any = true;
        if (p->phase == SCATTER) {
            find_means(e, p);
            p->phase = GATHER;
            e->error = swap(e, slot);
        } else {
            p->phase = IDLE;
        }
    }
    while (!e->error && take(e))
        any = true;
    return any;
}

/* Ranges whose pieces are all done. Pieces of several ranges may be under way, and end in any order. */
static int64_t count_finished(const samba_exchange *e)
{
    int64_t finished = e->taken;
    for (int slot = 0; slot < SLOTS; slot++)
        if (e->pieces[slot].phase != IDLE && e->pieces[slot].number < finished)
            finished = e->pieces[slot].number;
    return finished;
}

static samba_status result_of(const samba_exchange *e)
{
    return e->broken ? samba_world_fail(e->context, e->world, e->failed, e->broken) : SAMBA_OK;
}

/* ---- the thread ---- */
static void nap(int idle)
{
    const struct timespec time = {.tv_nsec = NAP_NANOSECONDS};
    if (idle < PATIENCE)
        sched_yield();
    else
        nanosleep(&time, NULL);
}

static bool has_work(const samba_exchange *e) { return !e->broken && e->finished < e->asked; }

static void *work(void *exchange)
{
    samba_exchange *e = exchange;
    int idle = 0;
    pthread_mutex_lock(&e->lock);
    while (!e->stop) {
        if (!has_work(e)) {
            pthread_cond_wait(&e->changed, &e->lock);
            continue;
        }
        e->known = e->asked;
        pthread_mutex_unlock(&e->lock); /* the master may ask for more meanwhile */
        samba_world_lock();
        const bool any = go_on(e);
        samba_world_unlock();
        const int64_t finished = count_finished(e);
        idle = any ? 0 : idle + 1;
        if (!any)
            nap(idle);
        pthread_mutex_lock(&e->lock);
        if (finished != e->finished || e->error) {
            e->finished = finished;
            e->broken = e->error;
            pthread_cond_broadcast(&e->changed);
        }
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- for the session ---- */
samba_status samba_exchange_new(samba_context *context, const samba_world *world, samba_exchange **exchange)
{
    samba_exchange *e = samba_calloc(context, sizeof *e);
    *exchange = NULL;
    if (!e)
        return SAMBA_ERROR_MEMORY;
    e->context = context;
    e->world = world;
    e->rank = world->replicas.rank;
    e->size = world->replicas.size;
    e->piece_bytes = PART_BYTES * e->size > PIECE_BYTES ? PART_BYTES * e->size : PIECE_BYTES;
    /* a part has at most one element more than another */
    e->room_bytes = (e->piece_bytes / e->size / SAMBA_ALIGNMENT + 2) * SAMBA_ALIGNMENT * (e->size - 1);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->parts = samba_calloc(context, sizeof *e->parts * (size_t)e->size);
    e->room = samba_alloc(context, (size_t)e->room_bytes * SLOTS);
    if (!e->parts || !e->room) {
        samba_exchange_free(e);
        return SAMBA_ERROR_MEMORY;
    }
    for (int slot = 0; slot < SLOTS; slot++)
        e->pieces[slot].room = e->room + slot * e->room_bytes;
    *exchange = e;
    return SAMBA_OK;
}

void samba_exchange_free(samba_exchange *e)
{
    if (!e)
        return;
    if (e->has_thread) {
        pthread_mutex_lock(&e->lock);
        e->stop = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    if (e->parts)
        samba_free(e->context, e->parts, sizeof *e->parts * (size_t)e->size);
    if (e->room)
        samba_free(e->context, e->room, (size_t)e->room_bytes * SLOTS);
    samba_free(e->context, e, sizeof *e);
}

static void ask(samba_exchange *e, const samba_exchange_range *range) { e->queue[e->asked++ % QUEUE] = *range; }

samba_status samba_exchange_run(samba_exchange *e, const samba_exchange_range *range)
{
    SAMBA_TRY(samba_exchange_wait(e, -1)); /* nothing is under way by the thread, which sleeps then */
    pthread_mutex_lock(&e->lock);
    ask(e, range);
    e->known = e->asked;
    samba_world_lock();
    while (has_work(e)) {
        if (!go_on(e))
            sched_yield();
        e->finished = count_finished(e);
        e->broken = e->error;
    }
    samba_world_unlock();
    pthread_mutex_unlock(&e->lock);
    return result_of(e);
}

samba_status samba_exchange_begin(samba_exchange *e, const samba_exchange_range *range)
{
    if (!e->has_thread) {
        if (pthread_create(&e->thread, NULL, work, e) != 0)
            return samba_fail(e->context, SAMBA_ERROR_MEMORY, "the system gives no thread for exchanges between replicas");
        e->has_thread = true;
    }
    pthread_mutex_lock(&e->lock);
    while (!e->broken && e->asked - e->finished == QUEUE)
        pthread_cond_wait(&e->changed, &e->lock);
    ask(e, range);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return SAMBA_OK;
}

samba_status samba_exchange_wait(samba_exchange *e, int64_t count)
{
    pthread_mutex_lock(&e->lock);
    while (!e->broken && e->finished < (count < 0 ? e->asked : count))
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return result_of(e);
}

int64_t samba_exchange_count(const samba_exchange *e) { return e->asked; }
