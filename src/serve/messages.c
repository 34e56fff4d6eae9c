/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of a chat, as chat templates take them: of each the role, the text and perhaps a name. A text may come as a list
 * of parts, which templates seldom know, so these become one text. Pictures, sound and calls of tools are refused by name. */
#include "serve/serve.h"

#include <string.h>

static samba_status lack(samba_context *context) { return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for the messages"); }

/* What a part that is a text has beside its type and text is refused by its name. */
static samba_status check_part(samba_context *context, const json_t *part, const char *place, samba_serve_request *request)
{
    for (void *at = json_object_iter((json_t *)(uintptr_t)part); at; at = json_object_iter_next((json_t *)(uintptr_t)part, at)) {
        const char *name = json_object_iter_key(at);
        char param[192], shown[SAMBA_SHOWN];
        if (json_is_null(json_object_iter_value(at)) || strcmp(name, "type") == 0 || strcmp(name, "text") == 0)
            continue;
        snprintf(param, sizeof param, "%s.%.60s", place, samba_shown(name, shown));
        return samba_serve_refuse(context, &request->problem, param, "unsupported_parameter",
                                  "%s is not supported here: a part has a type and a text", param);
    }
    return SAMBA_OK;
}

/* The text of parts; a list of none is "". */
static samba_status join(samba_context *context, const json_t *parts, size_t message, samba_serve_request *request, json_t **text)
{
    samba_text all;
    samba_status status = samba_text_begin(&all, context, "%s", "");
    char name[96], shown[SAMBA_SHOWN];
    for (size_t i = 0; status == SAMBA_OK && i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *type = json_object_get(part, "type"), *words = json_object_get(part, "text");
        snprintf(name, sizeof name, "messages[%zu].content[%zu]", message, i);
        if (!json_is_string(type))
            status = samba_serve_refuse(context, &request->problem, name, "invalid_type",
                                        "%s: expected an object with \"type\": \"text\"", name);
        else if (strcmp(json_string_value(type), "text") != 0)
            status = samba_serve_refuse(context, &request->problem, name, "unsupported_parameter",
                                        "%s: '%.60s' is not supported here: parts are texts", name,
                                        samba_shown(json_string_value(type), shown));
        else if (!json_is_string(words))
            status = samba_serve_refuse(context, &request->problem, name, "invalid_type", "%s: its \"text\" is no text", name);
        else
            status = check_part(context, part, name, request);
        if (status == SAMBA_OK)
            samba_text_add(&all, "%s", json_string_value(words));
        status = status == SAMBA_OK ? all.status : status;
    }
    if (status == SAMBA_OK)
        *text = json_stringn(all.data, (size_t)all.length);
    samba_text_clear(&all);
    return status == SAMBA_OK && !*text ? lack(context) : status;
}

static samba_status read_content(samba_context *context, const json_t *value, size_t message, samba_serve_request *request,
                                 json_t **text)
{
    char name[64];
    snprintf(name, sizeof name, "messages[%zu].content", message);
    if (json_is_array(value))
        return join(context, value, message, request, text);
    if (value && !json_is_string(value) && !json_is_null(value))
        return samba_serve_refuse(context, &request->problem, name, "invalid_type", "%s: expected a text, or a list of parts",
                                  name);
    *text = json_is_string(value) ? json_incref((json_t *)(uintptr_t)value) : json_string("");
    return *text ? SAMBA_OK : lack(context);
}

/* What a message may have beside its role and content is its name. */
static samba_status check_fields(samba_context *context, json_t *message, size_t index, samba_serve_request *request)
{
    for (void *at = json_object_iter(message); at; at = json_object_iter_next(message, at)) {
        const char *name = json_object_iter_key(at);
        char param[96], shown[SAMBA_SHOWN];
        if (json_is_null(json_object_iter_value(at)) || strcmp(name, "role") == 0 || strcmp(name, "content") == 0)
            continue;
        snprintf(param, sizeof param, "messages[%zu].%.60s", index, samba_shown(name, shown));
        if (strcmp(name, "name") != 0)
            return samba_serve_refuse(context, &request->problem, param, "unsupported_parameter",
                                      "%s is not supported here: a message has a role, a content and perhaps a name", param);
        if (!json_is_string(json_object_iter_value(at)))
            return samba_serve_refuse(context, &request->problem, param, "invalid_type", "%s: expected a text", param);
    }
    return SAMBA_OK;
}

static samba_status add_message(samba_context *context, json_t *given, size_t index, samba_serve_request *request)
{
    char name[64];
    json_t *role = json_object_get(given, "role"), *speaker = json_object_get(given, "name"), *text = NULL;
    snprintf(name, sizeof name, "messages[%zu]", index);
    if (!json_is_object(given) || !json_is_string(role) || !json_object_get(given, "content"))
        return samba_serve_refuse(context, &request->problem, name, "invalid_type",
                                  "%s: expected an object with a \"role\" and a \"content\"", name);
    SAMBA_TRY(check_fields(context, given, index, request));
    SAMBA_TRY(read_content(context, json_object_get(given, "content"), index, request, &text));
    json_t *message = json_object();
    bool fine = message && json_object_set(message, "role", role) == 0;
    fine = json_object_set_new(message, "content", text) == 0 && fine; /* takes the text in any case */
    if (fine && json_is_string(speaker))
        fine = json_object_set(message, "name", speaker) == 0;
    fine = json_array_append_new(request->messages, message) == 0 && fine;
    return fine ? SAMBA_OK : lack(context);
}

samba_status samba_serve_messages_read(samba_context *context, const json_t *value, samba_serve_request *request)
{
    if (!json_is_array(value) || json_array_size(value) == 0)
        return samba_serve_refuse(context, &request->problem, "messages", "invalid_type",
                                  "messages: expected a list of at least one message");
    request->messages = json_array();
    if (!request->messages)
        return lack(context);
    for (size_t i = 0; i < json_array_size(value); i++)
        SAMBA_TRY(add_message(context, json_array_get(value, i), i, request));
    return SAMBA_OK;
}
