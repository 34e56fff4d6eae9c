/* SPDX-License-Identifier: Apache-2.0
 *
 * Two graphs side by side: whether they compute the same, and if not, the first operator that differs and where in the user's model it
 * stands in each. Places do not count: a line that moved is the same model. Neither does the graph's name. */
#include "graph/graph.h"
#include <string.h>

#define LINE_SHOWN 280 /* bytes of a line that a message shows */

static bool same_attrs(const samba_graph *a, const samba_node *x, const samba_graph *b, const samba_node *y)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_op_table[x->op].attrs];
    const char *p = (const char *)x->attrs, *q = (const char *)y->attrs;
    for (int i = 0; i < facts->field_count; i++) {
        size_t size = samba_field_size(facts->fields[i].kind);
        if (facts->fields[i].kind == SAMBA_FIELD_NAME) { /* numbers of names depend on the order in which they were met */
            int64_t m, n;
            memcpy(&m, p, sizeof m);
            memcpy(&n, q, sizeof n);
            if (strcmp(samba_graph_name_at(a, m), samba_graph_name_at(b, n)) != 0)
                return false;
        } else if (memcmp(p, q, size) != 0) {
            return false;
        }
        p += size;
        q += size;
    }
    return true;
}

static bool same_node(const samba_graph *a, const samba_node *x, const samba_graph *b, const samba_node *y)
{
    return x->op == y->op && x->dtype == y->dtype && x->phase == y->phase && x->fp32 == y->fp32 && x->arity == y->arity &&
           samba_shape_equal(x->rank, x->shape, y->rank, y->shape) &&
           (x->arity == 0 || memcmp(x->inputs, y->inputs, x->arity * sizeof *x->inputs) == 0) && same_attrs(a, x, b, y);
}

static bool same_sink(const samba_graph *a, const samba_sink *x, const samba_graph *b, const samba_sink *y)
{
    return x->kind == y->kind && x->phase == y->phase && x->target == y->target && x->value == y->value &&
           strcmp(samba_graph_name_at(a, x->name), samba_graph_name_at(b, y->name)) == 0;
}

/* One line of a graph's text without its place, which follows in the words of an error. */
static void add_line(samba_text *text, const samba_graph *graph, int64_t node, int64_t sink)
{
    char place[SAMBA_PLACE_TEXT] = "";
    samba_text line;
    samba_text_init(&line, graph->context);
    if (node < graph->node_count) {
        samba_graph_print_node(&line, graph, node, false);
        samba_place_format(graph, graph->nodes[node].place, place);
    } else if (sink < graph->sink_count) {
        samba_graph_print_sink(&line, graph, sink);
        samba_place_format(graph, graph->nodes[graph->sinks[sink].value].place, place);
    } else {
        samba_text_add(&line, "nothing more");
    }
    bool cut = line.length > LINE_SHOWN; /* constants may be of any length */
    samba_text_add(text, "%.*s%s%s", LINE_SHOWN, line.data ? line.data : "", cut ? " ..." : "", place);
    if (line.status != SAMBA_OK)
        text->status = line.status;
    samba_text_clear(&line);
}

static samba_status fail_difference(const samba_graph *compiled, const samba_graph *model, int64_t node, int64_t sink)
{
    samba_text text;
    samba_text_init(&text, model->context);
    samba_text_add(&text, "the model differs from the one that was compiled. First difference: compiled was  ");
    add_line(&text, compiled, node, sink);
    samba_text_add(&text, "  and the model has  ");
    add_line(&text, model, node, sink);
    samba_status status = text.status == SAMBA_OK ? samba_fail(model->context, SAMBA_ERROR_STATE, "%s", text.data) : text.status;
    samba_text_clear(&text);
    return status;
}

samba_status samba_graph_compare(const samba_graph *compiled, const samba_graph *model)
{
    if (!compiled || !model)
        return model || compiled ? samba_fail((model ? model : compiled)->context, SAMBA_ERROR_ARGUMENT, "two graphs are needed to compare, NULL was given")
                                 : SAMBA_ERROR_ARGUMENT;
    SAMBA_TRY(samba_graph_status(compiled));
    SAMBA_TRY(samba_graph_status(model));
    int64_t i = 0, k = 0;
    while (i < compiled->node_count && i < model->node_count && same_node(compiled, &compiled->nodes[i], model, &model->nodes[i]))
        i++;
    if (i < compiled->node_count || i < model->node_count)
        return fail_difference(compiled, model, i, 0);
    while (k < compiled->sink_count && k < model->sink_count && same_sink(compiled, &compiled->sinks[k], model, &model->sinks[k]))
        k++;
    return k < compiled->sink_count || k < model->sink_count ? fail_difference(compiled, model, i, k) : SAMBA_OK;
}
