/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling. The operators pool planes: one dim of space is a plane of one row; three are two poolings, of the planes, then of a
 * plane whose columns are the pooled planes' elements.
 * First ones win ties in both, so it is the first of the three dims that wins. */
#include "trace/trace.h"

#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/pool.h>
#include <sambaflow/reduce.h>
#include <string.h>

typedef enum pooling { MAXIMUM, INDICES, AVERAGE } pooling;

typedef struct layout { /* of one call; an entry for each dim of space */
    const char *what;
    pooling kind;
    int spatial;
    int64_t kernel[3], stride[3], padding[3], dilation[3]; /* adaptive: kernel is the result's size */
    bool ceil_mode, no_count_include_pad, adaptive;
    int64_t divisor;
} layout;

/* One pooling of planes by the dims i and j of the layout; -1: none, a window of 1. */
static samba_ref pool(samba_graph *graph, const layout *l, pooling kind, samba_ref planes, int i, int j, int64_t divisor)
{
    static const samba_op ops[] = {SAMBA_OP_max_pool2d, SAMBA_OP_max_pool2d_indices, SAMBA_OP_avg_pool2d};
    if (planes == SAMBA_NONE)
        return planes;
    const samba_node *node = samba_node_at(graph, planes);
    samba_attrs attrs = {.pool2d = {.kernel.count = 2,
                                    .stride.count = 2,
                                    .padding.count = 2,
                                    .dilation.count = 2,
                                    .adaptive = l->adaptive,
                                    .ceil_mode = l->ceil_mode,
                                    .count_include_pad = kind == AVERAGE && !l->no_count_include_pad && !l->adaptive,
                                    .divisor = divisor}};
    int from[2] = {i, j};
    for (int d = 0; d < 2; d++) {
        int at = from[d];
        attrs.pool2d.kernel.at[d] = at >= 0 ? l->kernel[at] : l->adaptive ? node->shape[node->rank - 2 + d] : 1;
        attrs.pool2d.stride.at[d] = at >= 0 && !l->adaptive ? l->stride[at] : 1;
        attrs.pool2d.padding.at[d] = at >= 0 ? l->padding[at] : 0;
        attrs.pool2d.dilation.at[d] = at >= 0 && !l->adaptive ? l->dilation[at] : 1;
    }
    static const char *const of_rows[] = {"height", "length"}, *const of_depths[] = {"depth", "plane"};
    graph->axes = l->spatial == 1 ? of_rows : l->spatial == 3 && j < 0 ? of_depths : NULL;
    samba_ref pooled = samba_emit(graph, ops[kind], 1, &planes, &attrs);
    graph->axes = NULL;
    return pooled;
}

/* Values that lie at `indices` (planes, count) of (planes, ...), int64 both. */
static samba_ref taken(samba_graph *graph, samba_ref values, samba_ref indices, int64_t planes, int64_t each)
{
    samba_ref plane = samba_emit_iota(graph, 2, (int64_t[]){planes, 1}, 0);
    samba_ref first = samba_emit_scalar(graph, SAMBA_OP_mul, plane, (double)each);
    samba_ref table = samba_emit_reshape(graph, samba_emit_cast(graph, values, SAMBA_FLOAT64), 2, (int64_t[]){planes * each, 1});
    samba_ref rows = samba_emit2(graph, SAMBA_OP_embedding, table, samba_emit2(graph, SAMBA_OP_add, indices, first));
    return samba_emit_cast(graph, rows, SAMBA_INT64); /* exact: a plane has less than 2^53 elements */
}

/* Averages of volumes, the depth first: fewer planes are left, whose rows are short. */
static samba_ref average_depth_first(samba_graph *graph, const layout *l, const samba_node *x, samba_ref a)
{
    int before = x->rank - 3;
    int64_t planes = 1, shape[SAMBA_MAX_RANK], high = x->shape[before + 1], wide = x->shape[before + 2];
    for (int i = 0; i < before; i++)
        planes *= x->shape[i];
    samba_ref columns = samba_emit_reshape(graph, a, 3, (int64_t[]){planes, x->shape[before], high * wide});
    samba_ref y = pool(graph, l, AVERAGE, columns, 0, -1, l->divisor);
    if (y == SAMBA_NONE)
        return y;
    int64_t deep = samba_node_at(graph, y)->shape[1];
    y = samba_emit_reshape(graph, y, 3, (int64_t[]){planes * deep, high, wide});
    y = pool(graph, l, AVERAGE, y, 1, 2, l->divisor ? 1 : 0);
    if (y == SAMBA_NONE)
        return y;
    memcpy(shape, x->shape, (size_t)before * sizeof *shape);
    shape[before] = deep;
    shape[before + 1] = samba_node_at(graph, y)->shape[1];
    shape[before + 2] = samba_node_at(graph, y)->shape[2];
    return samba_emit_reshape(graph, y, x->rank, shape);
}

