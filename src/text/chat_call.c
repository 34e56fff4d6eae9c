/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of what has a row: a function, a method, a filter or a test. Arguments are bound to the names that the row lists, by
 * place or by name, as Python does. */
#include "text/chat.h"

const samba_chat_row *samba_chat_row_find(const samba_chat_row *rows, int count, samba_str name)
{
    for (int i = 0; i < count; i++)
        if (samba_str_equal(name, samba_chat_str(rows[i].name)))
            return &rows[i];
    return NULL;
}

/* The next name of a row's list; its size is 0 at the end. "*" sets *optional, a name in ( ) has *by_place. */
static samba_str next_name(const char **list, bool *optional, bool *by_place)
{
    while (**list == ' ')
        (*list)++;
    if (**list == '*') {
        *optional = true;
        (*list)++;
        return next_name(list, optional, by_place);
    }
    *by_place = **list == '(';
    *list += *by_place;
    samba_str name = samba_str_of(*list, strcspn(*list, " )"));
    *list += name.size + *by_place;
    return name;
}

static samba_status bind(samba_chat_run *w, const samba_chat_row *row, const samba_chat_call *call,
                         samba_chat_value a[SAMBA_CHAT_MOST_ARGUMENTS])
{
    const char *list = row->arguments;
    bool optional = false, by_place;
    int count = 0, used = 0;
    for (samba_str name; (name = next_name(&list, &optional, &by_place)).size > 0; count++) {
        a[count] = (samba_chat_value){.kind = SAMBA_CHAT_ABSENT};
        if (count < call->count)
            a[count] = call->values[count];
        for (int i = 0; i < call->named_count; i++)
            if (!by_place && samba_str_equal(call->names[i], name)) {
                if (count < call->count)
                    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s has two values for \"%.*s\"", row->name, (int)name.size,
                                           name.data);
                a[count] = call->named[i];
                used++;
            }
        if (a[count].kind == SAMBA_CHAT_ABSENT && !optional)
            return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s needs \"%.*s\"", row->name, (int)name.size, name.data);
    }
    if (call->count > count)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s takes %d arguments, not %d", row->name, count, call->count);
    if (used < call->named_count)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s has an argument by a name that it does not know", row->name);
    return SAMBA_OK;
}

samba_status samba_chat_call_row(samba_chat_run *w, const samba_chat_row *row, samba_chat_value self, const samba_chat_call *call,
                                 samba_chat_value *result)
{
    samba_chat_value a[SAMBA_CHAT_MOST_ARGUMENTS];
    const samba_chat_call *kept = w->call;
    SAMBA_TRY(samba_chat_deeper(w));
    if (strcmp(row->arguments, "...") != 0)
        SAMBA_TRY(bind(w, row, call, a));
    w->call = call;
    samba_status status = row->run(w, self, a, result);
    w->call = kept;
    w->depth--;
    return status;
}

/* A safe text's methods give safe texts, for which they may escape their arguments. */
static samba_status call_method(samba_chat_run *w, const samba_chat_method *method, const samba_chat_call *call,
                                samba_chat_value *value)
{
    SAMBA_TRY(samba_chat_call_row(w, method->row, method->self, call, value));
    if (method->self.kind != SAMBA_CHAT_TEXT || !method->self.marked)
        return SAMBA_OK;
    const bool listed = value->kind == SAMBA_CHAT_LIST || value->kind == SAMBA_CHAT_TUPLE;
    if (listed || (value->kind == SAMBA_CHAT_TEXT && call->count > 0))
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "\"%s\" of a safe text is not supported", method->row->name);
    value->marked = value->kind == SAMBA_CHAT_TEXT;
    return SAMBA_OK;
}

samba_status samba_chat_invoke(samba_chat_run *w, samba_chat_value function, const samba_chat_call *call, samba_chat_value *value)
{
    if (function.kind == SAMBA_CHAT_FUNCTION)
        return samba_chat_call_row(w, function.function, samba_chat_none(), call, value);
    if (function.kind == SAMBA_CHAT_METHOD)
        return call_method(w, function.method, call, value);
    if (function.kind == SAMBA_CHAT_MACRO)
        return samba_chat_call_macro(w, function.macro, call, value);
    if (function.kind == SAMBA_CHAT_LOOP)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "calling a loop is not supported");
    if (function.kind == SAMBA_CHAT_UNDEFINED)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%.*s", (int)function.text.size, function.text.data);
    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%s cannot be called", samba_chat_type(function));
}

/* ---- arguments ---- */
static samba_status wrong(samba_chat_run *w, samba_chat_value given, const char *name, const char *expected)
{
    return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "\"%s\" has to be %s, and is %s", name, expected, samba_chat_type(given));
}

samba_status samba_chat_take_text(samba_chat_run *w, samba_chat_value given, const char *name, samba_str *value)
{
    if (given.kind == SAMBA_CHAT_ABSENT)
        return SAMBA_OK;
    if (given.kind != SAMBA_CHAT_TEXT)
        return wrong(w, given, name, "a text");
    if (given.marked)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "a safe text as \"%s\" is not supported", name);
    *value = given.text;
    return SAMBA_OK;
}

samba_status samba_chat_take_int(samba_chat_run *w, samba_chat_value given, const char *name, int64_t *value)
{
    if (given.kind == SAMBA_CHAT_ABSENT || samba_chat_whole(given, value))
        return SAMBA_OK;
    return wrong(w, given, name, "a whole number");
}

samba_status samba_chat_take_bool(samba_chat_run *w, samba_chat_value given, bool *value)
{
    return given.kind == SAMBA_CHAT_ABSENT ? SAMBA_OK : samba_chat_truth(w, given, value);
}
