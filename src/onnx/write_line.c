/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators along one dim as nodes of ONNX: sorting by TopK, which keeps the order of equal ones, and running sums. What ONNX has
 * no running function for is computed by doubling: after step s each element covers 2s others, so log2(n) steps do. */
#include "onnx/write.h"
#include <math.h>
#include <string.h>

static const char *top(samba_onnx_writer *w, const char *a, int64_t size, int64_t dim, bool descending)
{
    const char *count = samba_onnx_numbers(w, 1, &size);
    samba_onnx_attr_int(w, "axis", dim);
    samba_onnx_attr_int(w, "largest", descending);
    samba_onnx_put2(w, "TopK", a, count);
    return samba_onnx_second_result(w);
}

static const char *elements(samba_onnx_writer *w, const char *a, const char *index, int64_t dim)
{
    samba_onnx_attr_int(w, "axis", dim);
    return samba_onnx_put2(w, "GatherElements", a, index);
}

/* The order of a whole line. NaN is greatest, which TopK leaves open: first all in order with NaN as infinity, then, of that,
 * those that are NaN behind (or before) the others. */
static const char *order(samba_onnx_writer *w, const char *a, samba_dtype dtype, int64_t size, int64_t dim, bool descending,
                         const char *nan)
{
    if (!samba_onnx_is_float(dtype))
        return top(w, a, size, dim, descending);
    const char *infinity = samba_onnx_number_of(w, dtype, INFINITY), *known = samba_onnx_put_where(w, nan, infinity, a);
    const char *first = top(w, known, size, dim, descending), *flags = samba_onnx_put_cast(w, nan, SAMBA_BOOL, SAMBA_INT32);
    flags = elements(w, flags, first, dim);
    const char *second = top(w, flags, size, dim, descending);
    return elements(w, first, second, dim);
}

const char *samba_onnx_write_sort(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_sort *s = &node->attrs->sort;
    const samba_node *from = samba_onnx_from(w, node, 0);
    const samba_dtype wide = samba_onnx_wide((samba_dtype)from->dtype);
    const int64_t size = from->shape[s->dim];
    int64_t numel;
    samba_shape_numel(from->rank, from->shape, &numel);
    if (numel == 0 || s->count == 0)
        return samba_onnx_filled(w, node, 0);
    const char *a = samba_onnx_given_wide(w, node, 0), *nan = samba_onnx_is_float(wide) ? samba_onnx_put1(w, "IsNaN", a) : NULL;
    const char *index = order(w, a, wide, size, s->dim, s->descending != 0, nan);
    if (s->first == SAMBA_SORT_MIDDLE) { /* which is the first of none; quotients go to 0 */
        const char *numbers = samba_onnx_number_of(w, SAMBA_INT64, (double)size);
        if (nan) {
            const char *flags = samba_onnx_put_cast(w, samba_onnx_put1(w, "Not", nan), SAMBA_BOOL, SAMBA_INT64);
            numbers = samba_onnx_put_reduce(w, "ReduceSum", flags, 1, &s->dim);
        }
        numbers = samba_onnx_put2(w, "Sub", numbers, samba_onnx_number_of(w, SAMBA_INT64, 1));
        numbers = samba_onnx_put2(w, "Div", numbers, samba_onnx_number_of(w, SAMBA_INT64, 2));
        index = elements(w, index, numbers, s->dim);
    } else if (s->first != 0 || s->count != size)
        index = samba_onnx_put_slice(w, index, s->dim, s->first, s->first + s->count, 1);
    if (s->nan && nan) {
        const char *flags = samba_onnx_put_cast(w, nan, SAMBA_BOOL, SAMBA_INT32);
        samba_onnx_attr_int(w, "axis", s->dim);
        samba_onnx_attr_int(w, "keepdims", 1);
        const char *first = samba_onnx_put1(w, "ArgMax", flags), *some = samba_onnx_put_reduce(w, "ReduceMax", flags, 1, &s->dim);
        some = samba_onnx_put_cast(w, some, SAMBA_INT32, SAMBA_BOOL);
        index = samba_onnx_put_where(w, some, first, index);
    }
    /* of what was cast, or looks for NaN among integers: TopK, which has two results, cannot say what the second is */
    if (node->op == SAMBA_OP_argsort)
        return nan || (wide == (samba_dtype)from->dtype && !s->nan) ? index : samba_onnx_put1(w, "Identity", index);
    return elements(w, samba_onnx_given(w, node, 0), index, s->dim);
}

const char *samba_onnx_write_cumsum(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_scan *s = &node->attrs->scan;
    const char *a = samba_onnx_given_wide(w, node, 0), *dim = samba_onnx_number_of(w, SAMBA_INT64, (double)s->dim);
    if (s->reverse)
        samba_onnx_attr_int(w, "reverse", 1);
    a = samba_onnx_put2(w, "CumSum", a, dim);
    return samba_onnx_narrow(w, node, a);
}

