/* SPDX-License-Identifier: Apache-2.0
 *
 * A request as a job: its prompts as tokens, which must leave room for some more, and a text for each prompt and each of the n
 * that were asked for. What is made here is of the job's context. */
#include "serve/serve.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { ENOUGH = 4096 }; /* tokens of a chat that asks for no number, where sequences slide and have no end of their own */

static samba_status encode(samba_context *context, const samba_serve_model *model, const char *text, size_t length, bool special,
                           samba_token_list *prompt)
{
    return samba_tokenizer_encode(context, model->tokenizer, text, length, special, prompt);
}

static samba_status take_ids(samba_context *context, const json_t *list, samba_token_list *prompt)
{
    const size_t count = json_array_size(list);
    if (count == 0)
        return SAMBA_OK;
    prompt->ids = samba_alloc(context, sizeof(int32_t) * count);
    if (!prompt->ids)
        return SAMBA_ERROR_MEMORY;
    prompt->count = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_int_t id = json_integer_value(json_array_get(list, i));
        prompt->ids[i] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
    }
    return SAMBA_OK;
}

static samba_status encode_chat(samba_context *context, const samba_serve_model *model, samba_serve_request *request,
                                samba_token_list *prompt)
{
    const samba_chat_options options = {.struct_size = sizeof options, .add_generation_prompt = true};
    samba_chat_text text;
    if (!model->template)
        return samba_serve_refuse(context, &request->problem, NULL, "no_chat_template", "this model does not chat: %s",
                                  model->no_template);
    char *messages = json_dumps(request->messages, 0);
    if (!messages)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for the messages");
    samba_status status = samba_chat_render(context, model->template, messages, strlen(messages), &options, &text);
    free(messages);
    SAMBA_TRY(status);
    status = encode(context, model, text.text, text.length, false, prompt);
    samba_chat_text_free(context, &text);
    return status;
}

static samba_status read_prompt(samba_context *context, const samba_serve_model *model, samba_serve_request *request,
                                const json_t *value, samba_token_list *prompt)
{
    if (request->kind == SAMBA_SERVE_CHAT)
        return encode_chat(context, model, request, prompt);
    if (json_is_string(value))
        return encode(context, model, json_string_value(value), json_string_length(value), true, prompt);
    return take_ids(context, value, prompt);
}

/* The generator is shared: what it would refuse is refused before. */
static samba_status check_prompt(samba_context *context, const samba_serve_model *model, samba_serve_request *request,
                                 const samba_token_list *prompt)
{
    const char *param = request->kind == SAMBA_SERVE_CHAT ? "messages" : "prompt";
    if (prompt->count == 0)
        return samba_serve_refuse(context, &request->problem, param, "invalid_value",
                                  "a prompt has no tokens: give it some text");
    if (prompt->count >= model->capacity)
        return samba_serve_refuse(context, &request->problem, param, "context_length_exceeded",
                                  "the prompt has %lld tokens and there is room for %lld, the answer's among them: give less "
                                  "text, or start the server with a greater --capacity",
                                  (long long)prompt->count, (long long)model->capacity);
    for (int64_t i = 0; i < prompt->count; i++)
        if (prompt->ids[i] < 0 || prompt->ids[i] >= model->vocab)
            return samba_serve_refuse(context, &request->problem, param, "invalid_value",
                                      "%s: the id at place %lld (from 0) is none of the model's vocabulary of %lld tokens", param,
                                      (long long)i, (long long)model->vocab);
    return SAMBA_OK;
}

/* The value of a prompt in the request. */
static const json_t *prompt_at(const samba_serve_request *request, int64_t i)
{
    const json_t *given = request->prompt;
    const bool several = json_is_array(given) && !json_is_integer(json_array_get(given, 0));
    return several ? json_array_get(given, (size_t)i) : given;
}

static samba_status fill_prompts(samba_context *context, const samba_serve_model *model, samba_serve_request *request,
                                 samba_serve_job *job)
{
    for (int64_t i = 0; i < job->prompt_count; i++) {
        SAMBA_TRY(read_prompt(context, model, request, prompt_at(request, i), &job->prompts[i]));
        SAMBA_TRY(check_prompt(context, model, request, &job->prompts[i]));
    }
    return SAMBA_OK;
}

