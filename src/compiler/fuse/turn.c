/* SPDX-License-Identifier: Apache-2.0
 *
 * Dims of a group's domain in another order. A reduction over dims that are not the last is collected, and what reads it waits
 * for another pass over memory: softmax over the first dim would be four stages. Where the result meets what was reduced again,
 * and few elements are reduced to one, the group's domain is turned: what is reduced comes last, the reduction is one of rows,
 * and devices find rows that lie side by side in memory (device/cpu/tile/standing.c).
 *
 * Needs: nothing of the group is fixed yet that depends on the order, so it has no rows and no memory. Aliases turn with it. */
#include "compiler/fuse/fuse.h"

#include <string.h>

#define LEAST_ROWS 64  /* fewer are no work for vectors and threads */
#define MOST_COLUMNS 4 /* of a row: where it has more, a pass of the device over registers costs what one over memory does */
#define MOST_NARROW 8  /* of 16 bits, which pass through memory as 32 where a group is several stages */

static int64_t elements(const samba_node *node) { return samba_sizes_product(node->rank, node->shape); }

samba_status samba_find_read_back(samba_fusion *f)
{
    const samba_graph *graph = f->graph;
    SAMBA_TRY(SAMBA_ROOM(&f->arena, f->read_back, graph->node_count + 1));
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        for (int k = 0; k < node->arity && samba_ops[node->op].class_ == SAMBA_MAP; k++) {
            samba_ref u = node->inputs[k];
            const samba_node *source = samba_node_at(graph, u);
            while (source->op == SAMBA_OP_expand || source->op == SAMBA_OP_reshape) {
                u = source->inputs[0];
                source = samba_node_at(graph, u);
            }
            if (samba_ops[source->op].class_ == SAMBA_REDUCE_CLASS && source->phase == node->phase &&
                elements(samba_node_at(graph, source->inputs[0])) == elements(node) && elements(source) < elements(node))
                f->read_back[u] = true;
        }
    }
    return SAMBA_OK;
}

/* Is what is reduced read as 16 bits? */
static bool is_narrow(const samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    do
        node = samba_node_at(f->graph, node->inputs[0]);
    while (node->op == SAMBA_OP_cast && samba_dtype_is_floating_point((samba_dtype)node->dtype));
    return samba_dtype_is_floating_point((samba_dtype)node->dtype) && samba_dtype_size((samba_dtype)node->dtype) == 2;
}

bool samba_is_turned(const samba_fusion *f, samba_ref ref, const bool *reduced, int rank, const int64_t *domain)
{
    int64_t rows = 1, cols = 1;
    for (int d = 0; d < rank; d++) {
        rows *= reduced[d] ? 1 : domain[d];
        cols *= reduced[d] ? domain[d] : 1;
    }
    return f->read_back[ref] && rows >= LEAST_ROWS && cols > 1 && cols <= (is_narrow(f, ref) ? MOST_NARROW : MOST_COLUMNS);
}

/* Dim d becomes dim to[d]. */
static void place(samba_fusion *f, int32_t group, samba_ref last, const int8_t *to)
{
    samba_group *g = &f->groups[group];
    int64_t domain[SAMBA_MAX_RANK];
    memcpy(domain, g->domain, sizeof domain);
    for (int d = 0; d < g->rank; d++) {
        g->domain[to[d]] = domain[d];
        g->order[d] = to[g->order[d]];
    }
    for (int64_t i = g->members[0]; i <= last; i++) /* views too, which no list holds */
        for (int d = 0; d < SAMBA_MAX_RANK && f->members[i].group == group; d++)
            if (f->members[i].dims[d] >= 0)
                f->members[i].dims[d] = to[f->members[i].dims[d]];
}

void samba_group_turn(samba_fusion *f, int32_t group, samba_ref last, const bool *reduced, int8_t to[SAMBA_MAX_RANK])
{
    int8_t at = 0;
    for (int second = 0; second < 2; second++)
        for (int d = 0; d < f->groups[group].rank; d++)
            if (reduced[d] == (second == 1))
                to[d] = at++;
    place(f, group, last, to);
}

void samba_group_turn_back(samba_fusion *f, int32_t group, samba_ref last, const int8_t to[SAMBA_MAX_RANK])
{
    int8_t back[SAMBA_MAX_RANK] = {0};
    for (int d = 0; d < f->groups[group].rank; d++)
        back[to[d]] = (int8_t)d;
    place(f, group, last, back);
}
