/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of texts, dicts, lists and loops, as Python has them. Those that change their value do not exist for templates; those
 * of Python that are not here are refused by name. */
#define _GNU_SOURCE /* memmem */
#include "text/chat.h"

#include <utf8proc.h>

#define METHOD(name)                                                                                                             \
    static samba_status name(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result)

static samba_status give(samba_str text, samba_chat_value *result)
{
    *result = samba_chat_text_of(text);
    return SAMBA_OK;
}

/* ---- white space and case ---- */
static samba_status strip(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, bool left, bool right,
                          samba_chat_value *result)
{
    samba_str of = samba_str_of(NULL, 0);
    if (a[0].kind != SAMBA_CHAT_NONE)
        SAMBA_TRY(samba_chat_take_text(w, a[0], "chars", &of));
    SAMBA_TRY(samba_chat_charge(w, self.text.size / 64));
    return give(samba_chat_strip(self.text, of, left, right), result);
}
METHOD(strip_both) { return strip(w, self, a, true, true, result); }
METHOD(strip_left) { return strip(w, self, a, true, false, result); }
METHOD(strip_right) { return strip(w, self, a, false, true, result); }
METHOD(upper) { return (void)a, samba_chat_cased(w, self.text, SAMBA_CHAT_UPPER, result); }
METHOD(lower) { return (void)a, samba_chat_cased(w, self.text, SAMBA_CHAT_LOWER, result); }
METHOD(title) { return (void)a, samba_chat_cased(w, self.text, SAMBA_CHAT_TITLE, result); }
METHOD(capitalize) { return (void)a, samba_chat_cased(w, self.text, SAMBA_CHAT_CAPITALIZE, result); }

/* ---- finding ---- */
static samba_status no_bounds(samba_chat_run *w, const samba_chat_value *a)
{
    if (a[1].kind != SAMBA_CHAT_ABSENT || a[2].kind != SAMBA_CHAT_ABSENT)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED,
                               "searching a part of a text, from one place to another, is not supported");
    return SAMBA_OK;
}

static samba_status side(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, bool end, samba_chat_value *result)
{
    const samba_chat_value *options = &a[0];
    int64_t count = 1;
    bool found = false;
    SAMBA_TRY(no_bounds(w, a));
    if (a[0].kind == SAMBA_CHAT_TUPLE) {
        options = a[0].list->items;
        count = a[0].list->count;
    }
    for (int64_t i = 0; !found && i < count; i++) {
        samba_str part = samba_str_of("", 0);
        SAMBA_TRY(samba_chat_take_text(w, options[i], "prefix", &part));
        const samba_str rest =
            samba_str_of(self.text.data + (end && self.text.size >= part.size ? self.text.size - part.size : 0),
                         self.text.size >= part.size ? part.size : 0);
        found = self.text.size >= part.size && samba_str_equal(rest, part);
    }
    *result = samba_chat_bool(found);
    return SAMBA_OK;
}
METHOD(startswith) { return side(w, self, a, false, result); }
METHOD(endswith) { return side(w, self, a, true, result); }

/* The last place of `part` in a text that ends at `size`; -1: none. */
static int64_t last_place(samba_str text, size_t size, samba_str part)
{
    for (size_t at = size >= part.size ? size - part.size + 1 : 0; at-- > 0;)
        if (memcmp(text.data + at, part.data, part.size) == 0)
            return (int64_t)at;
    return -1;
}

