/* SPDX-License-Identifier: Apache-2.0
 *
 * The seed that a random test begins with: another one every time, unless SAMBAFLOW_SEED names it. What judges a change names it,
 * so that the change is judged and not the draw. */

#ifndef SAMBA_TESTS_SEED_H
#define SAMBA_TESTS_SEED_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t random_seed(void)
{
    const char *named = getenv("SAMBAFLOW_SEED");
    return named && *named ? strtoull(named, NULL, 10) : (uint64_t)time(NULL);
}

#endif
