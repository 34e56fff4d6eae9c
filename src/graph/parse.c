/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the text form (docs/graph.md) back. A line is emitted as a model would emit it, with the written phase and location in
 * force, and must come out as written: same number, dtype, shape and phase. So a text that is accepted is a sound graph, whoever
 * wrote it, and any other bytes are refused with the line, what was expected and what was found.
 *
 * The parser owns one arena of scratch strings and the graph until it is done; the graph goes to the caller. */
#include "base/null.h"
#include "graph/graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    samba_context *context;
    samba_arena scratch;
    samba_graph *graph;
    int64_t literal_count; /* beside the text */
    const samba_literal *literals;
    const char *at; /* next byte */
    int64_t line;
    samba_ref inputs[SAMBA_MAX_ARITY];
} parser;

/* ---- bytes ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }
static bool at_line_end(const parser *p) { return *p->at == 0 || *p->at == '\n' || *p->at == '#'; }

static void skip_spaces(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')
        p->at++;
}

/* "line 3: expected <what>, found <the next bytes>" */
static samba_status expected(parser *p, const char *what)
{
    char found[40] = "the end of the line";
    if (*p->at == 0) {
        snprintf(found, sizeof(found), "the end of the text");
    } else if (*p->at != '\n') {
        int length = 0;
        while (length < 24 && p->at[length] > ' ')
            length++;
        length = length ? length : 1;
        snprintf(found, sizeof(found), "'%.*s'", length, p->at);
        for (char *c = found; *c; c++)
            if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
                *c = '?';
    }
    return samba_fail(p->context, SAMBA_ERROR_FORMAT, "line %lld: expected %s, found %s", (long long)p->line, what, found);
}

/* An error with the line in front of the message the context has; everything but lack of memory is the text's fault. */
static samba_status blame_line(parser *p, samba_status status)
{
    if (status == SAMBA_ERROR_MEMORY)
        return status;
    char message[900];
    snprintf(message, sizeof(message), "%.899s", samba_error_message(p->context));
    return samba_fail(p->context, SAMBA_ERROR_FORMAT, "line %lld: %s", (long long)p->line, message);
}

/* Takes `token` when it comes next, as a whole word if it is one. */
static bool take(parser *p, const char *token)
{
    size_t length = strlen(token);
    skip_spaces(p);
    if (strncmp(p->at, token, length) != 0 || (is_word(token[length - 1]) && is_word(p->at[length])))
        return false;
    p->at += length;
    return true;
}

static samba_status expect(parser *p, const char *token, const char *what)
{
    return take(p, token) ? SAMBA_OK : expected(p, what);
}

/* ---- values ---- */

static samba_status parse_int(parser *p, const char *what, int64_t *value)
{
    skip_spaces(p);
    const char *at = p->at;
    bool negative = *at == '-';
    at += negative;
    if (!is_digit(*at))
        return expected(p, what);
    int64_t sum = 0; /* negated, as there is one more negative number */
    for (; is_digit(*at); at++)
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_sub_overflow(sum, *at - '0', &sum))
            return expected(p, "a number that fits 64 bits");
    if (!negative && sum == INT64_MIN)
        return expected(p, "a number that fits 64 bits");
    *value = negative ? sum : -sum;
    p->at = at;
    return SAMBA_OK;
}

bool samba_real_parse(const char *text, int64_t length, double *value)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
    for (int i = 0; i < SAMBA_COUNT(words); i++)
        if (length == (int64_t)strlen(words[i].text) && memcmp(text, words[i].text, (size_t)length) == 0) {
            *value = words[i].value;
            return true;
        }
    if (length < 1 || length > 63)
        return false;
    /* Rewritten without a point, digits e exponent, which strtod reads alike in every locale. */
    char digits[96];
    int64_t i = 0, used = 0, fraction = 0, count = 0;
    if (text[i] == '-' || text[i] == '+')
        digits[used++] = text[i++];
    for (; i < length && is_digit(text[i]); i++, count++)
        digits[used++] = text[i];
    if (i < length && text[i] == '.')
        for (i++; i < length && is_digit(text[i]); i++, count++, fraction++)
            digits[used++] = text[i];
    if (count == 0)
        return false;
    int64_t exponent = 0;
    if (i < length && text[i] == 'e') {
        bool negative = ++i < length && text[i] == '-';
        if (i < length && (text[i] == '-' || text[i] == '+'))
            i++;
        if (i == length)
            return false;
        for (; i < length && is_digit(text[i]); i++)
            exponent = exponent < 100000 ? exponent * 10 + (text[i] - '0') : exponent; /* far out either way */
        exponent = negative ? -exponent : exponent;
    }
    if (i != length)
        return false;
    snprintf(digits + used, sizeof(digits) - (size_t)used, "e%lld", (long long)(exponent - fraction));
    *value = strtod(digits, NULL);
    return isfinite(*value); /* an overflow is not what was written */
}

