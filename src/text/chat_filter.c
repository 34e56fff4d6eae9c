/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of single values; those of lists stand in chat_filter_list.c. Texts are what {{ }} would print of a value. */
#include "text/chat.h"

#include <math.h>
#include <stdlib.h>

#define FILTER(name)                                                                                                             \
    static samba_status name(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result)

/* ---- texts ---- */
FILTER(trim)
{
    samba_str text, of = samba_str_of(NULL, 0);
    SAMBA_TRY(samba_chat_shown(w, self, &text));
    if (a[0].kind != SAMBA_CHAT_NONE)
        SAMBA_TRY(samba_chat_take_text(w, a[0], "chars", &of));
    SAMBA_TRY(samba_chat_charge(w, text.size / 64));
    *result = samba_chat_text_of(samba_chat_strip(text, of, true, true));
    result->marked = self.kind == SAMBA_CHAT_TEXT && self.marked;
    return SAMBA_OK;
}

static samba_status cased(samba_chat_run *w, samba_chat_value self, samba_chat_case to, samba_chat_value *result)
{
    samba_str text;
    SAMBA_TRY(samba_chat_shown(w, self, &text));
    SAMBA_TRY(samba_chat_cased(w, text, to, result));
    result->marked = self.kind == SAMBA_CHAT_TEXT && self.marked;
    return SAMBA_OK;
}
FILTER(upper) { return (void)a, cased(w, self, SAMBA_CHAT_UPPER, result); }
FILTER(lower) { return (void)a, cased(w, self, SAMBA_CHAT_LOWER, result); }
FILTER(capitalize) { return (void)a, cased(w, self, SAMBA_CHAT_CAPITALIZE, result); }

/* Each word begins with a capital; words end at spaces and at - ( { [ <. */
FILTER(title)
{
    samba_str text;
    samba_chat_buffer b = {0};
    (void)a;
    SAMBA_TRY(samba_chat_shown(w, self, &text));
    for (size_t from = 0, end; from < text.size; from = end) {
        int size;
        samba_chat_value part;
        const samba_str first = samba_chat_first(samba_str_of(text.data + from, text.size - from));
        for (end = from; end < text.size; end += (size_t)size) {
            const uint32_t c = samba_utf8_code(text.data + end, &size);
            if (samba_chat_is_space(c) || (c < 0x80 && strchr("-({[<", (int)c) && c))
                break;
        }
        if (end == from) { /* a sign by itself */
            end = from + first.size;
            SAMBA_TRY(samba_chat_put(w, &b, first.data, first.size));
            continue;
        }
        SAMBA_TRY(samba_chat_cased(w, first, SAMBA_CHAT_UPPER, &part));
        SAMBA_TRY(samba_chat_put(w, &b, part.text.data, part.text.size));
        const size_t rest = from + first.size;
        SAMBA_TRY(samba_chat_cased(w, samba_str_of(text.data + rest, end - rest), SAMBA_CHAT_LOWER, &part));
        SAMBA_TRY(samba_chat_put(w, &b, part.text.data, part.text.size));
    }
    *result = samba_chat_taken(&b);
    return SAMBA_OK;
}

FILTER(replace)
{
    samba_str text, old, with;
    int64_t most = -1;
    SAMBA_TRY(samba_chat_shown(w, self, &text));
    SAMBA_TRY(samba_chat_shown(w, a[0], &old));
    SAMBA_TRY(samba_chat_shown(w, a[1], &with));
    if (a[2].kind != SAMBA_CHAT_NONE)
        SAMBA_TRY(samba_chat_take_int(w, a[2], "count", &most));
    return samba_chat_replace(w, text, old, with, most, result);
}

