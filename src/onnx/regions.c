/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions of images: pooled, sampled, chosen; and convolutions that sample where they are told to.
 *
 * Places are values of a run: their neighbours are gathered by index and weighted, what lies outside weighs nothing. */
#include "onnx/lists.h"
#include "onnx/window.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <string.h>

/* 0, 1, 2 ... as a dtype, in the last of the dims but `after`. */
static samba_value count_up(samba_onnx_node *node, int64_t count, samba_dtype dtype, int after)
{
    int64_t shape[SAMBA_MAX_RANK] = {count, 1, 1, 1};
    samba_value line = samba_cast(samba_arange(node->graph, count, SAMBA_INT64), dtype);
    return samba_reshape(line, 1 + after, shape);
}

static samba_value at_least(samba_onnx_node *node, samba_value a, double least)
{
    samba_value bound = samba_onnx_number(node, least), none = {NULL, 0, 0};
    return samba_clamp(a, bound, none);
}

/* (R) as (R, 1, 1 ...) of that many dims. */
static samba_value column(samba_value a, int rank)
{
    int64_t shape[SAMBA_MAX_RANK] = {samba_value_size(a, 0), 1, 1, 1, 1, 1, 1, 1};
    return samba_reshape(a, rank, shape);
}

/* ---- RoiAlign ---- */

/* Samples along one dim of space: `bins` times `most` of each of R regions, flattened (R, bins * most). */
typedef struct samples {
    int64_t bins, most;
    samba_value low, high, low_weight, high_weight; /* neighbours, int64, and their weights: 0 for a sample outside */
    samba_value count;                              /* (R): how many of `most` are one of the region's; zeroed: all */
    samba_value used;                               /* bool: which ones these are; zeroed: all */
} samples;

/* Regions that begin at `start` (R) and are `length` long, in a dim of `size`. ratio 0: as many samples a bin as it has pixels,
 * rounded up, which must be known. */
static bool place_samples(samba_onnx_node *node, samba_value start, samba_value length, int64_t bins, int64_t ratio, int64_t size,
                          samples *s)
{
    samba_dtype dtype = samba_value_dtype(start);
    *s = (samples){.bins = bins, .most = ratio};
    samba_value bin = samba_mul_scalar(length, 1 / (double)bins), parts;
    if (ratio == 0) {
        uint64_t inputs = 0;
        s->count = samba_ceil(bin);
        const samba_array *known = samba_onnx_known(node->reader, s->count, &inputs);
        if (!known) {
            samba_onnx_refuse(
                node, "sampling_ratio is 0, so that the regions, which are no constants, decide how many samples are taken");
            return false;
        }
        node->reader->model->built_in |= inputs;
        for (int64_t i = 0; i < known->numel; i++)
            s->most = fmax((double)s->most, samba_onnx_double_at(known, i)) <= 4096
                          ? (int64_t)fmax((double)s->most, samba_onnx_double_at(known, i))
                          : 4096;
        s->most = s->most < 1 ? 1 : s->most;
        parts = column(at_least(node, s->count, 1), 3);
    } else
        parts = samba_onnx_like(node, (double)ratio, start);
    samba_value number = count_up(node, s->most, dtype, 0), middle = samba_add_scalar(number, 0.5),
                within = samba_div(middle, parts);
    samba_value which = count_up(node, bins, dtype, 1), place = samba_add(which, within); /* (bins, most), or (R, bins, most) */
    samba_value scaled = samba_mul(place, column(bin, 3)), first = column(start, 3), y = samba_add(scaled, first);
    samba_value begin = samba_onnx_number(node, -1), end = samba_onnx_number(node, (double)size),
                last = samba_onnx_number(node, (double)(size - 1));
    samba_value behind = samba_ge(y, begin), before = samba_le(y, end), inside = samba_logical_and(behind, before);
    samba_value none = samba_onnx_number(node, 0), near = samba_clamp(y, none, last), low = samba_floor(near),
                rest = samba_sub(near, low);
    samba_value zero = samba_onnx_like(node, 0, start), one = samba_onnx_like(node, 1, start), share = samba_sub(one, rest);
    samba_value next = samba_clamp(samba_add_scalar(low, 1), none, last);
    s->low_weight = samba_where(inside, share, zero);
    s->high_weight = samba_where(inside, rest, zero);
    s->low = samba_flatten(samba_cast(low, SAMBA_INT64), 1, 2);
    s->high = samba_flatten(samba_cast(next, SAMBA_INT64), 1, 2);
    s->low_weight = samba_flatten(s->low_weight, 1, 2);
    s->high_weight = samba_flatten(s->high_weight, 1, 2);
    if (ratio == 0) {
        const int64_t shape[3] = {samba_value_size(start, 0), bins, s->most};
        samba_value used = samba_lt(number, column(s->count, 3));
        s->used = samba_flatten(samba_expand(used, 3, shape), 1, 2);
    }
    return true;
}

