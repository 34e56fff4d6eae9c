/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges of ranges between all replicas. Each replica has a part of a range (parts.c). A piece is a block of every part:
 * pieces are numbered in the order in which their ranges began, and piece n travels in slot n % SLOTS once that is free, on every
 * replica alike, so that messages meet. A piece has up to two swaps: everyone's blocks to those whom they belong to; and the own
 * block to all.
 *
 * Whoever wants a range done drives the pieces. For ranges that were begun that is a thread, which sleeps while nothing comes, so
 * that it takes no core from those that compute. */
#include "parallel/replicas.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = SAMBA_EXCHANGE_SLOTS, URGENT = SLOTS, QUEUE = SAMBA_EXCHANGE_KNOWN, PATIENCE = 64 };
#define PIECE_BYTES ((int64_t)1 << 20)
#define BLOCK_BYTES ((int64_t)64 << 10) /* at least, where there are many replicas: what a network's latency is worth */

typedef enum phase { IDLE, SCATTER, GATHER } phase;

typedef struct piece {
    phase phase;
    samba_exchange_range range;
    int64_t number; /* of the range that it is a piece of */
    int64_t block;  /* which of every part's */
    char *in;       /* blocks of others, rank after rank */
    uint16_t *out;  /* rounded blocks for others */
} piece;

struct samba_exchange {
    samba_context *context;
    const samba_world *world;
    int rank, size;
    bool rounds;
    int64_t block_bytes;
    piece pieces[SLOTS + 1];   /* the last of what cannot wait for the others */
    samba_network_part *parts; /* one for each other replica */
    const char **sources;      /* of a mean */
    char *in;
    uint16_t *out;
    /* ranges that began and are not cut up yet: a ring */
    samba_exchange_range queue[QUEUE];
    double began[QUEUE], ended[QUEUE], waited[QUEUE]; /* seconds */
    int64_t asked, known, taken;                      /* ranges so far; of those, seen by whoever drives; cut up */
    int64_t at;                                       /* blocks of the range in hand that are under way */
    int64_t piece_count;                              /* so far */
    int64_t finished;                                 /* ranges */
    int error;                                        /* the network's, as whoever drives knows it; then nothing goes on */
    const char *failed;                               /* what did */
    int broken;                                       /* the same, as all know it */
    /* between the thread and its master */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, stop;
};

/* ---- blocks ---- */
static int64_t size_of(const samba_exchange_range *range) { return (int64_t)samba_dtype_size(range->dtype); }

static int64_t part_begin(const samba_exchange *e, const samba_exchange_range *range, int rank)
{
    return samba_part_begin_within(range->whole > 0 ? range->whole : range->count, range->first, range->count, rank, e->size);
}

static int64_t block_elements(const samba_exchange *e, const samba_exchange_range *range)
{
    return e->block_bytes / size_of(range);
}

/* Of the longest part, and at least one. */
static int64_t count_blocks(const samba_exchange *e, const samba_exchange_range *range)
{
    int64_t longest = 1;
    for (int rank = 0; rank < e->size; rank++) {
        const int64_t count = part_begin(e, range, rank + 1) - part_begin(e, range, rank);
        longest = count > longest ? count : longest;
    }
    return (longest + block_elements(e, range) - 1) / block_elements(e, range);
}

typedef struct block { /* of a replica's part, in elements of the range */
    int64_t begin, count;
} block;

static block block_of(const samba_exchange *e, const piece *p, int rank)
{
    const int64_t most = block_elements(e, &p->range), end = part_begin(e, &p->range, rank + 1);
    int64_t begin = part_begin(e, &p->range, rank) + p->block * most;
    begin = begin < end ? begin : end;
    return (block){begin, end - begin < most ? end - begin : most};
}

static char *data_of(const piece *p, block b) { return p->range.data + b.begin * size_of(&p->range); }

/* Where a block of another replica comes to, and a rounded one for it goes from. */
static int place_of(const samba_exchange *e, int rank) { return rank - (rank > e->rank); }

static char *in_of(const samba_exchange *e, const piece *p, int rank) { return p->in + place_of(e, rank) * e->block_bytes; }

static uint16_t *out_of(const samba_exchange *e, const piece *p, int rank)
{
    return p->out + place_of(e, rank) * (e->block_bytes / (int64_t)sizeof(float));
}

