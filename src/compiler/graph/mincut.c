/* SPDX-License-Identifier: Apache-2.0
 *
 * Dinic's algorithm: as long as the sink can be reached, label nodes by their distance from the source and push flow along
 * shortest paths until none is left. The nodes that can then still reach the sink are the sink's side of the cut. */
#include "compiler/graph/mincut.h"

#include <string.h>

void samba_network_init(samba_network *n, samba_context *context, int32_t node_count)
{
    *n = (samba_network){.context = context, .node_count = node_count};
    n->first = samba_alloc(context, sizeof(int32_t) * (size_t)node_count);
    n->status = n->first ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    for (int32_t i = 0; i < node_count && n->first; i++)
        n->first[i] = -1;
}

void samba_network_free(samba_network *n)
{
    if (n->first)
        samba_free(n->context, n->first, sizeof(int32_t) * (size_t)n->node_count);
    samba_free(n->context, n->edges, sizeof(samba_edge) * (size_t)n->edge_capacity);
}

static void add_half(samba_network *n, int32_t from, int32_t to, int64_t room)
{
    n->edges[n->edge_count] = (samba_edge){to, n->first[from], room};
    n->first[from] = (int32_t)n->edge_count++;
}

void samba_network_add(samba_network *n, int32_t from, int32_t to, int64_t capacity)
{
    if (n->status == SAMBA_OK)
        n->status = SAMBA_GROW(n->context, n->edges, n->edge_capacity, n->edge_count + 2);
    if (n->status != SAMBA_OK)
        return;
    add_half(n, from, to, capacity < SAMBA_UNCUTTABLE ? capacity : SAMBA_UNCUTTABLE);
    add_half(n, to, from, 0);
}

/* Distances from the source; whether the sink has one. */
static bool label(const samba_network *n, int32_t source, int32_t sink, int32_t *distance, int32_t *queue)
{
    int64_t head = 0, tail = 0;
    memset(distance, -1, sizeof(int32_t) * (size_t)n->node_count);
    distance[source] = 0;
    queue[tail++] = source;
    while (head < tail && distance[sink] < 0) {
        int32_t at = queue[head++];
        for (int32_t e = n->first[at]; e >= 0; e = n->edges[e].next)
            if (n->edges[e].room > 0 && distance[n->edges[e].to] < 0) {
                distance[n->edges[e].to] = distance[at] + 1;
                queue[tail++] = n->edges[e].to;
            }
    }
    return distance[sink] >= 0;
}

/* Pushes flow along ways whose distances rise by one until none is left. next: per node, the edge to try next; way:
 * edges of the way so far */
static void push(samba_network *n, int32_t source, int32_t sink, const int32_t *distance, int32_t *next, int32_t *way)
{
    int32_t at = source, length = 0;
    for (;;) {
        if (at == sink) {
            int64_t flow = SAMBA_UNCUTTABLE;
            int32_t back = 0;
            for (int32_t i = 0; i < length; i++)
                flow = n->edges[way[i]].room < flow ? n->edges[way[i]].room : flow;
            for (int32_t i = length - 1; i >= 0; i--) {
                n->edges[way[i]].room -= flow;
                n->edges[way[i] ^ 1].room += flow;
                if (n->edges[way[i]].room == 0)
                    back = i;
            }
            length = back; /* go on from the first edge that is full */
            at = n->edges[way[back] ^ 1].to;
            continue;
        }
        int32_t e = next[at];
        while (e >= 0 && (n->edges[e].room == 0 || distance[n->edges[e].to] != distance[at] + 1))
            e = n->edges[e].next;
        next[at] = e;
        if (e >= 0) {
            way[length++] = e;
            at = n->edges[e].to;
        } else if (length > 0) { /* no way on from here */
            at = n->edges[way[--length] ^ 1].to;
            next[at] = n->edges[next[at]].next;
        } else {
            return;
        }
    }
}

static void reach_back(const samba_network *n, int32_t sink, uint8_t *sink_side, int32_t *queue)
{
    int64_t head = 0, tail = 0;
    memset(sink_side, 0, (size_t)n->node_count);
    sink_side[sink] = 1;
    queue[tail++] = sink;
    while (head < tail) {
        int32_t at = queue[head++];
        for (int32_t e = n->first[at]; e >= 0; e = n->edges[e].next)
            if (n->edges[e ^ 1].room > 0 && !sink_side[n->edges[e].to]) {
                sink_side[n->edges[e].to] = 1;
                queue[tail++] = n->edges[e].to;
            }
    }
}

samba_status samba_network_cut(samba_network *n, int32_t source, int32_t sink, uint8_t *sink_side)
{
    SAMBA_TRY(n->status);
    size_t bytes = sizeof(int32_t) * (size_t)n->node_count;
    int32_t *work = samba_alloc(n->context, 4 * bytes); /* distances, queue, next edges, way */
    if (!work)
        return SAMBA_ERROR_MEMORY;
    int32_t *distance = work, *queue = work + n->node_count, *next = work + 2 * n->node_count, *way = work + 3 * n->node_count;
    while (label(n, source, sink, distance, queue)) {
        memcpy(next, n->first, bytes);
        push(n, source, sink, distance, next, way);
    }
    reach_back(n, sink, sink_side, queue);
    samba_free(n->context, work, 4 * bytes);
    return SAMBA_OK;
}