static samba_status place(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, bool last, bool needed,
                          samba_chat_value *result)
{
    samba_str part = samba_str_of("", 0);
    int64_t at;
    SAMBA_TRY(no_bounds(w, a));
    SAMBA_TRY(samba_chat_take_text(w, a[0], "sub", &part));
    SAMBA_TRY(samba_chat_charge(w, self.text.size / 8 + (last ? self.text.size / 8 * (part.size / 64) : 0)));
    if (part.size == 0)
        at = last ? (int64_t)self.text.size : 0;
    else if (last)
        at = last_place(self.text, self.text.size, part);
    else {
        const char *found = self.text.size > 0 ? memmem(self.text.data, self.text.size, part.data, part.size) : NULL;
        at = found ? found - self.text.data : -1;
    }
    if (at < 0 && needed)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "the text that index looks for is not there");
    *result = samba_chat_int(at < 0 ? -1 : samba_chat_characters(samba_str_of(self.text.data, (size_t)at)));
    return SAMBA_OK;
}
METHOD(find) { return place(w, self, a, false, false, result); }
METHOD(rfind) { return place(w, self, a, true, false, result); }
METHOD(text_index) { return place(w, self, a, false, true, result); }
METHOD(rindex_of) { return place(w, self, a, true, true, result); }

METHOD(text_count)
{
    samba_str part = samba_str_of("", 0);
    int64_t count = 0;
    SAMBA_TRY(no_bounds(w, a));
    SAMBA_TRY(samba_chat_take_text(w, a[0], "sub", &part));
    SAMBA_TRY(samba_chat_charge(w, self.text.size / 8));
    if (part.size == 0)
        count = samba_chat_characters(self.text) + 1;
    for (size_t at = 0; part.size > 0 && at < self.text.size; count++) {
        const char *found = memmem(self.text.data + at, self.text.size - at, part.data, part.size);
        if (!found)
            break;
        at = (size_t)(found - self.text.data) + part.size;
    }
    *result = samba_chat_int(count);
    return SAMBA_OK;
}

/* ---- cutting and joining ---- */
static samba_status add_part(samba_chat_run *w, samba_chat_list *list, samba_str text, size_t from, size_t to)
{
    return samba_chat_list_add(w, list, samba_chat_text_of(samba_str_of(text.data + from, to - from)));
}

static samba_status split_spaces(samba_chat_run *w, samba_str text, int64_t most, samba_chat_list *list)
{
    text = samba_chat_strip(text, samba_str_of(NULL, 0), true, false);
    while (text.size > 0) {
        size_t end = 0;
        int size;
        while (end < text.size && !samba_chat_is_space(samba_utf8_code(text.data + end, &size)))
            end += (size_t)size;
        if (most >= 0 && list->count == most)
            end = text.size; /* with what spaces there are at its end */
        SAMBA_TRY(add_part(w, list, text, 0, end));
        text = samba_chat_strip(samba_str_of(text.data + end, text.size - end), samba_str_of(NULL, 0), true, false);
    }
    return SAMBA_OK;
}

static void reverse(samba_chat_list *list)
{
    for (int64_t i = 0; i < list->count / 2; i++) {
        const samba_chat_value kept = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = kept;
    }
}

static samba_status rsplit_spaces(samba_chat_run *w, samba_str text, int64_t most, samba_chat_list *list)
{
    const samba_str spaces = samba_str_of(NULL, 0);
    text = samba_chat_strip(text, spaces, false, true);
    while (text.size > 0) {
        size_t begin = text.size;
        for (size_t at = text.size; at > 0;) {
            int size;
            for (at--; at > 0 && ((unsigned char)text.data[at] & 0xc0) == 0x80; at--)
                continue;
            if (samba_chat_is_space(samba_utf8_code(text.data + at, &size)))
                break;
            begin = at;
        }
        if (most >= 0 && list->count == most)
            begin = 0;
        SAMBA_TRY(add_part(w, list, text, begin, text.size));
        text = samba_chat_strip(samba_str_of(text.data, begin), spaces, false, true);
    }
    reverse(list);
    return SAMBA_OK;
}

