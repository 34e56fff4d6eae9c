/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, images of other sizes, losses. */
#include "onnx/window.h"

#include <sambaflow/conv.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/loss.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/resample.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- convolutions ---- */

static bool kernel_of(samba_onnx_node *node, samba_value a, samba_value weight, int64_t kernel[SAMBA_MAX_RANK])
{
    if (node->refused)
        return false;
    if (samba_value_rank(a) != samba_value_rank(weight) || samba_value_rank(a) < 3) {
        samba_onnx_refuse(node, "an input (N, C, space...) and a weight of its rank are expected, of ranks %d and %d",
                          samba_value_rank(a), samba_value_rank(weight));
        return false;
    }
    for (int i = 2; i < samba_value_rank(weight); i++)
        kernel[i - 2] = samba_value_size(weight, i);
    return true;
}

samba_value samba_onnx_convolve(samba_onnx_node *node, samba_value a, samba_value weight, samba_value bias, double around)
{
    int64_t kernel[SAMBA_MAX_RANK], groups = samba_onnx_int(node, "group", 1);
    samba_onnx_window w;
    if (!kernel_of(node, a, weight, kernel) || !samba_onnx_window_read(node, a, kernel, &w))
        return (samba_value){NULL, 0, 0};
    if (!w.even || around != 0) {
        a = samba_onnx_window_pad(&w, a, around);
        memset(w.before, 0, sizeof w.before);
    }
    const int64_t *s = w.stride, *p = w.before, *d = w.dilation;
    if (w.dims == 1) {
        samba_conv1d_options o = {s[0], p[0], d[0], groups, false, false, SAMBA_PAD_CONSTANT};
        return samba_functional_conv1d(a, weight, bias, &o);
    }
    if (w.dims == 2) {
        samba_conv2d_options o = {{s[0], s[1]}, {p[0], p[1]}, {d[0], d[1]}, groups, false, false, SAMBA_PAD_CONSTANT};
        return samba_functional_conv2d(a, weight, bias, &o);
    }
    if (w.dims == 3) {
        samba_conv3d_options o = {{s[0], s[1], s[2]}, {p[0], p[1], p[2]}, {d[0], d[1], d[2]}, groups, false, false,
                                  SAMBA_PAD_CONSTANT};
        return samba_functional_conv3d(a, weight, bias, &o);
    }
    return onnx_refused(node, "%d dims of space are not supported, 1 to 3 are", w.dims);
}

void samba_onnx_conv(samba_onnx_node *node);
void samba_onnx_conv(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), bias = samba_onnx_in(node, 2);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_onnx_convolve(node, a, weight, bias, 0));
}

