/* SPDX-License-Identifier: Apache-2.0
 *
 * How the work of real models lies on the threads of twelve described machines, by arithmetic: no stage is run. The greatest
 * share that a thread gets, over the mean, stays within bounds, and what blocks hold fits the caches that it is meant for.
 *
 *   test_load [--table | --stages] PEF...
 *
 * --table prints, for each machine and model, that share, barriers and bytes from core to core of a step; --stages also the
 * stages that cost most by it. */
#include "harness.h"
#include "machines.h"
#include "device/cpu/load.h"

enum { MOST_MODELS = 16, WORST = 12 };
static const char *models[MOST_MODELS];
static int model_count;
static bool table, stages;

typedef struct bound { /* of the greatest share over the mean */
    const char *model;
    double most;
} bound;
static const bound bounds[] = {{"gpt2-124m", 1.1}, {"resnet18-32px", 1.25}, {"resnet18-224px", 1.25}};

static double bound_of(const char *model)
{
    for (int i = 0; i < LENGTH(bounds); i++)
        if (strcmp(bounds[i].model, model) == 0)
            return bounds[i].most;
    return INFINITY;
}

static void name_of(const char *path, char name[64])
{
    const char *last = strrchr(path, '/');
    snprintf(name, 64, "%.*s", (int)strcspn(last ? last + 1 : path, "."), last ? last + 1 : path);
}

static void print_worst(const samba_plan *plan, const samba_load *load)
{
    double before = INFINITY;
    for (int n = 0; n < WORST; n++) {
        int32_t worst = -1;
        double most = 0;
        for (int32_t i = 0; i < plan->stage_count; i++) {
            double lost = load->stages[i].slowest - load->stages[i].mean;
            if (lost > most && lost < before) {
                most = lost;
                worst = i;
            }
        }
        if (worst < 0)
            return;
        before = most;
        const samba_stage_load *s = &load->stages[worst];
        int alike = 0;
        for (int32_t i = 0; i < plan->stage_count; i++)
            alike += load->stages[i].slowest - load->stages[i].mean == most;
        print_message("    %5.1f %% lost, %6.2f of the mean, %9.1f us, %5lld units, %2d alike: %d %s %.60s\n",
                      alike * 100 * most / load->mean, s->slowest / s->mean, s->slowest / 1e3, (long long)s->units, alike, worst,
                      s->road ? s->road : samba_stage_kind_names[plan->stages[worst].kind], plan->stages[worst].name);
    }
}

/* The largest block of each kind beside its cache; how many do not fit. */
static int check_held(const samba_cpu_machine *machine, const samba_plan *plan, const samba_load *load, bool print)
{
    int too_large = 0;
    const samba_held *largest[64];
    int kinds = 0;
    for (int32_t i = 0; i < plan->stage_count; i++)
        for (int k = 0; k < load->stages[i].held_count; k++) {
            const samba_held *held = &load->stages[i].held[k];
            int at = 0;
            while (at < kinds && strcmp(largest[at]->what, held->what) != 0)
                at++;
            if (at == kinds)
                largest[kinds++] = held;
            largest[at] = held->bytes > largest[at]->bytes ? held : largest[at];
            bool fits = held->bytes <= machine->cache[held->cache - 1].bytes;
            too_large += !fits;
        }
    for (int i = 0; i < kinds && print; i++)
        print_message("    %8.1f of %7.0f KiB, cache %d: %s%s\n", (double)largest[i]->bytes / 1024,
                      (double)machine->cache[largest[i]->cache - 1].bytes / 1024, largest[i]->cache, largest[i]->what,
                      largest[i]->bytes <= machine->cache[largest[i]->cache - 1].bytes ? "" : "  TOO LARGE");
    return too_large;
}

static int uneven, too_large;

static void look(const described_machine *described, const char *path)
{
    samba_cpu_machine machine;
    described_kernels room;
    samba_plan plan;
    samba_load load;
    samba_arena arena;
    char name[64];
    describe_machine(described, &room, &machine);
    samba_arena_init(&arena, context);
    need(samba_pef_read(context, path, &plan));
    need(samba_cpu_load(context, &machine, described->threads, &plan, &arena, &load));
    name_of(path, name);
    double share = load.slowest / load.mean;
    bool even = share <= bound_of(name);
    uneven += !even;
    if (table || !even)
        print_message("  %-16s %6.3f%s  %4lld barriers, %9.2f MB from core to core, %10.1f us\n", name, share, even ? " " : "!",
                      (long long)load.barriers, load.bytes / 1e6, load.slowest / 1e3);
    if (stages)
        print_worst(&plan, &load);
    too_large += check_held(&machine, &plan, &load, stages);
    samba_plan_free(&plan);
    samba_arena_free(&arena);
}

TEST(test_described_machines)
{
    for (int i = 0; i < DESCRIBED_MACHINES; i++) {
        print_message("%s\n", described_machines[i].name);
        for (int k = 0; k < model_count; k++)
            look(&described_machines[i], models[k]);
    }
    assert_int_equal(uneven, 0);
    assert_int_equal(too_large, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_described_machines)};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--table") == 0)
            table = true;
        else if (strcmp(argv[i], "--stages") == 0)
            table = stages = true;
        else if (model_count < MOST_MODELS)
            models[model_count++] = argv[i];
    }
    return cmocka_run_group_tests(tests, harness_begin, harness_end);
}
