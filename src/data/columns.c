/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of files as tensors, whatever the file's kind: what a text, a number or nothing becomes as an element of a field, with
 * messages that name file, line and column; and tensors of other files, chosen, scaled and cast. Numbers are read as the C locale
 * writes them. Nothing is rounded to another number in silence but by the dtype itself: a number beyond a dtype's
 * range is refused. */
#include "base/null.h"
#include "data/source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

samba_file_options samba_file_defaults(void) { return (samba_file_options){.struct_size = sizeof(samba_file_options)}; }

/* ---- elements ---- */

static samba_status bad_cell(const samba_cell *cell, const char *format, ...) __attribute__((format(printf, 2, 3)));
static samba_status bad_cell(const samba_cell *cell, const char *format, ...)
{
    char name[SAMBA_SHOWN], what[SAMBA_SHOWN + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return samba_fail(cell->context, SAMBA_ERROR_FORMAT, "%s:%lld: column '%s': %.600s", cell->path, (long long)cell->line,
                      samba_shown(cell->name, name), what);
}

static double scaled(const samba_column *column, double value)
{
    return value * (column->scale != 0 ? column->scale : 1) + column->shift;
}

/* The greatest magnitude that a float dtype holds. */
static double greatest(samba_dtype dtype)
{
    switch (dtype) {
    case SAMBA_FLOAT16: return 65504;
    case SAMBA_FLOAT32: return 0x1.fffffep127;
    case SAMBA_BFLOAT16: return 0x1.fep127;
    default: return INFINITY;
    }
}

static bool integer_fits(samba_dtype dtype, int64_t value)
{
    switch (dtype) {
    case SAMBA_INT32: return value >= INT32_MIN && value <= INT32_MAX;
    case SAMBA_INT16: return value >= INT16_MIN && value <= INT16_MAX;
    case SAMBA_INT8: return value >= INT8_MIN && value <= INT8_MAX;
    case SAMBA_UINT8: return value >= 0 && value <= UINT8_MAX;
    case SAMBA_BOOL: return value == 0 || value == 1;
    default: return true;
    }
}

samba_status samba_cell_real(const samba_cell *cell, double value, void *element)
{
    const samba_dtype dtype = cell->column->field.dtype;
    const double made = scaled(cell->column, value);
    if (samba_dtype_is_floating_point(dtype)) {
        if (isfinite(made) ? fabs(made) > greatest(dtype) : isfinite(value))
            return bad_cell(cell, "%.17g is too large for the field's dtype", made);
        samba_store_double(dtype, element, made);
        return SAMBA_OK;
    }
    if (made != floor(made) || isinf(made))
        return bad_cell(cell, "%.17g is no whole number, and the field is of integers", made);
    if (!(made >= -0x1p63 && made < 0x1p63) || !integer_fits(dtype, (int64_t)made))
        return bad_cell(cell, "%.17g is too large for the field's dtype", made);
    samba_store_int64(dtype, element, (int64_t)made);
    return SAMBA_OK;
}

samba_status samba_cell_integer(const samba_cell *cell, int64_t value, void *element)
{
    const samba_column *column = cell->column;
    if (column->scale != 0 || column->shift != 0 || samba_dtype_is_floating_point(column->field.dtype))
        return samba_cell_real(cell, (double)value, element);
    if (!integer_fits(column->field.dtype, value))
        return bad_cell(cell, "%lld is too large for the field's dtype", (long long)value);
    samba_store_int64(column->field.dtype, element, value);
    return SAMBA_OK;
}

samba_status samba_cell_missing(const samba_cell *cell, void *element)
{
    if (!cell->options->fill_missing)
        return bad_cell(cell, "the value is missing; fill_missing with `missing` says what stands for it");
    samba_column plain = *cell->column;
    samba_cell as_is = *cell;
    plain.scale = plain.shift = 0;
    as_is.column = &plain;
    if (isnan(cell->options->missing) && samba_dtype_is_floating_point(plain.field.dtype)) {
        samba_store_double(plain.field.dtype, element, NAN);
        return SAMBA_OK;
    }
    return samba_cell_real(&as_is, cell->options->missing, element);
}

static bool is_missing(const char *word)
{
    static const char *const words[] = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"};
    for (int i = 0; i < SAMBA_COUNT(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static samba_status class_of(const samba_cell *cell, const char *word, void *element)
{
    const samba_column *column = cell->column;
    for (int i = 0; i < column->class_count; i++)
        if (strcmp(column->classes[i], word) == 0)
            return samba_cell_integer(cell, i, element);
    const char *near = samba_nearest(word, column->classes, column->class_count);
    char shown[SAMBA_SHOWN];
    return bad_cell(cell, "'%s' is none of its %d classes%s%s%s", samba_shown(word, shown), column->class_count,
                    near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

samba_status samba_cell_word(const samba_cell *cell, const char *word, void *element)
{
    if (is_missing(word))
        return samba_cell_missing(cell, element);
    if (cell->column->class_count > 0)
        return class_of(cell, word, element);
    char *end;
    errno = 0;
    const long long whole = strtoll(word, &end, 10);
    if (end != word && !*end && errno == 0)
        return samba_cell_integer(cell, whole, element);
    const double real = strtod(word, &end);
    if (end == word || *end || strpbrk(word, "xXpP")) /* strtod takes hexadecimal numbers too */
        return bad_cell(cell, "'%s' is no number", samba_shown(word, (char[SAMBA_SHOWN]){0}));
    if (isinf(real) && !strpbrk(word, "iI"))
        return bad_cell(cell, "%s is too large for any dtype", samba_shown(word, (char[SAMBA_SHOWN]){0}));
    return samba_cell_real(cell, real, element);
}

/* ---- options ---- */

static samba_status check_column(samba_context *context, const samba_column *columns, int index)
{
    const samba_field *field = &columns[index].field;
    if (!field->name || !field->name[0])
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "column %d has a field without a name", index);
    for (int i = 0; i < index; i++)
        if (strcmp(columns[i].field.name, field->name) == 0)
            return samba_fail(context, SAMBA_ERROR_NAME, "two columns make a field '%s'", field->name);
    if ((int)field->dtype < 0 || field->dtype >= SAMBA_DTYPE_COUNT)
        return samba_fail(context, SAMBA_ERROR_DTYPE, "field '%s': %d is no dtype", field->name, (int)field->dtype);
    if (field->rank < 0 || field->rank >= SAMBA_MAX_RANK || samba_field_numel(field) < 1)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "field '%s': a sample has 0 to %d dims, of sizes 1 or more", field->name,
                          SAMBA_MAX_RANK - 1);
    if (columns[index].class_count < 0 || (columns[index].class_count > 0 && !columns[index].classes))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "field '%s' has %d classes and no words for them", field->name,
                          columns[index].class_count);
    if (!isfinite(columns[index].scale) || !isfinite(columns[index].shift))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "field '%s': its scale and shift must be finite", field->name);
    return SAMBA_OK;
}

samba_status samba_columns_check(samba_context *context, const char *path, bool text, const samba_file_options *o)
{
    if (o->column_count < 0 || o->column_count > SAMBA_MAX_FIELDS || (o->column_count > 0 && !o->columns))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%d columns: expected up to %d", o->column_count, SAMBA_MAX_FIELDS);
    if (text && o->column_count == 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "%s: `columns` must say which columns of the file make which field, of which dtype and shape", path);
    if (!text && (o->delimiter || o->no_header || o->fill_missing))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "%s: delimiter, no_header and fill_missing are for files .csv, .tsv and .jsonl", path);
    for (int i = 0; i < o->column_count; i++)
        SAMBA_TRY(check_column(context, o->columns, i));
    for (int i = 0; i < o->column_count && !text; i++)
        if (o->columns[i].class_count > 0)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: field '%s' has classes, and tensors have no words", path,
                              o->columns[i].field.name);
    return SAMBA_OK;
}