/* The result without pads, of which they cut off a part; what it is short of is zeros (and bias). */
void samba_onnx_conv_transpose(samba_onnx_node *node);
void samba_onnx_conv_transpose(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), bias = samba_onnx_in(node, 2),
                none = {NULL, 0, 0}, y;
    int64_t kernel[SAMBA_MAX_RANK], more[SAMBA_MAX_RANK], wanted[SAMBA_MAX_RANK], groups = samba_onnx_int(node, "group", 1);
    samba_onnx_window w;
    if (!kernel_of(node, a, weight, kernel) || !samba_onnx_window_read(node, a, kernel, &w))
        return;
    int extra = samba_onnx_ints(node, "output_padding", SAMBA_MAX_RANK, more),
        shaped = samba_onnx_ints(node, "output_shape", SAMBA_MAX_RANK, wanted);
    if (node->refused || (extra >= 0 && extra != w.dims) || (shaped >= 0 && shaped != w.dims && shaped != w.dims + 2)) {
        samba_onnx_refuse(node, "output_padding and output_shape need a number for each of %d dims of space", w.dims);
        return;
    }
    int64_t *size = shaped == w.dims + 2 ? wanted + 2 : wanted, full[SAMBA_MAX_RANK];
    for (int i = 0; i < w.dims; i++) {
        more[i] = extra < 0 ? 0 : more[i];
        if (!samba_onnx_within(node, "output_padding", more[i], 0, INT32_MAX) ||
            !samba_onnx_within(node, "output_shape", shaped < 0 ? 0 : size[i], 0, INT32_MAX))
            return;
        full[i] = (w.size[i] - 1) * w.stride[i] + w.dilation[i] * (kernel[i] - 1) + 1;
        if (shaped < 0 && (w.same_upper || w.same_lower))
            size[i] = w.size[i] * w.stride[i];
        if (shaped >= 0 || w.same_upper || w.same_lower) {
            int64_t cut = full[i] + more[i] - size[i];
            w.before[i] = w.same_upper ? cut / 2 : cut - cut / 2;
            if (shaped >= 0 && !w.same_lower)
                w.before[i] = cut / 2;
            w.after[i] = cut - w.before[i];
        }
    }
    const int64_t *s = w.stride, *d = w.dilation;
    if (w.dims == 1) {
        samba_conv_transpose1d_options o = {s[0], 0, 0, d[0], groups, false};
        y = samba_functional_conv_transpose1d(a, weight, none, &o);
    } else if (w.dims == 2) {
        samba_conv_transpose2d_options o = {{s[0], s[1]}, {0, 0}, {0, 0}, {d[0], d[1]}, groups, false};
        y = samba_functional_conv_transpose2d(a, weight, none, &o);
    } else if (w.dims == 3) {
        samba_conv_transpose3d_options o = {{s[0], s[1], s[2]}, {0, 0, 0}, {0, 0, 0}, {d[0], d[1], d[2]}, groups, false};
        y = samba_functional_conv_transpose3d(a, weight, none, &o);
    } else {
        samba_onnx_refuse(node, "%d dims of space are not supported, 1 to 3 are", w.dims);
        return;
    }
    samba_onnx_window cut = w;
    bool cuts = false;
    for (int i = 0; i < w.dims; i++) { /* negative pads cut */
        cut.before[i] = -w.before[i];
        cut.after[i] = more[i] - w.after[i];
        cuts |= cut.before[i] || cut.after[i];
    }
    if (cuts)
        y = samba_onnx_window_pad(&cut, y, 0);
    if (bias.graph) {
        int64_t shape[SAMBA_MAX_RANK] = {1, samba_value_size(bias, 0)};
        for (int i = 0; i < w.dims; i++)
            shape[2 + i] = 1;
        samba_value each = samba_reshape(bias, w.dims + 2, shape);
        y = samba_add(y, each);
    }
    samba_onnx_out(node, 0, y);
}

/* ---- images of other sizes: one dim after another, as a product with a small matrix or by index ---- */

typedef struct resizing {
    int mode;  /* nearest, linear, cubic */
    int place; /* of an output pixel in the input */
    int rounding;
    double cubic, outside; /* the cubic's coefficient; what stands outside of the image for tf_crop_and_resize */
    bool antialias, exclude_outside;
} resizing;

enum { NEAREST, LINEAR, CUBIC };
enum { HALF_PIXEL, ASYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, HALF_PIXEL_SYMMETRIC, CROP_AND_RESIZE, TF_HALF_PIXEL_FOR_NN };

static double place_of(const resizing *r, int64_t i, int64_t size, int64_t out, double scale, double start, double end)
{
    double length = scale * (double)size; /* not rounded to a whole number */
    switch (r->place) {
    case ASYMMETRIC: return (double)i / scale;
    case PYTORCH_HALF_PIXEL: return length > 1 ? ((double)i + 0.5) / scale - 0.5 : 0;
    case ALIGN_CORNERS: return length > 1 ? (double)i * (double)(size - 1) / (length - 1) : 0;
    case HALF_PIXEL_SYMMETRIC: {
        double adjustment = (double)out / length, centre = (double)size / 2;
        return centre * (1 - adjustment) + ((double)i + 0.5) / scale - 0.5;
    }
    case CROP_AND_RESIZE:
        return length > 1 ? start * (double)(size - 1) + (double)i * (end - start) * (double)(size - 1) / (length - 1)
                          : 0.5 * (start + end) * (double)(size - 1);
    case TF_HALF_PIXEL_FOR_NN: return ((double)i + 0.5) / scale;
    default: return ((double)i + 0.5) / scale - 0.5;
    }
}

