/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements of a template. Blocks that the subset has not are refused by their names. */
#include "text/chat.h"

bool samba_chat_is(const samba_chat_parser *p, const char *sign)
{
    const samba_chat_token *t = samba_chat_now(p);
    return t->kind == SAMBA_CHAT_TOKEN_SIGN && samba_str_equal(t->text, samba_chat_str(sign));
}

bool samba_chat_word(const samba_chat_parser *p, const char *word)
{
    const samba_chat_token *t = samba_chat_now(p);
    return t->kind == SAMBA_CHAT_TOKEN_NAME && samba_str_equal(t->text, samba_chat_str(word));
}

bool samba_chat_skip(samba_chat_parser *p, const char *sign)
{
    const bool is = samba_chat_is(p, sign);
    p->at += is;
    return is;
}

bool samba_chat_skip_word(samba_chat_parser *p, const char *word)
{
    const bool is = samba_chat_word(p, word);
    p->at += is;
    return is;
}

samba_status samba_chat_unexpected(const samba_chat_parser *p, const char *expected)
{
    const samba_chat_token *t = samba_chat_now(p);
    char shown[SAMBA_SHOWN], cut[80];
    snprintf(cut, sizeof cut, "%.*s", (int)(t->text.size < 60 ? t->text.size : 60), t->text.data);
    const bool ends = t->kind == SAMBA_CHAT_TOKEN_PRINT_END || t->kind == SAMBA_CHAT_TOKEN_BLOCK_END;
    return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, t->line, "%s is expected, and not %s%s%s", expected,
                             t->kind == SAMBA_CHAT_TOKEN_END ? "the template's end"
                             : ends                          ? "the end of {{ or {%"
                                                             : "\"",
                             ends ? "" : samba_shown(cut, shown), ends || t->kind == SAMBA_CHAT_TOKEN_END ? "" : "\"");
}

samba_status samba_chat_expect(samba_chat_parser *p, const char *sign)
{
    char expected[16];
    snprintf(expected, sizeof expected, "\"%s\"", sign);
    return samba_chat_skip(p, sign) ? SAMBA_OK : samba_chat_unexpected(p, expected);
}

samba_status samba_chat_node_new(samba_chat_parser *p, samba_chat_op op, int line, samba_chat_node **node)
{
    SAMBA_TRY(SAMBA_ROOM(p->arena, *node, 1));
    (*node)->op = op;
    (*node)->line = line;
    return SAMBA_OK;
}

samba_status samba_chat_node_add(samba_chat_parser *p, samba_chat_body *body, samba_chat_node *node)
{
    SAMBA_TRY(SAMBA_MORE(p->arena, body->nodes, body->count, body->room));
    body->nodes[body->count++] = node;
    return SAMBA_OK;
}

samba_status samba_chat_node_name(samba_chat_parser *p, samba_chat_node *node, samba_str name)
{
    SAMBA_TRY(SAMBA_MORE(p->arena, node->names, node->named, node->name_room));
    for (int64_t i = 0; i < node->named; i++)
        if (samba_str_equal(node->names[i], name))
            return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, samba_chat_now(p)->line,
                                     "the argument \"%.*s\" is there twice", (int)(name.size < 60 ? name.size : 60), name.data);
    node->names[node->named++] = name;
    return SAMBA_OK;
}

/* ---- bodies ---- */
static samba_status parse_body(samba_chat_parser *p, const samba_chat_node *of, const char *const ends[3], samba_chat_body *body);

static samba_status block_end(samba_chat_parser *p)
{
    if (samba_chat_now(p)->kind != SAMBA_CHAT_TOKEN_BLOCK_END)
        return samba_chat_unexpected(p, "%}");
    p->at++;
    return SAMBA_OK;
}

/* One body more of a node: from the block's end on to one of `ends`, whose token is at hand then. */
static samba_status add_body(samba_chat_parser *p, samba_chat_node *node, const char *const ends[3])
{
    SAMBA_TRY(SAMBA_MORE(p->arena, node->bodies, node->body_count, node->body_room));
    samba_chat_skip(p, ":"); /* as in Python */
    SAMBA_TRY(block_end(p));
    node->body_count++;
    return parse_body(p, node, ends, &node->bodies[node->body_count - 1]);
}

