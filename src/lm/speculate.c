/* SPDX-License-Identifier: Apache-2.0
 *
 * Speculative decoding (Leviathan, Kalman, Matias: "Fast Inference from Transformers via Speculative Decoding", 2023): a small
 * model drafts some tokens one by one, the large one looks at all of them in one run, whose time is that of reading its weights,
 * as of one token. A drafted token x of probability q(x) is taken with probability min(1, p(x) / q(x)), of the large model's p;
 * the first that is not is replaced by one of the distribution max(0, p - q), and behind all that were taken comes one of p. So
 * each run gives at least one token, and tokens have the large model's distribution. At temperature 0 p and q have one token
 * each.
 *
 * Between rounds a sequence's last token is not in the large model's cache: it comes first in the next run. What was drafted and
 * not taken is taken back from both caches. Sequences go on independently, in runs that they share.
 *
 * Random numbers of the n-th new token: number n of the sequence's, as without a draft, for what the large model chooses; those
 * of the same place in two other streams for what is drafted and for whether it is taken. */
#include "lm/lm.h"
#include "tensor/philox.h"

#include <string.h>

enum { CHOSEN = 0, DRAFTED = 1, TAKEN = 2 }; /* streams */

typedef struct speculation {
    samba_lm_generation *n;
    samba_generator *large, *small;
    int64_t sequences, vocab, most; /* most: tokens of a round that are drafted */
    int64_t *wanted, *drafted;      /* of each sequence in this round */
    double *q;                      /* (sequences, most, vocab): of drafted tokens; at temperature 0 none */
    double *p;                      /* (vocab) */
} speculation;

static double uniform(const speculation *s, int64_t sequence, int64_t at, int stream)
{
    const samba_sampling *sampling = &s->n->sampling;
    const uint64_t place = ((uint64_t)sequence << 32) + (uint64_t)at;
    return (double)samba_philox_uniform(sampling->seed, place | (uint64_t)stream << 62);
}

static bool is_greedy(const speculation *s) { return s->n->sampling.temperature == 0; }
static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* The first token up to which the weights add up to more than `uniform` of all; the last that has any, where digits ran out. */
static int32_t draw(const double *weights, int64_t count, double uniform)
{
    double sum = 0, so_far = 0;
    int32_t last = 0;
    for (int64_t i = 0; i < count; i++)
        sum += weights[i];
    for (int64_t i = 0; i < count; i++) {
        so_far += weights[i];
        last = weights[i] > 0 ? (int32_t)i : last;
        if (weights[i] > 0 && so_far > uniform * sum)
            return (int32_t)i;
    }
    return last;
}

static samba_status choose_greatest(const speculation *s, const float *logits, const int32_t *ids, int64_t count, int32_t *id)
{
    return samba_sample_token(s->n->context, &s->n->sampling, logits, s->vocab, ids, count, 0, id);
}

/* ---- drafting ---- */

/* The small model's sequence becomes the large one's. */
static samba_status follow(const speculation *s, int64_t sequence)
{
    int64_t count, had, same = 0;
    const int32_t *ids = samba_generator_ids(s->large, sequence, &count);
    const int32_t *old = samba_generator_ids(s->small, sequence, &had);
    while (same < count && same < had && ids[same] == old[same])
        same++;
    if (same < had && samba_generator_truncate(s->small, sequence, same) != SAMBA_OK) {
        SAMBA_TRY(samba_generator_clear(s->small, sequence));
        same = 0;
    }
    if (count - same > samba_generator_room(s->small, sequence))
        return SAMBA_OK; /* no draft: its cache is full */
    return samba_generator_add(s->small, sequence, ids + same, count - same);
}

