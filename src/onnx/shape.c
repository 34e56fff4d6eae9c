/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, and the same elements in other orders and shapes. */
#include "onnx/onnx.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OPERANDS SAMBA_MAX_ARITY

/* ---- what a shape is ---- */

void samba_onnx_shape_of(samba_onnx_node *node);
void samba_onnx_shape_of(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    int64_t shape[SAMBA_MAX_RANK], rank = samba_value_rank(a);
    int64_t start = samba_onnx_int(node, "start", 0), end = samba_onnx_int(node, "end", rank);
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    samba_onnx_shape(a, shape);
    int64_t count = end - start;
    samba_onnx_out(node, 0, samba_onnx_ints_value(node, 1, &count, shape + start));
}

void samba_onnx_size(samba_onnx_node *node);
void samba_onnx_size(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    int64_t shape[SAMBA_MAX_RANK], size = 1;
    samba_onnx_shape(a, shape);
    for (int i = 0; i < samba_value_rank(a); i++)
        size *= shape[i];
    samba_onnx_out(node, 0, samba_onnx_ints_value(node, 0, NULL, &size));
}

/* ---- constants ---- */

static void out_tensor(samba_onnx_node *node, const Samba__Onnx__TensorProto *proto)
{
    samba_onnx *model = node->reader->model;
    samba_onnx_form form;
    samba_value value;
    samba_status status = samba_onnx_form_of(model, proto, &form);
    if (status == SAMBA_OK && !samba_onnx_afford(node, node->reader->depth > 0 ? (double)form.bytes : 0, 0))
        return; /* each turn of a loop makes it */
    if (status == SAMBA_OK)
        status = samba_onnx_constant_of(model, proto, node->graph, &value);
    if (status != SAMBA_OK) {
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
        return;
    }
    samba_onnx_out(node, 0, value);
    samba_onnx_out_type(node, 0, proto->data_type);
}

static void out_numbers(samba_onnx_node *node, samba_dtype dtype, int rank, int64_t count, const void *data)
{
    samba_tensor *tensor;
    if (!samba_onnx_afford(node, (double)count * (double)samba_dtype_size(dtype), 0))
        return;
    if (samba_tensor_from_memory(node->reader->context, NULL, dtype, rank, &count, NULL,
                                 count ? (void *)(uintptr_t)data : (void *)(uintptr_t) "", NULL, NULL, &tensor) != SAMBA_OK) {
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
        return;
    }
    samba_onnx_out(node, 0, samba_constant_tensor(node->graph, tensor));
    samba_tensor_free(tensor);
}

void samba_onnx_constant(samba_onnx_node *node);
void samba_onnx_constant(samba_onnx_node *node)
{
    const Samba__Onnx__AttributeProto *attribute;
    if ((attribute = samba_onnx_attribute(node, "value")) && attribute->t)
        out_tensor(node, attribute->t);
    else if ((attribute = samba_onnx_attribute(node, "value_float")))
        out_numbers(node, SAMBA_FLOAT32, 0, 1, &attribute->f);
    else if ((attribute = samba_onnx_attribute(node, "value_int")))
        out_numbers(node, SAMBA_INT64, 0, 1, &attribute->i);
    else if ((attribute = samba_onnx_attribute(node, "value_floats")))
        out_numbers(node, SAMBA_FLOAT32, 1, (int64_t)attribute->n_floats, attribute->floats);
    else if ((attribute = samba_onnx_attribute(node, "value_ints")))
        out_numbers(node, SAMBA_INT64, 1, (int64_t)attribute->n_ints, attribute->ints);
    else
        samba_onnx_refuse(node, "a constant that is a sparse tensor or a text is not supported");
}