/* A text that begins with its prompt. */
static samba_status echo(samba_context *context, const samba_serve_model *model, const json_t *value, samba_serve_text *t)
{
    samba_token_text decoded = {0};
    const bool is_text = json_is_string(value);
    if (!is_text)
        SAMBA_TRY(samba_tokenizer_decode(context, model->tokenizer, t->prompt, t->prompt_count, true, &decoded));
    const char *bytes = is_text ? json_string_value(value) : decoded.text;
    const size_t length = is_text ? json_string_length(value) : decoded.length;
    samba_status status = SAMBA_GROW(context, t->text, t->room, (int64_t)length + 1);
    if (status == SAMBA_OK) {
        memcpy(t->text, bytes, length);
        t->length = t->settled = (int64_t)length;
    }
    samba_token_text_free(context, &decoded);
    return status;
}

static int64_t count_prompts(const samba_serve_request *request)
{
    const json_t *given = request->prompt;
    const bool list = request->kind == SAMBA_SERVE_COMPLETION && json_is_array(given);
    return list && !json_is_integer(json_array_get(given, 0)) ? (int64_t)json_array_size(given) : 1;
}

static samba_status draw_seed(samba_context *context, samba_serve_request *request)
{
    if (request->seeded)
        request->sampling.seed = (uint64_t)request->seed;
    else if (getrandom(&request->sampling.seed, sizeof request->sampling.seed, 0) != sizeof request->sampling.seed)
        return samba_fail(context, SAMBA_ERROR_FILE, "the system gives no random numbers: %s", strerror(errno));
    return SAMBA_OK;
}

static samba_status fill(samba_context *context, const samba_serve_model *model, samba_serve_request *request,
                         samba_serve_job *job)
{
    SAMBA_TRY(draw_seed(context, request));
    job->prompts = samba_calloc(context, sizeof *job->prompts * (size_t)job->prompt_count);
    job->texts = samba_calloc(context, sizeof *job->texts * (size_t)job->text_count);
    if (!job->prompts || !job->texts)
        return SAMBA_ERROR_MEMORY;
    SAMBA_TRY(fill_prompts(context, model, request, job));
    for (int64_t i = 0; i < job->text_count; i++) {
        const samba_token_list *list = &job->prompts[i / request->n];
        job->texts[i] = (samba_serve_text){.job = job, .place = i % request->n, .prompt = list->ids, .prompt_count = list->count};
        if (request->echo)
            SAMBA_TRY(echo(context, model, prompt_at(request, i / request->n), &job->texts[i]));
    }
    return SAMBA_OK;
}

samba_status samba_serve_job_new(samba_context *context, const samba_serve_model *model, samba_serve_request *request,
                                 samba_serve_job **made)
{
    const int64_t prompts = count_prompts(request);
    pthread_condattr_t clock;
    *made = NULL;
    if (prompts > SAMBA_SERVE_MOST_TEXTS / request->n)
        return samba_serve_refuse(context, &request->problem, request->n > 1 ? "n" : "prompt", "invalid_value",
                                  "%lld prompts with n of %lld are more than the %d texts that an answer may have",
                                  (long long)prompts, (long long)request->n, SAMBA_SERVE_MOST_TEXTS);
    samba_serve_job *job = samba_calloc(context, sizeof *job);
    if (!job)
        return SAMBA_ERROR_MEMORY;
    *job = (samba_serve_job){.context = context, .request = request, .prompt_count = prompts, .text_count = prompts * request->n};
    job->open = job->text_count;
    const int64_t asked = request->max_tokens ? request->max_tokens : request->max_completion_tokens;
    const int64_t all = model->capacity < INT64_MAX ? model->capacity : ENOUGH;
    job->most = asked ? asked : request->kind == SAMBA_SERVE_CHAT ? all : 16; /* OpenAI's */
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&job->changed, &clock);
    pthread_condattr_destroy(&clock);
    samba_status status = fill(context, model, request, job);
    if (status == SAMBA_OK)
        *made = job;
    else
        samba_serve_job_free(job);
    return status;
}

void samba_serve_job_free(samba_serve_job *job)
{
    if (!job)
        return;
    samba_context *context = job->context;
    for (int64_t i = 0; job->prompts && i < job->prompt_count; i++)
        samba_token_list_free(context, &job->prompts[i]);
    for (int64_t i = 0; job->texts && i < job->text_count; i++) {
        samba_token_stream_free(job->texts[i].stream);
        samba_free(context, job->texts[i].text, (size_t)job->texts[i].room);
    }
    samba_free(context, job->prompts, sizeof *job->prompts * (size_t)job->prompt_count);
    samba_free(context, job->texts, sizeof *job->texts * (size_t)job->text_count);
    pthread_cond_destroy(&job->changed);
    samba_free(context, job, sizeof *job);
}
