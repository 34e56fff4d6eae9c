/* SPDX-License-Identifier: Apache-2.0
 *
 * A body of JSON as a request: one table of all parameters that OpenAI's API has for the two kinds of requests, and of our own.
 * What has no effect here is refused by its name unless its value asks for nothing; so is a name that is not in the table. A
 * value null counts as not given. */
#include "serve/serve.h"

#include <math.h>
#include <string.h>

enum { BOTH = SAMBA_SERVE_COMPLETION | SAMBA_SERVE_CHAT };

typedef enum form {
    FLAG,    /* bool */
    TEXT,    /* const char * */
    INTEGER, /* int64_t in [low, high] */
    REAL,    /* double in [low, high] */
    OTHER,   /* what `take` makes of it */
    NOTHING  /* one of `neutral`, a JSON list, since it has no effect */
} form;

typedef struct row {
    int kinds;
    const char *name;
    form form;
    size_t at;
    double low, high;
    const char *neutral;
    samba_status (*take)(samba_context *context, const json_t *value, samba_serve_request *request);
} row;

samba_status samba_serve_refuse(samba_context *context, samba_serve_problem *problem, const char *param, const char *code,
                                const char *format, ...)
{
    char message[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    problem->status = 400;
    problem->code = code;
    samba_show(param ? param : "", false, problem->param, sizeof problem->param);
    return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s", message);
}

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a text";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return "null";
    }
}

static samba_status mistype(samba_context *context, samba_serve_request *request, const char *name, const char *expected,
                            const json_t *value)
{
    return samba_serve_refuse(context, &request->problem, name, "invalid_type", "%s: expected %s, given %s", name, expected,
                              kind_of(value));
}

/* ---- values of their own forms ---- */

static samba_status take_stop(samba_context *context, const json_t *value, samba_serve_request *request)
{
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count > SAMBA_SERVE_MOST_STOPS)
        return samba_serve_refuse(context, &request->problem, "stop", "invalid_value",
                                  "stop: expected at most %d texts, given %zu", SAMBA_SERVE_MOST_STOPS, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(text))
            return mistype(context, request, "stop", "a text or a list of texts", text);
        if (json_string_length(text) == 0)
            return samba_serve_refuse(context, &request->problem, "stop", "invalid_value",
                                      "stop: an empty text is everywhere: give some");
        request->stops[i] = json_string_value(text);
    }
    request->stop_count = (int64_t)count;
    return SAMBA_OK;
}

static samba_status take_stream_options(samba_context *context, const json_t *value, samba_serve_request *request)
{
    const char *name;
    const json_t *each;
    if (!json_is_object(value))
        return mistype(context, request, "stream_options", "an object", value);
    void *at = json_object_iter((json_t *)(uintptr_t)value);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)value, at)) {
        name = json_object_iter_key(at);
        each = json_object_iter_value(at);
        if (strcmp(name, "include_usage") != 0) {
            char shown[SAMBA_SHOWN];
            return samba_serve_refuse(context, &request->problem, "stream_options", "unknown_parameter",
                                      "stream_options: expected include_usage alone, given '%.80s'", samba_shown(name, shown));
        }
        if (!json_is_null(each) && !json_is_boolean(each))
            return mistype(context, request, "stream_options.include_usage", "true or false", each);
        request->usage = json_is_true(each);
    }
    return SAMBA_OK;
}

static samba_status take_prompt(samba_context *context, const json_t *value, samba_serve_request *request)
{
    const char *expected = "a text, a list of texts, a list of tokens' ids, or a list of such lists";
    if (!json_is_string(value) && !json_is_array(value))
        return mistype(context, request, "prompt", expected, value);
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count == 0)
        return samba_serve_refuse(context, &request->problem, "prompt", "empty_array", "prompt: the list is empty");
    const json_type type = json_is_array(value) ? json_typeof(json_array_get(value, 0)) : JSON_STRING;
    for (size_t i = 0; json_is_array(value) && i < count; i++) {
        const json_t *each = json_array_get(value, i);
        if (json_typeof(each) != type || (type != JSON_STRING && type != JSON_INTEGER && type != JSON_ARRAY))
            return mistype(context, request, "prompt", expected, each);
        for (size_t k = 0; type == JSON_ARRAY && k < json_array_size(each); k++)
            if (!json_is_integer(json_array_get(each, k)))
                return mistype(context, request, "prompt", expected, json_array_get(each, k));
    }
    request->prompt = value;
    return SAMBA_OK;
}

