/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of lists: those that choose and change items make iterators, which compute when they are walked over. */
#include "text/chat.h"

#define FILTER(name)                                                                                                             \
    static samba_status name(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result)

static samba_status give_list(samba_chat_list *list, samba_chat_value *result)
{
    *result = (samba_chat_value){.kind = SAMBA_CHAT_LIST, .list = list};
    return SAMBA_OK;
}

FILTER(listed)
{
    samba_chat_list *list;
    (void)a;
    SAMBA_TRY(samba_chat_listed(w, self, &list));
    return give_list(list, result);
}

FILTER(first)
{
    samba_chat_value iterator;
    bool more;
    (void)a;
    SAMBA_TRY(samba_chat_iterate(w, self, &iterator));
    SAMBA_TRY(samba_chat_next(w, iterator.iterator, result, &more));
    if (!more)
        *result = samba_chat_undefined(samba_chat_str("there is no first item"));
    return SAMBA_OK;
}

/* An iterator from the last item to the first. */
static samba_status backwards(samba_chat_run *w, samba_chat_value v, samba_chat_value *iterator)
{
    if (v.kind == SAMBA_CHAT_ITERATOR)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "an iterator has no end to begin at; make a list of it before");
    SAMBA_TRY(samba_chat_iterate(w, v, iterator));
    iterator->iterator->backwards = true;
    return SAMBA_OK;
}

FILTER(reversed)
{
    samba_chat_list *list;
    (void)a;
    if (self.kind == SAMBA_CHAT_TEXT)
        return samba_chat_slice(w, self, samba_chat_none(), samba_chat_none(), samba_chat_int(-1), result);
    if (self.kind != SAMBA_CHAT_ITERATOR)
        return backwards(w, self, result);
    SAMBA_TRY(samba_chat_listed(w, self, &list));
    SAMBA_TRY(backwards(w, (samba_chat_value){.kind = SAMBA_CHAT_LIST, .list = list}, result));
    samba_chat_list *turned;
    SAMBA_TRY(samba_chat_listed(w, *result, &turned));
    return give_list(turned, result);
}

FILTER(last)
{
    samba_chat_value iterator, item;
    bool more;
    (void)a;
    if (self.kind == SAMBA_CHAT_TEXT) {
        SAMBA_TRY(samba_chat_item(w, self, samba_chat_int(-1), &item));
        *result = item;
        return SAMBA_OK;
    }
    SAMBA_TRY(backwards(w, self, &iterator));
    SAMBA_TRY(samba_chat_next(w, iterator.iterator, result, &more));
    if (!more)
        *result = samba_chat_undefined(samba_chat_str("there is no last item"));
    return SAMBA_OK;
}

FILTER(items)
{
    (void)a;
    if (self.kind == SAMBA_CHAT_UNDEFINED)
        return samba_chat_iterate(w, self, result);
    if (self.kind != SAMBA_CHAT_DICT)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "items is of a dict, and not of %s", samba_chat_type(self));
    return samba_chat_iterate(w, (samba_chat_value){.kind = SAMBA_CHAT_ITEMS, .dict = self.dict}, result);
}

FILTER(join)
{
    samba_str by = samba_str_of("", 0);
    samba_chat_value iterator, item;
    samba_chat_buffer b = {0};
    SAMBA_TRY(samba_chat_iterate(w, self, &iterator));
    if (a[0].kind != SAMBA_CHAT_ABSENT)
        SAMBA_TRY(samba_chat_shown(w, a[0], &by));
    for (bool any = false, more;; any = true) {
        samba_str text;
        SAMBA_TRY(samba_chat_next(w, iterator.iterator, &item, &more));
        if (!more)
            break;
        const samba_chat_value whole = item;
        if (a[1].kind != SAMBA_CHAT_ABSENT && a[1].kind != SAMBA_CHAT_NONE)
            SAMBA_TRY(samba_chat_path(w, whole, a[1], &item));
        SAMBA_TRY(samba_chat_shown(w, item, &text));
        if (any)
            SAMBA_TRY(samba_chat_put(w, &b, by.data, by.size));
        SAMBA_TRY(samba_chat_put(w, &b, text.data, text.size));
    }
    *result = samba_chat_taken(&b);
    return SAMBA_OK;
}

