/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges between replicas without a session: random ranges, in each way, begun one after the other while a thread goes on
 * with them and waited for in a random order, or run at once. Each replica gives numbers that all know, and what has to come of
 * them is known to the last bit. Small enough for ThreadSanitizer and valgrind.
 *
 *   launch 2 test_exchange ROUNDS */
#include "parallel/replicas.h"

#include "../seed.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1500 };

static samba_context *context;
static const samba_world *world;
static uint64_t seed;

static void need(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "test_exchange, seed %llu: %s\n", (unsigned long long)seed, samba_error_message(context));
    exit(1);
}

static float given(int round, int range, int rank, int64_t at)
{
    uint64_t state = seed + (uint64_t)(round * MOST + range) * 1000003 + (uint64_t)rank * 7919 + (uint64_t)at * 104729;
    return (float)((double)(next_seed(&state) >> 11) / 9007199254740992.0 - 0.5);
}

/* The replica whose part an element is of. */
static int owner_of(int64_t count, int64_t at)
{
    int rank = 0;
    while (at >= samba_part_begin(count, rank + 1, world->replicas.size))
        rank++;
    return rank;
}

static float expected(const samba_exchange_range *range, int round, int number, int64_t at)
{
    const int owner = owner_of(range->count, at);
    float sum = given(round, number, 0, at);
    if (range->way == SAMBA_EXCHANGE_GATHER)
        return given(round, number, owner, at);
    if (range->way == SAMBA_EXCHANGE_SCATTER && owner != world->replicas.rank)
        return given(round, number, world->replicas.rank, at);
    for (int rank = 1; rank < world->replicas.size; rank++)
        sum += given(round, number, rank, at);
    return sum / (float)world->replicas.size;
}

static void check(const samba_exchange_range *range, int round, int number)
{
    for (int64_t i = 0; i < range->count; i++) {
        const float found = ((float *)(void *)range->data)[i], wanted = expected(range, round, number, i);
        if (found == wanted)
            continue;
        fprintf(stderr, "test_exchange, seed %llu: round %d, range %d of %lld, way %d: element %lld is %.9g, expected %.9g\n",
                (unsigned long long)seed, round, number, (long long)range->count, (int)range->way, (long long)i, (double)found,
                (double)wanted);
        exit(1);
    }
}

static void try_round(int round, uint64_t *state)
{
    static samba_exchange_range ranges[MOST];
    samba_exchange *exchange;
    const bool many = next_seed(state) % 4 == 0, reuse = next_seed(state) % 2;
    const int count = many ? 1100 + (int)(next_seed(state) % 300) : 1 + (int)(next_seed(state) % 12);
    int checked = 0;
    need(samba_exchange_new(context, world, false, &exchange));
    for (int i = 0; i < count; i++) {
        const int64_t size = many                        ? 1 + (int64_t)(next_seed(state) % 40)
                             : next_seed(state) % 3 == 0 ? (1 << 18) + (int64_t)(next_seed(state) % 5) - 2
                                                         : 1 + (int64_t)(next_seed(state) % 700000);
        float *data = malloc((size_t)size * sizeof *data);
        if (!data)
            exit(1);
        ranges[i] = (samba_exchange_range){
            .data = (char *)data, .dtype = SAMBA_FLOAT32, .count = size, .way = (samba_exchange_way)(next_seed(state) % 3)};
        for (int64_t k = 0; k < size; k++)
            data[k] = given(round, i, world->replicas.rank, k);
        if (reuse && next_seed(state) % 8 == 0) {
            need(samba_exchange_run(exchange, &ranges[i]));
            checked = i + 1;
            continue;
        }
        need(samba_exchange_begin(exchange, &ranges[i]));
        if (next_seed(state) % 5 == 0) { /* some of those before, which may be read then, while others go on */
            const int until = (int)(next_seed(state) % (uint64_t)(i + 1)) + 1;
            need(samba_exchange_wait(exchange, until));
            for (; checked < until; checked++)
                check(&ranges[checked], round, checked);
        }
    }
    need(samba_exchange_wait(exchange, -1));
    for (int i = 0; i < count; i++) {
        check(&ranges[i], round, i);
        free(ranges[i].data);
    }
    samba_exchange_free(exchange);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 10;
    seed = random_seed();
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    need(samba_world_find(context, &world));
    need(samba_world_broadcast(context, world, &seed, sizeof seed, 0));
    uint64_t state = seed;
    for (int round = 0; round < rounds; round++)
        try_round(round, &state);
    if (world->replicas.rank == 0)
        printf("seed %llu: %d rounds, %d replicas, %s: means to the last bit\n", (unsigned long long)seed, rounds,
               world->replicas.size, world->replicas.network);
    samba_context_free(context);
    return 0;
}
