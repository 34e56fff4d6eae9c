/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions of a template, by recursive descent. From the loosest to the tightest: a if b else c; or; and; not; comparisons; +
 * -; ~; * / // %; **; signs; what follows a value: .name [item] (arguments); behind these |filter and is test. A filter or a
 * test that the subset has not is refused here. */
#include "text/chat.h"

static samba_status parse_or(samba_chat_parser *p, samba_chat_node **node);
static samba_status parse_unary(samba_chat_parser *p, bool filters, samba_chat_node **node);
static samba_status parse_primary(samba_chat_parser *p, bool attributes, samba_chat_node **node);
static samba_status parse_parts(samba_chat_parser *p, samba_chat_node **node);

static samba_status deeper(samba_chat_parser *p)
{
    if (++p->depth > SAMBA_CHAT_MOST_NESTING)
        return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, samba_chat_now(p)->line, "more than %d nested parts",
                                 SAMBA_CHAT_MOST_NESTING);
    return SAMBA_OK;
}

static samba_status add_name(samba_chat_parser *p, samba_chat_node *node, samba_str name)
{
    return samba_chat_node_name(p, node, name);
}

/* A node over `a` and `b`, which may be NULL. */
static samba_status make(samba_chat_parser *p, samba_chat_op op, int line, samba_chat_node *a, samba_chat_node *b,
                         samba_chat_node **node)
{
    SAMBA_TRY(samba_chat_node_new(p, op, line, node));
    if (a)
        SAMBA_TRY(samba_chat_node_add(p, &(*node)->kids, a));
    return b ? samba_chat_node_add(p, &(*node)->kids, b) : SAMBA_OK;
}

samba_status samba_chat_expression(samba_chat_parser *p, bool conditions, samba_chat_node **node)
{
    SAMBA_TRY(deeper(p));
    SAMBA_TRY(parse_or(p, node));
    while (conditions && samba_chat_word(p, "if")) {
        samba_chat_node *condition, *otherwise = NULL, *then = *node;
        const int line = samba_chat_now(p)->line;
        p->at++;
        SAMBA_TRY(parse_or(p, &condition));
        if (samba_chat_skip_word(p, "else"))
            SAMBA_TRY(samba_chat_expression(p, true, &otherwise));
        SAMBA_TRY(make(p, SAMBA_CHAT_CONDITION, line, condition, then, node));
        SAMBA_TRY(samba_chat_node_add(p, &(*node)->kids, otherwise));
    }
    p->depth--;
    return SAMBA_OK;
}

static samba_status parse_not(samba_chat_parser *p, samba_chat_node **node);
static samba_status parse_and(samba_chat_parser *p, samba_chat_node **node)
{
    SAMBA_TRY(parse_not(p, node));
    while (samba_chat_word(p, "and")) {
        samba_chat_node *right, *left = *node;
        const int line = samba_chat_now(p)->line;
        p->at++;
        SAMBA_TRY(parse_not(p, &right));
        SAMBA_TRY(make(p, SAMBA_CHAT_AND, line, left, right, node));
    }
    return SAMBA_OK;
}

static samba_status parse_or(samba_chat_parser *p, samba_chat_node **node)
{
    SAMBA_TRY(parse_and(p, node));
    while (samba_chat_word(p, "or")) {
        samba_chat_node *right, *left = *node;
        const int line = samba_chat_now(p)->line;
        p->at++;
        SAMBA_TRY(parse_and(p, &right));
        SAMBA_TRY(make(p, SAMBA_CHAT_OR, line, left, right, node));
    }
    return SAMBA_OK;
}

/* ---- arithmetic ---- */
typedef struct level {
    const char *signs[4];
    samba_chat_sign means[4];
    samba_status (*inner)(samba_chat_parser *p, samba_chat_node **node);
} level;

