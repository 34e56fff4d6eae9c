/* SPDX-License-Identifier: Apache-2.0
 *
 * Pure functions over shapes: counting, strides, broadcasting, printing. Sizes may come from files, so every product is checked;
 * even where one size is 0 the other sizes must have a product that fits, since strides are made of them. */
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

bool samba_shape_is_apart(int rank, const int64_t *shape, const int64_t *strides)
{
    uint64_t reach = 0; /* of the dims with smaller steps, in elements */
    bool used[SAMBA_MAX_RANK] = {false};
    for (int i = 0; i < rank; i++)
        if (shape[i] == 0)
            return true;
    for (int round = 0; round < rank; round++) {
        int next = -1;
        for (int i = 0; i < rank; i++)
            if (!used[i] && shape[i] > 1 && (next < 0 || llabs(strides[i]) < llabs(strides[next])))
                next = i;
        if (next < 0)
            break;
        used[next] = true;
        if ((uint64_t)llabs(strides[next]) <= reach)
            return false;
        reach += (uint64_t)(shape[next] - 1) * (uint64_t)llabs(strides[next]);
    }
    return true;
}

bool samba_shape_numel(int rank, const int64_t *shape, int64_t *numel)
{
    int64_t product = 1;
    bool none = false;
    for (int i = 0; i < rank; i++) {
        none |= shape[i] == 0;
        if (shape[i] != 0 && !samba_mul_checked(product, shape[i], &product))
            return false;
    }
    *numel = none ? 0 : product;
    return true;
}

void samba_shape_contiguous_strides(int rank, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape[i] > 1 ? shape[i] : 1;
    }
}

bool samba_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b)
{
    return rank_a == rank_b && (rank_a == 0 || memcmp(a, b, (size_t)rank_a * sizeof *a) == 0);
}

/* Walks both shapes from the right. Old dims that lie in memory as one run (each stride is the next one's size * stride) form a
 * block; the new dims must fill whole blocks, and within a block their strides follow from its last stride. */
bool samba_shape_view_strides(int rank, const int64_t *shape, const int64_t *strides, int new_rank, const int64_t *new_shape,
                              int64_t *new_strides)
{
    int64_t numel;
    if (!samba_shape_numel(rank, shape, &numel))
        return false;
    if (numel == 0) {
        if (samba_shape_equal(rank, shape, new_rank, new_shape))
            memcpy(new_strides, strides, (size_t)rank * sizeof *strides);
        else
            samba_shape_contiguous_strides(new_rank, new_shape, new_strides);
        return true;
    }
    int next = new_rank - 1;
    int64_t block_stride = rank ? strides[rank - 1] : 1, block = 1;
    for (int i = rank - 1; i >= 0; i--) {
        block *= shape[i];
        bool ends = i == 0 || (shape[i - 1] != 1 && strides[i - 1] != block * block_stride);
        if (!ends)
            continue;
        int64_t filled = 1;
        while (next >= 0 && (filled < block || new_shape[next] == 1)) {
            new_strides[next] = filled * block_stride;
            filled *= new_shape[next--];
        }
        if (filled != block)
            return false;
        if (i > 0) {
            block_stride = strides[i - 1];
            block = 1;
        }
    }
    for (; next >= 0; next--) /* rank 0 to sizes of 1 */
        new_strides[next] = 1;
    return true;
}

bool samba_shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *shape)
{
    int longest = rank_a > rank_b ? rank_a : rank_b;
    for (int i = 1; i <= longest; i++) {
        int64_t size_a = i <= rank_a ? a[rank_a - i] : 1, size_b = i <= rank_b ? b[rank_b - i] : 1;
        if (size_a != size_b && size_a != 1 && size_b != 1)
            return false;
        shape[longest - i] = size_a == 1 ? size_b : size_a;
    }
    *rank = longest;
    return true;
}

bool samba_shape_next(int rank, const int64_t *shape, int64_t *index)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < shape[i])
            return true;
        index[i] = 0;
    }
    return false;
}

char *samba_shape_format(int rank, const int64_t *shape, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "(");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < size)
        snprintf(buffer + used, size - used, ")");
    return buffer;
}
