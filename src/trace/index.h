/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers that the files of indexing share. */
#ifndef SAMBA_TRACE_INDEX_H
#define SAMBA_TRACE_INDEX_H

#include "trace/trace.h"

typedef enum samba_scatter_mode { /* the operator's attrs.reduce */
                                  SAMBA_MODE_SET,
                                  SAMBA_MODE_ADD,
                                  SAMBA_MODE_MUL,
                                  SAMBA_MODE_AMAX,
                                  SAMBA_MODE_AMIN
} samba_scatter_mode;

samba_ref samba_trace_gather(samba_graph *graph, samba_ref a, samba_ref index, int dim, bool negative);
samba_ref samba_trace_scatter(samba_graph *graph, samba_ref a, samba_ref index, samba_ref source, int dim,
                              samba_scatter_mode mode, bool negative);
/* An index of rank 1 as one over all of `shape`, whose dim `dim` becomes as long as it: an expanded view. */
samba_ref samba_trace_along(samba_graph *graph, samba_ref line, int rank, const int64_t *shape, int dim);

#endif
