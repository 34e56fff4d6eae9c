/* SPDX-License-Identifier: Apache-2.0
 *
 * Reverse-mode differentiation, graph to graph. */
#ifndef SAMBA_AUTODIFF_H
#define SAMBA_AUTODIFF_H

#include "ops/ops.h"

/* Which parameters are to have a gradient, by name. */
typedef struct samba_wanted {
    bool (*wants)(const void *user, const char *parameter);
    const void *user;
} samba_wanted;

/* A copy of `in` with backward nodes (phase BCKWD) and, for every parameter `p` a loss depends on, a sink that assigns its
 * gradient to a state leaf "<p>.grad". Gradients start from state leaves "<loss>.grad", ones until the caller sets them, each
 * divided by `steps`; with steps > 1 they add to what "<p>.grad" holds, and ZEROGRAD assignments set it to 0. A graph without a
 * loss starts from every floating-point output: with ones, or, where a gradient comes to it from another output, with zeros.
 * Parameters that `wanted` does not want are as constants; NULL: all are wanted.
 * Errors: ARGUMENT when there is nothing to differentiate, UNSUPPORTED for an operator without a gradient. */
samba_status samba_autodiff(const samba_graph *in, int steps, const samba_wanted *wanted, samba_graph **out);

/* Of each sink of a traced graph: what gradients of parameters start from it with, 1 or 0; NaN: none do. Errors as above. */
samba_status samba_autodiff_starts(const samba_graph *graph, double *starts);

/* The gradient of a parameter of a differentiated graph (the value of its BCKWD assignment, or of REDUCE's),
 * SAMBA_NONE where no loss reaches it. */
samba_ref samba_autodiff_gradient(const samba_graph *graph, samba_ref parameter);

#endif
