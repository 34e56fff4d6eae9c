/* SPDX-License-Identifier: Apache-2.0
 *
 * Images read at positions that other values give: grid_sample and affine_grid. A pixel is fetched by gather from its plane as
 * one line, with an index that all channels share as an expanded view, so the gradient of an image is a scatter. The gradient of
 * the grid goes through the weights alone, since whole numbers have none. */
#include "trace/promote.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/resample.h>
#include <sambaflow/shape.h>

enum { X, Y, Z };

typedef struct sampling {
    samba_graph *graph;
    samba_value planes; /* (N, C, pixels) */
    samba_node image;
    int spatial;
    int64_t positions; /* of one image */
    int64_t size[3];   /* by X, Y, Z */
    samba_grid_padding padding;
    bool align_corners;
    samba_dtype dtype; /* in which it is computed */
} sampling;

static samba_value number(const sampling *s, double value) { return samba_constant(s->graph, value, s->dtype, 0, NULL); }

/* Within 0 .. size-1; beyond, and just there, without a gradient, as torch has it. */
static samba_value clipped(const sampling *s, samba_value at, int dim)
{
    double last = (double)(s->size[dim] - 1);
    samba_value most = number(s, last), below = samba_lt(at, most), zero = number(s, 0);
    samba_value inside = samba_logical_and(samba_gt(at, zero), below);
    return samba_where(inside, at, samba_clamp(samba_detach(at), zero, most));
}

/* Thrown back at the outermost centres, or with align_corners unset at the edges, as often as it takes. */
static samba_value reflected(const sampling *s, samba_value at, int dim)
{
    double low = s->align_corners ? 0 : -0.5, span = (double)(s->align_corners ? s->size[dim] - 1 : s->size[dim]);
    if (span == 0)
        return samba_mul_scalar(at, 0);
    samba_value away = samba_add_scalar(at, -low), back = samba_neg(away);
    samba_value far = samba_where(samba_lt(away, number(s, 0)), back, away);
    samba_value rest = samba_fmod(far, number(s, span)), flips = samba_floor(samba_mul_scalar(samba_detach(far), 1 / span));
    samba_value zero = number(s, 0), odd = samba_ne(samba_remainder(flips, number(s, 2)), zero);
    samba_value forth = samba_add_scalar(rest, low), thrown = samba_add_scalar(samba_neg(rest), span + low);
    return samba_where(odd, thrown, forth);
}

static samba_value padded(const sampling *s, samba_value at, int dim)
{
    if (s->padding == SAMBA_GRID_ZEROS)
        return at;
    return clipped(s, s->padding == SAMBA_GRID_REFLECTION ? reflected(s, at, dim) : at, dim);
}

/* The pixel of whole coordinates `at` (N, positions), one for each dim of space; 0 where it lies outside. */
static samba_value fetch(const sampling *s, const samba_value *at)
{
    samba_value index = {0}, inside = {0};
    for (int d = s->spatial - 1; d >= 0; d--) {
        samba_value below = samba_le(at[d], number(s, (double)(s->size[d] - 1))), zero = number(s, 0);
        samba_value here = samba_logical_and(samba_ge(at[d], zero), below), pixel = samba_detach(at[d]);
        samba_value position = samba_cast(samba_where(here, pixel, zero), SAMBA_INT64);
        inside = inside.graph ? samba_logical_and(inside, here) : here;
        index = index.graph
                    ? samba_add(samba_mul(index, samba_constant(s->graph, (double)s->size[d], SAMBA_INT64, 0, NULL)), position)
                    : position;
    }
    const int64_t *n = s->image.shape, thin[3] = {n[0], 1, s->positions}, wide[3] = {n[0], n[1], s->positions};
    samba_value pixels = samba_gather(s->planes, 2, samba_expand(samba_reshape(index, 3, thin), 3, wide));
    if (s->padding != SAMBA_GRID_ZEROS)
        return pixels;
    samba_value zero = number(s, 0);
    return samba_where(samba_reshape(inside, 3, thin), pixels, zero);
}

/* A weight (N, positions) times a pixel of each channel. */
static samba_value weighted(const sampling *s, samba_value weight, samba_value pixels)
{
    return samba_mul(pixels, samba_reshape(weight, 3, (int64_t[]){s->image.shape[0], 1, s->positions}));
}

static samba_value linear(const sampling *s, const samba_value *at)
{
    samba_value floors[3], sum = {0};
    for (int d = 0; d < s->spatial; d++)
        floors[d] = samba_floor(samba_detach(at[d]));
    for (int corner = 0; corner < 1 << s->spatial; corner++) {
        samba_value position[3], weight = {0};
        for (int d = 0; d < s->spatial; d++) {
            bool upper = corner >> d & 1;
            position[d] = upper ? samba_add_scalar(floors[d], 1) : floors[d];
            samba_value share = upper ? samba_sub(at[d], floors[d]) : samba_sub(samba_add_scalar(floors[d], 1), at[d]);
            weight = weight.graph ? samba_mul(weight, share) : share;
        }
        if (s->padding != SAMBA_GRID_ZEROS) /* the upper neighbour of the last pixel has weight 0 */
            for (int d = 0; d < s->spatial; d++) {
                samba_value most = number(s, (double)(s->size[d] - 1));
                position[d] = samba_clamp(position[d], number(s, 0), most);
            }
        samba_value share = weighted(s, weight, fetch(s, position));
        sum = sum.graph ? samba_add(sum, share) : share;
    }
    return sum;
}

