/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions, running sums, positions of the greatest. */
#include "onnx/lists.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>

typedef samba_value reduction_fn(samba_value a, int count, const int *dims, bool keepdim);

/* Axes are an attribute until `since`, then an input; without any all dims, or none where noop_with_empty_axes says so. */
static void reduce(samba_onnx_node *node, int64_t since, samba_value (*before)(samba_value), reduction_fn *reduction,
                   samba_value (*after)(samba_value))
{
    samba_value a = samba_onnx_need(node, 0);
    bool keep = samba_onnx_flag(node, "keepdims", true), nothing = samba_onnx_flag(node, "noop_with_empty_axes", false);
    if (node->refused)
        return;
    int dims[SAMBA_MAX_RANK], rank = samba_value_rank(a), count = samba_onnx_axes(node, 1, since, rank, dims);
    if (node->refused)
        return;
    samba_dtype dtype = samba_value_dtype(a);
    if (before)
        a = before(a);
    if (count > 0 || !nothing) {
        for (int i = 0; count <= 0 && i < rank; i++)
            dims[i] = i;
        if (rank > 0)
            a = reduction(a, count > 0 ? count : rank, dims, keep);
        else
            a = reduction(a, 0, NULL, keep);
    }
    if (after)
        a = after(a);
    samba_onnx_out(node, 0, samba_cast(a, dtype)); /* sums of integers stay in their dtype, and wrap */
    samba_onnx_out_type(node, 0, samba_onnx_type_in(node, 0));
}

static samba_value exact_mean(samba_value a, int count, const int *dims, bool keep)
{
    if (samba_dtype_is_floating_point(samba_value_dtype(a)))
        return samba_mean(a, count, dims, keep);
    samba_value wide = samba_cast(a, SAMBA_FLOAT64), mean = samba_mean(wide, count, dims, keep);
    return samba_trunc(mean);
}

static bool is_empty(samba_value a)
{
    int64_t shape[SAMBA_MAX_RANK];
    bool empty = false;
    samba_onnx_shape(a, shape);
    for (int i = 0; i < samba_value_rank(a); i++)
        empty |= shape[i] == 0;
    return empty;
}

/* What the greatest, or the least, of no elements is: the other end of what the model's type has, of rank 0. */
static samba_value end_of(samba_onnx_node *node, samba_value a, bool least)
{
    static const struct {
        int32_t type;
        int64_t least, greatest; /* as what holds them has them */
    } ends[] = {{SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, 1},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT8, INT8_MIN, INT8_MAX},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 0, UINT8_MAX},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT16, INT16_MIN, INT16_MAX},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__UINT16, 0, UINT16_MAX},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT32, INT32_MIN, INT32_MAX},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__UINT32, 0, UINT32_MAX},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT64, INT64_MIN, INT64_MAX},
                {SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__UINT64, 0, -1}};
    const samba_dtype dtype = samba_value_dtype(a);
    const int32_t type = samba_onnx_type_of(node, 0, a);
    if (samba_dtype_is_floating_point(dtype))
        return samba_constant(node->graph, least ? -INFINITY : INFINITY, dtype, 0, NULL);
    for (int i = 0; i < SAMBA_COUNT(ends); i++)
        if (ends[i].type == type)
            return samba_cast(samba_onnx_ints_value(node, 0, NULL, least ? &ends[i].least : &ends[i].greatest), dtype);
    return onnx_refused(node, "the greatest and least of no elements of %s are not supported", samba_onnx_type_name(type));
}

static void reduce_extremum(samba_onnx_node *node, bool greatest_one)
{
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    if (!is_empty(a)) {
        reduce(node, 18, NULL, greatest_one ? samba_amax : samba_amin, NULL);
        return;
    }
    bool keep = samba_onnx_flag(node, "keepdims", true);
    samba_onnx_flag(node, "noop_with_empty_axes", false);
    int dims[SAMBA_MAX_RANK], rank = samba_value_rank(a), count = samba_onnx_axes(node, 1, 18, rank, dims);
    samba_value end = end_of(node, a, greatest_one);
    if (node->refused)
        return;
    for (int i = 0; count <= 0 && i < rank; i++)
        dims[i] = i;
    int64_t shape[SAMBA_MAX_RANK];
    samba_value shaped = samba_sum(a, count > 0 ? count : rank, dims, keep); /* a sum of nothing has the right shape */
    samba_onnx_shape(shaped, shape);
    samba_onnx_out_same(node, samba_expand(end, samba_value_rank(shaped), shape));
}

static samba_value log_sum_exp(samba_value a, int count, const int *dims, bool keep)
{
    if (samba_dtype_is_floating_point(samba_value_dtype(a)))
        return samba_logsumexp(a, count, dims, keep);
    samba_value wide = samba_cast(a, SAMBA_FLOAT64);
    return samba_logsumexp(wide, count, dims, keep);
}

