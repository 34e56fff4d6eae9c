/* SPDX-License-Identifier: Apache-2.0 - Trains from a PEF without compiler or model: train_alone PEF [INPUTS.safetensors|.npz] */
#include <sambaflow/data.h>
#include <sambaflow/session.h>
#include <stdio.h>
#include <stdlib.h>
static samba_context *context;
static void must(samba_status status)
{
    if (status != SAMBA_OK && fprintf(stderr, "train_alone: %s\n", samba_error_message(context)))
        exit(1);
}
int main(int argc, char **argv)
{
    if (argc < 2 || samba_context_new(NULL, &context) != SAMBA_OK)
        return fprintf(stderr, "usage: train_alone PEF [INPUTS]\n"), 1;
    samba_session *session;
    samba_tensor_list inputs = {0}; /* by name; those that are not in the file are zeros */
    must(samba_session_new(context, argv[1], NULL, &session));
    must(argc > 2 ? samba_tensors_read(context, argv[2], "image", &inputs) : SAMBA_OK);
    samba_tensor_info info;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor *zeros;
        must(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_INPUT)
            continue;
        must(samba_tensor_new(context, info.name, info.dtype, info.rank, info.shape, &zeros));
        must(samba_session_set(session, zeros)); /* a run refuses inputs that nobody gave */
        samba_tensor_free(zeros);
    }
    samba_run_options step = samba_run_defaults(); /* the whole schedule: forward, backward, optimizer */
    step.inputs = inputs.tensors, step.input_count = inputs.count;
    samba_tensor *loss;
    double value;
    for (int i = 0; i <= 10; i++, samba_tensor_free(loss)) {
        must(samba_run(session, &step));
        must(samba_session_get_by_name(session, "loss", &loss));
        must(samba_tensor_item(loss, &value));
        printf("step %2d  loss %.4f\n", i, value);
    }
    samba_tensor_list_free(context, &inputs);
    samba_session_free(session);
    samba_context_free(context);
}
