/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a graph against differences. The graph is made again with float64 for every float, its inputs get values that
 * are no round numbers, and the reference evaluates it at small steps to both sides along random directions. What gradients say
 * of a direction must be what the differences tend to as steps shrink. Where they tend to nothing - a kink or a jump lies between
 * - the direction is left out and counted.
 *
 * No direction goes into what torch gives no gradient to: running statistics, rates of dropout. What stands behind detach stays
 * as it is at the middle. */
#include "fuzz.h"

#include <sambaflow/function.h>

#define DIRECTIONS 2
#define STEP 0x1p-12
#define FINER 1024 /* steps of the least difference in one */

samba_graph *fuzz_gradient(const samba_graph *graph, samba_status *status)
{
    const char *names[FUZZ_LEAVES];
    int count = 0;
    bool any = false;
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == SAMBA_OP_input && samba_dtype_is_floating_point((samba_dtype)graph->nodes[i].dtype) &&
            count < FUZZ_SINKS)
            names[count++] = samba_graph_name_at(graph, graph->nodes[i].attrs->leaf.name);
    for (int64_t s = 0; s < graph->sink_count; s++)
        any = any || samba_dtype_is_floating_point((samba_dtype)samba_node_at(graph, graph->sinks[s].value)->dtype);
    samba_graph *gradient = NULL;
    *status = any && count > 0 ? samba_graph_gradient(graph, count, names, &gradient) : SAMBA_OK;
    return gradient;
}

/* ---- the graph in float64 ---- */
static void widen(int64_t *dtype)
{
    if (samba_dtype_is_floating_point((samba_dtype)*dtype))
        *dtype = SAMBA_FLOAT64;
}

static samba_ref wide_literal(samba_graph *out, const samba_graph *in, const samba_node *node)
{
    samba_array narrow = {
        (samba_dtype)node->dtype, node->rank, {0}, node_numel(node), samba_graph_blob_at(in, node->attrs->literal.data)->data};
    samba_blob *wide = samba_blob_new(out->context, narrow.numel * (int64_t)sizeof(double));
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    for (int64_t i = 0; wide && i < narrow.numel; i++) {
        double value = value_at(&narrow, i);
        memcpy(wide->data + (size_t)i * sizeof value, &value, sizeof value);
    }
    if (wide)
        samba_blob_seal(wide);
    attrs.literal = node->attrs->literal;
    attrs.literal.data = samba_graph_blob(out, wide);
    attrs.literal.dtype = SAMBA_FLOAT64;
    samba_blob_drop(wide);
    return samba_emit(out, SAMBA_OP_literal, 0, NULL, &attrs);
}

static samba_ref wide(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    samba_graph *out = rewriter->out;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_attrs attrs;
    bool floating = samba_dtype_is_floating_point((samba_dtype)node->dtype);
    memset(&attrs, 0, sizeof attrs);
    memcpy(&attrs, node->attrs, samba_attrs_table[samba_ops[node->op].attrs].size);
    switch (node->op) {
    case SAMBA_OP_input:
        attrs.leaf.name = samba_graph_intern(out, samba_graph_name_at(rewriter->in, attrs.leaf.name));
        widen(&attrs.leaf.dtype);
        return samba_emit(out, SAMBA_OP_input, 0, NULL, &attrs);
    case SAMBA_OP_constant: widen(&attrs.constant.dtype); return samba_emit(out, SAMBA_OP_constant, 0, NULL, &attrs);
    case SAMBA_OP_iota: widen(&attrs.iota.dtype); return samba_emit(out, SAMBA_OP_iota, 0, NULL, &attrs);
    case SAMBA_OP_literal: return floating ? wide_literal(out, rewriter->in, node) : samba_rewrite_copy(rewriter, ref, inputs);
    case SAMBA_OP_cast: return samba_emit_cast(out, inputs[0], floating ? SAMBA_FLOAT64 : (samba_dtype)node->dtype);
    case SAMBA_OP_random: return samba_emit_cast(out, samba_rewrite_copy(rewriter, ref, inputs), SAMBA_FLOAT64);
    default: return samba_rewrite_copy(rewriter, ref, inputs);
    }
}