/* Keys' cubic with a = -0.75, of the distance from the pixel before the position; four neighbours. */
static void cubic_weights(const sampling *s, samba_value t, samba_value weights[4])
{
    const double a = -0.75;
    samba_value one = number(s, 1), back = samba_sub(one, t), before = samba_add_scalar(t, 1), behind = samba_add_scalar(back, 1),
                distances[4] = {before, t, back, behind};
    for (int i = 0; i < 4; i++) {
        samba_value x = distances[i];
        bool near = i == 1 || i == 2;
        samba_value p = samba_add_scalar(samba_mul_scalar(x, near ? a + 2 : a), near ? -(a + 3) : -5 * a);
        p = near ? samba_mul(samba_mul(p, x), x) : samba_mul(samba_add_scalar(samba_mul(p, x), 8 * a), x);
        weights[i] = samba_add_scalar(p, near ? 1 : -4 * a);
    }
}

static samba_value cubic(const sampling *s, const samba_value *at)
{
    samba_value floors[2], weights[2][4], sum = {0};
    for (int d = 0; d < 2; d++) {
        floors[d] = samba_floor(samba_detach(at[d]));
        cubic_weights(s, samba_sub(at[d], floors[d]), weights[d]);
    }
    for (int i = 0; i < 4; i++) {
        samba_value row = {0};
        for (int j = 0; j < 4; j++) {
            samba_value x = padded(s, samba_add_scalar(floors[X], j - 1), X);
            samba_value y = padded(s, samba_add_scalar(floors[Y], i - 1), Y);
            samba_value share = weighted(s, weights[X][j], fetch(s, (const samba_value[]){x, y}));
            row = row.graph ? samba_add(row, share) : share;
        }
        row = weighted(s, weights[Y][i], row);
        sum = sum.graph ? samba_add(sum, row) : row;
    }
    return sum;
}

/* -1 .. 1 as 0 .. size-1 */
static samba_value coordinate(const sampling *s, samba_value grid, int dim)
{
    double size = (double)s->size[dim];
    samba_value from_edge = samba_add_scalar(samba_select(grid, -1, dim), 1);
    return s->align_corners ? samba_mul_scalar(from_edge, (size - 1) / 2)
                            : samba_mul_scalar(samba_add_scalar(samba_mul_scalar(from_edge, size), -1), 0.5);
}

static bool check(samba_graph *graph, const samba_node *x, const samba_node *g, samba_resample_mode mode,
                  samba_grid_padding padding)
{
    static const char what[] = "grid_sample";
    bool fits = (x->rank == 4 || x->rank == 5) && g->rank == x->rank && g->shape[0] == x->shape[0] &&
                g->shape[g->rank - 1] == x->rank - 2;
    if (!fits)
        return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, what,
                                  "expected an input (N, C, H, W) and a grid (N, Ho, Wo, 2), or (N, C, D, H, W) and (N, Do, Ho, "
                                  "Wo, 3), given %s and %s",
                                  SAMBA_TYPE_OF(x), SAMBA_TYPE_OF(g));
    if (!samba_dtype_is_floating_point(x->dtype) || x->dtype != g->dtype)
        return samba_graph_refuse(graph, SAMBA_ERROR_DTYPE, what,
                                  "expected an input and a grid of one floating-point dtype, given %s and %s; cast them",
                                  SAMBA_TYPE_OF(x), SAMBA_TYPE_OF(g));
    if (mode != SAMBA_RESAMPLE_NEAREST && mode != SAMBA_RESAMPLE_LINEAR && (mode != SAMBA_RESAMPLE_BICUBIC || x->rank != 4))
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what,
                                  "expected the mode nearest, linear or, of (N, C, H, W), bicubic, given mode %d for %s",
                                  (int)mode, SAMBA_TYPE_OF(x));
    if (padding < SAMBA_GRID_ZEROS || padding > SAMBA_GRID_REFLECTION)
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what,
                                  "expected a padding of zeros, border or reflection, 0 to 2, given %d", (int)padding);
    if (x->shape[2] < 1 || x->shape[3] < 1 || x->shape[x->rank - 1] < 1)
        return samba_graph_refuse(
            graph, SAMBA_ERROR_SHAPE, what,
            "there is no pixel to read: expected sizes of 1 or more in each dim of space, given an input %s", SAMBA_TYPE_OF(x));
    return true;
}

