/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of JSON objects, checked for their types; the file tokenizer.json as a whole. The model is read first, since added
 * tokens take the ids that it leaves; the normalizer before the added tokens, whose texts it changes. */
#include "text/read.h"

#include <stdarg.h>

samba_status samba_reader_fail(const samba_reader *r, const char *where, const char *format, ...)
{
    char message[600];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(message, sizeof message, format, arguments) < 0)
        message[0] = '\0';
    va_end(arguments);
    return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: %s%s%s", r->path, where, *where ? ": " : "", message);
}

static const json_t *field(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

samba_status samba_read_bool(const samba_reader *r, const char *where, const json_t *object, const char *name, bool *value)
{
    const json_t *found = field(object, name);
    if (found && !json_is_boolean(found))
        return samba_reader_fail(r, where, "\"%s\" is neither true nor false", name);
    *value = found ? json_is_true(found) : *value;
    return SAMBA_OK;
}

samba_status samba_read_count(const samba_reader *r, const char *where, const json_t *object, const char *name, int64_t most,
                              int64_t *value)
{
    const json_t *found = field(object, name);
    if (found && (!json_is_integer(found) || json_integer_value(found) < 0 || json_integer_value(found) > most))
        return samba_reader_fail(r, where, "\"%s\" is no whole number from 0 to %lld", name, (long long)most);
    *value = found ? json_integer_value(found) : *value;
    return SAMBA_OK;
}

samba_status samba_copy_text(const samba_reader *r, const json_t *text, samba_str *value)
{
    const size_t size = json_string_length(text);
    char *copy;
    SAMBA_TRY(samba_arena_room(r->arena, size + 1, &copy));
    memcpy(copy, json_string_value(text), size);
    *value = samba_str_of(copy, size);
    return SAMBA_OK;
}

samba_status samba_read_text(const samba_reader *r, const char *where, const json_t *object, const char *name, samba_str *value)
{
    const json_t *found = field(object, name);
    if (!found)
        return SAMBA_OK;
    if (!json_is_string(found))
        return samba_reader_fail(r, where, "\"%s\" is no text", name);
    return samba_copy_text(r, found, value);
}

samba_status samba_need_text(const samba_reader *r, const char *where, const json_t *object, const char *name, samba_str *value)
{
    if (!field(object, name))
        return samba_reader_fail(r, where, "\"%s\" is missing", name);
    return samba_read_text(r, where, object, name, value);
}

samba_status samba_need_char(const samba_reader *r, const char *where, const json_t *object, const char *name, samba_str *value)
{
    SAMBA_TRY(samba_need_text(r, where, object, name, value));
    if (value->size == 0 || (size_t)samba_utf8_size(value->data[0]) != value->size)
        return samba_reader_fail(r, where, "\"%s\" is not one character", name);
    return SAMBA_OK;
}

static samba_status read_all(const samba_reader *r, const json_t *json)
{
    SAMBA_TRY(samba_read_model(r, json_object_get(json, "model")));
    SAMBA_TRY(samba_read_normalizer(r, field(json, "normalizer")));
    SAMBA_TRY(samba_read_splitter(r, field(json, "pre_tokenizer")));
    SAMBA_TRY(samba_read_decoder(r, field(json, "decoder")));
    SAMBA_TRY(samba_read_around(r, field(json, "post_processor")));
    return samba_read_added(r, field(json, "added_tokens"));
}

samba_status samba_json_take(samba_tokenizer *tokenizer, const char *path, const json_t *json)
{
    const samba_reader r = {tokenizer, tokenizer->context, &tokenizer->arena, path};
    return read_all(&r, json);
}

samba_status samba_json_open(samba_tokenizer *tokenizer, const char *path, const void *data, size_t size)
{
    json_t *json;
    SAMBA_TRY(samba_json_parse(tokenizer->context, path, data, size, &json));
    samba_status status = samba_json_take(tokenizer, path, json);
    json_decref(json);
    return status;
}
