/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer.json as a GGUF file's metadata, so that what reads the file has the same ids: byte-level BPE whose normalizer and
 * pre-tokenizer have a name (pre.c), or BPE with U+2581 for spaces and bytes for unknown characters whose merges are those that
 * scores stand for. What else there is in a tokenizer is refused by its component. */
#include "gguf/tokenizer_write.h"

#include <stdlib.h>

typedef struct writer {
    samba_gguf_builder *b;
    samba_context *context;
    const char *path;
    const json_t *tokenizer, *model, *config;
    int64_t count;
    const char **tokens; /* NULL: there is none with this id */
    int64_t *types;
    double *scores;
    int64_t bos, eos; /* -1: none */
    bool begins, ends;
} writer;

static samba_status refuse(const writer *w, const char *component, const char *supported)
{
    return samba_fail(w->context, SAMBA_ERROR_UNSUPPORTED,
                      "%s: GGUF cannot say its %s: supported is %s; without the tokenizer the model can be written", w->path,
                      component, supported);
}

static const json_t *field(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static const char *type_of(const json_t *component)
{
    const char *type = json_string_value(json_object_get(component, "type"));
    return type ? type : "";
}

/* ---- words ---- */

static samba_status put_word(writer *w, const char *token, const json_t *id, int64_t type)
{
    const json_int_t at = json_is_integer(id) ? json_integer_value(id) : -1;
    if (at < 0 || at >= w->count)
        return samba_fail(w->context, SAMBA_ERROR_FORMAT, "%s: a token's id is %lld, and the model has %lld tokens", w->path,
                          (long long)at, (long long)w->count);
    if (w->tokens[at] && strcmp(w->tokens[at], token) != 0)
        return samba_fail(w->context, SAMBA_ERROR_FORMAT, "%s: two tokens have the id %lld", w->path, (long long)at);
    w->tokens[at] = token;
    w->types[at] = type;
    return SAMBA_OK;
}

static bool is_byte(const char *token)
{
    unsigned byte;
    int end = 0;
    return sscanf(token, "<0x%2X>%n", &byte, &end) == 1 && end == 6 && token[6] == '\0';
}

static samba_status read_words(writer *w, bool bytes_apart)
{
    const json_t *vocab = field(w->model, "vocab"), *added = field(w->tokenizer, "added_tokens");
    const char *unknown = json_string_value(field(w->model, "unk_token")), *token;
    json_t *id, *one;
    size_t i;
    SAMBA_TRY(SAMBA_ROOM(&w->b->arena, w->tokens, w->count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->b->arena, w->types, w->count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->b->arena, w->scores, w->count + 1));
    json_object_foreach((json_t *)vocab, token, id)
        SAMBA_TRY(put_word(w, token, id, bytes_apart && is_byte(token) ? SAMBA_GGUF_BYTE : SAMBA_GGUF_NORMAL));
    json_array_foreach(added, i, one)
    {
        const char *content = json_string_value(field(one, "content"));
        const bool odd =
            json_is_true(field(one, "lstrip")) || json_is_true(field(one, "rstrip")) || json_is_true(field(one, "single_word"));
        if (odd || !content || !content[0])
            return refuse(w, "added tokens", "those that take no spaces with them (lstrip, rstrip, single_word)");
        const bool is_unknown = unknown && strcmp(content, unknown) == 0;
        SAMBA_TRY(put_word(w, content, field(one, "id"),
                           is_unknown                            ? SAMBA_GGUF_UNKNOWN
                           : json_is_true(field(one, "special")) ? SAMBA_GGUF_CONTROL
                                                                 : SAMBA_GGUF_USER_DEFINED));
    }
    return SAMBA_OK;
}

static void write_words(writer *w)
{
    samba_gguf_builder *b = w->b;
    char unused[32];
    samba_gguf_put_array(b, "tokenizer.ggml.tokens", SAMBA_GGUF_STRING, w->count);
    for (int64_t i = 0; i < w->count; i++) {
        snprintf(unused, sizeof unused, "[PAD%lld]", (long long)i);
        const char *token = w->tokens[i] ? w->tokens[i] : unused;
        samba_gguf_add_text(b, token, strlen(token));
    }
    samba_gguf_put_array(b, "tokenizer.ggml.token_type", SAMBA_GGUF_INT32, w->count);
    for (int64_t i = 0; i < w->count; i++)
        samba_gguf_add_integer(b, w->tokens[i] ? (int32_t)w->types[i] : SAMBA_GGUF_UNUSED);
}

static int64_t id_of(const writer *w, const char *token)
{
    for (int64_t i = 0; i < w->count && token; i++)
        if (w->tokens[i] && strcmp(w->tokens[i], token) == 0)
            return i;
    return -1;
}

/* ---- special tokens ---- */

static const char *text_of(const json_t *config, const char *key)
{
    const json_t *value = field(config, key);
    return json_string_value(json_is_object(value) ? field(value, "content") : value);
}

/* One token before the text, one behind it, or none. */
static samba_status read_template(writer *w, const json_t *component)
{
    const json_t *single = field(component, "single");
    bool inside = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i), *special = field(piece, "SpecialToken");
        if (!special) {
            inside = true;
            continue;
        }
        bool *flag = inside ? &w->ends : &w->begins;
        int64_t *id = inside ? &w->eos : &w->bos;
        const int64_t given = id_of(w, json_string_value(field(special, "id")));
        if (*flag || given < 0 || (*id >= 0 && *id != given))
            return refuse(w, "post_processor",
                          "one token at the begin and one at the end, the tokenizer's bos_token and eos_token");
        *flag = true;
        *id = given;
    }
    return SAMBA_OK;
}

