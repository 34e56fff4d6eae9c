/* SPDX-License-Identifier: Apache-2.0
 *
 * What test programs have in the place of src/device/cpu/isa/processor.c: a processor that has nothing beyond what the
 * environment variable SAMBAFLOW_ISA allows (a name of isa/sets.def), so that everything a test does is done as on such a
 * machine. Without it: the processor at hand. libxsmm asks for itself: tools/every-isa.sh tells it by LIBXSMM_TARGET. */
#define samba_processor_has truly_has
#define samba_processor_has_byte_sums truly_has_byte_sums
#include "device/cpu/isa/processor.c"
#undef samba_processor_has
#undef samba_processor_has_byte_sums

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool samba_processor_has(samba_isa isa);
bool samba_processor_has(samba_isa isa)
{
    const char *wanted = getenv("SAMBAFLOW_ISA");
    if (!wanted || !*wanted)
        return truly_has(isa);
    for (int most = 0; most < SAMBA_ISA_COUNT; most++)
        if (strcmp(samba_isa_names[most], wanted) == 0 && truly_has((samba_isa)most))
            return (int)isa <= most && truly_has(isa);
    fprintf(stderr, "SAMBAFLOW_ISA=%s: no instruction set of this processor\n", wanted);
    exit(2);
}

/* A test may set this variable, to compare what is computed with the instruction and without. */
bool samba_processor_has_byte_sums(void);
bool samba_processor_has_byte_sums(void) { return truly_has_byte_sums() && !getenv("TEST_NO_BYTE_SUMS"); }
