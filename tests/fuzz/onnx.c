/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph written as an ONNX model and read again: the values are those of the reference, and the graph is the same in the form
 * of form.c. What was read, written and read once more, is the same graph as it stands. What ONNX cannot say is refused by name,
 * which is right. */
#include "fuzz.h"
#include <sambaflow/onnx.h>

static samba_graph *read_back(const samba_graph *of, const char *path)
{
    samba_context *context = of->context;
    samba_onnx *model = NULL;
    samba_graph *graph = NULL;
    samba_onnx_options options = samba_onnx_defaults();
    options.initializers = SAMBA_ONNX_CONSTANTS;
    samba_status status = samba_onnx_open(context, path, &model);
    if (status == SAMBA_OK)
        status = samba_graph_new(context, of->name, &graph);
    if (status == SAMBA_OK)
        status = samba_onnx_read(model, graph, &options);
    samba_onnx_free(model);
    samba_graph *pruned = NULL; /* of what sizes were computed from */
    if (status == SAMBA_OK)
        status = samba_graph_prune(graph, &pruned);
    samba_graph_free(graph);
    return status == SAMBA_OK ? pruned : NULL;
}

samba_status fuzz_write_onnx(const samba_graph *graph, const char *path)
{
    samba_onnx_write_options options = samba_onnx_write_defaults();
    options.opset = 17 + (int)(samba_hash(graph->name, strlen(graph->name), 17) % 7);
    return samba_onnx_write(graph->context, graph, &options, path);
}

/* Values of `back`, with those of the graph's inputs that it has. */
static samba_status evaluate(const samba_graph *back, const fuzz_values *inputs, samba_arena *arena, samba_array *found)
{
    samba_array given[FUZZ_LEAVES];
    const char *names[FUZZ_LEAVES];
    int count = 0;
    for (int i = 0; i < inputs->count; i++)
        if (samba_graph_leaf(back, inputs->names[i]) != SAMBA_NONE) {
            names[count] = inputs->names[i];
            given[count++] = inputs->arrays[i];
        }
    return samba_graph_evaluate(back, count, names, given, arena, found);
}

/* What `back` gives is what is expected of the graph, and may differ by as much. */
static fuzz_verdict same_values(const samba_graph *graph, const samba_array *values, const double *allowed,
                                const samba_graph *back, const samba_array *found, const char *how, fuzz_report *report)
{
    if (back->sink_count != graph->sink_count)
        return fuzz_wrong(report, -1, how, "%lld outputs, not %lld", (long long)back->sink_count, (long long)graph->sink_count);
    for (int64_t s = 0; s < graph->sink_count; s++) {
        const char *name = fuzz_sink_name(graph, s);
        if (strcmp(name, fuzz_sink_name(back, s)) != 0 || found[s].dtype != values[s].dtype || found[s].numel != values[s].numel)
            return fuzz_wrong(report, s, how, "output \"%s\": another name, dtype or size", name);
        fuzz_verdict verdict = fuzz_compare(report, s, name, &found[s], &values[s], allowed[s], how);
        if (verdict != FUZZ_RIGHT)
            return verdict;
    }
    return FUZZ_RIGHT;
}

static fuzz_verdict same_graph(const samba_graph *graph, const samba_graph *back, const char *how, fuzz_report *report)
{
    samba_graph *given = fuzz_form(graph), *found = fuzz_form(back);
    const uint64_t one = given ? fuzz_meaning(given) : 0, other = found ? fuzz_meaning(found) : 0;
    fuzz_verdict verdict = one && other ? FUZZ_RIGHT : FUZZ_IMPOSSIBLE;
    if (one && other && one != other)
        verdict = fuzz_wrong(report, -1, how, "another graph, of %lld operators, not %lld", (long long)found->node_count,
                             (long long)given->node_count);
    samba_graph_free(given);
    samba_graph_free(found);
    return verdict;
}

/* `first` is what was read, with the written graph's name, from which the opset comes. */
static fuzz_verdict same_again(const samba_graph *first, const char *path, fuzz_report *report)
{
    static const char *const how = "from ONNX a second time";
    if (fuzz_write_onnx(first, path) != SAMBA_OK)
        return fuzz_wrong(report, -1, how, "writing: %s", samba_error_message(first->context));
    samba_graph *second = read_back(first, path);
    if (!second)
        return fuzz_wrong(report, -1, how, "%s", samba_error_message(first->context));
    fuzz_verdict verdict = FUZZ_RIGHT;
    if (fuzz_meaning(first) == 0)
        verdict = FUZZ_IMPOSSIBLE;
    else if (fuzz_meaning(first) != fuzz_meaning(second))
        verdict = fuzz_wrong(report, -1, how, "another graph, of %lld operators, not %lld", (long long)second->node_count,
                             (long long)first->node_count);
    samba_graph_free(second);
    return verdict;
}

static fuzz_verdict there_and_back(const samba_graph *graph, const samba_graph *back, const char *path, samba_arena *arena,
                                   fuzz_report *report)
{
    fuzz_values inputs;
    samba_array values[FUZZ_SINKS], found[FUZZ_SINKS];
    double allowed[FUZZ_SINKS];
    if (fuzz_inputs(graph, arena, &inputs) != SAMBA_OK || inputs.count > FUZZ_LEAVES ||
        fuzz_expect(graph, &inputs, arena, values, allowed) != SAMBA_OK)
        return FUZZ_IMPOSSIBLE;
    if (evaluate(back, &inputs, arena, found) != SAMBA_OK)
        return fuzz_wrong(report, -1, "from ONNX", "evaluating: %s", samba_error_message(graph->context));
    fuzz_verdict verdict = same_values(graph, values, allowed, back, found, "from ONNX", report);
    if (verdict == FUZZ_RIGHT)
        verdict = same_graph(graph, back, "from ONNX", report);
    return verdict == FUZZ_RIGHT ? same_again(back, path, report) : verdict;
}

fuzz_verdict fuzz_check_onnx(const samba_graph *graph, fuzz_report *report)
{
    char path[100];
    samba_arena arena;
    *report = (fuzz_report){.sink = -1};
    const char *folder = fuzz_folder();
    if (fuzz_drops(graph) || graph->sink_count > FUZZ_SINKS || graph->sink_count == 0)
        return FUZZ_RIGHT;
    if (!folder)
        return FUZZ_IMPOSSIBLE;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    samba_status status = fuzz_write_onnx(graph, path);
    if (status == SAMBA_ERROR_UNSUPPORTED) {
        fuzz_count.onnx_refused++;
        return FUZZ_RIGHT;
    }
    if (status != SAMBA_OK)
        return fuzz_wrong(report, -1, "as ONNX", "%s", samba_error_message(graph->context));
    samba_graph *back = read_back(graph, path);
    if (!back)
        return fuzz_wrong(report, -1, "from ONNX", "%s", samba_error_message(graph->context));
    fuzz_count.onnx++;
    samba_arena_init(&arena, graph->context);
    fuzz_verdict verdict = there_and_back(graph, back, path, &arena, report);
    samba_graph_free(back);
    samba_arena_free(&arena);
    return verdict;
}
