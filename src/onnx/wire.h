/* SPDX-License-Identifier: Apache-2.0
 *
 * protobuf's wire format, field by field: a number, and bytes of a known size (protobuf.dev/programming-guides/encoding). */
#ifndef SAMBA_ONNX_WIRE_H
#define SAMBA_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct samba_onnx_wire {
    const uint8_t *at, *end;
} samba_onnx_wire;

typedef struct samba_onnx_field {
    uint32_t number;
    bool is_bytes;           /* a message, a text, bytes or a packed list: `content` */
    samba_onnx_wire content; /* empty for what is a number by itself, whose bytes are skipped */
} samba_onnx_field;

static inline bool samba_onnx_wire_varint(samba_onnx_wire *s, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        uint8_t byte = *s->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* The next field, behind which `s` stands then; false where it is damaged. */
static inline bool samba_onnx_wire_next(samba_onnx_wire *s, samba_onnx_field *field)
{
    uint64_t tag, size = 0;
    if (!samba_onnx_wire_varint(s, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
        return false;
    field->number = (uint32_t)(tag >> 3);
    field->is_bytes = (tag & 7) == 2;
    switch (tag & 7) {
    case 0: {
        uint64_t value;
        if (!samba_onnx_wire_varint(s, &value))
            return false;
        break;
    }
    case 1: size = 8; break;
    case 2:
        if (!samba_onnx_wire_varint(s, &size))
            return false;
        break;
    case 5: size = 4; break;
    default: return false;
    }
    if (size > (uint64_t)(s->end - s->at))
        return false;
    field->content = (samba_onnx_wire){s->at, s->at + size};
    s->at += size;
    return true;
}

#endif
