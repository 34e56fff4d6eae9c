/* SPDX-License-Identifier: Apache-2.0
 *
 * Super-resolution (ESPCN: Shi et al., 2016): digits of 14 x 14 pixels become 28 x 28. Convolutions work on the small picture,
 * and their last channels become pixels. It is an application: samba_app_main makes of a model and its samples a program with a
 * command line. Behind the training it says the signal-to-noise ratio of new pictures, next to that of plain interpolation.
 *
 *     sharpen train [--data FOLDER OF THE DIGITS] [--num-epochs 5]      sharpen --help says more */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { SMALL = 14, SIDE = 28, PIXELS = SIDE * SIDE, TRAINED = 4000, DIGITS = 5000, BATCH = 50 };

/* What the network adds to the interpolated picture; its last layer starts at zeros, so that it begins with that picture. */
static void model(samba_graph *g, const void *options)
{
    (void)options;
    const int64_t five[] = {5, 5}, three[] = {3, 3};
    const samba_conv2d_options same = {.same = true};
    const samba_interpolate_options twice = {.mode = SAMBA_RESAMPLE_LINEAR, .size = {SIDE, SIDE}};
    samba_value small = samba_input(g, "small"), image = samba_input(g, "image");
    samba_value plain = samba_interpolate(small, &twice);
    samba_value hidden = samba_relu(samba_conv2d(small, "conv1", 16, five, &same));
    hidden = samba_relu(samba_conv2d(hidden, "conv2", 16, three, &same));
    samba_parameter(g, "conv3.weight", SAMBA_FLOAT32, SHAPE(4, 16, 3, 3), (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    samba_value more = samba_pixel_shuffle(samba_conv2d(hidden, "conv3", 4, three, &same), 2);
    samba_value sharp = samba_add(plain, more);
    samba_value none = {0};
    samba_loss(g, "loss", samba_mse_loss(sharp, image, none, SAMBA_MEAN));
    samba_output(g, "sharp", sharp);
    samba_output(g, "plain_loss", samba_mse_loss(plain, image, none, SAMBA_MEAN));
}

static int inputs(const void *settings, int64_t batch_size, samba_app_input *input)
{
    (void)settings;
    input[0] = (samba_app_input){"small", SAMBA_FLOAT32, 4, {batch_size, 1, SMALL, SMALL}, 0};
    input[1] = (samba_app_input){"image", SAMBA_FLOAT32, 4, {batch_size, 1, SIDE, SIDE}, 0};
    return 2;
}

/* The digits, and each with the mean of every four pixels. `user` keeps those to test with. */
static samba_status samples(samba_context *context, void *user, const char *folder, int input_count, const samba_app_input *its,
                            samba_app_data *data)
{
    samba_source **test = user, *all, *train;
    samba_tensor *bytes;
    char path[1024];
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", folder);
    samba_status status = samba_idx_read(context, path, &bytes);
    if (status != SAMBA_OK)
        return status;
    samba_tensor *fields[] = {named(context, "small", SAMBA_FLOAT32, SHAPE(DIGITS, 1, SMALL, SMALL)),
                              named(context, "image", SAMBA_FLOAT32, SHAPE(DIGITS, 1, SIDE, SIDE))};
    const unsigned char *byte = samba_tensor_data(bytes);
    float *small = samba_tensor_data(fields[0]), *image = samba_tensor_data(fields[1]);
    for (int i = 0; i < DIGITS * PIXELS; i++) {
        const int picture = i / PIXELS, y = i % PIXELS / SIDE, x = i % SIDE;
        image[i] = (float)byte[i] / 255;
        small[(picture * SMALL + y / 2) * SMALL + x / 2] += image[i] / 4;
    }
    must(context, samba_source_tensors(context, 2, fields, &all));
    must(context, samba_source_part(all, 0, TRAINED, &train));
    must(context, samba_source_part(all, TRAINED, DIGITS, test));
    status = samba_app_data_of(context, train, *test, input_count, its, data);
    samba_tensor_free(bytes), samba_tensor_free(fields[0]), samba_tensor_free(fields[1]);
    samba_source_free(all), samba_source_free(train);
    return status;
}

/* Peak signal to noise, in decibels, of pictures whose pixels are 0 to 1. */
static double decibels(samba_context *context, samba_session *session, samba_source *test, const char *loss)
{
    samba_loader_options by = samba_loader_defaults();
    samba_evaluate_options evaluate = samba_evaluate_defaults();
    samba_loader *loader;
    double value;
    by.batch_size = BATCH;
    evaluate.loss = loss;
    must(context, samba_loader_new(context, test, &by, &loader));
    must(context, samba_evaluate(session, loader, &evaluate, &value));
    samba_loader_free(loader);
    return -10 * log10(value);
}

static samba_status trained(samba_context *context, void *user, samba_session *session, FILE *out)
{
    samba_source **test = user;
    const double plain = decibels(context, session, *test, "plain_loss"), sharp = decibels(context, session, *test, "loss");
    fprintf(out, "new pictures: %.1f dB, by interpolation %.1f dB\n", sharp, plain);
    expect(sharp > plain + 3, "3 dB more than by interpolation");
    samba_source_free(*test); /* the context is the application's, and ends with it: what was made under it is freed before */
    *test = NULL;
    return SAMBA_OK;
}

int main(int argc, char **argv)
{
    samba_source *test = NULL;
    const samba_app app = {.struct_size = sizeof app,
                           .name = "sharpen",
                           .description = "Pictures of digits with four times as many pixels.",
                           .model = model,
                           .inputs = inputs,
                           .samples = samples,
                           .trained = trained,
                           .user = &test,
                           .batch_size = BATCH,
                           .num_epochs = 3,
                           .optimizer = samba_adam(0.003)};
    return samba_app_main(argc, argv, &app);
}
