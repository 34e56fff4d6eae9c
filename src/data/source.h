/* SPDX-License-Identifier: Apache-2.0
 *
 * What sources share: a counted object with a function for reading by number or one for the next samples. Parts and joins hold
 * the sources they are made of. */
#ifndef SAMBA_SOURCE_H
#define SAMBA_SOURCE_H

#include "data/data.h"
#include <locale.h>
#include <sambaflow/source.h>

struct samba_source {
    samba_context *context;
    samba_arena arena;
    int64_t holders;
    samba_source_options o; /* its fields lie in the arena */
};
/* A function of the program's own has returned `status`, and samba_failed was `before` when it was called: a failure without a
 * message gets one. */
samba_status samba_source_said(samba_context *context, int64_t before, samba_status status, const char *function);
/* The same calls in another context, whose thread it is. */
samba_status samba_source_read_in(samba_context *context, samba_source *source, int64_t count, const int64_t *samples,
                                  samba_tensor *const *rows);
samba_source *samba_source_hold(samba_source *source);
/* loader.c */
const samba_loader_options *samba_loader_its(const samba_loader *loader);
/* From the next epoch on the loader gives a part of the batches: of each `replicas * together` the `together` that are replica
 * `rank`'s. ARGUMENT: a source that gives the next samples alone. */
samba_status samba_loader_deal(samba_loader *loader, int rank, int replicas, int together);

/* csv.c, jsonl.c: the columns of a text, NUL-terminated at text[size]; the list has a place for each. The text is a file's, or
 * the part of it that `part` tells: its records up to one that the part's end cuts. */
typedef struct samba_text_part {
    char *header;        /* of CSV: the file's first line, to be cut; NULL: the text begins with it, or there is none */
    int64_t columns;     /* of CSV: cells of a line; 0: not known before */
    int64_t line;        /* the text's first in the file, from 1; then the first behind what was used */
    bool last;           /* the file ends with the text */
    samba_arena *starts; /* where `start` is to lie; NULL: it is not wanted */
    size_t used;         /* bytes of the records that were read, and of blanks behind them */
    int64_t records;     /* those of the text, a header among them */
    int64_t *start;      /* where each begins in the text */
    int64_t start_count;
} samba_text_part;
samba_status samba_csv_columns(samba_context *context, const char *path, char *text, size_t size, const samba_file_options *o,
                               samba_text_part *part, samba_tensor_list *list);
samba_status samba_jsonl_columns(samba_context *context, const char *path, char *text, size_t size, const samba_file_options *o,
                                 samba_text_part *part, samba_tensor_list *list);

/* columns.c: how a text or number becomes an element, for both. `where` is "iris.csv:7: column 'x'". */
typedef struct samba_cell {
    samba_context *context;
    const samba_file_options *options;
    const samba_column *column;
    const char *path, *name; /* of the file, of the cell's column */
    int64_t line;
} samba_cell;
/* The word of a cell; `quoted` where it stood in quotes. */
samba_status samba_cell_word(const samba_cell *cell, const char *word, void *element);
samba_status samba_cell_real(const samba_cell *cell, double value, void *element);
samba_status samba_cell_integer(const samba_cell *cell, int64_t value, void *element);
samba_status samba_cell_missing(const samba_cell *cell, void *element);
samba_status samba_columns_check(samba_context *context, const char *path, bool text, const samba_file_options *o);
/* Copies columns, names and words of classes into the arena. */
samba_status samba_columns_keep(samba_arena *arena, samba_file_options *o);
/* A tensor as a field's samples: reshaped, scaled, cast. Messages call them by these numbers; NULL: from 0 on. */
samba_status samba_columns_convert(samba_context *context, const char *path, const samba_column *column, samba_tensor *from,
                                   const int64_t *numbers, samba_tensor **made);
/* Numbers are read as the C locale writes them: between these two. */
typedef struct samba_plain {
    locale_t its, before;
} samba_plain;
samba_status samba_plain_begin(samba_context *context, const char *path, samba_plain *plain);
void samba_plain_end(samba_plain *plain);

#define SAMBA_FILE_MEMORY ((int64_t)1 << 30) /* the default of samba_file_options.memory */
/* parts.c, rows.c: a source that reads a file in parts. */
samba_status samba_parts_open(samba_context *context, const char *path, bool jsonl, const samba_file_options *o,
                              samba_source **source);
/* NULL where the samples are no more than o->memory. */
samba_status samba_rows_open(samba_context *context, const char *path, const samba_file_options *o, samba_source **source);

/* Elements of a sample; -1: more than there can be. */
int64_t samba_field_numel(const samba_field *field);
/* A tensor of `count` samples of the field. */
samba_status samba_field_tensor(samba_context *context, const samba_field *field, int64_t count, samba_tensor **tensor);

#endif
