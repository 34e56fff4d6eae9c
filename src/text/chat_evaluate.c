/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions of a template: a node's value. */
#include "text/chat.h"

static samba_status name_value(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    const samba_chat_value *known = samba_chat_scope_find(w->scope, node->text);
    const samba_chat_row *row = known ? NULL : samba_chat_global(node->text);
    static const char *const foreign[] = {"lipsum", "cycler", "joiner"};
    if (known) {
        *value = *known;
        return SAMBA_OK;
    }
    if (row) {
        *value = (samba_chat_value){.kind = SAMBA_CHAT_FUNCTION, .function = row};
        return SAMBA_OK;
    }
    for (int i = 0; i < SAMBA_COUNT(foreign); i++)
        if (samba_str_equal(node->text, samba_chat_str(foreign[i])))
            return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the function \"%s\" is not supported", foreign[i]);
    char *said;
    const size_t shown = node->text.size < 80 ? node->text.size : 80, size = shown + 32;
    SAMBA_TRY(samba_chat_room(w, size, &said));
    const int length = snprintf(said, size, "'%.*s' is undefined", (int)shown, node->text.data);
    *value = samba_chat_undefined(samba_str_of(said, (size_t)length));
    return SAMBA_OK;
}

/* The arguments of a node from kid 1 on. */
static samba_status arguments(samba_chat_run *w, const samba_chat_node *node, samba_chat_call *call)
{
    const int64_t count = node->kids.count - 1;
    *call = (samba_chat_call){.names = node->names, .count = (int)(count - node->named), .named_count = (int)node->named};
    if (count == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_chat_room(w, (size_t)count * sizeof *call->values, &call->values));
    for (int64_t i = 0; i < count; i++)
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[1 + i], &call->values[i]));
    call->named = call->values + call->count;
    return SAMBA_OK;
}

static samba_status call_row(samba_chat_run *w, const samba_chat_node *node, samba_chat_value self, samba_chat_value *value)
{
    samba_chat_call call;
    SAMBA_TRY(arguments(w, node, &call));
    w->line = node->line;
    return samba_chat_call_row(w, node->row, self, &call, value);
}

static samba_status call(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    samba_chat_call call;
    samba_chat_value function;
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[0], &function));
    SAMBA_TRY(arguments(w, node, &call));
    w->line = node->line;
    return samba_chat_invoke(w, function, &call, value);
}

static samba_status make_list(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    samba_chat_list *list;
    SAMBA_TRY(samba_chat_list_new(w, &list));
    for (int64_t i = 0; i < node->kids.count; i++) {
        samba_chat_value item;
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[i], &item));
        SAMBA_TRY(samba_chat_list_add(w, list, item));
    }
    *value = (samba_chat_value){.kind = node->op == SAMBA_CHAT_MAKE_LIST ? SAMBA_CHAT_LIST : SAMBA_CHAT_TUPLE, .list = list};
    return SAMBA_OK;
}

static samba_status make_dict(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    samba_chat_dict *dict;
    SAMBA_TRY(samba_chat_dict_new(w, &dict));
    for (int64_t i = 0; i < node->kids.count; i += 2) {
        samba_chat_value key, item;
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[i], &key));
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[i + 1], &item));
        SAMBA_TRY(samba_chat_dict_set(w, dict, key, item));
    }
    *value = (samba_chat_value){.kind = SAMBA_CHAT_DICT, .dict = dict};
    return SAMBA_OK;
}

static samba_status compare(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    samba_chat_value left, right;
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[0], &left));
    bool holds = true;
    for (int64_t i = 1; holds && i < node->kids.count; i++) {
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[i], &right));
        w->line = node->line;
        SAMBA_TRY(samba_chat_compared(w, node->signs[i - 1], left, right, &holds));
        left = right;
    }
    *value = samba_chat_bool(holds);
    return SAMBA_OK;
}

static samba_status concat(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    samba_str all = samba_str_of("", 0);
    for (int64_t i = 0; i < node->kids.count; i++) {
        samba_chat_value part;
        samba_str text;
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[i], &part));
        SAMBA_TRY(samba_chat_shown(w, part, &text));
        const samba_str before = all;
        SAMBA_TRY(samba_chat_join(w, before, text, &all));
    }
    *value = samba_chat_text_of(all);
    return SAMBA_OK;
}

static samba_status slice(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    samba_chat_value of, bounds[3];
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[0], &of));
    for (int i = 0; i < 3; i++) {
        bounds[i] = samba_chat_none();
        if (node->kids.nodes[1 + i])
            SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[1 + i], &bounds[i]));
    }
    w->line = node->line;
    return samba_chat_slice(w, of, bounds[0], bounds[1], bounds[2], value);
}

/* and, or, not, a if b else c */
static samba_status logic(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    bool truth;
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[0], value));
    SAMBA_TRY(samba_chat_truth(w, *value, &truth));
    if (node->op == SAMBA_CHAT_NOT) {
        *value = samba_chat_bool(!truth);
        return SAMBA_OK;
    }
    if (node->op != SAMBA_CHAT_CONDITION)
        return truth == (node->op == SAMBA_CHAT_AND) ? samba_chat_evaluate(w, node->kids.nodes[1], value) : SAMBA_OK;
    if (truth || node->kids.nodes[2])
        return samba_chat_evaluate(w, node->kids.nodes[truth ? 1 : 2], value);
    *value = samba_chat_undefined(samba_chat_str("the condition is false, and there is no else"));
    return SAMBA_OK;
}

static samba_status evaluate(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    samba_chat_value a, b;
    switch (node->op) {
    case SAMBA_CHAT_CONSTANT: *value = node->constant; return SAMBA_OK;
    case SAMBA_CHAT_NAME: return name_value(w, node, value);
    case SAMBA_CHAT_CALL: return call(w, node, value);
    case SAMBA_CHAT_GET_SLICE: return slice(w, node, value);
    case SAMBA_CHAT_MAKE_LIST:
    case SAMBA_CHAT_MAKE_TUPLE: return make_list(w, node, value);
    case SAMBA_CHAT_MAKE_DICT: return make_dict(w, node, value);
    case SAMBA_CHAT_AND:
    case SAMBA_CHAT_OR:
    case SAMBA_CHAT_NOT:
    case SAMBA_CHAT_CONDITION: return logic(w, node, value);
    case SAMBA_CHAT_COMPARE: return compare(w, node, value);
    case SAMBA_CHAT_CONCAT: return concat(w, node, value);
    default: break;
    }
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[0], &a));
    w->line = node->line;
    switch (node->op) {
    case SAMBA_CHAT_GET_ATTRIBUTE: return samba_chat_attribute(w, a, node->text, value);
    case SAMBA_CHAT_FILTER:
    case SAMBA_CHAT_TEST: return call_row(w, node, a, value);
    case SAMBA_CHAT_UNARY: return samba_chat_unary(w, node->sign, a, value);
    default: break; /* GET_ITEM, BINARY */
    }
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[1], &b));
    w->line = node->line;
    return node->op == SAMBA_CHAT_GET_ITEM ? samba_chat_item(w, a, b, value) : samba_chat_binary(w, node->sign, a, b, value);
}

samba_status samba_chat_evaluate(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value)
{
    SAMBA_TRY(samba_chat_deeper(w));
    w->line = node->line;
    samba_status status = evaluate(w, node, value);
    w->depth--;
    return status;
}
