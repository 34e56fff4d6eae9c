/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a chat template: where a folder or a GGUF file keeps it, which of several is meant, and the special tokens that it may
 * name. */
#include "text/chat.h"

#include "base/null.h"
#include "gguf/tokenizer.h"
#include "text/read.h"

#include <sys/stat.h>

#define MOST_BYTES ((size_t)8 << 20) /* of a template */

static samba_status parse(samba_chat_template *t, samba_str text, struct samba_chat_form *form)
{
    samba_chat_tokens tokens;
    if (text.size > MOST_BYTES)
        return samba_fail(t->context, SAMBA_ERROR_UNSUPPORTED, "chat template: it has %zu bytes; 8 MiB is the most", text.size);
    if (samba_utf8_valid(text.data, text.size) < text.size)
        return samba_fail(t->context, SAMBA_ERROR_FORMAT, "chat template: it is no UTF-8");
    SAMBA_TRY(samba_chat_lex(t->context, &t->arena, text, &tokens));
    SAMBA_TRY(samba_chat_parse(t->context, &t->arena, &tokens, &form->body, &form->marks));
    form->given = true;
    return SAMBA_OK;
}

static samba_status beside(samba_chat_template *t, const char *folder, const char *name, char path[PATH_MAX])
{
    const int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_MAX)
        return samba_fail(t->context, SAMBA_ERROR_ARGUMENT, "samba_chat_template_open: the path of %s is too long", name);
    return SAMBA_OK;
}

static bool is_there(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0;
}

/* A JSON file beside the template; NULL where it is not there. The caller drops it. */
static samba_status read_beside(samba_chat_template *t, const char *folder, const char *name, json_t **json)
{
    char path[PATH_MAX];
    void *data;
    size_t size;
    *json = NULL;
    SAMBA_TRY(beside(t, folder, name, path));
    if (!is_there(path))
        return SAMBA_OK;
    SAMBA_TRY(samba_file_read(t->context, path, &data, &size));
    samba_status status = samba_json_parse(t->context, path, data, size, json);
    samba_free(t->context, data, size);
    return status;
}

/* ---- special tokens ---- */
static samba_status add_token(samba_chat_template *t, const char *name, const json_t *value)
{
    const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
    char *copy;
    if (!json_is_string(text))
        return SAMBA_OK;
    for (int i = 0; i < t->token_count; i++)
        if (samba_str_equal(t->names[i], samba_chat_str(name)))
            return SAMBA_OK; /* the first file that names it counts */
    SAMBA_TRY(samba_arena_copy(&t->arena, name, &copy));
    t->names[t->token_count] = samba_chat_str(copy);
    const size_t size = json_string_length(text);
    SAMBA_TRY(samba_arena_room(&t->arena, size + 1, &copy));
    memcpy(copy, json_string_value(text), size);
    t->tokens[t->token_count++] = samba_str_of(copy, size);
    return SAMBA_OK;
}

static samba_status add_tokens(samba_chat_template *t, const json_t *config)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    json_t *more = json_object_get(config, "extra_special_tokens");
    const size_t count = (size_t)t->token_count + SAMBA_COUNT(names) + json_object_size(more);
    samba_str *grown[2];
    for (int i = 0; i < 2; i++) {
        SAMBA_TRY(SAMBA_ROOM(&t->arena, grown[i], count));
        if (t->token_count > 0)
            memcpy(grown[i], i == 0 ? t->names : t->tokens, (size_t)t->token_count * sizeof(samba_str));
    }
    t->names = grown[0];
    t->tokens = grown[1];
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        SAMBA_TRY(add_token(t, names[i], json_object_get(config, names[i])));
    for (void *i = json_object_iter(more); i; i = json_object_iter_next(more, i))
        SAMBA_TRY(add_token(t, json_object_iter_key(i), json_object_iter_value(i)));
    return SAMBA_OK;
}

/* ---- templates ---- */
/* Of a list of {"name", "template"}: that name; NULL: there is none. */
static const json_t *named(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *is = json_object_get(one, "name"), *text = json_object_get(one, "template");
        if (json_is_string(is) && strcmp(json_string_value(is), name) == 0 && json_is_string(text))
            return text;
    }
    return NULL;
}

static samba_status parse_json(samba_chat_template *t, const json_t *text, struct samba_chat_form *form)
{
    return parse(t, samba_str_of(json_string_value(text), json_string_length(text)), form);
}

/* A template's file, where it is there; its text stays in the arena. */
static samba_status parse_file(samba_chat_template *t, const char *folder, const char *name, struct samba_chat_form *form)
{
    char path[PATH_MAX];
    void *data;
    size_t size;
    SAMBA_TRY(beside(t, folder, name, path));
    if (!is_there(path))
        return SAMBA_OK;
    SAMBA_TRY(samba_file_read(t->context, path, &data, &size));
    samba_status status = parse(t, samba_str_of(data, size), form);
    samba_free(t->context, data, size);
    return status;
}

