/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of jobs, and the thread that has the generator. Jobs give their texts one by one to the generator's sequences, in
 * turn, so that one with many texts holds up no other. All sequences go on together, a token a round; of a prompt a round takes
 * a chunk, so that a long one does not stop the others. A text joins and leaves in any round.
 *
 * A sequence keeps its tokens when its text has ended. The next text begins where it goes on from some of them: a conversation
 * so far is not computed again.
 *
 * With a draft there is one sequence, which samba_generate takes from a text's start to its end.
 *
 * The lock guards jobs and the queue, and is not held while the model runs. Only this thread uses generators and slots. */
#include "serve/serve.h"
#include "tensor/philox.h"

#include <math.h>
#include <string.h>

enum { PATIENCE = 100000000 }; /* nanoseconds after which one who waits is to look whether its client is there */

typedef struct slot { /* a sequence of the generator */
    samba_serve_text *text;
    double used;
} slot;

struct samba_serve_engine {
    const samba_serve_model *model;
    samba_context *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;           /* there may be some, or an end */
    samba_serve_job *first, *last; /* with texts that wait */
    int64_t jobs, most_jobs;
    bool ending, hurried, runs;
    slot *slots;
    int64_t slot_count, active;
};

void samba_serve_engine_lock(samba_serve_engine *e) { pthread_mutex_lock(&e->lock); }
void samba_serve_engine_unlock(samba_serve_engine *e) { pthread_mutex_unlock(&e->lock); }

/* ---- the queue; all with the lock ---- */

static void append(samba_serve_engine *e, samba_serve_job *job)
{
    job->next = NULL;
    if (e->last)
        e->last->next = job;
    else
        e->first = job;
    e->last = job;
}

static void take_first(samba_serve_engine *e)
{
    e->first = e->first->next;
    if (!e->first)
        e->last = NULL;
}

samba_serve_admission samba_serve_engine_take(samba_serve_engine *e, samba_serve_job *job)
{
    samba_serve_engine_lock(e);
    const samba_serve_admission admission = e->ending                 ? SAMBA_SERVE_ENDING
                                            : e->jobs >= e->most_jobs ? SAMBA_SERVE_FULL
                                                                      : SAMBA_SERVE_TAKEN;
    if (admission == SAMBA_SERVE_TAKEN) {
        e->jobs++;
        append(e, job);
        pthread_cond_signal(&e->work);
    }
    samba_serve_engine_unlock(e);
    return admission;
}

int64_t samba_serve_engine_jobs(samba_serve_engine *e)
{
    samba_serve_engine_lock(e);
    const int64_t jobs = e->jobs;
    samba_serve_engine_unlock(e);
    return jobs;
}

void samba_serve_engine_wait(samba_serve_engine *e, samba_serve_job *job)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PATIENCE;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&job->changed, &e->lock, &until);
}

void samba_serve_engine_cancel(samba_serve_engine *e, samba_serve_job *job)
{
    job->canceled = true;
    pthread_cond_signal(&e->work);
    while (job->open > 0)
        pthread_cond_wait(&job->changed, &e->lock);
}

/* ---- the end of texts and jobs; with the lock ---- */

static void count_end(samba_serve_engine *e, samba_serve_job *job)
{
    job->stop = samba_seconds();
    if (--job->open == 0)
        e->jobs--;
    pthread_cond_signal(&job->changed);
}

static void fail_job(samba_serve_job *job, samba_status status, const char *message)
{
    if (job->status == SAMBA_OK)
        job->status = samba_fail(job->context, status, "%s", message);
}

static void end_text(samba_serve_engine *e, samba_serve_text *t, samba_serve_end end)
{
    if (end == SAMBA_SERVE_FAILED)
        t->end = end;
    else if (samba_serve_text_end(t, end) != SAMBA_OK)
        fail_job(t->job, SAMBA_ERROR_MEMORY, "no memory for a text");
    count_end(e, t->job);
}

