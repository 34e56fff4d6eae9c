/* SPDX-License-Identifier: Apache-2.0
 *
 * A text as samples for a language model: its bytes are the tokens. It is cut into windows of one sample each; `input` is a
 * window and `label` the same one byte further on, so that every position learns what comes next.
 * The last tenth of the windows is for testing. */
#include "app/app.h"

#include <string.h>
#include <sys/stat.h>

enum { NAME_SIZE = 4096 };
static const char default_name[] = "text.txt";

/* The file itself, or a folder's text.txt. */
static samba_status find_text(samba_context *context, const char *path, char name[NAME_SIZE])
{
    struct stat info;
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    int length = folder ? snprintf(name, NAME_SIZE, "%s/%s", path, default_name) : snprintf(name, NAME_SIZE, "%s", path);
    if (length >= NAME_SIZE || stat(name, &info) != 0)
        return samba_fail(context, SAMBA_ERROR_FILE, "no text '%.1000s': --data names a text file, or a folder with %s", name,
                          default_name);
    return SAMBA_OK;
}

static samba_status check_inputs(samba_context *context, int count, const samba_app_input *inputs)
{
    static const char *const names[] = {"input", "label"};
    bool fit = count == 2;
    for (int i = 0; fit && i < 2; i++)
        fit = strcmp(inputs[i].name, names[i]) == 0 && inputs[i].dtype == SAMBA_INT64 && inputs[i].rank == 2 &&
              inputs[i].shape[1] == inputs[0].shape[1] && inputs[i].shape[1] > 0 && inputs[i].classes == inputs[0].classes;
    return fit ? SAMBA_OK
               : samba_fail(context, SAMBA_ERROR_ARGUMENT,
                            "a text feeds the inputs 'input' and 'label', int64 of one shape (batch, tokens)");
}

static samba_status cut(samba_context *context, const char *name, const uint8_t *text, int64_t size,
                        const samba_app_input *inputs, samba_app_data *data)
{
    int64_t block = inputs[0].shape[1], count = (size - 1) / block;
    if (count < 2)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "%s has %lld bytes: two samples of %lld tokens, one to train and one to test, take %lld", name,
                          (long long)size, (long long)block, 2 * (long long)block + 1);
    for (int64_t i = 0; i <= count * block; i++)
        if (text[i] >= inputs[0].classes)
            return samba_fail(context, SAMBA_ERROR_FORMAT,
                              "%s: byte %d at %lld is not among the model's %lld tokens: a text takes up to 256 of them", name,
                              text[i], (long long)i, (long long)inputs[0].classes);
    for (int i = 0; i < 2; i++) {
        SAMBA_TRY(samba_tensor_new(context, inputs[i].name, SAMBA_INT64, 2, (int64_t[]){count, block}, &data->tensors[i]));
        data->tensor_count++;
        int64_t *tokens = samba_tensor_data(data->tensors[i]);
        for (int64_t k = 0; k < count * block; k++)
            tokens[k] = text[k + i];
    }
    data->test_count = count > 10 ? count / 10 : 1;
    data->train_count = count - data->test_count;
    return SAMBA_OK;
}

samba_status samba_app_text(samba_context *context, const char *path, int input_count, const samba_app_input *inputs,
                            samba_app_data *data)
{
    char name[NAME_SIZE];
    void *text;
    size_t size;
    *data = (samba_app_data){0};
    SAMBA_TRY(check_inputs(context, input_count, inputs));
    SAMBA_TRY(find_text(context, path, name));
    SAMBA_TRY(samba_file_read(context, name, &text, &size));
    samba_status status = cut(context, name, text, (int64_t)size, inputs, data);
    samba_free(context, text, size);
    if (status != SAMBA_OK)
        samba_app_data_free(data);
    return status;
}
