/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting along a dim, which counts from the end when negative. NaN is greatest, -0 equals 0, equal elements keep their order
 * (torch's stable=True). Functions return the values and store their indices, int64, behind the pointer, which is not NULL. The
 * gradient of a value goes to the element it was. */
#ifndef SAMBAFLOW_SORT_H
#define SAMBAFLOW_SORT_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* torch.sort; indices may be NULL. */
SAMBA_API samba_value samba_sort(samba_value a, int dim, bool descending, samba_value *indices);
SAMBA_API samba_value samba_argsort(samba_value a, int dim, bool descending); /* the indices alone, int64 */
SAMBA_API samba_value samba_msort(samba_value a);                             /* along dim 0 */
/* The k greatest, or least, in order. Finds them without sorting the rest. */
SAMBA_API samba_value samba_topk(samba_value a, int64_t k, int dim, bool largest, samba_value *indices);
/* The k-th least, k from 1; and the one in the middle, the lower of two, NaN where there is one. */
SAMBA_API samba_value samba_kthvalue(samba_value a, int64_t k, int dim, bool keepdim, samba_value *indices);
SAMBA_API samba_value samba_median(samba_value a, int dim, bool keepdim, samba_value *indices);
/* torch.median without a dim: of all elements, and equal ones, or all NaN, share the gradient. */
SAMBA_API samba_value samba_median_of_all(samba_value a);
/* torch.nanmedian: of those that are not NaN; NaN where all are. */
SAMBA_API samba_value samba_nanmedian(samba_value a, int dim, bool keepdim, samba_value *indices);

/* torch.searchsorted: how many of the sorted numbers (..., N) come before each value: are less, or with `right` are not greater.
 * A sequence of rank 1 serves values of any shape; else the dims but the last are the same. Both of one dtype; int64.
 * torch.bucketize is this with boundaries of rank 1. */
SAMBA_API samba_value samba_searchsorted(samba_value sorted, samba_value values, bool right);

#ifdef __cplusplus
}
#endif
#endif
