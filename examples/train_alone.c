/* SPDX-License-Identifier: Apache-2.0
 * Training from a PEF alone (libsambaflow-run: no model, no compiler): train_alone out/lenet/lenet.pef. Random inputs; labels stay 0. */
#include <sambaflow/data.h>
#include <sambaflow/session.h>
#include <stdio.h>
#include <stdlib.h>
static samba_context *context;
static void must(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "train_alone: %s\n", samba_error_message(context));
    exit(1);
}
int main(int argc, char **argv)
{
    samba_session *session;
    samba_tensor *input = NULL, *loss;
    samba_run_options step = samba_run_defaults(); /* the whole schedule: forward, backward, optimizer */
    if (argc != 2 || samba_context_new(NULL, &context) != SAMBA_OK)
        return fprintf(stderr, "usage: train_alone PEF\n"), 1;
    must(samba_session_new(context, argv[1], NULL, &session));
    for (int i = 0; !input && i < samba_session_tensor_count(session); i++) {
        samba_tensor_info t;
        must(samba_session_tensor_info(session, i, &t));
        if (t.kind != SAMBA_KIND_INPUT || !samba_dtype_is_floating_point(t.dtype))
            continue;
        must(samba_tensor_new(context, t.name, t.dtype, t.rank, t.shape, &input));
        must(samba_fill_normal(input, 1, 0, 1));
        must(samba_session_set(session, input));
    }
    for (int i = 0; i <= 10; i++, samba_tensor_free(loss)) {
        double value;
        must(samba_run(session, &step));
        must(samba_session_get_by_name(session, "loss", &loss));
        must(samba_tensor_item(loss, &value));
        printf("step %2d  loss %.4f\n", i, value);
    }
    samba_tensor_free(input);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
