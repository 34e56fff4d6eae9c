/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of other sizes. Rows that are only repeated are views; what else there is goes plane by plane, and a third dim of space,
 * the first one, as the rows of a plane whose columns are all the others. */
#include "tensor/resample.h"
#include "trace/trace.h"

#include <math.h>
#include <sambaflow/pool.h>
#include <sambaflow/resample.h>
#include <string.h>

typedef struct layout {
    int spatial;
    int64_t in[3], out[3];
    double scale[3]; /* 0: out / in */
} layout;

static samba_resample_axis axis_of(const samba_interpolate_options *o, const layout *l, int i, samba_dtype dtype)
{
    return (samba_resample_axis){.in = l->in[i],
                                 .out = l->out[i],
                                 .mode = (int64_t)o->mode,
                                 .align_corners = o->align_corners,
                                 .antialias = o->antialias,
                                 .wide = dtype == SAMBA_FLOAT64,
                                 .scale = l->scale[i]};
}

static const char *const mode_names[] = {"nearest", "nearest-exact", "linear", "bicubic", "area"};

static bool fail(samba_graph *graph, const char *why, const samba_node *x)
{
    return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, "interpolate", "%s, given an input %s", why, SAMBA_TYPE_OF(x));
}

/* The size of the result along a dim of space. */
static bool lay_out_dim(samba_graph *graph, const samba_node *x, const samba_interpolate_options *o, layout *l, int i)
{
    bool by_size = o->size[0] != 0;
    double scaled = floor((double)x->shape[2 + i] * o->scale_factor[i]);
    l->in[i] = x->shape[2 + i];
    if (l->in[i] < 1)
        return fail(graph, "there is nothing to interpolate: expected sizes of 1 or more in each dim of space", x);
    if (by_size && o->size[i] < 1)
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, "interpolate",
                                  "size must be 1 or more for each dim of space, given %lld for dim %d", (long long)o->size[i],
                                  2 + i);
    if (!by_size && !(scaled >= 1 && scaled <= INT32_MAX))
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, "interpolate",
                                  "scale_factor %g makes %g of dim %d, of size %lld: expected 1 to 2^31 - 1", o->scale_factor[i],
                                  scaled, 2 + i, (long long)l->in[i]);
    l->out[i] = by_size ? o->size[i] : (int64_t)scaled;
    l->scale[i] = !by_size && !o->recompute_scale_factor ? o->scale_factor[i] : 0;
    return true;
}

/* Checks the call; the sizes. */
static bool lay_out(samba_graph *graph, const samba_node *x, const samba_interpolate_options *o, layout *l)
{
    l->spatial = x->rank - 2;
    if (l->spatial < 1 || l->spatial > 3)
        return fail(graph, "expected (N, C, L), (N, C, H, W) or (N, C, D, H, W)", x);
    if (o->mode < SAMBA_RESAMPLE_NEAREST || o->mode > SAMBA_RESAMPLE_AREA)
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, "interpolate",
                                  "expected a mode of samba_resample_mode, 0 to %d, given %d", SAMBA_RESAMPLE_AREA, (int)o->mode);
    if (o->mode == SAMBA_RESAMPLE_BICUBIC && l->spatial != 2)
        return fail(graph, "mode bicubic is of (N, C, H, W)", x);
    bool smooth = o->mode == SAMBA_RESAMPLE_LINEAR || o->mode == SAMBA_RESAMPLE_BICUBIC;
    if ((o->align_corners || o->antialias) && !smooth)
        return samba_graph_refuse(
            graph, SAMBA_ERROR_ARGUMENT, "interpolate", "%s is of the modes bilinear and bicubic%s, given mode %s",
            o->antialias ? "antialias" : "align_corners", o->antialias ? "" : ", linear and trilinear", mode_names[o->mode]);
    if (o->antialias && l->spatial != 2)
        return fail(graph, "antialias is of (N, C, H, W)", x);
    if ((o->size[0] != 0) == (o->scale_factor[0] != 0))
        return fail(graph,
                    o->size[0] ? "expected a size or a scale_factor and not both"
                               : "expected a size or a scale_factor and there is neither",
                    x);
    for (int i = 0; i < l->spatial; i++)
        if (!lay_out_dim(graph, x, o, l, i))
            return false;
    return true;
}

