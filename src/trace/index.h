/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers that the files of indexing share. */
#ifndef SAMBA_TRACE_INDEX_H
#define SAMBA_TRACE_INDEX_H

#include "trace/trace.h"

/* An index of rank 1 as one over all of `shape`, whose dim `dim` becomes as long as it: an expanded view. */
samba_ref samba_trace_along(samba_graph *graph, samba_ref line, int rank, const int64_t *shape, int dim);

#endif
