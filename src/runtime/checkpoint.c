/* SPDX-License-Identifier: Apache-2.0
 *
 * A session as one file: safetensors with the names of PyTorch's state_dict, so weights travel both ways. With state they also
 * hold the optimizer's tensors and one of our own, "sambaflow.session": the seed and the number of forward runs, from which
 * dropout seeds are drawn; a run that resumes from it goes on as if it had never stopped. Micro-batches of an unfinished step are
 * not kept.
 *
 * Loading checks the whole file against the PEF before it changes anything. */
#include "plan/optimizers.h"
#include "runtime/runtime.h"

#include "data/data.h"
#include <string.h>

#define PROGRESS "sambaflow.session" /* int64 (2): seed, forward runs */

bool samba_is_of(const samba_session *session, const samba_plan_tensor *tensor, const char *ending, samba_tensor_kind kind)
{
    size_t length = strlen(tensor->name), after = strlen(ending), base = length - after;
    bool found = false;
    if (length <= after || strcmp(tensor->name + base, ending) != 0)
        return false;
    for (int32_t i = 0; i < session->plan.tensor_count && !found; i++) {
        const samba_plan_tensor *of = &session->plan.tensors[i];
        found = of->kind == (int32_t)kind && strncmp(of->name, tensor->name, base) == 0 && of->name[base] == '\0';
    }
    return found;
}

static bool is_saved(const samba_plan_tensor *tensor, bool with_state)
{
    return tensor->kind == SAMBA_KIND_PARAMETER ||
           (tensor->kind == SAMBA_KIND_BUFFER && (with_state || tensor->role == SAMBA_ROLE_MODEL));
}

/* ---- saving ---- */
static samba_status add_progress(samba_session *session, samba_tensor **tensor)
{
    SAMBA_TRY(samba_tensor_new(session->context, PROGRESS, SAMBA_INT64, 1, (const int64_t[]){2}, tensor));
    int64_t *progress = samba_tensor_data(*tensor);
    memcpy(&progress[0], &session->seed, sizeof session->seed);
    progress[1] = session->forward_runs;
    return SAMBA_OK;
}

static samba_status collect(samba_session *session, bool with_state, samba_tensor_list *list, int *count)
{
    for (int32_t i = 0; i < session->plan.tensor_count; i++)
        if (is_saved(&session->plan.tensors[i], with_state))
            SAMBA_TRY(samba_session_copy(session, i, &list->tensors[(*count)++]));
    return with_state ? add_progress(session, &list->tensors[(*count)++]) : SAMBA_OK;
}

static samba_status write_all(samba_session *session, const char *path, bool with_state)
{
    if (!path)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_save was given no path");
    samba_tensor_list list;
    int count = 0;
    SAMBA_TRY(samba_tensor_list_new(session->context, session->plan.tensor_count + 1, &list));
    samba_status status = collect(session, with_state, &list, &count);
    if (status == SAMBA_OK) {
        const char *const metadata[] = {"format", "pt", "graph", session->plan.name,
                                        NULL}; /* "pt": what PyTorch's readers ask for */
        status = samba_safetensors_write(session->context, path, count, list.tensors, metadata);
    }
    samba_tensor_list_free(session->context, &list);
    return status;
}

static samba_status save(samba_session *session, const char *path, bool with_state)
{
    bool writes = true;
    samba_status status = samba_save_begin(session, &writes);
    if (status == SAMBA_OK && writes)
        status = write_all(session, path, with_state);
    return samba_save_end(session, status);
}

samba_status samba_session_save(samba_session *session, const char *path, bool with_state)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_save"));
    return samba_session_leave(session, save(session, path, with_state));
}

/* ---- loading ---- */
static samba_tensor *find(const samba_tensor_list *list, const samba_names *names, const char *name)
{
    int32_t at = samba_names_find(names, name);
    return at < 0 ? NULL : list->tensors[at];
}

