/* SPDX-License-Identifier: Apache-2.0
 *
 * Classification: real handwritten digits from files, a part of them for validation, early stopping, and the best weights at
 * the end. samba_train is the whole loop. The trained layers are compiled once more, for answers alone: answer.c has them.
 *
 *     digits [FOLDER OF THE DIGITS, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

enum { BATCH = 50, TRAINED = 4000 };

static samba_value layers(samba_value image)
{
    samba_value hidden = samba_relu(samba_linear(image, "hidden", 96));
    return samba_linear(samba_dropout(hidden, "dropout", 0.2), "out", 10);
}

static void training(samba_graph *g, const void *options)
{
    (void)options;
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    samba_value logits = layers(image);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

static void answering(samba_graph *g, const void *options)
{
    (void)options;
    samba_output(g, "logits", layers(samba_input(g, "image")));
}

/* Bytes of 28 x 28 become 784 numbers of 0 to 1, labels become int64: a column says what a field is made of. */
static samba_source *digits(samba_context *context, const char *folder)
{
    const samba_column pixels = {.field = {"image", SAMBA_FLOAT32, 1, {784}}, .scale = 1 / 255.0};
    const samba_column labels = {.field = {"label", SAMBA_INT64, 0, {0}}};
    samba_file_options file = samba_file_defaults();
    samba_source *parts[2], *both;
    char path[1024];
    file.column_count = 1;
    file.columns = &pixels;
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", folder);
    must(context, samba_source_file(context, path, &file, &parts[0]));
    file.columns = &labels;
    snprintf(path, sizeof path, "%s/digits-labels-idx1-ubyte.gz", folder);
    must(context, samba_source_file(context, path, &file, &parts[1]));
    must(context, samba_source_join(context, 2, parts, &both));
    samba_source_free(parts[0]);
    samba_source_free(parts[1]);
    return both;
}

int main(int argc, char **argv)
{
    samba_context *context;
    samba_session *session;
    samba_source *train, *validation;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    samba_source *all = digits(context, argc > 1 ? argv[1] : "examples/data");
    must(context, samba_source_part(all, 0, TRAINED, &train));
    must(context, samba_source_part(all, TRAINED, samba_source_count(all), &validation));

    samba_tensor *inputs[] = {named(context, "image", SAMBA_FLOAT32, SHAPE(BATCH, 784)),
                              named(context, "label", SAMBA_INT64, SHAPE(BATCH))};
    samba_optimizer adamw = samba_adamw(0.002);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "digits";
    compile.model = training;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    must(context, samba_session_new(context, pef, NULL, &session));

    samba_metric_options accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    samba_train_options options = samba_train_defaults();
    samba_train_result result;
    options.train = train, options.validation = validation;
    options.epochs = 20;
    options.metrics = &accuracy, options.metric_count = 1;
    options.monitor = "accuracy", options.patience = 3;
    options.folder = "out/digits/run", options.restore_best = true;
    options.resume = true; /* a program that was ended goes on; one that had finished has its result again */
    options.progress = stdout;
    must(context, samba_train(session, &options, &result));
    printf("best accuracy %.3f at step %lld of %lld\n", result.best, (long long)result.best_step, (long long)result.steps);
    expect(result.best > 0.9, "90 of 100 digits are right");
    must(context, samba_session_save(session, "out/digits/weights.safetensors", false));

    samba_tensor *one = named(context, "image", SAMBA_FLOAT32, SHAPE(1, 784));
    compile = samba_compile_defaults();
    compile.name = "answer";
    compile.model = answering;
    compile.inputs = &one, compile.input_count = 1;
    compile.inference = true;
    must(context, samba_compile(context, &compile, pef, sizeof pef));

    samba_tensor_free(one), samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]);
    samba_source_free(all), samba_source_free(train), samba_source_free(validation);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
