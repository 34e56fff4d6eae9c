/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder's weights: which names they have, since files of a bare model lack the first word of theirs and some heads have two
 * names; and their values as float32, as the graph's parameters are. */
#include "base/null.h"
#include "data/data.h"
#include "lm/lm.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

/* ---- names ---- */

static const samba_tensor *find(const samba_tensor_list *list, const char *first, const char *second, const char *third)
{
    char name[256];
    snprintf(name, sizeof name, "%s%s%s%s%s", first, first[0] && second[0] ? "." : "", second, second[0] || first[0] ? "." : "",
             third);
    for (int i = 0; i < list->count; i++)
        if (strcmp(samba_tensor_name(list->tensors[i]), name) == 0)
            return list->tensors[i];
    return NULL;
}

static samba_status look(samba_lm *lm, const samba_tensor_list *list)
{
    samba_lm_names *n = &lm->shape.names;
    const char *dot = strchr(n->model, '.'), *bare = dot ? dot + 1 : "";
    const samba_tensor *table = find(list, n->model, n->embedding, "weight");
    lm->has_weights = lm->float32 = true;
    lm->whole = n->model;
    if (!table && (table = find(list, bare, n->embedding, "weight")))
        n->model = bare;
    if (!table)
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT,
                          "the weights of \"%.300s\" have no tensor \"%s.%s.weight\", as those of model_type %s have", lm->folder,
                          n->model, n->embedding, lm->model_type);
    if (samba_tensor_rank(table) != 2 || samba_tensor_shape(table)[0] != lm->shape.vocab_size ||
        samba_tensor_shape(table)[1] != lm->shape.embedding_size)
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT,
                          "the weights of \"%.300s\" and its config.json differ: \"%s\" is expected to be %lld x %lld, given %s",
                          lm->folder, samba_tensor_name(table), (long long)lm->shape.vocab_size,
                          (long long)lm->shape.embedding_size, SAMBA_SHAPE(samba_tensor_rank(table), samba_tensor_shape(table)));
    if (!find(list, "", n->head, "weight") && find(list, "", "lm_head", "weight"))
        n->head = "lm_head"; /* what transformers calls a head that some files call embed_out */
    for (int i = 0; i < list->count; i++) {
        samba_dtype dtype = samba_tensor_dtype(list->tensors[i]);
        lm->float32 &= !samba_dtype_is_floating_point(dtype) || dtype == SAMBA_FLOAT32;
    }
    return SAMBA_OK;
}

/* A file may have a head although the config ties it to the embedding. transformers ties them where they are equal alone. */
static samba_status compare_head(samba_lm *lm)
{
    const samba_lm_names *n = &lm->shape.names;
    samba_tensor_list list;
    SAMBA_TRY(samba_weights_read(lm->context, lm->folder, &list));
    const samba_tensor *table = find(&list, n->model, n->embedding, "weight"), *head = find(&list, "", n->head, "weight");
    lm->shape.tied = table && head && table->dtype == head->dtype &&
                     samba_shape_equal(table->rank, table->shape, head->rank, head->shape) &&
                     memcmp(table->data, head->data, (size_t)samba_tensor_numel(table) * samba_dtype_size(table->dtype)) == 0;
    samba_tensor_list_free(lm->context, &list);
    return SAMBA_OK;
}

static bool is_other(const char *name)
{
    static const char *const begins[] = {"model", "pytorch_model", "tf_model", "flax_model", "consolidated"};
    static const char *const ends[] = {".safetensors", ".bin", ".bin.index.json", ".h5", ".msgpack", ".pth"};
    bool begun = false, ended = false;
    for (int i = 0; i < SAMBA_COUNT(begins); i++)
        begun |= strncmp(name, begins[i], strlen(begins[i])) == 0;
    for (int i = 0; i < SAMBA_COUNT(ends); i++)
        ended |= samba_ends_with(name, ends[i]);
    return begun && ended;
}

