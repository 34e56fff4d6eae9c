/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch's statistics, as batch_norm's expansion and gradient emit them; running statistics are made of the same nodes. */
#ifndef SAMBA_OPS_NORM_H
#define SAMBA_OPS_NORM_H

#include "graph/graph.h"

/* Mean and variance (over n, not n - 1) of each channel of x (N, C, ...), in the dtype x is computed in: (1, C, 1, ...). */
void samba_emit_batch_moments(samba_graph *graph, samba_ref x, samba_ref *mean, samba_ref *variance);
/* What sync_batch_moments is of one process: both as rows, (2, C). */
samba_ref samba_emit_own_moments(samba_graph *graph, samba_ref x, int64_t channels);

/* The last `count` dims of a shape, which layer_norm and rms_norm normalize, and the mean over them. */
typedef struct samba_norm_rows {
    int count;
    int64_t dims[SAMBA_MAX_RANK];
    double size; /* elements of a row: all that share one mean */
} samba_norm_rows;
samba_norm_rows samba_norm_rows_of(int rank, const int64_t *shape, int64_t count);
samba_ref samba_emit_row_mean(samba_graph *graph, const samba_norm_rows *rows, samba_ref a);

#endif
