/* SPDX-License-Identifier: Apache-2.0
 *
 * The reverse pass over nodes of a graph, forward by forward, and gradients of values inside a graph. A visit to a node takes the
 * gradient of its result, which all its users have contributed to, and adds to the gradients of its inputs what the column vjp
 * says. samba_reverse makes the whole pass from some values to others, and emits what it finds beside them: the gradients are
 * values as any others, and have gradients themselves.
 *
 * A variable is the same values under a number of its own, so that no other node is it: gradients by a variable are those by its
 * users, and by nobody who has the values from elsewhere. Formulas whose gradient is found by composing them anew
 * (samba_vjp_compose) put one in the place of each input, since two inputs may be one node. */
#include "ops/families.h"

samba_status samba_infer_variable(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    int64_t number = infer->attrs->variable.number;
    if (number < 0 || number == INT64_MAX)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "the number must be 0 or more, given %lld", (long long)number);
    if (number >= infer->graph->variables) /* of a copy, whose numbers stay */
        infer->graph->variables = number + 1;
    return samba_infer_set_like(infer, 0);
}

samba_status samba_vjp_variable(samba_vjp *vjp) { return samba_vjp_deliver(vjp, 0, vjp->gradient); }

samba_ref samba_expand_variable(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    (void)graph, (void)node;
    return inputs[0];
}

samba_ref samba_emit_variable(samba_graph *graph, samba_ref a)
{
    samba_attrs attrs = {.variable = {.number = graph->variables}};
    return samba_emit(graph, SAMBA_OP_variable, 1, &a, &attrs);
}

/* ---- one node ---- */

static bool floating(const samba_graph *g, samba_ref ref)
{
    return samba_dtype_is_floating_point((samba_dtype)samba_node_at(g, ref)->dtype);
}

samba_status samba_reverse_visit(samba_graph *g, samba_ref ref, const bool *wanted, samba_ref *gradient)
{
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
            needs[i] = wanted[node->inputs[i]] && floating(g, node->inputs[i]);
        samba_node copy = *node; /* emitting moves the array */
        g->location = copy.location;
        samba_vjp vjp = {g, &copy, copy.inputs, ref, gradient[ref], needs, gradients};
        status = op->vjp(&vjp);
        if (status == SAMBA_OK)
            status = g->status;
        for (int i = 0; status == SAMBA_OK && i < arity; i++) {
            if (!needs[i] || gradients[i] == SAMBA_NONE)
                continue;
            samba_ref *total = &gradient[copy.inputs[i]];
            *total = *total == SAMBA_NONE ? gradients[i] : samba_emit2(g, SAMBA_OP_add, *total, gradients[i]);
        }
    }
    samba_arena_free(&scratch);
    return status == SAMBA_OK ? g->status : status;
}

/* ---- from some values to others ---- */

/* Which nodes lie on a way from an input that a gradient could take. */
static void mark(const samba_graph *g, bool *wanted, int64_t count, int inputs, const samba_ref *in)
{
    for (int k = 0; k < inputs; k++)
        if (in[k] < count)
            wanted[in[k]] = true;
    for (int64_t i = 0; i < count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (wanted[i] || !samba_ops[node->op].vjp || !floating(g, (samba_ref)i))
            continue;
        int first = node->op == SAMBA_OP_custom_gradient ? 2 : 0, step = first ? 2 : 1; /* no way leads through its value */
        for (int j = first; j < node->arity && !wanted[i]; j += step)
            wanted[i] = wanted[node->inputs[j]];
    }
}

samba_status samba_reverse(samba_graph *g, int outputs, const samba_ref *out, const samba_ref *starts, int inputs,
                           const samba_ref *in, samba_ref *results)
{
    const samba_location location = g->location;
    samba_arena arena;
    samba_ref last = 0, first = SAMBA_NONE;
    for (int k = 0; k < outputs; k++)
        last = out[k] > last ? out[k] : last;
    for (int k = 0; k < inputs; k++) {
        first = in[k] < first ? in[k] : first;
        results[k] = SAMBA_NONE;
    }
    const int64_t count = (int64_t)last + 1;
    samba_arena_init(&arena, g->context);
    bool *wanted = samba_arena_alloc(&arena, sizeof(bool) * (size_t)count);
    samba_ref *gradient = samba_arena_alloc(&arena, sizeof(samba_ref) * (size_t)count);
    samba_status status = wanted && gradient ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK) {
        for (int64_t i = 0; i < count; i++) {
            gradient[i] = SAMBA_NONE;
            wanted[i] = false;
        }
        mark(g, wanted, count, inputs, in);
        for (int k = 0; k < outputs; k++) {
            samba_ref *total = &gradient[out[k]];
            *total = *total == SAMBA_NONE ? starts[k] : samba_emit2(g, SAMBA_OP_add, *total, starts[k]);
        }
        status = g->status;
        for (int64_t i = count - 1; status == SAMBA_OK && i > (int64_t)first; i--)
            if (wanted[i] && gradient[i] != SAMBA_NONE)
                status = samba_reverse_visit(g, (samba_ref)i, wanted, gradient);
        for (int k = 0; status == SAMBA_OK && k < inputs; k++)
            if (in[k] < count)
                results[k] = gradient[in[k]];
    }
    samba_arena_free(&arena);
    g->location = location;
    return status;
}

/* ---- of a formula that is composed anew ---- */

samba_status samba_vjp_compose(samba_vjp *vjp, int count, samba_compose_fn *compose, const void *user)
{
    samba_graph *g = vjp->graph;
    samba_ref inputs[SAMBA_COMPOSED], by[SAMBA_COMPOSED], results[SAMBA_COMPOSED];
    int which[SAMBA_COMPOSED], wanted = 0;
    if (count > SAMBA_COMPOSED)
        return samba_fail(g->context, SAMBA_ERROR_INTERNAL, "%s: a formula of %d inputs", samba_ops[vjp->node->op].name, count);
    for (int i = 0; i < count; i++) {
        inputs[i] = vjp->inputs[i];
        if (!vjp->needed[i])
            continue;
        inputs[i] = samba_emit_variable(g, vjp->inputs[i]);
        which[wanted] = i;
        by[wanted++] = inputs[i];
    }
    if (wanted == 0)
        return g->status;
    samba_ref result = compose(g, user, inputs);
    SAMBA_TRY(g->status);
    SAMBA_TRY(samba_reverse(g, 1, &result, &vjp->gradient, wanted, by, results));
    for (int i = 0; i < wanted; i++)
        if (results[i] != SAMBA_NONE)
            SAMBA_TRY(samba_vjp_deliver(vjp, which[i], results[i]));
    return g->status;
}
