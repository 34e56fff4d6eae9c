/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains any PEF with inputs "image" and "label" for some steps on the digits in the order they lie in, and prints the losses, one a
 * line. INITIAL receives the weights it began with, for PyTorch to begin with the same. Usage: steps PEF DIGITS_FOLDER STEPS [INITIAL] */
#include <sambaflow/data.h>
#include <sambaflow/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static samba_context *context;

static void need(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "steps: %s\n", samba_error_message(context));
    exit(1);
}

static samba_tensor *input(samba_session *session, const char *name)
{
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        samba_tensor *tensor;
        need(samba_session_tensor_info(session, i, &info));
        if (strcmp(info.name, name) != 0)
            continue;
        need(samba_tensor_new(context, name, info.dtype, info.rank, info.shape, &tensor));
        return tensor;
    }
    fprintf(stderr, "steps: the PEF has no tensor '%s'\n", name);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc < 4 || samba_context_new(NULL, &context) != SAMBA_OK) {
        fprintf(stderr, "usage: steps PEF DIGITS_FOLDER STEPS [INITIAL]\n");
        return 2;
    }
    char path[1024];
    samba_tensor *images, *labels, *loss;
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", argv[2]);
    need(samba_idx_read(context, path, &images));
    snprintf(path, sizeof path, "%s/digits-labels-idx1-ubyte.gz", argv[2]);
    need(samba_idx_read(context, path, &labels));
    samba_session_options options = samba_session_defaults();
    options.seed = 1;
    samba_session *session;
    need(samba_session_new(context, argv[1], &options, &session));
    if (argc > 4)
        need(samba_session_save(session, argv[4], false));
    samba_tensor *inputs[2] = {input(session, "image"), input(session, "label")};
    need(samba_tensor_new(context, "loss", SAMBA_FLOAT32, 0, NULL, &loss));
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs;
    run.input_count = 2;
    run.outputs = &loss;
    run.output_count = 1;
    int64_t batch = samba_tensor_shape(inputs[1])[0], count = samba_tensor_shape(labels)[0];
    float *image = samba_tensor_data(inputs[0]);
    int64_t *label = samba_tensor_data(inputs[1]);
    const uint8_t *pixels = samba_tensor_data(images), *classes = samba_tensor_data(labels);
    for (int step = 0; step < atoi(argv[3]); step++) {
        for (int64_t i = 0; i < batch; i++) {
            int64_t from = (step * batch + i) % count;
            label[i] = classes[from];
            for (int p = 0; p < 784; p++)
                image[i * 784 + p] = ((float)pixels[from * 784 + p] / 255.0f - 0.1307f) / 0.3081f;
        }
        need(samba_run(session, &run));
        printf("%.9g\n", (double)*(float *)samba_tensor_data(loss));
    }
    samba_tensor_free(images);
    samba_tensor_free(labels);
    samba_tensor_free(loss);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
