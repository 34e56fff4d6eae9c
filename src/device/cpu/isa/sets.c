/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction sets of this build: their names, their tables of kernels, which of them the processor runs. */
#include "device/cpu/isa/processor.h"
#include <stdio.h>
#include <string.h>

const char *const samba_isa_names[SAMBA_ISA_COUNT] = {
#define ISA(name, ...) #name,
#include "device/cpu/isa/sets.def"
#undef ISA
};

const samba_kernels *samba_kernels_for(samba_isa isa)
{
    static const samba_kernels *const tables[SAMBA_ISA_COUNT] = {
#define ISA(name, family, kernels, ...) IN_##family(&samba_kernels_##kernels, NULL),
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    return isa < SAMBA_ISA_COUNT && tables[isa] && samba_processor_has(isa) ? tables[isa] : NULL;
}

const char *samba_isa_elsewhere(const char *name)
{
    static const char *const families[SAMBA_ISA_COUNT] = {
#define ISA(name, family, ...) IN_##family(NULL, #family),
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
        if (strcmp(samba_isa_names[isa], name) == 0)
            return families[isa];
    return NULL;
}

samba_isa samba_isa_best(void)
{
    int isa = SAMBA_ISA_COUNT - 1;
    while (isa > 0 && !samba_kernels_for((samba_isa)isa))
        isa--;
    return (samba_isa)isa;
}

const char *samba_isa_list(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
        if (samba_kernels_for((samba_isa)isa) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", samba_isa_names[isa]);
    return text;
}