samba_status samba_columns_keep(samba_arena *arena, samba_file_options *o)
{
    samba_column *columns;
    SAMBA_TRY(SAMBA_ROOM(arena, columns, o->column_count + 1));
    for (int i = 0; i < o->column_count; i++) {
        const samba_column *its = &o->columns[i];
        char *name, *from = NULL, *word;
        const char **classes = NULL;
        columns[i] = *its;
        SAMBA_TRY(samba_arena_copy(arena, its->field.name, &name));
        if (its->from)
            SAMBA_TRY(samba_arena_copy(arena, its->from, &from));
        if (its->class_count > 0)
            SAMBA_TRY(SAMBA_ROOM(arena, classes, its->class_count));
        for (int k = 0; k < its->class_count; k++) {
            SAMBA_TRY(samba_arena_copy(arena, its->classes[k], &word));
            classes[k] = word;
        }
        columns[i].field.name = name, columns[i].from = from, columns[i].classes = classes;
    }
    o->columns = columns;
    return SAMBA_OK;
}

/* ---- files of tensors ---- */

static const char *name_in_file(const samba_column *column) { return column->from ? column->from : column->field.name; }

static samba_status find(samba_context *context, const char *path, const samba_tensor_list *all, const char *name,
                         samba_tensor **found)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(samba_tensor_name(all->tensors[i]), name) == 0) {
            *found = all->tensors[i];
            return SAMBA_OK;
        }
    samba_text names;
    samba_text_init(&names, context);
    for (int i = 0; i < all->count; i++)
        samba_text_add(&names, "%s'%s'", i ? ", " : "", samba_tensor_name(all->tensors[i]));
    samba_fail(context, SAMBA_ERROR_NAME, "%s has no tensor '%s'; there are %.500s", path, name,
               names.data ? names.data : "none");
    samba_text_clear(&names);
    return SAMBA_ERROR_NAME;
}

