/* SPDX-License-Identifier: Apache-2.0
 *
 * Minimum cuts against all cuts there are: random networks of a few nodes; of equal cuts the one nearest the sink. */
#include "harness.h"
#include "compiler/graph/mincut.h"
#include "failing_allocator.h"

#define NODES 9
#define NETWORKS 3000

typedef struct edge {
    int from, to;
    int64_t capacity;
} edge;

static int make_edges(int nodes, edge *edges)
{
    int count = draw_below(3 * nodes);
    for (int i = 0; i < count; i++)
        edges[i] = (edge){draw_below(nodes), draw_below(nodes), draw_below(10) == 0 ? SAMBA_UNCUTTABLE : draw_below(6)};
    return count;
}

/* What a side of the sink, a bit a node, costs. */
static int64_t cost(int count, const edge *edges, unsigned sink_side)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        if (!(sink_side >> edges[i].from & 1) && (sink_side >> edges[i].to & 1))
            sum += edges[i].capacity;
    return sum;
}

TEST(cheapest)
{
    seed_anew();
    for (int number = 0; number < NETWORKS; number++) {
        edge edges[3 * NODES];
        int nodes = 2 + number % (NODES - 1), count = make_edges(nodes, edges);
        samba_network network;
        samba_network_init(&network, context, nodes);
        for (int i = 0; i < count; i++)
            samba_network_add(&network, edges[i].from, edges[i].to, edges[i].capacity);
        uint8_t sink_side[NODES];
        need(samba_network_cut(&network, 0, nodes - 1, sink_side));
        samba_network_free(&network);
        unsigned given = 0;
        for (int i = 0; i < nodes; i++)
            given |= (unsigned)sink_side[i] << i;
        int64_t best = INT64_MAX;
        unsigned nearest = ~0u;                                                  /* what all cheapest cuts share */
        for (unsigned side = 1u << (nodes - 1); side < 1u << nodes; side += 2) { /* with the sink, without the source */
            int64_t sum = cost(count, edges, side);
            nearest = sum < best ? side : sum == best ? nearest & side : nearest;
            best = sum < best ? sum : best;
        }
        if (best < SAMBA_UNCUTTABLE && (cost(count, edges, given) != best || given != nearest || (given & 1)))
            fail_msg("network %d: a cut of %lld, the best is %lld", number, (long long)cost(count, edges, given),
                     (long long)best);
    }
}

static samba_status cut_one(samba_context *refusing, void *user)
{
    (void)user;
    samba_network network;
    uint8_t sink_side[4];
    samba_network_init(&network, refusing, 4);
    for (int i = 0; i < 3; i++)
        samba_network_add(&network, i, i + 1, 3 - i);
    samba_status status = samba_network_cut(&network, 0, 3, sink_side);
    samba_network_free(&network);
    return status;
}

TEST(no_memory) { fail_each_allocation(cut_one, NULL); }

TEST_MAIN(cheapest, no_memory)
