/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz [--count N] [--seed N]      so many graphs of 5 to 60 operators and their gradients; every time others, unless the seed is given
 * fuzz --graph FILE ...            the graphs of texts, as they are printed where one fails; found/ has those that once did
 * fuzz --write FOLDER ...          graphs, inputs, results and what they may differ by, for torch_graphs.py
 *
 * A graph that fails is shrunk and printed. */
#include "fuzz.h"

#include <sys/stat.h>
#include <time.h>

static samba_context *context;
static const char *folder;
static int64_t written;

/* ---- for other readers: a text and one file of raw numbers a tensor ---- */
static void write_array(const char *name, const samba_array *array)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%lld.%s", folder, (long long)written, name);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(array->data, samba_dtype_size(array->dtype), (size_t)array->numel, file);
        fclose(file);
    }
}

static void write_case(const samba_graph *graph)
{
    samba_arena arena;
    fuzz_values inputs;
    samba_array values[FUZZ_SINKS];
    double allowed[FUZZ_SINKS];
    char path[500], *text;
    samba_arena_init(&arena, context);
    if (fuzz_inputs(graph, &arena, &inputs) == SAMBA_OK && fuzz_expect(graph, &inputs, &arena, values, allowed) == SAMBA_OK &&
        samba_graph_print(graph, &text) == SAMBA_OK) {
        snprintf(path, sizeof path, "%s/%lld.txt", folder, (long long)written);
        FILE *file = fopen(path, "w");
        if (file) {
            fputs(text, file);
            for (int64_t s = 0; s < graph->sink_count; s++)
                fprintf(file, "# allowed \"%s\" %.17g\n", samba_graph_name_at(graph, graph->sinks[s].name), allowed[s]);
            fclose(file);
        }
        for (int i = 0; i < inputs.count; i++)
            write_array(inputs.names[i], &inputs.arrays[i]);
        for (int64_t s = 0; s < graph->sink_count; s++)
            write_array(samba_graph_name_at(graph, graph->sinks[s].name), &values[s]);
        samba_text_free(context, text);
        written++;
    }
    samba_arena_free(&arena);
}

/* ---- one graph ---- */
/* Takes the graph; false where it is wrong. */
static bool prove(samba_graph *graph, const char *what, int64_t *checked, int64_t *unstable)
{
    fuzz_report report;
    fuzz_verdict verdict = fuzz_check(graph, &report);
    *checked += report.checked;
    *unstable += report.unstable;
    if (verdict == FUZZ_RIGHT && folder)
        write_case(graph);
    if (verdict == FUZZ_WRONG) {
        fprintf(stderr, "%s, %s\n", what, report.what);
        graph = fuzz_shrink(graph, &report);
        char *text;
        if (samba_graph_print(graph, &text) == SAMBA_OK) {
            fprintf(stderr, "shrunk: %s\nfuzz --graph FILE makes it again, with this in FILE:\n%s\n", report.what, text);
            samba_text_free(context, text);
        }
    } else if (verdict == FUZZ_IMPOSSIBLE) {
        fprintf(stderr, "%s: the reference refuses it: %s\n", what, report.what);
    }
    samba_graph_free(graph);
    return verdict == FUZZ_RIGHT;
}

/* The gradient of all floating-point inputs, or NULL where there is none. */
static samba_graph *gradient_of(const samba_graph *graph, const char *what, bool *failed)
{
    const char *names[256];
    int count = 0;
    bool any = false;
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == SAMBA_OP_input && samba_dtype_is_floating_point((samba_dtype)graph->nodes[i].dtype) && count < 40)
            names[count++] = samba_graph_name_at(graph, graph->nodes[i].attrs->leaf.name);
    for (int64_t s = 0; s < graph->sink_count; s++)
        any = any || samba_dtype_is_floating_point((samba_dtype)samba_node_at(graph, graph->sinks[s].value)->dtype);
    samba_graph *gradient = NULL;
    if (!any || count == 0)
        return NULL;
    samba_status status = samba_graph_gradient(graph, count, names, &gradient);
    if (status != SAMBA_OK && status != SAMBA_ERROR_UNSUPPORTED) {
        fprintf(stderr, "%s: its gradient: %s\n", what, samba_error_message(context));
        *failed = true;
    }
    return gradient;
}