static samba_status parse_level(samba_chat_parser *p, const level *of, samba_chat_node **node)
{
    SAMBA_TRY(of->inner(p, node));
    for (;;) {
        int i = 0;
        while (i < SAMBA_COUNT(of->signs) && of->signs[i] && !samba_chat_is(p, of->signs[i]))
            i++;
        if (i == SAMBA_COUNT(of->signs) || !of->signs[i])
            return SAMBA_OK;
        samba_chat_node *right, *left = *node;
        const int line = samba_chat_now(p)->line;
        p->at++;
        SAMBA_TRY(of->inner(p, &right));
        SAMBA_TRY(make(p, SAMBA_CHAT_BINARY, line, left, right, node));
        (*node)->sign = of->means[i];
    }
}

static samba_status parse_value(samba_chat_parser *p, samba_chat_node **node) { return parse_unary(p, true, node); }

static samba_status parse_power(samba_chat_parser *p, samba_chat_node **node)
{
    static const level powers = {{"**"}, {SAMBA_CHAT_POW}, parse_value};
    return parse_level(p, &powers, node);
}

static samba_status parse_product(samba_chat_parser *p, samba_chat_node **node)
{
    static const level products = {
        {"*", "/", "//", "%"}, {SAMBA_CHAT_MUL, SAMBA_CHAT_DIV, SAMBA_CHAT_FLOOR, SAMBA_CHAT_MOD}, parse_power};
    return parse_level(p, &products, node);
}

static samba_status parse_concat(samba_chat_parser *p, samba_chat_node **node)
{
    SAMBA_TRY(parse_product(p, node));
    if (!samba_chat_is(p, "~"))
        return SAMBA_OK;
    samba_chat_node *first = *node;
    SAMBA_TRY(make(p, SAMBA_CHAT_CONCAT, samba_chat_now(p)->line, first, NULL, node));
    while (samba_chat_skip(p, "~")) {
        samba_chat_node *part;
        SAMBA_TRY(parse_product(p, &part));
        SAMBA_TRY(samba_chat_node_add(p, &(*node)->kids, part));
    }
    return SAMBA_OK;
}

static samba_status parse_sum(samba_chat_parser *p, samba_chat_node **node)
{
    static const level sums = {{"+", "-"}, {SAMBA_CHAT_ADD, SAMBA_CHAT_SUB}, parse_concat};
    return parse_level(p, &sums, node);
}

/* ---- comparisons ---- */
static bool take_sign(samba_chat_parser *p, samba_chat_sign *sign)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < SAMBA_COUNT(signs); i++)
        if (samba_chat_skip(p, signs[i])) {
            *sign = (samba_chat_sign)(SAMBA_CHAT_EQ + i);
            return true;
        }
    if (samba_chat_skip_word(p, "in")) {
        *sign = SAMBA_CHAT_IN;
        return true;
    }
    if (!samba_chat_word(p, "not"))
        return false;
    p->at++;
    if (samba_chat_skip_word(p, "in")) {
        *sign = SAMBA_CHAT_NOT_IN;
        return true;
    }
    p->at--;
    return false;
}

static samba_status parse_compare(samba_chat_parser *p, samba_chat_node **node)
{
    const int line = samba_chat_now(p)->line;
    samba_chat_sign sign;
    SAMBA_TRY(parse_sum(p, node));
    samba_chat_node *first = *node, *compare = NULL;
    while (take_sign(p, &sign)) {
        samba_chat_node *right;
        if (!compare)
            SAMBA_TRY(make(p, SAMBA_CHAT_COMPARE, line, first, NULL, &compare));
        SAMBA_TRY(SAMBA_MORE(p->arena, compare->signs, compare->named, compare->sign_room));
        compare->signs[compare->named++] = sign;
        SAMBA_TRY(parse_sum(p, &right));
        SAMBA_TRY(samba_chat_node_add(p, &compare->kids, right));
        *node = compare;
    }
    return SAMBA_OK;
}

static samba_status parse_not(samba_chat_parser *p, samba_chat_node **node)
{
    if (!samba_chat_word(p, "not"))
        return parse_compare(p, node);
    samba_chat_node *of;
    const int line = samba_chat_now(p)->line;
    SAMBA_TRY(deeper(p));
    p->at++;
    SAMBA_TRY(parse_not(p, &of));
    p->depth--;
    return make(p, SAMBA_CHAT_NOT, line, of, NULL, node);
}

