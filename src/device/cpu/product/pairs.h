/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing for bfloat16 products, whose instructions multiply two neighbouring k at once and so want them side by side. Elements
 * are moved, never converted. Strides are in elements; an odd last k is paired with zero. */
#ifndef SAMBA_CPU_PAIRS_H
#define SAMBA_CPU_PAIRS_H

#include "device/cpu/kernel.h"

/* to[k/2][j][k%2] = the element of (k, j), for j < width; rows of `to` are ld pairs long. */
void samba_pack_pairs(const samba_kernels *kernels, const uint16_t *from, int64_t k_stride, int64_t j_stride, int64_t depth,
                      int64_t width, uint16_t *to, int64_t ld);
/* to[i*ld + k] = the element of (i, k), for i < rows and k < depth, one zero more where depth is odd; ld is even. */
void samba_pack_rows_of_pairs(const samba_kernels *kernels, const uint16_t *from, int64_t k_stride, int64_t i_stride,
                              int64_t depth, int64_t rows, uint16_t *to, int64_t ld);

#endif