/* ---- detach: a number, for differences ---- */
static samba_ref frozen(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(rewriter->in, ref);
    if (node->op != SAMBA_OP_detach)
        return samba_rewrite_copy(rewriter, ref, inputs);
    char name[40];
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    snprintf(name, sizeof name, "detached%u", (unsigned)ref);
    attrs.leaf.name = samba_graph_intern(rewriter->out, name);
    attrs.leaf.dtype = node->dtype;
    attrs.leaf.shape.count = node->rank;
    memcpy(attrs.leaf.shape.at, node->shape, sizeof node->shape);
    return samba_emit(rewriter->out, SAMBA_OP_input, 0, NULL, &attrs);
}

/* ---- one graph's differences ---- */
typedef struct slopes {
    const samba_graph *graph; /* float64 */
    samba_graph *still;       /* without detach */
    samba_arena arena;
    fuzz_values middle;             /* of `still`: those of `graph`, then what was detached */
    int own;                        /* so many are of `graph` */
    bool *fixed;                    /* per value: no direction goes there */
    samba_array starts[FUZZ_SINKS]; /* gradients of the outputs */
    double **direction;
    uint64_t state;
} slopes;

static double uniform(uint64_t *state) { return (double)(int64_t)(next_seed(state) >> 11) * 0x1p-52 - 1; } /* -1 to 1 */

static samba_array like(slopes *s, const samba_node *node)
{
    samba_array array = {(samba_dtype)node->dtype, node->rank, {0}, node_numel(node), NULL};
    memcpy(array.shape, node->shape, sizeof array.shape);
    array.data = samba_arena_alloc(&s->arena, (size_t)array.numel * samba_dtype_size(array.dtype) + 1);
    return array;
}

/* Inputs that reach what torch gives no gradient to. */
static void fix(slopes *s)
{
    const samba_graph *graph = s->graph;
    bool *reached = calloc((size_t)graph->node_count + 1, sizeof *reached);
    for (int64_t i = graph->node_count - 1; i >= 0 && reached; i--) {
        const samba_node *node = &graph->nodes[i];
        bool attention = node->op == SAMBA_OP_attention && node->attrs->attention.dropout;
        bool batch_norm = node->op == SAMBA_OP_batch_norm || node->op == SAMBA_OP_sync_batch_norm;
        int from = batch_norm ? 3 : node->op == SAMBA_OP_dropout ? 1 : attention ? node->arity - 2 : node->arity;
        for (int k = 0; k < node->arity; k++)
            reached[node->inputs[k]] |= reached[i] || k >= from;
    }
    for (int i = 0; i < s->own && reached; i++)
        s->fixed[i] = reached[samba_graph_leaf(graph, s->middle.names[i])] || s->middle.names[i][0] == FUZZ_MODE ||
                      !samba_dtype_is_floating_point(s->middle.arrays[i].dtype);
    for (int i = s->own; i < s->middle.count; i++)
        s->fixed[i] = true;
    free(reached);
}

/* Values that are no eighths, the same sign. */
static void unround(slopes *s, samba_array *array, const char *name)
{
    if (!samba_dtype_is_floating_point(array->dtype) || strchr("mi", name[0]))
        return;
    for (int64_t i = 0; i < array->numel; i++)
        ((double *)array->data)[i] += uniform(&s->state) / 17;
}

