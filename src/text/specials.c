/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens have a purpose: as tokenizer_config.json and special_tokens_map.json beside the tokenizer say ("bos_token": a
 * text, or an object with its "content"), and for unknown text as the model says. These files are read for their texts alone:
 * where one is not there or is damaged, it says nothing. GPT-2's two files, which have no list of added tokens, are read here
 * too. */
#include "text/read.h"

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
/* The special tokens that the files beside them name and the vocabulary has; else <|endoftext|>. */
static samba_status add_specials(const samba_reader *r, const char *folder)
{
    samba_added tokens[SAMBA_COUNT(FIELDS)];
    int64_t count = 0;
    json_t *map = open_beside(folder, "special_tokens_map.json");
    for (int i = 0; i < SAMBA_COUNT(FIELDS); i++) {
        const char *text = map ? text_of(map, FIELDS[i]) : i == 0 ? "<|endoftext|>" : NULL;
        if (text && samba_vocab_id(&r->tokenizer->vocab, text, strlen(text)) >= 0)
            tokens[count++] = (samba_added){.text = {text, strlen(text)}, .special = true};
    }
    samba_status status = SAMBA_OK;
    for (int64_t i = 0; status == SAMBA_OK && i < count; i++) { /* the JSON's texts go with it */
        char *copy;
        status = samba_arena_copy(r->arena, tokens[i].text.data, &copy);
        tokens[i].text.data = copy;
    }
    json_decref(map);
    return status == SAMBA_OK ? samba_add_tokens(r, tokens, count) : status;
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
