/* SPDX-License-Identifier: Apache-2.0
 *
 * Two sessions in two threads, each under a context of its own: one PEF is trained at two rates at once. Sessions share nothing,
 * so each thread ends with the bits that it has when it trains alone. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <pthread.h>
#include <string.h>

enum { BATCH = 64, STEPS = 500 };

static char pef[1024];

/* Which points of a square lie inside a circle. */
static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value point = samba_input(g, "point"), inside = samba_input(g, "inside");
    samba_value hidden = samba_tanh(samba_linear(point, "fc1", 32));
    samba_value logits = samba_linear(hidden, "fc2", 2);
    samba_loss(g, "loss", samba_cross_entropy(logits, inside));
    samba_output(g, "logits", logits);
}

typedef struct work {
    double lr, loss;      /* asked for; the mean over the last 100 steps */
    float weights[32][2]; /* of fc1 in the end */
} work;

static void *train(void *argument)
{
    work *its = argument;
    samba_context *context; /* a context belongs to one thread at a time, and so do its objects */
    samba_session *session;
    must(NULL, samba_context_new(NULL, &context));
    samba_session_options options = samba_session_defaults();
    options.threads = 1; /* each session may have threads of its own; here one does its work */
    must(context, samba_session_new(context, pef, &options, &session));
    samba_tensor *inputs[] = {named(context, "point", SAMBA_FLOAT32, SHAPE(BATCH, 2)),
                              named(context, "inside", SAMBA_INT64, SHAPE(BATCH))};
    samba_tensor *loss = named(context, "loss", SAMBA_FLOAT32, 0, NULL), *weights;
    const float *xy = samba_tensor_data(inputs[0]);
    int64_t *label = samba_tensor_data(inputs[1]);
    const samba_hyperparameter lr = {"lr", its->lr};
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 2;
    run.outputs = &loss, run.output_count = 1;
    run.hyperparameters = &lr, run.hyperparameter_count = 1;
    its->loss = 0;
    for (int step = 0; step < STEPS; step++) {
        double value;
        must(context, samba_fill_uniform(inputs[0], (uint64_t)step, -1, 1));
        for (int i = 0; i < BATCH; i++)
            label[i] = xy[2 * i] * xy[2 * i] + xy[2 * i + 1] * xy[2 * i + 1] < 0.5f;
        must(context, samba_run(session, &run));
        must(context, samba_tensor_item(loss, &value));
        if (step >= STEPS - 100)
            its->loss += value / 100;
    }
    must(context, samba_session_get_by_name(session, "fc1.weight", &weights));
    memcpy(its->weights, samba_tensor_data(weights), sizeof its->weights);
    samba_tensor_free(weights), samba_tensor_free(loss);
    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]);
    samba_session_free(session);
    samba_context_free(context);
    return NULL;
}

static void compile_once(void)
{
    samba_context *context;
    must(NULL, samba_context_new(NULL, &context));
    samba_tensor *inputs[] = {named(context, "point", SAMBA_FLOAT32, SHAPE(BATCH, 2)),
                              named(context, "inside", SAMBA_INT64, SHAPE(BATCH))};
    samba_optimizer adamw = samba_adamw(0.01);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "threads", compile.model = model;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
    samba_context_free(context);
}

int main(void)
{
    compile_once();
    work together[] = {{.lr = 0.001}, {.lr = 0.02}}, alone[] = {{.lr = 0.001}, {.lr = 0.02}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        expect(pthread_create(&thread[i], NULL, train, &together[i]) == 0, "a thread can be made");
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        train(&alone[i]);
        printf("lr %.3f: loss %.3f in a thread beside another, %.3f alone\n", alone[i].lr, together[i].loss, alone[i].loss);
        expect(memcmp(&together[i], &alone[i], sizeof alone[i]) == 0, "the same bits");
    }
    expect(together[1].loss < 0.2 && together[1].loss < together[0].loss, "a loss below 0.2 at the greater rate");
    return 0;
}
