/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators along one dim, whose elements are a line: sorting and running sums, products, extrema.
 *
 * sort(a; dim, first, count, descending, nan): of the elements of each line in order, `count` from number `first` on, or the one
 * in the middle of the numbers (SAMBA_SORT_MIDDLE); argsort: where they stood. Equal elements keep their order, NaN is greatest
 * and -0 equals 0. With `nan`, all results of a line that has NaN are its first NaN. cumsum, cumprod, cummax, cummin,
 * logcumsumexp(a; dim, reverse): element i is made of elements 0 to i, or with `reverse` of i to the last; cummax_index and
 * cummin_index: where the extremum stood last. The two results of a pair are one stage.
 *
 * Gradients: of what is chosen, to the element it was chosen from; of a running sum, the running sum from the other end; of a
 * running product (cumprod_grad) without division, so that zeros are as good as others. */
#include "ops/families.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inference ---- */
static samba_status need_dim(const samba_infer *infer, int64_t dim)
{
    if (dim < 0 || dim >= infer->inputs[0]->rank)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "dim must be 0 to %d, given %lld", infer->inputs[0]->rank - 1,
                                (long long)dim);
    return SAMBA_OK;
}

static samba_status infer_order(samba_infer *infer, samba_dtype dtype)
{
    const samba_attrs_sort *attrs = &infer->attrs->sort;
    SAMBA_TRY(need_dim(infer, attrs->dim));
    int64_t shape[SAMBA_MAX_RANK], size = infer->inputs[0]->shape[attrs->dim];
    memcpy(shape, infer->inputs[0]->shape, sizeof shape);
    if (attrs->count < 0 || attrs->count > size || size > SAMBA_LINE_LONGEST)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected 0 to %lld elements of a dim of at most 2^31, given %lld",
                                (long long)size, (long long)attrs->count);
    const bool middle = attrs->first == SAMBA_SORT_MIDDLE && attrs->count == 1 && !attrs->descending && !attrs->nan;
    if (!middle && (attrs->first < 0 || attrs->first > size - attrs->count))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected 0 to %lld as the first of %lld elements, given %lld",
                                (long long)(size - attrs->count), (long long)attrs->count, (long long)attrs->first);
    shape[attrs->dim] = attrs->count;
    return samba_infer_set(infer, dtype, infer->inputs[0]->rank, shape);
}

samba_status samba_infer_sort(samba_infer *infer) { return infer_order(infer, infer->inputs[0]->dtype); }
samba_status samba_infer_argsort(samba_infer *infer) { return infer_order(infer, SAMBA_INT64); }

samba_status samba_infer_scan_any(samba_infer *infer)
{
    SAMBA_TRY(need_dim(infer, infer->attrs->scan.dim));
    return samba_infer_set_like(infer, 0);
}

samba_status samba_infer_scan(samba_infer *infer)
{
    if (infer->inputs[0]->dtype == SAMBA_BOOL)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected integers or floating-point, given bool; cast it first");
    return samba_infer_scan_any(infer);
}

samba_status samba_infer_scan_floating(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    return samba_infer_scan_any(infer);
}

samba_status samba_infer_scan_index(samba_infer *infer)
{
    SAMBA_TRY(need_dim(infer, infer->attrs->scan.dim));
    return samba_infer_set(infer, SAMBA_INT64, infer->inputs[0]->rank, infer->inputs[0]->shape);
}

samba_status samba_infer_cumprod_grad(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    if (!samba_shape_equal(infer->inputs[0]->rank, infer->inputs[0]->shape, infer->inputs[1]->rank, infer->inputs[1]->shape))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected a gradient of the input's shape");
    return samba_infer_scan_floating(infer);
}

/* ---- gradients ---- */
samba_ref samba_emit_flat_indices(samba_graph *graph, const samba_node *a, samba_ref index, int dim)
{
    int64_t outer = 1, inner = 1, size = a->shape[dim];
    if (index == SAMBA_NONE)
        return SAMBA_NONE;
    int64_t count = samba_node_at(graph, index)->shape[dim];
    for (int d = 0; d < a->rank; d++)
        *(d < dim ? &outer : &inner) *= d == dim ? 1 : a->shape[d];
    const int64_t shape[3] = {outer, 1, inner};
    samba_ref block = samba_emit_iota(graph, 3, shape, 0);
    samba_ref element = samba_emit_iota(graph, 3, shape, 2);
    samba_ref start =
        samba_emit2(graph, SAMBA_OP_add, samba_emit_scalar(graph, SAMBA_OP_mul, block, (double)(size * inner)), element);
    index = samba_emit_scalar(graph, SAMBA_OP_mul, samba_emit_reshape(graph, index, 3, (int64_t[]){outer, count, inner}),
                              (double)inner);
    return samba_emit2(graph, SAMBA_OP_add, index, start);
}

