/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices. A bias or weight that is a zeroed value is left out. */
#ifndef SAMBAFLOW_LINALG_H
#define SAMBAFLOW_LINALG_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_matmul(samba_value a, samba_value b); /* every case of torch.matmul */
SAMBA_API samba_value samba_functional_linear(samba_value input, samba_value weight /* (out, in) */, samba_value bias);

#ifdef __cplusplus
}
#endif
#endif