FILTER(indent)
{
    samba_str by = samba_str_of("    ", 4);
    samba_chat_buffer b = {0}, blanks = {0};
    samba_chat_list *lines;
    int64_t width = 4;
    bool first = false, blank = false;
    if (self.kind != SAMBA_CHAT_TEXT)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "indent is of a text, and not of %s", samba_chat_type(self));
    if (a[0].kind == SAMBA_CHAT_TEXT)
        SAMBA_TRY(samba_chat_take_text(w, a[0], "width", &by));
    else {
        SAMBA_TRY(samba_chat_take_int(w, a[0], "width", &width));
        for (int64_t i = 0; i < width; i++)
            SAMBA_TRY(samba_chat_put(w, &blanks, " ", 1));
        by = samba_str_of(blanks.data ? blanks.data : "", blanks.size);
    }
    SAMBA_TRY(samba_chat_take_bool(w, a[1], &first));
    SAMBA_TRY(samba_chat_take_bool(w, a[2], &blank));
    SAMBA_TRY(samba_chat_put(w, &b, self.text.data, self.text.size));
    SAMBA_TRY(samba_chat_put(w, &b, "\n", 1));
    SAMBA_TRY(samba_chat_lines(w, samba_str_of(b.data, b.size), false, &lines));
    b = (samba_chat_buffer){0};
    for (int64_t i = 0; i < lines->count; i++) {
        const samba_str line = lines->items[i].text;
        if (i > 0)
            SAMBA_TRY(samba_chat_put(w, &b, "\n", 1));
        if (i == 0 ? first : blank || line.size > 0)
            SAMBA_TRY(samba_chat_put(w, &b, by.data, by.size));
        SAMBA_TRY(samba_chat_put(w, &b, line.data, line.size));
    }
    *result = samba_chat_taken(&b);
    result->marked = self.marked;
    return SAMBA_OK;
}

FILTER(center)
{
    int64_t width = 80;
    samba_str text;
    const samba_chat_row *row = samba_chat_text_method(samba_chat_str("center"));
    SAMBA_TRY(samba_chat_take_int(w, a[0], "width", &width));
    SAMBA_TRY(samba_chat_shown(w, self, &text));
    samba_chat_value argument = samba_chat_int(width);
    const samba_chat_call call = {.values = &argument, .count = 1};
    SAMBA_TRY(samba_chat_call_row(w, row, samba_chat_text_of(text), &call, result));
    result->marked = self.kind == SAMBA_CHAT_TEXT && self.marked;
    return SAMBA_OK;
}

static samba_status shown(samba_chat_run *w, samba_chat_value self, bool marked, samba_chat_value *result)
{
    samba_str text;
    SAMBA_TRY(samba_chat_shown(w, self, &text));
    *result = samba_chat_text_of(text);
    result->marked = marked || (self.kind == SAMBA_CHAT_TEXT && self.marked);
    return SAMBA_OK;
}
FILTER(string) { return (void)a, shown(w, self, false, result); }
FILTER(safe) { return (void)a, shown(w, self, true, result); }

