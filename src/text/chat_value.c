/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a template: what they are worth in a condition, which are equal, how they are ordered; lists and dicts that grow
 * while they are made; and what a rendering counts: steps, depth, memory. */
#include "text/chat.h"

#include <math.h>

/* ---- what is counted ---- */
samba_status samba_chat_fail(samba_chat_run *w, samba_status status, const char *format, ...)
{
    char message[700];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(message, sizeof message, format, arguments) < 0)
        message[0] = '\0';
    va_end(arguments);
    return samba_chat_syntax(w->context, status, w->line, "%s", message);
}

samba_status samba_chat_charge(samba_chat_run *w, size_t steps)
{
    w->steps -= (int64_t)steps;
    if (w->steps < 0)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the template takes too many steps on this conversation");
    return SAMBA_OK;
}

samba_status samba_chat_deeper(samba_chat_run *w)
{
    SAMBA_TRY(samba_chat_charge(w, 1));
    if (++w->depth > SAMBA_CHAT_MOST_DEPTH)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "more than %d nested parts, calls or values", SAMBA_CHAT_MOST_DEPTH);
    return SAMBA_OK;
}

static samba_status refused_or(samba_chat_run *w, samba_status status)
{
    if (status != SAMBA_OK && w->arena.refused)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the template takes too much memory on this conversation");
    return status;
}

samba_status samba_chat_room(samba_chat_run *w, size_t size, void *pointer)
{
    SAMBA_TRY(samba_chat_charge(w, size / 64));
    return refused_or(w, samba_arena_room(&w->arena, size, pointer));
}

samba_status samba_chat_more(samba_chat_run *w, void *array, size_t each, int64_t count, int64_t *room)
{
    if (count == *room)
        SAMBA_TRY(samba_chat_charge(w, 2 * (size_t)count * each / 64));
    return refused_or(w, samba_arena_more(&w->arena, array, each, count, room));
}

/* ---- kinds ---- */
const char *samba_chat_type(samba_chat_value v)
{
    static const char *const names[] = {"nothing",     "an undefined value",
                                        "None",        "a bool",
                                        "an int",      "a float",
                                        "a text",      "a list",
                                        "a tuple",     "a dict",
                                        "keys",        "values",
                                        "items",       "a range",
                                        "a namespace", "an iterator",
                                        "a loop",      "a macro",
                                        "a function",  "a method"};
    return names[v.kind];
}

bool samba_chat_hashable(samba_chat_value key)
{
    if (key.kind != SAMBA_CHAT_TUPLE)
        return key.kind != SAMBA_CHAT_LIST && key.kind != SAMBA_CHAT_DICT && key.kind != SAMBA_CHAT_ITEMS &&
               key.kind != SAMBA_CHAT_KEYS;
    for (int64_t i = 0; i < key.list->count; i++)
        if (key.list->items[i].kind == SAMBA_CHAT_TUPLE ? key.list->items[i].list->count > 0
                                                        : !samba_chat_hashable(key.list->items[i]))
            return false; /* tuples of tuples are no keys here */
    return true;
}

samba_status samba_chat_truth(samba_chat_run *w, samba_chat_value v, bool *truth)
{
    int64_t length;
    (void)w;
    switch (v.kind) {
    case SAMBA_CHAT_ABSENT:
    case SAMBA_CHAT_UNDEFINED:
    case SAMBA_CHAT_NONE: *truth = false; break;
    case SAMBA_CHAT_BOOL: *truth = v.truth; break;
    case SAMBA_CHAT_INT: *truth = v.integer != 0; break;
    case SAMBA_CHAT_FLOAT: *truth = v.real != 0; break;
    case SAMBA_CHAT_TEXT: *truth = v.text.size > 0; break;
    default: *truth = !samba_chat_length(w, v, &length) || length > 0;
    }
    return SAMBA_OK;
}

/* ---- equality ---- */
static samba_status lists_equal(samba_chat_run *w, const samba_chat_list *a, const samba_chat_list *b, bool *equal)
{
    *equal = a->count == b->count;
    for (int64_t i = 0; *equal && i < a->count; i++)
        SAMBA_TRY(samba_chat_equal(w, a->items[i], b->items[i], equal));
    return SAMBA_OK;
}

