/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as Hugging Face's libraries keep them: one safetensors file, or several beside an index,
 * "model.safetensors.index.json", whose "weight_map" says which file has which tensor. A folder stands for what lies in it. The
 * tensors of all files become one list, in the files' own bytes.
 *
 * The index is no more trusted than a tensor file: it names files of its own folder, and what it says must be so. */
#include "data/data.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#define ONE "model.safetensors"
#define INDEX "model.safetensors.index.json"

typedef samba_status read_file(samba_context *context, const char *path, samba_tensor_list *list);

typedef struct shards {
    samba_context *context;
    samba_arena arena;
    const char *index;         /* its path */
    int folder;                /* bytes of it that are the folder, with the '/' */
    read_file *read;           /* one file */
    samba_tensor_visit *visit; /* NULL: the tensors are a list; else they are told one by one, and `read` gives names */
    void *user;
    json_t *json, *map;
    samba_tensor_list *files; /* their tensors, in the order in which the index names the files */
    const char **names;
    int file_count, tensor_count;
} shards;

static samba_status bad(const shards *s, const char *what, const char *name)
{
    return samba_fail(s->context, SAMBA_ERROR_FORMAT, "\"%s\" is no index of safetensors files: %s%.128s", s->index, what, name);
}

static samba_status parse(shards *s)
{
    samba_bytes *bytes;
    json_error_t error;
    SAMBA_TRY(samba_bytes_read(s->context, s->index, &bytes));
    s->json = json_loadb((const char *)bytes->data, bytes->size, 0, &error);
    samba_bytes_drop(bytes);
    if (!s->json)
        return bad(s, "", error.text);
    s->map = json_object_get(s->json, "weight_map");
    return json_is_object(s->map) ? SAMBA_OK : bad(s, "it has no object \"weight_map\"", "");
}

static samba_status add_file(shards *s, const char *tensor, const json_t *value)
{
    const char *name = json_string_value(value);
    if (!name)
        return bad(s, "it names no file for ", tensor);
    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return bad(s, "its files lie beside it, and it names ", name);
    for (int i = 0; i < s->file_count; i++)
        if (strcmp(s->names[i], name) == 0)
            return SAMBA_OK;
    s->names[s->file_count] = name;
    samba_text path;
    samba_status status = samba_text_begin(&path, s->context, "%.*s%s", s->folder, s->index, name);
    if (status == SAMBA_OK)
        status = s->read(s->context, path.data, &s->files[s->file_count]);
    samba_text_clear(&path);
    if (status == SAMBA_OK)
        s->tensor_count += s->files[s->file_count++].count;
    return status;
}

static samba_status read_files(shards *s)
{
    const char *tensor;
    json_t *value;
    size_t most = json_object_size(s->map) + 1;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->names, most));
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->files, most));
    json_object_foreach(s->map, tensor, value) SAMBA_TRY(add_file(s, tensor, value));
    return SAMBA_OK;
}

/* Every tensor lies in the file that the index says, and every one of a file is in the index. */
static samba_status check(const shards *s)
{
    for (int i = 0; i < s->file_count; i++)
        for (int k = 0; k < s->files[i].count; k++) {
            const char *name = samba_tensor_name(s->files[i].tensors[k]),
                       *file = json_string_value(json_object_get(s->map, name));
            if (!file || strcmp(file, s->names[i]) != 0)
                return samba_fail(s->context, SAMBA_ERROR_FORMAT,
                                  "\"%s\": %.128s has a tensor \"%.128s\", which the index says %s%.128s", s->index, s->names[i],
                                  name, file ? "lies in " : "nothing of", file ? file : "");
        }
    if ((size_t)s->tensor_count != json_object_size(s->map))
        return samba_fail(s->context, SAMBA_ERROR_FORMAT, "\"%s\" names %zu tensors, and its files have %d of them", s->index,
                          json_object_size(s->map), s->tensor_count);
    return SAMBA_OK;
}

static samba_status join(shards *s, samba_tensor_list *list)
{
    int count = 0;
    SAMBA_TRY(samba_tensor_list_new(s->context, s->tensor_count, list));
    for (int i = 0; i < s->file_count; i++)
        for (int k = 0; k < s->files[i].count; k++) {
            list->tensors[count++] = s->files[i].tensors[k];
            s->files[i].tensors[k] = NULL; /* the list's now */
        }
    return SAMBA_OK;
}

