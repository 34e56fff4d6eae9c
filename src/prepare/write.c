/* SPDX-License-Identifier: Apache-2.0
 *
 * Spools into HDF5 files, each with its share of a part's sequences. Threads compress chunks of rows; one writes them. A file
 * takes its name when it is whole and on the disk; one that has its name is left as it is. */
#include "base/team.h"
#include "data/hdf5.h"
#include "prepare/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { DATASETS = 3, CHUNKS_A_THREAD = 2, CHUNK_NUMBERS = 1 << 16, MOST_ROWS = 1024 };
static const char *const names[DATASETS] = {"input_ids", "token_type_ids", "category_ids"};

typedef struct chunk {
    int64_t row, rows; /* of the file; rows that are there */
    char *spooled;     /* rows as the spool has them */
    int32_t *numbers;
    Bytef *streams[DATASETS];
    uLongf sizes[DATASETS];
    samba_status status;
} chunk;

typedef struct writing {
    samba_preparation *p;
    int spool, datasets;
    int64_t length, rows_a_chunk, first_row; /* of the file, in the spool */
    int room, count;                         /* chunks there is memory for; of this round */
    chunk *chunks;
    int next;
} writing;

/* ---- chunks ---- */
static size_t numbers_of(const writing *w) { return (size_t)(w->rows_a_chunk * w->length); }
static size_t spooled_of(const writing *w) { return (size_t)w->rows_a_chunk * samba_spool_row(w->p); }
static size_t bound_of(const writing *w) { return compressBound((uLong)(numbers_of(w) * sizeof(int32_t))); }

