/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file's tokenizer as a tokenizer.json. Byte-level BPE ("gpt2") has its merges, and a pre-tokenizer by name.
 * SentencePiece's BPE ("llama") has scores: any two neighbours that are a token together merge, the best first, which as a list
 * of merges is all ways to cut each token in two, in the order of the tokens' scores.
 *
 * Tokens are texts of UTF-8; where one is not, has a NUL or is there twice, no tokenizer.json could say it. */
#include "gguf/tokenizer.h"

#include <stdlib.h>

enum { MOST_MERGED = 512 }; /* bytes of a token that is cut in all ways */

typedef struct vocabulary {
    const samba_gguf *gguf;
    samba_arena arena;
    int64_t count;
    const char **tokens;
    double *scores; /* NULL: there are none */
    int64_t *types;
} vocabulary;

static samba_status no_memory(const samba_gguf *g)
{
    return samba_fail(g->context, SAMBA_ERROR_MEMORY, "%s: no memory for its tokenizer", g->path);
}

static samba_status fail(const samba_gguf *g, const char *key, const char *expected)
{
    char shown[SAMBA_GGUF_SHOWN];
    return samba_fail(g->context, SAMBA_ERROR_FORMAT, "%s: \"%s\" is %s: expected is %s", g->path, key,
                      samba_gguf_shown(samba_gguf_find(g, key), shown), expected);
}

bool samba_gguf_has_tokenizer(const samba_gguf *g)
{
    return samba_gguf_find(g, "tokenizer.ggml.model") || samba_gguf_find(g, "tokenizer.huggingface.json");
}

/* ---- the lists ---- */

static samba_status read_tokens(vocabulary *v)
{
    const samba_gguf_value *list = samba_gguf_find(v->gguf, "tokenizer.ggml.tokens");
    samba_gguf_value element;
    size_t at = 0;
    char *copies;
    if (!list || list->kind != SAMBA_GGUF_ARRAY || list->element != SAMBA_GGUF_STRING || list->count > INT32_MAX)
        return fail(v->gguf, "tokenizer.ggml.tokens", "a list of texts");
    v->count = list->count;
    SAMBA_TRY(SAMBA_ROOM(&v->arena, v->tokens, v->count + 1));
    SAMBA_TRY(samba_arena_room(&v->arena, list->size + 1, &copies)); /* 8 bytes less and a NUL more for each */
    for (int64_t i = 0; samba_gguf_next(list, &at, &element); i++) {
        if (memchr(element.data, '\0', element.size))
            return samba_fail(v->gguf->context, SAMBA_ERROR_UNSUPPORTED, "%s: token %lld has a NUL in it: supported is none",
                              v->gguf->path, (long long)i);
        memcpy(copies, element.data, element.size);
        v->tokens[i] = copies;
        copies += element.size + 1;
    }
    return SAMBA_OK;
}

static samba_status read_types(vocabulary *v)
{
    static const char *const key = "tokenizer.ggml.token_type";
    const samba_gguf_value *list = samba_gguf_find(v->gguf, key);
    samba_gguf_value element;
    size_t at = 0;
    SAMBA_TRY(SAMBA_ROOM(&v->arena, v->types, v->count + 1));
    for (int64_t i = 0; i < v->count; i++) {
        v->types[i] = SAMBA_GGUF_NORMAL;
        if (list && (!samba_gguf_next(list, &at, &element) || list->count != v->count ||
                     !samba_gguf_integer(&element, &v->types[i]) || v->types[i] < 0 || v->types[i] > SAMBA_GGUF_BYTE))
            return fail(v->gguf, key, "a list of numbers from 0 to 6, one for each token");
    }
    return SAMBA_OK;
}

static samba_status read_scores(vocabulary *v)
{
    static const char *const key = "tokenizer.ggml.scores";
    const samba_gguf_value *list = samba_gguf_find(v->gguf, key);
    if (!list)
        return SAMBA_OK;
    if (list->count != v->count || list->kind != SAMBA_GGUF_ARRAY)
        return fail(v->gguf, key, "a list of numbers, one for each token");
    SAMBA_TRY(SAMBA_ROOM(&v->arena, v->scores, v->count + 1));
    return samba_gguf_numbers(list, v->count, v->scores) ? SAMBA_OK : fail(v->gguf, key, "a list of numbers, one for each token");
}

/* ---- merges ---- */

