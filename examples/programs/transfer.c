/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfer: a network learns to read digits from many pictures. Its body then stays as it is, and a new head learns from 50
 * pictures alone whether a digit is odd. The file of weights has a body that fits and a head that does not: it is loaded in part.
 * A twin learns the same 50 from nothing, for comparison.
 *
 *     transfer [FOLDER OF THE DIGITS, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <string.h>

enum { BATCH = 25, PIXELS = 784, MANY = 4000, FEW = 50, DIGITS = 5000 };

typedef struct task { /* what the model is told when it is compiled */
    const char *name;
    const char *head; /* of another name than the old head, so that nothing of that fits */
    int classes;
    bool frozen;
    double lr;
} task;

static void model(samba_graph *g, const void *options)
{
    const task *its = options;
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    if (its->frozen)
        samba_freeze_push(g, NULL); /* parameters become buffers: no gradient, no optimizer's state */
    samba_value x = samba_relu(samba_linear(image, "body1", 128));
    x = samba_relu(samba_linear(x, "body2", 64));
    if (its->frozen)
        samba_freeze_pop(g);
    samba_value logits = samba_linear(x, its->head, its->classes);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "right", samba_sum(samba_eq(samba_argmax(logits, 1, false), label), 0, NULL, false));
}

static samba_session *open_session(samba_context *context, const task *its, samba_tensor *const *inputs)
{
    samba_session *session;
    char pef[1024];
    samba_optimizer adamw = samba_adamw(its->lr);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = its->name, compile.model = model, compile.model_options = its;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    must(context, samba_session_new(context, pef, NULL, &session));
    return session;
}

/* Runs over the pictures [from, to), and says which part of the answers was right. */
static double epoch(samba_context *context, samba_session *session, samba_tensor *const *data, samba_tensor *const *inputs,
                    int from, int to, bool odd, bool train)
{
    const unsigned char *images = samba_tensor_data(data[0]), *labels = samba_tensor_data(data[1]);
    float *pixel = samba_tensor_data(inputs[0]);
    int64_t *label = samba_tensor_data(inputs[1]), right = 0, now;
    samba_tensor *output = named(context, "right", SAMBA_INT64, 0, NULL);
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 2;
    run.outputs = &output, run.output_count = 1;
    run.section_types = (const char *const[]){"FWD"}, run.section_type_count = train ? 0 : 1; /* none: the whole step */
    run.train = train;
    for (int begin = from; begin < to; begin += BATCH) {
        for (int i = 0; i < BATCH; i++)
            label[i] = odd ? labels[begin + i] % 2 : labels[begin + i];
        for (int i = 0; i < BATCH * PIXELS; i++)
            pixel[i] = (float)images[begin * PIXELS + i] / 255;
        must(context, samba_run(session, &run));
        must(context, samba_tensor_item_int64(output, &now));
        right += now;
    }
    samba_tensor_free(output);
    return (double)right / (to - from);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "examples/data";
    const char *weights = "out/reader/weights.safetensors";
    samba_context *context;
    samba_tensor *data[2];
    char path[1024];
    must(NULL, samba_context_new(NULL, &context));
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &data[0]));
    snprintf(path, sizeof path, "%s/digits-labels-idx1-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &data[1]));
    samba_tensor *inputs[] = {named(context, "image", SAMBA_FLOAT32, SHAPE(BATCH, PIXELS)),
                              named(context, "label", SAMBA_INT64, SHAPE(BATCH))};

    samba_session *reader = open_session(context, &(task){"reader", "digit", 10, false, 0.003}, inputs);
    for (int i = 0; i < 6; i++)
        epoch(context, reader, data, inputs, 0, MANY, false, true);
    printf("which digit, from %d: %.3f\n", MANY, epoch(context, reader, data, inputs, MANY, DIGITS, false, false));
    must(context, samba_session_save(reader, weights, false));

    /* The body is taken by its names; the head "odd" is not in the file and keeps the values that it began with. */
    samba_session *session = open_session(context, &(task){"odd", "odd", 2, true, 0.01}, inputs);
    samba_session *twin = open_session(context, &(task){"twin", "odd", 2, false, 0.003}, inputs);
    samba_load_options load = samba_load_defaults();
    int loaded;
    load.partial = true, load.loaded = &loaded;
    must(context, samba_session_load_with(session, weights, &load));
    expect(loaded == 4, "2 weights and 2 biases fit");
    for (int i = 0; i < 20; i++) {
        epoch(context, session, data, inputs, 0, FEW, true, true);
        epoch(context, twin, data, inputs, 0, FEW, true, true);
    }
    const double with = epoch(context, session, data, inputs, MANY, DIGITS, true, false);
    const double without = epoch(context, twin, data, inputs, MANY, DIGITS, true, false);
    printf("odd or even, from %d: %.3f with that body, %.3f without\n", FEW, with, without);
    expect(with > 0.85 && with > without, "85 of 100 digits right, more than from nothing");

    samba_tensor *before, *after;
    must(context, samba_session_get_by_name(reader, "body1.weight", &before));
    must(context, samba_session_get_by_name(session, "body1.weight", &after));
    expect(memcmp(samba_tensor_data(before), samba_tensor_data(after), sizeof(float) * 128 * PIXELS) == 0, "the body stayed");

    samba_tensor_free(before), samba_tensor_free(after);
    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]), samba_tensor_free(data[0]), samba_tensor_free(data[1]);
    samba_session_free(reader), samba_session_free(session), samba_session_free(twin);
    samba_context_free(context);
    return 0;
}
