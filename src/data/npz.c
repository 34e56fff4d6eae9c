/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npz: a ZIP archive whose members are .npy files, each named for its array. Every member is unpacked into memory of its
 * own, where its tensor then lies. Two arrays of one name are refused: which one was meant cannot be known. */
#include "base/null.h"
#include "data/data.h"

#include <string.h>

static samba_status read_member(samba_context *context, const char *path, const samba_zip_member *member, samba_tensor **tensor)
{
    size_t stem = strlen(member->name);
    if (stem < 4 || strcmp(member->name + stem - 4, ".npy") != 0)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the member \"%s\" is no .npy file; an .npz holds only those", path,
                          member->name);
    samba_bytes *bytes;
    SAMBA_TRY(samba_bytes_new(context, member->size, &bytes));
    samba_text label;
    samba_status status = samba_text_begin(&label, context, "%s (%s)", path, member->name);
    if (status == SAMBA_OK)
        status = samba_zip_extract(context, path, member, bytes->data);
    if (status == SAMBA_OK) {
        char *name = samba_strdup(context, member->name);
        if (name) {
            name[stem - 4] = '\0';
            status = samba_npy_parse(bytes, label.data, name, tensor);
            samba_free(context, name, stem + 1);
        } else {
            status = SAMBA_ERROR_MEMORY;
        }
    }
    samba_text_clear(&label);
    samba_bytes_drop(bytes);
    return status;
}

static samba_status read_members(samba_context *context, const char *path, const samba_zip_member *members, int count,
                                 samba_tensor_list *list)
{
    SAMBA_TRY(samba_tensor_list_new(context, count, list));
    for (int i = 0; i < count; i++)
        SAMBA_TRY(read_member(context, path, &members[i], &list->tensors[i]));
    return samba_tensor_list_check_names(context, path, list);
}

samba_status samba_npz_read(samba_context *context, const char *path, samba_tensor_list *list)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, list);
    samba_bytes *bytes;
    samba_zip_member *members;
    samba_arena arena;
    int count;
    *list = (samba_tensor_list){0};
    SAMBA_TRY(samba_bytes_read(context, path, &bytes));
    samba_arena_init(&arena, context);
    samba_status status = samba_zip_open(&arena, path, bytes, &members, &count);
    if (status == SAMBA_OK)
        status = read_members(context, path, members, count, list);
    if (status != SAMBA_OK)
        samba_tensor_list_free(context, list);
    samba_arena_free(&arena);
    samba_bytes_drop(bytes);
    return status;
}