static samba_status check_progress(const samba_session *session, const samba_tensor *progress, const char *path)
{
    if (progress && (samba_tensor_dtype(progress) != SAMBA_INT64 || samba_tensor_numel(progress) != 2 ||
                     !samba_tensor_is_contiguous(progress)))
        return samba_fail(session->context, SAMBA_ERROR_FORMAT, "\"%s\": its tensor \"" PROGRESS "\" is not that of a checkpoint",
                          path);
    return SAMBA_OK;
}

/* A head of other classes under the old one's name: partial leaves out what is not given, and this was. */
static samba_status tell_partial(const samba_session *session, samba_status status)
{
    char said[512];
    if (status != SAMBA_ERROR_SHAPE)
        return status;
    snprintf(said, sizeof said, "%s", samba_error_message(session->context));
    return samba_fail(
        session->context, status,
        "%s. A partial load takes every tensor whose name the PEF has: give the layer another name in the model, or "
        "give the other tensors alone (samba_session_load_tensors)",
        said);
}

/* The name in the file that is a missing tensor's behind a prefix, "body.fc.weight" of "fc.weight"; NULL: there is none. */
static const char *prefixed(const samba_tensor_list *list, const char *missing)
{
    for (int i = 0; i < list->count; i++) {
        const char *name = samba_tensor_name(list->tensors[i]);
        if (samba_ends_with(name, missing) && name[strlen(name) - strlen(missing) - 1] == '.')
            return name;
    }
    return NULL;
}

static samba_status fail_lacking(const samba_session *session, const char *path, const char *name, const char *first, int count,
                                 samba_words *missing)
{
    if (name)
        return samba_fail(
            session->context, SAMBA_ERROR_NAME,
            "\"%s\" has \"%s\" where the PEF has \"%s\": give drop_prefix \"%.*s\"; nothing was loaded, for it lacks %d "
            "of the PEF's tensors: %s",
            path, name, first, (int)(strlen(name) - strlen(first)), name, count, samba_words_text(missing));
    return samba_fail(session->context, SAMBA_ERROR_NAME,
                      "\"%s\" lacks %d of the PEF's tensors: %s; nothing was loaded. Give weights of this model; a partial load "
                      "(samba_load_options, in Python strict=False) takes those that are there",
                      path, count, samba_words_text(missing));
}

/* All parameters and buffers must be there; state may be missing, but what is there must fit. */
static samba_status check_all(const samba_session *session, const char *path, const samba_tensor_list *list,
                              const samba_names *names, const samba_load_options *options)
{
    samba_words missing = {.used = 0};
    int missing_count = 0, found_count = 0;
    const char *first = NULL, *behind = NULL; /* of a missing one that the file has behind a prefix */
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        const samba_plan_tensor *tensor = &session->plan.tensors[i];
        if (!is_saved(tensor, true))
            continue;
        const samba_tensor *found = find(list, names, tensor->name);
        if (found) {
            const char *what = tensor->kind == SAMBA_KIND_PARAMETER ? "parameter" : "buffer";
            const samba_status status = samba_check_host_source(session, i, found, what);
            SAMBA_TRY(options->partial ? tell_partial(session, status) : status);
            found_count++;
        } else if (tensor->role == SAMBA_ROLE_MODEL) {
            samba_words_add(&missing, tensor->name);
            if (!behind && (behind = prefixed(list, tensor->name)))
                first = tensor->name;
            missing_count++;
        }
    }
    if (options->loaded)
        *options->loaded = found_count;
    if (options->partial && missing_count > 0 && found_count == 0 && !behind)
        return samba_fail(session->context, SAMBA_ERROR_NAME, "\"%s\" has none of the PEF's %d tensors: %s; nothing was loaded",
                          path, missing_count, samba_words_text(&missing));
    if (missing_count > 0 && (!options->partial || found_count == 0))
        return fail_lacking(session, path, behind, first, missing_count, &missing);
    return check_progress(session, find(list, names, PROGRESS), path);
}

