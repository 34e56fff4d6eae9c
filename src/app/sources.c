/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources as an application's samples: numbers up to the first source's count are its, those behind are the test's. A batch has
 * samples of one of the two. */
#include "app/app.h"
#include "base/null.h"
#include "data/source.h"

#include <string.h>

typedef struct sources {
    samba_context *context;
    samba_source *train, *test;
    int64_t *numbers; /* of a batch, in the test's source */
    int64_t room;
} sources;

static samba_status read_test(samba_context *context, sources *s, const int64_t *samples, int64_t count,
                              samba_tensor *const *batch)
{
    const int64_t first = samba_source_count(s->train);
    SAMBA_TRY(samba_grow(context, (void **)&s->numbers, sizeof *s->numbers, &s->room, count));
    for (int64_t k = 0; k < count; k++)
        s->numbers[k] = samples[k] - first;
    return samba_source_read_in(context, s->test, count, s->numbers, batch);
}

static samba_status fill(samba_context *context, void *user, const int64_t *samples, int64_t count, int tensor_count,
                         samba_tensor *const *batch)
{
    sources *s = user;
    const bool trains = count == 0 || samples[0] < samba_source_count(s->train);
    SAMBA_TRY(trains ? samba_source_read_in(context, s->train, count, samples, batch)
                     : read_test(context, s, samples, count, batch));
    for (int i = 0; i < tensor_count; i++) {
        const int64_t rows = samba_tensor_shape(batch[i])[0];
        const size_t row = (size_t)(samba_tensor_numel(batch[i]) / rows) * samba_dtype_size(samba_tensor_dtype(batch[i]));
        memset((char *)samba_tensor_data(batch[i]) + (size_t)count * row, 0, (size_t)(rows - count) * row);
    }
    return SAMBA_OK;
}

static void free_sources(void *user)
{
    sources *s = user;
    samba_source_free(s->train);
    samba_source_free(s->test);
    samba_free(s->context, s->numbers, sizeof *s->numbers * (size_t)s->room);
    samba_free(s->context, s, sizeof *s);
}

static samba_status check_source(samba_context *context, const samba_source *source, int input_count,
                                 const samba_app_input *inputs)
{
    if (!source->o.read || source->o.count < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "the source gives its samples in order alone, and an application's are read by number");
    for (int i = 0; i < input_count; i++) {
        int k = 0;
        if (!inputs[i].name)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_app_data_of: input %d has no name", i);
        while (k < source->o.field_count && strcmp(source->o.fields[k].name, inputs[i].name) != 0)
            k++;
        if (k == source->o.field_count)
            return samba_fail(context, SAMBA_ERROR_NAME, "no field of the source gives the input '%s'", inputs[i].name);
        const samba_field *field = &source->o.fields[k];
        if (field->dtype != inputs[i].dtype)
            return samba_fail(context, SAMBA_ERROR_DTYPE, "field '%s' of the source is %s, and the input is %s", field->name,
                              samba_dtype_name(field->dtype), samba_dtype_name(inputs[i].dtype));
        if (field->rank != inputs[i].rank - 1 ||
            memcmp(field->shape, inputs[i].shape + 1, sizeof *field->shape * (size_t)field->rank) != 0)
            return samba_fail(context, SAMBA_ERROR_SHAPE, "samples of field '%s' have the shape %s, and the input's are %s",
                              field->name, SAMBA_SHAPE_OF(field), SAMBA_SHAPE(inputs[i].rank - 1, inputs[i].shape + 1));
    }
    return source->o.field_count == input_count
               ? SAMBA_OK
               : samba_fail(context, SAMBA_ERROR_NAME, "the source has %d fields, and the application %d inputs",
                            source->o.field_count, input_count);
}

/* Both give their fields in one order. */
static samba_status check_alike(samba_context *context, const samba_source *train, const samba_source *test)
{
    for (int i = 0; i < train->o.field_count; i++)
        if (strcmp(train->o.fields[i].name, test->o.fields[i].name) != 0)
            return samba_fail(context, SAMBA_ERROR_NAME, "field %d of the test's source is '%s', and the other's is '%s'", i,
                              test->o.fields[i].name, train->o.fields[i].name);
    return SAMBA_OK;
}

samba_status samba_app_data_of(samba_context *context, samba_source *train, samba_source *test, int input_count,
                               const samba_app_input *inputs, samba_app_data *data)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, train);
    SAMBA_NEED(context, inputs);
    SAMBA_NEED(context, data);
    *data = (samba_app_data){0};
    SAMBA_TRY(check_source(context, train, input_count, inputs));
    if (test)
        SAMBA_TRY(check_source(context, test, input_count, inputs));
    if (test)
        SAMBA_TRY(check_alike(context, train, test));
    sources *s = samba_calloc(context, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    *s = (sources){.context = context, .train = samba_source_hold(train), .test = test ? samba_source_hold(test) : NULL};
    data->user = s;
    data->free = free_sources;
    data->fill = fill;
    data->train_count = samba_source_count(train);
    data->test_count = test ? samba_source_count(test) : 0;
    samba_status status = SAMBA_OK;
    for (int i = 0; i < input_count && status == SAMBA_OK; i++) {
        const samba_field *field = samba_source_field(train, i);
        int64_t shape[SAMBA_MAX_RANK] = {data->train_count + data->test_count};
        memcpy(shape + 1, field->shape, sizeof *shape * (size_t)field->rank);
        status = samba_tensor_empty(context, field->name, field->dtype, field->rank + 1, shape, &data->tensors[i]);
        data->tensor_count += status == SAMBA_OK;
    }
    if (status != SAMBA_OK)
        samba_app_data_free(data);
    return status;
}
