/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.json: an object of two members, "checkpoint" with everything and "hash", the checksum of that member written
 * compactly with its keys sorted. So people may read and indent the file, and a value that changed is noticed. A reader takes
 * nothing for granted all the same: each member must be there, of its kind and within its range.
 * 64-bit hashes and the seed are text, since JSON's readers round large numbers. */
#include "runtime/checkpoint.h"
#include "runtime/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const samba_checkpoint_roles[SAMBA_FILE_ROLES] = {"model", "optimizer", "program"};

/* ---- writing ---- */
/* JSON has no infinities. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_string(value > 0 ? "inf" : "-inf"); }

static json_t *pack_argins(const samba_manifest *manifest)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < manifest->argin_count; i++) {
        const samba_checkpoint_argin *argin = &manifest->argins[i];
        list = samba_json_append(
            list, json_pack("{s:s, s:o, s:b}", "name", argin->name, "value", number(argin->value), "given", argin->given));
    }
    return list;
}

static json_t *pack_graphs(const samba_manifest *manifest)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < manifest->graph_count; i++) {
        const samba_checkpoint_graph *graph = &manifest->graphs[i];
        list = samba_json_append(list, json_pack("{s:s, s:I, s:b}", "name", graph->name, "micro_step",
                                                 (json_int_t)graph->micro_step, "gradients_wait", graph->gradients_wait));
    }
    return list;
}

static json_t *pack_files(const samba_manifest *manifest)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < manifest->file_count; i++) {
        const samba_checkpoint_file *file = &manifest->files[i];
        char text[SAMBA_HEX64];
        list = samba_json_append(list,
                                 json_pack("{s:s, s:s, s:I, s:s}", "name", file->name, "role", samba_checkpoint_roles[file->role],
                                           "bytes", (json_int_t)file->facts.bytes, "hash", samba_hex64(file->facts.hash, text)));
    }
    return list;
}

samba_status samba_manifest_write(samba_context *context, const char *path, const samba_manifest *manifest)
{
    char seed[SAMBA_HEX64], hash[SAMBA_HEX64];
    if (manifest->text) { /* else it would look as if there were no memory */
        json_t *text = json_string(manifest->text);
        if (!text)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "the text of a checkpoint is not valid UTF-8");
        json_decref(text);
    }
    json_t *member = json_pack("{s:i, s:s, s:I, s:s, s:I, s:o, s:o, s:o, s:s?}", "format", SAMBA_CHECKPOINT_FORMAT, "name",
                               manifest->name, "step", (json_int_t)manifest->step, "seed", samba_hex64(manifest->seed, seed),
                               "forward_runs", (json_int_t)manifest->forward_runs, "graphs", pack_graphs(manifest),
                               "hyperparameters", pack_argins(manifest), "files", pack_files(manifest), "text", manifest->text);
    json_t *object = member && samba_json_hash(member, hash) ? json_pack("{s:s, s:O}", "hash", hash, "checkpoint", member) : NULL;
    json_decref(member);
    return samba_json_write(context, path, object);
}

/* ---- reading ---- */
typedef struct reader {
    samba_arena *arena;
    const char *path;
} reader;

static samba_status fail_damaged(const reader *r, const char *what)
{
    return samba_fail(r->arena->context, SAMBA_ERROR_FORMAT, "%s is damaged: %s", r->path, what);
}

static samba_status fail_member(const reader *r, const char *key)
{
    return samba_fail(r->arena->context, SAMBA_ERROR_FORMAT, "%s is damaged: its \"%s\" is missing or makes no sense", r->path,
                      key);
}

