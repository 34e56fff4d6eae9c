/* SPDX-License-Identifier: Apache-2.0
 *
 * Composites become the core operators of their expand column. Backward formulas that repeat a forward subexpression find the
 * forward's nodes here, by hash-consing: recompute is off while emitting.
 *
 * Needs: nothing. Gives: a graph without COMPOSITE nodes. Breaks nothing. */
#include "compiler/compiler.h"

static samba_ref expand(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    rewriter->out->recompute = false;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    if (samba_ops[node->op].class_ == SAMBA_COMPOSITE)
        return samba_ops[node->op].expand(rewriter->out, node, inputs);
    return samba_rewrite_copy(rewriter, ref, inputs);
}

samba_status samba_pass_expand(samba_compiler *compiler)
{
    samba_graph *out;
    SAMBA_TRY(samba_graph_rewrite(compiler->graph, expand, NULL, &out));
    samba_compiler_take_graph(compiler, out);
    return SAMBA_OK;
}