/* The same up to {% end..., which is left behind. */
static samba_status whole_body(samba_chat_parser *p, samba_chat_node *node, const char *end)
{
    SAMBA_TRY(add_body(p, node, (const char *const[3]){end}));
    p->at++;
    return SAMBA_OK;
}

static samba_status parse_if(samba_chat_parser *p, samba_chat_node *node)
{
    static const char *const ends[3] = {"elif", "else", "endif"};
    node->op = SAMBA_CHAT_IF;
    do {
        samba_chat_node *condition;
        SAMBA_TRY(samba_chat_tuple(p, false, NULL, &condition));
        SAMBA_TRY(samba_chat_node_add(p, &node->kids, condition));
        SAMBA_TRY(add_body(p, node, ends));
    } while (samba_chat_skip_word(p, "elif"));
    if (samba_chat_skip_word(p, "else"))
        return whole_body(p, node, "endif");
    p->at++;
    return SAMBA_OK;
}

static samba_status parse_for(samba_chat_parser *p, samba_chat_node *node)
{
    static const char *const ends[3] = {"else", "endfor"};
    samba_chat_node *part = NULL;
    node->op = SAMBA_CHAT_FOR;
    SAMBA_TRY(samba_chat_target(p, false, "in", &part));
    SAMBA_TRY(samba_chat_node_add(p, &node->kids, part));
    if (!samba_chat_skip_word(p, "in"))
        return samba_chat_unexpected(p, "\"in\"");
    SAMBA_TRY(samba_chat_tuple(p, false, "recursive", &part));
    SAMBA_TRY(samba_chat_node_add(p, &node->kids, part));
    part = NULL;
    if (samba_chat_skip_word(p, "if"))
        SAMBA_TRY(samba_chat_expression(p, true, &part));
    SAMBA_TRY(samba_chat_node_add(p, &node->kids, part));
    if (samba_chat_word(p, "recursive"))
        return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, node->line, "a recursive loop is not supported");
    p->loops++;
    SAMBA_TRY(add_body(p, node, ends));
    p->loops--;
    if (samba_chat_skip_word(p, "else"))
        return whole_body(p, node, "endfor");
    p->at++;
    return SAMBA_OK;
}

static samba_status parse_set(samba_chat_parser *p, samba_chat_node *node)
{
    samba_chat_node *part;
    node->op = SAMBA_CHAT_SET;
    SAMBA_TRY(samba_chat_target(p, true, NULL, &part));
    SAMBA_TRY(samba_chat_node_add(p, &node->kids, part));
    if (samba_chat_skip(p, "=")) {
        SAMBA_TRY(samba_chat_tuple(p, true, NULL, &part));
        return samba_chat_node_add(p, &node->kids, part);
    }
    node->op = SAMBA_CHAT_SET_BLOCK;
    SAMBA_TRY(samba_chat_filters(p, NULL, false, &part));
    SAMBA_TRY(samba_chat_node_add(p, &node->kids, part));
    return whole_body(p, node, "endset");
}

static samba_status parse_with(samba_chat_parser *p, samba_chat_node *node)
{
    node->op = SAMBA_CHAT_WITH;
    while (samba_chat_now(p)->kind != SAMBA_CHAT_TOKEN_BLOCK_END) {
        samba_chat_node *part;
        if (node->kids.count > 0)
            SAMBA_TRY(samba_chat_expect(p, ","));
        if (samba_chat_now(p)->kind != SAMBA_CHAT_TOKEN_NAME)
            return samba_chat_unexpected(p, "a name");
        SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_NAME, node->line, &part));
        part->text = samba_chat_now(p)->text;
        p->at++;
        SAMBA_TRY(samba_chat_node_add(p, &node->kids, part));
        SAMBA_TRY(samba_chat_expect(p, "="));
        SAMBA_TRY(samba_chat_expression(p, true, &part));
        SAMBA_TRY(samba_chat_node_add(p, &node->kids, part));
    }
    return whole_body(p, node, "endwith");
}