static double kernel_value(const resizing *r, double x)
{
    double a = r->cubic;
    x = fabs(x);
    if (r->mode == LINEAR)
        return x < 1 ? 1 - x : 0;
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/* A place of the file's numbers: far outside it is as good as beside the image, and NaN is none. */
static double near_image(double x, int64_t size) { return fmin(fmax(x, -(double)size - 8), 2 * (double)size + 8); }

static int64_t nearest_of(const resizing *r, double x)
{
    switch (r->rounding) {
    case 1: return (int64_t)(x == floor(x) + 0.5 ? ceil(x) : round(x)); /* round_prefer_ceil */
    case 2: return (int64_t)floor(x);
    case 3: return (int64_t)ceil(x);
    default: return (int64_t)(x == floor(x) + 0.5 ? floor(x) : round(x)); /* round_prefer_floor */
    }
}

/* One row of the matrix: how much each pixel of the line counts in pixel i. */
static void row_of(const resizing *r, int64_t size, double x, double scale, double *row)
{
    memset(row, 0, (size_t)size * sizeof *row);
    double stretch = r->antialias && scale < 1 ? scale : 1, reach = (r->mode == LINEAR ? 1 : 2) / stretch, sum = 0;
    int64_t first = (int64_t)floor(x - reach), last = (int64_t)ceil(x + reach);
    for (int64_t k = first; k <= last; k++) {
        double weight = kernel_value(r, ((double)k - x) * stretch);
        bool outside = k < 0 || k >= size;
        if (weight == 0 || (outside && r->exclude_outside))
            continue;
        row[k < 0 ? 0 : k >= size ? size - 1 : k] += weight;
        sum += weight;
    }
    if (sum != 0 && (r->exclude_outside || r->antialias))
        for (int64_t k = 0; k < size; k++)
            row[k] /= sum;
}

static samba_value resize_dim(samba_onnx_node *node, const resizing *r, samba_value a, int dim, int64_t out, double scale,
                              double start, double end)
{
    int64_t size = samba_value_size(a, dim);
    samba_arena *arena = &node->reader->arena;
    if (size == 0 || out < 0 || out > 1 << 20 || (r->mode != NEAREST && (double)size * (double)out > 1 << 22))
        return onnx_refused(node, "resizing %lld to %lld is not supported", (long long)size, (long long)out);
    bool *beyond;
    double width = r->mode == NEAREST ? 1 : (double)size, reach = r->antialias && scale < 1 ? 4 / scale : 4;
    if (!(reach < 0x1p24) || !samba_onnx_afford(node, 8 * width * (double)out, (width + reach) * (double)out))
        return onnx_refused(node, "resizing %lld to %lld by %g is not supported", (long long)size, (long long)out, scale);
    if (SAMBA_ROOM(arena, beyond, out + 1) != SAMBA_OK)
        return (samba_value){NULL, 0, 0};
    bool any = false;
    samba_value result;
    if (r->mode == NEAREST) {
        int64_t *index;
        if (SAMBA_ROOM(arena, index, out + 1) != SAMBA_OK)
            return (samba_value){NULL, 0, 0};
        for (int64_t i = 0; i < out; i++) {
            double x = place_of(r, i, size, out, scale, start, end);
            beyond[i] = x < 0 || x > (double)(size - 1);
            int64_t at = nearest_of(r, near_image(x, size));
            index[i] = at < 0 ? 0 : at >= size ? size - 1 : at;
        }
        result = samba_index_select(a, dim, samba_onnx_ints_value(node, 1, &out, index));
    } else {
        samba_dtype dtype = samba_value_dtype(a), wide = dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
        double *rows;
        if (SAMBA_ROOM(arena, rows, size * out + 1) != SAMBA_OK)
            return (samba_value){NULL, 0, 0};
        for (int64_t i = 0; i < out; i++) {
            double x = place_of(r, i, size, out, scale, start, end);
            beyond[i] = x < 0 || x > (double)(size - 1);
            row_of(r, size, near_image(x, size), scale, rows + i * size);
        }
        samba_tensor *matrix;
        if (samba_tensor_from_memory(node->reader->context, NULL, SAMBA_FLOAT64, 2, (const int64_t[]){out, size}, NULL, rows,
                                     NULL, NULL, &matrix) != SAMBA_OK)
            return onnx_refused(node, "%s", samba_error_message(node->reader->context));
        samba_value weights = samba_constant_tensor(node->graph, matrix), narrow = samba_cast(weights, wide);
        samba_tensor_free(matrix);
        narrow = samba_onnx_fold(node->reader, narrow);
        samba_value line = samba_transpose(a, dim, -1), computed = samba_cast(line, wide), turned = samba_transpose(narrow, 0, 1);
        samba_value product = samba_matmul(computed, turned);
        result = samba_cast(samba_transpose(product, dim, -1), dtype);
    }
    for (int64_t i = 0; i < out && r->place == CROP_AND_RESIZE; i++)
        any |= beyond[i];
    if (!any)
        return result;
    int64_t *mask, shape[SAMBA_MAX_RANK]; /* outside of the image stands a number */
    if (SAMBA_ROOM(arena, mask, out + 1) != SAMBA_OK)
        return result;
    for (int64_t i = 0; i < out; i++)
        mask[i] = beyond[i];
    for (int i = 0; i < samba_value_rank(a); i++)
        shape[i] = i == dim ? out : 1;
    samba_value flags = samba_onnx_ints_value(node, 1, &out, mask), placed = samba_reshape(flags, samba_value_rank(a), shape);
    samba_value is_beyond = samba_cast(placed, SAMBA_BOOL), number = samba_onnx_like(node, r->outside, a);
    return samba_where(is_beyond, number, result);
}

/* The common cases, which are PyTorch's: kernels of their own. */
static bool is_interpolate(const resizing *r, samba_value a, const bool *changed)
{
    int rank = samba_value_rank(a);
    if (rank < 3 || rank > 5 || changed[0] || changed[1] || r->antialias || r->exclude_outside ||
        !samba_dtype_is_floating_point(samba_value_dtype(a)))
        return false;
    if (r->mode == LINEAR)
        return r->place == HALF_PIXEL || r->place == ALIGN_CORNERS;
    return r->mode == CUBIC && rank == 4 && r->cubic == -0.75 && (r->place == HALF_PIXEL || r->place == ALIGN_CORNERS);
}

/* A size of the result; -1: refused. A scale must be a number above 0, and NaN is none. */
static int64_t scaled_size(samba_onnx_node *node, double size, double scale)
{
    if (scale > 0 && scale < 0x1p31 && size > -0x1p31 && size < 0x1p31)
        return (int64_t)floor(size);
    samba_onnx_refuse(node, "it scales by %g to a size of %g", scale, size);
    return -1;
}

static void resize(samba_onnx_node *node, const resizing *r, samba_value a, int count, const int *axes, const int64_t *sizes,
                   const double *scales, const double *roi)
{
    int rank = samba_value_rank(a);
    bool changed[SAMBA_MAX_RANK] = {false};
    samba_interpolate_options options = {.mode = r->mode == LINEAR ? SAMBA_RESAMPLE_LINEAR : SAMBA_RESAMPLE_BICUBIC,
                                         .align_corners = r->place == ALIGN_CORNERS};
    bool exact = true; /* the scale is that of the sizes, as PyTorch has it */
    for (int i = 0; i < count; i++) {
        int64_t size = samba_value_size(a, axes[i]);
        changed[axes[i]] = sizes[i] != size || scales[i] != 1 || r->place == CROP_AND_RESIZE;
        exact &= fabs((double)size * scales[i] - (double)sizes[i]) < 1e-6;
    }
    if (exact && is_interpolate(r, a, changed)) {
        for (int i = 2; i < rank; i++)
            options.size[i - 2] = samba_value_size(a, i);
        for (int i = 0; i < count; i++)
            if (axes[i] >= 2)
                options.size[axes[i] - 2] = sizes[i];
        samba_onnx_out(node, 0, samba_interpolate(a, &options));
        return;
    }
    for (int i = 0; i < count && !node->refused; i++)
        if (changed[axes[i]])
            a = resize_dim(node, r, a, axes[i], sizes[i], scales[i], roi ? roi[i] : 0, roi ? roi[count + i] : 1);
    samba_onnx_out(node, 0, a);
}

void samba_onnx_resize(samba_onnx_node *node);
void samba_onnx_resize(samba_onnx_node *node)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const places[] = {"half_pixel",           "asymmetric",         "pytorch_half_pixel",   "align_corners",
                                         "half_pixel_symmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn", NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};
    samba_value a = samba_onnx_need(node, 0);
    int64_t named[SAMBA_MAX_RANK], sizes[SAMBA_MAX_RANK];
    double scales[SAMBA_MAX_RANK], roi[2 * SAMBA_MAX_RANK];
    int axes[SAMBA_MAX_RANK];
    bool old = node->version < 11;
    resizing r = {.mode = samba_onnx_choice(node, "mode", "nearest", modes), .place = ASYMMETRIC, .rounding = 2, .cubic = -0.75};
    if (!old) {
        r.place = samba_onnx_choice(node, "coordinate_transformation_mode", "half_pixel", places);
        r.rounding = samba_onnx_choice(node, "nearest_mode", "round_prefer_floor", roundings);
        r.cubic = samba_onnx_float(node, "cubic_coeff_a", -0.75);
        r.exclude_outside = samba_onnx_flag(node, "exclude_outside", false);
        r.outside = samba_onnx_float(node, "extrapolation_value", 0);
        r.antialias = samba_onnx_flag(node, "antialias", false);
    }
    int policy = samba_onnx_choice(node, "keep_aspect_ratio_policy", "stretch", policies), rank = samba_value_rank(a);
    int count = samba_onnx_ints(node, "axes", SAMBA_MAX_RANK, named);
    if (node->refused)
        return;
    int regions = -1, scaled, sized = -1;
    if (old)
        scaled = samba_onnx_known_doubles(node, 1, "the scales", SAMBA_MAX_RANK, scales);
    else {
        samba_onnx_item_in(node, 1); /* of one mode alone */
        regions = r.place == CROP_AND_RESIZE ? samba_onnx_known_doubles(node, 1, "the region", SAMBA_COUNT(roi), roi) : -1;
        scaled = samba_onnx_known_doubles(node, 2, "the scales", SAMBA_MAX_RANK, scales);
        sized = samba_onnx_known_ints(node, 3, "the sizes", SAMBA_MAX_RANK, sizes);
    }
    if (node->refused)
        return;
    for (int i = 0; i < (count < 0 ? rank : count); i++) {
        axes[i] = samba_onnx_fit_dim(node, count < 0 ? i : named[i], rank);
        if (axes[i] < 0)
            return;
    }
    count = count < 0 ? rank : count;
    bool by_size = sized > 0;
    if ((by_size ? sized : scaled) != count || (regions >= 0 && regions != 2 * count)) {
        samba_onnx_refuse(node, "%d scales and %d sizes are given for %d dims", scaled, sized, count);
        return;
    }
    double common = policy == 1 ? INFINITY : 0;
    for (int i = 0; i < count; i++) {
        double size = (double)samba_value_size(a, axes[i]);
        if (by_size) {
            samba_onnx_within(node, "the sizes", sizes[i], 0, INT32_MAX);
            scales[i] = size > 0 ? (double)sizes[i] / size : 1;
        } else { /* the region's part of it */
            double part = regions >= 0 ? roi[count + i] - roi[i] : 1;
            sizes[i] = scaled_size(node, (double)((float)(size * part) * (float)scales[i]), scales[i]);
        }
        common = policy == 1 ? fmin(common, scales[i]) : fmax(common, scales[i]);
    }
    for (int i = 0; i < count && by_size && policy; i++) {
        double exact = common * (double)samba_value_size(a, axes[i]);
        scales[i] = common;
        sizes[i] = scaled_size(node, exact + 0.5, common);
    }
    if (node->refused)
        return;
    resize(node, &r, a, count, axes, sizes, scales, regions >= 0 ? roi : NULL);
}

