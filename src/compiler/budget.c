/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory budget: the price of a kept byte (remat.h) is raised until what the plan needs fits. What a price leads to is found by planning:
 * fusion, placement, lowering and memory run on a compiler of their own, which is thrown away. Prices are powers of two in small steps; for
 * each number of segments the lowest that fits is looked for by bisection, and of all that fit the one that repeats least is taken. */
#include "compiler/remat.h"

#include <math.h>

#define LOWEST (-96) /* prices are 2^(step / STEPS) */
#define HIGHEST 384
#define STEPS 24.0

typedef struct search {
    samba_compiler *compiler;
    samba_remat *remat;
    int64_t budget, least; /* of all that were tried */
    samba_graph *best;
    double repeated; /* by the best */
} search;

static samba_status plan(samba_compiler *probe)
{
    SAMBA_TRY(samba_pass_fuse(probe));
    SAMBA_TRY(samba_pass_place(probe));
    SAMBA_TRY(samba_pass_lower(probe));
    return samba_pass_memory(probe);
}

/* What the plan of `graph` needs. */
static samba_status measure(const samba_compiler *c, samba_graph *graph, int64_t *bytes)
{
    samba_compiler probe = {.context = c->context, .options = c->options, .name = c->name, .traced = c->traced, .graph = graph};
    samba_arena_init(&probe.arena, c->context);
    samba_plan_init(&probe.plan, c->context);
    samba_status status = plan(&probe);
    *bytes = probe.plan.memory_bytes;
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
        s->repeated = s->remat->repeated;
    } else {
        samba_graph_free(graph);
    }
    return status;
}

static double price_of(int step) { return exp2(step / STEPS); }

static samba_status try_segments(search *s, int64_t segments)
{
    /* the highest price repeats most, but what is repeated early and lives long may take more memory than a lower price does */
    static const int highs[] = {HIGHEST, 168, 144, 120, 96, 72};
    bool fits = false;
    int low = LOWEST, high = HIGHEST; /* high fits, and low need not be tried again */
    for (int i = 0; i < SAMBA_COUNT(highs) && !fits; i++) {
        high = highs[i];
        SAMBA_TRY(try(s, &(samba_remat_price){price_of(high), segments}, &fits));
    }
    if (!fits)
        return SAMBA_OK;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        SAMBA_TRY(try(s, &(samba_remat_price){price_of(middle), segments}, &fits));
        if (fits)
            high = middle;
        else
            low = middle;
    }
    return SAMBA_OK;
}

samba_status samba_remat_fit(samba_compiler *c, samba_remat *remat, samba_graph **graph)
{
    search s = {.compiler = c, .remat = remat, .budget = c->options->memory_budget, .least = INT64_MAX};
    bool fits;
    samba_status status = try(&s, &(samba_remat_price){0, 0}, &fits); /* nothing to pay for */
    if (status == SAMBA_OK && !fits) {
        status = try_segments(&s, 0);
        for (int64_t segments = 2; segments / 2 <= remat->contractions && status == SAMBA_OK; segments *= 2)
            status = try_segments(&s, segments);
    }
    if (status == SAMBA_OK && !s.best)
        status = samba_fail(c->context, SAMBA_ERROR_ARGUMENT,
                            "compile: a memory budget of %lld bytes cannot be met: the least found for model '%s' is %lld bytes, parameters, gradients and optimizer state included; "
                            "give that much, or a smaller batch",
                            (long long)s.budget, c->name, (long long)s.least);
    if (status == SAMBA_OK)
        *graph = s.best;
    else
        samba_graph_free(s.best);
    return status;
}