void samba_onnx_constant_of_shape(samba_onnx_node *node);
void samba_onnx_constant_of_shape(samba_onnx_node *node)
{
    int64_t shape[SAMBA_MAX_RANK];
    int rank = samba_onnx_known_ints(node, 0, "the shape", SAMBA_MAX_RANK, shape);
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, "value");
    if (rank < 0)
        samba_onnx_refuse(node, "it has no shape");
    if (node->refused)
        return;
    if (!attribute || !attribute->t) {
        samba_onnx_out(node, 0, samba_constant(node->graph, 0, SAMBA_FLOAT32, rank, shape));
        return;
    }
    samba_tensor *tensor;
    if (samba_onnx_tensor(node->reader->model, attribute->t, &tensor) != SAMBA_OK) {
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
        return;
    }
    if (samba_tensor_numel(tensor) != 1)
        samba_onnx_refuse(node, "its value has %lld elements, one is expected", (long long)samba_tensor_numel(tensor));
    else {
        samba_dtype dtype = samba_tensor_dtype(tensor);
        bool integer = dtype == SAMBA_INT64;
        samba_value one = samba_constant_tensor(node->graph, tensor), number = samba_reshape(one, 0, NULL);
        if (!integer)
            number = samba_constant(node->graph, samba_load_double(dtype, samba_tensor_data(tensor)), dtype, rank, shape);
        else
            number = samba_expand(number, rank, shape);
        samba_onnx_out(node, 0, number);
        samba_onnx_out_type(node, 0, attribute->t->data_type);
    }
    samba_tensor_free(tensor);
}

void samba_onnx_range(samba_onnx_node *node);
void samba_onnx_range(samba_onnx_node *node)
{
    double start = samba_onnx_known_double(node, 0, "the start", 0), limit = samba_onnx_known_double(node, 1, "the limit", 0);
    double delta = samba_onnx_known_double(node, 2, "the step", 1);
    int32_t type = samba_onnx_type_in(node, 0);
    if (node->refused)
        return;
    samba_value first = samba_onnx_in(node, 0);
    samba_dtype dtype = samba_value_dtype(first);
    double steps = delta == 0 ? -1 : (limit - start) / delta;
    const double most = 0x1p53; /* whole numbers are exact up to here */
    if (!(steps < 1e9) || delta == 0 || !(fabs(start) <= most) || !(fabs(delta) <= most)) {
        samba_onnx_refuse(node, "a range from %g to %g by %g is not supported", start, limit, delta);
        return;
    }
    int64_t count = steps <= 0 ? 0 : (int64_t)steps;
    count += (double)count < steps;
    samba_value index = samba_arange(node->graph, count, SAMBA_INT64);
    samba_value base, factor;
    if (samba_dtype_is_floating_point(dtype)) {
        index = samba_cast(index, SAMBA_FLOAT64);
        base = samba_constant(node->graph, start, SAMBA_FLOAT64, 0, NULL);
        factor = samba_constant(node->graph, delta, SAMBA_FLOAT64, 0, NULL);
    } else {
        base = samba_integer(node->graph, (int64_t)start);
        factor = samba_integer(node->graph, (int64_t)delta);
    }
    samba_value scaled = samba_mul(index, factor), result = samba_add(scaled, base);
    samba_onnx_out(node, 0, samba_cast(result, dtype));
    samba_onnx_out_type(node, 0, type);
}

void samba_onnx_eye_like(samba_onnx_node *node);
void samba_onnx_eye_like(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    int64_t k = samba_onnx_int(node, "k", 0);
    if (node->refused)
        return;
    int32_t type = (int32_t)samba_onnx_int(node, "dtype", 0);
    samba_dtype dtype = type ? samba_onnx_dtype(type) : samba_value_dtype(a);
    if (samba_value_rank(a) != 2 || dtype == SAMBA_DTYPE_COUNT) {
        samba_onnx_refuse(node, "a matrix and a dtype that SambaFlow has are expected");
        return;
    }
    int64_t rows = samba_value_size(a, 0), columns = samba_value_size(a, 1);
    samba_value i = samba_arange(node->graph, rows, SAMBA_INT64), j = samba_arange(node->graph, columns, SAMBA_INT64);
    samba_value shift = samba_integer(node->graph, k), down = samba_unsqueeze(i, 1), moved = samba_add(down, shift);
    samba_onnx_out(node, 0, samba_cast(samba_eq(moved, j), dtype));
    samba_onnx_out_type(node, 0, type);
}

/* ---- views ---- */

