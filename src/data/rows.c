/* SPDX-License-Identifier: Apache-2.0
 *
 * A source over datasets of an HDF5 file that do not fit. Each dataset has a reader, a process of its own (hdf5_read.c), which is
 * asked for rows: those of a batch in the order in which they lie, neighbours at once. One loader at a time. */
#include "base/null.h"
#include "data/hdf5.h"
#include "data/source.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct place { /* of a sample of the batch */
    int64_t row, at;
} place;

typedef struct rows {
    samba_context *context;
    samba_arena arena;
    const char *path;
    samba_file_options o; /* its columns lie in the arena */
    samba_hdf5_rows *its[SAMBA_MAX_FIELDS];
    pthread_mutex_t lock;
} rows;

static int by_row(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->row != y->row ? (x->row > y->row) - (x->row < y->row) : (x->at > y->at) - (x->at < y->at);
}

/* The dataset's rows of the batch, in the order of `places`, as they are in the file. */
static samba_status fetch(samba_context *context, samba_hdf5_rows *its, int64_t count, const place *places, samba_tensor **got)
{
    const samba_hdf5_facts *facts = samba_hdf5_rows_facts(its);
    int64_t shape[SAMBA_MAX_RANK] = {count};
    memcpy(shape + 1, facts->shape + 1, sizeof *shape * (size_t)(facts->rank - 1));
    SAMBA_TRY(samba_tensor_new(context, "rows", facts->dtype, facts->rank, shape, got));
    const size_t row = (size_t)(samba_tensor_numel(*got) / count) * samba_dtype_size(facts->dtype);
    for (int64_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && places[next].row == places[next - 1].row + 1;)
            next++;
        SAMBA_TRY(samba_hdf5_rows_read(context, its, places[first].row, next - first,
                                       (char *)samba_tensor_data(*got) + row * (size_t)first));
    }
    return SAMBA_OK;
}

static samba_status read_field(rows *r, samba_context *context, int index, int64_t count, const place *places,
                               const int64_t *numbers, samba_tensor *to)
{
    samba_tensor *got = NULL, *made = NULL;
    samba_status status = fetch(context, r->its[index], count, places, &got);
    if (status == SAMBA_OK)
        status = samba_columns_convert(context, r->path, &r->o.columns[index], got, numbers, &made);
    if (status == SAMBA_OK) {
        const size_t row = (size_t)(samba_tensor_numel(made) / count) * samba_dtype_size(samba_tensor_dtype(made));
        for (int64_t k = 0; k < count; k++)
            memcpy((char *)samba_tensor_data(to) + row * (size_t)places[k].at,
                   (const char *)samba_tensor_data(made) + row * (size_t)k, row);
    }
    samba_tensor_free(got);
    samba_tensor_free(made);
    return status;
}

static samba_status read_samples(samba_context *context, void *user, int64_t count, const int64_t *samples, int field_count,
                                 samba_tensor *const *to)
{
    rows *r = user;
    if (count == 0)
        return SAMBA_OK;
    place *places = samba_alloc(context, sizeof *places * (size_t)count);
    if (!places)
        return SAMBA_ERROR_MEMORY;
    for (int64_t k = 0; k < count; k++)
        places[k] = (place){samples[k], k};
    qsort(places, (size_t)count, sizeof *places, by_row);
    int64_t *numbers = samba_alloc(context, sizeof *numbers * (size_t)count);
    samba_status status = numbers ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    for (int64_t k = 0; k < count && numbers; k++)
        numbers[k] = places[k].row;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < field_count && status == SAMBA_OK; i++)
        status = read_field(r, context, i, count, places, numbers, to[i]);
    pthread_mutex_unlock(&r->lock);
    samba_free(context, numbers, sizeof *numbers * (size_t)count);
    samba_free(context, places, sizeof *places * (size_t)count);
    return status;
}

static void free_rows(void *user)
{
    rows *r = user;
    for (int i = 0; i < SAMBA_MAX_FIELDS; i++)
        samba_hdf5_rows_close(r->its[i]);
    pthread_mutex_destroy(&r->lock);
    samba_arena_free(&r->arena);
    samba_free(r->context, r, sizeof *r);
}

/* ---- opening ---- */

static samba_status check_dataset(const rows *r, int index, const samba_hdf5_facts *facts)
{
    const samba_column *column = &r->o.columns[index];
    const int64_t each = samba_field_numel(&column->field);
    int64_t numel = 1;
    for (int d = 1; d < facts->rank; d++)
        numel *= facts->shape[d];
    if (facts->rank < 1 || numel != each)
        return samba_fail(r->context, SAMBA_ERROR_SHAPE,
                          "%s: tensor '%s' of shape %s does not make samples of field '%s', which have %lld elements", r->path,
                          column->from ? column->from : column->field.name, SAMBA_SHAPE(facts->rank, facts->shape),
                          column->field.name, (long long)each);
    const int64_t count = samba_hdf5_rows_facts(r->its[0])->shape[0];
    return facts->shape[0] == count
               ? SAMBA_OK
               : samba_fail(r->context, SAMBA_ERROR_SHAPE, "%s: field '%s' has %lld samples, and the first has %lld", r->path,
                            column->field.name, (long long)facts->shape[0], (long long)count);
}

static samba_status open_rows(rows *r, const char *path, samba_source **source)
{
    samba_field fields[SAMBA_MAX_FIELDS];
    char *kept;
    int64_t bytes = 0;
    SAMBA_TRY(samba_columns_keep(&r->arena, &r->o));
    SAMBA_TRY(samba_arena_copy(&r->arena, path, &kept));
    r->path = kept;
    for (int i = 0; i < r->o.column_count; i++) {
        const samba_column *column = &r->o.columns[i];
        SAMBA_TRY(samba_hdf5_rows_open(r->context, path, column->from ? column->from : column->field.name, &r->its[i]));
        const samba_hdf5_facts *facts = samba_hdf5_rows_facts(r->its[i]);
        int64_t its = (int64_t)samba_dtype_size(facts->dtype);
        for (int d = 0; d < facts->rank; d++)
            its *= facts->shape[d]; /* the reader has checked that it fits */
        bytes = samba_add_checked(bytes, its, &bytes) ? bytes : INT64_MAX;
        fields[i] = column->field;
    }
    if (bytes <= r->o.memory) /* it is read whole */
        return SAMBA_OK;
    for (int i = 0; i < r->o.column_count; i++)
        SAMBA_TRY(check_dataset(r, i, samba_hdf5_rows_facts(r->its[i])));
    const samba_source_options o = {.struct_size = sizeof o,
                                    .count = samba_hdf5_rows_facts(r->its[0])->shape[0],
                                    .field_count = r->o.column_count,
                                    .fields = fields,
                                    .read = read_samples,
                                    .free = free_rows,
                                    .user = r};
    return samba_source_new(r->context, &o, source);
}

samba_status samba_rows_open(samba_context *context, const char *path, const samba_file_options *o, samba_source **source)
{
    *source = NULL;
    rows *r = samba_calloc(context, sizeof *r);
    if (!r)
        return SAMBA_ERROR_MEMORY;
    *r = (rows){.context = context, .o = *o};
    samba_arena_init(&r->arena, context);
    pthread_mutex_init(&r->lock, NULL);
    samba_status status = open_rows(r, path, source);
    if (!*source)
        free_rows(r);
    return status;
}