/* ---- pieces ---- */
/* Everyone's blocks to those whom they belong to. */
static samba_network_part scatter_with(const samba_exchange *e, const piece *p, int rank)
{
    const block own = block_of(e, p, e->rank), theirs = block_of(e, p, rank);
    const char *from = data_of(p, theirs);
    size_t size = (size_t)size_of(&p->range);
    if (p->range.rest) {
        samba_round_with_rest(out_of(e, p, rank), (const float *)(const void *)from, p->range.rest + theirs.begin, theirs.count);
        from = (const char *)out_of(e, p, rank);
        size = sizeof(uint16_t);
    }
    return (samba_network_part){rank, from, (size_t)theirs.count * size, in_of(e, p, rank), (size_t)own.count * size};
}

/* The own block to all. */
static samba_network_part gather_with(const samba_exchange *e, const piece *p, int rank)
{
    const block own = block_of(e, p, e->rank), theirs = block_of(e, p, rank);
    const size_t size = p->range.rest ? sizeof(uint16_t) : (size_t)size_of(&p->range);
    return (samba_network_part){rank, p->range.rest ? (const void *)p->out : data_of(p, own), (size_t)own.count * size,
                                p->range.rest ? in_of(e, p, rank) : data_of(p, theirs), (size_t)theirs.count * size};
}

static int send(samba_exchange *e, int slot)
{
    const piece *p = &e->pieces[slot];
    int used = 0;
    for (int rank = 0; rank < e->size; rank++)
        if (rank != e->rank)
            e->parts[used++] = p->phase == SCATTER ? scatter_with(e, p, rank) : gather_with(e, p, rank);
    return e->world->interface->swap(e->world->network, slot, e->parts, used);
}

static void swap(samba_exchange *e, int slot)
{
    piece *p = &e->pieces[slot];
    if (p->phase == GATHER && p->range.rest) {
        const block own = block_of(e, p, e->rank);
        float *means = (float *)(void *)data_of(p, own);
        samba_round_in_place(p->out, means, p->range.rest + own.begin, own.count);
    }
    e->failed = p->phase == SCATTER ? "sending gradients" : "sending what was summed";
    e->error = send(e, slot);
}

static void find_means(samba_exchange *e, const piece *p)
{
    const block own = block_of(e, p, e->rank);
    for (int rank = 0; rank < e->size; rank++)
        e->sources[rank] = rank == e->rank ? data_of(p, own) : in_of(e, p, rank);
    if (p->range.rest)
        samba_find_mean_of_rounded((float *)(void *)data_of(p, own), e->sources, e->rank, e->size, own.count);
    else
        samba_find_mean(p->range.dtype, data_of(p, own), e->sources, e->size, own.count);
}

/* What came rounded, to where it belongs. */
static void widen_gathered(const samba_exchange *e, const piece *p)
{
    for (int rank = 0; rank < e->size; rank++)
        if (rank != e->rank)
            samba_widen((float *)(void *)data_of(p, block_of(e, p, rank)), (const uint16_t *)(const void *)in_of(e, p, rank),
                        block_of(e, p, rank).count);
}

/* The next piece of what was asked for, where its slot is free. */
static bool take(samba_exchange *e)
{
    const int slot = (int)(e->piece_count % SLOTS);
    piece *p = &e->pieces[slot];
    if (e->taken == e->known || p->phase != IDLE)
        return false;
    p->range = e->queue[e->taken % QUEUE];
    p->phase = p->range.way == SAMBA_EXCHANGE_GATHER ? GATHER : SCATTER;
    p->block = e->at++;
    p->number = e->taken;
    e->piece_count++;
    if (e->at == count_blocks(e, &p->range)) {
        e->taken++;
        e->at = 0;
    }
    swap(e, slot);
    return true;
}

/* A swap of the piece is done: what comes then. */
static void turn(samba_exchange *e, int slot)
{
    piece *p = &e->pieces[slot];
    const bool was_gathered = p->phase == GATHER;
    if (was_gathered && p->range.rest)
        widen_gathered(e, p);
    else if (!was_gathered)
        find_means(e, p);
    p->phase = was_gathered || p->range.way == SAMBA_EXCHANGE_SCATTER ? IDLE : GATHER;
    if (p->phase == GATHER)
        swap(e, slot);
}

