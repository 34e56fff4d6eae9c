/* SPDX-License-Identifier: Apache-2.0
 *
 * Views: other shapes and strides over the same memory, with PyTorch's rules. Each function only works out the new header; what
 * it makes keeps the memory alive. Nothing is changed in the source but its memory's count of holders. */
#include "base/null.h"
#include "tensor/tensor.h"

#include <string.h>

static const char *label(const samba_tensor *tensor) { return tensor->name ? tensor->name : "(unnamed)"; }

static samba_status check_rank(const samba_tensor *source, const char *verb, int rank, const int64_t *shape)
{
    if (rank < 0 || rank > SAMBA_MAX_RANK)
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT, "%s of tensor %s: rank %d; give 0 to %d", verb, label(source),
                          rank, SAMBA_MAX_RANK);
    if (rank > 0 && !shape)
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT, "%s of tensor %s: rank %d without a shape", verb, label(source),
                          rank);
    return SAMBA_OK;
}

/* Counts negative dims from the end. */
static samba_status resolve_dim(const samba_tensor *source, const char *verb, int *dim)
{
    int given = *dim;
    if (given < 0)
        *dim += source->rank;
    if (*dim < 0 || *dim >= source->rank)
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT, "%s of tensor %s: dim %d; it has %d dims", verb, label(source),
                          given, source->rank);
    return SAMBA_OK;
}

/* Finds the size that stands for -1 and checks that all elements are there. */
static samba_status resolve_shape(const samba_tensor *source, const char *verb, int rank, const int64_t *shape, int64_t *sizes)
{
    char old_text[SAMBA_SHAPE_TEXT], new_text[SAMBA_SHAPE_TEXT];
    SAMBA_TRY(check_rank(source, verb, rank, shape));
    samba_shape_format(source->rank, source->shape, old_text, sizeof old_text);
    samba_shape_format(rank, shape, new_text, sizeof new_text);
    int unknown = -1;
    for (int i = 0; i < rank; i++) {
        sizes[i] = shape[i];
        if (shape[i] < -1 || (shape[i] == -1 && unknown >= 0))
            return samba_fail(source->context, SAMBA_ERROR_ARGUMENT,
                              "%s of tensor %s as %s: sizes are 0 or more, and one may be -1", verb, label(source), new_text);
        if (shape[i] == -1) {
            unknown = i;
            sizes[i] = 1;
        }
    }
    int64_t numel = samba_tensor_numel(source), rest = 0;
    bool fits = samba_shape_numel(rank, sizes, &rest);
    if (unknown >= 0 && fits && rest == 0)
        return samba_fail(source->context, SAMBA_ERROR_SHAPE, "%s of tensor %s %s as %s: -1 could be any size; give it", verb,
                          label(source), old_text, new_text);
    if (unknown >= 0 && fits && numel % rest == 0)
        sizes[unknown] = numel / rest;
    if (!fits || !samba_shape_numel(rank, sizes, &rest) || rest != numel)
        return samba_fail(source->context, SAMBA_ERROR_SHAPE,
                          "%s of tensor %s %s as %s: its %lld elements do not fill that shape", verb, label(source), old_text,
                          new_text, (long long)numel);
    return SAMBA_OK;
}

samba_status samba_tensor_view(samba_tensor *source, int rank, const int64_t *shape, samba_tensor **view)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, view);
    int64_t sizes[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    char text[3][SAMBA_SHAPE_TEXT];
    *view = NULL;
    SAMBA_TRY(resolve_shape(source, "view", rank, shape, sizes));
    if (!samba_shape_view_strides(source->rank, source->shape, source->strides, rank, sizes, strides))
        return samba_fail(
            source->context, SAMBA_ERROR_SHAPE,
            "view of tensor %s %s with strides %s as %s: its elements do not lie in that order; use samba_tensor_reshape",
            label(source), samba_shape_format(source->rank, source->shape, text[0], sizeof text[0]),
            samba_shape_format(source->rank, source->strides, text[1], sizeof text[1]),
            samba_shape_format(rank, sizes, text[2], sizeof text[2]));
    return samba_tensor_view_new(source, rank, sizes, strides, 0, view);
}

samba_status samba_tensor_reshape(samba_tensor *source, int rank, const int64_t *shape, samba_tensor **result)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, result);
    int64_t sizes[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    *result = NULL;
    SAMBA_TRY(resolve_shape(source, "reshape", rank, shape, sizes));
    if (samba_shape_view_strides(source->rank, source->shape, source->strides, rank, sizes, strides))
        return samba_tensor_view_new(source, rank, sizes, strides, 0, result);
    if (!source->storage)
        return samba_tensor_empty(source->context, source->name, source->dtype, rank, sizes, result);
    /* a copy in the source's own order, then a view of that */
    samba_tensor *copy = NULL;
    SAMBA_TRY(samba_tensor_new(source->context, source->name, source->dtype, source->rank, source->shape, &copy));
    samba_status status = samba_tensor_copy(copy, source);
    if (status == SAMBA_OK)
        status = samba_tensor_view(copy, rank, sizes, result);
    samba_tensor_free(copy);
    return status;
}

