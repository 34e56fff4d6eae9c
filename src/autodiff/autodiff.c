/* SPDX-License-Identifier: Apache-2.0
 *
 * The reverse pass: nodes are visited from the last to the first, each once, when all its users have contributed. The column vjp
 * of an operator gives the gradients of its inputs; contributions add up. Only nodes on a path from a parameter to a loss are
 * visited.
 *
 * Gradients have the location of the node they belong to.
 *
 * Losses start with ones. A graph without a loss starts at its outputs. When the pass comes to an output, all nodes that are
 * computed from it have been visited: if it has a gradient by then it starts with zeros, otherwise with ones. An output that only
 * a comparison, a detached copy or an index reads has no gradient yet, and starts with ones.
 *
 * ops/reverse.c has the visit, and the pass between values inside a graph.
 *
 * Needs: a traced graph (phase FWD). Gives: the same graph with BCKWD nodes and gradient sinks. Breaks nothing.
 *
 * samba_graph_gradient makes the same pass from named inputs instead of parameters and gives the gradients alone, as a graph of
 * their own: all of it is phase FWD, so hash-consing shares with the forward formulas the expressions that
 * the gradients repeat. */
#include "base/null.h"
#include "autodiff/autodiff.h"

#include <sambaflow/function.h>

#include <math.h>
#include <string.h>

typedef struct reverse {
    samba_graph *graph;
    int64_t count; /* forward nodes */
    bool *wanted;  /* a parameter that is to have a gradient is among the node's ancestors, or it is one */
    const samba_wanted *which;
    samba_ref *gradient; /* of each forward node, SAMBA_NONE: zero */
    bool *output;        /* a gradient starts here once all that is computed from the node was visited */
    double *starts;      /* out, of each sink: what gradients of parameters start from it with, NaN: none do; NULL: nobody asks */
    int steps;
    bool any; /* a gradient has started from something that depends on a parameter */
} reverse;

/* "<name>.grad", interned */
static uint32_t gradient_name(samba_graph *g, const char *name)
{
    samba_text text;
    samba_text_init(&text, g->context);
    samba_text_add(&text, "%s.grad", name);
    uint32_t index = text.status == SAMBA_OK ? samba_graph_intern(g, text.data) : 0;
    if (text.status != SAMBA_OK)
        g->status = text.status;
    samba_text_clear(&text);
    return index;
}

static samba_ref gradient_leaf(samba_graph *g, int64_t name, samba_ref of, samba_initializer_kind init, double a)
{
    samba_attrs attrs = {.state = {.name = gradient_name(g, samba_graph_name_at(g, name)),
                                   .dtype = samba_node_at(g, of)->dtype,
                                   .shape = samba_dims_of(samba_node_at(g, of)->rank, samba_node_at(g, of)->shape),
                                   .init = init,
                                   .init_a = a,
                                   .kind = SAMBA_KIND_GRADIENT}};
    return samba_emit(g, SAMBA_OP_state, 0, NULL, &attrs);
}

static bool floating(const samba_graph *g, samba_ref ref)
{
    return samba_dtype_is_floating_point((samba_dtype)samba_node_at(g, ref)->dtype);
}

/* The gradient of a sink's value starts from a leaf that holds `value` until the caller sets it. */
static samba_status start_from(reverse *r, int64_t index, double value)
{
    samba_graph *g = r->graph;
    samba_sink sink = g->sinks[index];
    g->location = samba_node_at(g, sink.value)->location;
    samba_ref start = gradient_leaf(g, sink.name, sink.value, SAMBA_INIT_CONSTANT, value);
    if (r->steps > 1)
        start = samba_emit_scalar(g, SAMBA_OP_mul, start, 1.0 / r->steps);
    samba_ref *total = &r->gradient[sink.value];
    *total = *total == SAMBA_NONE ? start : samba_emit2(g, SAMBA_OP_add, *total, start);
    r->any = r->any || r->wanted[sink.value];
    if (r->starts && r->wanted[sink.value])
        r->starts[index] = value;
    return g->status;
}

static samba_status start_from_losses(reverse *r, int64_t sinks)
{
    samba_graph *g = r->graph;
    for (int64_t i = 0; i < sinks; i++) {
        samba_sink sink = g->sinks[i];
        if (sink.kind != SAMBA_SINK_LOSS)
            continue;
        if (!floating(g, sink.value))
            return samba_fail(g->context, SAMBA_ERROR_DTYPE, "loss '%s' is %s: a loss must be floating-point",
                              samba_graph_name_at(g, sink.name),
                              samba_dtype_name((samba_dtype)samba_node_at(g, sink.value)->dtype));
        SAMBA_TRY(start_from(r, i, 1));
    }
    return SAMBA_OK;
}

