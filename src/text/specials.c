/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens have a purpose: as tokenizer_config.json and special_tokens_map.json beside the tokenizer say ("bos_token": a
 * text, or an object with its "content"), and for unknown text as the model says. These files are read for their texts alone:
 * where one is not there or is damaged, it says nothing. GPT-2's two files, which have no list of added tokens, are read here
 * too. */
#include "text/read.h"

#include <stdlib.h>

static const char *const FIELDS[] = {"bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token"};

/* NULL: nothing is said. The caller drops it. */
static json_t *open_beside(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || length >= (int)sizeof path)
        return NULL;
    return json_load_file(path, 0, NULL);
}

static const char *text_of(const json_t *json, const char *field)
{
    const json_t *value = json_object_get(json, field);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

void samba_specials_take(samba_tokenizer *t, const json_t *config)
{
    for (int i = 0; i < SAMBA_COUNT(FIELDS); i++) {
        const char *text = text_of(config, FIELDS[i]);
        if (text && t->special[i] < 0)
            t->special[i] = samba_tokenizer_id(t, text);
    }
}

void samba_specials_read(samba_tokenizer *t, const char *folder)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    for (int file = 0; file < SAMBA_COUNT(files); file++) {
        json_t *json = open_beside(folder, files[file]);
        samba_specials_take(t, json);
        json_decref(json);
    }
}

void samba_specials_guess(samba_tokenizer *t)
{
    const int32_t unknown = t->model == SAMBA_MODEL_BPE       ? t->bpe.unknown
                            : t->model == SAMBA_MODEL_UNIGRAM ? t->unigram.unknown
                                                              : t->wordpiece.unknown;
    if (t->special[SAMBA_SPECIAL_UNK] < 0)
        t->special[SAMBA_SPECIAL_UNK] = unknown;
}

/* ---- vocab.json and merges.txt ---- */
enum { MOST_ADDED = 4096 };

typedef struct beside { /* what the files beside them say */
    const samba_reader *r;
    const char *folder;
    samba_added *tokens;
    int64_t count;
    bool named[SAMBA_COUNT(FIELDS)];
    samba_str purpose[SAMBA_COUNT(FIELDS)];
} beside;

static int32_t id_of(const beside *b, samba_str text) { return samba_vocab_id(&b->r->tokenizer->vocab, text.data, text.size); }

/* A token that is found in a text before anything else: a text, or an object with its "content". */
static samba_status add_beside(beside *b, const char *file, const json_t *value, bool special, int64_t id, samba_str *text)
{
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    samba_added token = {.special = special};
    char shown[SAMBA_SHOWN];
    if (!json_is_string(content) || b->count == MOST_ADDED)
        return SAMBA_OK;
    SAMBA_TRY(samba_copy_text(b->r, content, &token.text));
    if (id_of(b, token.text) < 0 || (id >= 0 && id_of(b, token.text) != id)) {
        if (text) /* a purpose that the vocabulary has no token for */
            return SAMBA_OK;
        return samba_fail(b->r->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s/%s: the token \"%.100s\" is none of vocab.json: supported with merges.txt are those of vocab.json, "
                          "so save a tokenizer.json beside them",
                          b->folder, file, samba_shown(token.text.data, shown));
    }
    SAMBA_TRY(samba_read_bool(b->r, file, value, "lstrip", &token.lstrip));
    SAMBA_TRY(samba_read_bool(b->r, file, value, "rstrip", &token.rstrip));
    SAMBA_TRY(samba_read_bool(b->r, file, value, "single_word", &token.single_word));
    SAMBA_TRY(samba_read_bool(b->r, file, value, "special", &token.special));
    if (text)
        *text = token.text;
    b->tokens[b->count++] = token;
    return SAMBA_OK;
}

static samba_status add_file(beside *b, const char *file, const json_t *json)
{
    const json_t *more = json_object_get(json, "additional_special_tokens"),
                 *given = json_object_get(json, "added_tokens_decoder");
    for (int i = 0; i < SAMBA_COUNT(FIELDS); i++) {
        const json_t *value = json_object_get(json, FIELDS[i]);
        if (value && !json_is_null(value) && !b->named[i]) {
            b->named[i] = true;
            SAMBA_TRY(add_beside(b, file, value, true, -1, &b->purpose[i]));
        }
    }
    for (size_t i = 0; i < json_array_size(more); i++)
        SAMBA_TRY(add_beside(b, file, json_array_get(more, i), true, -1, NULL));
    for (void *at = json_object_iter((json_t *)(uintptr_t)given); at; at = json_object_iter_next((json_t *)(uintptr_t)given, at))
        SAMBA_TRY(add_beside(b, file, json_object_iter_value(at), false, atoll(json_object_iter_key(at)), NULL));
    return SAMBA_OK;
}