/* (N, C, D, H, W): planes first, then their elements over the depth. Averages the other way, where that leaves half the planes:
 * for a maximum it would say which of equal elements was found. */
static samba_ref pool_volumes(samba_graph *graph, const layout *l, const samba_node *x, samba_ref a)
{
    int before = x->rank - 3;
    if (l->kind == AVERAGE && (l->adaptive ? l->kernel[0] * 2 <= x->shape[before] : l->stride[0] >= 2))
        return average_depth_first(graph, l, x, a);
    int64_t planes = 1, depth = x->shape[before], plane = x->shape[before + 1] * x->shape[before + 2], shape[SAMBA_MAX_RANK];
    for (int i = 0; i < before; i++)
        planes *= x->shape[i];
    samba_ref flat = samba_emit_reshape(graph, a, 3, (int64_t[]){planes * depth, x->shape[before + 1], x->shape[before + 2]});
    pooling values = l->kind == AVERAGE ? AVERAGE : MAXIMUM;
    samba_ref pooled = pool(graph, l, values, flat, 1, 2, l->divisor ? 1 : 0);
    if (pooled == SAMBA_NONE)
        return pooled;
    int64_t high = samba_node_at(graph, pooled)->shape[1], wide = samba_node_at(graph, pooled)->shape[2];
    samba_ref columns = samba_emit_reshape(graph, pooled, 3, (int64_t[]){planes, depth, high * wide});
    samba_ref y = pool(graph, l, l->kind, columns, 0, -1, l->divisor);
    if (y == SAMBA_NONE)
        return y;
    int64_t deep = samba_node_at(graph, y)->shape[1];
    if (l->kind == INDICES && planes * depth * high * wide > 0) { /* y: indices among the pooled planes', depth * high * wide */
        int64_t each = high * wide;
        samba_ref chosen = samba_emit_reshape(graph, y, 2, (int64_t[]){planes, deep * each});
        samba_ref inside = taken(graph, pool(graph, l, INDICES, flat, 1, 2, 0), chosen, planes, depth * each);
        samba_ref planes_before = samba_emit2(graph, SAMBA_OP_sub, y, samba_emit_iota(graph, 1, &each, 0));
        planes_before = samba_emit_cast(graph, planes_before, SAMBA_FLOAT64);
        planes_before =
            samba_emit1(graph, SAMBA_OP_round, samba_emit_scalar(graph, SAMBA_OP_mul, planes_before, 1.0 / (double)each));
        samba_ref start =
            samba_emit_scalar(graph, SAMBA_OP_mul, samba_emit_cast(graph, planes_before, SAMBA_INT64), (double)plane);
        y = samba_emit2(graph, SAMBA_OP_add, samba_emit_reshape(graph, inside, 3, (int64_t[]){planes, deep, each}), start);
    }
    memcpy(shape, x->shape, (size_t)before * sizeof *shape);
    shape[before] = deep;
    shape[before + 1] = high;
    shape[before + 2] = wide;
    return samba_emit_reshape(graph, y, x->rank, shape);
}

/* (N, C, L): planes of one row. */
static samba_ref pool_rows(samba_graph *graph, const layout *l, const samba_node *x, samba_ref a)
{
    int64_t shape[4] = {x->shape[0], x->shape[1], x->shape[1], 0};
    shape[x->rank - 1] = 1;
    shape[x->rank] = x->shape[x->rank - 1];
    samba_ref y = pool(graph, l, l->kind, samba_emit_reshape(graph, a, x->rank + 1, shape), -1, 0, 0);
    if (y == SAMBA_NONE)
        return y;
    shape[x->rank - 1] = samba_node_at(graph, y)->shape[x->rank];
    return samba_emit_reshape(graph, y, x->rank, shape);
}

