/* SPDX-License-Identifier: Apache-2.0
 *
 * PEF.tune: a JSON object of two members, "tune" with everything and "hash", the checksum of that member written compactly with
 * its keys sorted, as checkpoint.json has it: people read and compare such files, and a value that changed is noticed. A reader
 * takes nothing for granted all the same: every object has the members that it should have and no others, each of its kind and
 * within its range. Whether a choice is one that the device offers, the device says.
 *
 * Messages name the file, the field, what was expected and what was given. */
#include "runtime/tune.h"
#include "runtime/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- writing ---- */

static json_t *pack_figures(const samba_choice *choice)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < choice->figure_count; i++)
        list = samba_json_append(list, json_pack("{s:s, s:s, s:f}", "group", choice->figures[i].group, "name",
                                                 choice->figures[i].name, "value", choice->figures[i].value));
    return list;
}

static json_t *pack_choices(const samba_tune *tune)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < tune->count; i++) {
        const samba_tune_choice *choice = &tune->choices[i];
        list = samba_json_append(list, json_pack("{s:i, s:s?, s:f, s:o}", "stage", choice->stage, "road", choice->choice.road,
                                                 "gain", choice->gain, "figures", pack_figures(&choice->choice)));
    }
    return list;
}

static json_t *pack_machine(const samba_tune_machine *machine)
{
    char figures[SAMBA_HEX64];
    json_t *caches = json_array();
    for (int i = 0; i < SAMBA_TUNE_CACHES; i++)
        caches = samba_json_append(caches, json_integer((json_int_t)machine->caches[i]));
    return json_pack("{s:s, s:s, s:i, s:o, s:s}", "processor", machine->processor, "isa", machine->isa, "threads",
                     machine->threads, "caches", caches, "figures", samba_hex64(machine->figures, figures));
}

samba_status samba_tune_write(samba_context *context, const char *path, const samba_tune *tune)
{
    char plan[SAMBA_HEX64], hash[SAMBA_HEX64];
    json_t *member = json_pack("{s:i, s:s, s:i, s:o, s:o}", "format", SAMBA_TUNE_FORMAT, "plan", samba_hex64(tune->plan, plan),
                               "stages", tune->stages, "machine", pack_machine(&tune->machine), "choices", pack_choices(tune));
    json_t *object = member && samba_json_hash(member, hash) ? json_pack("{s:s, s:O}", "hash", hash, "tune", member) : NULL;
    json_decref(member);
    return samba_json_write(context, path, object);
}

/* ---- reading ---- */

typedef struct reader {
    samba_arena *arena;
    const char *path;
    char field[96]; /* of the object at hand, with a dot behind: "choices[3]." */
} reader;

static samba_status fail(const reader *r, const char *key, const char *expected, const json_t *given)
{
    char *shown = given ? json_dumps(given, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    samba_status status = samba_fail(r->arena->context, SAMBA_ERROR_FORMAT, "\"%.200s\": %s%s: expected %s, given %.64s", r->path,
                                     r->field, key, expected, shown ? shown : "nothing");
    free(shown);
    return status;
}

/* An object of so many members. */
static samba_status need_object(const reader *r, const char *key, const json_t *object, size_t members)
{
    char expected[48];
    snprintf(expected, sizeof expected, "an object of %zu members", members);
    return json_is_object(object) && json_object_size(object) == members ? SAMBA_OK : fail(r, key, expected, object);
}

static samba_status read_integer(const reader *r, const json_t *object, const char *key, int64_t low, int64_t high,
                                 int64_t *value)
{
    char expected[80];
    const json_t *found = json_object_get(object, key);
    *value = json_integer_value(found);
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low, high);
    return json_is_integer(found) && *value >= low && *value <= high ? SAMBA_OK : fail(r, key, expected, found);
}

static samba_status read_real(const reader *r, const json_t *object, const char *key, double high, double *value)
{
    char expected[64];
    const json_t *found = json_object_get(object, key);
    *value = json_number_value(found);
    snprintf(expected, sizeof expected, "a number from 0 to %g", high);
    return json_is_number(found) && *value >= 0 && *value <= high ? SAMBA_OK : fail(r, key, expected, found);
}