void samba_onnx_upsample(samba_onnx_node *node);
void samba_onnx_upsample(samba_onnx_node *node)
{
    static const char *const modes[] = {"nearest", "linear", NULL};
    samba_value a = samba_onnx_need(node, 0);
    double scales[SAMBA_MAX_RANK];
    int64_t sizes[SAMBA_MAX_RANK];
    int axes[SAMBA_MAX_RANK], rank = samba_value_rank(a), count = -1;
    resizing r = {.mode = samba_onnx_choice(node, "mode", "nearest", modes), .place = ASYMMETRIC, .rounding = 2};
    if (node->version >= 9)
        count = samba_onnx_known_doubles(node, 1, "the scales", SAMBA_MAX_RANK, scales);
    else {
        const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, "scales");
        for (size_t i = 0; attribute && i < attribute->n_floats && i < SAMBA_MAX_RANK; i++)
            scales[i] = (double)attribute->floats[i];
        count = attribute ? (int)attribute->n_floats : -1;
    }
    if (node->refused)
        return;
    if (count != rank) {
        samba_onnx_refuse(node, "%d scales are given for %d dims", count, rank);
        return;
    }
    for (int i = 0; i < rank; i++) {
        axes[i] = i;
        sizes[i] = scaled_size(node, (double)samba_value_size(a, i) * scales[i], scales[i]);
    }
    if (node->refused)
        return;
    resize(node, &r, a, rank, axes, sizes, scales, NULL);
}

