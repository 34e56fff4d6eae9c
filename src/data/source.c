/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: over functions, over tensors, several side by side, a part of one. All are the one of functions: a source of tensors
 * copies rows, a part looks its numbers up, a join asks each of its sources. A source is counted, since parts hold it. */
#include "data/source.h"
#include "base/null.h"

#include <math.h>
#include <string.h>

/* ---- fields ---- */

int64_t samba_field_numel(const samba_field *field)
{
    int64_t numel = 1;
    for (int d = 0; d < field->rank; d++)
        if (!samba_mul_checked(numel, field->shape[d], &numel))
            return -1;
    return numel;
}

samba_status samba_field_tensor(samba_context *context, const samba_field *field, int64_t count, samba_tensor **tensor)
{
    int64_t shape[SAMBA_MAX_RANK] = {count};
    memcpy(shape + 1, field->shape, sizeof *shape * (size_t)field->rank);
    return samba_tensor_new(context, field->name, field->dtype, field->rank + 1, shape, tensor);
}

static samba_status check_field(samba_context *context, const samba_source_options *o, int index)
{
    const samba_field *field = &o->fields[index];
    if (!field->name || !field->name[0])
        return samba_fail(context, SAMBA_ERROR_NAME,
                          "field %d of a source has no name, and inputs are given by name: name the tensor, or say by "
                          "samba_file_options.columns what the file's is called",
                          index);
    for (int i = 0; i < index; i++)
        if (strcmp(o->fields[i].name, field->name) == 0)
            return samba_fail(context, SAMBA_ERROR_NAME, "two fields of a source are named '%s'", field->name);
    if ((int)field->dtype < 0 || field->dtype >= SAMBA_DTYPE_COUNT)
        return samba_fail(context, SAMBA_ERROR_DTYPE, "field '%s' of a source: %d is no dtype", field->name, (int)field->dtype);
    if (field->rank < 0 || field->rank >= SAMBA_MAX_RANK)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "field '%s' of a source has %d dims: a sample has 0 to %d", field->name,
                          field->rank, SAMBA_MAX_RANK - 1);
    if (samba_field_numel(field) < 0)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "field '%s' of a source: its shape has a size below 0, or is too large",
                          field->name);
    return SAMBA_OK;
}

static samba_status check(samba_context *context, const samba_source_options *o)
{
    if (o->field_count < 1 || o->field_count > SAMBA_MAX_FIELDS || !o->fields)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a source has %d fields: expected 1 to %d", o->field_count,
                          SAMBA_MAX_FIELDS);
    if (o->count < -1)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a source has %lld samples: expected 0 or more, or -1 for not known",
                          (long long)o->count);
    if (!(o->read && o->count >= 0) && !(o->next && o->rewind))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a source needs `read` and a count of samples, or `next` and `rewind`");
    for (int i = 0; i < o->field_count; i++)
        SAMBA_TRY(check_field(context, o, i));
    return SAMBA_OK;
}

static samba_status keep_fields(samba_source *source)
{
    samba_field *fields;
    SAMBA_TRY(SAMBA_ROOM(&source->arena, fields, source->o.field_count));
    for (int i = 0; i < source->o.field_count; i++) {
        char *name;
        fields[i] = source->o.fields[i];
        SAMBA_TRY(samba_arena_copy(&source->arena, fields[i].name, &name));
        fields[i].name = name;
    }
    source->o.fields = fields;
    return SAMBA_OK;
}

samba_source_options samba_source_defaults(void)
{
    return (samba_source_options){.struct_size = sizeof(samba_source_options), .count = -1};
}