static samba_status read_around(writer *w, const json_t *component)
{
    const json_t *list = field(component, "processors");
    const char *type = type_of(component);
    if (!component || strcmp(type, "ByteLevel") == 0)
        return SAMBA_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(w, component);
    if (strcmp(type, "Sequence") != 0)
        return refuse(w, "post_processor", "TemplateProcessing");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (strcmp(type_of(one), "ByteLevel") != 0 && strcmp(type_of(one), "TemplateProcessing") != 0)
            return refuse(w, "post_processor", "TemplateProcessing");
        SAMBA_TRY(read_around(w, one));
    }
    return SAMBA_OK;
}

static samba_status write_specials(writer *w)
{
    static const char *const others[][2] = {{"pad_token", "padding"}, {"sep_token", "seperator"}, {"mask_token", "mask"}};
    const char *const unknown = json_string_value(field(w->model, "unk_token"));
    char key[64];
    int64_t id = id_of(w, unknown ? unknown : text_of(w->config, "unk_token"));
    w->bos = id_of(w, text_of(w->config, "bos_token"));
    w->eos = id_of(w, text_of(w->config, "eos_token"));
    SAMBA_TRY(read_around(w, field(w->tokenizer, "post_processor")));
    if (w->bos >= 0)
        samba_gguf_put_integer(w->b, "tokenizer.ggml.bos_token_id", w->bos);
    if (w->eos >= 0)
        samba_gguf_put_integer(w->b, "tokenizer.ggml.eos_token_id", w->eos);
    if (id >= 0)
        samba_gguf_put_integer(w->b, "tokenizer.ggml.unknown_token_id", id);
    for (int i = 0; i < SAMBA_COUNT(others); i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", others[i][1]);
        if ((id = id_of(w, text_of(w->config, others[i][0]))) >= 0)
            samba_gguf_put_integer(w->b, key, id);
    }
    samba_gguf_put_flag(w->b, "tokenizer.ggml.add_bos_token", w->begins);
    samba_gguf_put_flag(w->b, "tokenizer.ggml.add_eos_token", w->ends);
    return SAMBA_OK;
}

/* ---- merges ---- */

/* The two sides of a merge, which older files have as one text. */
static bool sides(const json_t *merge, char left[512], char right[512])
{
    const char *text = json_string_value(merge), *space = text && text[0] ? strchr(text + 1, ' ') : NULL;
    const char *a = json_string_value(json_array_get(merge, 0)), *c = json_string_value(json_array_get(merge, 1));
    int sizes[2] = {-1, -1};
    if (space) {
        sizes[0] = snprintf(left, 512, "%.*s", (int)(space - text < 512 ? space - text : 512), text);
        sizes[1] = snprintf(right, 512, "%s", space + 1);
    } else if (a && c) {
        sizes[0] = snprintf(left, 512, "%s", a);
        sizes[1] = snprintf(right, 512, "%s", c);
    }
    return sizes[0] > 0 && sizes[1] > 0 && sizes[0] < 512 && sizes[1] < 512;
}

static samba_status wrong_merge(const writer *w, size_t i)
{
    return samba_fail(w->context, SAMBA_ERROR_UNSUPPORTED,
                      "%s: merge %zu is none of two tokens of at most 511 bytes without spaces, as GGUF has them", w->path, i);
}