/* ---- arguments, filters, tests ---- */
static samba_status parse_arguments(samba_chat_parser *p, samba_chat_node *call)
{
    SAMBA_TRY(samba_chat_expect(p, "("));
    for (bool first = true; !samba_chat_is(p, ")"); first = false) {
        samba_chat_node *value;
        if (!first) {
            SAMBA_TRY(samba_chat_expect(p, ","));
            if (samba_chat_is(p, ")"))
                break;
        }
        if (samba_chat_is(p, "*") || samba_chat_is(p, "**"))
            return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, samba_chat_now(p)->line,
                                     "arguments from a list or dict, by * or **, are not supported");
        const samba_chat_token *name = samba_chat_now(p);
        bool named = false;
        if (name->kind == SAMBA_CHAT_TOKEN_NAME) {
            p->at++;
            named = samba_chat_skip(p, "=");
            p->at -= !named;
        }
        if (named)
            SAMBA_TRY(add_name(p, call, name->text));
        else if (call->named > 0)
            return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, name->line,
                                     "an argument without a name follows one with a name");
        SAMBA_TRY(samba_chat_expression(p, true, &value));
        SAMBA_TRY(samba_chat_node_add(p, &call->kids, value));
    }
    p->at++;
    return SAMBA_OK;
}

/* The name of a filter or test, which is known to be one. */
static samba_status take_row(samba_chat_parser *p, const char *what, samba_chat_node *node)
{
    const samba_chat_token *name = samba_chat_now(p);
    if (name->kind != SAMBA_CHAT_TOKEN_NAME)
        return samba_chat_unexpected(p, what);
    p->at++;
    node->row = node->op == SAMBA_CHAT_TEST ? samba_chat_test(name->text) : samba_chat_filter(name->text);
    if (!node->row || samba_chat_is(p, "."))
        return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, name->line, "the %s \"%.*s%s\" is not supported", what,
                                 (int)(name->text.size < 60 ? name->text.size : 60), name->text.data, node->row ? "." : "");
    return SAMBA_OK;
}

samba_status samba_chat_filters(samba_chat_parser *p, samba_chat_node *of, bool begun, samba_chat_node **node)
{
    *node = of;
    while (begun || samba_chat_is(p, "|")) {
        samba_chat_node *filter;
        p->at += !begun;
        begun = false;
        if (!*node) { /* a block's text: the name "" */
            SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_NAME, samba_chat_now(p)->line, node));
            (*node)->text = samba_str_of("", 0);
        }
        SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_FILTER, samba_chat_now(p)->line, &filter));
        SAMBA_TRY(samba_chat_node_add(p, &filter->kids, *node));
        SAMBA_TRY(take_row(p, "filter", filter));
        if (samba_chat_is(p, "("))
            SAMBA_TRY(parse_arguments(p, filter));
        *node = filter;
    }
    return SAMBA_OK;
}

/* Whether an argument of a test follows it without brackets. */
static bool follows_bare(const samba_chat_parser *p)
{
    const samba_chat_token *t = samba_chat_now(p);
    if (t->kind == SAMBA_CHAT_TOKEN_NAME)
        return !samba_chat_word(p, "else") && !samba_chat_word(p, "or") && !samba_chat_word(p, "and");
    return t->kind == SAMBA_CHAT_TOKEN_TEXT || t->kind == SAMBA_CHAT_TOKEN_NUMBER || samba_chat_is(p, "[") ||
           samba_chat_is(p, "{");
}

static samba_status parse_test(samba_chat_parser *p, samba_chat_node **node)
{
    samba_chat_node *of = *node, *test, *argument;
    const int line = samba_chat_now(p)->line;
    p->at++;
    const bool negated = samba_chat_skip_word(p, "not");
    SAMBA_TRY(make(p, SAMBA_CHAT_TEST, line, of, NULL, &test));
    SAMBA_TRY(take_row(p, "test", test));
    if (samba_chat_is(p, "("))
        SAMBA_TRY(parse_arguments(p, test));
    else if (follows_bare(p)) {
        if (samba_chat_word(p, "is"))
            return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, line, "one test cannot follow another one");
        SAMBA_TRY(parse_primary(p, false, &argument));
        SAMBA_TRY(parse_parts(p, &argument));
        SAMBA_TRY(samba_chat_node_add(p, &test->kids, argument));
    }
    *node = test;
    return negated ? make(p, SAMBA_CHAT_NOT, line, test, NULL, node) : SAMBA_OK;
}