samba_status samba_source_new(samba_context *context, const samba_source_options *options, samba_source **source)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, options);
    SAMBA_NEED(context, source);
    *source = NULL;
    samba_source_options o = {0};
    SAMBA_TRY(samba_options_take(context, __func__, options, sizeof o, &o));
    SAMBA_TRY(check(context, &o));
    samba_source *made = samba_calloc(context, sizeof *made);
    if (!made)
        return SAMBA_ERROR_MEMORY;
    *made = (samba_source){.context = context, .holders = 1, .o = o};
    samba_arena_init(&made->arena, context);
    samba_status status = keep_fields(made);
    if (status != SAMBA_OK) {
        made->o.free = NULL;
        samba_source_free(made);
        return status;
    }
    *source = made;
    return SAMBA_OK;
}

samba_source *samba_source_hold(samba_source *source)
{
    source->holders++;
    return source;
}

void samba_source_free(samba_source *source)
{
    if (!source || --source->holders > 0)
        return;
    if (source->o.free)
        source->o.free(source->o.user);
    samba_arena_free(&source->arena);
    samba_free(source->context, source, sizeof *source);
}

int64_t samba_source_count(const samba_source *source) { return source ? source->o.count : -1; }

int samba_source_field_count(const samba_source *source) { return source ? source->o.field_count : 0; }

const samba_field *samba_source_field(const samba_source *source, int index)
{
    return source && index >= 0 && index < source->o.field_count ? &source->o.fields[index] : NULL;
}

/* ---- reading ---- */

samba_status samba_source_said(samba_context *context, int64_t before, samba_status status, const char *function)
{
    if (status == SAMBA_OK || samba_failed(context) != before)
        return status;
    return samba_fail(context, status, "a source's function `%s` failed (%s) and left no message: samba_error_set leaves one",
                      function, samba_status_name(status));
}

samba_status samba_source_read_in(samba_context *context, samba_source *source, int64_t count, const int64_t *samples,
                                  samba_tensor *const *rows)
{
    const int64_t before = samba_failed(context);
    samba_status status = source->o.read(context, source->o.user, count, samples, source->o.field_count, rows);
    return samba_source_said(context, before, status, "read");
}

static samba_status check_rows(const samba_source *source, int64_t count, int index, const samba_tensor *rows)
{
    const samba_field *field = &source->o.fields[index];
    if (!rows || !samba_tensor_has_data(rows) || !samba_tensor_is_contiguous(rows))
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT, "the rows of field '%s' have no memory, or are not contiguous",
                          field->name);
    if (samba_tensor_dtype(rows) != field->dtype)
        return samba_fail(source->context, SAMBA_ERROR_DTYPE, "the rows of field '%s' are %s, and the source has %s", field->name,
                          samba_dtype_name(samba_tensor_dtype(rows)), samba_dtype_name(field->dtype));
    const int64_t *shape = samba_tensor_shape(rows);
    if (samba_tensor_rank(rows) != field->rank + 1 || shape[0] < count ||
        memcmp(shape + 1, field->shape, sizeof *shape * (size_t)field->rank) != 0)
        return samba_fail(source->context, SAMBA_ERROR_SHAPE,
                          "the rows of field '%s' must have a sample in each row of dim 0, at least %lld, and the field's shape",
                          field->name, (long long)count);
    return SAMBA_OK;
}

samba_status samba_source_read(samba_source *source, int64_t count, const int64_t *samples, int row_count,
                               samba_tensor *const *rows)
{
    SAMBA_NEED(NULL, source);
    if (count > 0)
        SAMBA_NEED(source->context, samples);
    SAMBA_NEED(source->context, rows);
    if (!source->o.read || source->o.count < 0)
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT,
                          "the source gives its samples in order alone: a loader without shuffle reads it");
    if (count < 0 || row_count != source->o.field_count)
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT,
                          "samba_source_read: %lld samples into %d tensors, and the source has %d fields", (long long)count,
                          row_count, source->o.field_count);
    for (int i = 0; i < row_count; i++)
        SAMBA_TRY(check_rows(source, count, i, rows[i]));
    for (int64_t k = 0; k < count; k++)
        if (samples[k] < 0 || samples[k] >= source->o.count)
            return samba_fail(source->context, SAMBA_ERROR_INDEX, "sample %lld is not there: the source has %lld",
                              (long long)samples[k], (long long)source->o.count);
    return samba_source_read_in(source->context, source, count, samples, rows);
}

