/* SPDX-License-Identifier: Apache-2.0
 *
 * The region of a wide product (logits over a vocabulary): everything that is computed from it row by row, by maps, views,
 * reductions over other dims, products with an operand that all rows share. The region ends at small results: one number a row
 * (the loss of a row), a product's narrow rows (the gradient of its input), sums over the rows (the gradient of its weight).
 * Nodes outside read only those.
 *
 * Cutting the region into chunks of rows must cost nothing in a training step. So BCKWD must be able to compute again from the
 * rows alone all that it needs of FWD, and results of FWD may serve only outputs, which BCKWD then delivers too. */
#include "compiler/graph/chunk.h"

#include <string.h>

#define WIDE 8        /* values within this factor of the first one's elements are as wide */
#define PULL_DEPTH 64 /* operators behind a wide operand that are computed in each chunk */

static bool is_wide(const samba_region *r, samba_ref ref) { return samba_node_numel(samba_node_at(r->graph, ref)) > r->wide; }

samba_relation samba_rows_relate(const samba_node *user, int at, int count, const samba_node *operand)
{
    bool full = true, one = true;
    for (int d = at; d < at + count; d++) {
        int k = d - (user->rank - operand->rank);
        int64_t size = k >= 0 ? operand->shape[k] : 1;
        full = full && size == user->shape[d];
        one = one && size == 1;
    }
    return one ? SAMBA_ROWS_UNIFORM : full ? SAMBA_ROWS_FULL : SAMBA_ROWS_PARTIAL;
}

static bool mark(samba_region *r, samba_ref ref, samba_row_kind kind, int at, int count)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    while (count > 1 && node->shape[at] == 1)
        at++, count--;
    while (count > 1 && node->shape[at + count - 1] == 1)
        count--;
    r->row[ref] = (samba_row_dims){(uint8_t)kind, (int8_t)at, (int8_t)count};
    return true;
}

/* The dims of a shape that are the rows when `before` elements lie in front of them. */
static bool find_rows(const samba_region *r, const samba_node *node, int64_t before, int *at, int *count)
{
    int64_t product = 1;
    int d = 0;
    while (d < node->rank && (product < before || node->shape[d] == 1))
        product *= node->shape[d++];
    if (product != before)
        return false;
    *at = d;
    for (product = 1; d < node->rank && product < r->rows; d++)
        product *= node->shape[d];
    *count = d - *at;
    return product == r->rows;
}

/* ---- operands from outside ---- */

/* Can a chunk have its rows of this operand? A wide one must be computed there, unless it is an input of the model. */
static bool pull(samba_region *r, samba_ref ref, int at, int count, int depth)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    if (r->row[ref].kind != SAMBA_ROWS_OUTSIDE) {
        samba_row_dims before = r->row[ref];
        mark(r, ref, (samba_row_kind)before.kind, at, count);
        bool same = before.at == r->row[ref].at && before.count == r->row[ref].count;
        r->row[ref] = before;
        return same && before.kind != SAMBA_ROWS_SUMMED;
    }
    bool leaf = samba_ops[node->op].class_ == SAMBA_LEAF && !samba_is_inline(r->graph, ref);
    if (leaf || !is_wide(r, ref))
        return true;
    if (depth == PULL_DEPTH || (node->op == SAMBA_OP_iota && node->attrs->iota.dim >= at && node->attrs->iota.dim < at + count))
        return false;
    if (node->op == SAMBA_OP_reshape) {
        const samba_node *source = samba_node_at(r->graph, node->inputs[0]);
        int source_at, source_count;
        if (!find_rows(r, source, samba_sizes_product(at, node->shape), &source_at, &source_count) ||
            !pull(r, node->inputs[0], source_at, source_count, depth + 1))
            return false;
        if (!samba_in_region(r, node->inputs[0])) /* a narrow source makes no wide view, and a leaf can be cut as it is */
            return true;
        return mark(r, ref, SAMBA_ROWS_PULLED, at, count);
    }
    if (node->op == SAMBA_OP_random ||
        (samba_ops[node->op].class_ != SAMBA_MAP && node->op != SAMBA_OP_expand && node->arity > 0))
        return false;
    for (int i = 0; i < node->arity; i++) {
        const samba_node *input = samba_node_at(r->graph, node->inputs[i]);
        samba_relation relation = samba_rows_relate(node, at, count, input);
        if (relation == SAMBA_ROWS_PARTIAL ||
            (relation == SAMBA_ROWS_FULL && !pull(r, node->inputs[i], at - (node->rank - input->rank), count, depth + 1)))
            return false;
    }
    return mark(r, ref, SAMBA_ROWS_PULLED, at, count);
}

/* ---- what a node that reads members is ---- */

