/* SPDX-License-Identifier: Apache-2.0
 *
 * What test programs have in the place of src/device/cpu/isa/processor.c: a processor that has nothing beyond what the
 * environment variable SAMBAFLOW_ISA allows (generic, avx2 or avx512), so that everything a test does is done as on such a
 * machine. Without it: the processor at hand. libxsmm asks for itself: tools/every-isa.sh tells it by LIBXSMM_TARGET. */
#define samba_processor_isa true_isa
#define samba_processor_has_pairs truly_has_pairs
#include "device/cpu/isa/processor.c"
#undef samba_processor_isa
#undef samba_processor_has_pairs

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

samba_isa samba_processor_isa(void);
bool samba_processor_has_pairs(void);

samba_isa samba_processor_isa(void)
{
    const char *wanted = getenv("SAMBAFLOW_ISA");
    if (!wanted || !*wanted)
        return true_isa();
    for (int isa = 0; isa <= (int)true_isa(); isa++)
        if (strcmp(samba_isa_names[isa], wanted) == 0)
            return (samba_isa)isa;
    fprintf(stderr, "SAMBAFLOW_ISA=%s: no instruction set of this processor\n", wanted);
    exit(2);
}

bool samba_processor_has_pairs(void) { return samba_processor_isa() == SAMBA_ISA_avx512 && truly_has_pairs(); }
