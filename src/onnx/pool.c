/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows, and pooling over them. */
#include "onnx/window.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/pool.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- windows ---- */

/* Fewer pads than auto_pad asks for are none: the output is as long as the input by the stride, rounded up. */
static void pad_automatically(samba_onnx_window *w, bool lower)
{
    for (int i = 0; i < w->dims; i++) {
        int64_t out = (w->size[i] + w->stride[i] - 1) / w->stride[i], reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t total = (out - 1) * w->stride[i] + reach - w->size[i];
        total = total > 0 ? total : 0;
        w->before[i] = lower ? total - total / 2 : total / 2;
        w->after[i] = total - w->before[i];
    }
}

static bool read_list(samba_onnx_node *node, const char *name, int dims, int64_t fallback, int64_t *list)
{
    int count = samba_onnx_ints(node, name, SAMBA_MAX_RANK, list);
    for (int i = 0; count < 0 && i < dims; i++)
        list[i] = fallback;
    if (count >= 0 && count != dims)
        samba_onnx_refuse(node, "%s has %d numbers for %d dims of space", name, count, dims);
    for (int i = 0; i < dims && !node->refused; i++)
        if (list[i] < 1 || list[i] > INT32_MAX)
            samba_onnx_refuse(node, "%s has the number %lld", name, (long long)list[i]);
    return !node->refused;
}

bool samba_onnx_window_read(samba_onnx_node *node, samba_value input, const int64_t *weight_kernel, samba_onnx_window *w)
{
    static const char *const kinds[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL};
    int64_t pads[2 * SAMBA_MAX_RANK];
    memset(w, 0, sizeof *w);
    if (node->refused)
        return false;
    w->dims = samba_value_rank(input) - 2;
    if (w->dims < 1) {
        samba_onnx_refuse(node, "an input (N, C, space...) is expected, given one of rank %d", samba_value_rank(input));
        return false;
    }
    for (int i = 0; i < w->dims; i++)
        w->size[i] = samba_value_size(input, i + 2);
    if (!read_list(node, "strides", w->dims, 1, w->stride) || !read_list(node, "dilations", w->dims, 1, w->dilation))
        return false;
    int64_t said[SAMBA_MAX_RANK];
    int kernels = samba_onnx_ints(node, "kernel_shape", SAMBA_MAX_RANK, said);
    if (node->refused || (!weight_kernel && kernels != w->dims) || (kernels >= 0 && kernels != w->dims)) {
        samba_onnx_refuse(node, "kernel_shape has %d numbers for %d dims of space", kernels, w->dims);
        return false;
    }
    for (int i = 0; i < w->dims; i++) {
        w->kernel[i] = weight_kernel ? weight_kernel[i] : said[i];
        if (kernels >= 0 && said[i] != w->kernel[i]) {
            samba_onnx_refuse(node, "kernel_shape says %lld where the weight has %lld", (long long)said[i],
                              (long long)w->kernel[i]);
            return false;
        }
        if (w->kernel[i] < 1 || w->kernel[i] > INT32_MAX || w->size[i] > INT32_MAX) {
            samba_onnx_refuse(node, "a kernel has size %lld in a dim of %lld", (long long)w->kernel[i], (long long)w->size[i]);
            return false;
        }
    }
    int kind = samba_onnx_choice(node, "auto_pad", "NOTSET", kinds),
        count = samba_onnx_ints(node, "pads", SAMBA_COUNT(pads), pads);
    if (node->refused)
        return false;
    w->same_upper = kind == 1;
    w->same_lower = kind == 2;
    if (kind == 1 || kind == 2)
        pad_automatically(w, kind == 2);
    else if (count >= 0 && kind == 0) {
        if (count != 2 * w->dims) {
            samba_onnx_refuse(node, "%d pads are given for %d dims of space", count, w->dims);
            return false;
        }
        for (int i = 0; i < w->dims; i++) {
            w->before[i] = pads[i];
            w->after[i] = pads[w->dims + i];
            for (int k = 0; k < 2; k++)
                if (pads[i + k * w->dims] < -INT32_MAX || pads[i + k * w->dims] > INT32_MAX) {
                    samba_onnx_refuse(node, "pads has the number %lld", (long long)pads[i + k * w->dims]);
                    return false;
                }
        }
    }
    w->even = true;
    for (int i = 0; i < w->dims; i++)
        w->even &= w->before[i] == w->after[i] && w->before[i] >= 0;
    return true;
}

samba_value samba_onnx_window_pad(const samba_onnx_window *w, samba_value input, double value)
{
    int64_t amounts[2 * SAMBA_MAX_RANK];
    for (int i = 0; i < w->dims; i++) { /* samba_pad begins with the last dim */
        amounts[2 * (w->dims - 1 - i)] = w->before[i];
        amounts[2 * (w->dims - 1 - i) + 1] = w->after[i];
    }
    return samba_pad(input, w->dims, amounts, SAMBA_PAD_CONSTANT, value);
}

