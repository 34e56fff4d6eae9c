/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences that grow. A generator has graphs of one step for a few lengths, which share weights and cache (step.c), and for each
 * sequence its tokens and how many of them the cache has. Running takes what is new by the graph that has least time for each of
 * these, all sequences at once: one that has less, or nothing, gives tokens that do not count. Where those would be most of a
 * long graph's, it runs for one sequence alone, as prompts come one by one.
 *
 * The generator owns session, tensors and tokens; the model is the caller's. */
#include "base/null.h"
#include "lm/lm.h"
#include "tensor/tensor.h"

#include <sambaflow/multigraph.h>
#include <string.h>

enum {
    MOST_SEQUENCES = 1024,
    MOST_CHUNK = 4096,
    MOST_CAPACITY = 4096, /* where nobody says another */
    LENGTHS = 4,
    READING = 32, /* tokens that are computed in about the time that a graph of several takes for reading the weights */
    SHORT = 16,   /* tokens: so many together take little longer than one */
    MIDDLE = 128, /* tokens that have most of a longer graph's speed, for what remains of a prompt */
    SHARED = 2    /* and for all sequences, where a part of this of theirs does */
};

typedef struct sequence {
    int32_t *ids;
    int64_t room, count, cached; /* tokens: that fit into ids; that there are; whose keys and values the cache has */
    int64_t reach;               /* positions that the cache was written for, since the sequence began */
    float *logits;               /* of what follows; they count where all are cached */
} sequence;

typedef struct lm_step { /* a graph */
    int64_t length;
    char name[32], ids_name[48];
    bool alone; /* of one sequence, of several */
    samba_tensor *ids;
} lm_step;

struct samba_generator {
    samba_context *context;
    const samba_lm *lm;
    samba_generator_options options;
    samba_multigraph *graphs;
    samba_session *session;
    samba_arena arena;
    sequence *sequences;
    lm_step steps[LENGTHS]; /* the longest first; the last is of one token */
    int step_count;
    lm_step alone[LENGTHS]; /* the same of one sequence, without that of one token, where there are several */
    int alone_count;
    lm_step each; /* which gives the logits of all its tokens; length 0: there is none */
    samba_tensor *start, *count, *logits, *each_logits;
    samba_tensor *own_start, *own_count, *own_row, *own_logits; /* of a step of one sequence */
    bool slides;
};

samba_generator_options samba_generator_defaults(void)
{
    return (samba_generator_options){.struct_size = sizeof(samba_generator_options), .sequences = 1, .chunk = 512};
}

/* ---- making: graphs ---- */

typedef struct traced {
    const samba_generator *g;
    const lm_step *step;
} traced;

static const samba_lora_options *lora_of(const samba_generator *g)
{
    return g->options.adapter ? samba_lm_adapter_lora(g->options.adapter) : NULL;
}

static void trace(samba_graph *graph, const void *given)
{
    const traced *t = given;
    samba_lm_step_options options = samba_lm_step_defaults();
    options.capacity = t->g->options.capacity;
    options.chunk = t->g->options.chunk;
    options.base = t->g->options.base;
    options.each = t->step == &t->g->each;
    options.lora = lora_of(t->g);
    const bool alone = t->step->alone;
    samba_value ids = samba_input(graph, t->step->ids_name);
    samba_value start = samba_input(graph, alone ? "own_start" : "start");
    samba_value count = samba_input(graph, alone ? "own_count" : "count");
    if (alone) {
        options.sequences = t->g->options.sequences;
        options.row = samba_input(graph, "own_row");
    }
    const char *name = alone ? "own_logits" : options.each ? "each_logits" : "logits";
    samba_output(graph, name, samba_lm_step(t->g->lm, graph, ids, start, count, &options));
}

static samba_status add_graph(samba_generator *g, const lm_step *step)
{
    samba_tensor *const inputs[3] = {step->ids, g->start, g->count};
    samba_tensor *const own[4] = {step->ids, g->own_start, g->own_count, g->own_row};
    samba_compile_options options = samba_compile_defaults();
    const traced t = {g, step};
    options.name = step->name;
    options.model = trace;
    options.model_options = &t;
    options.inputs = step->alone ? own : inputs;
    options.input_count = step->alone ? 4 : 3;
    options.inference = true;
    return samba_multigraph_add(g->graphs, &options, false);
}

