/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling over one, two and three dims of space (torch.nn.functional.max_pool1d ... adaptive_max_pool3d). Inputs are (N, C,
 * space...) or (C, space...). Options may be NULL; in them a zero stride means the kernel's size, other zeros are PyTorch's
 * defaults. The greatest element of a window is its first one; a NaN is greatest.
 * Maxima take all numbers, averages floats (one and two dims also int64). */
#ifndef SAMBAFLOW_POOL_H
#define SAMBAFLOW_POOL_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_pool1d_options {
    int64_t stride, padding, dilation;    /* dilation: maxima only */
    bool ceil_mode, no_count_include_pad; /* the latter: averages only */
} samba_pool1d_options;
typedef struct samba_pool2d_options {
    int64_t stride[2], padding[2], dilation[2];
    bool ceil_mode, no_count_include_pad;
    int64_t divisor_override; /* averages only; 0: the elements of the window */
} samba_pool2d_options;
typedef struct samba_pool3d_options {
    int64_t stride[3], padding[3], dilation[3];
    bool ceil_mode, no_count_include_pad;
    int64_t divisor_override;
} samba_pool3d_options;

/* Input (N, C, L) or (C, L). */
SAMBA_API samba_value samba_max_pool1d(samba_value a, int64_t kernel, const samba_pool1d_options *options);
/* Input (N, C, H, W) or (C, H, W). */
SAMBA_API samba_value samba_max_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options);
/* Input (N, C, D, H, W) or (C, D, H, W). */
SAMBA_API samba_value samba_max_pool3d(samba_value a, const int64_t kernel[3], const samba_pool3d_options *options);
/* Where the greatest elements lie, as return_indices gives it: int64, counted over the dims of space. */
SAMBA_API samba_value samba_max_pool1d_indices(samba_value a, int64_t kernel, const samba_pool1d_options *options);
SAMBA_API samba_value samba_max_pool2d_indices(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options);
SAMBA_API samba_value samba_max_pool3d_indices(samba_value a, const int64_t kernel[3], const samba_pool3d_options *options);
SAMBA_API samba_value samba_avg_pool1d(samba_value a, int64_t kernel, const samba_pool1d_options *options);
SAMBA_API samba_value samba_avg_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options);
SAMBA_API samba_value samba_avg_pool3d(samba_value a, const int64_t kernel[3], const samba_pool3d_options *options);

/* Windows of as equal sizes as output_size allows; -1 there: the input's size. */
SAMBA_API samba_value samba_adaptive_avg_pool1d(samba_value a, int64_t output_size);
SAMBA_API samba_value samba_adaptive_avg_pool2d(samba_value a, const int64_t output_size[2]);
SAMBA_API samba_value samba_adaptive_avg_pool3d(samba_value a, const int64_t output_size[3]);
SAMBA_API samba_value samba_adaptive_max_pool1d(samba_value a, int64_t output_size);
SAMBA_API samba_value samba_adaptive_max_pool2d(samba_value a, const int64_t output_size[2]);
SAMBA_API samba_value samba_adaptive_max_pool3d(samba_value a, const int64_t output_size[3]);
SAMBA_API samba_value samba_adaptive_max_pool1d_indices(samba_value a, int64_t output_size);
SAMBA_API samba_value samba_adaptive_max_pool2d_indices(samba_value a, const int64_t output_size[2]);
SAMBA_API samba_value samba_adaptive_max_pool3d_indices(samba_value a, const int64_t output_size[3]);

/* torch.nn.functional.max_unpool1d, 2d, 3d: zeros of `output_size` in the last `spatial` dims, but for the elements of a. Each
 * goes to the element that `indices` names, counted over the dims of space, as the functions above gave them. Where several go
 * to one element, one of them is there. */
SAMBA_API samba_value samba_max_unpool(samba_value a, samba_value indices, int spatial, const int64_t *output_size);

/* torch.nn.functional.lp_pool1d ...: the norm_type-th root of the windows' sums of powers. stride NULL or 0:
 * the kernel's size. */
SAMBA_API samba_value samba_lp_pool1d(samba_value a, double norm_type, int64_t kernel, int64_t stride, bool ceil_mode);
SAMBA_API samba_value samba_lp_pool2d(samba_value a, double norm_type, const int64_t kernel[2], const int64_t *stride,
                                      bool ceil_mode);
SAMBA_API samba_value samba_lp_pool3d(samba_value a, double norm_type, const int64_t kernel[3], const int64_t *stride,
                                      bool ceil_mode);

#ifdef __cplusplus
}
#endif
#endif
