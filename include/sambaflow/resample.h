/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of other sizes (torch.nn.functional.interpolate), and channels as pixels and back. */
#ifndef SAMBAFLOW_RESAMPLE_H
#define SAMBAFLOW_RESAMPLE_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_resample_mode {
    SAMBA_RESAMPLE_NEAREST = 0,
    SAMBA_RESAMPLE_NEAREST_EXACT = 1,
    SAMBA_RESAMPLE_LINEAR = 2,  /* torch's linear, bilinear and trilinear */
    SAMBA_RESAMPLE_BICUBIC = 3, /* two dims of space */
    SAMBA_RESAMPLE_AREA = 4     /* adaptive average pooling */
} samba_resample_mode;
typedef struct samba_interpolate_options {
    samba_resample_mode mode;
    bool align_corners; /* linear and bicubic */
    bool antialias;     /* bilinear and bicubic of two dims of space */
    bool recompute_scale_factor;
    int64_t size[3];        /* of the result, for each dim of space; zeros: by scale_factor */
    double scale_factor[3]; /* the result's size is that of the input times it, rounded down */
} samba_interpolate_options;
/* input (N, C, space of one to three dims), floating-point;
 * the nearest take all numbers, and bool where elements are only repeated. */
SAMBA_API samba_value samba_interpolate(samba_value input, const samba_interpolate_options *options);

/* torch.nn.functional.grid_sample: input (N, C, H, W) and a grid (N, Ho, Wo, 2) of positions (x, y), of which -1 and 1 are the
 * edges: (N, C, Ho, Wo); or (N, C, D, H, W) and (N, Do, Ho, Wo, 3). Both of one floating-point dtype; 16-bit floats are computed
 * in float32. mode nearest, linear (torch's bilinear) or, of two dims of space, bicubic. With align_corners -1 and 1 are the
 * centres of the outermost pixels. */
typedef enum samba_grid_padding { SAMBA_GRID_ZEROS = 0, SAMBA_GRID_BORDER = 1, SAMBA_GRID_REFLECTION = 2 } samba_grid_padding;
SAMBA_API samba_value samba_grid_sample(samba_value input, samba_value grid, samba_resample_mode mode, samba_grid_padding padding,
                                        bool align_corners);
/* torch.nn.functional.affine_grid: the grid of an image of `size`, (N, C, H, W) or (N, C, D, H, W), whose positions are moved by
 * theta (N, 2, 3) or (N, 3, 4). */
SAMBA_API samba_value samba_affine_grid(samba_value theta, int rank, const int64_t *size, bool align_corners);

/* (..., C r^2, H, W) -> (..., C, H r, W r), and back; any dtype */
SAMBA_API samba_value samba_pixel_shuffle(samba_value input, int64_t upscale_factor);
SAMBA_API samba_value samba_pixel_unshuffle(samba_value input, int64_t downscale_factor);
/* (N, C, space...): channel i of group g of `groups` becomes channel g of group i; any dtype */
SAMBA_API samba_value samba_channel_shuffle(samba_value input, int64_t groups);

#ifdef __cplusplus
}
#endif
#endif