/* "left right" as pairs. */
static samba_status merges_of_list(const samba_gguf *g, const samba_gguf_value *list, json_t **merges)
{
    samba_gguf_value element;
    size_t at = 0;
    *merges = json_array();
    if (list->kind != SAMBA_GGUF_ARRAY || (list->count > 0 && list->element != SAMBA_GGUF_STRING))
        return fail(g, "tokenizer.ggml.merges", "a list of texts, two tokens and a space between them each");
    while (samba_gguf_next(list, &at, &element)) {
        /* the first may begin with a space itself */
        const char *space = element.size > 1 ? memchr(element.data + 1, ' ', element.size - 1) : NULL;
        if (!space || element.size > INT32_MAX)
            return fail(g, "tokenizer.ggml.merges", "a list of texts, two tokens and a space between them each");
        const size_t left = (size_t)(space - element.data);
        json_t *pair = json_array();
        if (json_array_append_new(pair, json_stringn(element.data, left)) != 0 ||
            json_array_append_new(pair, json_stringn(space + 1, element.size - left - 1)) != 0) {
            json_decref(pair);
            return fail(g, "tokenizer.ggml.merges", "a list of texts of UTF-8");
        }
        if (json_array_append_new(*merges, pair) != 0)
            return no_memory(g);
    }
    return SAMBA_OK;
}

typedef struct scored {
    double score;
    int64_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *s = a, *t = b;
    if (s->score != t->score)
        return s->score > t->score ? -1 : 1;
    return (s->id > t->id) - (s->id < t->id);
}

/* All ways to cut a token into two others. */
static samba_status cut(const char *token, const json_t *known, json_t *merges, bool *full)
{
    char left[MOST_MERGED + 1];
    const size_t size = strlen(token);
    for (size_t at = 1; at < size; at++) {
        if (((unsigned char)token[at] & 0xc0) == 0x80)
            continue;
        memcpy(left, token, at);
        left[at] = '\0';
        if (!json_object_get(known, left) || !json_object_get(known, token + at))
            continue;
        json_t *pair = json_pack("[s, s]", left, token + at);
        *full |= json_array_append_new(merges, pair) != 0;
    }
    return SAMBA_OK;
}

static samba_status cut_all(samba_context *context, const char *path, int64_t count, const char *const *tokens, scored *order,
                            const json_t *known, json_t *merges)
{
    bool full = false;
    qsort(order, (size_t)count, sizeof *order, by_score);
    for (int64_t i = 0; i < count && !full; i++) {
        const char *token = tokens[order[i].id];
        if (strlen(token) > MOST_MERGED)
            return samba_fail(context, SAMBA_ERROR_UNSUPPORTED, "%s: token %lld has %zu bytes: supported are %d", path,
                              (long long)order[i].id, strlen(token), MOST_MERGED);
        SAMBA_TRY(cut(token, known, merges, &full));
    }
    return full ? samba_fail(context, SAMBA_ERROR_MEMORY, "%s: no memory for its merges", path) : SAMBA_OK;
}

samba_status samba_gguf_merges_of_scores(samba_context *context, const char *path, int64_t count, const char *const *tokens,
                                         const double *scores, const int64_t *types, json_t **merges)
{
    json_t *known = json_object();
    int64_t normal = 0;
    bool full = false;
    *merges = json_array();
    scored *order = samba_alloc(context, ((size_t)count + 1) * sizeof *order);
    samba_status status = order ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < count && status == SAMBA_OK; i++) {
        if (types[i] != SAMBA_GGUF_NORMAL && types[i] != SAMBA_GGUF_USER_DEFINED)
            continue;
        order[normal++] = (scored){scores[i], i};
        if (scores[i] != scores[i])
            status = samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the score of token %lld is no number", path, (long long)i);
        full |= json_object_set_new(known, tokens[i], json_true()) != 0;
    }
    if (status == SAMBA_OK && full)
        status = samba_fail(context, SAMBA_ERROR_FORMAT, "%s: a token is no UTF-8", path);
    if (status == SAMBA_OK)
        status = cut_all(context, path, normal, tokens, order, known, *merges);
    if (order)
        samba_free(context, order, ((size_t)count + 1) * sizeof *order);
    json_decref(known);
    return status;
}

/* ---- components ---- */

#define SPACE "\xe2\x96\x81"

json_t *samba_gguf_space_normalizer(bool prefix)
{
    json_t *replace = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", SPACE);
    if (!prefix)
        return replace;
    return json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type", "Prepend", "prepend", SPACE, replace);
}

