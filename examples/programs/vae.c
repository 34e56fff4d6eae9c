/* SPDX-License-Identifier: Apache-2.0
 *
 * A variational autoencoder (Kingma and Welling, 2014): a picture becomes a distribution of 8 numbers, a number drawn from it
 * becomes a picture again. The noise is drawn in the graph, anew each run. The decoder alone is a second graph over the same
 * weights, which makes pictures of noise.
 *
 *     vae [FOLDER OF THE DIGITS, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { BATCH = 50, PIXELS = 784, CODE = 8, TRAINED = 4000, DIGITS = 5000, EPOCHS = 20 };

static samba_value decoder(samba_value code)
{
    return samba_linear(samba_relu(samba_linear(code, "decoder1", 128)), "decoder2", PIXELS);
}

/* The loss is in nats a picture: what it costs to say the picture when the code is known, and to say the code. */
static void whole(samba_graph *g, const void *options)
{
    (void)options;
    samba_value image = samba_input(g, "image"), none = {0};
    samba_value hidden = samba_relu(samba_linear(image, "encoder", 128));
    samba_value mean = samba_linear(hidden, "mean", CODE), log_variance = samba_linear(hidden, "log_variance", CODE);
    samba_value noise = samba_randn(g, "noise", SHAPE(BATCH, CODE));
    samba_value deviation = samba_exp(samba_mul_scalar(log_variance, 0.5));
    samba_value logits = decoder(samba_add(mean, samba_mul(noise, deviation)));
    samba_value picture = samba_binary_cross_entropy_with_logits(logits, image, none, none, SAMBA_SUM);
    samba_value spread = samba_add_scalar(log_variance, 1);
    spread = samba_sub(spread, samba_exp(log_variance));
    samba_value divergence = samba_mul_scalar(samba_sum(samba_sub(spread, samba_square(mean)), 0, NULL, false), -0.5);
    picture = samba_mul_scalar(picture, 1.0 / BATCH), divergence = samba_mul_scalar(divergence, 1.0 / BATCH);
    samba_loss(g, "loss", samba_add(picture, divergence));
    samba_output(g, "divergence", divergence);
}

static void make(samba_graph *g, const void *options)
{
    (void)options;
    samba_output(g, "made", samba_sigmoid(decoder(samba_input(g, "code"))));
}

static void add(samba_context *context, samba_multigraph *graphs, const char *name, samba_model model, samba_tensor *input,
                bool inference)
{
    samba_optimizer adam = samba_adam(0.002);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = name, compile.model = model;
    compile.inputs = &input, compile.input_count = 1;
    compile.optimizers = &adam, compile.optimizer_count = inference ? 0 : 1;
    compile.inference = inference;
    must(context, samba_multigraph_add(graphs, &compile, false));
}

/* The mean of an output of one number over the test pictures. */
static double tested(samba_context *context, samba_session *session, samba_source *test, const char *output)
{
    samba_loader_options by = samba_loader_defaults();
    samba_evaluate_options evaluate = samba_evaluate_defaults();
    samba_loader *loader;
    double value;
    by.batch_size = BATCH;
    evaluate.graph_name = "train", evaluate.loss = output;
    must(context, samba_loader_new(context, test, &by, &loader));
    must(context, samba_evaluate(session, loader, &evaluate, &value));
    samba_loader_free(loader);
    return value;
}

int main(int argc, char **argv)
{
    samba_context *context;
    samba_session *session;
    samba_multigraph *graphs;
    samba_source *all, *train, *test;
    char path[1024];
    must(NULL, samba_context_new(NULL, &context));
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", argc > 1 ? argv[1] : "examples/data");
    const samba_column pixels = {.field = {"image", SAMBA_FLOAT32, 1, {PIXELS}}, .scale = 1 / 255.0};
    samba_file_options file = samba_file_defaults();
    file.columns = &pixels, file.column_count = 1;
    must(context, samba_source_file(context, path, &file, &all));
    must(context, samba_source_part(all, 0, TRAINED, &train));
    must(context, samba_source_part(all, TRAINED, DIGITS, &test));

    samba_tensor *image = named(context, "image", SAMBA_FLOAT32, SHAPE(BATCH, PIXELS));
    samba_tensor *code = named(context, "code", SAMBA_FLOAT32, SHAPE(BATCH, CODE));
    samba_tensor *made = named(context, "made", SAMBA_FLOAT32, SHAPE(BATCH, PIXELS));
    must(context, samba_multigraph_new(context, &graphs));
    add(context, graphs, "train", whole, image, false);
    add(context, graphs, "make", make, code, true);
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_multigraph_session(graphs, "vae", &device, &session));

    samba_train_options options = samba_train_defaults();
    options.train = train;
    options.graph_name = "train", options.loss = "loss";
    options.epochs = EPOCHS, options.seed = seed();
    options.schedule = (samba_schedule){.kind = SAMBA_SCHEDULE_COSINE, .warmup_steps = 50, .min_lr = 0.0002};
    must(context, samba_train(session, &options, NULL));
    const double nats = tested(context, session, test, "loss"), of_code = tested(context, session, test, "divergence");

    /* Without a code the best that can be said is the mean picture. */
    samba_tensor *rows = named(context, "image", SAMBA_FLOAT32, SHAPE(DIGITS, PIXELS));
    const float *pixel = samba_tensor_data(rows);
    int64_t numbers[DIGITS];
    double mean[PIXELS] = {0}, without = 0, ink = 0;
    for (int i = 0; i < DIGITS; i++)
        numbers[i] = i;
    must(context, samba_source_read(all, DIGITS, numbers, 1, &rows));
    for (int i = 0; i < TRAINED * PIXELS; i++)
        mean[i % PIXELS] += (double)pixel[i] / TRAINED;
    for (int p = 0; p < PIXELS; p++) {
        const double m = mean[p];
        without -= m > 0 && m < 1 ? m * log(m) + (1 - m) * log(1 - m) : 0;
        ink += m / PIXELS;
    }
    printf("a picture costs %.1f nats, %.1f of them for its code; without a code %.1f\n", nats, of_code, without);
    expect(nats < 0.75 * without, "a quarter of the nats saved");
    expect(of_code > 5 && of_code < 50, "a code that says something");

    samba_run_options run = samba_run_defaults();
    run.graph_name = "make";
    run.inputs = &code, run.input_count = 1;
    run.outputs = &made, run.output_count = 1;
    must(context, samba_fill_normal(code, seed() + 7, 0, 1));
    must(context, samba_run(session, &run));
    const float *drawn = samba_tensor_data(made);
    double drawn_ink = 0, sharp = 0;
    for (int i = 0; i < BATCH * PIXELS; i++) {
        drawn_ink += (double)drawn[i] / (BATCH * PIXELS);
        sharp += (drawn[i] < 0.2f || drawn[i] > 0.8f) / (double)(BATCH * PIXELS);
    }
    printf("pictures that it makes have %.2f of ink, true ones %.2f; %.2f of their pixels are sure\n", drawn_ink, ink, sharp);
    expect(fabs(drawn_ink - ink) < 0.04 && sharp > 0.75, "pictures with as much ink as true ones");

    samba_tensor_free(image), samba_tensor_free(code), samba_tensor_free(made), samba_tensor_free(rows);
    samba_source_free(all), samba_source_free(train), samba_source_free(test);
    samba_session_free(session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