void samba_onnx_reshape(samba_onnx_node *node);
void samba_onnx_reshape(samba_onnx_node *node)
{
    int64_t shape[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    bool zeros = samba_onnx_flag(node, "allowzero", false);
    int rank = samba_onnx_known_ints(node, 1, "the shape", SAMBA_MAX_RANK, shape);
    if (rank < 0)
        samba_onnx_refuse(node, "it has no shape");
    for (int i = 0; i < rank && !node->refused && !zeros; i++)
        if (shape[i] == 0) { /* the input's size */
            if (i >= samba_value_rank(a))
                samba_onnx_refuse(node, "dim %d is to keep its size, and the input has %d dims", i, samba_value_rank(a));
            else
                shape[i] = samba_value_size(a, i);
        }
    if (!node->refused)
        samba_onnx_out_same(node, samba_reshape(a, rank, shape));
}

void samba_onnx_transpose(samba_onnx_node *node);
void samba_onnx_transpose(samba_onnx_node *node)
{
    int64_t order[SAMBA_MAX_RANK];
    int dims[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    int count = samba_onnx_ints(node, "perm", SAMBA_MAX_RANK, order), rank = samba_value_rank(a);
    if (node->refused)
        return;
    if (count >= 0 && count != rank) {
        samba_onnx_refuse(node, "perm names %d dims of a value of rank %d", count, rank);
        return;
    }
    for (int i = 0; i < rank; i++)
        dims[i] = count < 0 ? rank - 1 - i : order[i] < -rank || order[i] >= rank ? rank : (int)order[i];
    samba_onnx_out_same(node, samba_permute(a, dims));
}

void samba_onnx_flatten(samba_onnx_node *node);
void samba_onnx_flatten(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    int64_t axis = samba_onnx_int(node, "axis", 1), rank = samba_value_rank(a), shape[SAMBA_MAX_RANK], flat[2] = {1, 1};
    if (node->refused)
        return;
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis > rank) {
        samba_onnx_refuse(node, "axis %lld is out of range for a value of rank %lld", (long long)axis, (long long)rank);
        return;
    }
    samba_onnx_shape(a, shape);
    for (int i = 0; i < rank; i++)
        flat[i >= axis] *= shape[i];
    samba_onnx_out_same(node, samba_reshape(a, 2, flat));
}

void samba_onnx_squeeze(samba_onnx_node *node);
void samba_onnx_squeeze(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    int dims[SAMBA_MAX_RANK], rank = samba_value_rank(a), count = node->refused ? -1 : samba_onnx_axes(node, 1, 13, rank, dims);
    if (node->refused)
        return;
    for (int i = 0; i < count; i++)
        if (samba_value_size(a, dims[i]) != 1) {
            samba_onnx_refuse(node, "dim %d has size %lld, not 1", dims[i], (long long)samba_value_size(a, dims[i]));
            return;
        }
    samba_onnx_out_same(node, count < 0 ? samba_squeeze(a, 0, NULL) : samba_squeeze(a, count, dims));
}

void samba_onnx_unsqueeze(samba_onnx_node *node);
void samba_onnx_unsqueeze(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    int64_t axes[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK];
    int count = node->version < 13 ? samba_onnx_ints(node, "axes", SAMBA_MAX_RANK, axes)
                                   : samba_onnx_known_ints(node, 1, "axes", SAMBA_MAX_RANK, axes);
    if (node->refused)
        return;
    int rank = samba_value_rank(a) + (count > 0 ? count : 0), from = 0;
    bool added[SAMBA_MAX_RANK] = {false};
    if (count < 0 || rank > SAMBA_MAX_RANK) {
        samba_onnx_refuse(node, count < 0 ? "it has no axes" : "the result would have %d dims; at most %d are supported", rank,
                          SAMBA_MAX_RANK);
        return;
    }
    for (int i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || added[axis]) {
            samba_onnx_refuse(node, "axis %lld is out of range for %d dims, or named twice", (long long)axes[i], rank);
            return;
        }
        added[axis] = true;
    }
    for (int i = 0; i < rank; i++)
        shape[i] = added[i] ? 1 : samba_value_size(a, from++);
    samba_onnx_out_same(node, samba_reshape(a, rank, shape));
}