void samba_onnx_grid_sample(samba_onnx_node *node);
void samba_onnx_grid_sample(samba_onnx_node *node)
{
    static const char *const modes[] = {"linear", "bilinear", "nearest", "cubic", "bicubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    static const samba_resample_mode as[] = {SAMBA_RESAMPLE_LINEAR, SAMBA_RESAMPLE_LINEAR, SAMBA_RESAMPLE_NEAREST,
                                             SAMBA_RESAMPLE_BICUBIC, SAMBA_RESAMPLE_BICUBIC};
    samba_value a = samba_onnx_need(node, 0), grid = samba_onnx_need(node, 1);
    int mode = samba_onnx_choice(node, "mode", "linear", modes),
        padding = samba_onnx_choice(node, "padding_mode", "zeros", paddings);
    bool align = samba_onnx_flag(node, "align_corners", false);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_grid_sample(a, grid, as[mode], (samba_grid_padding)padding, align));
}

void samba_onnx_affine_grid(samba_onnx_node *node);
void samba_onnx_affine_grid(samba_onnx_node *node)
{
    int64_t size[SAMBA_MAX_RANK];
    samba_value theta = samba_onnx_need(node, 0);
    int count = samba_onnx_known_ints(node, 1, "the size", SAMBA_MAX_RANK, size);
    bool align = samba_onnx_flag(node, "align_corners", false);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_affine_grid(theta, count < 0 ? 0 : count, size, align));
}

