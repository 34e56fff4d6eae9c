/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that end another text, which comes piece by piece: where the first of them begins, and how much of an end may yet turn
 * out to be the beginning of one. */
#define _GNU_SOURCE /* memmem */
#include "base/base.h"

#include <string.h>

int64_t samba_stop_find(int64_t count, const char *const *stops, const char *text, int64_t length)
{
    int64_t first = -1;
    for (int64_t i = 0; i < count; i++) {
        const char *at = memmem(text, (size_t)length, stops[i], strlen(stops[i]));
        if (at && (first < 0 || at - text < first))
            first = at - text;
    }
    return first;
}

int64_t samba_stop_begun(int64_t count, const char *const *stops, const char *text, int64_t length)
{
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t n = (int64_t)strlen(stops[i]) - 1;
        n = n < length ? n : length;
        while (n > most && memcmp(text + length - n, stops[i], (size_t)n) != 0)
            n--;
        most = n > most ? n : most;
    }
    return most;
}