static samba_status parse_macro(samba_chat_parser *p, samba_chat_node *node)
{
    const int loops = p->loops;
    node->op = SAMBA_CHAT_DEFINE;
    if (samba_chat_now(p)->kind != SAMBA_CHAT_TOKEN_NAME || samba_chat_is_constant_name(samba_chat_now(p)->text))
        return samba_chat_unexpected(p, "a macro's name");
    node->text = samba_chat_now(p)->text;
    p->at++;
    SAMBA_TRY(samba_chat_expect(p, "("));
    while (!samba_chat_is(p, ")")) {
        samba_chat_node *value;
        const samba_chat_token *name = samba_chat_now(p);
        if (node->named > 0) {
            SAMBA_TRY(samba_chat_expect(p, ","));
            name = samba_chat_now(p);
        }
        if (name->kind != SAMBA_CHAT_TOKEN_NAME || samba_chat_is_constant_name(name->text))
            return samba_chat_unexpected(p, "an argument's name");
        p->at++;
        SAMBA_TRY(samba_chat_node_name(p, node, name->text));
        if (samba_chat_skip(p, "=")) {
            SAMBA_TRY(samba_chat_expression(p, true, &value));
            SAMBA_TRY(samba_chat_node_add(p, &node->kids, value));
        } else if (node->kids.count > 0)
            return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, name->line,
                                     "an argument without a default follows one with");
    }
    p->at++;
    p->loops = 0;
    p->macros++;
    SAMBA_TRY(whole_body(p, node, "endmacro"));
    p->macros--;
    p->loops = loops;
    return SAMBA_OK;
}

static samba_status parse_filter_block(samba_chat_parser *p, samba_chat_node *node)
{
    samba_chat_node *filters;
    node->op = SAMBA_CHAT_FILTER_BLOCK;
    SAMBA_TRY(samba_chat_filters(p, NULL, true, &filters));
    SAMBA_TRY(samba_chat_node_add(p, &node->kids, filters));
    return whole_body(p, node, "endfilter");
}

static samba_status parse_generation(samba_chat_parser *p, samba_chat_node *node)
{
    const int loops = p->loops;
    node->op = SAMBA_CHAT_GENERATION;
    p->marks = true;
    p->loops = 0;
    SAMBA_TRY(whole_body(p, node, "endgeneration"));
    p->loops = loops;
    return SAMBA_OK;
}

static samba_status parse_way(samba_chat_parser *p, samba_chat_node *node)
{
    if (p->loops == 0)
        return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, node->line, "{%% %s %%} is outside of a loop",
                                 node->op == SAMBA_CHAT_BREAK ? "break" : "continue");
    return SAMBA_OK;
}

static const struct statement {
    const char *name;
    samba_chat_op op;
    samba_status (*parse)(samba_chat_parser *p, samba_chat_node *node); /* NULL: it is not supported */
} STATEMENTS[] = {
    {"if", SAMBA_CHAT_IF, parse_if},
    {"for", SAMBA_CHAT_FOR, parse_for},
    {"set", SAMBA_CHAT_SET, parse_set},
    {"with", SAMBA_CHAT_WITH, parse_with},
    {"macro", SAMBA_CHAT_DEFINE, parse_macro},
    {"filter", SAMBA_CHAT_FILTER_BLOCK, parse_filter_block},
    {"generation", SAMBA_CHAT_GENERATION, parse_generation},
    {"break", SAMBA_CHAT_BREAK, parse_way},
    {"continue", SAMBA_CHAT_CONTINUE, parse_way},
    {"call", SAMBA_CHAT_DATA, NULL},
    {"block", SAMBA_CHAT_DATA, NULL},
    {"extends", SAMBA_CHAT_DATA, NULL},
    {"include", SAMBA_CHAT_DATA, NULL},
    {"import", SAMBA_CHAT_DATA, NULL},
    {"from", SAMBA_CHAT_DATA, NULL},
    {"autoescape", SAMBA_CHAT_DATA, NULL},
    {"print", SAMBA_CHAT_DATA, NULL},
    {"do", SAMBA_CHAT_DATA, NULL},
    {"raw", SAMBA_CHAT_DATA, NULL},
};

