/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over the listed dims (count 0: all) and running sums. Dims count from the end when negative; `keepdim` leaves them
 * with size 1. Each is torch's function of that name; its dtype= is samba_cast before it. Sums and products of integers are
 * int64, 16-bit floats are summed in float32.
 * Where a function has two results, the first is returned and the second stored behind the pointer, which is not NULL. */
#ifndef SAMBAFLOW_REDUCE_H
#define SAMBAFLOW_REDUCE_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_sum(samba_value a, int count, const int *dims, bool keepdim);  /* count dims; of none, all */
SAMBA_API samba_value samba_mean(samba_value a, int count, const int *dims, bool keepdim); /* count dims; of none, all */
SAMBA_API samba_value samba_prod(samba_value a, int count, const int *dims, bool keepdim); /* torch has one dim or all */
/* Without the elements that are NaN; nansum takes integers too. */
SAMBA_API samba_value samba_nansum(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_nanmean(samba_value a, int count, const int *dims, bool keepdim);

/* Squared distance from the mean, divided by the number of elements less `correction` (torch's default is 1); std is its root,
 * with gradient 0 where it is 0. */
SAMBA_API samba_value samba_var(samba_value a, int count, const int *dims, double correction, bool keepdim);
SAMBA_API samba_value samba_std(samba_value a, int count, const int *dims, double correction, bool keepdim);
SAMBA_API samba_value samba_var_mean(samba_value a, int count, const int *dims, double correction, bool keepdim,
                                     samba_value *mean);
SAMBA_API samba_value samba_std_mean(samba_value a, int count, const int *dims, double correction, bool keepdim,
                                     samba_value *mean);

/* The greatest and the least; NaN is both. A dim of size 0 is an error. Equal elements share the gradient. */
SAMBA_API samba_value samba_amax(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_amin(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_aminmax(samba_value a, int count, const int *dims, bool keepdim, samba_value *max);
/* int64; the first of equal ones; NaN is greatest and least. For torch's dim=None reshape to one dim first. */
SAMBA_API samba_value samba_argmax(samba_value a, int dim, bool keepdim);
SAMBA_API samba_value samba_argmin(samba_value a, int dim, bool keepdim);
/* torch.max and torch.min along a dim: the value and its index. The gradient goes to that element alone. */
SAMBA_API samba_value samba_max(samba_value a, int dim, bool keepdim, samba_value *indices);
SAMBA_API samba_value samba_min(samba_value a, int dim, bool keepdim, samba_value *indices);
SAMBA_API samba_value samba_max_of_all(samba_value a); /* [torch.max without a dim]: equal elements share the gradient */
SAMBA_API samba_value samba_min_of_all(samba_value a);

/* Elements other than 0, NaN among them: is there one, are all so, how many. bool (uint8 of uint8); int64. */
SAMBA_API samba_value samba_any(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_all(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_count_nonzero(samba_value a, int count, const int *dims);

/* torch.linalg.vector_norm: (sum of |a|^p)^(1/p);
 * for p = INFINITY and -INFINITY the greatest and least |a|, for 0 how many are not 0. */
SAMBA_API samba_value samba_vector_norm(samba_value a, double p, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_logsumexp(samba_value a, int count, const int *dims, bool keepdim); /* integers as float32 */

/* Running sums, products, log-sum-exponentials: element i is that of elements 0 to i along dim. */
SAMBA_API samba_value samba_cumsum(samba_value a, int dim);
SAMBA_API samba_value samba_cumprod(samba_value a, int dim);
SAMBA_API samba_value samba_logcumsumexp(samba_value a, int dim); /* floating-point values */
/* The greatest and the least so far, and where they stood: the last of equal ones; NaN from the first NaN on. */
SAMBA_API samba_value samba_cummax(samba_value a, int dim, samba_value *indices);
SAMBA_API samba_value samba_cummin(samba_value a, int dim, samba_value *indices);

#ifdef __cplusplus
}
#endif
#endif