/* What GPT-2 has where nothing is said, which counts where the vocabulary has it. */
static samba_status add_usual(beside *b)
{
    json_t *usual = json_string("<|endoftext|>");
    samba_status status = usual ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    for (int i = 0; i < SAMBA_COUNT(FIELDS) && status == SAMBA_OK; i++)
        if (!b->named[i] && (i == SAMBA_SPECIAL_BOS || i == SAMBA_SPECIAL_EOS || i == SAMBA_SPECIAL_UNK))
            status = add_beside(b, "vocab.json", usual, true, -1, &b->purpose[i]);
    json_decref(usual);
    return status;
}

/* The token around a text, if it is wanted and there. */
static samba_status put_around(const beside *b, const json_t *config, const char *flag, samba_str text, int32_t **ids,
                               int64_t *count)
{
    if (!json_is_true(json_object_get(config, flag)) || !text.data)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(b->r->arena, *ids, 1));
    **ids = id_of(b, text);
    *count = 1;
    return SAMBA_OK;
}

/* The words of the two files' tokenizer are GPT-2's; what transformers puts around them, its configuration says. */
static samba_status add_config(beside *b, const json_t *config, const json_t *map)
{
    samba_tokenizer *t = b->r->tokenizer;
    const char *kind = json_string_value(json_object_get(config, "tokenizer_class"));
    char shown[SAMBA_SHOWN];
    if (kind && strcmp(kind, "GPT2Tokenizer") != 0 && strcmp(kind, "GPT2TokenizerFast") != 0)
        return samba_fail(
            b->r->context, SAMBA_ERROR_UNSUPPORTED,
            "%s/tokenizer_config.json: \"tokenizer_class\" is \"%.100s\": supported with vocab.json and merges.txt is "
            "GPT2Tokenizer, so save a tokenizer.json beside them",
            b->folder, samba_shown(kind, shown));
    SAMBA_TRY(SAMBA_ROOM(b->r->arena, b->tokens, MOST_ADDED));
    SAMBA_TRY(add_file(b, "tokenizer_config.json", config));
    SAMBA_TRY(add_file(b, "special_tokens_map.json", map));
    SAMBA_TRY(add_usual(b));
    if (json_is_true(json_object_get(config, "add_prefix_space")))
        t->splitter.steps[0].prepend = SAMBA_ALWAYS;
    SAMBA_TRY(put_around(b, config, "add_bos_token", b->purpose[SAMBA_SPECIAL_BOS], &t->around.before, &t->around.before_count));
    SAMBA_TRY(put_around(b, config, "add_eos_token", b->purpose[SAMBA_SPECIAL_EOS], &t->around.behind, &t->around.behind_count));
    return samba_add_tokens(b->r, b->tokens, b->count);
}

static samba_status add_specials(const samba_reader *r, const char *folder)
{
    beside b = {.r = r, .folder = folder};
    json_t *config = open_beside(folder, "tokenizer_config.json"), *map = open_beside(folder, "special_tokens_map.json");
    samba_status status = add_config(&b, config, map);
    json_decref(config);
    json_decref(map);
    return status;
}

static samba_status read_vocab(const samba_reader *r)
{
    void *data;
    size_t size;
    json_t *json;
    SAMBA_TRY(samba_file_read(r->context, r->path, &data, &size));
    samba_status status = samba_json_parse(r->context, r->path, data, size, &json);
    samba_free(r->context, data, size);
    SAMBA_TRY(status);
    status = samba_read_vocab(r, "", json);
    json_decref(json);
    return status;
}

static samba_status read_merges(const samba_reader *r)
{
    void *data;
    size_t size;
    SAMBA_TRY(samba_file_read(r->context, r->path, &data, &size));
    samba_status status = samba_read_merge_lines(r, data, size);
    samba_free(r->context, data, size);
    return status;
}

samba_status samba_gpt2_open(samba_tokenizer *t, const char *folder)
{
    char path[PATH_MAX + 16];
    samba_reader r = {t, t->context, &t->arena, path};
    const samba_text_step split = {.kind = SAMBA_STEP_BYTE_LEVEL, .split = true}, decode = {.kind = SAMBA_STEP_DECODE_BYTES};
    snprintf(path, sizeof path, "%s/vocab.json", folder);
    t->model = SAMBA_MODEL_BPE;
    t->bpe.unknown = -1;
    SAMBA_TRY(read_vocab(&r));
    SAMBA_TRY(samba_read_chars(&r));
    snprintf(path, sizeof path, "%s/merges.txt", folder);
    SAMBA_TRY(read_merges(&r));
    SAMBA_TRY(samba_step_add(&r, "", &t->splitter, split));
    SAMBA_TRY(samba_step_add(&r, "", &t->decoder, decode));
    t->has_decoder = true;
    return add_specials(&r, folder);
}