/* All outputs of one value start alike. */
static samba_status start_from_output(reverse *r, samba_ref ref, int64_t sinks)
{
    const double value = r->gradient[ref] == SAMBA_NONE ? 1 : 0;
    for (int64_t i = 0; i < sinks; i++)
        if (r->graph->sinks[i].kind == SAMBA_SINK_OUTPUT && r->graph->sinks[i].value == ref)
            SAMBA_TRY(start_from(r, i, value));
    return SAMBA_OK;
}

static samba_status deliver(reverse *r)
{
    samba_graph *g = r->graph;
    for (int64_t i = 0; i < r->count; i++) {
        samba_node node = *samba_node_at(g, (samba_ref)i);
        samba_ref gradient = r->gradient[i];
        if (node.op != SAMBA_OP_parameter || gradient == SAMBA_NONE)
            continue;
        g->location = node.location;
        samba_ref leaf = gradient_leaf(g, node.attrs->parameter.name, (samba_ref)i, SAMBA_INIT_ZEROS, 0);
        if (r->steps > 1) {
            samba_attrs zero = {.constant = {.dtype = node.dtype, .shape = node.attrs->parameter.shape}};
            samba_ref zeros = samba_emit(g, SAMBA_OP_constant, 0, NULL, &zero);
            SAMBA_TRY(g->status);
            samba_graph_sink(g, (samba_sink){SAMBA_SINK_ASSIGN, SAMBA_ZEROGRAD, 0, leaf, zeros});
            gradient = samba_emit2(g, SAMBA_OP_add, leaf, gradient);
        }
        SAMBA_TRY(g->status);
        samba_graph_sink(g, (samba_sink){SAMBA_SINK_ASSIGN, SAMBA_BCKWD, 0, leaf, gradient});
        SAMBA_TRY(g->status);
    }
    return SAMBA_OK;
}

static bool is_wanted(const reverse *r, const samba_node *node)
{
    return node->op == SAMBA_OP_parameter &&
           (!r->which || r->which->wants(r->which->user, samba_graph_name_at(r->graph, node->attrs->parameter.name)));
}

static samba_status differentiate(reverse *r)
{
    samba_graph *g = r->graph;
    const int64_t sinks = g->sink_count;
    bool losses = false;
    for (int64_t i = 0; i < r->count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        r->gradient[i] = SAMBA_NONE;
        r->output[i] = false;
        r->wanted[i] = is_wanted(r, node);
        for (int j = 0; j < node->arity; j++)
            r->wanted[i] = r->wanted[i] || r->wanted[node->inputs[j]];
    }
    for (int64_t i = 0; i < sinks; i++)
        losses = losses || g->sinks[i].kind == SAMBA_SINK_LOSS;
    for (int64_t i = 0; i < sinks && !losses; i++)
        if (g->sinks[i].kind == SAMBA_SINK_OUTPUT)
            r->output[g->sinks[i].value] = floating(g, g->sinks[i].value);
    g->phase = SAMBA_BCKWD;
    SAMBA_TRY(start_from_losses(r, sinks));
    for (int64_t i = r->count - 1; i >= 0; i--) {
        if (r->output[i] && r->wanted[i])
            SAMBA_TRY(start_from_output(r, (samba_ref)i, sinks));
        if (r->wanted[i] && r->gradient[i] != SAMBA_NONE)
            SAMBA_TRY(samba_reverse_visit(r->graph, (samba_ref)i, r->wanted, r->gradient));
    }
    SAMBA_TRY(g->status);
    if (!r->any)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT,
                          "graph '%s' has no output that depends on a parameter%s: give it a loss, or compile with inference",
                          g->name, r->which ? " of an optimizer" : "");
    return SAMBA_OK;
}

/* ---- gradients as a graph ---- */

