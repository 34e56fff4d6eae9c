/* SPDX-License-Identifier: Apache-2.0
 *
 * The reverse pass: nodes are visited from the last to the first, each once, when all its users have contributed. What a node owes
 * its inputs is its operator's vjp column; contributions add up. Only nodes on a road from a parameter to a loss are visited.
 *
 * Needs: a traced graph (phase FWD). Gives: the same graph with BCKWD nodes and gradient sinks. Breaks nothing. */
#include "autodiff/autodiff.h"

#include <sambaflow/session.h>
#include <string.h>

typedef struct reverse {
    samba_graph *graph;
    int64_t count;       /* forward nodes */
    bool *wanted;        /* a parameter is among the node's ancestors, or it is one */
    samba_ref *gradient; /* of each forward node, SAMBA_NONE: zero */
} reverse;

static samba_ref state_leaf(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                            samba_initializer_kind init, double a)
{
    samba_attrs attrs = {0};
    attrs.state.name = samba_graph_intern(g, name);
    attrs.state.dtype = dtype;
    attrs.state.shape.count = rank;
    for (int i = 0; i < rank; i++)
        attrs.state.shape.at[i] = shape[i];
    attrs.state.init = init;
    attrs.state.init_a = a;
    attrs.state.kind = SAMBA_KIND_GRADIENT;
    return samba_emit(g, SAMBA_OP_state, 0, NULL, &attrs);
}

static samba_ref gradient_leaf(samba_graph *g, int64_t name, samba_ref of, samba_initializer_kind init, double a)
{
    samba_text text;
    samba_text_init(&text, g->context);
    samba_text_add(&text, "%s.grad", samba_graph_name_at(g, name));
    if (text.status != SAMBA_OK)
        g->status = text.status;
    samba_node node = *samba_node_at(g, of);
    samba_ref leaf =
        text.status == SAMBA_OK ? state_leaf(g, text.data, (samba_dtype)node.dtype, node.rank, node.shape, init, a) : SAMBA_NONE;
    samba_text_clear(&text);
    return leaf;
}

static bool floating(const samba_graph *g, samba_ref ref)
{
    return samba_dtype_is_floating_point((samba_dtype)samba_node_at(g, ref)->dtype);
}

/* Gradients start from losses; a graph that names none starts from all floating-point outputs. */
static samba_status seed(reverse *r, int steps)
{
    samba_graph *g = r->graph;
    samba_sink_kind kind = SAMBA_SINK_OUTPUT;
    for (int64_t i = 0; i < g->sink_count; i++)
        if (g->sinks[i].kind == SAMBA_SINK_LOSS)
            kind = SAMBA_SINK_LOSS;
    bool any = false;
    int64_t sinks = g->sink_count;
    for (int64_t i = 0; i < sinks && g->status == SAMBA_OK; i++) {
        samba_sink sink = g->sinks[i];
        if (sink.kind != kind)
            continue;
        if (!floating(g, sink.value)) {
            if (kind == SAMBA_SINK_LOSS)
                return samba_fail(g->context, SAMBA_ERROR_DTYPE, "loss '%s' is %s: a loss must be floating-point",
                                  samba_graph_name_at(g, sink.name), samba_dtype_name((samba_dtype)samba_node_at(g, sink.value)->dtype));
            continue;
        }
        samba_ref start = gradient_leaf(g, sink.name, sink.value, SAMBA_INIT_CONSTANT, 1.0);
        if (steps > 1)
            start = samba_emit_scalar(g, SAMBA_OP_mul, start, 1.0 / steps);
        samba_ref *total = &r->gradient[sink.value];
        *total = *total == SAMBA_NONE ? start : samba_emit2(g, SAMBA_OP_add, *total, start);
        any = any || r->wanted[sink.value];
    }
    SAMBA_TRY(g->status);
    if (!any)
        return samba_fail(g->context, SAMBA_ERROR_ARGUMENT,
                          "graph '%s' has no output that depends on a parameter: give it a loss, or compile with inference", g->name);
    return SAMBA_OK;
}

