/* SPDX-License-Identifier: Apache-2.0
 *
 * One graph, fused by some instruction set and number of threads (drawn from its name), unfused, and by the reference. What
 * results may differ by is what noise of a few units moves them (unit/noise.h):
 * nothing, where the reference itself rounds nowhere. */
#include "fuzz.h"
#include "device/cpu/kernel.h"

/* The best half of the time, else one that is asked for. */
const char *fuzz_isa(uint64_t draw)
{
    const char *names[SAMBA_ISA_COUNT];
    uint64_t count = 0;
    SAMBA_EACH_ISA (isa)
        names[count++] = samba_isa_names[isa];
    return draw % 2 ? NULL : names[draw / 2 % count];
}

typedef struct checking {
    const samba_graph *graph;
    const fuzz_values *inputs;
    const samba_array *values;
    const double *allowed;
    fuzz_report *report;
} checking;

const char *fuzz_sink_name(const samba_graph *graph, int64_t index)
{
    const samba_sink *sink = &graph->sinks[index];
    return samba_graph_name_at(graph, sink->kind == SAMBA_SINK_ASSIGN ? samba_node_at(graph, sink->target)->attrs->leaf.name
                                                                      : sink->name);
}

/* ---- what is expected ---- */
static bool is_assigned(const samba_graph *graph, const char *name)
{
    for (int64_t s = 0; s < graph->sink_count; s++)
        if (graph->sinks[s].kind == SAMBA_SINK_ASSIGN && strcmp(fuzz_sink_name(graph, s), name) == 0)
            return true;
    return false;
}

/* A copy, each element off by some units in the last place. */
static samba_array off(samba_array a, samba_arena *arena, uint64_t *state)
{
    const size_t width = samba_dtype_size(a.dtype);
    const void *from = a.data;
    a.data = samba_arena_alloc(arena, (size_t)a.numel * width + 1);
    if (!a.data)
        return a;
    for (int64_t i = 0; i < a.numel; i++) {
        double share = (double)(next_seed(state) >> 11) * 0x1p-52 - 1;
        double value = samba_load_double(a.dtype, (const char *)from + (size_t)i * width);
        samba_store_double(a.dtype, (char *)a.data + (size_t)i * width, value * (1 + NOISE_UNITS * epsilon_of(a.dtype) * share));
    }
    return a;
}

static samba_status moved_by(const samba_graph *graph, const fuzz_values *inputs, uint64_t *state, const samba_array *values,
                             double *moves)
{
    samba_graph *moved;
    samba_array near[FUZZ_SINKS];
    samba_arena arena;
    samba_arena_init(&arena, graph->context);
    SAMBA_TRY(noisy_graph(graph, state, false, &moved));
    const char *names[2 * FUZZ_LEAVES];
    samba_array arrays[2 * FUZZ_LEAVES];
    int count = 0;
    for (int i = 0; i < inputs->count; i++) /* what an operator was expanded into may not need all of its operands */
        if (samba_graph_leaf(moved, inputs->names[i]) != SAMBA_NONE) {
            names[count] = inputs->names[i];
            arrays[count] = inputs->arrays[i];
            if (inputs->computed && samba_dtype_is_floating_point(arrays[count].dtype) && is_assigned(graph, names[count])) {
                arrays[count] = off(arrays[count], &arena, state);
                if (!arrays[count].data)
                    return samba_graph_free(moved), samba_arena_free(&arena), SAMBA_ERROR_MEMORY;
            }
            count++;
        }
    samba_status status = samba_graph_evaluate(moved, count, names, arrays, &arena, near);
    for (int64_t s = 0, m = 0; s < graph->sink_count && status == SAMBA_OK; s++, m++) {
        /* a leaf assigned to itself */
        if (m == moved->sink_count || strcmp(fuzz_sink_name(graph, s), fuzz_sink_name(moved, m)) != 0) {
            m--;
            continue;
        }
        for (int64_t i = 0; i < values[s].numel; i++) {
            double from = value_at(&values[s], i), to = value_at(&near[m], i);
            bool same = from == to || (isnan(from) && isnan(to)); /* infinities too */
            /* what a rounding makes infinite or NaN says nothing */
            double move = isfinite(from) && isfinite(to) ? fabs(to - from) : same ? 0 : INFINITY;
            moves[s] = fmax(moves[s], move);
        }
    }
    samba_graph_free(moved);
    samba_arena_free(&arena);
    return status;
}

/* Noise of a few units of a narrow dtype is often rounded away, and then a wide result, of one element perhaps,
 * tells nothing of it. */
static int rounds_for(const samba_graph *graph)
{
    bool wide = false, narrow = false;
    for (int64_t i = 0; i < graph->node_count; i++)
        if (samba_dtype_is_floating_point((samba_dtype)graph->nodes[i].dtype))
            *(graph->nodes[i].dtype == SAMBA_FLOAT64 ? &wide : &narrow) = true;
    return wide && narrow ? 16 : 4;
}

samba_status fuzz_expect(const samba_graph *graph, const fuzz_values *inputs, samba_arena *arena, samba_array *values,
                         double *allowed)
{
    SAMBA_TRY(samba_graph_evaluate(graph, inputs->count, inputs->names, inputs->arrays, arena, values));
    for (int64_t s = 0; s < graph->sink_count; s++)
        allowed[s] = 0;
    uint64_t state = 1;
    for (int round = rounds_for(graph); round > 0; round--)
        SAMBA_TRY(moved_by(graph, inputs, &state, values, allowed));
    const double root = 1 + sqrt(longest_sum(graph));
    for (int64_t s = 0; s < graph->sink_count; s++) {
        double greatest = 0x1p-1; /* inputs are about 1: what is much smaller came of a difference, or of a function's tail */
        for (int64_t i = 0; i < values[s].numel; i++)
            greatest = isfinite(value_at(&values[s], i)) ? fmax(greatest, fabs(value_at(&values[s], i))) : greatest;
        if (samba_dtype_is_floating_point(values[s].dtype)) /* 4: few samples seldom move all one way, as a row's roundings may */
            allowed[s] = root * (4 * allowed[s] + 4 * epsilon_of(values[s].dtype) * greatest);
    }
    return SAMBA_OK;
}

