/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of values: as {{ }} prints them (Python's str), and as they stand within lists (Python's repr). Texts that grow by
 * joining at their end are joined in place, so a template that gathers its text in a variable takes time in proportion to it. */
#include "text/chat.h"

#include <math.h>
#include <stdlib.h>
#include <utf8proc.h>

samba_status samba_chat_put(samba_chat_run *w, samba_chat_buffer *b, const char *data, size_t size)
{
    if (size > b->room - b->size) {
        const size_t room = 2 * (b->size + size) + 32;
        char *grown;
        SAMBA_TRY(samba_chat_room(w, room, &grown));
        if (b->size > 0)
            memcpy(grown, b->data, b->size);
        b->data = grown;
        b->room = room;
    }
    if (size > 0)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    return samba_chat_charge(w, size / 64);
}

static samba_status put(samba_chat_run *w, samba_chat_buffer *b, const char *text)
{
    return samba_chat_put(w, b, text, strlen(text));
}

samba_status samba_chat_join(samba_chat_run *w, samba_str a, samba_str b, samba_str *joined)
{
    if (a.size == 0 || b.size == 0) {
        *joined = a.size ? a : b;
        return SAMBA_OK;
    }
    if (a.data + a.size != w->tip || b.size > w->tip_room) {
        const size_t room = 2 * (a.size + b.size);
        char *grown;
        SAMBA_TRY(samba_chat_room(w, room, &grown));
        memcpy(grown, a.data, a.size);
        a.data = grown;
        w->tip = grown + a.size;
        w->tip_room = room - a.size;
    }
    memcpy(w->tip, b.data, b.size);
    w->tip += b.size;
    w->tip_room -= b.size;
    *joined = samba_str_of(a.data, a.size + b.size);
    return samba_chat_charge(w, b.size / 64);
}

/* The fewest digits that are this number; as a power of ten from 1e16 on and below 1e-4. */
samba_status samba_chat_put_real(samba_chat_run *w, samba_chat_buffer *b, double real)
{
    char digits[40], text[64];
    if (isnan(real) || isinf(real))
        return put(w, b, isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
    int precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, real);
    while (strtod(digits, NULL) != real && ++precision < 17);
    const int power = atoi(strchr(digits, 'e') + 1);
    if (power >= 16 || power < -4) {
        *strchr(digits, 'e') = '\0';
        snprintf(text, sizeof text, "%se%c%02d", digits, power < 0 ? '-' : '+', abs(power));
    } else
        snprintf(text, sizeof text, "%.*f", precision > power ? precision - power : 1, real);
    return put(w, b, text);
}

static bool printable(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return true;
    }
}

