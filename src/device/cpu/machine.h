/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU device knows of the machine that it runs on: one description, made when a device opens and handed to all that
 * prepares stages. Instruction set and kernels, caches, processors and memory nodes, and the figures (figures.def) that cut work
 * into blocks and choose between roads. No other file under device/cpu asks the processor or the system, and none holds a figure
 * of its own.
 *
 * A test makes one, changes it and hands it in: what is prepared then is what such a machine would run. */
#ifndef SAMBA_CPU_MACHINE_H
#define SAMBA_CPU_MACHINE_H

#include "device/cpu/affinity.h"
#include "device/cpu/kernel.h"
#include "device/device.h"

typedef struct samba_cpu_cache {
    int64_t bytes;      /* 0: there is none, or the system does not say */
    int32_t ways, line; /* line: bytes */
    int32_t sharers;    /* processors that reach it */
} samba_cpu_cache;

enum { SAMBA_CPU_CACHES = 3 };

struct samba_cpu_machine {
    /* 0 until samba_cpu_machine_survey, as nothing that runs asks for them: */
    char processor[64];                      /* its own name; "" where the system does not say */
    int32_t processors;                      /* that the system has running */
    int32_t nodes;                           /* of memory */
    samba_cpu_cache cache[SAMBA_CPU_CACHES]; /* of data, the nearest first */
    int64_t cache_bytes[SAMBA_CPU_CACHES];   /* the same, or what is taken where nobody tells: blocks follow from these */
    samba_isa isa;
    const samba_kernels *kernels;
    int32_t vector_bytes, vector_registers;
    bool fused;   /* a multiply-add is one instruction, rounded once */
    bool masked;  /* a part of a vector costs what a whole one does */
    bool pairs;   /* products of pairs of bfloat16 are faster than those of floats */
    bool amx;     /* large ones are AMX's, where the system gives it to this process */
    bool libxsmm; /* its kernels use no better instructions than `isa` */
    int64_t near; /* bytes that stay in the caches a processor reaches, between two stages that touch them */
#define GROUP(name, meaning) struct {
#define END(name)                                                                                                                \
    }                                                                                                                            \
    name;
#define BYTES(name, value, meaning) int64_t name;
#define FIRST(name, share, meaning) int64_t name;
#define SECOND(name, share, meaning) int64_t name;
#define THIRD(name, share, meaning) int64_t name;
#define COUNT(name, value, meaning) int64_t name;
#define RATE(name, value, unit, meaning) double name;
#define NS(name, value, meaning) double name;
#define FACTOR(name, value, meaning) double name;
#include "device/cpu/figures.def"
};

/* Teams of so few threads are dealt blocks as they were measured; larger ones are dealt by what shares and caches say. */
enum { SAMBA_FEW_THREADS = 2 };
/* `most`, or most of a cache where its size is known and that is less, for a thread of a team that is not small. */
static inline int64_t samba_cpu_room(const samba_cpu_machine *machine, int level, int threads, int64_t most)
{
    int64_t bytes = threads > SAMBA_FEW_THREADS ? machine->cache_bytes[level - 1] / 8 * 7 : 0;
    return bytes > 0 && bytes < most ? bytes : most;
}

/* The machine at hand with one of the instruction sets that samba_kernels_for gives kernels of: all that running depends on. It
 * is called for each session, and each operator that runs eagerly has one, so it reads three files of the system. */
void samba_cpu_machine_init(samba_cpu_machine *machine, samba_isa isa);
/* The figures as they follow from machine->cache_bytes, the instruction set and nothing else. */
void samba_cpu_machine_figure(samba_cpu_machine *machine);
/* The rest, which is shown: processor, processors, nodes, caches. */
void samba_cpu_machine_survey(samba_cpu_machine *machine);

/* Nodes of memory, and the processors near each: for teams of many threads, as it reads a file a node. */
void samba_cpu_machine_nodes(samba_nodes *nodes);

/* All of a description in order, one fact after the other. */
void samba_cpu_machine_tell(const samba_cpu_machine *machine, samba_device_tell *tell, void *to);

#endif
