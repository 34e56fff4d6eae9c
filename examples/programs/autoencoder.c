/* SPDX-License-Identifier: Apache-2.0
 *
 * An autoencoder (Hinton and Salakhutdinov, 2006): pictures of digits through 32 numbers and back. It is given noisy pictures and
 * has to say what they were (Vincent et al., 2008): the dropout of the input is part of the model, and a test has none. A graph
 * for the code alone stands beside it in the PEF.
 *
 *     autoencoder [FOLDER OF THE DIGITS, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

enum { BATCH = 50, PIXELS = 784, CODE = 32, TRAINED = 4000, DIGITS = 5000, EPOCHS = 15 };

static samba_value encoder(samba_value image)
{
    return samba_linear(samba_relu(samba_linear(image, "encoder1", 128)), "encoder2", CODE);
}

static void whole(samba_graph *g, const void *options)
{
    (void)options;
    samba_value image = samba_input(g, "image"), none = {0};
    samba_value code = encoder(samba_dropout(image, "noise", 0.2));
    samba_value logits = samba_linear(samba_relu(samba_linear(code, "decoder1", 128)), "decoder2", PIXELS);
    samba_loss(g, "loss", samba_binary_cross_entropy_with_logits(logits, image, none, none, SAMBA_MEAN));
    samba_output(g, "again", samba_sigmoid(logits));
}

static void code_alone(samba_graph *g, const void *options)
{
    (void)options;
    samba_output(g, "code", encoder(samba_input(g, "image")));
}

int main(int argc, char **argv)
{
    samba_context *context;
    samba_session *session;
    samba_multigraph *graphs;
    samba_tensor *pictures;
    char path[1024];
    must(NULL, samba_context_new(NULL, &context));
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", argc > 1 ? argv[1] : "examples/data");
    must(context, samba_idx_read(context, path, &pictures));
    samba_tensor *image = named(context, "image", SAMBA_FLOAT32, SHAPE(BATCH, PIXELS));
    samba_tensor *again = named(context, "again", SAMBA_FLOAT32, SHAPE(BATCH, PIXELS));
    samba_tensor *code = named(context, "code", SAMBA_FLOAT32, SHAPE(BATCH, CODE));

    samba_optimizer adamw = samba_adamw(0.002);
    samba_compile_options compile = samba_compile_defaults();
    must(context, samba_multigraph_new(context, &graphs));
    compile.name = "train", compile.model = whole;
    compile.inputs = &image, compile.input_count = 1;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_multigraph_add(graphs, &compile, false));
    compile.name = "code", compile.model = code_alone;
    compile.optimizer_count = 0, compile.inference = true;
    must(context, samba_multigraph_add(graphs, &compile, false));
    must(context, samba_multigraph_compile(graphs, "autoencoder", NULL, path, sizeof path));
    must(context, samba_session_new(context, path, NULL, &session));

    const unsigned char *bytes = samba_tensor_data(pictures);
    float *pixel = samba_tensor_data(image);
    const float *out = samba_tensor_data(again);
    samba_run_options train = samba_run_defaults();
    train.graph_name = "train";
    train.inputs = &image, train.input_count = 1;
    samba_run_options test = train;
    test.outputs = &again, test.output_count = 1;
    test.section_types = (const char *const[]){"FWD"}, test.section_type_count = 1;
    test.train = false;

    int64_t order[TRAINED];
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        samba_shuffle((uint64_t)epoch, TRAINED, order);
        for (int begin = 0; begin < TRAINED; begin += BATCH) {
            for (int i = 0; i < BATCH; i++)
                for (int p = 0; p < PIXELS; p++)
                    pixel[i * PIXELS + p] = (float)bytes[order[begin + i] * PIXELS + p] / 255;
            must(context, samba_run(session, &train));
        }
    }

    /* Against the mean picture of the test, which is the best guess without a code. */
    double mean[PIXELS] = {0}, variance = 0, missed = 0;
    for (int i = TRAINED; i < DIGITS; i++)
        for (int p = 0; p < PIXELS; p++)
            mean[p] += bytes[i * PIXELS + p] / 255.0 / (DIGITS - TRAINED);
    for (int begin = TRAINED; begin < DIGITS; begin += BATCH) {
        for (int i = 0; i < BATCH * PIXELS; i++)
            pixel[i] = (float)bytes[begin * PIXELS + i] / 255;
        must(context, samba_run(session, &test));
        for (int i = 0; i < BATCH * PIXELS; i++) {
            const double truth = (double)pixel[i], guess = (double)out[i];
            missed += (truth - guess) * (truth - guess);
            variance += (truth - mean[i % PIXELS]) * (truth - mean[i % PIXELS]);
        }
    }
    const double explained = 1 - missed / variance;
    printf("%d numbers explain %.3f of the pictures\n", CODE, explained);
    expect(explained > 0.7, "7 tenths of the variance");

    samba_run_options encode = train;
    encode.graph_name = "code";
    encode.outputs = &code, encode.output_count = 1;
    must(context, samba_run(session, &encode));
    const float *numbers = samba_tensor_data(code);
    printf("code of the last picture but %d: %.2f %.2f %.2f ...\n", BATCH - 1, (double)numbers[0], (double)numbers[1],
           (double)numbers[2]);

    samba_tensor_free(image), samba_tensor_free(again), samba_tensor_free(code), samba_tensor_free(pictures);
    samba_session_free(session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
