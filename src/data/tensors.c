/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of tensors, and reading one by the file's ending. A list owns its array and one hold on each tensor; where a slot was not
 * filled it is NULL, so a half-read list is freed as any other. */
#include "base/null.h"
#include "data/data.h"

#include <stdlib.h>
#include <string.h>

samba_status samba_tensor_list_new(samba_context *context, int count, samba_tensor_list *list)
{
    *list = (samba_tensor_list){0};
    if (count == 0)
        return SAMBA_OK;
    list->tensors = samba_calloc(context, (size_t)count * sizeof *list->tensors);
    if (!list->tensors)
        return SAMBA_ERROR_MEMORY;
    list->count = count;
    return SAMBA_OK;
}

void samba_tensor_list_free(samba_context *context, samba_tensor_list *list)
{
    if (!list)
        return;
    for (int i = 0; i < list->count; i++)
        samba_tensor_free(list->tensors[i]);
    samba_free(context, list->tensors, (size_t)list->count * sizeof *list->tensors);
    *list = (samba_tensor_list){0};
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

samba_status samba_tensor_list_check_names(samba_context *context, const char *path, const samba_tensor_list *list)
{
    size_t size = (size_t)list->count * sizeof(char *);
    const char **names = samba_alloc(context, size);
    if (!names)
        return SAMBA_ERROR_MEMORY;
    for (int i = 0; i < list->count; i++)
        names[i] = samba_tensor_name(list->tensors[i]);
    qsort(names, (size_t)list->count, sizeof *names, compare_names);
    samba_status status = SAMBA_OK;
    for (int i = 1; i < list->count && status == SAMBA_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the name \"%s\" stands there twice", path, names[i]);
    samba_free(context, names, size);
    return status;
}

samba_status samba_tensor_elements(const samba_tensor *tensor, const char *path, samba_tensor **copy, const void **elements)
{
    *copy = NULL;
    *elements = tensor->data;
    if (!tensor->storage)
        return samba_fail(tensor->context, SAMBA_ERROR_STATE, "%s: tensor %s has no data to write", path,
                          samba_tensor_name(tensor));
    if (samba_tensor_is_contiguous(tensor))
        return SAMBA_OK;
    SAMBA_TRY(samba_tensor_new(tensor->context, NULL, tensor->dtype, tensor->rank, tensor->shape, copy));
    *elements = (*copy)->data;
    return samba_tensor_copy(*copy, tensor); /* cannot fail: same shape, own memory */
}

static bool ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && memcmp(path + length - tail, ending, tail) == 0;
}

static samba_status read_single(samba_context *context, samba_status (*read)(samba_context *, const char *, samba_tensor **),
                                const char *path, const char *name, samba_tensor_list *list)
{
    SAMBA_TRY(samba_tensor_list_new(context, 1, list));
    samba_status status = read(context, path, &list->tensors[0]);
    if (status == SAMBA_OK)
        status = samba_tensor_set_name(list->tensors[0], name);
    if (status != SAMBA_OK)
        samba_tensor_list_free(context, list);
    return status;
}

/* FILE.hdf5 or FILE.hdf5:DATASET; where `dataset` begins, or NULL for a path that is none of these. */
static bool is_hdf5(const char *path, const char **dataset)
{
    static const char *const endings[] = {".hdf5", ".h5"};
    *dataset = NULL;
    for (int i = 0; i < SAMBA_COUNT(endings); i++) {
        if (ends_with(path, endings[i]))
            return true;
        char marked[8];
        snprintf(marked, sizeof marked, "%s:", endings[i]);
        for (const char *at = path; (at = strstr(at, marked)); at++)
            *dataset = at + strlen(marked);
        if (*dataset)
            return true;
    }
    return false;
}

static samba_status read_hdf5(samba_context *context, const char *path, const char *dataset, const char *name,
                              samba_tensor_list *list)
{
    samba_text file;
    SAMBA_TRY(samba_tensor_list_new(context, 1, list));
    size_t length = dataset ? (size_t)(dataset - path) - 1 : strlen(path);
    samba_status status = samba_text_begin(&file, context, "%.*s", (int)length, path);
    if (status == SAMBA_OK)
        status = samba_hdf5_read(context, file.data, dataset ? dataset : name, &list->tensors[0]);
    if (status == SAMBA_OK)
        status = samba_tensor_set_name(list->tensors[0], name);
    samba_text_clear(&file);
    if (status != SAMBA_OK)
        samba_tensor_list_free(context, list);
    return status;
}

samba_status samba_tensors_read(samba_context *context, const char *path, const char *name, samba_tensor_list *list)
{
    SAMBA_NEED(NULL, context);
    static const char *const idx_endings[] = {".idx", ".idx.gz", "-ubyte", "-ubyte.gz"};
    if (!path || !list)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_tensors_read was given no %s",
                          path ? "place for the list" : "path");
    *list = (samba_tensor_list){0};
    const char *dataset;
    if (is_hdf5(path, &dataset) && !name)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_tensors_read was given no name: which dataset of %s?", path);
    if (is_hdf5(path, &dataset))
        return read_hdf5(context, path, dataset, name, list);
    if (ends_with(path, ".npz"))
        return samba_npz_read(context, path, list);
    if (ends_with(path, ".safetensors"))
        return samba_safetensors_read(context, path, list);
    if (ends_with(path, ".npy"))
        return read_single(context, samba_npy_read, path, name, list);
    for (int i = 0; i < SAMBA_COUNT(idx_endings); i++)
        if (ends_with(path, idx_endings[i]))
            return read_single(context, samba_idx_read, path, name, list);
    return samba_fail(
        context, SAMBA_ERROR_ARGUMENT,
        "%s: no known ending; tensors are read from .npy, .npz, .safetensors, .hdf5, .h5, .idx and -ubyte files, the last two "
        "also with .gz",
        path);
}