/* Windows as columns, put back and summed where they overlap, in any number of dims: by index. */
void samba_onnx_col2im(samba_onnx_node *node);
void samba_onnx_col2im(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    int64_t image[SAMBA_MAX_RANK], kernel[SAMBA_MAX_RANK], stride[SAMBA_MAX_RANK], dilation[SAMBA_MAX_RANK],
        pads[2 * SAMBA_MAX_RANK];
    int dims = samba_onnx_known_ints(node, 1, "the image's shape", SAMBA_MAX_RANK, image);
    int kernels = samba_onnx_known_ints(node, 2, "the block's shape", SAMBA_MAX_RANK, kernel);
    int strides = samba_onnx_ints(node, "strides", SAMBA_MAX_RANK, stride),
        dilations = samba_onnx_ints(node, "dilations", SAMBA_MAX_RANK, dilation);
    int padded = samba_onnx_ints(node, "pads", SAMBA_COUNT(pads), pads);
    if (node->refused)
        return;
    if (samba_value_rank(a) != 3 || dims < 1 || kernels != dims || (strides >= 0 && strides != dims) ||
        (dilations >= 0 && dilations != dims) || (padded >= 0 && padded != 2 * dims) || dims + 2 > SAMBA_MAX_RANK) {
        samba_onnx_refuse(node, "an input (N, C * block, windows) and as many numbers as dims of the image are expected");
        return;
    }
    int64_t block = 1, windows = 1, space = 1, counts[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK], n = samba_value_size(a, 0);
    for (int i = 0; i < dims; i++) {
        stride[i] = strides < 0 ? 1 : stride[i];
        dilation[i] = dilations < 0 ? 1 : dilation[i];
        pads[i] = padded < 0 ? 0 : pads[i];
        pads[dims + i] = padded < 0 ? 0 : pads[dims + i];
        if (!samba_onnx_within(node, "strides", stride[i], 1, INT32_MAX) ||
            !samba_onnx_within(node, "dilations", dilation[i], 1, INT32_MAX) ||
            !samba_onnx_within(node, "the image's shape", image[i], 0, INT32_MAX) ||
            !samba_onnx_within(node, "the block's shape", kernel[i], 1, INT32_MAX) ||
            !samba_onnx_within(node, "pads", pads[i], -INT32_MAX, INT32_MAX) ||
            !samba_onnx_within(node, "pads", pads[dims + i], -INT32_MAX, INT32_MAX))
            return;
        int64_t room = image[i] + pads[i] + pads[dims + i] - dilation[i] * (kernel[i] - 1) - 1;
        counts[i] = room / stride[i] + 1;
        if (room < 0 || !samba_mul_checked(block, kernel[i], &block) || !samba_mul_checked(windows, counts[i], &windows) ||
            !samba_mul_checked(space, image[i], &space) || space > INT32_MAX || block > INT32_MAX || windows > INT32_MAX) {
            samba_onnx_refuse(node, "the block does not fit the image");
            return;
        }
    }
    int64_t channels = samba_value_size(a, 1) / block, total = block * windows, *index;
    if (samba_value_size(a, 1) != channels * block || samba_value_size(a, 2) != windows || total > 1 << 22) {
        samba_onnx_refuse(node, "an input (N, C * %lld, %lld) is expected", (long long)block, (long long)windows);
        return;
    }
    if (!samba_onnx_afford(node, 8 * (double)total, (double)total) ||
        SAMBA_ROOM(&node->reader->arena, index, total + 1) != SAMBA_OK)
        return;
    for (int64_t k = 0; k < block; k++)
        for (int64_t w = 0; w < windows; w++) {
            int64_t at = 0, rest_k = k, rest_w = w, step = 1;
            bool inside = true;
            for (int i = dims - 1; i >= 0; i--) {
                int64_t x = rest_w % counts[i] * stride[i] + rest_k % kernel[i] * dilation[i] - pads[i];
                inside &= x >= 0 && x < image[i];
                at += inside ? x * step : 0;
                step *= image[i];
                rest_w /= counts[i];
                rest_k /= kernel[i];
            }
            index[k * windows + w] = inside ? at : space; /* one place more, for what lies outside */
        }
    const int64_t rows[2] = {n * channels, total}, zeros_shape[2] = {n * channels, space + 1};
    samba_value values = samba_reshape(a, 2, rows), zeros = samba_constant(node->graph, 0, samba_value_dtype(a), 2, zeros_shape);
    samba_value sums = samba_index_add(zeros, 1, samba_onnx_ints_value(node, 1, &total, index), values, 1);
    samba_value kept = samba_narrow(sums, 1, 0, space);
    shape[0] = n;
    shape[1] = channels;
    memcpy(shape + 2, image, (size_t)dims * sizeof *shape);
    samba_onnx_out(node, 0, samba_reshape(kept, dims + 2, shape));
}

