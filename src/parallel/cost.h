/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of an exchange (exchange.c), by the model of latency and bandwidth (alpha-beta), with an overhead a message and a
 * rate of summing: docs/scaling.md has the formulas and where they come from. Pure functions of numbers, and a measurement of the
 * numbers between the replicas of a launch. */
#ifndef SAMBA_COST_H
#define SAMBA_COST_H

#include "parallel/replicas.h"

typedef struct samba_network_cost {
    double bandwidth; /* bytes a second of one replica, so many in and as many out at once */
    double latency;   /* seconds from one replica to another */
    double overhead;  /* seconds that a replica works for each message that it sends or receives */
    double sum_rate;  /* bytes a second that one thread reads while it sums */
    double processor; /* the share of the processors that an exchange under way takes from sections: 0 to below 1 */
    double beside;    /* the share of its speed that an exchange keeps while sections run: above 0, to 1 */
} samba_network_cost;

typedef struct samba_exchange_how {
    int replicas;
    bool scatter, gather; /* the halves of an exchange: parts to those that sum them; means to all */
    bool thread;          /* a thread drives it, which sleeps between two looks */
} samba_exchange_how;

typedef struct samba_exchange_seconds { /* seconds of a range; what follows it may begin before it ends */
    double occupies;                    /* the network, or the thread that drives it, whichever is longer */
    double behind;                      /* from then on, until the last bytes are there */
} samba_exchange_seconds;
/* Of `bytes` bytes; nothing where there is one replica. */
samba_exchange_seconds samba_exchange_cost(const samba_network_cost *network, const samba_exchange_how *how, double bytes);
/* The least that any algorithm takes by which all replicas get the sum: 2 (N - 1) / N of the bytes through each one's link. */
double samba_exchange_bound(const samba_network_cost *network, int replicas, double bytes);

/* measure.c: the network between the replicas of this launch, the mean of what all measured; every one calls it, while nothing
 * else runs: `processor` is the time of this process meanwhile, `beside` is 1. Takes about two seconds. ARGUMENT where there is
 * one replica. */
samba_status samba_network_measure(samba_context *context, const samba_world *world, samba_network_cost *network);
/* Bytes a second of this replica, out and in at once, for about so many seconds; every replica calls it, with other things at
 * work as the caller likes. No other thread may use the network meanwhile. */
samba_status samba_network_stream(samba_context *context, const samba_world *world, double seconds, double *bandwidth);

#endif
