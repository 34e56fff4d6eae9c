/* SPDX-License-Identifier: Apache-2.0
 *
 * A source over a text that does not fit: CSV or JSON lines. Opening reads the file once, a part at a time, checks every line and
 * keeps where each sample begins. A batch is then those lines, put together behind the header and parsed as a small file.
 *
 * One file descriptor and one buffer serve all loaders, one at a time. The file must stay as it was: its size and time are looked
 * at with every batch. */
#include "base/null.h"
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_PART = 4 << 10, MOST_PART = 1 << 20 };

typedef struct parts {
    samba_context *context;
    samba_arena arena;
    const char *path;
    bool jsonl;
    samba_file_options o; /* its columns lie in the arena */
    int file;
    struct stat facts; /* as it was opened */
    char *header;      /* NULL: none */
    int64_t *starts;   /* of each sample, and the end of the file */
    int64_t count, room, columns;
    pthread_mutex_t lock;
} parts;

/* ---- the file ---- */

static samba_status read_at(const parts *p, samba_context *context, int64_t at, void *to, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t got = pread(p->file, (char *)to + done, size - done, (off_t)at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return samba_fail(context, SAMBA_ERROR_FILE, "cannot read \"%s\": %s", p->path,
                              got < 0 ? strerror(errno) : "it is shorter than it was");
        done += (size_t)got;
    }
    return SAMBA_OK;
}

static samba_status check_unchanged(const parts *p, samba_context *context)
{
    struct stat now;
    if (fstat(p->file, &now) == 0 && now.st_size == p->facts.st_size && now.st_mtim.tv_sec == p->facts.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == p->facts.st_mtim.tv_nsec)
        return SAMBA_OK;
    return samba_fail(
        context, SAMBA_ERROR_FILE,
        "\"%s\" has changed since it was opened, and its samples are read from it as they are wanted: open it anew, "
        "or give it `memory` to be read whole",
        p->path);
}

/* ---- parsing ---- */

static samba_status parse(const parts *p, samba_context *context, char *text, size_t size, samba_text_part *part,
                          samba_tensor_list *list)
{
    samba_plain plain = {0};
    char *header = NULL;
    if (p->header && !(header = samba_strdup(context, p->header)))
        return SAMBA_ERROR_MEMORY;
    const size_t header_size = header ? strlen(header) + 1 : 0; /* parsing cuts it */
    samba_status status = samba_tensor_list_new(context, p->o.column_count, list);
    if (status == SAMBA_OK)
        status = samba_plain_begin(context, p->path, &plain);
    if (status == SAMBA_OK) {
        part->header = header;
        part->columns = p->columns;
        status = (p->jsonl ? samba_jsonl_columns : samba_csv_columns)(context, p->path, text, size, &p->o, part, list);
        samba_plain_end(&plain);
    }
    if (status != SAMBA_OK)
        samba_tensor_list_free(context, list);
    samba_free(context, header, header_size);
    return status;
}

/* ---- opening: where samples are ---- */

/* The file's first line, as it stands there. */
static samba_status keep_header(parts *p, int64_t from, int64_t to)
{
    SAMBA_TRY(SAMBA_ROOM(&p->arena, p->header, to - from + 1));
    p->header[to - from] = '\0';
    return read_at(p, p->context, from, p->header, (size_t)(to - from));
}

static samba_status take_part(parts *p, int64_t at, char *text, size_t size, samba_text_part *part)
{
    samba_tensor_list list = {0};
    const bool begins = !p->jsonl && !p->o.no_header && !p->header;
    const char *nul = memchr(text, '\0', size);
    if (nul)
        return samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s: byte %lld is 0: this is no text", p->path,
                          (long long)(at + (nul - text)));
    SAMBA_TRY(parse(p, p->context, text, size, part, &list));
    samba_tensor_list_free(p->context, &list);
    p->columns = part->columns;
    const int64_t first = begins && part->start_count > 0 ? 1 : 0, end = at + (int64_t)part->used;
    if (first == 1)
        SAMBA_TRY(keep_header(p, at + part->start[0], part->start_count > 1 ? at + part->start[1] : end));
    SAMBA_TRY(samba_grow(p->context, (void **)&p->starts, sizeof *p->starts, &p->room, p->count + part->start_count + 1));
    for (int64_t i = first; i < part->start_count; i++)
        p->starts[p->count++] = at + part->start[i];
    p->starts[p->count] = end;
    return SAMBA_OK;
}

/* A part from `at` on; one that has no whole line is read again, twice as large. */
static samba_status read_part(parts *p, int64_t *at, int64_t *line, size_t *size)
{
    const int64_t left = p->facts.st_size - *at;
    const bool last = (int64_t)*size >= left;
    const size_t bytes = last ? (size_t)left : *size;
    samba_text_part part = {.line = *line, .last = last};
    samba_arena arena;
    char *text = samba_alloc(p->context, bytes + 1);
    if (!text)
        return SAMBA_ERROR_MEMORY;
    samba_arena_init(&arena, p->context);
    part.starts = &arena;
    text[bytes] = '\0';
    samba_status status = read_at(p, p->context, *at, text, bytes);
    if (status == SAMBA_OK)
        status = take_part(p, *at, text, bytes, &part);
    samba_arena_free(&arena);
    samba_free(p->context, text, bytes + 1);
    *at += last ? left : (int64_t)part.used;
    *line = part.line;
    if (part.used == 0)
        *size *= 2;
    return status;
}

