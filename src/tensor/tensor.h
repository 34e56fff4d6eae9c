/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about dtypes and shapes, and the inside of a host tensor. Only the dtype table knows what a dtype
 * is; shape helpers are pure functions over arrays of int64_t. */
#ifndef SAMBA_TENSOR_INTERNAL_H
#define SAMBA_TENSOR_INTERNAL_H

#include "base/base.h"
#include <sambaflow/tensor.h>

typedef enum samba_category { SAMBA_CATEGORY_BOOL, SAMBA_CATEGORY_INTEGER, SAMBA_CATEGORY_FLOAT } samba_category;
typedef struct samba_dtype_facts {
    const char *name;       /* "float32": messages, files */
    const char *short_name; /* "f32": text form */
    size_t size;
    samba_category category;
} samba_dtype_facts;
extern const samba_dtype_facts samba_dtype_table[SAMBA_DTYPE_COUNT];

/* One element as double / int64_t whatever its dtype. A float becomes an integer by truncation to int64, NaN and what int64
 * cannot hold become 0; a narrower integer keeps the low bits. The store functions round once to float32 for bfloat16 and
 * float16, as PyTorch. */
int64_t samba_double_to_int64(double value);
/* The value of a constant of `dtype`: 16-bit floats round it; others convert it where it is read. */
double samba_dtype_hold(samba_dtype dtype, double value);
double samba_load_double(samba_dtype dtype, const void *element);
int64_t samba_load_int64(samba_dtype dtype, const void *element);
void samba_store_double(samba_dtype dtype, void *element, double value);
/* quantize.c: an element of a weight (out, in) that samba_quantize made of integers. */
float samba_quantized_at(samba_tensor *const parts[2], bool four_bits, int64_t in, int64_t i, int64_t k);
void samba_store_int64(samba_dtype dtype, void *element, int64_t value);
float samba_bfloat16_to_float(uint16_t bits);
uint16_t samba_float_to_bfloat16(float value); /* nearest even, NaN stays NaN */
float samba_float16_to_float(uint16_t bits);
uint16_t samba_float_to_float16(float value);

/* Whether each element has memory of its own: every dim steps over all that smaller steps reach. Views whose dims lie between
 * each other and still share nothing do not count, as in torch. */
bool samba_shape_is_apart(int rank, const int64_t *shape, const int64_t *strides);
/* numel and C-contiguous strides; false on overflow or negative sizes. rank 0 has numel 1. */
bool samba_shape_numel(int rank, const int64_t *shape, int64_t *numel);
void samba_shape_contiguous_strides(int rank, const int64_t *shape, int64_t *strides);
bool samba_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b);
/* Strides of a view with new_shape over (shape, strides), false where impossible (torch computeStride). Sizes must match. */
bool samba_shape_view_strides(int rank, const int64_t *shape, const int64_t *strides, int new_rank, const int64_t *new_shape,
                              int64_t *new_strides);
/* PyTorch's broadcasting; false when the shapes do not fit. */
bool samba_shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *shape);
/* The next index in C order; false, with the index back at 0, after the last. Sizes must not be 0. */
bool samba_shape_next(int rank, const int64_t *shape, int64_t *index);
/* "(2, 3)" into buffer, always terminated. Returns buffer. */
char *samba_shape_format(int rank, const int64_t *shape, char *buffer, size_t size);
#define SAMBA_SHAPE_TEXT 192 /* room that always suffices for samba_shape_format */
/* The text for a message, which lives until the block's end; of a node, tensor or array. */
#define SAMBA_SHAPE(rank, shape) samba_shape_format(rank, shape, (char[SAMBA_SHAPE_TEXT]){0}, SAMBA_SHAPE_TEXT)
#define SAMBA_SHAPE_OF(of) SAMBA_SHAPE((of)->rank, (of)->shape)

struct samba_storage; /* shared memory with a holder count */
struct samba_tensor {
    samba_context *context;
    struct samba_storage *storage; /* NULL: empty */
    char *data;                    /* first element of this view */
    char *name;
    samba_dtype dtype;
    int rank, holders;
    int64_t shape[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
};

/* ---- tensor/tensor.c ---- */
/* A tensor over source's memory, or over none as source, that starts `offset` elements into it. Checks nothing. */
samba_status samba_tensor_view_new(samba_tensor *source, int rank, const int64_t *shape, const int64_t *strides, int64_t offset,
                                   samba_tensor **view);
/* Another holder of the same tensor: each frees it once. */
samba_tensor *samba_tensor_hold(samba_tensor *tensor);

/* ---- tensor/copy.c ---- */
/* n elements from source to destination with strides in elements, converted as samba_tensor_copy does. */
void samba_copy_elements(samba_dtype to, void *destination, int64_t destination_stride, samba_dtype from, const void *source,
                         int64_t source_stride, int64_t n);

#endif