FILTER(escape)
{
    static const char signs[] = "&<>\"'";
    static const char *const means[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    samba_str text;
    samba_chat_buffer b = {0};
    (void)a;
    SAMBA_TRY(shown(w, self, false, result));
    if (result->marked)
        return SAMBA_OK;
    text = result->text;
    for (size_t i = 0; i < text.size; i++) {
        const char *sign = text.data[i] ? strchr(signs, text.data[i]) : NULL;
        SAMBA_TRY(sign ? samba_chat_put(w, &b, means[sign - signs], strlen(means[sign - signs]))
                       : samba_chat_put(w, &b, text.data + i, 1));
    }
    *result = samba_chat_taken(&b);
    result->marked = true;
    return samba_chat_charge(w, text.size / 8);
}

/* ---- values ---- */
FILTER(otherwise)
{
    bool worth = true, boolean = false;
    SAMBA_TRY(samba_chat_take_bool(w, a[1], &boolean));
    if (boolean)
        SAMBA_TRY(samba_chat_truth(w, self, &worth));
    const bool is = self.kind != SAMBA_CHAT_UNDEFINED && worth;
    *result = is ? self : a[0].kind != SAMBA_CHAT_ABSENT ? a[0] : samba_chat_text_of(samba_str_of("", 0));
    return SAMBA_OK;
}

FILTER(attribute)
{
    samba_str name;
    SAMBA_TRY(samba_chat_shown(w, a[0], &name));
    if (self.kind == SAMBA_CHAT_DICT) /* its methods alone, and no keys */
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the filter attr of a dict is not supported");
    return samba_chat_attribute(w, self, name, result);
}

FILTER(length)
{
    int64_t count;
    (void)a;
    if (!samba_chat_length(w, self, &count))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s has no length", samba_chat_type(self));
    *result = samba_chat_int(count);
    return SAMBA_OK;
}

/* ---- numbers ---- */
static samba_status defined(samba_chat_run *w, samba_chat_value self)
{
    return self.kind == SAMBA_CHAT_UNDEFINED ? samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%.*s", (int)self.text.size, self.text.data)
                                             : SAMBA_OK;
}

/* A number's text, without spaces around it, with single _ between digits: as Python reads it. */
static bool clean_number(samba_str text, char number[400])
{
    text = samba_chat_strip(text, samba_str_of(NULL, 0), true, true);
    size_t size = 0;
    if (text.size >= 400 || text.size == 0)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        const bool between = i > 0 && i + 1 < text.size && text.data[i - 1] >= '0' && text.data[i - 1] <= '9' &&
                             text.data[i + 1] >= '0' && text.data[i + 1] <= '9';
        if (c == '_' && !between)
            return false;
        if (!strchr("0123456789+-.eE_", c) || !c)
            return false;
        if (c != '_')
            number[size++] = c;
    }
    number[size] = '\0';
    return true;
}

static bool read_real(samba_str text, double *real)
{
    char number[400], *end;
    if (clean_number(text, number)) {
        *real = strtod(number, &end);
        return *end == '\0' && end > number;
    }
    return false;
}

/* "inf", "nan", digits of other scripts: Python knows them, and this subset does not. */
static samba_status readable(samba_chat_run *w, samba_str text)
{
    bool digits = false;
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 0x80)
            digits = true;
    const samba_str bare = samba_chat_strip(text, samba_str_of(" \t\n\r+-", 6), true, true);
    const char first = (char)(bare.size > 0 ? bare.data[0] | 32 : ' ');
    if (digits || ((first == 'i' || first == 'n') && (bare.size == 3 || bare.size == 8)))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "reading this text as a number is not supported");
    return SAMBA_OK;
}

static samba_status from_real(samba_chat_run *w, double real, samba_chat_value otherwise_, samba_chat_value *result)
{
    *result = otherwise_;
    if (isnan(real) || isinf(real))
        return SAMBA_OK;
    if (fabs(real) >= 9.2e18)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "a whole number of more than 64 bits is not supported");
    *result = samba_chat_int((int64_t)real);
    return SAMBA_OK;
}

FILTER(whole)
{
    int64_t base = 10, value;
    double real;
    char number[400], *end;
    const samba_chat_value otherwise_ = a[0].kind != SAMBA_CHAT_ABSENT ? a[0] : samba_chat_int(0);
    SAMBA_TRY(defined(w, self));
    SAMBA_TRY(samba_chat_take_int(w, a[1], "base", &base));
    if (base != 10)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "int to base %lld is not supported", (long long)base);
    if (samba_chat_whole(self, &value)) {
        *result = samba_chat_int(value);
        return SAMBA_OK;
    }
    if (self.kind == SAMBA_CHAT_FLOAT)
        return from_real(w, self.real, otherwise_, result);
    *result = otherwise_;
    if (self.kind != SAMBA_CHAT_TEXT)
        return SAMBA_OK;
    SAMBA_TRY(readable(w, self.text));
    if (!clean_number(self.text, number))
        return SAMBA_OK;
    if (number[strspn(number + (*number == '+' || *number == '-'), "0123456789") + (*number == '+' || *number == '-')] == '\0' &&
        number[*number == '+' || *number == '-']) {
        if (strlen(number) > 18)
            return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "a whole number of more than 64 bits is not supported");
        *result = samba_chat_int(strtoll(number, &end, 10));
        return SAMBA_OK;
    }
    return read_real(self.text, &real) ? from_real(w, real, otherwise_, result) : SAMBA_OK;
}

