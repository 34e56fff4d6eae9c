/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz [--count N] [--seed N]      so many graphs of 3 to 40 nodes and layers, their gradients, and both compiled for training;
 *                                  every time others, unless the seed is given
 * fuzz --graph FILE ...            the graphs of texts, as they are printed where one fails, or of a folder of them; found/ has
 *                                  those that once did
 * fuzz --write FOLDER ...          graphs, inputs, results and what they may differ by, for torch_graphs.py, and as models where
 *                                  ONNX can say them, for onnx_graphs.py
 *
 * A graph that fails is shrunk and printed. */
#include "../seed.h"
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

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

/* What follows it is its gradient, where it has one. */
static void write_case(const samba_graph *graph, bool gradient)
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
            if (gradient)
                fprintf(file, "# gradient %lld\n", (long long)written + 1);
            for (int64_t s = 0; s < graph->sink_count; s++)
                fprintf(file, "# allowed \"%s\" %.17g\n", samba_graph_name_at(graph, graph->sinks[s].name), allowed[s]);
            fclose(file);
        }
        for (int i = 0; i < inputs.count; i++)
            write_array(inputs.names[i], &inputs.arrays[i]);
        for (int64_t s = 0; s < graph->sink_count; s++)
            write_array(samba_graph_name_at(graph, graph->sinks[s].name), &values[s]);
        samba_text_free(context, text);
        snprintf(path, sizeof path, "%s/%lld.onnx", folder, (long long)written);
        if (!fuzz_drops(graph) && fuzz_write_onnx(graph, path) == SAMBA_ERROR_FILE)
            fprintf(stderr, "fuzz: %s\n", samba_error_message(context));
        written++;
    }
    samba_arena_free(&arena);
}

/* ---- one graph ---- */
typedef struct totals {
    int64_t operators, gradients, checked, unstable, wrong;
} totals;

/* Takes the graph; false where it is wrong. */
static bool prove(samba_graph *graph, fuzz_checker *check, const char *what, totals *t)
{
    fuzz_report report;
    fuzz_verdict verdict = check(graph, &report);
    t->checked += report.checked;
    t->unstable += report.unstable;
    if (verdict == FUZZ_WRONG) {
        fprintf(stderr, "%s, %s\n", what, report.what);
        graph = fuzz_shrink(graph, check, &report);
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

static samba_graph *copy_of(const samba_graph *graph)
{
    samba_graph *copy = NULL;
    return samba_graph_copy(graph, &copy) == SAMBA_OK ? copy : NULL;
}

/* In every way there is: as it is, its gradient, the gradient against differences, compiled for training. */
static bool prove_all(samba_graph *graph, const char *what, totals *t)
{
    char text[120];
    samba_status status;
    samba_graph *gradient = fuzz_gradient(graph, &status), *training = gradient ? fuzz_training(graph) : NULL;
    bool right = status == SAMBA_OK || status == SAMBA_ERROR_UNSUPPORTED;
    if (!right)
        fprintf(stderr, "%s: its gradient: %s\n", what, samba_error_message(context));
    t->gradients += gradient != NULL;
    if (gradient) {
        snprintf(text, sizeof text, "slopes of %s", what);
        right = prove(copy_of(graph), fuzz_check_slopes, text, t) && right;
        snprintf(text, sizeof text, "gradient of %s", what);
    }
    if (folder && right) {
        write_case(graph, gradient != NULL);
        if (gradient)
            write_case(gradient, false);
    }
    if (gradient)
        right = prove(gradient, fuzz_check, text, t) && right;
    if (training) {
        snprintf(text, sizeof text, "training of %s", what);
        right = prove(training, fuzz_check_train, text, t) && right;
    }
    snprintf(text, sizeof text, "ONNX model of %s", what);
    right = prove(copy_of(graph), fuzz_check_onnx, text, t) && right;
    return prove(graph, fuzz_check, what, t) && right;
}

static bool trains(const samba_graph *graph)
{
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == SAMBA_OP_parameter)
            return true;
    return false;
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
    totals t = {0};
    bool right = trains(graph) ? prove(graph, fuzz_check_train, path, &t) : prove_all(graph, path, &t);
    printf("%s: %s, %lld elements compared\n", path, right ? "right" : "wrong", (long long)t.checked);
    return !right;
}

static int is_text(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".txt") == 0;
}

/* A file, or all texts of a folder. */
static int from_files(const char *path)
{
    struct stat info;
    struct dirent **entries;
    char file[600];
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return from_file(path);
    const int count = scandir(path, &entries, is_text, alphasort);
    int failed = count < 1;
    if (failed)
        fprintf(stderr, "fuzz: %s holds no texts\n", path);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        failed |= from_file(file);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return failed;
}

static int many(uint64_t seed, int64_t count)
{
    totals t = {0};
    printf("fuzz --count %lld --seed %llu\n", (long long)count, (unsigned long long)seed);
    fflush(stdout);
    for (int64_t i = 0; i < count && t.wrong < 40; i++) {
        char what[80];
        samba_graph *graph;
        uint64_t state = seed + (uint64_t)i;
        /* many small ones, some large */
        int nodes = next_seed(&state) % 5 < 3 ? 3 + (int)(next_seed(&state) % 13) : 5 + (int)(next_seed(&state) % 36);
        snprintf(what, sizeof what, "graph %llu", (unsigned long long)(seed + (uint64_t)i));
        if (fuzz_generate(context, seed + (uint64_t)i, nodes, &graph) != SAMBA_OK) {
            fprintf(stderr, "%s: %s\n", what, samba_error_message(context));
            t.wrong++;
            samba_graph_free(graph);
            continue;
        }
        if (graph->sink_count == 0) {
            samba_graph_free(graph);
            continue;
        }
        for (int64_t k = 0; k < graph->node_count; k++)
            t.operators += samba_ops[graph->nodes[k].op].class_ != SAMBA_LEAF;
        t.wrong += !prove_all(graph, what, &t);
    }
    fuzz_tell();
    printf("%lld graphs of %lld operators and %lld gradients: fused, unfused, trained and the reference agree in %lld elements "
           "(%lld are of outputs that a rounding makes nan), %lld graphs "
           "are wrong\n",
           (long long)count, (long long)t.operators, (long long)t.gradients, (long long)t.checked, (long long)t.unstable,
           (long long)t.wrong);
    return t.wrong > 0;
}

int main(int argc, char **argv)
{
    int64_t count = 200;
    uint64_t seed = random_seed() * 1000000;
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
        fprintf(stderr, "usage: fuzz [--count N] [--seed N] [--graph FILE_OR_FOLDER] [--write FOLDER]\n");
        return 2;
    }
    if (folder)
        mkdir(folder, 0777);
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    for (int i = 0; i < files; i++)
        failed |= from_files(argv[i]);
    if (files == 0)
        failed = many(seed, count);
    fuzz_folder_end();
    samba_context_free(context);
    return failed;
}
