/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's message without its large tensors. protobuf-c copies all the bytes that a message has; so the raw data of large
 * initializers are left out of what it reads, and their tensors are told afterwards where the file has them. */
#include "onnx/onnx.h"
#include "onnx/wire.h"

#include <string.h>

#define LARGE (64 << 10) /* bytes of a tensor that is left out */

enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, TENSOR_RAW_DATA = 9 }; /* fields of onnx.proto */

typedef struct cut {
    int64_t initializer; /* of the graph, in the order of the message */
    const uint8_t *data;
    size_t size;
} cut;

typedef struct thin { /* what was written; `to` and `cuts` NULL: what would be */
    uint8_t *to;
    size_t size;
    cut *cuts;
    int64_t cut_count, initializers;
} thin;

static void put(thin *t, const uint8_t *from, const uint8_t *end)
{
    if (t->to)
        memcpy(t->to + t->size, from, (size_t)(end - from));
    t->size += (size_t)(end - from);
}

static void put_number(thin *t, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(t, &byte, &byte + 1);
    } while (value >>= 7);
}

static void put_tensor(thin *t, samba_onnx_wire s)
{
    samba_onnx_field field;
    int raw = 0;
    for (samba_onnx_wire all = s; all.at < all.end && samba_onnx_wire_next(&all, &field);)
        raw += field.number == TENSOR_RAW_DATA;
    for (const uint8_t *begin = s.at; begin < s.end && samba_onnx_wire_next(&s, &field); begin = s.at) {
        const size_t size = (size_t)(field.content.end - field.content.at);
        if (field.number != TENSOR_RAW_DATA || !field.is_bytes || raw != 1 || size < LARGE) { /* of several the last counts */
            put(t, begin, s.at);
            continue;
        }
        if (t->cuts)
            t->cuts[t->cut_count] = (cut){t->initializers, field.content.at, size};
        t->cut_count++;
    }
}

static void put_message(thin *t, const samba_onnx_field *field, void (*put_fields)(thin *t, samba_onnx_wire s))
{
    thin sized = {NULL, 0, NULL, 0, 0};
    put_fields(&sized, field->content);
    put_number(t, (uint64_t)field->number << 3 | 2);
    put_number(t, sized.size);
    if (t->to) {
        put_fields(t, field->content);
    } else {
        t->size += sized.size;
        t->cut_count += sized.cut_count;
    }
}

static void put_graph(thin *t, samba_onnx_wire s)
{
    samba_onnx_field field;
    for (const uint8_t *begin = s.at; begin < s.end && samba_onnx_wire_next(&s, &field); begin = s.at)
        if (field.number == GRAPH_INITIALIZER && field.is_bytes) {
            put_message(t, &field, put_tensor);
            t->initializers++;
        } else
            put(t, begin, s.at);
}

static void put_model(thin *t, samba_onnx_wire s)
{
    samba_onnx_field field;
    for (const uint8_t *begin = s.at; begin < s.end && samba_onnx_wire_next(&s, &field); begin = s.at)
        if (field.number == MODEL_GRAPH && field.is_bytes)
            put_message(t, &field, put_graph); /* a second one is joined with the first: its initializers come behind */
        else
            put(t, begin, s.at);
}

samba_status samba_onnx_unpack_thin(samba_onnx *model, const void *data, size_t size,
                                    samba_status (*unpack)(samba_onnx *model, const void *data, size_t size))
{
    const samba_onnx_wire whole = {data, (const uint8_t *)data + size};
    thin sized = {NULL, 0, NULL, 0, 0}, t = sized;
    put_model(&sized, whole);
    if (sized.cut_count == 0)
        return unpack(model, data, size);
    SAMBA_TRY(SAMBA_ROOM(&model->arena, t.cuts, sized.cut_count));
    t.to = samba_alloc(model->context, sized.size);
    if (!t.to)
        return SAMBA_ERROR_MEMORY;
    put_model(&t, whole);
    samba_status status = unpack(model, t.to, t.size);
    samba_free(model->context, t.to, sized.size);
    SAMBA_TRY(status);
    for (int64_t i = 0; i < t.cut_count; i++) {
        const Samba__Onnx__GraphProto *graph = model->message->graph;
        const cut *c = &t.cuts[i];
        if (!graph || c->initializer >= (int64_t)graph->n_initializer || graph->initializer[c->initializer]->has_raw_data)
            return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: it is no ONNX file, or a damaged one", model->path);
        graph->initializer[c->initializer]->has_raw_data = 1;
        graph->initializer[c->initializer]->raw_data = (ProtobufCBinaryData){c->size, (uint8_t *)(uintptr_t)c->data};
    }
    return SAMBA_OK;
}
