/* SPDX-License-Identifier: Apache-2.0
 *
 * How rotary positions turn: pair i of `dims` features by base^(-2 i / dims) a position, and what scalings for longer contexts
 * make of that. Read from "rope_parameters", or "rope_scaling" and the keys beside it, as older files have them.
 *
 * Steps are rounded to float32 where transformers rounds them, so that angles at far positions are the same. */
#include "lm/lm.h"

#include <math.h>
#include <string.h>

#define MOST_FACTOR 1e9
static const double PI = 3.14159265358979323846;
static const char *const kinds[] = {
    [SAMBA_LM_ROPE] = "default",  [SAMBA_LM_LINEAR] = "linear", [SAMBA_LM_DYNAMIC] = "dynamic",
    [SAMBA_LM_LLAMA3] = "llama3", [SAMBA_LM_YARN] = "yarn",     [SAMBA_LM_LONGROPE] = "longrope",
};

const samba_lm_rope_keys samba_lm_rope_usual = {
    .base = "rope_theta", .partial = "partial_rotary_factor", .default_base = 10000, .default_partial = 1};

/* ---- reading ---- */

static samba_lm_rope_kind read_kind(samba_lm_config *c, const samba_lm_rope_keys *keys)
{
    const char *type = samba_lm_word(c, "type", "default");
    const char *key = samba_lm_ask(c, "rope_type") ? "rope_type" : "type";
    type = samba_lm_word(c, "rope_type", type);
    if (keys->yarn && (strcmp(type, "yarn") == 0 || strcmp(type, "su") == 0))
        type = keys->yarn;
    for (int i = SAMBA_LM_ROPE; i < SAMBA_COUNT(kinds); i++)
        if (strcmp(type, kinds[i]) == 0)
            return (samba_lm_rope_kind)i;
    samba_lm_refuse(c, key, "default, linear, dynamic, llama3, yarn, longrope");
    return SAMBA_LM_ROPE;
}

/* A list of dims / 2 factors. */
static const json_t *read_factors(samba_lm_config *c, const char *key, int64_t dims)
{
    const json_t *list = samba_lm_ask(c, key);
    bool fine = json_is_array(list) && (int64_t)json_array_size(list) == dims / 2;
    for (size_t i = 0; fine && i < json_array_size(list); i++) {
        double value = json_number_value(json_array_get(list, i));
        fine = value > 0 && value < MOST_FACTOR;
    }
    if (!fine)
        samba_lm_wrong(c, key, "a list of numbers above 0, one for each pair of features that turn");
    return fine ? list : NULL;
}

static void need(samba_lm_config *c, const char *key)
{
    if (!samba_lm_ask(c, key))
        samba_lm_wrong(c, key, "a number");
}

/* The factor of cosine and sine in yarn. */
static double yarn_factor(samba_lm_config *c, double factor)
{
    double scale = samba_lm_number(c, "mscale", 0, 0, MOST_FACTOR), all = samba_lm_number(c, "mscale_all_dim", 0, 0, MOST_FACTOR);
    double grows = factor <= 1 ? 0 : 0.1 * log(factor);
    return scale > 0 && all > 0 ? (grows * scale + 1) / (grows * all + 1) : grows + 1;
}

static void read_scaling(samba_lm_config *c, int64_t most, int64_t original, samba_lm_rope *r)
{
    const char *const key = "original_max_position_embeddings";
    bool stretched = r->kind == SAMBA_LM_YARN || r->kind == SAMBA_LM_LONGROPE;
    r->most = (double)most;
    r->original = (double)samba_lm_integer(c, key, most, 1, INT32_MAX);
    if (original)
        r->original = (double)original; /* what stands beside counts more */
    if (r->kind != SAMBA_LM_ROPE && !stretched)
        need(c, "factor");
    r->factor = samba_lm_number(c, "factor", stretched ? r->most / r->original : 1, 1e-9, MOST_FACTOR);
    r->attention_factor = 1;
    if (r->kind == SAMBA_LM_LLAMA3) {
        need(c, "low_freq_factor"), need(c, "high_freq_factor");
        r->low = samba_lm_number(c, "low_freq_factor", 1, 1e-9, MOST_FACTOR);
        r->high = samba_lm_number(c, "high_freq_factor", 4, 1e-9, MOST_FACTOR);
        if (r->high == r->low)
            samba_lm_wrong(c, "high_freq_factor", "another number than low_freq_factor");
    }
    if (r->kind == SAMBA_LM_YARN) {
        r->beta_fast = samba_lm_number(c, "beta_fast", 32, 0, MOST_FACTOR);
        r->beta_slow = samba_lm_number(c, "beta_slow", 1, 0, MOST_FACTOR);
        r->beta_fast = r->beta_fast > 0 ? r->beta_fast : 32;
        r->beta_slow = r->beta_slow > 0 ? r->beta_slow : 1;
        r->truncate = samba_lm_flag(c, "truncate", !samba_lm_is_null(c, "truncate"));
        r->attention_factor = samba_lm_number(c, "attention_factor", yarn_factor(c, r->factor), 0, MOST_FACTOR);
    }
    if (r->kind == SAMBA_LM_LONGROPE) {
        double grown = r->factor <= 1 || r->original <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->original));
        r->attention_factor = samba_lm_number(c, "attention_factor", grown, 0, MOST_FACTOR);
        r->short_factor = read_factors(c, "short_factor", r->dims);
        r->long_factor = read_factors(c, "long_factor", r->dims);
    }
}