samba_status samba_tensor_permute(samba_tensor *source, const int *dims, samba_tensor **view)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, view);
    if (source->rank > 0)
        SAMBA_NEED(source->context, dims);
    int64_t shape[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    unsigned seen = 0;
    *view = NULL;
    for (int i = 0; i < source->rank; i++) {
        int dim = dims[i];
        SAMBA_TRY(resolve_dim(source, "permute", &dim));
        if (seen & 1u << dim)
            return samba_fail(source->context, SAMBA_ERROR_ARGUMENT,
                              "permute of tensor %s: dim %d stands there twice; give each once", label(source), dim);
        seen |= 1u << dim;
        shape[i] = source->shape[dim];
        strides[i] = source->strides[dim];
    }
    return samba_tensor_view_new(source, source->rank, shape, strides, 0, view);
}

/* Python's rule for a slice bound: negative ones count from the end, then both are cut to 0 .. size. */
static int64_t resolve_bound(int64_t bound, int64_t size)
{
    if (bound < 0)
        bound = bound < -size ? 0 : bound + size;
    return bound > size ? size : bound;
}

samba_status samba_tensor_slice(samba_tensor *source, int dim, int64_t start, int64_t stop, int64_t step, samba_tensor **view)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, view);
    int64_t shape[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    *view = NULL;
    SAMBA_TRY(resolve_dim(source, "slice", &dim));
    if (step < 1)
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT, "slice of tensor %s: step %lld; it must be 1 or more",
                          label(source), (long long)step);
    memcpy(shape, source->shape, sizeof shape);
    memcpy(strides, source->strides, sizeof strides);
    int64_t size = shape[dim];
    start = resolve_bound(start, size);
    stop = resolve_bound(stop, size);
    if (stop < start)
        stop = start;
    if (step > size) /* past the end in any case; keeps stride * step small */
        step = size > 0 ? size : 1;
    shape[dim] = (stop - start + step - 1) / step;
    strides[dim] *= step;
    return samba_tensor_view_new(source, source->rank, shape, strides, start * source->strides[dim], view);
}

samba_status samba_tensor_select(samba_tensor *source, int dim, int64_t index, samba_tensor **view)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, view);
    int64_t shape[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    *view = NULL;
    SAMBA_TRY(resolve_dim(source, "select", &dim));
    int64_t size = source->shape[dim], position = index < 0 ? index + size : index;
    if (position < 0 || position >= size)
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT, "select of tensor %s: index %lld of dim %d; its size is %lld",
                          label(source), (long long)index, dim, (long long)size);
    for (int i = 0, j = 0; i < source->rank; i++)
        if (i != dim) {
            shape[j] = source->shape[i];
            strides[j++] = source->strides[i];
        }
    return samba_tensor_view_new(source, source->rank - 1, shape, strides, position * source->strides[dim], view);
}

samba_status samba_tensor_expand(samba_tensor *source, int rank, const int64_t *shape, samba_tensor **view)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, view);
    int64_t sizes[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    char old_text[SAMBA_SHAPE_TEXT], new_text[SAMBA_SHAPE_TEXT];
    *view = NULL;
    SAMBA_TRY(check_rank(source, "expand", rank, shape));
    samba_shape_format(source->rank, source->shape, old_text, sizeof old_text);
    samba_shape_format(rank, shape, new_text, sizeof new_text);
    int added = rank - source->rank;
    bool fits = added >= 0;
    for (int i = 0; i < rank && fits; i++) {
        int64_t old_size = i < added ? 1 : source->shape[i - added];
        sizes[i] = shape[i] == -1 && i >= added ? old_size : shape[i];
        bool same = sizes[i] == old_size && i >= added;
        strides[i] = same ? source->strides[i - added] : 0;
        fits = sizes[i] >= 0 && (same || old_size == 1);
    }
    if (!fits)
        return samba_fail(source->context, SAMBA_ERROR_SHAPE,
                          "expand of tensor %s %s to %s: only sizes of 1 can grow, new dims come in front, and -1 keeps a size",
                          label(source), old_text, new_text);
    int64_t limit = (INT64_C(1) << 62) / (int64_t)samba_dtype_size(source->dtype), numel = 0;
    if (!samba_shape_numel(rank, sizes, &numel) || numel >= limit)
        return samba_fail(source->context, SAMBA_ERROR_SHAPE, "expand of tensor %s %s to %s: that is 2^62 bytes or more",
                          label(source), old_text, new_text);
    return samba_tensor_view_new(source, rank, sizes, strides, 0, view);
}
