/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics of a batch, as batch_norm's expansion and gradient emit them: what the running statistics become is made of the
 * same nodes. */
#ifndef SAMBA_OPS_NORM_H
#define SAMBA_OPS_NORM_H

#include "graph/graph.h"

/* Mean and variance (over n, not n - 1) of each channel of x (N, C, ...), in the dtype x is computed in: (1, C, 1, ...). */
void samba_emit_batch_moments(samba_graph *graph, samba_ref x, samba_ref *mean, samba_ref *variance);

#endif