static samba_status none(samba_chat_template *t, const char *folder)
{
    if (samba_gguf_is(folder))
        return samba_fail(t->context, SAMBA_ERROR_FILE,
                          "%s: this file has no chat template: no \"tokenizer.chat_template\"; give one as text", folder);
    return samba_fail(t->context, SAMBA_ERROR_FILE,
                      "%s: this folder has no chat template: no chat_template.jinja, and no \"chat_template\" in "
                      "tokenizer_config.json; give one as text",
                      folder);
}

/* The folder's templates; `name`: of several, that one alone; *found tells. NULL: the default and that for tools. */
static samba_status parse_folder(samba_chat_template *t, const char *folder, const json_t *config, const char *name, bool *found)
{
    char file[PATH_MAX];
    const json_t *text = json_object_get(config, "chat_template");
    if (name) {
        const int length = snprintf(file, sizeof file, "additional_chat_templates/%s.jinja", name);
        if (length > 0 && length < 256 && !strchr(name, '/') && !strchr(name, '{'))
            SAMBA_TRY(parse_file(t, folder, file, &t->form));
        text = t->form.given ? NULL : named(text, name);
        if (text)
            SAMBA_TRY(parse_json(t, text, &t->form));
    } else {
        SAMBA_TRY(parse_file(t, folder, "chat_template.jinja", &t->form));
        SAMBA_TRY(parse_file(t, folder, "additional_chat_templates/tool_use.jinja", &t->with_tools));
        const json_t *plain = json_is_string(text) ? text : named(text, "default"), *tools = named(text, "tool_use");
        if (plain && !t->form.given)
            SAMBA_TRY(parse_json(t, plain, &t->form));
        if (tools && !t->with_tools.given)
            SAMBA_TRY(parse_json(t, tools, &t->with_tools));
    }
    *found = t->form.given;
    return SAMBA_OK;
}

static samba_status open_all(samba_chat_template *t, const char *folder, const char *text, const json_t *config,
                             const json_t *map)
{
    bool found = false;
    if (config)
        SAMBA_TRY(add_tokens(t, config));
    if (map)
        SAMBA_TRY(add_tokens(t, map));
    if (folder && (!text || !strchr(text, '{')))
        SAMBA_TRY(parse_folder(t, folder, config, text, &found));
    if (found)
        return SAMBA_OK;
    if (folder && text && !strchr(text, '{')) /* a name, or a path: as a text it would be every conversation's */
        return samba_fail(
            t->context, SAMBA_ERROR_ARGUMENT,
            "%s has no chat template of the name '%.200s', and a template's text has a '{': give the text, not a path", folder,
            text);
    return text ? parse(t, samba_chat_str(text), &t->form) : none(t, folder);
}

static samba_status open_gguf(samba_chat_template *t, const char *path, const char *text)
{
    samba_gguf *gguf;
    json_t *config = NULL;
    SAMBA_TRY(samba_gguf_open(t->context, path, &gguf));
    samba_status status = samba_gguf_tokenizer_config(gguf, &config);
    if (status == SAMBA_OK)
        status = open_all(t, path, text, config, NULL);
    json_decref(config);
    samba_gguf_free(gguf);
    return status;
}

static samba_status open_folder(samba_chat_template *t, const char *folder, const char *text)
{
    json_t *config = NULL, *map = NULL;
    samba_status status = folder ? read_beside(t, folder, "tokenizer_config.json", &config) : SAMBA_OK;
    if (status == SAMBA_OK && folder)
        status = read_beside(t, folder, "special_tokens_map.json", &map);
    if (status == SAMBA_OK)
        status = open_all(t, folder, text, config, map);
    json_decref(config);
    json_decref(map);
    return status;
}

samba_status samba_chat_template_open(samba_context *context, const char *folder, const char *text,
                                      samba_chat_template **chat_template)
{
    samba_chat_template *t;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, chat_template);
    *chat_template = NULL;
    if (!folder && !text)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_chat_template_open: neither a folder nor a template is given");
    if (folder && !is_there(folder))
        return samba_fail(context, SAMBA_ERROR_FILE, "%s: there is no such folder", folder);
    t = samba_calloc(context, sizeof *t);
    if (!t)
        return SAMBA_ERROR_MEMORY;
    t->context = context;
    samba_arena_init(&t->arena, context);
    samba_status status = folder && samba_gguf_is(folder) ? open_gguf(t, folder, text) : open_folder(t, folder, text);
    if (status != SAMBA_OK) {
        samba_chat_template_free(t);
        return status;
    }
    *chat_template = t;
    return SAMBA_OK;
}

void samba_chat_template_free(samba_chat_template *chat_template)
{
    if (!chat_template)
        return;
    samba_arena_free(&chat_template->arena);
    samba_free(chat_template->context, chat_template, sizeof *chat_template);
}

bool samba_chat_template_marks(const samba_chat_template *chat_template) { return chat_template && chat_template->form.marks; }