static samba_status split_by(samba_chat_run *w, samba_str text, samba_str by, int64_t most, bool back, samba_chat_list *list)
{
    size_t from = 0, to = text.size;
    while (most < 0 || list->count < most) {
        int64_t at;
        if (back)
            at = last_place(text, to, by);
        else {
            const char *found = text.size - from >= by.size ? memmem(text.data + from, text.size - from, by.data, by.size) : NULL;
            at = found ? found - text.data : -1;
        }
        if (at < 0)
            break;
        SAMBA_TRY(back ? add_part(w, list, text, (size_t)at + by.size, to) : add_part(w, list, text, from, (size_t)at));
        if (back)
            to = (size_t)at;
        else
            from = (size_t)at + by.size;
    }
    SAMBA_TRY(add_part(w, list, text, from, to));
    if (back)
        reverse(list);
    return SAMBA_OK;
}

static samba_status split_any(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, bool back,
                              samba_chat_value *result)
{
    samba_str by = samba_str_of(NULL, 0);
    int64_t most = -1;
    samba_chat_list *list;
    if (a[0].kind != SAMBA_CHAT_NONE)
        SAMBA_TRY(samba_chat_take_text(w, a[0], "sep", &by));
    SAMBA_TRY(samba_chat_take_int(w, a[1], "maxsplit", &most));
    SAMBA_TRY(samba_chat_list_new(w, &list));
    SAMBA_TRY(samba_chat_charge(w, self.text.size / 8 * (back ? 1 + by.size / 64 : 1)));
    if (by.data && by.size == 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "split needs a text to split by, which is empty");
    if (by.data)
        SAMBA_TRY(split_by(w, self.text, by, most, back, list));
    else
        SAMBA_TRY(back ? rsplit_spaces(w, self.text, most, list) : split_spaces(w, self.text, most, list));
    *result = (samba_chat_value){.kind = SAMBA_CHAT_LIST, .list = list};
    return SAMBA_OK;
}
METHOD(split) { return split_any(w, self, a, false, result); }
METHOD(rsplit) { return split_any(w, self, a, true, result); }

static samba_status partition_any(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, bool back,
                                  samba_chat_value *result)
{
    samba_str by = samba_str_of("", 0), whole = self.text;
    samba_chat_list *list, *parts;
    SAMBA_TRY(samba_chat_take_text(w, a[0], "sep", &by));
    SAMBA_TRY(samba_chat_charge(w, whole.size / 8 * (1 + by.size / 64)));
    if (by.size == 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "partition needs a text to split by, which is empty");
    SAMBA_TRY(samba_chat_list_new(w, &parts));
    SAMBA_TRY(split_by(w, whole, by, 1, back, parts));
    SAMBA_TRY(samba_chat_list_new(w, &list));
    const samba_chat_value none = samba_chat_text_of(samba_str_of("", 0));
    const bool found = parts->count == 2;
    SAMBA_TRY(samba_chat_list_add(w, list, found || !back ? parts->items[0] : none));
    SAMBA_TRY(samba_chat_list_add(w, list, found ? samba_chat_text_of(by) : none));
    SAMBA_TRY(samba_chat_list_add(w, list, found ? parts->items[1] : back ? parts->items[0] : none));
    *result = (samba_chat_value){.kind = SAMBA_CHAT_TUPLE, .list = list};
    return SAMBA_OK;
}
METHOD(partition) { return partition_any(w, self, a, false, result); }
METHOD(rpartition) { return partition_any(w, self, a, true, result); }

METHOD(splitlines)
{
    bool ends = false;
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_take_bool(w, a[0], &ends));
    SAMBA_TRY(samba_chat_lines(w, self.text, ends, &list));
    *result = (samba_chat_value){.kind = SAMBA_CHAT_LIST, .list = list};
    return SAMBA_OK;
}

METHOD(join)
{
    samba_chat_list *parts;
    samba_chat_buffer b = {0};
    SAMBA_TRY(samba_chat_listed(w, a[0], &parts));
    for (int64_t i = 0; i < parts->count; i++) {
        samba_str part = samba_str_of("", 0);
        SAMBA_TRY(samba_chat_take_text(w, parts->items[i], "an item of join", &part));
        if (i > 0)
            SAMBA_TRY(samba_chat_put(w, &b, self.text.data, self.text.size));
        SAMBA_TRY(samba_chat_put(w, &b, part.data, part.size));
    }
    *result = samba_chat_taken(&b);
    return SAMBA_OK;
}

