/* SPDX-License-Identifier: Apache-2.0
 *
 * A diffusion model (DDPM: Ho et al., 2020) of points in the plane. Points are mixed with noise in 50 stages, of which the last
 * is noise alone; the network learns to tell the noise from the mixture and the number of the stage. Sampling begins with noise
 * and takes away, stage by stage, what the network says. The graph that trains draws stages and noise itself; the one that
 * samples is run once a stage. The points are two half moons, which lie in each other's arms. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { BATCH = 256, STAGES = 50, WIDTH = 64, STEPS = 6000, SAMPLED = 512, LEVELS = 4 };

static float beta[STAGES]; /* what each stage takes of the point's square */
static float kept[STAGES]; /* what is left of it after each (alpha bar) */
/* The same for the network: how much there is of point and noise, and its logarithm, so that it sees all sizes. */
static float levels[STAGES][LEVELS];

/* The noise in a mixture, (N, 2), of which each row has a stage of its own. */
static samba_value denoise(samba_value mixture, samba_value stage)
{
    samba_value table = samba_constant_memory(stage.graph, SAMBA_FLOAT32, SHAPE(STAGES, LEVELS), levels, NULL, NULL);
    samba_value level = samba_index_select(table, 0, stage); /* (N, LEVELS) */
    samba_value hidden = samba_concat(2, (const samba_value[]){mixture, level}, 1);
    hidden = samba_silu(samba_linear(hidden, "fc1", WIDTH));
    hidden = samba_silu(samba_linear(hidden, "fc2", WIDTH));
    hidden = samba_silu(samba_linear(hidden, "fc3", WIDTH));
    return samba_linear(hidden, "out", 2);
}

static void train_model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value point = samba_input(g, "point");
    samba_value stage = samba_randint(g, "stages", 0, STAGES, SHAPE(BATCH));
    samba_value noise = samba_randn(g, "noise", SHAPE(BATCH, 2));
    samba_value table = samba_constant_memory(g, SAMBA_FLOAT32, SHAPE(STAGES, 1), kept, NULL, NULL);
    samba_value share = samba_index_select(table, 0, stage); /* (BATCH, 1) */
    samba_value of_point = samba_mul(samba_sqrt(share), point);
    samba_value of_noise = samba_mul(samba_sqrt(samba_add_scalar(samba_neg(share), 1)), noise);
    samba_value guess = denoise(samba_add(of_point, of_noise), stage);
    samba_loss(g, "loss", samba_mse_loss(guess, noise, (samba_value){0}, SAMBA_MEAN));
}

static void sample_model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value mixture = samba_input(g, "mixture");
    samba_output(g, "guess", denoise(mixture, samba_input(g, "now")));
}

/* Moon 0 is the upper half of a circle about (-0.5, -0.25), moon 1 the lower half of one about (0.5, 0.25). */
static void moons(samba_context *context, uint64_t draw, samba_tensor *random, float *point)
{
    must(context, samba_fill_uniform(random, draw, 0, 1));
    const float *r = samba_tensor_data(random);
    for (int i = 0; i < BATCH; i++) {
        const float side = i % 2 ? -1 : 1, angle = 3.14159265f * r[i];
        point[2 * i] = side * (cosf(angle) - 0.5f);
        point[2 * i + 1] = side * (sinf(angle) - 0.25f);
    }
}

/* How far a point is from the nearer moon, and which one that is. */
static double away(double x, double y, int *moon)
{
    double least = INFINITY;
    for (int m = 0; m < 2; m++) {
        const double side = m ? -1 : 1, u = side * x + 0.5, v = side * y + 0.25;
        const double d = v >= 0 ? fabs(hypot(u, v) - 1) : fmin(hypot(u - 1, v), hypot(u + 1, v));
        if (d < least)
            least = d, *moon = m;
    }
    return least;
}

