/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements by their index. Indices are int64 or int32 and count from 0; those of samba_index, samba_index_put, samba_take and
 * samba_put may also count from the end, as PyTorch's. One that is out of range fails the run: before it where indices come
 * straight from an input, else as an error that names the operator. Dims may be negative. Values keep their dtype and every bit;
 * gradients are PyTorch's. Several values that go to one element come in the order of the index,
 * whatever the number of threads. */
#ifndef SAMBAFLOW_INDEX_H
#define SAMBAFLOW_INDEX_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* torch.nn.functional.embedding: rows of a weight (V, D): index.shape + (D). Options may be NULL. */
typedef struct samba_embedding_options {
    size_t struct_size;      /* sizeof(samba_embedding_options) */
    bool has_padding_idx;    /* the row padding_idx gets no gradient */
    int64_t padding_idx;     /* may count from the end */
    bool scale_grad_by_freq; /* a row's gradient is divided by how often the index names it */
} samba_embedding_options;
SAMBA_API samba_value samba_functional_embedding(samba_value index, samba_value weight, const samba_embedding_options *options);

/* torch.nn.functional.embedding_bag: sums, means or greatest elements of bags of rows: (bags, D). An index (B, N) is B bags of N;
 * one of rank 1 has bags that begin at `offsets`, the first 0, none before the one before it. */
typedef enum samba_bag_mode { SAMBA_BAG_MEAN = 0, SAMBA_BAG_SUM = 1, SAMBA_BAG_MAX = 2 } samba_bag_mode;
typedef struct samba_embedding_bag_options {
    size_t struct_size; /* sizeof(samba_embedding_bag_options) */
    samba_bag_mode mode;
    bool has_padding_idx; /* rows of that index do not count */
    int64_t padding_idx;  /* may count from the end */
    bool scale_grad_by_freq;
    samba_value per_sample_weights; /* of the index's shape, factors of a sum; zeroed: none */
    const int64_t *offsets;         /* offset_count of them, read during the call */
    int64_t offset_count;
    bool include_last_offset; /* the last one is the length of the index and begins no bag */
} samba_embedding_bag_options;
SAMBA_API samba_value samba_functional_embedding_bag(samba_value index, samba_value weight,
                                                     const samba_embedding_bag_options *options);

/* torch.gather: y[i][j] = a[index[i][j]][j] for dim 0, and so on.
 * The index has a's rank, and along other dims is no longer than a. */
SAMBA_API samba_value samba_gather(samba_value a, int dim, samba_value index);
/* torch.take_along_dim: the same, of shapes that broadcast against each other along other dims. */
SAMBA_API samba_value samba_take_along_dim(samba_value a, samba_value index, int dim);
/* torch.scatter, scatter_add, scatter_reduce: a copy of a, in which elements of `source` are written, added or combined where
 * gather would read. `source` has a's dtype and reaches as far as the index along every dim; one of rank 0 serves all elements.
 * exclude_self: the old value of an element that is written does not count (include_self=False). */
typedef enum samba_scatter_reduction {
    SAMBA_SCATTER_SUM = 0,
    SAMBA_SCATTER_MEAN = 1,
    SAMBA_SCATTER_PROD = 2,
    SAMBA_SCATTER_AMAX = 3,
    SAMBA_SCATTER_AMIN = 4
} samba_scatter_reduction;
SAMBA_API samba_value samba_scatter(samba_value a, int dim, samba_value index, samba_value source);
SAMBA_API samba_value samba_scatter_add(samba_value a, int dim, samba_value index, samba_value source);
SAMBA_API samba_value samba_scatter_reduce(samba_value a, int dim, samba_value index, samba_value source,
                                           samba_scatter_reduction reduce, bool exclude_self);

/* torch.index_select, index_add, index_copy, index_fill, index_reduce: whole slices of a dim, by an index of rank 1 or 0.
 * `source` has a's dtype and shape but for that dim, where it is as long as the index; alpha is its factor. */
SAMBA_API samba_value samba_index_select(samba_value a, int dim, samba_value index);
SAMBA_API samba_value samba_index_add(samba_value a, int dim, samba_value index, samba_value source, double alpha);
SAMBA_API samba_value samba_index_copy(samba_value a, int dim, samba_value index, samba_value source);
SAMBA_API samba_value samba_index_fill(samba_value a, int dim, samba_value index, double value);
SAMBA_API samba_value samba_index_reduce(samba_value a, int dim, samba_value index, samba_value source,
                                         samba_scatter_reduction reduce, bool exclude_self);

/* a[indices[0], indices[1], ...] as in Python: one index for each of the first `count` dims, a zeroed value for all of a dim.
 * They broadcast against each other; their dims stand where the first of those dims stood,
 * or in front when other dims lie between. */
SAMBA_API samba_value samba_index(samba_value a, int count, const samba_value *indices);
/* torch.index_put: a copy of a, in which the elements that samba_index would read are `values`, which broadcast to that shape;
 * accumulate: the values are added. */
SAMBA_API samba_value samba_index_put(samba_value a, int count, const samba_value *indices, samba_value values, bool accumulate);
/* torch.take and torch.Tensor.put: elements of a by their number in C order. */
SAMBA_API samba_value samba_take(samba_value a, samba_value index);
SAMBA_API samba_value samba_put(samba_value a, samba_value index, samba_value source, bool accumulate);

/* torch.nn.functional.one_hot: int64, index.shape + (num_classes); an index out of range gives zeros. */
SAMBA_API samba_value samba_one_hot(samba_value index, int64_t num_classes);

#ifdef __cplusplus
}
#endif
#endif
