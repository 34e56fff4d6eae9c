/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a GGUF file of version 3: the header is made in memory, tensors lie behind it at multiples of 32. */
#include "gguf/write.h"

enum { ALIGNMENT = 32 };
static const char zeros[ALIGNMENT];

void samba_gguf_build_init(samba_gguf_builder *b, samba_context *context)
{
    *b = (samba_gguf_builder){.context = context};
    samba_arena_init(&b->arena, context);
}

void samba_gguf_build_free(samba_gguf_builder *b)
{
    if (b->data)
        samba_free(b->context, b->data, (size_t)b->room);
    samba_arena_free(&b->arena);
}

/* ---- bytes ---- */

static void add(samba_gguf_builder *b, const void *bytes, size_t size)
{
    if (b->status == SAMBA_OK)
        b->status = SAMBA_GROW(b->context, b->data, b->room, b->length + (int64_t)size);
    if (b->status != SAMBA_OK)
        return;
    memcpy(b->data + b->length, bytes, size);
    b->length += (int64_t)size;
}

static void add32(samba_gguf_builder *b, uint32_t value) { add(b, &value, sizeof value); }
static void add64(samba_gguf_builder *b, uint64_t value) { add(b, &value, sizeof value); }

void samba_gguf_add_text(samba_gguf_builder *b, const char *text, size_t size)
{
    add64(b, size);
    add(b, text, size);
}

void samba_gguf_add_integer(samba_gguf_builder *b, int32_t value) { add(b, &value, sizeof value); }
void samba_gguf_add_number(samba_gguf_builder *b, float value) { add(b, &value, sizeof value); }

/* ---- metadata ---- */

static void begin(samba_gguf_builder *b, const char *key, samba_gguf_kind kind)
{
    samba_gguf_add_text(b, key, strlen(key));
    add32(b, kind);
    b->entries++;
}

void samba_gguf_put_integer(samba_gguf_builder *b, const char *key, int64_t value)
{
    begin(b, key, SAMBA_GGUF_UINT32);
    add32(b, (uint32_t)value);
}

void samba_gguf_put_number(samba_gguf_builder *b, const char *key, double value)
{
    begin(b, key, SAMBA_GGUF_FLOAT32);
    samba_gguf_add_number(b, (float)value);
}

void samba_gguf_put_flag(samba_gguf_builder *b, const char *key, bool value)
{
    begin(b, key, SAMBA_GGUF_BOOL);
    add(b, value ? "\1" : "\0", 1);
}

void samba_gguf_put_text(samba_gguf_builder *b, const char *key, const char *text, size_t size)
{
    begin(b, key, SAMBA_GGUF_STRING);
    samba_gguf_add_text(b, text, size);
}

void samba_gguf_put_array(samba_gguf_builder *b, const char *key, samba_gguf_kind element, int64_t count)
{
    begin(b, key, SAMBA_GGUF_ARRAY);
    add32(b, element);
    add64(b, (uint64_t)count);
}

/* ---- tensors ---- */

static samba_status add_part(samba_gguf_builder *b, const char *name, samba_gguf_type type, int rank, const int64_t *shape,
                             const float *values)
{
    const samba_gguf_facts facts = samba_gguf_type_facts(type);
    int64_t elements = 1;
    char *copy, *bytes;
    for (int i = 0; i < rank; i++)
        elements *= shape[i];
    if (shape[rank - 1] % facts.elements != 0)
        return samba_fail(b->context, SAMBA_ERROR_UNSUPPORTED,
                          "tensor \"%s\" has rows of %lld, and %s has blocks of %lld: choose a type without blocks, F16 or BF16",
                          name, (long long)shape[rank - 1], facts.name, (long long)facts.elements);
    const size_t size = (size_t)(elements / facts.elements * facts.bytes);
    SAMBA_TRY(SAMBA_MORE(&b->arena, b->parts, b->part_count, b->part_room));
    SAMBA_TRY(samba_arena_copy(&b->arena, name, &copy));
    SAMBA_TRY(samba_arena_room(&b->arena, size, &bytes));
    if (!samba_gguf_quantize(type, values, elements, bytes))
        return samba_fail(b->context, SAMBA_ERROR_UNSUPPORTED,
                          "tensor \"%s\" has a value that %s has no room for: choose BF16 or F32", name, facts.name);
    samba_gguf_part *part = &b->parts[b->part_count++];
    *part = (samba_gguf_part){.name = copy, .rank = rank, .type = type, .data = bytes, .bytes = size};
    memcpy(part->shape, shape, (size_t)rank * sizeof *shape);
    return SAMBA_OK;
}

void samba_gguf_put_tensor(samba_gguf_builder *b, const char *name, samba_gguf_type type, int rank, const int64_t *shape,
                           const float *values)
{
    if (b->status == SAMBA_OK)
        b->status = add_part(b, name, type, rank, shape, values);
}

static size_t padding(size_t size) { return (ALIGNMENT - size % ALIGNMENT) % ALIGNMENT; }

/* What stands before and behind the metadata. */
static void add_names(samba_gguf_builder *b, samba_gguf_builder *names)
{
    uint64_t offset = 0;
    for (int64_t i = 0; i < b->part_count; i++) {
        const samba_gguf_part *part = &b->parts[i];
        samba_gguf_add_text(names, part->name, strlen(part->name));
        add32(names, (uint32_t)part->rank);
        for (int d = part->rank - 1; d >= 0; d--)
            add64(names, (uint64_t)part->shape[d]);
        add32(names, part->type);
        add64(names, offset);
        offset += part->bytes + padding(part->bytes);
    }
    const size_t header = 24 + (size_t)b->length + (size_t)names->length;
    add(names, zeros, padding(header));
}

static samba_status write_parts(samba_gguf_builder *b, const samba_gguf_builder *names, const char *path)
{
    const int64_t count = 3 + 2 * b->part_count;
    const void **parts;
    size_t *sizes;
    char head[24] = {'G', 'G', 'U', 'F', SAMBA_GGUF_VERSION};
    memcpy(head + 8, &(uint64_t){(uint64_t)b->part_count}, 8);
    memcpy(head + 16, &(uint64_t){(uint64_t)b->entries}, 8);
    SAMBA_TRY(SAMBA_ROOM(&b->arena, parts, count));
    SAMBA_TRY(SAMBA_ROOM(&b->arena, sizes, count));
    parts[0] = head, sizes[0] = sizeof head;
    parts[1] = b->data, sizes[1] = (size_t)b->length;
    parts[2] = names->data, sizes[2] = (size_t)names->length;
    for (int64_t i = 0; i < b->part_count; i++) {
        parts[3 + 2 * i] = b->parts[i].data, sizes[3 + 2 * i] = b->parts[i].bytes;
        parts[4 + 2 * i] = zeros, sizes[4 + 2 * i] = padding(b->parts[i].bytes);
    }
    if (count > INT32_MAX)
        return samba_fail(b->context, SAMBA_ERROR_UNSUPPORTED, "%s: %lld tensors are too many for a file", path,
                          (long long)b->part_count);
    return samba_file_write_atomic(b->context, path, parts, sizes, (int)count);
}

samba_status samba_gguf_build_write(samba_gguf_builder *b, const char *path)
{
    samba_gguf_builder names;
    SAMBA_TRY(b->status);
    samba_gguf_build_init(&names, b->context);
    add_names(b, &names);
    samba_status status = names.status == SAMBA_OK ? write_parts(b, &names, path) : names.status;
    samba_gguf_build_free(&names);
    return status;
}