/* ---- losses ---- */

static const char *const reductions[] = {"none", "mean", "sum", NULL};
static const samba_reduction as_reduction[] = {SAMBA_NO_REDUCTION, SAMBA_MEAN, SAMBA_SUM};

static samba_cross_entropy_options loss_options(samba_onnx_node *node)
{
    samba_cross_entropy_options options = samba_cross_entropy_defaults();
    options.weight = samba_onnx_in(node, 2);
    options.reduction = as_reduction[samba_onnx_choice(node, "reduction", "mean", reductions)];
    /* a class that no label has where none is said; SambaFlow has numbers up to 2^53 here */
    options.ignore_index = samba_onnx_int(node, "ignore_index", -((int64_t)1 << 53));
    return options;
}

void samba_onnx_nll_loss(samba_onnx_node *node);
void samba_onnx_nll_loss(samba_onnx_node *node)
{
    samba_value input = samba_onnx_need(node, 0), target = samba_onnx_need(node, 1);
    samba_cross_entropy_options options = loss_options(node);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_nll_loss(input, target, &options));
}

void samba_onnx_softmax_cross_entropy_loss(samba_onnx_node *node);
void samba_onnx_softmax_cross_entropy_loss(samba_onnx_node *node)
{
    samba_value input = samba_onnx_need(node, 0), target = samba_onnx_need(node, 1);
    samba_cross_entropy_options options = loss_options(node);
    if (node->refused)
        return;
    samba_onnx_out(node, 0, samba_cross_entropy_with(input, target, &options));
    if (samba_onnx_wants(node, 1))
        samba_onnx_out(node, 1, samba_log_softmax(input, 1));
}