static samba_status want_inputs(reverse *r, int count, const char *const *inputs)
{
    samba_graph *g = r->graph;
    for (int64_t i = 0; i < r->count; i++) {
        r->gradient[i] = SAMBA_NONE;
        r->wanted[i] = false;
    }
    for (int i = 0; i < count; i++) {
        if (!samba_graph_has_input(g, inputs[i]))
            return samba_fail(g->context, SAMBA_ERROR_NAME, "gradient: graph '%s' has no input \"%.128s\"", g->name,
                              inputs[i] ? inputs[i] : "(null)");
        samba_ref leaf = samba_graph_leaf(g, inputs[i]);
        if (!floating(g, leaf))
            return samba_fail(g->context, SAMBA_ERROR_DTYPE,
                              "gradient: input \"%.128s\" is %s: only floating-point inputs have gradients", inputs[i],
                              samba_dtype_name((samba_dtype)samba_node_at(g, leaf)->dtype));
        if (r->wanted[leaf])
            return samba_fail(g->context, SAMBA_ERROR_NAME, "gradient: input \"%.128s\" was named twice", inputs[i]);
        r->wanted[leaf] = true;
    }
    for (int64_t i = 0; i < r->count; i++)
        for (int j = 0; j < samba_node_at(g, (samba_ref)i)->arity; j++)
            r->wanted[i] = r->wanted[i] || r->wanted[samba_node_at(g, (samba_ref)i)->inputs[j]];
    return SAMBA_OK;
}

/* Each floating-point output's gradient is an input. */
static samba_status seed_from_inputs(reverse *r)
{
    samba_graph *g = r->graph;
    bool any = false;
    for (int64_t i = 0; i < g->sink_count; i++) {
        samba_sink sink = g->sinks[i];
        if (sink.kind == SAMBA_SINK_ASSIGN || !floating(g, sink.value))
            continue;
        samba_node node = *samba_node_at(g, sink.value);
        samba_attrs attrs = {.leaf = {.name = gradient_name(g, samba_graph_name_at(g, sink.name)),
                                      .dtype = node.dtype,
                                      .shape = samba_dims_of(node.rank, node.shape)}};
        SAMBA_TRY(g->status);
        samba_ref start = samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs), *total = &r->gradient[sink.value];
        SAMBA_TRY(g->status);
        *total = *total == SAMBA_NONE ? start : samba_emit2(g, SAMBA_OP_add, *total, start);
        SAMBA_TRY(g->status);
        any = true;
    }
    return any ? SAMBA_OK
               : samba_fail(g->context, SAMBA_ERROR_ARGUMENT, "gradient: graph '%s' has no floating-point output to start from",
                            g->name);
}

static samba_status name_gradients(reverse *r, int count, const char *const *inputs)
{
    samba_graph *g = r->graph;
    g->sink_count = 0;
    for (int i = 0; i < count; i++) {
        samba_ref leaf = samba_graph_leaf(g, inputs[i]), value = r->gradient[leaf];
        if (value == SAMBA_NONE) {
            samba_node node = *samba_node_at(g, leaf);
            samba_attrs zero = {.constant = {.dtype = node.dtype, .shape = node.attrs->leaf.shape}};
            value = samba_emit(g, SAMBA_OP_constant, 0, NULL, &zero);
        }
        samba_graph_sink(g, (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_FWD, gradient_name(g, inputs[i]), SAMBA_NONE, value});
    }
    return g->status;
}

static samba_status gradients_of(reverse *r, int count, const char *const *inputs)
{
    SAMBA_TRY(want_inputs(r, count, inputs));
    SAMBA_TRY(seed_from_inputs(r));
    for (int64_t i = r->count - 1; i >= 0; i--)
        if (r->wanted[i] && r->gradient[i] != SAMBA_NONE)
            SAMBA_TRY(samba_reverse_visit(r->graph, (samba_ref)i, r->wanted, r->gradient));
    return name_gradients(r, count, inputs);
}

/* ---- both ---- */