static samba_status read_text(const reader *r, const json_t *object, const char *key, const char **text)
{
    const char *found = json_string_value(json_object_get(object, key));
    *text = NULL;
    if (!found)
        return fail_member(r, key);
    *text = samba_arena_strdup(r->arena, found);
    return *text ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static samba_status read_count(const reader *r, const json_t *object, const char *key, int64_t *value)
{
    const json_t *found = json_object_get(object, key);
    *value = json_integer_value(found);
    return json_is_integer(found) && *value >= 0 ? SAMBA_OK : fail_member(r, key);
}

static samba_status read_flag(const reader *r, const json_t *object, const char *key, bool *value)
{
    const json_t *found = json_object_get(object, key);
    *value = json_is_true(found);
    return json_is_boolean(found) ? SAMBA_OK : fail_member(r, key);
}

static samba_status read_hex(const reader *r, const json_t *object, const char *key, uint64_t *value)
{
    const char *text = json_string_value(json_object_get(object, key));
    return samba_hex64_read(text, value) ? SAMBA_OK : fail_member(r, key);
}

static samba_status read_argin(const reader *r, const json_t *object, samba_checkpoint_argin *argin)
{
    const json_t *value = json_object_get(object, "value");
    const char *word = json_string_value(value);
    SAMBA_TRY(read_text(r, object, "name", &argin->name));
    SAMBA_TRY(read_flag(r, object, "given", &argin->given));
    argin->value = json_number_value(value);
    if (word && (strcmp(word, "inf") == 0 || strcmp(word, "-inf") == 0))
        argin->value = word[0] == '-' ? -INFINITY : INFINITY;
    else if (!json_is_number(value))
        return fail_member(r, "value");
    return SAMBA_OK;
}

static samba_status read_graph(const reader *r, const json_t *object, samba_checkpoint_graph *graph)
{
    SAMBA_TRY(read_text(r, object, "name", &graph->name));
    SAMBA_TRY(read_count(r, object, "micro_step", &graph->micro_step));
    return read_flag(r, object, "gradients_wait", &graph->gradients_wait);
}

/* A name that leads out of the folder is none. */
static samba_status read_file(const reader *r, const json_t *object, samba_checkpoint_file *file)
{
    const char *role;
    int64_t bytes;
    SAMBA_TRY(read_text(r, object, "name", &file->name));
    SAMBA_TRY(read_text(r, object, "role", &role));
    SAMBA_TRY(read_count(r, object, "bytes", &bytes));
    SAMBA_TRY(read_hex(r, object, "hash", &file->facts.hash));
    file->facts.bytes = (uint64_t)bytes;
    int i = 0;
    while (i < SAMBA_FILE_ROLES && strcmp(role, samba_checkpoint_roles[i]) != 0)
        i++;
    if (i == SAMBA_FILE_ROLES || strchr(file->name, '/') || strncmp(file->name, role, strlen(role)) != 0)
        return fail_member(r, "name");
    file->role = (samba_checkpoint_role)i;
    return SAMBA_OK;
}

static samba_status read_lists(const reader *r, const json_t *member, samba_manifest *manifest)
{
    const json_t *argins = json_object_get(member, "hyperparameters"), *files = json_object_get(member, "files"),
                 *graphs = json_object_get(member, "graphs");
    if (!json_is_array(argins) || !json_is_array(files) || !json_is_array(graphs))
        return fail_member(r, "files");
    manifest->argin_count = (int64_t)json_array_size(argins);
    manifest->file_count = (int64_t)json_array_size(files);
    manifest->graph_count = (int64_t)json_array_size(graphs);
    SAMBA_TRY(SAMBA_ROOM(r->arena, manifest->graphs, manifest->graph_count));
    SAMBA_TRY(SAMBA_ROOM(r->arena, manifest->argins, manifest->argin_count));
    SAMBA_TRY(SAMBA_ROOM(r->arena, manifest->files, manifest->file_count));
    for (int64_t i = 0; i < manifest->graph_count; i++)
        SAMBA_TRY(read_graph(r, json_array_get(graphs, (size_t)i), &manifest->graphs[i]));
    for (int64_t i = 0; i < manifest->argin_count; i++)
        SAMBA_TRY(read_argin(r, json_array_get(argins, (size_t)i), &manifest->argins[i]));
    for (int64_t i = 0; i < manifest->file_count; i++)
        SAMBA_TRY(read_file(r, json_array_get(files, (size_t)i), &manifest->files[i]));
    return SAMBA_OK;
}

static samba_status read_member(const reader *r, const json_t *object, samba_manifest *manifest)
{
    const json_t *member = json_object_get(object, "checkpoint"), *format = json_object_get(member, "format");
    const char *stated = json_string_value(json_object_get(object, "hash"));
    char found[SAMBA_HEX64];
    if (!json_is_integer(format) || !stated)
        return fail_damaged(r, "it is not what a checkpoint begins with");
    if (json_integer_value(format) != SAMBA_CHECKPOINT_FORMAT) /* said first: another format may have another checksum */
        return samba_fail(r->arena->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s is of format %lld and this library reads format %d: use the %s that wrote it", r->path,
                          (long long)json_integer_value(format), SAMBA_CHECKPOINT_FORMAT,
                          json_integer_value(format) > SAMBA_CHECKPOINT_FORMAT ? "newer library" : "older library");
    if (!samba_json_hash(member, found))
        return samba_fail(r->arena->context, SAMBA_ERROR_MEMORY, "no memory to read %s", r->path);
    if (strcmp(stated, found) != 0)
        return fail_damaged(r, "it has other values than were written, its checksum differs");
    SAMBA_TRY(read_text(r, member, "name", &manifest->name));
    SAMBA_TRY(read_count(r, member, "step", &manifest->step));
    SAMBA_TRY(read_hex(r, member, "seed", &manifest->seed));
    SAMBA_TRY(read_count(r, member, "forward_runs", &manifest->forward_runs));
    if (!json_is_null(json_object_get(member, "text")))
        SAMBA_TRY(read_text(r, member, "text", &manifest->text));
    return read_lists(r, member, manifest);
}

samba_status samba_manifest_read(samba_arena *arena, const char *path, samba_manifest *manifest)
{
    void *bytes;
    size_t size;
    json_error_t error;
    reader r = {arena, path};
    *manifest = (samba_manifest){0};
    SAMBA_TRY(samba_file_read(arena->context, path, &bytes, &size));
    json_t *object = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    samba_free(arena->context, bytes, size);
    if (!object && json_error_code(&error) == json_error_out_of_memory)
        return samba_fail(arena->context, SAMBA_ERROR_MEMORY, "no memory to read %s", path);
    samba_status status = object ? read_member(&r, object, manifest) : fail_damaged(&r, error.text);
    json_decref(object);
    return status;
}
