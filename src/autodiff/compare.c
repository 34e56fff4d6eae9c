/* SPDX-License-Identifier: Apache-2.0
 *
 * Two graphs side by side: whether they compute the same, and if not, the first operator that differs and where in the user's
 * model it stands in each. Locations do not count: a line that moved is the same model. Neither does the graph's name, nor the
 * order in which nodes were made: C leaves open which argument of samba_add(samba_exp(x), samba_sin(x)) comes first, so two
 * compilers may differ there. One graph may name losses where the other has outputs, as long as the backward starts from the same
 * ones; that is why this file stands beside the reverse pass. */
#include "autodiff/autodiff.h"
#include <string.h>

#define LINE_SHOWN 280 /* bytes of a line that a message shows */

static bool same_attrs(const samba_graph *a, const samba_node *x, const samba_graph *b, const samba_node *y)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_op_table[x->op].attrs];
    const char *p = (const char *)x->attrs, *q = (const char *)y->attrs;
    for (int i = 0; i < facts->field_count; i++) {
        size_t size = samba_field_size(facts->fields[i].kind);
        int64_t m, n; /* numbers of names and bytes depend on the order in which they were met */
        memcpy(&m, p, sizeof m);
        memcpy(&n, q, sizeof n);
        bool same = facts->fields[i].kind == SAMBA_FIELD_NAME ? strcmp(samba_graph_name_at(a, m), samba_graph_name_at(b, n)) == 0
                    : facts->fields[i].kind == SAMBA_FIELD_BLOB
                        ? samba_blob_equal(samba_graph_blob_at(a, m), samba_graph_blob_at(b, n))
                        : memcmp(p, q, size) == 0;
        if (!same)
            return false;
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

/* A loss is an output too. */
static bool is_delivered(const samba_sink *sink) { return sink->kind == SAMBA_SINK_OUTPUT || sink->kind == SAMBA_SINK_LOSS; }

static bool same_sink(const samba_graph *a, const samba_sink *x, const samba_graph *b, const samba_sink *y)
{
    return (x->kind == y->kind || (is_delivered(x) && is_delivered(y))) && x->phase == y->phase && x->target == y->target &&
           x->value == y->value && strcmp(samba_graph_name_at(a, x->name), samba_graph_name_at(b, y->name)) == 0;
}

/* Of graphs that differ in no more than what is called a loss: the first sink that backward starts from in one of them alone, or
 * the end. Where there is nothing to differentiate, the first that is called otherwise. */
static samba_status first_other_start(const samba_graph *a, const samba_graph *b, int64_t *sink, bool *starts_known)
{
    *starts_known = false;
    int64_t other = 0;
    while (other < a->sink_count && a->sinks[other].kind == b->sinks[other].kind)
        other++;
    *sink = other;
    if (other == a->sink_count)
        return SAMBA_OK;
    samba_arena arena;
    samba_arena_init(&arena, b->context);
    double *starts[2];
    for (int i = 0; i < 2; i++)
        starts[i] = samba_arena_alloc(&arena, sizeof(double) * (size_t)a->sink_count);
    samba_status status = starts[0] && starts[1] ? samba_autodiff_starts(a, starts[0]) : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK)
        status = samba_autodiff_starts(b, starts[1]);
    *starts_known = status == SAMBA_OK;
    if (*starts_known)
        *sink = 0;
    /* from 0 nothing starts */
    while (status == SAMBA_OK && *sink < a->sink_count && (starts[0][*sink] == 1) == (starts[1][*sink] == 1))
        ++*sink;
    samba_arena_free(&arena);
    return status == SAMBA_ERROR_MEMORY ? status : SAMBA_OK;
}

/* One line of a graph's text without its location, which follows in the words of an error. */
static void add_line(samba_text *text, const samba_graph *graph, int64_t node, int64_t sink)
{
    char location[SAMBA_LOCATION_TEXT] = "";
    samba_text line;
    samba_text_init(&line, graph->context);
    if (node < graph->node_count) {
        samba_graph_print_node(&line, graph, node);
        samba_location_format(graph, graph->nodes[node].location, location);
    } else if (sink < graph->sink_count) {
        samba_graph_print_sink(&line, graph, sink);
        samba_location_format(graph, graph->nodes[graph->sinks[sink].value].location, location);
    } else {
        samba_text_add(&line, "nothing more");
    }
    bool cut = line.length > LINE_SHOWN; /* constants may be of any length */
    samba_text_add(text, "%.*s%s%s", LINE_SHOWN, line.data ? line.data : "", cut ? " ..." : "", location);
    if (line.status != SAMBA_OK)
        text->status = line.status;
    samba_text_clear(&line);
}