/* Broadcasting against each other: every operand has all rows, where the others have them, or none. */
static bool classify_broadcast(samba_region *r, samba_ref ref, samba_ref first)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    samba_row_dims rows = r->row[first];
    int at = rows.at + node->rank - samba_node_at(r->graph, first)->rank;
    for (int i = 0; i < node->arity; i++) {
        const samba_node *input = samba_node_at(r->graph, node->inputs[i]);
        samba_relation relation = samba_rows_relate(node, at, rows.count, input);
        if (relation == SAMBA_ROWS_PARTIAL || (relation == SAMBA_ROWS_UNIFORM && samba_in_region(r, node->inputs[i])) ||
            (relation == SAMBA_ROWS_FULL && !pull(r, node->inputs[i], at - (node->rank - input->rank), rows.count, 0)))
            return false;
    }
    return mark(r, ref, SAMBA_ROWS_MEMBER, at, rows.count);
}

static bool classify_view(samba_region *r, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref), *source = samba_node_at(r->graph, node->inputs[0]);
    samba_row_dims rows = r->row[node->inputs[0]];
    int at, count;
    switch (node->op) {
    case SAMBA_OP_expand: return classify_broadcast(r, ref, node->inputs[0]);
    case SAMBA_OP_reshape:
        return find_rows(r, node, samba_sizes_product(rows.at, source->shape), &at, &count) &&
               mark(r, ref, SAMBA_ROWS_MEMBER, at, count);
    case SAMBA_OP_permute:
        for (at = 0; node->attrs->permute.dims.at[at] != rows.at;)
            at++;
        for (int i = 0; i < rows.count; i++)
            if (at + i >= node->rank || node->attrs->permute.dims.at[at + i] != rows.at + i)
                return false;
        return mark(r, ref, SAMBA_ROWS_MEMBER, at, rows.count);
    default: /* slice */
        for (int d = rows.at; d < rows.at + rows.count; d++)
            if (node->shape[d] != source->shape[d])
                return false;
        return mark(r, ref, SAMBA_ROWS_MEMBER, rows.at, rows.count);
    }
}

static bool classify_reduce(samba_region *r, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref), *source = samba_node_at(r->graph, node->inputs[0]);
    samba_row_dims rows = r->row[node->inputs[0]];
    bool none = true, all = true;
    for (int d = rows.at; d < rows.at + rows.count; d++) {
        bool reduced = false;
        for (int64_t k = 0; k < node->attrs->reduce.dims.count; k++)
            reduced = reduced || node->attrs->reduce.dims.at[k] == d;
        none = none && (!reduced || source->shape[d] == 1);
        all = all && (reduced || source->shape[d] == 1);
    }
    if (none)
        return mark(r, ref, SAMBA_ROWS_MEMBER, rows.at, rows.count);
    return all && is_wide(r, node->inputs[0]) && samba_is_combined(node) && mark(r, ref, SAMBA_ROWS_SUMMED, rows.at, rows.count);
}

/* Only the last two dims, sizes of 1 aside. */
static bool is_matrix(const samba_node *node) { return samba_sizes_product(node->rank - 2, node->shape) == 1; }

/* Rows times a matrix, a matrix times columns, or a sum over the rows. */
static bool classify_matmul(samba_region *r, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    samba_ref a = node->inputs[0], b = node->inputs[1];
    const samba_node *na = samba_node_at(r->graph, a), *nb = samba_node_at(r->graph, b);
    bool in_a = samba_in_region(r, a), in_b = samba_in_region(r, b);
    samba_row_dims ra = r->row[a], rb = r->row[b];
    if (in_a && !in_b && is_matrix(nb) && ra.at + ra.count < na->rank &&
        samba_node_numel(na) == r->rows * na->shape[na->rank - 1])
        return mark(r, ref, SAMBA_ROWS_MEMBER, ra.at + node->rank - na->rank, ra.count);
    if (in_b && !in_a && is_matrix(na) && is_matrix(nb) && rb.at == nb->rank - 1)
        return mark(r, ref, SAMBA_ROWS_MEMBER, node->rank - 1, 1);
    if (!is_matrix(na) || !is_matrix(nb) || na->shape[na->rank - 1] != r->rows || (in_a && ra.at != na->rank - 1) ||
        (in_b && rb.at != nb->rank - 2))
        return false;
    return (is_wide(r, a) || is_wide(r, b)) && pull(r, a, na->rank - 1, 1, 0) && pull(r, b, nb->rank - 2, 1, 0) &&
           mark(r, ref, SAMBA_ROWS_SUMMED, 0, 0);
}

static bool classify(samba_region *r, samba_ref ref, samba_ref first)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    if (node->phase > SAMBA_BCKWD)
        return false;
    switch (samba_ops[node->op].class_) {
    case SAMBA_MAP: /* of a row's numbers, or as wide: what is between is worth storing */
        return (is_wide(r, ref) || samba_node_numel(node) == r->rows) && classify_broadcast(r, ref, first);
    case SAMBA_VIEW: return classify_view(r, ref);
    case SAMBA_REDUCE_CLASS: return classify_reduce(r, ref);
    case SAMBA_CONTRACT: return node->op == SAMBA_OP_matmul && classify_matmul(r, ref);
    default: return false;
    }
}

