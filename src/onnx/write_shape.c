/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaves that the graph has itself, operators of shapes, reductions and indexing as nodes of ONNX. */
#include "onnx/write.h"
#include <math.h>
#include <string.h>

static samba_dtype dtype_in(const samba_onnx_writer *w, const samba_node *node, int input)
{
    return (samba_dtype)samba_onnx_from(w, node, input)->dtype;
}

/* ---- leaves ---- */

/* One number, which an Expand repeats: a model does not store it more than once. */
const char *samba_onnx_write_constant(samba_onnx_writer *w, const samba_node *node)
{
    return samba_onnx_filled(w, node, node->attrs->constant.value);
}

const char *samba_onnx_write_literal(samba_onnx_writer *w, const samba_node *node)
{
    samba_blob *blob = samba_graph_blob_at(w->graph, node->attrs->literal.data);
    const samba_status status = samba_arena_keep(&w->arena, blob); /* the graph may end before the model is written */
    if (status != SAMBA_OK) {
        samba_onnx_stop(w, status);
        return "";
    }
    return samba_onnx_tensor_of(w, (samba_dtype)node->dtype, node->rank, node->shape, blob->data);
}

const char *samba_onnx_write_iota(samba_onnx_writer *w, const samba_node *node)
{
    const int dim = (int)node->attrs->iota.dim;
    const samba_dtype dtype = (samba_dtype)node->dtype;
    bool alone = true;
    const char *a = samba_onnx_whole(w, node->shape[dim], node->rank, dim);
    for (int d = 0; d < node->rank; d++)
        alone = alone && (d == dim || node->shape[d] == 1);
    if (dtype != SAMBA_INT64 && samba_onnx_is_float(dtype))
        a = samba_onnx_put_cast(w, a, SAMBA_INT64, samba_onnx_wide(dtype));
    a = samba_onnx_put_cast(w, a, samba_onnx_is_float(dtype) ? samba_onnx_wide(dtype) : SAMBA_INT64, dtype);
    return alone ? a : samba_onnx_put_expand(w, a, dtype, node->rank, node->shape);
}

/* ---- shapes ---- */

const char *samba_onnx_write_reshape(samba_onnx_writer *w, const samba_node *node)
{
    return samba_onnx_put_reshape(w, samba_onnx_given(w, node, 0), node->rank, node->shape);
}

const char *samba_onnx_write_permute(samba_onnx_writer *w, const samba_node *node)
{
    return samba_onnx_put_transpose(w, samba_onnx_given(w, node, 0), node->rank, node->attrs->permute.dims.at);
}

const char *samba_onnx_write_expand(samba_onnx_writer *w, const samba_node *node)
{
    return samba_onnx_put_expand(w, samba_onnx_given(w, node, 0), (samba_dtype)node->dtype, node->rank, node->shape);
}

const char *samba_onnx_write_slice(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_slice *a = &node->attrs->slice;
    const samba_node *from = samba_onnx_from(w, node, 0);
    int64_t start[SAMBA_MAX_RANK], stop[SAMBA_MAX_RANK], dims[SAMBA_MAX_RANK], step[SAMBA_MAX_RANK], count = 0;
    for (int d = 0; d < node->rank; d++)
        if (a->start.at[d] != 0 || a->stop.at[d] != from->shape[d] || a->step.at[d] != 1) {
            start[count] = a->start.at[d];
            stop[count] = a->stop.at[d];
            step[count] = a->step.at[d];
            dims[count++] = d;
        }
    const char *inputs[5] = {samba_onnx_given(w, node, 0)};
    if (!count)
        return inputs[0];
    inputs[1] = samba_onnx_numbers(w, count, start);
    inputs[2] = samba_onnx_numbers(w, count, stop);
    inputs[3] = samba_onnx_numbers(w, count, dims);
    inputs[4] = samba_onnx_numbers(w, count, step);
    return samba_onnx_put(w, "Slice", 5, inputs);
}

/* All around, as ONNX has it. */
static const char *padded(samba_onnx_writer *w, const char *a, samba_dtype dtype, int rank, const int64_t *before,
                          const int64_t *after, double value)
{
    int64_t pads[2 * SAMBA_MAX_RANK + 2], some = 0;
    for (int d = 0; d < rank; d++) {
        pads[d] = before[d];
        pads[rank + d] = after[d];
        some += before[d] + after[d];
    }
    if (!some)
        return a;
    const char *counts = samba_onnx_numbers(w, 2 * rank, pads), *number = samba_onnx_number_of(w, dtype, value);
    return samba_onnx_put3(w, "Pad", a, counts, number);
}