/* Rows of (N * H * W, C) at neighbours (R, A) and (R, B), times their weights: (R, A, B, C). */
static samba_value corner(samba_value rows, samba_value image, int64_t width, samba_value y, samba_value x, samba_value y_weight,
                          samba_value x_weight)
{
    const int64_t shape[4] = {samba_value_size(y, 0), samba_value_size(y, 1), samba_value_size(x, 1), samba_value_size(rows, 1)};
    const int64_t line = shape[0] * shape[1] * shape[2];
    samba_value step = samba_integer(y.graph, width), along = samba_mul(y, step), start = samba_add(along, column(image, 2));
    samba_value down = samba_unsqueeze(start, 2), across = samba_unsqueeze(x, 1), index = samba_add(down, across);
    samba_value picked = samba_reshape(samba_index_select(rows, 0, samba_reshape(index, 1, &line)), 4, shape);
    samba_value tall = samba_unsqueeze(y_weight, 2), wide = samba_unsqueeze(x_weight, 1), weight = samba_mul(tall, wide);
    return samba_mul(picked, samba_unsqueeze(weight, 3));
}

void samba_onnx_roi_align(samba_onnx_node *node);
void samba_onnx_roi_align(samba_onnx_node *node)
{
    static const char *const modes[] = {"avg", "max", NULL}, *const places[] = {"half_pixel", "output_half_pixel", NULL};
    samba_value a = samba_onnx_need(node, 0), rois = samba_onnx_need(node, 1), batch = samba_onnx_need(node, 2), edge[4];
    int mode = samba_onnx_choice(node, "mode", "avg", modes), place = 1;
    if (node->version >= 16)
        place = samba_onnx_choice(node, "coordinate_transformation_mode", "half_pixel", places);
    int64_t bins_y = samba_onnx_int(node, "output_height", 1), bins_x = samba_onnx_int(node, "output_width", 1),
            ratio = samba_onnx_int(node, "sampling_ratio", 0);
    double scale = samba_onnx_float(node, "spatial_scale", 1);
    if (node->refused)
        return;
    if (samba_value_rank(a) != 4 || samba_value_rank(rois) != 2 || samba_value_size(rois, 1) != 4 ||
        samba_value_rank(batch) != 1 || bins_y < 1 || bins_x < 1 || ratio < 0 || samba_value_size(a, 2) < 1 ||
        samba_value_size(a, 3) < 1) {
        samba_onnx_refuse(node, "an input (N, C, H, W), regions (R, 4) and their images (R) are expected");
        return;
    }
    if (!samba_onnx_within(node, "output_height", bins_y, 1, 1 << 20) ||
        !samba_onnx_within(node, "output_width", bins_x, 1, 1 << 20) ||
        !samba_onnx_within(node, "sampling_ratio", ratio, 0, 4096))
        return;
    samba_value scaled = samba_mul_scalar(rois, scale), moved = place == 0 ? samba_add_scalar(scaled, -0.5) : scaled;
    for (int i = 0; i < 4; i++)
        edge[i] = samba_select(moved, 1, i);
    samba_value wide = samba_sub(edge[2], edge[0]), high = samba_sub(edge[3], edge[1]);
    if (place == 1) {
        wide = at_least(node, wide, 1);
        high = at_least(node, high, 1);
    }
    int64_t channels = samba_value_size(a, 1), height = samba_value_size(a, 2), width = samba_value_size(a, 3);
    samples y, x;
    if (!place_samples(node, edge[1], high, bins_y, ratio, height, &y) ||
        !place_samples(node, edge[0], wide, bins_x, ratio, width, &x))
        return;
    const int64_t taken[4] = {samba_value_size(rois, 0), bins_y * y.most, bins_x * x.most, channels};
    int64_t all;
    if (!samba_shape_numel(4, taken, &all)) {
        samba_onnx_refuse(node, "it would take more than 2^63 samples");
        return;
    }
    static const int last[4] = {0, 2, 3, 1}, back[4] = {0, 3, 1, 2}, dims[2] = {2, 4};
    const int64_t pixels[2] = {samba_value_size(a, 0) * height * width, channels}, regions = samba_value_size(rois, 0);
    samba_value rows = samba_reshape(samba_permute(a, last), 2, pixels), area = samba_integer(node->graph, height * width);
    samba_value image = samba_mul(samba_cast(batch, SAMBA_INT64), area), parts[4];
    parts[0] = corner(rows, image, width, y.low, x.low, y.low_weight, x.low_weight);
    parts[1] = corner(rows, image, width, y.low, x.high, y.low_weight, x.high_weight);
    parts[2] = corner(rows, image, width, y.high, x.low, y.high_weight, x.low_weight);
    parts[3] = corner(rows, image, width, y.high, x.high, y.high_weight, x.high_weight);
    samba_value sample = parts[0];
    for (int i = 1; i < 4; i++)
        sample = mode == 0 ? samba_add(sample, parts[i]) : samba_maximum(sample, parts[i]);
    if (y.used.graph) { /* samples that only larger regions have */
        samba_value down = samba_unsqueeze(y.used, 2), across = samba_unsqueeze(x.used, 1),
                    used = samba_logical_and(down, across);
        samba_value nothing = samba_onnx_like(node, mode == 0 ? 0 : -INFINITY, a);
        sample = samba_where(samba_unsqueeze(used, 3), sample, nothing);
    }
    const int64_t apart[6] = {regions, bins_y, y.most, bins_x, x.most, channels};
    samba_value split = samba_reshape(sample, 6, apart), pooled;
    if (mode == 1)
        pooled = samba_amax(split, 2, dims, false);
    else if (ratio > 0)
        pooled = samba_mean(split, 2, dims, false);
    else {
        samba_value sum = samba_sum(split, 2, dims, false), count = at_least(node, samba_mul(y.count, x.count), 1);
        pooled = samba_div(sum, column(count, 4));
    }
    if (mode == 1 && ratio == 0) { /* a region of no size has no samples */
        samba_value count = column(samba_mul(y.count, x.count), 4), zero = samba_onnx_like(node, 0, a),
                    some = samba_gt(count, zero);
        pooled = samba_where(some, pooled, zero);
    }
    samba_onnx_out(node, 0, samba_permute(pooled, back));
}