/* Windows in each dim: rounded up where asked for, and then none that begins behind the input and what lies before it. */
static int64_t windows_in(const samba_onnx_window *w, int i, bool ceil_mode)
{
    int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1, room = w->size[i] + w->before[i] + w->after[i] - reach;
    if (room < 0)
        return 0;
    int64_t count = (room + (ceil_mode ? w->stride[i] - 1 : 0)) / w->stride[i] + 1;
    if (ceil_mode && (count - 1) * w->stride[i] >= w->size[i] + w->before[i])
        count--;
    return count;
}

/* Pads what the last window reaches beyond the pads, so that all windows are whole. */
static void make_whole(samba_onnx_window *w, bool ceil_mode)
{
    for (int i = 0; i < w->dims; i++) {
        int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1, count = windows_in(w, i, ceil_mode);
        int64_t need = count > 0 ? (count - 1) * w->stride[i] + reach - w->size[i] - w->before[i] : w->after[i];
        w->after[i] = need > w->after[i] ? need : w->after[i];
    }
}

static samba_value pool_max(samba_onnx_node *node, const samba_onnx_window *w, samba_value a, bool indices)
{
    const int64_t *k = w->kernel, *s = w->stride, *d = w->dilation, *p = w->before;
    if (w->dims == 1) {
        samba_pool1d_options o = {s[0], p[0], d[0], false, false};
        return indices ? samba_max_pool1d_indices(a, k[0], &o) : samba_max_pool1d(a, k[0], &o);
    }
    if (w->dims == 2) {
        samba_pool2d_options o = {{s[0], s[1]}, {p[0], p[1]}, {d[0], d[1]}, false, false, 0};
        return indices ? samba_max_pool2d_indices(a, k, &o) : samba_max_pool2d(a, k, &o);
    }
    if (w->dims == 3) {
        samba_pool3d_options o = {{s[0], s[1], s[2]}, {p[0], p[1], p[2]}, {d[0], d[1], d[2]}, false, false, 0};
        return indices ? samba_max_pool3d_indices(a, k, &o) : samba_max_pool3d(a, k, &o);
    }
    return onnx_refused(node, "%d dims of space are not supported, 1 to 3 are", w->dims);
}

/* What is less than every value. */
static double least_of(samba_dtype dtype)
{
    switch (dtype) {
    case SAMBA_INT8: return INT8_MIN;
    case SAMBA_INT16: return INT16_MIN;
    case SAMBA_INT32: return INT32_MIN;
    case SAMBA_INT64: return (double)INT64_MIN;
    case SAMBA_UINT8:
    case SAMBA_BOOL: return 0;
    default: return -INFINITY;
    }
}

static bool fits_pooling(const samba_onnx_window *w)
{
    bool fits = w->even;
    for (int i = 0; i < w->dims; i++)
        fits &= w->before[i] * 2 <= w->kernel[i];
    return fits;
}

/* From places in the padded input to places in the input, counted over C and N too, or by columns. */
static samba_value places_in_input(samba_onnx_node *node, const samba_onnx_window *given, const samba_onnx_window *padded,
                                   bool was_padded, samba_value a, samba_value index, bool columns)
{
    samba_value place[SAMBA_MAX_RANK] = {{NULL, 0, 0}}, rest = index;
    for (int i = given->dims - 1; i >= 0; i--) {
        samba_value size = samba_integer(node->graph, given->size[i] + (was_padded ? padded->before[i] + padded->after[i] : 0));
        place[i] = samba_remainder(rest, size);
        rest = samba_floor_divide(rest, size);
        if (was_padded) {
            samba_value shift = samba_integer(node->graph, padded->before[i]);
            place[i] = samba_sub(place[i], shift);
        }
    }
    samba_value flat = place[columns ? given->dims - 1 : 0];
    int64_t space = 1;
    for (int i = 0; i < given->dims; i++)
        space *= given->size[i];
    for (int n = 1; n < given->dims; n++) {
        int i = columns ? given->dims - 1 - n : n;
        samba_value size = samba_integer(node->graph, given->size[i]), scaled = samba_mul(flat, size);
        flat = samba_add(scaled, place[i]);
    }
    int64_t planes = samba_value_size(a, 0) * samba_value_size(a, 1), shape[SAMBA_MAX_RANK] = {0};
    shape[0] = samba_value_size(a, 0);
    shape[1] = samba_value_size(a, 1);
    for (int i = 0; i < given->dims; i++)
        shape[2 + i] = 1;
    samba_value plane = samba_arange(node->graph, planes, SAMBA_INT64), size = samba_integer(node->graph, space);
    samba_value starts = samba_mul(plane, size), placed = samba_reshape(starts, given->dims + 2, shape);
    return samba_add(flat, placed);
}