static samba_status write_merges(writer *w)
{
    const json_t *merges = field(w->model, "merges");
    char left[512], right[512], both[1024];
    samba_gguf_put_array(w->b, "tokenizer.ggml.merges", SAMBA_GGUF_STRING, (int64_t)json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        if (!sides(json_array_get(merges, i), left, right) || strchr(left, ' ') || strchr(right, ' '))
            return wrong_merge(w, i);
        const int size = snprintf(both, sizeof both, "%s %s", left, right);
        samba_gguf_add_text(w->b, both, (size_t)size);
    }
    return SAMBA_OK;
}

/* Tokens made by merges have the first one's place as their score; all merges of a token stand together, or a score could not say
 * them. `pairs` gets each merge as one text. */
static samba_status score(writer *w, json_t *ids, json_t *pairs)
{
    const json_t *merges = field(w->model, "merges");
    const int64_t count = (int64_t)json_array_size(merges);
    char left[512], right[512], both[1024];
    int64_t last = -1;
    for (int64_t i = 0; i < w->count; i++)
        w->scores[i] = w->types[i] == SAMBA_GGUF_NORMAL ? -(double)(count + 1 + i) : 0;
    for (size_t i = 0; i < (size_t)count; i++) {
        if (!sides(json_array_get(merges, i), left, right))
            return wrong_merge(w, i);
        snprintf(both, sizeof both, "%s%s", left, right);
        const json_t *id = json_object_get(ids, both);
        const int64_t made = id ? json_integer_value(id) : -1;
        if (made < 0 || (made != last && w->scores[made] > -(double)(count + 1)))
            return refuse(w, "merges", "those of SentencePiece, which scores of tokens can say");
        if (made != last)
            w->scores[made] = -(double)(i + 1);
        last = made;
        snprintf(both, sizeof both, "%s %s", left, right);
        if (json_object_set_new(pairs, both, json_true()) != 0)
            return samba_fail(w->context, SAMBA_ERROR_MEMORY, "%s: no memory for its merges", w->path);
    }
    return SAMBA_OK;
}

/* The merges that a reader makes of the scores are all those of the file. */
static samba_status compare(const writer *w, const json_t *pairs)
{
    json_t *made = NULL;
    char left[512], right[512], both[1024];
    samba_status status = samba_gguf_merges_of_scores(w->context, w->path, w->count, w->tokens, w->scores, w->types, &made);
    bool same = status == SAMBA_OK && json_array_size(made) == json_object_size(pairs);
    for (size_t i = 0; same && i < json_array_size(made); i++) {
        same = sides(json_array_get(made, i), left, right);
        snprintf(both, sizeof both, "%s %s", left, right);
        same = same && json_object_get(pairs, both);
    }
    json_decref(made);
    if (status == SAMBA_OK && !same)
        status = refuse(w, "merges", "those of SentencePiece, which scores of tokens can say");
    return status;
}

static samba_status write_scores(writer *w)
{
    json_t *ids = json_object(), *pairs = json_object();
    samba_status status = SAMBA_OK;
    for (int64_t i = 0; i < w->count; i++) {
        if (!w->tokens[i])
            w->tokens[i] = "", w->types[i] = SAMBA_GGUF_UNUSED;
        if (w->types[i] == SAMBA_GGUF_NORMAL && json_object_set_new(ids, w->tokens[i], json_integer(i)) != 0)
            status = samba_fail(w->context, SAMBA_ERROR_MEMORY, "%s: no memory for its tokens", w->path);
    }
    if (status == SAMBA_OK)
        status = score(w, ids, pairs);
    if (status == SAMBA_OK)
        status = compare(w, pairs);
    for (int64_t i = 0; i < w->count; i++)
        if (w->types[i] == SAMBA_GGUF_UNUSED)
            w->tokens[i] = NULL;
    json_decref(ids);
    json_decref(pairs);
    SAMBA_TRY(status);
    samba_gguf_put_array(w->b, "tokenizer.ggml.scores", SAMBA_GGUF_FLOAT32, w->count);
    for (int64_t i = 0; i < w->count; i++)
        samba_gguf_add_number(w->b, (float)w->scores[i]);
    return SAMBA_OK;
}

/* ---- the two kinds ---- */