int main(void)
{
    samba_context *context;
    samba_multigraph *graphs;
    samba_session *session;
    must(NULL, samba_context_new(NULL, &context));
    for (int t = 0; t < STAGES; t++) {
        beta[t] = 0.001f + 0.2f * (float)t / (STAGES - 1);
        kept[t] = (t ? kept[t - 1] : 1) * (1 - beta[t]);
        levels[t][0] = sqrtf(kept[t]), levels[t][1] = sqrtf(1 - kept[t]);
        levels[t][2] = logf(kept[t]) / 2, levels[t][3] = logf(1 - kept[t]) / 2;
    }
    samba_tensor *point = named(context, "point", SAMBA_FLOAT32, SHAPE(BATCH, 2));
    samba_tensor *random = named(context, "random", SAMBA_FLOAT32, SHAPE(BATCH));
    samba_tensor *asked[] = {named(context, "mixture", SAMBA_FLOAT32, SHAPE(SAMPLED, 2)),
                             named(context, "now", SAMBA_INT64, SHAPE(SAMPLED))};
    samba_tensor *guess = named(context, "guess", SAMBA_FLOAT32, SHAPE(SAMPLED, 2));
    samba_tensor *anew = named(context, "anew", SAMBA_FLOAT32, SHAPE(SAMPLED, 2));

    samba_optimizer adam = samba_adam(0.003);
    samba_compile_options compile = samba_compile_defaults();
    must(context, samba_multigraph_new(context, &graphs));
    compile.name = "train", compile.model = train_model;
    compile.inputs = &point, compile.input_count = 1;
    compile.optimizers = &adam, compile.optimizer_count = 1;
    must(context, samba_multigraph_add(graphs, &compile, false));
    compile.name = "sample", compile.model = sample_model;
    compile.inputs = asked, compile.input_count = 2;
    compile.optimizer_count = 0, compile.inference = true;
    must(context, samba_multigraph_add(graphs, &compile, false));
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_multigraph_session(graphs, "diffusion", &device, &session));

    samba_run_options train = samba_run_defaults();
    train.graph_name = "train";
    train.inputs = &point, train.input_count = 1;
    samba_hyperparameter lr = {"lr", 0};
    train.hyperparameters = &lr, train.hyperparameter_count = 1;
    for (int step = 0; step < STEPS; step++) {
        moons(context, seed() * STEPS + (uint64_t)step, random, samba_tensor_data(point));
        lr.value = samba_cosine_annealing_lr(0.003, step, STEPS, 0);
        must(context, samba_run(session, &train));
    }

    /* From the last stage to the first: the mean of the stage before, and noise of its deviation. */
    samba_run_options sample = samba_run_defaults();
    sample.graph_name = "sample";
    sample.inputs = asked, sample.input_count = 2;
    sample.outputs = &guess, sample.output_count = 1;
    float *x = samba_tensor_data(asked[0]);
    int64_t *now = samba_tensor_data(asked[1]);
    const float *said = samba_tensor_data(guess), *n = samba_tensor_data(anew);
    int of_moon[2] = {0}, moon = 0;
    double distance = 0, noise_distance = 0;
    must(context, samba_fill_normal(asked[0], seed() + 1000, 0, 1));
    for (int i = 0; i < SAMPLED; i++)
        noise_distance += away((double)x[2 * i], (double)x[2 * i + 1], &moon) / SAMPLED;
    for (int t = STAGES - 1; t >= 0; t--) {
        for (int i = 0; i < SAMPLED; i++)
            now[i] = t;
        must(context, samba_run(session, &sample));
        must(context, samba_fill_normal(anew, seed() + 2000 + (uint64_t)t, 0, 1));
        for (int i = 0; i < 2 * SAMPLED; i++) {
            x[i] = (x[i] - beta[t] / sqrtf(1 - kept[t]) * said[i]) / sqrtf(1 - beta[t]);
            if (t > 0)
                x[i] += sqrtf(beta[t] * (1 - kept[t - 1]) / (1 - kept[t])) * n[i];
        }
    }
    for (int i = 0; i < SAMPLED; i++) {
        distance += away((double)x[2 * i], (double)x[2 * i + 1], &moon) / SAMPLED;
        of_moon[moon]++;
    }
    printf("points are %.3f away from the moons, where noise was %.3f; %d and %d of each\n", distance, noise_distance, of_moon[0],
           of_moon[1]);
    expect(distance < 0.15 && distance < noise_distance / 3, "points near the moons");
    expect(of_moon[0] > SAMPLED / 3 && of_moon[1] > SAMPLED / 3, "as many of each");

    samba_tensor_free(point), samba_tensor_free(random), samba_tensor_free(guess), samba_tensor_free(anew);
    samba_tensor_free(asked[0]), samba_tensor_free(asked[1]);
    samba_session_free(session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