/* What the job is to end with now; 0: it goes on. */
static samba_serve_end verdict(const samba_serve_engine *e, const samba_serve_job *job)
{
    return job->canceled || e->hurried        ? SAMBA_SERVE_GONE
           : job->status != SAMBA_OK          ? SAMBA_SERVE_FAILED
           : samba_seconds() >= job->deadline ? SAMBA_SERVE_LATE
                                              : (samba_serve_end)0;
}

/* Those of jobs that nobody waits for, or that are late, in the queue and in the sequences. */
static void drop_ended(samba_serve_engine *e)
{
    samba_serve_job *job = e->first, *next;
    e->first = e->last = NULL;
    for (; job; job = next) {
        const samba_serve_end end = verdict(e, job);
        next = job->next;
        if (!end)
            append(e, job);
        for (int64_t left = job->text_count - job->begun; end && left > 0; left--)
            end_text(e, &job->texts[job->begun++], end);
    }
    for (int64_t i = 0; i < e->slot_count; i++) {
        samba_serve_text *t = e->slots[i].text;
        const samba_serve_end end = t ? verdict(e, t->job) : (samba_serve_end)0;
        if (end) {
            e->slots[i].text = NULL;
            e->active--;
            end_text(e, t, end);
        }
    }
}

static void free_slot(samba_serve_engine *e, int64_t i)
{
    e->slots[i].text = NULL;
    e->slots[i].used = samba_seconds();
    e->active--;
}

/* ---- a text's place ---- */

/* How many tokens of the text's prompt a sequence begins with. */
static int64_t shared(const samba_serve_engine *e, int64_t i, const samba_serve_text *t, int64_t *count)
{
    const int32_t *ids = samba_generator_ids(e->model->generator, i, count);
    int64_t same = 0;
    while (same < *count && same < t->prompt_count && ids[same] == t->prompt[same])
        same++;
    return same;
}

/* Of the free sequences the one that shares most with the prompt, where that is half of what it has at least; else the one that
 * was not used for longest. */
static int64_t choose_slot(const samba_serve_engine *e, const samba_serve_text *t)
{
    int64_t best = -1, most = 0, oldest = -1;
    for (int64_t i = 0; i < e->slot_count; i++) {
        int64_t count;
        if (e->slots[i].text)
            continue;
        const int64_t same = shared(e, i, t, &count);
        if (same > most && same >= count - same) {
            best = i;
            most = same;
        }
        oldest = oldest < 0 || e->slots[i].used < e->slots[oldest].used ? i : oldest;
    }
    return best >= 0 ? best : oldest;
}

/* The sequence has what it shares with the prompt, and nothing else. */
static samba_status begin_text(samba_serve_engine *e, int64_t i, samba_serve_text *t)
{
    samba_generator *generator = e->model->generator;
    int64_t count, same = shared(e, i, t, &count);
    if (same == 0 || (same < count && samba_generator_truncate(generator, i, same) != SAMBA_OK)) {
        SAMBA_TRY(samba_generator_clear(generator, i)); /* a window cannot go back as far */
        same = 0;
    }
    t->fed = same;
    t->cached = same < t->prompt_count ? same : t->prompt_count - 1; /* the last token runs again, for its logits */
    return SAMBA_OK;
}

static void begin_texts(samba_serve_engine *e)
{
    while (e->first && e->active < e->slot_count) {
        samba_serve_job *job = e->first;
        samba_serve_text *t = &job->texts[job->begun];
        const int64_t i = choose_slot(e, t);
        if (job->begun++ == 0)
            job->start = samba_seconds();
        take_first(e);
        if (job->begun < job->text_count)
            append(e, job);
        const samba_status status = begin_text(e, i, t);
        if (status == SAMBA_OK) {
            e->slots[i].text = t;
            e->active++;
        } else {
            fail_job(job, status, samba_error_message(e->context));
            end_text(e, t, SAMBA_SERVE_FAILED);
        }
    }
}

