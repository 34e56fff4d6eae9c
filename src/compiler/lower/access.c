/* SPDX-License-Identifier: Apache-2.0
 *
 * Views over memory: for each node, the node whose memory holds its elements and the strides by which they are found there. A
 * reshape that no strides can express gets memory of its own (it is its own base, and becomes a copy). */
#include "compiler/compiler.h"

bool samba_access_follow(const samba_graph *graph, samba_ref ref, const samba_access *from, samba_access *to)
{
    const samba_node *node = samba_node_at(graph, ref), *source = samba_node_at(graph, node->inputs[0]);
    to->base = from->base;
    to->offset = from->offset;
    switch (node->op) {
    case SAMBA_OP_reshape:
        return samba_shape_view_strides(source->rank, source->shape, from->strides, node->rank, node->shape, to->strides);
    case SAMBA_OP_permute:
        for (int i = 0; i < node->rank; i++)
            to->strides[i] = from->strides[node->attrs->permute.dims.at[i]];
        return true;
    case SAMBA_OP_expand: {
        int added = node->rank - source->rank;
        for (int i = 0; i < node->rank; i++)
            to->strides[i] = i < added || (source->shape[i - added] == 1 && node->shape[i] != 1) ? 0 : from->strides[i - added];
        return true;
    }
    case SAMBA_OP_slice:
        for (int i = 0; i < node->rank; i++) {
            to->offset += node->attrs->slice.start.at[i] * from->strides[i];
            to->strides[i] = from->strides[i] * node->attrs->slice.step.at[i];
        }
        for (int i = 0; i < node->rank; i++)
            if (node->shape[i] == 0) /* no elements are nowhere: memory of none has no place for them */
                to->offset = 0;
        return true;
    default: return false;
    }
}

void samba_access_own(const samba_graph *graph, samba_ref ref, samba_access *access)
{
    const samba_node *node = samba_node_at(graph, ref);
    access->base = ref;
    access->offset = 0;
    samba_shape_contiguous_strides(node->rank, node->shape, access->strides);
}

samba_status samba_access_all(const samba_graph *graph, samba_access *access)
{
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        if (samba_ops[node->op].class_ != SAMBA_VIEW ||
            !samba_access_follow(graph, (samba_ref)i, &access[node->inputs[0]], &access[i]))
            samba_access_own(graph, (samba_ref)i, &access[i]);
    }
    return SAMBA_OK;
}

bool samba_access_is_dense(const samba_graph *graph, const samba_access *access, samba_ref ref)
{
    const samba_node *node = samba_node_at(graph, ref);
    int64_t strides[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(node->rank, node->shape, strides);
    for (int i = 0; i < node->rank; i++)
        if (node->shape[i] > 1 && strides[i] != access[ref].strides[i])
            return false;
    return true;
}

bool samba_access_is_whole(const samba_graph *graph, const samba_access *access, samba_ref ref)
{
    const samba_node *node = samba_node_at(graph, ref), *base = samba_node_at(graph, access[ref].base);
    int64_t numel, base_numel;
    return access[ref].offset == 0 && samba_shape_numel(node->rank, node->shape, &numel) &&
           samba_shape_numel(base->rank, base->shape, &base_numel) && numel == base_numel &&
           samba_access_is_dense(graph, access, ref);
}