/* ---- choosing and changing items ---- */
static samba_status iterator_over(samba_chat_run *w, samba_chat_value source, samba_chat_change change, samba_chat_value *result)
{
    samba_chat_value walked;
    samba_chat_iterator *made;
    SAMBA_TRY(samba_chat_iterate(w, source, &walked));
    SAMBA_TRY(samba_chat_room(w, sizeof *made, &made));
    *made = (samba_chat_iterator){.source = walked, .change = change};
    *result = (samba_chat_value){.kind = SAMBA_CHAT_ITERATOR, .iterator = made};
    return SAMBA_OK;
}

/* The arguments at hand from the given one on. */
static samba_chat_call rest(const samba_chat_call *call, int from)
{
    samba_chat_call all = *call;
    all.values = all.count > from ? all.values + from : NULL;
    all.count -= from;
    return all;
}

FILTER(map)
{
    const samba_chat_call *call = w->call;
    samba_str name = samba_str_of("", 0);
    bool any;
    (void)a;
    SAMBA_TRY(samba_chat_truth(w, self, &any));
    if (!any) /* also None and 0 */
        return samba_chat_iterate(w, samba_chat_undefined(name), result);
    SAMBA_TRY(iterator_over(w, self, SAMBA_CHAT_MAP, result));
    samba_chat_iterator *it = result->iterator;
    if (call->count > 0) {
        SAMBA_TRY(samba_chat_take_text(w, call->values[0], "map", &name));
        it->row = samba_chat_filter(name);
        it->call = rest(call, 1);
        if (it->row)
            return SAMBA_OK;
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the filter \"%.*s\" is not supported",
                               (int)(name.size < 60 ? name.size : 60), name.data);
    }
    it->change = SAMBA_CHAT_MAP_ATTRIBUTE;
    for (int i = 0; i < call->named_count; i++) {
        const bool attribute = samba_str_equal(call->names[i], samba_chat_str("attribute"));
        if (attribute)
            it->attribute = call->named[i];
        else if (samba_str_equal(call->names[i], samba_chat_str("default")))
            it->absent = call->named[i].kind == SAMBA_CHAT_NONE ? it->absent : call->named[i];
        else
            return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "map has an argument by a name that it does not know");
    }
    if (it->attribute.kind == SAMBA_CHAT_ABSENT)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "map needs a filter or an attribute");
    if (it->attribute.kind != SAMBA_CHAT_TEXT && it->attribute.kind != SAMBA_CHAT_INT)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "%s as an attribute is not supported", samba_chat_type(it->attribute));
    return SAMBA_OK;
}

static samba_status choose(samba_chat_run *w, samba_chat_value self, bool by_attribute, bool reject, samba_chat_value *result)
{
    const samba_chat_call *call = w->call;
    samba_str name = samba_str_of("", 0);
    const int from = by_attribute;
    bool any;
    SAMBA_TRY(samba_chat_truth(w, self, &any));
    if (!any)
        return samba_chat_iterate(w, samba_chat_undefined(name), result);
    SAMBA_TRY(iterator_over(w, self, SAMBA_CHAT_SELECT, result));
    samba_chat_iterator *it = result->iterator;
    it->reject = reject;
    if (by_attribute && call->count == 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "an attribute to choose by is missing");
    if (by_attribute)
        it->attribute = call->values[0];
    if (by_attribute && it->attribute.kind != SAMBA_CHAT_TEXT && it->attribute.kind != SAMBA_CHAT_INT)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "%s as an attribute is not supported", samba_chat_type(it->attribute));
    if (call->count <= from)
        return SAMBA_OK;
    SAMBA_TRY(samba_chat_take_text(w, call->values[from], "test", &name));
    it->row = samba_chat_test(name);
    it->call = rest(call, from + 1);
    if (it->row)
        return SAMBA_OK;
    return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the test \"%.*s\" is not supported",
                           (int)(name.size < 60 ? name.size : 60), name.data);
}
FILTER(selected) { return (void)a, choose(w, self, false, false, result); }
FILTER(rejected) { return (void)a, choose(w, self, false, true, result); }
FILTER(selected_by) { return (void)a, choose(w, self, true, false, result); }
FILTER(rejected_by) { return (void)a, choose(w, self, true, true, result); }

/* ---- order ---- */
/* What an item is ordered by: itself or parts of it, texts in lower case. */
static samba_status key_of(samba_chat_run *w, samba_chat_value item, samba_chat_value attribute, bool cased,
                           samba_chat_value *key)
{
    *key = item;
    if (attribute.kind != SAMBA_CHAT_ABSENT && attribute.kind != SAMBA_CHAT_NONE)
        SAMBA_TRY(samba_chat_path(w, item, attribute, key));
    if (key->kind != SAMBA_CHAT_TEXT || cased)
        return SAMBA_OK;
    const samba_str text = key->text;
    return samba_chat_cased(w, text, SAMBA_CHAT_LOWER, key);
}

