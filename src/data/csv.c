/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV as RFC 4180 has it: cells between delimiters, in quotes where they have delimiters, ends of lines or quotes (doubled) in
 * them; lines end in LF or CRLF. The text is cut in place: a cell becomes a text of its own where it stands. One pass counts
 * lines and checks that all have as many cells as the first; the second makes elements. The text may be a part of a file: then
 * records that its end cuts are left to the next part. */
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    samba_context *context;
    const char *path;
    char *at, *end;
    char delimiter;
    int64_t line, next_line; /* of the record that was read last, and behind it */
    char *start;             /* of that record */
    char **cells;            /* of that record, in an arena */
    int64_t count, room;
    samba_arena *arena;
} reader;

static samba_status bad_line(const reader *r, const char *what)
{
    return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s:%lld: %s", r->path, (long long)r->line, what);
}

/* A quoted cell, whose quotes go: what it holds moves down over them. */
static samba_status quoted_cell(reader *r, char *to, char **cell, char **stop)
{
    *cell = to;
    for (;; r->at++) {
        if (r->at >= r->end)
            return bad_line(r, "a quote is not closed");
        if (*r->at == '"' && r->at[1] == '"')
            r->at++;
        else if (*r->at == '"')
            break;
        r->next_line += *r->at == '\n';
        *to++ = *r->at;
    }
    r->at++;
    while (r->at < r->end && *r->at == ' ' && r->delimiter != ' ')
        r->at++;
    if (r->at < r->end && *r->at != r->delimiter && *r->at != '\n' && *r->at != '\r')
        return bad_line(r, "text follows the quote that closes a cell");
    *stop = to;
    return SAMBA_OK;
}

/* Blanks around a cell without quotes do not count. */
static void plain_cell(reader *r, char **cell, char **stop)
{
    char *first = r->at;
    while (r->at < r->end && *r->at != r->delimiter && *r->at != '\n' && *r->at != '\r')
        r->at++;
    *stop = r->at;
    while (first < *stop && (*first == ' ' || *first == '\t'))
        first++;
    while (*stop > first && ((*stop)[-1] == ' ' || (*stop)[-1] == '\t'))
        (*stop)--;
    *cell = first;
}

/* The end of a record: LF, CRLF, or that of the file. */
static void end_of_record(reader *r)
{
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end && *r->at == '\n') {
        r->at++;
        r->next_line++;
    } else if (r->at < r->end) /* a CR alone */
        r->next_line++;
}

/* The next record that is not blank; false at the end. */
static samba_status next_record(reader *r, bool *there)
{
    while (r->at < r->end && (*r->at == '\n' || *r->at == '\r'))
        end_of_record(r);
    r->count = 0;
    r->line = r->next_line;
    r->start = r->at;
    *there = r->at < r->end;
    if (!*there)
        return SAMBA_OK;
    for (bool more = true; more;) {
        char *cell = r->at, *stop = r->at;
        while (r->at < r->end && *r->at == ' ' && r->delimiter != ' ')
            r->at++;
        if (r->at < r->end && *r->at == '"') {
            r->at++;
            SAMBA_TRY(quoted_cell(r, r->at, &cell, &stop));
        } else
            plain_cell(r, &cell, &stop);
        more = r->at < r->end && *r->at == r->delimiter;
        if (more)
            r->at++;
        else
            end_of_record(r);
        *stop = '\0'; /* over what followed the cell, which was read */
        SAMBA_TRY(SAMBA_MORE(r->arena, r->cells, r->count, r->room));
        r->cells[r->count++] = cell;
    }
    return SAMBA_OK;
}

/* ---- which columns ---- */

typedef struct chosen { /* of a field */
    int64_t count;
    int64_t *cells; /* their places in a record */
} chosen;

static samba_status no_column(const reader *r, const char *name, char *const *names, int64_t count)
{
    samba_text text;
    char shown[SAMBA_SHOWN];
    samba_text_init(&text, r->context);
    for (int64_t i = 0; i < count && names; i++)
        samba_text_add(&text, "%s'%s'", i ? ", " : "", samba_shown(names[i], shown));
    if (!names)
        samba_text_add(&text, "0 to %lld, as there is no header", (long long)count - 1);
    samba_fail(r->context, SAMBA_ERROR_NAME, "%s has no column '%s'; there are %.500s", r->path, samba_shown(name, shown),
               text.data ? text.data : "none");
    samba_text_clear(&text);
    return SAMBA_ERROR_NAME;
}

static bool is_column(const char *pattern, char *const *names, int64_t index)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)index);
    return samba_match(pattern, names ? names[index] : number);
}

static samba_status choose(reader *r, const samba_column *column, char *const *names, int64_t count, chosen *c)
{
    char *words, *next;
    int64_t room = 0;
    *c = (chosen){0};
    SAMBA_TRY(samba_arena_copy(r->arena, column->from ? column->from : column->field.name, &words));
    for (char *word = words; word; word = next) {
        const int64_t before = c->count;
        next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        for (int64_t i = 0; i < count; i++) {
            if (!is_column(word, names, i))
                continue;
            SAMBA_TRY(SAMBA_MORE(r->arena, c->cells, c->count, room));
            c->cells[c->count++] = i;
        }
        if (c->count == before)
            return no_column(r, word, names, count);
    }
    const int64_t wanted = samba_field_numel(&column->field);
    return c->count == wanted
               ? SAMBA_OK
               : samba_fail(r->context, SAMBA_ERROR_SHAPE, "%s: field '%s' has %lld elements, and '%s' is %lld columns", r->path,
                            column->field.name, (long long)wanted, column->from ? column->from : column->field.name,
                            (long long)c->count);
}

