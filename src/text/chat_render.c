/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendering a conversation: the variables of a template as transformers gives them, and the text with its spans for the caller.
 * */
#include "text/chat.h"

#include "base/null.h"

static samba_status set(samba_chat_run *w, const char *name, samba_chat_value value)
{
    return samba_chat_scope_set(w, &w->variables, samba_chat_str(name), value);
}

/* A message without its fields that are null; what was thought is there under each of its names. */
static samba_status clean_message(samba_chat_run *w, samba_chat_value message, samba_chat_value *cleaned)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    samba_chat_dict *dict;
    const samba_chat_value *thought = NULL;
    SAMBA_TRY(samba_chat_dict_new(w, &dict));
    for (int i = 0; !thought && i < SAMBA_COUNT(names); i++) {
        samba_chat_value *found;
        SAMBA_TRY(samba_chat_dict_find(w, message.dict, samba_chat_text_of(samba_chat_str(names[i])), &found));
        thought = found && found->kind != SAMBA_CHAT_NONE ? found : NULL;
    }
    if (thought)
        SAMBA_TRY(samba_chat_dict_set(w, dict, samba_chat_text_of(samba_chat_str("thinking")), *thought));
    for (int64_t i = 0; i < message.dict->count; i++)
        if (message.dict->pairs[i].value.kind != SAMBA_CHAT_NONE)
            SAMBA_TRY(samba_chat_dict_set(w, dict, message.dict->pairs[i].key, message.dict->pairs[i].value));
    if (thought)
        SAMBA_TRY(samba_chat_dict_set(w, dict, samba_chat_text_of(samba_chat_str("reasoning_content")), *thought));
    *cleaned = (samba_chat_value){.kind = SAMBA_CHAT_DICT, .dict = dict};
    return SAMBA_OK;
}

static samba_status set_messages(samba_chat_run *w, const char *text, size_t length)
{
    samba_chat_value all;
    SAMBA_TRY(samba_chat_read_json(w, "messages", text, length, &all));
    if (all.kind != SAMBA_CHAT_LIST || all.list->count == 0)
        return samba_fail(w->context, SAMBA_ERROR_FORMAT, "messages: a list of at least one message is expected");
    for (int64_t i = 0; i < all.list->count; i++) {
        const samba_chat_value message = all.list->items[i];
        if (message.kind != SAMBA_CHAT_DICT)
            return samba_fail(w->context, SAMBA_ERROR_FORMAT, "messages: message %lld is no object", (long long)i);
        SAMBA_TRY(clean_message(w, message, &all.list->items[i]));
    }
    return set(w, "messages", all);
}

static samba_status set_tools(samba_chat_run *w, const char *text)
{
    samba_chat_value tools = samba_chat_none();
    if (text)
        SAMBA_TRY(samba_chat_read_json(w, "tools", text, strlen(text), &tools));
    bool fits = !text || tools.kind == SAMBA_CHAT_LIST;
    for (int64_t i = 0; fits && text && i < tools.list->count; i++)
        fits = tools.list->items[i].kind == SAMBA_CHAT_DICT;
    if (!fits)
        return samba_fail(w->context, SAMBA_ERROR_FORMAT, "tools: a list of objects is expected");
    return set(w, "tools", tools);
}

static samba_status set_variables(samba_chat_run *w, const char *text)
{
    static const char *const own[] = {"messages", "tools", "add_generation_prompt"};
    samba_chat_value all;
    SAMBA_TRY(samba_chat_read_json(w, "variables", text, strlen(text), &all));
    if (all.kind != SAMBA_CHAT_DICT)
        return samba_fail(w->context, SAMBA_ERROR_FORMAT, "variables: an object is expected");
    for (int64_t i = 0; i < all.dict->count; i++) {
        const samba_str name = all.dict->pairs[i].key.text;
        for (int k = 0; k < SAMBA_COUNT(own); k++)
            if (samba_str_equal(name, samba_chat_str(own[k])))
                return samba_fail(w->context, SAMBA_ERROR_ARGUMENT, "variables: \"%s\" is given by itself", own[k]);
        SAMBA_TRY(samba_chat_scope_set(w, &w->variables, name, all.dict->pairs[i].value));
    }
    return SAMBA_OK;
}

