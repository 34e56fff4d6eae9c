/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a checkpoint: two bytes of length, the "checkpoint" of its manifest, and the bytes of one file of tensors. Checksums
 * and lengths are made right, so that what is behind them is reached:
 * the manifest's members, the file's tensors, and loading them into a session. */
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

/* The manifest with the file's facts and a checksum that is right; NULL: the bytes are no JSON. */
static char *seal_manifest(const uint8_t *data, size_t size, const uint8_t *tensors, size_t tensor_bytes, const char **name)
{
    char text[17];
    json_t *member = json_loadb((const char *)data, size, 0, NULL);
    json_t *file = json_array_get(json_object_get(member, "files"), 0);
    *name = NULL;
    if (json_is_object(file)) {
        json_object_set_new(file, "bytes", json_integer((json_int_t)tensor_bytes));
        json_object_set_new(file, "hash", json_string(hex(tensors, tensor_bytes, text)));
        *name = json_string_value(json_object_get(file, "name"));
    }
    char *compact = member ? json_dumps(member, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_t *object = compact ? json_pack("{s:s, s:O}", "hash", hex(compact, strlen(compact), text), "checkpoint", member) : NULL;
    char *dump = object ? json_dumps(object, 0) : NULL,
         *known = *name && !strchr(*name, '/') && **name != '.' && **name ? strdup(*name) : NULL;
    *name = known;
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
    char folder[64], path[512];
    const char *name;
    samba_context *context;
    samba_checkpoint *checkpoint;
    if (size < 2)
        return 0;
    size_t length = data[0] | (size_t)data[1] << 8;
    length = length < size - 2 ? length : size - 2;
    char *manifest = seal_manifest(data + 2, length, data + 2 + length, size - 2 - length, &name);
    mkdir(folder_name(folder), 0700);
    if (manifest)
        write_file(folder, SAMBA_MANIFEST, manifest, strlen(manifest));
    else
        write_file(folder, SAMBA_MANIFEST, data, size);
    bool written = name && strlen(name) < 128 && strcmp(name, SAMBA_MANIFEST) != 0;
    if (written)
        write_file(folder, name, data + 2 + length, size - 2 - length);
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    if (samba_checkpoint_open(context, folder, &checkpoint) == SAMBA_OK) {
        samba_session *session = new_session(context);
        (void)samba_checkpoint_load(session, checkpoint);
        samba_session_free(session);
        samba_checkpoint_free(checkpoint);
    }
    samba_context_free(context);
    snprintf(path, sizeof path, "%s/%s", folder, SAMBA_MANIFEST);
    unlink(path);
    if (written) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        unlink(path);
    }
    rmdir(folder);
    free(manifest);
    free((char *)(uintptr_t)name);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint64_t state = seed;
    if (size < 3 || samba_fuzz_next(&state) % 2 == 0)
        return LLVMFuzzerMutate(data, size, room);
    size_t length = data[0] | (size_t)data[1] << 8; /* a part alone, the length with it */
    length = length < size - 2 ? length : size - 2;
    uint8_t *part = malloc(room);
    if (!part)
        abort();
    memcpy(part, data + 2, length);
    size_t most = room - (size - length) < 65535 ? room - (size - length) : 65535, longer = LLVMFuzzerMutate(part, length, most);
    memmove(data + 2 + longer, data + 2 + length, size - 2 - length);
    memcpy(data + 2, part, longer);
    data[0] = (uint8_t)longer;
    data[1] = (uint8_t)(longer >> 8);
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
    void *tensors;
    size_t size;
    options.folder = folder_name(parent);
    samba_arena_init(&arena, context);
    if (samba_checkpoint_save(session, &options) != SAMBA_OK)
        fprintf(stderr, "%s\n", samba_error_message(context));
    snprintf(path, sizeof path, "%s/checkpoint-0/%s", parent, SAMBA_MANIFEST);
    json_t *object = json_load_file(path, 0, &error);
    char *member = json_dumps(json_object_get(object, "checkpoint"), JSON_COMPACT);
    if (samba_manifest_read(&arena, path, &manifest) != SAMBA_OK || manifest.file_count == 0 || !member)
        abort();
    snprintf(path, sizeof path, "%s/checkpoint-0/%s", parent, manifest.files[0].name);
    if (samba_file_read(context, path, &tensors, &size) != SAMBA_OK)
        abort();
    size_t length = strlen(member);
    uint8_t *bytes = malloc(2 + length + size);
    if (!bytes)
        abort();
    bytes[0] = (uint8_t)length;
    bytes[1] = (uint8_t)(length >> 8);
    memcpy(bytes + 2, member, length);
    memcpy(bytes + 2 + length, tensors, size);
    write_file(folder, "train", bytes, 2 + length + size);
    free(bytes);
    free(member);
    json_decref(object);
    samba_free(context, tensors, size);
    samba_arena_free(&arena);
    samba_session_free(session);
    samba_context_free(context);
    snprintf(path, sizeof path, "rm -r %s", parent);
    if (system(path) != 0)
        fprintf(stderr, "%s failed\n", path);
}