/* A copy of `in` to be extended, with room for what the pass knows of its nodes. */
static samba_status begin(reverse *r, samba_arena *arena, const samba_graph *in)
{
    SAMBA_TRY(samba_graph_rewrite(in, NULL, NULL, &r->graph));
    r->count = r->graph->node_count;
    samba_arena_init(arena, r->graph->context);
    r->wanted = samba_arena_alloc(arena, sizeof(bool) * (size_t)(r->count + 1));
    r->gradient = samba_arena_alloc(arena, sizeof(samba_ref) * (size_t)(r->count + 1));
    r->output = samba_arena_alloc(arena, sizeof(bool) * (size_t)(r->count + 1));
    return r->wanted && r->gradient && r->output ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

samba_status samba_autodiff(const samba_graph *in, int steps, const samba_wanted *wanted, samba_graph **out)
{
    reverse r = {.steps = steps, .which = wanted};
    samba_arena arena = {.blocks = NULL};
    *out = NULL;
    samba_status status = begin(&r, &arena, in);
    if (status == SAMBA_OK)
        status = differentiate(&r);
    if (status == SAMBA_OK)
        status = deliver(&r);
    samba_arena_free(&arena);
    if (status != SAMBA_OK) {
        samba_graph_free(r.graph);
        return status;
    }
    r.graph->location = (samba_location){0};
    *out = r.graph;
    return SAMBA_OK;
}

samba_status samba_autodiff_starts(const samba_graph *graph, double *starts)
{
    reverse r = {.steps = 1, .starts = starts};
    samba_arena arena = {.blocks = NULL};
    for (int64_t i = 0; i < graph->sink_count; i++)
        starts[i] = NAN;
    samba_status status = begin(&r, &arena, graph);
    if (status == SAMBA_OK)
        status = differentiate(&r);
    samba_arena_free(&arena);
    samba_graph_free(r.graph);
    return status;
}

samba_status samba_graph_starts(const samba_graph *graph, int count, double *starts)
{
    if (!graph)
        return SAMBA_ERROR_ARGUMENT;
    SAMBA_TRY(samba_graph_status(graph));
    int64_t outputs = 0;
    for (int64_t i = 0; i < graph->sink_count; i++)
        outputs += graph->sinks[i].kind != SAMBA_SINK_ASSIGN;
    if (count != outputs || (count > 0 && !starts))
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT,
                          "samba_graph_starts: graph '%s' has %lld outputs and losses, given room for %d%s", graph->name,
                          (long long)outputs, count, starts ? "" : " and NULL for it");
    double *of_sinks = samba_alloc(graph->context, sizeof *of_sinks * (size_t)(graph->sink_count + 1));
    samba_status status = of_sinks ? samba_autodiff_starts(graph, of_sinks) : SAMBA_ERROR_MEMORY;
    for (int64_t i = 0, at = 0; status == SAMBA_OK && i < graph->sink_count; i++)
        if (graph->sinks[i].kind != SAMBA_SINK_ASSIGN)
            starts[at++] = of_sinks[i];
    if (of_sinks)
        samba_free(graph->context, of_sinks, sizeof *of_sinks * (size_t)(graph->sink_count + 1));
    return status;
}

samba_status samba_graph_gradient(const samba_graph *graph, int count, const char *const *inputs, samba_graph **gradient)
{
    SAMBA_NEED(graph ? graph->context : NULL, gradient);
    *gradient = NULL;
    if (!graph)
        return SAMBA_ERROR_ARGUMENT;
    SAMBA_TRY(samba_graph_status(graph));
    if (count < 1 || !inputs)
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "gradient: expected the names of 1 or more inputs, given %d%s",
                          count, inputs ? "" : " and NULL for them");
    reverse r = {.graph = NULL};
    samba_arena arena = {.blocks = NULL};
    samba_status status = begin(&r, &arena, graph);
    if (status == SAMBA_OK)
        status = gradients_of(&r, count, inputs);
    if (status == SAMBA_OK)
        status = samba_graph_prune(r.graph, gradient);
    samba_arena_free(&arena);
    samba_graph_free(r.graph);
    return status;
}

bool samba_graph_has_input(const samba_graph *graph, const char *name)
{
    samba_ref leaf = graph && name ? samba_graph_leaf(graph, name) : SAMBA_NONE;
    return leaf != SAMBA_NONE && samba_node_at(graph, leaf)->op == SAMBA_OP_input;
}

samba_ref samba_autodiff_gradient(const samba_graph *graph, samba_ref parameter)
{
    static const char ending[] = ".grad";
    const char *name = samba_graph_name_at(graph, samba_node_at(graph, parameter)->attrs->parameter.name);
    size_t length = strlen(name);
    for (int64_t i = graph->sink_count - 1; i >= 0; i--) { /* REDUCE's sinks come after BCKWD's */
        const samba_sink *sink = &graph->sinks[i];
        if (sink->kind != SAMBA_SINK_ASSIGN || (sink->phase != SAMBA_BCKWD && sink->phase != SAMBA_REDUCE) ||
            samba_node_at(graph, sink->target)->op != SAMBA_OP_state)
            continue;
        const char *target = samba_graph_name_at(graph, samba_node_at(graph, sink->target)->attrs->state.name);
        if (strncmp(target, name, length) == 0 && strcmp(target + length, ending) == 0)
            return sink->value;
    }
    return SAMBA_NONE;
}
