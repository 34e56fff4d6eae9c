/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form (docs/graph.md): one line a node with everything that makes it what it is, then the sinks. Printing what was
 * parsed gives the same bytes, and the same graph gives the same bytes on any machine and under any locale. The text as a PEF has
 * it differs in one thing: large literals stand beside it.
 *
 * The text belongs to the caller, who frees it with samba_text_free. */
#include "base/null.h"
#include "graph/graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *samba_real_format(double value, char buffer[SAMBA_REAL_TEXT])
{
    if (!isfinite(value)) {
        snprintf(buffer, SAMBA_REAL_TEXT, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return buffer;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buffer, SAMBA_REAL_TEXT, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    /* Whatever is no part of a number is the locale's decimal point, of one byte or several. */
    char *to = buffer;
    for (const char *from = buffer; *from; from++)
        if (strchr("0123456789+-e", *from))
            *to++ = *from;
        else if (to == buffer || to[-1] != '.')
            *to++ = '.';
    *to = 0;
    return buffer;
}

static bool is_plain(char c) { return (unsigned char)c >= 0x20 && c != 0x7f && c != '"' && c != '\\'; }

static void print_string(samba_text *text, const char *string)
{
    samba_text_add(text, "\"");
    while (*string) {
        int plain = 0;
        while (plain < 4096 && is_plain(string[plain]))
            plain++;
        if (plain > 0) {
            samba_text_add(text, "%.*s", plain, string);
            string += plain;
        } else if (*string == '"' || *string == '\\') {
            samba_text_add(text, "\\%c", *string++);
        } else {
            samba_text_add(text, "\\x%02x", (unsigned char)*string++);
        }
    }
    samba_text_add(text, "\"");
}

static void print_list(samba_text *text, int64_t count, const int64_t *numbers)
{
    samba_text_add(text, "[");
    for (int64_t i = 0; i < count; i++)
        samba_text_add(text, i ? ",%lld" : "%lld", (long long)numbers[i]);
    samba_text_add(text, "]");
}

typedef struct printer {
    samba_text *text;
    const samba_graph *graph;
    bool message; /* a line of one: no location, and not all of a literal */
    /* per blob of the graph: its number beside the text, -1 for none yet; NULL: all bytes stand in the text */
    int32_t *numbers;
    uint32_t *literals; /* beside the text */
    int32_t count;
} printer;

static void print_blob(printer *p, int64_t index)
{
    const samba_blob *blob = samba_graph_blob_at(p->graph, index);
    char digits[2 * SAMBA_LITERAL_SHOWN + 1];
    if (p->numbers && blob->size > SAMBA_LITERAL_INLINE) {
        if (p->numbers[index] < 0) {
            p->numbers[index] = p->count;
            p->literals[p->count++] = (uint32_t)index;
        }
        samba_text_add(p->text, "&%d", (int)p->numbers[index]);
        return;
    }
    const int64_t shown = p->message && blob->size > SAMBA_LITERAL_SHOWN ? SAMBA_LITERAL_SHOWN : blob->size;
    samba_text_add(p->text, "\"");
    for (int64_t at = 0; at < shown && p->text->status == SAMBA_OK; at += SAMBA_LITERAL_SHOWN) {
        samba_hex_encode(blob->data + at, (size_t)(shown - at < SAMBA_LITERAL_SHOWN ? shown - at : SAMBA_LITERAL_SHOWN), digits);
        samba_text_add(p->text, "%s", digits);
    }
    samba_text_add(p->text, shown < blob->size ? "..." : "\"");
}

static void print_field(printer *p, const samba_attrs_field *field, const char *at)
{
    samba_text *text = p->text;
    char buffer[SAMBA_REAL_TEXT];
    int64_t number;
    double real;
    samba_dims dims;
    memcpy(&number, at, sizeof(number));
    samba_text_add(text, " %s=", field->name);
    switch (field->kind) {
    case SAMBA_FIELD_INT: samba_text_add(text, "%lld", (long long)number); break;
    case SAMBA_FIELD_REAL:
        memcpy(&real, at, sizeof(real));
        samba_text_add(text, "%s", samba_real_format(real, buffer));
        break;
    case SAMBA_FIELD_DIMS:
        memcpy(&dims, at, sizeof(dims));
        print_list(text, dims.count, dims.at);
        break;
    case SAMBA_FIELD_DTYPE: samba_text_add(text, "%s", samba_dtype_name((samba_dtype)number)); break;
    case SAMBA_FIELD_NAME: print_string(text, samba_graph_name_at(p->graph, number)); break;
    case SAMBA_FIELD_BLOB: print_blob(p, number); break;
    }
}

/* Attributes, dtype and shape. */
static void print_facts(printer *p, const samba_node *node)
{
    samba_text *text = p->text;
    const samba_op_syntax *op = &samba_op_table[node->op];
    const samba_attrs_facts *facts = &samba_attrs_table[op->attrs];
    size_t offset = 0;
    for (int i = 0; i < facts->field_count; i++) {
        print_field(p, &facts->fields[i], (const char *)node->attrs + offset);
        offset += samba_field_size(facts->fields[i].kind);
    }
    samba_text_add(text, " : %s", samba_dtype_name(node->dtype));
    print_list(text, node->rank, node->shape);
}

static void print_node(printer *p, int64_t index)
{
    samba_text *text = p->text;
    const samba_graph *graph = p->graph;
    const samba_node *node = &graph->nodes[index];
    const samba_op_syntax *op = &samba_op_table[node->op];
    samba_text_add(text, "%%%lld = %s", (long long)index, op->name);
    for (int i = 0; i < node->arity; i++)
        samba_text_add(text, " %%%u", node->inputs[i]);
    print_facts(p, node);
    if (!op->leaf)
        samba_text_add(text, " @%s", samba_phase_names[node->phase]);
    if (node->fp32)
        samba_text_add(text, " fp32");
    const struct {
        const char *word;
        uint32_t name;
    } location[] = {{" ", node->location.scope}, {" at ", node->location.source}, {" fusion ", node->location.fusion}};
    for (int i = 0; i < SAMBA_COUNT(location) && !p->message; i++)
        if (location[i].name) {
            samba_text_add(text, "%s", location[i].word);
            print_string(text, graph->names[location[i].name]);
        }
}

void samba_graph_print_node(samba_text *text, const samba_graph *graph, int64_t index)
{
    printer p = {.text = text, .graph = graph, .message = true};
    print_node(&p, index);
}

void samba_graph_print_operator(samba_text *text, const samba_graph *graph, int64_t index)
{
    printer p = {.text = text, .graph = graph};
    samba_text_add(text, "%s", samba_op_table[graph->nodes[index].op].name);
    print_facts(&p, &graph->nodes[index]);
}

void samba_graph_print_sink(samba_text *text, const samba_graph *graph, int64_t index)
{
    const samba_sink *sink = &graph->sinks[index];
    if (sink->kind == SAMBA_SINK_ASSIGN) {
        samba_text_add(text, "assign %%%u", sink->target);
    } else {
        samba_text_add(text, sink->kind == SAMBA_SINK_LOSS ? "loss " : sink->kind == SAMBA_SINK_AGAIN ? "again " : "output ");
        print_string(text, graph->names[sink->name]);
    }
    samba_text_add(text, " %%%u @%s", sink->value, samba_phase_names[sink->phase]);
}

static samba_status print_graph(printer *p, char **result)
{
    const samba_graph *graph = p->graph;
    samba_text text;
    samba_text_init(&text, graph->context);
    p->text = &text;
    samba_text_add(&text, "graph ");
    print_string(&text, graph->name);
    samba_text_add(&text, "\n");
    for (int64_t i = 0; i < graph->node_count; i++) {
        print_node(p, i);
        samba_text_add(&text, "\n");
    }
    for (int64_t i = 0; i < graph->sink_count; i++) {
        samba_graph_print_sink(&text, graph, i);
        samba_text_add(&text, "\n");
    }
    samba_status status = text.status;
    if (status == SAMBA_OK) {
        *result = samba_strdup(graph->context, text.data); /* exactly as long as the text: samba_text_free knows its size */
        status = *result ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    }
    samba_text_clear(&text);
    return status;
}

samba_status samba_graph_print(const samba_graph *graph, char **result)
{
    SAMBA_NEED(graph ? graph->context : NULL, result);
    *result = NULL;
    SAMBA_TRY(samba_graph_status(graph));
    return print_graph(&(printer){.graph = graph}, result);
}

samba_status samba_graph_print_beside(const samba_graph *graph, samba_arena *arena, char **text, int32_t *count,
                                      uint32_t **literals)
{
    const size_t blobs = (size_t)graph->blob_count;
    printer p = {.graph = graph};
    *text = NULL;
    SAMBA_TRY(samba_graph_status(graph));
    p.numbers = samba_arena_alloc(arena, blobs * sizeof(*p.numbers));
    p.literals = samba_arena_alloc(arena, blobs * sizeof(*p.literals));
    if (!p.numbers || !p.literals)
        return SAMBA_ERROR_MEMORY;
    for (size_t i = 0; i < blobs; i++)
        p.numbers[i] = -1;
    SAMBA_TRY(print_graph(&p, text));
    *count = p.count;
    *literals = p.literals;
    return SAMBA_OK;
}

void samba_text_free(samba_context *context, char *text)
{
    if (!context)
        return;
    samba_strfree(context, text);
}
