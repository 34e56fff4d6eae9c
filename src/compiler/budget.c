/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory budget: the price of a kept byte (remat.h) is raised until the plan fits. The plan of a price is found by planning:
 * the passes behind this one, up to `memory`, run over a copy of the graph on a compiler of their own, which is thrown away.
 * Prices are powers of two in small steps. For each number of segments the lowest price that fits is found by bisection; of all
 * plans that fit, the one that repeats least is taken. The rest of the budget is spent last: the next lower price holds from some
 * node on, and single values are kept that there is room for.
 *
 * Needs: expanded, simplified graph. Gives: copies of forward nodes in phase BCKWD, as many as the budget wants.
 * Breaks what remat does. */
#include "compiler/graph/remat.h"

#include <math.h>
#include <string.h>

#define LOWEST (-96) /* prices are 2^(step / STEPS) */
#define HIGHEST 384
#define STEPS 24.0
#define MOST_GIFTS 32 /* values that are tried to be kept after all */

typedef struct search {
    samba_compiler *compiler;
    samba_remat *remat;
    int64_t budget, least; /* of all that were tried */
    samba_graph *best;
    samba_remat_price price; /* this and the rest: of the best */
    int64_t bytes;
    double repeated;
    uint8_t *again;
} search;

/* What the plan of `graph` needs. Passes may change the graph that they are given, so they get a copy. */
static samba_status measure(const samba_compiler *c, const samba_graph *graph, int64_t *bytes)
{
    samba_compiler probe = {.context = c->context, .options = c->options, .name = c->name, .traced = c->traced};
    SAMBA_TRY(samba_graph_rewrite(graph, NULL, NULL, &probe.graph));
    samba_arena_init(&probe.arena, c->context);
    samba_plan_init(&probe.plan, c->context);
    samba_status status = samba_try_passes(&probe);
    *bytes = probe.plan.memory_bytes;
    samba_graph_free(probe.graph);
    probe.graph = probe.traced = NULL;
    samba_compiler_release(&probe);
    return status;
}

/* Tries one price; the graph is kept if it fits and repeats less than the best so far. */
static samba_status try(search *s, const samba_remat_price *price, bool *fits)
{
    samba_graph *graph;
    int64_t bytes;
    SAMBA_TRY(samba_remat_rewrite(s->remat, price, &graph));
    samba_status status = measure(s->compiler, graph, &bytes);
    *fits = status == SAMBA_OK && bytes <= s->budget;
    if (status == SAMBA_OK && bytes < s->least)
        s->least = bytes;
    if (*fits && (!s->best || s->remat->repeated < s->repeated)) {
        samba_graph_free(s->best);
        s->best = graph;
        s->bytes = bytes;
        s->repeated = s->remat->repeated;
        s->price = *price;
        memcpy(s->again, s->remat->again, (size_t)s->remat->graph->node_count);
    } else {
        samba_graph_free(graph);
    }
    return status;
}

static samba_remat_price price_of(int step, int64_t segments)
{
    double price = exp2(step / STEPS);
    return (samba_remat_price){.memory = price, .late = price, .segments = segments};
}

static samba_status try_segments(search *s, int64_t segments)
{
    /* the highest price repeats most, but what is repeated early and lives long may take more memory than a lower price does */
    static const int highs[] = {HIGHEST, 168, 144, 120, 96, 72};
    bool fits = false;
    int low = LOWEST, high = HIGHEST; /* high fits, and low need not be tried again */
    for (int i = 0; i < SAMBA_COUNT(highs) && !fits; i++) {
        high = highs[i];
        samba_remat_price price = price_of(high, segments);
        SAMBA_TRY(try(s, &price, &fits));
    }
    if (!fits)
        return SAMBA_OK;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        samba_remat_price price = price_of(middle, segments);
        SAMBA_TRY(try(s, &price, &fits));
        if (fits)
            high = middle;
        else
            low = middle;
    }
    return SAMBA_OK;
}

