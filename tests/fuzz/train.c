/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph compiled for training. Its inputs become parameters (most, by the graph's name), those with a ".next" become buffers
 * that are assigned, rates, seeds and modes become hyperparameters; some outputs become losses. The compiler makes all phases of
 * it, with whatever options the name draws, and two runs of a session must leave in every output, buffer and gradient what the
 * reference says of the graph that samba_autodiff gives. The second run goes on from what the first left:
 * buffers, and gradients where they accumulate. */
#include "autodiff/autodiff.h"
#include "fuzz.h"

#include <sambaflow/compile.h>
#include <sambaflow/session.h>
#include <unistd.h>

/* ---- a graph that trains ---- */
typedef struct training {
    const samba_graph *in;
    uint64_t state;
} training;

static bool has_next(const samba_graph *graph, const char *name)
{
    size_t length = strlen(name);
    for (int64_t s = 0; s < graph->sink_count; s++) {
        const char *sink = samba_graph_name_at(graph, graph->sinks[s].name);
        if (strncmp(sink, name, length) == 0 && strcmp(sink + length, ".next") == 0)
            return true;
    }
    return false;
}

static samba_ref trained(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    training *t = rewriter->user;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    if (node->op != SAMBA_OP_input)
        return samba_rewrite_copy(rewriter, ref, inputs);
    const char *name = samba_graph_name_at(rewriter->in, node->attrs->leaf.name);
    bool floating = samba_dtype_is_floating_point((samba_dtype)node->dtype), keeps = next_seed(&t->state) % 4 == 0;
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.leaf.name = samba_graph_intern(rewriter->out, name); /* parameter and state begin with the fields of leaf */
    attrs.leaf.dtype = node->dtype;
    attrs.leaf.shape = node->attrs->leaf.shape;
    if (node->rank == 0 && ((node->dtype == SAMBA_FLOAT64 && (name[0] == FUZZ_RATE || name[0] == FUZZ_MODE)) ||
                            (node->dtype == SAMBA_INT64 && name[0] == FUZZ_SEED))) {
        samba_attrs argin;
        memset(&argin, 0, sizeof argin);
        argin.argin.name = attrs.leaf.name;
        argin.argin.dtype = node->dtype;
        argin.argin.role = name[0] == FUZZ_RATE ? 1 : name[0] == FUZZ_SEED ? 2 : 3;
        return samba_emit(rewriter->out, SAMBA_OP_argin, 0, NULL, &argin);
    }
    if (has_next(rewriter->in, name)) {
        attrs.state.kind = SAMBA_KIND_BUFFER;
        return samba_emit(rewriter->out, SAMBA_OP_state, 0, NULL, &attrs);
    }
    return samba_emit(rewriter->out, floating && !keeps ? SAMBA_OP_parameter : SAMBA_OP_input, 0, NULL, &attrs);
}

/* Assignments and losses instead of outputs. */
static void turn_sinks(training *t, samba_graph *graph)
{
    samba_sink sinks[FUZZ_SINKS];
    int64_t count = graph->sink_count, losses = 0;
    memcpy(sinks, graph->sinks, sizeof *sinks * (size_t)count);
    graph->sink_count = 0;
    bool one = next_seed(&t->state) % 2;
    for (int64_t s = 0; s < count; s++) {
        char name[200];
        const char *full = samba_graph_name_at(graph, sinks[s].name), *end = strstr(full, ".next");
        snprintf(name, sizeof name, "%.*s", (int)(end ? end - full : 0), full);
        samba_ref leaf = end ? samba_graph_leaf(graph, name) : SAMBA_NONE;
        bool assigns = leaf != SAMBA_NONE && samba_node_at(graph, leaf)->op == SAMBA_OP_state,
             also = next_seed(&t->state) % 3 == 0;
        if (assigns)
            samba_graph_sink(graph, (samba_sink){SAMBA_SINK_ASSIGN, SAMBA_FWD, 0, leaf, sinks[s].value});
        if (assigns && also) { /* what it was */
            snprintf(name + strlen(name), sizeof name - strlen(name), ".before");
            samba_graph_sink(graph,
                             (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_FWD, samba_graph_intern(graph, name), SAMBA_NONE, leaf});
        }
        bool floating = samba_dtype_is_floating_point((samba_dtype)samba_node_at(graph, sinks[s].value)->dtype);
        bool loses = !end && floating && (losses == 0 || !one);
        losses += loses;
        if (!assigns || next_seed(&t->state) % 3 == 0)
            samba_graph_sink(graph, (samba_sink){loses ? SAMBA_SINK_LOSS : SAMBA_SINK_OUTPUT, SAMBA_FWD, sinks[s].name,
                                                 SAMBA_NONE, sinks[s].value});
    }
}

/* Does a gradient reach a parameter? */
static bool learns(const samba_graph *graph)
{
    samba_graph *gradient = NULL;
    bool any = false;
    if (samba_autodiff(graph, 1, NULL, &gradient) == SAMBA_OK)
        for (int64_t s = 0; s < gradient->sink_count; s++)
            any = any || (gradient->sinks[s].kind == SAMBA_SINK_ASSIGN && gradient->sinks[s].phase == SAMBA_BCKWD);
    samba_graph_free(gradient);
    return any;
}

samba_graph *fuzz_training(const samba_graph *graph)
{
    training t = {graph, samba_hash(graph->name, strlen(graph->name), 13)};
    samba_graph *made = NULL, *pruned = NULL;
    /* a gradient's graph: its outputs have names that parameters' gradients want */
    for (int64_t s = 0; s < graph->sink_count; s++)
        if (strstr(samba_graph_name_at(graph, graph->sinks[s].name), ".grad"))
            return NULL;
    if (graph->sink_count > FUZZ_SINKS / 2 || samba_graph_rewrite(graph, trained, &t, &made) != SAMBA_OK)
        return NULL;
    turn_sinks(&t, made);
    if (made->status == SAMBA_OK && samba_graph_prune(made, &pruned) != SAMBA_OK)
        pruned = NULL;
    samba_graph_free(made);
    if (!pruned || learns(pruned))
        return pruned;
    samba_graph_free(pruned);
    return NULL;
}

/* ---- running it ---- */
typedef struct checking {
    const samba_graph *traced;
    samba_graph *graph; /* with gradients */
    samba_context *context;
    samba_session *session;
    samba_arena arena;
    fuzz_values leaves;
    fuzz_report *report;
    char how[160];
} checking;

static char place[40]; /* where files are written */

const char *fuzz_folder(void)
{
    if (!place[0]) {
        snprintf(place, sizeof place, "/tmp/sambaflow-fuzz-XXXXXX");
        if (!mkdtemp(place))
            return NULL;
    }
    return place;
}

void fuzz_folder_end(void)
{
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", place);
    if (place[0] && system(command) != 0)
        fprintf(stderr, "fuzz: cannot remove %s\n", place);
}

static samba_status compile(checking *c, samba_compile_options *options, uint64_t *state, samba_session **session)
{
    char path[200];
    samba_session_options how = samba_session_defaults();
    how.threads = 1 + (int)(next_seed(state) % 3);
    how.isa = fuzz_isa(next_seed(state) >> 8);
    options->graph = (samba_graph *)c->traced;
    options->name = "train";
    options->verify = true;
    options->output_folder = fuzz_folder();
    SAMBA_TRY(samba_compile(c->context, options, path, sizeof path));
    SAMBA_TRY(samba_session_new(c->context, path, &how, session));
    snprintf(c->how, sizeof c->how, "training (%s, %d threads, %d steps, %s, budget %lld, fast memory %lld)",
             how.isa ? how.isa : "best", how.threads, options->grad_accumulation_steps,
             options->mapping == SAMBA_MAPPING_SPATIAL ? "spatial" : "section", (long long)options->memory_budget,
             (long long)options->fast_memory);
    return SAMBA_OK;
}

/* With less memory than it took: the same session where that cannot be. */
static fuzz_verdict squeeze(checking *c, samba_compile_options *options, uint64_t *state)
{
    samba_memory_info memory;
    samba_session *other = NULL;
    uint64_t kind = next_seed(state) % 4;
    if (kind > 1 || samba_session_memory(c->session, &memory) != SAMBA_OK)
        return FUZZ_RIGHT;
    if (kind == 0) {
        int64_t fixed = memory.parameters + memory.state + memory.gradients + memory.inputs_outputs;
        options->memory_budget = fixed + memory.activations * (int64_t)(4 + next_seed(state) % 4) / 8 + 1;
    } else {
        int64_t most = 0;
        for (int i = 0; i < samba_session_section_count(c->session); i++) {
            samba_section_info info;
            if (samba_session_section_info(c->session, i, &info) == SAMBA_OK && info.fast_memory > most)
                most = info.fast_memory;
        }
        options->fast_memory = most / 2 + 1;
    }
    samba_status status = compile(c, options, state, &other);
    if (status == SAMBA_ERROR_ARGUMENT)
        return FUZZ_RIGHT;
    if (status != SAMBA_OK)
        return fuzz_wrong(c->report, -1, "training with less memory", "%s", samba_error_message(c->context));
    fuzz_count.budgets += kind == 0;
    fuzz_count.small_memory += kind == 1;
    samba_session_free(c->session);
    c->session = other;
    return FUZZ_RIGHT;
}

/* Gives every leaf its value: parameters and buffers before the first run, the rest with it. */
static samba_status run(checking *c, bool first, int section_count, const char *const *sections)
{
    samba_tensor *inputs[FUZZ_LEAVES], *starts[FUZZ_LEAVES];
    samba_hyperparameter hypers[FUZZ_LEAVES];
    samba_run_options options = samba_run_defaults();
    samba_status status = SAMBA_OK;
    for (int i = 0; i < c->leaves.count && status == SAMBA_OK; i++) {
        const samba_array *array = &c->leaves.arrays[i];
        const char *name = c->leaves.names[i];
        const samba_node *node = samba_node_at(c->graph, samba_graph_leaf(c->graph, name));
        samba_tensor *tensor;
        if (node->op == SAMBA_OP_argin) {
            hypers[options.hyperparameter_count++] = (samba_hyperparameter){name, value_at(array, 0)};
            continue;
        }
        bool gradient = node->op == SAMBA_OP_state && node->attrs->state.kind == SAMBA_KIND_GRADIENT;
        /* a loss that no parameter is behind; what the session has */
        if (!samba_session_graph_has(c->session, 0, name) || (gradient && !fuzz_is_start(c->graph, name)))
            continue;
        status = samba_tensor_from_memory(c->context, name, array->dtype, array->rank, array->shape, NULL, array->data, NULL,
                                          NULL, &tensor);
        if (status != SAMBA_OK)
            break;
        if (node->op == SAMBA_OP_input)
            inputs[options.input_count++] = tensor;
        else if (gradient)
            starts[options.output_gradient_count++] = tensor;
        else {
            if (first)
                status = samba_session_set(c->session, tensor);
            samba_tensor_free(tensor);
        }
    }
    options.inputs = inputs;
    options.output_gradients = starts;
    options.hyperparameters = hypers;
    options.section_types = sections;
    options.section_type_count = section_count;
    for (int i = 0; i < options.hyperparameter_count; i++) { /* those the plan has */
        bool there = false;
        for (int k = 0; k < samba_session_hyperparameter_count(c->session); k++) {
            samba_hyperparameter info;
            there = there ||
                    (samba_session_hyperparameter(c->session, k, &info) == SAMBA_OK && strcmp(info.name, hypers[i].name) == 0);
        }
        if (!there)
            hypers[i--] = hypers[--options.hyperparameter_count];
    }
    if (status == SAMBA_OK)
        status = samba_run(c->session, &options);
    for (int i = 0; i < options.input_count; i++)
        samba_tensor_free(inputs[i]);
    for (int i = 0; i < options.output_gradient_count; i++)
        samba_tensor_free(starts[i]);
    return status;
}

/* Is a buffer that the plan left out what it was? */
static bool stays(const checking *c, const char *name, const samba_array *value)
{
    for (int i = 0; i < c->leaves.count && !samba_session_graph_has(c->session, 0, name); i++)
        if (strcmp(c->leaves.names[i], name) == 0)
            return memcmp(c->leaves.arrays[i].data, value->data, (size_t)value->numel * samba_dtype_size(value->dtype)) == 0;
    return false;
}

/* What the run left, against the reference; buffers and gradients become what the next run starts from. */
static fuzz_verdict judge(checking *c, const char *when)
{
    samba_array values[FUZZ_SINKS];
    double allowed[FUZZ_SINKS];
    char how[200];
    fuzz_verdict verdict = FUZZ_RIGHT;
    snprintf(how, sizeof how, "%s, %s run", c->how, when);
    if (fuzz_expect(c->graph, &c->leaves, &c->arena, values, allowed) != SAMBA_OK)
        return FUZZ_IMPOSSIBLE;
    fuzz_values next = c->leaves;
    next.names = samba_arena_alloc(&c->arena, sizeof *next.names * FUZZ_LEAVES * 2);
    next.arrays = samba_arena_alloc(&c->arena, sizeof *next.arrays * FUZZ_LEAVES * 2);
    for (int i = 0; i < next.count; i++) {
        next.names[i] = c->leaves.names[i];
        next.arrays[i] = c->leaves.arrays[i];
    }
    for (int64_t s = 0; s < c->graph->sink_count && verdict == FUZZ_RIGHT; s++) {
        const samba_sink *sink = &c->graph->sinks[s];
        bool assigns = sink->kind == SAMBA_SINK_ASSIGN;
        const char *name = fuzz_sink_name(c->graph, s);
        samba_tensor *tensor;
        if (sink->phase == SAMBA_ZEROGRAD)
            continue;
        if (assigns && stays(c, name, &values[s])) /* assigned to itself: the plan has no such tensor */
            continue;
        if (samba_session_get_by_name(c->session, name, &tensor) != SAMBA_OK)
            return fuzz_wrong(c->report, s, how, "%s", samba_error_message(c->context));
        samba_array found = values[s];
        found.data = samba_arena_alloc(&c->arena, (size_t)found.numel * samba_dtype_size(found.dtype) + 1);
        memcpy(found.data, samba_tensor_data(tensor), (size_t)found.numel * samba_dtype_size(found.dtype));
        samba_tensor_free(tensor);
        verdict = fuzz_compare(c->report, s, name, &found, &values[s], allowed[s], how);
        int at = 0;
        while (assigns && at < next.count && strcmp(next.names[at], name) != 0)
            at++;
        if (assigns) {
            next.names[at] = name;
            next.arrays[at] = found;
            next.count += at == next.count;
        }
    }
    next.computed = true;
    c->leaves = next;
    return verdict;
}

/* Gradients stay where they are. */
static void drop_zerograd(samba_graph *graph)
{
    int64_t kept = 0;
    for (int64_t s = 0; s < graph->sink_count; s++)
        if (graph->sinks[s].phase != SAMBA_ZEROGRAD)
            graph->sinks[kept++] = graph->sinks[s];
    graph->sink_count = kept;
}

static fuzz_verdict two_runs(checking *c, int steps)
{
    static const char *const all[] = {"ZEROGRAD", "FWD", "BCKWD"};
    int left = steps > 1 ? 0 : 1;
    if (run(c, true, 3 - left, all + left) != SAMBA_OK)
        return fuzz_wrong(c->report, -1, c->how, "first run: %s", samba_error_message(c->context));
    fuzz_verdict verdict = judge(c, "first");
    if (verdict != FUZZ_RIGHT)
        return verdict;
    drop_zerograd(c->graph);
    if (run(c, false, 2, all + 1) != SAMBA_OK)
        return fuzz_wrong(c->report, -1, c->how, "second run: %s", samba_error_message(c->context));
    fuzz_count.runs += 2;
    return judge(c, "second");
}

/* Replicas exchange in it, which parts sections: `spatial` refuses it. */
static bool exchanges(const samba_graph *graph)
{
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == SAMBA_OP_replica_mean || strncmp(samba_ops[graph->nodes[i].op].name, "sync_", 5) == 0)
            return true;
    return false;
}