static samba_status parse_real(parser *p, double *value)
{
    skip_spaces(p);
    int64_t length = 0;
    while (is_word(p->at[length]) || (p->at[length] && strchr("+-.", p->at[length])))
        length++;
    if (!samba_real_parse(p->at, length, value))
        return expected(p, "a real number");
    p->at += length;
    return SAMBA_OK;
}

static samba_status parse_list(parser *p, samba_dims *dims)
{
    memset(dims, 0, sizeof(*dims));
    SAMBA_TRY(expect(p, "[", "'['"));
    if (take(p, "]"))
        return SAMBA_OK;
    do {
        if (dims->count == SAMBA_MAX_RANK)
            return expected(p, "at most 8 numbers and ']'");
        SAMBA_TRY(parse_int(p, "a number", &dims->at[dims->count++]));
    } while (take(p, ","));
    return expect(p, "]", "',' or ']'");
}

static samba_status parse_dtype(parser *p, samba_dtype *dtype)
{
    skip_spaces(p);
    for (int i = 0; i < SAMBA_DTYPE_COUNT; i++)
        if (take(p, samba_dtype_name((samba_dtype)i))) {
            *dtype = (samba_dtype)i;
            return SAMBA_OK;
        }
    return expected(p, "a dtype");
}

static int hex_digit(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A quoted string, decoded into the scratch arena. */
static samba_status parse_string(parser *p, const char *what, char **string)
{
    SAMBA_TRY(expect(p, "\"", what));
    size_t length = 0;
    while (p->at[length] && p->at[length] != '\n' && p->at[length] != '"')
        length += p->at[length] == '\\' && p->at[length + 1] && p->at[length + 1] != '\n' ? 2 : 1;
    char *to = *string = samba_arena_alloc(&p->scratch, length + 1);
    if (!to)
        return SAMBA_ERROR_MEMORY;
    while (*p->at != '"') {
        if ((unsigned char)*p->at < ' ')
            return expected(p, "'\"' after the name");
        if (*p->at != '\\') {
            *to++ = *p->at++;
        } else if (p->at[1] == '"' || p->at[1] == '\\') {
            *to++ = p->at[1];
            p->at += 2;
        } else {
            int high = p->at[1] == 'x' ? hex_digit(p->at[2]) : -1, low = high >= 0 ? hex_digit(p->at[3]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return expected(p, "\\\", \\\\ or \\x with two hexadecimal digits other than 00");
            *to++ = (char)(high * 16 + low);
            p->at += 4;
        }
    }
    *to = 0;
    p->at++;
    return SAMBA_OK;
}

static samba_status parse_name(parser *p, const char *what, uint32_t *name)
{
    char *string;
    SAMBA_TRY(parse_string(p, what, &string));
    *name = samba_graph_intern(p->graph, string);
    return p->graph->status;
}

/* Two hexadecimal digits a byte, in quotes. */
static samba_status parse_digits(parser *p, samba_blob **blob)
{
    static const char digits[] = "0123456789abcdef";
    SAMBA_TRY(expect(p, "\"", "the bytes of a literal: quoted digits, or '&' and a number"));
    size_t length = strspn(p->at, digits);
    if (p->at[length] != '"' || length % 2 != 0) {
        p->at += length;
        return expected(p, "two hexadecimal digits for each byte, then '\"'");
    }
    *blob = samba_blob_new(p->context, (int64_t)(length / 2));
    if (!*blob)
        return SAMBA_ERROR_MEMORY;
    samba_hex_decode(p->at, length / 2, (*blob)->data);
    samba_blob_seal(*blob);
    p->at += length + 1;
    return SAMBA_OK;
}

/* &N: bytes that came with the text. */
static samba_status parse_beside(parser *p, samba_blob **blob)
{
    const char *number = p->at;
    int64_t value;
    SAMBA_TRY(parse_int(p, "the number of a literal beside the text", &value));
    if (p->literal_count == 0)
        return samba_fail(p->context, SAMBA_ERROR_FORMAT,
                          "line %lld: the bytes of this literal stand beside the text: give both to samba_graph_parse_beside",
                          (long long)p->line);
    if (value < 0 || value >= p->literal_count) {
        p->at = number;
        return expected(p, "the number of a literal beside the text");
    }
    *blob = samba_blob_copy(p->context, p->literals[value].data, p->literals[value].size);
    return *blob ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static samba_status parse_blob(parser *p, int64_t *index)
{
    samba_blob *blob = NULL;
    SAMBA_TRY(take(p, "&") ? parse_beside(p, &blob) : parse_digits(p, &blob));
    *index = samba_graph_blob(p->graph, blob);
    samba_blob_drop(blob);
    return p->graph->status;
}

/* %N of a node that is there already. */
static samba_status parse_ref(parser *p, samba_ref *ref)
{
    SAMBA_TRY(expect(p, "%", "'%' and the number of a node"));
    const char *number = p->at;
    int64_t value;
    SAMBA_TRY(parse_int(p, "the number of a node", &value));
    if (value < 0 || value >= p->graph->node_count) {
        p->at = number;
        return expected(p, "the number of a node above this line");
    }
    *ref = (samba_ref)value;
    return SAMBA_OK;
}

static samba_status parse_phase(parser *p, samba_phase *phase)
{
    SAMBA_TRY(expect(p, "@", "'@' and a phase"));
    for (int i = 0; i < SAMBA_PHASE_COUNT; i++)
        if (take(p, samba_phase_names[i])) {
            *phase = (samba_phase)i;
            return SAMBA_OK;
        }
    return expected(p, "ZEROGRAD, FWD, BCKWD, REDUCE, GRADNORM or OPT");
}

/* ---- lines ---- */

static samba_status parse_field(parser *p, const samba_attrs_field *field, char *to)
{
    char what[64];
    snprintf(what, sizeof(what), "'%s='", field->name);
    SAMBA_TRY(expect(p, field->name, what));
    SAMBA_TRY(expect(p, "=", what));
    int64_t number = 0;
    samba_dtype dtype = SAMBA_FLOAT32;
    uint32_t name;
    switch (field->kind) {
    case SAMBA_FIELD_REAL: {
        double real;
        SAMBA_TRY(parse_real(p, &real));
        memcpy(to, &real, sizeof(real));
        return SAMBA_OK;
    }
    case SAMBA_FIELD_DIMS: {
        samba_dims dims;
        SAMBA_TRY(parse_list(p, &dims));
        memcpy(to, &dims, sizeof(dims));
        return SAMBA_OK;
    }
    case SAMBA_FIELD_INT: SAMBA_TRY(parse_int(p, "a whole number", &number)); break;
    case SAMBA_FIELD_DTYPE:
        SAMBA_TRY(parse_dtype(p, &dtype));
        number = dtype;
        break;
    case SAMBA_FIELD_NAME:
        SAMBA_TRY(parse_name(p, "a quoted name", &name));
        number = name;
        break;
    case SAMBA_FIELD_BLOB: SAMBA_TRY(parse_blob(p, &number)); break;
    }
    memcpy(to, &number, sizeof(number));
    return SAMBA_OK;
}

static samba_status parse_op(parser *p, samba_op *op)
{
    skip_spaces(p);
    for (int i = 0; i < SAMBA_OP_COUNT; i++)
        if (take(p, samba_op_table[i].name)) {
            *op = (samba_op)i;
            return SAMBA_OK;
        }
    return expected(p, "an operator");
}

/* Compares the emitted node with the text. */
static samba_status check_node(parser *p, int64_t number, samba_ref ref, samba_dtype dtype, const samba_dims *shape,
                               samba_phase phase)
{
    const samba_node *node = samba_node_at(p->graph, ref);
    const char *op = samba_op_table[node->op].name;
    if (ref != number)
        return samba_fail(p->context, SAMBA_ERROR_FORMAT, "line %lld: %%%lld is %%%u over again; a graph has each node once",
                          (long long)p->line, (long long)number, ref);
    if (node->dtype != dtype || !samba_shape_equal(node->rank, node->shape, (int)shape->count, shape->at))
        return samba_fail(p->context, SAMBA_ERROR_FORMAT, "line %lld: %s gives %s%s here, but %s%s is written",
                          (long long)p->line, op, samba_dtype_name(node->dtype), SAMBA_SHAPE_OF(node), samba_dtype_name(dtype),
                          SAMBA_SHAPE((int)shape->count, shape->at));
    if (node->phase != phase)
        return samba_fail(p->context, SAMBA_ERROR_FORMAT, "line %lld: %s has an input of phase %s, so it cannot be of phase %s",
                          (long long)p->line, op, samba_phase_names[node->phase], samba_phase_names[phase]);
    return SAMBA_OK;
}

/* "encoder.0" at "model.py:42" fusion "ffn", each of which may be missing */
static samba_status parse_location(parser *p, samba_location *location)
{
    *location = (samba_location){0};
    skip_spaces(p);
    if (*p->at == '"')
        SAMBA_TRY(parse_name(p, "a scope", &location->scope));
    if (take(p, "at"))
        SAMBA_TRY(parse_name(p, "a source such as \"model.py:42\"", &location->source));
    return take(p, "fusion") ? parse_name(p, "the name of a fusion", &location->fusion) : SAMBA_OK;
}

/* %7 = conv2d %0 %1 stride=[1,1] ... : float32[32,6,28,28] @FWD "conv1" at "lenet.c:12" */
static samba_status parse_node(parser *p)
{
    int64_t number;
    const char *start = p->at;
    SAMBA_TRY(parse_int(p, "the number of a node", &number));
    if (number != p->graph->node_count) {
        char what[64];
        snprintf(what, sizeof(what), "node %lld, as nodes are numbered from 0", (long long)p->graph->node_count);
        p->at = start;
        return expected(p, what);
    }
    samba_op op = SAMBA_OP_COUNT;
    SAMBA_TRY(expect(p, "=", "'='"));
    SAMBA_TRY(parse_op(p, &op));
    int arity = 0;
    for (skip_spaces(p); *p->at == '%'; skip_spaces(p)) {
        if (arity == SAMBA_MAX_ARITY)
            return expected(p, "at most 1024 inputs");
        SAMBA_TRY(parse_ref(p, &p->inputs[arity++]));
    }
    samba_attrs attrs;
    memset(&attrs, 0, sizeof(attrs));
    const samba_attrs_facts *facts = &samba_attrs_table[samba_op_table[op].attrs];
    size_t offset = 0;
    for (int i = 0; i < facts->field_count; i++) {
        SAMBA_TRY(parse_field(p, &facts->fields[i], (char *)&attrs + offset));
        offset += samba_field_size(facts->fields[i].kind);
    }
    samba_dtype dtype = SAMBA_FLOAT32;
    samba_dims shape;
    samba_phase phase = SAMBA_ZEROGRAD;
    SAMBA_TRY(expect(p, ":", "':' and a type such as float32[2,3]"));
    SAMBA_TRY(parse_dtype(p, &dtype));
    SAMBA_TRY(parse_list(p, &shape));
    if (!samba_op_table[op].leaf)
        SAMBA_TRY(parse_phase(p, &phase));
    p->graph->fp32 = !samba_op_table[op].leaf && take(p, "fp32");
    SAMBA_TRY(parse_location(p, &p->graph->location));
    p->graph->phase = phase;
    samba_ref ref = samba_emit(p->graph, op, arity, p->inputs, &attrs);
    return ref == SAMBA_NONE ? blame_line(p, samba_graph_status(p->graph)) : check_node(p, number, ref, dtype, &shape, phase);
}

static samba_status parse_sink(parser *p, samba_sink_kind kind)
{
    samba_sink sink = {.kind = kind, .target = SAMBA_NONE};
    if (kind == SAMBA_SINK_ASSIGN)
        SAMBA_TRY(parse_ref(p, &sink.target));
    else
        SAMBA_TRY(parse_name(p, "a quoted name", &sink.name));
    SAMBA_TRY(parse_ref(p, &sink.value));
    SAMBA_TRY(parse_phase(p, &sink.phase));
    p->graph->location = (samba_location){0};
    samba_graph_sink(p->graph, sink);
    samba_status status = samba_graph_status(p->graph);
    return status == SAMBA_OK ? SAMBA_OK : blame_line(p, status);
}

static samba_status parse_line(parser *p)
{
    if (!p->graph) {
        char *name;
        SAMBA_TRY(expect(p, "graph", "'graph' and its name"));
        SAMBA_TRY(parse_string(p, "a quoted name", &name));
        samba_status status = samba_graph_new(p->context, name, &p->graph);
        if (status != SAMBA_OK)
            return blame_line(p, status);
        p->graph->recompute = true; /* phases come out as written */
        return SAMBA_OK;
    }
    if (take(p, "%"))
        return p->graph->sink_count == 0 ? parse_node(p) : expected(p, "an output, loss or assign: nodes come before them");
    if (take(p, "output"))
        return parse_sink(p, SAMBA_SINK_OUTPUT);
    if (take(p, "loss"))
        return parse_sink(p, SAMBA_SINK_LOSS);
    if (take(p, "assign"))
        return parse_sink(p, SAMBA_SINK_ASSIGN);
    return expected(p, "a node ('%'), output, loss or assign");
}

static samba_status parse_text(parser *p)
{
    for (p->line = 1;; p->line++) {
        skip_spaces(p);
        if (!at_line_end(p)) {
            SAMBA_TRY(parse_line(p));
            skip_spaces(p);
            if (!at_line_end(p))
                return expected(p, "the end of the line");
        }
        while (*p->at && *p->at != '\n')
            p->at++; /* a comment */
        if (!*p->at)
            return p->graph ? SAMBA_OK : expected(p, "'graph' and its name");
        p->at++;
    }
}

samba_status samba_graph_parse_beside(samba_context *context, const char *text, int64_t literal_count,
                                      const samba_literal *literals, samba_graph **graph)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, graph);
    *graph = NULL;
    if (!text)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a graph's text is needed, NULL was given");
    if (literal_count < 0 || (literal_count > 0 && !literals))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%lld literals beside a graph's text, in a list that is %s",
                          (long long)literal_count, literals ? "given" : "NULL");
    for (int64_t i = 0; i < literal_count; i++)
        if (literals[i].size < 0 || (literals[i].size > 0 && !literals[i].data))
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "literal %lld beside a graph's text has %lld bytes at %s",
                              (long long)i, (long long)literals[i].size, literals[i].data ? "an address" : "NULL");
    parser *p = samba_calloc(context, sizeof(*p));
    if (!p)
        return SAMBA_ERROR_MEMORY;
    p->context = context;
    p->at = text;
    p->literal_count = literal_count;
    p->literals = literals;
    samba_arena_init(&p->scratch, context);
    samba_status status = parse_text(p);
    if (status != SAMBA_OK) {
        samba_graph_free(p->graph);
    } else {
        p->graph->recompute = false;
        p->graph->fp32 = false;
        p->graph->phase = SAMBA_FWD;
        p->graph->location = (samba_location){0};
        *graph = p->graph;
    }
    samba_arena_free(&p->scratch);
    samba_free(context, p, sizeof(*p));
    return status;
}

samba_status samba_graph_parse(samba_context *context, const char *text, samba_graph **graph)
{
    return samba_graph_parse_beside(context, text, 0, NULL, graph);
}
