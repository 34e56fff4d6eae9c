/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that every template has: range, dict, namespace, raise_exception, strftime_now. */
#include "text/chat.h"

#include <time.h>

#define FUNCTION(name)                                                                                                           \
    static samba_status name(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result)

FUNCTION(make_range)
{
    int64_t start = 0, stop = 0, step = 1;
    samba_chat_range *range;
    (void)self;
    SAMBA_TRY(samba_chat_take_int(w, a[0], "stop", &stop));
    if (a[1].kind != SAMBA_CHAT_ABSENT) {
        start = stop;
        SAMBA_TRY(samba_chat_take_int(w, a[1], "stop", &stop));
        SAMBA_TRY(samba_chat_take_int(w, a[2], "step", &step));
    }
    if (step == 0)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "a range has a step of 0");
    const int64_t most = (int64_t)1 << 60;
    if (llabs(start / 2) > most / 2 || llabs(stop / 2) > most / 2 || llabs(step / 2) > most / 2)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "a range of such numbers is not supported");
    SAMBA_TRY(samba_chat_room(w, sizeof *range, &range));
    const int64_t distance = step > 0 ? stop - start : start - stop, by = llabs(step);
    *range = (samba_chat_range){start, stop, step, distance > 0 ? (distance - 1) / by + 1 : 0};
    if (range->count > SAMBA_CHAT_MOST_RANGE)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "a range of more than %d numbers", SAMBA_CHAT_MOST_RANGE);
    *result = (samba_chat_value){.kind = SAMBA_CHAT_RANGE, .range = range};
    return SAMBA_OK;
}

/* Of a dict or pairs, and of arguments by name. */
static samba_status fill(samba_chat_run *w, const char *what, samba_chat_dict **made)
{
    const samba_chat_call *call = w->call;
    samba_chat_dict *dict;
    SAMBA_TRY(samba_chat_dict_new(w, &dict));
    *made = dict;
    if (call->count > 1)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s takes at most one argument without a name", what);
    if (call->count == 1 && call->values[0].kind == SAMBA_CHAT_DICT) {
        const samba_chat_dict *from = call->values[0].dict;
        for (int64_t i = 0; i < from->count; i++)
            SAMBA_TRY(samba_chat_dict_set(w, dict, from->pairs[i].key, from->pairs[i].value));
    } else if (call->count == 1) {
        samba_chat_list *pairs, *pair;
        SAMBA_TRY(samba_chat_listed(w, call->values[0], &pairs));
        for (int64_t i = 0; i < pairs->count; i++) {
            SAMBA_TRY(samba_chat_listed(w, pairs->items[i], &pair));
            if (pair->count != 2)
                return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s is made of pairs", what);
            SAMBA_TRY(samba_chat_dict_set(w, dict, pair->items[0], pair->items[1]));
        }
    }
    for (int i = 0; i < call->named_count; i++)
        SAMBA_TRY(samba_chat_dict_set(w, dict, samba_chat_text_of(call->names[i]), call->named[i]));
    return SAMBA_OK;
}

FUNCTION(make_dict)
{
    samba_chat_dict *dict;
    (void)self, (void)a;
    SAMBA_TRY(fill(w, "a dict", &dict));
    *result = (samba_chat_value){.kind = SAMBA_CHAT_DICT, .dict = dict};
    return SAMBA_OK;
}

FUNCTION(make_namespace)
{
    samba_chat_dict *dict;
    (void)self, (void)a;
    SAMBA_TRY(fill(w, "a namespace", &dict));
    for (int64_t i = 0; i < dict->count; i++) {
        const samba_chat_value key = dict->pairs[i].key;
        if (key.kind == SAMBA_CHAT_TEXT && key.text.size > 0 && key.text.data[0] == '_')
            return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "an attribute of a namespace cannot begin with _");
    }
    *result = (samba_chat_value){.kind = SAMBA_CHAT_NAMESPACE, .dict = dict};
    return SAMBA_OK;
}

FUNCTION(raise_exception)
{
    samba_str said;
    char shown[SAMBA_SHOWN], cut[400];
    (void)self, (void)result;
    SAMBA_TRY(samba_chat_shown(w, a[0], &said));
    snprintf(cut, sizeof cut, "%.*s", (int)(said.size < sizeof cut ? said.size : sizeof cut), said.data);
    return samba_chat_fail(w, SAMBA_ERROR_ARGUMENT, "the template refuses the conversation: %s", samba_shown(cut, shown));
}

