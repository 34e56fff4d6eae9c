/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking over values. An iterator is Python's generator: filters such as map and select make one, which computes an item when
 * it is asked for, and which is over once it was walked over. */
#include "text/chat.h"

samba_status samba_chat_iterate(samba_chat_run *w, samba_chat_value v, samba_chat_value *iterator)
{
    samba_chat_iterator *made;
    int64_t count = 0;
    if (v.kind == SAMBA_CHAT_ITERATOR) {
        *iterator = v;
        return SAMBA_OK;
    }
    if (v.kind == SAMBA_CHAT_LOOP)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "walking over a loop is not supported");
    if (!samba_chat_iterable(v))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s has no items to walk over", samba_chat_type(v));
    if (v.kind == SAMBA_CHAT_TEXT)
        count = (int64_t)v.text.size;
    else
        samba_chat_length(w, v, &count);
    SAMBA_TRY(samba_chat_room(w, sizeof *made, &made));
    *made = (samba_chat_iterator){.source = v, .count = count};
    *iterator = (samba_chat_value){.kind = SAMBA_CHAT_ITERATOR, .iterator = made};
    return SAMBA_OK;
}

/* An item of the source, as it is. */
static samba_status plain(samba_chat_run *w, samba_chat_iterator *it, samba_chat_value *item, bool *more)
{
    const samba_chat_value v = it->source;
    SAMBA_TRY(samba_chat_charge(w, 1));
    if (v.kind == SAMBA_CHAT_ITERATOR)
        return samba_chat_next(w, v.iterator, item, more);
    *more = it->at < it->count;
    if (!*more)
        return SAMBA_OK;
    const int64_t at = it->backwards ? it->count - 1 - it->at : it->at;
    it->at++;
    switch (v.kind) {
    case SAMBA_CHAT_TEXT:
        *item = samba_chat_text_of(samba_chat_first(samba_str_of(v.text.data + at, v.text.size - (size_t)at)));
        it->at = at + (int64_t)item->text.size;
        break;
    case SAMBA_CHAT_LIST:
    case SAMBA_CHAT_TUPLE: *item = v.list->items[at]; break;
    case SAMBA_CHAT_DICT:
    case SAMBA_CHAT_KEYS: *item = v.dict->pairs[at].key; break;
    case SAMBA_CHAT_VALUES: *item = v.dict->pairs[at].value; break;
    case SAMBA_CHAT_ITEMS: return samba_chat_pair_new(w, v.dict->pairs[at].key, v.dict->pairs[at].value, item);
    default: *item = samba_chat_int(v.range->start + at * v.range->step); /* a RANGE */
    }
    return SAMBA_OK;
}

samba_status samba_chat_path(samba_chat_run *w, samba_chat_value v, samba_chat_value path, samba_chat_value *part)
{
    *part = v;
    if (path.kind != SAMBA_CHAT_TEXT)
        return samba_chat_item(w, v, path, part);
    for (size_t at = 0; at <= path.text.size;) {
        size_t end = at;
        bool digits = true;
        int64_t index = 0;
        for (; end < path.text.size && path.text.data[end] != '.'; end++) {
            const char c = path.text.data[end];
            digits = digits && c >= '0' && c <= '9' && end - at < 18;
            index = digits ? index * 10 + (c - '0') : 0;
        }
        const samba_chat_value name = samba_chat_text_of(samba_str_of(path.text.data + at, end - at)), of = *part;
        SAMBA_TRY(samba_chat_item(w, of, digits && end > at ? samba_chat_int(index) : name, part));
        at = end + 1;
    }
    return SAMBA_OK;
}

static samba_status selects(samba_chat_run *w, samba_chat_iterator *it, samba_chat_value item, bool *selected)
{
    samba_chat_value of = item, answer;
    if (it->attribute.kind != SAMBA_CHAT_ABSENT)
        SAMBA_TRY(samba_chat_path(w, item, it->attribute, &of));
    if (it->row)
        SAMBA_TRY(samba_chat_call_row(w, it->row, of, &it->call, &answer));
    else
        answer = of;
    SAMBA_TRY(samba_chat_truth(w, answer, selected));
    *selected ^= it->reject;
    return SAMBA_OK;
}

static samba_status changed(samba_chat_run *w, samba_chat_iterator *it, samba_chat_value *item, bool *more)
{
    for (;;) {
        bool selected;
        SAMBA_TRY(plain(w, it, item, more));
        if (!*more || it->change == SAMBA_CHAT_AS_IS)
            return SAMBA_OK;
        const samba_chat_value was = *item;
        if (it->change == SAMBA_CHAT_MAP)
            return samba_chat_call_row(w, it->row, was, &it->call, item);
        if (it->change == SAMBA_CHAT_MAP_ATTRIBUTE) {
            SAMBA_TRY(samba_chat_path(w, was, it->attribute, item));
            if (item->kind == SAMBA_CHAT_UNDEFINED && it->absent.kind != SAMBA_CHAT_ABSENT)
                *item = it->absent;
            return SAMBA_OK;
        }
        SAMBA_TRY(selects(w, it, was, &selected));
        if (selected)
            return SAMBA_OK;
    }
}

samba_status samba_chat_next(samba_chat_run *w, samba_chat_iterator *iterator, samba_chat_value *item, bool *more)
{
    SAMBA_TRY(samba_chat_deeper(w)); /* iterators of iterators */
    samba_status status = changed(w, iterator, item, more);
    w->depth--;
    return status;
}

samba_status samba_chat_listed(samba_chat_run *w, samba_chat_value v, samba_chat_list **list)
{
    samba_chat_value iterator;
    SAMBA_TRY(samba_chat_iterate(w, v, &iterator));
    SAMBA_TRY(samba_chat_list_new(w, list));
    for (;;) {
        samba_chat_value item;
        bool more;
        SAMBA_TRY(samba_chat_next(w, iterator.iterator, &item, &more));
        if (!more)
            return SAMBA_OK;
        SAMBA_TRY(samba_chat_list_add(w, *list, item));
    }
}