void samba_lm_rope_of(samba_lm_config *c, const char *key, const json_t *object, const samba_lm_rope_keys *keys, double base,
                      int64_t head_dim, int64_t most, samba_lm_rope *rope)
{
    char within[96];
    double partial = keys->partial ? samba_lm_number(c, keys->partial, keys->default_partial, 0, 1) : 1;
    int64_t original = samba_lm_integer(c, "original_max_position_embeddings", keys->original, 1, INT32_MAX);
    samba_lm_config inner;
    if (object && !json_is_object(object))
        samba_lm_wrong(c, key, "an object");
    if (c->status != SAMBA_OK)
        return;
    snprintf(within, sizeof within, "%s%s.", c->within, key);
    samba_lm_config_init(&inner, c->context, c->path, within, object);
    rope->kind = read_kind(&inner, keys);
    rope->base = samba_lm_number(&inner, "rope_theta", base, 1e-9, 1e18);
    partial = samba_lm_number(&inner, "partial_rotary_factor", partial, 0, 1);
    rope->dims = (int64_t)((double)head_dim * partial);
    if (rope->kind == SAMBA_LM_ROPE && partial != 1 && !keys->may_be_partial)
        samba_lm_refuse(object && json_object_get(object, "partial_rotary_factor") ? &inner : c, "partial_rotary_factor", "1");
    else if (rope->dims < 2 || rope->dims % 2 != 0)
        inner.status = samba_fail(c->context, SAMBA_ERROR_UNSUPPORTED,
                                  "%s: rotary positions turn %lld of a head's %lld features: supported is an even number from 2",
                                  c->path, (long long)rope->dims, (long long)head_dim);
    read_scaling(&inner, most, original, rope);
    if (c->status == SAMBA_OK)
        c->status = object ? samba_lm_config_finish(&inner) : inner.status;
}

void samba_lm_rope_read(samba_lm_config *c, const samba_lm_rope_keys *keys, int64_t head_dim, int64_t most, samba_lm_rope *rope)
{
    const json_t *newer = samba_lm_ask(c, "rope_parameters"), *older = samba_lm_ask(c, "rope_scaling");
    bool use_older = older && !(json_is_object(older) && json_object_size(older) == 0);
    double base = samba_lm_number(c, keys->base, keys->default_base, 1e-9, 1e18);
    samba_lm_rope_of(c, use_older ? "rope_scaling" : "rope_parameters", use_older ? older : newer, keys, base, head_dim, most,
                     rope);
}

/* ---- steps ---- */

static double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* The pair that turns `rotations` times over the original length. */
static double pair_of(const samba_lm_rope *r, double rotations)
{
    return (double)r->dims * log(r->original / (rotations * 2 * PI)) / (2 * log(r->base));
}

/* From steps as they are for fast pairs to steps divided by the factor for slow ones. */
static void steps_of_yarn(const samba_lm_rope *r, float *steps)
{
    double low = pair_of(r, r->beta_fast), high = pair_of(r, r->beta_slow);
    if (r->truncate)
        low = floor(low), high = ceil(high);
    low = low > 0 ? low : 0;
    high = high < (double)(r->dims - 1) ? high : (double)(r->dims - 1);
    if (low == high)
        high += 0.001;
    for (int64_t i = 0; i < r->dims / 2; i++) {
        float kept = 1 - (float)clamp(((double)i - low) / (high - low), 0, 1);
        float divided = (float)(steps[i] / r->factor);
        steps[i] = divided * (1 - kept) + steps[i] * kept;
    }
}

/* Waves longer than the original length turn slower, short ones as before, and those between somewhere between. */
static void steps_of_llama3(const samba_lm_rope *r, float *steps)
{
    double longest = r->original / r->low, shortest = r->original / r->high;
    for (int64_t i = 0; i < r->dims / 2; i++) {
        double wave = 2 * PI / steps[i], part = (r->original / wave - r->low) / (r->high - r->low);
        if (wave > longest)
            steps[i] = (float)(steps[i] / r->factor);
        else if (wave >= shortest)
            steps[i] = (float)((1 - part) * steps[i] / r->factor + part * steps[i]);
    }
}

void samba_lm_rope_steps(const samba_lm_rope *r, int64_t length, float *steps, double *scale)
{
    double base = r->base, dims = (double)r->dims;
    const json_t *factors = (double)length > r->original ? r->long_factor : r->short_factor;
    if (r->kind == SAMBA_LM_DYNAMIC && (double)length > r->most && r->dims > 2)
        base *= pow(r->factor * (double)length / r->most - (r->factor - 1), dims / (dims - 2));
    for (int64_t i = 0; i < r->dims / 2; i++) {
        float power = (float)pow(base, (double)((float)(2 * i) / (float)r->dims));
        if (r->kind == SAMBA_LM_LONGROPE)
            power *= (float)json_number_value(json_array_get(factors, (size_t)i));
        steps[i] = 1 / power;
        if (r->kind == SAMBA_LM_LINEAR)
            steps[i] = (float)(steps[i] / r->factor);
    }
    if (r->kind == SAMBA_LM_YARN)
        steps_of_yarn(r, steps);
    if (r->kind == SAMBA_LM_LLAMA3)
        steps_of_llama3(r, steps);
    *scale = r->attention_factor;
}