/* How many tokens are drafted for a sequence: none where the large model's own is the last, or the small one has no more room. */
static int64_t wanted_of(const speculation *s, int64_t sequence)
{
    int64_t count, has;
    const int64_t left = s->n->options->max_new_tokens - s->n->made[sequence];
    samba_generator_ids(s->large, sequence, &count);
    samba_generator_ids(s->small, sequence, &has);
    if (s->n->ends[sequence] || count == 0 || has != count)
        return 0;
    const int64_t room = lesser(samba_generator_room(s->large, sequence), samba_generator_room(s->small, sequence));
    const int64_t most = lesser(lesser(s->most, room), left - 1);
    return most > 0 ? most : 0;
}

static samba_status draft_one(speculation *s, int64_t sequence)
{
    const samba_lm_generation *n = s->n;
    const float *logits = samba_generator_logits(s->small, sequence);
    const int64_t at = s->drafted[sequence];
    int64_t count;
    int32_t id = 0;
    const int32_t *ids = samba_generator_ids(s->small, sequence, &count);
    if (is_greedy(s)) {
        SAMBA_TRY(choose_greatest(s, logits, ids, count, &id));
    } else {
        double *q = s->q + (sequence * s->most + at) * s->vocab;
        SAMBA_TRY(samba_lm_probabilities(n->context, &n->sampling, logits, s->vocab, ids, count, q));
        id = draw(q, s->vocab, uniform(s, sequence, n->made[sequence] + at, DRAFTED));
    }
    s->drafted[sequence]++;
    SAMBA_TRY(samba_generator_add(s->small, sequence, &id, 1));
    return samba_generator_add(s->large, sequence, &id, 1);
}

static samba_status draft(speculation *s)
{
    bool any = false;
    for (int64_t i = 0; i < s->sequences; i++) {
        s->drafted[i] = 0;
        if (!s->n->ends[i])
            SAMBA_TRY(follow(s, i));
        s->wanted[i] = wanted_of(s, i);
        any |= s->wanted[i] > 0;
    }
    while (any) {
        any = false;
        SAMBA_TRY(samba_generator_run(s->small));
        for (int64_t i = 0; i < s->sequences; i++) {
            if (s->drafted[i] < s->wanted[i])
                SAMBA_TRY(draft_one(s, i));
            any |= s->drafted[i] < s->wanted[i];
        }
    }
    return SAMBA_OK;
}

/* ---- looking at it ---- */

/* Whether the large model takes a drafted token; if not, the token in its place. logits: of what follows the tokens before it. */
static samba_status judge(speculation *s, int64_t sequence, int64_t at, const float *logits, const int32_t *ids, int64_t count,
                          int32_t *id, bool *taken)
{
    const samba_lm_generation *n = s->n;
    const int32_t drafted = *id;
    if (is_greedy(s)) {
        SAMBA_TRY(choose_greatest(s, logits, ids, count, id));
        *taken = *id == drafted;
        return SAMBA_OK;
    }
    const double *q = s->q + (sequence * s->most + at) * s->vocab;
    SAMBA_TRY(samba_lm_probabilities(n->context, &n->sampling, logits, s->vocab, ids, count, s->p));
    *taken = uniform(s, sequence, n->made[sequence], TAKEN) * q[drafted] < s->p[drafted];
    if (*taken)
        return SAMBA_OK;
    for (int64_t i = 0; i < s->vocab; i++)
        s->p[i] = s->p[i] > q[i] ? s->p[i] - q[i] : 0;
    *id = draw(s->p, s->vocab, uniform(s, sequence, n->made[sequence], CHOSEN));
    return SAMBA_OK;
}