static samba_status compile(samba_generator *g)
{
    samba_session_options options = samba_session_defaults();
    options.threads = g->options.threads;
    options.isa = g->options.isa;
    options.seed = g->options.seed;
    SAMBA_TRY(samba_multigraph_new(g->context, &g->graphs));
    samba_status status = SAMBA_OK;
    for (int i = 0; i < g->step_count && status == SAMBA_OK; i++)
        status = add_graph(g, &g->steps[i]);
    for (int i = 0; i < g->alone_count && status == SAMBA_OK; i++)
        status = add_graph(g, &g->alone[i]);
    if (status == SAMBA_OK && g->each.length > 0)
        status = add_graph(g, &g->each);
    return status == SAMBA_OK ? samba_multigraph_session(g->graphs, "generate", &options, &g->session) : status;
}

/* The folder's weights, where it has some. The cache, which a session would ask for too, is none of them. */
static samba_status load(samba_generator *g)
{
    samba_lm_options options = samba_lm_defaults();
    options.base = g->options.base;
    options.lora = lora_of(g);
    if (!g->lm->has_weights)
        return SAMBA_OK;
    SAMBA_TRY(samba_lm_give_weights(g->lm, g->session, &options));
    return g->options.adapter ? samba_lm_adapter_load(g->options.adapter, g->session) : SAMBA_OK;
}

/* ---- making: sizes and memory ---- */

static samba_status check(samba_generator *g)
{
    samba_generator_options *o = &g->options;
    const samba_lm_shape *m = &g->lm->shape;
    const int64_t positions = m->positions ? m->positions - m->position_offset : 0;
    if (o->sequences < 1 || o->sequences > MOST_SEQUENCES || o->chunk < 1 || o->chunk > MOST_CHUNK || o->capacity < 0 ||
        o->capacity > INT32_MAX)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT,
                          "generator: expected 1 to %d sequences, a chunk of 1 to %d tokens and a capacity of at least 1, given "
                          "%lld, %lld and %lld",
                          MOST_SEQUENCES, MOST_CHUNK, (long long)o->sequences, (long long)o->chunk, (long long)o->capacity);
    if ((int)o->base < SAMBA_BASE_AS_TRACED || o->base > SAMBA_BASE_INT4)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT, "generator: %d is no samba_base", (int)o->base);
    if (!g->lm->has_weights && o->base != SAMBA_BASE_AS_TRACED)
        return samba_fail(g->context, SAMBA_ERROR_UNSUPPORTED,
                          "generator: the folder has no weights, and random ones are float32: leave base as it is");
    if (positions && o->capacity > positions)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT,
                          "generator: a capacity of %lld tokens, and the model has learned %lld positions",
                          (long long)o->capacity, (long long)positions);
    if (o->capacity == 0) {
        const samba_lm_rope *rope = &m->rope;
        const bool stretched = rope->kind == SAMBA_LM_DYNAMIC || rope->kind == SAMBA_LM_LONGROPE;
        double most = positions ? (double)positions : stretched ? rope->original : rope->most;
        o->capacity = most >= 1 && most < MOST_CAPACITY ? (int64_t)most : MOST_CAPACITY;
    }
    if (o->draft_tokens < 0 || o->draft_tokens > SAMBA_LM_MOST_DRAFT)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT, "generator: expected draft_tokens of 0 to %d, given %lld",
                          SAMBA_LM_MOST_DRAFT, (long long)o->draft_tokens);
    if (o->draft_tokens >= o->capacity)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT,
                          "generator: draft_tokens of %lld leave no room in a capacity of %lld tokens",
                          (long long)o->draft_tokens, (long long)o->capacity);
    o->chunk = o->chunk > o->draft_tokens ? o->chunk : o->draft_tokens + 1; /* written and taken back, of a ring too */
    o->chunk = o->chunk < o->capacity ? o->chunk : o->capacity;
    g->slides = samba_lm_slides(m, o->capacity, o->chunk);
    return SAMBA_OK;
}

static samba_status name_step(samba_generator *g, lm_step *s, const char *kind, int64_t length)
{
    s->length = length;
    snprintf(s->name, sizeof s->name, "%s%lld", kind, (long long)length);
    snprintf(s->ids_name, sizeof s->ids_name, "input_ids.%s%lld", kind, (long long)length);
    return samba_tensor_new(g->context, s->ids_name, SAMBA_INT32, 2, (int64_t[]){s->alone ? 1 : g->options.sequences, length},
                            &s->ids);
}

static samba_status add_step(samba_generator *g, int64_t length)
{
    if (g->options.sequences > 1 && length > 1) {
        lm_step *alone = &g->alone[g->alone_count++];
        alone->alone = true;
        SAMBA_TRY(name_step(g, alone, "alone", length));
    }
    return name_step(g, &g->steps[g->step_count++], "step", length);
}