static samba_status load_all(samba_session *session, const samba_tensor_list *list, const samba_names *names)
{
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        const samba_tensor *found =
            is_saved(&session->plan.tensors[i], true) ? find(list, names, session->plan.tensors[i].name) : NULL;
        if (found)
            SAMBA_TRY(samba_transfer_in(session, i, found));
    }
    const samba_tensor *progress = find(list, names, PROGRESS);
    if (progress) {
        session->state_loads++;
        const int64_t *values = samba_tensor_data(progress);
        memcpy(&session->seed, &values[0], sizeof session->seed);
        session->forward_runs = values[1];
    }
    for (int32_t i = 0; i < session->plan.graph_count; i++)
        session->graphs[i].micro_step = 0;
    return SAMBA_OK;
}

typedef struct named { /* what an index of names takes: the name first */
    const char *name;
} named;

/* Without what the options say that it begins with. */
static const char *name_of(const samba_tensor *tensor, const samba_load_options *options)
{
    const char *name = samba_tensor_name(tensor);
    const size_t length = options->drop_prefix ? strlen(options->drop_prefix) : 0;
    return length > 0 && strncmp(name, options->drop_prefix, length) == 0 ? name + length : name;
}

static samba_status load_list(samba_session *session, const char *path, const samba_tensor_list *list,
                              const samba_load_options *options)
{
    size_t size = (size_t)list->count * sizeof(named);
    named *items = samba_alloc(session->context, size);
    if (!items)
        return SAMBA_ERROR_MEMORY;
    for (int i = 0; i < list->count; i++)
        items[i].name = name_of(list->tensors[i], options);
    samba_names names;
    int32_t duplicate = -1;
    samba_status status = samba_names_build(&names, session->context, items, sizeof *items, list->count, &duplicate);
    if (status == SAMBA_OK && duplicate >= 0)
        status = samba_fail(session->context, SAMBA_ERROR_NAME, "\"%s\" has two tensors \"%.200s\"; nothing was loaded", path,
                            items[duplicate].name);
    if (status == SAMBA_OK)
        status = check_all(session, path, list, &names, options);
    if (status == SAMBA_OK)
        status = load_all(session, list, &names);
    samba_names_free(&names);
    samba_free(session->context, items, size);
    return status;
}

samba_load_options samba_load_defaults(void) { return (samba_load_options){.struct_size = sizeof(samba_load_options)}; }

static samba_status take_options(samba_session *session, const char *call, const samba_load_options *given,
                                 samba_load_options *options)
{
    *options = samba_load_defaults();
    return given ? samba_options_take(session->context, call, given, sizeof *given, options) : SAMBA_OK;
}

static samba_status load(samba_session *session, const char *path, const samba_load_options *given)
{
    samba_load_options options;
    SAMBA_TRY(take_options(session, "samba_session_load_with", given, &options));
    if (!path)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_load was given no path");
    samba_tensor_list list = {.count = 0};
    SAMBA_TRY(samba_weights_read(session->context, path, &list));
    samba_status status = load_list(session, path, &list, &options);
    samba_tensor_list_free(session->context, &list);
    return status;
}

samba_status samba_session_load(samba_session *session, const char *path)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_load"));
    return samba_session_leave(session, load(session, path, NULL));
}

samba_status samba_session_load_with(samba_session *session, const char *path, const samba_load_options *options)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_load_with"));
    return samba_session_leave(session, load(session, path, options));
}

static samba_status load_tensors(samba_session *session, int count, samba_tensor *const *tensors, const samba_load_options *given)
{
    static const char *const call = "samba_session_load_tensors";
    samba_load_options options;
    SAMBA_TRY(take_options(session, call, given, &options));
    if (count < 0 || (count > 0 && !tensors))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "%s was given %d tensors that are not there", call, count);
    for (int i = 0; i < count; i++)
        if (!tensors[i] || !samba_tensor_name(tensors[i]))
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "%s: tensor %d is NULL or has no name", call, i);
    const samba_tensor_list list = {.count = count, .tensors = (samba_tensor **)(uintptr_t)tensors};
    return load_list(session, call, &list, &options);
}

samba_status samba_session_load_tensors(samba_session *session, int count, samba_tensor *const *tensors,
                                        const samba_load_options *options)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_load_tensors"));
    return samba_session_leave(session, load_tensors(session, count, tensors, options));
}
