/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON lines: an object a line, whose values are numbers, true and false, words of classes, or lists of them, nested as the
 * field's shape. A line is parsed by itself; blank ones are passed over. */
#include "data/source.h"

#include <jansson.h>
#include <string.h>

static samba_status bad_value(const samba_cell *cell, const char *what)
{
    char name[SAMBA_SHOWN];
    return samba_fail(cell->context, SAMBA_ERROR_FORMAT, "%s:%lld: column '%s': %s", cell->path, (long long)cell->line,
                      samba_shown(cell->name, name), what);
}

/* The values of one dim and those within, one after the other. */
static samba_status store(const samba_cell *cell, const json_t *value, int dim, char **to)
{
    const samba_field *field = &cell->column->field;
    char what[160];
    if (dim < field->rank) {
        const json_t *item;
        size_t i;
        snprintf(what, sizeof what, "expected a list of %lld in dim %d, found %s of %zu", (long long)field->shape[dim], dim,
                 json_is_array(value) ? "one" : "no list, a value", json_is_array(value) ? json_array_size(value) : (size_t)1);
        if (!json_is_array(value) || (int64_t)json_array_size(value) != field->shape[dim])
            return bad_value(cell, what);
        json_array_foreach(value, i, item) SAMBA_TRY(store(cell, item, dim + 1, to));
        return SAMBA_OK;
    }
    void *element = *to;
    *to += samba_dtype_size(field->dtype);
    if (!value || json_is_null(value))
        return samba_cell_missing(cell, element);
    if (json_is_integer(value))
        return samba_cell_integer(cell, json_integer_value(value), element);
    if (json_is_real(value))
        return samba_cell_real(cell, json_real_value(value), element);
    if (json_is_boolean(value))
        return samba_cell_integer(cell, json_is_true(value), element);
    if (json_is_string(value) && cell->column->class_count > 0)
        return samba_cell_word(cell, json_string_value(value), element);
    return bad_value(cell, json_is_string(value)  ? "expected a number, found a text, and the field has no classes"
                           : json_is_array(value) ? "expected a number, found a list: the field's shape has no further dim"
                                                  : "expected a number, found an object");
}

static samba_status missing_list(const samba_cell *cell, char **to)
{
    for (int64_t i = 0; i < samba_field_numel(&cell->column->field); i++, *to += samba_dtype_size(cell->column->field.dtype))
        SAMBA_TRY(samba_cell_missing(cell, *to));
    return SAMBA_OK;
}

static samba_status store_line(samba_context *context, const char *path, int64_t line, const json_t *object,
                               const samba_file_options *o, char **to)
{
    if (!json_is_object(object))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s:%lld: expected an object, {\"name\": value, ...}", path,
                          (long long)line);
    for (int i = 0; i < o->column_count; i++) {
        const samba_column *column = &o->columns[i];
        const samba_cell cell = {context, o, column, path, column->from ? column->from : column->field.name, line};
        const json_t *value = json_object_get(object, cell.name);
        SAMBA_TRY(!value || json_is_null(value) ? missing_list(&cell, &to[i]) : store(&cell, value, 0, &to[i]));
    }
    return SAMBA_OK;
}

static bool is_blank(const char *line, size_t length) { return strspn(line, " \t\r") >= length; }

/* Each line of the text that is not blank and that its end does not cut. */
typedef samba_status line_visit(void *user, int64_t line, const char *text, size_t length);

static samba_status each_line(const char *text, size_t size, samba_text_part *part, line_visit *visit, void *user)
{
    int64_t line = part->line;
    const char *at = text, *end = text + size;
    for (; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop && !part->last)
            break;
        const size_t length = (size_t)((stop ? stop : end) - at);
        if (!is_blank(at, length))
            SAMBA_TRY(visit(user, line, at, length));
        at += length + (stop != NULL);
    }
    part->used = (size_t)(at - text);
    return SAMBA_OK;
}

typedef struct parse {
    samba_context *context;
    const char *path, *text;
    const samba_file_options *o;
    samba_text_part *part;
    int64_t count, start_room;
    char *to[SAMBA_MAX_FIELDS];
} parse;

static samba_status count_line(void *user, int64_t line, const char *text, size_t length)
{
    parse *p = user;
    samba_text_part *part = p->part;
    (void)line, (void)length;
    p->count++;
    if (!part->starts)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_MORE(part->starts, part->start, part->start_count, p->start_room));
    part->start[part->start_count++] = text - p->text;
    return SAMBA_OK;
}

static samba_status read_line(void *user, int64_t line, const char *text, size_t length)
{
    parse *p = user;
    json_error_t error;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    char shown[SAMBA_SHOWN];
    if (!object)
        return samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s:%lld: byte %d: %s", p->path, (long long)line, error.position,
                          samba_shown(error.text, shown));
    samba_status status = store_line(p->context, p->path, line, object, p->o, p->to);
    json_decref(object);
    return status;
}

samba_status samba_jsonl_columns(samba_context *context, const char *path, char *text, size_t size, const samba_file_options *o,
                                 samba_text_part *part, samba_tensor_list *list)
{
    parse p = {.context = context, .path = path, .text = text, .o = o, .part = part};
    if (o->delimiter || o->no_header)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: delimiter and no_header are for files .csv and .tsv", path);
    SAMBA_TRY(each_line(text, size, part, count_line, &p));
    if (p.count == 0 && part->last && part->line == 1)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s has no samples: it is empty", path);
    for (int i = 0; i < o->column_count; i++) {
        SAMBA_TRY(samba_field_tensor(context, &o->columns[i].field, p.count, &list->tensors[i]));
        p.to[i] = samba_tensor_data(list->tensors[i]);
    }
    SAMBA_TRY(each_line(text, size, part, read_line, &p));
    part->records = p.count;
    for (const char *at = text; (at = memchr(at, '\n', part->used - (size_t)(at - text))); at++)
        part->line++;
    return SAMBA_OK;
}
