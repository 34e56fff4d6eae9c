/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of a loss. A loss takes values of several dtypes, is computed in their common one (16-bit floats in float32) and is
 * rounded to that once, at the end, also where it is a sum or mean. */
#ifndef SAMBA_TRACE_LOSSES_H
#define SAMBA_TRACE_LOSSES_H

#include "trace/trace.h"

#include <sambaflow/loss.h>

typedef struct samba_losses {
    const char *what;
    samba_graph *graph;
    samba_dtype dtype; /* of the result */
    samba_dtype wide;  /* in which it is computed */
} samba_losses;

/* Checks `count` values, of which a zeroed one was left out (not the first), that they broadcast together, that the reduction is
 * known and the first value is floating-point; casts the floating-point ones to `wide`. */
bool samba_losses_enter(samba_losses *loss, const char *what, int count, samba_value *values, samba_reduction reduction);
/* The same for values whose shapes the function checks itself. */
bool samba_losses_enter_any(samba_losses *loss, const char *what, int count, samba_value *values, samba_reduction reduction);
/* Warns of a target that is broadcast to another size, as guesses (N, 1) beside targets (N) are to N * N pairs. `alike`: of any
 * that is not of the input's shape, as PyTorch does for some losses; else where neither has the shape of the pairs. */
void samba_losses_compare(const samba_losses *loss, samba_value input, samba_value target, bool alike);
/* A loss of each element, reduced and rounded. */
samba_value samba_losses_leave(const samba_losses *loss, samba_value each, samba_reduction reduction);
/* "expected <expected>, given <type>, <type> and <type>", of those that were not left out. */
samba_value samba_losses_fail_all(const samba_losses *loss, const char *expected, int count, const samba_value *values);
samba_value samba_losses_fail_shapes(const samba_losses *loss, const char *expected, samba_value a, samba_value b);
samba_value samba_losses_number(const samba_losses *loss, double number);
/* x where it is above 0, else 0; as torch's clamp_min(0), with slope 1 at 0. */
samba_value samba_losses_positive(const samba_losses *loss, samba_value x);
/* Class numbers beside a dim of `classes` of a value of that rank: int64. */
samba_value samba_losses_classes(const samba_losses *loss, int rank, int dim, int64_t classes);
/* The value with a dim of size 1 put in. */
samba_value samba_losses_unsqueeze(samba_value a, int dim);

#endif
