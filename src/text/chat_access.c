/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of values: v.name, v[key], v[from:to:step], `in`, lengths, and walking over them. A part that is not there is undefined,
 * which says what it was to be where it is used. */
#define _GNU_SOURCE /* memmem */
#include "text/chat.h"

int64_t samba_chat_characters(samba_str text)
{
    int64_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count;
}

size_t samba_chat_character(samba_str text, int64_t index)
{
    size_t at = 0;
    for (; index > 0 && at < text.size; index--)
        at += (size_t)samba_utf8_size(text.data[at]);
    return at;
}

samba_str samba_chat_first(samba_str text)
{
    return samba_str_of(text.data, text.size > 0 ? (size_t)samba_utf8_size(text.data[0]) : 0);
}

bool samba_chat_length(samba_chat_run *w, samba_chat_value v, int64_t *length)
{
    (void)w;
    switch (v.kind) {
    case SAMBA_CHAT_UNDEFINED: *length = 0; return true;
    case SAMBA_CHAT_TEXT: *length = samba_chat_characters(v.text); return true;
    case SAMBA_CHAT_LIST:
    case SAMBA_CHAT_TUPLE: *length = v.list->count; return true;
    case SAMBA_CHAT_DICT:
    case SAMBA_CHAT_KEYS:
    case SAMBA_CHAT_VALUES:
    case SAMBA_CHAT_ITEMS: *length = v.dict->count; return true;
    case SAMBA_CHAT_RANGE: *length = v.range->count; return true;
    default: return false;
    }
}

bool samba_chat_iterable(samba_chat_value v)
{
    return v.kind == SAMBA_CHAT_UNDEFINED || v.kind == SAMBA_CHAT_TEXT || v.kind == SAMBA_CHAT_LIST ||
           v.kind == SAMBA_CHAT_TUPLE || v.kind == SAMBA_CHAT_DICT || v.kind == SAMBA_CHAT_KEYS || v.kind == SAMBA_CHAT_VALUES ||
           v.kind == SAMBA_CHAT_ITEMS || v.kind == SAMBA_CHAT_RANGE || v.kind == SAMBA_CHAT_ITERATOR || v.kind == SAMBA_CHAT_LOOP;
}

/* ---- attributes and items ---- */
/* "'role' is not defined", "a dict has no 'role'" */
static samba_status missing(samba_chat_run *w, samba_chat_value v, samba_str name, samba_chat_value *part)
{
    char *said;
    const size_t shown = name.size < 80 ? name.size : 80, size = shown + 64;
    SAMBA_TRY(samba_chat_room(w, size, &said));
    const int length = snprintf(said, size, "%s has no '%.*s'", samba_chat_type(v), (int)shown, name.data);
    *part = samba_chat_undefined(samba_str_of(said, (size_t)length));
    return SAMBA_OK;
}

static samba_status of_undefined(samba_chat_run *w, samba_chat_value v)
{
    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%.*s", (int)v.text.size, v.text.data);
}

/* A method or a property; *found tells. Names with _ before them are hidden from templates. */
static samba_status member(samba_chat_run *w, samba_chat_value v, samba_str name, samba_chat_value *part, bool *found)
{
    const samba_chat_row *row = v.kind == SAMBA_CHAT_TEXT ? samba_chat_text_method(name) : samba_chat_other_method(v.kind, name);
    *found = true;
    if (row) {
        samba_chat_method *method;
        SAMBA_TRY(samba_chat_room(w, sizeof *method, &method));
        *method = (samba_chat_method){v, row};
        *part = (samba_chat_value){.kind = SAMBA_CHAT_METHOD, .method = method};
        return SAMBA_OK;
    }
    if (samba_chat_foreign_method(v.kind, name))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the method \"%.*s\" of %s is not supported", (int)name.size,
                               name.data, samba_chat_type(v));
    if (v.kind == SAMBA_CHAT_LOOP) {
        SAMBA_TRY(samba_chat_loop_attribute(w, v.loop, name, part));
        *found = part->kind != SAMBA_CHAT_ABSENT;
        return SAMBA_OK;
    }
    if (v.kind == SAMBA_CHAT_NAMESPACE) {
        samba_chat_value *value;
        SAMBA_TRY(samba_chat_dict_find(w, v.dict, samba_chat_text_of(name), &value));
        *found = value != NULL;
        if (value)
            *part = *value;
        return SAMBA_OK;
    }
    if (v.kind == SAMBA_CHAT_MACRO || v.kind == SAMBA_CHAT_FUNCTION || v.kind == SAMBA_CHAT_METHOD ||
        v.kind == SAMBA_CHAT_ITERATOR || v.kind == SAMBA_CHAT_RANGE)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "attributes of %s are not supported", samba_chat_type(v));
    *found = false;
    return SAMBA_OK;
}

