/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow compile MODEL: an ONNX model, or a graph's text (compile_text.c), as an application whose command compile it is, with
 * all of its options. To train, an ONNX model's initializers are parameters, whose values stand in a safetensors file beside the
 * PEF; for inference they are a part of the PEF. A text says itself what its parameters begin with. */
#include "cli/cli.h"
#include "data/data.h"
#include "graph/graph.h"
#include <sambaflow/onnx.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST 64

typedef struct job {
    samba_context *context;
    const char *path;
    samba_onnx *model; /* or */
    samba_graph *text;
    const char *dims[MOST], *freeze[MOST], *losses[MOST];
    int dim_count, freeze_count, loss_count;
    bool inference;
    samba_onnx_dim sizes[MOST];
    char dim_names[MOST][SAMBA_CLI_NAME];
    samba_cli_loss loss[MOST];
    samba_app_input inputs[SAMBA_APP_MAX_INPUTS];
    int input_count;
    int64_t batch, asked_batch;
    const char *outputs[MOST];
    bool is_loss[MOST]; /* by itself */
    int output_count;
} job;

/* ---- dims and inputs ---- */

static samba_status take_dims(job *j)
{
    for (int i = 0; i < j->dim_count; i++) {
        const char *equals = strchr(j->dims[i], '=');
        char *end = NULL;
        long long size = equals ? strtoll(equals + 1, &end, 10) : -1;
        if (!equals || equals == j->dims[i] || equals - j->dims[i] >= SAMBA_CLI_NAME || end == equals + 1 || *end || size < 0)
            return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "--dim: expected NAME=SIZE, as batch=32, given '%s'", j->dims[i]);
        snprintf(j->dim_names[i], SAMBA_CLI_NAME, "%.*s", (int)(equals - j->dims[i]), j->dims[i]);
        j->sizes[i] = (samba_onnx_dim){j->dim_names[i], size};
    }
    return SAMBA_OK;
}

static samba_onnx_options options_of(const job *j)
{
    samba_onnx_options options = samba_onnx_defaults();
    options.dim_count = j->dim_count;
    options.dims = j->sizes;
    options.train = !j->inference;
    options.initializers = j->inference ? SAMBA_ONNX_CONSTANTS : SAMBA_ONNX_PARAMETERS;
    options.freeze_count = j->freeze_count;
    options.freeze = j->freeze;
    return options;
}

static samba_status add_input(job *j, samba_app_input input)
{
    if (j->input_count == SAMBA_APP_MAX_INPUTS)
        return samba_fail(j->context, SAMBA_ERROR_UNSUPPORTED, "'%s' has more than %d inputs", j->path, SAMBA_APP_MAX_INPUTS);
    j->inputs[j->input_count++] = input;
    return SAMBA_OK;
}

/* An input behind the model's own, unless it has one of that name. */
static samba_status add_label(job *j, const samba_graph *graph, const samba_cli_loss *loss)
{
    for (int i = 0; i < j->input_count; i++)
        if (strcmp(j->inputs[i].name, loss->label) == 0)
            return SAMBA_OK;
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (strcmp(samba_graph_name_at(graph, graph->sinks[i].name), loss->output) == 0) {
            const samba_node *node = samba_node_at(graph, graph->sinks[i].value);
            samba_app_input label;
            if (!loss->label[0])
                return SAMBA_OK;
            SAMBA_TRY(samba_cli_loss_label(j->context, loss, node->dtype, node->rank, node->shape, &label));
            return add_input(j, label);
        }
    return samba_fail(j->context, SAMBA_ERROR_NAME, "--loss: '%s' has no output '%s'", j->path, loss->output);
}

static samba_status add_output(job *j, const char *name, bool is_loss)
{
    if (j->output_count == MOST)
        return samba_fail(j->context, SAMBA_ERROR_UNSUPPORTED, "'%s' has more than %d outputs", j->path, MOST);
    j->outputs[j->output_count] = name;
    j->is_loss[j->output_count++] = is_loss;
    return SAMBA_OK;
}

