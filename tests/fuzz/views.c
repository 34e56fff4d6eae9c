/* SPDX-License-Identifier: Apache-2.0
 *
 * Views, and chains of them in front of other operators and behind: gradients come back through the same views turned around, and
 * sums over a permuted, flattened or spread gradient are where strides matter. */
#include "generate.h"

void fuzz_shuffle(fuzz_maker *m, int64_t count, int64_t *at)
{
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t k = fuzz_below(m, i + 1), swap = at[i];
        at[i] = at[k];
        at[k] = swap;
    }
}

/* Factors of the number of elements, in any order. */
static int factors(fuzz_maker *m, int64_t numel, int64_t *a)
{
    int rank = 0;
    int64_t left = numel;
    for (int64_t f = 2; f <= left && left > 0 && rank < 5; f++)
        while (left % f == 0 && rank < 5) {
            a[rank++] = f;
            left /= f;
        }
    while (rank > 1 && fuzz_chance(m, 50)) { /* two factors become one size */
        a[rank - 2] *= a[rank - 1];
        rank--;
    }
    if (rank == 0 || left != 1)
        a[rank++] = left;
    if (rank < 6 && fuzz_chance(m, 30))
        a[rank++] = 1;
    fuzz_shuffle(m, rank, a);
    return rank;
}

/* The shape without the dim, or with one more of that size. */
static int without(int rank, int64_t *a, int64_t dim)
{
    memmove(a + dim, a + dim + 1, sizeof *a * (size_t)(rank - 1 - dim));
    return rank - 1;
}

static int with(int rank, int64_t *a, int64_t dim, int64_t size)
{
    memmove(a + dim + 1, a + dim, sizeof *a * (size_t)(rank - dim));
    a[dim] = size;
    return rank + 1;
}

/* flatten, unflatten, unsqueeze, squeeze, or any other shape. */
static int reshaped(fuzz_maker *m, const samba_node *node, int64_t *a)
{
    int rank = node->rank;
    memcpy(a, node->shape, sizeof *a * (size_t)rank);
    int64_t kind = fuzz_below(m, 6), dim = rank > 0 ? fuzz_below(m, rank) : 0;
    if (kind == 0 && rank > 1) { /* flatten from a dim on, some dims or all */
        int64_t first = fuzz_below(m, rank - 1), last = fuzz_chance(m, 60) ? rank - 1 : first + 1;
        for (; last > first; last--) {
            a[first] *= a[first + 1];
            rank = without(rank, a, first + 1);
        }
        fuzz_count.flatten++;
        return rank;
    }
    if (kind == 1 && rank > 0 && rank < 6 && a[dim] > 0) { /* unflatten */
        int64_t part = 1 + fuzz_below(m, a[dim]);
        while (a[dim] % part != 0)
            part--;
        a[dim] /= part;
        return with(rank, a, dim, part);
    }
    if (kind == 2 && rank < 6) {
        fuzz_count.unsqueeze++;
        return with(rank, a, fuzz_below(m, rank + 1), 1);
    }
    if (kind == 3) { /* squeeze one, or all */
        bool all = fuzz_chance(m, 50);
        for (int d = rank - 1, done = 0; d >= 0 && !(done && !all); d--)
            if (a[d] == 1) {
                rank = without(rank, a, d);
                done = 1;
            }
        fuzz_count.squeeze += rank < node->rank;
        return rank;
    }
    return factors(m, node_numel(node), a);
}

static samba_ref view_of(fuzz_maker *m, samba_op op, samba_ref input)
{
    samba_node node = *samba_node_at(m->graph, input);
    samba_attrs attrs = fuzz_none();
    int64_t a[SAMBA_MAX_RANK], b[SAMBA_MAX_RANK], c[SAMBA_MAX_RANK];
    if (op == SAMBA_OP_permute) {
        for (int d = 0; d < node.rank; d++)
            a[d] = d;
        if (fuzz_chance(m, 50) && node.rank > 1) { /* transpose */
            int64_t other = fuzz_below(m, node.rank), last = a[node.rank - 1];
            a[node.rank - 1] = a[other];
            a[other] = last;
        } else {
            fuzz_shuffle(m, node.rank, a);
        }
        fuzz_set_dims(op, &attrs, "dims", node.rank, a);
    } else if (op == SAMBA_OP_reshape) {
        int rank = reshaped(m, &node, a);
        fuzz_set_dims(op, &attrs, "shape", rank, a);
    } else if (op == SAMBA_OP_expand) {
        int more = node.rank < 5 ? (int)fuzz_below(m, 2) : 0;
        for (int d = 0; d < more; d++)
            a[d] = 1 + fuzz_below(m, 4);
        for (int d = 0; d < node.rank; d++)
            a[more + d] = node.shape[d] == 1 && fuzz_chance(m, 70) ? 1 + fuzz_below(m, 9) : node.shape[d];
        fuzz_set_dims(op, &attrs, "shape", node.rank + more, a);
    } else if (op == SAMBA_OP_slice) {
        for (int d = 0; d < node.rank; d++) {
            bool whole = node.shape[d] == 0 || fuzz_chance(m, 40);
            a[d] = whole ? 0 : fuzz_below(m, node.shape[d]);
            b[d] = whole ? node.shape[d] : a[d] + 1 + fuzz_below(m, node.shape[d] - a[d]);
            c[d] = fuzz_chance(m, 70) ? 1 : 1 + fuzz_below(m, 3);
        }
        fuzz_set_dims(op, &attrs, "start", node.rank, a);
        fuzz_set_dims(op, &attrs, "stop", node.rank, b);
        fuzz_set_dims(op, &attrs, "step", node.rank, c);
    }
    return fuzz_add(m, op, 1, &input, &attrs);
}

samba_ref fuzz_view(fuzz_maker *m, samba_op op) { return view_of(m, op, fuzz_any(m)); }

samba_ref fuzz_chain(fuzz_maker *m, samba_ref value)
{
    static const samba_op views[] = {SAMBA_OP_reshape, SAMBA_OP_permute, SAMBA_OP_reshape,
                                     SAMBA_OP_permute, SAMBA_OP_expand,  SAMBA_OP_slice};
    int length = 0, wanted = 1 + (int)fuzz_below(m, FUZZ_CHAIN);
    for (int tries = 0; value != SAMBA_NONE && length < wanted && tries < 3 * wanted; tries++) {
        samba_ref next = view_of(m, views[fuzz_below(m, SAMBA_COUNT(views))], value);
        if (next == SAMBA_NONE)
            continue;
        value = next;
        length++;
    }
    fuzz_count.chains[length]++;
    return value;
}

samba_ref fuzz_of_rank(fuzz_maker *m, samba_ref value, int rank)
{
    samba_node node = *samba_node_at(m->graph, value);
    int64_t left = node_numel(&node), shape[SAMBA_MAX_RANK];
    if (node.rank == rank)
        return value;
    for (int d = 0; d < rank; d++)
        shape[d] = 1;
    for (int64_t f = 2; f <= left && rank > 0; f++)
        while (left % f == 0) {
            shape[m->batch_of_one && rank > 1 ? 1 + fuzz_below(m, rank - 1) : fuzz_below(m, rank)] *= f;
            left /= f;
        }
    samba_attrs attrs = fuzz_none();
    fuzz_set_dims(SAMBA_OP_reshape, &attrs, "shape", rank, shape);
    return left == 1 ? fuzz_add(m, SAMBA_OP_reshape, 1, &value, &attrs) : SAMBA_NONE;
}
