/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs between values: arithmetic as Python has it on whole numbers of 64 bits and floats, + and * of texts and lists,
 * comparisons. What exceeds 64 bits is refused. */
#include "text/chat.h"

#include <math.h>

static const char *const SIGNS[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "-", "*", "/", "//", "%", "**"};

static samba_status too_large(samba_chat_run *w)
{
    return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "a whole number of more than 64 bits is not supported");
}

static samba_status power_of_wholes(samba_chat_run *w, int64_t a, int64_t b, int64_t *result)
{
    int64_t made = 1;
    for (; b > 0; b >>= 1) {
        if (b & 1 && __builtin_mul_overflow(made, a, &made))
            return too_large(w);
        if (b > 1 && __builtin_mul_overflow(a, a, &a))
            return too_large(w);
    }
    *result = made;
    return SAMBA_OK;
}

static samba_status by_zero(samba_chat_run *w) { return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "a division by zero"); }

static samba_status wholes(samba_chat_run *w, samba_chat_sign sign, int64_t a, int64_t b, samba_chat_value *value)
{
    int64_t result = 0;
    bool over = false;
    if (b == 0 && (sign == SAMBA_CHAT_DIV || sign == SAMBA_CHAT_FLOOR || sign == SAMBA_CHAT_MOD))
        return by_zero(w);
    switch (sign) {
    case SAMBA_CHAT_ADD: over = __builtin_add_overflow(a, b, &result); break;
    case SAMBA_CHAT_SUB: over = __builtin_sub_overflow(a, b, &result); break;
    case SAMBA_CHAT_MUL: over = __builtin_mul_overflow(a, b, &result); break;
    case SAMBA_CHAT_DIV:
        if (llabs(a / 2) > (int64_t)1 << 51 || llabs(b / 2) > (int64_t)1 << 51)
            return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "/ of whole numbers of more than 53 bits is not supported");
        *value = samba_chat_float((double)a / (double)b);
        return SAMBA_OK;
    case SAMBA_CHAT_FLOOR:
        over = b == -1 && a == INT64_MIN;
        if (!over)
            result = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    case SAMBA_CHAT_MOD: result = b == -1 ? 0 : a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0); break;
    default: /* POW */
        if (b < 0) {
            if (a == 0)
                return by_zero(w);
            *value = samba_chat_float(pow((double)a, (double)b));
            return SAMBA_OK;
        }
        SAMBA_TRY(power_of_wholes(w, a, b, &result));
    }
    if (over)
        return too_large(w);
    *value = samba_chat_int(result);
    return SAMBA_OK;
}

static samba_status reals(samba_chat_run *w, samba_chat_sign sign, double a, double b, samba_chat_value *value)
{
    double result;
    if (b == 0 && (sign == SAMBA_CHAT_DIV || sign == SAMBA_CHAT_FLOOR || sign == SAMBA_CHAT_MOD))
        return by_zero(w);
    switch (sign) {
    case SAMBA_CHAT_ADD: result = a + b; break;
    case SAMBA_CHAT_SUB: result = a - b; break;
    case SAMBA_CHAT_MUL: result = a * b; break;
    case SAMBA_CHAT_DIV: result = a / b; break;
    case SAMBA_CHAT_FLOOR:
    case SAMBA_CHAT_MOD: {
        double rest = fmod(a, b);
        if (rest != 0 && (b < 0) != (rest < 0))
            rest += b;
        else if (rest == 0)
            rest = copysign(0.0, b);
        result = rest;
        if (sign == SAMBA_CHAT_FLOOR) {
            const double whole = (a - rest) / b;
            result = whole == 0 ? copysign(0.0, a / b) : floor(whole) + (whole - floor(whole) > 0.5);
        }
        break;
    }
    default: /* POW */
        if ((a == 0 && b < 0) || (a < 0 && b != floor(b)) || (isfinite(a) && isfinite(b) && isinf(pow(a, b))))
            return samba_chat_fail(w, a == 0 ? SAMBA_ERROR_FORMAT : SAMBA_ERROR_UNSUPPORTED, "this power is no float");
        result = pow(a, b);
    }
    *value = samba_chat_float(result);
    return SAMBA_OK;
}

/* `times` of a text or list. */
static samba_status repeat(samba_chat_run *w, samba_chat_value v, int64_t times, samba_chat_value *value)
{
    samba_chat_buffer b = {0};
    samba_chat_list *list;
    if (v.kind == SAMBA_CHAT_TEXT) {
        for (int64_t i = 0; i < times && v.text.size > 0; i++) {
            SAMBA_TRY(samba_chat_charge(w, 1));
            SAMBA_TRY(samba_chat_put(w, &b, v.text.data, v.text.size));
        }
        *value = samba_chat_taken(&b);
        return SAMBA_OK;
    }
    SAMBA_TRY(samba_chat_list_new(w, &list));
    for (int64_t i = 0; i < times && v.list->count > 0; i++)
        for (int64_t k = 0; k < v.list->count; k++) {
            SAMBA_TRY(samba_chat_charge(w, 1));
            SAMBA_TRY(samba_chat_list_add(w, list, v.list->items[k]));
        }
    *value = (samba_chat_value){.kind = v.kind, .list = list};
    return SAMBA_OK;
}

