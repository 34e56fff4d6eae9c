/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of bfloat16 for CPUs that multiply pairs: two neighbouring channels stand together as one element of 4 bytes, in
 * the image as in the weights. An image of such elements is gathered as one of floats, of half as many channels. Where channels
 * are odd the last pair ends in 0. */
#ifndef SAMBA_CPU_PAIRED_H
#define SAMBA_CPU_PAIRED_H

#include "device/cpu/kernel.h"

typedef struct samba_paired { /* strides and sizes count elements, of the operand as it is in memory */
    const uint16_t *from;
    int64_t channels, channel_stride;
    int64_t rows, row_stride, width; /* of an image; the pixels of a row lie together */
} samba_paired;

/* The plane of a pair of channels, [rows][width]. */
void samba_pair_planes(const samba_kernels *kernels, const samba_paired *image, int64_t pair, uint32_t *to);

typedef struct samba_paired_walk { /* k as pairs: dims, the channels' first halved */
    int rank, channel;
    int64_t size[SAMBA_CONTRACT_RANK], stride[SAMBA_CONTRACT_RANK]; /* stride: of the weights; of channels that of one */
    int64_t channels;
} samba_paired_walk;

/* One row of weights, `count` pairs from the index on. */
void samba_pair_weights(const uint16_t *row, const samba_paired_walk *walk, const int64_t *index, int64_t count, uint32_t *to);

#endif
