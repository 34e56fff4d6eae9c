/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples to train and test with. A source has samples of named fields, each of a dtype and shape, and reads any of them by their
 * numbers; one that does not know how many it has gives the next ones. There are sources over tensors in memory, over files, and
 * over functions of the program's own. A loader makes batches of a source: in order or shuffled by a seed, the last one smaller,
 * read ahead by a thread.
 *
 *     samba_source *all, *train, *validation;
 *     samba_source_file(context, "iris.csv", &options, &all);
 *     samba_source_split(all, 0.2, 1, &train, &validation);
 *     samba_loader_options by = samba_loader_defaults();
 *     samba_loader_new(context, train, &by, &loader);
 *     samba_loader_begin(loader, epoch, 0);
 *     while (samba_loader_next(loader, &batch) == SAMBA_OK && batch.count > 0)
 *         ...
 *
 * The same seed and epoch give the same order on every machine. */
#ifndef SAMBAFLOW_SOURCE_H
#define SAMBAFLOW_SOURCE_H

#include <sambaflow/data.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SAMBA_MAX_FIELDS 16

typedef struct samba_field { /* of one sample */
    const char *name;
    samba_dtype dtype;
    int rank; /* of one sample: 0 for a number */
    int64_t shape[SAMBA_MAX_RANK];
} samba_field;

typedef struct samba_source samba_source;

/* A source of the program's own functions. `rows` are tensors of the fields, in their order, contiguous, with the samples in dim
 * 0: at least as many as are asked for. A status other than OK ends what asked; its message is what the function left by
 * samba_error_set in the context it was given. That context is another one in a loader that reads ahead, whose thread calls the
 * functions. */
typedef struct samba_source_options {
    size_t struct_size;
    int64_t count; /* samples, 0 or more; -1: known at the end alone */
    int field_count;
    const samba_field *fields; /* copied */
    /* Writes the samples of these numbers into the first `count` rows. NULL: the source gives the next ones alone. */
    samba_status (*read)(samba_context *context, void *user, int64_t count, const int64_t *samples, int field_count,
                         samba_tensor *const *rows);
    /* Writes up to `most` samples and says how many; fewer only at the end. Wants `rewind`, which goes back to the first. */
    samba_status (*next)(samba_context *context, void *user, int64_t most, int field_count, samba_tensor *const *rows,
                         int64_t *got);
    samba_status (*rewind)(samba_context *context, void *user);
    void (*free)(void *user); /* called once, with the source; may be NULL */
    void *user;
} samba_source_options;
SAMBA_API samba_source_options samba_source_defaults(void); /* count = -1 */
/* ARGUMENT: neither `read` with a count nor `next` with `rewind`, no fields or too many; NAME: two fields have one name; DTYPE,
 * SHAPE of a field. On failure `free` is not called. */
SAMBA_API samba_status samba_source_new(samba_context *context, const samba_source_options *options, samba_source **source);
/* Rows of tensors, each named and with as many rows (dim 0) as the others. Their memory is shared and kept alive, but for tensors
 * that are not contiguous, which are copied. ARGUMENT, NAME, SHAPE; STATE: a tensor has no data. */
SAMBA_API samba_status samba_source_tensors(samba_context *context, int count, samba_tensor *const *tensors,
                                            samba_source **source);
/* Fields of several sources side by side, such as images of one file and labels of another. SHAPE: they differ in how many
 * samples they have; ARGUMENT: one does not know. They stay alive with the new one. */
SAMBA_API samba_status samba_source_join(samba_context *context, int count, samba_source *const *sources, samba_source **joined);
/* Two parts of a source, drawn by the seed: `share` of the samples, rounded, are the second's. Each keeps the order in which it
 * was drawn, and the source alive. ARGUMENT: a share outside of 0 to 1, a source that does not know how many samples it has. */
SAMBA_API samba_status samba_source_split(samba_source *source, double share, uint64_t seed, samba_source **first,
                                          samba_source **second);
/* The samples [from, to) of a source. ARGUMENT as above; INDEX: they are not there. */
SAMBA_API samba_status samba_source_part(samba_source *source, int64_t from, int64_t to, samba_source **part);
/* The samples of these numbers, in this order, each as often as it is named (torch.utils.data.Subset): all folds but one, what of
 * one class there is, a rare class several times. The numbers are copied. ARGUMENT as above, and a count below 0; INDEX: a number
 * is not there. */
SAMBA_API samba_status samba_source_pick(samba_source *source, int64_t count, const int64_t *samples, samba_source **picked);
SAMBA_API int64_t samba_source_count(const samba_source *source); /* -1: not known */
SAMBA_API int samba_source_field_count(const samba_source *source);
SAMBA_API const samba_field *samba_source_field(const samba_source *source, int index); /* NULL: there is none */
/* Reads samples by their numbers into the first rows of `rows`, tensors as those of samba_source_options. INDEX: a number is not
 * there; SHAPE, DTYPE: rows of other tensors; ARGUMENT: a source that gives the next ones alone. */
SAMBA_API samba_status samba_source_read(samba_source *source, int64_t count, const int64_t *samples, int row_count,
                                         samba_tensor *const *rows);
SAMBA_API void samba_source_free(samba_source *source); /* drops one holder; NULL is allowed */

