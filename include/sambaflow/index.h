/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements by their index. Indices count from 0; one that is out of range fails the run. */
#ifndef SAMBAFLOW_INDEX_H
#define SAMBAFLOW_INDEX_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_functional_embedding(samba_value index, samba_value weight);

/* torch.index_add along dim 0, of floating-point values: base (V, D), integer indices 0 .. V-1 of any shape, rows of that shape and (D);
 * a copy of base to whose row index[i] row i is added, repeated ones too. */
SAMBA_API samba_value samba_index_add(samba_value base, samba_value index, samba_value rows);

#ifdef __cplusplus
}
#endif
#endif