/* How often each element of a dim comes one after another, or 0. */
static int64_t repeats(const samba_resample_axis *axis)
{
    int64_t times = axis->out / axis->in, index;
    double weight;
    if (axis->mode > SAMBA_RESAMPLE_NEAREST_EXACT || axis->out % axis->in != 0)
        return 0;
    for (int64_t o = 0; o < axis->out; o++) {
        samba_resample_taps_of(axis, o, &index, &weight);
        if (index != o / times)
            return 0;
    }
    return times;
}

/* Each element times[i] times along dim i of space: a dim behind each that is repeated. */
static samba_ref repeat(samba_graph *graph, samba_ref a, const samba_node *x, const layout *l, const int64_t *times)
{
    int64_t apart[SAMBA_MAX_RANK], wide[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK] = {x->shape[0], x->shape[1]};
    int rank = 1;
    apart[0] = wide[0] = x->shape[0] * x->shape[1];
    for (int i = 0; i < l->spatial; i++) {
        apart[rank] = wide[rank] = l->in[i];
        rank++;
        if (times[i] > 1) {
            apart[rank] = 1;
            wide[rank++] = times[i];
        }
        shape[2 + i] = l->out[i];
    }
    a = samba_emit_expand(graph, samba_emit_reshape(graph, a, rank, apart), rank, wide);
    return samba_emit_reshape(graph, a, 2 + l->spatial, shape);
}

/* (planes, rows, columns) to the sizes of dims i and j of space; -1: left as it is. */
static samba_ref resample(samba_graph *graph, const samba_interpolate_options *o, const layout *l, samba_ref a,
                          const int64_t planes[3], int i, int j)
{
    samba_attrs attrs = {.resample = {.size = {.count = 2, .at = {i < 0 ? planes[1] : l->out[i], j < 0 ? planes[2] : l->out[j]}},
                                      .mode = (int64_t)o->mode,
                                      .align_corners = o->align_corners,
                                      .antialias = o->antialias,
                                      .scale_height = i < 0 ? 0 : l->scale[i],
                                      .scale_width = j < 0 ? 0 : l->scale[j]}};
    a = samba_emit_reshape(graph, a, 3, planes);
    return samba_emit(graph, SAMBA_OP_resample2d, 1, &a, &attrs);
}

samba_value samba_interpolate(samba_value input, const samba_interpolate_options *options)
{
    samba_graph *graph;
    if (!samba_trace_enter("interpolate", 1, &input, &graph))
        return samba_trace_none(graph);
    if (!options)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "interpolate",
                                "options with a size or a scale_factor are needed, NULL was given");
    samba_node x = samba_trace_node(input);
    layout l = {0};
    SAMBA_SPEAKS(graph, "interpolate");
    if (!lay_out(graph, &x, options, &l))
        return samba_trace_none(graph);
    if (options->mode == SAMBA_RESAMPLE_AREA)
        return l.spatial == 1   ? samba_adaptive_avg_pool1d(input, l.out[0])
               : l.spatial == 2 ? samba_adaptive_avg_pool2d(input, l.out)
                                : samba_adaptive_avg_pool3d(input, l.out);
    bool whole = true;
    int64_t times[3] = {0}, n = x.shape[0] * x.shape[1], columns = 1;
    for (int i = 0; i < l.spatial; i++) {
        samba_resample_axis axis = axis_of(options, &l, i, x.dtype);
        if (!samba_resample_possible(&axis))
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "interpolate",
                                    "expected sizes below 2^31 and a finite scale_factor, given %lld of %lld in dim %d and %g",
                                    (long long)l.out[i], (long long)l.in[i], 2 + i, options->scale_factor[i]);
        times[i] = repeats(&axis);
        whole = whole && times[i] > 0;
        columns *= i > 0 ? l.out[i] : 1;
    }
    /* A view that repeats within rows is read element by element: the kernel is several times as fast, for all but bool. */
    if (whole && (times[l.spatial - 1] == 1 || x.dtype == SAMBA_BOOL))
        return samba_trace_value(graph, repeat(graph, input.index, &x, &l, times));
    bool half = x.dtype == SAMBA_BFLOAT16 || x.dtype == SAMBA_FLOAT16; /* rounded once */
    samba_ref a = half && l.spatial == 3 ? samba_emit_cast(graph, input.index, SAMBA_FLOAT32) : input.index;
    if (l.spatial == 1) {
        a = resample(graph, options, &l, a, (int64_t[]){1, n, l.in[0]}, -1, 0);
    } else if (l.spatial == 2) {
        a = resample(graph, options, &l, a, (int64_t[]){n, l.in[0], l.in[1]}, 0, 1);
    } else {
        a = resample(graph, options, &l, a, (int64_t[]){n * l.in[0], l.in[1], l.in[2]}, 1, 2);
        a = resample(graph, options, &l, a, (int64_t[]){n, l.in[0], columns}, 0, -1);
    }
    int64_t shape[SAMBA_MAX_RANK] = {x.shape[0], x.shape[1], l.out[0], l.out[1], l.out[2]};
    a = samba_emit_cast(graph, a, x.dtype);
    return samba_trace_value(graph, samba_emit_reshape(graph, a, x.rank, shape));
}

