/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules that make a graph smaller without changing a value: operations with neutral constants, double negations, views of views,
 * views that change nothing. Each rule is a few lines and looks at one node and its inputs only; hash-consing does the rest (equal
 * subexpressions), and copying only what sinks reach does away with dead nodes.
 *
 * x*0 and x-x stay: they are NaN for some x.
 * Needs: nothing. Gives: fewer nodes. Breaks nothing. */
#include "compiler/compiler.h"

/* The number of a constant, or of a view of one. */
static bool number(const samba_graph *g, samba_ref ref, double *value)
{
    const samba_node *node = samba_node_at(g, ref);
    while (samba_ops[node->op].class_ == SAMBA_VIEW)
        node = samba_node_at(g, node->inputs[0]);
    if (node->op != SAMBA_OP_constant)
        return false;
    *value = node->attrs->constant.value;
    return true;
}

static bool same_shape(const samba_graph *g, samba_ref a, const samba_node *b)
{
    const samba_node *node = samba_node_at(g, a);
    return samba_shape_equal(node->rank, node->shape, b->rank, b->shape);
}

static samba_ref neutral(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    double value;
    bool integer_or_bool = !samba_dtype_is_floating_point((samba_dtype)node->dtype);
    switch (node->op) {
    case SAMBA_OP_add: /* x + 0 is x but for -0 + 0, which nobody can tell apart by comparing */
        if (node->dtype == SAMBA_BOOL)
            return SAMBA_NONE;
        if (number(g, inputs[1], &value) && value == 0 && same_shape(g, inputs[0], node))
            return inputs[0];
        if (number(g, inputs[0], &value) && value == 0 && same_shape(g, inputs[1], node))
            return inputs[1];
        return SAMBA_NONE;
    case SAMBA_OP_sub:
        if (number(g, inputs[1], &value) && value == 0 && same_shape(g, inputs[0], node))
            return inputs[0];
        return SAMBA_NONE;
    case SAMBA_OP_mul:
        if (number(g, inputs[1], &value) && value == 1 && same_shape(g, inputs[0], node))
            return inputs[0];
        if (number(g, inputs[0], &value) && value == 1 && same_shape(g, inputs[1], node))
            return inputs[1];
        return SAMBA_NONE;
    case SAMBA_OP_div:
        if (!integer_or_bool && number(g, inputs[1], &value) && value == 1 && same_shape(g, inputs[0], node))
            return inputs[0];
        return SAMBA_NONE;
    default:
        return SAMBA_NONE;
    }
}

static samba_ref view(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *source = samba_node_at(g, inputs[0]);
    switch (node->op) {
    case SAMBA_OP_cast:
        return source->dtype == node->dtype ? inputs[0] : SAMBA_NONE;
    case SAMBA_OP_reshape:
        if (same_shape(g, inputs[0], node))
            return inputs[0];
        if (source->op == SAMBA_OP_reshape)
            return samba_emit_reshape(g, source->inputs[0], node->rank, node->shape);
        return SAMBA_NONE;
    case SAMBA_OP_expand:
        if (same_shape(g, inputs[0], node))
            return inputs[0];
        if (source->op == SAMBA_OP_expand)
            return samba_emit_expand(g, source->inputs[0], node->rank, node->shape);
        return SAMBA_NONE;
    case SAMBA_OP_permute: {
        samba_dims dims = node->attrs->permute.dims;
        if (source->op == SAMBA_OP_permute) {
            int64_t joined[SAMBA_MAX_RANK];
            for (int i = 0; i < node->rank; i++)
                joined[i] = source->attrs->permute.dims.at[dims.at[i]];
            bool identity = true;
            for (int i = 0; i < node->rank; i++)
                identity = identity && joined[i] == i;
            return identity ? source->inputs[0] : samba_emit_permute(g, source->inputs[0], joined);
        }
        for (int i = 0; i < node->rank; i++)
            if (dims.at[i] != i)
                return SAMBA_NONE;
        return inputs[0];
    }
    case SAMBA_OP_slice:
        for (int i = 0; i < node->rank; i++)
            if (node->attrs->slice.start.at[i] != 0 || node->attrs->slice.step.at[i] != 1 || node->shape[i] != source->shape[i])
                return SAMBA_NONE;
        return inputs[0];
    case SAMBA_OP_sum: case SAMBA_OP_amax: case SAMBA_OP_amin: /* over dims of size 1 */
        return source->dtype == node->dtype && same_shape(g, inputs[0], node) ? inputs[0] : SAMBA_NONE;
    case SAMBA_OP_neg:
        return source->op == SAMBA_OP_neg ? source->inputs[0] : SAMBA_NONE;
    default:
        return SAMBA_NONE;
    }
}

static samba_ref simplify(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    samba_graph *out = rewriter->out;
    out->recompute = false;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_ref simpler = samba_ops[node->op].arity == 2 ? neutral(out, node, inputs) : SAMBA_NONE;
    if (simpler == SAMBA_NONE && node->arity == 1)
        simpler = view(out, node, inputs);
    return simpler != SAMBA_NONE || out->status != SAMBA_OK ? simpler : samba_rewrite_copy(rewriter, ref, inputs);
}

samba_status samba_pass_simplify(samba_compiler *compiler)
{
    samba_graph *out;
    SAMBA_TRY(samba_graph_rewrite(compiler->graph, simplify, NULL, &out));
    samba_compiler_take_graph(compiler, out);
    return SAMBA_OK;
}
