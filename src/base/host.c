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

/* Cores of ARM by their implementer and part, as the register MIDR_EL1 has them: Linux tells no name there. */
static const struct core {
    unsigned implementer, part;
    const char *name;
} cores[] = {
    {0x41, 0xd03, "ARM Cortex-A53"},        {0x41, 0xd04, "ARM Cortex-A35"},     {0x41, 0xd05, "ARM Cortex-A55"},
    {0x41, 0xd07, "ARM Cortex-A57"},        {0x41, 0xd08, "ARM Cortex-A72"},     {0x41, 0xd09, "ARM Cortex-A73"},
    {0x41, 0xd0a, "ARM Cortex-A75"},        {0x41, 0xd0b, "ARM Cortex-A76"},     {0x41, 0xd0c, "ARM Neoverse-N1"},
    {0x41, 0xd0d, "ARM Cortex-A77"},        {0x41, 0xd40, "ARM Neoverse-V1"},    {0x41, 0xd41, "ARM Cortex-A78"},
    {0x41, 0xd44, "ARM Cortex-X1"},         {0x41, 0xd46, "ARM Cortex-A510"},    {0x41, 0xd47, "ARM Cortex-A710"},
    {0x41, 0xd48, "ARM Cortex-X2"},         {0x41, 0xd49, "ARM Neoverse-N2"},    {0x41, 0xd4d, "ARM Cortex-A715"},
    {0x41, 0xd4e, "ARM Cortex-X3"},         {0x41, 0xd4f, "ARM Neoverse-V2"},    {0x41, 0xd80, "ARM Cortex-A520"},
    {0x41, 0xd81, "ARM Cortex-A720"},       {0x41, 0xd82, "ARM Cortex-X4"},      {0x41, 0xd84, "ARM Neoverse-V3"},
    {0x41, 0xd8e, "ARM Neoverse-N3"},       {0x43, 0x0af, "Marvell ThunderX2"},  {0x46, 0x001, "Fujitsu A64FX"},
    {0x48, 0xd01, "HiSilicon Kunpeng-920"}, {0x61, 0x022, "Apple M1 Icestorm"},  {0x61, 0x023, "Apple M1 Firestorm"},
    {0x61, 0x032, "Apple M2 Blizzard"},     {0x61, 0x033, "Apple M2 Avalanche"}, {0xc0, 0xac3, "Ampere-1"},
};

static void name_core(unsigned implementer, unsigned part, char *name, size_t size)
{
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (cores[i].implementer == implementer && cores[i].part == part) {
            snprintf(name, size, "%s", cores[i].name);
            return;
        }
    snprintf(name, size, "ARM implementer 0x%02x part 0x%03x", implementer, part);
}

/* "model name : AMD EPYC ..." of the first processor; or its "CPU implementer : 0x41" and then its "CPU part : 0xd0c". */
void samba_processor_name_in(const char *path, char *name, size_t size)
{
    char line[256];
    unsigned implementer = 0, part;
    FILE *file = fopen(path, "r");
    name[0] = '\0';
    while (file && !name[0] && fgets(line, sizeof line, file)) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon && colon[1] == ' ')
            snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        if (sscanf(line, "CPU implementer : %x", &implementer) != 1 && sscanf(line, "CPU part : %x", &part) == 1)
            name_core(implementer, part, name, size);
    }
    if (file)
        fclose(file);
}

void samba_processor_name(char *name, size_t size) { samba_processor_name_in("/proc/cpuinfo", name, size); }
