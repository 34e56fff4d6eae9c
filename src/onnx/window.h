/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over dims of space, as convolutions and pooling of ONNX say them: kernel, strides, dilations, pads or auto_pad. */
#ifndef SAMBA_ONNX_WINDOW_H
#define SAMBA_ONNX_WINDOW_H

#include "onnx/onnx.h"

typedef struct samba_onnx_window {
    int dims; /* of space */
    int64_t size[SAMBA_MAX_RANK], kernel[SAMBA_MAX_RANK], stride[SAMBA_MAX_RANK], dilation[SAMBA_MAX_RANK];
    int64_t before[SAMBA_MAX_RANK], after[SAMBA_MAX_RANK];
    bool even; /* as much before as after, in each dim */
    bool same_upper, same_lower;
} samba_onnx_window;

/* Reads the attributes, of an input (N, C, space...); a kernel is `weight`'s last dims, or kernel_shape. False where refused. */
bool samba_onnx_window_read(samba_onnx_node *node, samba_value input, const int64_t *weight_kernel, samba_onnx_window *window);
/* The input with `value` around it, as the window says. */
samba_value samba_onnx_window_pad(const samba_onnx_window *window, samba_value input, double value);

/* Conv's function: the node's attributes say the windows; `around` stands in the padding. */
samba_value samba_onnx_convolve(samba_onnx_node *node, samba_value a, samba_value weight, samba_value bias, double around);

#endif
