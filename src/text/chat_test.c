/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests: what `is` asks of a value. */
#include "text/chat.h"

#include <math.h>

#define TEST(name)                                                                                                               \
    static samba_status name(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result)
#define ANSWER(condition)                                                                                                        \
    (void)w, (void)a;                                                                                                            \
    *result = samba_chat_bool(condition);                                                                                        \
    return SAMBA_OK

TEST(is_defined) { ANSWER(self.kind != SAMBA_CHAT_UNDEFINED); }
TEST(is_undefined) { ANSWER(self.kind == SAMBA_CHAT_UNDEFINED); }
TEST(is_none) { ANSWER(self.kind == SAMBA_CHAT_NONE); }
TEST(is_boolean) { ANSWER(self.kind == SAMBA_CHAT_BOOL); }
TEST(is_true) { ANSWER(self.kind == SAMBA_CHAT_BOOL && self.truth); }
TEST(is_false) { ANSWER(self.kind == SAMBA_CHAT_BOOL && !self.truth); }
TEST(is_integer) { ANSWER(self.kind == SAMBA_CHAT_INT); }
TEST(is_float) { ANSWER(self.kind == SAMBA_CHAT_FLOAT); }
TEST(is_number) { ANSWER(self.kind == SAMBA_CHAT_INT || self.kind == SAMBA_CHAT_FLOAT || self.kind == SAMBA_CHAT_BOOL); }
TEST(is_string) { ANSWER(self.kind == SAMBA_CHAT_TEXT); }
TEST(is_mapping) { ANSWER(self.kind == SAMBA_CHAT_DICT); }
TEST(is_iterable) { ANSWER(samba_chat_iterable(self)); }
TEST(is_escaped) { ANSWER(self.kind == SAMBA_CHAT_TEXT && self.marked); }
TEST(is_callable)
{
    ANSWER(self.kind == SAMBA_CHAT_FUNCTION || self.kind == SAMBA_CHAT_METHOD || self.kind == SAMBA_CHAT_MACRO ||
           self.kind == SAMBA_CHAT_LOOP || self.kind == SAMBA_CHAT_UNDEFINED);
}
TEST(is_sequence)
{
    ANSWER(self.kind == SAMBA_CHAT_UNDEFINED || self.kind == SAMBA_CHAT_TEXT || self.kind == SAMBA_CHAT_LIST ||
           self.kind == SAMBA_CHAT_TUPLE || self.kind == SAMBA_CHAT_DICT || self.kind == SAMBA_CHAT_RANGE);
}

#define COMPARISON(name, sign)                                                                                                   \
    TEST(name)                                                                                                                   \
    {                                                                                                                            \
        bool holds;                                                                                                              \
        SAMBA_TRY(samba_chat_compared(w, sign, self, a[0], &holds));                                                             \
        ANSWER(holds);                                                                                                           \
    }
COMPARISON(is_eq, SAMBA_CHAT_EQ)
COMPARISON(is_ne, SAMBA_CHAT_NE)
COMPARISON(is_lt, SAMBA_CHAT_LT)
COMPARISON(is_le, SAMBA_CHAT_LE)
COMPARISON(is_gt, SAMBA_CHAT_GT)
COMPARISON(is_ge, SAMBA_CHAT_GE)
COMPARISON(is_in, SAMBA_CHAT_IN)

static samba_status rest_is(samba_chat_run *w, samba_chat_value self, samba_chat_value by, int64_t expected,
                            samba_chat_value *result)
{
    samba_chat_value rest;
    bool holds;
    SAMBA_TRY(samba_chat_binary(w, SAMBA_CHAT_MOD, self, by, &rest));
    SAMBA_TRY(samba_chat_equal(w, rest, samba_chat_int(expected), &holds));
    *result = samba_chat_bool(holds);
    return SAMBA_OK;
}
TEST(is_even) { return (void)a, rest_is(w, self, samba_chat_int(2), 0, result); }
TEST(is_odd) { return (void)a, rest_is(w, self, samba_chat_int(2), 1, result); }
TEST(is_divisible) { return rest_is(w, self, a[0], 0, result); }

TEST(is_same)
{
    const bool known = self.kind == SAMBA_CHAT_NONE || self.kind == SAMBA_CHAT_BOOL || a[0].kind == SAMBA_CHAT_NONE ||
                       a[0].kind == SAMBA_CHAT_BOOL;
    if (!known)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "\"sameas\" is supported for None, true and false alone");
    ANSWER(self.kind == a[0].kind && (self.kind == SAMBA_CHAT_NONE || self.truth == a[0].truth));
}

/* Of ASCII: whether it has letters, and only such ones. */
static samba_status all_cased(samba_chat_run *w, samba_chat_value self, char first, samba_chat_value *result)
{
    samba_str text;
    bool any = false, all = true;
    SAMBA_TRY(samba_chat_shown(w, self, &text));
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        if ((unsigned char)c >= 0x80)
            return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "\"%s\" of a text that is not ASCII is not supported",
                                   first == 'a' ? "lower" : "upper");
        const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        any = any || letter;
        all = all && (!letter || (c & 32) == (first & 32));
    }
    *result = samba_chat_bool(any && all);
    return SAMBA_OK;
}
TEST(is_lower) { return (void)a, all_cased(w, self, 'a', result); }
TEST(is_upper) { return (void)a, all_cased(w, self, 'A', result); }

TEST(is_filter)
{
    samba_str name = samba_str_of("", 0);
    SAMBA_TRY(samba_chat_take_text(w, self, "filter", &name));
    if (!samba_chat_filter(name))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "\"is filter\" of a filter that is not supported");
    ANSWER(true);
}

static const samba_chat_row TESTS[] = {
    {"defined", is_defined, ""},
    {"undefined", is_undefined, ""},
    {"none", is_none, ""},
    {"boolean", is_boolean, ""},
    {"true", is_true, ""},
    {"false", is_false, ""},
    {"integer", is_integer, ""},
    {"float", is_float, ""},
    {"number", is_number, ""},
    {"string", is_string, ""},
    {"mapping", is_mapping, ""},
    {"iterable", is_iterable, ""},
    {"sequence", is_sequence, ""},
    {"callable", is_callable, ""},
    {"escaped", is_escaped, ""},
    {"eq", is_eq, "(other)"},
    {"equalto", is_eq, "(other)"},
    {"==", is_eq, "(other)"},
    {"ne", is_ne, "(other)"},
    {"!=", is_ne, "(other)"},
    {"lt", is_lt, "(other)"},
    {"<", is_lt, "(other)"},
    {"lessthan", is_lt, "(other)"},
    {"le", is_le, "(other)"},
    {"<=", is_le, "(other)"},
    {"gt", is_gt, "(other)"},
    {">", is_gt, "(other)"},
    {"greaterthan", is_gt, "(other)"},
    {"ge", is_ge, "(other)"},
    {">=", is_ge, "(other)"},
    {"in", is_in, "seq"},
    {"sameas", is_same, "other"},
    {"even", is_even, ""},
    {"odd", is_odd, ""},
    {"divisibleby", is_divisible, "num"},
    {"lower", is_lower, ""},
    {"upper", is_upper, ""},
    {"filter", is_filter, ""},
};

const samba_chat_row *samba_chat_test(samba_str name) { return samba_chat_row_find(TESTS, SAMBA_COUNT(TESTS), name); }