/* The gradient goes back to the elements that `index_op`, which has the node's input and attributes, tells. */
static samba_status deliver_to_indices(samba_vjp *vjp, samba_op index_op, int dim)
{
    samba_graph *graph = vjp->graph;
    samba_node node = *vjp->node, x = *samba_node_at(graph, vjp->inputs[0]);
    samba_phase phase = graph->phase;
    graph->phase = (samba_phase)node.phase; /* where one stage computes both */
    samba_ref index = samba_emit(graph, index_op, 1, vjp->inputs, node.attrs);
    graph->phase = phase;
    samba_ref gradient = samba_emit_lift(graph, vjp->gradient);
    if (index == SAMBA_NONE || gradient == SAMBA_NONE)
        return SAMBA_OK;
    samba_ref zeros = samba_emit_expand(graph, samba_emit_constant(graph, 0, samba_ref_dtype(graph, gradient)), x.rank, x.shape);
    /* added: cummax may tell one element for several */
    return samba_vjp_deliver(vjp, 0, samba_emit_scatter(graph, zeros, index, gradient, dim, SAMBA_MODE_ADD, false));
}

samba_status samba_vjp_sort(samba_vjp *vjp) { return deliver_to_indices(vjp, SAMBA_OP_argsort, (int)vjp->node->attrs->sort.dim); }
samba_status samba_vjp_cummax(samba_vjp *vjp)
{
    return deliver_to_indices(vjp, SAMBA_OP_cummax_index, (int)vjp->node->attrs->scan.dim);
}
samba_status samba_vjp_cummin(samba_vjp *vjp)
{
    return deliver_to_indices(vjp, SAMBA_OP_cummin_index, (int)vjp->node->attrs->scan.dim);
}

static samba_attrs turned(const samba_vjp *vjp)
{
    samba_attrs attrs = {.scan = vjp->node->attrs->scan};
    attrs.scan.reverse = !attrs.scan.reverse;
    return attrs;
}

samba_status samba_vjp_cumsum(samba_vjp *vjp)
{
    samba_attrs attrs = turned(vjp);
    return samba_vjp_deliver(vjp, 0, samba_emit(vjp->graph, SAMBA_OP_cumsum, 1, &vjp->gradient, &attrs));
}

samba_status samba_vjp_cumprod(samba_vjp *vjp)
{
    samba_attrs attrs = {.scan = vjp->node->attrs->scan};
    return samba_vjp_deliver(
        vjp, 0, samba_emit(vjp->graph, SAMBA_OP_cumprod_grad, 2, (samba_ref[]){vjp->inputs[0], vjp->gradient}, &attrs));
}