static samba_status parse_call(samba_chat_parser *p, samba_chat_node **node)
{
    samba_chat_node *call;
    SAMBA_TRY(make(p, SAMBA_CHAT_CALL, samba_chat_now(p)->line, *node, NULL, &call));
    *node = call;
    return parse_arguments(p, call);
}

/* ---- parts: .name [item] [from:to:step] (arguments) ---- */
static samba_status parse_bound(samba_chat_parser *p, samba_chat_node **bound)
{
    *bound = NULL;
    if (samba_chat_is(p, ":") || samba_chat_is(p, "]"))
        return SAMBA_OK;
    return samba_chat_expression(p, true, bound);
}

static samba_status parse_item(samba_chat_parser *p, samba_chat_node **node)
{
    samba_chat_node *of = *node, *bounds[3] = {NULL, NULL, NULL};
    const int line = samba_chat_now(p)->line;
    p->at++;
    if (samba_chat_is(p, "]"))
        return samba_chat_unexpected(p, "an item");
    SAMBA_TRY(parse_bound(p, &bounds[0]));
    const bool slice = samba_chat_skip(p, ":");
    if (slice) {
        SAMBA_TRY(parse_bound(p, &bounds[1]));
        if (samba_chat_skip(p, ":"))
            SAMBA_TRY(parse_bound(p, &bounds[2]));
    }
    if (samba_chat_is(p, ","))
        return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, line, "several items in one [] are not supported");
    SAMBA_TRY(samba_chat_expect(p, "]"));
    SAMBA_TRY(make(p, slice ? SAMBA_CHAT_GET_SLICE : SAMBA_CHAT_GET_ITEM, line, of, NULL, node));
    for (int i = 0; i < (slice ? 3 : 1); i++)
        SAMBA_TRY(samba_chat_node_add(p, &(*node)->kids, bounds[i]));
    return SAMBA_OK;
}

static samba_status parse_attribute(samba_chat_parser *p, samba_chat_node **node)
{
    samba_chat_node *of = *node, *key;
    p->at++;
    const samba_chat_token *name = samba_chat_now(p);
    if (name->kind == SAMBA_CHAT_TOKEN_NUMBER && name->value.kind == SAMBA_CHAT_INT) {
        p->at++;
        SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_CONSTANT, name->line, &key));
        key->constant = name->value;
        return make(p, SAMBA_CHAT_GET_ITEM, name->line, of, key, node);
    }
    if (name->kind != SAMBA_CHAT_TOKEN_NAME)
        return samba_chat_unexpected(p, "a name or a number");
    p->at++;
    SAMBA_TRY(make(p, SAMBA_CHAT_GET_ATTRIBUTE, name->line, of, NULL, node));
    (*node)->text = name->text;
    return SAMBA_OK;
}

static samba_status parse_parts(samba_chat_parser *p, samba_chat_node **node)
{
    for (;;) {
        if (samba_chat_is(p, "."))
            SAMBA_TRY(parse_attribute(p, node));
        else if (samba_chat_is(p, "["))
            SAMBA_TRY(parse_item(p, node));
        else if (samba_chat_is(p, "("))
            SAMBA_TRY(parse_call(p, node));
        else
            return SAMBA_OK;
    }
}

