/* SPDX-License-Identifier: Apache-2.0
 *
 * Composites become the core operators of their expand column. Backward formulas that repeat a forward subexpression find the
 * forward's nodes here, by hash-consing: recompute is off while emitting.
 *
 * An attention's log-sum-exp, a forward node that autodiff makes when it comes to the gradient, moves beside its attention: so
 * forward nodes stand in the order in which they run, and rematerialisation sees how long each is needed.
 *
 * Values of eigh and svd whose gradient needs the vectors are a row of all factors.
 *
 * For inference dropout does nothing: the operator is its operand, attention loses its rate and seed, and with them go the
 * hyperparameters that nothing else reads. What asks whether a run trains, batch norm above all,
 * is told that it does not, and what reads a rate that it is 0.
 *
 * Needs: nothing. Gives: a graph without COMPOSITE nodes. Breaks nothing. */
#include "compiler/compiler.h"
#include "ops/matrix.h"

#include <string.h>

static void expand_lse(samba_rewriter *rewriter, samba_ref attention, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(rewriter->in, attention);
    for (int64_t i = attention + 1; i < rewriter->in->node_count; i++) {
        const samba_node *lse = samba_node_at(rewriter->in, (samba_ref)i);
        if (lse->op == SAMBA_OP_attention_lse && lse->phase == node->phase && lse->arity == node->arity &&
            memcmp(lse->inputs, node->inputs, sizeof(samba_ref) * node->arity) == 0 &&
            memcmp(&lse->attrs->attention, &node->attrs->attention, sizeof lse->attrs->attention) == 0) {
            samba_emit(rewriter->out, SAMBA_OP_attention_lse, node->arity, inputs, node->attrs);
            return;
        }
    }
}

/* attention of q, k, v, mask ... rate, seed: the last two are dropout's, whatever stands before them */
static samba_ref without_dropout(samba_graph *out, const samba_node *node, const samba_ref *inputs)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.attention = node->attrs->attention;
    attrs.attention.dropout = 0;
    return samba_emit(out, (samba_op)node->op, node->arity - 2, inputs, &attrs);
}

/* Whether a comparison with a constant is decided: x != 0 of what is constant now. */
static bool known_condition(const samba_graph *graph, samba_ref condition, bool *holds)
{
    const samba_node *node = samba_node_at(graph, condition);
    if (node->op != SAMBA_OP_ne)
        return false;
    const samba_node *a = samba_node_at(graph, node->inputs[0]), *b = samba_node_at(graph, node->inputs[1]);
    *holds = a->op == SAMBA_OP_constant && b->op == SAMBA_OP_constant && a->attrs->constant.value != b->attrs->constant.value;
    return a->op == SAMBA_OP_constant && b->op == SAMBA_OP_constant;
}

/* Whether a later node has the vectors, too, of a matrix of which this node asks the values alone: their gradient needs them. All
 * are then computed once. */
static bool has_vectors(const samba_rewriter *rewriter, samba_ref values)
{
    const samba_node *node = samba_node_at(rewriter->in, values);
    const samba_op factors = node->op == SAMBA_OP_eigh ? SAMBA_OP_eigh_factors : SAMBA_OP_svd_factors;
    for (int64_t i = values + 1; i < rewriter->in->node_count; i++) {
        const samba_node *all = samba_node_at(rewriter->in, (samba_ref)i);
        if (all->op == factors && all->inputs[0] == node->inputs[0] && !all->attrs->spectrum.values)
            return true;
    }
    return false;
}

static samba_ref values_of_all(samba_graph *out, const samba_node *node, const samba_ref *inputs)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.part.part = node->op == SAMBA_OP_eigh ? SAMBA_PART_EIGENVALUES : SAMBA_PART_VALUES;
    samba_node all = *node;
    all.attrs = &attrs;
    return samba_ops[node->op].expand(out, &all, inputs);
}

static samba_ref expand(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const samba_compiler *compiler = rewriter->user;
    rewriter->out->recompute = false;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    bool holds;
    if (!compiler->train && node->op == SAMBA_OP_dropout)
        return inputs[0];
    if (!compiler->train && node->op == SAMBA_OP_attention && node->attrs->attention.dropout)
        return without_dropout(rewriter->out, node, inputs);
    if (!compiler->train && node->op == SAMBA_OP_argin && (node->attrs->argin.role == 1 || node->attrs->argin.role == 3))
        return samba_emit_constant(rewriter->out, 0, (samba_dtype)node->dtype);
    if (!compiler->train && node->op == SAMBA_OP_where && known_condition(rewriter->out, inputs[0], &holds))
        return samba_emit_expand(rewriter->out, inputs[holds ? 1 : 2], node->rank, node->shape);
    if (samba_is_values_alone(node) && has_vectors(rewriter, ref))
        return values_of_all(rewriter->out, node, inputs);
    if (samba_ops[node->op].class_ == SAMBA_COMPOSITE)
        return samba_ops[node->op].expand(rewriter->out, node, inputs);
    if (node->op == SAMBA_OP_attention)
        expand_lse(rewriter, ref, inputs);
    return samba_rewrite_copy(rewriter, ref, inputs);
}

samba_status samba_pass_expand(samba_compiler *compiler) { return samba_compiler_rewrite(compiler, expand, compiler); }