static samba_status add_input_of(job *j, const samba_node *node, const char *name)
{
    samba_app_input input = {.name = name, .dtype = node->dtype, .rank = node->rank};
    memcpy(input.shape, node->shape, sizeof node->shape);
    return add_input(j, input);
}

static samba_status add_labels(job *j, const samba_graph *graph)
{
    for (int i = 0; i < j->loss_count; i++)
        SAMBA_TRY(add_label(j, graph, &j->loss[i]));
    return SAMBA_OK;
}

/* What the model's inputs and outputs are, and the labels that go with these: of `graph`, the model in a graph of its own. */
static samba_status look_at_model(job *j, const samba_graph *graph)
{
    samba_onnx_tensor_info info;
    for (int i = 0; i < samba_onnx_input_count(j->model); i++) {
        SAMBA_TRY(samba_onnx_input(j->model, i, &info));
        SAMBA_TRY(add_input_of(j, samba_node_at(graph, samba_graph_leaf(graph, info.name)), info.name));
    }
    for (int i = 0; i < samba_onnx_output_count(j->model); i++) {
        SAMBA_TRY(samba_onnx_output(j->model, i, &info));
        SAMBA_TRY(add_output(j, info.name, false));
    }
    return add_labels(j, graph);
}

static samba_status look_at_text(job *j)
{
    const samba_graph *graph = j->text;
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == SAMBA_OP_input)
            SAMBA_TRY(add_input_of(j, &graph->nodes[i], samba_graph_name_at(graph, graph->nodes[i].attrs->leaf.name)));
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (graph->sinks[i].kind != SAMBA_SINK_ASSIGN)
            SAMBA_TRY(add_output(j, samba_graph_name_at(graph, graph->sinks[i].name), graph->sinks[i].kind == SAMBA_SINK_LOSS));
    return add_labels(j, graph);
}

static samba_status look(job *j)
{
    samba_graph *graph;
    samba_onnx_options options = options_of(j);
    if (j->text)
        return look_at_text(j);
    options.initializers = SAMBA_ONNX_PARAMETERS; /* whose values are not looked at */
    SAMBA_TRY(samba_graph_new(j->context, "model", &graph));
    samba_status status = samba_onnx_read(j->model, graph, &options);
    if (status == SAMBA_OK)
        status = look_at_model(j, graph);
    samba_graph_free(graph);
    return status;
}

static int fill_inputs(const void *settings, int64_t batch, samba_app_input *inputs)
{
    job *j = *(job *const *)settings;
    j->asked_batch = batch;
    memcpy(inputs, j->inputs, (size_t)j->input_count * sizeof *inputs);
    return j->input_count;
}

/* ---- the model ---- */

static bool is_output(const job *j, const char *name)
{
    for (int i = 0; i < j->output_count; i++)
        if (strcmp(j->outputs[i], name) == 0)
            return true;
    return false;
}

/* "loss", "loss_1", "loss_2" ...: the next that no output of the model has. */
static void name_loss(const job *j, int *number, char name[32])
{
    do {
        if (*number == 0)
            snprintf(name, 32, "loss");
        else
            snprintf(name, 32, "loss_%d", *number);
        ++*number;
    } while (is_output(j, name));
}

/* The losses of one output; whether it is one by itself, under its own name. */
static bool add_losses(job *j, samba_graph *graph, const char *output, samba_value value, int *number)
{
    bool itself = false;
    char name[32];
    for (int i = 0; i < j->loss_count; i++) {
        const samba_cli_loss *loss = &j->loss[i];
        if (strcmp(loss->output, output) != 0)
            continue;
        if (!loss->label[0]) {
            itself = true;
            continue;
        }
        samba_value label = samba_input(graph, loss->label);
        name_loss(j, number, name);
        samba_loss(graph, name, samba_cli_loss_of(loss, value, label));
    }
    return itself;
}

static void name_outputs(job *j, samba_graph *graph, const samba_value *outputs)
{
    for (int i = 0, number = 0; i < j->output_count; i++) {
        bool is_loss = add_losses(j, graph, j->outputs[i], outputs[i], &number) || j->is_loss[i];
        (is_loss ? samba_loss : samba_output)(graph, j->outputs[i], outputs[i]);
    }
}

