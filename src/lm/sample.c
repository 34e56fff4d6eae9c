/* SPDX-License-Identifier: Apache-2.0
 *
 * From logits to a token, with the meanings and the order of transformers' logits processors: penalty, temperature, top-k,
 * top-p, min-p, then one random number over what is left. A token is left out by a score of -infinity, as there. Scores are
 * float32 and their sums double. */
#include "base/null.h"
#include "lm/lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

samba_sampling samba_sampling_defaults(void)
{
    return (samba_sampling){.struct_size = sizeof(samba_sampling), .repetition_penalty = 1, .top_p = 1};
}

static samba_status check(samba_context *context, const samba_sampling *s)
{
    const struct {
        const char *name;
        double value;
        bool fits;
        const char *range;
        bool random; /* no effect where the greatest is taken */
        double none;
    } all[] = {
        {"repetition_penalty", s->repetition_penalty, s->repetition_penalty > 0 && s->repetition_penalty < INFINITY, "above 0",
         false, 1},
        {"temperature", s->temperature, s->temperature >= 0 && s->temperature < INFINITY, "0 or more", false, 0},
        {"top_k", (double)s->top_k, s->top_k >= 0, "0 or more", true, 0},
        {"top_p", s->top_p, s->top_p > 0 && s->top_p <= 1, "above 0 and at most 1", true, 1},
        {"min_p", s->min_p, s->min_p >= 0 && s->min_p < 1, "0 or more and below 1", true, 0},
    };
    for (int i = 0; i < SAMBA_COUNT(all); i++) {
        if (!all[i].fits)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s is %g: expected a number %s", all[i].name, all[i].value,
                              all[i].range);
        if (all[i].random && s->temperature == 0 && all[i].value != all[i].none)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "%s is %g, which has no effect where the greatest logit is taken: give a temperature above 0",
                              all[i].name, all[i].value);
    }
    return SAMBA_OK;
}

samba_status samba_lm_check_sampling(samba_context *context, const samba_sampling *given, samba_sampling *sampling)
{
    *sampling = samba_sampling_defaults();
    if (given)
        SAMBA_TRY(samba_options_take(context, "samba_sampling", given, sizeof *sampling, sampling));
    return check(context, sampling);
}

/* ---- what is left ---- */

typedef struct candidate {
    float score;
    int32_t id;
} candidate;

/* The greatest first; of equal ones the later first, so that a stable order from the least has them reversed. */
static int compare(const void *a_, const void *b_)
{
    const candidate *a = a_, *b = b_;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->id > b->id ? -1 : 1;
}

/* Each token once, however often it was. */
static void penalize(float *scores, const float *logits, int64_t count, const int32_t *seen, int64_t seen_count, float penalty)
{
    for (int64_t i = 0; i < seen_count; i++)
        if (seen[i] >= 0 && seen[i] < count)
            scores[seen[i]] = logits[seen[i]] < 0 ? logits[seen[i]] * penalty : logits[seen[i]] / penalty;
}

/* Those of at least the k-th greatest score; found by taking the order apart until the k-th is where it belongs. */
static float kth_greatest(candidate *all, int64_t count, int64_t k)
{
    int64_t low = 0, high = count - 1, want = k - 1;
    while (low < high) {
        const float pivot = all[low + (high - low) / 2].score;
        int64_t i = low, j = high;
        while (i <= j) {
            while (all[i].score > pivot)
                i++;
            while (all[j].score < pivot)
                j--;
            if (i <= j) {
                candidate swapped = all[i];
                all[i++] = all[j];
                all[j--] = swapped;
            }
        }
        if (want <= j)
            high = j;
        else if (want >= i)
            low = i;
        else
            break;
    }
    return all[want].score;
}

static int64_t keep_top_k(candidate *all, int64_t count, int64_t k)
{
    if (k == 0 || k >= count)
        return count;
    const float least = kth_greatest(all, count, k);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (all[i].score >= least)
            all[kept++] = all[i];
    return kept;
}

static double sum_of(const candidate *all, int64_t count, float greatest)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)all[i].score - (double)greatest);
    return sum;
}

/* From the least on, those go whose probabilities add up to at most 1 - p; the most probable one stays. Of n, those of at most
 * (1 - p) / n do so whatever their order, which leaves few to sort. */
static int64_t keep_top_p(candidate *all, int64_t count, double p, float greatest)
{
    if (p >= 1)
        return count;
    const double sum = sum_of(all, count, greatest), sure = (1 - p) / (double)count;
    double below = 0;
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        const double probability = exp((double)all[i].score - (double)greatest) / sum;
        if (probability <= sure && all[i].score < greatest)
            below += probability;
        else
            all[kept++] = all[i];
    }
    count = kept;
    qsort(all, (size_t)count, sizeof *all, compare);
    while (count > 1 && below + exp((double)all[count - 1].score - (double)greatest) / sum <= 1 - p)
        below += exp((double)all[--count].score - (double)greatest) / sum;
    return count;
}

