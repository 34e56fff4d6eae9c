/* SPDX-License-Identifier: Apache-2.0
 *
 * Host tensors for the inputs and outputs of a PEF: random inputs to measure and test with, zeroed outputs to receive results. */
#include "app/app.h"
#include <sambaflow/data.h>

#include <string.h>

samba_status samba_random_input(samba_context *context, const samba_plan_tensor *input, uint64_t seed, samba_tensor **tensor)
{
    SAMBA_TRY(samba_tensor_new(context, input->name, (samba_dtype)input->dtype, input->rank, input->shape, tensor));
    uint64_t own = samba_hash(input->name, strlen(input->name), seed);
    samba_status status =
        samba_dtype_is_floating_point((samba_dtype)input->dtype)
            ? samba_fill_normal(*tensor, own, 0, 1)
            : samba_fill_integers(*tensor, own, input->has_range ? input->low : 0, input->has_range ? input->high : 2);
    if (status != SAMBA_OK) {
        samba_tensor_free(*tensor);
        *tensor = NULL;
    }
    return status;
}

samba_status samba_io_new(samba_context *context, const samba_plan *plan, int32_t graph, uint64_t seed, samba_arena *arena,
                          samba_io *io)
{
    *io = (samba_io){0};
    SAMBA_TRY(SAMBA_ROOM(arena, io->inputs, (size_t)plan->tensor_count + 1));
    SAMBA_TRY(SAMBA_ROOM(arena, io->outputs, (size_t)plan->tensor_count + 1));
    samba_status status = SAMBA_OK;
    for (int i = 0; status == SAMBA_OK && i < plan->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[i];
        if (plan->graph_count > 1 && !samba_plan_has_tensor(&plan->graphs[graph], i))
            continue;
        if (tensor->kind == SAMBA_KIND_INPUT) {
            status = samba_random_input(context, tensor, seed, &io->inputs[io->input_count]);
            io->input_count += status == SAMBA_OK;
        } else if (tensor->kind == SAMBA_KIND_OUTPUT) {
            status = samba_tensor_new(context, tensor->name, (samba_dtype)tensor->dtype, tensor->rank, tensor->shape,
                                      &io->outputs[io->output_count]);
            io->output_count += status == SAMBA_OK;
        }
    }
    if (status != SAMBA_OK)
        samba_io_free(io);
    return status;
}

void samba_io_free(samba_io *io)
{
    samba_app_free_tensors(io->input_count, io->inputs);
    samba_app_free_tensors(io->output_count, io->outputs);
    *io = (samba_io){0};
}
