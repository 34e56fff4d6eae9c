/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes that are not equally frequent: 4 of 100 samples are of class 1, and a model that always says 0 is right 96 times. What
 * counts is how much of the rare class is found (recall) and how much of what it says is right (precision). Weights of the
 * classes in the loss make an error about the rare one as costly as all errors about the other; they are an input, so one PEF
 * serves both trainings. */
#include "program.h"

#include <sambaflow/sambaflow.h>

enum { SAMPLES = 4000, TESTED = 4000, WIDTH = 8, BATCH = 100, EVERY = 25 };

/* Rare samples are moved a little along all 8 numbers, and overlap with the others. */
static samba_source *make(samba_context *context, uint64_t from, int count)
{
    samba_tensor *fields[] = {named(context, "x", SAMBA_FLOAT32, SHAPE(count, WIDTH)),
                              named(context, "label", SAMBA_INT64, SHAPE(count))};
    samba_source *source;
    must(context, samba_fill_normal(fields[0], from, 0, 1));
    float *x = samba_tensor_data(fields[0]);
    int64_t *label = samba_tensor_data(fields[1]);
    for (int i = 0; i < count; i++) {
        label[i] = i % EVERY == 0;
        for (int j = 0; j < WIDTH; j++)
            x[WIDTH * i + j] += label[i] ? 0.9f : 0;
    }
    must(context, samba_source_tensors(context, 2, fields, &source));
    samba_tensor_free(fields[0]), samba_tensor_free(fields[1]);
    return source;
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value x = samba_input(g, "x"), label = samba_input(g, "label");
    samba_value logits = samba_linear(samba_relu(samba_linear(x, "fc1", 16)), "fc2", 2);
    samba_cross_entropy_options loss = samba_cross_entropy_defaults();
    loss.weight = samba_input(g, "class_weight");
    samba_loss(g, "loss", samba_cross_entropy_with(logits, label, &loss));
    samba_output(g, "logits", logits);
}

enum { PRECISION, RECALL, F1, ACCURACY, FIGURES };

/* The figures of a training with these weights of the classes. */
static void trained(samba_context *context, const char *pef, samba_tensor *weight, samba_source *train, samba_source *test,
                    double *figures)
{
    static const samba_metric_kind kinds[] = {SAMBA_METRIC_PRECISION, SAMBA_METRIC_RECALL, SAMBA_METRIC_F1,
                                              SAMBA_METRIC_ACCURACY};
    samba_session *session;
    samba_loader *loader;
    samba_metric *metrics[FIGURES];
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_session_new(context, pef, &device, &session));
    must(context, samba_session_set(session, weight)); /* the same in all runs; the other inputs are fields */
    samba_train_options options = samba_train_defaults();
    options.train = train;
    options.epochs = 15, options.seed = seed();
    must(context, samba_train(session, &options, NULL));

    samba_loader_options by = samba_loader_defaults();
    by.batch_size = BATCH;
    must(context, samba_loader_new(context, test, &by, &loader));
    for (int i = 0; i < FIGURES; i++) {
        samba_metric_options metric = samba_metric_defaults(kinds[i]);
        if (i != ACCURACY)
            metric.average = SAMBA_AVERAGE_BINARY; /* of class 1 alone */
        must(context, samba_metric_new(context, &metric, &metrics[i]));
    }
    samba_evaluate_options evaluate = samba_evaluate_defaults();
    evaluate.metrics = metrics, evaluate.metric_count = FIGURES;
    must(context, samba_evaluate(session, loader, &evaluate, NULL));
    for (int i = 0; i < FIGURES; i++) {
        figures[i] = samba_metric_value(metrics[i]);
        samba_metric_free(metrics[i]);
    }
    samba_loader_free(loader);
    samba_session_free(session);
}

int main(void)
{
    samba_context *context;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    samba_source *train = make(context, 10 * seed(), SAMPLES), *test = make(context, 10 * seed() + 5, TESTED);
    samba_tensor *inputs[] = {named(context, "x", SAMBA_FLOAT32, SHAPE(BATCH, WIDTH)),
                              named(context, "label", SAMBA_INT64, SHAPE(BATCH)),
                              named(context, "class_weight", SAMBA_FLOAT32, SHAPE(2))};
    samba_optimizer adamw = samba_adamw(0.003);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "rare", compile.model = model;
    compile.inputs = inputs, compile.input_count = 3;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));

    double figures[2][FIGURES];
    float *weight = samba_tensor_data(inputs[2]);
    for (int weighted = 0; weighted < 2; weighted++) {
        weight[0] = 1, weight[1] = weighted ? EVERY - 1 : 1;
        trained(context, pef, inputs[2], train, test, figures[weighted]);
        const double *f = figures[weighted];
        printf("a weight of %2g: precision %.2f, recall %.2f, F1 %.2f, accuracy %.3f\n", (double)weight[1], f[PRECISION],
               f[RECALL], f[F1], f[ACCURACY]);
    }
    expect(figures[1][RECALL] > 0.7 && figures[1][PRECISION] > 0.15, "7 of 10 of the rare class found");
    expect(figures[1][RECALL] > figures[0][RECALL] + 0.15 && figures[1][ACCURACY] < figures[0][ACCURACY],
           "more found than without weights, at the cost of accuracy");

    for (int i = 0; i < 3; i++)
        samba_tensor_free(inputs[i]);
    samba_source_free(train), samba_source_free(test);
    samba_context_free(context);
    return 0;
}
