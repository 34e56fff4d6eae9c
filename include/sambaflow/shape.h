/* SPDX-License-Identifier: Apache-2.0
 *
 * The same elements under other shapes and in other orders. */
#ifndef SAMBAFLOW_SHAPE_H
#define SAMBAFLOW_SHAPE_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dims may be negative, counted from the end; a function named in brackets is PyTorch's of the same meaning where the name
 * differs. Results are views where the compiler can make them views:
 * reshapes, permutations, slices and expanded values cost nothing by themselves. Any dtype; gradients are PyTorch's. */

/* ---- views ---- */
SAMBA_API samba_value samba_reshape(samba_value a, int rank, const int64_t *shape); /* one size may be -1 */
SAMBA_API samba_value samba_permute(samba_value a, const int *dims);                /* dims: as many as a has, each once */
SAMBA_API samba_value samba_transpose(samba_value a, int dim0, int dim1);           /* swaps two dims */
SAMBA_API samba_value samba_movedim(samba_value a, int count, const int *source, const int *destination); /* torch.movedim */
SAMBA_API samba_value samba_flatten(samba_value a, int start_dim, int end_dim); /* dims from start_dim to end_dim become one */
SAMBA_API samba_value samba_unflatten(samba_value a, int dim, int rank, const int64_t *sizes); /* one size may be -1 */
SAMBA_API samba_value samba_unsqueeze(samba_value a, int dim);                                 /* a dim of size 1 at dim */
/* of these dims those of size 1; dims NULL: of all */
SAMBA_API samba_value samba_squeeze(samba_value a, int count, const int *dims);
SAMBA_API samba_value samba_expand(samba_value a, int rank, const int64_t *shape); /* -1 keeps a size */
/* The value of `a` after torch.Tensor.copy_(source): the source in a's dtype, broadcast to a's shape. */
SAMBA_API samba_value samba_copy_into(samba_value a, samba_value source);
/* a[start:stop:step], step >= 1 */
SAMBA_API samba_value samba_slice(samba_value a, int dim, int64_t start, int64_t stop, int64_t step);
SAMBA_API samba_value samba_select(samba_value a, int dim, int64_t index);
SAMBA_API samba_value samba_narrow(samba_value a, int dim, int64_t start, int64_t length);
SAMBA_API samba_value samba_diagonal(samba_value a, int64_t offset, int dim1, int dim2);
/* [torch.Tensor.unfold]: their elements are the last dim */
SAMBA_API samba_value samba_windows(samba_value a, int dim, int64_t size, int64_t step);
/* Elements start + sum of index * stride of a, numbered in C order whatever memory they lie in; strides are not negative. */
SAMBA_API samba_value samba_as_strided(samba_value a, int rank, const int64_t *shape, const int64_t *strides, int64_t start);

/* ---- parts; `count` is the room in `values` and must be the number of parts ---- */
/* the last one may be smaller */
SAMBA_API void samba_split(samba_value a, int64_t split_size, int dim, int count, samba_value *values);
/* [torch.split with sections] */
SAMBA_API void samba_split_sizes(samba_value a, int count, const int64_t *sizes, int dim, samba_value *values);
/* may be fewer than `chunks` */
SAMBA_API void samba_chunk(samba_value a, int64_t chunks, int dim, int count, samba_value *values);
/* as even as can be, larger ones first */
SAMBA_API void samba_tensor_split(samba_value a, int count, int dim, samba_value *values);
SAMBA_API void samba_unbind(samba_value a, int dim, int count, samba_value *values);

/* ---- several joined ---- */
/* [torch.cat]; dtypes promote; values of shape (0) do not count */
SAMBA_API samba_value samba_concat(int count, const samba_value *values, int dim);
SAMBA_API samba_value samba_stack(int count, const samba_value *values, int dim);
SAMBA_API samba_value samba_hstack(int count, const samba_value *values);
SAMBA_API samba_value samba_vstack(int count, const samba_value *values);
SAMBA_API samba_value samba_dstack(int count, const samba_value *values);
SAMBA_API samba_value samba_block_diag(int count, const samba_value *values); /* of rank 0 to 2 */
/* indexing="xy" or "ij"; values of rank 0 or 1 */
SAMBA_API void samba_meshgrid(int count, const samba_value *values, bool xy, samba_value *grids);

/* ---- repeated ---- */
/* [torch.tile] where rank is less than a's */
SAMBA_API samba_value samba_repeat(samba_value a, int rank, const int64_t *repeats);
SAMBA_API samba_value samba_repeat_interleave(samba_value a, int64_t repeats, int dim);
/* one for each index of the dim */
SAMBA_API samba_value samba_repeat_interleave_each(samba_value a, const int64_t *repeats, int dim);

/* ---- other orders ---- */
SAMBA_API samba_value samba_flip(samba_value a, int count, const int *dims); /* reverses these dims */
/* torch.rot90: k quarter turns from dim0 to dim1. */
SAMBA_API samba_value samba_rot90(samba_value a, int64_t k, int dim0, int dim1);
/* dims NULL: all as one line, by shifts[0] */
SAMBA_API samba_value samba_roll(samba_value a, int count, const int64_t *shifts, const int *dims);
/* [torch.nn.functional.pad] of the last `count` dims: amounts[0] before and amounts[1] after the last one, then those of the one
 * before it. Negative amounts cut. reflect takes less than the size, circular no more. `value` is for constant. */
typedef enum samba_pad_mode {
    SAMBA_PAD_CONSTANT = 0,
    SAMBA_PAD_REFLECT = 1,
    SAMBA_PAD_REPLICATE = 2,
    SAMBA_PAD_CIRCULAR = 3
} samba_pad_mode;
SAMBA_API samba_value samba_pad(samba_value a, int count, const int64_t *amounts, samba_pad_mode mode, double value);
SAMBA_API samba_value samba_tril(samba_value a, int64_t diagonal);
SAMBA_API samba_value samba_triu(samba_value a, int64_t diagonal);
SAMBA_API samba_value samba_diag(samba_value a, int64_t diagonal); /* of rank 1: a matrix; of rank 2: its diagonal */
SAMBA_API samba_value samba_diag_embed(samba_value a, int64_t offset, int dim1, int dim2);

/* ---- constants; samba_constant is torch.full, samba_arange in graph.h ---- */
/* torch.eye. */
SAMBA_API samba_value samba_eye(samba_graph *graph, int64_t rows, int64_t columns, samba_dtype dtype);
/* floating-point */
SAMBA_API samba_value samba_linspace(samba_graph *graph, double start, double end, int64_t steps, samba_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
