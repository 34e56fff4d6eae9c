/* SPDX-License-Identifier: Apache-2.0
 *
 * Items as values of the graph. An initializer becomes one when somebody asks for it: a parameter, a buffer or a constant, as its
 * role (roles.c) and the caller's patterns say. */
#include "data/data.h"
#include "onnx/onnx.h"

static bool is_frozen(samba_onnx_reader *reader, const char *name)
{
    bool frozen = false;
    for (int i = 0; i < reader->options.freeze_count; i++)
        if (samba_match(reader->options.freeze[i], name)) {
            reader->freeze_hits[i]++;
            frozen = true;
        }
    return frozen;
}

static bool keep(samba_onnx *model, const samba_onnx_stored *stored)
{
    int64_t capacity = model->kept_capacity;
    if (SAMBA_GROW(model->context, model->kept, capacity, model->kept_count + 1) != SAMBA_OK)
        return false;
    model->kept_capacity = (int)capacity;
    model->kept[model->kept_count++] = stored;
    return true;
}

static samba_value named_value(samba_onnx_reader *reader, const samba_onnx_stored *stored, bool buffer, samba_dtype dtype,
                               int rank, const int64_t *shape)
{
    const samba_initializer unknown = {SAMBA_INIT_NONE, 0, 0};
    bool frozen = is_frozen(reader, stored->name) || buffer;
    if (!keep(reader->model, stored))
        return (samba_value){NULL, 0, 0};
    return (frozen ? samba_register_buffer : samba_parameter)(reader->graph, stored->name, dtype, rank, shape, unknown);
}

/* `buffer`: whatever its role says. */
static samba_value initializer_value(samba_onnx_reader *reader, const samba_onnx_item *item, bool buffer)
{
    const samba_value none = {NULL, 0, 0};
    samba_onnx_form form;
    samba_value value;
    if (samba_onnx_form_of(reader->model, item->initializer, &form) != SAMBA_OK)
        return none;
    if (reader->depth > 0 && (reader->room += (double)form.bytes) > 0x1p30 + 64 * (double)reader->model->size) {
        /* each turn of a loop makes them */
        samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED, "constants of loops and functions take too much memory");
        return none;
    }
    samba_onnx_role role = item->stored ? item->stored->role : SAMBA_ONNX_CONSTANT;
    if (item->stored && (role != SAMBA_ONNX_CONSTANT || buffer))
        value = named_value(reader, item->stored, buffer || role == SAMBA_ONNX_BUFFER, form.dtype, form.rank, form.shape);
    else if (samba_onnx_constant_of(reader->model, item->initializer, reader->graph, &value) != SAMBA_OK)
        return none;
    if (reader->graph->status != SAMBA_OK) {
        samba_fail(reader->context, reader->graph->status, "%s", reader->graph->error);
        return none;
    }
    return value;
}

samba_value samba_onnx_value_of(samba_onnx_reader *reader, samba_onnx_item *item)
{
    if (!item->value.graph && item->initializer) {
        item->value = initializer_value(reader, item, false);
        if (item->value.graph) {
            item->type = item->initializer->data_type;
            item->initializer = NULL;
        }
    }
    return item->value;
}

samba_value samba_onnx_buffer(samba_onnx_node *node, int index)
{
    samba_onnx_item *item = samba_onnx_item_in(node, index);
    if (item && item->initializer && !item->value.graph) {
        item->value = initializer_value(node->reader, item, true);
        if (item->value.graph) {
            item->type = item->initializer->data_type;
            item->initializer = NULL;
        }
    }
    return samba_onnx_need(node, index);
}