static void add_type(samba_text *text, const samba_node *node)
{
    char shape[SAMBA_SHAPE_TEXT];
    samba_text_add(text, "%s%s", samba_dtype_name((samba_dtype)node->dtype),
                   samba_shape_format(node->rank, node->shape, shape, sizeof shape));
}

/* An input or a weight of another shape, dtype or name, in words: nobody need read a line of a graph for that. */
static bool add_leaf(samba_text *text, const samba_graph *compiled, const samba_graph *model, int64_t node)
{
    if (node >= compiled->node_count || node >= model->node_count)
        return false;
    const samba_node *was = &compiled->nodes[node], *is = &model->nodes[node];
    if (was->op != is->op || (was->op != SAMBA_OP_input && was->op != SAMBA_OP_parameter && was->op != SAMBA_OP_state))
        return false;
    const char *kind = was->op == SAMBA_OP_state ? "buffer" : samba_op_table[was->op].name;
    /* the name is the first attribute of each of them */
    const char *its = samba_graph_name_at(compiled, was->attrs->leaf.name),
               *other = samba_graph_name_at(model, is->attrs->leaf.name);
    const bool same_type = was->dtype == is->dtype && samba_shape_equal(was->rank, was->shape, is->rank, is->shape);
    if ((strcmp(its, other) == 0) == same_type) /* both differ: another leaf; neither: how it starts */
        return false;
    if (same_type) {
        samba_text_add(text, "%s \"%.128s\" is in the place of \"%.128s\", which was compiled", kind, other, its);
        return true;
    }
    samba_text_add(text, "%s \"%.128s\" is ", kind, its);
    add_type(text, is);
    samba_text_add(text, ", but was compiled as ");
    add_type(text, was);
    char location[SAMBA_LOCATION_TEXT] = "";
    samba_text_add(text, "%s", samba_location_format(model, is->location, location));
    return true;
}

static samba_status fail_difference(const samba_graph *compiled, const samba_graph *model, int64_t node, int64_t sink)
{
    samba_text text;
    samba_text_init(&text, model->context);
    samba_text_add(
        &text,
        "the model differs from the compiled one: compile it again, or give the model that was compiled. First difference: ");
    if (!add_leaf(&text, compiled, model, node)) {
        samba_text_add(&text, "compiled was  ");
        add_line(&text, compiled, node, sink);
        samba_text_add(&text, "  and the model has  ");
        add_line(&text, model, node, sink);
    }
    samba_status status = text.status == SAMBA_OK ? samba_fail(model->context, SAMBA_ERROR_STATE, "%s", text.data) : text.status;
    samba_text_clear(&text);
    return status;
}

/* "a", "b"; without losses every output is one. */
static void add_losses(samba_text *text, const samba_graph *graph)
{
    const char *between = "";
    bool named = false;
    for (int64_t i = 0; i < graph->sink_count; i++)
        named = named || graph->sinks[i].kind == SAMBA_SINK_LOSS;
    for (int64_t i = 0; i < graph->sink_count; i++) {
        if (graph->sinks[i].kind != (named ? SAMBA_SINK_LOSS : SAMBA_SINK_OUTPUT))
            continue;
        samba_text_add(text, "%s\"%.128s\"", between, samba_graph_name_at(graph, graph->sinks[i].name));
        between = ", ";
    }
    samba_text_add(text, "%s", named ? "" : " (every output, as none is named)");
}

/* Equal graphs, of which only one's backward starts from some sink. */
static samba_status fail_start(const samba_graph *compiled, const samba_graph *model)
{
    samba_text text;
    samba_text_init(&text, model->context);
    samba_text_add(&text, "the losses are ");
    add_losses(&text, model);
    samba_text_add(&text, ", but the model was compiled with ");
    add_losses(&text, compiled);
    samba_text_add(&text, ": name the same losses for both, or compile again");
    samba_status status = text.status == SAMBA_OK ? samba_fail(model->context, SAMBA_ERROR_STATE, "%s", text.data) : text.status;
    samba_text_clear(&text);
    return status;
}

