/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tasks at once: one body, two heads and two losses. The first head says which digit it is, the second how wide and how high
 * it is; the loss is a weighted sum of both. The weights are an input that is given once, so that they may change without
 * compiling, and each loss by itself is an output, which tells whether both fall.
 *
 *     heads [FOLDER OF THE DIGITS, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

enum { BATCH = 50, SIDE = 28, PIXELS = SIDE * SIDE, TRAINED = 4000, DIGITS = 5000 };

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label"), size = samba_input(g, "size");
    samba_value weights = samba_input(g, "weights");
    samba_value body = samba_relu(samba_linear(image, "body1", 128));
    body = samba_relu(samba_linear(body, "body2", 64));
    samba_value logits = samba_linear(body, "class", 10), guess = samba_linear(body, "size", 2);
    samba_value of_class = samba_cross_entropy(logits, label);
    samba_value of_size = samba_mse_loss(guess, size, (samba_value){0}, SAMBA_MEAN); /* (BATCH, 2) both */
    samba_value both = samba_stack(2, (const samba_value[]){of_class, of_size}, 0);
    samba_loss(g, "loss", samba_dot(both, weights));
    samba_output(g, "class_loss", of_class);
    samba_output(g, "size_loss", of_size);
    samba_output(g, "logits", logits);
    samba_output(g, "guess", guess);
}

/* The digits of a folder with a field more: width and height of what is written, as parts of the picture. */
static samba_source *digits(samba_context *context, const char *folder)
{
    samba_tensor *bytes, *labels;
    samba_source *source;
    char path[1024];
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &bytes));
    snprintf(path, sizeof path, "%s/digits-labels-idx1-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &labels));
    samba_tensor *fields[] = {named(context, "image", SAMBA_FLOAT32, SHAPE(DIGITS, PIXELS)),
                              named(context, "label", SAMBA_INT64, SHAPE(DIGITS)),
                              named(context, "size", SAMBA_FLOAT32, SHAPE(DIGITS, 2))};
    must(context, samba_tensor_copy(fields[1], labels)); /* which converts */
    const unsigned char *byte = samba_tensor_data(bytes);
    float *image = samba_tensor_data(fields[0]), *size = samba_tensor_data(fields[2]);
    for (int i = 0; i < DIGITS; i++, byte += PIXELS, image += PIXELS, size += 2) {
        int left = SIDE, right = -1, top = SIDE, bottom = -1;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                image[SIDE * y + x] = (float)byte[SIDE * y + x] / 255;
                if (byte[SIDE * y + x] < 128)
                    continue;
                left = x < left ? x : left, right = x > right ? x : right;
                top = y < top ? y : top, bottom = y > bottom ? y : bottom;
            }
        size[0] = (float)(right - left + 1) / SIDE, size[1] = (float)(bottom - top + 1) / SIDE;
    }
    must(context, samba_source_tensors(context, 3, fields, &source));
    samba_tensor_free(bytes), samba_tensor_free(labels);
    for (int i = 0; i < 3; i++)
        samba_tensor_free(fields[i]);
    return source;
}

/* Test figures of a training with these weights of the two losses. */
static void trained(samba_context *context, const char *pef, samba_tensor *weights, samba_source *train, samba_source *test,
                    double *accuracy, double *pixels)
{
    samba_session *session;
    samba_loader *loader;
    samba_metric *metrics[2];
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_session_new(context, pef, &device, &session));
    must(context, samba_session_set(session, weights));
    samba_train_options options = samba_train_defaults();
    options.train = train, options.loss = "loss"; /* there are three outputs of one number */
    options.epochs = 8, options.seed = seed();
    must(context, samba_train(session, &options, NULL));

    samba_metric_options which[] = {samba_metric_defaults(SAMBA_METRIC_ACCURACY), samba_metric_defaults(SAMBA_METRIC_RMSE)};
    which[1].output = "guess", which[1].target = "size";
    for (int i = 0; i < 2; i++)
        must(context, samba_metric_new(context, &which[i], &metrics[i]));
    samba_loader_options by = samba_loader_defaults();
    samba_evaluate_options evaluate = samba_evaluate_defaults();
    by.batch_size = BATCH;
    evaluate.metrics = metrics, evaluate.metric_count = 2;
    must(context, samba_loader_new(context, test, &by, &loader));
    must(context, samba_evaluate(session, loader, &evaluate, NULL));
    *accuracy = samba_metric_value(metrics[0]), *pixels = SIDE * samba_metric_value(metrics[1]);
    samba_metric_free(metrics[0]), samba_metric_free(metrics[1]);
    samba_loader_free(loader);
    samba_session_free(session);
}

int main(int argc, char **argv)
{
    samba_context *context;
    samba_source *train, *test;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    samba_source *all = digits(context, argc > 1 ? argv[1] : "examples/data");
    must(context, samba_source_part(all, 0, TRAINED, &train));
    must(context, samba_source_part(all, TRAINED, DIGITS, &test));
    samba_tensor *inputs[] = {
        named(context, "image", SAMBA_FLOAT32, SHAPE(BATCH, PIXELS)), named(context, "label", SAMBA_INT64, SHAPE(BATCH)),
        named(context, "size", SAMBA_FLOAT32, SHAPE(BATCH, 2)), named(context, "weights", SAMBA_FLOAT32, SHAPE(2))};
    samba_optimizer adamw = samba_adamw(0.002);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "heads", compile.model = model;
    compile.inputs = inputs, compile.input_count = 4;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));

    /* A class costs about 2 nats in the beginning, a size 0.01: what is wanted of both needs a weight. */
    static const float weights[2][2] = {{1, 0}, {1, 20}};
    double accuracy[2], pixels[2];
    float *w = samba_tensor_data(inputs[3]);
    for (int i = 0; i < 2; i++) {
        w[0] = weights[i][0], w[1] = weights[i][1];
        trained(context, pef, inputs[3], train, test, &accuracy[i], &pixels[i]);
        printf("weights %g and %2g: accuracy %.3f, sizes missed by %.2f pixels\n", (double)w[0], (double)w[1], accuracy[i],
               pixels[i]);
    }
    expect(accuracy[1] > 0.9 && pixels[1] < 2.5 && pixels[0] > 2 * pixels[1], "both learned, where one was without a weight");

    for (int i = 0; i < 4; i++)
        samba_tensor_free(inputs[i]);
    samba_source_free(all), samba_source_free(train), samba_source_free(test);
    samba_context_free(context);
    return 0;
}
