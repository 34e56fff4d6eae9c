/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations: the text that the model's chat template makes of one, and which parts of it the assistant says, the only ones
 * that are learned. A template may mark them; else an answer is what the template writes between the conversation up to it, with
 * the prompt to answer, and the conversation that ends in it. Where that is no part of the whole text, since a template changes
 * what it has written as the conversation goes on, nothing says which words are whose. */
#include "prepare/prepare.h"

#include <stdlib.h>
#include <string.h>

/* Noon of the 26th of July 2024, for templates that write the date: results do not depend on the day. */
#define NOW 1721995200

typedef struct asking {
    const samba_preparation *p;
    samba_context *context;
    char *tools;
} asking;

static samba_status render(const asking *a, const json_t *messages, bool prompts, bool spans, samba_chat_text *text)
{
    const samba_chat_options options = {
        .struct_size = sizeof options, .add_generation_prompt = prompts, .spans = spans, .tools = a->tools, .now = NOW};
    *text = (samba_chat_text){0};
    char *dumped = json_dumps(messages, JSON_COMPACT);
    if (!dumped)
        return samba_fail(a->context, SAMBA_ERROR_MEMORY, "no memory");
    samba_status status = samba_chat_render(a->context, a->p->chat, dumped, strlen(dumped), &options, text);
    free(dumped);
    return status;
}

/* How much of the text the conversation so far is; FORMAT where it is not how the text begins. */
static samba_status find_end(const asking *a, const json_t *messages, bool prompts, const samba_chat_text *text, int64_t *end)
{
    samba_chat_text part;
    SAMBA_TRY(render(a, messages, prompts, false, &part));
    bool begins = part.length <= text->length && memcmp(part.text, text->text, part.length) == 0;
    *end = (int64_t)part.length;
    samba_chat_text_free(a->context, &part);
    return begins
               ? SAMBA_OK
               : samba_fail(a->context, SAMBA_ERROR_FORMAT,
                            "the chat template does not mark the assistant's words ({%% generation %%}), and writes an answer in "
                            "another way once the conversation goes on: mark them, or part the conversation");
}

static bool is_answer(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

static samba_status add_span(samba_context *context, samba_spoken *spoken, samba_chat_span span)
{
    if (spoken->count == spoken->room)
        SAMBA_TRY(SAMBA_GROW(context, spoken->spans, spoken->room, spoken->count + 1));
    spoken->spans[spoken->count++] = span;
    return SAMBA_OK;
}

static samba_status add_spans(const asking *a, const json_t *messages, samba_spoken *spoken)
{
    const size_t count = json_array_size(messages);
    json_t *so_far = json_array();
    samba_status status = so_far ? SAMBA_OK : samba_fail(a->context, SAMBA_ERROR_MEMORY, "no memory");
    for (size_t i = 0; i < count && status == SAMBA_OK; i++) {
        json_t *message = json_array_get(messages, i);
        samba_chat_span span = {0, 0};
        const bool answer = is_answer(message);
        if (answer && i == 0)
            status = samba_fail(a->context, SAMBA_ERROR_FORMAT,
                                "the conversation begins with the assistant, whose words the chat template does not mark "
                                "({%% generation %%}): put a message before them");
        else if (answer)
            status = find_end(a, so_far, true, &spoken->text, &span.begin);
        json_array_append(so_far, message);
        if (answer && status == SAMBA_OK)
            status = find_end(a, so_far, false, &spoken->text, &span.end);
        if (answer && status == SAMBA_OK && span.begin < span.end)
            status = add_span(a->context, spoken, span);
    }
    json_decref(so_far);
    return status;
}

samba_status samba_chat_read(const samba_preparation *p, samba_context *context, const json_t *object, samba_spoken *spoken)
{
    const json_t *messages = json_object_get(object, "messages"), *tools = json_object_get(object, "tools");
    asking a = {p, context, NULL};
    *spoken = (samba_spoken){0};
    if (json_array_size(messages) == 0)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "\"messages\" is no list of messages");
    if (!p->chat)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED, "a conversation needs a chat template: %s", p->chat_reason);
    if (json_is_array(tools) && !(a.tools = json_dumps(tools, JSON_COMPACT)))
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory");
    const bool marks = samba_chat_template_marks(p->chat);
    samba_status status = render(&a, messages, false, marks, &spoken->text);
    spoken->spans = spoken->text.spans;
    spoken->count = spoken->text.span_count;
    if (status == SAMBA_OK && !marks)
        status = add_spans(&a, messages, spoken);
    free(a.tools);
    return status;
}

void samba_chat_end(samba_context *context, samba_spoken *spoken)
{
    if (spoken->room)
        samba_free(context, spoken->spans, (size_t)spoken->room * sizeof *spoken->spans);
    samba_chat_text_free(context, &spoken->text);
    *spoken = (samba_spoken){0};
}
