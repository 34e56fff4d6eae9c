/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of the machine: what it says of the one at hand, and that all of it is told. test_random_shapes
 * runs models with figures that no machine has. */
#include "training.h"
#include "machines.h"

static void test_at_hand(void **state)
{
    SAMBA_EACH_ISA (isa) {
        samba_cpu_machine machine;
        samba_cpu_machine_init(&machine, (samba_isa)isa);
        samba_cpu_machine_survey(&machine);
        assert_int_equal(machine.isa, isa);
        assert_ptr_equal(machine.kernels, samba_kernels_for((samba_isa)isa));
        assert_int_equal(machine.vector_bytes, 4 * machine.kernels->lanes);
        assert_in_range(machine.vector_registers, 8, 64);
        assert_in_range(machine.processors, 1, 1 << 20);
        assert_in_range(machine.nodes, 1, machine.processors);
        assert_in_range(machine.near, 64 << 10, (int64_t)1 << 40);
        for (int i = 0; i < SAMBA_CPU_CACHES; i++) {
            const samba_cpu_cache *cache = &machine.cache[i];
            assert_in_range(machine.cache_bytes[i], 4 << 10, (int64_t)1 << 34);
            if (cache->bytes == 0)
                continue;
            assert_int_equal(machine.cache_bytes[i], cache->bytes);
            assert_in_range(cache->bytes, 4 << 10, (int64_t)1 << 34);
            assert_in_range(cache->sharers, 1, 1 << 20);
            assert_in_range(cache->line, 16, 1024);
            assert_in_range(cache->ways, 0, cache->bytes / cache->line); /* ARM's systems do not all tell */
        }
    }
}

typedef struct told {
    int facts, groups, numbers;
    const char *group;
    bool panel_rows;
} told;

static void note(void *to, const samba_device_fact *fact)
{
    told *t = to;
    assert_non_null(fact->group);
    assert_true(*fact->name && *fact->meaning);
    t->groups += !t->group || strcmp(t->group, fact->group) != 0;
    t->group = fact->group;
    t->facts++;
    t->numbers += fact->text == NULL;
    t->panel_rows = t->panel_rows || (strcmp(fact->group, "panel") == 0 && strcmp(fact->name, "rows") == 0 && fact->number == 77);
}

/* Sizes that are shares of a cache follow it and no other; costs and counts are the same for all. */
static void test_caches(void **state)
{
    const samba_cpu_machine *usual = machine_with(samba_isa_best(), true);
    for (int level = 0; level < SAMBA_CPU_CACHES; level++) {
        samba_cpu_machine machine = *usual;
        machine.cache_bytes[level] *= 4;
        samba_cpu_machine_figure(&machine);
        assert_int_equal(machine.near, usual->near * (level == 2 ? 4 : 1));
#define GROUP(group_name, meaning)                                                                                               \
    {                                                                                                                            \
        const __typeof__(usual->group_name) *is = &machine.group_name, *was = &usual->group_name;
#define END(name) }
#define FOLLOWS(name, share, mine)                                                                                               \
    assert_true((share) > 0 && (share) <= 1);                                                                                    \
    assert_in_range(is->name, was->name *(level == (mine) ? 4 : 1), was->name *(level == (mine) ? 4 : 1) + 3);
#define SAME(name) assert_true(is->name == was->name);
#define FIRST(name, share, meaning) FOLLOWS(name, share, 0)
#define SECOND(name, share, meaning) FOLLOWS(name, share, 1)
#define THIRD(name, share, meaning) FOLLOWS(name, share, 2)
#define BYTES(name, value, meaning) SAME(name)
#define COUNT(name, value, meaning) SAME(name)
#define RATE(name, value, unit, meaning) SAME(name)
#define NS(name, value, meaning) SAME(name)
#define FACTOR(name, value, meaning) SAME(name)
#include "device/cpu/figures.def"
#undef FOLLOWS
#undef SAME
    }
}

static void test_told(void **state)
{
    int figures = 0, groups = 0;
#define GROUP(name, meaning) groups++;
#define END(name)
#define BYTES(name, value, meaning) figures++;
#define FIRST(name, share, meaning) figures++;
#define SECOND(name, share, meaning) figures++;
#define THIRD(name, share, meaning) figures++;
#define COUNT(name, value, meaning) figures++;
#define RATE(name, value, unit, meaning) figures++;
#define NS(name, value, meaning) figures++;
#define FACTOR(name, value, meaning) figures++;
#include "device/cpu/figures.def"
    samba_cpu_machine machine = *machine_with(samba_isa_best(), true);
    machine.panel.rows = 77;
    told t = {0};
    samba_cpu_machine_tell(&machine, note, &t);
    assert_true(t.panel_rows);
    assert_int_equal(t.groups, groups + 1 + SAMBA_CPU_CACHES);
    assert_int_equal(t.numbers, figures + 4 + 4 * SAMBA_CPU_CACHES);
    t = (told){0};
    const samba_device_options options = {.context = context, .threads = 1, .isa = "generic"},
                               unknown = {.context = context, .threads = 1, .isa = "neon9"};
    need(samba_device_cpu.describe(&options, note, &t));
    assert_true(t.facts > figures);
    refuse(samba_device_cpu.describe(&unknown, note, &t), SAMBA_ERROR_UNSUPPORTED, "instruction set \"neon9\" is not available");
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_device_options foreign = {.context = context, .threads = 1, .isa = samba_isa_names[isa]};
        if (samba_isa_elsewhere(samba_isa_names[isa]))
            refuse(samba_device_cpu.describe(&foreign, note, &t), SAMBA_ERROR_UNSUPPORTED, "this build has no kernels for it");
    }
    assert_null(samba_isa_elsewhere("neon9"));
    assert_null(samba_isa_elsewhere("generic"));
    t = (told){0};
    need(samba_device_null.describe(&options, note, &t));
    assert_int_equal(t.facts, 1);
}

/* Intel and AMD have a name in /proc/cpuinfo, ARM has numbers. */
static void test_names(void **state)
{
    static const struct {
        const char *text, *name;
    } files[] = {
        {"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7B13\nmodel name\t: other\n", "AMD EPYC 7B13"},
        {"processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: "
         "1\n",
         "ARM Neoverse-N1"},
        {"CPU implementer\t: 0x61\nCPU part\t: 0x023\n\nCPU implementer\t: 0x61\nCPU part\t: 0x022\n", "Apple M1 Firestorm"},
        {"CPU implementer\t: 0x41\nCPU part\t: 0xfff\n", "ARM implementer 0x41 part 0xfff"},
        {"processor\t: 0\n", ""},
        {"", ""},
    };
    char path[96], name[64];
    snprintf(path, sizeof path, "%s/cpuinfo", folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(files[i].text, file) >= 0);
        assert_int_equal(fclose(file), 0);
        samba_processor_name_in(path, name, sizeof name);
        assert_string_equal(name, files[i].name);
    }
    samba_processor_name_in("/there/is/none", name, sizeof name);
    assert_string_equal(name, "");
}

TEST_MAIN(test_at_hand, test_caches, test_told, test_names)