static samba_status add_lists(samba_chat_run *w, samba_chat_value a, samba_chat_value b, samba_chat_value *value)
{
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_list_new(w, &list));
    for (int64_t i = 0; i < a.list->count; i++)
        SAMBA_TRY(samba_chat_list_add(w, list, a.list->items[i]));
    for (int64_t i = 0; i < b.list->count; i++)
        SAMBA_TRY(samba_chat_list_add(w, list, b.list->items[i]));
    *value = (samba_chat_value){.kind = a.kind, .list = list};
    return samba_chat_charge(w, (size_t)list->count);
}

static samba_status undefined_side(samba_chat_run *w, samba_chat_value a, samba_chat_value b)
{
    const samba_str said = a.kind == SAMBA_CHAT_UNDEFINED ? a.text : b.text;
    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%.*s", (int)said.size, said.data);
}

samba_status samba_chat_binary(samba_chat_run *w, samba_chat_sign sign, samba_chat_value a, samba_chat_value b,
                               samba_chat_value *value)
{
    int64_t i, k;
    double x, y;
    if (samba_chat_whole(a, &i) && samba_chat_whole(b, &k))
        return wholes(w, sign, i, k, value);
    if (samba_chat_number(a, &x) && samba_chat_number(b, &y))
        return reals(w, sign, x, y, value);
    if (a.kind == SAMBA_CHAT_UNDEFINED || b.kind == SAMBA_CHAT_UNDEFINED) {
        if (sign == SAMBA_CHAT_MOD && a.kind == SAMBA_CHAT_TEXT)
            return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "%% of a text is not supported");
        return undefined_side(w, a, b);
    }
    if ((a.kind == SAMBA_CHAT_TEXT && a.marked) || (b.kind == SAMBA_CHAT_TEXT && b.marked))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "%s of a safe text, which escapes the other one, is not supported",
                               SIGNS[sign]);
    if (sign == SAMBA_CHAT_ADD && a.kind == SAMBA_CHAT_TEXT && b.kind == SAMBA_CHAT_TEXT) {
        samba_str joined;
        SAMBA_TRY(samba_chat_join(w, a.text, b.text, &joined));
        *value = samba_chat_text_of(joined);
        return SAMBA_OK;
    }
    if (sign == SAMBA_CHAT_ADD && a.kind == b.kind && (a.kind == SAMBA_CHAT_LIST || a.kind == SAMBA_CHAT_TUPLE))
        return add_lists(w, a, b, value);
    if (sign == SAMBA_CHAT_MUL) {
        const bool left = a.kind == SAMBA_CHAT_TEXT || a.kind == SAMBA_CHAT_LIST || a.kind == SAMBA_CHAT_TUPLE;
        const bool right = b.kind == SAMBA_CHAT_TEXT || b.kind == SAMBA_CHAT_LIST || b.kind == SAMBA_CHAT_TUPLE;
        if (left && samba_chat_whole(b, &k))
            return repeat(w, a, k, value);
        if (right && samba_chat_whole(a, &k))
            return repeat(w, b, k, value);
    }
    if (sign == SAMBA_CHAT_MOD && a.kind == SAMBA_CHAT_TEXT)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "%% of a text is not supported");
    if (sign == SAMBA_CHAT_SUB && (a.kind == SAMBA_CHAT_KEYS || a.kind == SAMBA_CHAT_ITEMS))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "- of %s is not supported", samba_chat_type(a));
    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s is not between %s and %s%s", SIGNS[sign], samba_chat_type(a),
                           samba_chat_type(b), sign == SAMBA_CHAT_ADD ? "; ~ joins their texts" : "");
}

samba_status samba_chat_unary(samba_chat_run *w, samba_chat_sign sign, samba_chat_value a, samba_chat_value *value)
{
    int64_t whole;
    if (samba_chat_whole(a, &whole)) {
        if (sign == SAMBA_CHAT_SUB && whole == INT64_MIN)
            return too_large(w);
        *value = samba_chat_int(sign == SAMBA_CHAT_SUB ? -whole : whole);
        return SAMBA_OK;
    }
    if (a.kind == SAMBA_CHAT_FLOAT) {
        *value = samba_chat_float(sign == SAMBA_CHAT_SUB ? -a.real : a.real);
        return SAMBA_OK;
    }
    if (a.kind == SAMBA_CHAT_UNDEFINED)
        return undefined_side(w, a, a);
    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s has no %s", samba_chat_type(a), SIGNS[sign]);
}

samba_status samba_chat_compared(samba_chat_run *w, samba_chat_sign sign, samba_chat_value a, samba_chat_value b, bool *holds)
{
    int order = 2;
    switch (sign) {
    case SAMBA_CHAT_EQ: return samba_chat_equal(w, a, b, holds);
    case SAMBA_CHAT_NE:
        SAMBA_TRY(samba_chat_equal(w, a, b, holds));
        *holds = !*holds;
        return SAMBA_OK;
    case SAMBA_CHAT_IN: return samba_chat_contains(w, b, a, holds);
    case SAMBA_CHAT_NOT_IN:
        SAMBA_TRY(samba_chat_contains(w, b, a, holds));
        *holds = !*holds;
        return SAMBA_OK;
    default: break;
    }
    SAMBA_TRY(samba_chat_compare(w, SIGNS[sign], a, b, &order));
    *holds = order != 2 && (sign == SAMBA_CHAT_LT   ? order < 0
                            : sign == SAMBA_CHAT_LE ? order <= 0
                            : sign == SAMBA_CHAT_GT ? order > 0
                                                    : order >= 0);
    return SAMBA_OK;
}