/* With row k of a matrix, x with 1 in the place of x k: dx k = sum over i >= k of dy i times row k's product up to i. */
static samba_ref compose_cumprod_grad(samba_graph *graph, const void *user, const samba_ref *inputs)
{
    const samba_node *like = user;
    const samba_attrs_scan *scan = &like->attrs->scan;
    int rank = like->rank, dim = (int)scan->dim; /* rows are a dim before the last; one of a value of 8 dims joins with others */
    int64_t size = like->shape[dim], lines = 1, order[SAMBA_MAX_RANK], back[SAMBA_MAX_RANK], turned_shape[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        order[d] = d < dim ? d : d < rank - 1 ? d + 1 : dim;
        lines *= d == dim ? 1 : like->shape[d];
    }
    for (int d = 0; d < rank; d++) {
        back[order[d]] = d;
        turned_shape[d] = like->shape[order[d]];
    }
    samba_ref parts[2];
    for (int i = 0; i < 2; i++)
        parts[i] = samba_emit_reshape(graph, samba_emit_permute(graph, samba_emit_lift(graph, inputs[i]), order), 3,
                                      (int64_t[]){lines, 1, size});
    const int64_t square[3] = {lines, size, size};
    samba_ref row = samba_emit_iota(graph, 3, square, 1), column = samba_emit_iota(graph, 3, square, 2);
    samba_dtype dtype = samba_ref_dtype(graph, parts[0]);
    samba_ref own = samba_emit2(graph, SAMBA_OP_eq, row, column);
    samba_ref later = samba_emit2(graph, scan->reverse ? SAMBA_OP_le : SAMBA_OP_ge, column, row);
    samba_ref one = samba_emit_constant(graph, 1, dtype), nothing = samba_emit_constant(graph, 0, dtype);
    samba_ref factors = samba_emit3(graph, SAMBA_OP_where, own, one, parts[0]);
    samba_attrs along = {.scan = {.dim = 2, .reverse = scan->reverse}};
    samba_ref products = samba_emit(graph, SAMBA_OP_cumprod, 1, &factors, &along);
    samba_ref terms = samba_emit3(graph, SAMBA_OP_where, later, samba_emit2(graph, SAMBA_OP_mul, products, parts[1]), nothing);
    samba_ref sums = samba_emit_reduce(graph, SAMBA_OP_sum, terms, 1, (int64_t[]){2});
    sums = samba_emit_permute(graph, samba_emit_reshape(graph, sums, rank, turned_shape), back);
    return samba_emit_cast(graph, sums, (samba_dtype)like->dtype);
}

samba_status samba_vjp_cumprod_grad(samba_vjp *vjp)
{
    samba_node like = *vjp->node;
    return samba_vjp_compose(vjp, 2, compose_cumprod_grad, &like);
}

/* dx k = sum over i >= k of dy i * exp(x k - y i), in logarithms; negative dy apart from positive. The logarithm of what is not
 * there is finite, so that gradients of this gradient are. */
samba_status samba_vjp_logcumsumexp(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_attrs attrs = turned(vjp);
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]),
              y = samba_emit_lift(graph, vjp->output);
    samba_ref parts[2], one = samba_emit_constant(graph, 1, samba_ref_dtype(graph, g)),
                        nothing = samba_emit_constant(graph, -1e30, samba_ref_dtype(graph, g));
    for (int i = 0; i < 2; i++) {
        samba_ref of_sign = i ? samba_emit1(graph, SAMBA_OP_neg, g) : g;
        samba_ref other = samba_emit_scalar(graph, SAMBA_OP_le, of_sign, 0);
        samba_ref part = samba_emit1(graph, SAMBA_OP_log, samba_emit3(graph, SAMBA_OP_where, other, one, of_sign));
        part = samba_emit3(graph, SAMBA_OP_where, other, nothing, part);
        part = samba_emit2(graph, SAMBA_OP_sub, part, y);
        part = samba_emit(graph, SAMBA_OP_logcumsumexp, 1, &part, &attrs);
        parts[i] = samba_emit1(graph, SAMBA_OP_exp, samba_emit2(graph, SAMBA_OP_add, part, x));
    }
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_sub, parts[0], parts[1]));
}

/* ---- work ---- */
int64_t samba_flops_sort(const samba_node *node, const samba_node *const *inputs)
{
    double steps = 1 + log2(1.0 + (double)inputs[0]->shape[node->attrs->sort.dim]);
    steps = fmin(steps, 4 + log2(1.0 + (double)node->attrs->sort.count));
    return (int64_t)fmin(steps * (double)samba_flops_map(inputs[0], NULL), 9e18);
}

int64_t samba_flops_scan(const samba_node *node, const samba_node *const *inputs)
{
    (void)inputs;
    return samba_flops_map(node, NULL);
}

/* ---- values ---- */
typedef struct line { /* of the input: element i is at start + i*step */
    const samba_array *array;
    int64_t start, step, size;
} line;

static int64_t line_count(const samba_array *a, int64_t dim)
{
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++)
        count *= d == dim ? 1 : a->shape[d];
    return count;
}

static line line_at(const samba_array *a, int64_t dim, int64_t number, bool reverse)
{
    int64_t inner = 1, size = a->shape[dim];
    for (int64_t d = dim + 1; d < a->rank; d++)
        inner *= a->shape[d];
    line l = {a, number / inner * inner * size + number % inner, inner, size};
    if (reverse) {
        l.start += (size - 1) * inner;
        l.step = -inner;
    }
    return l;
}

