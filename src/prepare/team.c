/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a batch by all threads. Each takes the next few and keeps what it makes in memory of its own, under a context of
 * its own whose memory is the caller's, one request at a time. Every line before the first that fails is worked on, whatever
 * thread meets it, so the first broken line of the file is the one that is told of. */
#include "base/team.h"
#include "prepare/prepare.h"

#include <pthread.h>
#include <string.h>

enum { TAKEN_AT_ONCE = 8 };

typedef struct shared_memory {
    pthread_mutex_t lock;
    samba_context *context;
} shared_memory;

static void *allocate(void *user, void *block, size_t old_size, size_t new_size)
{
    shared_memory *shared = user;
    pthread_mutex_lock(&shared->lock);
    void *made = new_size ? samba_alloc(shared->context, new_size) : NULL;
    if (block && (made || !new_size)) {
        if (made)
            memcpy(made, block, old_size < new_size ? old_size : new_size);
        samba_free(shared->context, block, old_size);
    }
    pthread_mutex_unlock(&shared->lock);
    return made;
}

samba_status samba_workers_new(samba_preparation *p)
{
    const int most = (int)(p->o.memory >> 24); /* an encoder takes some 8 MiB */
    if (p->threads == 0)
        p->threads = samba_team_offered() < most ? samba_team_offered() : most;
    shared_memory *shared = samba_calloc(p->context, sizeof *shared);
    if (!shared)
        return SAMBA_ERROR_MEMORY;
    pthread_mutex_init(&shared->lock, NULL);
    shared->context = p->context;
    p->allocating = shared;
    p->workers = samba_calloc(p->context, sizeof *p->workers * (size_t)p->threads);
    if (!p->workers)
        return SAMBA_ERROR_MEMORY;
    for (int i = 0; i < p->threads; i++) {
        samba_worker *w = &p->workers[i];
        if (samba_context_new(&(samba_allocator){allocate, shared}, &w->context) != SAMBA_OK)
            return SAMBA_ERROR_MEMORY;
        samba_status status = samba_token_encoder_new(w->context, p->tokenizer, &w->encoder);
        if (status != SAMBA_OK)
            return samba_fail(p->context, status, "%s", samba_error_message(w->context));
    }
    return SAMBA_OK;
}

void samba_workers_free(samba_preparation *p)
{
    for (int i = 0; p->workers && i < p->threads; i++) {
        samba_worker *w = &p->workers[i];
        if (!w->context)
            continue;
        samba_token_encoder_free(w->encoder);
        samba_free(w->context, w->ids, (size_t)w->id_capacity * sizeof *w->ids);
        samba_free(w->context, w->types, (size_t)w->type_capacity);
        samba_free(w->context, w->pairs, (size_t)w->pair_capacity * sizeof *w->pairs);
        samba_free(w->context, w->text, (size_t)w->text_capacity);
        samba_context_free(w->context);
    }
    if (p->workers)
        samba_free(p->context, p->workers, sizeof *p->workers * (size_t)p->threads);
    if (p->allocating)
        pthread_mutex_destroy(&((shared_memory *)p->allocating)->lock);
    samba_free(p->context, p->allocating, sizeof(shared_memory));
}

static void work(void *argument, int thread, int team)
{
    samba_preparation *p = argument;
    samba_worker *w = &p->workers[thread];
    (void)team;
    w->status = SAMBA_OK;
    w->tokens = w->pair_count = 0;
    for (;;) {
        int64_t begin = __atomic_fetch_add(&p->next, TAKEN_AT_ONCE, __ATOMIC_RELAXED);
        if (begin >= p->batch.count)
            return;
        for (int64_t i = begin; i < p->batch.count && i < begin + TAKEN_AT_ONCE; i++) {
            p->articles[i] = (samba_article){.worker = thread};
            w->status = samba_article_read(p, w, &p->batch.lines[i], &p->articles[i]);
            w->failed_line = i;
            if (w->status != SAMBA_OK)
                return;
        }
    }
}

samba_status samba_batch_work(samba_preparation *p)
{
    const samba_worker *first = NULL;
    if (p->batch.count > p->article_capacity)
        SAMBA_TRY(SAMBA_GROW(p->context, p->articles, p->article_capacity, p->batch.count));
    for (int i = 0; i < p->threads; i++)
        p->workers[i].status = SAMBA_OK;
    p->next = 0;
    samba_team(p->threads, work, p);
    for (int i = 0; i < p->threads; i++) {
        const samba_worker *w = &p->workers[i];
        if (w->status != SAMBA_OK && (!first || w->failed_line < first->failed_line))
            first = w;
    }
    return first ? samba_fail(p->context, first->status, "%s", samba_error_message(first->context)) : SAMBA_OK;
}