static samba_status new_chunks(writing *w)
{
    samba_context *context = w->p->context;
    const int64_t one = (int64_t)(numbers_of(w) * sizeof(int32_t) + spooled_of(w) + bound_of(w) * DATASETS);
    w->room = w->p->threads * CHUNKS_A_THREAD;
    if (w->room > w->p->o.memory / 8 / one)
        w->room = w->p->o.memory / 8 / one > 1 ? (int)(w->p->o.memory / 8 / one) : 1;
    w->chunks = samba_calloc(context, sizeof *w->chunks * (size_t)w->room);
    for (int i = 0; w->chunks && i < w->room; i++) {
        chunk *c = &w->chunks[i];
        c->spooled = samba_alloc(context, spooled_of(w));
        c->numbers = samba_alloc(context, numbers_of(w) * sizeof(int32_t));
        for (int d = 0; d < w->datasets; d++) {
            c->streams[d] = samba_alloc(context, bound_of(w));
            if (!c->streams[d])
                return SAMBA_ERROR_MEMORY;
        }
        if (!c->spooled || !c->numbers)
            return SAMBA_ERROR_MEMORY;
    }
    return w->chunks ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static void free_chunks(writing *w)
{
    samba_context *context = w->p->context;
    for (int i = 0; w->chunks && i < w->room; i++) {
        chunk *c = &w->chunks[i];
        samba_free(context, c->spooled, spooled_of(w));
        samba_free(context, c->numbers, numbers_of(w) * sizeof(int32_t));
        for (int d = 0; d < w->datasets; d++)
            samba_free(context, c->streams[d], bound_of(w));
    }
    if (w->chunks)
        samba_free(context, w->chunks, sizeof *w->chunks * (size_t)w->room);
    w->chunks = NULL;
}

/* A dataset's numbers of a chunk; rows behind the end are 0. */
static void take_numbers(const writing *w, chunk *c, int dataset)
{
    const size_t row = samba_spool_row(w->p), length = (size_t)w->length;
    memset(c->numbers, 0, numbers_of(w) * sizeof(int32_t));
    for (int64_t i = 0; i < c->rows; i++) {
        const char *from = c->spooled + (size_t)i * row;
        int32_t *to = c->numbers + i * w->length;
        const uint8_t *types = (const uint8_t *)(from + row - length);
        if (dataset == 1)
            for (int64_t k = 0; k < w->length; k++)
                to[k] = types[k];
        else
            memcpy(to, from + (dataset == 2 ? length * sizeof(int32_t) : 0), length * sizeof(int32_t));
    }
}

static samba_status make_chunk(const writing *w, chunk *c)
{
    const size_t row = samba_spool_row(w->p), size = (size_t)c->rows * row;
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(w->spool, c->spooled + done, size - done, (off_t)((size_t)(w->first_row + c->row) * row + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return SAMBA_ERROR_FILE;
        done += (size_t)got;
    }
    for (int d = 0; d < w->datasets; d++) {
        take_numbers(w, c, d);
        c->sizes[d] = bound_of(w);
        if (compress2(c->streams[d], &c->sizes[d], (const Bytef *)c->numbers, (uLong)(numbers_of(w) * sizeof(int32_t)),
                      SAMBA_HDF5_LEVEL) != Z_OK)
            return SAMBA_ERROR_MEMORY;
    }
    return SAMBA_OK;
}

static void work(void *argument, int thread, int team)
{
    writing *w = argument;
    (void)thread;
    (void)team;
    for (int i; (i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED)) < w->count;)
        w->chunks[i].status = make_chunk(w, &w->chunks[i]);
}

/* ---- a file ---- */
static samba_status add_rows(writing *w, const samba_hdf5_interface *hdf5, samba_hdf5_file *file, int64_t rows, char *message)
{
    for (int64_t row = 0; row < rows;) {
        for (w->count = 0; w->count < w->room && row < rows; w->count++, row += w->rows_a_chunk) {
            chunk *c = &w->chunks[w->count];
            c->row = row;
            c->rows = rows - row < w->rows_a_chunk ? rows - row : w->rows_a_chunk;
        }
        w->next = 0;
        samba_team(w->p->threads, work, w);
        for (int i = 0; i < w->count; i++) {
            const chunk *c = &w->chunks[i];
            if (c->status != SAMBA_OK) {
                snprintf(message, SAMBA_HDF5_MESSAGE, "its sequences cannot be read or compressed");
                return c->status;
            }
            for (int d = 0; d < w->datasets; d++)
                SAMBA_TRY(hdf5->add(file, d, c->row, c->streams[d], c->sizes[d], message));
        }
    }
    return SAMBA_OK;
}

static samba_status settle(samba_preparation *p, const char *made, const char *path)
{
    int file = open(made, O_RDONLY | O_CLOEXEC);
    bool lasts = file >= 0 && fsync(file) == 0;
    int reason = errno;
    if (file >= 0)
        (void)close(file);
    errno = reason;
    return lasts && rename(made, path) == 0 ? SAMBA_OK : samba_prepare_fail(p, "write", path);
}

static samba_status write_file(writing *w, const char *path, int64_t rows)
{
    samba_preparation *p = w->p;
    char made[SAMBA_PREPARE_PATH], message[SAMBA_HDF5_MESSAGE] = "", ending[SAMBA_HDF5_MESSAGE] = "";
    const samba_hdf5_interface *hdf5;
    samba_hdf5_file *file = NULL;
    samba_prepare_path(p, made, "file.hdf5");
    SAMBA_TRY(samba_hdf5_begin(p->context, &hdf5));
    samba_status status = hdf5->create(made, w->datasets, names, rows, w->length, w->rows_a_chunk, &file, message);
    if (status == SAMBA_OK)
        status = add_rows(w, hdf5, file, rows, message);
    samba_status ended = hdf5->close(file, ending);
    samba_hdf5_end();
    if (status == SAMBA_OK && ended != SAMBA_OK) {
        status = ended;
        memcpy(message, ending, sizeof message);
    }
    if (status == SAMBA_OK)
        return settle(p, made, path);
    (void)unlink(made);
    return samba_fail(p->context, status, "cannot write \"%s\": %s", path, message);
}

static samba_status write_part(writing *w, int part, int files)
{
    samba_preparation *p = w->p;
    char path[SAMBA_PREPARE_PATH];
    for (int i = 1; i <= files; i++) {
        int64_t begin, end;
        snprintf(path, sizeof path, "%.4000s/%s_%d_of_%d.hdf5", p->output, samba_part_names[part], i, files);
        samba_part_share(p->packers[part].sequences, files, i, &begin, &end);
        w->first_row = begin;
        if (access(path, F_OK) != 0)
            SAMBA_TRY(write_file(w, path, end - begin));
        samba_prepare_tell(p, part == SAMBA_TRAIN ? "writing train" : "writing dev", (double)i / files);
    }
    return SAMBA_OK;
}

samba_status samba_prepare_write(samba_preparation *p)
{
    const int files[SAMBA_PARTS] = {p->o.num_training_splits, p->o.num_dev_splits};
    const int64_t length = p->o.max_seq_length, rows = CHUNK_NUMBERS / length;
    writing w = {.p = p, .datasets = p->categories ? 3 : 2, .length = length};
    w.rows_a_chunk = rows < 1 ? 1 : rows < MOST_ROWS ? rows : MOST_ROWS;
    samba_status status = new_chunks(&w);
    for (int part = 0; part < SAMBA_PARTS && status == SAMBA_OK; part++) {
        char path[SAMBA_PREPARE_PATH];
        samba_prepare_path(p, path, "%s.spool", samba_part_names[part]);
        w.spool = open(path, O_RDONLY | O_CLOEXEC);
        status = w.spool < 0 ? samba_prepare_fail(p, "read", path) : write_part(&w, part, files[part]);
        if (w.spool >= 0)
            (void)close(w.spool);
    }
    free_chunks(&w);
    return status;
}
