/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements by their index.
 *
 * embedding(weight (V, D), index) -> index.shape + (D): row index[i] of the weight at element i.
 * gather(x, index) -> index.shape: element c is x at c, but for attrs.dim, where it is index[c]: torch.gather.
 * scatter(x, index, source) -> x.shape: a copy of x with the elements of `source`, whose shape is that of index, put
 * (attrs.reduce 0), added (1), multiplied (2) or compared (3 greatest, 4 least) to where gather would have read, in their order
 * along the dim. An index along all other dims of x is an expanded view of a line of indices: views cost nothing here either.
 * attrs.negative: indices may count from the end. One out of range is an error of the values, which only running can find. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

static samba_status need_index(const samba_infer *infer, int i)
{
    samba_dtype dtype = infer->inputs[i]->dtype;
    if (dtype != SAMBA_INT64 && dtype != SAMBA_INT32)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected indices of dtype int64 or int32, given %s",
                                samba_dtype_name(dtype));
    return SAMBA_OK;
}

static samba_index_range range_along(const samba_node *source, int64_t dim, int64_t negative)
{
    return (samba_index_range){.low = negative ? -source->shape[dim] : 0, .high = source->shape[dim]};
}

samba_index_range samba_range_embedding(const samba_node *node, const samba_node *source)
{
    (void)node;
    return range_along(source, 0, 0);
}

samba_index_range samba_range_gather(const samba_node *node, const samba_node *source)
{
    return range_along(source, node->attrs->gather.dim, node->attrs->gather.negative);
}

samba_index_range samba_range_scatter(const samba_node *node, const samba_node *source)
{
    return range_along(source, node->attrs->scatter.dim, node->attrs->scatter.negative);
}

samba_status samba_infer_embedding(samba_infer *infer)
{
    const samba_node *weight = infer->inputs[0], *index = infer->inputs[1];
    SAMBA_TRY(need_index(infer, 1));
    if (weight->rank != 2)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected a weight (rows, features), given shape %s",
                                SAMBA_SHAPE_OF(weight));
    int64_t shape[SAMBA_MAX_RANK + 1];
    memcpy(shape, index->shape, sizeof index->shape);
    shape[index->rank] = weight->shape[1];
    return samba_infer_set(infer, weight->dtype, index->rank + 1, shape);
}

/* An index of x's rank, along every dim but `dim` no longer than x. */
static samba_status need_index_for(const samba_infer *infer, int64_t dim, int64_t negative)
{
    const samba_node *x = infer->inputs[0], *index = infer->inputs[1];
    SAMBA_TRY(need_index(infer, 1));
    if (dim < 0 || dim >= x->rank || negative < 0 || negative > 1)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                "a value of rank %d has no dim %lld, or negative, %lld, is not 0 or 1", x->rank, (long long)dim,
                                (long long)negative);
    bool fits = index->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++)
        fits = d == dim || index->shape[d] <= x->shape[d];
    if (!fits)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected an index of as many dims as the input, each but dim %lld no longer than the input's, "
                                "given an input %s and an index %s",
                                (long long)dim, SAMBA_SHAPE_OF(x), SAMBA_SHAPE_OF(index));
    return SAMBA_OK;
}

samba_status samba_infer_gather(samba_infer *infer)
{
    SAMBA_TRY(need_index_for(infer, infer->attrs->gather.dim, infer->attrs->gather.negative));
    return samba_infer_set(infer, infer->inputs[0]->dtype, infer->inputs[1]->rank, infer->inputs[1]->shape);
}

samba_status samba_infer_scatter(samba_infer *infer)
{
    const samba_node *index = infer->inputs[1], *source = infer->inputs[2];
    SAMBA_TRY(need_index_for(infer, infer->attrs->scatter.dim, infer->attrs->scatter.negative));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 2));
    if (infer->attrs->scatter.reduce < 0 || infer->attrs->scatter.reduce > SAMBA_MODE_AMIN)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "there is no reduction %lld: expected 0 to %d",
                                (long long)infer->attrs->scatter.reduce, SAMBA_MODE_AMIN);
    if (!samba_shape_equal(index->rank, index->shape, source->rank, source->shape))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected a source of the index's shape %s, given %s",
                                SAMBA_SHAPE_OF(index), SAMBA_SHAPE_OF(source));
    return samba_infer_set_like(infer, 0);
}

