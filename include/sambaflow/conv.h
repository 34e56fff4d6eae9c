/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions over values. A bias that is a zeroed value is left out. */
#ifndef SAMBAFLOW_CONV_H
#define SAMBAFLOW_CONV_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_conv2d_options { /* zero means PyTorch's default: stride 1, padding 0, dilation 1, groups 1, bias */
    int64_t stride[2], padding[2], dilation[2], groups;
    bool no_bias;
} samba_conv2d_options;
SAMBA_API samba_value samba_functional_conv2d(samba_value input, samba_value weight /* (out, in / groups, kh, kw) */, samba_value bias,
                                              const samba_conv2d_options *options /* no_bias is not looked at */);
typedef struct samba_conv_transpose2d_options { /* zero means PyTorch's default: stride 1, padding 0, output_padding 0, dilation 1, groups 1 */
    int64_t stride[2], padding[2], output_padding[2], dilation[2], groups;
} samba_conv_transpose2d_options;
/* torch.nn.functional.conv_transpose2d: input (N, C, H, W) or (C, H, W), weight (C, out_channels / groups, kh, kw), bias (out_channels); a
 * result height (H - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1, and so the width. */
SAMBA_API samba_value samba_functional_conv_transpose2d(samba_value input, samba_value weight, samba_value bias,
                                                        const samba_conv_transpose2d_options *options /* may be NULL */);

#ifdef __cplusplus
}
#endif
#endif