static bool is_real(const line *l) { return samba_dtype_is_floating_point(l->array->dtype); }
static double real_at(const line *l, int64_t i) { return samba_array_double(l->array, l->start + i * l->step); }
static int64_t integer_at(const line *l, int64_t i) { return samba_array_int64(l->array, l->start + i * l->step); }

/* Does element i come before element j, of equal ones the earlier? */
static bool before(const line *l, int64_t i, int64_t j, bool descending)
{
    int order; /* of i against j */
    if (is_real(l)) {
        double x = real_at(l, i), y = real_at(l, j);
        order = isnan(x) || isnan(y) ? (isnan(x) != 0) - (isnan(y) != 0) : (x > y) - (x < y);
    } else {
        order = (integer_at(l, i) > integer_at(l, j)) - (integer_at(l, i) < integer_at(l, j));
    }
    return order == 0 ? i < j : (order < 0) != descending;
}

/* Bottom-up merging of `order`, with as much room. */
static void merge_sort(const line *l, bool descending, int64_t *order, int64_t *room)
{
    for (int64_t width = 1; width < l->size; width *= 2) {
        for (int64_t begin = 0; begin < l->size; begin += 2 * width) {
            int64_t i = begin, middle = begin + width < l->size ? begin + width : l->size;
            int64_t j = middle, end = begin + 2 * width < l->size ? begin + 2 * width : l->size;
            for (int64_t at = begin; at < end; at++)
                room[at] = j == end || (i < middle && before(l, order[i], order[j], descending)) ? order[i++] : order[j++];
        }
        memcpy(order, room, (size_t)l->size * sizeof *order);
    }
}

static samba_status sorted(const samba_reference *reference, bool wants_index)
{
    const samba_array *a = &reference->inputs[0], *output = reference->output;
    const samba_attrs_sort *attrs = &reference->attrs->sort;
    int64_t size = a->shape[attrs->dim];
    size_t bytes = 2 * sizeof(int64_t) * (size_t)(size > 0 ? size : 1);
    int64_t *order = samba_calloc(reference->context, bytes);
    if (!order)
        return SAMBA_ERROR_MEMORY;
    for (int64_t n = 0; n < line_count(a, attrs->dim); n++) {
        line from = line_at(a, attrs->dim, n, false), to = line_at(output, attrs->dim, n, false);
        for (int64_t i = 0; i < size; i++)
            order[i] = i;
        merge_sort(&from, attrs->descending != 0, order, order + size);
        int64_t first = attrs->first, first_nan = 0; /* size: there is none */
        while (first_nan < size && !(attrs->nan && is_real(&from) && isnan(real_at(&from, first_nan))))
            first_nan++;
        if (first == SAMBA_SORT_MIDDLE) {
            int64_t numbers = size;
            while (numbers > 0 && is_real(&from) && isnan(real_at(&from, order[numbers - 1])))
                numbers--;
            first = numbers > 0 ? (numbers - 1) / 2 : 0;
        }
        for (int64_t i = 0; i < attrs->count; i++) {
            int64_t at = first_nan < size ? first_nan : order[first + i];
            if (wants_index)
                samba_array_set_int64(output, to.start + i * to.step, at);
            else
                memcpy(samba_array_at(output, to.start + i * to.step), samba_array_at(a, from.start + at * from.step),
                       samba_dtype_size(a->dtype));
        }
    }
    samba_free(reference->context, order, bytes);
    return SAMBA_OK;
}

samba_status samba_ref_sort(const samba_reference *reference) { return sorted(reference, false); }
samba_status samba_ref_argsort(const samba_reference *reference) { return sorted(reference, true); }

static double log_add(double x, double y)
{
    double high = fmax(x, y), low = fmin(x, y);
    return isnan(x) || isnan(y) ? x + y : isinf(high) ? high : high + log1p(exp(low - high));
}

typedef enum running { SUM, PRODUCT, LOG_SUM_EXP } running;