/* Both shapes broadcast to each other. */
void samba_onnx_expand(samba_onnx_node *node);
void samba_onnx_expand(samba_onnx_node *node)
{
    int64_t shape[SAMBA_MAX_RANK], own[SAMBA_MAX_RANK], result[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    int count = samba_onnx_known_ints(node, 1, "the shape", SAMBA_MAX_RANK, shape), rank;
    if (node->refused || count < 0) {
        samba_onnx_refuse(node, "it has no shape");
        return;
    }
    samba_onnx_shape(a, own);
    if (!samba_shape_broadcast(samba_value_rank(a), own, count, shape, &rank, result))
        samba_onnx_refuse(node, "a value of shape %s does not expand to %s", SAMBA_SHAPE(samba_value_rank(a), own),
                          SAMBA_SHAPE(count, shape));
    else
        samba_onnx_out_same(node, samba_expand(a, rank, result));
}

/* ---- parts and several joined ---- */

void samba_onnx_concat(samba_onnx_node *node);
void samba_onnx_concat(samba_onnx_node *node)
{
    samba_value *values;
    if (SAMBA_ROOM(&node->reader->arena, values, node->input_count + 1) != SAMBA_OK)
        return;
    for (int i = 0; i < node->input_count; i++)
        values[i] = samba_onnx_need(node, i);
    int64_t axis = samba_onnx_int(node, "axis", 1);
    if (!node->refused)
        samba_onnx_out_same(node, samba_concat(node->input_count, values, (int)axis));
}

void samba_onnx_split(samba_onnx_node *node);
void samba_onnx_split(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), *parts;
    int64_t *sizes;
    int outputs = node->output_count, count;
    if (node->refused || SAMBA_ROOM(&node->reader->arena, parts, outputs + 1) != SAMBA_OK ||
        SAMBA_ROOM(&node->reader->arena, sizes, MOST_OPERANDS) != SAMBA_OK)
        return;
    int axis = samba_onnx_axis(node, "axis", 0, samba_value_rank(a));
    count = node->version < 13 ? samba_onnx_ints(node, "split", MOST_OPERANDS, sizes)
                               : samba_onnx_known_ints(node, 1, "the sizes", MOST_OPERANDS, sizes);
    int64_t wanted = samba_onnx_int(node, "num_outputs", outputs);
    if (node->refused)
        return;
    if (outputs < 1 || (count >= 0 && count != outputs) || wanted != outputs) {
        samba_onnx_refuse(node, "it has %d outputs for %lld parts", outputs, (long long)(count >= 0 ? count : wanted));
        return;
    }
    int64_t size = samba_value_size(a, axis), each = (size + outputs - 1) / outputs;
    for (int i = 0; count < 0 && i < outputs; i++) { /* as even as can be, the last one smaller */
        int64_t rest = size - each * i;
        sizes[i] = rest < 0 ? 0 : rest < each ? rest : each;
    }
    samba_split_sizes(a, outputs, sizes, axis, parts);
    for (int i = 0; i < outputs && !node->refused; i++) {
        samba_onnx_out(node, i, parts[i]);
        samba_onnx_out_type(node, i, samba_onnx_type_in(node, 0));
    }
}

/* Cuts of several dims, as one operator. Backwards are the same elements forwards, turned round. */
typedef struct cuts {
    int rank, turned_count, turned[SAMBA_MAX_RANK];
    bool some, cut[SAMBA_MAX_RANK];
    samba_attrs attrs;
} cuts;

static cuts no_cuts(samba_value a)
{
    cuts c = {.rank = samba_value_rank(a)};
    int64_t zeros[SAMBA_MAX_RANK] = {0}, ones[SAMBA_MAX_RANK], sizes[SAMBA_MAX_RANK];
    for (int d = 0; d < c.rank; d++) {
        ones[d] = 1;
        sizes[d] = samba_value_size(a, d);
    }
    c.attrs.slice.start = samba_dims_of(c.rank, zeros);
    c.attrs.slice.stop = samba_dims_of(c.rank, sizes);
    c.attrs.slice.step = samba_dims_of(c.rank, ones);
    return c;
}

static void set_cut(cuts *c, int dim, int64_t start, int64_t stop, int64_t step)
{
    c->some |= start != 0 || stop != c->attrs.slice.stop.at[dim] || step != 1;
    c->cut[dim] = true;
    c->attrs.slice.start.at[dim] = start;
    c->attrs.slice.stop.at[dim] = stop;
    c->attrs.slice.step.at[dim] = step;
}

