/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers share: a file's bytes that tensors may lie in, inflating, and ZIP archives. Formats trust nothing: every
 * length is checked against the bytes that are there before it is used or memory is taken for it.
 *
 * Ownership: samba_bytes is counted; tensors made in it hold it. The formats here are little endian or swapped by their reader.
 */
#ifndef SAMBA_DATA_H
#define SAMBA_DATA_H

#include "tensor/tensor.h"
#include <sambaflow/data.h>

#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the readers and writers copy little-endian numbers as they are");

/* ---- bytes.c: a block of memory with a count of holders ---- */
typedef struct samba_bytes {
    samba_context *context;
    char *data;
    size_t size;
    int64_t holders;
} samba_bytes;
samba_status samba_bytes_new(samba_context *context, size_t size, samba_bytes **bytes);       /* uninitialised, one holder */
samba_status samba_bytes_read(samba_context *context, const char *path, samba_bytes **bytes); /* a whole file */
void samba_bytes_drop(samba_bytes *bytes);                                                    /* NULL allowed */
/* A contiguous tensor over bytes from `offset` on, which must hold it. Where the offset does not suit the dtype it gets a copy.
 */
samba_status samba_bytes_tensor(samba_bytes *bytes, size_t offset, const char *name, samba_dtype dtype, int rank,
                                const int64_t *shape, samba_tensor **tensor);
/* Little-endian numbers at p. */
uint64_t samba_get(const char *p, size_t bytes);
static inline uint16_t samba_get16(const char *p) { return (uint16_t)samba_get(p, 2); }
static inline uint32_t samba_get32(const char *p) { return (uint32_t)samba_get(p, 4); }
static inline uint64_t samba_get64(const char *p) { return samba_get(p, 8); }

/* ---- inflate.c: zlib over bytes in memory, its own memory through the context ---- */
typedef struct samba_inflater {
    samba_context *context;
    const char *path; /* for messages; "file" or "file (member)" */
    z_stream stream;
    size_t waiting; /* input bytes not yet shown to zlib */
    bool done;      /* the end of the compressed stream was seen */
} samba_inflater;
/* Deflate never shrinks more than about 1 : 1032, so a size that claims more is false: no memory is taken for it. */
#define SAMBA_INFLATE_RATIO 1032
samba_status samba_inflate_open(samba_inflater *inflater, samba_context *context, const char *path, bool gzip, const void *data,
                                size_t size);
/* Up to `size` bytes; fewer only at the end. FORMAT for damaged or cut input. */
samba_status samba_inflate_read(samba_inflater *inflater, void *to, size_t size, size_t *got);
/* Checks that the stream and the input end here. */
samba_status samba_inflate_finish(samba_inflater *inflater);
void samba_inflate_close(samba_inflater *inflater);

/* ---- zip.c: the members of a ZIP archive in memory ---- */
typedef struct samba_zip_member {
    char *name;
    uint32_t crc;
    bool deflated; /* else stored */
    const char *data;
    size_t compressed, size;
} samba_zip_member;
/* Names and members live in the arena. */
samba_status samba_zip_open(samba_arena *arena, const char *path, const samba_bytes *archive, samba_zip_member **members,
                            int *count);
/* `to` has room for member->size bytes. */
samba_status samba_zip_extract(samba_context *context, const char *path, const samba_zip_member *member, void *to);

/* ---- npy.c ---- */
/* The array that fills `bytes`, a whole .npy file; `path` is for messages. */
samba_status samba_npy_parse(samba_bytes *bytes, const char *path, const char *name, samba_tensor **tensor);

/* ---- safetensors.c ---- */
typedef struct samba_file_facts { /* what a file is known by */
    uint64_t bytes, hash;
} samba_file_facts;
/* samba_safetensors_read that fails with FORMAT unless the file is the one with these facts;
 * samba_safetensors_write that tells them. */
samba_status samba_safetensors_read_known(samba_context *context, const char *path, const samba_file_facts *facts,
                                          samba_tensor_list *list);
samba_status samba_safetensors_write_known(samba_context *context, const char *path, int count, samba_tensor *const *tensors,
                                           const char *const *metadata, samba_file_facts *facts);
/* The tensors without their data: the header alone is read. */
samba_status samba_safetensors_names(samba_context *context, const char *path, samba_tensor_list *list);
/* Each tensor, one after the other, so that no more than one is in memory; it belongs to the visitor. A status of the visitor's
 * ends it. */
typedef samba_status samba_tensor_visit(void *user, samba_tensor *tensor);
samba_status samba_safetensors_each(samba_context *context, const char *path, samba_tensor_visit *visit, void *user);
/* Of tensors that can be had again: base.h says how such a file is written. */
samba_status samba_safetensors_write_remade(samba_context *context, const char *path, int count, samba_tensor *const *tensors);

/* ---- shards.c ---- */
/* A safetensors file; an index of several; or a folder with model.safetensors.index.json or model.safetensors. */
samba_status samba_weights_read(samba_context *context, const char *path, samba_tensor_list *list);
/* The same without data, from headers alone. */
samba_status samba_weights_names(samba_context *context, const char *path, samba_tensor_list *list);
/* Each tensor, of which one is in memory at a time (samba_safetensors_each). */
samba_status samba_weights_each(samba_context *context, const char *path, samba_tensor_visit *visit, void *user);
/* Whether the folder has weights. */
bool samba_weights_exist(const char *folder);

/* ---- tensors.c ---- */
samba_status samba_tensor_list_new(samba_context *context, int count, samba_tensor_list *list); /* of NULLs */
/* FORMAT when two tensors of a file have one name. */
samba_status samba_tensor_list_check_names(samba_context *context, const char *path, const samba_tensor_list *list);
/* The tensor's elements in C order: its own memory, or that of *copy (else NULL), which the caller frees. STATE when it has no
 * data. */
samba_status samba_tensor_elements(const samba_tensor *tensor, const char *path, samba_tensor **copy, const void **elements);

#endif