/* ---- running ---- */
fuzz_verdict fuzz_wrong(fuzz_report *report, int64_t sink, const char *how, const char *format, ...)
{
    va_list arguments;
    int used = snprintf(report->what, sizeof report->what, "%s: ", how);
    va_start(arguments, format);
    vsnprintf(report->what + used, sizeof report->what - (size_t)used, format, arguments);
    va_end(arguments);
    report->sink = sink;
    return FUZZ_WRONG;
}

fuzz_verdict fuzz_compare(fuzz_report *report, int64_t sink, const char *name, const samba_array *found,
                          const samba_array *expected, double allowed, const char *how)
{
    for (int64_t i = 0; i < expected->numel; i++) {
        double a = value_at(found, i), b = value_at(expected, i);
        bool same = a == b || (isnan(a) && isnan(b)) || isinf(allowed) || (isfinite(a) && isfinite(b) && fabs(a - b) <= allowed);
        if (!same)
            return fuzz_wrong(report, sink, how,
                              "output \"%s\"[%lld] of %lld is %.9g, the reference gives %.9g, allowed to differ by %.3g", name,
                              (long long)i, (long long)expected->numel, a, b, allowed);
    }
    report->checked += expected->numel;
    report->unstable += isinf(allowed) ? expected->numel : 0;
    return FUZZ_RIGHT;
}

static fuzz_verdict run(checking *c, const samba_function_options *options, const char *how)
{
    samba_context *context = c->graph->context;
    samba_function *function;
    if (samba_function_new(context, c->graph, options, &function) != SAMBA_OK)
        return fuzz_wrong(c->report, -1, how, "compiling: %s", samba_error_message(context));
    samba_array found[FUZZ_SINKS];
    void *given[FUZZ_LEAVES], *results[FUZZ_SINKS];
    samba_arena arena;
    samba_arena_init(&arena, context);
    for (int i = 0; i < c->inputs->count; i++)
        given[i] = c->inputs->arrays[i].data;
    for (int64_t s = 0; s < c->graph->sink_count; s++) {
        size_t bytes = (size_t)c->values[s].numel * samba_dtype_size(c->values[s].dtype);
        found[s] = c->values[s];
        found[s].data = results[s] = samba_arena_alloc(&arena, bytes + 1);
        memset(results[s], 0xa5, bytes + 1);
    }
    fuzz_verdict verdict = FUZZ_RIGHT;
    if (samba_function_run_memory(function, given, results) != SAMBA_OK)
        verdict = fuzz_wrong(c->report, -1, how, "running: %s", samba_error_message(context));
    for (int64_t s = 0; s < c->graph->sink_count && verdict == FUZZ_RIGHT; s++)
        verdict = fuzz_compare(c->report, s, samba_graph_name_at(c->graph, c->graph->sinks[s].name), &found[s], &c->values[s],
                               c->allowed[s], how);
    samba_function_free(function);
    samba_arena_free(&arena);
    return verdict;
}

/* Without training nothing is dropped, whatever the rate: the reference has no such mode. */
bool fuzz_drops(const samba_graph *graph)
{
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        if (node->op == SAMBA_OP_dropout ||
            ((node->op == SAMBA_OP_attention || node->op == SAMBA_OP_attention_grad || node->op == SAMBA_OP_attention_lse) &&
             node->attrs->attention.dropout))
            return true;
    }
    return false;
}

fuzz_verdict fuzz_check(const samba_graph *graph, fuzz_report *report)
{
    samba_arena arena;
    fuzz_values inputs;
    samba_array values[FUZZ_SINKS];
    double allowed[FUZZ_SINKS];
    uint64_t state = samba_hash(graph->name, strlen(graph->name), 7);
    *report = (fuzz_report){.sink = -1};
    if (graph->sink_count > FUZZ_SINKS || graph->sink_count == 0)
        return FUZZ_IMPOSSIBLE;
    samba_arena_init(&arena, graph->context);
    fuzz_verdict verdict = FUZZ_IMPOSSIBLE;
    if (fuzz_inputs(graph, &arena, &inputs) == SAMBA_OK && inputs.count <= FUZZ_LEAVES &&
        fuzz_expect(graph, &inputs, &arena, values, allowed) == SAMBA_OK) {
        checking c = {graph, &inputs, values, allowed, report};
        samba_function_options options = samba_function_defaults();
        options.threads = 1 + (int)(next_seed(&state) % 3);
        options.isa = fuzz_isa(next_seed(&state) >> 8);
        bool train = next_seed(&state) % 2 || fuzz_drops(graph);
        options.train = train;
        char how[64];
        snprintf(how, sizeof how, "fused (%s, %d threads)", options.isa ? options.isa : "best", options.threads);
        verdict = run(&c, &options, how);
        options.unfused = true;
        if (verdict == FUZZ_RIGHT)
            verdict = run(&c, &options, "unfused");
        options = samba_function_defaults();
        options.train = train;
        options.reference = true;
        if (verdict == FUZZ_RIGHT && next_seed(&state) % 4 == 0)
            verdict = run(&c, &options, "function by the reference");
    } else {
        snprintf(report->what, sizeof report->what, "%s", samba_error_message(graph->context));
    }
    samba_arena_free(&arena);
    return verdict;
}