static samba_status apply_model(job *j, samba_graph *graph, samba_value *outputs)
{
    samba_onnx_binding bindings[SAMBA_APP_MAX_INPUTS];
    samba_onnx_options options = options_of(j);
    int count = samba_onnx_input_count(j->model);
    for (int i = 0; i < count; i++)
        bindings[i] = (samba_onnx_binding){j->inputs[i].name, samba_input(graph, j->inputs[i].name)};
    options.dim_count = 0;
    return samba_onnx_apply(j->model, graph, &options, count, bindings, outputs);
}

static void build(samba_graph *graph, const void *settings)
{
    job *j = *(job *const *)settings;
    samba_value outputs[MOST];
    if (j->asked_batch != j->batch) {
        samba_graph_fail(graph, SAMBA_ERROR_ARGUMENT,
                         "the sizes of '%s' are its own, %lld for a batch, given --batch-size %lld: leave it out%s", j->path,
                         (long long)j->batch, (long long)j->asked_batch,
                         j->text ? "" : ", and give a size that has a name by --dim NAME=SIZE");
        return;
    }
    samba_status status =
        j->text ? samba_cli_text_apply(j->text, graph, j->freeze_count, j->freeze, outputs) : apply_model(j, graph, outputs);
    if (status == SAMBA_OK)
        name_outputs(j, graph, outputs);
}

/* ---- weights ---- */

/* NAME.safetensors beside NAME.pef. */
static samba_status write_weights(samba_context *context, void *user, const char *pef, FILE *out)
{
    job *j = user;
    samba_tensor_list list;
    if (j->text)
        return SAMBA_OK;
    SAMBA_TRY(samba_onnx_weights(j->model, &list));
    if (list.count == 0) {
        samba_tensor_list_free(j->context, &list);
        return SAMBA_OK;
    }
    char path[PATH_MAX + 32];
    size_t length = strlen(pef);
    if (length > 4 && strcmp(pef + length - 4, ".pef") == 0)
        length -= 4;
    snprintf(path, sizeof path, "%.*s.safetensors", (int)length, pef);
    samba_status status = samba_safetensors_write_remade(j->context, path, list.count, list.tensors);
    samba_tensor_list_free(j->context, &list);
    if (status != SAMBA_OK)
        return samba_fail(context, status, "%s", samba_error_message(j->context));
    if (out)
        fprintf(out, "weights        %s (run, train and measure with --load)\n", path);
    return SAMBA_OK;
}

/* ---- the command ---- */

static bool ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text), last = strlen(end);
    return length > last && strcasecmp(text + length - last, end) == 0;
}

static bool is_text(const char *path) { return ends_in(path, ".graph") || ends_in(path, ".txt"); }

/* "compile" and the path are ours; what the options mean is the application's to say. */
static const char *take_path(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (argv[i][0] != '-' && (ends_in(argv[i], ".onnx") || is_text(argv[i])))
            return argv[i];
    return NULL;
}

/* Options that say what the model is are needed before its inputs are known; the application's parser sees all of them again. */
static void peek(job *j, int argc, char **argv)
{
    static const char *const names[] = {"--dim", "--freeze", "--loss"};
    const char **lists[] = {j->dims, j->freeze, j->losses};
    int *counts[] = {&j->dim_count, &j->freeze_count, &j->loss_count};
    for (int i = 2; i < argc; i++) {
        j->inference |= strcmp(argv[i], "--inference") == 0;
        for (int k = 0; k < SAMBA_COUNT(names); k++) {
            size_t length = strlen(names[k]);
            if (*counts[k] == MOST || strncmp(argv[i], names[k], length) != 0)
                continue;
            if (argv[i][length] == '=')
                lists[k][(*counts[k])++] = argv[i] + length + 1;
            else if (!argv[i][length] && i + 1 < argc)
                lists[k][(*counts[k])++] = argv[++i];
        }
    }
}