/* One dim of numpy's a[start:end:step], of a dim that is whole yet. */
static void cut_dim(cuts *c, int dim, int64_t start, int64_t end, int64_t step)
{
    const int64_t size = c->attrs.slice.stop.at[dim];
    start = start < 0 ? start + size : start;
    end = end < 0 ? (end < -size ? -1 : end + size) : end;
    if (step > 0) {
        start = start < 0 ? 0 : start > size ? size : start;
        end = end < start ? start : end > size ? size : end;
        set_cut(c, dim, start, end, step > size ? size + 1 : step);
        return;
    }
    start = start < 0 ? -1 : start >= size ? size - 1 : start;
    end = end >= start ? start : end;
    int64_t length = start - end, stride = step < -size - 1 ? size + 1 : -step, count = (length + stride - 1) / stride;
    if (count <= 0) {
        set_cut(c, dim, 0, 0, 1);
        return;
    }
    set_cut(c, dim, start - (count - 1) * stride, start + 1, stride);
    if (count > 1)
        c->turned[c->turned_count++] = dim;
}

static samba_value cut(const cuts *c, samba_value a)
{
    if (c->some && a.index != SAMBA_NONE)
        a.index = samba_emit(a.graph, SAMBA_OP_slice, 1, &a.index, &c->attrs);
    return c->turned_count ? samba_flip(a, c->turned_count, c->turned) : a;
}

void samba_onnx_slice(samba_onnx_node *node);
void samba_onnx_slice(samba_onnx_node *node)
{
    int64_t starts[SAMBA_MAX_RANK], ends[SAMBA_MAX_RANK], axes[SAMBA_MAX_RANK], steps[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    bool attributes = node->version < 10;
    int count = attributes ? samba_onnx_ints(node, "starts", SAMBA_MAX_RANK, starts)
                           : samba_onnx_known_ints(node, 1, "starts", SAMBA_MAX_RANK, starts);
    int stops = attributes ? samba_onnx_ints(node, "ends", SAMBA_MAX_RANK, ends)
                           : samba_onnx_known_ints(node, 2, "ends", SAMBA_MAX_RANK, ends);
    int named = attributes ? samba_onnx_ints(node, "axes", SAMBA_MAX_RANK, axes)
                           : samba_onnx_known_ints(node, 3, "axes", SAMBA_MAX_RANK, axes);
    int stepped = attributes ? -1 : samba_onnx_known_ints(node, 4, "steps", SAMBA_MAX_RANK, steps);
    if (node->refused)
        return;
    int rank = samba_value_rank(a);
    if (count < 0 || stops != count || (named >= 0 && named != count) || (stepped >= 0 && stepped != count) ||
        (named < 0 && count > rank)) {
        samba_onnx_refuse(node, "it has %d starts, %d ends, %d axes and %d steps for %d dims", count, stops, named, stepped,
                          rank);
        return;
    }
    cuts c = no_cuts(a);
    for (int i = 0; i < count && node->graph->status == SAMBA_OK; i++) {
        int64_t axis = named < 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i], step = stepped < 0 ? 1 : steps[i];
        if (axis < 0 || axis >= rank || step == 0) {
            samba_onnx_refuse(node, "axis %lld with step %lld of %d dims", (long long)axis, (long long)step, rank);
            return;
        }
        if (c.cut[axis]) { /* a second time: of what the first has left */
            a = cut(&c, a);
            c = no_cuts(a);
        }
        cut_dim(&c, (int)axis, starts[i], ends[i], step);
    }
    samba_onnx_out_same(node, cut(&c, a));
}

