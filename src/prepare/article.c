/* SPDX-License-Identifier: Apache-2.0
 *
 * A line as an article: pairs of a prompt and a completion, each tokenized apart, with the types of their tokens. docs/prepare.md
 * has the rules. What makes a line broken is found without its tokens, so that one pass over the input finds all of them. */
#include "prepare/prepare.h"
#include "text/text.h"

typedef struct reading {
    samba_preparation *p;
    samba_worker *w;
    const samba_line *line;
    samba_article *article;
    bool rounded; /* its whole numbers are read as real ones, since one does not fit into 64 bits */
} reading;

static samba_status break_line(const reading *r, const char *words, const char *name)
{
    r->article->bad = true;
    return samba_fail(r->w->context, SAMBA_ERROR_FORMAT, "%s, line %lld: %s%s%.100s%s", r->p->input, (long long)r->line->number,
                      words, name ? " \"" : "", name ? name : "", name ? "\"" : "");
}

/* ---- tokens ---- */
static samba_status add_tokens(samba_worker *w, const int32_t *ids, int64_t count, uint8_t type)
{
    const int64_t needed = w->tokens + count;
    if (needed > w->id_capacity)
        SAMBA_TRY(SAMBA_GROW(w->context, w->ids, w->id_capacity, needed));
    if (needed > w->type_capacity)
        SAMBA_TRY(SAMBA_GROW(w->context, w->types, w->type_capacity, needed));
    if (count > 0)
        memcpy(w->ids + w->tokens, ids, (size_t)count * sizeof *ids);
    memset(w->types + w->tokens, type, (size_t)count);
    w->tokens = needed;
    return SAMBA_OK;
}

static samba_status check_ids(const reading *r, const int32_t *ids, int64_t count)
{
    const int64_t most = r->p->vocab_size ? r->p->vocab_size : INT64_MAX;
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= most)
            return samba_fail(
                r->w->context, SAMBA_ERROR_FORMAT,
                "%s, line %lld: its token %d is not below the vocabulary's size, %lld: take the model's own tokenizer, "
                "or another vocab_size",
                r->p->input, (long long)r->line->number, ids[i], (long long)r->p->vocab_size);
    return SAMBA_OK;
}

/* Those of a text alone. */
static samba_status encode(const reading *r, const char *text, size_t length, bool special, const int32_t **ids, int64_t *count)
{
    const samba_preparation *p = r->p;
    samba_status status = samba_token_encoder_run(r->w->encoder, text, length, special, ids, count);
    if (status != SAMBA_OK) {
        char words[512];
        snprintf(words, sizeof words, "%s", samba_error_message(r->w->context));
        return samba_fail(r->w->context, status, "%s, line %lld: %s", p->input, (long long)r->line->number, words);
    }
    return check_ids(r, *ids, *count);
}

/* The tokens of a text, without the one that ends it, and behind others without the one that begins it. */
static samba_status tokenize(const reading *r, const char *text, size_t length, bool behind, uint8_t type)
{
    const samba_preparation *p = r->p;
    const int32_t *ids;
    int64_t count;
    SAMBA_TRY(encode(r, text, length, true, &ids, &count));
    if (count > 0 && ids[count - 1] == p->eos)
        count--;
    bool begins = behind && count > 0 && p->bos >= 0 && ids[0] == p->bos;
    return add_tokens(r->w, ids + begins, count - begins, type);
}

static samba_status end_pair(const reading *r, int64_t begin, int32_t category)
{
    samba_worker *w = r->w;
    SAMBA_TRY(add_tokens(w, &r->p->eos, 1, SAMBA_TOKEN_COMPLETION));
    if (r->p->o.attention_boundary == SAMBA_BOUNDARY_PAIR)
        w->types[w->tokens - 1] = SAMBA_TOKEN_ARTICLE_END;
    if (w->pair_count == w->pair_capacity)
        SAMBA_TRY(SAMBA_GROW(w->context, w->pairs, w->pair_capacity, w->pair_count + 1));
    w->pairs[w->pair_count++] = (samba_pair){w->tokens - begin, category};
    r->article->pairs++;
    return SAMBA_OK;
}

/* ---- jsonl ---- */
static samba_status put(samba_worker *w, const char *text, size_t size)
{
    const int64_t needed = w->text_size + (int64_t)size;
    if (needed > w->text_capacity)
        SAMBA_TRY(SAMBA_GROW(w->context, w->text, w->text_capacity, needed));
    if (size > 0)
        memcpy(w->text + w->text_size, text, size);
    w->text_size = needed;
    return SAMBA_OK;
}