METHOD(replace)
{
    samba_str old = samba_str_of("", 0), with = old;
    int64_t most = -1;
    SAMBA_TRY(samba_chat_take_text(w, a[0], "old", &old));
    SAMBA_TRY(samba_chat_take_text(w, a[1], "new", &with));
    SAMBA_TRY(samba_chat_take_int(w, a[2], "count", &most));
    return samba_chat_replace(w, self.text, old, with, most, result);
}

METHOD(removeprefix)
{
    samba_str part = samba_str_of("", 0);
    SAMBA_TRY(samba_chat_take_text(w, a[0], "prefix", &part));
    const size_t cut = samba_str_begins(self.text, part) ? part.size : 0;
    return give(samba_str_of(self.text.data + cut, self.text.size - cut), result);
}

METHOD(removesuffix)
{
    samba_str part = samba_str_of("", 0);
    SAMBA_TRY(samba_chat_take_text(w, a[0], "suffix", &part));
    const bool ends = self.text.size >= part.size &&
                      samba_str_equal(samba_str_of(self.text.data + self.text.size - part.size, part.size), part);
    return give(samba_str_of(self.text.data, self.text.size - (ends ? part.size : 0)), result);
}

/* `pad` of blanks or zeros on each side of a text. */
static samba_status padded(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, int where,
                           samba_chat_value *result)
{
    samba_chat_buffer b = {0};
    samba_str fill = samba_str_of(" ", 1);
    int64_t width = 0;
    SAMBA_TRY(samba_chat_take_int(w, a[0], "width", &width));
    SAMBA_TRY(samba_chat_take_text(w, a[1], "fillchar", &fill));
    if (samba_chat_characters(fill) != 1)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "\"fillchar\" has to be one character");
    const int64_t pad = width - samba_chat_characters(self.text);
    const int64_t half = pad / 2 + (pad & width & 1), left = pad <= 0 || where < 0 ? 0 : where > 0 ? pad : half;
    for (int64_t i = 0; i < left; i++)
        SAMBA_TRY(samba_chat_put(w, &b, fill.data, fill.size));
    SAMBA_TRY(samba_chat_put(w, &b, self.text.data, self.text.size));
    for (int64_t i = left; i < pad; i++) {
        SAMBA_TRY(samba_chat_charge(w, 1));
        SAMBA_TRY(samba_chat_put(w, &b, fill.data, fill.size));
    }
    *result = samba_chat_taken(&b);
    return SAMBA_OK;
}
METHOD(center) { return padded(w, self, a, 0, result); }
METHOD(ljust) { return padded(w, self, a, -1, result); }
METHOD(rjust) { return padded(w, self, a, 1, result); }

/* ---- asking ---- */
typedef enum class_kind { ALPHA, DIGIT, ALNUM, SPACE } class_kind;

static samba_status all_are(samba_chat_run *w, samba_str text, class_kind of, samba_chat_value *result)
{
    bool all = text.size > 0;
    SAMBA_TRY(samba_chat_charge(w, text.size / 8));
    for (size_t at = 0; all && at < text.size;) {
        int size;
        const uint32_t c = samba_utf8_code(text.data + at, &size);
        const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
        const bool letter = k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO, digit = k == UTF8PROC_CATEGORY_ND;
        if ((of == DIGIT || of == ALNUM) && (k == UTF8PROC_CATEGORY_NO || k == UTF8PROC_CATEGORY_NL))
            return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "asking whether U+%04X is a digit is not supported", c);
        all = of == SPACE ? samba_chat_is_space(c) : of == ALPHA ? letter : of == DIGIT ? digit : letter || digit;
        at += (size_t)size;
    }
    *result = samba_chat_bool(all);
    return SAMBA_OK;
}
METHOD(isalpha_of) { return (void)a, all_are(w, self.text, ALPHA, result); }
METHOD(isdigit_of) { return (void)a, all_are(w, self.text, DIGIT, result); }
METHOD(isalnum_of) { return (void)a, all_are(w, self.text, ALNUM, result); }
METHOD(isspace_of) { return (void)a, all_are(w, self.text, SPACE, result); }