static samba_status look_at(speculation *s, int64_t sequence, const float *logits)
{
    samba_lm_generation *n = s->n;
    samba_draft_counts *counts = n->options->draft_counts;
    const int64_t length = s->drafted[sequence];
    int32_t drafted[SAMBA_LM_MOST_DRAFT];
    int64_t count, first, taken = 0;
    bool goes_on = true;
    const int32_t *ids = samba_generator_ids(s->large, sequence, &count);
    first = count - length;
    memcpy(drafted, ids + first, (size_t)length * sizeof *drafted);
    if (length > 0)
        SAMBA_TRY(samba_generator_truncate(s->large, sequence, first));
    for (int64_t i = 0; i < length && goes_on && !n->ends[sequence]; i++) {
        int32_t id = drafted[i];
        ids = samba_generator_ids(s->large, sequence, &count);
        SAMBA_TRY(judge(s, sequence, i, logits + i * s->vocab, ids, count, &id, &goes_on));
        taken += goes_on;
        SAMBA_TRY(samba_lm_take_token(n, sequence, id));
    }
    if (counts) {
        counts->drafted += length;
        counts->accepted += taken;
    }
    samba_generator_ids(s->large, sequence, &count);
    goes_on = goes_on && !n->ends[sequence];
    samba_generator_has_cached(s->large, sequence, goes_on ? first + length : lesser(first + taken, count - 1));
    return goes_on ? samba_lm_extend(n, sequence) : SAMBA_OK;
}

static samba_status round_of(speculation *s, int64_t *going)
{
    const float *logits;
    int64_t length;
    SAMBA_TRY(draft(s));
    SAMBA_TRY(samba_generator_run_each(s->large, &logits, &length));
    if (s->n->options->draft_counts)
        s->n->options->draft_counts->runs++;
    for (int64_t i = 0; i < s->sequences; i++) {
        int64_t count;
        samba_generator_ids(s->large, i, &count);
        if (count == 0 || s->n->ends[i])
            continue;
        SAMBA_TRY(look_at(s, i, logits + i * length * s->vocab));
        *going -= s->n->ends[i] != 0;
    }
    return SAMBA_OK;
}

/* ---- from start to end ---- */

static samba_status check(const speculation *s)
{
    samba_context *context = s->n->context;
    if (s->most == 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "generate: a draft needs a generator that was made with draft_tokens of 1 or more");
    if (s->small == s->large)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "generate: the draft is expected to be another generator");
    if (samba_generator_vocab(s->small) != s->vocab)
        return samba_fail(
            context, SAMBA_ERROR_ARGUMENT,
            "generate: the draft's vocabulary has %lld tokens and the model's %lld: a draft needs the same tokenizer",
            (long long)samba_generator_vocab(s->small), (long long)s->vocab);
    if (samba_generator_sequences(s->small) != s->sequences)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "generate: the draft has %lld sequences and the model %lld",
                          (long long)samba_generator_sequences(s->small), (long long)s->sequences);
    if (s->n->sampling.uniform)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "generate: a draft takes several random numbers a token, and `uniform` gives one: give a seed");
    return SAMBA_OK;
}

static samba_status run(speculation *s, int64_t going)
{
    SAMBA_TRY(samba_generator_run(s->large));
    for (int64_t i = 0; i < s->sequences; i++)
        if (!s->n->ends[i] && samba_generator_logits(s->large, i)) {
            SAMBA_TRY(samba_lm_extend(s->n, i));
            going -= s->n->ends[i] != 0;
        }
    while (going > 0)
        SAMBA_TRY(round_of(s, &going));
    return SAMBA_OK;
}

samba_status samba_lm_speculate(samba_lm_generation *n, int64_t going)
{
    samba_arena arena;
    speculation s = {.n = n, .large = n->generator, .small = n->options->draft};
    s.sequences = samba_generator_sequences(s.large);
    s.vocab = samba_generator_vocab(s.large);
    s.most = samba_generator_draft_tokens(s.large);
    SAMBA_TRY(check(&s));
    samba_arena_init(&arena, n->context);
    samba_status status = SAMBA_ROOM(&arena, s.wanted, s.sequences);
    if (status == SAMBA_OK)
        status = SAMBA_ROOM(&arena, s.drafted, s.sequences);
    if (status == SAMBA_OK && !is_greedy(&s))
        status = SAMBA_ROOM(&arena, s.q, s.sequences * s.most * s.vocab);
    if (status == SAMBA_OK && !is_greedy(&s))
        status = SAMBA_ROOM(&arena, s.p, s.vocab);
    if (status == SAMBA_OK)
        status = run(&s, going);
    samba_arena_free(&arena);
    return status;
}