/* ---- channels as pixels ---- */

/* (..., C r^2, H, W) <-> (..., C, H r, W r) */
static samba_value shuffle(const char *what, samba_value input, int64_t r, bool up)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &input, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    int first = x.rank - 3;
    int64_t n = 1, square = 1;
    bool fits = x.rank >= 3 && r >= 1 && samba_mul_checked(r, r, &square) && square <= INT32_MAX;
    if (fits)
        fits = up ? x.shape[first] % square == 0 : x.shape[first + 1] % r == 0 && x.shape[first + 2] % r == 0;
    if (!fits)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what,
                                "expected %s for a factor r of 1 or more, given a factor of %lld and %s",
                                up ? "(..., C * r * r, H, W)" : "(..., C, H * r, W * r)", (long long)r, SAMBA_TYPE_OF(&x));
    for (int i = 0; i < first; i++)
        n *= x.shape[i];
    int64_t *c = &x.shape[first], shape[SAMBA_MAX_RANK];
    memcpy(shape, x.shape, sizeof shape);
    shape[first] = up ? c[0] / square : c[0] * square;
    shape[first + 1] = up ? c[1] * r : c[1] / r;
    shape[first + 2] = up ? c[2] * r : c[2] / r;
    static const int64_t apart[6] = {0, 1, 4, 2, 5, 3}, together[6] = {0, 1, 3, 5, 2, 4};
    int64_t from_channels[6] = {n, c[0] / square, r, r, c[1], c[2]}, from_pixels[6] = {n, c[0], c[1] / r, r, c[2] / r, r};
    samba_ref a = samba_emit_permute(graph, samba_emit_reshape(graph, input.index, 6, up ? from_channels : from_pixels),
                                     up ? apart : together);
    return samba_trace_value(graph, samba_emit_reshape(graph, a, x.rank, shape));
}

samba_value samba_pixel_shuffle(samba_value input, int64_t upscale_factor)
{
    return shuffle("pixel_shuffle", input, upscale_factor, true);
}

samba_value samba_pixel_unshuffle(samba_value input, int64_t downscale_factor)
{
    return shuffle("pixel_unshuffle", input, downscale_factor, false);
}

samba_value samba_channel_shuffle(samba_value input, int64_t groups)
{
    samba_graph *graph;
    if (!samba_trace_enter("channel_shuffle", 1, &input, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (x.rank < 3 || groups < 1 || x.shape[1] % groups != 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "channel_shuffle",
                                "expected (N, C, space...) with channels that %lld groups share, given %s", (long long)groups,
                                SAMBA_TYPE_OF(&x));
    int64_t pixels = 1;
    for (int i = 2; i < x.rank; i++)
        pixels *= x.shape[i];
    samba_ref a = samba_emit_reshape(graph, input.index, 4, (int64_t[]){x.shape[0], groups, x.shape[1] / groups, pixels});
    a = samba_emit_permute(graph, a, (int64_t[]){0, 2, 1, 3});
    return samba_trace_value(graph, samba_emit_reshape(graph, a, x.rank, x.shape));
}