static samba_status ask(samba_chat_run *w, const char *test, samba_chat_value self, samba_chat_value *result)
{
    const samba_chat_call none = {0};
    return samba_chat_call_row(w, samba_chat_test(samba_chat_str(test)), self, &none, result);
}
METHOD(isupper_of) { return (void)a, ask(w, "upper", self, result); }
METHOD(islower_of) { return (void)a, ask(w, "lower", self, result); }

static const samba_chat_row TEXTS[] = {
    {"strip", strip_both, "* (chars)"},
    {"lstrip", strip_left, "* (chars)"},
    {"rstrip", strip_right, "* (chars)"},
    {"upper", upper, ""},
    {"lower", lower, ""},
    {"title", title, ""},
    {"capitalize", capitalize, ""},
    {"startswith", startswith, "(prefix) * (start) (end)"},
    {"endswith", endswith, "(suffix) * (start) (end)"},
    {"find", find, "(sub) * (start) (end)"},
    {"rfind", rfind, "(sub) * (start) (end)"},
    {"index", text_index, "(sub) * (start) (end)"},
    {"rindex", rindex_of, "(sub) * (start) (end)"},
    {"count", text_count, "(sub) * (start) (end)"},
    {"split", split, "* sep maxsplit"},
    {"rsplit", rsplit, "* sep maxsplit"},
    {"splitlines", splitlines, "* keepends"},
    {"partition", partition, "(sep)"},
    {"rpartition", rpartition, "(sep)"},
    {"join", join, "(iterable)"},
    {"replace", replace, "(old) (new) * (count)"},
    {"removeprefix", removeprefix, "(prefix)"},
    {"removesuffix", removesuffix, "(suffix)"},
    {"center", center, "(width) * (fillchar)"},
    {"ljust", ljust, "(width) * (fillchar)"},
    {"rjust", rjust, "(width) * (fillchar)"},
    {"isalpha", isalpha_of, ""},
    {"isdigit", isdigit_of, ""},
    {"isalnum", isalnum_of, ""},
    {"isspace", isspace_of, ""},
    {"isupper", isupper_of, ""},
    {"islower", islower_of, ""},
};

const samba_chat_row *samba_chat_text_method(samba_str name) { return samba_chat_row_find(TEXTS, SAMBA_COUNT(TEXTS), name); }

/* ---- dicts ---- */
METHOD(get)
{
    samba_chat_value *found;
    SAMBA_TRY(samba_chat_dict_find(w, self.dict, a[0], &found));
    *result = found ? *found : a[1].kind != SAMBA_CHAT_ABSENT ? a[1] : samba_chat_none();
    return SAMBA_OK;
}

static samba_status view(samba_chat_value self, samba_chat_kind kind, samba_chat_value *result)
{
    *result = (samba_chat_value){.kind = kind, .dict = self.dict};
    return SAMBA_OK;
}
METHOD(keys) { return (void)w, (void)a, view(self, SAMBA_CHAT_KEYS, result); }
METHOD(values) { return (void)w, (void)a, view(self, SAMBA_CHAT_VALUES, result); }
METHOD(items) { return (void)w, (void)a, view(self, SAMBA_CHAT_ITEMS, result); }
METHOD(copy)
{
    (void)w, (void)a;
    *result = self;
    return SAMBA_OK;
}

/* ---- lists ---- */
static samba_status places(samba_chat_run *w, const samba_chat_list *list, samba_chat_value item, int64_t *first, int64_t *count)
{
    *first = -1;
    *count = 0;
    for (int64_t i = 0; i < list->count; i++) {
        bool equal;
        SAMBA_TRY(samba_chat_equal(w, list->items[i], item, &equal));
        *first = equal && *first < 0 ? i : *first;
        *count += equal;
    }
    return SAMBA_OK;
}

