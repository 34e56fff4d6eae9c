/* SPDX-License-Identifier: Apache-2.0
 *
 * Distillation (Hinton et al., 2015): a wide teacher learns digits from labels, then a small student learns the teacher's
 * answers, soft ones at a temperature, and sees no label at all. The student's graph has the teacher inside, frozen; the
 * student's own PEF, for answers, does not.
 *
 *     distill [FOLDER OF THE DIGITS, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

enum { BATCH = 50, PIXELS = 784, TRAINED = 4000, DIGITS = 5000, EPOCHS = 6 };
static const double temperature = 3;

static samba_value network(samba_value image, const char *name, int width)
{
    samba_scope_push(image.graph, name);
    samba_value hidden = samba_relu(samba_linear(image, "hidden", width));
    samba_value logits = samba_linear(hidden, "out", 10);
    samba_scope_pop(image.graph);
    return logits;
}

static void teacher(samba_graph *g, const void *options)
{
    (void)options;
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    samba_value logits = network(image, "teacher", 256);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

static void distillation(samba_graph *g, const void *options)
{
    (void)options;
    samba_value image = samba_input(g, "image");
    samba_freeze_push(g, NULL);
    samba_value target = samba_softmax(samba_mul_scalar(network(image, "teacher", 256), 1 / temperature), 1);
    samba_freeze_pop(g);
    samba_value guess = samba_log_softmax(samba_mul_scalar(network(image, "student", 12), 1 / temperature), 1);
    samba_value loss = samba_kl_div(guess, target, false, SAMBA_BATCH_MEAN);
    samba_loss(g, "loss", samba_mul_scalar(loss, temperature * temperature)); /* gradients as large as without a temperature */
}

static void student(samba_graph *g, const void *options)
{
    (void)options;
    samba_output(g, "logits", network(samba_input(g, "image"), "student", 12));
}

static samba_session *open_session(samba_context *context, const char *name, samba_model model, samba_tensor *const *inputs,
                                   int input_count, bool trains)
{
    samba_session *session;
    char pef[1024];
    samba_optimizer adamw = samba_adamw(0.003);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = name, compile.model = model;
    compile.inputs = inputs, compile.input_count = input_count;
    compile.optimizers = &adamw, compile.optimizer_count = trains;
    compile.inference = !trains;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    must(context, samba_session_new(context, pef, NULL, &session));
    return session;
}

static void take(samba_tensor *const *data, samba_tensor *const *inputs, int begin)
{
    const unsigned char *images = samba_tensor_data(data[0]), *labels = samba_tensor_data(data[1]);
    float *pixel = samba_tensor_data(inputs[0]);
    int64_t *label = samba_tensor_data(inputs[1]);
    for (int i = 0; i < BATCH; i++)
        label[i] = labels[begin + i];
    for (int i = 0; i < BATCH * PIXELS; i++)
        pixel[i] = (float)images[begin * PIXELS + i] / 255;
}

static void train(samba_context *context, samba_session *session, samba_tensor *const *data, samba_tensor *const *inputs,
                  int input_count)
{
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = input_count;
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (int begin = 0; begin < TRAINED; begin += BATCH) {
            take(data, inputs, begin);
            must(context, samba_run(session, &run));
        }
}

static double accuracy(samba_context *context, samba_session *session, samba_tensor *const *data, samba_tensor *const *inputs,
                       int input_count)
{
    samba_metric_options options = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    samba_metric *metric;
    samba_tensor *logits = named(context, "logits", SAMBA_FLOAT32, SHAPE(BATCH, 10));
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = input_count;
    run.outputs = &logits, run.output_count = 1;
    run.section_types = (const char *const[]){"FWD"}, run.section_type_count = 1;
    run.train = false;
    must(context, samba_metric_new(context, &options, &metric));
    for (int begin = TRAINED; begin < DIGITS; begin += BATCH) {
        take(data, inputs, begin);
        must(context, samba_run(session, &run));
        must(context, samba_metric_update(metric, logits, inputs[1], BATCH));
    }
    const double value = samba_metric_value(metric);
    samba_metric_free(metric);
    samba_tensor_free(logits);
    return value;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "examples/data";
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

    samba_session *wide = open_session(context, "teacher", teacher, inputs, 2, true);
    train(context, wide, data, inputs, 2);
    const double of_teacher = accuracy(context, wide, data, inputs, 2);
    must(context, samba_session_save(wide, "out/teacher/weights.safetensors", false));

    samba_load_options partial = samba_load_defaults();
    partial.partial = true; /* the student's weights are not in the file */
    samba_session *both = open_session(context, "distillation", distillation, inputs, 1, true);
    must(context, samba_session_load_with(both, "out/teacher/weights.safetensors", &partial));
    train(context, both, data, inputs, 1);
    must(context, samba_session_save(both, "out/distillation/weights.safetensors", false));

    samba_session *small = open_session(context, "student", student, inputs, 1, false);
    must(context, samba_session_load(small, "out/distillation/weights.safetensors")); /* what it has more is passed over */
    const double of_student = accuracy(context, small, data, inputs, 1);
    samba_memory_info before, after;
    must(context, samba_session_memory(wide, &before));
    must(context, samba_session_memory(small, &after));
    printf("teacher %.3f with %lld KiB of weights, student %.3f with %lld KiB and without a label\n", of_teacher,
           (long long)before.parameters / 1024, of_student, (long long)after.parameters / 1024);
    expect(of_student > 0.85, "85 of 100 digits right by the student");
    expect(after.parameters * 10 < before.parameters, "a tenth of the weights");

    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]), samba_tensor_free(data[0]), samba_tensor_free(data[1]);
    samba_session_free(wide), samba_session_free(both), samba_session_free(small);
    samba_context_free(context);
    return 0;
}
