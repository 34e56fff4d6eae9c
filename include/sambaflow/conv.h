/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions over values, plain and transposed, over one, two and three dims of space (torch.nn.functional.conv1d ...
 * conv_transpose3d), and the windows they see (unfold, fold). Input and weight are of one dtype, floats or integers (which wrap);
 * 16-bit floats are summed in float32. The input may leave out N. A bias (out_channels) that is a zeroed value is left out.
 * Options may be NULL; in them zero means PyTorch's default: stride 1, padding 0, dilation 1, groups 1. */
#ifndef SAMBAFLOW_CONV_H
#define SAMBAFLOW_CONV_H

#include <sambaflow/graph.h>
#include <sambaflow/shape.h>

#ifdef __cplusplus
extern "C" {
#endif

/* same: padding='same', which needs stride 1 and no padding; what is odd is padded behind. no_bias and padding_mode (what stands
 * in the padding: zeros, or the input reflected, replicated or wrapped around): of layers, not looked at here. */
typedef struct samba_conv1d_options {
    int64_t stride, padding, dilation, groups;
    bool no_bias, same;
    samba_pad_mode padding_mode;
} samba_conv1d_options;
typedef struct samba_conv2d_options {
    int64_t stride[2], padding[2], dilation[2], groups;
    bool no_bias, same;
    samba_pad_mode padding_mode;
} samba_conv2d_options;
typedef struct samba_conv3d_options {
    int64_t stride[3], padding[3], dilation[3], groups;
    bool no_bias, same;
    samba_pad_mode padding_mode;
} samba_conv3d_options;
/* input (N, C, L), weight (out_channels, C / groups, K) -> (N, out_channels, (L + 2 padding - dilation (K - 1) - 1)
 * / stride + 1) */
SAMBA_API samba_value samba_functional_conv1d(samba_value input, samba_value weight, samba_value bias,
                                              const samba_conv1d_options *options);
/* input (N, C, H, W), weight (out_channels, C / groups, KH, KW) */
SAMBA_API samba_value samba_functional_conv2d(samba_value input, samba_value weight, samba_value bias,
                                              const samba_conv2d_options *options);
/* input (N, C, D, H, W), weight (out_channels, C / groups, KD, KH, KW) */
SAMBA_API samba_value samba_functional_conv3d(samba_value input, samba_value weight, samba_value bias,
                                              const samba_conv3d_options *options);

typedef struct samba_conv_transpose1d_options {
    int64_t stride, padding, output_padding, dilation, groups;
    bool no_bias; /* of layers */
} samba_conv_transpose1d_options;
typedef struct samba_conv_transpose2d_options {
    int64_t stride[2], padding[2], output_padding[2], dilation[2], groups;
    bool no_bias;
} samba_conv_transpose2d_options;
typedef struct samba_conv_transpose3d_options {
    int64_t stride[3], padding[3], output_padding[3], dilation[3], groups;
    bool no_bias;
} samba_conv_transpose3d_options;
/* input (N, C, L), weight (C, out_channels / groups, K) -> (N, out_channels, (L - 1) stride - 2 padding + dilation (K - 1) +
 * output_padding + 1); output_padding is below stride or dilation. */
SAMBA_API samba_value samba_functional_conv_transpose1d(samba_value input, samba_value weight, samba_value bias,
                                                        const samba_conv_transpose1d_options *options);
SAMBA_API samba_value samba_functional_conv_transpose2d(samba_value input, samba_value weight, samba_value bias,
                                                        const samba_conv_transpose2d_options *options);
SAMBA_API samba_value samba_functional_conv_transpose3d(samba_value input, samba_value weight, samba_value bias,
                                                        const samba_conv_transpose3d_options *options);

typedef struct samba_unfold_options {
    int64_t dilation[2], padding[2], stride[2];
} samba_unfold_options;
/* torch.nn.functional.unfold: (N, C, H, W) -> (N, C * kernel height * kernel width, windows), any dtype; a kernel has at most
 * 1024 elements. */
SAMBA_API samba_value samba_unfold(samba_value input, const int64_t kernel[2], const samba_unfold_options *options);
/* torch.nn.functional.fold: back to (N, C, *output_size); where windows overlap, the sum. */
SAMBA_API samba_value samba_fold(samba_value input, const int64_t output_size[2], const int64_t kernel[2],
                                 const samba_unfold_options *options);

#ifdef __cplusplus
}
#endif
#endif