static int from_file(const char *path)
{
    FILE *file = fopen(path, "r");
    static char text[1 << 20];
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    samba_graph *graph;
    if (!file || size == 0) {
        fprintf(stderr, "fuzz: cannot read %s\n", path);
        return 1;
    }
    fclose(file);
    text[size] = 0;
    if (samba_graph_parse(context, text, &graph) != SAMBA_OK) {
        fprintf(stderr, "fuzz: %s: %s\n", path, samba_error_message(context));
        return 1;
    }
    int64_t checked = 0, unstable = 0;
    bool right = prove(graph, path, &checked, &unstable);
    printf("%s: %s, %lld elements compared\n", path, right ? "right" : "wrong", (long long)checked);
    return !right;
}

static void print_unreached(void)
{
    printf("operators that no graph had before gradients:");
    for (int op = 0; op < SAMBA_OP_COUNT; op++)
        if (fuzz_reached[op] == 0 && samba_ops[op].class_ != SAMBA_LEAF)
            printf(" %s", samba_ops[op].name);
    printf("\n");
}

static int many(uint64_t seed, int64_t count)
{
    int64_t wrong = 0, operators = 0, gradients = 0, checked = 0, unstable = 0;
    printf("fuzz --count %lld --seed %llu\n", (long long)count, (unsigned long long)seed);
    fflush(stdout);
    for (int64_t i = 0; i < count && wrong < 40; i++) {
        char what[80];
        samba_graph *graph, *gradient;
        bool failed = false;
        uint64_t state = seed + (uint64_t)i;
        int nodes = 5 + (int)(next_seed(&state) % 56);
        snprintf(what, sizeof what, "graph %llu", (unsigned long long)(seed + (uint64_t)i));
        if (fuzz_generate(context, seed + (uint64_t)i, nodes, &graph) != SAMBA_OK) {
            fprintf(stderr, "%s: %s\n", what, samba_error_message(context));
            wrong++;
            samba_graph_free(graph);
            continue;
        }
        if (graph->sink_count == 0) {
            samba_graph_free(graph);
            continue;
        }
        for (int64_t k = 0; k < graph->node_count; k++)
            operators += samba_ops[graph->nodes[k].op].class_ != SAMBA_LEAF;
        gradient = gradient_of(graph, what, &failed);
        if (!prove(graph, what, &checked, &unstable))
            failed = true;
        snprintf(what, sizeof what, "gradient of graph %llu", (unsigned long long)(seed + (uint64_t)i));
        gradients += gradient != NULL;
        if (gradient && !prove(gradient, what, &checked, &unstable))
            failed = true;
        wrong += failed;
    }
    printf("%lld graphs of %lld operators and %lld gradients: fused, unfused and the reference agree in %lld elements (%lld are of outputs that a rounding makes nan), %lld graphs are "
           "wrong\n", (long long)count, (long long)operators, (long long)gradients, (long long)checked, (long long)unstable, (long long)wrong);
    print_unreached();
    return wrong > 0;
}

int main(int argc, char **argv)
{
    int64_t count = 200;
    uint64_t seed = (uint64_t)time(NULL) * 1000000;
    int files = 0, failed = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            count = strtoll(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--graph") == 0)
            argv[files++] = argv[i + 1];
        else if (strcmp(argv[i], "--write") == 0)
            folder = argv[i + 1];
        else
            argc = 0;
    }
    if (argc % 2 == 0) {
        fprintf(stderr, "usage: fuzz [--count N] [--seed N] [--graph FILE] [--write FOLDER]\n");
        return 2;
    }
    if (folder)
        mkdir(folder, 0777);
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    for (int i = 0; i < files; i++)
        failed |= from_file(argv[i]);
    if (files == 0)
        failed = many(seed, count);
    samba_context_free(context);
    return failed;
}
