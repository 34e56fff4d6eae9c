/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of inputs, from names alone. Small multiples of 1/8: sums of products of them are exact, so that graphs of such
 * operators must agree to the last bit. */
#include "fuzz.h"

#include <sambaflow/session.h>

static uint64_t hash_of(const char *text, uint64_t hash)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

void fuzz_fill(const char *graph_name, const char *name, samba_array *array)
{
    uint64_t state = hash_of(name, hash_of(graph_name, UINT64_C(0xcbf29ce484222325)));
    bool floating = samba_dtype_is_floating_point(array->dtype),
         positive = name[0] == FUZZ_POSITIVE || name[0] == FUZZ_POSITIVE_BUFFER;
    int64_t end = name[0] == FUZZ_INDEX ? strtoll(name + 1, NULL, 10) : 0;
    size_t width = samba_dtype_size(array->dtype);
    for (int64_t i = 0; i < array->numel; i++) {
        int64_t drawn = (int64_t)(next_seed(&state) >> 33);
        double value = end > 0                       ? (double)(drawn % end)
                       : name[0] == FUZZ_RATE        ? (double)(drawn % 5) / 8
                       : name[0] == FUZZ_SEED        ? (double)(drawn % 100000)
                       : name[0] == FUZZ_MODE        ? (double)(drawn % 2)
                       : array->dtype == SAMBA_BOOL  ? (double)(drawn % 2)
                       : floating                    ? (double)(positive ? 2 + drawn % 15 : drawn % 33 - 16) / 8
                       : array->dtype == SAMBA_UINT8 ? (double)(positive ? 1 + drawn % 5 : drawn % 10)
                                                     : (double)(positive ? 1 + drawn % 5 : drawn % 11 - 5);
        samba_store_double(array->dtype, (char *)array->data + (size_t)i * width, value);
    }
}

bool fuzz_is_start(const samba_graph *graph, const char *name)
{
    for (int64_t s = 0; s < graph->sink_count; s++) {
        const char *sink = samba_graph_name_at(graph, graph->sinks[s].name);
        size_t length = strlen(sink);
        if (graph->sinks[s].kind != SAMBA_SINK_ASSIGN && strncmp(name, sink, length) == 0 && strcmp(name + length, ".grad") == 0)
            return true;
    }
    return false;
}

static bool is_given(const samba_graph *graph, const samba_node *node)
{
    if (node->op == SAMBA_OP_state && node->attrs->state.kind == SAMBA_KIND_GRADIENT)
        return fuzz_is_start(graph, samba_graph_name_at(graph, node->attrs->state.name));
    return node->op == SAMBA_OP_input || node->op == SAMBA_OP_parameter || node->op == SAMBA_OP_state ||
           node->op == SAMBA_OP_argin;
}

samba_status fuzz_inputs(const samba_graph *graph, samba_arena *arena, fuzz_values *values)
{
    values->count = 0, values->computed = false;
    values->names = samba_arena_alloc(arena, sizeof *values->names * (size_t)(graph->node_count + 1));
    values->arrays = samba_arena_alloc(arena, sizeof *values->arrays * (size_t)(graph->node_count + 1));
    if (!values->names || !values->arrays)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        if (!is_given(graph, node))
            continue;
        samba_array *array = &values->arrays[values->count];
        *array = (samba_array){.dtype = (samba_dtype)node->dtype, .rank = node->rank, .numel = node_numel(node)};
        memcpy(array->shape, node->shape, sizeof array->shape);
        array->data = samba_arena_alloc(arena, (size_t)array->numel * samba_dtype_size(array->dtype) + 1);
        if (!array->data)
            return SAMBA_ERROR_MEMORY;
        values->names[values->count++] = samba_graph_name_at(graph, node->attrs->leaf.name);
        fuzz_fill(graph->name, values->names[values->count - 1], array);
    }
    return SAMBA_OK;
}