/* The tensor as the field: reshaped, cast, scaled. A value that the dtype cannot hold is refused by its sample. */
samba_status samba_columns_convert(samba_context *context, const char *path, const samba_column *column, samba_tensor *from,
                                   const int64_t *numbers, samba_tensor **made)
{
    const samba_field *field = &column->field;
    const int64_t each = samba_field_numel(field), count = samba_tensor_rank(from) > 0 ? samba_tensor_shape(from)[0] : -1;
    if (count < 0 || samba_tensor_numel(from) != count * each)
        return samba_fail(context, SAMBA_ERROR_SHAPE,
                          "%s: tensor '%s' of shape %s does not make samples of field '%s', which have %lld elements", path,
                          samba_tensor_name(from), SAMBA_SHAPE(samba_tensor_rank(from), samba_tensor_shape(from)), field->name,
                          (long long)each);
    SAMBA_TRY(samba_field_tensor(context, field, count, made));
    samba_tensor *copy = NULL;
    const void *elements;
    samba_status status = samba_tensor_elements(from, path, &copy, &elements);
    const samba_dtype dtype = samba_tensor_dtype(from);
    const size_t size = samba_dtype_size(dtype), to_size = samba_dtype_size(field->dtype);
    char *to = samba_tensor_data(*made);
    const samba_file_options none = samba_file_defaults();
    samba_cell cell = {context, &none, column, path, name_in_file(column), 0};
    for (int64_t i = 0; i < count * each && status == SAMBA_OK; i++) {
        const char *element = (const char *)elements + size * (size_t)i;
        cell.line = numbers ? numbers[i / each] : i / each; /* the sample */
        status = samba_dtype_is_floating_point(dtype)
                     ? samba_cell_real(&cell, samba_load_double(dtype, element), to + to_size * (size_t)i)
                     : samba_cell_integer(&cell, samba_load_int64(dtype, element), to + to_size * (size_t)i);
    }
    samba_tensor_free(copy);
    return status;
}

static samba_status read_tensors(samba_context *context, const char *path, const samba_file_options *o, samba_tensor_list *list)
{
    samba_tensor_list all;
    samba_status status = SAMBA_OK;
    if (o->column_count == 0)
        return samba_tensors_read(context, path, NULL, list);
    SAMBA_TRY(samba_tensor_list_new(context, o->column_count, list));
    for (int i = 0; i < o->column_count && status == SAMBA_OK; i++) { /* the datasets of an HDF5 file are read one by one */
        samba_tensor *from;
        status = samba_tensors_read(context, path, name_in_file(&o->columns[i]), &all);
        if (status != SAMBA_OK)
            break;
        status = find(context, path, &all, name_in_file(&o->columns[i]), &from);
        if (status == SAMBA_OK)
            status = samba_columns_convert(context, path, &o->columns[i], from, NULL, &list->tensors[i]);
        samba_tensor_list_free(context, &all);
    }
    if (status != SAMBA_OK)
        samba_tensor_list_free(context, list);
    return status;
}

/* ---- files of texts ---- */

samba_status samba_plain_begin(samba_context *context, const char *path, samba_plain *plain)
{
    plain->its = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain->its)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for reading numbers of %s", path);
    plain->before = uselocale(plain->its);
    return SAMBA_OK;
}