static int64_t keep_min_p(candidate *all, int64_t count, double p, float greatest)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (p == 0 || exp((double)all[i].score - (double)greatest) >= p)
            all[kept++] = all[i];
    return kept;
}

static int by_id(const void *a_, const void *b_)
{
    const candidate *a = a_, *b = b_;
    return a->id < b->id ? -1 : 1;
}

/* ---- the choice ---- */

/* By ids; returns how many. */
static int64_t keep(candidate *all, int64_t count, const samba_sampling *s, float greatest)
{
    count = keep_top_k(all, count, s->top_k);
    count = keep_top_p(all, count, s->top_p, greatest);
    count = keep_min_p(all, count, s->min_p, greatest);
    qsort(all, (size_t)count, sizeof *all, by_id);
    return count;
}

static int32_t draw(const candidate *all, int64_t count, float greatest, double uniform)
{
    const double wanted = uniform * sum_of(all, count, greatest);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += exp((double)all[i].score - (double)greatest);
        if (sum > wanted)
            return all[i].id;
    }
    return all[count - 1].id;
}

/* The token of the greatest score; above temperature 0 also those that are left, `kept` of them, and the greatest of their
 * scores. */
static samba_status choose(samba_context *context, const samba_sampling *s, const float *scores, candidate *all, int64_t count,
                           int64_t *kept, float *greatest_kept, int32_t *token)
{
    float greatest = -INFINITY;
    *kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (scores[i] != scores[i])
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "the logits are no numbers (NaN at token %lld): are the weights those of the model?", (long long)i);
        if (scores[i] > greatest)
            greatest = scores[i], *token = (int32_t)i;
    }
    if (!(greatest > -INFINITY) || greatest == INFINITY)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "the greatest logit is %g: no token can be chosen", (double)greatest);
    if (s->temperature == 0)
        return SAMBA_OK;
    const float temperature = (float)s->temperature;
    if (isinf(greatest / temperature))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "temperature is %g, by which a logit of %g cannot be divided: give 0, for the greatest", s->temperature,
                          (double)greatest);
    for (int64_t i = 0; i < count; i++)
        if (scores[i] > -INFINITY)
            all[(*kept)++] = (candidate){scores[i] / temperature, (int32_t)i};
    *greatest_kept = greatest / temperature;
    *kept = keep(all, *kept, s, *greatest_kept);
    return SAMBA_OK;
}

/* A token, or where `probability` is given the probability of each; at temperature 0 that of the greatest logit has all. */
static samba_status decide(samba_context *context, const samba_sampling *s, const float *logits, int64_t vocab,
                           const int32_t *seen, int64_t seen_count, double uniform, int32_t *token, double *probability)
{
    const size_t bytes = (size_t)vocab * (sizeof(float) + sizeof(candidate));
    char *room = samba_alloc(context, bytes);
    int64_t kept = 0;
    float greatest = 0;
    if (!room)
        return SAMBA_ERROR_MEMORY;
    candidate *all = (candidate *)room;
    float *scores = (float *)(room + (size_t)vocab * sizeof(candidate));
    memcpy(scores, logits, (size_t)vocab * sizeof *scores);
    if (s->repetition_penalty != 1)
        penalize(scores, logits, vocab, seen, seen_count, (float)s->repetition_penalty);
    samba_status status = choose(context, s, scores, all, vocab, &kept, &greatest, token);
    if (status == SAMBA_OK && probability) {
        const double sum = sum_of(all, kept, greatest);
        memset(probability, 0, (size_t)vocab * sizeof *probability);
        for (int64_t i = 0; i < kept; i++)
            probability[all[i].id] = exp((double)all[i].score - (double)greatest) / sum;
        if (s->temperature == 0)
            probability[*token] = 1;
    } else if (status == SAMBA_OK && s->temperature > 0) {
        *token = draw(all, kept, greatest, uniform);
    }
    samba_free(context, room, bytes);
    return status;
}

samba_status samba_lm_probabilities(samba_context *context, const samba_sampling *sampling, const float *logits, int64_t vocab,
                                    const int32_t *seen, int64_t seen_count, double *probability)
{
    int32_t greatest = 0;
    return decide(context, sampling, logits, vocab, seen, seen_count, 0, &greatest, probability);
}

samba_status samba_sample_token(samba_context *context, const samba_sampling *given, const float *logits, int64_t vocab_size,
                                const int32_t *seen, int64_t seen_count, double uniform, int32_t *token)
{
    samba_sampling s;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, logits);
    SAMBA_NEED(context, token);
    SAMBA_TRY(samba_lm_check_sampling(context, given, &s));
    if (vocab_size < 1 || vocab_size > INT32_MAX || seen_count < 0 || (seen_count > 0 && !seen) || !(uniform >= 0 && uniform < 1))
        return samba_fail(
            context, SAMBA_ERROR_ARGUMENT,
            "samba_sample_token: logits of at least one token, the tokens that were seen, and a number in [0, 1) are "
            "expected");
    return decide(context, &s, logits, vocab_size, seen, seen_count, uniform, token, NULL);
}
