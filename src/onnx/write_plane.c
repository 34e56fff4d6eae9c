/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling, resampling and sampling by grids as nodes of ONNX. Where ONNX has not the like (windows of several sizes, windows over
 * the edge, positions rounded as torch rounds them) a plane is multiplied by a matrix from each side, which has the weights of
 * the reference, or its rows and columns are gathered and the greatest taken: values are the reference's in every case. */
#include "onnx/write.h"
#include "tensor/resample.h"
#include <math.h>

typedef struct windows {       /* along one axis of a plane */
    int64_t size, count, most; /* of the plane; windows; elements of the largest */
    int64_t *begin, *end, *padded;
    int64_t step;
} windows;

/* As ops/pool.c has them. */
static bool windows_of(samba_onnx_writer *w, const samba_node *node, int axis, windows *s)
{
    const samba_attrs_pool2d *p = &node->attrs->pool2d;
    const int64_t size = samba_onnx_from(w, node, 0)->shape[node->rank - 2 + axis], padding = p->padding.at[axis];
    *s = (windows){.size = size, .count = node->shape[node->rank - 2 + axis], .step = p->adaptive ? 1 : p->dilation.at[axis]};
    s->begin = samba_onnx_room(w, s->count, SAMBA_INT64);
    s->end = samba_onnx_room(w, s->count, SAMBA_INT64);
    s->padded = samba_onnx_room(w, s->count, SAMBA_INT64);
    if (!s->begin || !s->end || !s->padded)
        return false;
    for (int64_t o = 0; o < s->count; o++) {
        int64_t begin, end;
        if (p->adaptive) {
            begin = o * size / s->count;
            end = ((o + 1) * size + s->count - 1) / s->count;
            s->padded[o] = end - begin;
        } else {
            begin = o * p->stride.at[axis] - padding;
            end = begin + (p->kernel.at[axis] - 1) * s->step + 1;
            end = end > size + padding ? size + padding : end;
            s->padded[o] = end - begin;
            while (begin < 0)
                begin += s->step;
            end = end > size ? size : end;
        }
        s->begin[o] = begin;
        s->end[o] = end;
        const int64_t elements = end > begin ? (end - begin + s->step - 1) / s->step : 0;
        s->most = elements > s->most ? elements : s->most;
    }
    return true;
}

/* Whether ONNX's own pooling has these windows: all alike, the last not over the edge. */
static bool is_regular(const samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_pool2d *p = &node->attrs->pool2d;
    int64_t numel;
    bool regular = !p->adaptive && !p->divisor && samba_shape_numel(node->rank, node->shape, &numel) && numel > 0;
    for (int i = 0; i < 2 && regular; i++) {
        const int64_t size = samba_onnx_from(w, node, 0)->shape[node->rank - 2 + i],
                      reach = p->dilation.at[i] * (p->kernel.at[i] - 1) + 1;
        regular = size + 2 * p->padding.at[i] >= reach &&
                  (size + 2 * p->padding.at[i] - reach) / p->stride.at[i] + 1 == node->shape[node->rank - 2 + i];
    }
    return regular;
}

static void put_windows(samba_onnx_writer *w, const samba_attrs_pool2d *p)
{
    const int64_t pads[4] = {p->padding.at[0], p->padding.at[1], p->padding.at[0], p->padding.at[1]};
    samba_onnx_attr_ints(w, "kernel_shape", 2, p->kernel.at);
    samba_onnx_attr_ints(w, "strides", 2, p->stride.at);
    samba_onnx_attr_ints(w, "pads", 4, pads);
}

/* Planes (C, H, W) as (1, C, H, W), which ONNX pools, and back. */
static const char *as_images(samba_onnx_writer *w, const samba_node *x, const char *a)
{
    return x->rank == 4 ? a : samba_onnx_put_reshape(w, a, 4, (int64_t[]){1, x->shape[0], x->shape[1], x->shape[2]});
}

