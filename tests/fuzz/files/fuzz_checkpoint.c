/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a checkpoint: two lengths of two bytes, the "checkpoint" of its manifest and its files of tensors, the model's and the
 * optimizer's, of which the last has what is left. Checksums and lengths in the manifest are made right, so that what is behind
 * them is reached: the manifest's members, the files' tensors, and loading them into a session. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../pef/plans.h"
#include "files.h"
#include "runtime/checkpoint.h"
#include "runtime/runtime.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_file(const char *folder, const char *name, const void *data, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
}

static const char *hex(const void *bytes, size_t size, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, samba_hash(bytes, size, 0));
    return text;
}

enum { FILES = 2, HEAD = 2 * FILES };

typedef struct parts {
    const uint8_t *manifest, *files[FILES];
    size_t length, sizes[FILES];
} parts;

static size_t length_at(const uint8_t *data, int i, size_t most)
{
    const size_t length = data[2 * i] | (size_t)data[2 * i + 1] << 8;
    return length < most ? length : most;
}

static parts parts_of(const uint8_t *data, size_t size)
{
    parts p = {.manifest = data + HEAD};
    p.length = length_at(data, 0, size - HEAD);
    p.files[0] = p.manifest + p.length;
    p.sizes[0] = length_at(data, 1, size - HEAD - p.length);
    p.files[1] = p.files[0] + p.sizes[0];
    p.sizes[1] = size - HEAD - p.length - p.sizes[0];
    return p;
}

/* A name that a file of the folder may have, or NULL. */
static char *plain_name(const char *name)
{
    const bool plain =
        name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < 128 && strcmp(name, SAMBA_MANIFEST) != 0;
    return plain ? strdup(name) : NULL;
}

/* The manifest with the files' facts and a checksum that is right; NULL: the bytes are no JSON. */
static char *seal_manifest(const parts *p, char *names[FILES])
{
    char text[17];
    json_t *member = json_loadb((const char *)p->manifest, p->length, 0, NULL);
    for (int i = 0; i < FILES; i++) {
        json_t *file = json_array_get(json_object_get(member, "files"), (size_t)i);
        names[i] = json_is_object(file) ? plain_name(json_string_value(json_object_get(file, "name"))) : NULL;
        if (json_is_object(file)) {
            json_object_set_new(file, "bytes", json_integer((json_int_t)p->sizes[i]));
            json_object_set_new(file, "hash", json_string(hex(p->files[i], p->sizes[i], text)));
        }
    }
    char *compact = member ? json_dumps(member, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_t *object = compact ? json_pack("{s:s, s:O}", "hash", hex(compact, strlen(compact), text), "checkpoint", member) : NULL;
    char *dump = object ? json_dumps(object, 0) : NULL;
    json_decref(object);
    json_decref(member);
    free(compact);
    return dump;
}

static samba_session *new_session(samba_context *context)
{
    samba_plan plan;
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    make_train_plan(&plan, context, 4);
    if (samba_session_of_plan(context, &plan, plan.memory_bytes, "PEF", &options, &session) != SAMBA_OK)
        abort();
    return session;
}

static const char *folder_name(char folder[64])
{
    snprintf(folder, 64, "%s/samba-fuzz-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    return folder;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[64], path[512], *names[FILES];
    samba_context *context;
    samba_checkpoint *checkpoint;
    if (size < HEAD)
        return 0;
    const parts p = parts_of(data, size);
    char *manifest = seal_manifest(&p, names);
    mkdir(folder_name(folder), 0700);
    if (manifest)
        write_file(folder, SAMBA_MANIFEST, manifest, strlen(manifest));
    else
        write_file(folder, SAMBA_MANIFEST, data, size);
    for (int i = 0; i < FILES; i++)
        if (names[i])
            write_file(folder, names[i], p.files[i], p.sizes[i]);
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    if (samba_checkpoint_open(context, folder, &checkpoint) == SAMBA_OK) {
        samba_session *session = new_session(context);
        samba_fuzz_accepted += samba_checkpoint_load(session, checkpoint) == SAMBA_OK;
        samba_session_free(session);
        samba_checkpoint_free(checkpoint);
    }
    samba_context_free(context);
    snprintf(path, sizeof path, "%s/%s", folder, SAMBA_MANIFEST);
    unlink(path);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i] ? names[i] : SAMBA_MANIFEST);
        unlink(path);
        free(names[i]);
    }
    rmdir(folder);
    free(manifest);
    return 0;
}

