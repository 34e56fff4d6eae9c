/* SPDX-License-Identifier: Apache-2.0 - Trains from a PEF without compiler or model: train_alone PEF IMAGES LABELS */
#include <sambaflow/train.h>
#include <stdlib.h>
#include <string.h>
static samba_context *context;
static void must(samba_status status)
{
    if (status != SAMBA_OK && fprintf(stderr, "train_alone: %s\n", samba_error_message(context)))
        exit(1);
}
int main(int argc, char **argv)
{
    if (argc != 4 || samba_context_new(NULL, &context) != SAMBA_OK)
        return fprintf(stderr, "usage: train_alone PEF IMAGES LABELS\n"), 1;
    samba_session *session;
    samba_source *files[2], *all, *train, *validation;
    samba_tensor_info info;
    int count = 0;
    must(samba_session_new(context, argv[1], NULL, &session));
    for (int i = 0; i < samba_session_tensor_count(session) && count < 2; i++) { /* a file for each input, in their order */
        must(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_INPUT)
            continue;
        samba_column column = {.field = {info.name, info.dtype, info.rank - 1, {0}}};
        memcpy(column.field.shape, info.shape + 1, sizeof *info.shape * (size_t)(info.rank - 1));
        column.scale = samba_dtype_is_floating_point(info.dtype) ? 1.0 / 255 : 1; /* of pixels, which are bytes */
        samba_file_options file = samba_file_defaults();
        file.columns = &column, file.column_count = 1;
        must(samba_source_file(context, argv[2 + count], &file, &files[count]));
        count++;
    }
    must(samba_source_join(context, count, files, &all));
    must(samba_source_split(all, 0.2, 0, &train, &validation));
    samba_train_options options = samba_train_defaults();
    options.train = train, options.validation = validation;
    options.pads = &(samba_padding){"label", -100}, options.pad_count = 1; /* the last batch: cross entropy leaves it out */
    options.epochs = 10, options.patience = 2, options.progress = stdout;
    must(samba_train(session, &options, NULL));
    samba_source *const sources[] = {files[0], files[1], all, train, validation};
    for (int i = 0; i < 5; i++)
        samba_source_free(sources[i]);
    samba_session_free(session);
    samba_context_free(context);
}