static samba_status parse_unary(samba_chat_parser *p, bool filters, samba_chat_node **node)
{
    const int line = samba_chat_now(p)->line;
    SAMBA_TRY(deeper(p));
    if (samba_chat_is(p, "-") || samba_chat_is(p, "+")) {
        const samba_chat_sign sign = samba_chat_is(p, "-") ? SAMBA_CHAT_SUB : SAMBA_CHAT_ADD;
        samba_chat_node *of;
        p->at++;
        SAMBA_TRY(parse_unary(p, false, &of));
        SAMBA_TRY(make(p, SAMBA_CHAT_UNARY, line, of, NULL, node));
        (*node)->sign = sign;
    } else
        SAMBA_TRY(parse_primary(p, false, node));
    p->depth--;
    SAMBA_TRY(parse_parts(p, node));
    while (filters) {
        if (samba_chat_is(p, "|")) {
            samba_chat_node *of = *node;
            SAMBA_TRY(samba_chat_filters(p, of, false, node));
        } else if (samba_chat_word(p, "is"))
            SAMBA_TRY(parse_test(p, node));
        else if (samba_chat_is(p, "("))
            SAMBA_TRY(parse_call(p, node));
        else
            break;
    }
    return SAMBA_OK;
}

/* ---- names and literals ---- */
bool samba_chat_is_constant_name(samba_str name)
{
    static const char *const names[] = {"true", "True", "false", "False", "none", "None"};
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (samba_str_equal(name, samba_chat_str(names[i])))
            return true;
    return false;
}

static samba_status parse_name(samba_chat_parser *p, bool attributes, samba_chat_node **node)
{
    static const char *const absent[] = {"varargs", "kwargs", "caller", "self", "super"};
    const samba_chat_token *name = samba_chat_now(p);
    p->at++;
    if (samba_chat_is_constant_name(name->text)) {
        const char first = (char)(name->text.data[0] | 32);
        SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_CONSTANT, name->line, node));
        (*node)->constant = first == 'n' ? samba_chat_none() : samba_chat_bool(first == 't');
        return SAMBA_OK;
    }
    for (int i = 0; i < SAMBA_COUNT(absent); i++)
        if ((p->macros > 0 || i >= 3) && samba_str_equal(name->text, samba_chat_str(absent[i])))
            return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, name->line,
                                     "the name \"%s\", which Jinja fills, is not "
                                     "supported",
                                     absent[i]);
    const bool part = attributes && samba_chat_skip(p, ".");
    if (part && samba_chat_now(p)->kind != SAMBA_CHAT_TOKEN_NAME)
        return samba_chat_unexpected(p, "a name");
    SAMBA_TRY(samba_chat_node_new(p, part ? SAMBA_CHAT_TARGET_ATTRIBUTE : SAMBA_CHAT_NAME, name->line, node));
    (*node)->text = name->text;
    if (part) {
        SAMBA_TRY(add_name(p, *node, samba_chat_now(p)->text));
        p->at++;
    }
    return SAMBA_OK;
}

static samba_status parse_texts(samba_chat_parser *p, samba_chat_node **node)
{
    samba_str all = samba_str_of("", 0);
    SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_CONSTANT, samba_chat_now(p)->line, node));
    for (bool first = true; samba_chat_now(p)->kind == SAMBA_CHAT_TOKEN_TEXT; first = false, p->at++) {
        const samba_str more = samba_chat_now(p)->text;
        char *joined;
        if (first) {
            all = more;
            continue;
        }
        SAMBA_TRY(samba_arena_room(p->arena, all.size + more.size + 1, &joined));
        memcpy(joined, all.data, all.size);
        memcpy(joined + all.size, more.data, more.size);
        all = samba_str_of(joined, all.size + more.size);
    }
    (*node)->constant = samba_chat_text_of(all);
    return SAMBA_OK;
}

static samba_status parse_list(samba_chat_parser *p, samba_chat_node **node)
{
    const bool dict = samba_chat_is(p, "{");
    const char *end = dict ? "}" : "]";
    SAMBA_TRY(samba_chat_node_new(p, dict ? SAMBA_CHAT_MAKE_DICT : SAMBA_CHAT_MAKE_LIST, samba_chat_now(p)->line, node));
    p->at++;
    for (bool first = true; !samba_chat_is(p, end); first = false) {
        samba_chat_node *item;
        if (!first) {
            SAMBA_TRY(samba_chat_expect(p, ","));
            if (samba_chat_is(p, end))
                break;
        }
        SAMBA_TRY(samba_chat_expression(p, true, &item));
        SAMBA_TRY(samba_chat_node_add(p, &(*node)->kids, item));
        if (dict) {
            SAMBA_TRY(samba_chat_expect(p, ":"));
            SAMBA_TRY(samba_chat_expression(p, true, &item));
            SAMBA_TRY(samba_chat_node_add(p, &(*node)->kids, item));
        }
    }
    p->at++;
    return SAMBA_OK;
}

