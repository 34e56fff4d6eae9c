/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving: tensors are cut into files of at most a size, in the order of the PEF, and copied to the host a file at a time, so that
 * a save takes memory for one of them. The manifest comes last; then the folder gets its name, and only then older checkpoints
 * go.
 *
 * Parameter gradients belong to a checkpoint only while they wait for an optimizer step;
 * those of outputs, which the caller sets, always. */
#include "runtime/checkpoint.h"
#include "runtime/json.h"
#include "runtime/runtime.h"

#include <limits.h>

#define SHARD_SIZE INT64_C(5000000000) /* as Hugging Face's libraries cut */
#define MOST_FILES 99999               /* five digits */

samba_checkpoint_options samba_checkpoint_defaults(void)
{
    return (samba_checkpoint_options){.struct_size = sizeof(samba_checkpoint_options), .keep = 2};
}

typedef struct saver {
    samba_session *session;
    samba_context *context;
    const samba_checkpoint_options *options;
    samba_arena arena;
    samba_text folder;    /* "<folder>/checkpoint-<step>.tmp" */
    samba_tensor **batch; /* of one file; room for all tensors */
    samba_manifest manifest;
    int64_t file_room;
} saver;

typedef struct shard { /* what of a role lies in one file: count tensors from the first on that are of the role */
    int32_t first, count;
    int64_t bytes;
} shard;

/* ---- what is saved, and where ---- */
/* "<output>.grad": what the backward starts from. */
static bool is_output_gradient(const samba_session *session, const samba_plan_tensor *tensor)
{
    return samba_is_of(session, tensor, ".grad", SAMBA_KIND_OUTPUT);
}

static bool gradients_wait(const samba_session *session)
{
    bool wait = false;
    for (int32_t i = 0; i < session->plan.graph_count; i++)
        wait = wait || session->graphs[i].gradients_wait;
    return wait;
}

/* The role of the file that has this tensor; -1: none has. */
static int role_of(const samba_session *session, int32_t index)
{
    const samba_plan_tensor *tensor = &session->plan.tensors[index];
    switch ((samba_tensor_kind)tensor->kind) {
    case SAMBA_KIND_PARAMETER: return SAMBA_FILE_MODEL;
    case SAMBA_KIND_BUFFER: return tensor->role == SAMBA_ROLE_MODEL ? SAMBA_FILE_MODEL : SAMBA_FILE_OPTIMIZER;
    case SAMBA_KIND_GRADIENT: return gradients_wait(session) || is_output_gradient(session, tensor) ? SAMBA_FILE_OPTIMIZER : -1;
    case SAMBA_KIND_INPUT:
    case SAMBA_KIND_OUTPUT: break;
    }
    return -1;
}

static int64_t bytes_of(const samba_session *session, int32_t index)
{
    samba_tensor_info info;
    return samba_session_tensor_info(session, index, &info) == SAMBA_OK ? info.bytes : 0;
}

/* Shards of a role, one after the other; the weights have a file also where there are none. */
static samba_status cut(saver *s, samba_checkpoint_role role, shard **shards, int64_t *count)
{
    int64_t limit = s->options->shard_size ? s->options->shard_size : SHARD_SIZE;
    shard *found;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, found, (size_t)s->session->plan.tensor_count + 1));
    *shards = found;
    *count = 0;
    for (int32_t i = 0; i < s->session->plan.tensor_count; i++) {
        if (role_of(s->session, i) != (int)role)
            continue;
        int64_t bytes = bytes_of(s->session, i);
        if (*count == 0 || bytes > limit - found[*count - 1].bytes)
            found[(*count)++] = (shard){.first = i};
        found[*count - 1].count++;
        found[*count - 1].bytes += bytes;
    }
    if (*count == 0 && role == SAMBA_FILE_MODEL)
        *count = 1;
    if (*count > MOST_FILES)
        return samba_fail(s->context, SAMBA_ERROR_ARGUMENT,
                          "shard_size %lld cuts the %s into %lld files: give a size that makes at most %d", (long long)limit,
                          samba_checkpoint_roles[role], (long long)*count, MOST_FILES);
    return SAMBA_OK;
}