static samba_status put_quoted(samba_chat_run *w, samba_chat_buffer *b, samba_str text)
{
    const bool single = text.size > 0 && memchr(text.data, '\'', text.size),
               twice = text.size > 0 && memchr(text.data, '"', text.size);
    const char quote = single && !twice ? '"' : '\'';
    SAMBA_TRY(samba_chat_put(w, b, &quote, 1));
    for (size_t i = 0; i < text.size;) {
        int size;
        char escape[16];
        const uint32_t c = samba_utf8_code(text.data + i, &size);
        if (c == (uint32_t)quote || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", (int)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(escape, sizeof escape, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (!printable(c))
            snprintf(escape, sizeof escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        else
            snprintf(escape, sizeof escape, "%.*s", size, text.data + i);
        SAMBA_TRY(put(w, b, escape));
        i += (size_t)size;
    }
    return samba_chat_put(w, b, &quote, 1);
}

static samba_status put_list(samba_chat_run *w, samba_chat_buffer *b, const char *begin, const samba_chat_list *list,
                             const char *end)
{
    SAMBA_TRY(put(w, b, begin));
    for (int64_t i = 0; i < list->count; i++) {
        SAMBA_TRY(put(w, b, i > 0 ? ", " : ""));
        SAMBA_TRY(samba_chat_put_repr(w, b, list->items[i]));
    }
    return put(w, b, end);
}

static samba_status put_dict(samba_chat_run *w, samba_chat_buffer *b, samba_chat_kind kind, const samba_chat_dict *dict)
{
    const bool keys = kind != SAMBA_CHAT_VALUES, values = kind != SAMBA_CHAT_KEYS, items = kind == SAMBA_CHAT_ITEMS;
    SAMBA_TRY(put(w, b,
                  kind == SAMBA_CHAT_KEYS     ? "dict_keys(["
                  : kind == SAMBA_CHAT_VALUES ? "dict_values(["
                  : items                     ? "dict_items([("
                                              : "{"));
    if (items && dict->count == 0)
        b->size--;
    for (int64_t i = 0; i < dict->count; i++) {
        SAMBA_TRY(put(w, b, i == 0 ? "" : items ? ", (" : ", "));
        if (keys)
            SAMBA_TRY(samba_chat_put_repr(w, b, dict->pairs[i].key));
        if (keys && values)
            SAMBA_TRY(put(w, b, items ? ", " : ": "));
        if (values)
            SAMBA_TRY(samba_chat_put_repr(w, b, dict->pairs[i].value));
        SAMBA_TRY(put(w, b, items ? ")" : ""));
    }
    return put(w, b, kind == SAMBA_CHAT_DICT || kind == SAMBA_CHAT_NAMESPACE ? "}" : "])");
}

static samba_status put_repr(samba_chat_run *w, samba_chat_buffer *b, samba_chat_value v)
{
    char text[80];
    switch (v.kind) {
    case SAMBA_CHAT_UNDEFINED: return put(w, b, "Undefined");
    case SAMBA_CHAT_NONE: return put(w, b, "None");
    case SAMBA_CHAT_BOOL: return put(w, b, v.truth ? "True" : "False");
    case SAMBA_CHAT_INT: snprintf(text, sizeof text, "%lld", (long long)v.integer); return put(w, b, text);
    case SAMBA_CHAT_FLOAT: return samba_chat_put_real(w, b, v.real);
    case SAMBA_CHAT_TEXT:
        if (v.marked)
            break;
        return put_quoted(w, b, v.text);
    case SAMBA_CHAT_LIST: return put_list(w, b, "[", v.list, "]");
    case SAMBA_CHAT_TUPLE: return put_list(w, b, "(", v.list, v.list->count == 1 ? ",)" : ")");
    case SAMBA_CHAT_DICT:
    case SAMBA_CHAT_KEYS:
    case SAMBA_CHAT_VALUES:
    case SAMBA_CHAT_ITEMS: return put_dict(w, b, v.kind, v.dict);
    case SAMBA_CHAT_NAMESPACE:
        SAMBA_TRY(put(w, b, "<Namespace "));
        SAMBA_TRY(put_dict(w, b, v.kind, v.dict));
        return put(w, b, ">");
    case SAMBA_CHAT_RANGE:
        snprintf(text, sizeof text, v.range->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                 (long long)v.range->start, (long long)v.range->stop, (long long)v.range->step);
        return put(w, b, text);
    default: break;
    }
    return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "printing %s is not supported",
                           v.kind == SAMBA_CHAT_TEXT ? "a list with a safe text" : samba_chat_type(v));
}

samba_status samba_chat_put_repr(samba_chat_run *w, samba_chat_buffer *b, samba_chat_value v)
{
    SAMBA_TRY(samba_chat_deeper(w));
    samba_status status = put_repr(w, b, v);
    w->depth--;
    return status;
}

samba_status samba_chat_shown(samba_chat_run *w, samba_chat_value v, samba_str *text)
{
    samba_chat_buffer b = {0};
    *text = v.kind == SAMBA_CHAT_TEXT ? v.text : samba_str_of("", 0);
    if (v.kind == SAMBA_CHAT_TEXT || v.kind == SAMBA_CHAT_UNDEFINED)
        return SAMBA_OK;
    SAMBA_TRY(samba_chat_put_repr(w, &b, v));
    *text = samba_str_of(b.data ? b.data : "", b.size);
    return SAMBA_OK;
}