static void set_length(uint8_t *data, int i, size_t length)
{
    data[2 * i] = (uint8_t)length;
    data[2 * i + 1] = (uint8_t)(length >> 8);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    enum { LONGEST = 0xffff };
    uint64_t state = seed;
    if (size < HEAD + 1 || samba_fuzz_next(&state) % 2 == 0)
        return LLVMFuzzerMutate(data, size, room);
    const parts p = parts_of(data, size); /* a part alone, its length with it */
    const int which = (int)(samba_fuzz_next(&state) % (1 + FILES));
    uint8_t *at = data + ((which == 0 ? p.manifest : p.files[which - 1]) - data);
    const size_t length = which == 0 ? p.length : p.sizes[which - 1], behind = size - (size_t)(at - data) - length;
    uint8_t *part = malloc(room);
    if (!part)
        abort();
    memcpy(part, at, length);
    const size_t most = room - (size - length) < LONGEST ? room - (size - length) : LONGEST;
    const size_t longer = LLVMFuzzerMutate(part, length < most ? length : most, most);
    memmove(at + longer, at + length, behind);
    memcpy(at, part, longer);
    set_length(data, 0, which == 0 ? longer : p.length);
    set_length(data, 1, which == 1 ? longer : p.sizes[0]);
    free(part);
    return size - length + longer;
}

/* ---- inputs to begin with: a checkpoint of the session's own ---- */
void samba_fuzz_seeds(const char *folder)
{
    char parent[64], path[512];
    samba_context *context;
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    samba_session *session = new_session(context);
    samba_checkpoint_options options = samba_checkpoint_defaults();
    samba_arena arena;
    samba_manifest manifest;
    json_error_t error;
    options.folder = folder_name(parent);
    samba_arena_init(&arena, context);
    if (samba_checkpoint_save(session, &options) != SAMBA_OK)
        fprintf(stderr, "%s\n", samba_error_message(context));
    snprintf(path, sizeof path, "%s/checkpoint-0/%s", parent, SAMBA_MANIFEST);
    json_t *object = json_load_file(path, 0, &error);
    char *member = json_dumps(json_object_get(object, "checkpoint"), JSON_COMPACT);
    if (samba_manifest_read(&arena, path, &manifest) != SAMBA_OK || manifest.file_count != FILES || !member)
        abort();
    size_t length = strlen(member), end = HEAD + length;
    uint8_t *bytes = malloc(end);
    if (!bytes)
        abort();
    memcpy(bytes + HEAD, member, length);
    set_length(bytes, 0, length);
    for (int i = 0; i < FILES; i++) {
        void *tensors;
        size_t size;
        snprintf(path, sizeof path, "%s/checkpoint-0/%s", parent, manifest.files[i].name);
        if (samba_file_read(context, path, &tensors, &size) != SAMBA_OK || !(bytes = realloc(bytes, end + size)))
            abort();
        memcpy(bytes + end, tensors, size);
        end += size;
        if (i == 0)
            set_length(bytes, 1, size);
        samba_free(context, tensors, size);
    }
    write_file(folder, "train", bytes, end);
    free(bytes);
    free(member);
    json_decref(object);
    samba_arena_free(&arena);
    samba_session_free(session);
    samba_context_free(context);
    snprintf(path, sizeof path, "rm -r %s", parent);
    if (system(path) != 0)
        fprintf(stderr, "%s failed\n", path);
}