void samba_onnx_tile(samba_onnx_node *node);
void samba_onnx_tile(samba_onnx_node *node)
{
    int64_t repeats[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    int count = samba_onnx_known_ints(node, 1, "the repeats", SAMBA_MAX_RANK, repeats);
    if (!node->refused && count != samba_value_rank(a))
        samba_onnx_refuse(node, "%d repeats are given for %d dims", count, samba_value_rank(a));
    if (!node->refused)
        samba_onnx_out_same(node, samba_repeat(a, count, repeats));
}

/* ---- padding ---- */

/* What lies around a value, along one dim: zeros are its own padding function's. */
static samba_value pad_dim(samba_onnx_node *node, samba_value a, int dim, int64_t before, int64_t after, int mode, double value)
{
    static const samba_pad_mode modes[] = {SAMBA_PAD_CONSTANT, SAMBA_PAD_REFLECT, SAMBA_PAD_REPLICATE, SAMBA_PAD_CIRCULAR};
    int rank = samba_value_rank(a), last = rank - 1;
    if ((before == 0 && after == 0) || !samba_onnx_within(node, "pads", before, -INT32_MAX, INT32_MAX) ||
        !samba_onnx_within(node, "pads", after, -INT32_MAX, INT32_MAX))
        return a;
    if (mode == 3 || mode == 1) { /* more than a period of it: by index */
        int64_t size = samba_value_size(a, dim), total = before + size + after;
        bool simple = mode == 1 ? before < size && after < size : before <= size && after <= size;
        if (!simple && before >= 0 && after >= 0 && size > 0) {
            int64_t *index;
            if (!samba_onnx_afford(node, 8 * (double)total, 0) || SAMBA_ROOM(&node->reader->arena, index, total + 1) != SAMBA_OK)
                return a;
            int64_t period = mode == 3 ? size : size > 1 ? 2 * size - 2 : 1;
            for (int64_t i = 0; i < total; i++) {
                int64_t at = ((i - before) % period + period) % period;
                index[i] = at < size ? at : period - at;
            }
            samba_value picks = samba_onnx_ints_value(node, 1, &total, index);
            return samba_index_select(a, dim, picks);
        }
    }
    samba_value turned = samba_transpose(a, dim, last);
    samba_value padded = samba_pad(turned, 1, (const int64_t[]){before, after}, modes[mode], value);
    return samba_transpose(padded, dim, last);
}

/* All dims at once: one operator, which a convolution behind it may take as its own padding. */
static samba_value pad_constant(samba_onnx_node *node, samba_value a, int count, const int *dims, const int64_t *pads,
                                double value)
{
    const int rank = samba_value_rank(a);
    int64_t amounts[2 * SAMBA_MAX_RANK] = {0};
    for (int i = 0; i < count; i++) {
        int64_t *of = amounts + 2 * (rank - 1 - dims[i]); /* samba_pad begins with the last dim */
        if (!samba_onnx_within(node, "pads", pads[i], -INT32_MAX, INT32_MAX) ||
            !samba_onnx_within(node, "pads", pads[count + i], -INT32_MAX, INT32_MAX))
            return a;
        of[0] = pads[i];
        of[1] = pads[count + i];
    }
    return samba_pad(a, rank, amounts, SAMBA_PAD_CONSTANT, value);
}

void samba_onnx_pad(samba_onnx_node *node);
void samba_onnx_pad(samba_onnx_node *node)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
    int64_t pads[2 * SAMBA_MAX_RANK];
    int dims[SAMBA_MAX_RANK], count;
    samba_value a = samba_onnx_need(node, 0);
    int mode = samba_onnx_choice(node, "mode", "constant", modes);
    double value = 0;
    if (node->refused)
        return;
    int rank = samba_value_rank(a), named = -1;
    if (node->version < 11) {
        count = samba_onnx_ints(node, "pads", SAMBA_COUNT(pads), pads);
        value = samba_onnx_float(node, "value", 0);
    } else {
        count = samba_onnx_known_ints(node, 1, "the pads", SAMBA_COUNT(pads), pads);
        value = samba_onnx_known_double(node, 2, "the value", 0);
        named = samba_onnx_axes(node, 3, 0, rank, dims);
    }
    if (node->refused)
        return;
    int padded = named < 0 ? rank : named;
    if (count != 2 * padded) {
        samba_onnx_refuse(node, "%d pads are given for %d dims", count, padded);
        return;
    }
    for (int i = 0; i < padded; i++) {
        if (named < 0)
            dims[i] = i;
        for (int k = 0; k < i; k++)
            if (dims[k] == dims[i])
                return samba_onnx_refuse(node, "axes has dim %d twice", dims[i]);
    }
    if (mode == 0)
        a = pad_constant(node, a, padded, dims, pads, value);
    for (int i = 0; i < padded && mode != 0; i++)
        if (node->graph->status == SAMBA_OK)
            a = pad_dim(node, a, dims[i], pads[i], pads[padded + i], mode, value);
    samba_onnx_out_same(node, a);
}