static samba_value real_root(samba_value a)
{
    if (samba_dtype_is_floating_point(samba_value_dtype(a)))
        return samba_sqrt(a);
    samba_value wide = samba_cast(a, SAMBA_FLOAT64);
    return samba_sqrt(wide);
}

static samba_value real_log(samba_value a)
{
    if (samba_dtype_is_floating_point(samba_value_dtype(a)))
        return samba_log(a);
    samba_value wide = samba_cast(a, SAMBA_FLOAT64);
    return samba_log(wide);
}

static samba_value length(samba_value a, int count, const int *dims, bool keep)
{
    samba_value squares = samba_square(a), sum = samba_sum(squares, count, dims, keep);
    return real_root(sum);
}

static samba_value two_norm(samba_value a, int count, const int *dims, bool keep)
{
    return samba_dtype_is_floating_point(samba_value_dtype(a)) ? samba_vector_norm(a, 2, count, dims, keep)
                                                               : length(a, count, dims, keep);
}

#define REDUCTION(name, since, before, reduction, after)                                                                         \
    void samba_onnx_reduce_##name(samba_onnx_node *node);                                                                        \
    void samba_onnx_reduce_##name(samba_onnx_node *node) { reduce(node, since, before, reduction, after); }
REDUCTION(l1, 18, samba_abs, samba_sum, NULL)
REDUCTION(l2, 18, NULL, two_norm, NULL)
REDUCTION(log_sum, 18, NULL, samba_sum, real_log)
REDUCTION(log_sum_exp, 18, NULL, log_sum_exp, NULL)
REDUCTION(mean, 18, NULL, exact_mean, NULL)
REDUCTION(prod, 18, NULL, samba_prod, NULL)
REDUCTION(sum, 13, NULL, samba_sum, NULL)
REDUCTION(sum_square, 18, samba_square, samba_sum, NULL)
void samba_onnx_reduce_max(samba_onnx_node *node);
void samba_onnx_reduce_max(samba_onnx_node *node) { reduce_extremum(node, true); }
void samba_onnx_reduce_min(samba_onnx_node *node);
void samba_onnx_reduce_min(samba_onnx_node *node) { reduce_extremum(node, false); }

/* ---- positions ---- */

static void position(samba_onnx_node *node, samba_value (*find)(samba_value, int, bool))
{
    samba_value a = samba_onnx_need(node, 0);
    bool keep = samba_onnx_flag(node, "keepdims", true), last = samba_onnx_flag(node, "select_last_index", false);
    if (node->refused)
        return;
    int rank = samba_value_rank(a), axis = samba_onnx_axis(node, "axis", 0, rank ? rank : 1);
    if (axis < 0)
        return;
    if (!last) {
        samba_onnx_out(node, 0, find(a, axis, keep));
        return;
    }
    samba_value turned = samba_flip(a, 1, &axis), index = find(turned, axis, keep);
    samba_value end = samba_integer(node->graph, samba_value_size(a, axis) - 1);
    samba_onnx_out(node, 0, samba_sub(end, index));
}

void samba_onnx_arg_max(samba_onnx_node *node);
void samba_onnx_arg_max(samba_onnx_node *node) { position(node, samba_argmax); }
void samba_onnx_arg_min(samba_onnx_node *node);
void samba_onnx_arg_min(samba_onnx_node *node) { position(node, samba_argmin); }

/* ---- running sums and products ---- */

static void running(samba_onnx_node *node, samba_value (*run)(samba_value, int), double neutral)
{
    samba_value a = samba_onnx_need(node, 0);
    bool exclusive = samba_onnx_flag(node, "exclusive", false), reverse = samba_onnx_flag(node, "reverse", false);
    int64_t axis = samba_onnx_known_int(node, 1, "the axis", 0);
    if (node->refused)
        return;
    samba_dtype dtype = samba_value_dtype(a);
    int dim = samba_onnx_fit_dim(node, axis, samba_value_rank(a));
    if (dim < 0)
        return;
    if (reverse)
        a = samba_flip(a, 1, &dim);
    int64_t size = samba_value_size(a, dim);
    if (exclusive && size > 0) { /* all move on by one, behind a neutral element */
        samba_value kept = samba_narrow(a, dim, 0, size - 1);
        int64_t shape[SAMBA_MAX_RANK];
        samba_onnx_shape(a, shape);
        shape[dim] = 1;
        samba_value first = samba_constant(node->graph, neutral, dtype, samba_value_rank(a), shape);
        a = samba_concat(2, (samba_value[]){first, kept}, dim);
    }
    samba_value result = run(a, dim);
    if (reverse)
        result = samba_flip(result, 1, &dim);
    samba_onnx_out(node, 0, samba_cast(result, dtype));
}

void samba_onnx_cum_sum(samba_onnx_node *node);
void samba_onnx_cum_sum(samba_onnx_node *node) { running(node, samba_cumsum, 0); }
void samba_onnx_cum_prod(samba_onnx_node *node);
void samba_onnx_cum_prod(samba_onnx_node *node) { running(node, samba_cumprod, 1); }
