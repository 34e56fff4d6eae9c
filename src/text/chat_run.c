/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements of a template, which write its text. There is one text: what macros, {% set %} blocks and {% filter %} blocks write
 * is taken from its end again. Loops, macros, `with` and captured blocks have scopes of their own; {% if %} has none. */
#include "text/chat.h"

/* ---- scopes ---- */
const samba_chat_value *samba_chat_scope_find(const samba_chat_scope *scope, samba_str name)
{
    for (; scope; scope = scope->outer)
        for (int64_t i = 0; i < scope->count; i++)
            if (samba_str_equal(scope->names[i].key.text, name))
                return &scope->names[i].value;
    return NULL;
}

samba_status samba_chat_scope_set(samba_chat_run *w, samba_chat_scope *scope, samba_str name, samba_chat_value value)
{
    for (int64_t i = 0; i < scope->count; i++)
        if (samba_str_equal(scope->names[i].key.text, name)) {
            scope->names[i].value = value;
            return SAMBA_OK;
        }
    SAMBA_TRY(SAMBA_CHAT_MORE(w, scope->names, scope->count, scope->room));
    scope->names[scope->count++] = (samba_chat_pair){samba_chat_text_of(name), value};
    return SAMBA_OK;
}

/* In the arena: a macro may keep it. */
static samba_status enter(samba_chat_run *w, samba_chat_scope *outer)
{
    samba_chat_scope *scope;
    SAMBA_TRY(samba_chat_room(w, sizeof *scope, &scope));
    scope->outer = outer;
    w->scope = scope;
    return SAMBA_OK;
}

static samba_status assign_attribute(samba_chat_run *w, const samba_chat_node *target, samba_chat_value value)
{
    const samba_chat_value *of = samba_chat_scope_find(w->scope, target->text);
    const samba_str name = target->names[0];
    if (!of || of->kind != SAMBA_CHAT_NAMESPACE)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "\"%.*s\" is no namespace, whose attributes alone can be set",
                               (int)target->text.size, target->text.data);
    if (name.size > 0 && name.data[0] == '_')
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "an attribute of a namespace cannot begin with _");
    return samba_chat_dict_set(w, of->dict, samba_chat_text_of(name), value);
}

samba_status samba_chat_assign(samba_chat_run *w, const samba_chat_node *target, samba_chat_value value)
{
    samba_chat_list *parts;
    w->line = target->line;
    if (target->op == SAMBA_CHAT_NAME)
        return samba_chat_scope_set(w, w->scope, target->text, value);
    if (target->op == SAMBA_CHAT_TARGET_ATTRIBUTE)
        return assign_attribute(w, target, value);
    SAMBA_TRY(samba_chat_listed(w, value, &parts));
    if (parts->count != target->kids.count)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "%lld values for %lld names", (long long)parts->count,
                               (long long)target->kids.count);
    for (int64_t i = 0; i < parts->count; i++)
        SAMBA_TRY(samba_chat_assign(w, target->kids.nodes[i], parts->items[i]));
    return SAMBA_OK;
}

/* ---- writing ---- */
static samba_status write(samba_chat_run *w, samba_str text)
{
    if ((int64_t)text.size > w->most_out - w->out.size)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED, "the text is longer than %lld bytes", (long long)w->most_out);
    SAMBA_TRY(samba_chat_charge(w, text.size / 64));
    return samba_chars_add(w->context, &w->out, text.data, text.size);
}

static samba_status print(samba_chat_run *w, const samba_chat_node *node)
{
    samba_chat_value value;
    samba_str text;
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[0], &value));
    w->line = node->line;
    SAMBA_TRY(samba_chat_shown(w, value, &text));
    return write(w, text);
}

/* What a body writes, in the scope at hand, as a value. */
static samba_status capture(samba_chat_run *w, const samba_chat_body *body, samba_chat_value *value)
{
    const int64_t begin = w->out.size;
    char *copy;
    w->captures++;
    SAMBA_TRY(samba_chat_execute(w, body));
    w->captures--;
    const size_t size = (size_t)(w->out.size - begin);
    SAMBA_TRY(samba_chat_room(w, size + 1, &copy));
    if (size > 0)
        memcpy(copy, w->out.data + begin, size);
    w->out.size = begin;
    *value = samba_chat_text_of(samba_str_of(copy, size));
    return SAMBA_OK;
}