static samba_status scan(const samba_reference *reference, running function)
{
    const samba_array *a = &reference->inputs[0], *output = reference->output;
    const samba_attrs_scan *attrs = &reference->attrs->scan;
    for (int64_t n = 0; n < line_count(a, attrs->dim); n++) {
        line from = line_at(a, attrs->dim, n, attrs->reverse), to = line_at(output, attrs->dim, n, attrs->reverse);
        double real = function == SUM ? 0 : function == PRODUCT ? 1 : -INFINITY;
        uint64_t integer = function == PRODUCT; /* wraps */
        for (int64_t i = 0; i < from.size; i++) {
            if (is_real(&from)) {
                double x = real_at(&from, i);
                real = function == SUM ? real + x : function == PRODUCT ? real * x : log_add(real, x);
                samba_array_set_double(output, to.start + i * to.step, real);
            } else {
                uint64_t x = (uint64_t)integer_at(&from, i);
                integer = function == SUM ? integer + x : integer * x;
                samba_array_set_int64(output, to.start + i * to.step, (int64_t)integer);
            }
        }
    }
    return SAMBA_OK;
}

samba_status samba_ref_cumsum(const samba_reference *reference) { return scan(reference, SUM); }
samba_status samba_ref_cumprod(const samba_reference *reference) { return scan(reference, PRODUCT); }
samba_status samba_ref_logcumsumexp(const samba_reference *reference) { return scan(reference, LOG_SUM_EXP); }

/* dx k = (product of all before k) * r k, with r k = dy k + x k+1 * r k+1 */
samba_status samba_ref_cumprod_grad(const samba_reference *reference)
{
    const samba_array *a = &reference->inputs[0], *output = reference->output;
    const samba_attrs_scan *attrs = &reference->attrs->scan;
    size_t bytes = sizeof(double) * (size_t)(a->shape[attrs->dim] > 0 ? a->shape[attrs->dim] : 1);
    double *rest = samba_calloc(reference->context, bytes);
    if (!rest)
        return SAMBA_ERROR_MEMORY;
    for (int64_t n = 0; n < line_count(a, attrs->dim); n++) {
        line x = line_at(a, attrs->dim, n, attrs->reverse), dy = line_at(&reference->inputs[1], attrs->dim, n, attrs->reverse);
        double product = 1;
        for (int64_t i = x.size - 1; i >= 0; i--)
            rest[i] = real_at(&dy, i) + (i + 1 < x.size ? real_at(&x, i + 1) * rest[i + 1] : 0);
        for (int64_t i = 0; i < x.size; i++) {
            samba_array_set_double(output, x.start + i * x.step, product * rest[i]);
            product *= real_at(&x, i);
        }
    }
    samba_free(reference->context, rest, bytes);
    return SAMBA_OK;
}

static samba_status extremum(const samba_reference *reference, bool greatest, bool wants_index)
{
    const samba_array *a = &reference->inputs[0], *output = reference->output;
    const samba_attrs_scan *attrs = &reference->attrs->scan;
    for (int64_t n = 0; n < line_count(a, attrs->dim); n++) {
        line from = line_at(a, attrs->dim, n, attrs->reverse), to = line_at(output, attrs->dim, n, attrs->reverse);
        int64_t best = 0;
        for (int64_t i = 0; i < from.size; i++) {
            bool takes; /* the latest of equal ones, and NaN for good */
            if (is_real(&from)) {
                double x = real_at(&from, i), y = real_at(&from, best);
                takes = isnan(x) || (!isnan(y) && (greatest ? x >= y : x <= y));
            } else {
                int64_t x = integer_at(&from, i), y = integer_at(&from, best);
                takes = greatest ? x >= y : x <= y;
            }
            best = takes ? i : best;
            if (wants_index)
                samba_array_set_int64(output, to.start + i * to.step, attrs->reverse ? from.size - 1 - best : best);
            else
                memcpy(samba_array_at(output, to.start + i * to.step), samba_array_at(a, from.start + best * from.step),
                       samba_dtype_size(a->dtype));
        }
    }
    return SAMBA_OK;
}

samba_status samba_ref_cummax(const samba_reference *reference) { return extremum(reference, true, false); }
samba_status samba_ref_cummin(const samba_reference *reference) { return extremum(reference, false, false); }
samba_status samba_ref_cummax_index(const samba_reference *reference) { return extremum(reference, true, true); }
samba_status samba_ref_cummin_index(const samba_reference *reference) { return extremum(reference, false, true); }