/* The keys by each of the attributes in "a,b" or by an item itself, as a list: equal parts of lists are not ordered. */
static samba_status keys_of(samba_chat_run *w, samba_chat_value item, samba_chat_value attributes, bool cased,
                            samba_chat_value *keys)
{
    samba_chat_list *list;
    samba_chat_value key;
    SAMBA_TRY(samba_chat_list_new(w, &list));
    *keys = (samba_chat_value){.kind = SAMBA_CHAT_LIST, .list = list};
    const bool text = attributes.kind == SAMBA_CHAT_TEXT;
    for (samba_str rest = text ? attributes.text : samba_str_of("", 0);;) {
        const char *comma = rest.size > 0 ? memchr(rest.data, ',', rest.size) : NULL;
        const size_t size = comma ? (size_t)(comma - rest.data) : rest.size;
        const samba_chat_value one = text ? samba_chat_text_of(samba_str_of(rest.data, size)) : attributes;
        SAMBA_TRY(key_of(w, item, one, cased, &key));
        SAMBA_TRY(samba_chat_list_add(w, list, key));
        if (!comma)
            return SAMBA_OK;
        rest = samba_str_of(rest.data + size + 1, rest.size - size - 1);
    }
}

/* Merges two runs of pairs (key, item), `from` to `middle` and `middle` to `end`; equal ones stay in their order. */
static samba_status merge(samba_chat_run *w, const samba_chat_pair *in, samba_chat_pair *out, int64_t from, int64_t middle,
                          int64_t end, bool down)
{
    int64_t a = from, b = middle;
    for (int64_t i = from; i < end; i++) {
        int order = 1;
        SAMBA_TRY(samba_chat_charge(w, 1));
        if (a < middle && b < end) {
            SAMBA_TRY(down ? samba_chat_compare(w, "<", in[a].key, in[b].key, &order)
                           : samba_chat_compare(w, "<", in[b].key, in[a].key, &order));
            order = order == -1 ? -1 : 1;
        }
        const bool second = b < end && (a >= middle || order == -1);
        out[i] = second ? in[b++] : in[a++];
    }
    return SAMBA_OK;
}

static samba_status sort(samba_chat_run *w, samba_chat_pair *pairs, int64_t count, bool down)
{
    samba_chat_pair *other;
    SAMBA_TRY(samba_chat_room(w, (size_t)(count + 1) * sizeof *other, &other));
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t from = 0; from < count; from += 2 * width) {
            const int64_t middle = from + width < count ? from + width : count,
                          end = from + 2 * width < count ? from + 2 * width : count;
            SAMBA_TRY(merge(w, pairs, other, from, middle, end, down));
        }
        memcpy(pairs, other, (size_t)count * sizeof *pairs);
    }
    return SAMBA_OK;
}

typedef samba_status make_key(samba_chat_run *w, samba_chat_value item, samba_chat_value attribute, bool cased,
                              samba_chat_value *key);

/* Items by their keys, sorted, as a list. */
static samba_status sorted(samba_chat_run *w, const samba_chat_list *items, make_key *key, samba_chat_value attribute, bool cased,
                           bool down, samba_chat_value *result)
{
    samba_chat_pair *pairs;
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_room(w, (size_t)(items->count + 1) * sizeof *pairs, &pairs));
    for (int64_t i = 0; i < items->count; i++) {
        pairs[i].value = items->items[i];
        SAMBA_TRY(key(w, items->items[i], attribute, cased, &pairs[i].key));
    }
    SAMBA_TRY(sort(w, pairs, items->count, down));
    SAMBA_TRY(samba_chat_list_new(w, &list));
    for (int64_t i = 0; i < items->count; i++)
        SAMBA_TRY(samba_chat_list_add(w, list, pairs[i].value));
    return give_list(list, result);
}

FILTER(sort_filter)
{
    bool down = false, cased = false;
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_take_bool(w, a[0], &down));
    SAMBA_TRY(samba_chat_take_bool(w, a[1], &cased));
    SAMBA_TRY(samba_chat_listed(w, self, &list));
    return sorted(w, list, keys_of, a[2], cased, down, result);
}

