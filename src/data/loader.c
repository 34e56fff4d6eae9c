/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of a source. The order of an epoch is a function of seed and epoch alone. Batches lie in a ring of slots, one more than
 * are read ahead: the caller has the last one given, a thread fills the others. The thread has a context of its own, over the
 * C library's memory, since the caller's may not be used by two; what fails there is told when its batch's turn comes. */
#include "base/null.h"
#include "data/source.h"

#include <pthread.h>
#include <string.h>

enum { MOST_AHEAD = 64 };

typedef struct slot {
    samba_status status;
    int64_t count;
    samba_tensor *padded[SAMBA_MAX_FIELDS], *exact[SAMBA_MAX_FIELDS]; /* exact: views of fewer rows; NULL: not made */
    int64_t exact_count;
} slot;

struct samba_loader {
    samba_context *context, *reader; /* reader: the thread's */
    samba_arena arena;
    samba_source *source;
    samba_loader_options o;
    int64_t *order;
    int rank, replicas, together; /* whose batches these are */
    int slot_count;
    slot *slots;
    bool begun, running, stop, ended; /* ended: and the caller knows it */
    int64_t first, filled, given;     /* the epoch's first batch; how many behind it are filled, and given */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

samba_loader_options samba_loader_defaults(void)
{
    return (samba_loader_options){.struct_size = sizeof(samba_loader_options), .batch_size = 32, .prefetch = 2};
}

/* ---- making one ---- */

static samba_status check(samba_context *context, const samba_source *source, const samba_loader_options *o)
{
    if (o->batch_size < 1)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a loader's batch_size is %lld: expected 1 or more",
                          (long long)o->batch_size);
    if (o->prefetch < 0 || o->prefetch > MOST_AHEAD)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a loader's prefetch is %d: expected 0 to %d", o->prefetch, MOST_AHEAD);
    if (o->shuffle && (source->o.count < 0 || !source->o.read))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "the source gives its samples in order alone: a loader cannot shuffle them");
    if (o->pad_count < 0 || (o->pad_count > 0 && !o->pads))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a loader was given %d pads", o->pad_count);
    for (int i = 0; i < o->pad_count; i++) {
        bool there = false;
        for (int k = 0; k < source->o.field_count; k++)
            there = there || (o->pads[i].name && strcmp(o->pads[i].name, source->o.fields[k].name) == 0);
        if (!there)
            return samba_fail(context, SAMBA_ERROR_NAME, "a pad is for '%s', and the source has no such field",
                              o->pads[i].name ? o->pads[i].name : "");
    }
    return SAMBA_OK;
}

static samba_status make_slots(samba_loader *l)
{
    l->slot_count = l->o.prefetch + 1;
    SAMBA_TRY(SAMBA_ROOM(&l->arena, l->slots, l->slot_count));
    for (int s = 0; s < l->slot_count; s++)
        for (int i = 0; i < l->source->o.field_count; i++)
            SAMBA_TRY(samba_field_tensor(l->context, &l->source->o.fields[i], l->o.batch_size, &l->slots[s].padded[i]));
    return SAMBA_OK;
}

static samba_status keep_pads(samba_loader *l)
{
    samba_padding *pads;
    SAMBA_TRY(SAMBA_ROOM(&l->arena, pads, l->o.pad_count + 1));
    for (int i = 0; i < l->o.pad_count; i++) {
        char *name;
        SAMBA_TRY(samba_arena_copy(&l->arena, l->o.pads[i].name, &name));
        pads[i] = (samba_padding){name, l->o.pads[i].value};
    }
    l->o.pads = pads;
    return SAMBA_OK;
}

static samba_status make(samba_loader *l)
{
    SAMBA_TRY(keep_pads(l));
    SAMBA_TRY(make_slots(l));
    if (l->source->o.count >= 0)
        SAMBA_TRY(SAMBA_ROOM(&l->arena, l->order, l->source->o.count));
    if (l->o.prefetch > 0 && samba_context_new(NULL, &l->reader) != SAMBA_OK)
        return samba_fail(l->context, SAMBA_ERROR_MEMORY, "no memory for a thread that reads batches");
    return SAMBA_OK;
}