static samba_status tokenize_prompt(const reading *r, const char *prompt, size_t length)
{
    const samba_prepare_options *o = &r->p->o;
    const char *prefix = o->prompt_prefix ? o->prompt_prefix : "", *postfix = o->prompt_postfix ? o->prompt_postfix : "";
    r->w->text_size = 0;
    SAMBA_TRY(put(r->w, prefix, strlen(prefix)));
    SAMBA_TRY(put(r->w, prompt, length));
    SAMBA_TRY(put(r->w, postfix, strlen(postfix)));
    return tokenize(r, r->w->text, (size_t)r->w->text_size, false, SAMBA_TOKEN_PROMPT);
}

static samba_status tokenize_completion(const reading *r, const char *completion, size_t length, bool behind)
{
    if (r->p->o.disable_space_separator)
        return tokenize(r, completion, length, behind, SAMBA_TOKEN_COMPLETION);
    while (length > 0 && completion[0] == ' ')
        completion++, length--;
    r->w->text_size = 0;
    SAMBA_TRY(put(r->w, " ", 1));
    SAMBA_TRY(put(r->w, completion, length));
    return tokenize(r, r->w->text, (size_t)r->w->text_size, behind, SAMBA_TOKEN_COMPLETION);
}

static samba_status read_pair(const reading *r, const json_t *prompt, const json_t *completion, int32_t category)
{
    const samba_prepare_options *o = &r->p->o;
    const char *before = json_string_value(prompt), *text = json_string_value(completion);
    size_t length = json_string_length(prompt), size = json_string_length(completion);
    const int64_t begin = r->w->tokens;
    while (!o->disable_space_separator && length > 0 && before[length - 1] == ' ')
        length--;
    if (size == 0 && (length == 0 || !o->keep_prompt_only_sequences))
        return SAMBA_OK;
    if (!r->p->tokenize) {
        r->article->pairs++;
        return SAMBA_OK;
    }
    if (length > 0)
        SAMBA_TRY(tokenize_prompt(r, before, length));
    if (size > 0)
        SAMBA_TRY(tokenize_completion(r, text, size, r->w->tokens > begin));
    return end_pair(r, begin, category);
}

static samba_status find_category(const reading *r, const json_t *object, int32_t *category)
{
    const json_t *name = json_object_get(object, "category");
    *category = -1;
    if (!r->p->categories || !name)
        return SAMBA_OK;
    const json_t *id = json_is_string(name) ? json_object_get(r->p->categories, json_string_value(name)) : NULL;
    if (!id)
        return break_line(r, "a category that the file of categories does not have:", json_string_value(name));
    *category = (int32_t)json_integer_value(id);
    return SAMBA_OK;
}

/* A conversation's text has the template's own tokens around it. What the assistant says is tokenized apart from the rest. */
static samba_status tokenize_chat(const reading *r, const samba_spoken *spoken, int32_t category)
{
    const int64_t begin = r->w->tokens, length = (int64_t)spoken->text.length;
    for (int64_t at = 0, i = 0; at < length; i++) {
        const samba_chat_span span = i < spoken->count ? spoken->spans[i] : (samba_chat_span){length, length};
        const int64_t from = span.begin > at ? span.begin : at, to = span.end > from ? span.end : from;
        const int32_t *ids;
        int64_t count;
        if (at < from) {
            SAMBA_TRY(encode(r, spoken->text.text + at, (size_t)(from - at), false, &ids, &count));
            SAMBA_TRY(add_tokens(r->w, ids, count, SAMBA_TOKEN_PROMPT));
        }
        if (from < to) {
            SAMBA_TRY(encode(r, spoken->text.text + from, (size_t)(to - from), false, &ids, &count));
            SAMBA_TRY(add_tokens(r->w, ids, count, SAMBA_TOKEN_COMPLETION));
        }
        at = to;
    }
    if (r->w->tokens > begin && r->w->ids[r->w->tokens - 1] == r->p->eos)
        r->w->tokens--;
    return end_pair(r, begin, category);
}

static samba_status read_chat(const reading *r, const json_t *object, int32_t category)
{
    samba_spoken spoken;
    char words[512];
    samba_status status = samba_chat_read(r->p, r->w->context, object, &spoken);
    if (status == SAMBA_ERROR_FORMAT || status == SAMBA_ERROR_ARGUMENT || status == SAMBA_ERROR_UNSUPPORTED) {
        snprintf(words, sizeof words, "%s", samba_error_message(r->w->context));
        r->article->bad = status != SAMBA_ERROR_UNSUPPORTED;
        status = samba_fail(r->w->context, r->article->bad ? SAMBA_ERROR_FORMAT : status, "%s, line %lld: %s", r->p->input,
                            (long long)r->line->number, words);
    } else if (status == SAMBA_OK && (spoken.count > 0 || r->p->o.keep_prompt_only_sequences)) {
        if (r->p->tokenize)
            status = tokenize_chat(r, &spoken, category);
        else
            r->article->pairs++;
    }
    samba_chat_end(r->w->context, &spoken);
    return status;
}