/* ---- a round ---- */

/* A chunk of each prompt that the generator does not have whole. */
static samba_status feed(samba_serve_engine *e)
{
    for (int64_t i = 0; i < e->slot_count; i++) {
        samba_serve_text *t = e->slots[i].text;
        if (!t || t->fed == t->prompt_count)
            continue;
        const int64_t left = t->prompt_count - t->fed, count = left < e->model->chunk ? left : e->model->chunk;
        SAMBA_TRY(samba_generator_add(e->model->generator, i, t->prompt + t->fed, count));
        t->fed += count;
    }
    return SAMBA_OK;
}

/* The next token of a sequence whose prompt has run, or its end; with the lock. */
static samba_status extend(samba_serve_engine *e, int64_t i, samba_serve_text *t)
{
    samba_generator *generator = e->model->generator;
    const samba_sampling *sampling = &t->job->request->sampling;
    const float *logits = samba_generator_logits(generator, i);
    int64_t count;
    int32_t id;
    const int32_t *ids = samba_generator_ids(generator, i, &count);
    if (samba_generator_room(generator, i) < 1)
        return samba_serve_text_end(t, SAMBA_SERVE_LENGTH);
    const uint64_t number = ((uint64_t)t->place << 32) + (uint64_t)t->made;
    const double uniform = sampling->temperature > 0 ? (double)samba_philox_uniform(sampling->seed, number) : 0;
    SAMBA_TRY(samba_sample_token(t->job->context, sampling, logits, e->model->vocab, ids, count, uniform, &id));
    SAMBA_TRY(samba_serve_text_take(e->model, t, id));
    return t->end ? SAMBA_OK : samba_generator_add(generator, i, &id, 1);
}

static void extend_all(samba_serve_engine *e)
{
    for (int64_t i = 0; i < e->slot_count; i++) {
        samba_serve_text *t = e->slots[i].text;
        if (!t || t->fed < t->prompt_count)
            continue;
        const samba_status status = extend(e, i, t);
        if (status != SAMBA_OK) {
            fail_job(t->job, status, samba_error_message(t->job->context));
            t->end = SAMBA_SERVE_FAILED;
        }
        if (t->end) {
            free_slot(e, i);
            count_end(e, t->job);
        } else {
            pthread_cond_signal(&t->job->changed);
        }
    }
}

/* The model has failed: all that go on do, and nobody knows what the cache has. */
static void fail_all(samba_serve_engine *e, samba_status status)
{
    for (int64_t i = 0; i < e->slot_count; i++) {
        samba_serve_text *t = e->slots[i].text;
        if (t) {
            fail_job(t->job, status, samba_error_message(e->context));
            free_slot(e, i);
            end_text(e, t, SAMBA_SERVE_FAILED);
        }
        samba_generator_clear(e->model->generator, i);
    }
    if (e->model->draft)
        samba_generator_clear(e->model->draft, 0);
}

static void run_round(samba_serve_engine *e)
{
    samba_serve_engine_unlock(e);
    samba_status status = feed(e);
    if (status == SAMBA_OK)
        status = samba_generator_run(e->model->generator);
    samba_serve_engine_lock(e);
    if (status == SAMBA_OK)
        extend_all(e);
    else
        fail_all(e, status);
}

/* ---- with a draft: one text from its start to its end ---- */

static bool take_drafted(void *user, int64_t sequence, int32_t id)
{
    samba_serve_engine *e = user;
    samba_serve_text *t = e->slots[sequence].text;
    samba_serve_engine_lock(e);
    samba_serve_end end = verdict(e, t->job);
    const samba_status status = end ? samba_serve_text_end(t, end) : samba_serve_text_take(e->model, t, id);
    if (status != SAMBA_OK) {
        fail_job(t->job, status, "no memory for a text");
        t->end = SAMBA_SERVE_FAILED;
    }
    pthread_cond_signal(&t->job->changed);
    end = t->end;
    samba_serve_engine_unlock(e);
    return !end;
}

