/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and loading. Opening reads every file once and compares size and checksum, so what is opened is whole. Loading reads
 * them again, one at a time, first to compare each tensor with the PEF, then to move them: what does not fit changes nothing, and
 * no more memory is taken than the largest file. */
#include "runtime/checkpoint.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct samba_checkpoint {
    samba_context *context;
    samba_arena arena; /* the path and the manifest */
    const char *path;
    samba_manifest manifest;
    samba_tensor_list tensors; /* the program's */
    samba_text skipped;
};

/* ---- opening ---- */
static bool is_there(const char *folder, const char *name)
{
    char path[4096];
    struct stat facts;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && stat(path, &facts) == 0;
}

/* Memory and message are the context's, which may be a session's. */
static samba_status read_file(samba_context *context, const samba_checkpoint *c, const samba_checkpoint_file *file,
                              samba_tensor_list *list)
{
    samba_text path;
    samba_status status = samba_text_begin(&path, context, "%s/%s", c->path, file->name);
    if (status == SAMBA_OK)
        status = samba_safetensors_read_known(context, path.data, &file->facts, list);
    if (status == SAMBA_ERROR_FILE && !is_there(c->path, file->name))
        status = samba_fail(context, SAMBA_ERROR_FORMAT, "\"%s\" is damaged: its file %s is missing", c->path, file->name);
    else if (status == SAMBA_ERROR_FORMAT) {
        char reason[768];
        snprintf(reason, sizeof reason, "%s", samba_error_message(context));
        status = samba_fail(context, SAMBA_ERROR_FORMAT, "\"%s\" is damaged: %s", c->path, reason);
    }
    samba_text_clear(&path);
    return status;
}

/* A folder without a manifest: one of checkpoints, a checkpoint that lost it, or any other. */
static samba_status fail_manifest(samba_checkpoint *c, const char *path)
{
    int64_t *steps, count;
    SAMBA_TRY(samba_checkpoint_steps(&c->arena, path, SAMBA_CHECKPOINT_WHOLE, &steps, &count));
    if (count > 0)
        return samba_fail(
            c->context, SAMBA_ERROR_FORMAT,
            "\"%s\" is no checkpoint: it is a folder of checkpoints. samba_checkpoint_newest opens the newest in it; "
            "samba_checkpoint_open takes one of them, such as its checkpoint-%lld",
            path, (long long)steps[0]);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "checkpoint-", strlen("checkpoint-")) == 0)
        return samba_fail(c->context, SAMBA_ERROR_FORMAT, "\"%s\" is damaged: its file " SAMBA_MANIFEST " is missing", path);
    return samba_fail(
        c->context, SAMBA_ERROR_FORMAT,
        "\"%s\" is no checkpoint, as it has no file " SAMBA_MANIFEST ": give a folder that samba_checkpoint_save wrote", path);
}

static samba_status open_all(samba_checkpoint *c, const char *path)
{
    samba_text name;
    struct stat facts;
    c->path = samba_arena_strdup(&c->arena, path);
    if (!c->path)
        return SAMBA_ERROR_MEMORY;
    if (stat(path, &facts) != 0)
        return samba_fail(c->context, SAMBA_ERROR_FILE, "there is no checkpoint \"%s\": %s", path, strerror(errno));
    if (!S_ISDIR(facts.st_mode))
        return samba_fail(c->context, SAMBA_ERROR_FILE,
                          "\"%s\" is no checkpoint, which is a folder: samba_session_load takes files of weights", path);
    if (!is_there(path, SAMBA_MANIFEST))
        return fail_manifest(c, path);
    samba_status status = samba_text_begin(&name, c->context, "%s/" SAMBA_MANIFEST, path);
    if (status == SAMBA_OK)
        status = samba_manifest_read(&c->arena, name.data, &c->manifest);
    samba_text_clear(&name);
    for (int64_t i = 0; status == SAMBA_OK && i < c->manifest.file_count; i++) {
        samba_tensor_list list;
        status = read_file(c->context, c, &c->manifest.files[i], &list);
        if (status == SAMBA_OK && c->manifest.files[i].role == SAMBA_FILE_PROGRAM && c->tensors.count == 0)
            c->tensors = list;
        else if (status == SAMBA_OK)
            samba_tensor_list_free(c->context, &list);
    }
    return status;
}