FILTER(as_float)
{
    double real;
    SAMBA_TRY(defined(w, self));
    if (samba_chat_number(self, &real)) {
        *result = samba_chat_float(real);
        return SAMBA_OK;
    }
    *result = a[0].kind != SAMBA_CHAT_ABSENT ? a[0] : samba_chat_float(0);
    if (self.kind != SAMBA_CHAT_TEXT)
        return SAMBA_OK;
    SAMBA_TRY(readable(w, self.text));
    if (read_real(self.text, &real))
        *result = samba_chat_float(real);
    return SAMBA_OK;
}

FILTER(absolute)
{
    int64_t value;
    (void)a;
    SAMBA_TRY(defined(w, self));
    if (self.kind == SAMBA_CHAT_FLOAT) {
        *result = samba_chat_float(fabs(self.real));
        return SAMBA_OK;
    }
    if (!samba_chat_whole(self, &value))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s has no absolute value", samba_chat_type(self));
    return samba_chat_unary(w, value < 0 ? SAMBA_CHAT_SUB : SAMBA_CHAT_ADD, samba_chat_int(value), result);
}

FILTER(rounded)
{
    int64_t precision = 0, value;
    samba_str method = samba_chat_str("common");
    char digits[400];
    SAMBA_TRY(defined(w, self));
    SAMBA_TRY(samba_chat_take_int(w, a[0], "precision", &precision));
    SAMBA_TRY(samba_chat_take_text(w, a[1], "method", &method));
    const bool common = samba_str_equal(method, samba_chat_str("common")), up = samba_str_equal(method, samba_chat_str("ceil"));
    if (!common && !up && !samba_str_equal(method, samba_chat_str("floor")))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "round knows common, ceil and floor");
    if (precision < 0 || precision > 15)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "round to %lld places is not supported", (long long)precision);
    if (common && samba_chat_whole(self, &value)) {
        *result = samba_chat_int(value);
        return SAMBA_OK;
    }
    double real;
    if (!samba_chat_number(self, &real))
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s cannot be rounded", samba_chat_type(self));
    if (isnan(real) || isinf(real))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "rounding what is no number is not supported");
    if (common) {
        snprintf(digits, sizeof digits, "%.*f", (int)precision, real);
        *result = samba_chat_float(strtod(digits, NULL));
        return SAMBA_OK;
    }
    const double scale = pow(10, (double)precision), scaled = up ? ceil(real * scale) : floor(real * scale);
    *result = samba_chat_float(scaled / scale);
    return SAMBA_OK;
}

static const samba_chat_row FILTERS[] = {
    {"trim", trim, "* chars"},
    {"upper", upper, ""},
    {"lower", lower, ""},
    {"capitalize", capitalize, ""},
    {"title", title, ""},
    {"replace", replace, "old new * count"},
    {"indent", indent, "* width first blank"},
    {"center", center, "* width"},
    {"string", string, ""},
    {"safe", safe, ""},
    {"escape", escape, ""},
    {"e", escape, ""},
    {"default", otherwise, "* default_value boolean"},
    {"d", otherwise, "* default_value boolean"},
    {"attr", attribute, "name"},
    {"length", length, ""},
    {"count", length, ""},
    {"int", whole, "* default base"},
    {"float", as_float, "* default"},
    {"abs", absolute, ""},
    {"round", rounded, "* precision method"},
    {"tojson", samba_chat_tojson, "* ensure_ascii indent separators sort_keys"},
};

const samba_chat_row *samba_chat_filter(samba_str name)
{
    const samba_chat_row *row = samba_chat_row_find(FILTERS, SAMBA_COUNT(FILTERS), name);
    return row ? row : samba_chat_filter_of_lists(name);
}