static samba_status find_samples(parts *p)
{
    char mark[3] = {0};
    const int64_t wanted = p->o.memory / 16;
    size_t size = wanted < LEAST_PART ? LEAST_PART : wanted > MOST_PART ? MOST_PART : (size_t)wanted;
    int64_t at = 0, line = 1;
    if (p->facts.st_size >= 3)
        SAMBA_TRY(read_at(p, p->context, 0, mark, sizeof mark));
    at = memcmp(mark, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < p->facts.st_size)
        SAMBA_TRY(read_part(p, &at, &line, &size));
    return p->count > 0 ? SAMBA_OK
                        : samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s has no samples%s", p->path,
                                     p->header ? ": one line, which is the header unless no_header says otherwise" : "");
}

/* ---- reading ---- */

static samba_status copy_rows(const parts *p, samba_context *context, int64_t count, const samba_tensor_list *list,
                              samba_tensor *const *rows)
{
    for (int i = 0; i < list->count; i++) {
        const samba_tensor *from = list->tensors[i];
        if (!from || samba_tensor_shape(from)[0] != count)
            return check_unchanged(p, context) == SAMBA_OK
                       ? samba_fail(context, SAMBA_ERROR_INTERNAL, "%s: lines are not where they were", p->path)
                       : SAMBA_ERROR_FILE;
        memcpy(samba_tensor_data(rows[i]), samba_tensor_data(from),
               (size_t)samba_tensor_numel(from) * samba_dtype_size(samba_tensor_dtype(from)));
    }
    return SAMBA_OK;
}

static samba_status read_lines(const parts *p, samba_context *context, int64_t count, const int64_t *samples, char *text,
                               size_t size, samba_tensor *const *rows)
{
    samba_text_part part = {.line = 1, .last = true};
    samba_tensor_list list;
    char *to = text;
    for (int64_t k = 0; k < count; k++) {
        const int64_t from = p->starts[samples[k]], bytes = p->starts[samples[k] + 1] - from;
        SAMBA_TRY(read_at(p, context, from, to, (size_t)bytes));
        to += bytes;
        *to++ = '\n'; /* the file's last line may have none; blank lines are passed over */
    }
    *to = '\0';
    SAMBA_TRY(parse(p, context, text, size, &part, &list));
    samba_status status = copy_rows(p, context, count, &list, rows);
    samba_tensor_list_free(context, &list);
    return status;
}

static samba_status read_samples(samba_context *context, void *user, int64_t count, const int64_t *samples, int field_count,
                                 samba_tensor *const *rows)
{
    parts *p = user;
    int64_t size = 0;
    (void)field_count;
    if (count == 0)
        return SAMBA_OK;
    for (int64_t k = 0; k < count; k++)
        size += p->starts[samples[k] + 1] - p->starts[samples[k]] + 1;
    pthread_mutex_lock(&p->lock);
    samba_status status = check_unchanged(p, context);
    char *text = status == SAMBA_OK ? samba_alloc(context, (size_t)size + 1) : NULL;
    if (status == SAMBA_OK)
        status = text ? read_lines(p, context, count, samples, text, (size_t)size, rows) : SAMBA_ERROR_MEMORY;
    samba_free(context, text, (size_t)size + 1);
    pthread_mutex_unlock(&p->lock);
    return status;
}

static void free_parts(void *user)
{
    parts *p = user;
    if (p->file >= 0)
        close(p->file);
    pthread_mutex_destroy(&p->lock);
    samba_free(p->context, p->starts, sizeof *p->starts * (size_t)p->room);
    samba_arena_free(&p->arena);
    samba_free(p->context, p, sizeof *p);
}

static samba_status open_parts(parts *p, const char *path, samba_field *fields, samba_source **source)
{
    SAMBA_TRY(samba_columns_keep(&p->arena, &p->o));
    char *kept;
    SAMBA_TRY(samba_arena_copy(&p->arena, path, &kept));
    p->path = kept;
    p->file = open(path, O_RDONLY | O_CLOEXEC);
    if (p->file < 0 || fstat(p->file, &p->facts) != 0)
        return samba_fail(p->context, SAMBA_ERROR_FILE, "cannot read \"%s\": %s", path, strerror(errno));
    SAMBA_TRY(find_samples(p));
    for (int i = 0; i < p->o.column_count; i++)
        fields[i] = p->o.columns[i].field;
    const samba_source_options o = {.struct_size = sizeof o,
                                    .count = p->count,
                                    .field_count = p->o.column_count,
                                    .fields = fields,
                                    .read = read_samples,
                                    .free = free_parts,
                                    .user = p};
    return samba_source_new(p->context, &o, source);
}

samba_status samba_parts_open(samba_context *context, const char *path, bool jsonl, const samba_file_options *o,
                              samba_source **source)
{
    samba_field fields[SAMBA_MAX_FIELDS];
    parts *p = samba_calloc(context, sizeof *p);
    if (!p)
        return SAMBA_ERROR_MEMORY;
    *p = (parts){.context = context, .jsonl = jsonl, .o = *o, .file = -1};
    samba_arena_init(&p->arena, context);
    pthread_mutex_init(&p->lock, NULL);
    samba_status status = open_parts(p, path, fields, source);
    if (status != SAMBA_OK)
        free_parts(p);
    return status;
}