static samba_status visit(reverse *r, samba_ref ref)
{
    samba_graph *g = r->graph;
    const samba_node *node = samba_node_at(g, ref);
    bool needed[3] = {false, false, false}, *needs = needed;
    samba_ref found[3] = {SAMBA_NONE, SAMBA_NONE, SAMBA_NONE}, *gradients = found;
    int arity = node->arity;
    const samba_op_facts *op = &samba_ops[node->op];
    if (!op->vjp)
        return SAMBA_OK;
    samba_arena scratch;
    samba_arena_init(&scratch, g->context);
    samba_status status = SAMBA_OK;
    if (arity > 3) {
        needs = samba_arena_alloc(&scratch, sizeof(bool) * (size_t)arity);
        gradients = samba_arena_alloc(&scratch, sizeof(samba_ref) * (size_t)arity);
        if (!needs || !gradients)
            status = SAMBA_ERROR_MEMORY;
        for (int i = 0; status == SAMBA_OK && i < arity; i++)
            gradients[i] = SAMBA_NONE;
    }
    if (status == SAMBA_OK) {
        for (int i = 0; i < arity; i++)
            needs[i] = r->wanted[node->inputs[i]] && floating(g, node->inputs[i]);
        samba_node copy = *node; /* emitting moves the array */
        g->scope = copy.scope;
        samba_vjp vjp = {g, &copy, copy.inputs, ref, r->gradient[ref], needs, gradients};
        status = op->vjp(&vjp);
        if (status == SAMBA_OK)
            status = g->status;
        for (int i = 0; status == SAMBA_OK && i < arity; i++) {
            if (!needs[i] || gradients[i] == SAMBA_NONE)
                continue;
            samba_ref *total = &r->gradient[copy.inputs[i]];
            *total = *total == SAMBA_NONE ? gradients[i] : samba_emit2(g, SAMBA_OP_add, *total, gradients[i]);
        }
    }
    samba_arena_free(&scratch);
    return status == SAMBA_OK ? g->status : status;
}

static samba_status deliver(reverse *r, int steps)
{
    samba_graph *g = r->graph;
    for (int64_t i = 0; i < r->count; i++) {
        samba_node node = *samba_node_at(g, (samba_ref)i);
        samba_ref gradient = r->gradient[i];
        if (node.op != SAMBA_OP_parameter || gradient == SAMBA_NONE)
            continue;
        samba_ref leaf = gradient_leaf(g, node.attrs->parameter.name, (samba_ref)i, SAMBA_INIT_ZEROS, 0);
        if (steps > 1) {
            samba_attrs zero = {0};
            zero.constant.dtype = node.dtype;
            zero.constant.shape = node.attrs->parameter.shape;
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

static samba_status differentiate(reverse *r, int steps)
{
    samba_graph *g = r->graph;
    for (int64_t i = 0; i < r->count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        r->gradient[i] = SAMBA_NONE;
        r->wanted[i] = node->op == SAMBA_OP_parameter;
        for (int j = 0; j < node->arity; j++)
            r->wanted[i] = r->wanted[i] || r->wanted[node->inputs[j]];
    }
    g->phase = SAMBA_BCKWD;
    SAMBA_TRY(seed(r, steps));
    for (int64_t i = r->count - 1; i >= 0; i--)
        if (r->wanted[i] && r->gradient[i] != SAMBA_NONE)
            SAMBA_TRY(visit(r, (samba_ref)i));
    return deliver(r, steps);
}

samba_status samba_autodiff(const samba_graph *in, int steps, samba_graph **out)
{
    *out = NULL;
    samba_graph *g = NULL;
    SAMBA_TRY(samba_graph_rewrite(in, NULL, NULL, &g));
    reverse r = {.graph = g, .count = g->node_count};
    samba_arena arena;
    samba_arena_init(&arena, g->context);
    r.wanted = samba_arena_alloc(&arena, sizeof(bool) * (size_t)(r.count + 1));
    r.gradient = samba_arena_alloc(&arena, sizeof(samba_ref) * (size_t)(r.count + 1));
    samba_status status = r.wanted && r.gradient ? differentiate(&r, steps) : SAMBA_ERROR_MEMORY;
    samba_arena_free(&arena);
    if (status != SAMBA_OK) {
        samba_graph_free(g);
        return status;
    }
    g->scope = 0;
    *out = g;
    return SAMBA_OK;
}

samba_ref samba_autodiff_gradient(const samba_graph *graph, samba_ref parameter)
{
    static const char ending[] = ".grad";
    const char *name = samba_graph_name_at(graph, samba_node_at(graph, parameter)->attrs->parameter.name);
    size_t length = strlen(name);
    for (int64_t i = 0; i < graph->sink_count; i++) {
        const samba_sink *sink = &graph->sinks[i];
        if (sink->kind != SAMBA_SINK_ASSIGN || sink->phase != SAMBA_BCKWD || samba_node_at(graph, sink->target)->op != SAMBA_OP_state)
            continue;
        const char *target = samba_graph_name_at(graph, samba_node_at(graph, sink->target)->attrs->state.name);
        if (strncmp(target, name, length) == 0 && strcmp(target + length, ending) == 0)
            return sink->value;
    }
    return SAMBA_NONE;
}
