/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallel training: every gradient that BCKWD delivers to "<parameter>.grad" becomes its mean over all replicas there, in
 * REDUCE. How many replicas there are is known when sections run.
 *
 * BCKWD reaches the last layers first, so the last parameters' gradients come first in REDUCE too.
 *
 * Needs: gradients (autodiff). Gives: REDUCE nodes, which GRADNORM and OPT read instead of BCKWD's. Breaks nothing. */
#include "compiler/compiler.h"

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
