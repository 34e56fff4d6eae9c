/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine at hand: see machine.h. Linux tells of caches and nodes in files; where those are not there (another system, an
 * emulator, a container that hides them) the processor itself is asked.
 * What nobody tells is 0, and its users have a value of their own for it. */
#include "device/cpu/machine.h"

#include "device/cpu/isa/processor.h"
#include "device/cpu/product/xsmm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LAST_CACHE ((int64_t)16 << 20) /* bytes, where nobody tells */

/* ---- what the system tells ---- */

/* A line of a file under /sys; "" where it is not there. */
static void read_line(char *line, int size, const char *path)
{
    FILE *file = fopen(path, "r");
    line[0] = '\0';
    if (file && !fgets(line, size, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

static const char *cache_file(char *path, size_t size, int index, const char *name)
{
    snprintf(path, size, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    return path;
}

static int64_t read_number(int index, const char *name)
{
    char path[96], line[64];
    long long value = 0;
    read_line(line, sizeof line, cache_file(path, sizeof path, index, name));
    return sscanf(line, "%lld", &value) == 1 && value > 0 && value < 1 << 30 ? value : 0;
}

/* "0-3,8" has five. */
static int32_t count_listed(const char *list)
{
    int32_t count = 0;
    long first, last;
    for (int used; sscanf(list, "%ld%n", &first, &used) == 1; list++) {
        list += used;
        last = first;
        if (*list == '-' && sscanf(list + 1, "%ld%n", &last, &used) == 1)
            list += 1 + used;
        count += last >= first && last - first < 1 << 20 ? (int32_t)(last - first + 1) : 0;
        if (*list != ',')
            break;
    }
    return count;
}

/* Each number of such a list below `count` gives marks[number] = mark. */
static void mark_listed(const char *list, uint8_t *marks, long count, uint8_t mark)
{
    long first, last;
    for (int used; sscanf(list, "%ld%n", &first, &used) == 1; list++) {
        list += used;
        last = first;
        if (*list == '-' && sscanf(list + 1, "%ld%n", &last, &used) == 1)
            list += 1 + used;
        for (long i = first < 0 ? 0 : first; i <= last && i < count; i++)
            marks[i] = mark;
        if (*list != ',')
            break;
    }
}

static void read_cache(int index, samba_cpu_cache *caches)
{
    char path[96], line[256];
    int64_t level = read_number(index, "level");
    read_line(line, sizeof line, cache_file(path, sizeof path, index, "type"));
    if (level < 1 || level > SAMBA_CPU_CACHES || strcmp(line, "Instruction") == 0)
        return;
    samba_cpu_cache *cache = &caches[level - 1];
    cache->bytes = read_number(index, "size") << 10;
    cache->ways = (int32_t)read_number(index, "ways_of_associativity");
    cache->line = (int32_t)read_number(index, "coherency_line_size");
    read_line(line, sizeof line, cache_file(path, sizeof path, index, "shared_cpu_list"));
    cache->sharers = count_listed(line);
}

static void find_caches(samba_cpu_cache *caches)
{
    enum { INDICES = 8 }; /* of caches that a processor has, instructions' among them */
    for (int i = 0; i < INDICES; i++)
        read_cache(i, caches);
    for (int level = 0; level < SAMBA_CPU_CACHES && caches[0].bytes == 0; level++)
        samba_processor_cache(level + 1, &caches[level]);
}

/* Sizes of caches as Linux lists them: two first caches, of data and of instructions, and those behind them. Else the processor
 * is asked; what neither tells is taken to be as most have it. */
static void find_sizes(int64_t bytes[SAMBA_CPU_CACHES])
{
    static const int indices[SAMBA_CPU_CACHES] = {0, 2, 3};
    static const int64_t usual[SAMBA_CPU_CACHES] = {32 << 10, 512 << 10, LAST_CACHE};
    samba_cpu_cache told[SAMBA_CPU_CACHES] = {0};
    for (int level = 0; level < SAMBA_CPU_CACHES; level++) {
        bytes[level] = read_number(indices[level], "size") << 10;
        if (bytes[level] == 0)
            samba_processor_cache(level + 1, &told[level]);
        bytes[level] = bytes[level] ? bytes[level] : told[level].bytes ? told[level].bytes : usual[level];
    }
}

void samba_cpu_machine_figure(samba_cpu_machine *machine)
{
    const int64_t *cache = machine->cache_bytes;
#define GROUP(name, meaning)                                                                                                     \
    {                                                                                                                            \
        __typeof__(machine->name) *group = &machine->name;
#define END(name) }
#define BYTES(name, value, meaning) group->name = value;
#define FIRST(name, share, meaning) group->name = (int64_t)((share) * (double)cache[0]);
#define SECOND(name, share, meaning) group->name = (int64_t)((share) * (double)cache[1]);
#define THIRD(name, share, meaning) group->name = (int64_t)((share) * (double)cache[2]);
#define COUNT(name, value, meaning) group->name = value;
#define RATE(name, value, unit, meaning) group->name = value;
#define NS(name, value, meaning) group->name = value;
#define FACTOR(name, value, meaning) group->name = value;
#include "device/cpu/figures.def"
    machine->near = cache[2] / 2; /* others use it too */
}

void samba_cpu_machine_init(samba_cpu_machine *machine, samba_isa isa)
{
    static const struct {
        bool pairs, amx;
    } multiplies[SAMBA_ISA_COUNT] = {
#define ISA(name, family, kernels, flags, features, libxsmm, pairs, amx, ...) {pairs, amx},
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    const samba_kernels *kernels = samba_kernels_for(isa);
    *machine = (samba_cpu_machine){.isa = isa, .kernels = kernels};
    machine->vector_bytes = kernels->lanes * (int32_t)sizeof(float);
    machine->vector_registers = kernels->vector_registers;
    machine->fused = kernels->fused;
    machine->masked = kernels->masked;
    machine->pairs = multiplies[isa].pairs && samba_processor_has_pairs();
    machine->amx = multiplies[isa].amx;
    machine->libxsmm = samba_xsmm_keeps_to(isa);
    find_sizes(machine->cache_bytes);
    samba_cpu_machine_figure(machine);
}

void samba_cpu_machine_survey(samba_cpu_machine *machine)
{
    char line[256];
    samba_processor_name(machine->processor, sizeof machine->processor);
    find_caches(machine->cache);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    machine->processors = processors > 0 ? (int32_t)processors : 1;
    read_line(line, sizeof line, "/sys/devices/system/node/online");
    machine->nodes = count_listed(line) > 0 ? count_listed(line) : 1;
}

void samba_cpu_machine_nodes(samba_nodes *nodes)
{
    enum { MOST_NODES = 64 };
    uint8_t online[MOST_NODES] = {0};
    char path[96], line[1024];
    *nodes = (samba_nodes){.count = 1};
    read_line(line, sizeof line, "/sys/devices/system/node/online");
    mark_listed(line, online, MOST_NODES, 1);
    for (int node = 0, found = 0; node < MOST_NODES; node++) {
        if (!online[node])
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        read_line(line, sizeof line, path);
        if (line[0] == '\0') /* memory without processors */
            continue;
        mark_listed(line, nodes->of, SAMBA_PROCESSORS, (uint8_t)found);
        nodes->count = ++found;
    }
}

/* ---- what we tell ---- */

typedef struct teller {
    samba_device_tell *tell;
    void *to;
    const char *group;
} teller;

static void tell_text(const teller *t, const char *name, const char *text, const char *meaning)
{
    samba_device_fact fact = {.group = t->group, .name = name, .text = text, .unit = "", .meaning = meaning};
    t->tell(t->to, &fact);
}

static void tell_number(const teller *t, const char *name, double number, const char *unit, const char *meaning)
{
    samba_device_fact fact = {.group = t->group, .name = name, .number = number, .unit = unit, .meaning = meaning};
    t->tell(t->to, &fact);
}

static void tell_cache(const teller *t, const samba_cpu_cache *cache)
{
    tell_number(t, "bytes", (double)cache->bytes, "B", "size; 0: there is none, or nobody tells");
    tell_number(t, "ways", cache->ways, "", "places that a line of memory may have");
    tell_number(t, "line", cache->line, "B", "of a line");
    tell_number(t, "sharers", cache->sharers, "", "processors that share it");
}

void samba_cpu_machine_tell(const samba_cpu_machine *machine, samba_device_tell *tell, void *to)
{
    static const char *const caches[SAMBA_CPU_CACHES] = {"cache1", "cache2", "cache3"};
    teller t = {tell, to, "processor"};
    char sets[128];
    tell_text(&t, "name", machine->processor, "what it calls itself");
    tell_number(&t, "processors", machine->processors, "", "that the system runs");
    tell_number(&t, "nodes", machine->nodes, "", "of memory");
    tell_text(&t, "isa", samba_isa_names[machine->isa], "instruction set in use");
    tell_text(&t, "isas", samba_isa_list(sets, sizeof sets), "those that it and this library have");
    tell_number(&t, "vector_bytes", machine->vector_bytes, "B", "of a vector");
    tell_number(&t, "vector_registers", machine->vector_registers, "", "vectors that a core holds");
    tell_text(&t, "fused", machine->fused ? "yes" : "no", "a multiply-add is one instruction, rounded once");
    tell_text(&t, "masked", machine->masked ? "yes" : "no", "a part of a vector costs what a whole one does");
    tell_text(&t, "bfloat16_pairs", machine->pairs ? "yes" : "no", "products of bfloat16 have instructions of their own");
    tell_text(&t, "amx", machine->amx ? "yes" : "no", "large products of bfloat16 multiply matrices in registers");
    tell_text(&t, "libxsmm", machine->libxsmm ? "yes" : "no", "its kernels are used for small blocks");
    for (int i = 0; i < SAMBA_CPU_CACHES; i++) {
        t.group = caches[i];
        tell_cache(&t, &machine->cache[i]);
    }
#define GROUP(name, meaning)                                                                                                     \
    {                                                                                                                            \
        t.group = #name;                                                                                                         \
        const __typeof__(machine->name) *group = &machine->name;
#define END(name) }
#define BYTES(name, value, meaning) tell_number(&t, #name, (double)group->name, "B", meaning);
#define FIRST(name, share, meaning) BYTES(name, share, meaning)
#define SECOND(name, share, meaning) BYTES(name, share, meaning)
#define THIRD(name, share, meaning) BYTES(name, share, meaning)
#define COUNT(name, value, meaning) tell_number(&t, #name, (double)group->name, "", meaning);
#define RATE(name, value, unit, meaning) tell_number(&t, #name, group->name, unit, meaning);
#define NS(name, value, meaning) tell_number(&t, #name, group->name, "ns", meaning);
#define FACTOR(name, value, meaning) tell_number(&t, #name, group->name, "", meaning);
#include "device/cpu/figures.def"
}
