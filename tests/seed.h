/* SPDX-License-Identifier: Apache-2.0
 *
 * The seed that a random test begins with: another one every time, unless SAMBAFLOW_SEED names it. What judges a change names it,
 * so that the change is judged and not the draw. And numbers from a seed. */

#ifndef SAMBA_TESTS_SEED_H
#define SAMBA_TESTS_SEED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t random_seed(void)
{
    const char *named = getenv("SAMBAFLOW_SEED");
    return named && *named ? strtoull(named, NULL, 10) : (uint64_t)time(NULL);
}

/* An emulator takes ten times as long: SAMBAFLOW_EMULATED=4 says that it is one, and that of tests which try many alike one case
 * in four will do. Which ones follows from the seed. */
static inline uint64_t emulated(void)
{
    const char *named = getenv("SAMBAFLOW_EMULATED");
    return named ? strtoull(named, NULL, 10) : 0;
}
static inline bool runs_case(uint64_t number)
{
    uint64_t one_in = emulated();
    return one_in < 2 || (number + random_seed()) % one_in == 0;
}
static inline unsigned seconds_allowed(unsigned seconds) { return emulated() ? 10 * seconds : seconds; }

static inline uint64_t next_seed(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