FILTER(dictsort)
{
    bool down = false, cased = false;
    samba_str by = samba_chat_str("key");
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_take_bool(w, a[0], &cased));
    SAMBA_TRY(samba_chat_take_text(w, a[1], "by", &by));
    SAMBA_TRY(samba_chat_take_bool(w, a[2], &down));
    const bool value = samba_str_equal(by, samba_chat_str("value"));
    if (!value && !samba_str_equal(by, samba_chat_str("key")))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "dictsort is by \"key\" or \"value\"");
    if (self.kind != SAMBA_CHAT_DICT)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "dictsort is of a dict, and not of %s", samba_chat_type(self));
    SAMBA_TRY(samba_chat_listed(w, (samba_chat_value){.kind = SAMBA_CHAT_ITEMS, .dict = self.dict}, &list));
    return sorted(w, list, key_of, samba_chat_int(value), cased, down, result);
}

FILTER(unique)
{
    bool cased = false;
    samba_chat_list *list, *made;
    samba_chat_dict *seen;
    SAMBA_TRY(samba_chat_take_bool(w, a[0], &cased));
    SAMBA_TRY(samba_chat_listed(w, self, &list));
    SAMBA_TRY(samba_chat_list_new(w, &made));
    SAMBA_TRY(samba_chat_dict_new(w, &seen));
    for (int64_t i = 0; i < list->count; i++) {
        samba_chat_value key, *known;
        SAMBA_TRY(key_of(w, list->items[i], a[1], cased, &key));
        SAMBA_TRY(samba_chat_dict_find(w, seen, key, &known));
        if (known)
            continue;
        SAMBA_TRY(samba_chat_dict_set(w, seen, key, key));
        SAMBA_TRY(samba_chat_list_add(w, made, list->items[i]));
    }
    return samba_chat_iterate(w, (samba_chat_value){.kind = SAMBA_CHAT_LIST, .list = made}, result);
}

static samba_status extreme(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, bool greatest,
                            samba_chat_value *result)
{
    bool cased = false;
    samba_chat_list *list;
    samba_chat_value best;
    SAMBA_TRY(samba_chat_take_bool(w, a[0], &cased));
    SAMBA_TRY(samba_chat_listed(w, self, &list));
    *result = samba_chat_undefined(samba_chat_str("there is no greatest or least item of none"));
    for (int64_t i = 0; i < list->count; i++) {
        samba_chat_value key;
        int order = -1;
        SAMBA_TRY(key_of(w, list->items[i], a[1], cased, &key));
        if (i > 0)
            SAMBA_TRY(greatest ? samba_chat_compare(w, ">", best, key, &order) : samba_chat_compare(w, "<", key, best, &order));
        if (order != -1)
            continue;
        best = key;
        *result = list->items[i];
    }
    return SAMBA_OK;
}
FILTER(least) { return extreme(w, self, a, false, result); }
FILTER(greatest) { return extreme(w, self, a, true, result); }

FILTER(sum)
{
    samba_chat_value iterator, item, all = a[1].kind != SAMBA_CHAT_ABSENT ? a[1] : samba_chat_int(0);
    if (all.kind == SAMBA_CHAT_TEXT)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "texts have no sum; join is for them");
    SAMBA_TRY(samba_chat_iterate(w, self, &iterator));
    for (;;) {
        bool more;
        SAMBA_TRY(samba_chat_next(w, iterator.iterator, &item, &more));
        if (!more)
            break;
        const samba_chat_value whole = item, before = all;
        if (a[0].kind != SAMBA_CHAT_ABSENT && a[0].kind != SAMBA_CHAT_NONE)
            SAMBA_TRY(samba_chat_path(w, whole, a[0], &item));
        SAMBA_TRY(samba_chat_binary(w, SAMBA_CHAT_ADD, before, item, &all));
    }
    *result = all;
    return SAMBA_OK;
}

static const samba_chat_row FILTERS[] = {
    {"list", listed, ""},
    {"first", first, ""},
    {"last", last, ""},
    {"reverse", reversed, ""},
    {"items", items, ""},
    {"join", join, "* d attribute"},
    {"map", map, "..."},
    {"select", selected, "..."},
    {"reject", rejected, "..."},
    {"selectattr", selected_by, "..."},
    {"rejectattr", rejected_by, "..."},
    {"sort", sort_filter, "* reverse case_sensitive attribute"},
    {"dictsort", dictsort, "* case_sensitive by reverse"},
    {"unique", unique, "* case_sensitive attribute"},
    {"min", least, "* case_sensitive attribute"},
    {"max", greatest, "* case_sensitive attribute"},
    {"sum", sum, "* attribute start"},
};

const samba_chat_row *samba_chat_filter_of_lists(samba_str name)
{
    return samba_chat_row_find(FILTERS, SAMBA_COUNT(FILTERS), name);
}
