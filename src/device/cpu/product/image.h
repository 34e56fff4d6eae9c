/* SPDX-License-Identifier: Apache-2.0
 *
 * A contraction seen as a convolution: its columns are the pixels of a result, each of which looks at the image through a window.
 * For the roads of convolutions, columns.c and winograd.c. */
#ifndef SAMBA_CPU_IMAGE_H
#define SAMBA_CPU_IMAGE_H

#include "device/cpu/product/frame.h"

typedef struct samba_image_axis { /* one dim of the pixels; the window's position is base + own * pixel + tap_step * tap */
    int64_t size, base, own, taps, tap_step, limit, memory; /* memory: elements to the image's next pixel */
    int tap;                                                /* dim of k, -1: none */
} samba_image_axis;

/* Is it one of float32, with weights that all images share? Each window moves along one dim of the pixels and at most one of k,
 * and the image has no zeros between its pixels. */
bool samba_image_recognize(const samba_contract_problem *problem, samba_image_axis *y, samba_image_axis *x);
/* Is it one of bfloat16, on a CPU that multiplies pairs, whose channels are a dim of k of their own? channel: which. */
bool samba_image_recognize_pairs(const samba_contract_problem *problem, samba_image_axis *y, samba_image_axis *x, int *channel);
/* From the first image's first element. */
int64_t samba_image_offset(const samba_contract *contract, int64_t image);

#endif
