/* SPDX-License-Identifier: Apache-2.0
 *
 * A device and the choices of a tune file: see tune.h. Whatever is wrong with a file, of whatever making, the session is what it
 * would be without it, and says why in one warning. */
#include "runtime/tune.h"

#include <string.h>
#include <unistd.h>

/* ---- the machine ---- */

static void hash_text(uint64_t *hash, const char *text) { *hash = samba_hash(text, strlen(text) + 1, *hash); }

/* Texts that people know a machine by stand in the file; all else, but for counts that no choice hangs on, is in the hash. */
static void note_fact(void *to, const samba_device_fact *fact)
{
    samba_tune_machine *machine = to;
    int cache;
    if (strcmp(fact->group, "processor") == 0 && strcmp(fact->name, "name") == 0) {
        snprintf(machine->processor, sizeof machine->processor, "%s", fact->text);
    } else if (strcmp(fact->group, "processor") == 0 && strcmp(fact->name, "isa") == 0) {
        snprintf(machine->isa, sizeof machine->isa, "%s", fact->text);
    } else if (sscanf(fact->group, "cache%d", &cache) == 1 && cache >= 1 && cache <= SAMBA_TUNE_CACHES) {
        if (strcmp(fact->name, "bytes") == 0)
            machine->caches[cache - 1] = (int64_t)fact->number;
    } else if (strcmp(fact->name, "processors") != 0 && strcmp(fact->name, "nodes") != 0 && strcmp(fact->name, "isas") != 0) {
        hash_text(&machine->figures, fact->group);
        hash_text(&machine->figures, fact->name);
        hash_text(&machine->figures, fact->text ? fact->text : "");
        machine->figures = samba_hash(&fact->number, sizeof fact->number, machine->figures);
    }
}

samba_status samba_tune_machine_find(samba_context *context, const samba_device *device, int threads, samba_tune_machine *machine)
{
    const samba_device_options options = {.context = context, .threads = threads, .isa = device->isa};
    *machine = (samba_tune_machine){.threads = threads};
    return device->interface->describe(&options, note_fact, machine);
}

/* ---- a session's file ---- */

samba_status samba_tune_file(samba_arena *arena, const char *pef, const char *asked, const char **file)
{
    if (asked) {
        *file = samba_arena_strdup(arena, asked);
        return *file ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    }
    size_t size = strlen(pef) + sizeof SAMBA_TUNE_ENDING;
    char *path = samba_arena_alloc(arena, size);
    if (!path)
        return SAMBA_ERROR_MEMORY;
    snprintf(path, size, "%s%s", pef, SAMBA_TUNE_ENDING);
    *file = access(path, F_OK) == 0 ? path : SAMBA_TUNE_OFF;
    return SAMBA_OK;
}

static samba_status give_choices(samba_context *context, samba_arena *arena, samba_device *device, const samba_plan *plan,
                                 int threads, const char *file, samba_tuned *tuned)
{
    samba_tune tune;
    samba_tune_machine machine;
    const samba_choice **choices = NULL;
    SAMBA_TRY(samba_tune_read(arena, file, &tune));
    SAMBA_TRY(samba_tune_machine_find(context, device, threads, &machine));
    SAMBA_TRY(samba_tune_check(context, file, &tune, plan->hash, plan->stage_count, &machine));
    SAMBA_TRY(SAMBA_ROOM(arena, choices, plan->stage_count));
    for (int32_t i = 0; i < tune.count; i++)
        choices[tune.choices[i].stage] = &tune.choices[i].choice;
    samba_status status = device->interface->choose(device, plan, choices);
    if (status == SAMBA_ERROR_ARGUMENT) {
        char why[384];
        snprintf(why, sizeof why, "%s", samba_error_message(context));
        return samba_fail(context, status, "\"%.200s\": choices: %s", file, why);
    }
    SAMBA_TRY(status);
    tuned->path = file;
    tuned->count = tune.count;
    tuned->choices = choices;
    return SAMBA_OK;
}

samba_status samba_tune_begin(samba_context *context, samba_arena *arena, samba_device *device, const samba_plan *plan,
                              int threads, const char *file, samba_tuned *tuned)
{
    *tuned = (samba_tuned){.path = NULL};
    if (!file || strcmp(file, SAMBA_TUNE_OFF) == 0 || !device->interface->choose)
        return SAMBA_OK;
    samba_status status = give_choices(context, arena, device, plan, threads, file, tuned);
    if (status == SAMBA_OK || status == SAMBA_ERROR_MEMORY)
        return status;
    snprintf(tuned->warning, sizeof tuned->warning, "not tuned: %s", samba_error_message(context));
    return SAMBA_OK;
}

void samba_tune_settle(const samba_device *device, samba_tuned *tuned)
{
    if (!tuned->path || !device->unfit[0])
        return;
    snprintf(tuned->warning, sizeof tuned->warning, "not tuned: \"%.200s\": choices: %s", tuned->path, device->unfit);
    tuned->path = NULL;
    tuned->count = 0;
    tuned->choices = NULL;
}
