/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock that everything is measured by. */
#include "base/base.h"

#include <time.h>

double samba_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