static samba_status begin(slopes *s)
{
    samba_graph *probe = NULL;
    samba_array detached[FUZZ_SINKS];
    SAMBA_TRY(samba_graph_rewrite(s->graph, frozen, NULL, &s->still));
    SAMBA_TRY(fuzz_inputs(s->graph, &s->arena, &s->middle));
    s->own = s->middle.count;
    for (int i = 0; i < s->own; i++)
        unround(s, &s->middle.arrays[i], s->middle.names[i]);
    SAMBA_TRY(samba_graph_rewrite(s->graph, NULL, NULL, &probe));
    probe->sink_count = 0;
    samba_status status = SAMBA_OK;
    const char *names[FUZZ_SINKS];
    /* the rewritten graph has the same nodes but for dead ones, whose detach is in no one's way */
    for (int64_t i = 0; i < s->graph->node_count && status == SAMBA_OK; i++) {
        char name[40];
        snprintf(name, sizeof name, "detached%u", (unsigned)i);
        if (s->graph->nodes[i].op != SAMBA_OP_detach || !samba_graph_has_input(s->still, name))
            continue;
        if (probe->sink_count == FUZZ_SINKS || s->own + probe->sink_count >= FUZZ_LEAVES)
            status = SAMBA_ERROR_UNSUPPORTED;
        else {
            names[probe->sink_count] =
                samba_graph_name_at(s->still, samba_node_at(s->still, samba_graph_leaf(s->still, name))->attrs->leaf.name);
            samba_graph_sink(
                probe, (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_FWD, samba_graph_intern(probe, name), SAMBA_NONE, (samba_ref)i});
        }
    }
    if (status == SAMBA_OK)
        status = probe->status;
    if (status == SAMBA_OK && probe->sink_count > 0)
        status = samba_graph_evaluate(probe, s->own, s->middle.names, s->middle.arrays, &s->arena, detached);
    fuzz_values all = {s->own, samba_arena_alloc(&s->arena, sizeof(char *) * FUZZ_LEAVES * 2),
                       samba_arena_alloc(&s->arena, sizeof(samba_array) * FUZZ_LEAVES * 2), false};
    if (status == SAMBA_OK && all.names && all.arrays) {
        for (int i = 0; i < s->own; i++) {
            all.names[i] = s->middle.names[i];
            all.arrays[i] = s->middle.arrays[i];
        }
        for (int64_t k = 0; k < probe->sink_count; k++) {
            all.names[all.count] = names[k];
            all.arrays[all.count++] = detached[k];
        }
        s->middle = all;
        s->fixed = samba_arena_alloc(&s->arena, sizeof(bool) * FUZZ_LEAVES * 2);
        s->direction = samba_arena_alloc(&s->arena, sizeof(double *) * FUZZ_LEAVES * 2);
        fix(s);
    }
    samba_graph_free(probe);
    return status;
}

/* The sum of outputs times their gradients, at a step along the direction; *magnitude is that of its terms. */
static samba_status value_of(slopes *s, double step, double *value, double *magnitude)
{
    samba_arena arena;
    samba_array at[2 * FUZZ_LEAVES], found[FUZZ_SINKS];
    samba_arena_init(&arena, s->graph->context);
    samba_status status = SAMBA_OK;
    for (int i = 0; i < s->middle.count && status == SAMBA_OK; i++) {
        at[i] = s->middle.arrays[i];
        if (s->fixed[i] || step == 0)
            continue;
        at[i].data = samba_arena_alloc(&arena, (size_t)at[i].numel * 8 + 8);
        status = at[i].data ? SAMBA_OK : SAMBA_ERROR_MEMORY;
        for (int64_t k = 0; k < at[i].numel && status == SAMBA_OK; k++)
            ((double *)at[i].data)[k] = ((double *)s->middle.arrays[i].data)[k] + step * s->direction[i][k];
    }
    if (status == SAMBA_OK)
        status = samba_graph_evaluate(s->still, s->middle.count, s->middle.names, at, &arena, found);
    *value = *magnitude = 0;
    for (int64_t k = 0; k < s->still->sink_count && status == SAMBA_OK; k++)
        for (int64_t i = 0; i < found[k].numel && samba_dtype_is_floating_point(found[k].dtype); i++) {
            double term = ((double *)found[k].data)[i] * ((double *)s->starts[k].data)[i];
            *value += term;
            *magnitude += fabs(term);
        }
    samba_arena_free(&arena);
    return status;
}

static void aim(slopes *s)
{
    for (int i = 0; i < s->middle.count; i++) {
        if (s->fixed[i])
            continue;
        s->direction[i] = samba_arena_alloc(&s->arena, (size_t)s->middle.arrays[i].numel * 8 + 8);
        for (int64_t k = 0; k < s->middle.arrays[i].numel; k++)
            s->direction[i][k] = uniform(&s->state);
    }
}

/* Differences at a step, and at half of it. */
typedef struct differences {
    double wide, narrow, bend, narrow_bend, magnitude; /* to both sides; how much the two sides differ */
} differences;

static samba_status differ(slopes *s, double middle, differences *d)
{
    double ahead, behind, near_ahead, near_behind, m[4];
    SAMBA_TRY(value_of(s, STEP, &ahead, &m[0]));
    SAMBA_TRY(value_of(s, -STEP, &behind, &m[1]));
    SAMBA_TRY(value_of(s, STEP / 2, &near_ahead, &m[2]));
    SAMBA_TRY(value_of(s, -STEP / 2, &near_behind, &m[3]));
    d->wide = (ahead - behind) / (2 * STEP);
    d->narrow = (near_ahead - near_behind) / STEP;
    d->bend = (ahead - 2 * middle + behind) / STEP;
    d->narrow_bend = (near_ahead - 2 * middle + near_behind) / (STEP / 2);
    d->magnitude = fmax(fmax(m[0], m[1]), fmax(m[2], m[3]));
    return SAMBA_OK;
}