void samba_onnx_center_crop_pad(samba_onnx_node *node);
void samba_onnx_center_crop_pad(samba_onnx_node *node)
{
    int64_t sizes[SAMBA_MAX_RANK], axes[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    int count = samba_onnx_known_ints(node, 1, "the shape", SAMBA_MAX_RANK, sizes),
        named = samba_onnx_ints(node, "axes", SAMBA_MAX_RANK, axes);
    if (node->refused)
        return;
    int rank = samba_value_rank(a);
    if (count != (named < 0 ? rank : named)) {
        samba_onnx_refuse(node, "%d sizes are given for %d dims", count, named < 0 ? rank : named);
        return;
    }
    for (int i = 0; i < count && node->graph->status == SAMBA_OK; i++) {
        int dim = samba_onnx_fit_dim(node, named < 0 ? i : axes[i], rank);
        if (dim < 0 || !samba_onnx_within(node, "the shape", sizes[i], 0, INT32_MAX))
            return;
        int64_t size = samba_value_size(a, dim), more = sizes[i] - size;
        if (more < 0)
            a = samba_narrow(a, dim, -more / 2, sizes[i]);
        else
            a = pad_dim(node, a, dim, more / 2, more - more / 2, 0, 0);
    }
    samba_onnx_out_same(node, a);
}

/* ---- blocks of channels and of pixels ---- */

void samba_onnx_depth_to_space(samba_onnx_node *node);
void samba_onnx_depth_to_space(samba_onnx_node *node)
{
    static const char *const modes[] = {"DCR", "CRD", NULL};
    samba_value a = samba_onnx_need(node, 0);
    int64_t b = samba_onnx_int(node, "blocksize", 0), s[SAMBA_MAX_RANK];
    int crd = samba_onnx_choice(node, "mode", "DCR", modes);
    if (node->refused)
        return;
    samba_onnx_shape(a, s);
    if (samba_value_rank(a) != 4 || b < 1 || s[1] % (b * b)) { /* sizes and b are ints */
        samba_onnx_refuse(node, "a value (N, C, H, W) is expected, C a multiple of blocksize squared");
        return;
    }
    int64_t c = s[1] / (b * b);
    const int64_t dcr[] = {s[0], b, b, c, s[2], s[3]}, crd_shape[] = {s[0], c, b, b, s[2], s[3]},
                  shape[] = {s[0], c, s[2] * b, s[3] * b};
    samba_value parts = samba_reshape(a, 6, crd ? crd_shape : dcr);
    samba_value turned = samba_permute(parts, crd ? (const int[]){0, 1, 4, 2, 5, 3} : (const int[]){0, 3, 4, 1, 5, 2});
    samba_onnx_out_same(node, samba_reshape(turned, 4, shape));
}

void samba_onnx_space_to_depth(samba_onnx_node *node);
void samba_onnx_space_to_depth(samba_onnx_node *node)
{
    static const char *const modes[] = {"DCR", "CRD", NULL};
    samba_value a = samba_onnx_need(node, 0);
    int64_t b = samba_onnx_int(node, "blocksize", 0), s[SAMBA_MAX_RANK];
    int crd = samba_onnx_choice(node, "mode", "DCR", modes);
    if (node->refused)
        return;
    samba_onnx_shape(a, s);
    if (samba_value_rank(a) != 4 || b < 1 || s[2] % b || s[3] % b) {
        samba_onnx_refuse(node, "a value (N, C, H, W) is expected, H and W multiples of blocksize");
        return;
    }
    const int64_t split[] = {s[0], s[1], s[2] / b, b, s[3] / b, b}, shape[] = {s[0], s[1] * b * b, s[2] / b, s[3] / b};
    samba_value parts = samba_reshape(a, 6, split),
                turned = samba_permute(parts, crd ? (const int[]){0, 1, 3, 5, 2, 4} : (const int[]){0, 3, 5, 1, 2, 4});
    samba_onnx_out_same(node, samba_reshape(turned, 4, shape));
}

void samba_onnx_trilu(samba_onnx_node *node);
void samba_onnx_trilu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    bool upper = samba_onnx_flag(node, "upper", true);
    int64_t k = samba_onnx_known_int(node, 1, "the diagonal", 0);
    if (!node->refused)
        samba_onnx_out_same(node, upper ? samba_triu(a, k) : samba_tril(a, k));
}