/* ---- the file ---- */

typedef struct table { /* all records, cut */
    char **cells;      /* of record i from i * columns on */
    int64_t *lines;
    int64_t records, columns, cell_count, cell_room, line_room;
} table;

static samba_status check_record(const reader *r, int64_t columns)
{
    return r->count == columns ? SAMBA_OK
                               : samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s:%lld: %lld cells, and the first line has %lld",
                                            r->path, (long long)r->line, (long long)r->count, (long long)columns);
}

static samba_status add_record(reader *r, table *t)
{
    if (t->columns == 0)
        t->columns = r->count;
    SAMBA_TRY(check_record(r, t->columns));
    for (int64_t i = 0; i < r->count; i++) {
        SAMBA_TRY(SAMBA_MORE(r->arena, t->cells, t->cell_count, t->cell_room));
        t->cells[t->cell_count++] = r->cells[i];
    }
    SAMBA_TRY(SAMBA_MORE(r->arena, t->lines, t->records, t->line_room));
    t->lines[t->records++] = r->line;
    return SAMBA_OK;
}

/* All records of the text that its end does not cut. */
static samba_status read_all(reader *r, samba_text_part *part, char *text, table *t)
{
    int64_t start_room = 0;
    bool there;
    for (;;) {
        const int64_t line = r->next_line;
        const samba_status status = next_record(r, &there);
        if (r->at >= r->end && !part->last) { /* what stopped it may be the cut, so it is no error yet */
            r->next_line = there || status != SAMBA_OK ? line : r->next_line;
            part->used = there || status != SAMBA_OK ? (size_t)(r->start - text) : (size_t)(r->end - text);
            break;
        }
        SAMBA_TRY(status);
        part->used = (size_t)(r->at - text);
        if (!there)
            break;
        SAMBA_TRY(add_record(r, t));
        if (part->starts) {
            SAMBA_TRY(SAMBA_MORE(part->starts, part->start, part->start_count, start_room));
            part->start[part->start_count++] = r->start - text;
        }
    }
    part->line = r->next_line;
    return SAMBA_OK;
}

static samba_status fill(const reader *r, const table *t, int64_t first, const samba_file_options *o, int number, const chosen *c,
                         samba_tensor *tensor)
{
    const samba_column *column = &o->columns[number];
    const size_t size = samba_dtype_size(column->field.dtype);
    char *to = samba_tensor_data(tensor), place[24];
    for (int64_t i = first; i < t->records; i++)
        for (int64_t k = 0; k < c->count; k++, to += size) {
            snprintf(place, sizeof place, "%lld", (long long)c->cells[k]);
            const samba_cell cell = {r->context, o, column, r->path, first ? t->cells[c->cells[k]] : place, t->lines[i]};
            SAMBA_TRY(samba_cell_word(&cell, t->cells[i * t->columns + c->cells[k]], to));
        }
    return SAMBA_OK;
}

static samba_status read_text(reader *r, const samba_file_options *o, samba_text_part *part, char *text, size_t size,
                              samba_tensor_list *list)
{
    table t = {.columns = part->columns};
    const int64_t first = o->no_header ? 0 : 1;
    const bool all = part->line == 1 && part->last;
    bool there;
    if (part->header) {
        r->at = part->header, r->end = part->header + strlen(part->header);
        SAMBA_TRY(next_record(r, &there));
        SAMBA_TRY(add_record(r, &t));
    }
    r->at = text, r->end = text + size;
    r->next_line = part->line;
    SAMBA_TRY(read_all(r, part, text, &t));
    if (t.records <= first && all && !part->header)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s has no samples%s", r->path,
                          t.records == 1 ? ": one line, which is the header unless no_header says otherwise" : ": it is empty");
    part->columns = t.columns;
    part->records = t.records - (part->header != NULL);
    for (int i = 0; i < o->column_count && t.records > 0; i++) {
        chosen c;
        const int64_t samples = t.records > first ? t.records - first : 0;
        SAMBA_TRY(choose(r, &o->columns[i], first ? t.cells : NULL, t.columns, &c));
        SAMBA_TRY(samba_field_tensor(r->context, &o->columns[i].field, samples, &list->tensors[i]));
        SAMBA_TRY(fill(r, &t, first, o, i, &c, list->tensors[i]));
    }
    return SAMBA_OK;
}

samba_status samba_csv_columns(samba_context *context, const char *path, char *text, size_t size, const samba_file_options *o,
                               samba_text_part *part, samba_tensor_list *list)
{
    samba_arena arena;
    samba_arena_init(&arena, context);
    reader r = {.context = context,
                .path = path,
                .delimiter = o->delimiter                    ? o->delimiter
                             : samba_ends_with(path, ".tsv") ? '\t'
                                                             : ',',
                .next_line = 1,
                .arena = &arena};
    samba_status status = strchr("\"\r\n", r.delimiter)
                              ? samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: quotes and ends of lines are no delimiters", path)
                              : read_text(&r, o, part, text, size, list);
    samba_arena_free(&arena);
    return status;
}
