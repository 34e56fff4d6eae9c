/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of linear layers that are frozen in fewer bits: what lies in memory, and the few operators by which a layer reads it.
 * The compiler computes them again in each phase that reads them. */
#include "trace/trace.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <string.h>

#define GROUP 32 /* elements with one scale, of INT4 */

static samba_value stored(samba_graph *graph, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    return samba_register_buffer(graph, name, dtype, rank, shape, (samba_initializer){.kind = SAMBA_INIT_NONE});
}

static samba_linear_weight rows_of_int8(samba_graph *graph, samba_dtype dtype, int64_t out, int64_t in)
{
    samba_value weight = stored(graph, "weight", SAMBA_INT8, 2, (int64_t[]){out, in});
    samba_value scale = stored(graph, "weight_scale", SAMBA_FLOAT32, 2, (int64_t[]){out, 1});
    samba_value wide = samba_cast(weight, SAMBA_FLOAT32);
    return (samba_linear_weight){.wide = samba_cast(samba_mul(wide, scale), dtype), .kept = weight, .scales = scale};
}

/* Halves of bytes by arithmetic of floats, which is exact here and runs in lanes of 32 bits. */
static samba_linear_weight groups_of_int4(samba_graph *graph, samba_dtype dtype, int64_t out, int64_t in)
{
    if (in % GROUP != 0)
        return (samba_linear_weight){
            .wide =
                samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "linear",
                                 "INT4 is of groups of %d, and %lld features are not a multiple of that: keep \"%.200s\" in INT8",
                                 GROUP, (long long)in, samba_graph_name_at(graph, graph->scope))};
    samba_value packed = stored(graph, "weight_packed", SAMBA_UINT8, 3, (int64_t[]){out, in / GROUP, GROUP / 2});
    samba_value scale = stored(graph, "weight_scale", SAMBA_FLOAT16, 3, (int64_t[]){out, in / GROUP, 1});
    samba_value kept_scale = scale, halves[2];
    samba_value bytes = samba_cast(packed, SAMBA_FLOAT32);
    scale = samba_cast(scale, SAMBA_FLOAT32);
    halves[1] = samba_floor(samba_mul_scalar(bytes, 1.0 / 16));
    samba_value above = samba_mul_scalar(halves[1], 16);
    halves[0] = samba_sub(bytes, above);
    for (int i = 0; i < 2; i++) {
        halves[i] = samba_add_scalar(halves[i], -8);
        halves[i] = samba_mul(halves[i], scale);
    }
    samba_value groups = samba_concat(2, halves, -1);
    samba_value wide = samba_cast(samba_reshape(groups, 2, (int64_t[]){out, in}), dtype);
    return (samba_linear_weight){.wide = wide, .kept = packed, .scales = kept_scale};
}

/* What a cast reads, where a frozen parameter lies in fewer bits than it is traced in. */
static samba_value leaf_of(samba_value value)
{
    const samba_node *node = value.index == SAMBA_NONE ? NULL : samba_node_at(value.graph, value.index);
    return node && node->op == SAMBA_OP_cast ? (samba_value){.graph = value.graph, .index = node->inputs[0]} : value;
}

samba_linear_weight samba_trace_linear_weight(samba_graph *graph, samba_dtype dtype, int64_t out, int64_t in, bool turned,
                                              samba_initializer initializer)
{
    const int64_t shape[2] = {turned ? in : out, turned ? out : in};
    const uint32_t name = samba_trace_scoped(graph, "weight", "weight");
    const bool as_kept = graph->freezing && graph->freezing->as_kept;
    samba_base base = SAMBA_BASE_AS_TRACED;
    samba_linear_weight weight = {0};
    if (name)
        samba_trace_is_frozen(graph, samba_graph_name_at(graph, name), &base);
    if (base == SAMBA_BASE_INT8 || base == SAMBA_BASE_INT4) {
        weight = (base == SAMBA_BASE_INT8 ? rows_of_int8 : groups_of_int4)(graph, dtype, out, in);
    } else {
        samba_value as_traced = samba_parameter(graph, "weight", dtype, 2, shape, initializer);
        weight.wide = turned ? samba_transpose(as_traced, 0, 1) : as_traced;
        weight.kept = leaf_of(as_traced);
        weight.transposed = turned;
    }
    if (!as_kept)
        weight.kept = weight.scales = (samba_value){0};
    return weight;
}
