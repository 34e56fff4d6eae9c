/* SPDX-License-Identifier: Apache-2.0
 *
 * Host tensors: dtype, shape, strides over memory that is ours, the caller's, or not there yet (empty).
 * Views share memory with their source and keep it alive. Strides count elements, are never negative, and may be
 * 0 (expand). A tensor is freed by each holder with samba_tensor_free. */
#ifndef SAMBAFLOW_TENSOR_H
#define SAMBAFLOW_TENSOR_H

#include <sambaflow/context.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SAMBA_MAX_RANK 8

typedef enum samba_dtype { /* numbers are part of the file format */
                           SAMBA_FLOAT32 = 0,
                           SAMBA_BFLOAT16 = 1,
                           SAMBA_FLOAT16 = 2,
                           SAMBA_FLOAT64 = 3,
                           SAMBA_INT64 = 4,
                           SAMBA_INT32 = 5,
                           SAMBA_INT16 = 6,
                           SAMBA_INT8 = 7,
                           SAMBA_UINT8 = 8,
                           SAMBA_BOOL = 9,
                           SAMBA_DTYPE_COUNT = 10
} samba_dtype;

/* "float32" ... as PyTorch spells it. "?" for a number that is no dtype. */
SAMBA_API const char *samba_dtype_name(samba_dtype dtype);
/* Finds a dtype by that name. SAMBA_ERROR_DTYPE lists the names. */
SAMBA_API samba_status samba_dtype_from_name(samba_context *context, const char *name, samba_dtype *dtype);
/* Bytes of one element. */
SAMBA_API size_t samba_dtype_size(samba_dtype dtype);
SAMBA_API bool samba_dtype_is_floating_point(samba_dtype dtype);

/* One operand's part in dtype promotion, as torch.result_type sees it: a dimensioned tensor outranks a
 * 0-dim tensor, which outranks a number typed in the program, within one category (bool, integer, float). */
typedef enum samba_promotion { SAMBA_DIMENSIONED = 0, SAMBA_ZERO_DIM = 1, SAMBA_NUMBER = 2 } samba_promotion;
/* torch.result_type of two operands. A number is SAMBA_BOOL, SAMBA_INT64 or SAMBA_FLOAT32 (the default float). Of what is no
 * dtype or no kind: SAMBA_DTYPE_COUNT. */
SAMBA_API samba_dtype samba_promote(samba_dtype a, samba_promotion a_kind, samba_dtype b, samba_promotion b_kind);

typedef struct samba_tensor samba_tensor;

/* A tensor with its own memory, zeroed, C-contiguous. `shape` has `rank` sizes >= 0; rank 0 is one element. `name` may be
 * NULL and is copied. Errors: ARGUMENT (rank, negative size), SHAPE (more than 2^62 bytes), MEMORY. */
SAMBA_API samba_status samba_tensor_new(samba_context *context, const char *name, samba_dtype dtype, int rank,
                                        const int64_t *shape, samba_tensor **tensor);
/* The same without memory: has_data is false. Enough to compile with. */
SAMBA_API samba_status samba_tensor_empty(samba_context *context, const char *name, samba_dtype dtype, int rank,
                                          const int64_t *shape, samba_tensor **tensor);
/* Wraps the caller's memory without a copy; changes are seen both ways. `strides` in elements, NULL for C-contiguous.
 * `release(owner)` is called once, when the last tensor that uses the memory is freed; it may be NULL, and then the
 * caller keeps the memory alive. On error release is not called. */
SAMBA_API samba_status samba_tensor_from_memory(samba_context *context, const char *name, samba_dtype dtype, int rank,
                                                const int64_t *shape, const int64_t *strides, void *data,
                                                void (*release)(void *owner), void *owner, samba_tensor **tensor);
/* Moves a tensor of samba_tensor_from_memory that has neither views nor an owner to release to other memory of the same dtype,
 * shape and strides, for a batch whose address the program did not choose: cheaper than a tensor for each. Nothing is copied.
 * Errors: ARGUMENT (NULL, not aligned to the dtype), STATE (any other tensor). */
SAMBA_API samba_status samba_tensor_set_memory(samba_tensor *tensor, void *data);
/* Drops one holder; NULL is allowed. */
SAMBA_API void samba_tensor_free(samba_tensor *tensor);

SAMBA_API const char *samba_tensor_name(const samba_tensor *tensor);                  /* "" when it has none */
SAMBA_API samba_status samba_tensor_set_name(samba_tensor *tensor, const char *name); /* the name is copied */
SAMBA_API samba_dtype samba_tensor_dtype(const samba_tensor *tensor);                 /* of its elements */
SAMBA_API int samba_tensor_rank(const samba_tensor *tensor);                          /* how many dims */
SAMBA_API const int64_t *samba_tensor_shape(const samba_tensor *tensor);              /* rank sizes, owned by the tensor */
SAMBA_API const int64_t *samba_tensor_strides(const samba_tensor *tensor);            /* rank strides in elements */
SAMBA_API int64_t samba_tensor_numel(const samba_tensor *tensor);                     /* how many elements */
SAMBA_API bool samba_tensor_has_data(const samba_tensor *tensor);                     /* false of an empty tensor */
SAMBA_API bool samba_tensor_is_contiguous(const samba_tensor *tensor);                /* in C order without gaps */
SAMBA_API void *samba_tensor_data(const samba_tensor *tensor);                        /* first element; NULL when empty */

/* Views: new tensors over the same memory, named as the source. Each may also be taken of an empty tensor.
 * reshape: one size may be -1; SAMBA_ERROR_SHAPE where the strides do not allow a view (torch.Tensor.view). */
SAMBA_API samba_status samba_tensor_view(samba_tensor *source, int rank, const int64_t *shape, samba_tensor **view);
/* As view, but copies into new memory where a view is not possible (torch.Tensor.reshape). */
SAMBA_API samba_status samba_tensor_reshape(samba_tensor *source, int rank, const int64_t *shape, samba_tensor **result);
/* dims: a permutation of 0..rank-1; negative dims count from the end. */
SAMBA_API samba_status samba_tensor_permute(samba_tensor *source, const int *dims, samba_tensor **view);
/* Elements start, start+step ... < stop of one dim, with Python's rules for negative and out-of-range bounds; step >= 1. */
SAMBA_API samba_status samba_tensor_slice(samba_tensor *source, int dim, int64_t start, int64_t stop, int64_t step,
                                          samba_tensor **view);
/* Removes a dim by taking one index of it (torch.select). */
SAMBA_API samba_status samba_tensor_select(samba_tensor *source, int dim, int64_t index, samba_tensor **view);
/* Repeats dims of size 1 by stride 0; new dims come in front; -1 keeps a size (torch.Tensor.expand). */
SAMBA_API samba_status samba_tensor_expand(samba_tensor *source, int rank, const int64_t *shape, samba_tensor **view);

/* Copies values, converting dtypes as torch.Tensor.copy_ does (float to integer truncates; to bool is != 0; to bfloat16 and
 * float16 rounds to nearest even). Shapes must be equal. Memory may not overlap unless it is the same view. */
SAMBA_API samba_status samba_tensor_copy(samba_tensor *destination, const samba_tensor *source);
/* The only element of a one-element tensor as double or int64_t, which cuts fractions off;
 * ARGUMENT where int64_t cannot hold it (NaN, 1e30). */
SAMBA_API samba_status samba_tensor_item(const samba_tensor *tensor, double *value);
SAMBA_API samba_status samba_tensor_item_int64(const samba_tensor *tensor, int64_t *value);

#ifdef __cplusplus
}
#endif
#endif
