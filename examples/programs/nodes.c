/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph convolution network (Kipf and Welling, 2017): 240 people in 4 groups know each other, mostly within a group; 3 of each
 * group have a label. A layer mixes each person's numbers with those of all they know, by an adjacency matrix that is given. The
 * batch is the whole graph, and a label of -100 does not count in the loss. The same network over a matrix that has nobody know
 * anybody is what it is compared with. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>
#include <string.h>

enum { PEOPLE = 240, GROUPS = 4, LABELLED = 3, WIDTH = 16, STEPS = 150, SEEDS_EACH = 8 };

static samba_value convolution(samba_value x, samba_value adjacency, const char *name, int64_t width)
{
    samba_value mixed = samba_linear(x, name, width);
    return samba_matmul(adjacency, mixed);
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value x = samba_input(g, "x"), adjacency = samba_input(g, "adjacency"), label = samba_input(g, "label");
    samba_value hidden = samba_relu(convolution(x, adjacency, "layer1", 32));
    samba_value logits = convolution(samba_dropout(hidden, "dropout", 0.3), adjacency, "layer2", GROUPS);
    samba_loss(g, "loss", samba_cross_entropy(logits, label)); /* the mean over labels other than -100 */
    samba_output(g, "logits", logits);
}

/* D^-1/2 (A + I) D^-1/2: 9 friends in the mean in one's own group, 4 elsewhere. */
static void befriend(samba_context *context, float *adjacency, bool anybody)
{
    samba_tensor *random = named(context, "random", SAMBA_FLOAT32, SHAPE(PEOPLE, PEOPLE));
    const float *r = samba_tensor_data(random);
    float degree[PEOPLE] = {0};
    must(context, samba_fill_uniform(random, SEEDS_EACH * seed(), 0, 1));
    memset(adjacency, 0, sizeof(float) * PEOPLE * PEOPLE);
    for (int i = 0; i < PEOPLE; i++) {
        adjacency[PEOPLE * i + i] = 1;
        for (int j = 0; j < i && anybody; j++)
            if (r[PEOPLE * i + j] < (i % GROUPS == j % GROUPS ? 0.15f : 0.022f))
                adjacency[PEOPLE * i + j] = adjacency[PEOPLE * j + i] = 1;
    }
    for (int i = 0; i < PEOPLE; i++)
        for (int j = 0; j < PEOPLE; j++)
            degree[i] += adjacency[PEOPLE * i + j];
    for (int i = 0; i < PEOPLE; i++)
        for (int j = 0; j < PEOPLE; j++)
            adjacency[PEOPLE * i + j] /= sqrtf(degree[i] * degree[j]);
    samba_tensor_free(random);
}

/* How many people without a label have the right group after a training. */
static double trained(samba_context *context, const char *pef, samba_tensor *const *inputs, samba_tensor *logits)
{
    samba_session *session;
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_session_new(context, pef, &device, &session));
    samba_run_options train = samba_run_defaults();
    train.inputs = inputs, train.input_count = 3;
    for (int step = 0; step < STEPS; step++) {
        must(context, samba_run(session, &train));
        train.input_count = 0; /* nothing changes: the device has all of it */
    }
    samba_run_options answer = samba_run_defaults();
    answer.outputs = &logits, answer.output_count = 1;
    answer.section_types = (const char *const[]){"FWD"}, answer.section_type_count = 1;
    answer.train = false;
    must(context, samba_run(session, &answer));
    const float *score = samba_tensor_data(logits);
    int right = 0;
    for (int i = GROUPS * LABELLED; i < PEOPLE; i++) {
        int best = 0;
        for (int k = 1; k < GROUPS; k++)
            if (score[GROUPS * i + k] > score[GROUPS * i + best])
                best = k;
        right += best == i % GROUPS;
    }
    samba_session_free(session);
    return (double)right / (PEOPLE - GROUPS * LABELLED);
}

int main(void)
{
    samba_context *context;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    samba_tensor *inputs[] = {named(context, "x", SAMBA_FLOAT32, SHAPE(PEOPLE, WIDTH)),
                              named(context, "adjacency", SAMBA_FLOAT32, SHAPE(PEOPLE, PEOPLE)),
                              named(context, "label", SAMBA_INT64, SHAPE(PEOPLE))};
    samba_tensor *logits = named(context, "logits", SAMBA_FLOAT32, SHAPE(PEOPLE, GROUPS));
    samba_optimizer adam = samba_adam(0.01);
    samba_compile_options compile = samba_compile_defaults();
    adam.weight_decay = 0.005;
    compile.name = "nodes", compile.model = model;
    compile.inputs = inputs, compile.input_count = 3;
    compile.optimizers = &adam, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));

    /* Each person's numbers say little about the group by themselves. */
    must(context, samba_fill_normal(inputs[0], SEEDS_EACH * seed() + 1, 0, 1));
    float *x = samba_tensor_data(inputs[0]);
    int64_t *label = samba_tensor_data(inputs[2]);
    for (int i = 0; i < PEOPLE; i++) {
        label[i] = i < GROUPS * LABELLED ? i % GROUPS : -100;
        for (int j = i % GROUPS; j < WIDTH; j += GROUPS)
            x[WIDTH * i + j] += 0.6f;
    }
    befriend(context, samba_tensor_data(inputs[1]), false);
    const double alone = trained(context, pef, inputs, logits);
    befriend(context, samba_tensor_data(inputs[1]), true);
    const double known = trained(context, pef, inputs, logits);
    printf("%d of %d people have a label; right about the others: %.2f by themselves, %.2f by whom they know\n",
           GROUPS * LABELLED, PEOPLE, alone, known);
    expect(known > 0.75 && known > alone + 0.15, "3 of 4 people right, more than by themselves");

    for (int i = 0; i < 3; i++)
        samba_tensor_free(inputs[i]);
    samba_tensor_free(logits);
    samba_context_free(context);
    return 0;
}
