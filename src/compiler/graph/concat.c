/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of simplify about joining and cutting. The gradient of a slice is a pad, so the gradient of a value that was split is a
 * sum of pads: those that tile a dim without overlap are a concat. A concat of parts that lie side by side in one value, in
 * order, is a view of that value. A slice of a concat or pad takes from the part.
 *
 * Needs: inputs already simplified. Gives: a node of the same value, or SAMBA_NONE. */
#include "compiler/compiler.h"

#include <string.h>

#define VIEW_DEPTH 32 /* views followed to their base; longer chains stay as they are */

/* ---- sums of pads ---- */
typedef struct pads {
    int64_t dim; /* all pad this one; -1: none seen */
    int count;
    samba_ref at[SAMBA_MAX_ARITY]; /* the pads, by where their input begins */
} pads;

static int64_t begin_of(const samba_graph *g, samba_ref pad, int64_t dim)
{
    return samba_node_at(g, pad)->attrs->pad.before.at[dim];
}

static bool add_pad(const samba_graph *g, samba_ref ref, pads *p)
{
    const samba_node *node = samba_node_at(g, ref);
    const samba_attrs_pad *attrs = &node->attrs->pad;
    if (attrs->value != 0 || p->count == SAMBA_MAX_ARITY)
        return false;
    for (int d = 0; d < node->rank; d++) {
        if (attrs->interior.at[d] != 0)
            return false;
        if (attrs->before.at[d] == 0 && attrs->after.at[d] == 0)
            continue;
        if (p->dim >= 0 && p->dim != d)
            return false;
        p->dim = d;
    }
    if (p->dim < 0)
        return false;
    int k = p->count++;
    for (; k > 0 && begin_of(g, p->at[k - 1], p->dim) > begin_of(g, ref, p->dim); k--)
        p->at[k] = p->at[k - 1];
    p->at[k] = ref;
    return true;
}

/* Additions of pads only, in whatever order they were added. */
static bool gather_pads(const samba_graph *g, samba_ref ref, int depth, pads *p)
{
    const samba_node *node = samba_node_at(g, ref);
    if (node->op == SAMBA_OP_pad)
        return add_pad(g, ref, p);
    /* the second first: that of a residual stream, x + f(x), says no at once, and the first would lead through all layers */
    return node->op == SAMBA_OP_add && depth < SAMBA_MAX_ARITY && gather_pads(g, node->inputs[1], depth + 1, p) &&
           gather_pads(g, node->inputs[0], depth + 1, p);
}

samba_ref samba_emit_slice(samba_graph *g, samba_ref input, int rank, const int64_t *start, const int64_t *stop)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.slice.start.count = attrs.slice.stop.count = attrs.slice.step.count = rank;
    for (int d = 0; d < rank; d++)
        attrs.slice.start.at[d] = start[d], attrs.slice.stop.at[d] = stop[d], attrs.slice.step.at[d] = 1;
    return samba_emit(g, SAMBA_OP_slice, 1, &input, &attrs);
}

samba_ref samba_emit_concat(samba_graph *g, int count, const samba_ref *inputs, int64_t dim)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.axis.dim = dim;
    return count == 1 ? inputs[0] : samba_emit(g, SAMBA_OP_concat, count, inputs, &attrs);
}

static samba_ref sum_of_pads(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    pads p = {.dim = -1};
    for (int i = 0; i < 2; i++)
        if (!samba_shape_equal(samba_node_at(g, inputs[i])->rank, samba_node_at(g, inputs[i])->shape, node->rank, node->shape) ||
            !gather_pads(g, inputs[i], 0, &p))
            return SAMBA_NONE;
    int64_t end = 0;
    for (int i = 0; i < p.count; i++) {
        samba_ref part = samba_node_at(g, p.at[i])->inputs[0];
        if (begin_of(g, p.at[i], p.dim) != end)
            return SAMBA_NONE;
        end += samba_node_at(g, part)->shape[p.dim];
        p.at[i] = part;
    }
    return end == node->shape[p.dim] ? samba_emit_concat(g, p.count, p.at, p.dim) : SAMBA_NONE;
}

/* ---- concat ---- */
static void resolve(const samba_graph *g, samba_ref ref, samba_access *access)
{
    samba_ref chain[VIEW_DEPTH];
    int count = 0;
    samba_ref base = ref;
    for (; samba_ops[samba_node_at(g, base)->op].class_ == SAMBA_VIEW && count < VIEW_DEPTH;
         base = samba_node_at(g, base)->inputs[0])
        chain[count++] = base;
    samba_access_own(g, base, access);
    while (count > 0) {
        samba_access from = *access;
        if (!samba_access_follow(g, chain[--count], &from, access))
            samba_access_own(g, chain[count], access);
    }
}

/* Strides of the whole, if all parts lie in one base, one behind the other along the dim. */
static bool lie_in_order(const samba_graph *g, const samba_node *node, const samba_ref *inputs, samba_access *whole)
{
    int64_t dim = node->attrs->axis.dim, end = 0;
    resolve(g, inputs[0], whole);
    for (int i = 0; i < node->arity; i++) {
        const samba_node *part = samba_node_at(g, inputs[i]);
        samba_access access;
        resolve(g, inputs[i], &access);
        /* the stride of one element means nothing: the distance does */
        if (i == 1 && samba_node_at(g, inputs[0])->shape[dim] == 1)
            whole->strides[dim] = end = access.offset - whole->offset;
        if (access.base != whole->base || access.offset != whole->offset + end)
            return false;
        for (int d = 0; d < part->rank; d++)
            if (part->shape[d] != 1 && access.strides[d] != whole->strides[d])
                return false;
        end += part->shape[dim] * whole->strides[dim];
    }
    return true;
}