samba_value samba_grid_sample(samba_value input, samba_value grid, samba_resample_mode mode, samba_grid_padding padding,
                              bool align_corners)
{
    sampling s = {.padding = padding, .align_corners = align_corners, .positions = 1};
    if (!samba_trace_enter("grid_sample", 2, (samba_value[]){input, grid}, &s.graph))
        return samba_trace_none(s.graph);
    s.image = samba_trace_node(input);
    samba_node g = samba_trace_node(grid);
    if (!check(s.graph, &s.image, &g, mode, padding))
        return samba_trace_none(s.graph);
    SAMBA_SPEAKS(s.graph, "grid_sample");
    s.spatial = s.image.rank - 2;
    s.dtype = samba_compute_dtype(s.image.dtype);
    int64_t pixels = 1, shape[5] = {s.image.shape[0], s.image.shape[1]};
    for (int i = 0; i < s.spatial; i++) {
        s.size[i] = s.image.shape[s.image.rank - 1 - i];
        pixels *= s.size[i];
        shape[2 + i] = g.shape[1 + i];
        s.positions *= shape[2 + i];
    }
    s.planes = samba_reshape(samba_cast(input, s.dtype), 3, (int64_t[]){shape[0], shape[1], pixels});
    samba_value flat = samba_reshape(samba_cast(grid, s.dtype), 3, (int64_t[]){shape[0], s.positions, s.spatial}), at[3], result;
    for (int d = 0; d < s.spatial; d++) {
        at[d] = coordinate(&s, flat, d);
        if (mode != SAMBA_RESAMPLE_BICUBIC)
            at[d] = padded(&s, at[d], d);
        if (mode == SAMBA_RESAMPLE_NEAREST)
            at[d] = samba_round(samba_detach(at[d]));
    }
    if (mode == SAMBA_RESAMPLE_NEAREST)
        result = fetch(&s, at);
    else
        result = mode == SAMBA_RESAMPLE_LINEAR ? linear(&s, at) : cubic(&s, at);
    return samba_cast(samba_reshape(result, s.image.rank, shape), s.image.dtype);
}

/* Centres (align_corners: edges) of `size` pixels, from -1 to 1, in the dim of a grid that is theirs. */
static samba_value ticks(samba_graph *graph, int64_t size, bool align_corners, samba_dtype dtype, int spatial, int dim,
                         const int64_t *shape)
{
    int64_t thin[4];
    for (int i = 0; i <= spatial; i++)
        thin[i] = i == dim ? size : 1;
    samba_value line = size > 1 ? samba_linspace(graph, -1, 1, size, dtype) : samba_constant(graph, 0, dtype, 1, &size);
    if (!align_corners && size > 1)
        line = samba_mul_scalar(line, (double)(size - 1) / (double)size);
    return samba_expand(samba_reshape(line, spatial + 1, thin), spatial + 1, shape);
}

samba_value samba_affine_grid(samba_value theta, int rank, const int64_t *size, bool align_corners)
{
    samba_graph *graph;
    if (!samba_trace_enter("affine_grid", 1, &theta, &graph) || !samba_trace_need_floating(theta, "affine_grid"))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "affine_grid");
    samba_node t = samba_trace_node(theta);
    int spatial = rank - 2;
    bool fits = size && (rank == 4 || rank == 5) && t.rank == 3 && t.shape[0] == size[0] && t.shape[1] == spatial &&
                t.shape[2] == spatial + 1;
    for (int i = 0; fits && i < rank; i++)
        fits = size[i] >= 1;
    if (!fits) {
        bool known = size && rank >= 0 && rank <= SAMBA_MAX_RANK;
        return samba_trace_fail(
            graph, SAMBA_ERROR_SHAPE, "affine_grid",
            "expected theta (N, 2, 3) and a size (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W), of 1 or more "
            "each, given %s and %s",
            SAMBA_TYPE_OF(&t), known ? SAMBA_SHAPE(rank, size) : "none");
    }
    samba_dtype dtype = samba_compute_dtype(t.dtype);
    samba_value columns[4];
    int64_t shape[4], positions = 1, result[5] = {size[0]};
    for (int i = 0; i < spatial; i++)
        positions *= shape[i] = result[1 + i] = size[2 + i];
    shape[spatial] = 1;
    result[1 + spatial] = spatial;
    for (int i = 0; i < spatial; i++) /* x first: the last dim of space */
        columns[i] = ticks(graph, size[rank - 1 - i], align_corners, dtype, spatial, spatial - 1 - i, shape);
    columns[spatial] = samba_constant(graph, 1, dtype, spatial + 1, shape);
    samba_value base = samba_reshape(samba_concat(spatial + 1, columns, spatial), 3, (int64_t[]){1, positions, spatial + 1});
    samba_value matrices = samba_transpose(samba_cast(theta, dtype), 1, 2);
    samba_value moved = samba_matmul(samba_expand(base, 3, (int64_t[]){size[0], positions, spatial + 1}), matrices);
    return samba_cast(samba_reshape(moved, rank, result), t.dtype);
}
