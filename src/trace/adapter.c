/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions of tracing that say what happens to parameters and linear layers: which are frozen, which get low-rank adapters. A
 * region knows which of its patterns have matched, since one that never does is a misspelt name. */
#include "trace/trace.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <math.h>
#include <string.h>

samba_freeze_options samba_freeze_defaults(void) { return (samba_freeze_options){.struct_size = sizeof(samba_freeze_options)}; }

samba_lora_options samba_lora_defaults(void)
{
    return (samba_lora_options){.struct_size = sizeof(samba_lora_options), .rank = 8, .alpha = 8};
}

/* ---- patterns ---- */

static samba_status take_patterns(samba_graph *graph, int count, const char *const *patterns, samba_patterns *into)
{
    *into = (samba_patterns){.count = count};
    if (count < 0 || (count > 0 && !patterns))
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "a list of %d patterns is not there", count);
    SAMBA_TRY(SAMBA_ROOM(&graph->arena, into->at, count + 1));
    SAMBA_TRY(SAMBA_ROOM(&graph->arena, into->hit, count + 1));
    for (int i = 0; i < count; i++) {
        char *copy;
        if (!patterns[i] || !patterns[i][0])
            return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "pattern %d is empty", i);
        SAMBA_TRY(samba_arena_copy(&graph->arena, patterns[i], &copy));
        into->at[i] = copy;
    }
    return SAMBA_OK;
}

static bool matches(samba_patterns *patterns, const char *name, bool ends)
{
    bool any = false;
    for (int i = 0; i < patterns->count; i++) {
        const char *pattern = patterns->at[i];
        const size_t length = strlen(name), size = strlen(pattern);
        const bool at_end = ends && length > size && name[length - size - 1] == '.' && strcmp(name + length - size, pattern) == 0;
        if (at_end || samba_match(pattern, name))
            any = patterns->hit[i] = true;
    }
    return any;
}

static void need_hits(samba_graph *graph, const char *call, const char *what, const samba_patterns *patterns)
{
    for (int i = 0; i < patterns->count && graph->status == SAMBA_OK; i++)
        if (!patterns->hit[i])
            samba_graph_fail(graph, SAMBA_ERROR_NAME, "%s: no %s has a name like \"%.200s\"", call, what, patterns->at[i]);
}

/* ---- what is frozen ---- */

static samba_status open_freezing(samba_graph *graph, const samba_freeze_options *given)
{
    samba_freeze_options options = samba_freeze_defaults();
    samba_freezing *region;
    if (given)
        SAMBA_TRY(samba_options_take(graph->context, "samba_freeze_push", given, sizeof options, &options));
    if ((int)options.base < SAMBA_BASE_AS_TRACED || options.base > SAMBA_BASE_INT4)
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "%d is no samba_base", (int)options.base);
    SAMBA_TRY(SAMBA_ROOM(&graph->arena, region, 1));
    *region = (samba_freezing){.outer = graph->freezing, .as_kept = options.as_kept, .base = options.base};
    SAMBA_TRY(take_patterns(graph, options.pattern_count, options.patterns, &region->names));
    SAMBA_TRY(take_patterns(graph, options.except_count, options.excepts, &region->excepts));
    graph->freezing = region;
    return SAMBA_OK;
}

static void stick(samba_graph *graph, const char *call, samba_status status)
{
    if (status == SAMBA_ERROR_MEMORY)
        samba_graph_stick(graph, status);
    else if (status != SAMBA_OK)
        samba_graph_fail(graph, status, "%s: %s", call, samba_error_message(graph->context));
}

void samba_freeze_push(samba_graph *graph, const samba_freeze_options *options)
{
    if (graph && graph->status == SAMBA_OK)
        stick(graph, "samba_freeze_push", open_freezing(graph, options));
}

void samba_freeze_pop(samba_graph *graph)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    const samba_freezing *region = graph->freezing;
    if (!region) {
        samba_graph_fail(graph, SAMBA_ERROR_STATE, "samba_freeze_pop was called more often than samba_freeze_push");
        return;
    }
    need_hits(graph, "samba_freeze_push", "parameter", &region->names);
    need_hits(graph, "samba_freeze_push", "frozen parameter", &region->excepts);
    graph->freezing = region->outer;
}

bool samba_trace_is_frozen(samba_graph *graph, const char *name, samba_base *base)
{
    samba_freezing *region = graph->freezing;
    if (!region || (region->names.count > 0 && !matches(&region->names, name, false)) || matches(&region->excepts, name, false))
        return false;
    *base = region->base;
    return true;
}

/* ---- adapters ---- */