samba_status samba_checkpoint_open(samba_context *context, const char *path, samba_checkpoint **checkpoint)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, checkpoint);
    *checkpoint = NULL;
    if (!path || !path[0])
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_checkpoint_open was given no path");
    samba_checkpoint *fresh = samba_calloc(context, sizeof *fresh);
    if (!fresh)
        return SAMBA_ERROR_MEMORY;
    fresh->context = context;
    samba_arena_init(&fresh->arena, context);
    samba_text_init(&fresh->skipped, context);
    samba_status status = open_all(fresh, path);
    if (status == SAMBA_OK)
        *checkpoint = fresh;
    else
        samba_checkpoint_free(fresh);
    return status;
}

/* Tries the steps from the greatest on. Only what is damaged is passed over:
 * another failure, say of memory, might pass over what is whole. */
static samba_status try_steps(samba_context *context, const char *folder, int64_t count, const int64_t *steps,
                              samba_text *skipped, samba_checkpoint **checkpoint)
{
    for (int64_t i = 0; i < count; i++) {
        samba_text path;
        samba_status status = samba_checkpoint_name(&path, context, folder, steps[i], SAMBA_CHECKPOINT_WHOLE);
        if (status == SAMBA_OK)
            status = samba_checkpoint_open(context, path.data, checkpoint);
        samba_text_clear(&path);
        if (status != SAMBA_ERROR_FORMAT)
            return status;
        samba_text_add(skipped, "%s%s", skipped->length ? "; " : "", samba_error_message(context));
        SAMBA_TRY(skipped->status);
    }
    return count == 0
               ? SAMBA_OK
               : samba_fail(context, SAMBA_ERROR_FORMAT, "\"%.200s\" has no checkpoint that is whole: %s", folder, skipped->data);
}

samba_status samba_checkpoint_newest(samba_context *context, const char *folder, samba_checkpoint **checkpoint)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, checkpoint);
    samba_arena arena;
    samba_text skipped;
    int64_t *steps, count;
    *checkpoint = NULL;
    if (!folder || !folder[0])
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_checkpoint_newest was given no folder");
    samba_arena_init(&arena, context);
    samba_text_init(&skipped, context);
    samba_status status = samba_checkpoint_steps(&arena, folder, SAMBA_CHECKPOINT_WHOLE, &steps, &count);
    if (status == SAMBA_OK)
        status = try_steps(context, folder, count, steps, &skipped, checkpoint);
    if (*checkpoint)
        (*checkpoint)->skipped = skipped;
    else
        samba_text_clear(&skipped);
    samba_arena_free(&arena);
    return status;
}

void samba_checkpoint_free(samba_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    samba_tensor_list_free(checkpoint->context, &checkpoint->tensors);
    samba_text_clear(&checkpoint->skipped);
    samba_arena_free(&checkpoint->arena);
    samba_free(checkpoint->context, checkpoint, sizeof *checkpoint);
}

const char *samba_checkpoint_path(const samba_checkpoint *checkpoint) { return checkpoint ? checkpoint->path : ""; }
int64_t samba_checkpoint_step(const samba_checkpoint *checkpoint) { return checkpoint ? checkpoint->manifest.step : 0; }
const char *samba_checkpoint_text(const samba_checkpoint *checkpoint) { return checkpoint ? checkpoint->manifest.text : NULL; }
const samba_tensor_list *samba_checkpoint_tensors(const samba_checkpoint *checkpoint)
{
    return checkpoint ? &checkpoint->tensors : NULL;
}
uint64_t samba_checkpoint_seed(const samba_checkpoint *checkpoint) { return checkpoint ? checkpoint->manifest.seed : 0; }
const char *samba_checkpoint_skipped(const samba_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint->skipped.length ? checkpoint->skipped.data : "" : "";
}