/* Gaps within a dim: each element becomes a line of its own, which is padded. */
static const char *spread(samba_onnx_writer *w, const char *a, samba_dtype dtype, int rank, int64_t *shape, int dim, int64_t gap,
                          double value)
{
    int64_t apart[SAMBA_MAX_RANK + 1], none[SAMBA_MAX_RANK + 1] = {0}, after[SAMBA_MAX_RANK + 1] = {0};
    memcpy(apart, shape, sizeof *shape * (size_t)(dim + 1));
    apart[dim + 1] = 1;
    memcpy(apart + dim + 2, shape + dim + 1, sizeof *shape * (size_t)(rank - dim - 1));
    a = samba_onnx_put_reshape(w, a, rank + 1, apart);
    after[dim + 1] = gap;
    a = padded(w, a, dtype, rank + 1, none, after, value);
    const int64_t size = shape[dim];
    shape[dim] = size * (gap + 1);
    a = samba_onnx_put_reshape(w, a, rank, shape);
    shape[dim] -= gap;
    return samba_onnx_put_slice(w, a, dim, 0, shape[dim], 1);
}

const char *samba_onnx_write_pad(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_pad *p = &node->attrs->pad;
    const samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    const double value = node->dtype == SAMBA_BOOL ? p->value != 0 : p->value;
    int64_t shape[SAMBA_MAX_RANK];
    const char *a = samba_onnx_given_wide(w, node, 0);
    memcpy(shape, samba_onnx_from(w, node, 0)->shape, sizeof shape);
    for (int d = 0; d < node->rank; d++)
        if (p->interior.at[d] > 0 && shape[d] > 1)
            a = spread(w, a, wide, node->rank, shape, d, p->interior.at[d], value);
    a = padded(w, a, wide, node->rank, p->before.at, p->after.at, value);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_concat(samba_onnx_writer *w, const samba_node *node)
{
    const char *inputs[SAMBA_MAX_ARITY];
    for (int i = 0; i < node->arity; i++)
        inputs[i] = samba_onnx_given(w, node, i);
    samba_onnx_attr_int(w, "axis", node->attrs->axis.dim);
    return samba_onnx_put(w, "Concat", node->arity, inputs);
}

const char *samba_onnx_write_flip(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dims *dims = &node->attrs->reduce.dims;
    const char *a = samba_onnx_given(w, node, 0);
    for (int64_t i = 0; i < dims->count; i++)
        if (node->shape[dims->at[i]] > 1)
            a = samba_onnx_put_slice(w, a, dims->at[i], -1, INT64_MIN + 1, -1);
    return a;
}

/* ---- reductions ---- */

const char *samba_onnx_write_sum(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dtype from = dtype_in(w, node, 0), wide = samba_onnx_wide((samba_dtype)node->dtype);
    const samba_dims *dims = &node->attrs->reduce.dims;
    const char *a = samba_onnx_given(w, node, 0);
    a = samba_onnx_put_cast(w, a, from, wide);
    if (dims->count)
        a = samba_onnx_put_reduce(w, node->op == SAMBA_OP_prod ? "ReduceProd" : "ReduceSum", a, dims->count, dims->at);
    return samba_onnx_narrow(w, node, a);
}

/* Where there is NaN along the dims, as int32 above 0; ONNX leaves open what is greatest then. */
static const char *counts_nan(samba_onnx_writer *w, const char *a, const samba_dims *dims, const char **each)
{
    const char *nan = samba_onnx_put1(w, "IsNaN", a);
    nan = samba_onnx_put_cast(w, nan, SAMBA_BOOL, SAMBA_INT32);
    *each = nan;
    nan = samba_onnx_put_reduce(w, "ReduceMax", nan, dims->count, dims->at);
    return samba_onnx_put_cast(w, nan, SAMBA_INT32, SAMBA_BOOL);
}

const char *samba_onnx_write_extremum(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dims *dims = &node->attrs->reduce.dims;
    const samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    const char *a = samba_onnx_given_wide(w, node, 0), *each;
    if (!dims->count)
        return samba_onnx_given(w, node, 0);
    const char *result =
        samba_onnx_put_reduce(w, node->op == SAMBA_OP_amax ? "ReduceMax" : "ReduceMin", a, dims->count, dims->at);
    if (samba_onnx_is_float(wide)) {
        const char *some = counts_nan(w, a, dims, &each), *nan = samba_onnx_number_of(w, wide, NAN);
        result = samba_onnx_put_where(w, some, nan, result);
    }
    return samba_onnx_narrow(w, node, result);
}

/* The first greatest; the first NaN, where there is one. */
const char *samba_onnx_write_argmax(samba_onnx_writer *w, const samba_node *node)
{
    const samba_node *from = samba_onnx_from(w, node, 0);
    samba_dims dims = node->attrs->reduce.dims;
    const samba_dtype wide = samba_onnx_wide((samba_dtype)from->dtype);
    const char *a = samba_onnx_given_wide(w, node, 0), *each;
    const bool all = dims.count != 1;
    if (all) {
        int64_t numel = 1;
        for (int d = 0; d < from->rank; d++)
            numel *= from->shape[d];
        a = samba_onnx_put_reshape(w, a, 1, &numel);
        dims = (samba_dims){.count = 1};
    }
    samba_onnx_attr_int(w, "axis", dims.at[0]);
    samba_onnx_attr_int(w, "keepdims", 1);
    const char *result = samba_onnx_put1(w, "ArgMax", a);
    if (samba_onnx_is_float(wide)) {
        const char *some = counts_nan(w, a, &dims, &each);
        samba_onnx_attr_int(w, "axis", dims.at[0]);
        samba_onnx_attr_int(w, "keepdims", 1);
        const char *first = samba_onnx_put1(w, "ArgMax", each);
        result = samba_onnx_put_where(w, some, first, result);
    }
    return all ? samba_onnx_put_reshape(w, result, node->rank, node->shape) : result;
}

/* ---- indexing ---- */

const char *samba_onnx_write_embedding(samba_onnx_writer *w, const samba_node *node)
{
    return samba_onnx_put2(w, "Gather", samba_onnx_given(w, node, 0), samba_onnx_given(w, node, 1));
}

/* An index that is the same along all dims but one: the line it was expanded from, (1, .., n, .., 1), whose elements take whole
 * slices. */
static const char *line_of(samba_onnx_writer *w, const samba_node *node, int64_t dim)
{
    const samba_node *x = samba_onnx_from(w, node, 0), *index = samba_onnx_from(w, node, 1);
    if (index->op != SAMBA_OP_expand)
        return NULL;
    const samba_node *line = samba_node_at(w->graph, index->inputs[0]);
    for (int d = 0; d < x->rank; d++)
        if (d != dim && index->shape[d] != x->shape[d])
            return NULL;
    for (int d = 1; d <= line->rank; d++)
        if (x->rank - d != dim && line->shape[line->rank - d] != 1)
            return NULL;
    const int from_end = x->rank - (int)dim;
    if (line->rank < from_end || line->shape[line->rank - from_end] != index->shape[dim])
        return NULL;
    return samba_onnx_put_reshape(w, w->values[index->inputs[0]], 1, &index->shape[dim]);
}

const char *samba_onnx_write_gather(samba_onnx_writer *w, const samba_node *node)
{
    const int64_t dim = node->attrs->gather.dim;
    const char *line = line_of(w, node, dim);
    samba_onnx_attr_int(w, "axis", dim);
    return samba_onnx_put2(w, line ? "Gather" : "GatherElements", samba_onnx_given(w, node, 0),
                           line ? line : samba_onnx_given(w, node, 1));
}

const char *samba_onnx_write_scatter(samba_onnx_writer *w, const samba_node *node)
{
    static const char *const words[] = {NULL, "add", "mul", "max", "min"};
    const samba_attrs_scatter *s = &node->attrs->scatter;
    if (s->reduce >= SAMBA_MODE_AMAX && w->options.opset < 18) {
        samba_onnx_cannot(w, node, "of the greatest or least, which ONNX has from opset 18 on");
        return "";
    }
    const bool plain = s->reduce == SAMBA_MODE_SET;
    const char *x = plain ? samba_onnx_given(w, node, 0) : samba_onnx_given_wide(w, node, 0);
    const char *source = plain ? samba_onnx_given(w, node, 2) : samba_onnx_given_wide(w, node, 2);
    samba_onnx_attr_int(w, "axis", s->dim);
    if (!plain)
        samba_onnx_attr_text(w, "reduction", words[s->reduce]);
    x = samba_onnx_put3(w, "ScatterElements", x, samba_onnx_given(w, node, 1), source);
    return plain ? x : samba_onnx_narrow(w, node, x);
}