/* ---- the table ---- */

#define AT(field) .at = offsetof(samba_serve_request, field)
#define MOST_TOKENS 2147483647.0

static const row rows[] = {
    {BOTH, "model", TEXT, AT(model)},
    {SAMBA_SERVE_COMPLETION, "prompt", OTHER, .take = take_prompt},
    {SAMBA_SERVE_CHAT, "messages", OTHER, .take = samba_serve_messages_read},
    {BOTH, "max_tokens", INTEGER, AT(max_tokens), 1, MOST_TOKENS},
    {SAMBA_SERVE_CHAT, "max_completion_tokens", INTEGER, AT(max_completion_tokens), 1, MOST_TOKENS},
    {BOTH, "n", INTEGER, AT(n), 1, SAMBA_SERVE_MOST_TEXTS},
    {BOTH, "stop", OTHER, .take = take_stop},
    {BOTH, "stream", FLAG, AT(stream)},
    {BOTH, "stream_options", OTHER, .take = take_stream_options},
    {BOTH, "temperature", REAL, AT(sampling.temperature), 0, 1e6},
    {BOTH, "top_p", REAL, AT(sampling.top_p), 0, 1},
    {BOTH, "seed", INTEGER, AT(seed), -0x1p63, 0x1p63},
    {SAMBA_SERVE_COMPLETION, "echo", FLAG, AT(echo)},
    /* not OpenAI's, but spelled as everywhere else */
    {BOTH, "top_k", INTEGER, AT(sampling.top_k), 0, MOST_TOKENS},
    {BOTH, "min_p", REAL, AT(sampling.min_p), 0, 1},
    {BOTH, "repetition_penalty", REAL, AT(sampling.repetition_penalty), 0, 1e6},
    /* who asks, which says nothing about the answer */
    {BOTH, "user", TEXT, .at = SIZE_MAX},
    {BOTH, "frequency_penalty", NOTHING, .neutral = "[0]"},
    {BOTH, "presence_penalty", NOTHING, .neutral = "[0]"},
    {BOTH, "logit_bias", NOTHING, .neutral = "[{}]"},
    {SAMBA_SERVE_COMPLETION, "best_of", NOTHING, .neutral = "[1]"},
    {SAMBA_SERVE_COMPLETION, "suffix", NOTHING, .neutral = "[\"\"]"},
    {SAMBA_SERVE_COMPLETION, "logprobs", NOTHING, .neutral = "[]"},
    {SAMBA_SERVE_CHAT, "logprobs", NOTHING, .neutral = "[false]"},
    {SAMBA_SERVE_CHAT, "top_logprobs", NOTHING, .neutral = "[0]"},
    {SAMBA_SERVE_CHAT, "tools", NOTHING, .neutral = "[[]]"},
    {SAMBA_SERVE_CHAT, "tool_choice", NOTHING, .neutral = "[\"none\", \"auto\"]"},
    {SAMBA_SERVE_CHAT, "parallel_tool_calls", NOTHING, .neutral = "[true]"},
    {SAMBA_SERVE_CHAT, "functions", NOTHING, .neutral = "[[]]"},
    {SAMBA_SERVE_CHAT, "function_call", NOTHING, .neutral = "[\"none\", \"auto\"]"},
    {SAMBA_SERVE_CHAT, "response_format", NOTHING, .neutral = "[{\"type\": \"text\"}]"},
    {SAMBA_SERVE_CHAT, "modalities", NOTHING, .neutral = "[[\"text\"]]"},
    {SAMBA_SERVE_CHAT, "store", NOTHING, .neutral = "[false]"},
    {SAMBA_SERVE_CHAT, "metadata", NOTHING, .neutral = "[{}]"},
    {SAMBA_SERVE_CHAT, "service_tier", NOTHING, .neutral = "[\"auto\", \"default\"]"},
    {SAMBA_SERVE_CHAT, "verbosity", NOTHING, .neutral = "[\"medium\"]"},
    {SAMBA_SERVE_CHAT, "reasoning_effort", NOTHING, .neutral = "[\"none\"]"},
    {SAMBA_SERVE_CHAT, "audio", NOTHING, .neutral = "[]"},
    {SAMBA_SERVE_CHAT, "prediction", NOTHING, .neutral = "[]"},
    {SAMBA_SERVE_CHAT, "web_search_options", NOTHING, .neutral = "[]"},
    {SAMBA_SERVE_CHAT, "safety_identifier", NOTHING, .neutral = "[]"},
    {SAMBA_SERVE_CHAT, "prompt_cache_key", NOTHING, .neutral = "[]"},
    {SAMBA_SERVE_CHAT, "prompt_cache_retention", NOTHING, .neutral = "[]"},
};