/* Between the best price and the one below it, which does not fit:
 * the lower one for as many nodes as possible, the last ones first. */
static samba_status find_border(search *s)
{
    samba_remat_price price = s->price;
    int64_t low = 0, high = s->remat->forward_end; /* high fits */
    price.late = price.memory * exp2(-1 / STEPS);
    while (high - low > 1) {
        bool fits;
        price.border = (low + high) / 2;
        SAMBA_TRY(try(s, &price, &fits));
        if (fits)
            high = price.border;
        else
            low = price.border;
    }
    return SAMBA_OK;
}

/* The rest of the budget goes to the dearest values that it has room for, one after the other. */
static samba_status give_back(search *s, uint8_t *kept)
{
    const samba_graph *g = s->remat->graph;
    uint8_t *tried = kept + g->node_count;
    s->price.kept = kept;
    for (int tries = 0; tries < MOST_GIFTS; tries++) {
        double most = 0;
        samba_ref dearest = SAMBA_NONE;
        for (int64_t i = 0; i < s->remat->forward_end; i++) {
            const samba_node *node = samba_node_at(g, (samba_ref)i);
            bool alias = s->remat->forward.access[i].base != i;
            if (!s->again[i] || tried[i] || alias || samba_node_bytes(node) > s->budget - s->bytes ||
                samba_remat_cost(s->remat, &s->price, (samba_ref)i) <= most)
                continue;
            most = samba_remat_cost(s->remat, &s->price, (samba_ref)i);
            dearest = (samba_ref)i;
        }
        if (dearest == SAMBA_NONE)
            break;
        double before = s->repeated;
        samba_remat_price price = s->price;
        bool fits;
        kept[dearest] = tried[dearest] = 1;
        SAMBA_TRY(try(s, &price, &fits));
        kept[dearest] = s->repeated < before;
    }
    return SAMBA_OK;
}

static samba_status find(search *s)
{
    bool fits;
    SAMBA_TRY(try(s, &(samba_remat_price){0}, &fits)); /* nothing to pay for */
    if (fits)
        return SAMBA_OK;
    SAMBA_TRY(try_segments(s, 0));
    for (int64_t segments = 2; segments / 2 <= s->remat->contractions; segments *= 2)
        SAMBA_TRY(try_segments(s, segments));
    if (!s->best)
        return samba_fail(s->compiler->context, SAMBA_ERROR_ARGUMENT,
                          "compile: a memory budget of %lld byte%s cannot be met: the least found for model '%s' is %lld bytes, "
                          "parameters, gradients and optimizer state included; give that much, or a smaller batch",
                          (long long)s->budget, s->budget == 1 ? "" : "s", s->compiler->name, (long long)s->least);
    SAMBA_TRY(find_border(s));
    uint8_t *kept;
    SAMBA_TRY(SAMBA_ROOM(&s->remat->forward.arena, kept, 2 * s->remat->graph->node_count));
    return give_back(s, kept);
}

/* The graph that fits with the least repeated work. */
static samba_status fit(samba_compiler *c, samba_remat *remat, samba_graph **graph)
{
    search s = {.compiler = c, .remat = remat, .budget = c->options->memory_budget, .least = INT64_MAX};
    SAMBA_TRY(SAMBA_ROOM(&remat->forward.arena, s.again, remat->graph->node_count + 1));
    samba_status status = find(&s);
    if (status == SAMBA_OK)
        *graph = s.best;
    else
        samba_graph_free(s.best);
    return status;
}

samba_status samba_pass_budget(samba_compiler *c)
{
    samba_remat remat;
    samba_graph *out = NULL;
    if (c->options->inference || c->options->memory_budget == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_remat_begin(&remat, c->context, c->graph));
    samba_status status = fit(c, &remat, &out);
    samba_remat_end(&remat);
    if (status == SAMBA_OK)
        samba_compiler_take_graph(c, out);
    return status;
}
