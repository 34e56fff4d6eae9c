/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON in and out: conversations as values, and the filter tojson, whose text is that of Python's json.dumps. */
#include "text/chat.h"

#include <math.h>

#define MOST_JSON_DEPTH 200

static samba_status copied(samba_chat_run *w, const char *text, size_t size, samba_chat_value *value)
{
    char *copy;
    SAMBA_TRY(samba_chat_room(w, size + 1, &copy));
    if (size > 0)
        memcpy(copy, text, size);
    *value = samba_chat_text_of(samba_str_of(copy, size));
    return SAMBA_OK;
}

static samba_status of_list(samba_chat_run *w, const char *what, const json_t *json, samba_chat_value *value)
{
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_list_new(w, &list));
    for (size_t i = 0; i < json_array_size(json); i++) {
        samba_chat_value item;
        SAMBA_TRY(samba_chat_of_json(w, what, json_array_get(json, i), &item));
        SAMBA_TRY(samba_chat_list_add(w, list, item));
    }
    *value = (samba_chat_value){.kind = SAMBA_CHAT_LIST, .list = list};
    return SAMBA_OK;
}

static samba_status of_object(samba_chat_run *w, const char *what, json_t *json, samba_chat_value *value)
{
    samba_chat_dict *dict;
    int64_t at = 0;
    SAMBA_TRY(samba_chat_dict_new(w, &dict));
    const size_t count = json_object_size(json);
    if (count > 0)
        SAMBA_TRY(samba_chat_room(w, count * sizeof *dict->pairs, &dict->pairs));
    dict->room = dict->count = (int64_t)count;
    for (void *i = json_object_iter(json); i; i = json_object_iter_next(json, i), at++) { /* names differ: none is looked up */
        const char *name = json_object_iter_key(i);
        SAMBA_TRY(copied(w, name, strlen(name), &dict->pairs[at].key));
        SAMBA_TRY(samba_chat_of_json(w, what, json_object_iter_value(i), &dict->pairs[at].value));
    }
    *value = (samba_chat_value){.kind = SAMBA_CHAT_DICT, .dict = dict};
    return SAMBA_OK;
}

samba_status samba_chat_of_json(samba_chat_run *w, const char *what, const json_t *json, samba_chat_value *value)
{
    samba_status status = SAMBA_OK;
    if (w->depth >= MOST_JSON_DEPTH)
        return samba_fail(w->context, SAMBA_ERROR_UNSUPPORTED, "%s: more than %d lists and objects within each other", what,
                          MOST_JSON_DEPTH);
    w->depth++;
    switch (json_typeof(json)) {
    case JSON_OBJECT: status = of_object(w, what, (json_t *)(uintptr_t)json, value); break; /* jansson iterates no const */
    case JSON_ARRAY: status = of_list(w, what, json, value); break;
    case JSON_STRING: status = copied(w, json_string_value(json), json_string_length(json), value); break;
    case JSON_INTEGER: *value = samba_chat_int(json_integer_value(json)); break;
    case JSON_REAL: *value = samba_chat_float(json_real_value(json)); break;
    case JSON_TRUE:
    case JSON_FALSE: *value = samba_chat_bool(json_is_true(json)); break;
    default: *value = samba_chat_none();
    }
    w->depth--;
    return status;
}

samba_status samba_chat_read_json(samba_chat_run *w, const char *what, const char *text, size_t length, samba_chat_value *value)
{
    json_error_t error;
    char shown[SAMBA_SHOWN];
    json_t *json = json_loadb(text, length, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!json && json_error_code(&error) == json_error_out_of_memory)
        return samba_fail(w->context, SAMBA_ERROR_MEMORY, "%s: no memory for the JSON", what);
    if (!json)
        return samba_fail(w->context, SAMBA_ERROR_FORMAT, "%s: line %d, column %d: this is no JSON: %.200s", what, error.line,
                          error.column, samba_shown(error.text, shown));
    samba_status status = samba_chat_of_json(w, what, json, value);
    json_decref(json);
    return status;
}