/* ---- files ---- */

/* What of a file becomes a field. */
typedef struct samba_column {
    samba_field field;
    /* What the file calls it. CSV: names of columns with a comma between two, with '*' and '?' as patterns, as many as the field
     * has elements; without a header their numbers, from 0. JSONL: the key, whose value is a number or nested lists of the
     * field's shape. Others: the tensor; the only one of IDX and .npy has the name of whatever field asks for it. NULL: the
     * field's name. */
    const char *from;
    /* value * scale + shift; a scale of 0 is 1. One pair for all elements of the field: columns that are to be scaled each by its
     * own are fields of their own, and inputs, which the model joins (samba_concat). */
    double scale, shift;
    /* Of CSV and JSONL: words that stand for the numbers 0, 1 ...; none: the file has numbers. */
    int class_count;
    const char *const *classes;
} samba_column;

typedef struct samba_file_options {
    size_t struct_size;
    int column_count; /* 0: all tensors of the file as they are; CSV and JSONL want some */
    const samba_column *columns;
    char delimiter;    /* of CSV; 0: ',' or, of a file .tsv, a tab */
    bool no_header;    /* of CSV: the first line is a sample */
    bool fill_missing; /* empty cells, NA, NaN and null are `missing`; else they are refused by their line */
    double missing;
    /* Bytes that samples may take; 0: 1 GiB. samba_source_file reads a larger file in parts: .csv, .tsv and .jsonl by how large
     * they are, .h5 by how large its datasets are. */
    int64_t memory;
} samba_file_options;
SAMBA_API samba_file_options samba_file_defaults(void);

/* Reads a file whole: .csv and .tsv (RFC 4180: quotes, ends of lines in them; UTF-8), .jsonl (an object a line), and what
 * samba_tensors_read takes. A tensor for each column, named as its field, with the samples in dim 0. Blank lines are passed over.
 * FORMAT, with path and line: a line with more or fewer cells than the first, a cell that is no number or too large for the
 * dtype, a missing value, a word that is no class, a list of another shape, a file without samples; NAME, with those there are:
 * a column that is not there; SHAPE: columns or sizes that do not make the field; ARGUMENT: options; FILE. */
SAMBA_API samba_status samba_columns_read(samba_context *context, const char *path, const samba_file_options *options,
                                          samba_tensor_list *list);
/* The same as a source. A file that is larger than options->memory stays where it is, and a batch's samples are read when they
 * are asked for: the same samples in the same order, shuffled over the whole file as ever, each read from where it lies. Such a
 * source takes 8 bytes a sample of text and as much as `memory`, of which parts of text have a sixteenth, and of HDF5 what a
 * batch takes and 32 MiB, in a process of its own for each dataset. All of a text is read once, to check it and to know where its
 * lines are. The file must not change as long as the source is there: a batch that finds it changed fails (FILE). What becomes
 * afterwards of a file that was read whole has no effect. */
SAMBA_API samba_status samba_source_file(samba_context *context, const char *path, const samba_file_options *options,
                                         samba_source **source);

/* ---- batches ---- */

typedef struct samba_padding { /* what stands in rows behind the last sample of a batch */
    const char *name;          /* of a field */
    double value;              /* such as a label that the loss leaves out */
} samba_padding;

typedef struct samba_loader_options {
    size_t struct_size;
    int64_t batch_size; /* 1 or more */
    bool shuffle;       /* anew each epoch */
    uint64_t seed;
    bool drop_last; /* samples that fill no batch are left out */
    int prefetch;   /* batches that a thread reads ahead, up to 64; 0: none */
    int pad_count;
    const samba_padding *pads; /* copied; other fields are padded by zeros */
} samba_loader_options;
SAMBA_API samba_loader_options samba_loader_defaults(void); /* batch_size = 32, prefetch = 2 */

typedef struct samba_loader samba_loader;
typedef struct samba_batch { /* belongs to the loader until its next call */
    int64_t count;           /* samples; 0: the epoch has ended */
    int tensor_count;
    samba_tensor *const *tensors; /* by the source's fields, with `count` rows */
    samba_tensor *const *padded;  /* the same memory with batch_size rows, those behind padded */
} samba_batch;
/* ARGUMENT: options, a source that does not know its count and is to be shuffled; NAME: a pad of no field. The source stays
 * alive. */
SAMBA_API samba_status samba_loader_new(samba_context *context, samba_source *source, const samba_loader_options *options,
                                        samba_loader **loader);
/* Begins an epoch, 0 or more, at its batch `first`. What the order is depends on the seed and the epoch alone. */
SAMBA_API samba_status samba_loader_begin(samba_loader *loader, int64_t epoch, int64_t first);
/* The next batch; once, behind the last, one of count 0. Errors are the source's; STATE: samba_loader_begin was not called, or
 * not since the epoch ended. */
SAMBA_API samba_status samba_loader_next(samba_loader *loader, samba_batch *batch);
SAMBA_API int64_t samba_loader_batches(const samba_loader *loader); /* in an epoch; -1: not known */
SAMBA_API const samba_source *samba_loader_source(const samba_loader *loader);
SAMBA_API void samba_loader_free(samba_loader *loader); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
