/* SPDX-License-Identifier: Apache-2.0
 *
 * A value with gradients of its own: custom_gradient(value, grad, x1, g1, x2, g2 ...) is the value, and the gradient of each x is
 * the g behind it. `grad` is a grad_output(value) and stands, in what the gs are computed from, for the gradient that reaches the
 * custom_gradient. So a g is an expression of the forward graph like any other, with names, locations and the text form, and may
 * be anything: it need not be linear in `grad`, and differentiation never looks into `value`. The reverse pass copies the gs with
 * the gradient that has come in the place of `grad`; what they have of forward values alone is not copied.
 *
 * A gradient inside a graph is differentiated in its turn, as its formula says. There the gs that read the value mean what it is
 * to others: the custom_gradient, whose gradient is its gs and not that of the value's own operators. In a backward of its own
 * nobody asks, and what the gs have of forward values is left where it is.
 *
 * grad_output is of the value and not of the node that it serves, which comes later: two custom_gradients of one value share it,
 * and each puts its own gradient there. A custom_gradient inside a g is its value, since nobody differentiates a gradient's
 * graph. samba_check_grad_outputs finds a grad_output that is read elsewhere, where no gradient could be put in its place. */
#include "ops/families.h"

samba_status samba_infer_custom_gradient(samba_infer *infer)
{
    if (infer->arity < 4 || infer->arity % 2 != 0)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                "expected a value, its grad_output, and pairs of an input and its gradient, given %d inputs",
                                infer->arity);
    if (infer->inputs[1]->op != SAMBA_OP_grad_output)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "input 1 must be a grad_output, given %s",
                                samba_ops[infer->inputs[1]->op].name);
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    for (int i = 0; i < infer->arity; i += 2) {
        const samba_node *of = infer->inputs[i], *gradient = infer->inputs[i + 1];
        SAMBA_TRY(samba_infer_need_floating(infer, i));
        SAMBA_TRY(samba_infer_need_floating(infer, i + 1));
        if (!samba_shape_equal(of->rank, of->shape, gradient->rank, gradient->shape))
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "input %d must have the shape of input %d, %s, given %s", i + 1, i,
                                    SAMBA_SHAPE_OF(of), SAMBA_SHAPE_OF(gradient));
    }
    return samba_infer_set_like(infer, 0);
}

/* ---- the gradient: copies of the gs ---- */

typedef struct cloning {
    samba_graph *graph;
    samba_ref first; /* grad_output, the first node that a copy may differ in */
    samba_ref value; /* what the custom_gradient's own result stands for in copies; SAMBA_NONE: nothing */
    samba_ref output;
    int64_t count;  /* nodes from there to the last g */
    samba_ref *now; /* what stands for each */
    uint8_t *needed;
} cloning;

/* Inputs of a node that its copy is computed from: of a custom_gradient the value alone. */
static int inputs_read(const samba_node *node) { return node->op == SAMBA_OP_custom_gradient ? 1 : node->arity; }

static void mark(cloning *c)
{
    for (int64_t i = c->count - 1; i > 0; i--) {
        const samba_node *node = samba_node_at(c->graph, c->first + (samba_ref)i);
        for (int k = 0; c->needed[i] && k < inputs_read(node); k++)
            if (node->inputs[k] >= c->first)
                c->needed[node->inputs[k] - c->first] = 1;
    }
}

static samba_ref now_of(const cloning *c, samba_ref old)
{
    return old == c->value ? c->output : old >= c->first ? c->now[old - c->first] : old;
}

static void copy(cloning *c)
{
    for (int64_t i = 1; i < c->count; i++) {
        samba_node node = *samba_node_at(c->graph, c->first + (samba_ref)i); /* emitting moves the array */
        samba_ref inputs[SAMBA_MAX_ARITY];
        bool differs = false;
        c->now[i] = c->first + (samba_ref)i;
        if (!c->needed[i])
            continue;
        for (int k = 0; k < inputs_read(&node); k++) {
            samba_ref old = node.inputs[k];
            inputs[k] = now_of(c, old);
            differs = differs || inputs[k] != old;
        }
        if (node.op == SAMBA_OP_custom_gradient) {
            c->now[i] = inputs[0];
        } else if (differs) {
            c->graph->location = node.location;
            c->now[i] = samba_emit(c->graph, (samba_op)node.op, node.arity, inputs, node.attrs);
        }
    }
}

