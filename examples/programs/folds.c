/* SPDX-License-Identifier: Apache-2.0
 *
 * Which learning rate is right: k-fold cross-validation. The model is compiled once, and trained ten times from fresh weights: a
 * session of a seed draws new ones, and its learning rate is a hyperparameter. Each of five folds is the validation once and
 * belongs to the training four times; the rate that is best in the mean of all folds trains on everything in the end. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { SAMPLES = 600, TESTED = 1000, FOLDS = 5, FOLD = SAMPLES / FOLDS, BATCH = 40, EPOCHS = 25 };

/* Two spirals of points, one a class, a turn and a half each. */
static samba_source *spirals(samba_context *context, uint64_t from, int count)
{
    samba_tensor *random = named(context, "random", SAMBA_FLOAT32, SHAPE(count));
    samba_tensor *fields[] = {named(context, "point", SAMBA_FLOAT32, SHAPE(count, 2)),
                              named(context, "label", SAMBA_INT64, SHAPE(count))};
    samba_source *source;
    must(context, samba_fill_uniform(random, from, 0, 1));
    must(context, samba_fill_normal(fields[0], from + 1, 0, 0.06));
    float *point = samba_tensor_data(fields[0]);
    const float *r = samba_tensor_data(random);
    int64_t *label = samba_tensor_data(fields[1]);
    for (int i = 0; i < count; i++) {
        label[i] = i % 2;
        const float angle = 9.42f * sqrtf(r[i]) + 3.1416f * (float)label[i], radius = 0.2f + 1.8f * sqrtf(r[i]);
        point[2 * i] += radius * cosf(angle);
        point[2 * i + 1] += radius * sinf(angle);
    }
    must(context, samba_source_tensors(context, 2, fields, &source));
    samba_tensor_free(random), samba_tensor_free(fields[0]), samba_tensor_free(fields[1]);
    return source;
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value point = samba_input(g, "point"), label = samba_input(g, "label");
    samba_value hidden = samba_relu(samba_linear(point, "fc1", 64));
    hidden = samba_relu(samba_linear(hidden, "fc2", 64));
    samba_value logits = samba_linear(hidden, "fc3", 2);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

/* Accuracy of a training from fresh weights, on samples that it did not have. */
static double trained(samba_context *context, const char *pef, double lr, samba_source *train, samba_source *validation)
{
    samba_session *session;
    samba_session_options device = samba_session_defaults();
    device.seed = seed(); /* the same first weights for all; another seed gives others */
    must(context, samba_session_new(context, pef, &device, &session));
    samba_metric_options accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    samba_train_options options = samba_train_defaults();
    options.train = train;
    options.epochs = EPOCHS, options.seed = seed();
    options.lr = lr;
    options.schedule = (samba_schedule){.kind = SAMBA_SCHEDULE_COSINE};
    must(context, samba_train(session, &options, NULL));

    /* At the end, and not where it was best: that would be a choice by the validation too. */
    samba_loader_options by = samba_loader_defaults();
    samba_evaluate_options evaluate = samba_evaluate_defaults();
    samba_loader *loader;
    samba_metric *right;
    by.batch_size = BATCH;
    must(context, samba_loader_new(context, validation, &by, &loader));
    must(context, samba_metric_new(context, &accuracy, &right));
    evaluate.metrics = &right, evaluate.metric_count = 1;
    must(context, samba_evaluate(session, loader, &evaluate, NULL));
    const double value = samba_metric_value(right);
    samba_metric_free(right);
    samba_loader_free(loader);
    samba_session_free(session);
    return value;
}

int main(void)
{
    samba_context *context;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    samba_source *all = spirals(context, 10 * seed(), SAMPLES), *test = spirals(context, 10 * seed() + 5, TESTED);
    samba_tensor *inputs[] = {named(context, "point", SAMBA_FLOAT32, SHAPE(BATCH, 2)),
                              named(context, "label", SAMBA_INT64, SHAPE(BATCH))};
    samba_optimizer adamw = samba_adamw(0.001); /* the rate is each training's own */
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "folds", compile.model = model;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));

    static const double rates[] = {0.0002, 0.02};
    double mean[2] = {0};
    int64_t order[SAMPLES], rest[SAMPLES - FOLD];
    samba_shuffle(seed(), SAMPLES, order);
    for (int fold = 0; fold < FOLDS; fold++) {
        samba_source *train, *validation;
        int count = 0;
        for (int i = 0; i < SAMPLES; i++)
            if (i / FOLD != fold)
                rest[count++] = order[i];
        must(context, samba_source_pick(all, count, rest, &train));
        must(context, samba_source_pick(all, FOLD, order + FOLD * fold, &validation));
        for (int i = 0; i < 2; i++)
            mean[i] += trained(context, pef, rates[i], train, validation) / FOLDS;
        samba_source_free(train), samba_source_free(validation);
    }
    const int better = mean[1] > mean[0];
    const double tested = trained(context, pef, rates[better], all, test);
    printf("accuracy in the mean of %d folds %.3f with lr %g, %.3f with %g; of all samples, on new ones %.3f with %g\n", FOLDS,
           mean[0], rates[0], mean[1], rates[1], tested, rates[better]);
    expect(better == 1 && mean[1] > 0.93 && mean[0] < mean[1] - 0.1, "the greater rate found");
    expect(fabs(tested - mean[1]) < 0.07, "new samples as right as the folds");

    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]);
    samba_source_free(all), samba_source_free(test);
    samba_context_free(context);
    return 0;
}