static samba_status prepare(job *j)
{
    SAMBA_TRY(take_dims(j));
    for (int i = 0; i < j->loss_count; i++)
        SAMBA_TRY(samba_cli_loss_take(j->context, j->losses[i], &j->loss[i]));
    if (j->inference && j->loss_count)
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "--loss and --inference contradict each other: give one of them");
    if (j->inference && j->freeze_count)
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "--freeze and --inference contradict each other: give one of them");
    if (is_text(j->path) && j->dim_count)
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "--dim: the sizes of '%s' are numbers, none has a name", j->path);
    SAMBA_TRY(is_text(j->path) ? samba_cli_text_open(j->context, j->path, &j->text)
                               : samba_onnx_open(j->context, j->path, &j->model));
    return look(j);
}

static void take_name(const char *path, char name[SAMBA_CLI_NAME])
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    snprintf(name, SAMBA_CLI_NAME, "%.*s", (int)(strrchr(base, '.') - base), base);
}

static int compile(job *j, int argc, char **argv)
{
    char name[SAMBA_CLI_NAME] = "sambaflow compile";
    const char *seen[3][MOST];
    int counts[3] = {0, 0, 0};
    const samba_app_option options[] = {
        {.name = "loss",
         .help = "A loss by an output and a label, which becomes an input; several times for several: "
                 "cross_entropy:logits,label; output:loss is one that the model has",
         .texts = seen[0],
         .text_count = &counts[0],
         .text_most = MOST,
         .value = "KIND:OUTPUT,LABEL"},
        {.name = "dim",
         .help = "The size of a dim that the model names",
         .texts = seen[1],
         .text_count = &counts[1],
         .text_most = MOST,
         .value = "NAME=SIZE"},
        {.name = "freeze",
         .help = "Do not train the parameters of these names, * and ? stand for any",
         .texts = seen[2],
         .text_count = &counts[2],
         .text_most = MOST,
         .value = "PATTERN"},
    };
    if (j->path)
        take_name(j->path, name);
    samba_app app = {.struct_size = sizeof app,
                     .name = name,
                     .description =
                         "sambaflow compile MODEL.onnx, or the text of a graph, MODEL.graph or .txt: makes a PEF of it. To "
                         "train, an ONNX model's initializers become parameters, whose values are written beside the PEF as "
                         "NAME.safetensors; --inference keeps them in the PEF.",
                     .model = build,
                     .settings = &j,
                     .option_count = SAMBA_COUNT(options),
                     .options = options,
                     .inputs = fill_inputs,
                     .batch_size = 1,
                     .num_epochs = 1,
                     .optimizer = samba_sgd(0.01),
                     .compiled = write_weights,
                     .compiled_user = j};
    if (j->input_count > 0 && j->inputs[0].rank > 0 && j->inputs[0].shape[0] > 0)
        app.batch_size = j->inputs[0].shape[0];
    j->batch = app.batch_size;
    return samba_app_main(argc, argv, &app);
}

int samba_cli_compile(int argc, char **argv)
{
    job *j;
    samba_context *context;
    const bool asks = samba_words_ask(argc, argv);
    if (samba_context_new(NULL, &context) != SAMBA_OK || !(j = samba_calloc(context, sizeof *j))) {
        fputs("sambaflow: no memory\n", stderr);
        return 1;
    }
    j->context = context;
    j->path = take_path(argc, argv);
    samba_status status = SAMBA_OK;
    if (!asks) {
        peek(j, argc, argv);
        status = j->path
                     ? prepare(j)
                     : samba_fail(context, SAMBA_ERROR_ARGUMENT,
                                  "compile: which model? Give the path of an .onnx file, or of a graph's text (.graph or .txt)");
    }
    int result = 1, count = 0;
    if (status != SAMBA_OK)
        fprintf(stderr, "sambaflow: %s\n", samba_error_message(context));
    else {
        for (int i = 0; i < argc; i++)
            if (argv[i] != j->path)
                argv[count++] = argv[i];
        result = compile(j, count, argv);
    }
    samba_onnx_free(j->model);
    samba_graph_free(j->text);
    samba_free(context, j, sizeof *j);
    samba_context_free(context);
    return result;
}