/* ---- comparing with the PEF ---- */
typedef struct loader {
    samba_session *session;
    const samba_checkpoint *checkpoint;
    bool *seen; /* of the plan's tensors */
} loader;

/* Whether a checkpoint has this tensor of the plan: samba_checkpoint_save's choice, as the manifest has it. */
static bool belongs(const loader *l, int32_t index)
{
    int kind = l->session->plan.tensors[index].kind;
    bool gradients = false;
    for (int64_t i = 0; i < l->checkpoint->manifest.graph_count; i++)
        gradients = gradients || l->checkpoint->manifest.graphs[i].gradients_wait;
    return kind == SAMBA_KIND_PARAMETER || kind == SAMBA_KIND_BUFFER || (kind == SAMBA_KIND_GRADIENT && gradients);
}

static samba_status check_tensor(loader *l, const samba_tensor *tensor)
{
    samba_session *session = l->session;
    int32_t index = samba_names_find(&session->tensors, samba_tensor_name(tensor));
    int kind = index < 0 ? SAMBA_KIND_INPUT : session->plan.tensors[index].kind;
    if (kind == SAMBA_KIND_INPUT || kind == SAMBA_KIND_OUTPUT || l->seen[index])
        return samba_fail(
            session->context, SAMBA_ERROR_NAME,
            "\"%s\" is of graph \"%s\" and has a tensor \"%s\", which %s of graph \"%s\" does not have%s; nothing was loaded",
            l->checkpoint->path, l->checkpoint->manifest.name, samba_tensor_name(tensor), session->source, session->plan.name,
            index >= 0 && l->seen[index] ? " twice" : "");
    l->seen[index] = true;
    return samba_check_host_source(session, index, tensor, samba_kind_names[kind]);
}

static samba_status move_tensor(loader *l, const samba_tensor *tensor)
{
    return samba_transfer_in(l->session, samba_names_find(&l->session->tensors, samba_tensor_name(tensor)), tensor);
}

static samba_status for_each(loader *l, samba_status (*take)(loader *l, const samba_tensor *tensor))
{
    const samba_manifest *m = &l->checkpoint->manifest;
    samba_status status = SAMBA_OK;
    for (int64_t i = 0; status == SAMBA_OK && i < m->file_count; i++) {
        samba_tensor_list list;
        if (m->files[i].role == SAMBA_FILE_PROGRAM)
            continue;
        SAMBA_TRY(read_file(l->session->context, l->checkpoint, &m->files[i], &list));
        for (int k = 0; status == SAMBA_OK && k < list.count; k++)
            status = take(l, list.tensors[k]);
        samba_tensor_list_free(l->session->context, &list);
    }
    return status;
}

static samba_status check_missing(const loader *l)
{
    const samba_plan *plan = &l->session->plan;
    samba_words missing = {.used = 0};
    int count = 0;
    for (int32_t i = 0; i < plan->tensor_count; i++)
        if (belongs(l, i) && !l->seen[i]) {
            samba_words_add(&missing, plan->tensors[i].name);
            count++;
        }
    if (count == 0)
        return SAMBA_OK;
    return samba_fail(l->session->context, SAMBA_ERROR_NAME,
                      "\"%s\" is of graph \"%s\" and lacks %d tensors of graph \"%s\": %s; nothing was loaded",
                      l->checkpoint->path, l->checkpoint->manifest.name, count, plan->name, samba_words_text(&missing));
}

static int32_t find_argin(const samba_session *session, const char *name)
{
    int32_t i = 0;
    while (i < session->plan.argin_count && strcmp(session->plan.argins[i].name, name) != 0)
        i++;
    return i < session->plan.argin_count ? i : -1;
}

