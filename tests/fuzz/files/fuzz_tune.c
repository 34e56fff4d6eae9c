/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a tune file: the "tune" member of one, whose checksum is made right, and whose plan and machine, where it has such
 * members, become those at hand, so that its choices are reached. A session of a plan with stages of all kinds is made with it,
 * and runs: it is tuned, or says why it is not. What is no JSON is the file as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../pef/plans.h"
#include "files.h"
#include "runtime/runtime.h"

#include <jansson.h>
#include <unistd.h>

static samba_session *new_session(samba_context *context, const char *tune)
{
    samba_plan plan;
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    options.tune = tune;
    make_zoo_plan(&plan, context);
    if (samba_session_of_plan(context, &plan, plan.memory_bytes, "PEF", &options, &session) != SAMBA_OK) {
        fprintf(stderr, "a tune file leaves no session: %s\n", samba_error_message(context));
        abort();
    }
    return session;
}

static const char *file_name(char path[64])
{
    snprintf(path, 64, "%s/samba-fuzz-%d.tune", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    return path;
}

/* A file of this plan and machine with the choices of that session's stages. */
static void write_fitting(samba_session *session, const char *path, int32_t count, samba_tune_choice *choices)
{
    samba_tune tune = {.plan = session->plan.hash, .stages = session->plan.stage_count, .count = count, .choices = choices};
    if (samba_tune_machine_find(session->context, session->device, session->threads, &tune.machine) != SAMBA_OK ||
        samba_tune_write(session->context, path, &tune) != SAMBA_OK)
        abort();
}

/* The member with this plan and machine and a right checksum, as a file; takes it. */
static void write_sealed(json_t *member, const char *path)
{
    char hash[17];
    json_error_t error;
    json_t *fitting = json_load_file(path, 0, &error), *its = json_object_get(fitting, "tune");
    static const char *const facts[] = {"plan", "stages", "machine"};
    for (int i = 0; i < SAMBA_COUNT(facts); i++)
        if (json_object_get(member, facts[i]))
            json_object_set(member, facts[i], json_object_get(its, facts[i]));
    char *compact = json_dumps(member, JSON_COMPACT | JSON_SORT_KEYS);
    if (!compact)
        abort();
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)samba_hash(compact, strlen(compact), 0));
    json_t *object = json_pack("{s:s, s:o}", "hash", hash, "tune", member);
    if (!object || json_dump_file(object, path, 0) != 0)
        abort();
    json_decref(object);
    json_decref(fitting);
    free(compact);
}

static void write_bytes(const uint8_t *data, size_t size, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    samba_context *context;
    samba_tuning told;
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    file_name(path);
    json_t *member = json_loadb((const char *)data, size, 0, NULL);
    if (member) {
        samba_session *plain = new_session(context, NULL);
        write_fitting(plain, path, 0, NULL);
        samba_session_free(plain);
        write_sealed(member, path);
    } else {
        write_bytes(data, size, path);
    }
    samba_session *session = new_session(context, path);
    if (samba_session_tuning(session, &told) != SAMBA_OK || !told.path != (told.warning != NULL)) {
        fprintf(stderr, "a session is neither tuned nor says why\n");
        abort();
    }
    samba_fuzz_accepted += told.path != NULL;
    (void)samba_run(session, NULL);
    samba_session_free(session);
    samba_context_free(context);
    unlink(path);
    return 0;
}

/* A number or word that is another one, as often as any bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static const char *const words[] = {
        "0",       "1",        "2",         "7",        "-1",          "1e308",      "0.5",
        "null",    "[]",       "{}",        "\"\"",     "true",        "\"blocks\"", "\"panel\"",
        "\"row\"", "\"fold\"", "\"block\"", "\"step\"", "\"product\"", "4294967296", "\"depthwise\""};
    uint64_t state = seed;
    if (size < 3 || samba_fuzz_next(&state) % 2 == 0)
        return LLVMFuzzerMutate(data, size, room);
    const char *word = words[samba_fuzz_next(&state) % SAMBA_COUNT(words)];
    size_t at = samba_fuzz_next(&state) % size, end = at, length = strlen(word);
    while (at > 0 && !strchr(":,[{", data[at - 1]))
        at--;
    while (end < size && !strchr(",]}:", data[end]))
        end++;
    if (end < at || size - (end - at) + length > room)
        return LLVMFuzzerMutate(data, size, room);
    memmove(data + at + length, data + end, size - end);
    memcpy(data + at, word, length);
    return size - (end - at) + length;
}

/* ---- inputs to begin with: every choice that the stages have, each stage's in turn ---- */

static void write_seed(const char *folder, int number, const char *path)
{
    char name[512];
    json_error_t error;
    json_t *object = json_load_file(path, 0, &error);
    char *member = json_dumps(json_object_get(object, "tune"), JSON_COMPACT);
    snprintf(name, sizeof name, "%s/choices-%d", folder, number);
    if (!member)
        abort();
    write_bytes((const uint8_t *)member, strlen(member), name);
    json_decref(object);
    free(member);
}

void samba_fuzz_seeds(const char *folder)
{
    enum { ROOM = 128, SEEDS = 4 };
    char path[64];
    samba_context *context;
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    file_name(path);
    samba_session *session = new_session(context, NULL);
    for (int number = 0; number < SEEDS; number++) {
        samba_choice list[ROOM];
        samba_tune_choice choices[MOST];
        int32_t chosen = 0, count;
        for (int32_t i = 0; i < session->plan.stage_count; i++) {
            if (session->device->interface->alternatives(session->device, i, ROOM, list, &count) != SAMBA_OK)
                abort();
            if (count > 0)
                choices[chosen++] =
                    (samba_tune_choice){.stage = i, .gain = 0.1, .choice = list[number * (count - 1) / (SEEDS - 1)]};
        }
        write_fitting(session, path, chosen, choices);
        write_seed(folder, number, path);
    }
    samba_session_free(session);
    samba_context_free(context);
    unlink(path);
}