/* ---- tensors ---- */

typedef struct tensors {
    samba_context *context;
    int count;
    samba_tensor *its[SAMBA_MAX_FIELDS];
} tensors;

static samba_status read_tensors(samba_context *context, void *user, int64_t count, const int64_t *samples, int field_count,
                                 samba_tensor *const *rows)
{
    const tensors *t = user;
    (void)context;
    for (int i = 0; i < field_count; i++) {
        const samba_tensor *from = t->its[i];
        size_t row = samba_dtype_size(samba_tensor_dtype(from));
        for (int d = 1; d < samba_tensor_rank(from); d++)
            row *= (size_t)samba_tensor_shape(from)[d];
        char *to = samba_tensor_data(rows[i]);
        const char *data = samba_tensor_data(from);
        for (int64_t k = 0; k < count; k++)
            memcpy(to + (size_t)k * row, data + (size_t)samples[k] * row, row);
    }
    return SAMBA_OK;
}

static void free_tensors(void *user)
{
    tensors *t = user;
    for (int i = 0; i < t->count; i++)
        samba_tensor_free(t->its[i]);
    samba_free(t->context, t, sizeof *t);
}

static samba_status take_tensor(samba_context *context, samba_tensor *given, int64_t count, samba_tensor **kept,
                                samba_field *field)
{
    const int rank = given ? samba_tensor_rank(given) : 0;
    if (!given)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a source of tensors was given NULL for one of them");
    if (!samba_tensor_has_data(given))
        return samba_fail(context, SAMBA_ERROR_STATE, "tensor '%s' of a source has no data", samba_tensor_name(given));
    if (rank < 1)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "tensor '%s' of a source has no dims: dim 0 counts the samples",
                          samba_tensor_name(given));
    const int64_t *shape = samba_tensor_shape(given);
    if (shape[0] != count)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "tensor '%s' of a source has %lld samples, and the first has %lld",
                          samba_tensor_name(given), (long long)shape[0], (long long)count);
    *field = (samba_field){samba_tensor_name(given), samba_tensor_dtype(given), rank - 1, {0}};
    memcpy(field->shape, shape + 1, sizeof *shape * (size_t)(rank - 1));
    if (samba_tensor_is_contiguous(given))
        return samba_tensor_view(given, rank, shape, kept);
    SAMBA_TRY(samba_tensor_new(context, field->name, field->dtype, rank, shape, kept));
    return samba_tensor_copy(*kept, given);
}

static samba_status made_of_tensors(samba_context *context, tensors *t, int count, samba_tensor *const *given,
                                    samba_source **source)
{
    samba_field fields[SAMBA_MAX_FIELDS] = {{0}};
    samba_source_options o = {.struct_size = sizeof o, .fields = fields, .field_count = count, .read = read_tensors};
    if (!given[0] || samba_tensor_rank(given[0]) < 1)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "the first tensor of a source is none, or has no dims");
    o.count = samba_tensor_shape(given[0])[0];
    o.free = free_tensors;
    o.user = t;
    for (int i = 0; i < count; i++) {
        samba_status status = take_tensor(context, given[i], o.count, &t->its[i], &fields[i]);
        t->count += t->its[i] != NULL;
        SAMBA_TRY(status);
    }
    return samba_source_new(context, &o, source);
}

samba_status samba_source_tensors(samba_context *context, int count, samba_tensor *const *given, samba_source **source)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, given);
    SAMBA_NEED(context, source);
    *source = NULL;
    if (count < 1 || count > SAMBA_MAX_FIELDS)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a source of %d tensors: expected 1 to %d", count, SAMBA_MAX_FIELDS);
    tensors *t = samba_calloc(context, sizeof *t);
    if (!t)
        return SAMBA_ERROR_MEMORY;
    t->context = context;
    samba_status status = made_of_tensors(context, t, count, given, source);
    if (status != SAMBA_OK)
        free_tensors(t);
    return status;
}

