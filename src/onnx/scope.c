/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and what they stand for: a table by hash for each graph and each function's body. */
#include "onnx/onnx.h"

#include <string.h>

static samba_onnx_item **slot_of(const samba_onnx_scope *scope, const char *name)
{
    int64_t at = (int64_t)(samba_hash(name, strlen(name), 0) & (uint64_t)(scope->size - 1));
    while (scope->table[at] && strcmp(scope->table[at]->name, name) != 0)
        at = (at + 1) & (scope->size - 1);
    return &scope->table[at];
}

bool samba_onnx_open_scope(samba_onnx_reader *reader, samba_onnx_scope *scope, samba_onnx_scope *outer)
{
    *scope = (samba_onnx_scope){outer, 0, 16, NULL};
    scope->table = samba_arena_alloc(&reader->arena, (size_t)scope->size * sizeof *scope->table);
    return scope->table;
}

static bool grow_scope(samba_onnx_reader *reader, samba_onnx_scope *scope)
{
    samba_onnx_scope larger = {scope->outer, scope->count, scope->size * 2, NULL};
    if (scope->count * 2 < scope->size)
        return true;
    larger.table = samba_arena_alloc(&reader->arena, (size_t)larger.size * sizeof *larger.table);
    if (!larger.table)
        return false;
    for (int64_t i = 0; i < scope->size; i++)
        if (scope->table[i])
            *slot_of(&larger, scope->table[i]->name) = scope->table[i];
    *scope = larger;
    return true;
}

bool samba_onnx_bind_as(samba_onnx_reader *reader, const char *name, const samba_onnx_item *item)
{
    samba_onnx_item *copy = item ? samba_onnx_new_item(reader, name) : NULL;
    if (!copy)
        return false;
    *copy = *item;
    copy->name = name;
    return samba_onnx_bind(reader, name, copy);
}

bool samba_onnx_bind(samba_onnx_reader *reader, const char *name, samba_onnx_item *item)
{
    samba_onnx_scope *scope = reader->scope;
    if (!item || !grow_scope(reader, scope))
        return false;
    samba_onnx_item **slot = slot_of(scope, name);
    if (*slot) {
        samba_fail(reader->context, SAMBA_ERROR_FORMAT, "%s: two values have the name \"%.200s\"", reader->model->path, name);
        return false;
    }
    *slot = item;
    scope->count++;
    return true;
}

samba_onnx_item *samba_onnx_find(const samba_onnx_reader *reader, const char *name)
{
    for (const samba_onnx_scope *scope = reader->scope; scope; scope = scope->outer) {
        samba_onnx_item *item = *slot_of(scope, name);
        if (item)
            return item;
    }
    return NULL;
}