static bool equals(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b)
                                                  : json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b) != 0;
}

static samba_status take_nothing(samba_context *context, const row *r, const json_t *value, samba_serve_request *request)
{
    json_t *neutral = json_loads(r->neutral, 0, NULL);
    bool found = false;
    if (!neutral)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for a request");
    for (size_t i = 0; i < json_array_size(neutral); i++)
        found |= equals(json_array_get(neutral, i), value);
    const bool none = json_array_size(neutral) == 0;
    json_decref(neutral);
    if (found)
        return SAMBA_OK;
    return samba_serve_refuse(context, &request->problem, r->name, "unsupported_parameter",
                              "%s is not supported here: leave it out%s%s", r->name, none ? "" : ", or give one of ",
                              none ? "" : r->neutral);
}

static samba_status out_of_range(samba_context *context, samba_serve_request *request, const row *r)
{
    return samba_serve_refuse(context, &request->problem, r->name, "invalid_value", "%s: expected a number from %.0f to %.0f",
                              r->name, r->low, r->high);
}

static samba_status take(samba_context *context, const row *r, const json_t *value, samba_serve_request *request)
{
    void *to = (char *)request + (r->at == SIZE_MAX ? 0 : r->at);
    switch (r->form) {
    case FLAG:
        if (!json_is_boolean(value))
            return mistype(context, request, r->name, "true or false", value);
        *(bool *)to = json_is_true(value);
        return SAMBA_OK;
    case TEXT:
        if (!json_is_string(value))
            return mistype(context, request, r->name, "a text", value);
        if (r->at != SIZE_MAX)
            *(const char **)to = json_string_value(value);
        return SAMBA_OK;
    case INTEGER:
        if (!json_is_integer(value))
            return mistype(context, request, r->name, "a whole number", value);
        if ((double)json_integer_value(value) < r->low || (double)json_integer_value(value) > r->high)
            return out_of_range(context, request, r);
        *(int64_t *)to = json_integer_value(value);
        request->seeded |= to == (void *)&request->seed;
        return SAMBA_OK;
    case REAL:
        if (!json_is_number(value))
            return mistype(context, request, r->name, "a number", value);
        if (!(json_number_value(value) >= r->low && json_number_value(value) <= r->high))
            return out_of_range(context, request, r);
        *(double *)to = json_number_value(value);
        return SAMBA_OK;
    case OTHER: return r->take(context, value, request);
    case NOTHING: return take_nothing(context, r, value, request);
    }
    return samba_fail(context, SAMBA_ERROR_INTERNAL, "a parameter without a form");
}

