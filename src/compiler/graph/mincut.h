/* SPDX-License-Identifier: Apache-2.0
 *
 * The cheapest cut of a network that separates `sink` from `source` (Dinic: "Algorithm for solution of a problem of maximum
 * flow", 1970). Of several the one nearest to the sink. */
#ifndef SAMBA_MINCUT_H
#define SAMBA_MINCUT_H

#include "base/base.h"

#define SAMBA_UNCUTTABLE (INT64_MAX / 8)

typedef struct samba_edge { /* edge e and its reverse e ^ 1 */
    int32_t to, next;       /* next: of the edges that leave the same node; -1 ends */
    int64_t room;
} samba_edge;

typedef struct samba_network {
    samba_context *context;
    int32_t node_count;
    int32_t *first; /* per node */
    samba_edge *edges;
    int64_t edge_count, edge_capacity;
    samba_status status; /* sticky */
} samba_network;

void samba_network_init(samba_network *network, samba_context *context, int32_t node_count);
void samba_network_free(samba_network *network);
void samba_network_add(samba_network *network, int32_t from, int32_t to, int64_t capacity);
/* sink_side[i]: node i is cut off from the source. The network's capacities are used up. */
samba_status samba_network_cut(samba_network *network, int32_t source, int32_t sink, uint8_t *sink_side);

#endif