static samba_status make_own(samba_generator *g)
{
    const int64_t one = 1, vocab = g->lm->shape.vocab_size;
    SAMBA_TRY(samba_tensor_new(g->context, "own_start", SAMBA_INT64, 1, &one, &g->own_start));
    SAMBA_TRY(samba_tensor_new(g->context, "own_count", SAMBA_INT64, 1, &one, &g->own_count));
    SAMBA_TRY(samba_tensor_new(g->context, "own_row", SAMBA_INT64, 1, &one, &g->own_row));
    return samba_tensor_new(g->context, "own_logits", SAMBA_FLOAT32, 2, (int64_t[]){1, vocab}, &g->own_logits);
}

static samba_status make_room(samba_generator *g)
{
    const int64_t n = g->options.sequences, vocab = g->lm->shape.vocab_size;
    SAMBA_TRY(SAMBA_ROOM(&g->arena, g->sequences, n));
    for (int64_t i = 0; i < n; i++)
        g->sequences[i] = (sequence){0};
    for (int64_t i = 0; i < n; i++)
        SAMBA_TRY(SAMBA_ROOM(&g->arena, g->sequences[i].logits, vocab));
    SAMBA_TRY(samba_tensor_new(g->context, "start", SAMBA_INT64, 1, &n, &g->start));
    SAMBA_TRY(samba_tensor_new(g->context, "count", SAMBA_INT64, 1, &n, &g->count));
    SAMBA_TRY(samba_tensor_new(g->context, "logits", SAMBA_FLOAT32, 2, (int64_t[]){n, vocab}, &g->logits));
    if (g->options.draft_tokens > 0) {
        const int64_t length = g->options.draft_tokens + 1;
        SAMBA_TRY(name_step(g, &g->each, "each", length));
        SAMBA_TRY(samba_tensor_new(g->context, "each_logits", SAMBA_FLOAT32, 3, (int64_t[]){n, length, vocab}, &g->each_logits));
    }
    if (n > 1)
        SAMBA_TRY(make_own(g));
    if (g->options.chunk > 1)
        SAMBA_TRY(add_step(g, g->options.chunk));
    if (g->options.chunk >= 2 * MIDDLE)
        SAMBA_TRY(add_step(g, MIDDLE));
    if (g->options.chunk >= 2 * SHORT)
        SAMBA_TRY(add_step(g, SHORT));
    return add_step(g, 1);
}

static samba_status make(samba_generator *g)
{
    SAMBA_TRY(check(g));
    SAMBA_TRY(make_room(g));
    SAMBA_TRY(compile(g));
    return load(g);
}

samba_status samba_generator_new(const samba_lm *lm, const samba_generator_options *given, samba_generator **generator)
{
    samba_generator_options options = samba_generator_defaults();
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, generator);
    *generator = NULL;
    if (given)
        SAMBA_TRY(samba_options_take(lm->context, "samba_generator_new", given, sizeof options, &options));
    samba_generator *made = samba_calloc(lm->context, sizeof *made);
    if (!made)
        return SAMBA_ERROR_MEMORY;
    made->context = lm->context;
    made->lm = lm;
    made->options = options;
    samba_arena_init(&made->arena, lm->context);
    samba_status status = make(made);
    if (status == SAMBA_OK)
        *generator = made;
    else
        samba_generator_free(made);
    return status;
}

void samba_generator_free(samba_generator *g)
{
    if (!g)
        return;
    for (int64_t i = 0; g->sequences && i < g->options.sequences; i++)
        samba_free(g->context, g->sequences[i].ids, (size_t)g->sequences[i].room * sizeof(int32_t));
    for (int i = 0; i < g->step_count; i++)
        samba_tensor_free(g->steps[i].ids);
    for (int i = 0; i < g->alone_count; i++)
        samba_tensor_free(g->alone[i].ids);
    samba_tensor_free(g->own_start);
    samba_tensor_free(g->own_count);
    samba_tensor_free(g->own_row);
    samba_tensor_free(g->own_logits);
    samba_tensor_free(g->start);
    samba_tensor_free(g->count);
    samba_tensor_free(g->logits);
    samba_tensor_free(g->each.ids);
    samba_tensor_free(g->each_logits);
    samba_session_free(g->session);
    samba_multigraph_free(g->graphs);
    samba_arena_free(&g->arena);
    samba_free(g->context, g, sizeof *g);
}

/* ---- telling ---- */

samba_context *samba_generator_context(const samba_generator *g) { return g->context; }
int64_t samba_generator_vocab(const samba_generator *g) { return g->lm->shape.vocab_size; }
samba_session *samba_generator_session(const samba_generator *g) { return g ? g->session : NULL; }
int64_t samba_generator_sequences(const samba_generator *g) { return g ? g->options.sequences : 0; }