/* ---- the date ---- */
static const char *const DAYS[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const MONTHS[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

/* What %`letter` is, `plain` (%-d) without zeros before it; false: it is not supported. */
static bool part_of_date(const struct tm *t, char letter, bool plain, char text[64])
{
    const int hour = t->tm_hour % 12 == 0 ? 12 : t->tm_hour % 12;
    const char *two = plain ? "%d" : "%02d";
    *text = '\0';
    if (plain && !strchr("dmyHIMSje", letter))
        return false;
    switch (letter) {
    case 'a': snprintf(text, 64, "%.3s", DAYS[t->tm_wday % 7]); break;
    case 'A': snprintf(text, 64, "%s", DAYS[t->tm_wday % 7]); break;
    case 'b':
    case 'h': snprintf(text, 64, "%.3s", MONTHS[t->tm_mon % 12]); break;
    case 'B': snprintf(text, 64, "%s", MONTHS[t->tm_mon % 12]); break;
    case 'd': snprintf(text, 64, two, t->tm_mday); break;
    case 'e': snprintf(text, 64, plain ? "%d" : "%2d", t->tm_mday); break;
    case 'm': snprintf(text, 64, two, t->tm_mon + 1); break;
    case 'y': snprintf(text, 64, two, t->tm_year % 100); break;
    case 'Y': snprintf(text, 64, "%d", t->tm_year + 1900); break;
    case 'H': snprintf(text, 64, two, t->tm_hour); break;
    case 'I': snprintf(text, 64, two, hour); break;
    case 'M': snprintf(text, 64, two, t->tm_min); break;
    case 'S': snprintf(text, 64, two, t->tm_sec); break;
    case 'p': snprintf(text, 64, "%s", t->tm_hour < 12 ? "AM" : "PM"); break;
    case 'j': snprintf(text, 64, plain ? "%d" : "%03d", t->tm_yday + 1); break;
    case 'w': snprintf(text, 64, "%d", t->tm_wday); break;
    case 'u': snprintf(text, 64, "%d", t->tm_wday == 0 ? 7 : t->tm_wday); break;
    case 'F': snprintf(text, 64, "%d-%02d-%02d", t->tm_year + 1900, t->tm_mon + 1, t->tm_mday); break;
    case 'D': snprintf(text, 64, "%02d/%02d/%02d", t->tm_mon + 1, t->tm_mday, t->tm_year % 100); break;
    case 'T': snprintf(text, 64, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec); break;
    case 'R': snprintf(text, 64, "%02d:%02d", t->tm_hour, t->tm_min); break;
    case '%': snprintf(text, 64, "%%"); break;
    case 'z':
    case 'Z': break; /* of a time without a zone */
    default: return false;
    }
    return true;
}

FUNCTION(strftime_now)
{
    samba_str format = samba_str_of("", 0);
    samba_chat_buffer b = {0};
    struct tm t;
    const time_t now = w->now != 0 ? (time_t)w->now : time(NULL);
    (void)self;
    SAMBA_TRY(samba_chat_take_text(w, a[0], "format", &format));
    if (!localtime_r(&now, &t))
        return samba_chat_fail(w, SAMBA_ERROR_ARGUMENT, "%lld seconds since 1970 is no date", (long long)w->now);
    for (size_t i = 0; i < format.size; i++) {
        char text[64];
        if (format.data[i] != '%') {
            SAMBA_TRY(samba_chat_put(w, &b, format.data + i, 1));
            continue;
        }
        const bool plain = i + 1 < format.size && format.data[i + 1] == '-';
        i += 1 + plain;
        if (i >= format.size || !part_of_date(&t, format.data[i], plain, text))
            return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "strftime_now: %%%s%c is not supported", plain ? "-" : "",
                                   i < format.size && (unsigned char)format.data[i] >= ' ' && (unsigned char)format.data[i] < 0x7f
                                       ? format.data[i]
                                       : '?');
        SAMBA_TRY(samba_chat_put(w, &b, text, strlen(text)));
    }
    *result = samba_chat_taken(&b);
    return SAMBA_OK;
}

static const samba_chat_row GLOBALS[] = {
    {"range", make_range, "(start) * (stop) (step)"},
    {"dict", make_dict, "..."},
    {"namespace", make_namespace, "..."},
    {"raise_exception", raise_exception, "message"},
    {"strftime_now", strftime_now, "format"},
};

const samba_chat_row *samba_chat_global(samba_str name) { return samba_chat_row_find(GLOBALS, SAMBA_COUNT(GLOBALS), name); }