/* ---- files ---- */
/* "model.safetensors" of one, "model-00001-of-00003.safetensors" of several; in the arena. */
static char *file_name(saver *s, samba_checkpoint_role role, int64_t at, int64_t count)
{
    char name[64];
    if (count == 1)
        snprintf(name, sizeof name, "%s.safetensors", samba_checkpoint_roles[role]);
    else
        snprintf(name, sizeof name, "%s-%05lld-of-%05lld.safetensors", samba_checkpoint_roles[role], (long long)at + 1,
                 (long long)count);
    return samba_arena_strdup(&s->arena, name);
}

static samba_status write_file(saver *s, samba_checkpoint_role role, const char *name, int count, samba_tensor *const *tensors)
{
    static const char *const metadata[] = {"format", "pt", NULL}; /* "pt": what PyTorch's readers ask for */
    samba_text path;
    if (!name)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_text_begin(&path, s->context, "%s/%s", s->folder.data, name);
    if (status == SAMBA_OK)
        status = SAMBA_GROW(s->context, s->manifest.files, s->file_room, s->manifest.file_count + 1);
    if (status == SAMBA_OK) {
        samba_checkpoint_file *file = &s->manifest.files[s->manifest.file_count++];
        *file = (samba_checkpoint_file){.name = name, .role = role};
        status = samba_safetensors_write_known(s->context, path.data, count, tensors, metadata, &file->facts);
    }
    samba_text_clear(&path);
    return status;
}

static samba_status write_shard(saver *s, samba_checkpoint_role role, const char *name, const shard *part)
{
    int32_t count = 0;
    samba_status status = SAMBA_OK;
    for (int32_t i = part->first; status == SAMBA_OK && count < part->count; i++)
        if (role_of(s->session, i) == (int)role) {
            status = samba_session_copy(s->session, i, &s->batch[count]);
            count += status == SAMBA_OK;
        }
    if (status == SAMBA_OK)
        status = write_file(s, role, name, count, s->batch);
    for (int32_t i = 0; i < count; i++)
        samba_tensor_free(s->batch[i]);
    return status;
}

/* "model.safetensors.index.json": which file has which tensor. */
static samba_status write_index(saver *s, samba_checkpoint_role role, const shard *shards, int64_t count)
{
    int64_t total = 0;
    json_t *map = json_object();
    bool fine = map != NULL;
    for (int64_t k = 0; k < count; k++) {
        const char *name = file_name(s, role, k, count);
        fine = fine && name;
        total += shards[k].bytes;
        for (int32_t i = shards[k].first, left = shards[k].count; fine && left > 0; i++)
            if (role_of(s->session, i) == (int)role) {
                fine = json_object_set_new(map, s->session->plan.tensors[i].name, json_string(name)) == 0;
                left--;
            }
    }
    json_t *object = NULL;
    if (fine)
        object = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    json_decref(map);
    samba_text path;
    samba_text_init(&path, s->context);
    samba_text_add(&path, "%s/%s.safetensors.index.json", s->folder.data, samba_checkpoint_roles[role]);
    if (path.status != SAMBA_OK)
        json_decref(object);
    samba_status status = path.status == SAMBA_OK ? samba_json_write(s->context, path.data, object) : path.status;
    samba_text_clear(&path);
    return status;
}

static samba_status write_role(saver *s, samba_checkpoint_role role)
{
    shard *shards;
    int64_t count;
    SAMBA_TRY(cut(s, role, &shards, &count));
    for (int64_t i = 0; i < count; i++)
        SAMBA_TRY(write_shard(s, role, file_name(s, role, i, count), &shards[i]));
    return count > 1 ? write_index(s, role, shards, count) : SAMBA_OK;
}

static samba_status write_manifest(saver *s)
{
    const samba_session *session = s->session;
    samba_manifest *m = &s->manifest;
    m->name = session->plan.name;
    m->step = s->options->step;
    m->seed = session->seed;
    m->forward_runs = session->forward_runs;
    m->text = s->options->text;
    m->argin_count = session->plan.argin_count;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, m->argins, m->argin_count));
    m->graph_count = session->plan.graph_count;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, m->graphs, m->graph_count));
    for (int32_t i = 0; i < session->plan.graph_count; i++)
        m->graphs[i] = (samba_checkpoint_graph){session->plan.graphs[i].name, session->graphs[i].micro_step,
                                                session->graphs[i].gradients_wait};
    for (int32_t i = 0; i < session->plan.argin_count; i++)
        m->argins[i] = (samba_checkpoint_argin){session->plan.argins[i].name, session->argins[i].value, session->argins[i].given};
    samba_text path;
    samba_status status = samba_text_begin(&path, s->context, "%s/" SAMBA_MANIFEST, s->folder.data);
    if (status == SAMBA_OK)
        status = samba_manifest_write(s->context, path.data, m);
    samba_text_clear(&path);
    return status;
}

