/* SPDX-License-Identifier: Apache-2.0
 *
 * What sources share: a counted object with a function for reading by number or one for the next samples. Parts and joins hold
 * the sources they are made of. */
#ifndef SAMBA_SOURCE_H
#define SAMBA_SOURCE_H

#include "data/data.h"
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

/* csv.c, jsonl.c: the columns of a file whose text is given, NUL-terminated at text[size]; the list has a place for each. */
samba_status samba_csv_columns(samba_context *context, const char *path, char *text, size_t size, const samba_file_options *o,
                               samba_tensor_list *list);
samba_status samba_jsonl_columns(samba_context *context, const char *path, char *text, size_t size, const samba_file_options *o,
                                 samba_tensor_list *list);

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
/* Elements of a sample; -1: more than there can be. */
int64_t samba_field_numel(const samba_field *field);
/* A tensor of `count` samples of the field. */
samba_status samba_field_tensor(samba_context *context, const samba_field *field, int64_t count, samba_tensor **tensor);

#endif