static samba_status write_byte_level(writer *w)
{
    const samba_gguf_pre *pre = samba_gguf_pre_of(field(w->tokenizer, "normalizer"), field(w->tokenizer, "pre_tokenizer"),
                                                  json_is_true(field(w->model, "ignore_merges")));
    if (!pre)
        return refuse(w, "normalizer, pre_tokenizer and ignore_merges",
                      "what these names stand for: gpt-2, llama-bpe, qwen2, tekken, "
                      "smollm, falcon, olmo");
    samba_gguf_put_text(w->b, "tokenizer.ggml.model", "gpt2", 4);
    samba_gguf_put_text(w->b, "tokenizer.ggml.pre", pre->name, strlen(pre->name));
    SAMBA_TRY(read_words(w, false));
    write_words(w);
    return write_merges(w);
}

static samba_status write_spaces(writer *w, bool prefix)
{
    if (json_is_true(field(w->model, "ignore_merges")))
        return refuse(w, "ignore_merges", "false");
    samba_gguf_put_text(w->b, "tokenizer.ggml.model", "llama", 5);
    samba_gguf_put_text(w->b, "tokenizer.ggml.pre", "default", 7);
    SAMBA_TRY(read_words(w, true));
    write_words(w);
    samba_gguf_put_flag(w->b, "tokenizer.ggml.add_space_prefix", prefix);
    return write_scores(w);
}

/* Whether spaces are U+2581, and a text begins with one. */
static bool has_spaces(const writer *w, bool *prefix)
{
    const json_t *normalizer = field(w->tokenizer, "normalizer"), *splitter = field(w->tokenizer, "pre_tokenizer");
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        json_t *expected = samba_gguf_space_normalizer(i == 0);
        found = normalizer && !splitter && json_equal(expected, normalizer);
        *prefix = i == 0;
        json_decref(expected);
    }
    const char *scheme = json_string_value(field(splitter, "prepend_scheme"));
    if (found || normalizer || strcmp(type_of(splitter), "Metaspace") != 0 || !scheme || !json_is_false(field(splitter, "split")))
        return found;
    *prefix = strcmp(scheme, "always") == 0;
    return *prefix || strcmp(scheme, "never") == 0;
}

static void write_templates(writer *w)
{
    const json_t *chat = field(w->config, "chat_template");
    char key[160];
    if (json_is_string(chat))
        samba_gguf_put_text(w->b, "tokenizer.chat_template", json_string_value(chat), json_string_length(chat));
    for (size_t i = 0; i < json_array_size(chat); i++) {
        const json_t *one = json_array_get(chat, i), *text = field(one, "template");
        const char *name = json_string_value(field(one, "name"));
        if (!name || !json_is_string(text) || strlen(name) > 100)
            continue;
        const bool usual = strcmp(name, "default") == 0;
        snprintf(key, sizeof key, "tokenizer.chat_template%s%s", usual ? "" : ".", usual ? "" : name);
        samba_gguf_put_text(w->b, key, json_string_value(text), json_string_length(text));
    }
}

samba_status samba_gguf_put_tokenizer(samba_gguf_builder *b, const char *path, const json_t *tokenizer, const json_t *config,
                                      int64_t vocab_size)
{
    writer w = {.b = b,
                .context = b->context,
                .path = path,
                .tokenizer = tokenizer,
                .model = field(tokenizer, "model"),
                .config = config,
                .count = vocab_size};
    bool prefix;
    const bool bytes = json_is_true(field(w.model, "byte_fallback"));
    const char *type = type_of(w.model);
    if (strcmp(type, "BPE") != 0 && !(type[0] == '\0' && field(w.model, "merges")))
        return refuse(&w, "model", "BPE");
    if (field(w.model, "continuing_subword_prefix") && json_string_length(field(w.model, "continuing_subword_prefix")) > 0)
        return refuse(&w, "continuing_subword_prefix", "none");
    if (field(w.model, "end_of_word_suffix") && json_string_length(field(w.model, "end_of_word_suffix")) > 0)
        return refuse(&w, "end_of_word_suffix", "none");
    if (bytes && !has_spaces(&w, &prefix))
        return refuse(&w, "normalizer and pre_tokenizer",
                      "U+2581 for spaces, and one before each text or none (Replace, Prepend, Metaspace always or never)");
    SAMBA_TRY(bytes ? write_spaces(&w, prefix) : write_byte_level(&w));
    SAMBA_TRY(write_specials(&w));
    write_templates(&w);
    return b->status;
}
