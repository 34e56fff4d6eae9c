/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011): four random words from a
 * counter and a key, with no state. So element i of a tensor has its number whatever thread, tile or order computes it.
 *
 * The key is the seed (low word first), the counter is 64 bits wide (words 0 and 1; words 2 and 3 are 0). Everything here is
 * inline and free of branches, so a loop over blocks vectorises in whatever instruction set it is compiled for. */
#ifndef SAMBA_PHILOX_H
#define SAMBA_PHILOX_H

#include <stdint.h>

/* The generator itself, on all of its 128 counter bits. `words` may be `counter`. */
static inline void samba_philox_4x32(const uint32_t counter[4], uint32_t key0, uint32_t key1, uint32_t words[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c0, p1 = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        key0 += UINT32_C(0x9E3779B9);
        key1 += UINT32_C(0xBB67AE85);
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

/* Block `index` of a seed's stream: words 4*index .. 4*index+3. */
static inline void samba_philox_block(uint64_t seed, uint64_t index, uint32_t words[4])
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    samba_philox_4x32(counter, (uint32_t)seed, (uint32_t)(seed >> 32), words);
}

/* Word -> [0, 1) with the 24 bits that a float32 holds exactly. */
static inline float samba_philox_to_float(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }

/* Pair `index` of a seed's stream: words 2*index (low half) and 2*index+1 (high half). */
uint64_t samba_philox_word64(uint64_t seed, uint64_t index);

/* Word `index` of a seed's stream as a float32 in [0, 1): what random(seed) holds at element `index`. */
float samba_philox_uniform(uint64_t seed, uint64_t index);

/* [0, bound) from a 64-bit word. A multiplication instead of a remainder: its bias is below bound / 2^64. */
static inline uint64_t samba_philox_below(uint64_t word, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)word * bound) >> 64);
}

#endif
