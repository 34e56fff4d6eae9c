/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers alone, with libsambaflow-run, which has no compiler: a PEF and weights that `digits` left are all that it needs. What
 * the PEF takes and gives is asked of the session, so that another model may stand in the same files.
 *
 *     answer [FOLDER OF THE DIGITS, examples/data] [PEF] [WEIGHTS] */
#include "program.h"

#include <sambaflow/data.h>

#include <string.h>

enum { SHOWN = 10, FIRST = 4000 }; /* `digits` has trained on the pictures before */

/* The only tensor of a kind; its shape has `rank` sizes. */
static samba_tensor *only(samba_context *context, samba_session *session, samba_tensor_kind kind)
{
    samba_tensor_info info, found = {0};
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        must(context, samba_session_tensor_info(session, i, &info));
        if (info.kind != kind)
            continue;
        expect(!found.name, "a model with one input and one output");
        found = info;
    }
    expect(found.name && found.dtype == SAMBA_FLOAT32, "numbers of float32");
    return named(context, found.name, found.dtype, found.rank, found.shape);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "examples/data";
    samba_context *context;
    samba_session *session;
    samba_tensor *pictures, *labels;
    char path[1024];
    must(NULL, samba_context_new(NULL, &context));
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &pictures));
    snprintf(path, sizeof path, "%s/digits-labels-idx1-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &labels));

    samba_session_options options = samba_session_defaults();
    options.threads = 1; /* one picture is little work */
    must(context, samba_session_new(context, argc > 2 ? argv[2] : "out/answer/answer.pef", &options, &session));
    must(context, samba_session_load(session, argc > 3 ? argv[3] : "out/digits/weights.safetensors"));
    samba_tensor *input = only(context, session, SAMBA_KIND_INPUT), *output = only(context, session, SAMBA_KIND_OUTPUT);
    const int64_t pixels = samba_tensor_numel(input), classes = samba_tensor_numel(output);
    const int64_t count = samba_tensor_shape(pictures)[0];
    expect(samba_tensor_numel(pictures) == count * pixels, "an input of one picture");

    samba_run_options run = samba_run_defaults();
    run.inputs = &input, run.input_count = 1;
    run.outputs = &output, run.output_count = 1;
    const unsigned char *byte = samba_tensor_data(pictures), *label = samba_tensor_data(labels);
    float *pixel = samba_tensor_data(input);
    const float *score = samba_tensor_data(output);
    int right = 0;
    for (int64_t i = FIRST; i < count; i++) {
        for (int64_t p = 0; p < pixels; p++)
            pixel[p] = (float)byte[i * pixels + p] / 255;
        must(context, samba_run(session, &run));
        int best = 0;
        for (int c = 1; c < classes; c++)
            best = score[c] > score[best] ? c : best;
        right += best == label[i];
        if (i < FIRST + SHOWN)
            printf("%d%s", best, i < FIRST + SHOWN - 1 ? " " : " ...\n");
    }
    printf("%d of %d right\n", right, (int)(count - FIRST));
    expect(right * 10 > (count - FIRST) * 9, "9 of 10 digits");

    samba_tensor_free(input), samba_tensor_free(output), samba_tensor_free(pictures), samba_tensor_free(labels);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