samba_status samba_loader_new(samba_context *context, samba_source *source, const samba_loader_options *options,
                              samba_loader **loader)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, source);
    SAMBA_NEED(context, loader);
    samba_loader_options o = samba_loader_defaults();
    *loader = NULL;
    if (options)
        SAMBA_TRY(samba_options_take(context, __func__, options, sizeof o, &o));
    SAMBA_TRY(check(context, source, &o));
    samba_loader *l = samba_calloc(context, sizeof *l);
    if (!l)
        return SAMBA_ERROR_MEMORY;
    *l = (samba_loader){.context = context, .source = samba_source_hold(source), .o = o, .replicas = 1, .together = 1};
    samba_arena_init(&l->arena, context);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    samba_status status = make(l);
    if (status != SAMBA_OK) {
        samba_loader_free(l);
        return status;
    }
    *loader = l;
    return SAMBA_OK;
}

static void end_thread(samba_loader *l)
{
    if (!l->running)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->running = l->stop = false;
}

void samba_loader_free(samba_loader *l)
{
    if (!l)
        return;
    end_thread(l);
    for (int s = 0; s < l->slot_count && l->slots; s++)
        for (int i = 0; i < SAMBA_MAX_FIELDS; i++) {
            samba_tensor_free(l->slots[s].exact[i]);
            samba_tensor_free(l->slots[s].padded[i]);
        }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    samba_context_free(l->reader);
    samba_source_free(l->source);
    samba_arena_free(&l->arena);
    samba_free(l->context, l, sizeof *l);
}

int64_t samba_loader_batches(const samba_loader *l)
{
    const int64_t count = l ? l->source->o.count : -1;
    if (count < 0)
        return -1;
    return count / l->o.batch_size + (!l->o.drop_last && count % l->o.batch_size > 0);
}

const samba_source *samba_loader_source(const samba_loader *l) { return l ? l->source : NULL; }

const samba_loader_options *samba_loader_its(const samba_loader *l) { return &l->o; }

/* ---- filling ---- */

static double pad_of(const samba_loader *l, const char *name)
{
    for (int i = 0; i < l->o.pad_count; i++)
        if (strcmp(l->o.pads[i].name, name) == 0)
            return l->o.pads[i].value;
    return 0;
}

static void pad(const samba_loader *l, slot *s)
{
    for (int i = 0; i < l->source->o.field_count; i++) {
        const samba_field *field = &l->source->o.fields[i];
        const size_t size = samba_dtype_size(field->dtype);
        const int64_t each = samba_field_numel(field);
        char *data = samba_tensor_data(s->padded[i]);
        const double value = pad_of(l, field->name);
        for (int64_t k = s->count * each; k < l->o.batch_size * each; k++)
            samba_store_double(field->dtype, data + size * (size_t)k, value);
    }
}

static samba_status read_next(samba_loader *l, samba_context *context, slot *s)
{
    const samba_source_options *o = &l->source->o;
    const int64_t before = samba_failed(context);
    samba_status status = o->next(context, o->user, l->o.batch_size, o->field_count, s->padded, &s->count);
    SAMBA_TRY(samba_source_said(context, before, status, "next"));
    if (s->count < 0 || s->count > l->o.batch_size)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a source's `next` gave %lld samples where up to %lld were asked for",
                          (long long)s->count, (long long)l->o.batch_size);
    return SAMBA_OK;
}

/* The batch of this number in its epoch. */
static samba_status fill(samba_loader *l, samba_context *context, int64_t number, slot *s)
{
    const int64_t round = number / l->together, dealt = (round * l->replicas + l->rank) * l->together + number % l->together;
    const int64_t count = l->source->o.count, from = dealt * l->o.batch_size;
    s->count = 0;
    if (count < 0)
        SAMBA_TRY(read_next(l, context, s));
    else if (from < count) {
        s->count = count - from < l->o.batch_size ? count - from : l->o.batch_size;
        if (s->count == l->o.batch_size || !l->o.drop_last)
            SAMBA_TRY(samba_source_read_in(context, l->source, s->count, l->order + from, s->padded));
    }
    if (s->count < l->o.batch_size && l->o.drop_last)
        s->count = 0;
    if (s->count > 0 && s->count < l->o.batch_size)
        pad(l, s);
    return SAMBA_OK;
}

