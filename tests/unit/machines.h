/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines as tests hand them in: the one at hand, with each of its instruction sets, with libxsmm and without; one that nobody
 * has; and twelve that many have, for which stages can be prepared but not run. */
#ifndef SAMBA_TEST_MACHINES_H
#define SAMBA_TEST_MACHINES_H

#include "device/cpu/machine.h"
#include "device/cpu/product/blocks.h"

/* Without libxsmm, and with it where there is one: elsewhere both would be the same. */
#if defined(__x86_64__)
enum { LIBXSMM_WAYS = 2 };
#else
enum { LIBXSMM_WAYS = 1 };
#endif

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
    for (int i = 0; i < SAMBA_CPU_CACHES; i++)
        machine->cache_bytes[i] = machine->cache_bytes[i] * (1 << draw(of) % 7) / 8;
}

typedef struct described_machine {
    const char *name;
    int threads, nodes;
    int lanes, registers; /* floats of a vector; vectors */
    int rows, columns;    /* sums that its kernel keeps in registers */
    int first, second;    /* KiB of a core's own caches */
    int third, sharers;   /* KiB of one, and threads that share it */
} described_machine;

static const described_machine described_machines[] = {
    {"4 threads, 4 lanes, 256 KiB", 4, 1, 4, 16, 6, 8, 32, 256, 6 << 10, 4},
    {"4 threads, 4 lanes, 512 KiB, little third", 4, 1, 4, 32, 8, 12, 32, 512, 4 << 10, 4},
    {"8 threads, 8 lanes, 256 KiB", 8, 1, 8, 16, 6, 16, 32, 256, 8 << 10, 8},
    {"12 threads, 4 lanes, 64 KiB and 2 MiB", 12, 1, 4, 32, 8, 12, 64, 2048, 16 << 10, 12},
    {"16 threads, 8 lanes, 512 KiB", 16, 1, 8, 16, 6, 16, 32, 512, 32 << 10, 16},
    {"20 threads, 16 lanes, 1 MiB", 20, 1, 16, 32, 6, 64, 32, 1024, 28 << 10, 20},
    {"32 threads, 8 lanes, 512 KiB, split third", 32, 1, 8, 16, 6, 16, 32, 512, 16 << 10, 4},
    {"64 threads, 4 lanes, 64 KiB and 1 MiB", 64, 1, 4, 32, 8, 12, 64, 1024, 32 << 10, 64},
    {"64 threads, 16 lanes, 1.25 MiB, two nodes", 64, 2, 16, 32, 6, 64, 48, 1280, 48 << 10, 32},
    {"96 threads, 16 lanes, 1 MiB, split third", 96, 1, 16, 32, 6, 64, 32, 1024, 32 << 10, 8},
    {"112 threads, 16 lanes, 2 MiB, two nodes", 112, 2, 16, 32, 6, 64, 48, 2048, 105 << 10, 56},
    {"128 threads, 8 lanes, 512 KiB, split third, two nodes", 128, 2, 8, 16, 6, 16, 32, 512, 32 << 10, 8},
};
enum { DESCRIBED_MACHINES = sizeof described_machines / sizeof *described_machines };

typedef struct described_kernels { /* what a described machine's `kernels` point to */
    samba_kernels kernels;
    samba_blocks blocks;
} described_kernels;

/* A machine as it is described. Its kernels are plain ones that claim its vectors: nothing may run them. */
static inline void describe_machine(const described_machine *from, described_kernels *room, samba_cpu_machine *machine)
{
    samba_cpu_machine_init(machine, SAMBA_ISA_generic);
    room->kernels = *machine->kernels;
    room->blocks = *machine->kernels->blocks;
    room->blocks.dense_rows = from->rows;
    room->blocks.dense_cols = from->columns;
    room->kernels.blocks = &room->blocks;
    room->kernels.lanes = from->lanes;
    room->kernels.vector_registers = from->registers;
    machine->kernels = &room->kernels;
    machine->vector_bytes = from->lanes * (int32_t)sizeof(float);
    machine->vector_registers = from->registers;
    machine->fused = true;
    machine->libxsmm = false;
    machine->processors = from->threads;
    machine->nodes = from->nodes;
    machine->cache[0] = (samba_cpu_cache){(int64_t)from->first << 10, 8, 64, 1};
    machine->cache[1] = (samba_cpu_cache){(int64_t)from->second << 10, 8, 64, 1};
    machine->cache[2] = (samba_cpu_cache){(int64_t)from->third << 10, 16, 64, from->sharers};
    machine->masked = room->kernels.masked = from->registers >= 32;
    for (int i = 0; i < SAMBA_CPU_CACHES; i++)
        machine->cache_bytes[i] = machine->cache[i].bytes;
    samba_cpu_machine_figure(machine);
}

#endif
