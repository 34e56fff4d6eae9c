/* SPDX-License-Identifier: Apache-2.0
 *
 * New tokens: the generator runs what is new, a token is chosen for each sequence that goes on and added to it, until each has
 * an end. A sequence that has ended waits for the others and changes nothing for them. */
#include "base/null.h"
#include "data/data.h"
#include "lm/lm.h"
#include "tensor/philox.h"

#include <string.h>
#include <unistd.h>

samba_generation_options samba_generation_defaults(void)
{
    return (samba_generation_options){
        .struct_size = sizeof(samba_generation_options), .sampling = samba_sampling_defaults(), .max_new_tokens = 128};
}

/* ---- which tokens end a text ---- */

static samba_status take_ids(samba_lm *lm, const char *path, const json_t *value, bool *found)
{
    const bool is_list = json_is_array(value);
    const size_t count = is_list ? json_array_size(value) : 1;
    int32_t *ids;
    if (!value || json_is_null(value))
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(&lm->arena, ids, count));
    for (size_t i = 0; i < count; i++) {
        const json_t *id = is_list ? json_array_get(value, i) : value;
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s: \"eos_token_id\" is expected to be a token's id or a list",
                              path);
        ids[i] = (int32_t)json_integer_value(id);
    }
    lm->stop_ids = ids;
    lm->stop_count = (int64_t)count;
    *found = true;
    return SAMBA_OK;
}

static samba_status read_generation_config(samba_lm *lm, bool *found)
{
    char path[4096];
    void *data;
    size_t size;
    json_error_t error;
    snprintf(path, sizeof path, "%.4000s/generation_config.json", lm->folder);
    if (access(path, F_OK) != 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_file_read(lm->context, path, &data, &size));
    json_t *json = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    samba_free(lm->context, data, size);
    if (!json_is_object(json)) {
        json_decref(json);
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s: no JSON object", path);
    }
    samba_status status = take_ids(lm, path, json_object_get(json, "eos_token_id"), found);
    json_decref(json);
    return status;
}

samba_status samba_lm_stop_ids(samba_lm *lm, const int32_t **ids, int64_t *count)
{
    bool found = false;
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, ids);
    SAMBA_NEED(lm->context, count);
    if (!lm->gguf)
        SAMBA_TRY(read_generation_config(lm, &found));
    if (!found)
        SAMBA_TRY(take_ids(lm, "config.json", json_object_get(lm->json, "eos_token_id"), &found));
    *ids = found ? lm->stop_ids : NULL;
    *count = found ? lm->stop_count : 0;
    return SAMBA_OK;
}

/* ---- the loop ---- */

static double uniform_of(const samba_lm_generation *n, int64_t sequence)
{
    const samba_sampling *s = &n->sampling;
    if (s->uniform)
        return s->uniform(s->user, sequence, n->made[sequence]);
    return (double)samba_philox_uniform(s->seed, ((uint64_t)sequence << 32) + (uint64_t)n->made[sequence]);
}

samba_status samba_lm_take_token(samba_lm_generation *n, int64_t sequence, int32_t id)
{
    const samba_generation_options *o = n->options;
    SAMBA_TRY(samba_generator_add(n->generator, sequence, &id, 1));
    n->made[sequence]++;
    for (int64_t i = 0; i < o->stop_count; i++)
        if (o->stop_ids[i] == id)
            n->ends[sequence] = SAMBA_END_STOP;
    if (!n->ends[sequence] && n->made[sequence] == o->max_new_tokens)
        n->ends[sequence] = SAMBA_END_LENGTH;
    if (o->token && !o->token(o->user, sequence, id) && n->ends[sequence] != SAMBA_END_STOP)
        n->ends[sequence] = SAMBA_END_CALLER;
    return n->visit ? n->visit(n->user, sequence, id, &n->ends[sequence]) : SAMBA_OK;
}

samba_status samba_lm_extend(samba_lm_generation *n, int64_t sequence)
{
    const float *logits = samba_generator_logits(n->generator, sequence);
    int64_t count;
    int32_t id = 0;
    const int32_t *ids = samba_generator_ids(n->generator, sequence, &count);
    if (samba_generator_room(n->generator, sequence) < 1) {
        n->ends[sequence] = SAMBA_END_CAPACITY;
        return n->visit ? n->visit(n->user, sequence, -1, &n->ends[sequence]) : SAMBA_OK;
    }
    SAMBA_TRY(samba_sample_token(n->context, &n->sampling, logits, samba_generator_vocab(n->generator), ids, count,
                                 n->sampling.temperature > 0 ? uniform_of(n, sequence) : 0, &id));
    return samba_lm_take_token(n, sequence, id);
}

static samba_status loop(samba_lm_generation *n, int64_t going)
{
    const int64_t sequences = samba_generator_sequences(n->generator);
    while (going > 0) {
        SAMBA_TRY(samba_generator_run(n->generator));
        for (int64_t i = 0; i < sequences; i++) {
            if (n->ends[i] || !samba_generator_logits(n->generator, i))
                continue;
            SAMBA_TRY(samba_lm_extend(n, i));
            going -= n->ends[i] != 0;
        }
    }
    return SAMBA_OK;
}

samba_status samba_lm_generate(samba_generator *generator, const samba_generation_options *options, samba_lm_visit *visit,
                               void *user, samba_generation_end *ends)
{
    samba_lm_generation n = {.generator = generator,
                             .context = samba_generator_context(generator),
                             .options = options,
                             .visit = visit,
                             .user = user,
                             .ends = ends};
    const int64_t sequences = samba_generator_sequences(generator);
    SAMBA_TRY(samba_lm_check_sampling(n.context, &options->sampling, &n.sampling));
    if (options->max_new_tokens < 0 || options->max_new_tokens > INT32_MAX || options->stop_count < 0 ||
        (options->stop_count > 0 && !options->stop_ids))
        return samba_fail(n.context, SAMBA_ERROR_ARGUMENT,
                          "generate: max_new_tokens of 0 or more, and the ids of stop_count tokens, are expected");
    int64_t going = 0;
    for (int64_t i = 0; i < sequences; i++) {
        int64_t count;
        samba_generator_ids(generator, i, &count);
        ends[i] = count > 0 && options->max_new_tokens == 0 ? SAMBA_END_LENGTH : (samba_generation_end)0;
        going += count > 0 && options->max_new_tokens > 0;
    }
    n.made = samba_calloc(n.context, sizeof *n.made * (size_t)sequences);
    if (!n.made)
        return SAMBA_ERROR_MEMORY;
    samba_status status = options->draft ? samba_lm_speculate(&n, going) : loop(&n, going);
    samba_free(n.context, n.made, sizeof *n.made * (size_t)sequences);
    return status;
}

samba_status samba_generate(samba_generator *generator, const samba_generation_options *given, samba_generation_end *ends)
{
    samba_generation_options options = samba_generation_defaults();
    SAMBA_NEED(NULL, generator);
    samba_context *context = samba_generator_context(generator);
    SAMBA_NEED(context, ends);
    if (given)
        SAMBA_TRY(samba_options_take(context, "samba_generate", given, sizeof options, &options));
    if (options.stop_string_count != 0 || options.text || options.keep_special)
        return samba_fail(
            context, SAMBA_ERROR_ARGUMENT,
            "samba_generate: stop strings, text and keep_special are of samba_generate_text, which has a tokenizer");
    return samba_lm_generate(generator, &options, NULL, NULL, ends);
}
