/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches gathered out of prepared samples: sample i is row i of every tensor, and rows are contiguous, so a batch is one copy a
 * row; or the data's own function makes them. The samples belong to the caller and must outlive the batches. */
#include "app/app.h"

#include <string.h>

void samba_app_data_free(samba_app_data *data)
{
    if (!data)
        return;
    samba_app_free_tensors(data->tensor_count, data->tensors);
    if (data->free)
        data->free(data->user);
    *data = (samba_app_data){0};
}

/* The data's tensors are named as the inputs, in any order. */
static const samba_app_input *input_of(const samba_app_input *inputs, const char *name)
{
    int i = 0;
    while (i < SAMBA_APP_MAX_INPUTS && inputs[i].name && strcmp(inputs[i].name, name) != 0)
        i++;
    return i < SAMBA_APP_MAX_INPUTS && inputs[i].name ? &inputs[i] : NULL;
}

samba_status samba_batches_new(samba_context *context, const samba_app_data *data, const samba_app_input *inputs,
                               samba_batches *batches)
{
    *batches = (samba_batches){.context = context, .data = data, .batch = inputs[0].shape[0]};
    for (int i = 0; i < data->tensor_count; i++) {
        const samba_tensor *all = data->tensors[i];
        const samba_app_input *input = data->size ? input_of(inputs, samba_tensor_name(all)) : NULL;
        int64_t shape[SAMBA_MAX_RANK];
        memcpy(shape, input ? input->shape : samba_tensor_shape(all), sizeof *shape * (size_t)samba_tensor_rank(all));
        shape[0] = batches->batch;
        samba_status status = samba_tensor_new(context, samba_tensor_name(all), samba_tensor_dtype(all), samba_tensor_rank(all),
                                               shape, &batches->tensors[i]);
        if (status != SAMBA_OK) {
            samba_batches_free(batches);
            return status;
        }
        batches->tensor_count++;
    }
    return SAMBA_OK;
}

void samba_batches_free(samba_batches *batches)
{
    samba_app_free_tensors(batches->tensor_count, batches->tensors);
    batches->tensor_count = 0;
}

samba_status samba_batches_fill(samba_batches *batches, const int64_t *order, int64_t count)
{
    const samba_app_data *data = batches->data;
    if (data->fill)
        return data->fill(batches->context, data->user, order, count, batches->tensor_count, batches->tensors);
    for (int i = 0; i < batches->tensor_count; i++) {
        char *to = samba_tensor_data(batches->tensors[i]);
        const char *from = samba_tensor_data(data->tensors[i]);
        size_t row = (size_t)(samba_tensor_numel(batches->tensors[i]) / batches->batch) *
                     samba_dtype_size(samba_tensor_dtype(batches->tensors[i]));
        for (int64_t k = 0; k < count; k++)
            memcpy(to + (size_t)k * row, from + (size_t)order[k] * row, row);
        memset(to + (size_t)count * row, 0, (size_t)(batches->batch - count) * row);
    }
    return SAMBA_OK;
}