static samba_status dicts_equal(samba_chat_run *w, const samba_chat_dict *a, const samba_chat_dict *b, bool *equal)
{
    *equal = a->count == b->count;
    for (int64_t i = 0; *equal && i < a->count; i++) {
        samba_chat_value *other;
        SAMBA_TRY(samba_chat_dict_find(w, b, a->pairs[i].key, &other));
        *equal = other != NULL;
        if (other)
            SAMBA_TRY(samba_chat_equal(w, a->pairs[i].value, *other, equal));
    }
    return SAMBA_OK;
}

static samba_status same_kind_equal(samba_chat_run *w, samba_chat_value a, samba_chat_value b, bool *equal)
{
    switch (a.kind) {
    case SAMBA_CHAT_UNDEFINED:
    case SAMBA_CHAT_NONE: *equal = true; break;
    case SAMBA_CHAT_TEXT:
        *equal = samba_str_equal(a.text, b.text);
        return *equal ? samba_chat_charge(w, a.text.size / 64) : SAMBA_OK;
    case SAMBA_CHAT_LIST:
    case SAMBA_CHAT_TUPLE: return lists_equal(w, a.list, b.list, equal);
    case SAMBA_CHAT_DICT: return dicts_equal(w, a.dict, b.dict, equal);
    case SAMBA_CHAT_RANGE:
        *equal = a.range->count == b.range->count &&
                 (a.range->count == 0 ||
                  (a.range->start == b.range->start && (a.range->count == 1 || a.range->step == b.range->step)));
        break;
    case SAMBA_CHAT_NAMESPACE:
    case SAMBA_CHAT_ITERATOR:
    case SAMBA_CHAT_LOOP:
    case SAMBA_CHAT_MACRO:
    case SAMBA_CHAT_FUNCTION: *equal = a.dict == b.dict; break;
    default: return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "comparing %s is not supported", samba_chat_type(a));
    }
    return SAMBA_OK;
}

samba_status samba_chat_equal(samba_chat_run *w, samba_chat_value a, samba_chat_value b, bool *equal)
{
    double x, y;
    int64_t i, k;
    *equal = false;
    SAMBA_TRY(samba_chat_deeper(w));
    samba_status status = SAMBA_OK;
    if (samba_chat_whole(a, &i) && samba_chat_whole(b, &k))
        *equal = i == k;
    else if (samba_chat_number(a, &x) && samba_chat_number(b, &y))
        *equal = x == y;
    else if (a.kind == b.kind)
        status = same_kind_equal(w, a, b, equal);
    w->depth--;
    return status;
}

/* ---- order ---- */
static samba_status compare_lists(samba_chat_run *w, const char *sign, const samba_chat_list *a, const samba_chat_list *b,
                                  int *order)
{
    int64_t i = 0;
    bool equal = true;
    while (i < a->count && i < b->count) {
        SAMBA_TRY(samba_chat_equal(w, a->items[i], b->items[i], &equal));
        if (!equal)
            return samba_chat_compare(w, sign, a->items[i], b->items[i], order);
        i++;
    }
    *order = a->count < b->count ? -1 : a->count > b->count;
    return SAMBA_OK;
}