/* A text of at most so many bytes. */
static samba_status read_text(const reader *r, const json_t *object, const char *key, size_t most, const char **text)
{
    char expected[64];
    const json_t *found = json_object_get(object, key);
    const char *value = json_string_value(found);
    snprintf(expected, sizeof expected, "a text of at most %zu bytes", most);
    *text = NULL;
    if (!value || strlen(value) > most)
        return fail(r, key, expected, found);
    *text = samba_arena_strdup(r->arena, value);
    return *text ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static samba_status read_hex(const reader *r, const json_t *object, const char *key, uint64_t *value)
{
    const json_t *found = json_object_get(object, key);
    const char *text = json_string_value(found);
    return samba_hex64_read(text, value) ? SAMBA_OK : fail(r, key, "16 hexadecimal digits", found);
}

static samba_status read_machine(reader *r, const json_t *tune, samba_tune_machine *machine)
{
    const json_t *object = json_object_get(tune, "machine"), *caches = json_object_get(object, "caches");
    const char *processor, *isa;
    int64_t threads;
    SAMBA_TRY(need_object(r, "machine", object, 5));
    snprintf(r->field, sizeof r->field, "machine.");
    SAMBA_TRY(read_text(r, object, "processor", sizeof machine->processor - 1, &processor));
    SAMBA_TRY(read_text(r, object, "isa", sizeof machine->isa - 1, &isa));
    SAMBA_TRY(read_integer(r, object, "threads", 1, INT32_MAX, &threads));
    SAMBA_TRY(read_hex(r, object, "figures", &machine->figures));
    snprintf(machine->processor, sizeof machine->processor, "%s", processor);
    snprintf(machine->isa, sizeof machine->isa, "%s", isa);
    machine->threads = (int32_t)threads;
    if (json_array_size(caches) != SAMBA_TUNE_CACHES)
        return fail(r, "caches", "a list of 3 sizes", caches);
    for (size_t i = 0; i < SAMBA_TUNE_CACHES; i++) {
        const json_t *cache = json_array_get(caches, i);
        machine->caches[i] = json_integer_value(cache);
        if (!json_is_integer(cache) || machine->caches[i] < 0)
            return fail(r, "caches", "sizes of 0 or more bytes", cache);
    }
    r->field[0] = '\0';
    return SAMBA_OK;
}

static samba_status read_figures(reader *r, const json_t *object, samba_choice *choice)
{
    const json_t *list = json_object_get(object, "figures");
    char place[sizeof r->field - 24];
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > SAMBA_CHOICE_FIGURES)
        return fail(r, "figures", "a list of at most 4", list);
    snprintf(place, sizeof place, "%.60s", r->field);
    for (size_t i = 0; i < count; i++) {
        const json_t *figure = json_array_get(list, i);
        samba_choice_figure *to = &choice->figures[i];
        snprintf(r->field, sizeof r->field, "%sfigures[%zu]", place, i);
        SAMBA_TRY(need_object(r, "", figure, 3));
        snprintf(r->field, sizeof r->field, "%sfigures[%zu].", place, i);
        SAMBA_TRY(read_text(r, figure, "group", 32, &to->group));
        SAMBA_TRY(read_text(r, figure, "name", 32, &to->name));
        SAMBA_TRY(read_real(r, figure, "value", 0x1p53, &to->value));
        choice->figure_count++;
    }
    return SAMBA_OK;
}

static samba_status read_choice(reader *r, const json_t *object, int64_t least, int32_t stages, samba_tune_choice *choice)
{
    int64_t stage;
    SAMBA_TRY(read_integer(r, object, "stage", least, (int64_t)stages - 1, &stage));
    choice->stage = (int32_t)stage;
    SAMBA_TRY(read_real(r, object, "gain", 1, &choice->gain));
    if (!json_object_get(object, "road"))
        return fail(r, "road", "a text or null", NULL);
    if (!json_is_null(json_object_get(object, "road")))
        SAMBA_TRY(read_text(r, object, "road", 32, &choice->choice.road));
    return read_figures(r, object, &choice->choice);
}

static samba_status read_choices(reader *r, const json_t *object, samba_tune *tune)
{
    const json_t *list = json_object_get(object, "choices");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > (size_t)tune->stages)
        return fail(r, "choices", "a list of at most one a stage", list);
    SAMBA_TRY(SAMBA_ROOM(r->arena, tune->choices, count));
    for (size_t i = 0; i < count; i++) {
        snprintf(r->field, sizeof r->field, "choices[%zu]", i);
        SAMBA_TRY(need_object(r, "", json_array_get(list, i), 4));
        snprintf(r->field, sizeof r->field, "choices[%zu].", i);
        tune->choices[i] = (samba_tune_choice){.stage = 0};
        SAMBA_TRY(
            read_choice(r, json_array_get(list, i), i > 0 ? tune->choices[i - 1].stage + 1 : 0, tune->stages, &tune->choices[i]));
        tune->count++;
    }
    r->field[0] = '\0';
    return SAMBA_OK;
}

