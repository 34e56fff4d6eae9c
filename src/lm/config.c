/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json: values by key, each checked for its kind and range. Keys that were asked for are noted, so that in the end one
 * that nobody knows is refused instead of ignored: it may change what the model computes. change_nothing has those that do not.
 *
 * The first failure sticks, as a graph's does: readers of architectures check nothing. */
#include "lm/lm.h"

#include <string.h>

#define SHOWN_VALUE 72

/* About tasks, tokens, storage and how text is generated: the logits are the same whatever they say. */
static const char *const change_nothing[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "_num_labels",
    "_sliding_window_pattern",
    "architectures",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "min_length",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

void samba_lm_config_init(samba_lm_config *config, samba_context *context, const char *path, const char *within,
                          const json_t *json)
{
    *config = (samba_lm_config){.context = context, .path = path, .within = within, .json = json};
}

/* The value as JSON, in ASCII, cut. */
static const char *shown(const json_t *value, char text[SHOWN_VALUE])
{
    const size_t most = SHOWN_VALUE - 4; /* of a piece that does not fit nothing is written */
    if (!value)
        return "not there";
    memset(text, 0, SHOWN_VALUE);
    size_t length = json_dumpb(value, text, most, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    if (length == 0 || length > most)
        strcat(text, "...");
    return text;
}

static void fail(samba_lm_config *c, samba_status status, const char *key, const char *what, const char *words)
{
    char text[SHOWN_VALUE];
    if (c->status == SAMBA_OK)
        c->status = samba_fail(c->context, status, "%s: \"%s%s\" is %s: %s %s", c->path, c->within, key,
                               shown(json_object_get(c->json, key), text), what, words);
}

void samba_lm_refuse(samba_lm_config *c, const char *key, const char *supported)
{
    fail(c, SAMBA_ERROR_UNSUPPORTED, key, "supported is", supported);
}

void samba_lm_wrong(samba_lm_config *c, const char *key, const char *expected)
{
    fail(c, SAMBA_ERROR_FORMAT, key, "expected is", expected);
}

const json_t *samba_lm_ask(samba_lm_config *c, const char *key)
{
    bool known = false;
    for (int i = 0; i < c->asked_count && !known; i++)
        known = strcmp(c->asked[i], key) == 0;
    if (!known && c->asked_count == SAMBA_LM_MOST_KEYS) {
        if (c->status == SAMBA_OK)
            c->status = samba_fail(c->context, SAMBA_ERROR_INTERNAL, "an architecture has more than %d keys", SAMBA_LM_MOST_KEYS);
        return NULL;
    }
    if (!known)
        c->asked[c->asked_count++] = key;
    const json_t *value = json_object_get(c->json, key);
    return json_is_null(value) ? NULL : value;
}

bool samba_lm_is_null(samba_lm_config *c, const char *key)
{
    samba_lm_ask(c, key);
    return json_is_null(json_object_get(c->json, key));
}

int64_t samba_lm_integer(samba_lm_config *c, const char *key, int64_t otherwise, int64_t low, int64_t high)
{
    const json_t *value = samba_lm_ask(c, key);
    if (!value)
        return otherwise;
    if (json_is_integer(value) && json_integer_value(value) >= low && json_integer_value(value) <= high)
        return json_integer_value(value);
    char expected[96];
    snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)low, (long long)high);
    samba_lm_wrong(c, key, expected);
    return otherwise;
}

double samba_lm_number(samba_lm_config *c, const char *key, double otherwise, double low, double high)
{
    const json_t *value = samba_lm_ask(c, key);
    if (!value)
        return otherwise;
    if (json_is_number(value) && json_number_value(value) >= low && json_number_value(value) <= high)
        return json_number_value(value);
    char expected[96];
    snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
    samba_lm_wrong(c, key, expected);
    return otherwise;
}

bool samba_lm_flag(samba_lm_config *c, const char *key, bool otherwise)
{
    const json_t *value = samba_lm_ask(c, key);
    if (!value)
        return otherwise;
    if (!json_is_boolean(value))
        samba_lm_wrong(c, key, "true or false");
    return json_is_true(value);
}

const char *samba_lm_word(samba_lm_config *c, const char *key, const char *otherwise)
{
    const json_t *value = samba_lm_ask(c, key);
    if (!value)
        return otherwise;
    if (!json_is_string(value)) {
        samba_lm_wrong(c, key, "a string");
        return otherwise;
    }
    return json_string_value(value);
}

void samba_lm_only(samba_lm_config *c, const char *key, bool supported)
{
    if (samba_lm_flag(c, key, supported) != supported)
        samba_lm_refuse(c, key, supported ? "true" : "false");
}

static bool is_known(const samba_lm_config *c, const char *key)
{
    for (int i = 0; i < c->asked_count; i++)
        if (strcmp(c->asked[i], key) == 0)
            return true;
    for (int i = 0; i < SAMBA_COUNT(change_nothing); i++)
        if (!c->within[0] && strcmp(change_nothing[i], key) == 0)
            return true;
    return false;
}

samba_status samba_lm_config_finish(samba_lm_config *c)
{
    const char *key;
    json_t *value;
    char text[SHOWN_VALUE], name[SAMBA_SHOWN];
    SAMBA_TRY(c->status);
    json_object_foreach((json_t *)c->json, key, value)
    {
        /* what null, false and nothing ask for is nothing */
        bool asks = !json_is_null(value) && !json_is_false(value) && !(json_is_array(value) && json_array_size(value) == 0) &&
                    !(json_is_object(value) && json_object_size(value) == 0);
        if (asks && !is_known(c, key))
            return c->status = samba_fail(c->context, SAMBA_ERROR_UNSUPPORTED,
                                          "%s: \"%s%.100s\" is %s, and nothing here knows that key: remove it where it does not "
                                          "change what the model computes",
                                          c->path, c->within, samba_shown(key, name), shown(value, text));
    }
    return SAMBA_OK;
}