/* The same in a scope within that at hand, with filters behind it, if any. */
static samba_status captured(samba_chat_run *w, const samba_chat_body *body, const samba_chat_node *filters,
                             samba_chat_value *value)
{
    samba_chat_scope *outer = w->scope;
    SAMBA_TRY(enter(w, outer));
    SAMBA_TRY(capture(w, body, value));
    if (filters) { /* the innermost one is of what was written, which the name "" stands for */
        SAMBA_TRY(samba_chat_scope_set(w, w->scope, samba_str_of("", 0), *value));
        SAMBA_TRY(samba_chat_evaluate(w, filters, value));
    }
    w->scope = outer;
    return SAMBA_OK;
}

/* ---- blocks ---- */
static samba_status run_if(samba_chat_run *w, const samba_chat_node *node)
{
    for (int64_t i = 0; i < node->kids.count; i++) {
        samba_chat_value value;
        bool truth;
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[i], &value));
        SAMBA_TRY(samba_chat_truth(w, value, &truth));
        if (truth)
            return samba_chat_execute(w, &node->bodies[i]);
    }
    return node->body_count > node->kids.count ? samba_chat_execute(w, &node->bodies[node->kids.count]) : SAMBA_OK;
}

static samba_status run_for(samba_chat_run *w, const samba_chat_node *node)
{
    samba_chat_scope *outer = w->scope;
    samba_chat_value iterated, iterator;
    samba_chat_loop *loop;
    bool more, any = false, whole = false; /* an iteration came to its end: as Jinja has it, else is for loops that have none */
    SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[1], &iterated));
    w->line = node->line;
    SAMBA_TRY(samba_chat_iterate(w, iterated, &iterator));
    SAMBA_TRY(samba_chat_room(w, sizeof *loop, &loop));
    *loop = (samba_chat_loop){.iterator = iterator.iterator, .node = node, .scope = outer, .index = -1, .length = -1};
    for (;;) {
        SAMBA_TRY(samba_chat_loop_next(w, loop, &more));
        if (!more)
            break;
        if (!any || w->scope->kept)
            SAMBA_TRY(enter(w, outer));
        w->scope->count = 0;
        any = true;
        SAMBA_TRY(
            samba_chat_scope_set(w, w->scope, samba_chat_str("loop"), (samba_chat_value){.kind = SAMBA_CHAT_LOOP, .loop = loop}));
        SAMBA_TRY(samba_chat_assign(w, node->kids.nodes[0], loop->item));
        SAMBA_TRY(samba_chat_execute(w, &node->bodies[0]));
        const bool breaks = w->way == SAMBA_CHAT_BREAKS;
        whole = whole || w->way == SAMBA_CHAT_GOES_ON;
        w->way = SAMBA_CHAT_GOES_ON;
        if (breaks)
            break;
    }
    w->scope = outer;
    if (whole || node->body_count == 1)
        return SAMBA_OK;
    SAMBA_TRY(enter(w, outer));
    SAMBA_TRY(samba_chat_execute(w, &node->bodies[1]));
    w->scope = outer;
    return SAMBA_OK;
}

static samba_status run_with(samba_chat_run *w, const samba_chat_node *node)
{
    samba_chat_scope *outer = w->scope, *inner;
    SAMBA_TRY(samba_chat_room(w, sizeof *inner, &inner));
    inner->outer = outer;
    for (int64_t i = 0; i < node->kids.count; i += 2) { /* values are those of outside */
        samba_chat_value value;
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[i + 1], &value));
        SAMBA_TRY(samba_chat_scope_set(w, inner, node->kids.nodes[i]->text, value));
    }
    w->scope = inner;
    SAMBA_TRY(samba_chat_execute(w, &node->bodies[0]));
    w->scope = outer;
    return SAMBA_OK;
}

static samba_status define(samba_chat_run *w, const samba_chat_node *node)
{
    samba_chat_macro *macro;
    SAMBA_TRY(samba_chat_room(w, sizeof *macro, &macro));
    *macro = (samba_chat_macro){node, w->scope};
    for (samba_chat_scope *scope = w->scope; scope; scope = scope->outer)
        scope->kept = true;
    return samba_chat_scope_set(w, w->scope, node->text, (samba_chat_value){.kind = SAMBA_CHAT_MACRO, .macro = macro});
}