/* Is every value on the way a number, and no slope infinite beside it? */
static bool all_finite(slopes *s)
{
    static const char *const steep[] = {"entr", "sqrt", "pow", "asin", "acos", "acosh", "atan2", "hypot"};
    for (int64_t i = 0; i < s->graph->node_count; i++)
        for (int k = 0; k < SAMBA_COUNT(steep); k++)
            if (strcmp(samba_ops[s->graph->nodes[i].op].name, steep[k]) == 0)
                return false;
    samba_graph *probe;
    samba_arena arena;
    if (samba_graph_rewrite(s->graph, NULL, NULL, &probe) != SAMBA_OK)
        return false;
    samba_arena_init(&arena, probe->context);
    samba_array *found = samba_arena_alloc(&arena, sizeof *found * (size_t)(probe->node_count + 1));
    probe->sink_count = 0;
    for (int64_t i = 0; i < probe->node_count; i++) {
        char name[40];
        snprintf(name, sizeof name, "node %lld", (long long)i);
        samba_graph_sink(probe,
                         (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_FWD, samba_graph_intern(probe, name), SAMBA_NONE, (samba_ref)i});
    }
    bool finite = found && probe->status == SAMBA_OK &&
                  samba_graph_evaluate(probe, s->own, s->middle.names, s->middle.arrays, &arena, found) == SAMBA_OK;
    for (int64_t k = 0; k < probe->sink_count && finite; k++)
        for (int64_t i = 0; i < found[k].numel && finite; i++)
            finite = isfinite(value_at(&found[k], i)) || probe->nodes[probe->sinks[k].value].op == SAMBA_OP_constant;
    samba_graph_free(probe);
    samba_arena_free(&arena);
    return finite;
}

/* Jumps that follow one another evenly, as those of remainder beside a small divisor, look like a slope at a step and its half.
 * A slope is one at a far finer step too. */
static bool is_slope(slopes *s, double slope, double allowed)
{
    double ahead, behind, m[2];
    return value_of(s, STEP / FINER, &ahead, &m[0]) == SAMBA_OK && value_of(s, -STEP / FINER, &behind, &m[1]) == SAMBA_OK &&
           fabs((ahead - behind) / (2 * STEP / FINER) - slope) <= allowed;
}

static fuzz_verdict compare(slopes *s, const samba_array *gradients, double middle, fuzz_report *report)
{
    double slope = 0, size = 0;
    differences d;
    aim(s);
    for (int i = 0, g = 0; i < s->own; i++) {
        if (!samba_dtype_is_floating_point(s->middle.arrays[i].dtype))
            continue;
        for (int64_t k = 0; k < gradients[g].numel && !s->fixed[i]; k++) {
            double term = ((double *)gradients[g].data)[k] * s->direction[i][k];
            slope += term;
            size += fabs(term);
        }
        g++;
    }
    bool differs = isfinite(middle) && differ(s, middle, &d) == SAMBA_OK && isfinite(d.wide) && isfinite(d.narrow);
    if (differs && !isfinite(slope) && all_finite(s))
        return fuzz_wrong(report, -1, "gradient in float64",
                          "along a direction it is %g, differences give %.12g, and all values on the way are finite", slope,
                          d.wide);
    if (!differs || !isfinite(slope)) { /* infinities that are cut off again have gradients of NaN, in PyTorch too */
        fuzz_count.skipped++;
        return FUZZ_RIGHT;
    }
    double best = (4 * d.narrow - d.wide) / 3, apart = fabs(d.wide - d.narrow);
    double scale = fmax(fmax(isfinite(size) ? size : 0, fabs(best)), 1e-3), noise = 0x1p-52 * d.magnitude / STEP;
    double allowed = 1e-6 * scale + 8 * apart + 1e4 * noise;
    /* x and its detached copy are equal, so abs(x - copy) or their maximum may have its kink just here, both sides alike */
    const bool tied = s->middle.count > s->own;
    /* of what is smooth the half step's is half */
    bool kink = fabs(d.narrow_bend) > 0.7 * fabs(d.bend) && fabs(d.narrow_bend) > allowed / 4;
    if (apart > 1e-4 * scale || kink || (tied && fabs(slope - best) > allowed)) {
        fuzz_count.skipped++;
        return FUZZ_RIGHT;
    }
    bool agrees = fabs(slope - best) <= allowed;
    if (!agrees && !is_slope(s, best, allowed + 1e4 * noise * FINER)) {
        fuzz_count.skipped++;
        return FUZZ_RIGHT;
    }
    fuzz_count.directions++;
    fuzz_count.flat += best == 0;
    report->checked++;
    if (agrees)
        return FUZZ_RIGHT;
    return fuzz_wrong(report, -1, "gradient in float64",
                      "along a direction it is %.12g, differences give %.12g and %.12g, so %.12g, allowed to differ by %.3g",
                      slope, d.wide, d.narrow, best, allowed);
}

