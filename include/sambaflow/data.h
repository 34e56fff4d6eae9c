/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of tensors: IDX (MNIST's), .npy/.npz, safetensors, HDF5. Readers trust nothing in a file; a short or foreign one is
 * SAMBA_ERROR_FORMAT with the path, what was expected and what was found. */
#ifndef SAMBAFLOW_DATA_H
#define SAMBAFLOW_DATA_H

#include <sambaflow/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An IDX file, gzip-compressed or not, as a tensor of its own dtype and shape. */
SAMBA_API samba_status samba_idx_read(samba_context *context, const char *path, samba_tensor **tensor);
/* A .npy file (C order, little endian, dtypes of samba_dtype but bfloat16). */
SAMBA_API samba_status samba_npy_read(samba_context *context, const char *path, samba_tensor **tensor);
SAMBA_API samba_status samba_npy_write(samba_context *context, const char *path, const samba_tensor *tensor); /* atomic */

/* Several named tensors from one file. */
typedef struct samba_tensor_list {
    int count;
    samba_tensor **tensors;
} samba_tensor_list;
SAMBA_API samba_status samba_npz_read(samba_context *context, const char *path, samba_tensor_list *list); /* stored or deflated */
SAMBA_API samba_status samba_safetensors_read(samba_context *context, const char *path, samba_tensor_list *list);
/* Atomic; metadata: alternating keys and values, NULL-terminated, or NULL. Tensors are stored widest dtype first, then by name,
 * so that all are aligned; the same tensors give the same bytes in whatever order they are given. */
SAMBA_API samba_status samba_safetensors_write(samba_context *context, const char *path, int count, samba_tensor *const *tensors,
                                               const char *const *metadata);
/* A dataset of an HDF5 file ("input_ids", "group/input_ids"), which names the tensor: int8 to int64, uint8, float16, float32,
 * float64 and bool in either byte order, compressed or not. It lies in this file, not in others that this one names.
 * NAME lists what there is instead; UNSUPPORTED also where the plugin for HDF5 is not there (-Dhdf5). */
SAMBA_API samba_status samba_hdf5_read(samba_context *context, const char *path, const char *dataset, samba_tensor **tensor);
SAMBA_API void samba_tensor_list_free(samba_context *context, samba_tensor_list *list);
/* By the file's ending: .npy .npz .safetensors, IDX (.idx, -ubyte, with or without .gz), .hdf5 and .h5. A single tensor is named
 * `name`. Of an HDF5 file it is the dataset of that name, or with "FILE.hdf5:DATASET" for a path another one, named `name`. */
SAMBA_API samba_status samba_tensors_read(samba_context *context, const char *path, const char *name, samba_tensor_list *list);

/* Counter-based random numbers: the same for a seed whatever the order or number of threads. Fill a float tensor. Element i is a
 * function of the seed and of i, so two tensors that are to have nothing to do with each other, inputs and their noise, take two
 * seeds, and each step new ones. */
SAMBA_API samba_status samba_fill_uniform(samba_tensor *tensor, uint64_t seed, double low, double high);
SAMBA_API samba_status samba_fill_normal(samba_tensor *tensor, uint64_t seed, double mean, double deviation);
/* The same by several threads, and by choice: the distribution, and how float32 becomes bfloat16.
 * Bits depend on the seed alone. */
typedef enum samba_distribution {
    SAMBA_UNIFORM = 0, /* [a, b), as samba_fill_uniform */
    SAMBA_NORMAL = 1,  /* mean a, deviation b, by Box and Muller's transform, as samba_fill_normal */
    /* the same distribution by inverse transform sampling: a larger uniform number gives a larger normal one */
    SAMBA_NORMAL_INVERSE = 2,
    SAMBA_NORMAL_TRUNCATED = 3 /* what of it lies in [low, high], by inverse transform sampling */
} samba_distribution;
typedef enum samba_rounding { /* of a bfloat16 tensor's values, which are those of a float32 tensor */
                              SAMBA_NEAREST_EVEN = 0,
                              SAMBA_TRUNCATION = 1 /* the upper 16 bits */
} samba_rounding;
typedef struct samba_fill_options {
    size_t struct_size;
    samba_distribution distribution;
    samba_rounding rounding;
    double a, b;
    uint64_t seed;
    int threads;      /* 0: as many as OpenMP offers */
    double low, high; /* of SAMBA_NORMAL_TRUNCATED; may be infinite */
} samba_fill_options;
SAMBA_API samba_fill_options samba_fill_defaults(void); /* uniform in [0, 1) */
/* Fills a contiguous float tensor; `options` may be NULL. DTYPE, STATE: as the two above; ARGUMENT also:
 * strides, threads, distribution, rounding. */
SAMBA_API samba_status samba_fill(samba_tensor *tensor, const samba_fill_options *options);
/* Integers in [low, high) for any dtype. */
SAMBA_API samba_status samba_fill_integers(samba_tensor *tensor, uint64_t seed, int64_t low, int64_t high);
/* A permutation of 0..n-1 (Fisher-Yates over counter-based numbers). */
SAMBA_API void samba_shuffle(uint64_t seed, int64_t n, int64_t *order);

#ifdef __cplusplus
}
#endif
#endif