static samba_status parse_primary(samba_chat_parser *p, bool attributes, samba_chat_node **node)
{
    const samba_chat_token *t = samba_chat_now(p);
    if (t->kind == SAMBA_CHAT_TOKEN_NAME)
        return parse_name(p, attributes, node);
    if (t->kind == SAMBA_CHAT_TOKEN_TEXT)
        return parse_texts(p, node);
    if (t->kind == SAMBA_CHAT_TOKEN_NUMBER) {
        p->at++;
        SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_CONSTANT, t->line, node));
        (*node)->constant = t->value;
        return SAMBA_OK;
    }
    if (samba_chat_skip(p, "(")) {
        SAMBA_TRY(samba_chat_tuple(p, true, ")", node));
        return samba_chat_expect(p, ")");
    }
    if (samba_chat_is(p, "[") || samba_chat_is(p, "{"))
        return parse_list(p, node);
    return samba_chat_unexpected(p, "a value");
}

/* Whether a tuple ends here: at the delimiter's end, a ) or the name `end`. */
static bool tuple_ends(const samba_chat_parser *p, const char *end)
{
    const samba_chat_token_kind kind = samba_chat_now(p)->kind;
    return kind == SAMBA_CHAT_TOKEN_PRINT_END || kind == SAMBA_CHAT_TOKEN_BLOCK_END || samba_chat_is(p, ")") ||
           (end && samba_chat_word(p, end));
}

/* `target`: names and literals alone, with name.attribute where `attributes`. */
static samba_status parse_tuple(samba_chat_parser *p, bool target, bool attributes, bool conditions, const char *end,
                                samba_chat_node **node)
{
    const int line = samba_chat_now(p)->line;
    samba_chat_node *part, *tuple = NULL;
    SAMBA_TRY(deeper(p));
    const bool brackets = end && *end == ')';
    if (tuple_ends(p, end) && !(brackets && samba_chat_is(p, ")")))
        return samba_chat_unexpected(p, "an expression");
    *node = NULL;
    while (!tuple_ends(p, end)) {
        SAMBA_TRY(target ? parse_primary(p, attributes, &part) : samba_chat_expression(p, conditions, &part));
        if (tuple)
            SAMBA_TRY(samba_chat_node_add(p, &tuple->kids, part));
        else
            *node = part;
        if (!samba_chat_skip(p, ","))
            break;
        if (!tuple)
            SAMBA_TRY(make(p, SAMBA_CHAT_MAKE_TUPLE, line, part, NULL, &tuple));
        *node = tuple;
    }
    p->depth--;
    return *node ? SAMBA_OK : make(p, SAMBA_CHAT_MAKE_TUPLE, line, NULL, NULL, node);
}

samba_status samba_chat_tuple(samba_chat_parser *p, bool conditions, const char *end, samba_chat_node **node)
{
    return parse_tuple(p, false, false, conditions, end, node);
}

static samba_status check_target(const samba_chat_parser *p, const samba_chat_node *node)
{
    if (node->op == SAMBA_CHAT_MAKE_TUPLE) {
        for (int64_t i = 0; i < node->kids.count; i++)
            SAMBA_TRY(check_target(p, node->kids.nodes[i]));
        return SAMBA_OK;
    }
    if (node->op != SAMBA_CHAT_NAME && node->op != SAMBA_CHAT_TARGET_ATTRIBUTE)
        return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, node->line, "a name is expected where something is assigned to");
    return SAMBA_OK;
}

samba_status samba_chat_target(samba_chat_parser *p, bool attributes, const char *end, samba_chat_node **node)
{
    SAMBA_TRY(parse_tuple(p, true, attributes, false, end, node));
    return check_target(p, *node);
}
