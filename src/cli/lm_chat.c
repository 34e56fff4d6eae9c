/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow lm chat --model FOLDER: a conversation. Each line of standard input, or each --message, is what the user says; the
 * folder's chat template makes a text of all that was said so far, and the model continues it. What the cache already has of that
 * text is not run again. */
#include "cli/lm_text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct chat {
    samba_lm_task task;
    samba_chat_template *template;
    json_t *messages;
    char *reply;
    int64_t room, length;
    samba_status status; /* of what a callback met */
    int64_t tokens;      /* new ones, of all replies */
    double seconds;
} chat;

static samba_status say(chat *c, const char *role, const char *text, size_t length)
{
    json_t *content = json_stringn(text, length);
    if (!content)
        return samba_fail(c->task.context, SAMBA_ERROR_ARGUMENT, "what the %s says is no UTF-8 text", role);
    json_t *message = json_object();
    if (json_object_set_new(message, "role", json_string(role)) != 0 || json_object_set_new(message, "content", content) != 0 ||
        json_array_append_new(c->messages, message) != 0)
        return samba_fail(c->task.context, SAMBA_ERROR_MEMORY, "no memory for a message");
    return SAMBA_OK;
}

/* ---- one turn ---- */

static samba_status render(chat *c, samba_chat_text *text)
{
    samba_chat_options options = {.struct_size = sizeof options, .add_generation_prompt = true};
    char *messages = json_dumps(c->messages, 0);
    if (!messages)
        return samba_fail(c->task.context, SAMBA_ERROR_MEMORY, "no memory for the messages");
    samba_status status = samba_chat_render(c->task.context, c->template, messages, strlen(messages), &options, text);
    free(messages);
    return status;
}

/* All tokens of the conversation: behind those that the sequence has where it begins with them, else from the start. */
static samba_status feed(chat *c, const samba_token_list *list)
{
    int64_t had;
    const int32_t *ids = samba_generator_ids(c->task.generator, 0, &had);
    if (had > list->count || (had > 0 && memcmp(ids, list->ids, (size_t)had * sizeof *ids) != 0)) {
        SAMBA_TRY(samba_generator_clear(c->task.generator, 0));
        had = 0;
    }
    return samba_generator_add(c->task.generator, 0, list->ids + had, list->count - had);
}

static samba_status add_conversation(chat *c)
{
    samba_chat_text text;
    samba_token_list list;
    SAMBA_TRY(render(c, &text));
    samba_status status = samba_tokenizer_encode(c->task.context, c->task.tokenizer, text.text, text.length, false, &list);
    samba_chat_text_free(c->task.context, &text);
    SAMBA_TRY(status);
    status = feed(c, &list);
    samba_token_list_free(c->task.context, &list);
    return status;
}

static bool take_text(void *user, int64_t sequence, const char *text, size_t length)
{
    chat *c = user;
    (void)sequence;
    c->status = SAMBA_GROW(c->task.context, c->reply, c->room, c->length + (int64_t)length + 1);
    if (c->status != SAMBA_OK)
        return false;
    memcpy(c->reply + c->length, text, length);
    c->length += (int64_t)length;
    if (c->task.words->json)
        return true;
    fwrite(text, 1, length, stdout);
    return fflush(stdout) == 0;
}

static samba_status turn(chat *c, const char *text, size_t length)
{
    samba_generation_options options = samba_lm_task_options(&c->task);
    samba_generation_end end;
    int64_t before, after;
    SAMBA_TRY(say(c, "user", text, length));
    SAMBA_TRY(add_conversation(c));
    samba_generator_ids(c->task.generator, 0, &before);
    c->length = 0;
    options.text = take_text;
    options.user = c;
    options.sampling.seed += (uint64_t)json_array_size(c->messages); /* another one each turn */
    const double start = samba_seconds();
    SAMBA_TRY(samba_generate_text(c->task.generator, c->task.tokenizer, &options, &end));
    SAMBA_TRY(c->status);
    c->seconds += samba_seconds() - start;
    samba_generator_ids(c->task.generator, 0, &after);
    c->tokens += after - before;
    if (!c->task.words->json)
        putchar('\n');
    if (end == SAMBA_END_CAPACITY)
        fprintf(stderr, "sambaflow: the cache is full: give a greater --capacity\n");
    SAMBA_TRY(samba_flush_output(c->task.context));
    return say(c, "assistant", c->reply ? c->reply : "", (size_t)c->length);
}

/* ---- the conversation ---- */

static samba_status listen(chat *c)
{
    const bool asks = isatty(STDIN_FILENO);
    char *line = NULL;
    size_t room = 0;
    samba_status status = SAMBA_OK;
    while (status == SAMBA_OK) {
        if (asks)
            fputs("> ", stderr);
        errno = 0;
        ssize_t length = getline(&line, &room, stdin);
        if (length < 0 && errno)
            status = samba_fail(c->task.context, SAMBA_ERROR_FILE, "cannot read standard input: %s", strerror(errno));
        if (length < 0)
            break;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            length--;
        if (length > 0)
            status = turn(c, line, (size_t)length);
    }
    free(line);
    return status;
}

static samba_status write_json(const chat *c)
{
    json_t *object = json_object();
    json_object_set(object, "messages", c->messages);
    json_object_set_new(object, "new_tokens", json_integer(c->tokens));
    json_object_set_new(object, "seconds", samba_json_number(c->seconds));
    json_object_set_new(object, "tokens_per_second", samba_json_number(c->seconds > 0 ? (double)c->tokens / c->seconds : 0));
    if (c->task.draft)
        json_object_set_new(object, "draft", samba_lm_task_draft(&c->task));
    char *text = json_dumps(object, JSON_INDENT(2));
    json_decref(object);
    if (!text)
        return samba_fail(c->task.context, SAMBA_ERROR_MEMORY, "no memory for the JSON object");
    puts(text);
    free(text);
    return samba_flush_output(c->task.context);
}

static samba_status talk(chat *c)
{
    const samba_lm_words *p = c->task.words;
    SAMBA_TRY(samba_chat_template_open(c->task.context, p->model, p->template, &c->template));
    SAMBA_TRY(samba_lm_task_open(&c->task, 1, true));
    if (p->system)
        SAMBA_TRY(say(c, "system", p->system, strlen(p->system)));
    for (int i = 0; i < p->prompt_count; i++)
        SAMBA_TRY(turn(c, p->prompts[i].text, strlen(p->prompts[i].text)));
    if (p->prompt_count == 0)
        SAMBA_TRY(listen(c));
    if (p->json)
        SAMBA_TRY(write_json(c));
    fprintf(stderr, "new %lld tokens, %.1f a second\n", (long long)c->tokens,
            c->seconds > 0 ? (double)c->tokens / c->seconds : 0);
    samba_lm_task_tell_draft(&c->task);
    return SAMBA_OK;
}

int samba_cli_lm_chat(int argc, char **argv)
{
    samba_lm_words words;
    samba_lm_words_parse(SAMBA_LM_CHAT, argc, argv, &words);
    chat c = {.task.words = &words, .messages = json_array()};
    if (!samba_cli_begin(&c.task.context))
        return 1;
    samba_context *context = c.task.context;
    samba_status status = c.messages ? talk(&c) : samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for the conversation");
    samba_free(context, c.reply, (size_t)c.room);
    json_decref(c.messages);
    samba_chat_template_free(c.template);
    samba_lm_task_close(&c.task);
    return samba_cli_end(context, status);
}
