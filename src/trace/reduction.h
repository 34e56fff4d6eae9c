/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers that reductions, sorting and running sums share: the dims of one value that are reduced, and elements by their index
 * along a dim. */
#ifndef SAMBA_TRACE_REDUCTION_H
#define SAMBA_TRACE_REDUCTION_H

#include "trace/trace.h"

typedef struct samba_reduced_dims { /* a set of dims of one value, and the shape that is left without them */
    int count, rank;
    int64_t dims[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK], numel; /* numel: elements behind each result */
} samba_reduced_dims;

/* samba_trace_enter of one value, and a check of the list of dims; false after an error. reduce.c */
bool samba_reduction_enter(const char *what, samba_value a, int count, const int *dims, bool keepdim, samba_graph **graph,
                           samba_reduced_dims *to);
samba_ref samba_reduction_emit(samba_graph *graph, samba_op op, samba_ref a, const samba_reduced_dims *over);
/* The function's result from one that kept the dims. */
samba_value samba_reduction_leave(samba_graph *graph, const samba_reduced_dims *from, samba_ref kept);

samba_ref samba_trace_lift(samba_value a); /* 16-bit floats as float32 */
/* Elements of floating-point `a` at an int64 index along dim; other dims of both are equal.
 * The gradient goes to those elements. */
samba_ref samba_trace_look_up(samba_graph *graph, samba_ref a, samba_ref index, int dim);

#endif