json_t *samba_gguf_space_decoder(bool prefix)
{
    json_t *steps = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern", "String", SPACE, "content",
                              " ", "type", "ByteFallback", "type", "Fuse");
    if (prefix)
        json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

/* The token of an id that a key says; NULL: none. */
static const char *special_of(const vocabulary *v, const char *key, int64_t *id)
{
    return samba_gguf_integer(samba_gguf_find(v->gguf, key), id) && *id >= 0 && *id < v->count ? v->tokens[*id] : NULL;
}

/* The tokens around a text. */
static samba_status make_around(const vocabulary *v, bool begins, json_t *tokenizer)
{
    static const char *const keys[2][2] = {{"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id"},
                                           {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id"}};
    json_t *single = json_array(), *specials = json_object();
    bool full = false;
    for (int i = 0; i < 2; i++) {
        bool wanted = i == 0 && begins;
        int64_t id;
        samba_gguf_flag(samba_gguf_find(v->gguf, keys[i][0]), &wanted);
        const char *token = special_of(v, keys[i][1], &id);
        if (i == 1)
            full |= json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0)) != 0;
        if (!wanted || !token)
            continue;
        full |= json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token, "type_id", 0)) != 0;
        full |= json_object_set_new(specials, token,
                                    json_pack("{s:s, s:[I], s:[s]}", "id", token, "ids", (json_int_t)id, "tokens", token)) != 0;
    }
    json_t *pair = json_deep_copy(single);
    full |= json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1)) != 0;
    full |= json_object_set_new(tokenizer, "post_processor",
                                json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                                          "special_tokens", specials)) != 0;
    return full ? no_memory(v->gguf) : SAMBA_OK;
}

static bool is_added(int64_t type)
{
    return type == SAMBA_GGUF_CONTROL || type == SAMBA_GGUF_USER_DEFINED || type == SAMBA_GGUF_UNKNOWN;
}

/* The vocabulary and what is found in a text before anything else. `inside`: added tokens are in the model's vocabulary too. */
static samba_status make_words(const vocabulary *v, bool inside, json_t *vocab, json_t *added)
{
    for (int64_t i = 0; i < v->count; i++) {
        const char *token = v->tokens[i];
        const bool special = v->types[i] != SAMBA_GGUF_USER_DEFINED;
        if (v->types[i] == SAMBA_GGUF_UNUSED)
            continue;
        if (is_added(v->types[i])) {
            json_t *one = json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i, "content", token, "single_word",
                                    0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", special);
            if (json_array_append_new(added, one) != 0)
                return samba_fail(v->gguf->context, SAMBA_ERROR_FORMAT, "%s: token %lld is no UTF-8", v->gguf->path,
                                  (long long)i);
        }
        if (is_added(v->types[i]) && !inside)
            continue;
        if (json_object_get(vocab, token))
            return samba_fail(v->gguf->context, SAMBA_ERROR_FORMAT, "%s: token %lld is there twice", v->gguf->path, (long long)i);
        if (json_object_set_new(vocab, token, json_integer(i)) != 0)
            return samba_fail(v->gguf->context, SAMBA_ERROR_FORMAT, "%s: token %lld is no UTF-8", v->gguf->path, (long long)i);
    }
    return SAMBA_OK;
}

/* ---- the two kinds ---- */

static samba_status put_components(const samba_gguf *g, json_t *to, json_t *normalizer, json_t *splitter, json_t *decoder)
{
    const bool full = json_object_set_new(to, "normalizer", normalizer) != 0 ||
                      json_object_set_new(to, "pre_tokenizer", splitter) != 0 || json_object_set_new(to, "decoder", decoder) != 0;
    return full ? no_memory(g) : SAMBA_OK;
}

/* Files that do not say it have that of their architecture. */
static samba_status find_pre(const samba_gguf *g, const samba_gguf_pre **pre)
{
    static const char *const usual[][2] = {{"gpt2", "gpt-2"},  {"llama", "llama-bpe"}, {"qwen2", "qwen2"},
                                           {"qwen3", "qwen2"}, {"falcon", "falcon"},   {"gptneox", "olmo"}};
    const samba_gguf_value *value = samba_gguf_find(g, "tokenizer.ggml.pre");
    const samba_gguf_value *kind = samba_gguf_find(g, "general.architecture");
    const char *name = "";
    size_t size = 0;
    char shown[SAMBA_GGUF_SHOWN];
    for (int i = 0; i < SAMBA_COUNT(usual) && !value; i++)
        if (samba_gguf_is_text(kind, usual[i][0]))
            name = usual[i][1], size = strlen(name);
    samba_gguf_text(value, &name, &size);
    *pre = samba_gguf_pre_find(name, size);
    return *pre ? SAMBA_OK
                : samba_fail(g->context, SAMBA_ERROR_UNSUPPORTED, "%s: \"tokenizer.ggml.pre\" is %s: supported are %s", g->path,
                             samba_gguf_shown(value, shown), samba_gguf_pre_names);
}