static samba_value run(const layout *l, samba_value a)
{
    static const char *const shapes[] = {"(N, C, L) or (C, L)", "(N, C, H, W) or (C, H, W)", "(N, C, D, H, W) or (C, D, H, W)"};
    samba_graph *graph;
    if (!samba_trace_enter(l->what, 1, &a, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, l->what);
    samba_node x = samba_trace_node(a);
    if (x.rank != l->spatial + 1 && x.rank != l->spatial + 2)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, l->what, "expected an input %s, given %s", shapes[l->spatial - 1],
                                SAMBA_TYPE_OF(&x));
    if (l->spatial == 2)
        return samba_trace_value(graph, pool(graph, l, l->kind, a.index, 0, 1, l->divisor));
    if (l->spatial == 1)
        return samba_trace_value(graph, pool_rows(graph, l, &x, a.index));
    if (l->kind != AVERAGE)
        return samba_trace_value(graph, pool_volumes(graph, l, &x, a.index));
    if (!samba_trace_need_floating(a, l->what)) /* two roundings of integers would not be one */
        return samba_trace_none(graph);
    bool half = x.dtype == SAMBA_BFLOAT16 || x.dtype == SAMBA_FLOAT16;
    samba_ref y = pool_volumes(graph, l, &x, half ? samba_emit_cast(graph, a.index, SAMBA_FLOAT32) : a.index);
    return samba_trace_value(graph, samba_emit_cast(graph, y, x.dtype));
}

/* ---- kernels, strides and paddings ---- */

static void set(int64_t *to, const int64_t *given, const int64_t *otherwise, int64_t plain, int spatial)
{
    for (int i = 0; i < spatial; i++)
        to[i] = given && given[i] ? given[i] : otherwise ? otherwise[i] : plain;
}

static samba_value windows(const char *what, pooling kind, int spatial, samba_value a, const int64_t *kernel,
                           const int64_t *stride, const int64_t *padding, const int64_t *dilation, bool ceil_mode,
                           bool no_count_include_pad, int64_t divisor)
{
    static const int64_t none[3] = {0};
    layout l = {.what = what,
                .kind = kind,
                .spatial = spatial,
                .ceil_mode = ceil_mode,
                .no_count_include_pad = no_count_include_pad,
                .divisor = divisor};
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &a, &graph))
        return samba_trace_none(graph);
    if (!kernel || (divisor && kind != AVERAGE))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what,
                                kernel ? "divisor_override is of averages" : "a kernel of %d sizes is needed, NULL was given",
                                spatial);
    memcpy(l.kernel, kernel, (size_t)spatial * sizeof *kernel);
    set(l.stride, stride, kernel, 0, spatial);
    set(l.padding, padding, none, 0, spatial);
    set(l.dilation, dilation, NULL, 1, spatial);
    return run(&l, a);
}

static const samba_pool1d_options defaults1;
static const samba_pool2d_options defaults2;
static const samba_pool3d_options defaults3;

static samba_value windows1(const char *what, pooling kind, samba_value a, int64_t kernel, const samba_pool1d_options *o)
{
    o = o ? o : &defaults1;
    return windows(what, kind, 1, a, &kernel, &o->stride, &o->padding, &o->dilation, o->ceil_mode, o->no_count_include_pad, 0);
}

static samba_value windows2(const char *what, pooling kind, samba_value a, const int64_t *kernel, const samba_pool2d_options *o)
{
    o = o ? o : &defaults2;
    return windows(what, kind, 2, a, kernel, o->stride, o->padding, o->dilation, o->ceil_mode, o->no_count_include_pad,
                   o->divisor_override);
}

static samba_value windows3(const char *what, pooling kind, samba_value a, const int64_t *kernel, const samba_pool3d_options *o)
{
    o = o ? o : &defaults3;
    return windows(what, kind, 3, a, kernel, o->stride, o->padding, o->dilation, o->ceil_mode, o->no_count_include_pad,
                   o->divisor_override);
}