/* ---- the same nodes in another order ---- */

/* Makes the nodes of `from` in `into`, where equal nodes are one, and says in `map` which each became. False where one cannot be
 * made: without memory, or as another leaf has its name. */
static bool make_nodes(samba_graph *into, const samba_graph *from, samba_ref *map)
{
    samba_ref inputs[SAMBA_MAX_ARITY];
    samba_attrs attrs;
    into->recompute = true; /* a node of another phase is another node */
    for (int64_t i = 0; i < from->node_count; i++) {
        samba_node node = from->nodes[i];
        samba_attrs_carry(into, from, &node, &attrs);
        for (int k = 0; k < node.arity; k++)
            inputs[k] = map[node.inputs[k]];
        node.inputs = inputs;
        node.attrs = &attrs;
        into->phase = (samba_phase)node.phase;
        into->fp32 = node.fp32;
        map[i] = samba_graph_add(into, &node);
        if (map[i] == SAMBA_NONE)
            return false;
    }
    return true;
}

static samba_status same_in_any_order(const samba_graph *compiled, const samba_graph *model, bool *same)
{
    samba_graph *both = NULL;
    samba_status status = SAMBA_ERROR_MEMORY;
    samba_context *context = model->context;
    size_t size = (size_t)model->node_count * sizeof(samba_ref);
    samba_ref *first = samba_alloc(context, size), *second = samba_alloc(context, size);
    if (first && second && samba_graph_new(context, "both", &both) == SAMBA_OK) {
        *same = make_nodes(both, compiled, first) && make_nodes(both, model, second) && both->node_count == model->node_count;
        status = samba_graph_status(both) == SAMBA_ERROR_MEMORY ? SAMBA_ERROR_MEMORY : SAMBA_OK;
    }
    for (int64_t i = 0; *same && i < model->sink_count; i++) {
        samba_sink x = compiled->sinks[i], y = model->sinks[i];
        x.value = first[x.value], y.value = second[y.value];
        if (x.kind == SAMBA_SINK_ASSIGN && y.kind == SAMBA_SINK_ASSIGN)
            x.target = first[x.target], y.target = second[y.target];
        *same = same_sink(compiled, &x, model, &y);
    }
    samba_graph_free(both);
    if (first)
        samba_free(context, first, size);
    if (second)
        samba_free(context, second, size);
    return status;
}

samba_status samba_graph_compare(const samba_graph *compiled, const samba_graph *model)
{
    if (!compiled || !model)
        return model || compiled ? samba_fail((model ? model : compiled)->context, SAMBA_ERROR_ARGUMENT,
                                              "two graphs are needed to compare, NULL was given")
                                 : SAMBA_ERROR_ARGUMENT;
    SAMBA_TRY(samba_graph_status(compiled));
    SAMBA_TRY(samba_graph_status(model));
    int64_t i = 0, k = 0;
    while (i < compiled->node_count && i < model->node_count && same_node(compiled, &compiled->nodes[i], model, &model->nodes[i]))
        i++;
    const bool counts = compiled->node_count == model->node_count && compiled->sink_count == model->sink_count;
    bool same = false;
    if (counts && i < model->node_count)
        SAMBA_TRY(same_in_any_order(compiled, model, &same));
    if (!same && (i < compiled->node_count || i < model->node_count))
        return fail_difference(compiled, model, i, 0);
    while (!same && k < compiled->sink_count && k < model->sink_count &&
           same_sink(compiled, &compiled->sinks[k], model, &model->sinks[k]))
        k++;
    if (!same && (k < compiled->sink_count || k < model->sink_count))
        return fail_difference(compiled, model, i, k);
    bool starts_known;
    SAMBA_TRY(first_other_start(compiled, model, &k, &starts_known));
    if (k == compiled->sink_count)
        return SAMBA_OK;
    return starts_known ? fail_start(compiled, model) : fail_difference(compiled, model, compiled->node_count, k);
}