static samba_status make_byte_level(vocabulary *v, json_t *tokenizer, json_t *model, json_t **merges)
{
    const samba_gguf *g = v->gguf;
    const samba_gguf_value *list = samba_gguf_find(g, "tokenizer.ggml.merges");
    const samba_gguf_pre *pre;
    SAMBA_TRY(find_pre(g, &pre));
    if (!list)
        return fail(g, "tokenizer.ggml.merges", "a list of texts");
    SAMBA_TRY(merges_of_list(g, list, merges));
    if (json_object_set_new(model, "ignore_merges", json_boolean(pre->ignore_merges)) != 0)
        return no_memory(g);
    SAMBA_TRY(put_components(
        g, tokenizer, json_loads(pre->normalizer, JSON_DECODE_ANY, NULL), json_loads(pre->splitter, 0, NULL),
        json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1)));
    return make_around(v, pre->begins, tokenizer);
}

static samba_status make_spaces(vocabulary *v, json_t *tokenizer, json_t *model, json_t **merges)
{
    const samba_gguf *g = v->gguf;
    const samba_gguf_value *list = samba_gguf_find(g, "tokenizer.ggml.merges");
    bool prefix = true, removes = false;
    int64_t id;
    samba_gguf_flag(samba_gguf_find(g, "tokenizer.ggml.add_space_prefix"), &prefix);
    samba_gguf_flag(samba_gguf_find(g, "tokenizer.ggml.remove_extra_whitespaces"), &removes);
    if (removes || samba_gguf_find(g, "tokenizer.ggml.precompiled_charsmap"))
        return samba_fail(
            g->context, SAMBA_ERROR_UNSUPPORTED,
            "%s: a tokenizer that removes spaces or has a \"tokenizer.ggml.precompiled_charsmap\": supported is one "
            "that takes texts as they are",
            g->path);
    if (!list && !v->scores)
        return fail(g, "tokenizer.ggml.scores", "a list of numbers, one for each token");
    SAMBA_TRY(list ? merges_of_list(g, list, merges)
                   : samba_gguf_merges_of_scores(g->context, g->path, v->count, v->tokens, v->scores, v->types, merges));
    const char *unknown = special_of(v, "tokenizer.ggml.unknown_token_id", &id);
    for (int64_t i = 0; i < v->count && !unknown; i++)
        if (v->types[i] == SAMBA_GGUF_UNKNOWN)
            unknown = v->tokens[i];
    if (json_object_set_new(model, "byte_fallback", json_true()) != 0 ||
        json_object_set_new(model, "fuse_unk", json_true()) != 0 ||
        (unknown && json_object_set_new(model, "unk_token", json_string(unknown)) != 0))
        return no_memory(g);
    SAMBA_TRY(put_components(g, tokenizer, samba_gguf_space_normalizer(prefix), json_null(), samba_gguf_space_decoder(prefix)));
    return make_around(v, true, tokenizer);
}

static samba_status make(vocabulary *v, json_t *tokenizer)
{
    const samba_gguf_value *kind = samba_gguf_find(v->gguf, "tokenizer.ggml.model");
    const bool bytes = samba_gguf_is_text(kind, "gpt2"), spaces = samba_gguf_is_text(kind, "llama");
    json_t *model = json_pack("{s:s}", "type", "BPE"), *vocab = json_object(), *added = json_array(), *merges = NULL;
    char shown[SAMBA_GGUF_SHOWN];
    bool full = json_object_set_new(tokenizer, "version", json_string("1.0")) != 0;
    full |= json_object_set_new(tokenizer, "added_tokens", added) != 0 || json_object_set_new(tokenizer, "model", model) != 0;
    full |= json_object_set_new(model, "vocab", vocab) != 0;
    if (full)
        return no_memory(v->gguf);
    if (!bytes && !spaces)
        return samba_fail(v->gguf->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: \"tokenizer.ggml.model\" is %s: supported are \"gpt2\" and \"llama\"", v->gguf->path,
                          samba_gguf_shown(kind, shown));
    SAMBA_TRY(read_tokens(v));
    SAMBA_TRY(read_types(v));
    SAMBA_TRY(read_scores(v));
    SAMBA_TRY(make_words(v, spaces, vocab, added));
    samba_status status = (bytes ? make_byte_level : make_spaces)(v, tokenizer, model, &merges);
    if (status == SAMBA_OK && json_object_set(model, "merges", merges) != 0)
        status = no_memory(v->gguf);
    json_decref(merges);
    return status;
}