/* Whether anything went on. Under the lock of the world. */
static bool go_on(samba_exchange *e)
{
    bool any = false;
    for (int slot = 0; slot < SLOTS && !e->error; slot++) {
        bool done = false;
        if (e->pieces[slot].phase == IDLE)
            continue;
        e->failed = "exchanging gradients";
        e->error = e->world->interface->done(e->world->network, slot, &done);
        if (e->error || !done)
            continue;
        any = true;
        turn(e, slot);
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

/* Under the own lock. */
static void note(samba_exchange *e, int64_t finished)
{
    const double now = finished > e->finished ? samba_seconds() : 0;
    while (e->finished < finished)
        e->ended[e->finished++ % QUEUE] = now;
    e->broken = e->error;
}

/* `broken`: as it was under the lock. Where it is not 0 the thread changes nothing any more. */
static samba_status result_of(const samba_exchange *e, int broken)
{
    return broken ? samba_world_fail(e->context, e->world, e->failed, broken) : SAMBA_OK;
}

/* ---- the thread ---- */
static void nap(int idle)
{
    const struct timespec time = {.tv_nsec = (long)(1e9 * SAMBA_EXCHANGE_NAP)};
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
            note(e, finished);
            pthread_cond_broadcast(&e->changed);
        }
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- times ---- */
/* A range has the network for itself from when the one before was done. */
static double start_of(const samba_exchange *e, int64_t number)
{
    const double before = number > 0 ? e->ended[(number - 1) % QUEUE] : 0, began = e->began[number % QUEUE];
    return before > began ? before : began;
}

/* The caller has waited from then to now: for ranges from `number` on. */
static void note_waiting(samba_exchange *e, int64_t number, double from)
{
    const double now = samba_seconds();
    for (int64_t n = number; n < e->asked && n <= e->finished; n++) {
        const double start = start_of(e, n), until = n < e->finished ? e->ended[n % QUEUE] : now;
        if (until > (start > from ? start : from))
            e->waited[n % QUEUE] += until - (start > from ? start : from);
    }
}

samba_exchange_time samba_exchange_took(const samba_exchange *e, int64_t number)
{
    const double began = start_of(e, number);
    return (samba_exchange_time){began, e->ended[number % QUEUE] - began, e->waited[number % QUEUE]};
}

/* ---- for the session ---- */
int64_t samba_exchange_block(int replicas)
{
    return PIECE_BYTES / replicas > BLOCK_BYTES ? PIECE_BYTES / replicas / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT : BLOCK_BYTES;
}

samba_status samba_exchange_new(samba_context *context, const samba_world *world, bool rounds, samba_exchange **exchange)
{
    samba_exchange *e = samba_calloc(context, sizeof *e);
    *exchange = NULL;
    if (!e)
        return SAMBA_ERROR_MEMORY;
    e->context = context;
    e->world = world;
    e->rank = world->replicas.rank;
    e->size = world->replicas.size;
    e->rounds = rounds;
    e->block_bytes = samba_exchange_block(e->size);
    const size_t others = (size_t)e->size - 1, in = (size_t)e->block_bytes * others, out = in / 2;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->parts = samba_calloc(context, sizeof *e->parts * (size_t)e->size);
    e->sources = samba_calloc(context, sizeof *e->sources * (size_t)e->size);
    e->in = samba_alloc(context, in * (SLOTS + 1));
    e->out = rounds ? samba_alloc(context, out * SLOTS) : NULL;
    if (!e->parts || !e->sources || !e->in || (rounds && !e->out)) {
        samba_exchange_free(e);
        return SAMBA_ERROR_MEMORY;
    }
    for (size_t slot = 0; slot < SLOTS; slot++) {
        e->pieces[slot].in = e->in + slot * in;
        e->pieces[slot].out = rounds ? e->out + slot * (out / sizeof *e->out) : NULL;
    }
    e->pieces[URGENT].in = e->in + URGENT * in;
    *exchange = e;
    return SAMBA_OK;
}

void samba_exchange_free(samba_exchange *e)
{
    if (!e)
        return;
    /* else a child's copy: the thread is the parent's, which waits for it */
    const bool own = e->world->process == 0 || e->world->process == getpid();
    if (e->has_thread && own) {
        pthread_mutex_lock(&e->lock);
        e->stop = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    if (own) {
        pthread_mutex_destroy(&e->lock);
        pthread_cond_destroy(&e->changed);
    }
    const size_t in = (size_t)e->block_bytes * ((size_t)e->size - 1);
    if (e->parts)
        samba_free(e->context, e->parts, sizeof *e->parts * (size_t)e->size);
    if (e->sources)
        samba_free(e->context, e->sources, sizeof *e->sources * (size_t)e->size);
    if (e->in)
        samba_free(e->context, e->in, in * (SLOTS + 1));
    if (e->out)
        samba_free(e->context, e->out, in / 2 * SLOTS);
    samba_free(e->context, e, sizeof *e);
}

static void ask(samba_exchange *e, const samba_exchange_range *range)
{
    e->began[e->asked % QUEUE] = samba_seconds();
    e->waited[e->asked % QUEUE] = 0;
    e->queue[e->asked++ % QUEUE] = *range;
}

samba_status samba_exchange_run(samba_exchange *e, const samba_exchange_range *range)
{
    SAMBA_TRY(samba_exchange_wait(e, -1)); /* nothing is under way by the thread, which sleeps then */
    pthread_mutex_lock(&e->lock);
    const int64_t number = e->asked;
    ask(e, range);
    e->known = e->asked;
    samba_world_lock();
    while (has_work(e)) {
        if (!go_on(e))
            sched_yield();
        note(e, count_finished(e));
    }
    samba_world_unlock();
    note_waiting(e, number, e->began[number % QUEUE]);
    const int broken = e->broken;
    pthread_mutex_unlock(&e->lock);
    return result_of(e, broken);
}

/* One block of every part, of a mean that is not rounded. What the other thread hears of the network's end is not heard again
 * here. */
static int drive(samba_exchange *e, piece *p)
{
    samba_world_lock();
    int error = send(e, URGENT);
    samba_world_unlock();
    while (!error && p->phase != IDLE) {
        bool done = false;
        samba_world_lock();
        error = e->world->interface->done(e->world->network, URGENT, &done);
        if (!error && done && p->phase == SCATTER) {
            find_means(e, p);
            p->phase = GATHER;
            error = send(e, URGENT);
        } else if (!error && done) {
            p->phase = IDLE;
        }
        samba_world_unlock();
        if (error || done)
            continue;
        sched_yield();
        pthread_mutex_lock(&e->lock);
        error = e->broken;
        pthread_mutex_unlock(&e->lock);
    }
    return error;
}

samba_status samba_exchange_now(samba_exchange *e, const samba_exchange_range *range)
{
    piece *p = &e->pieces[URGENT];
    int error = 0;
    p->range = *range;
    const int64_t blocks = count_blocks(e, range);
    for (p->block = 0; p->block < blocks && !error; p->block++) {
        p->phase = SCATTER;
        error = drive(e, p);
    }
    if (!error)
        return SAMBA_OK;
    pthread_mutex_lock(&e->lock); /* both know it from either lock */
    samba_world_lock();
    if (!e->error) {
        e->error = error;
        e->failed = "exchanging statistics";
    }
    const int broken = e->broken = e->error;
    samba_world_unlock();
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return result_of(e, broken);
}

samba_status samba_exchange_begin(samba_exchange *e, const samba_exchange_range *range)
{
    if (!e->has_thread) {
        if (pthread_create(&e->thread, NULL, work, e) != 0)
            return samba_fail(e->context, SAMBA_ERROR_MEMORY, "the system gives no thread for exchanges between replicas");
        e->has_thread = true;
    }
    pthread_mutex_lock(&e->lock);
    while (!e->broken && e->asked - e->finished >= QUEUE - 1) /* the time of one that is done stays with the next */
        pthread_cond_wait(&e->changed, &e->lock);
    ask(e, range);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return SAMBA_OK;
}

samba_status samba_exchange_wait(samba_exchange *e, int64_t count)
{
    pthread_mutex_lock(&e->lock);
    const int64_t number = e->finished, until = count < 0 ? e->asked : count;
    if (number < until) {
        const double from = samba_seconds();
        while (!e->broken && e->finished < until)
            pthread_cond_wait(&e->changed, &e->lock);
        note_waiting(e, number, from);
    }
    const int broken = e->broken;
    pthread_mutex_unlock(&e->lock);
    return result_of(e, broken);
}

int64_t samba_exchange_count(const samba_exchange *e) { return e->asked; }
