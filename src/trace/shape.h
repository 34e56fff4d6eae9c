/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers that the files of shapes share. */
#ifndef SAMBA_TRACE_SHAPE_H
#define SAMBA_TRACE_SHAPE_H

#include "trace/trace.h"

/* One dim cut to [start, stop) by step; 0 <= start <= stop <= size. (parts.c) */
samba_ref samba_trace_slice(samba_graph *graph, samba_ref a, int dim, int64_t start, int64_t stop, int64_t step);
/* Which dims a list names, each once; NULL names none. (shape.c) */
bool samba_trace_named_dims(samba_graph *graph, const char *what, int rank, int count, const int *dims,
                            bool named[SAMBA_MAX_RANK]);
/* A constant (n) of whole numbers, to be filled: n int64 in `numbers`, then samba_trace_numbers_end.
 * NULL after an error. (layout.c) */
samba_tensor *samba_trace_numbers_begin(samba_graph *graph, int64_t n, int64_t **numbers);
samba_ref samba_trace_numbers_end(samba_graph *graph, samba_tensor *tensor);

#endif