int64_t samba_flops_scatter(const samba_node *node, const samba_node *const *inputs)
{
    return node->attrs->scatter.reduce == SAMBA_MODE_SET ? 0 : samba_flops_map(inputs[2], NULL);
}

/* ---- gradients ---- */
/* A constant of a node's dtype and shape. */
static samba_ref filled_like(samba_graph *graph, samba_ref like, double value)
{
    if (like == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node node = *samba_node_at(graph, like);
    return samba_emit_expand(graph, samba_emit_constant(graph, value, node.dtype), node.rank, node.shape);
}

/* Rows go back to the rows they came from. */
samba_status samba_vjp_embedding(samba_vjp *vjp)
{
    if (!vjp->needed[0])
        return SAMBA_OK;
    samba_graph *g = vjp->graph;
    samba_node weight = *samba_node_at(g, vjp->inputs[0]), index = *samba_node_at(g, vjp->inputs[1]);
    int64_t count = 1, width = weight.shape[1];
    for (int d = 0; d < index.rank; d++)
        count *= index.shape[d];
    samba_ref line =
        samba_emit_expand(g, samba_emit_reshape(g, vjp->inputs[1], 2, (int64_t[]){count, 1}), 2, (int64_t[]){count, width});
    samba_ref rows = samba_emit_reshape(g, vjp->gradient, 2, (int64_t[]){count, width});
    vjp->input_gradients[0] = samba_emit_scatter(g, filled_like(g, vjp->inputs[0], 0), line, rows, 0, SAMBA_MODE_ADD, 0);
    return SAMBA_OK;
}

samba_status samba_vjp_gather(samba_vjp *vjp)
{
    samba_attrs_gather at = vjp->node->attrs->gather;
    if (vjp->needed[0])
        vjp->input_gradients[0] = samba_emit_scatter(vjp->graph, filled_like(vjp->graph, vjp->inputs[0], 0), vjp->inputs[1],
                                                     vjp->gradient, at.dim, SAMBA_MODE_ADD, at.negative);
    return SAMBA_OK;
}

/* Of the values that meet in one element the greatest (or least) share its gradient evenly, the old value among them. */
static samba_status extremum_gradient(samba_vjp *vjp, samba_attrs_scatter at)
{
    samba_graph *g = vjp->graph;
    samba_ref x = vjp->inputs[0], index = vjp->inputs[1], source = vjp->inputs[2], gradient = samba_emit_lift(g, vjp->gradient);
    samba_dtype dtype = samba_ref_dtype(g, gradient);
    samba_ref mine = samba_emit_cast(g, samba_emit2(g, SAMBA_OP_eq, x, vjp->output), dtype);
    samba_ref best = samba_emit_gather(g, vjp->output, index, at.dim, at.negative);
    samba_ref theirs = samba_emit_cast(g, samba_emit2(g, SAMBA_OP_eq, source, best), dtype);
    samba_ref count = samba_emit_scatter(g, mine, index, theirs, at.dim, SAMBA_MODE_ADD, at.negative);
    samba_ref share = samba_emit2(g, SAMBA_OP_div, gradient, count);
    if (vjp->needed[0])
        samba_vjp_deliver(vjp, 0, samba_emit2(g, SAMBA_OP_mul, mine, share));
    if (vjp->needed[2])
        samba_vjp_deliver(vjp, 2, samba_emit2(g, SAMBA_OP_mul, theirs, samba_emit_gather(g, share, index, at.dim, at.negative)));
    return SAMBA_OK;
}

/* The product of all others. Where just one of them is 0, it is computed without it; where more are, it is 0. */
static samba_status product_gradient(samba_vjp *vjp, samba_attrs_scatter at)
{
    samba_graph *g = vjp->graph;
    samba_ref index = vjp->inputs[1], gradient = samba_emit_lift(g, vjp->gradient), x = samba_emit_lift(g, vjp->inputs[0]);
    samba_ref source = samba_emit_lift(g, vjp->inputs[2]), output = samba_emit_lift(g, vjp->output);
    samba_dtype dtype = samba_ref_dtype(g, gradient);
    samba_ref zero = samba_emit_constant(g, 0, dtype), one = samba_emit_constant(g, 1, dtype);
    if (vjp->needed[0]) {
        samba_ref masked = samba_emit3(g, SAMBA_OP_where, samba_emit2(g, SAMBA_OP_eq, x, zero), one, x);
        samba_ref others = samba_emit2(g, SAMBA_OP_div,
                                       samba_emit_scatter(g, masked, index, source, at.dim, SAMBA_MODE_MUL, at.negative), masked);
        samba_vjp_deliver(vjp, 0, samba_emit2(g, SAMBA_OP_mul, gradient, others));
    }
    if (vjp->needed[2]) {
        samba_ref is_zero = samba_emit2(g, SAMBA_OP_eq, source, zero);
        samba_ref ones = samba_emit_cast(g, is_zero, dtype), empty = filled_like(g, x, 0);
        samba_ref zeros = samba_emit_scatter(g, empty, index, ones, at.dim, SAMBA_MODE_ADD, at.negative);
        samba_ref lonely = samba_emit2(g, SAMBA_OP_eq, samba_emit_gather(g, zeros, index, at.dim, at.negative), one);
        samba_ref no = samba_emit_constant(g, 0, SAMBA_BOOL);
        samba_ref single = samba_emit3(g, SAMBA_OP_where, is_zero, lonely, no);
        samba_ref without = samba_emit_scatter(g, x, index, samba_emit3(g, SAMBA_OP_where, single, one, source), at.dim,
                                               SAMBA_MODE_MUL, at.negative);
        samba_ref there = samba_emit_gather(g, samba_emit2(g, SAMBA_OP_mul, gradient, without), index, at.dim, at.negative);
        samba_ref factor = samba_emit3(g, SAMBA_OP_where, is_zero, one, source);
        samba_ref whole = samba_emit_gather(g, samba_emit2(g, SAMBA_OP_mul, gradient, output), index, at.dim, at.negative);
        samba_ref usual = samba_emit2(g, SAMBA_OP_div, whole, factor);
        samba_vjp_deliver(vjp, 2, samba_emit3(g, SAMBA_OP_where, single, there, usual));
    }
    return SAMBA_OK;
}

samba_status samba_vjp_scatter(samba_vjp *vjp)
{
    samba_attrs_scatter at = vjp->node->attrs->scatter;
    samba_graph *g = vjp->graph;
    samba_ref index = vjp->inputs[1];
    switch (at.reduce) {
    case SAMBA_MODE_SET:
        if (vjp->needed[0])
            vjp->input_gradients[0] = samba_emit_scatter(g, vjp->gradient, index, filled_like(g, vjp->inputs[2], 0), at.dim,
                                                         SAMBA_MODE_SET, at.negative);
        break;
    case SAMBA_MODE_ADD: vjp->input_gradients[0] = vjp->needed[0] ? vjp->gradient : SAMBA_NONE; break;
    case SAMBA_MODE_MUL: return product_gradient(vjp, at);
    default: return extremum_gradient(vjp, at);
    }
    if (vjp->needed[2])
        vjp->input_gradients[2] = samba_emit_gather(g, vjp->gradient, index, at.dim, at.negative);
    return SAMBA_OK;
}

/* ---- values ---- */
static samba_status load_index(const samba_reference *reference, const char *op, const samba_array *index, int64_t i,
                               int64_t rows, bool negative, int64_t *row)
{
    int64_t given = samba_array_int64(index, i);
    *row = given < 0 && negative ? given + rows : given;
    if (*row < 0 || *row >= rows)
        return samba_fail(reference->context, SAMBA_ERROR_ARGUMENT,
                          "%s: index %lld at position %lld is out of range: expected %lld to %lld, for %lld elements", op,
                          (long long)given, (long long)i, (long long)(negative ? -rows : 0), (long long)rows - 1,
                          (long long)rows);
    return SAMBA_OK;
}

samba_status samba_ref_embedding(const samba_reference *reference)
{
    const samba_array *weight = &reference->inputs[0], *index = &reference->inputs[1], *y = reference->output;
    int64_t row;
    size_t bytes = (size_t)weight->shape[1] * samba_dtype_size(y->dtype);
    for (int64_t i = 0; i < index->numel; i++) {
        SAMBA_TRY(load_index(reference, "embedding", index, i, weight->shape[0], false, &row));
        memcpy((char *)y->data + (size_t)i * bytes, (char *)weight->data + (size_t)row * bytes, bytes);
    }
    return SAMBA_OK;
}

/* The element of x that element `i` of the index names. */
static samba_status find_element(const samba_reference *reference, const char *op, int64_t dim, bool negative, int64_t i,
                                 int64_t *element)
{
    const samba_array *x = &reference->inputs[0], *index = &reference->inputs[1];
    int64_t rest = i, stride = 1, row;
    SAMBA_TRY(load_index(reference, op, index, i, x->shape[dim], negative, &row));
    *element = 0;
    for (int d = x->rank - 1; d >= 0; d--) {
        *element += (d == dim ? row : rest % index->shape[d]) * stride;
        rest /= index->shape[d];
        stride *= x->shape[d];
    }
    return SAMBA_OK;
}

samba_status samba_ref_gather(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *y = reference->output;
    const samba_attrs_gather *at = &reference->attrs->gather;
    int64_t element;
    for (int64_t i = 0; i < y->numel; i++) {
        SAMBA_TRY(find_element(reference, "gather", at->dim, at->negative, i, &element));
        memcpy(samba_array_at(y, i), samba_array_at(x, element), samba_dtype_size(y->dtype));
    }
    return SAMBA_OK;
}

static double combine_double(int64_t reduce, double a, double b)
{
    switch (reduce) {
    case SAMBA_MODE_SET: return b;
    case SAMBA_MODE_ADD: return a + b;
    case SAMBA_MODE_MUL: return a * b;
    case SAMBA_MODE_AMAX: return isnan(a) || a > b ? a : b;
    default: return isnan(a) || a < b ? a : b;
    }
}

static int64_t combine_int64(int64_t reduce, int64_t a, int64_t b)
{
    switch (reduce) {
    case SAMBA_MODE_SET: return b;
    case SAMBA_MODE_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case SAMBA_MODE_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case SAMBA_MODE_AMAX: return a > b ? a : b;
    default: return a < b ? a : b;
    }
}

/* Sums of floats in double: an element may be named often. */
static samba_status combine_floats(const samba_reference *reference, double *values)
{
    const samba_array *x = &reference->inputs[0], *source = &reference->inputs[2], *y = reference->output;
    const samba_attrs_scatter *at = &reference->attrs->scatter;
    int64_t element;
    for (int64_t i = 0; i < x->numel; i++)
        values[i] = samba_array_double(x, i);
    for (int64_t i = 0; i < source->numel; i++) {
        SAMBA_TRY(find_element(reference, "scatter", at->dim, at->negative, i, &element));
        values[element] = combine_double(at->reduce, values[element], samba_array_double(source, i));
    }
    for (int64_t i = 0; i < x->numel; i++)
        samba_array_set_double(y, i, values[i]);
    return SAMBA_OK;
}

static samba_status combine_integers(const samba_reference *reference)
{
    const samba_array *source = &reference->inputs[2], *y = reference->output;
    const samba_attrs_scatter *at = &reference->attrs->scatter;
    int64_t element;
    memcpy(y->data, reference->inputs[0].data, (size_t)y->numel * samba_dtype_size(y->dtype));
    for (int64_t i = 0; i < source->numel; i++) {
        SAMBA_TRY(find_element(reference, "scatter", at->dim, at->negative, i, &element));
        samba_array_set_int64(y, element, combine_int64(at->reduce, samba_array_int64(y, element), samba_array_int64(source, i)));
    }
    return SAMBA_OK;
}

samba_status samba_ref_scatter(const samba_reference *reference)
{
    const samba_array *y = reference->output;
    if (!samba_dtype_is_floating_point(y->dtype) && y->dtype != SAMBA_BOOL)
        return combine_integers(reference);
    size_t bytes = (size_t)y->numel * sizeof(double);
    double *values = samba_calloc(reference->context, bytes ? bytes : 1);
    if (!values)
        return SAMBA_ERROR_MEMORY;
    samba_status status = combine_floats(reference, values);
    samba_free(reference->context, values, bytes ? bytes : 1);
    return status;
}