static sequence *find(const samba_generator *g, int64_t index)
{
    return g && index >= 0 && index < g->options.sequences ? &g->sequences[index] : NULL;
}

const int32_t *samba_generator_ids(const samba_generator *g, int64_t index, int64_t *count)
{
    const sequence *s = find(g, index);
    if (count)
        *count = s ? s->count : 0;
    return s ? s->ids : NULL;
}

int64_t samba_generator_room(const samba_generator *g, int64_t index)
{
    const sequence *s = find(g, index);
    return !s ? 0 : g->slides ? INT64_MAX : g->options.capacity - s->count;
}

const float *samba_generator_logits(const samba_generator *g, int64_t index)
{
    const sequence *s = find(g, index);
    return s && s->count > 0 && s->cached == s->count ? s->logits : NULL;
}

/* ---- tokens ---- */

static samba_status need(const samba_generator *g, int64_t index, sequence **s)
{
    *s = find(g, index);
    return *s ? SAMBA_OK
              : samba_fail(g->context, SAMBA_ERROR_ARGUMENT, "generator: there is no sequence %lld, of %lld", (long long)index,
                           (long long)g->options.sequences);
}

samba_status samba_generator_add(samba_generator *g, int64_t index, const int32_t *ids, int64_t count)
{
    sequence *s;
    SAMBA_NEED(NULL, g);
    SAMBA_TRY(need(g, index, &s));
    if (count < 0 || (count > 0 && !ids))
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT, "samba_generator_add: ids, and how many, are expected");
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= g->lm->shape.vocab_size)
            return samba_fail(g->context, SAMBA_ERROR_ARGUMENT,
                              "token %lld is %d, and the model's vocabulary has %lld tokens: is the tokenizer the model's?",
                              (long long)i, ids[i], (long long)g->lm->shape.vocab_size);
    if (count > samba_generator_room(g, index))
        return samba_fail(
            g->context, SAMBA_ERROR_ARGUMENT,
            "%lld tokens and %lld before them are more than the capacity of %lld tokens: give a greater one, or less "
            "text",
            (long long)count, (long long)s->count, (long long)g->options.capacity);
    if (count > INT32_MAX - s->count)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT, "a sequence has at most %d tokens", INT32_MAX);
    SAMBA_TRY(SAMBA_GROW(g->context, s->ids, s->room, s->count + count));
    if (count > 0)
        memcpy(s->ids + s->count, ids, (size_t)count * sizeof *ids);
    s->count += count;
    return SAMBA_OK;
}

samba_status samba_generator_clear(samba_generator *g, int64_t index)
{
    sequence *s;
    SAMBA_NEED(NULL, g);
    SAMBA_TRY(need(g, index, &s));
    s->count = s->cached = s->reach = 0;
    return SAMBA_OK;
}

samba_status samba_generator_truncate(samba_generator *g, int64_t index, int64_t count)
{
    sequence *s;
    SAMBA_NEED(NULL, g);
    SAMBA_TRY(need(g, index, &s));
    if (count < 0 || count > s->count)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT, "samba_generator_truncate: expected 0 to %lld tokens, given %lld",
                          (long long)s->count, (long long)count);
    if (count > 0 && s->reach - count >= g->options.chunk && g->lm->shape.sliding && g->lm->shape.window > 0)
        return samba_fail(
            g->context, SAMBA_ERROR_STATE,
            "samba_generator_truncate: a layer's window has gone on by %lld tokens, and fewer than the chunk of %lld "
            "can be taken back: clear the sequence and add its tokens again",
            (long long)(s->reach - count), (long long)g->options.chunk);
    s->count = count;
    s->cached = s->cached < count ? s->cached : count;
    if (count == 0)
        s->reach = 0;
    else if (s->cached == count) /* whose logits were those of another token */
        s->cached--;
    return SAMBA_OK;
}

/* ---- running ---- */