/* ---- several side by side ---- */

typedef struct joined {
    samba_context *context;
    int count;
    samba_source *its[SAMBA_MAX_FIELDS];
} joined;

static samba_status read_joined(samba_context *context, void *user, int64_t count, const int64_t *samples, int field_count,
                                samba_tensor *const *rows)
{
    const joined *j = user;
    (void)field_count;
    for (int i = 0; i < j->count; rows += j->its[i++]->o.field_count)
        SAMBA_TRY(samba_source_read_in(context, j->its[i], count, samples, rows));
    return SAMBA_OK;
}

static void free_joined(void *user)
{
    joined *j = user;
    for (int i = 0; i < j->count; i++)
        samba_source_free(j->its[i]);
    samba_free(j->context, j, sizeof *j);
}

static samba_status join(samba_context *context, joined *j, int count, samba_source *const *sources, samba_source **made)
{
    samba_field fields[SAMBA_MAX_FIELDS];
    samba_source_options o = {.struct_size = sizeof o, .fields = fields, .read = read_joined, .free = free_joined, .user = j};
    for (int i = 0; i < count; i++) {
        samba_source *source = sources[i];
        SAMBA_NEED(context, source);
        if (!source->o.read || source->o.count < 0)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "source %d of a join gives its samples in order alone: all must be read by number", i);
        if (source->o.count != sources[0]->o.count)
            return samba_fail(context, SAMBA_ERROR_SHAPE, "source %d of a join has %lld samples, and the first has %lld", i,
                              (long long)source->o.count, (long long)sources[0]->o.count);
        if (o.field_count + source->o.field_count > SAMBA_MAX_FIELDS)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a join has more than %d fields", SAMBA_MAX_FIELDS);
        memcpy(fields + o.field_count, source->o.fields, sizeof *fields * (size_t)source->o.field_count);
        o.field_count += source->o.field_count;
        j->its[j->count++] = samba_source_hold(source);
    }
    o.count = sources[0]->o.count;
    return samba_source_new(context, &o, made);
}

samba_status samba_source_join(samba_context *context, int count, samba_source *const *sources, samba_source **made)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, sources);
    SAMBA_NEED(context, made);
    *made = NULL;
    if (count < 1 || count > SAMBA_MAX_FIELDS)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a join of %d sources: expected 1 to %d", count, SAMBA_MAX_FIELDS);
    joined *j = samba_calloc(context, sizeof *j);
    if (!j)
        return SAMBA_ERROR_MEMORY;
    j->context = context;
    samba_status status = join(context, j, count, sources, made);
    if (status != SAMBA_OK)
        free_joined(j);
    return status;
}

/* ---- a part of one ---- */

typedef struct part {
    samba_context *context;
    samba_source *source;
    int64_t count;
    int64_t *numbers; /* in the source */
} part;

/* Two loaders may read one part at once, so what is asked of the source is this call's own. */
static samba_status read_part(samba_context *context, void *user, int64_t count, const int64_t *samples, int field_count,
                              samba_tensor *const *rows)
{
    const part *p = user;
    const size_t size = sizeof(int64_t) * (size_t)count;
    int64_t *asked = samba_alloc(context, size);
    (void)field_count;
    if (!asked)
        return SAMBA_ERROR_MEMORY;
    for (int64_t k = 0; k < count; k++)
        asked[k] = p->numbers[samples[k]];
    samba_status status = samba_source_read_in(context, p->source, count, asked, rows);
    samba_free(context, asked, size);
    return status;
}

static void free_part(void *user)
{
    part *p = user;
    samba_source_free(p->source);
    samba_free(p->context, p->numbers, sizeof *p->numbers * (size_t)p->count);
    samba_free(p->context, p, sizeof *p);
}

