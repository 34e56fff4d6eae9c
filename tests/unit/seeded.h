/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of a test (Marsaglia, Xorshift RNGs, 2003), from a seed that is printed. Include after cmocka.h. */
#ifndef SAMBA_TEST_SEEDED_H
#define SAMBA_TEST_SEEDED_H

#include "../seed.h"
#include <stdint.h>

static uint64_t seed;

static inline uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static inline int below(int bound) { return (int)((next_random() >> 16) % (uint64_t)bound); }

static inline void seed_anew(void)
{
    seed = random_seed() * 2654435761u + 1;
    print_message("seed %llu\n", (unsigned long long)seed);
}

#endif