static samba_status render(samba_chat_run *w, const samba_chat_template *t, const char *messages, size_t length,
                           const samba_chat_options *options)
{
    const samba_chat_body *body = options->tools && t->with_tools.given ? &t->with_tools.body : &t->form.body;
    if (options->spans && !(body == &t->form.body ? t->form.marks : t->with_tools.marks))
        return samba_fail(w->context, SAMBA_ERROR_UNSUPPORTED,
                          "chat template: the assistant's words are not marked in it, by {%% generation %%} blocks");
    for (int i = 0; i < t->token_count; i++)
        SAMBA_TRY(samba_chat_scope_set(w, &w->variables, t->names[i], samba_chat_text_of(t->tokens[i])));
    SAMBA_TRY(set_messages(w, messages, length));
    SAMBA_TRY(set_tools(w, options->tools));
    SAMBA_TRY(set(w, "documents", samba_chat_none()));
    SAMBA_TRY(set(w, "add_generation_prompt", samba_chat_bool(options->add_generation_prompt)));
    if (options->variables)
        SAMBA_TRY(set_variables(w, options->variables));
    samba_chat_scope top = {.outer = &w->variables};
    w->scope = &top;
    return samba_chat_execute(w, body);
}

static samba_status take(samba_chat_run *w, samba_chat_text *text)
{
    const size_t size = (size_t)w->out.size;
    text->text = samba_alloc(w->context, size + 1);
    if (!text->text)
        return SAMBA_ERROR_MEMORY;
    text->length = size;
    if (size > 0)
        memcpy(text->text, w->out.data, size);
    text->text[size] = '\0';
    if (w->mark_count == 0)
        return SAMBA_OK;
    text->spans = samba_alloc(w->context, (size_t)w->mark_count * sizeof *text->spans);
    if (!text->spans)
        return SAMBA_ERROR_MEMORY;
    memcpy(text->spans, w->marks, (size_t)w->mark_count * sizeof *text->spans);
    text->span_count = w->mark_count;
    return SAMBA_OK;
}

samba_status samba_chat_render(samba_context *context, const samba_chat_template *chat_template, const char *messages,
                               size_t length, const samba_chat_options *options, samba_chat_text *text)
{
    samba_chat_options all = {.struct_size = sizeof all};
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, text);
    *text = (samba_chat_text){NULL, 0, NULL, 0};
    SAMBA_NEED(context, chat_template);
    SAMBA_NEED(context, messages);
    if (options)
        SAMBA_TRY(samba_options_take(context, "samba_chat_render", options, sizeof all, &all));
    const size_t given = length + (all.tools ? strlen(all.tools) : 0) + (all.variables ? strlen(all.variables) : 0);
    if (given > (size_t)1 << 30)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED, "samba_chat_render: %zu bytes of JSON; 1 GiB is the most", given);
    samba_chat_run w = {.context = context, .spans = all.spans, .now = all.now, .line = 1};
    w.steps = SAMBA_CHAT_MOST_STEPS + 8 * (int64_t)given;
    w.most_out = SAMBA_CHAT_MOST_BYTES / 4 + 16 * (int64_t)given;
    samba_arena_init(&w.arena, context);
    samba_arena_bound(&w.arena, (size_t)SAMBA_CHAT_MOST_BYTES + 64 * given);
    samba_status status = render(&w, chat_template, messages, length, &all);
    if (status == SAMBA_OK)
        status = take(&w, text);
    if (status != SAMBA_OK)
        samba_chat_text_free(context, text);
    samba_chars_free(context, &w.out);
    samba_free(context, w.marks, (size_t)w.mark_room * sizeof *w.marks);
    samba_arena_free(&w.arena);
    return status;
}

void samba_chat_text_free(samba_context *context, samba_chat_text *text)
{
    if (!context || !text)
        return;
    if (text->text)
        samba_free(context, text->text, text->length + 1);
    if (text->spans)
        samba_free(context, text->spans, (size_t)text->span_count * sizeof *text->spans);
    *text = (samba_chat_text){NULL, 0, NULL, 0};
}
