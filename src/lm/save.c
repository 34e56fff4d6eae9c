/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder that transformers loads: weights, then what goes with a model as files, and config.json last: what has it is whole.
 * The weights are float32, so config.json says so; all else in it is as it was read. */
#include "base/null.h"
#include "data/data.h"
#include "gguf/tokenizer.h"
#include "lm/lm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Files of the tokenizer and of generation, which are the same after training. */
static const char *const companions[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",      "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "generation_config.json",
};

static samba_status path_of(const samba_lm *lm, samba_text *path, const char *folder, const char *name)
{
    return samba_text_begin(path, lm->context, "%s/%s", folder, name);
}

static samba_status copy_file(const samba_lm *lm, const char *folder, const char *name)
{
    samba_text from, to;
    void *data = NULL;
    size_t size = 0;
    samba_text_init(&to, lm->context);
    samba_status status = path_of(lm, &from, lm->folder, name);
    bool there = status == SAMBA_OK && access(from.data, F_OK) == 0;
    if (there)
        status = path_of(lm, &to, folder, name);
    if (there && status == SAMBA_OK && !samba_file_same(from.data, to.data)) {
        status = samba_file_read(lm->context, from.data, &data, &size);
        if (status == SAMBA_OK) {
            const void *parts[] = {data};
            status = samba_file_write_atomic(lm->context, to.data, parts, &size, 1);
            samba_free(lm->context, data, size);
        }
    }
    samba_text_clear(&from);
    samba_text_clear(&to);
    return status;
}

static samba_status write_json(const samba_lm *lm, const char *folder, const char *name, const json_t *json)
{
    samba_text path;
    const size_t size = json_dumpb(json, NULL, 0, JSON_INDENT(2));
    char *block = samba_alloc(lm->context, size);
    const void *parts[] = {block};
    if (!block)
        return SAMBA_ERROR_MEMORY;
    samba_status status = path_of(lm, &path, folder, name);
    if (status == SAMBA_OK && (size == 0 || json_dumpb(json, block, size, JSON_INDENT(2)) != size))
        status = samba_fail(lm->context, SAMBA_ERROR_MEMORY, "no memory for the text of %s", name);
    if (status == SAMBA_OK)
        status = samba_file_write_atomic(lm->context, path.data, parts, &size, 1);
    samba_text_clear(&path);
    samba_free(lm->context, block, size);
    return status;
}

/* A GGUF file's tokenizer as the files of a folder. */
static samba_status write_tokenizer(const samba_lm *lm, const char *folder)
{
    json_t *tokenizer = NULL, *config = NULL;
    if (!samba_gguf_has_tokenizer(lm->gguf))
        return SAMBA_OK;
    samba_status status = samba_gguf_tokenizer_json(lm->gguf, &tokenizer);
    if (status == SAMBA_OK)
        status = samba_gguf_tokenizer_config(lm->gguf, &config);
    if (status == SAMBA_OK)
        status = write_json(lm, folder, "tokenizer.json", tokenizer);
    if (status == SAMBA_OK)
        status = write_json(lm, folder, "tokenizer_config.json", config);
    json_decref(tokenizer);
    json_decref(config);
    return status;
}

/* ---- config.json ---- */

/* Whether a key says another dtype than float32, which it does not from here on. */
static samba_status set_dtype(const samba_lm *lm, json_t *config, bool *changed)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    for (int i = 0; i < SAMBA_COUNT(keys); i++) {
        const char *dtype = json_string_value(json_object_get(config, keys[i]));
        if (!dtype || strcmp(dtype, "float32") == 0)
            continue;
        *changed = true;
        if (json_object_set_new(config, keys[i], json_string("float32")) != 0)
            return samba_fail(lm->context, SAMBA_ERROR_MEMORY, "no memory for the text of config.json");
    }
    return config ? SAMBA_OK : samba_fail(lm->context, SAMBA_ERROR_MEMORY, "no memory for the text of config.json");
}

static samba_status write_text(const samba_lm *lm, const char *folder, const char *text, size_t size)
{
    samba_text path;
    samba_status status = path_of(lm, &path, folder, "config.json");
    const void *parts[] = {text};
    if (status == SAMBA_OK)
        status = samba_file_write_atomic(lm->context, path.data, parts, &size, 1);
    samba_text_clear(&path);
    return status;
}

/* The text as it was read; with another dtype a new one, whose numbers are the same. */
static samba_status write_config(const samba_lm *lm, const char *folder)
{
    bool changed = false;
    char *block = NULL;
    json_t *config = json_copy(lm->json);
    samba_status status = set_dtype(lm, config, &changed);
    size_t size = changed ? json_dumpb(config, NULL, 0, JSON_INDENT(2)) : 0;
    if (status == SAMBA_OK && !changed)
        status = write_text(lm, folder, lm->text, lm->size);
    else if (status == SAMBA_OK && !(block = samba_alloc(lm->context, size)))
        status = SAMBA_ERROR_MEMORY;
    else if (status == SAMBA_OK)
        status = write_text(lm, folder, block, json_dumpb(config, block, size, JSON_INDENT(2)));
    if (block)
        samba_free(lm->context, block, size);
    json_decref(config);
    return status;
}