/* ---- MaxRoiPool ---- */

/* To the nearest integer, halves away from 0. */
static samba_value nearest(samba_value a)
{
    samba_value size = samba_floor(samba_add_scalar(samba_abs(a), 0.5));
    return samba_copysign(size, a);
}

/* Which indices of a dim of `size` belong to each of the bins of regions from `first` to `last` (R), both of them among it:
 * bool (R, bins, size). */
static samba_value in_bins(samba_onnx_node *node, samba_value first, samba_value last, int64_t bins, int64_t size)
{
    samba_dtype dtype = samba_value_dtype(first);
    samba_value length = at_least(node, samba_add_scalar(samba_sub(last, first), 1), 1),
                bin = samba_mul_scalar(length, 1 / (double)bins);
    samba_value each = column(bin, 3), start = column(first, 3), which = count_up(node, bins, dtype, 1),
                next = samba_add_scalar(which, 1);
    samba_value from = samba_floor(samba_mul(which, each)), to = samba_ceil(samba_mul(next, each));
    samba_value begin = samba_add(from, start), end = samba_add(to, start), place = count_up(node, size, dtype, 0);
    samba_value behind = samba_ge(place, begin), before = samba_lt(place, end);
    return samba_logical_and(behind, before);
}

void samba_onnx_max_roi_pool(samba_onnx_node *node);
void samba_onnx_max_roi_pool(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), rois = samba_onnx_need(node, 1), edge[4];
    int64_t bins[2];
    int count = samba_onnx_ints(node, "pooled_shape", 2, bins);
    double scale = samba_onnx_float(node, "spatial_scale", 1);
    if (node->refused)
        return;
    if (samba_value_rank(a) != 4 || samba_value_rank(rois) != 2 || samba_value_size(rois, 1) != 5 || count != 2 || bins[0] < 1 ||
        bins[1] < 1) {
        samba_onnx_refuse(node, "an input (N, C, H, W), regions (R, 5) and a pooled_shape of two sizes are expected");
        return;
    }
    samba_value which = samba_cast(samba_select(rois, 1, 0), SAMBA_INT64), images = samba_index_select(a, 0, which);
    for (int i = 0; i < 4; i++)
        edge[i] = nearest(samba_mul_scalar(samba_select(rois, 1, i + 1), scale));
    samba_value rows = in_bins(node, edge[1], edge[3], bins[0], samba_value_size(a, 2));
    samba_value columns = in_bins(node, edge[0], edge[2], bins[1], samba_value_size(a, 3));
    samba_value least = samba_onnx_like(node, -INFINITY, a), zero = samba_onnx_like(node, 0, a);
    const int last = -1;
    /* (R, C, H, 1, W) by (R, 1, 1, bins, W), then (R, C, 1, bins, H) by (R, 1, bins, 1, H) */
    samba_value wide = samba_unsqueeze(images, 3), of_columns = samba_unsqueeze(samba_unsqueeze(columns, 1), 1);
    samba_value across = samba_amax(samba_where(of_columns, wide, least), 1, &last, false);
    samba_value tall = samba_unsqueeze(samba_transpose(across, 2, 3), 2), of_rows = samba_unsqueeze(samba_unsqueeze(rows, 1), 3);
    samba_value pooled = samba_amax(samba_where(of_rows, tall, least), 1, &last, false);
    samba_value any_row = samba_any(rows, 1, &last, true), any_column = samba_any(columns, 1, &last, false);
    samba_value some = samba_logical_and(any_row, samba_unsqueeze(any_column, 1));
    samba_onnx_out(node, 0, samba_where(samba_unsqueeze(some, 1), pooled, zero));
}

