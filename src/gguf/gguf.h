/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF files: a header with metadata, which are named values of simple types, names and places of tensors, and their bytes in
 * blocks of quantized or plain numbers. This room knows the file and what stands in it about tokenizers; lm/ knows what a model's
 * metadata and tensors mean.
 *
 * A file is not trusted: each length is checked against the bytes that there are before it is used, and no more memory is taken
 * than a small multiple of those. Values point into the header, which stays in memory until samba_gguf_free; the bytes of tensors
 * stay in the file.
 *
 * The format's facts are those of ggml's docs/gguf.md. Read are versions 2 and 3, little-endian; written is version 3. */
#ifndef SAMBA_GGUF_GGUF_H
#define SAMBA_GGUF_GGUF_H

#include "base/base.h"
#include "base/index.h"

#include <jansson.h>
#include <string.h>

#define SAMBA_GGUF_VERSION 3
#define SAMBA_GGUF_DIMS 4

typedef enum samba_gguf_kind { /* of a value, as numbered in files */
                               SAMBA_GGUF_UINT8 = 0,
                               SAMBA_GGUF_INT8 = 1,
                               SAMBA_GGUF_UINT16 = 2,
                               SAMBA_GGUF_INT16 = 3,
                               SAMBA_GGUF_UINT32 = 4,
                               SAMBA_GGUF_INT32 = 5,
                               SAMBA_GGUF_FLOAT32 = 6,
                               SAMBA_GGUF_BOOL = 7,
                               SAMBA_GGUF_STRING = 8,
                               SAMBA_GGUF_ARRAY = 9,
                               SAMBA_GGUF_UINT64 = 10,
                               SAMBA_GGUF_INT64 = 11,
                               SAMBA_GGUF_FLOAT64 = 12
} samba_gguf_kind;

typedef enum samba_gguf_type { /* of a tensor */
#define GGUF_TYPE(name, number, elements, bytes) SAMBA_GGUF_##name = number,
#define GGUF_OTHER(name, number)
#include "gguf/types.def"
#undef GGUF_TYPE
#undef GGUF_OTHER
} samba_gguf_type;

typedef struct samba_gguf_value {
    samba_gguf_kind kind;
    const char *data; /* a number's or text's bytes, or those of an array's elements */
    size_t size;      /* of them */
    /* of an array */
    samba_gguf_kind element;
    int64_t count;
} samba_gguf_value;

typedef struct samba_gguf_entry {
    const char *key; /* ended by a NUL; none is in it */
    samba_gguf_value value;
} samba_gguf_entry;

typedef struct samba_gguf_tensor {
    const char *name;               /* ended by a NUL; none is in it */
    int rank;                       /* 1 to SAMBA_GGUF_DIMS */
    int64_t shape[SAMBA_GGUF_DIMS]; /* outermost first, which files have last */
    samba_gguf_type type;
    int64_t elements, bytes, offset; /* in the file */
} samba_gguf_tensor;

typedef struct samba_gguf {
    samba_context *context;
    samba_arena arena;
    const char *path;
    const char *data; /* the header's bytes, or all of a file in memory */
    size_t size;      /* of them */
    int64_t whole;    /* bytes of the file */
    bool owns, in_memory;
    samba_gguf_entry *entries;
    samba_gguf_tensor *tensors;
    int64_t entry_count, tensor_count;
    samba_names keys, names; /* of entries, of tensors */
} samba_gguf;

/* ---- read.c ---- */
/* Whether a file begins as GGUF files do; false also where it cannot be read. */
bool samba_gguf_is(const char *path);
/* Errors: FILE; FORMAT, for what is damaged; UNSUPPORTED, for another version, byte order or type of tensor; MEMORY. */
samba_status samba_gguf_open(samba_context *context, const char *path, samba_gguf **gguf);
/* The same of bytes, which are the caller's and must stay; `path` is for messages. */
samba_status samba_gguf_open_memory(samba_context *context, const char *path, const void *data, size_t size, samba_gguf **gguf);
void samba_gguf_free(samba_gguf *gguf); /* NULL is allowed */

const samba_gguf_tensor *samba_gguf_tensor_find(const samba_gguf *gguf, const char *name); /* NULL: none */
/* The tensor's bytes into memory that has room for them. FILE: the file is another one by now. */
samba_status samba_gguf_tensor_bytes(const samba_gguf *gguf, const samba_gguf_tensor *tensor, void *to);

/* ---- values.c: NULL is no value, of which nothing is found ---- */
const samba_gguf_value *samba_gguf_find(const samba_gguf *gguf, const char *key); /* NULL: none */
bool samba_gguf_integer(const samba_gguf_value *value, int64_t *integer);         /* of any integer kind that fits */
bool samba_gguf_number(const samba_gguf_value *value, double *number);            /* of any kind of number */
bool samba_gguf_flag(const samba_gguf_value *value, bool *flag);
bool samba_gguf_text(const samba_gguf_value *value, const char **text, size_t *size); /* no NUL behind it */
bool samba_gguf_is_text(const samba_gguf_value *value, const char *text);
/* Elements of an array in turn: *at begins as 0; false behind the last. */
bool samba_gguf_next(const samba_gguf_value *array, size_t *at, samba_gguf_value *element);
/* An array's numbers; false where it is none of so many, or one of them is none. */
bool samba_gguf_numbers(const samba_gguf_value *array, int64_t count, double *numbers);
/* A value for messages, cut: 3, "text", [1, 2, ... */
#define SAMBA_GGUF_SHOWN 80
const char *samba_gguf_shown(const samba_gguf_value *value, char text[SAMBA_GGUF_SHOWN]);

/* ---- dequantize.c, quantize.c ---- */
typedef struct samba_gguf_facts {
    const char *name;
    int64_t elements, bytes; /* of a block; 0: the type is not read */
} samba_gguf_facts;
samba_gguf_facts samba_gguf_type_facts(uint32_t type); /* name NULL: nobody knows the number */
extern const char samba_gguf_supported[];              /* names of types, "F32, F16, ..." */
/* `elements` of whole blocks. */
void samba_gguf_dequantize(samba_gguf_type type, const void *blocks, int64_t elements, float *values);
/* F32, F16, BF16, Q8_0 or Q4_0; false where a finite value becomes infinite. */
bool samba_gguf_quantize(samba_gguf_type type, const float *values, int64_t elements, void *blocks);

#endif
