/* SPDX-License-Identifier: Apache-2.0
 *
 * Training from a PEF alone: no model, no compiler, only libsambaflow-run. The PEF knows its inputs by name, dtype and shape.
 *
 *   train_alone out/lenet/lenet.pef 100 */
#include <sambaflow/data.h>
#include <sambaflow/session.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    samba_context *context = NULL;
    samba_session *session = NULL;
    samba_session_options options = samba_session_defaults();
    samba_status status = samba_context_new(NULL, &context);
    if (argc < 2 || status != SAMBA_OK)
        return fprintf(stderr, "usage: train_alone PEF [STEPS]\n"), 1;
    status = samba_session_new(context, argv[1], &options, &session);
    for (int i = 0; status == SAMBA_OK && i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info; /* random values for the inputs; class indices stay 0 */
        samba_tensor *input = NULL;
        status = samba_session_tensor_info(session, i, &info);
        if (status != SAMBA_OK || info.kind != SAMBA_KIND_INPUT || !samba_dtype_is_floating_point(info.dtype))
            continue;
        status = samba_tensor_new(context, info.name, info.dtype, info.rank, info.shape, &input);
        if (status == SAMBA_OK)
            status = samba_fill_normal(input, 1, 0, 1);
        if (status == SAMBA_OK)
            status = samba_session_set(session, input);
        samba_tensor_free(input);
    }
    samba_run_options run = samba_run_defaults(); /* the whole schedule: forward, backward, optimizer */
    samba_tensor *loss = NULL;
    double first = 0, last = 0;
    for (int step = 0; status == SAMBA_OK && step < (argc > 2 ? atoi(argv[2]) : 10); step++) {
        status = samba_run(session, &run);
        if (status == SAMBA_OK)
            status = samba_session_get_by_name(session, "loss", &loss);
        if (status == SAMBA_OK)
            status = samba_tensor_item(loss, step == 0 ? &first : &last);
        samba_tensor_free(loss);
        loss = NULL;
    }
    if (status == SAMBA_OK)
        printf("loss %.4f -> %.4f\n", first, last);
    else
        fprintf(stderr, "train_alone: %s\n", samba_error_message(context));
    samba_session_free(session);
    samba_context_free(context);
    return status == SAMBA_OK ? 0 : 1;
}
