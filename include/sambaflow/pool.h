/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling. */
#ifndef SAMBAFLOW_POOL_H
#define SAMBAFLOW_POOL_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_pool2d_options { /* zero stride means the kernel's size; other zeros are PyTorch's defaults */
    int64_t stride[2], padding[2], dilation[2]; /* dilation: max_pool2d only */
    bool ceil_mode, no_count_include_pad;       /* the latter: avg_pool2d only */
} samba_pool2d_options;
SAMBA_API samba_value samba_max_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options);
SAMBA_API samba_value samba_avg_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options);

#ifdef __cplusplus
}
#endif
#endif
