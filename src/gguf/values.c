/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a GGUF file's metadata as numbers and texts. The reader has checked that their bytes are there; whether a value is of
 * the kind that is asked for is seen here. Nothing is aligned in the file, so numbers are copied. */
#include "gguf/gguf.h"

static uint64_t bits(const samba_gguf_value *value)
{
    uint64_t all = 0;
    memcpy(&all, value->data, value->size < sizeof all ? value->size : sizeof all);
    return all;
}

bool samba_gguf_integer(const samba_gguf_value *value, int64_t *integer)
{
    if (!value)
        return false;
    const uint64_t raw = bits(value);
    switch (value->kind) {
    case SAMBA_GGUF_UINT8:
    case SAMBA_GGUF_UINT16:
    case SAMBA_GGUF_UINT32: *integer = (int64_t)raw; return true;
    case SAMBA_GGUF_UINT64: *integer = (int64_t)raw; return raw <= INT64_MAX;
    case SAMBA_GGUF_INT8: *integer = (int8_t)raw; return true;
    case SAMBA_GGUF_INT16: *integer = (int16_t)raw; return true;
    case SAMBA_GGUF_INT32: *integer = (int32_t)raw; return true;
    case SAMBA_GGUF_INT64: *integer = (int64_t)raw; return true;
    default: return false;
    }
}

bool samba_gguf_number(const samba_gguf_value *value, double *number)
{
    int64_t integer;
    if (!value)
        return false;
    if (value->kind == SAMBA_GGUF_FLOAT32) {
        float single;
        memcpy(&single, value->data, sizeof single);
        *number = single;
        return true;
    }
    if (value->kind == SAMBA_GGUF_FLOAT64) {
        memcpy(number, value->data, sizeof *number);
        return true;
    }
    if (!samba_gguf_integer(value, &integer))
        return false;
    *number = (double)integer;
    return true;
}

bool samba_gguf_flag(const samba_gguf_value *value, bool *flag)
{
    if (!value || value->kind != SAMBA_GGUF_BOOL)
        return false;
    *flag = value->data[0] != 0;
    return true;
}

bool samba_gguf_text(const samba_gguf_value *value, const char **text, size_t *size)
{
    if (!value || value->kind != SAMBA_GGUF_STRING)
        return false;
    *text = value->data;
    *size = value->size;
    return true;
}

bool samba_gguf_is_text(const samba_gguf_value *value, const char *text)
{
    const size_t size = strlen(text);
    return value && value->kind == SAMBA_GGUF_STRING && value->size == size && memcmp(value->data, text, size) == 0;
}

/* ---- arrays ---- */

static size_t size_of(samba_gguf_kind kind)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return sizes[kind];
}

static uint64_t length_at(const char *data)
{
    uint64_t length;
    memcpy(&length, data, sizeof length);
    return length;
}

/* Bytes of an array's elements, which the reader has found to be there. */
static size_t elements_size(samba_gguf_kind kind, int64_t count, const char *data)
{
    size_t size = size_of(kind) * (size_t)count;
    for (int64_t i = 0; i < count && size_of(kind) == 0; i++) {
        if (kind == SAMBA_GGUF_STRING) {
            size += 8 + length_at(data + size);
            continue;
        }
        uint32_t inner;
        memcpy(&inner, data + size, sizeof inner);
        const int64_t inside = (int64_t)length_at(data + size + 4);
        size += 12 + elements_size((samba_gguf_kind)inner, inside, data + size + 12);
    }
    return size;
}

bool samba_gguf_next(const samba_gguf_value *array, size_t *at, samba_gguf_value *element)
{
    if (!array || array->kind != SAMBA_GGUF_ARRAY || *at >= array->size)
        return false;
    const char *data = array->data + *at;
    *element = (samba_gguf_value){.kind = array->element, .data = data, .size = size_of(array->element)};
    size_t head = 0;
    if (array->element == SAMBA_GGUF_STRING) {
        head = 8;
        element->size = length_at(data);
    } else if (array->element == SAMBA_GGUF_ARRAY) {
        uint32_t inner;
        head = 12;
        memcpy(&inner, data, sizeof inner);
        element->element = (samba_gguf_kind)inner;
        element->count = (int64_t)length_at(data + 4);
        element->size = elements_size(element->element, element->count, data + head);
    }
    element->data += head;
    *at += head + element->size;
    return true;
}

bool samba_gguf_numbers(const samba_gguf_value *array, int64_t count, double *numbers)
{
    samba_gguf_value element;
    size_t at = 0;
    if (!array || array->kind != SAMBA_GGUF_ARRAY || array->count != count)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!samba_gguf_next(array, &at, &element) || !samba_gguf_number(&element, &numbers[i]))
            return false;
    return true;
}

/* ---- for messages ---- */

static int show(const samba_gguf_value *value, char *text, size_t room)
{
    double number;
    bool flag;
    int64_t integer;
    if (samba_gguf_flag(value, &flag))
        return snprintf(text, room, "%s", flag ? "true" : "false");
    if (samba_gguf_integer(value, &integer))
        return snprintf(text, room, "%lld", (long long)integer);
    if (samba_gguf_number(value, &number))
        return snprintf(text, room, "%.9g", number);
    if (value->kind == SAMBA_GGUF_STRING) {
        char part[48], shown[SAMBA_SHOWN];
        snprintf(part, sizeof part, "%.*s", value->size < sizeof part ? (int)value->size : (int)sizeof part - 1, value->data);
        return snprintf(text, room, "\"%.64s\"", samba_shown(part, shown));
    }
    if (value->kind == SAMBA_GGUF_ARRAY)
        return snprintf(text, room, "an array of %lld", (long long)value->count);
    return snprintf(text, room, "a number beyond 63 bits");
}

const char *samba_gguf_shown(const samba_gguf_value *value, char text[SAMBA_GGUF_SHOWN])
{
    if (!value)
        return "not there";
    show(value, text, SAMBA_GGUF_SHOWN);
    return text;
}
