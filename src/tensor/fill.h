/* SPDX-License-Identifier: Apache-2.0
 *
 * Random values for a range of elements. Each value depends on the seed and its element's index alone, so however a tensor is cut
 * into ranges, over threads or calls, the bits are the same.
 *
 *   uniform   word i of the seed's Philox stream (float64: pair i), 24 (53) bits, scaled in double to [low, high)
 *   normal    word pair i/2 by Box and Muller's transform in double: the cosine for even i, the sine for odd; the same values,
 *             rounded, for every dtype
 *   inverse   normal, too: word i, as (word + 1/2) / 2^32 in (0, 1), through the inverse of the normal distribution function
 *   truncated the same, with the uniform number scaled to what the distribution function leaves between the bounds
 *   integers  pair i, multiplied into [low, high)
 *
 * Nothing is checked here: dtypes are floats for the first two, bounds are finite with low <= high, and integers fit the dtype.
 */
#ifndef SAMBA_FILL_H
#define SAMBA_FILL_H

#include "tensor/tensor.h"

void samba_fill_uniform_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double low,
                              double high);
void samba_fill_normal_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double mean,
                             double deviation);
void samba_fill_inverse_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double mean,
                              double deviation);
void samba_fill_truncated_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double mean,
                                double deviation, double low, double high);
void samba_fill_integers_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, int64_t low,
                               int64_t high);

#endif