void samba_plain_end(samba_plain *plain)
{
    uselocale(plain->before);
    freelocale(plain->its);
}

static samba_status parse_text(samba_context *context, const char *path, bool jsonl, char *text, size_t size,
                               const samba_file_options *o, samba_tensor_list *list)
{
    const char *nul = memchr(text, '\0', size);
    const size_t bom = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    samba_text_part part = {.line = 1, .last = true};
    samba_plain plain = {0};
    if (nul)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: byte %lld is 0: this is no text", path, (long long)(nul - text));
    SAMBA_TRY(samba_plain_begin(context, path, &plain));
    samba_status status =
        (jsonl ? samba_jsonl_columns : samba_csv_columns)(context, path, text + bom, size - bom, o, &part, list);
    samba_plain_end(&plain);
    return status;
}

static samba_status read_text(samba_context *context, const char *path, bool jsonl, const samba_file_options *o,
                              samba_tensor_list *list)
{
    void *data;
    size_t size;
    SAMBA_TRY(samba_file_read(context, path, &data, &size));
    char *text = samba_alloc(context, size + 1);
    samba_status status = text ? samba_tensor_list_new(context, o->column_count, list) : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK) {
        memcpy(text, data, size);
        text[size] = '\0';
        status = parse_text(context, path, jsonl, text, size, o, list);
        if (status != SAMBA_OK)
            samba_tensor_list_free(context, list);
    }
    samba_free(context, text, size + 1);
    samba_free(context, data, size);
    return status;
}

static bool is_text(const char *path, bool *jsonl)
{
    *jsonl = samba_ends_with(path, ".jsonl") || samba_ends_with(path, ".ndjson");
    return *jsonl || samba_ends_with(path, ".csv") || samba_ends_with(path, ".tsv");
}

static bool is_hdf5(const char *path) { return samba_ends_with(path, ".h5") || samba_ends_with(path, ".hdf5"); }

static samba_status take_options(samba_context *context, const char *call, const char *path, const samba_file_options *options,
                                 samba_file_options *o)
{
    bool jsonl;
    *o = samba_file_defaults();
    if (options)
        SAMBA_TRY(samba_options_take(context, call, options, sizeof *o, o));
    SAMBA_TRY(samba_columns_check(context, path, is_text(path, &jsonl), o));
    if (o->memory < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: memory is %lld bytes: expected 1 or more, or 0 for 1 GiB", path,
                          (long long)o->memory);
    return SAMBA_OK;
}

static samba_status read_whole(samba_context *context, const char *path, const samba_file_options *o, samba_tensor_list *list)
{
    bool jsonl;
    return is_text(path, &jsonl) ? read_text(context, path, jsonl, o, list) : read_tensors(context, path, o, list);
}

samba_status samba_columns_read(samba_context *context, const char *path, const samba_file_options *options,
                                samba_tensor_list *list)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, path);
    SAMBA_NEED(context, list);
    samba_file_options o;
    *list = (samba_tensor_list){0};
    SAMBA_TRY(take_options(context, __func__, path, options, &o));
    if (o.memory != 0)
        return samba_fail(
            context, SAMBA_ERROR_ARGUMENT,
            "samba_columns_read: memory has no effect, since it reads a file whole: samba_source_file reads in parts");
    return read_whole(context, path, &o, list);
}

samba_status samba_source_file(samba_context *context, const char *path, const samba_file_options *options, samba_source **source)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, path);
    SAMBA_NEED(context, source);
    samba_tensor_list list;
    samba_file_options o;
    struct stat facts;
    bool jsonl;
    *source = NULL;
    SAMBA_TRY(take_options(context, __func__, path, options, &o));
    const bool text = is_text(path, &jsonl);
    if (o.memory != 0 && !text && !is_hdf5(path))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "%s: memory is for files .csv, .tsv, .jsonl and .h5, others are read whole", path);
    o.memory = o.memory ? o.memory : SAMBA_FILE_MEMORY;
    if (text && stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > o.memory)
        return samba_parts_open(context, path, jsonl, &o, source);
    if (is_hdf5(path) && o.column_count > 0) {
        SAMBA_TRY(samba_rows_open(context, path, &o, source));
        if (*source)
            return SAMBA_OK;
    }
    SAMBA_TRY(read_whole(context, path, &o, &list));
    samba_status status = samba_source_tensors(context, list.count, list.tensors, source);
    samba_tensor_list_free(context, &list);
    return status;
}