fuzz_verdict fuzz_check_train(const samba_graph *graph, fuzz_report *report)
{
    checking c = {.traced = graph, .context = graph->context, .report = report};
    uint64_t state = samba_hash(graph->name, strlen(graph->name), 17);
    *report = (fuzz_report){.sink = -1};
    samba_compile_options options = samba_compile_defaults();
    options.grad_accumulation_steps = next_seed(&state) % 3 == 0 ? 2 : 1;
    options.data_parallel = next_seed(&state) % 4 == 0; /* this process is the only replica: nothing changes */
    options.mapping = next_seed(&state) % 6 == 0 && !(options.data_parallel && exchanges(graph)) ? SAMBA_MAPPING_SPATIAL
                                                                                                 : SAMBA_MAPPING_SECTION;
    samba_graph *whole = NULL;
    if (samba_autodiff(graph, options.grad_accumulation_steps, NULL, &whole) == SAMBA_OK &&
        samba_graph_prune(whole, &c.graph) != SAMBA_OK)
        c.graph = NULL;
    samba_graph_free(whole);
    if (!c.graph || !learns(graph) || c.graph->sink_count > FUZZ_SINKS || !fuzz_folder()) {
        samba_graph_free(c.graph);
        snprintf(report->what, sizeof report->what, "%s", samba_error_message(graph->context));
        return FUZZ_IMPOSSIBLE;
    }
    samba_arena_init(&c.arena, graph->context);
    fuzz_verdict verdict = FUZZ_IMPOSSIBLE;
    if (fuzz_inputs(c.graph, &c.arena, &c.leaves) == SAMBA_OK && c.leaves.count <= FUZZ_LEAVES) {
        verdict = compile(&c, &options, &state, &c.session) == SAMBA_OK
                      ? squeeze(&c, &options, &state)
                      : fuzz_wrong(report, -1, "compiling for training", "%s", samba_error_message(c.context));
        if (verdict == FUZZ_RIGHT)
            verdict = two_runs(&c, options.grad_accumulation_steps);
        for (int64_t i = 0; i < graph->node_count; i++)
            fuzz_count.parameters += graph->nodes[i].op == SAMBA_OP_parameter;
        fuzz_count.trained++;
        fuzz_count.accumulated += options.grad_accumulation_steps > 1;
        fuzz_count.spatial += options.mapping == SAMBA_MAPPING_SPATIAL;
    }
    if (verdict == FUZZ_IMPOSSIBLE)
        snprintf(report->what, sizeof report->what, "%s", samba_error_message(graph->context));
    samba_session_free(c.session);
    samba_graph_free(c.graph);
    samba_arena_free(&c.arena);
    return verdict;
}