/* A folder whose weights are not read, in another format or in parts without their index, is none that starts from random
 * ones. */
static samba_status check_none(const samba_lm *lm)
{
    char first[NAME_MAX + 1] = "", shown[SAMBA_SHOWN];
    DIR *folder = opendir(lm->folder);
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (is_other(entry->d_name) && (!first[0] || strcmp(entry->d_name, first) < 0))
            snprintf(first, sizeof first, "%s", entry->d_name);
    if (folder)
        closedir(folder);
    return !first[0] ? SAMBA_OK
                     : samba_fail(lm->context, SAMBA_ERROR_UNSUPPORTED,
                                  "the folder \"%.300s\" has weights in \"%.100s\", and neither model.safetensors nor "
                                  "model.safetensors.index.json, which are read: save them so, in Python by "
                                  "AutoModelForCausalLM.from_pretrained(...).save_pretrained(...)",
                                  lm->folder, samba_shown(first, shown));
}

samba_status samba_lm_look_at_weights(samba_lm *lm)
{
    samba_tensor_list list;
    if (!samba_weights_exist(lm->folder))
        return check_none(lm);
    SAMBA_TRY(samba_weights_names(lm->context, lm->folder, &list));
    samba_status status = look(lm, &list);
    bool has_head = status == SAMBA_OK && find(&list, "", lm->shape.names.head, "weight");
    samba_tensor_list_free(lm->context, &list);
    return has_head && lm->shape.tied ? compare_head(lm) : status;
}

/* ---- values ---- */

samba_status samba_lm_read_weights(const samba_lm *lm, samba_tensor_list *list)
{
    return lm->gguf ? samba_lm_gguf_read(lm, list) : samba_weights_read(lm->context, lm->folder, list);
}

samba_status samba_lm_own_float32(samba_context *context, samba_tensor **tensor)
{
    samba_tensor *made = NULL;
    SAMBA_TRY(samba_tensor_new(context, samba_tensor_name(*tensor), SAMBA_FLOAT32, samba_tensor_rank(*tensor),
                               samba_tensor_shape(*tensor), &made));
    samba_status status = samba_tensor_copy(made, *tensor);
    samba_tensor_free(status == SAMBA_OK ? *tensor : made);
    *tensor = status == SAMBA_OK ? made : *tensor;
    return status;
}

/* Replaces a tensor of another floating-point dtype; drops one of integers, which masks of older files are. */
static samba_status convert(samba_context *context, samba_tensor **tensor)
{
    const samba_dtype dtype = samba_tensor_dtype(*tensor);
    if (samba_dtype_is_floating_point(dtype))
        return dtype == SAMBA_FLOAT32 ? SAMBA_OK : samba_lm_own_float32(context, tensor);
    samba_tensor_free(*tensor);
    *tensor = NULL;
    return SAMBA_OK;
}

samba_status samba_lm_weights(const samba_lm *lm, samba_tensor_list *list)
{
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, list);
    *list = (samba_tensor_list){0};
    if (!lm->has_weights)
        return samba_fail(lm->context, SAMBA_ERROR_STATE, "the folder \"%.300s\" has no weights", lm->folder);
    samba_tensor_list read;
    SAMBA_TRY(samba_lm_read_weights(lm, &read));
    samba_status status = SAMBA_OK;
    int kept = 0;
    for (int i = 0; i < read.count && status == SAMBA_OK; i++)
        status = convert(lm->context, &read.tensors[i]);
    for (int i = 0; i < read.count && status == SAMBA_OK; i++)
        kept += read.tensors[i] != NULL;
    if (status == SAMBA_OK)
        status = samba_tensor_list_new(lm->context, kept, list);
    kept = 0;
    for (int i = 0; i < read.count && status == SAMBA_OK; i++)
        if (read.tensors[i]) {
            list->tensors[kept++] = read.tensors[i];
            read.tensors[i] = NULL;
        }
    samba_tensor_list_free(lm->context, &read);
    return status;
}