void samba_onnx_max_pool(samba_onnx_node *node);
void samba_onnx_max_pool(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    bool ceil_mode = samba_onnx_flag(node, "ceil_mode", false), columns = samba_onnx_flag(node, "storage_order", false);
    samba_onnx_window given, w;
    if (!samba_onnx_window_read(node, a, NULL, &given))
        return;
    w = given;
    samba_value input = a;
    make_whole(&w, ceil_mode);
    w.even = true;
    for (int i = 0; i < w.dims; i++)
        w.even &= w.before[i] == w.after[i];
    bool pads = !fits_pooling(&w);
    if (pads) {
        input = samba_onnx_window_pad(&w, a, least_of(samba_value_dtype(a)));
        samba_onnx_window inside = w;
        for (int i = 0; i < w.dims; i++)
            inside.before[i] = inside.after[i] = 0;
        samba_onnx_out(node, 0, pool_max(node, &inside, input, false));
        if (samba_onnx_wants(node, 1))
            samba_onnx_out(node, 1, places_in_input(node, &given, &w, true, a, pool_max(node, &inside, input, true), columns));
    } else {
        samba_onnx_out(node, 0, pool_max(node, &w, input, false));
        if (samba_onnx_wants(node, 1))
            samba_onnx_out(node, 1, places_in_input(node, &given, &w, false, a, pool_max(node, &w, input, true), columns));
    }
    samba_onnx_out_type(node, 0, samba_onnx_type_in(node, 0));
}

static samba_value pool_mean(samba_onnx_node *node, const samba_onnx_window *w, samba_value a, bool count_pads)
{
    const int64_t *k = w->kernel, *s = w->stride, *p = w->before;
    if (w->dims == 1) {
        samba_pool1d_options o = {s[0], p[0], 0, false, !count_pads};
        return samba_avg_pool1d(a, k[0], &o);
    }
    if (w->dims == 2) {
        samba_pool2d_options o = {{s[0], s[1]}, {p[0], p[1]}, {0, 0}, false, !count_pads, 0};
        return samba_avg_pool2d(a, k, &o);
    }
    if (w->dims == 3) {
        samba_pool3d_options o = {{s[0], s[1], s[2]}, {p[0], p[1], p[2]}, {0, 0, 0}, false, !count_pads, 0};
        return samba_avg_pool3d(a, k, &o);
    }
    return onnx_refused(node, "%d dims of space are not supported, 1 to 3 are", w->dims);
}

/* Sums over windows with dilation, one dim after another. */
static samba_value window_sums(const samba_onnx_window *w, samba_value padded)
{
    for (int i = 0; i < w->dims; i++) {
        int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        int last = -1;
        samba_value windows = samba_windows(padded, 2 + i, reach, w->stride[i]);
        samba_value seen = samba_slice(windows, -1, 0, reach, w->dilation[i]);
        padded = samba_sum(seen, 1, &last, false);
    }
    return padded;
}

/* A value of ones in the shape of a plane of the input: how many elements, with or without pads, each window has. */
static samba_value window_counts(samba_onnx_node *node, const samba_onnx_window *given, const samba_onnx_window *whole,
                                 samba_value a, bool count_pads)
{
    int64_t shape[SAMBA_MAX_RANK] = {1, 1};
    for (int i = 0; i < given->dims; i++)
        shape[2 + i] = given->size[i];
    samba_value ones = samba_constant(node->graph, 1, samba_value_dtype(a), given->dims + 2, shape);
    samba_onnx_window rest = *whole;
    if (count_pads) { /* what the model pads counts, what makes the last window whole does not */
        ones = samba_onnx_window_pad(given, ones, 1);
        for (int i = 0; i < given->dims; i++) {
            rest.before[i] = 0;
            rest.after[i] = whole->after[i] - given->after[i];
        }
    }
    return window_sums(whole, samba_onnx_window_pad(&rest, ones, 0));
}

void samba_onnx_average_pool(samba_onnx_node *node);
void samba_onnx_average_pool(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    bool ceil_mode = samba_onnx_flag(node, "ceil_mode", false), count_pads = samba_onnx_flag(node, "count_include_pad", false),
         dilated = false;
    samba_onnx_window given, w;
    if (!samba_onnx_window_read(node, a, NULL, &given))
        return;
    w = given;
    make_whole(&w, ceil_mode);
    bool grown = false;
    for (int i = 0; i < w.dims; i++) {
        dilated |= w.dilation[i] != 1;
        grown |= w.after[i] != given.after[i];
    }
    if (!dilated && !grown && fits_pooling(&w) && w.dims <= 3) {
        samba_onnx_out(node, 0, pool_mean(node, &w, a, count_pads));
        return;
    }
    samba_value sums = window_sums(&w, samba_onnx_window_pad(&w, a, 0)), counts = window_counts(node, &given, &w, a, count_pads);
    samba_onnx_out(node, 0, samba_div(sums, counts));
}

