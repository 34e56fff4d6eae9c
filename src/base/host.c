/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that a program runs on: the clock that everything is measured by, and what the processor calls itself. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

double samba_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* "model name : AMD EPYC ..." of the first processor. */
void samba_processor_name(char *name, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    name[0] = '\0';
    while (file && !name[0] && fgets(line, sizeof line, file)) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon && colon[1] == ' ')
            snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file)
        fclose(file);
}