static bool has_number(const json_t *value)
{
    bool has = json_is_number(value);
    for (size_t i = 0; i < json_array_size(value) && !has; i++)
        has = has_number(json_array_get(value, i));
    for (void *at = json_object_iter((json_t *)(uintptr_t)value); at && !has;
         at = json_object_iter_next((json_t *)(uintptr_t)value, at))
        has = has_number(json_object_iter_value(at));
    return has;
}

static samba_status read_object(const reading *r, const json_t *object)
{
    const samba_prepare_options *o = &r->p->o;
    const char *prompt_name = o->prompt_keyword ? o->prompt_keyword : "prompt";
    const char *completion_name = o->completion_keyword ? o->completion_keyword : "completion";
    int32_t category;
    if (!json_is_object(object))
        return break_line(r, "expected an object, or a list of objects, with the member", completion_name);
    const json_t *prompt = json_object_get(object, prompt_name), *completion = json_object_get(object, completion_name);
    if (!completion && !prompt && json_object_get(object, "messages")) {
        if (r->rounded && (has_number(json_object_get(object, "messages")) || has_number(json_object_get(object, "tools"))))
            return break_line(r, "a number of a conversation beside a whole number of more than 64 bits", NULL);
        SAMBA_TRY(find_category(r, object, &category));
        return read_chat(r, object, category);
    }
    if (!completion && !prompt)
        completion = json_object_get(object, "text");
    if (!completion)
        return break_line(r, "there is no member", completion_name);
    if (!json_is_string(completion))
        return break_line(r, "no string is the member", completion_name);
    if (prompt && !json_is_string(prompt))
        return break_line(r, "no string is the member", prompt_name);
    SAMBA_TRY(find_category(r, object, &category));
    return read_pair(r, prompt, completion, category);
}

static samba_status read_json(const reading *r, const char *text, size_t length)
{
    json_error_t error;
    reading own = *r;
    json_t *json = json_loadb(text, length, JSON_ALLOW_NUL, &error);
    if (!json && json_error_code(&error) == json_error_numeric_overflow) { /* an id of more than 63 bits in some member */
        json = json_loadb(text, length, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
        own.rounded = true;
    }
    if (!json)
        return break_line(r, error.text, NULL);
    samba_status status = SAMBA_OK;
    if (!json_is_array(json))
        status = read_object(&own, json);
    for (size_t i = 0; i < json_array_size(json) && status == SAMBA_OK; i++)
        status = read_object(&own, json_array_get(json, i));
    json_decref(json);
    return status;
}

static bool is_blank(const samba_line *line)
{
    for (int64_t i = 0; i < line->length; i++)
        if (!strchr(" \t\r\n", line->text[i]) || !line->text[i])
            return false;
    return true;
}

static samba_status read_jsonl(const reading *r)
{
    samba_chars mended = {0};
    const size_t length = (size_t)r->line->length;
    if (is_blank(r->line)) {
        r->article->there = false;
        return SAMBA_OK;
    }
    if (samba_utf8_valid(r->line->text, length) == length)
        return read_json(r, r->line->text, length);
    samba_status status = samba_utf8_mend(r->w->context, (samba_str){r->line->text, length}, &mended);
    if (status == SAMBA_OK)
        status = read_json(r, mended.data, (size_t)mended.size);
    samba_chars_free(r->w->context, &mended);
    return status;
}

/* ---- */
static samba_status read_text(const reading *r)
{
    const int64_t begin = r->w->tokens;
    if (!r->p->tokenize)
        return SAMBA_OK;
    SAMBA_TRY(tokenize(r, r->line->text, (size_t)r->line->length, false, SAMBA_TOKEN_COMPLETION));
    return end_pair(r, begin, -1);
}

samba_status samba_article_read(samba_preparation *p, samba_worker *worker, const samba_line *line, samba_article *article)
{
    const reading r = {.p = p, .w = worker, .line = line, .article = article};
    article->there = true;
    article->bad = false;
    article->first_token = worker->tokens;
    article->first_pair = worker->pair_count;
    samba_status status = p->text ? read_text(&r) : read_jsonl(&r);
    if (article->bad && p->o.skip_bad) {
        worker->tokens = article->first_token;
        worker->pair_count = article->first_pair;
        article->there = false;
        return SAMBA_OK;
    }
    if (article->pairs > 0 && p->tokenize && p->o.attention_boundary == SAMBA_BOUNDARY_JSONL)
        worker->types[worker->tokens - 1] = SAMBA_TOKEN_ARTICLE_END;
    return status;
}