/* ---- the folder ---- */

static const samba_tensor *find(int count, samba_tensor *const *tensors, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(samba_tensor_name(tensors[i]), name) == 0)
            return tensors[i];
    return NULL;
}

/* The model's parameters among the tensors, whatever else is there. */
static samba_status choose_of(const samba_lm *lm, const samba_graph *graph, int count, samba_tensor *const *tensors,
                              samba_tensor **chosen)
{
    for (int64_t i = 0; i < samba_graph_parameter_count(graph); i++) {
        samba_parameter_info info;
        SAMBA_TRY(samba_graph_parameter(graph, i, &info));
        const samba_tensor *tensor = find(count, tensors, info.name);
        if (!tensor)
            return samba_fail(lm->context, SAMBA_ERROR_NAME, "the model has a parameter \"%s\", and no tensor is called so",
                              info.name);
        if (tensor->dtype != info.dtype || !samba_shape_equal(tensor->rank, tensor->shape, info.rank, info.shape))
            return samba_fail(lm->context, SAMBA_ERROR_SHAPE, "\"%s\" is expected to be %s %s, given %s %s", info.name,
                              samba_dtype_name(info.dtype), SAMBA_SHAPE(info.rank, info.shape), samba_dtype_name(tensor->dtype),
                              SAMBA_SHAPE(tensor->rank, tensor->shape));
        chosen[i] = (samba_tensor *)tensor;
    }
    return SAMBA_OK;
}

/* A graph of one token has the parameters of all graphs. */
static samba_status choose(const samba_lm *lm, samba_arena *arena, int count, samba_tensor *const *tensors,
                           samba_tensor ***chosen, int *chosen_count)
{
    samba_graph *graph = NULL;
    samba_status status = samba_lm_token_graph(lm, NULL, &graph);
    if (status == SAMBA_OK)
        status = samba_arena_room(arena, ((size_t)samba_graph_parameter_count(graph) + 1) * sizeof(samba_tensor *), chosen);
    if (status == SAMBA_OK)
        status = choose_of(lm, graph, count, tensors, *chosen);
    if (status == SAMBA_OK)
        *chosen_count = (int)samba_graph_parameter_count(graph);
    samba_graph_free(graph);
    return status;
}

static samba_status write_folder(const samba_lm *lm, int count, samba_tensor *const *tensors, const char *folder)
{
    static const char *const metadata[] = {"format", "pt", NULL}; /* transformers asks for it */
    samba_text path;
    SAMBA_TRY(samba_make_directories(lm->context, folder));
    samba_status status = path_of(lm, &path, folder, "model.safetensors");
    if (status == SAMBA_OK)
        status = samba_safetensors_write(lm->context, path.data, count, tensors, metadata);
    samba_text_clear(&path);
    for (int i = 0; i < SAMBA_COUNT(companions) && status == SAMBA_OK && !lm->gguf; i++)
        status = copy_file(lm, folder, companions[i]);
    if (status == SAMBA_OK)
        status = write_config(lm, folder);
    if (status != SAMBA_OK || !lm->gguf)
        return status;
    /* last: the weights, which may be those of a long training, are there whatever is said of a tokenizer */
    status = write_tokenizer(lm, folder);
    if (status == SAMBA_ERROR_UNSUPPORTED) {
        char reason[512];
        snprintf(reason, sizeof reason, "%s", samba_error_message(lm->context));
        status = samba_fail(lm->context, status, "\"%.200s\" was saved, but without a tokenizer: %s", folder, reason);
    }
    return status;
}

samba_status samba_lm_save_tensors(const samba_lm *lm, int count, samba_tensor *const *tensors, const char *folder)
{
    samba_tensor **chosen;
    samba_arena arena;
    int chosen_count = 0;
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, folder);
    SAMBA_NEED(lm->context, tensors || count == 0);
    samba_arena_init(&arena, lm->context);
    samba_status status = choose(lm, &arena, count, tensors, &chosen, &chosen_count);
    if (status == SAMBA_OK)
        status = write_folder(lm, chosen_count, chosen, folder);
    samba_arena_free(&arena);
    return status;
}

/* The session's parameters under the list's context. */
static samba_status gather(samba_session *session, samba_tensor **tensors, int *count)
{
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        SAMBA_TRY(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER)
            continue;
        SAMBA_TRY(samba_session_get_by_name(session, info.name, &tensors[*count]));
        ++*count;
    }
    return SAMBA_OK;
}

samba_status samba_lm_save(const samba_lm *lm, samba_session *session, const char *folder)
{
    samba_tensor **tensors;
    samba_arena arena;
    int count = 0;
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, session);
    SAMBA_NEED(lm->context, folder);
    samba_arena_init(&arena, lm->context);
    samba_status status = SAMBA_ROOM(&arena, tensors, samba_session_tensor_count(session) + 1);
    if (status == SAMBA_OK)
        status = gather(session, tensors, &count);
    if (status == SAMBA_OK)
        status = samba_lm_save_tensors(lm, count, tensors, folder);
    for (int i = 0; i < count; i++)
        samba_tensor_free(tensors[i]);
    samba_arena_free(&arena);
    return status;
}