typedef struct running { /* values of a line that each cover those before them, and where extrema stand */
    samba_onnx_writer *w;
    const samba_node *node;
    samba_dtype dtype;
    int64_t dim, size;
    bool reverse;
    const char *value, *place;
} running;

static const char *part(const running *r, const char *a, int64_t start, int64_t stop)
{
    return samba_onnx_put_slice(r->w, a, r->dim, start, stop, 1);
}

/* log(exp(a) + exp(b)), infinite ones among them. */
static const char *log_add(const running *r, const char *a, const char *b)
{
    samba_onnx_writer *w = r->w;
    const char *zero = samba_onnx_number_of(w, r->dtype, 0), *high = samba_onnx_put2(w, "Max", a, b),
               *apart = samba_onnx_put2(w, "Sub", a, b);
    const char *same = samba_onnx_put2(w, "Equal", a, b);
    apart = samba_onnx_put_where(w, same, zero, apart);
    apart = samba_onnx_put1(w, "Abs", apart);
    apart = samba_onnx_put1(w, "Neg", apart);
    apart = samba_onnx_put1(w, "Exp", apart);
    apart = samba_onnx_log1p(w, apart, r->dtype);
    return samba_onnx_put2(w, "Add", high, apart);
}

/* What `later` elements become with those `earlier` on the way of the scan. */
static void join(running *r, const char *earlier, const char *later, const char *earlier_place, const char *later_place,
                 const char **value, const char **place)
{
    samba_onnx_writer *w = r->w;
    *place = NULL;
    if (r->node->op == SAMBA_OP_cumprod) {
        *value = samba_onnx_put2(w, "Mul", earlier, later);
        return;
    }
    if (r->node->op == SAMBA_OP_logcumsumexp) {
        *value = log_add(r, earlier, later);
        return;
    }
    const bool greatest = r->node->op == SAMBA_OP_cummax || r->node->op == SAMBA_OP_cummax_index;
    const char *takes = samba_onnx_put2(w, greatest ? "GreaterOrEqual" : "LessOrEqual", later, earlier);
    if (samba_onnx_is_float(r->dtype)) {
        const char *nan = samba_onnx_put1(w, "IsNaN", later);
        takes = samba_onnx_put2(w, "Or", takes, nan);
    }
    *value = samba_onnx_put_where(w, takes, later, earlier);
    if (earlier_place)
        *place = samba_onnx_put_where(w, takes, later_place, earlier_place);
}

static void step(running *r, int64_t by)
{
    samba_onnx_writer *w = r->w;
    const int64_t edge = r->reverse ? r->size - by : by;
    const int64_t earlier_start = r->reverse ? by : 0, later_start = r->reverse ? 0 : by, span = r->size - by;
    const char *earlier = part(r, r->value, earlier_start, earlier_start + span);
    const char *later = part(r, r->value, later_start, later_start + span), *value, *place;
    const char *earlier_place = r->place ? part(r, r->place, earlier_start, earlier_start + span) : NULL;
    const char *later_place = r->place ? part(r, r->place, later_start, later_start + span) : NULL;
    join(r, earlier, later, earlier_place, later_place, &value, &place);
    const char *kept = part(r, r->value, r->reverse ? edge : 0, r->reverse ? r->size : edge);
    const char *kept_place = r->place ? part(r, r->place, r->reverse ? edge : 0, r->reverse ? r->size : edge) : NULL;
    r->value = r->reverse ? samba_onnx_put_concat(w, r->dim, value, kept) : samba_onnx_put_concat(w, r->dim, kept, value);
    if (r->place)
        r->place = r->reverse ? samba_onnx_put_concat(w, r->dim, place, kept_place)
                              : samba_onnx_put_concat(w, r->dim, kept_place, place);
}

const char *samba_onnx_write_scan(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_scan *s = &node->attrs->scan;
    const samba_node *from = samba_onnx_from(w, node, 0);
    const samba_dtype dtype = samba_onnx_wide((samba_dtype)from->dtype);
    const bool places = node->op == SAMBA_OP_cummax_index || node->op == SAMBA_OP_cummin_index;
    running r = {.w = w, .node = node, .dtype = dtype, .dim = s->dim, .size = from->shape[s->dim], .reverse = s->reverse != 0};
    int64_t numel;
    samba_shape_numel(from->rank, from->shape, &numel);
    if (numel == 0)
        return samba_onnx_filled(w, node, 0);
    r.value = samba_onnx_given_wide(w, node, 0);
    if (places) {
        r.place = samba_onnx_whole(w, r.size, from->rank, (int)s->dim);
        r.place = samba_onnx_put_expand(w, r.place, SAMBA_INT64, from->rank, from->shape);
    }
    for (int64_t by = 1; by < r.size; by *= 2)
        step(&r, by);
    return places ? r.place : samba_onnx_narrow(w, node, r.value);
}