static samba_status write_all(saver *s)
{
    SAMBA_TRY(write_role(s, SAMBA_FILE_MODEL));
    SAMBA_TRY(write_role(s, SAMBA_FILE_OPTIMIZER));
    if (s->options->tensor_count > 0)
        SAMBA_TRY(write_file(s, SAMBA_FILE_PROGRAM, file_name(s, SAMBA_FILE_PROGRAM, 0, 1), s->options->tensor_count,
                             s->options->tensors));
    return write_manifest(s);
}

/* ---- the whole ---- */
static samba_status write_checkpoint(saver *s, const samba_checkpoint_folder *folder)
{
    int64_t step = s->options->step;
    SAMBA_TRY(samba_checkpoint_name(&s->folder, s->context, s->options->folder, step, SAMBA_CHECKPOINT_UNFINISHED));
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->batch, s->session->plan.tensor_count));
    SAMBA_TRY(samba_checkpoint_folder_begin(folder, step));
    samba_status status = write_all(s);
    if (status == SAMBA_OK)
        status = samba_checkpoint_folder_publish(folder, step);
    if (status != SAMBA_OK)
        samba_checkpoint_folder_abandon(folder, step);
    return status;
}

static samba_status check_options(samba_context *context, const samba_checkpoint_options *options)
{
    if (!options->folder || !options->folder[0])
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_checkpoint_save was given no folder");
    if (options->step < 0 || options->keep < 0 || options->shard_size < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "samba_checkpoint_save: step %lld, keep %d, shard_size %lld: none may be negative",
                          (long long)options->step, options->keep, (long long)options->shard_size);
    if (options->tensor_count < 0 || (options->tensor_count > 0 && !options->tensors))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_checkpoint_save: %d tensors: the count or the list is missing",
                          options->tensor_count);
    for (int i = 0; i < options->tensor_count; i++)
        if (!options->tensors[i])
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_checkpoint_save: tensor %d is NULL", i);
    return SAMBA_OK;
}

samba_status samba_checkpoint_prepare(samba_context *context, const char *folder)
{
    SAMBA_NEED(NULL, context);
    samba_checkpoint_folder opened;
    if (!folder || !folder[0])
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_checkpoint_prepare was given no folder");
    samba_status status = samba_checkpoint_folder_open(context, folder, &opened);
    samba_checkpoint_folder_close(&opened);
    return status;
}

static samba_status write_folder(samba_session *session, const samba_checkpoint_options *given)
{
    samba_context *context = session->context;
    samba_checkpoint_options options = samba_checkpoint_defaults();
    samba_checkpoint_folder folder;
    if (given)
        SAMBA_TRY(samba_options_take(context, "samba_checkpoint_save", given, sizeof options, &options));
    SAMBA_TRY(check_options(context, &options));
    saver s = {.session = session, .context = context, .options = &options};
    samba_arena_init(&s.arena, context);
    samba_text_init(&s.folder, context);
    samba_status status = samba_checkpoint_folder_open(context, options.folder, &folder);
    if (status == SAMBA_OK && options.keep > 0) /* a save that was interrupted before it removed the oldest has left one more */
        status = samba_checkpoint_folder_keep(&folder, options.step, options.keep + (options.keep < INT_MAX));
    if (status == SAMBA_OK)
        status = write_checkpoint(&s, &folder);
    if (status == SAMBA_OK && options.keep > 0)
        status = samba_checkpoint_folder_keep(&folder, options.step, options.keep);
    samba_checkpoint_folder_close(&folder);
    samba_free(context, s.manifest.files, (size_t)s.file_room * sizeof *s.manifest.files);
    samba_text_clear(&s.folder);
    samba_arena_free(&s.arena);
    return status;
}

static samba_status save(samba_session *session, const samba_checkpoint_options *given)
{
    bool writes = true;
    samba_status status = samba_save_begin(session, &writes);
    if (status == SAMBA_OK && writes)
        status = write_folder(session, given);
    return samba_save_end(session, status);
}

samba_status samba_checkpoint_save(samba_session *session, const samba_checkpoint_options *options)
{
    SAMBA_TRY(samba_session_enter(session, "samba_checkpoint_save"));
    return samba_session_leave(session, save(session, options));
}