void samba_onnx_lp_pool(samba_onnx_node *node);
void samba_onnx_lp_pool(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double p = (double)samba_onnx_int(node, "p", 2);
    bool ceil_mode = samba_onnx_flag(node, "ceil_mode", false);
    samba_onnx_window given, w;
    if (!samba_onnx_window_read(node, a, NULL, &given))
        return;
    w = given;
    make_whole(&w, ceil_mode);
    samba_value size = samba_abs(a), power = samba_onnx_number(node, p), root = samba_onnx_number(node, 1 / p),
                powers = samba_pow(size, power);
    samba_value sums = window_sums(&w, samba_onnx_window_pad(&w, powers, 0));
    samba_onnx_out(node, 0, samba_pow(sums, root));
}

/* ---- over the whole of space ---- */

static int space_dims(samba_onnx_node *node, samba_value a, int dims[SAMBA_MAX_RANK])
{
    int count = samba_value_rank(a) - 2;
    if (!node->refused && count < 1)
        samba_onnx_refuse(node, "an input (N, C, space...) is expected");
    for (int i = 0; i < count; i++)
        dims[i] = 2 + i;
    return count;
}

void samba_onnx_global_average_pool(samba_onnx_node *node);
void samba_onnx_global_average_pool(samba_onnx_node *node)
{
    int dims[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    int count = space_dims(node, a, dims);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_mean(a, count, dims, true));
}

void samba_onnx_global_max_pool(samba_onnx_node *node);
void samba_onnx_global_max_pool(samba_onnx_node *node)
{
    int dims[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    int count = space_dims(node, a, dims);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_amax(a, count, dims, true));
}

void samba_onnx_global_lp_pool(samba_onnx_node *node);
void samba_onnx_global_lp_pool(samba_onnx_node *node)
{
    int dims[SAMBA_MAX_RANK];
    samba_value a = samba_onnx_need(node, 0);
    int count = space_dims(node, a, dims);
    double p = (double)samba_onnx_int(node, "p", 2);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_vector_norm(a, p, count, dims, true));
}

/* The inverse of max pooling without overlaps: places are counted over the output of the pooling's input, N and C among it. */
void samba_onnx_max_unpool(samba_onnx_node *node);
void samba_onnx_max_unpool(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), index = samba_onnx_need(node, 1);
    samba_onnx_window w;
    int64_t shape[SAMBA_MAX_RANK], inferred[SAMBA_MAX_RANK];
    int given = samba_onnx_known_ints(node, 2, "the shape", SAMBA_MAX_RANK, shape), rank;
    if (!samba_onnx_window_read(node, a, NULL, &w))
        return;
    rank = w.dims + 2;
    inferred[0] = samba_value_size(a, 0);
    inferred[1] = samba_value_size(a, 1);
    int64_t numel, all = -1;
    for (int i = 0; i < w.dims; i++)
        inferred[2 + i] = (w.size[i] - 1) * w.stride[i] + w.kernel[i] - w.before[i] - w.after[i];
    for (int i = 0; i < rank; i++)
        if (!samba_onnx_within(node, "the result's shape", inferred[i], 0, INT32_MAX))
            return;
    if (!samba_shape_numel(rank, inferred, &numel)) {
        samba_onnx_refuse(node, "its result would have more than 2^63 elements");
        return;
    }
    if (given >= 0 && given != rank) {
        samba_onnx_refuse(node, "a shape of %d dims is given for %d", given, rank);
        return;
    }
    for (int i = 0; given >= 0 && i < w.dims; i++)
        if (shape[2 + i] < inferred[2 + i] || shape[2 + i] > INT32_MAX) {
            samba_onnx_refuse(node, "a result of %lld elements is asked for where the pooling's input has %lld",
                              (long long)shape[2 + i], (long long)inferred[2 + i]);
            return;
        }
    samba_value zeros = samba_constant(node->graph, 0, samba_value_dtype(a), 1, &numel);
    samba_value places = samba_reshape(index, 1, &all), values = samba_reshape(a, 1, &all);
    samba_value flat = samba_scatter(zeros, 0, places, values), result = samba_reshape(flat, rank, inferred);
    samba_onnx_window more = w; /* a larger result has zeros behind */
    for (int i = 0; i < w.dims; i++) {
        more.before[i] = 0;
        more.after[i] = given >= 0 ? shape[2 + i] - inferred[2 + i] : 0;
    }
    if (given >= 0)
        result = samba_onnx_window_pad(&more, result, 0);
    samba_onnx_out(node, 0, result);
}