static const char *as_planes(samba_onnx_writer *w, const samba_node *node, const char *a)
{
    return node->rank == 4 ? a : samba_onnx_put_reshape(w, a, 3, node->shape);
}

/* Indices (count * most) of the elements of all windows, of shorter ones the first again. NULL: a window sees padding alone. */
static const char *window_indices(samba_onnx_writer *w, const windows *s)
{
    const int64_t numel = s->count * s->most;
    int64_t *index = samba_onnx_room(w, numel, SAMBA_INT64);
    for (int64_t o = 0; index && o < s->count; o++) {
        if (s->begin[o] >= s->end[o])
            return NULL;
        for (int64_t k = 0; k < s->most; k++) {
            const int64_t at = s->begin[o] + k * s->step;
            index[o * s->most + k] = at < s->end[o] ? at : s->begin[o];
        }
    }
    return samba_onnx_tensor_of(w, SAMBA_INT64, 1, &numel, index);
}

static const char *greatest_of_windows(samba_onnx_writer *w, const samba_node *node)
{
    windows rows, columns;
    const samba_node *x = samba_onnx_from(w, node, 0);
    int64_t numel, lead = 1;
    if (!windows_of(w, node, 0, &rows) || !windows_of(w, node, 1, &columns))
        return "";
    if (!samba_shape_numel(node->rank, node->shape, &numel) || numel == 0)
        return samba_onnx_filled(w, node, 0);
    const char *row = window_indices(w, &rows), *column = window_indices(w, &columns);
    if (!row || !column) {
        samba_onnx_cannot(w, node, "with a window that sees padding alone");
        return "";
    }
    for (int d = 0; d < node->rank - 2; d++)
        lead *= x->shape[d];
    const char *a = samba_onnx_given_wide(w, node, 0);
    samba_onnx_attr_int(w, "axis", node->rank - 2);
    a = samba_onnx_put2(w, "Gather", a, row);
    samba_onnx_attr_int(w, "axis", node->rank - 1);
    a = samba_onnx_put2(w, "Gather", a, column);
    a = samba_onnx_put_reshape(w, a, 5, (int64_t[]){lead, rows.count, rows.most, columns.count, columns.most});
    a = samba_onnx_put_reduce(w, "ReduceMax", a, 2, (int64_t[]){2, 4});
    a = samba_onnx_put_reshape(w, a, node->rank, node->shape);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_max_pool(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_pool2d *p = &node->attrs->pool2d;
    if (!is_regular(w, node) || !samba_onnx_is_float((samba_dtype)node->dtype))
        return greatest_of_windows(w, node);
    const char *a = samba_onnx_given_wide(w, node, 0);
    a = as_images(w, samba_onnx_from(w, node, 0), a);
    put_windows(w, p);
    samba_onnx_attr_ints(w, "dilations", 2, p->dilation.at);
    a = samba_onnx_put1(w, "MaxPool", a);
    a = as_planes(w, node, a);
    return samba_onnx_narrow(w, node, a);
}

/* ONNX counts places through all planes, here each plane has its own. */
const char *samba_onnx_write_max_pool_indices(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_pool2d *p = &node->attrs->pool2d;
    const samba_node *x = samba_onnx_from(w, node, 0);
    if (!is_regular(w, node) || !samba_onnx_is_float((samba_dtype)x->dtype)) {
        samba_onnx_cannot(
            w, node,
            "where windows are of several sizes or reach over the edge, or of integers, of which MaxPool gives no places");
        return "";
    }
    const char *a = samba_onnx_given_wide(w, node, 0),
               *plane = samba_onnx_number_of(w, SAMBA_INT64, (double)x->shape[x->rank - 1] * (double)x->shape[x->rank - 2]);
    a = as_images(w, x, a);
    put_windows(w, p);
    samba_onnx_attr_ints(w, "dilations", 2, p->dilation.at);
    samba_onnx_put1(w, "MaxPool", a);
    const char *places = samba_onnx_second_result(w);
    places = samba_onnx_put2(w, "Mod", places, plane);
    return as_planes(w, node, places);
}

/* rows (out, in) times each plane times columns (in, out). */
static const char *from_both_sides(samba_onnx_writer *w, const samba_node *node, const double *rows, const double *columns)
{
    const samba_node *x = samba_onnx_from(w, node, 0);
    const samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    const int64_t height = x->shape[x->rank - 2], width = x->shape[x->rank - 1], oh = node->shape[node->rank - 2],
                  ow = node->shape[node->rank - 1];
    char *left = samba_onnx_room(w, oh * height, wide), *right = samba_onnx_room(w, width * ow, wide);
    const size_t size = samba_dtype_size(wide);
    if (!left || !right)
        return "";
    for (int64_t i = 0; i < oh * height; i++)
        samba_store_double(wide, left + (size_t)i * size, rows[i]);
    for (int64_t i = 0; i < ow; i++)
        for (int64_t k = 0; k < width; k++)
            samba_store_double(wide, right + (size_t)(k * ow + i) * size, columns[i * width + k]);
    const char *first = samba_onnx_tensor_of(w, wide, 2, (int64_t[]){oh, height}, left);
    const char *second = samba_onnx_tensor_of(w, wide, 2, (int64_t[]){width, ow}, right);
    const char *a = samba_onnx_given_wide(w, node, 0);
    a = samba_onnx_put2(w, "MatMul", first, a);
    a = samba_onnx_put2(w, "MatMul", a, second);
    return samba_onnx_narrow(w, node, a);
}

/* Each window's elements over their number, or that of the window's places, or the square root of a divisor that both sides
 * share. */
static double *averages(samba_onnx_writer *w, const samba_attrs_pool2d *p, const windows *s, bool first)
{
    double *weights = samba_onnx_room(w, s->count * s->size, SAMBA_FLOAT64);
    for (int64_t o = 0; weights && o < s->count; o++) {
        double by = p->count_include_pad && !p->adaptive ? (double)s->padded[o] : (double)(s->end[o] - s->begin[o]);
        by = p->divisor ? (first ? (double)p->divisor : 1) : by;
        for (int64_t k = s->begin[o]; k < s->end[o]; k++)
            weights[o * s->size + k] = 1 / by;
    }
    return weights;
}

const char *samba_onnx_write_avg_pool(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_pool2d *p = &node->attrs->pool2d;
    if (!samba_onnx_is_float((samba_dtype)node->dtype)) {
        samba_onnx_cannot(w, node, "of integers, which ONNX has of floats alone");
        return "";
    }
    if (is_regular(w, node) && node->dtype != SAMBA_FLOAT64) { /* of which ONNX Runtime has no AveragePool */
        const char *a = samba_onnx_given_wide(w, node, 0);
        a = as_images(w, samba_onnx_from(w, node, 0), a);
        put_windows(w, p);
        samba_onnx_attr_int(w, "count_include_pad", p->count_include_pad != 0);
        a = samba_onnx_put1(w, "AveragePool", a);
        a = as_planes(w, node, a);
        return samba_onnx_narrow(w, node, a);
    }
    windows rows, columns;
    if (!windows_of(w, node, 0, &rows) || !windows_of(w, node, 1, &columns))
        return "";
    const double *left = averages(w, p, &rows, true), *right = averages(w, p, &columns, false);
    return left && right ? from_both_sides(w, node, left, right) : "";
}

/* ---- resampling ---- */

/* Linear and cubic as ONNX's Resize has them: of whole planes, by sizes alone. */
static bool is_resize(const samba_node *node, const samba_node *x)
{
    const samba_attrs_resample *r = &node->attrs->resample;
    bool plain = r->mode >= 2 && !r->antialias && node->dtype != SAMBA_FLOAT64 && node->shape[0] > 0;
    for (int i = 0; i < 2 && plain; i++) {
        const double scale = i == 0 ? r->scale_height : r->scale_width;
        plain = r->align_corners || scale == 0 || scale * (double)x->shape[1 + i] == (double)r->size.at[i];
    }
    return plain;
}

static const char *resized(samba_onnx_writer *w, const samba_node *node, const samba_node *x)
{
    const samba_attrs_resample *r = &node->attrs->resample;
    const char *inputs[4] = {samba_onnx_given_wide(w, node, 0), NULL, NULL, NULL};
    inputs[0] = as_images(w, x, inputs[0]);
    inputs[3] = samba_onnx_numbers(w, 4, (int64_t[]){1, node->shape[0], node->shape[1], node->shape[2]});
    samba_onnx_attr_text(w, "mode", r->mode == 2 ? "linear" : "cubic");
    samba_onnx_attr_text(w, "coordinate_transformation_mode", r->align_corners ? "align_corners" : "half_pixel");
    if (r->mode == 3)
        samba_onnx_attr_float(w, "cubic_coeff_a", -0.75);
    const char *a = samba_onnx_put(w, "Resize", 4, inputs);
    a = as_planes(w, node, a);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_resample(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_resample *r = &node->attrs->resample;
    const samba_node *x = samba_onnx_from(w, node, 0);
    const bool nearest = r->mode < 2;
    if (is_resize(node, x))
        return resized(w, node, x);
    double *weights[2] = {NULL, NULL};
    const char *a = samba_onnx_given(w, node, 0);
    for (int i = 0; i < 2; i++) {
        const samba_resample_axis axis = {.in = x->shape[1 + i],
                                          .out = r->size.at[i],
                                          .mode = r->mode,
                                          .align_corners = r->align_corners != 0,
                                          .antialias = r->antialias != 0,
                                          .wide = x->dtype == SAMBA_FLOAT64,
                                          .scale = i == 0 ? r->scale_height : r->scale_width};
        const int64_t taps = samba_resample_taps(&axis);
        int64_t *index = samba_onnx_room(w, taps * axis.out, SAMBA_INT64);
        double *weight = samba_onnx_room(w, taps * axis.out, SAMBA_FLOAT64);
        if (!nearest)
            weights[i] = samba_onnx_room(w, axis.in * axis.out, SAMBA_FLOAT64);
        if (!index || !weight || (!nearest && !weights[i]))
            return "";
        for (int64_t o = 0; o < axis.out; o++) {
            samba_resample_taps_of(&axis, o, index + o * taps, weight + o * taps);
            for (int64_t t = 0; t < taps && !nearest; t++)
                weights[i][o * axis.in + index[o * taps + t]] += weight[o * taps + t];
        }
        if (nearest) {
            const char *from = samba_onnx_tensor_of(w, SAMBA_INT64, 1, &axis.out, index);
            samba_onnx_attr_int(w, "axis", 1 + i);
            a = samba_onnx_put2(w, "Gather", a, from);
        }
    }
    return nearest ? a : from_both_sides(w, node, weights[0], weights[1]);
}

const char *samba_onnx_write_grid_sample(samba_onnx_writer *w, const samba_node *node)
{
    static const char *const old_modes[] = {"nearest", NULL, "bilinear", "bicubic"}, *const modes[] = {"nearest", NULL, "linear",
                                                                                                       "cubic"};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const samba_attrs_grid *g = &node->attrs->grid;
    if (node->rank != 4 && w->options.opset < 20) {
        samba_onnx_cannot(w, node, "of volumes, which ONNX has from opset 20 on");
        return "";
    }
    samba_onnx_attr_text(w, "mode", w->options.opset < 20 ? old_modes[g->mode] : modes[g->mode]);
    samba_onnx_attr_text(w, "padding_mode", paddings[g->padding]);
    samba_onnx_attr_int(w, "align_corners", g->align_corners != 0);
    return samba_onnx_put2(w, "GridSample", samba_onnx_given(w, node, 0), samba_onnx_given(w, node, 1));
}
