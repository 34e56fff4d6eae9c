/* SPDX-License-Identifier: Apache-2.0
 *
 * An exchange's seconds. A range is cut into pieces; a piece has up to two swaps, in each of which a replica sends N - 1 messages
 * and receives as many. SAMBA_EXCHANGE_SLOTS pieces are under way at once. So a piece keeps from the next, whichever is longest,
 * the link for its bytes, the driving thread for its messages and sums, or, where latency is long, its slot. */
#include "parallel/cost.h"

typedef struct piece_time {
    double gap, alone; /* seconds until the next may be where this one is; from its beginning to its end */
} piece_time;

static double larger(double a, double b) { return a > b ? a : b; }

static piece_time time_of(const samba_network_cost *n, const samba_exchange_how *how, double bytes)
{
    const double peers = how->replicas - 1, swaps = how->scatter + how->gather;
    const double link = swaps * bytes * peers / how->replicas / n->bandwidth;
    const double driver = swaps * 2 * peers * n->overhead + (how->scatter ? bytes / n->sum_rate : 0);
    const double waits = swaps * (n->latency + (how->thread ? SAMBA_EXCHANGE_NAP : 0));
    const double alone = waits + link + driver;
    return (piece_time){larger(larger(link, driver), alone / SAMBA_EXCHANGE_SLOTS), alone};
}

samba_exchange_seconds samba_exchange_cost(const samba_network_cost *network, const samba_exchange_how *how, double bytes)
{
    if (how->replicas < 2 || bytes <= 0)
        return (samba_exchange_seconds){0, 0};
    const double most = (double)samba_exchange_block(how->replicas) * how->replicas, whole = (double)(int64_t)(bytes / most),
                 rest = bytes - whole * most;
    const piece_time each = time_of(network, how, most), last = rest > 0 ? time_of(network, how, rest) : each;
    const double occupies = whole * each.gap + (rest > 0 ? last.gap : 0);
    return (samba_exchange_seconds){occupies, last.alone - last.gap};
}

double samba_exchange_bound(const samba_network_cost *network, int replicas, double bytes)
{
    return 2 * bytes * (replicas - 1) / replicas / network->bandwidth;
}
