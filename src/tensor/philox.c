/* SPDX-License-Identifier: Apache-2.0
 *
 * Single random numbers by index. Loops over many should take whole blocks from philox.h instead: each call here computes a block
 * and uses one part of it. */
#include "tensor/philox.h"

float samba_philox_uniform(uint64_t seed, uint64_t index)
{
    uint32_t words[4];
    samba_philox_block(seed, index / 4, words);
    return samba_philox_to_float(words[index % 4]);
}

uint64_t samba_philox_word64(uint64_t seed, uint64_t index)
{
    uint32_t words[4];
    samba_philox_block(seed, index / 2, words);
    const uint32_t *pair = words + index % 2 * 2;
    return (uint64_t)pair[1] << 32 | pair[0];
}
