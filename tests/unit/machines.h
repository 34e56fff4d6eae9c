/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine at hand as tests hand it in: with each of its instruction sets, with libxsmm and without. */
#ifndef SAMBA_TEST_MACHINES_H
#define SAMBA_TEST_MACHINES_H

#include "device/cpu/machine.h"

/* Only of instruction sets that samba_kernels_for has. Tests may change what it gives, for as long as they put it back. */
static inline samba_cpu_machine *machine_with(samba_isa isa, bool libxsmm)
{
    static samba_cpu_machine machines[SAMBA_ISA_COUNT][2];
    samba_cpu_machine *machine = &machines[isa][libxsmm];
    if (!machine->kernels)
        samba_cpu_machine_init(machine, isa);
    machine->libxsmm = libxsmm;
    return machine;
}

/* A machine that nobody has: each figure an eighth to eight times what it is, sizes at least 1.
 * Whatever the figures are, results are right. */
static inline void make_strange(samba_cpu_machine *machine, uint64_t (*draw)(void *), void *of)
{
#define GROUP(name, meaning)                                                                                                     \
    {                                                                                                                            \
        __typeof__(machine->name) *group = &machine->name;
#define END(name) }
#define SCALED(name) group->name = group->name * (1 << draw(of) % 7) / 8
#define BYTES(name, value, meaning) SCALED(name), group->name = group->name < 1 ? 1 : group->name;
#define FIRST(name, share, meaning) BYTES(name, share, meaning)
#define SECOND(name, share, meaning) BYTES(name, share, meaning)
#define THIRD(name, share, meaning) BYTES(name, share, meaning)
#define COUNT(name, value, meaning) SCALED(name), group->name = group->name < 1 ? 1 : group->name;
#define RATE(name, value, unit, meaning) SCALED(name);
#define NS(name, value, meaning) SCALED(name);
#define FACTOR(name, value, meaning) SCALED(name);
#include "device/cpu/figures.def"
#undef SCALED
    machine->near = machine->near * (1 << draw(of) % 7) / 8;
}

#endif
