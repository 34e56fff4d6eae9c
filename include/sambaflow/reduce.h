/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over the listed dims (count 0: all). */
#ifndef SAMBAFLOW_REDUCE_H
#define SAMBAFLOW_REDUCE_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_sum(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_mean(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_amax(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_amin(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_argmax(samba_value a, int dim, bool keepdim); /* int64; the first of equal ones; NaN is greatest */

#ifdef __cplusplus
}
#endif
#endif
