/* SPDX-License-Identifier: Apache-2.0
 *
 * Images read at positions that other values give: grid_sample and affine_grid. */
#include "trace/promote.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/resample.h>
#include <sambaflow/shape.h>

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
    samba_graph *graph;
    if (!samba_trace_enter("grid_sample", 2, (samba_value[]){input, grid}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input), g = samba_trace_node(grid);
    if (!check(graph, &x, &g, mode, padding))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "grid_sample");
    samba_dtype dtype = samba_compute_dtype((samba_dtype)x.dtype);
    samba_ref image = samba_emit_cast(graph, input.index, dtype), places = samba_emit_cast(graph, grid.index, dtype);
    samba_attrs attrs = {.grid = {.mode = (int64_t)mode, .padding = (int64_t)padding, .align_corners = align_corners ? 1 : 0}};
    samba_ref y = samba_emit(graph, SAMBA_OP_grid_sample, 2, (samba_ref[]){image, places}, &attrs);
    return samba_trace_value(graph, samba_emit_cast(graph, y, (samba_dtype)x.dtype));
}

/* Centres (align_corners: edges) of `size` pixels, from -1 to 1, in dim `dim` of space, for each position of a grid. */
static samba_value ticks(samba_graph *graph, int64_t size, bool align_corners, samba_dtype dtype, int spatial, int dim,
                         const int64_t *shape)
{
    int64_t thin[3], positions = 1;
    for (int i = 0; i < spatial; i++) {
        thin[i] = i == dim ? size : 1;
        positions *= shape[i];
    }
    samba_value line = size > 1 ? samba_linspace(graph, -1, 1, size, dtype) : samba_constant(graph, 0, dtype, 1, &size);
    if (!align_corners && size > 1)
        line = samba_mul_scalar(line, (double)(size - 1) / (double)size);
    line = samba_expand(samba_reshape(line, spatial, thin), spatial, shape);
    return samba_reshape(line, 2, (int64_t[]){1, positions});
}

/* One product for all of the batch, since all have the same positions: a product each would be a tiny one. */
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
    samba_value lines[4];
    int64_t positions = 1, result[5] = {size[0], 0, 0, 0, spatial};
    for (int i = 0; i < spatial; i++)
        positions *= result[1 + i] = size[2 + i];
    result[1 + spatial] = spatial;
    for (int i = 0; i < spatial; i++) /* x first: the last dim of space */
        lines[i] = ticks(graph, size[rank - 1 - i], align_corners, dtype, spatial, spatial - 1 - i, size + 2);
    lines[spatial] = samba_constant(graph, 1, dtype, 2, (int64_t[]){1, positions});
    samba_value places = samba_concat(spatial + 1, lines, 0);
    samba_value rows = samba_reshape(samba_cast(theta, dtype), 2, (int64_t[]){size[0] * spatial, spatial + 1});
    samba_value moved = samba_reshape(samba_matmul(rows, places), 3, (int64_t[]){size[0], spatial, positions});
    return samba_cast(samba_reshape(samba_transpose(moved, 1, 2), rank, result), t.dtype);
}