/* ---- tojson ---- */
typedef struct writer {
    samba_chat_run *w;
    samba_chat_buffer out;
    samba_str indent, item, pair; /* item and pair: separators */
    bool lines, ascii, sorted;
    int64_t depth;
} writer;

static samba_status put(writer *j, const char *text) { return samba_chat_put(j->w, &j->out, text, strlen(text)); }

static samba_status put_line(writer *j)
{
    if (!j->lines)
        return SAMBA_OK;
    SAMBA_TRY(put(j, "\n"));
    for (int64_t i = 0; i < j->depth; i++)
        SAMBA_TRY(samba_chat_put(j->w, &j->out, j->indent.data, j->indent.size));
    return SAMBA_OK;
}

static samba_status put_text(writer *j, samba_str text)
{
    static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    SAMBA_TRY(put(j, "\""));
    for (size_t i = 0; i < text.size;) {
        int size;
        char escape[16] = "";
        const uint32_t c = samba_utf8_code(text.data + i, &size);
        for (const char *e = escapes; *e; e += 2)
            if ((uint32_t)(unsigned char)*e == c)
                snprintf(escape, sizeof escape, "\\%c", e[1]);
        if (!*escape && (c < 0x20 || (j->ascii && c >= 0x7f && c < 0x10000 && c != 0x7f)))
            snprintf(escape, sizeof escape, "\\u%04x", c);
        else if (!*escape && j->ascii && c >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        SAMBA_TRY(*escape ? put(j, escape) : samba_chat_put(j->w, &j->out, text.data + i, (size_t)size));
        i += (size_t)size;
    }
    return put(j, "\"");
}

static samba_status put_real(writer *j, double real)
{
    if (isnan(real) || isinf(real))
        return put(j, isnan(real) ? "NaN" : real > 0 ? "Infinity" : "-Infinity");
    return samba_chat_put_real(j->w, &j->out, real);
}

static samba_status put_value(writer *j, samba_chat_value v);

static samba_status put_key(writer *j, samba_chat_value key)
{
    if (key.kind == SAMBA_CHAT_TEXT)
        return put_text(j, key.text);
    if (key.kind != SAMBA_CHAT_NONE && key.kind != SAMBA_CHAT_BOOL && key.kind != SAMBA_CHAT_INT && key.kind != SAMBA_CHAT_FLOAT)
        return samba_chat_fail(j->w, SAMBA_ERROR_FORMAT, "%s cannot be a key in JSON", samba_chat_type(key));
    SAMBA_TRY(put(j, "\""));
    SAMBA_TRY(put_value(j, key));
    return put(j, "\"");
}

static samba_status put_list(writer *j, const samba_chat_list *list)
{
    SAMBA_TRY(put(j, "["));
    j->depth++;
    for (int64_t i = 0; i < list->count; i++) {
        if (i > 0)
            SAMBA_TRY(samba_chat_put(j->w, &j->out, j->item.data, j->item.size));
        SAMBA_TRY(put_line(j));
        SAMBA_TRY(put_value(j, list->items[i]));
    }
    j->depth--;
    if (list->count > 0)
        SAMBA_TRY(put_line(j));
    return put(j, "]");
}

/* Pairs in the order of their keys. */
static samba_status sorted(samba_chat_run *w, const samba_chat_dict *dict, samba_chat_pair **pairs)
{
    SAMBA_TRY(samba_chat_room(w, (size_t)(dict->count + 1) * sizeof **pairs, pairs));
    for (int64_t i = 0; i < dict->count; i++) {
        int64_t at = i;
        for (int order = 1; at > 0; at--) {
            SAMBA_TRY(samba_chat_charge(w, 1));
            SAMBA_TRY(samba_chat_compare(w, "<", dict->pairs[i].key, (*pairs)[at - 1].key, &order));
            if (order != -1)
                break;
            (*pairs)[at] = (*pairs)[at - 1];
        }
        (*pairs)[at] = dict->pairs[i];
    }
    return SAMBA_OK;
}

static samba_status put_dict(writer *j, const samba_chat_dict *dict)
{
    samba_chat_pair *pairs = dict->pairs;
    if (j->sorted)
        SAMBA_TRY(sorted(j->w, dict, &pairs));
    SAMBA_TRY(put(j, "{"));
    j->depth++;
    for (int64_t i = 0; i < dict->count; i++) {
        if (i > 0)
            SAMBA_TRY(samba_chat_put(j->w, &j->out, j->item.data, j->item.size));
        SAMBA_TRY(put_line(j));
        SAMBA_TRY(put_key(j, pairs[i].key));
        SAMBA_TRY(samba_chat_put(j->w, &j->out, j->pair.data, j->pair.size));
        SAMBA_TRY(put_value(j, pairs[i].value));
    }
    j->depth--;
    if (dict->count > 0)
        SAMBA_TRY(put_line(j));
    return put(j, "}");
}

static samba_status put_value(writer *j, samba_chat_value v)
{
    char number[32];
    samba_status status;
    switch (v.kind) {
    case SAMBA_CHAT_NONE: return put(j, "null");
    case SAMBA_CHAT_BOOL: return put(j, v.truth ? "true" : "false");
    case SAMBA_CHAT_INT: snprintf(number, sizeof number, "%lld", (long long)v.integer); return put(j, number);
    case SAMBA_CHAT_FLOAT: return put_real(j, v.real);
    case SAMBA_CHAT_TEXT: return put_text(j, v.text);
    case SAMBA_CHAT_LIST:
    case SAMBA_CHAT_TUPLE:
    case SAMBA_CHAT_DICT:
        SAMBA_TRY(samba_chat_deeper(j->w));
        status = v.kind == SAMBA_CHAT_DICT ? put_dict(j, v.dict) : put_list(j, v.list);
        j->w->depth--;
        return status;
    default: break;
    }
    return samba_chat_fail(j->w, SAMBA_ERROR_FORMAT, "%s%s%.*s cannot be JSON", samba_chat_type(v),
                           v.kind == SAMBA_CHAT_UNDEFINED ? ": " : "", v.kind == SAMBA_CHAT_UNDEFINED ? (int)v.text.size : 0,
                           v.kind == SAMBA_CHAT_UNDEFINED ? v.text.data : "");
}

static samba_status take_separators(writer *j, samba_chat_value given)
{
    if (given.kind == SAMBA_CHAT_ABSENT || given.kind == SAMBA_CHAT_NONE)
        return SAMBA_OK;
    if ((given.kind != SAMBA_CHAT_LIST && given.kind != SAMBA_CHAT_TUPLE) || given.list->count != 2)
        return samba_chat_fail(j->w, SAMBA_ERROR_FORMAT, "\"separators\" has to be two texts");
    SAMBA_TRY(samba_chat_take_text(j->w, given.list->items[0], "separators", &j->item));
    return samba_chat_take_text(j->w, given.list->items[1], "separators", &j->pair);
}

samba_status samba_chat_tojson(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result)
{
    writer j = {.w = w, .pair = samba_chat_str(": ")};
    samba_chat_buffer blanks = {0};
    int64_t indent = 0;
    j.lines = a[1].kind != SAMBA_CHAT_ABSENT && a[1].kind != SAMBA_CHAT_NONE;
    j.item = samba_chat_str(j.lines ? "," : ", ");
    SAMBA_TRY(samba_chat_take_bool(w, a[0], &j.ascii));
    if (a[1].kind == SAMBA_CHAT_TEXT)
        j.indent = a[1].text;
    else if (j.lines)
        SAMBA_TRY(samba_chat_take_int(w, a[1], "indent", &indent));
    for (int64_t i = 0; i < indent; i++)
        SAMBA_TRY(samba_chat_put(w, &blanks, " ", 1));
    if (indent > 0)
        j.indent = samba_str_of(blanks.data, blanks.size);
    SAMBA_TRY(take_separators(&j, a[2]));
    SAMBA_TRY(samba_chat_take_bool(w, a[3], &j.sorted));
    SAMBA_TRY(put_value(&j, self));
    *result = samba_chat_taken(&j.out);
    return SAMBA_OK;
}