samba_status samba_chat_compare(samba_chat_run *w, const char *sign, samba_chat_value a, samba_chat_value b, int *order)
{
    double x, y;
    int64_t i, k;
    if (samba_chat_whole(a, &i) && samba_chat_whole(b, &k)) {
        *order = i < k ? -1 : i > k;
        return SAMBA_OK;
    }
    if (samba_chat_number(a, &x) && samba_chat_number(b, &y)) {
        *order = isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
        return SAMBA_OK;
    }
    if (a.kind == SAMBA_CHAT_TEXT && b.kind == SAMBA_CHAT_TEXT) { /* UTF-8's bytes are ordered as its characters are */
        const size_t size = a.text.size < b.text.size ? a.text.size : b.text.size;
        SAMBA_TRY(samba_chat_charge(w, size / 64));
        const int found = size > 0 ? memcmp(a.text.data, b.text.data, size) : 0;
        *order = found ? found : a.text.size < b.text.size ? -1 : a.text.size > b.text.size;
        *order = *order < 0 ? -1 : *order > 0;
        return SAMBA_OK;
    }
    if (a.kind == b.kind && (a.kind == SAMBA_CHAT_LIST || a.kind == SAMBA_CHAT_TUPLE)) {
        SAMBA_TRY(samba_chat_deeper(w));
        samba_status status = compare_lists(w, sign, a.list, b.list, order);
        w->depth--;
        return status;
    }
    if (a.kind == b.kind && (a.kind == SAMBA_CHAT_KEYS || a.kind == SAMBA_CHAT_ITEMS))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "comparing %s is not supported", samba_chat_type(a));
    if (a.kind == SAMBA_CHAT_UNDEFINED || b.kind == SAMBA_CHAT_UNDEFINED)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%.*s", (int)(a.kind == SAMBA_CHAT_UNDEFINED ? a.text.size : b.text.size),
                               a.kind == SAMBA_CHAT_UNDEFINED ? a.text.data : b.text.data);
    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s is not between %s and %s", sign, samba_chat_type(a), samba_chat_type(b));
}

/* ---- lists and dicts ---- */
samba_status samba_chat_list_new(samba_chat_run *w, samba_chat_list **list) { return samba_chat_room(w, sizeof **list, list); }

samba_status samba_chat_list_add(samba_chat_run *w, samba_chat_list *list, samba_chat_value item)
{
    SAMBA_TRY(SAMBA_CHAT_MORE(w, list->items, list->count, list->room));
    list->items[list->count++] = item;
    return SAMBA_OK;
}

samba_status samba_chat_dict_new(samba_chat_run *w, samba_chat_dict **dict) { return samba_chat_room(w, sizeof **dict, dict); }

samba_status samba_chat_dict_find(samba_chat_run *w, const samba_chat_dict *dict, samba_chat_value key, samba_chat_value **value)
{
    *value = NULL;
    if (!samba_chat_hashable(key))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s cannot be a key", samba_chat_type(key));
    SAMBA_TRY(samba_chat_charge(w, (size_t)dict->count / 8));
    for (int64_t i = 0; i < dict->count; i++) {
        const samba_chat_value *at = &dict->pairs[i].key;
        bool equal = key.kind == SAMBA_CHAT_TEXT && at->kind == SAMBA_CHAT_TEXT && samba_str_equal(at->text, key.text);
        if (!equal && (key.kind != SAMBA_CHAT_TEXT || at->kind != SAMBA_CHAT_TEXT))
            SAMBA_TRY(samba_chat_equal(w, *at, key, &equal));
        if (equal) {
            *value = &dict->pairs[i].value;
            return SAMBA_OK;
        }
    }
    return SAMBA_OK;
}

static samba_status add_pair(samba_chat_run *w, samba_chat_dict *dict, samba_chat_value key, samba_chat_value value)
{
    SAMBA_TRY(SAMBA_CHAT_MORE(w, dict->pairs, dict->count, dict->room));
    dict->pairs[dict->count++] = (samba_chat_pair){key, value};
    return SAMBA_OK;
}

samba_status samba_chat_dict_set(samba_chat_run *w, samba_chat_dict *dict, samba_chat_value key, samba_chat_value value)
{
    samba_chat_value *known;
    SAMBA_TRY(samba_chat_dict_find(w, dict, key, &known));
    if (!known)
        return add_pair(w, dict, key, value);
    *known = value;
    return SAMBA_OK;
}

samba_status samba_chat_pair_new(samba_chat_run *w, samba_chat_value a, samba_chat_value b, samba_chat_value *tuple)
{
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_list_new(w, &list));
    SAMBA_TRY(samba_chat_list_add(w, list, a));
    SAMBA_TRY(samba_chat_list_add(w, list, b));
    *tuple = (samba_chat_value){.kind = SAMBA_CHAT_TUPLE, .list = list};
    return SAMBA_OK;
}