/* ---- DeformConv ---- */

/* What of a place y (..., one dim) lies at its neighbour `low + step`: the index, and its weight, 0 outside. */
static samba_value neighbour(samba_onnx_node *node, samba_value low, samba_value rest, int step, int64_t size,
                             samba_value *weight)
{
    samba_value place = samba_add_scalar(low, step), none = samba_onnx_number(node, 0),
                last = samba_onnx_number(node, (double)(size - 1));
    samba_value behind = samba_ge(place, none), before = samba_le(place, last), inside = samba_logical_and(behind, before);
    samba_value one = samba_onnx_like(node, 1, rest), share = step ? rest : samba_sub(one, rest),
                zero = samba_onnx_like(node, 0, rest);
    *weight = samba_where(inside, share, zero);
    return samba_cast(samba_clamp(place, none, last), SAMBA_INT64);
}

void samba_onnx_deform_conv(samba_onnx_node *node);
void samba_onnx_deform_conv(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), offset = samba_onnx_need(node, 2),
                bias = samba_onnx_in(node, 3);
    samba_value mask = samba_onnx_in(node, 4), place[2], rest[2];
    int64_t groups = samba_onnx_int(node, "group", 1), parts = samba_onnx_int(node, "offset_group", 1), kernel[SAMBA_MAX_RANK];
    samba_onnx_window w;
    if (!node->refused && (samba_value_rank(a) != 4 || samba_value_rank(weight) != 4 || samba_value_rank(offset) != 4))
        samba_onnx_refuse(node, "two dims of space are expected; others are not supported");
    if (node->refused)
        return;
    kernel[0] = samba_value_size(weight, 2);
    kernel[1] = samba_value_size(weight, 3);
    if (!samba_onnx_window_read(node, a, kernel, &w))
        return;
    int64_t n = samba_value_size(a, 0), channels = samba_value_size(a, 1), height = w.size[0], width = w.size[1];
    int64_t out[2], k = kernel[0] * kernel[1], filters = samba_value_size(weight, 0);
    for (int i = 0; i < 2; i++)
        out[i] = (w.size[i] + w.before[i] + w.after[i] - w.dilation[i] * (kernel[i] - 1) - 1) / w.stride[i] + 1;
    int64_t own[SAMBA_MAX_RANK], own_mask[SAMBA_MAX_RANK];
    samba_onnx_shape(offset, own);
    if (parts < 1 || k > INT32_MAX || own[1] % (2 * k) || own[1] / (2 * k) != parts || own[2] != out[0] || own[3] != out[1]) {
        samba_onnx_refuse(node, "offsets %s do not fit %lld offset groups of a kernel of %lld places and a result of %lld x %lld",
                          SAMBA_SHAPE(4, own), (long long)parts, (long long)k, (long long)out[0], (long long)out[1]);
        return;
    }
    int64_t space = out[0] * out[1];
    const int64_t given[4] = {n, parts * k * 2, out[0], out[1]}, masked[4] = {n, parts * k, out[0], out[1]};
    samba_onnx_shape(mask, own_mask);
    if (groups < 1 || parts < 1 || channels % parts || channels != groups * samba_value_size(weight, 1) || filters % groups ||
        height < 1 || width < 1 || !samba_shape_equal(4, own, 4, given) ||
        (mask.graph && !samba_shape_equal(samba_value_rank(mask), own_mask, 4, masked))) {
        samba_onnx_refuse(node, "offsets or weights do not fit an input of %lld channels and a result of %lld x %lld",
                          (long long)channels, (long long)out[0], (long long)out[1]);
        return;
    }
    samba_dtype dtype = samba_value_dtype(a);
    const int64_t apart[7] = {n, parts, kernel[0], kernel[1], 2, out[0], out[1]}, flat[4] = {n, parts, 1, k * space};
    samba_value moves = samba_reshape(offset, 7, apart);
    for (int i = 0; i < 2; i++) { /* (N, parts, kernel, out): where the window's element stands, and its offset */
        int64_t shape[6] = {1, 1, 1, 1, 1, 1}, element[6] = {1, 1, 1, 1, 1, 1};
        shape[4 + i] = out[i];
        element[2 + i] = kernel[i];
        samba_value window = samba_mul_scalar(count_up(node, out[i], dtype, 0), (double)w.stride[i]);
        samba_value first = samba_reshape(samba_add_scalar(window, (double)-w.before[i]), 6, shape);
        samba_value within =
            samba_reshape(samba_mul_scalar(count_up(node, kernel[i], dtype, 0), (double)w.dilation[i]), 6, element);
        samba_value grid = samba_add(first, within), y = samba_reshape(samba_add(samba_select(moves, 4, i), grid), 4, flat);
        place[i] = samba_floor(y);
        rest[i] = samba_sub(y, place[i]);
    }
    const int64_t images[4] = {n, parts, channels / parts, height * width};
    samba_value pixels = samba_reshape(a, 4, images), sampled = {NULL, 0, 0}, step = samba_integer(node->graph, width);
    for (int c = 0; c < 4; c++) {
        samba_value y_weight, x_weight, y = neighbour(node, place[0], rest[0], c / 2, height, &y_weight);
        samba_value x = neighbour(node, place[1], rest[1], c % 2, width, &x_weight), row = samba_mul(y, step),
                    index = samba_add(row, x);
        samba_value factor = samba_mul(y_weight, x_weight), picked = samba_take_along_dim(pixels, index, 3);
        samba_value part = samba_mul(picked, factor);
        sampled = c ? samba_add(sampled, part) : part;
    }
    if (mask.graph)
        sampled = samba_mul(sampled, samba_reshape(mask, 4, flat));
    const int64_t columns[4] = {n, groups, channels / groups * k, space},
                  rows[3] = {groups, filters / groups, channels / groups * k};
    const int64_t result[4] = {n, filters, out[0], out[1]}, each[3] = {filters, 1, 1};
    samba_value matrix = samba_reshape(weight, 3, rows), seen = samba_reshape(sampled, 4, columns),
                product = samba_matmul(matrix, seen);
    samba_value y = samba_reshape(product, 4, result);
    samba_onnx_out(node, 0, bias.graph ? samba_add(y, samba_reshape(bias, 3, each)) : y);
}