samba_status samba_vjp_custom_gradient(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    int arity = vjp->node->arity;
    samba_ref grad = vjp->inputs[1], last = grad;
    samba_location location = graph->location;
    for (int i = 2; i < arity; i += 2)
        if (vjp->needed[i] && vjp->inputs[i + 1] > last)
            last = vjp->inputs[i + 1];
    cloning c = {.graph = graph, .first = grad, .count = (int64_t)last - grad + 1};
    c.value = graph->phase == SAMBA_FWD ? vjp->inputs[0] : SAMBA_NONE;
    c.output = vjp->output;
    for (int i = 2; i < arity; i += 2)
        if (vjp->inputs[i] == c.value)
            c.value = SAMBA_NONE; /* it is its own argument */
    size_t size = (size_t)c.count * sizeof *c.now;
    c.now = samba_alloc(graph->context, size);
    c.needed = samba_calloc(graph->context, (size_t)c.count);
    if (c.now && c.needed) {
        for (int i = 2; i < arity; i += 2)
            if (vjp->needed[i] && vjp->inputs[i + 1] >= grad)
                c.needed[vjp->inputs[i + 1] - grad] = 1;
        mark(&c);
        c.now[0] = samba_emit_cast(graph, vjp->gradient, samba_ref_dtype(graph, grad));
        copy(&c);
        graph->location = location;
        for (int i = 2; i < arity; i += 2) {
            samba_ref old = vjp->inputs[i + 1];
            if (vjp->needed[i])
                vjp->input_gradients[i] = samba_emit_cast(graph, now_of(&c, old), samba_ref_dtype(graph, vjp->inputs[i]));
        }
    }
    samba_status status = c.now && c.needed ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    if (c.now)
        samba_free(graph->context, c.now, size);
    if (c.needed)
        samba_free(graph->context, c.needed, (size_t)c.count);
    return status;
}

samba_ref samba_expand_custom_gradient(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    (void)graph, (void)node;
    return inputs[0];
}

/* ---- grad_output: nothing, where nobody differentiates ---- */

/* Nodes that are computed from it are dropped with the custom_gradients that it serves. */
samba_ref samba_expand_grad_output(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_node as = *node;
    (void)inputs;
    return samba_emit_expand(graph, samba_emit_constant(graph, 0, as.dtype), as.rank, as.shape);
}

samba_status samba_ref_grad_output(const samba_reference *reference)
{
    for (int64_t i = 0; i < reference->output->numel; i++)
        samba_array_set_double(reference->output, i, 0);
    return SAMBA_OK;
}

/* ---- where a grad_output may be read ---- */

enum { CLEAN = 0, SEVERAL = 1, FIRST = 2 }; /* per node: reads no grad_output, more than one, or FIRST + the one */

static uint32_t both(uint32_t a, uint32_t b) { return a == CLEAN ? b : b == CLEAN || a == b ? a : SEVERAL; }

static samba_status misread(const samba_graph *graph, samba_ref ref, const char *by)
{
    char location[SAMBA_LOCATION_TEXT];
    return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT,
                      "%s depends on a grad_output, the gradient that reaches a custom_gradient: only the gradients of that "
                      "custom_gradient may be computed from it%s",
                      by, samba_location_format(graph, samba_node_at(graph, ref)->location, location));
}

static samba_status check_reads(const samba_graph *graph, uint32_t *reads)
{
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        reads[i] = node->op == SAMBA_OP_grad_output ? FIRST + (uint32_t)i : CLEAN;
        if (node->op == SAMBA_OP_custom_gradient) {
            reads[i] = reads[node->inputs[0]];
            for (int k = 2; reads[i] == CLEAN && k < node->arity; k += 2) {
                uint32_t gradient = reads[node->inputs[k + 1]];
                if (reads[node->inputs[k]] != CLEAN || (gradient != CLEAN && gradient != FIRST + node->inputs[1]))
                    return misread(graph, (samba_ref)i, "custom_gradient: an input, or a gradient that is another one's,");
            }
            continue;
        }
        for (int k = 0; node->op != SAMBA_OP_grad_output && k < node->arity; k++)
            reads[i] = both(reads[i], reads[node->inputs[k]]);
    }
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (reads[graph->sinks[i].value] != CLEAN)
            return misread(graph, graph->sinks[i].value,
                           graph->sinks[i].kind == SAMBA_SINK_ASSIGN ? "a value that a buffer becomes" : "an output");
    return SAMBA_OK;
}

samba_status samba_check_grad_outputs(const samba_graph *graph)
{
    bool any = false;
    for (int64_t i = 0; i < graph->node_count && !any; i++)
        any = graph->nodes[i].op == SAMBA_OP_grad_output;
    if (!any)
        return SAMBA_OK;
    size_t size = (size_t)graph->node_count * sizeof(uint32_t);
    uint32_t *reads = samba_alloc(graph->context, size);
    if (!reads)
        return SAMBA_ERROR_MEMORY;
    samba_status status = check_reads(graph, reads);
    samba_free(graph->context, reads, size);
    return status;
}