static samba_status generate_drafted(samba_serve_engine *e, samba_serve_text *t)
{
    samba_generation_options options = samba_generation_defaults();
    samba_generation_end end;
    options.sampling = t->job->request->sampling;
    options.sampling.seed += (uint64_t)t->place;
    options.max_new_tokens = t->job->most;
    options.token = take_drafted;
    options.user = e;
    options.draft = e->model->draft;
    return samba_generate(e->model->generator, &options, &end);
}

static void run_drafted(samba_serve_engine *e)
{
    samba_serve_text *t = e->slots[0].text;
    samba_status status = SAMBA_OK;
    samba_serve_end end = 0;
    while (status == SAMBA_OK && !end && t->fed < t->prompt_count) {
        samba_serve_engine_unlock(e);
        status = feed(e);
        if (status == SAMBA_OK)
            status = samba_generator_run(e->model->generator);
        samba_serve_engine_lock(e);
        end = verdict(e, t->job);
    }
    if (status == SAMBA_OK && !end) {
        samba_serve_engine_unlock(e);
        status = generate_drafted(e, t);
        samba_serve_engine_lock(e);
    }
    if (status != SAMBA_OK) {
        fail_all(e, status);
        return;
    }
    free_slot(e, 0);
    if (!t->end)
        end_text(e, t, end ? end : SAMBA_SERVE_LENGTH);
    else
        count_end(e, t->job);
}

/* ---- the thread ---- */

static void *work(void *user)
{
    samba_serve_engine *e = user;
    samba_serve_engine_lock(e);
    for (;;) {
        drop_ended(e);
        begin_texts(e);
        if (e->active > 0 && e->model->draft)
            run_drafted(e);
        else if (e->active > 0)
            run_round(e);
        else if (e->ending && !e->first)
            break;
        else if (!e->first)
            pthread_cond_wait(&e->work, &e->lock);
    }
    samba_serve_engine_unlock(e);
    return NULL;
}

samba_status samba_serve_engine_new(const samba_serve_model *model, int64_t queue, samba_serve_engine **engine)
{
    *engine = NULL;
    samba_serve_engine *e = samba_calloc(model->context, sizeof *e);
    if (!e)
        return SAMBA_ERROR_MEMORY;
    e->model = model;
    e->context = model->context;
    e->slot_count = samba_generator_sequences(model->generator);
    e->most_jobs = e->slot_count + queue;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, NULL);
    samba_status status = SAMBA_OK;
    e->slots = samba_calloc(e->context, sizeof *e->slots * (size_t)e->slot_count);
    if (!e->slots)
        status = SAMBA_ERROR_MEMORY;
    else if (pthread_create(&e->thread, NULL, work, e) != 0)
        status = samba_fail(e->context, SAMBA_ERROR_MEMORY, "the system gives no thread for the model");
    e->runs = status == SAMBA_OK;
    if (status == SAMBA_OK)
        *engine = e;
    else
        samba_serve_engine_free(e);
    return status;
}

void samba_serve_engine_end(samba_serve_engine *e)
{
    samba_serve_engine_lock(e);
    e->ending = true;
    pthread_cond_signal(&e->work);
    samba_serve_engine_unlock(e);
}

void samba_serve_engine_hurry(samba_serve_engine *e)
{
    samba_serve_engine_lock(e);
    e->ending = e->hurried = true;
    pthread_cond_signal(&e->work);
    samba_serve_engine_unlock(e);
}

void samba_serve_engine_free(samba_serve_engine *e)
{
    if (!e)
        return;
    if (e->runs) {
        samba_serve_engine_end(e);
        pthread_join(e->thread, NULL);
    }
    pthread_cond_destroy(&e->work);
    pthread_mutex_destroy(&e->lock);
    samba_free(e->context, e->slots, sizeof *e->slots * (size_t)e->slot_count);
    samba_free(e->context, e, sizeof *e);
}