static void *read_ahead(void *user)
{
    samba_loader *l = user;
    bool more = true;
    pthread_mutex_lock(&l->lock);
    while (more && !l->stop) {
        if (l->filled >= l->given + l->slot_count - 1) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        slot *s = &l->slots[l->filled % l->slot_count];
        const int64_t number = l->first + l->filled;
        pthread_mutex_unlock(&l->lock);
        s->status = fill(l, l->reader, number, s);
        more = s->status == SAMBA_OK && s->count > 0;
        pthread_mutex_lock(&l->lock);
        l->filled++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

samba_status samba_loader_deal(samba_loader *l, int rank, int replicas, int together)
{
    if (replicas > 1 && l->source->o.count < 0)
        return samba_fail(l->context, SAMBA_ERROR_ARGUMENT,
                          "the source gives its samples in order alone: they cannot be dealt to %d replicas", replicas);
    end_thread(l); /* it reads by what is about to change */
    l->begun = false;
    l->rank = rank, l->replicas = replicas, l->together = together;
    return SAMBA_OK;
}

/* ---- an epoch ---- */

static samba_status rewind_source(samba_loader *l, int64_t first)
{
    const samba_source_options *o = &l->source->o;
    const int64_t before = samba_failed(l->context);
    samba_status status = o->rewind(l->context, o->user);
    SAMBA_TRY(samba_source_said(l->context, before, status, "rewind"));
    for (int64_t i = 0; i < first; i++)
        SAMBA_TRY(read_next(l, l->context, &l->slots[0]));
    return SAMBA_OK;
}

samba_status samba_loader_begin(samba_loader *l, int64_t epoch, int64_t first)
{
    SAMBA_NEED(NULL, l);
    if (epoch < 0 || first < 0)
        return samba_fail(l->context, SAMBA_ERROR_ARGUMENT, "samba_loader_begin: epoch %lld, batch %lld: both are 0 or more",
                          (long long)epoch, (long long)first);
    end_thread(l);
    l->begun = l->ended = false;
    for (int64_t i = 0; i < l->source->o.count; i++)
        l->order[i] = i;
    if (l->o.shuffle)
        samba_shuffle(samba_hash(&epoch, sizeof epoch, l->o.seed), l->source->o.count, l->order);
    if (l->source->o.count < 0)
        SAMBA_TRY(rewind_source(l, first));
    l->first = first;
    l->filled = l->given = 0;
    l->begun = true;
    if (l->o.prefetch == 0)
        return SAMBA_OK;
    if (pthread_create(&l->thread, NULL, read_ahead, l) != 0) {
        l->begun = false;
        return samba_fail(l->context, SAMBA_ERROR_MEMORY,
                          "the system gives no thread to read batches ahead: prefetch 0 needs none");
    }
    l->running = true;
    return SAMBA_OK;
}

/* Views of the rows that count. */
static samba_status cut(const samba_loader *l, slot *s)
{
    if (s->exact_count == s->count)
        return SAMBA_OK;
    s->exact_count = 0;
    for (int i = 0; i < l->source->o.field_count; i++) {
        samba_tensor_free(s->exact[i]);
        s->exact[i] = NULL;
        SAMBA_TRY(samba_tensor_slice(s->padded[i], 0, 0, s->count, 1, &s->exact[i]));
    }
    s->exact_count = s->count;
    return SAMBA_OK;
}

/* The slot of the batch whose turn it is, filled. */
static slot *wait_for(samba_loader *l)
{
    slot *s = &l->slots[l->given % l->slot_count];
    if (l->o.prefetch == 0) {
        s->status = fill(l, l->context, l->first + l->given, s);
        return s;
    }
    pthread_mutex_lock(&l->lock);
    while (l->filled <= l->given)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return s;
}

samba_status samba_loader_next(samba_loader *l, samba_batch *batch)
{
    SAMBA_NEED(NULL, l);
    SAMBA_NEED(l->context, batch);
    *batch = (samba_batch){0};
    if (!l->begun)
        return samba_fail(l->context, SAMBA_ERROR_STATE, "samba_loader_next: call samba_loader_begin first");
    if (l->ended) /* a program that forgets to begin each epoch would train for one alone, and never know */
        return samba_fail(l->context, SAMBA_ERROR_STATE,
                          "samba_loader_next: the epoch has ended: call samba_loader_begin for the next one");
    slot *s = wait_for(l);
    if (s->status != SAMBA_OK)
        return l->o.prefetch == 0 ? s->status : samba_fail(l->context, s->status, "%s", samba_error_message(l->reader));
    if (s->count == 0) {
        l->ended = true;
        return SAMBA_OK;
    }
    if (s->count < l->o.batch_size)
        SAMBA_TRY(cut(l, s));
    *batch = (samba_batch){s->count, l->source->o.field_count, s->count < l->o.batch_size ? s->exact : s->padded, s->padded};
    pthread_mutex_lock(&l->lock);
    l->given++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return SAMBA_OK;
}