/* The arguments of a macro, in the scope at hand. */
static samba_status bind(samba_chat_run *w, const samba_chat_node *node, const samba_chat_call *call)
{
    int used = 0;
    if (call->count > node->named)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "the macro %.*s takes %lld arguments, not %d", (int)node->text.size,
                               node->text.data, (long long)node->named, call->count);
    for (int64_t i = 0; i < node->named; i++) {
        const int64_t given = i - (node->named - node->kids.count); /* which default */
        samba_chat_value value = samba_chat_undefined(samba_chat_str("an argument of a macro was not given"));
        int by_name = 0;
        while (by_name < call->named_count && !samba_str_equal(call->names[by_name], node->names[i]))
            by_name++;
        const bool named = by_name < call->named_count;
        used += named;
        if (named && i < call->count)
            return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "the macro %.*s has two values for \"%.*s\"", (int)node->text.size,
                                   node->text.data, (int)node->names[i].size, node->names[i].data);
        if (i < call->count)
            value = call->values[i];
        else if (named)
            value = call->named[by_name];
        else if (given >= 0)
            SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[given], &value));
        SAMBA_TRY(samba_chat_scope_set(w, w->scope, node->names[i], value));
    }
    if (used < call->named_count)
        return samba_chat_fail(w, SAMBA_ERROR_FORMAT, "the macro %.*s has an argument by a name that it does not know",
                               (int)node->text.size, node->text.data);
    return SAMBA_OK;
}

samba_status samba_chat_call_macro(samba_chat_run *w, const samba_chat_macro *macro, const samba_chat_call *call,
                                   samba_chat_value *value)
{
    samba_chat_scope *outer = w->scope;
    SAMBA_TRY(samba_chat_deeper(w));
    SAMBA_TRY(enter(w, macro->scope));
    SAMBA_TRY(bind(w, macro->node, call));
    SAMBA_TRY(capture(w, &macro->node->bodies[0], value));
    w->scope = outer;
    w->depth--;
    return SAMBA_OK;
}

static samba_status generate(samba_chat_run *w, const samba_chat_node *node)
{
    samba_chat_scope *outer = w->scope;
    const int64_t begin = w->out.size;
    if (w->spans && w->captures > 0)
        return samba_chat_fail(w, SAMBA_ERROR_UNSUPPORTED,
                               "the place of a {%% generation %%} block within a macro or a captured block is not known");
    SAMBA_TRY(enter(w, outer));
    SAMBA_TRY(samba_chat_execute(w, &node->bodies[0]));
    w->scope = outer;
    if (!w->spans)
        return SAMBA_OK;
    if (w->mark_count == w->mark_room)
        SAMBA_TRY(SAMBA_GROW(w->context, w->marks, w->mark_room, w->mark_count + 1));
    w->marks[w->mark_count++] = (samba_chat_span){begin, w->out.size};
    return SAMBA_OK;
}

static samba_status run_set(samba_chat_run *w, const samba_chat_node *node)
{
    samba_chat_value value;
    if (node->op == SAMBA_CHAT_SET)
        SAMBA_TRY(samba_chat_evaluate(w, node->kids.nodes[1], &value));
    else
        SAMBA_TRY(captured(w, &node->bodies[0], node->kids.nodes[1], &value));
    return samba_chat_assign(w, node->kids.nodes[0], value);
}

static samba_status execute(samba_chat_run *w, const samba_chat_node *node)
{
    samba_chat_value value;
    samba_str text;
    switch (node->op) {
    case SAMBA_CHAT_DATA: return write(w, node->text);
    case SAMBA_CHAT_PRINT: return print(w, node);
    case SAMBA_CHAT_IF: return run_if(w, node);
    case SAMBA_CHAT_FOR: return run_for(w, node);
    case SAMBA_CHAT_SET:
    case SAMBA_CHAT_SET_BLOCK: return run_set(w, node);
    case SAMBA_CHAT_WITH: return run_with(w, node);
    case SAMBA_CHAT_DEFINE: return define(w, node);
    case SAMBA_CHAT_FILTER_BLOCK:
        SAMBA_TRY(captured(w, &node->bodies[0], node->kids.nodes[0], &value));
        SAMBA_TRY(samba_chat_shown(w, value, &text));
        return w->way == SAMBA_CHAT_GOES_ON ? write(w, text) : SAMBA_OK;
    case SAMBA_CHAT_GENERATION: return generate(w, node);
    default: w->way = node->op == SAMBA_CHAT_BREAK ? SAMBA_CHAT_BREAKS : SAMBA_CHAT_CONTINUES; return SAMBA_OK;
    }
}

samba_status samba_chat_execute(samba_chat_run *w, const samba_chat_body *body)
{
    SAMBA_TRY(samba_chat_deeper(w));
    for (int64_t i = 0; i < body->count && w->way == SAMBA_CHAT_GOES_ON; i++) {
        w->line = body->nodes[i]->line;
        SAMBA_TRY(samba_chat_charge(w, 1));
        SAMBA_TRY(execute(w, body->nodes[i]));
    }
    w->depth--;
    return SAMBA_OK;
}