static samba_status read_tune(reader *r, const json_t *object, samba_tune *tune)
{
    const json_t *member = json_object_get(object, "tune"), *stated = json_object_get(object, "hash");
    int64_t format, stages;
    char found[SAMBA_HEX64];
    SAMBA_TRY(need_object(r, "the file", object, 2));
    if (!json_is_object(member))
        return fail(r, "tune", "an object", member);
    SAMBA_TRY(read_integer(r, member, "format", 1, INT32_MAX, &format));
    if (format != SAMBA_TUNE_FORMAT) /* said first: another format may have another checksum */
        return samba_fail(r->arena->context, SAMBA_ERROR_UNSUPPORTED, "\"%.200s\": format: expected %d, given %" PRId64, r->path,
                          SAMBA_TUNE_FORMAT, format);
    if (!samba_json_hash(member, found))
        return samba_fail(r->arena->context, SAMBA_ERROR_MEMORY, "no memory to read \"%.200s\"", r->path);
    if (!json_is_string(stated) || strcmp(json_string_value(stated), found) != 0)
        return fail(r, "hash", found, stated);
    SAMBA_TRY(need_object(r, "tune", member, 5));
    SAMBA_TRY(read_hex(r, member, "plan", &tune->plan));
    SAMBA_TRY(read_integer(r, member, "stages", 0, INT32_MAX, &stages));
    tune->stages = (int32_t)stages;
    SAMBA_TRY(read_machine(r, member, &tune->machine));
    return read_choices(r, member, tune);
}

static samba_status read_bytes(reader *r, const void *bytes, size_t size, samba_tune *tune)
{
    json_error_t error;
    json_t *object = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!object && json_error_code(&error) == json_error_out_of_memory)
        return samba_fail(r->arena->context, SAMBA_ERROR_MEMORY, "no memory to read \"%.200s\"", r->path);
    samba_status status =
        object ? read_tune(r, object, tune)
               : samba_fail(r->arena->context, SAMBA_ERROR_FORMAT,
                            "\"%.200s\": line %d: expected JSON, given something else: %.120s", r->path, error.line, error.text);
    json_decref(object);
    return status;
}

samba_status samba_tune_read(samba_arena *arena, const char *path, samba_tune *tune)
{
    void *bytes;
    size_t size;
    struct stat facts;
    reader r = {.arena = arena, .path = path};
    *tune = (samba_tune){.count = 0};
    if (stat(path, &facts) == 0 && facts.st_size > SAMBA_TUNE_LARGEST_FILE)
        return samba_fail(arena->context, SAMBA_ERROR_FORMAT, "\"%.200s\": size: expected at most %d bytes, given %lld", path,
                          SAMBA_TUNE_LARGEST_FILE, (long long)facts.st_size);
    SAMBA_TRY(samba_file_read(arena->context, path, &bytes, &size));
    samba_status status = read_bytes(&r, bytes, size, tune);
    samba_free(arena->context, bytes, size);
    return status;
}

/* ---- does it fit? ---- */

static samba_status differs_text(samba_context *context, const char *path, const char *field, const char *expected,
                                 const char *given)
{
    return samba_fail(context, SAMBA_ERROR_STATE, "\"%.200s\": %s: expected %.64s, given %.64s", path, field, expected, given);
}

static samba_status differs(samba_context *context, const char *path, const char *field, int64_t expected, int64_t given)
{
    return samba_fail(context, SAMBA_ERROR_STATE, "\"%.200s\": %s: expected %" PRId64 ", given %" PRId64, path, field, expected,
                      given);
}

samba_status samba_tune_check(samba_context *context, const char *path, const samba_tune *tune, uint64_t plan, int32_t stages,
                              const samba_tune_machine *machine)
{
    const samba_tune_machine *given = &tune->machine;
    char expected[SAMBA_HEX64], found[SAMBA_HEX64], field[48];
    if (tune->plan != plan)
        return differs_text(context, path, "plan", samba_hex64(plan, expected), samba_hex64(tune->plan, found));
    if (tune->stages != stages)
        return differs(context, path, "stages", stages, tune->stages);
    if (strcmp(given->processor, machine->processor) != 0)
        return differs_text(context, path, "machine.processor", machine->processor, given->processor);
    if (strcmp(given->isa, machine->isa) != 0)
        return differs_text(context, path, "machine.isa", machine->isa, given->isa);
    if (given->threads != machine->threads)
        return differs(context, path, "machine.threads", machine->threads, given->threads);
    for (int i = 0; i < SAMBA_TUNE_CACHES; i++) {
        snprintf(field, sizeof field, "machine.caches[%d]", i);
        if (given->caches[i] != machine->caches[i])
            return differs(context, path, field, machine->caches[i], given->caches[i]);
    }
    if (given->figures != machine->figures)
        return differs_text(context, path, "machine.figures", samba_hex64(machine->figures, expected),
                            samba_hex64(given->figures, found));
    return SAMBA_OK;
}