/* false: a wide value would have to be stored */
static bool grow(samba_region *r, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    samba_ref first = SAMBA_NONE;
    bool wide = false;
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = node->inputs[i];
        if (r->row[u].kind != SAMBA_ROWS_MEMBER || (!is_wide(r, u) && samba_node_numel(samba_node_at(r->graph, u)) != r->rows))
            continue;
        first = first == SAMBA_NONE ? u : first;
        wide = wide || is_wide(r, u);
    }
    return first == SAMBA_NONE || r->row[ref].kind != SAMBA_ROWS_OUTSIDE || classify(r, ref, first) || !wide;
}

/* ---- the region as a whole ---- */
static bool find_results(samba_region *r)
{
    const samba_graph *g = r->graph;
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        bool inside = r->row[i].kind != SAMBA_ROWS_OUTSIDE;
        r->trains = r->trains ||
                    (node->phase == SAMBA_BCKWD && (r->row[i].kind == SAMBA_ROWS_MEMBER || r->row[i].kind == SAMBA_ROWS_SUMMED));
        for (int k = 0; k < node->arity; k++) {
            samba_ref u = node->inputs[k];
            bool result = r->row[u].kind == SAMBA_ROWS_SUMMED || (r->row[u].kind == SAMBA_ROWS_MEMBER && !inside);
            if (result && is_wide(r, u) && r->row[u].kind == SAMBA_ROWS_MEMBER)
                return false;
            r->result[u] = r->result[u] || result;
            if (inside && (r->row[u].kind == SAMBA_ROWS_SUMMED || r->tainted[u])) /* rows would wait for all rows */
                return false;
            /* others may read it, but not the member */
            if (r->row[i].kind == SAMBA_ROWS_PULLED && r->row[u].kind == SAMBA_ROWS_MEMBER)
                return false;
            r->tainted[i] = r->tainted[i] || (!inside && (result || r->tainted[u]));
        }
    }
    for (int64_t i = 0; i < g->sink_count; i++) {
        samba_ref value = g->sinks[i].value;
        if (r->row[value].kind != SAMBA_ROWS_MEMBER && r->row[value].kind != SAMBA_ROWS_SUMMED)
            continue;
        if (r->row[value].kind == SAMBA_ROWS_MEMBER && is_wide(r, value))
            return false;
        r->result[value] = 1;
    }
    return true;
}

/* Does anything but an output of FWD need a result of FWD? Then FWD could not be left out of a training step. */
static bool forward_is_needed(const samba_region *r)
{
    const samba_graph *g = r->graph;
    for (int64_t i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i].arity; k++) {
            samba_ref u = g->nodes[i].inputs[k];
            bool forward = g->nodes[u].phase <= SAMBA_FWD && (r->result[u] || r->tainted[u]);
            if (forward && g->nodes[i].phase > SAMBA_FWD && r->row[i].kind == SAMBA_ROWS_OUTSIDE)
                return true;
        }
    for (int64_t i = 0; i < g->sink_count; i++) {
        const samba_sink *sink = &g->sinks[i];
        bool forward = g->nodes[sink->value].phase <= SAMBA_FWD && (r->result[sink->value] || r->tainted[sink->value]);
        if (forward && (sink->kind == SAMBA_SINK_ASSIGN || sink->phase != SAMBA_FWD))
            return true;
    }
    return false;
}

bool samba_region_find(samba_region *r, samba_ref anchor)
{
    const samba_node *node = samba_node_at(r->graph, anchor);
    const samba_node *a = samba_node_at(r->graph, node->inputs[0]), *b = samba_node_at(r->graph, node->inputs[1]);
    if (!is_matrix(b) || a->rank != node->rank)
        return false;
    size_t nodes = (size_t)r->graph->node_count;
    memset(r->row, 0, sizeof(samba_row_dims) * nodes);
    memset(r->result, 0, nodes);
    memset(r->tainted, 0, nodes);
    r->trains = false;
    r->rows = samba_sizes_product(node->rank - 1, node->shape);
    r->row_bytes = node->shape[node->rank - 1] * (int64_t)samba_dtype_size((samba_dtype)node->dtype);
    r->wide = samba_node_numel(node) / WIDE;
    mark(r, anchor, SAMBA_ROWS_MEMBER, 0, node->rank - 1);
    for (int64_t i = (int64_t)anchor + 1; i < r->graph->node_count; i++)
        if (!grow(r, (samba_ref)i))
            return false;
    return find_results(r) && !(r->trains && forward_is_needed(r));
}