static samba_status refuse_unknown(samba_context *context, const char *name, samba_serve_request *request)
{
    const char *known[SAMBA_COUNT(rows)];
    char shown[SAMBA_SHOWN];
    int count = 0;
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        if (rows[i].kinds & request->kind && rows[i].form != NOTHING)
            known[count++] = rows[i].name;
    const char *near = samba_nearest(name, known, count);
    return samba_serve_refuse(context, &request->problem, name, "unknown_parameter", "there is no parameter '%.100s' here%s%s%s",
                              samba_shown(name, shown), near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- the whole ---- */

/* The word that a refusal of samba_sample_token begins with is the parameter's name. */
static samba_status check_sampling(samba_context *context, samba_serve_request *request)
{
    int32_t token;
    const samba_status status = samba_sample_token(context, &request->sampling, (const float[]){1}, 1, NULL, 0, 0, &token);
    if (status != SAMBA_ERROR_ARGUMENT)
        return status;
    char message[512], param[32];
    snprintf(message, sizeof message, "%s", samba_error_message(context));
    snprintf(param, sizeof param, "%.*s", (int)strcspn(message, " "), message);
    return samba_serve_refuse(context, &request->problem, param, "invalid_value", "%s", message);
}

static samba_status check(samba_context *context, samba_serve_request *request)
{
    samba_serve_problem *problem = &request->problem;
    if (request->kind == SAMBA_SERVE_COMPLETION && !request->prompt)
        return samba_serve_refuse(context, problem, "prompt", "missing_required_parameter", "there is no prompt: give some text");
    if (request->kind == SAMBA_SERVE_CHAT && !request->messages)
        return samba_serve_refuse(context, problem, "messages", "missing_required_parameter",
                                  "there are no messages: give a list of some");
    if (request->max_tokens && request->max_completion_tokens && request->max_tokens != request->max_completion_tokens)
        return samba_serve_refuse(context, problem, "max_tokens", "invalid_value",
                                  "max_tokens and max_completion_tokens are one and differ: give one of them");
    if (request->usage && !request->stream)
        return samba_serve_refuse(context, problem, "stream_options", "invalid_value",
                                  "stream_options have no effect without stream: usage is a part of the answer");
    return check_sampling(context, request);
}

samba_status samba_serve_request_read(samba_context *context, samba_serve_kind kind, const char *body, size_t length,
                                      samba_serve_request *request)
{
    json_error_t error;
    *request = (samba_serve_request){.kind = kind, .n = 1, .sampling = samba_sampling_defaults()};
    request->sampling.temperature = 1; /* as OpenAI's */
    request->json = json_loadb(body, length, JSON_REJECT_DUPLICATES, &error);
    if (!request->json && json_error_code(&error) == json_error_out_of_memory)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for a request");
    if (!request->json) {
        char shown[SAMBA_SHOWN];
        return samba_serve_refuse(context, &request->problem, NULL, "invalid_json",
                                  "the body is no JSON (line %d, column %d): %.200s", error.line, error.column,
                                  samba_shown(error.text, shown));
    }
    if (!json_is_object(request->json))
        return samba_serve_refuse(context, &request->problem, NULL, "invalid_json", "the body is %s: expected an object",
                                  kind_of(request->json));
    for (void *at = json_object_iter(request->json); at; at = json_object_iter_next(request->json, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *value = json_object_iter_value(at);
        int i = 0;
        while (i < SAMBA_COUNT(rows) && (!(rows[i].kinds & kind) || strcmp(rows[i].name, name) != 0))
            i++;
        if (i == SAMBA_COUNT(rows))
            return refuse_unknown(context, name, request);
        if (!json_is_null(value))
            SAMBA_TRY(take(context, &rows[i], value, request));
    }
    return check(context, request);
}

void samba_serve_request_free(samba_serve_request *request)
{
    json_decref(request->messages);
    json_decref(request->json);
    *request = (samba_serve_request){0};
}