samba_status samba_chat_attribute(samba_chat_run *w, samba_chat_value v, samba_str name, samba_chat_value *part)
{
    bool found;
    samba_chat_value *value = NULL;
    if (v.kind == SAMBA_CHAT_UNDEFINED)
        return of_undefined(w, v);
    SAMBA_TRY(member(w, v, name, part, &found));
    if (found)
        return SAMBA_OK;
    if (v.kind == SAMBA_CHAT_DICT)
        SAMBA_TRY(samba_chat_dict_find(w, v.dict, samba_chat_text_of(name), &value));
    if (!value)
        return missing(w, v, name, part);
    *part = *value;
    return SAMBA_OK;
}

samba_status samba_chat_item(samba_chat_run *w, samba_chat_value v, samba_chat_value key, samba_chat_value *part)
{
    int64_t index, length;
    bool found = false;
    if (v.kind == SAMBA_CHAT_UNDEFINED)
        return of_undefined(w, v);
    if (v.kind == SAMBA_CHAT_DICT && samba_chat_hashable(key)) {
        samba_chat_value *value;
        SAMBA_TRY(samba_chat_dict_find(w, v.dict, key, &value));
        if (value) {
            *part = *value;
            return SAMBA_OK;
        }
    }
    if (samba_chat_whole(key, &index) && samba_chat_length(w, v, &length)) {
        index += index < 0 ? length : 0;
        const bool within = index >= 0 && index < length;
        if (v.kind == SAMBA_CHAT_TEXT && within) {
            SAMBA_TRY(samba_chat_charge(w, v.text.size / 16));
            const size_t at = samba_chat_character(v.text, index);
            *part = samba_chat_text_of(samba_chat_first(samba_str_of(v.text.data + at, v.text.size - at)));
            part->marked = v.marked;
            return SAMBA_OK;
        }
        if ((v.kind == SAMBA_CHAT_LIST || v.kind == SAMBA_CHAT_TUPLE) && within) {
            *part = v.list->items[index];
            return SAMBA_OK;
        }
        if (v.kind == SAMBA_CHAT_RANGE && within) {
            *part = samba_chat_int(v.range->start + index * v.range->step);
            return SAMBA_OK;
        }
    }
    if (key.kind == SAMBA_CHAT_TEXT)
        SAMBA_TRY(member(w, v, key.text, part, &found));
    if (found)
        return SAMBA_OK;
    samba_str name;
    SAMBA_TRY(samba_chat_shown(w, key, &name));
    return missing(w, v, name, part);
}

/* ---- slices ---- */
/* A bound as Python reads it: from the end where it is negative, and within `least` and `most`. */
static samba_status bound(samba_chat_run *w, samba_chat_value given, int64_t length, int64_t least, int64_t most, int64_t *at)
{
    if (given.kind == SAMBA_CHAT_NONE || given.kind == SAMBA_CHAT_ABSENT)
        return SAMBA_OK;
    if (given.kind == SAMBA_CHAT_UNDEFINED)
        return of_undefined(w, given);
    samba_chat_whole(given, at);
    *at += *at < 0 ? length : 0;
    *at = *at < least ? least : *at > most ? most : *at;
    return SAMBA_OK;
}

static bool is_bound(samba_chat_value v)
{
    return v.kind == SAMBA_CHAT_NONE || v.kind == SAMBA_CHAT_ABSENT || v.kind == SAMBA_CHAT_INT || v.kind == SAMBA_CHAT_BOOL;
}

