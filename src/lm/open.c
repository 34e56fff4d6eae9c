/* SPDX-License-Identifier: Apache-2.0
 *
 * A model from a folder: its config.json is read and described, and the names of its weights are looked at. Or from a GGUF file,
 * whose metadata is made a config.json. */
#include "lm/gguf.h"

#include <string.h>

static samba_status parse(samba_lm *lm, const char *path)
{
    void *data;
    size_t size;
    json_error_t error;
    SAMBA_TRY(samba_file_read(lm->context, path, &data, &size));
    char *text = samba_arena_alloc(&lm->arena, size + 1);
    if (text) {
        memcpy(text, data, size);
        lm->text = text, lm->size = size;
    }
    samba_free(lm->context, data, size);
    if (!text)
        return SAMBA_ERROR_MEMORY;
    lm->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!lm->json && json_error_code(&error) == json_error_out_of_memory)
        return samba_fail(lm->context, SAMBA_ERROR_MEMORY, "%s: no memory to read it", path);
    if (!lm->json)
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s: no valid JSON: %s in line %d", path, error.text, error.line);
    if (!json_is_object(lm->json))
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s: no JSON object", path);
    return SAMBA_OK;
}

/* The config as the text that a folder would have it in. */
static samba_status keep_text(samba_lm *lm)
{
    const size_t size = json_dumpb(lm->json, NULL, 0, JSON_INDENT(2));
    char *text;
    SAMBA_TRY(samba_arena_room(&lm->arena, size + 1, &text));
    lm->text = text, lm->size = size;
    if (size == 0 || json_dumpb(lm->json, text, size, JSON_INDENT(2)) != size)
        return samba_fail(lm->context, SAMBA_ERROR_MEMORY, "%s: no memory for its config", lm->folder);
    return SAMBA_OK;
}

static samba_status open_file(samba_lm *lm, const char *path)
{
    char *copy;
    SAMBA_TRY(samba_arena_copy(&lm->arena, path, &copy));
    lm->folder = copy;
    SAMBA_TRY(samba_gguf_open(lm->context, path, &lm->gguf));
    SAMBA_TRY(samba_lm_gguf_config(lm->gguf, &lm->gguf_kind, &lm->json));
    SAMBA_TRY(keep_text(lm));
    SAMBA_TRY(samba_lm_describe(lm, lm->folder));
    lm->has_weights = true;
    lm->whole = lm->shape.names.model;
    return samba_lm_gguf_check(lm);
}

static samba_status open_folder(samba_lm *lm, const char *folder)
{
    samba_text path;
    char *kept, *copy;
    SAMBA_TRY(samba_arena_copy(&lm->arena, folder, &copy));
    lm->folder = copy;
    samba_status status = samba_text_begin(&path, lm->context, "%s/config.json", folder);
    if (status == SAMBA_OK)
        status = samba_text_keep(&path, &lm->arena, &kept);
    samba_text_clear(&path);
    SAMBA_TRY(status);
    SAMBA_TRY(parse(lm, kept));
    SAMBA_TRY(samba_lm_describe(lm, kept));
    return samba_lm_look_at_weights(lm);
}

samba_status samba_lm_open(samba_context *context, const char *folder, samba_lm **lm)
{
    if (!context)
        return SAMBA_ERROR_ARGUMENT;
    if (!lm || !folder)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_lm_open: a folder and a place for the model are needed");
    *lm = NULL;
    samba_lm *made = samba_calloc(context, sizeof *made);
    if (!made)
        return SAMBA_ERROR_MEMORY;
    made->context = context;
    samba_arena_init(&made->arena, context);
    samba_status status = samba_gguf_is(folder) ? open_file(made, folder) : open_folder(made, folder);
    if (status != SAMBA_OK)
        samba_lm_free(made);
    else
        *lm = made;
    return status;
}

void samba_lm_free(samba_lm *lm)
{
    if (!lm)
        return;
    json_decref(lm->json);
    samba_gguf_free(lm->gguf);
    samba_arena_free(&lm->arena);
    samba_free(lm->context, lm, sizeof *lm);
}

samba_status samba_lm_get_info(const samba_lm *lm, samba_lm_info *info)
{
    if (!lm)
        return SAMBA_ERROR_ARGUMENT;
    if (!info)
        return samba_fail(lm->context, SAMBA_ERROR_ARGUMENT, "samba_lm_get_info: a place for the facts is needed");
    const samba_lm_shape *s = &lm->shape;
    *info = (samba_lm_info){.model_type = lm->model_type,
                            .vocab_size = s->vocab_size,
                            .hidden_size = s->hidden_size,
                            .num_layers = s->layers,
                            .num_heads = s->heads,
                            .num_key_value_heads = s->key_value_heads,
                            .head_dim = s->head_dim,
                            .max_positions = s->positions ? s->positions - s->position_offset : 0,
                            .has_weights = lm->has_weights,
                            .float32 = lm->float32};
    return SAMBA_OK;
}