static samba_status open_adapting(samba_graph *graph, const samba_lora_options *given)
{
    samba_lora_options o = samba_lora_defaults();
    samba_adapting *region;
    if (given)
        SAMBA_TRY(samba_options_take(graph->context, "samba_lora_push", given, sizeof o, &o));
    if (o.rank < 1 || !isfinite(o.alpha) || !(o.dropout >= 0 && o.dropout < 1))
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT,
                          "a rank of 1 or more, a finite alpha and 0 <= dropout < 1 are expected, given %lld, %g and %g",
                          (long long)o.rank, o.alpha, o.dropout);
    SAMBA_TRY(SAMBA_ROOM(&graph->arena, region, 1));
    *region = (samba_adapting){.outer = graph->adapting,
                               .rank = o.rank,
                               .factor = o.alpha / (o.rslora ? sqrt((double)o.rank) : (double)o.rank),
                               .dropout = o.dropout,
                               .dora = o.dora};
    SAMBA_TRY(take_patterns(graph, o.target_count, o.targets, &region->targets));
    SAMBA_TRY(take_patterns(graph, o.exclude_count, o.excludes, &region->excludes));
    graph->adapting = region;
    return SAMBA_OK;
}

void samba_lora_push(samba_graph *graph, const samba_lora_options *options)
{
    if (graph && graph->status == SAMBA_OK)
        stick(graph, "samba_lora_push", open_adapting(graph, options));
}

void samba_lora_pop(samba_graph *graph)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    const samba_adapting *region = graph->adapting;
    if (!region) {
        samba_graph_fail(graph, SAMBA_ERROR_STATE, "samba_lora_pop was called more often than samba_lora_push");
        return;
    }
    need_hits(graph, "samba_lora_push", "linear layer", &region->targets);
    need_hits(graph, "samba_lora_push", "linear layer that would get an adapter", &region->excludes);
    graph->adapting = region->outer;
}

/* Norms of the rows of W + factor B A, (out): of their squares W's own part needs no gradient, and none passes at all. */
static samba_value row_norms(samba_value weight, samba_value a, samba_value b, double factor)
{
    const int last = -1;
    samba_value change = samba_matmul(b, a);
    change = samba_mul_scalar(change, factor);
    samba_value whole = samba_add(weight, change);
    return samba_detach(samba_vector_norm(whole, 2, 1, &last, false));
}

/* magnitude / norm times what W and the adapter give; the bias stays outside. */
static samba_value scale_rows(samba_value input, samba_value result, samba_value low, samba_value weight, samba_value norms,
                              samba_value bias, bool dropped)
{
    samba_graph *graph = result.graph;
    const int64_t out = samba_value_size(weight, 0);
    const samba_initializer given = {.kind = SAMBA_INIT_NONE};
    samba_value magnitude = samba_parameter(graph, "lora_magnitude_vector", samba_value_dtype(norms), 1, &out, given);
    samba_value scale = samba_div(magnitude, norms), none = {0};
    samba_value base = dropped ? samba_functional_linear(input, weight, none) : bias.graph ? samba_sub(result, bias) : result;
    samba_value more = samba_add_scalar(scale, -1);
    more = samba_mul(more, base);
    samba_value scaled = samba_mul(scale, low);
    return samba_add(result, samba_add(more, scaled));
}

samba_value samba_trace_adapt(samba_value input, samba_value result, samba_value weight, samba_value bias)
{
    samba_graph *graph = result.graph;
    samba_adapting *region = graph ? graph->adapting : NULL;
    if (!region || graph->status != SAMBA_OK)
        return result;
    const char *name = samba_graph_name_at(graph, graph->scope);
    if ((region->targets.count > 0 && !matches(&region->targets, name, true)) || matches(&region->excludes, name, true))
        return result;
    const int64_t out = samba_value_size(weight, 0), in = samba_value_size(weight, 1);
    const double bound = in > 0 ? 1 / sqrt((double)in) : 0; /* kaiming_uniform with a = sqrt(5) */
    const samba_initializer uniform = {SAMBA_INIT_UNIFORM, -bound, bound}, zeros = {SAMBA_INIT_ZEROS, 0, 0};
    const samba_dtype dtype = samba_value_dtype(weight);
    const samba_value none = {0};
    samba_freezing *freezing = graph->freezing;
    graph->freezing = NULL; /* adapters train */
    samba_scope_push(graph, "lora_A");
    samba_value a = samba_parameter(graph, "weight", dtype, 2, (int64_t[]){region->rank, in}, uniform);
    samba_scope_pop(graph);
    samba_scope_push(graph, "lora_B");
    samba_value b = samba_parameter(graph, "weight", dtype, 2, (int64_t[]){out, region->rank}, zeros);
    samba_scope_pop(graph);
    samba_value x = region->dropout > 0 ? samba_dropout(input, "lora_dropout", region->dropout) : input;
    samba_value low = samba_functional_linear(x, a, none);
    low = samba_functional_linear(low, b, none);
    low = samba_mul_scalar(low, region->factor);
    if (region->dora)
        result = scale_rows(x, result, low, weight, row_norms(weight, a, b, region->factor), bias, region->dropout > 0);
    else
        result = samba_add(result, low);
    graph->freezing = freezing;
    return result;
}