METHOD(list_index)
{
    int64_t first, count;
    SAMBA_TRY(places(w, self.list, a[0], &first, &count));
    if (first < 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "what index looks for is not in the list");
    *result = samba_chat_int(first);
    return SAMBA_OK;
}

METHOD(list_count)
{
    int64_t first, count;
    SAMBA_TRY(places(w, self.list, a[0], &first, &count));
    *result = samba_chat_int(count);
    return SAMBA_OK;
}

/* ---- loops ---- */
METHOD(cycle)
{
    (void)a;
    if (w->call->count == 0 || w->call->named_count > 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "loop.cycle has nothing to go through");
    *result = w->call->values[self.loop->index % w->call->count];
    return SAMBA_OK;
}

METHOD(changed)
{
    const samba_chat_call *call = w->call;
    samba_chat_list *list;
    bool equal = false;
    (void)a;
    if (call->named_count > 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "loop.changed takes no arguments by name");
    SAMBA_TRY(samba_chat_list_new(w, &list));
    for (int i = 0; i < call->count; i++)
        SAMBA_TRY(samba_chat_list_add(w, list, call->values[i]));
    const samba_chat_value now = {.kind = SAMBA_CHAT_TUPLE, .list = list};
    if (self.loop->has_changed)
        SAMBA_TRY(samba_chat_equal(w, self.loop->changed, now, &equal));
    self.loop->changed = now;
    self.loop->has_changed = true;
    *result = samba_chat_bool(!equal);
    return SAMBA_OK;
}

static const samba_chat_row DICTS[] = {
    {"get", get, "(key) * (default)"}, {"keys", keys, ""}, {"values", values, ""}, {"items", items, ""}, {"copy", copy, ""}};
static const samba_chat_row LISTS[] = {{"index", list_index, "(value)"}, {"count", list_count, "(value)"}, {"copy", copy, ""}};
static const samba_chat_row LOOPS[] = {{"cycle", cycle, "..."}, {"changed", changed, "..."}};

const samba_chat_row *samba_chat_other_method(samba_chat_kind kind, samba_str name)
{
    switch (kind) {
    case SAMBA_CHAT_DICT: return samba_chat_row_find(DICTS, SAMBA_COUNT(DICTS), name);
    case SAMBA_CHAT_LIST: return samba_chat_row_find(LISTS, SAMBA_COUNT(LISTS), name);
    case SAMBA_CHAT_TUPLE: return samba_chat_row_find(LISTS, SAMBA_COUNT(LISTS) - 1, name);
    case SAMBA_CHAT_LOOP: return samba_chat_row_find(LOOPS, SAMBA_COUNT(LOOPS), name);
    default: return NULL;
    }
}

bool samba_chat_foreign_method(samba_chat_kind kind, samba_str name)
{
    static const char *const texts = " casefold encode expandtabs format format_map isascii isdecimal isidentifier isnumeric "
                                     "isprintable istitle maketrans swapcase translate zfill ";
    static const char *const numbers =
        " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real "
        "to_bytes fromhex hex is_integer ";
    static const char *const views = " isdisjoint mapping ";
    const char *all = kind == SAMBA_CHAT_TEXT                                                            ? texts
                      : kind == SAMBA_CHAT_INT || kind == SAMBA_CHAT_FLOAT || kind == SAMBA_CHAT_BOOL    ? numbers
                      : kind == SAMBA_CHAT_DICT                                                          ? " fromkeys "
                      : kind == SAMBA_CHAT_KEYS || kind == SAMBA_CHAT_VALUES || kind == SAMBA_CHAT_ITEMS ? views
                                                                                                         : "";
    const char *found =
        name.size > 0 && !memchr(name.data, ' ', name.size) ? memmem(all, strlen(all), name.data, name.size) : NULL;
    for (; found; found = memmem(found + 1, strlen(found + 1), name.data, name.size))
        if (found[-1] == ' ' && found[name.size] == ' ')
            return true;
    return false;
}