/* ---- NonMaxSuppression ---- */

typedef struct box {
    double low[2], high[2]; /* x, y */
} box;

static box box_at(const samba_array *boxes, int64_t at, bool centred)
{
    double v[4];
    for (int i = 0; i < 4; i++)
        v[i] = samba_onnx_double_at(boxes, 4 * at + i);
    if (centred) /* x, y, width, height; the others are y, x of two corners */
        return (box){{v[0] - v[2] / 2, v[1] - v[3] / 2}, {v[0] + v[2] / 2, v[1] + v[3] / 2}};
    return (box){{fmin(v[1], v[3]), fmin(v[0], v[2])}, {fmax(v[1], v[3]), fmax(v[0], v[2])}};
}

/* How much two boxes share, of what both cover together. */
static double overlap(const box *a, const box *b)
{
    double shared = 1, first = 1, second = 1;
    for (int i = 0; i < 2; i++) {
        shared *= fmax(0, fmin(a->high[i], b->high[i]) - fmax(a->low[i], b->low[i]));
        first *= a->high[i] - a->low[i];
        second *= b->high[i] - b->low[i];
    }
    double all = first + second - shared;
    return shared > 0 && first > 0 && second > 0 && all > 0 ? shared / all : 0;
}

void samba_onnx_non_max_suppression(samba_onnx_node *node);
void samba_onnx_non_max_suppression(samba_onnx_node *node)
{
    const samba_array *boxes = samba_onnx_data_in(node, 0), *scores = samba_onnx_data_in(node, 1);
    int64_t most = samba_onnx_known_int(node, 2, "max_output_boxes_per_class", 0);
    double limit = samba_onnx_known_double(node, 3, "iou_threshold", 0),
           least = samba_onnx_known_double(node, 4, "score_threshold", -INFINITY);
    bool centred = samba_onnx_flag(node, "center_point_box", false);
    if (node->refused)
        return;
    if (boxes->rank != 3 || boxes->shape[2] != 4 || scores->rank != 3 || scores->shape[0] != boxes->shape[0] ||
        scores->shape[2] != boxes->shape[1] || boxes->shape[1] > 1 << 16) {
        samba_onnx_refuse(node, "boxes (N, B, 4) and scores (N, classes, B) of at most 65536 boxes are expected");
        return;
    }
    int64_t count = boxes->shape[1], classes = scores->shape[1], shape[2] = {0, 3}, *list;
    most = most < 0 ? 0 : most < count ? most : count;
    double lists = (double)boxes->shape[0] * (double)classes;
    if (!samba_onnx_afford(node, 24 * lists * (double)most, lists * (1 + 4 * (double)most * (double)count)))
        return;
    int64_t room = 3 * boxes->shape[0] * classes * most + 1;
    bool *gone;
    if (SAMBA_ROOM(&node->reader->arena, list, room) != SAMBA_OK || SAMBA_ROOM(&node->reader->arena, gone, count + 1) != SAMBA_OK)
        return;
    for (int64_t n = 0; n < boxes->shape[0]; n++)
        for (int64_t c = 0; c < classes; c++) {
            int64_t row = (n * classes + c) * count;
            for (int64_t i = 0; i < count; i++)
                gone[i] = !(samba_onnx_double_at(scores, row + i) > least);
            for (int64_t kept = 0; kept < most; kept++) {
                int64_t best = -1; /* the greatest, the first of equal ones */
                for (int64_t i = 0; i < count; i++)
                    if (!gone[i] &&
                        (best < 0 || samba_onnx_double_at(scores, row + i) > samba_onnx_double_at(scores, row + best)))
                        best = i;
                if (best < 0)
                    break;
                memcpy(list + 3 * shape[0]++, (const int64_t[]){n, c, best}, 3 * sizeof *list);
                box chosen = box_at(boxes, n * count + best, centred);
                for (int64_t i = 0; i < count; i++) {
                    box other = box_at(boxes, n * count + i, centred);
                    gone[i] |= i == best || (float)overlap(&chosen, &other) > (float)limit;
                }
            }
        }
    samba_onnx_out(node, 0, samba_onnx_ints_value(node, 2, shape, list));
}