/* All of the base, its dims in any order: a reshape and a permute of it. */
static samba_ref whole_of(samba_graph *g, const samba_node *node, const samba_access *whole)
{
    const samba_node *base = samba_node_at(g, whole->base);
    int order[SAMBA_MAX_RANK], count = 0;
    int64_t sizes[SAMBA_MAX_RANK], dims[SAMBA_MAX_RANK], numel, expected = 1;
    for (int d = 0; d < node->rank; d++) { /* by stride, largest first */
        if (node->shape[d] == 1)
            continue;
        int k = count++;
        for (; k > 0 && whole->strides[order[k - 1]] < whole->strides[d]; k--)
            order[k] = order[k - 1];
        order[k] = d;
    }
    for (int k = count - 1; k >= 0; k--) {
        if (whole->strides[order[k]] != expected)
            return SAMBA_NONE;
        expected *= node->shape[order[k]];
    }
    if (whole->offset != 0 || !samba_shape_numel(base->rank, base->shape, &numel) || numel != expected)
        return SAMBA_NONE;
    for (int k = 0; k < count; k++)
        sizes[k] = node->shape[order[k]];
    int at = 0;
    for (int d = 0; d < node->rank; d++)
        for (int k = 0; k < count; k++)
            if (order[k] == d)
                dims[at++] = k;
    samba_ref result = samba_emit_permute(g, samba_emit_reshape(g, whole->base, count, sizes), dims);
    return samba_emit_reshape(g, result, node->rank, node->shape);
}

static samba_ref concat(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    int64_t numel;
    samba_access whole;
    if (node->arity == 1)
        return inputs[0];
    if (samba_shape_numel(node->rank, node->shape, &numel) && numel > 0 && lie_in_order(g, node, inputs, &whole)) {
        samba_ref same = whole_of(g, node, &whole);
        if (same != SAMBA_NONE)
            return same;
    }
    samba_ref parts[SAMBA_MAX_ARITY]; /* a concat of concats along the same dim is one */
    int count = 0;
    bool nested = false;
    for (int i = 0; i < node->arity; i++) {
        const samba_node *part = samba_node_at(g, inputs[i]);
        bool joined = part->op == SAMBA_OP_concat && part->attrs->axis.dim == node->attrs->axis.dim;
        int add = joined ? part->arity : 1;
        if (count + add > SAMBA_MAX_ARITY)
            return SAMBA_NONE;
        memcpy(parts + count, joined ? part->inputs : &inputs[i], sizeof(samba_ref) * (size_t)add);
        count += add;
        nested = nested || joined;
    }
    return nested ? samba_emit_concat(g, count, parts, node->attrs->axis.dim) : SAMBA_NONE;
}

/* ---- slices and pads ---- */
static samba_ref moved_slice(samba_graph *g, const samba_node *node, samba_ref source, const int64_t *by)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.slice = node->attrs->slice;
    for (int d = 0; d < node->rank; d++) {
        attrs.slice.start.at[d] -= by[d];
        attrs.slice.stop.at[d] -= by[d];
    }
    return samba_emit(g, SAMBA_OP_slice, 1, &source, &attrs);
}

static samba_ref slice(samba_graph *g, const samba_node *node, samba_ref input)
{
    const samba_node *source = samba_node_at(g, input);
    const samba_attrs_slice *cut = &node->attrs->slice;
    int64_t by[SAMBA_MAX_RANK] = {0};
    if (source->op == SAMBA_OP_concat) {
        int64_t dim = source->attrs->axis.dim, begin = 0;
        for (int i = 0; i < source->arity; i++) {
            int64_t end = begin + samba_node_at(g, source->inputs[i])->shape[dim];
            by[dim] = begin;
            if (cut->start.at[dim] >= begin && cut->stop.at[dim] <= end)
                return moved_slice(g, node, source->inputs[i], by);
            begin = end;
        }
    }
    if (source->op == SAMBA_OP_pad) {
        const samba_node *inside = samba_node_at(g, source->inputs[0]);
        for (int d = 0; d < node->rank; d++) {
            by[d] = source->attrs->pad.before.at[d];
            if (source->attrs->pad.interior.at[d] != 0 || cut->start.at[d] < by[d] || cut->stop.at[d] > by[d] + inside->shape[d])
                return SAMBA_NONE;
        }
        return moved_slice(g, node, source->inputs[0], by);
    }
    return SAMBA_NONE;
}

samba_ref samba_simplify_concat(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    switch (node->op) {
    case SAMBA_OP_add: return sum_of_pads(g, node, inputs);
    case SAMBA_OP_concat: return concat(g, node, inputs);
    case SAMBA_OP_slice: return slice(g, node, inputs[0]);
    case SAMBA_OP_pad: {
        const samba_node *source = samba_node_at(g, inputs[0]);
        return samba_shape_equal(source->rank, source->shape, node->rank, node->shape) ? inputs[0] : SAMBA_NONE;
    }
    default: return SAMBA_NONE;
    }
}