static samba_status check_manifest(const loader *l)
{
    const samba_manifest *m = &l->checkpoint->manifest;
    const samba_session *session = l->session;
    if (m->argin_count != session->plan.argin_count)
        return samba_fail(session->context, SAMBA_ERROR_NAME,
                          "\"%s\" is of graph \"%s\" with %lld hyperparameters and graph \"%s\" has %d; nothing was loaded",
                          l->checkpoint->path, m->name, (long long)m->argin_count, session->plan.name, session->plan.argin_count);
    for (int64_t i = 0; i < m->argin_count; i++) {
        samba_hyperparameter value = {m->argins[i].name, m->argins[i].value};
        SAMBA_TRY(samba_check_hyper(session, &value));
        if (find_argin(session, value.name) < 0)
            return samba_fail(session->context, SAMBA_ERROR_NAME,
                              "\"%s\" has a hyperparameter \"%.128s\" that graph \"%s\" does not have; nothing was loaded",
                              l->checkpoint->path, value.name, session->plan.name);
    }
    if (m->graph_count != session->plan.graph_count)
        return samba_fail(session->context, SAMBA_ERROR_NAME,
                          "\"%s\" is of a PEF with %lld graphs and this one has %d; nothing was loaded", l->checkpoint->path,
                          (long long)m->graph_count, session->plan.graph_count);
    for (int64_t i = 0; i < m->graph_count; i++) {
        const samba_plan_graph *graph = &session->plan.graphs[i];
        if (strcmp(m->graphs[i].name, graph->name) != 0)
            return samba_fail(session->context, SAMBA_ERROR_NAME,
                              "\"%s\" has a graph \"%.128s\" where this PEF has \"%.128s\"; nothing was loaded",
                              l->checkpoint->path, m->graphs[i].name, graph->name);
        if (m->graphs[i].micro_step > 0 && m->graphs[i].micro_step >= graph->grad_accumulation_steps)
            return samba_fail(session->context, SAMBA_ERROR_STATE,
                              "\"%s\" was saved after %lld runs of a step and this PEF has %d runs a step: compile with as many "
                              "as it was made with; nothing was loaded",
                              l->checkpoint->path, (long long)m->graphs[i].micro_step, graph->grad_accumulation_steps);
    }
    return SAMBA_OK;
}

/* ---- loading ---- */
static samba_status set_progress(samba_session *session, const samba_manifest *m)
{
    for (int64_t i = 0; i < m->argin_count; i++)
        SAMBA_TRY(samba_hyper_restore(session, find_argin(session, m->argins[i].name), m->argins[i].value, m->argins[i].given));
    session->seed = m->seed;
    session->forward_runs = m->forward_runs;
    session->state_loads++;
    for (int64_t i = 0; i < m->graph_count; i++) {
        samba_graph_state *graph = &session->graphs[i];
        graph->micro_step = m->graphs[i].micro_step;
        graph->backward_done = graph->gradients_wait = m->graphs[i].gradients_wait;
        graph->norm_known = false;
        graph->order = (samba_run_order){.spoiled = -1}; /* activations of before are of other weights */
    }
    return SAMBA_OK;
}

static samba_status load(samba_session *session, const samba_checkpoint *checkpoint)
{
    if (!checkpoint)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "samba_checkpoint_load was given no checkpoint but NULL, which samba_checkpoint_newest gives where a "
                          "folder has none: then train from the first step on");
    size_t size = (size_t)session->plan.tensor_count * sizeof(bool);
    loader l = {session, checkpoint, samba_calloc(session->context, size)};
    samba_status status = l.seen ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK)
        status = for_each(&l, check_tensor);
    if (status == SAMBA_OK)
        status = check_missing(&l);
    if (status == SAMBA_OK)
        status = check_manifest(&l);
    if (status == SAMBA_OK)
        status = for_each(&l, move_tensor);
    if (status == SAMBA_OK)
        status = set_progress(session, &checkpoint->manifest);
    samba_free(session->context, l.seen, size);
    return status;
}

samba_status samba_checkpoint_load(samba_session *session, const samba_checkpoint *checkpoint)
{
    SAMBA_TRY(samba_session_enter(session, "samba_checkpoint_load"));
    return samba_session_leave(session, load(session, checkpoint));
}
