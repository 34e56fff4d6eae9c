/* SPDX-License-Identifier: Apache-2.0
 *
 * Segmentation: a small U-Net finds discs in noisy pictures that have squares, too. A source over a function of the program's own
 * makes each picture when its turn comes, so no data set lies in memory. Norms learn their statistics while training and use
 * them in the test. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <string.h>

enum { BATCH = 8, SIDE = 32, PIXELS = SIDE * SIDE, TRAINED = 480, TESTED = 40 };

/* Two convolutions, each with a norm. */
static samba_value block(samba_value x, const char *name, int64_t channels)
{
    const int64_t three[] = {3, 3};
    const samba_conv2d_options same = {.same = true, .no_bias = true};
    samba_scope_push(x.graph, name);
    x = samba_relu(samba_batch_norm(samba_conv2d(x, "conv1", channels, three, &same), "norm1", NULL));
    x = samba_relu(samba_batch_norm(samba_conv2d(x, "conv2", channels, three, &same), "norm2", NULL));
    samba_scope_pop(x.graph);
    return x;
}

/* Down twice, up twice; on the way up the finer features of the way down stand beside the coarse ones. */
static void unet(samba_graph *g, const void *options)
{
    (void)options;
    const int64_t two[] = {2, 2}, one[] = {1, 1};
    const samba_conv_transpose2d_options twice = {.stride = {2, 2}};
    samba_value picture = samba_input(g, "picture"), mask = samba_input(g, "mask");
    samba_value fine = block(picture, "down1", 8);
    samba_value middle = block(samba_max_pool2d(fine, two, NULL), "down2", 16);
    samba_value coarse = block(samba_max_pool2d(middle, two, NULL), "bottom", 32);
    samba_value up = samba_conv_transpose2d(coarse, "up2", 16, two, &twice);
    up = block(samba_concat(2, (const samba_value[]){up, middle}, 1), "join2", 16);
    up = samba_conv_transpose2d(up, "up1", 8, two, &twice);
    up = block(samba_concat(2, (const samba_value[]){up, fine}, 1), "join1", 8);
    samba_value logits = samba_conv2d(up, "mask", 1, one, NULL);
    samba_value none = {0};
    samba_loss(g, "loss", samba_binary_cross_entropy_with_logits(logits, mask, none, none, SAMBA_MEAN));
    samba_output(g, "logits", logits);
}

/* A number of [0, count), which depends on the picture and on which question it answers. */
static int draw(uint64_t picture, uint64_t question, int count)
{
    uint64_t bits = (picture * 64 + question + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 31)) * 0xbf58476d1ce4e5b9u;
    return (int)((bits ^ (bits >> 29)) >> 33) % count;
}

static samba_status make_pictures(samba_context *context, void *user, int64_t count, const int64_t *samples, int field_count,
                                  samba_tensor *const *rows)
{
    (void)context, (void)user, (void)field_count;
    float *picture = samba_tensor_data(rows[0]), *mask = samba_tensor_data(rows[1]);
    for (int64_t i = 0; i < count; i++, picture += PIXELS, mask += PIXELS) {
        const uint64_t number = (uint64_t)samples[i];
        const int radius = 4 + draw(number, 0, 4), cy = 8 + draw(number, 1, 16), cx = 8 + draw(number, 2, 16);
        const int half = 3 + draw(number, 3, 3), sy = 8 + draw(number, 4, 16), sx = 8 + draw(number, 5, 16);
        uint64_t noise = number + 1;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const bool disc = (y - cy) * (y - cy) + (x - cx) * (x - cx) <= radius * radius;
                const bool square = abs(y - sy) <= half && abs(x - sx) <= half;
                noise = noise * 6364136223846793005u + 1442695040888963407u;
                picture[SIDE * y + x] = (disc || square ? 1.0f : 0.0f) + (float)(noise >> 40) / (1 << 24) - 0.5f;
                mask[SIDE * y + x] = disc ? 1.0f : 0.0f;
            }
    }
    return SAMBA_OK;
}

/* What of the discs and of the guesses is both, in all test pictures: intersection over union. */
static double overlap(samba_context *context, samba_session *session, samba_source *test, samba_tensor *const *inputs)
{
    samba_tensor *logits = named(context, "logits", SAMBA_FLOAT32, SHAPE(BATCH, 1, SIDE, SIDE));
    const float *score = samba_tensor_data(logits), *mask = samba_tensor_data(inputs[1]);
    int64_t both = 0, either = 0;
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 2;
    run.outputs = &logits, run.output_count = 1;
    run.section_types = (const char *const[]){"FWD"}, run.section_type_count = 1;
    run.train = false; /* norms use their statistics */
    for (int64_t from = 0; from < TESTED; from += BATCH) {
        int64_t samples[BATCH];
        for (int64_t i = 0; i < BATCH; i++)
            samples[i] = from + i;
        must(context, samba_source_read(test, BATCH, samples, 2, inputs));
        must(context, samba_run(session, &run));
        for (int i = 0; i < BATCH * PIXELS; i++) {
            both += score[i] > 0 && mask[i] > 0;
            either += score[i] > 0 || mask[i] > 0;
        }
    }
    samba_tensor_free(logits);
    return (double)both / (double)either;
}

int main(void)
{
    samba_context *context;
    samba_session *session;
    samba_source *all, *train, *test;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    const samba_field fields[] = {{"picture", SAMBA_FLOAT32, 3, {1, SIDE, SIDE}}, {"mask", SAMBA_FLOAT32, 3, {1, SIDE, SIDE}}};
    samba_source_options pictures = samba_source_defaults();
    pictures.count = TRAINED + TESTED;
    pictures.fields = fields, pictures.field_count = 2;
    pictures.read = make_pictures;
    must(context, samba_source_new(context, &pictures, &all));
    must(context, samba_source_part(all, 0, TRAINED, &train));
    must(context, samba_source_part(all, TRAINED, TRAINED + TESTED, &test));

    samba_tensor *inputs[] = {named(context, "picture", SAMBA_FLOAT32, SHAPE(BATCH, 1, SIDE, SIDE)),
                              named(context, "mask", SAMBA_FLOAT32, SHAPE(BATCH, 1, SIDE, SIDE))};
    samba_optimizer adamw = samba_adamw(0.01);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "masks", compile.model = unet;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    must(context, samba_session_new(context, pef, NULL, &session));

    samba_train_options options = samba_train_defaults();
    options.train = train;
    options.epochs = 5;
    options.progress = stdout;
    must(context, samba_train(session, &options, NULL));
    const double iou = overlap(context, session, test, inputs);
    printf("intersection over union %.3f\n", iou);
    expect(iou > 0.7, "discs and guesses overlap by 7 tenths");

    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]);
    samba_source_free(all), samba_source_free(train), samba_source_free(test);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
