/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs and transfers of tensors that Python made once and points at other memory each time. */
#include "extension.h"

static samba_status point(samba_tensor *const *tensors, int count, const uintptr_t *addresses)
{
    for (int i = 0; i < count; i++) {
        samba_status status = addresses[i] ? samba_tensor_set_memory(tensors[i], (void *)addresses[i]) : SAMBA_OK;
        if (status != SAMBA_OK)
            return status;
    }
    return SAMBA_OK;
}

samba_status sambaflow_set(samba_session *session, int count, samba_tensor *const *tensors, const uintptr_t *addresses)
{
    samba_status status = point(tensors, count, addresses);
    for (int i = 0; i < count && status == SAMBA_OK; i++)
        status = samba_session_set(session, tensors[i]);
    return status;
}

samba_status sambaflow_run(samba_session *session, const samba_run_options *options, int input_count, int output_count,
                           const uintptr_t *addresses, const char **warning)
{
    samba_run_options run = *options;
    run.input_count = input_count;
    run.output_count = output_count;
    *warning = NULL;
    samba_status status = point(run.inputs, input_count, addresses);
    if (status == SAMBA_OK)
        status = point(run.outputs, output_count, addresses + input_count);
    if (status == SAMBA_OK)
        status = samba_run(session, &run);
    if (status != SAMBA_OK)
        return status;
    const char *text = samba_session_warning(session);
    *warning = text[0] ? text : NULL;
    return SAMBA_OK;
}