/* `numbers` may be NULL: from, from + 1 ... */
static samba_status new_part(samba_source *source, int64_t from, int64_t count, const int64_t *numbers, samba_source **made)
{
    samba_context *context = source->context;
    samba_source_options o = {.struct_size = sizeof o,
                              .count = count,
                              .field_count = source->o.field_count,
                              .fields = source->o.fields,
                              .read = read_part,
                              .free = free_part};
    part *p = samba_calloc(context, sizeof *p);
    if (!p)
        return SAMBA_ERROR_MEMORY;
    *p = (part){.context = context, .source = samba_source_hold(source), .count = count};
    p->numbers = samba_alloc(context, sizeof *p->numbers * (size_t)count);
    for (int64_t k = 0; p->numbers && k < count; k++)
        p->numbers[k] = numbers ? numbers[from + k] : from + k;
    o.user = p;
    samba_status status = p->numbers ? samba_source_new(context, &o, made) : SAMBA_ERROR_MEMORY;
    if (status != SAMBA_OK)
        free_part(p);
    return status;
}

static samba_status check_counted(const samba_source *source, const char *call)
{
    return source->o.read && source->o.count >= 0
               ? SAMBA_OK
               : samba_fail(source->context, SAMBA_ERROR_ARGUMENT,
                            "%s: the source gives its samples in order alone, and a part needs them by number", call);
}

samba_status samba_source_part(samba_source *source, int64_t from, int64_t to, samba_source **made)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, made);
    *made = NULL;
    SAMBA_TRY(check_counted(source, __func__));
    if (from < 0 || to < from || to > source->o.count)
        return samba_fail(source->context, SAMBA_ERROR_INDEX, "samples %lld to %lld are not there: the source has %lld",
                          (long long)from, (long long)to, (long long)source->o.count);
    return new_part(source, from, to - from, NULL, made);
}

samba_status samba_source_pick(samba_source *source, int64_t count, const int64_t *samples, samba_source **picked)
{
    SAMBA_NEED(NULL, source);
    SAMBA_NEED(source->context, picked);
    *picked = NULL;
    SAMBA_TRY(check_counted(source, __func__));
    if (count < 0 || (count > 0 && !samples))
        return samba_fail(source->context, SAMBA_ERROR_ARGUMENT,
                          "samba_source_pick: %lld samples%s: expected 0 or more, by number", (long long)count,
                          samples ? "" : " and no numbers");
    for (int64_t k = 0; k < count; k++)
        if (samples[k] < 0 || samples[k] >= source->o.count)
            return samba_fail(source->context, SAMBA_ERROR_INDEX, "sample %lld of %lld is number %lld, and the source has %lld",
                              (long long)k, (long long)count, (long long)samples[k], (long long)source->o.count);
    return new_part(source, 0, count, samples, picked);
}

samba_status samba_source_split(samba_source *source, double share, uint64_t seed, samba_source **first, samba_source **second)
{
    SAMBA_NEED(NULL, source);
    samba_context *context = source->context;
    SAMBA_NEED(context, first);
    SAMBA_NEED(context, second);
    *first = *second = NULL;
    SAMBA_TRY(check_counted(source, __func__));
    if (!(share >= 0 && share <= 1))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_source_split: the second part's share is %g: expected 0 to 1",
                          share);
    const int64_t count = source->o.count, rest = (int64_t)llround(share * (double)count);
    const size_t size = sizeof(int64_t) * (size_t)count;
    int64_t *order = samba_alloc(context, size);
    if (!order)
        return SAMBA_ERROR_MEMORY;
    samba_shuffle(seed, count, order);
    samba_status status = new_part(source, 0, count - rest, order, first);
    if (status == SAMBA_OK)
        status = new_part(source, count - rest, rest, order, second);
    if (status != SAMBA_OK) {
        samba_source_free(*first);
        *first = NULL;
    }
    samba_free(context, order, size);
    return status;
}