static samba_status slice_text(samba_chat_run *w, samba_str text, int64_t start, int64_t stop, int64_t step,
                               samba_chat_value *part)
{
    samba_chat_buffer b = {0};
    const size_t first = samba_chat_character(text, start);
    SAMBA_TRY(samba_chat_charge(w, text.size / 16));
    if (step == 1) {
        const samba_str rest = samba_str_of(text.data + first, text.size - first);
        *part = samba_chat_text_of(samba_str_of(rest.data, stop > start ? samba_chat_character(rest, stop - start) : 0));
        return SAMBA_OK;
    }
    size_t at = first;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        SAMBA_TRY(samba_chat_put(w, &b, text.data + at, (size_t)samba_utf8_size(text.data[at])));
        SAMBA_TRY(samba_chat_charge(w, 1));
        for (int64_t k = 0; k < step && at < text.size; k++)
            at += (size_t)samba_utf8_size(text.data[at]);
        for (int64_t k = 0; k < -step && at > 0; k++)
            for (at--; at > 0 && ((unsigned char)text.data[at] & 0xc0) == 0x80; at--)
                continue;
        if (step > stop - i && step > 0)
            break;
    }
    *part = samba_chat_taken(&b);
    return SAMBA_OK;
}

samba_status samba_chat_slice(samba_chat_run *w, samba_chat_value v, samba_chat_value start, samba_chat_value stop,
                              samba_chat_value step, samba_chat_value *part)
{
    int64_t length, by = 1;
    if (v.kind == SAMBA_CHAT_UNDEFINED)
        return of_undefined(w, v);
    const bool fits = is_bound(start) && is_bound(stop) && is_bound(step);
    const bool list = v.kind == SAMBA_CHAT_LIST || v.kind == SAMBA_CHAT_TUPLE;
    if (v.kind == SAMBA_CHAT_RANGE)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "a part of a range is not supported");
    if ((!list && v.kind != SAMBA_CHAT_TEXT) || !fits)
        return missing(w, v, samba_chat_str("slice"), part);
    samba_chat_length(w, v, &length);
    if (step.kind != SAMBA_CHAT_NONE)
        samba_chat_whole(step, &by);
    if (step.kind == SAMBA_CHAT_ABSENT)
        by = 1;
    if (by == 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "a step of 0");
    by = by < -length - 1 ? -length - 1 : by > length + 1 ? length + 1 : by; /* steps beyond give one item as well */
    const bool back = by < 0;
    int64_t from = back ? length - 1 : 0, to = back ? -1 : length;
    SAMBA_TRY(bound(w, start, length, back ? -1 : 0, back ? length - 1 : length, &from));
    SAMBA_TRY(bound(w, stop, length, back ? -1 : 0, back ? length - 1 : length, &to));
    if (!list) {
        SAMBA_TRY(slice_text(w, v.text, from, to, by, part));
        part->marked = v.marked;
        return SAMBA_OK;
    }
    samba_chat_list *made;
    SAMBA_TRY(samba_chat_list_new(w, &made));
    for (int64_t i = from; back ? i > to : i < to; i += by)
        SAMBA_TRY(samba_chat_list_add(w, made, v.list->items[i]));
    *part = (samba_chat_value){.kind = v.kind, .list = made};
    return SAMBA_OK;
}

/* ---- in ---- */
samba_status samba_chat_contains(samba_chat_run *w, samba_chat_value v, samba_chat_value item, bool *contained)
{
    samba_chat_value iterator;
    *contained = false;
    if (v.kind == SAMBA_CHAT_TEXT) {
        if (item.kind != SAMBA_CHAT_TEXT)
            return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "a text cannot have %s in it", samba_chat_type(item));
        SAMBA_TRY(samba_chat_charge(w, v.text.size / 16));
        *contained =
            item.text.size == 0 || (v.text.size > 0 && memmem(v.text.data, v.text.size, item.text.data, item.text.size) != NULL);
        return SAMBA_OK;
    }
    if (v.kind == SAMBA_CHAT_DICT || v.kind == SAMBA_CHAT_KEYS) {
        samba_chat_value *found;
        SAMBA_TRY(samba_chat_dict_find(w, v.dict, item, &found));
        *contained = found != NULL;
        return SAMBA_OK;
    }
    if (!samba_chat_iterable(v))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "nothing is in %s", samba_chat_type(v));
    SAMBA_TRY(samba_chat_iterate(w, v, &iterator));
    for (;;) {
        samba_chat_value at;
        bool more;
        SAMBA_TRY(samba_chat_next(w, iterator.iterator, &at, &more));
        if (!more)
            return SAMBA_OK;
        SAMBA_TRY(samba_chat_equal(w, at, item, contained));
        if (*contained)
            return SAMBA_OK;
    }
}