/* The whole tokenizer.json, which some files have beside the lists. */
static samba_status take_whole(const samba_gguf *g, const char *text, size_t size, json_t **tokenizer)
{
    json_error_t error;
    *tokenizer = json_loadb(text, size, JSON_ALLOW_NUL, &error);
    if (json_is_object(*tokenizer))
        return SAMBA_OK;
    json_decref(*tokenizer);
    *tokenizer = NULL;
    return fail(g, "tokenizer.huggingface.json", "a JSON object");
}

samba_status samba_gguf_tokenizer_json(const samba_gguf *g, json_t **tokenizer)
{
    const char *text;
    size_t size;
    vocabulary v = {.gguf = g};
    if (samba_gguf_text(samba_gguf_find(g, "tokenizer.huggingface.json"), &text, &size))
        return take_whole(g, text, size, tokenizer);
    *tokenizer = json_object();
    samba_arena_init(&v.arena, g->context);
    samba_status status = make(&v, *tokenizer);
    samba_arena_free(&v.arena);
    if (status != SAMBA_OK) {
        json_decref(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}

/* ---- special tokens, chat templates ---- */

static samba_status add_templates(const samba_gguf *g, json_t *config)
{
    static const char first[] = "tokenizer.chat_template", prefix[] = "tokenizer.chat_template.";
    json_t *named = json_array();
    const char *text;
    size_t size;
    bool full = false;
    for (int64_t i = 0; i < g->entry_count; i++) {
        const char *key = g->entries[i].key;
        const bool has_name = strncmp(key, prefix, sizeof prefix - 1) == 0;
        if ((strcmp(key, first) != 0 && !has_name) || !samba_gguf_text(&g->entries[i].value, &text, &size) || size > INT32_MAX)
            continue;
        full |= json_array_append_new(named, json_pack("{s:s, s:s%}", "name", has_name ? key + sizeof prefix - 1 : "default",
                                                       "template", text, size)) != 0;
    }
    if (json_array_size(named) == 1 && samba_gguf_find(g, first))
        full |= json_object_set(config, "chat_template", json_object_get(json_array_get(named, 0), "template")) != 0;
    else if (json_array_size(named) > 0)
        full |= json_object_set(config, "chat_template", named) != 0;
    json_decref(named);
    return full ? samba_fail(g->context, SAMBA_ERROR_FORMAT, "%s: a chat template is no UTF-8", g->path) : SAMBA_OK;
}

static samba_status add_specials(vocabulary *v, json_t *config)
{
    static const char *const names[][2] = {{"bos_token", "bos"},     {"eos_token", "eos"},       {"unk_token", "unknown"},
                                           {"pad_token", "padding"}, {"sep_token", "seperator"}, {"mask_token", "mask"}};
    char key[64];
    int64_t id;
    bool full = json_object_set_new(config, "clean_up_tokenization_spaces", json_false()) != 0 ||
                json_object_set_new(config, "tokenizer_class", json_string("PreTrainedTokenizerFast")) != 0;
    SAMBA_TRY(samba_gguf_find(v->gguf, "tokenizer.ggml.tokens") ? read_tokens(v) : SAMBA_OK);
    for (int i = 0; i < SAMBA_COUNT(names); i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", names[i][1]);
        const char *token = special_of(v, key, &id);
        full |= token && json_object_set_new(config, names[i][0], json_string(token)) != 0;
    }
    return full ? samba_fail(v->gguf->context, SAMBA_ERROR_FORMAT, "%s: a special token is no UTF-8", v->gguf->path) : SAMBA_OK;
}

samba_status samba_gguf_tokenizer_config(const samba_gguf *g, json_t **config)
{
    vocabulary v = {.gguf = g};
    *config = json_object();
    samba_arena_init(&v.arena, g->context);
    samba_status status = add_specials(&v, *config);
    samba_arena_free(&v.arena);
    if (status == SAMBA_OK)
        status = add_templates(g, *config);
    if (status != SAMBA_OK) {
        json_decref(*config);
        *config = NULL;
    }
    return status;
}