static int64_t left(const sequence *s) { return s->count - s->cached; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* In times of a token. */
static int64_t time_of(const lm_step *step) { return READING + step->length; }

/* The graph that takes least time for each token that counts, for the sequence that has most to run: of all sequences, or of one
 * where the others have little to run. */
static const lm_step *choose(const samba_generator *g, int64_t *longest)
{
    int64_t most = 0, counted = 0;
    for (int64_t i = 0; i < g->options.sequences; i++)
        if (left(&g->sequences[i]) > most) {
            most = left(&g->sequences[i]);
            *longest = i;
        }
    if (most == 0)
        return NULL;
    int at = 0;
    for (int i = 1; i < g->step_count; i++)
        if (time_of(&g->steps[i]) * least(most, g->steps[at].length) < time_of(&g->steps[at]) * least(most, g->steps[i].length))
            at = i;
    for (int64_t i = 0; i < g->options.sequences; i++)
        counted += least(left(&g->sequences[i]), g->steps[at].length);
    const bool alone = at < g->alone_count && counted * SHARED < g->options.sequences * g->steps[at].length;
    return alone ? &g->alone[at] : &g->steps[at];
}

/* A step of one sequence. */
static samba_status run_alone(samba_generator *g, const lm_step *step, int64_t index)
{
    sequence *s = &g->sequences[index];
    const int64_t count = least(left(s), step->length);
    int32_t *ids = samba_tensor_data(step->ids);
    *(int64_t *)samba_tensor_data(g->own_start) = s->cached;
    *(int64_t *)samba_tensor_data(g->own_count) = count;
    *(int64_t *)samba_tensor_data(g->own_row) = index;
    memset(ids, 0, (size_t)step->length * sizeof *ids);
    memcpy(ids, s->ids + s->cached, (size_t)count * sizeof *ids);
    samba_tensor *const inputs[4] = {step->ids, g->own_start, g->own_count, g->own_row};
    samba_run_options options = samba_run_defaults();
    options.train = false;
    options.graph_name = step->name;
    options.inputs = inputs;
    options.input_count = 4;
    options.outputs = &g->own_logits;
    options.output_count = 1;
    SAMBA_TRY(samba_run(g->session, &options));
    s->cached += count;
    s->reach = s->reach > s->cached ? s->reach : s->cached;
    if (s->cached == s->count)
        memcpy(s->logits, samba_tensor_data(g->own_logits), (size_t)g->lm->shape.vocab_size * sizeof(float));
    return SAMBA_OK;
}

static samba_status run(samba_generator *g, const lm_step *step)
{
    const int64_t length = step->length, vocab = g->lm->shape.vocab_size;
    const bool each = step == &g->each;
    samba_tensor *const logits = each ? g->each_logits : g->logits;
    int32_t *ids = samba_tensor_data(step->ids);
    int64_t *start = samba_tensor_data(g->start), *count = samba_tensor_data(g->count);
    for (int64_t i = 0; i < g->options.sequences; i++) {
        const sequence *s = &g->sequences[i];
        start[i] = s->cached;
        count[i] = left(s) < length ? left(s) : length;
        memset(ids + i * length, 0, (size_t)length * sizeof *ids);
        if (count[i] > 0)
            memcpy(ids + i * length, s->ids + s->cached, (size_t)count[i] * sizeof *ids);
    }
    samba_tensor *const inputs[3] = {step->ids, g->start, g->count};
    samba_run_options options = samba_run_defaults();
    options.train = false;
    options.graph_name = step->name;
    options.inputs = inputs;
    options.input_count = 3;
    options.outputs = &logits;
    options.output_count = 1;
    SAMBA_TRY(samba_run(g->session, &options));
    for (int64_t i = 0; i < g->options.sequences; i++) {
        sequence *s = &g->sequences[i];
        s->cached += count[i];
        s->reach = s->reach > s->cached ? s->reach : s->cached;
        const int64_t row = each ? i * length + count[i] - 1 : i;
        if (count[i] > 0 && s->cached == s->count)
            memcpy(s->logits, (const float *)samba_tensor_data(logits) + row * vocab, (size_t)vocab * sizeof(float));
    }
    return SAMBA_OK;
}

samba_status samba_generator_run(samba_generator *g)
{
    SAMBA_NEED(NULL, g);
    int64_t longest = 0;
    for (const lm_step *step = choose(g, &longest); step; step = choose(g, &longest))
        SAMBA_TRY(step->alone ? run_alone(g, step, longest) : run(g, step));
    return SAMBA_OK;
}

samba_status samba_generator_run_each(samba_generator *g, const float **logits, int64_t *length)
{
    *length = g->each.length;
    *logits = samba_tensor_data(g->each_logits);
    for (int64_t i = 0; i < g->options.sequences; i++)
        if (left(&g->sequences[i]) > g->each.length)
            return samba_fail(g->context, SAMBA_ERROR_INTERNAL, "sequence %lld has more new tokens than the step takes",
                              (long long)i);
    return run(g, &g->each);
}

int64_t samba_generator_draft_tokens(const samba_generator *g) { return g->options.draft_tokens; }

void samba_generator_has_cached(samba_generator *g, int64_t index, int64_t count) { g->sequences[index].cached = count; }
