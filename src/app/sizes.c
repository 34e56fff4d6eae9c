/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of an application that has several: one for each size of its samples, such as a text's length, and one for the rest of
 * the last batch where it fills no micro-batch. All share weights, optimizer and memory (samba_multigraph_add_size). A graph's
 * size is called by the shape of its first input: "lm@8x128". */
#include "app/app.h"
#include <sambaflow/multigraph.h>

#include <string.h>

int samba_app_sizes(const samba_app *app) { return app->sizes ? app->sizes(app->settings) : 1; }

int samba_app_inputs(const samba_app *app, int size, int64_t rows, samba_app_input *inputs)
{
    memset(inputs, 0, sizeof *inputs * SAMBA_APP_MAX_INPUTS);
    return samba_app_sizes(app) > 1 ? app->sized_inputs(app->settings, size, rows, inputs)
                                    : app->inputs(app->settings, rows, inputs);
}

int64_t samba_app_rest(const samba_app_arguments *a) { return a->last_batch % a->microbatch; }

/* ---- compiling ---- */

static void name_size(const samba_app_input *input, char *text, size_t size)
{
    size_t used = 0;
    for (int d = 0; d < input->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d ? "x" : "", (long long)input->shape[d]);
}

static samba_status add(const samba_app_run *run, samba_multigraph *graphs, int size, int64_t rows)
{
    samba_app_input inputs[SAMBA_APP_MAX_INPUTS];
    samba_app_compilation compilation;
    char name[24 * SAMBA_MAX_RANK] = "";
    samba_app_inputs(run->arguments->app, size, rows, inputs);
    name_size(&inputs[0], name, sizeof name);
    samba_status status = samba_app_compilation_new(run, size, rows, &compilation);
    if (status == SAMBA_OK)
        status = samba_multigraph_add_size(graphs, &compilation.options, name);
    samba_app_compilation_free(&compilation);
    return status;
}

static samba_status add_all(const samba_app_run *run, samba_multigraph *graphs)
{
    const samba_app_arguments *a = run->arguments;
    const int64_t rest = samba_app_rest(a);
    for (int size = 0; size < samba_app_sizes(a->app); size++)
        SAMBA_TRY(add(run, graphs, size, a->microbatch));
    return rest ? add(run, graphs, 0, rest) : SAMBA_OK;
}

samba_status samba_app_compile_sizes(const samba_app_run *run, const char *folder, char *path, size_t path_size, samba_plan *plan)
{
    const samba_app_arguments *a = run->arguments;
    samba_multigraph *graphs;
    SAMBA_TRY(samba_multigraph_new(run->context, &graphs));
    samba_status status = add_all(run, graphs);
    if (status == SAMBA_OK)
        status = samba_multigraph_compile(graphs, a->pef_name && !a->pef ? a->pef_name : a->app->name, folder, path, path_size);
    samba_multigraph_free(graphs);
    return status == SAMBA_OK ? samba_pef_read(run->context, path, plan) : status;
}

/* ---- the data's last batch ---- */

/* Rows that do not count fill the batch up where the data says what counts; else it takes a graph. */
samba_status samba_app_count_last(const samba_app_run *run, int64_t *last_batch)
{
    const samba_app_arguments *a = run->arguments;
    samba_app_input inputs[SAMBA_APP_MAX_INPUTS];
    samba_app_data data = {.train_count = 0};
    samba_text folder;
    const int count = samba_app_inputs(a->app, 0, a->microbatch, inputs);
    samba_status status = samba_app_data_folder(run->context, a->data, &folder);
    if (status == SAMBA_OK)
        status = a->app->samples ? a->app->samples(run->context, a->app->user, folder.data, count, inputs, &data)
                                 : a->app->data(run->context, folder.data, count, inputs, &data);
    *last_batch = status == SAMBA_OK && !data.weight ? data.train_count % a->batch_size : 0;
    samba_text_clear(&folder);
    samba_app_data_free(&data);
    return status;
}
