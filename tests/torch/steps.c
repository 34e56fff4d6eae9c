/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a PEF with inputs "image" and "label" on the digits, or one with "input" and "label" on the text, for some steps in the
 * order the samples lie in, and prints the losses, one a line. INITIAL receives the weights it began with, for PyTorch to begin
 * with the same, FINAL weights and optimizer state at the end. Usage: steps PEF DATA_FOLDER STEPS [INITIAL [FINAL]] */
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

static samba_tensor *tensor_of(samba_session *session, const char *name)
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

/* ---- samples: row i of a step is sample step * batch + i, and begins anew at the end ---- */

typedef struct samples {
    samba_tensor *image, *label;    /* of the batch */
    samba_tensor *pixels, *classes; /* digits */
    uint8_t text[1 << 20];
    int64_t text_size; /* 0: digits */
} samples;

static void open_samples(samba_session *session, const char *folder, samples *s)
{
    char path[1024];
    s->label = tensor_of(session, "label");
    if (samba_tensor_rank(s->label) != 2) {
        s->image = tensor_of(session, "image");
        snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", folder);
        need(samba_idx_read(context, path, &s->pixels));
        snprintf(path, sizeof path, "%s/digits-labels-idx1-ubyte.gz", folder);
        need(samba_idx_read(context, path, &s->classes));
        return;
    }
    s->image = tensor_of(session, "input");
    snprintf(path, sizeof path, "%s/text.txt", folder);
    FILE *file = fopen(path, "rb");
    if (file) {
        s->text_size = (int64_t)fread(s->text, 1, sizeof s->text, file);
        fclose(file);
    }
    if (s->text_size == 0) {
        fprintf(stderr, "steps: no text in %s\n", path);
        exit(1);
    }
}

/* A label is a digit, or as examples/unet has it the class of every pixel: 1 + the digit on its line, 0 beside it. */
static void fill_digits(samples *s, int64_t first)
{
    bool pixelwise = samba_tensor_rank(s->label) == 3;
    int64_t batch = samba_tensor_shape(s->label)[0], count = samba_tensor_shape(s->classes)[0];
    float *image = samba_tensor_data(s->image);
    int64_t *label = samba_tensor_data(s->label);
    const uint8_t *pixels = samba_tensor_data(s->pixels), *classes = samba_tensor_data(s->classes);
    for (int64_t i = 0; i < batch; i++) {
        int64_t from = (first + i) % count;
        if (!pixelwise)
            label[i] = classes[from];
        for (int p = 0; p < 784; p++) {
            image[i * 784 + p] = ((float)pixels[from * 784 + p] / 255.0f - 0.1307f) / 0.3081f;
            if (pixelwise)
                label[i * 784 + p] = image[i * 784 + p] > 1 ? 1 + classes[from] : 0;
        }
    }
}

static void fill_text(samples *s, int64_t first)
{
    int64_t batch = samba_tensor_shape(s->label)[0], block = samba_tensor_shape(s->label)[1], count = (s->text_size - 1) / block;
    int64_t *tokens = samba_tensor_data(s->image), *label = samba_tensor_data(s->label);
    for (int64_t i = 0; i < batch; i++)
        for (int64_t k = 0; k < block; k++) {
            tokens[i * block + k] = s->text[(first + i) % count * block + k];
            label[i * block + k] = s->text[(first + i) % count * block + k + 1];
        }
}

int main(int argc, char **argv)
{
    static samples s;
    if (argc < 4 || samba_context_new(NULL, &context) != SAMBA_OK) {
        fprintf(stderr, "usage: steps PEF DATA_FOLDER STEPS [INITIAL [FINAL]]\n");
        return 2;
    }
    samba_session_options options = samba_session_defaults();
    options.seed = 1;
    samba_session *session;
    need(samba_session_new(context, argv[1], &options, &session));
    if (argc > 4)
        need(samba_session_save(session, argv[4], false));
    open_samples(session, argv[2], &s);
    samba_tensor *loss, *inputs[2] = {s.image, s.label};
    loss = tensor_of(session, "loss");
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs;
    run.input_count = 2;
    run.outputs = &loss;
    run.output_count = 1;
    for (int step = 0; step < atoi(argv[3]); step++) {
        (s.text_size ? fill_text : fill_digits)(&s, step * samba_tensor_shape(s.label)[0]);
        need(samba_run(session, &run));
        double value;
        need(samba_tensor_item(loss, &value));
        printf("%.9g\n", value);
    }
    if (argc > 5)
        need(samba_session_save(session, argv[5], true));
    samba_tensor_free(s.pixels);
    samba_tensor_free(s.classes);
    samba_tensor_free(loss);
    samba_tensor_free(s.image);
    samba_tensor_free(s.label);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