/* From its name to before its %}. */
static samba_status parse_statement(samba_chat_parser *p, const samba_chat_node *within, samba_chat_node **node)
{
    const samba_chat_token *name = samba_chat_now(p);
    char shown[SAMBA_SHOWN], cut[80];
    if (name->kind != SAMBA_CHAT_TOKEN_NAME)
        return samba_chat_unexpected(p, "a statement");
    for (int i = 0; i < SAMBA_COUNT(STATEMENTS); i++) {
        const struct statement *s = &STATEMENTS[i];
        if (!samba_chat_word(p, s->name))
            continue;
        if (!s->parse)
            return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, name->line, "{%% %s %%} is not supported", s->name);
        p->at++;
        SAMBA_TRY(samba_chat_node_new(p, s->op, name->line, node));
        return s->parse(p, *node);
    }
    snprintf(cut, sizeof cut, "%.*s", (int)(name->text.size < 60 ? name->text.size : 60), name->text.data);
    if (within)
        return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, name->line,
                                 "{%% %s %%} is no statement, nor the end of the block that begins in line %d",
                                 samba_shown(cut, shown), within->line);
    return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, name->line, "{%% %s %%} is no statement", samba_shown(cut, shown));
}

static samba_status parse_body(samba_chat_parser *p, const samba_chat_node *of, const char *const ends[3], samba_chat_body *body)
{
    if (++p->depth > SAMBA_CHAT_MOST_NESTING)
        return samba_chat_syntax(p->context, SAMBA_ERROR_UNSUPPORTED, samba_chat_now(p)->line, "more than %d nested parts",
                                 SAMBA_CHAT_MOST_NESTING);
    for (;;) {
        const samba_chat_token *t = samba_chat_now(p);
        samba_chat_node *node, *printed;
        if (t->kind == SAMBA_CHAT_TOKEN_END) {
            p->depth--;
            if (!of)
                return SAMBA_OK;
            return samba_chat_syntax(p->context, SAMBA_ERROR_FORMAT, of->line, "the block that begins here has no {%% %s %%}",
                                     ends[2]   ? ends[2]
                                     : ends[1] ? ends[1]
                                               : ends[0]);
        }
        p->at++;
        if (t->kind == SAMBA_CHAT_TOKEN_DATA) {
            SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_DATA, t->line, &node));
            node->text = t->text;
        } else if (t->kind == SAMBA_CHAT_TOKEN_PRINT) {
            SAMBA_TRY(samba_chat_tuple(p, true, NULL, &printed));
            if (samba_chat_now(p)->kind != SAMBA_CHAT_TOKEN_PRINT_END)
                return samba_chat_unexpected(p, "}}");
            p->at++;
            SAMBA_TRY(samba_chat_node_new(p, SAMBA_CHAT_PRINT, t->line, &node));
            SAMBA_TRY(samba_chat_node_add(p, &node->kids, printed));
        } else {
            for (int i = 0; ends && i < 3 && ends[i]; i++)
                if (samba_chat_word(p, ends[i])) {
                    p->depth--;
                    return SAMBA_OK;
                }
            SAMBA_TRY(parse_statement(p, of, &node));
            SAMBA_TRY(block_end(p));
        }
        SAMBA_TRY(samba_chat_node_add(p, body, node));
    }
}

samba_status samba_chat_parse(samba_context *context, samba_arena *arena, const samba_chat_tokens *tokens, samba_chat_body *body,
                              bool *marks)
{
    samba_chat_parser p = {.context = context, .arena = arena, .tokens = tokens->tokens};
    *body = (samba_chat_body){0};
    SAMBA_TRY(parse_body(&p, NULL, NULL, body));
    *marks = p.marks;
    return SAMBA_OK;
}