static samba_status visit_files(const shards *s)
{
    for (int i = 0; i < s->file_count; i++) {
        samba_text path;
        samba_status status = samba_text_begin(&path, s->context, "%.*s%s", s->folder, s->index, s->names[i]);
        if (status == SAMBA_OK)
            status = samba_safetensors_each(s->context, path.data, s->visit, s->user);
        samba_text_clear(&path);
        SAMBA_TRY(status);
    }
    return SAMBA_OK;
}

typedef struct how { /* tensors are read: to a list, or each told */
    read_file *read;
    samba_tensor_visit *visit;
    void *user;
} how;

static samba_status read_one(samba_context *context, const char *path, const how *way, samba_tensor_list *list)
{
    return way->visit ? samba_safetensors_each(context, path, way->visit, way->user) : way->read(context, path, list);
}

static samba_status read_index(samba_context *context, const char *path, const how *way, samba_tensor_list *list)
{
    const char *slash = strrchr(path, '/');
    shards s = {.context = context,
                .index = path,
                .folder = slash ? (int)(slash - path) + 1 : 0,
                .read = way->read,
                .visit = way->visit,
                .user = way->user};
    samba_arena_init(&s.arena, context);
    samba_status status = parse(&s);
    if (status == SAMBA_OK)
        status = read_files(&s);
    if (status == SAMBA_OK)
        status = check(&s);
    if (status == SAMBA_OK)
        status = s.visit ? visit_files(&s) : join(&s, list);
    for (int i = 0; i < s.file_count; i++)
        samba_tensor_list_free(context, &s.files[i]);
    json_decref(s.json);
    samba_arena_free(&s.arena);
    return status;
}

/* ---- folders ---- */
static samba_status read_folder(samba_context *context, const char *folder, const how *way, samba_tensor_list *list)
{
    static const char *const names[] = {INDEX, ONE};
    for (int i = 0; i < SAMBA_COUNT(names); i++) {
        struct stat facts;
        samba_text path;
        samba_text_init(&path, context);
        samba_text_add(&path, "%s/%s", folder, names[i]);
        bool found = path.status == SAMBA_OK && stat(path.data, &facts) == 0;
        samba_status status = !found   ? path.status
                              : i == 0 ? read_index(context, path.data, way, list)
                                       : read_one(context, path.data, way, list);
        samba_text_clear(&path);
        if (found || status != SAMBA_OK)
            return status;
    }
    return samba_fail(context, SAMBA_ERROR_FILE,
                      "the folder \"%.400s\" has neither " INDEX " nor " ONE ": give one that has, or a file of weights; of a "
                      "folder of checkpoints one of its checkpoint-<step>",
                      folder);
}

static samba_status read_any(samba_context *context, const char *path, const how *way, samba_tensor_list *list)
{
    static const char ending[] = ".index.json";
    struct stat facts;
    size_t length = strlen(path);
    *list = (samba_tensor_list){0};
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return read_folder(context, path, way, list);
    if (length >= sizeof ending && strcmp(path + length - (sizeof ending - 1), ending) == 0)
        return read_index(context, path, way, list);
    return read_one(context, path, way, list);
}

samba_status samba_weights_read(samba_context *context, const char *path, samba_tensor_list *list)
{
    return read_any(context, path, &(how){.read = samba_safetensors_read}, list);
}

samba_status samba_weights_names(samba_context *context, const char *path, samba_tensor_list *list)
{
    return read_any(context, path, &(how){.read = samba_safetensors_names}, list);
}

samba_status samba_weights_each(samba_context *context, const char *path, samba_tensor_visit *visit, void *user)
{
    samba_tensor_list none;
    return read_any(context, path, &(how){.read = samba_safetensors_names, .visit = visit, .user = user}, &none);
}

bool samba_weights_exist(const char *folder)
{
    char path[PATH_MAX + sizeof INDEX + 1];
    struct stat facts;
    snprintf(path, sizeof path, "%s/" INDEX, folder);
    bool found = stat(path, &facts) == 0;
    snprintf(path, sizeof path, "%s/" ONE, folder);
    return found || stat(path, &facts) == 0;
}
