/* SPDX-License-Identifier: Apache-2.0
 *
 * The same elements under other shapes and at other places. */
#ifndef SAMBAFLOW_SHAPE_H
#define SAMBAFLOW_SHAPE_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_reshape(samba_value a, int rank, const int64_t *shape);
SAMBA_API samba_value samba_permute(samba_value a, const int *dims);
SAMBA_API samba_value samba_transpose(samba_value a, int dim0, int dim1);
SAMBA_API samba_value samba_flatten(samba_value a, int start_dim, int end_dim);
SAMBA_API samba_value samba_expand(samba_value a, int rank, const int64_t *shape);
SAMBA_API samba_value samba_slice(samba_value a, int dim, int64_t start, int64_t stop, int64_t step);
SAMBA_API samba_value samba_concat(int count, const samba_value *values, int dim);
/* Chunks of split_size along dim, the last one smaller; `count` is the room in `values` and must be the number of chunks. */
SAMBA_API void samba_split(samba_value a, int64_t split_size, int dim, int count, samba_value *values);

#ifdef __cplusplus
}
#endif
#endif
