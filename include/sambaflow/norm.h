/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and normalizations. A weight or bias that is a zeroed value is left out. */
#ifndef SAMBAFLOW_NORM_H
#define SAMBAFLOW_NORM_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_softmax(samba_value a, int dim);
SAMBA_API samba_value samba_log_softmax(samba_value a, int dim);

/* Over the last `count` dims, whose sizes are `shape`, as are those of weight and bias. */
SAMBA_API samba_value samba_functional_layer_norm(samba_value input, int count, const int64_t *shape, samba_value weight,
                                                  samba_value bias, double eps);

#ifdef __cplusplus
}
#endif
#endif
