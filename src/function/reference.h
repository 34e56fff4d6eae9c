/* SPDX-License-Identifier: Apache-2.0
 *
 * A function that is evaluated node by node by the reference kernels instead of compiled. */
#ifndef SAMBA_REFERENCE_H
#define SAMBA_REFERENCE_H

#include "graph/graph.h"
#include "runtime/runtime.h"

/* A plan of the graph's inputs, outputs and, for training, hyperparameters, in the order of nodes and sinks:
 * memory without stages. */
samba_status samba_reference_plan(samba_context *context, const samba_graph *graph, bool train, samba_plan *plan);
/* The graph's outputs in the session's memory, from the inputs there. */
samba_status samba_reference_run(samba_session *session, const samba_graph *graph);

#endif
