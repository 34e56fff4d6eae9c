/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallel training: every gradient that BCKWD delivers to "<parameter>.grad" becomes its mean over all replicas there, in
 * REDUCE. How many replicas there are is known when sections run.
 *
 * BCKWD reaches the last layers first, so the last parameters' gradients come first in REDUCE too.
 *
 * Needs: gradients (autodiff). Gives: REDUCE nodes, which GRADNORM and OPT read instead of BCKWD's. Breaks nothing.
 *
 * The pass `alone` is for graphs without replicas: what a model traced for them (sync_batch_norm) becomes what it is of one
 * process, bit by bit. Needs: a traced graph, before autodiff, so that gradients have no exchange either. Gives: the same graph
 * without exchanges, or as it was. Breaks nothing. */
#include "compiler/compiler.h"
#include "ops/norm.h"

static samba_ref leave_alone(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(rewriter->in, ref);
    switch ((samba_op)node->op) {
    case SAMBA_OP_replica_mean: return inputs[0];
    case SAMBA_OP_sync_batch_norm: return samba_emit(rewriter->out, SAMBA_OP_batch_norm, node->arity, inputs, node->attrs);
    case SAMBA_OP_sync_batch_moments: return samba_emit_own_moments(rewriter->out, inputs[0], node->shape[1]);
    case SAMBA_OP_argin:
        if (node->attrs->argin.role == SAMBA_ARGIN_REPLICAS)
            return samba_emit_constant(rewriter->out, 1, (samba_dtype)node->dtype);
        return samba_rewrite_copy(rewriter, ref, inputs);
    default: return samba_rewrite_copy(rewriter, ref, inputs);
    }
}

samba_status samba_pass_alone(samba_compiler *c)
{
    return c->options->data_parallel ? SAMBA_OK : samba_compiler_rewrite(c, leave_alone, NULL);
}

samba_status samba_pass_replicas(samba_compiler *c)
{
    if (!c->options->data_parallel)
        return SAMBA_OK;
    samba_graph *g = c->graph; /* adds to it in place: nothing else holds it */
    g->phase = SAMBA_REDUCE;
    for (int64_t i = g->sink_count - 1; i >= 0; i--) {
        const samba_sink sink = g->sinks[i];
        if (sink.kind != SAMBA_SINK_ASSIGN || sink.phase != SAMBA_BCKWD)
            continue;
        g->location = samba_node_at(g, sink.value)->location;
        const samba_ref mean = samba_emit1(g, SAMBA_OP_replica_mean, sink.target);
        SAMBA_TRY(g->status);
        samba_graph_sink(g, (samba_sink){SAMBA_SINK_ASSIGN, SAMBA_REDUCE, 0, sink.target, mean});
        SAMBA_TRY(g->status);
    }
    g->location = (samba_location){0};
    return SAMBA_OK;
}
