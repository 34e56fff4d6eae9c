/* SPDX-License-Identifier: Apache-2.0
 *
 * A generative adversarial network (Goodfellow et al., 2014): three graphs in one PEF. One trains the discriminator, one the
 * generator, each with an optimizer of its own parameters, and one makes points. What has one name in several graphs is one
 * tensor on the device, so they play with the same two networks. The points to be learned lie on a ring. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { BATCH = 128, NOISE = 4, STEPS = 3000 };

static samba_value generator(samba_value noise)
{
    samba_scope_push(noise.graph, "generator");
    samba_value hidden = samba_leaky_relu(samba_linear(noise, "fc1", 32), 0.2);
    hidden = samba_leaky_relu(samba_linear(hidden, "fc2", 32), 0.2);
    samba_value point = samba_linear(hidden, "fc3", 2);
    samba_scope_pop(noise.graph);
    return point;
}

static samba_value discriminator(samba_value point)
{
    samba_scope_push(point.graph, "discriminator");
    samba_value hidden = samba_leaky_relu(samba_linear(point, "fc1", 64), 0.2);
    hidden = samba_leaky_relu(samba_linear(hidden, "fc2", 64), 0.2);
    samba_value score = samba_linear(hidden, "fc3", 1);
    samba_scope_pop(point.graph);
    return score;
}

/* True points should get 1, made ones 0. log(1 + exp(-score)) is the cross entropy of a score and 1. */
static void judge(samba_graph *g, const void *options)
{
    (void)options;
    samba_value truth = samba_input(g, "truth"), noise = samba_input(g, "noise");
    samba_value made = samba_detach(generator(noise)); /* no gradient reaches the generator */
    samba_value of_truth = samba_softplus(samba_neg(discriminator(truth)));
    samba_value of_made = samba_softplus(discriminator(made));
    samba_loss(g, "judge_loss", samba_mean(samba_add(of_truth, of_made), 0, NULL, false));
}

static void forge(samba_graph *g, const void *options)
{
    (void)options;
    samba_value score = discriminator(generator(samba_input(g, "noise")));
    samba_loss(g, "forge_loss", samba_mean(samba_softplus(samba_neg(score)), 0, NULL, false));
}

static void show(samba_graph *g, const void *options)
{
    (void)options;
    samba_output(g, "made", generator(samba_input(g, "noise")));
}

/* Adds a graph: `trains` names the parameters that its optimizer has; NULL: it is for inference. */
static void add(samba_context *context, samba_multigraph *graphs, const char *name, samba_model model, int input_count,
                samba_tensor *const *inputs, const char *trains)
{
    samba_compile_options compile = samba_compile_defaults();
    samba_optimizer adam = samba_adam(0.001);
    adam.name = name;
    adam.beta1 = 0.5;
    adam.parameters = &trains, adam.parameter_count = 1;
    compile.name = name, compile.model = model;
    compile.inputs = inputs, compile.input_count = input_count;
    compile.optimizers = &adam, compile.optimizer_count = trains ? 1 : 0;
    compile.inference = !trains;
    must(context, samba_multigraph_add(graphs, &compile, false));
}

int main(void)
{
    samba_context *context;
    samba_multigraph *graphs;
    samba_session *session;
    must(NULL, samba_context_new(NULL, &context));
    samba_tensor *noise = named(context, "noise", SAMBA_FLOAT32, SHAPE(BATCH, NOISE));
    samba_tensor *truth = named(context, "truth", SAMBA_FLOAT32, SHAPE(BATCH, 2));
    samba_tensor *made = named(context, "made", SAMBA_FLOAT32, SHAPE(BATCH, 2));
    samba_tensor *angle = named(context, "angle", SAMBA_FLOAT32, SHAPE(BATCH));
    samba_tensor *both[] = {truth, noise};
    must(context, samba_multigraph_new(context, &graphs));
    add(context, graphs, "judge", judge, 2, both, "discriminator.*");
    add(context, graphs, "forge", forge, 1, &noise, "generator.*");
    add(context, graphs, "show", show, 1, &noise, NULL);
    must(context, samba_multigraph_session(graphs, "gan", NULL, &session)); /* in memory, without a file */

    float *point = samba_tensor_data(truth);
    const float *a = samba_tensor_data(angle);
    samba_run_options of_judge = samba_run_defaults(), of_forge = samba_run_defaults(), of_show = samba_run_defaults();
    of_judge.graph_name = "judge", of_judge.inputs = both, of_judge.input_count = 2;
    of_forge.graph_name = "forge", of_forge.inputs = &noise, of_forge.input_count = 1;
    of_show.graph_name = "show", of_show.inputs = &noise, of_show.input_count = 1;
    of_show.outputs = &made, of_show.output_count = 1;
    for (uint64_t step = 0; step < STEPS; step++) {
        must(context, samba_fill_uniform(angle, 3 * step, 0, 2 * 3.14159265));
        for (int i = 0; i < BATCH; i++) {
            point[2 * i] = cosf(a[i]);
            point[2 * i + 1] = sinf(a[i]);
        }
        must(context, samba_fill_normal(noise, 3 * step + 1, 0, 1));
        must(context, samba_run(session, &of_judge));
        must(context, samba_fill_normal(noise, 3 * step + 2, 0, 1));
        must(context, samba_run(session, &of_forge));
    }

    /* Made points should lie about the ring, and all around it. */
    const float *xy = samba_tensor_data(made);
    int quarter[4] = {0}, rounds = 8;
    double away = 0;
    for (int round = 0; round < rounds; round++) {
        must(context, samba_fill_normal(noise, 1000000u + (uint64_t)round, 0, 1));
        must(context, samba_run(session, &of_show));
        for (int i = 0; i < BATCH; i++) {
            away += fabs(hypot((double)xy[2 * i], (double)xy[2 * i + 1]) - 1);
            quarter[2 * (xy[2 * i] > 0) + (xy[2 * i + 1] > 0)]++;
        }
    }
    away /= rounds * BATCH;
    printf("points are %.3f away from the ring, in its quarters %d %d %d %d\n", away, quarter[0], quarter[1], quarter[2],
           quarter[3]);
    expect(away < 0.15, "points near the ring");
    for (int i = 0; i < 4; i++)
        expect(quarter[i] > rounds * BATCH / 10, "points in each quarter of the ring");

    samba_tensor_free(noise), samba_tensor_free(truth), samba_tensor_free(made), samba_tensor_free(angle);
    samba_session_free(session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
