/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a GGUF file: metadata in the order in which it is put, tensors in theirs. The first failure sticks;
 * samba_gguf_build_write tells it. Bytes of tensors belong to the builder's arena or to a caller who keeps them until the file
 * is written. */
#ifndef SAMBA_GGUF_WRITE_H
#define SAMBA_GGUF_WRITE_H

#include "gguf/gguf.h"

typedef struct samba_gguf_part {
    const char *name;
    int rank;
    int64_t shape[SAMBA_GGUF_DIMS]; /* outermost first */
    samba_gguf_type type;
    const void *data;
    size_t bytes;
} samba_gguf_part;

typedef struct samba_gguf_builder {
    samba_context *context;
    samba_arena arena;
    char *data; /* of the metadata */
    int64_t length, room, entries;
    samba_gguf_part *parts;
    int64_t part_count, part_room;
    samba_status status;
} samba_gguf_builder;

void samba_gguf_build_init(samba_gguf_builder *b, samba_context *context);
void samba_gguf_build_free(samba_gguf_builder *b);
void samba_gguf_put_integer(samba_gguf_builder *b, const char *key, int64_t value); /* as uint32, which most keys are */
void samba_gguf_put_number(samba_gguf_builder *b, const char *key, double value);   /* as float32 */
void samba_gguf_put_flag(samba_gguf_builder *b, const char *key, bool value);
void samba_gguf_put_text(samba_gguf_builder *b, const char *key, const char *text, size_t size);
/* An array of `count` elements, which come by samba_gguf_add_...: all of them, and before anything else. */
void samba_gguf_put_array(samba_gguf_builder *b, const char *key, samba_gguf_kind element, int64_t count);
void samba_gguf_add_text(samba_gguf_builder *b, const char *text, size_t size);
void samba_gguf_add_integer(samba_gguf_builder *b, int32_t value);
void samba_gguf_add_number(samba_gguf_builder *b, float value);
/* The tensor of float32 values in the type; values are read before it returns. UNSUPPORTED: rows that are no whole blocks, values
 * that the type has no room for. */
void samba_gguf_put_tensor(samba_gguf_builder *b, const char *name, samba_gguf_type type, int rank, const int64_t *shape,
                           const float *values);
/* The file appears whole or not at all. */
samba_status samba_gguf_build_write(samba_gguf_builder *b, const char *path);

#endif