static fuzz_verdict check_wide(const samba_graph *graph, const samba_graph *gradient, fuzz_report *report)
{
    slopes s = {.graph = graph, .state = samba_hash(graph->name, strlen(graph->name), 11)};
    fuzz_values given;
    samba_array found[FUZZ_SINKS];
    double middle, magnitude;
    samba_arena_init(&s.arena, graph->context);
    fuzz_verdict verdict = FUZZ_IMPOSSIBLE;
    samba_status status = begin(&s);
    for (int64_t k = 0; k < graph->sink_count && status == SAMBA_OK; k++) {
        s.starts[k] = like(&s, samba_node_at(graph, graph->sinks[k].value));
        for (int64_t i = 0; i < s.starts[k].numel && s.starts[k].dtype == SAMBA_FLOAT64; i++)
            ((double *)s.starts[k].data)[i] = uniform(&s.state);
    }
    if (status == SAMBA_OK)
        status = fuzz_inputs(gradient, &s.arena, &given);
    for (int i = 0; i < given.count && status == SAMBA_OK; i++) { /* the same values, and the outputs' gradients */
        for (int k = 0; k < s.own; k++)
            if (strcmp(s.middle.names[k], given.names[i]) == 0)
                given.arrays[i].data = s.middle.arrays[k].data;
        for (int64_t k = 0; k < graph->sink_count; k++) {
            const char *name = samba_graph_name_at(graph, graph->sinks[k].name);
            size_t length = strlen(name);
            if (strncmp(given.names[i], name, length) == 0 && strcmp(given.names[i] + length, ".grad") == 0)
                given.arrays[i].data = s.starts[k].data;
        }
    }
    if (status == SAMBA_OK &&
        samba_graph_evaluate(gradient, given.count, given.names, given.arrays, &s.arena, found) == SAMBA_OK &&
        value_of(&s, 0, &middle, &magnitude) == SAMBA_OK) {
        verdict = FUZZ_RIGHT;
        for (int i = 0; i < DIRECTIONS && verdict == FUZZ_RIGHT; i++)
            verdict = compare(&s, found, middle, report);
    }
    samba_graph_free(s.still);
    samba_arena_free(&s.arena);
    return verdict;
}

fuzz_verdict fuzz_check_slopes(const samba_graph *graph, fuzz_report *report)
{
    samba_graph *broad = NULL, *gradient = NULL;
    samba_status status = SAMBA_OK;
    fuzz_verdict verdict = FUZZ_IMPOSSIBLE;
    *report = (fuzz_report){.sink = -1};
    if (graph->sink_count <= FUZZ_SINKS && graph->sink_count > 0 && samba_graph_rewrite(graph, wide, NULL, &broad) == SAMBA_OK) {
        gradient = fuzz_gradient(broad, &status);
        if (gradient && gradient->sink_count <= FUZZ_SINKS)
            verdict = check_wide(broad, gradient, report);
        else if (status == SAMBA_OK || status == SAMBA_ERROR_UNSUPPORTED)
            verdict = FUZZ_RIGHT; /* nothing has a gradient */
    }
    if (verdict == FUZZ_IMPOSSIBLE)
        snprintf(report->what, sizeof report->what, "%s", samba_error_message(graph->context));
    samba_graph_free(gradient);
    samba_graph_free(broad);
    return verdict;
}