/* samba_<name>1d<suffix>, 2d and 3d */
#define POOLING(name, suffix, kind)                                                                                              \
    samba_value samba_##name##1d##suffix(samba_value a, int64_t kernel, const samba_pool1d_options *options)                     \
    {                                                                                                                            \
        return windows1(#name "1d", kind, a, kernel, options);                                                                   \
    }                                                                                                                            \
    samba_value samba_##name##2d##suffix(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options)            \
    {                                                                                                                            \
        return windows2(#name "2d", kind, a, kernel, options);                                                                   \
    }                                                                                                                            \
    samba_value samba_##name##3d##suffix(samba_value a, const int64_t kernel[3], const samba_pool3d_options *options)            \
    {                                                                                                                            \
        return windows3(#name "3d", kind, a, kernel, options);                                                                   \
    }
POOLING(max_pool, , MAXIMUM)
POOLING(max_pool, _indices, INDICES)
POOLING(avg_pool, , AVERAGE)

/* ---- adaptive: windows by the size of the result ---- */

/* Sizes that divide are plain windows side by side; one window of all is a mean. */
static samba_value adaptive(const char *what, pooling kind, int spatial, samba_value a, const int64_t *output_size)
{
    layout l = {.what = what, .kind = kind, .spatial = spatial, .adaptive = true};
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &a, &graph))
        return samba_trace_none(graph);
    if (kind == AVERAGE && !samba_trace_need_floating(a, what))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(a);
    bool divides = x.rank >= spatial, single = true, fits = output_size != NULL;
    const int64_t *size = x.shape + (x.rank >= spatial ? x.rank - spatial : 0);
    for (int i = 0; fits && i < spatial; i++) {
        l.kernel[i] = output_size[i] == -1 && x.rank >= spatial ? size[i] : output_size[i];
        fits = l.kernel[i] >= 0;
        divides = divides && l.kernel[i] > 0 && size[i] > 0 && size[i] % l.kernel[i] == 0;
        single = single && l.kernel[i] == 1;
    }
    if (!fits)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what,
                                "expected %d output sizes of 0 or more, or -1 for the input's, given %lld%s", spatial,
                                (long long)(output_size ? output_size[0] : 0), output_size ? " first" : " for NULL");
    if (divides && single && kind == AVERAGE && (x.rank == spatial + 1 || x.rank == spatial + 2))
        return samba_mean(a, spatial, (int[]){-1, -2, -3}, true);
    for (int i = 0; divides && i < spatial; i++) {
        l.kernel[i] = l.stride[i] = size[i] / l.kernel[i];
        l.dilation[i] = 1;
        l.adaptive = false;
    }
    return run(&l, a);
}

/* As POOLING */
#define ADAPTIVE(name, suffix, kind)                                                                                             \
    samba_value samba_##name##1d##suffix(samba_value a, int64_t size) { return adaptive(#name "1d", kind, 1, a, &size); }        \
    samba_value samba_##name##2d##suffix(samba_value a, const int64_t size[2])                                                   \
    {                                                                                                                            \
        return adaptive(#name "2d", kind, 2, a, size);                                                                           \
    }                                                                                                                            \
    samba_value samba_##name##3d##suffix(samba_value a, const int64_t size[3]) { return adaptive(#name "3d", kind, 3, a, size); }
ADAPTIVE(adaptive_avg_pool, , AVERAGE)
ADAPTIVE(adaptive_max_pool, , MAXIMUM)
ADAPTIVE(adaptive_max_pool, _indices, INDICES)

/* ---- lp: a root of sums of powers, through the average as PyTorch has it ---- */

static samba_value lp(const char *what, int spatial, samba_value a, double norm_type, const int64_t *kernel,
                      const int64_t *stride, bool ceil_mode)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &a, &graph) || !samba_trace_need_floating(a, what))
        return samba_trace_none(graph);
    if (!(norm_type > 0 || norm_type < 0))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what, "norm_type must be a number other than 0, given %g",
                                norm_type);
    samba_dtype dtype = samba_value_dtype(a);
    double taps = 1;
    for (int i = 0; kernel && i < spatial; i++)
        taps *= (double)kernel[i];
    samba_value x = samba_trace_value(graph, samba_emit_cast(graph, a.index, dtype == SAMBA_FLOAT64 ? dtype : SAMBA_FLOAT32));
    samba_value mean =
        windows(what, AVERAGE, spatial, samba_pow_scalar(x, norm_type), kernel, stride, NULL, NULL, ceil_mode, false, 0);
    samba_value size = samba_relu(samba_abs(mean)), sum = samba_mul_scalar(samba_mul(samba_sign(mean), size), taps);
    return samba_cast(samba_pow_scalar(sum, 1.0 / norm_type), dtype);
}

samba_value samba_lp_pool1d(samba_value a, double norm_type, int64_t kernel, int64_t stride, bool ceil_mode)
{
    return lp("lp_pool1d", 1, a, norm_type, &kernel, &stride, ceil_mode);
}

samba_value samba_lp_pool2d(samba_value a, double norm_type, const int64_t kernel[2], const int64_t *stride, bool ceil_mode)
{
    return lp("lp_pool2d", 2, a, norm_type, kernel, stride, ceil_mode);
}

samba_value samba_lp_pool3d(samba_value a, double norm_type, const int64_t kernel[3], const int64_t *stride, bool ceil_mode)
{
    return lp("lp_pool3d", 3, a, norm_type, kernel, stride, ceil_mode);
}
