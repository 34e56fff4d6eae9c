/* SPDX-License-Identifier: Apache-2.0
 *
 * HDF5 files as a plugin gives them (hdf5/plugin.c), which alone knows libhdf5: the library starts without it.
 * The plugin is asked for one symbol, samba_hdf5_plugin, whose version and size must be those of this header.
 *
 * Its functions return a status and, where that is not OK, a message. One thread at a time calls them: samba_hdf5_begin waits for
 * the others. Memory stays the caller's. */
#ifndef SAMBA_HDF5_H
#define SAMBA_HDF5_H

#include <sambaflow/tensor.h>

#define SAMBA_HDF5_VERSION 1
#define SAMBA_HDF5_MESSAGE 512
#define SAMBA_HDF5_LEVEL 4                  /* of gzip, of all that is written */
#define SAMBA_HDF5_CACHE ((size_t)32 << 20) /* bytes of chunks that libhdf5 keeps unpacked of a dataset */

typedef struct samba_hdf5_file samba_hdf5_file;

typedef struct samba_hdf5_facts { /* of a dataset */
    samba_dtype dtype;
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    int64_t stored; /* bytes that it takes in the file */
} samba_hdf5_facts;

typedef struct samba_hdf5_interface {
    int version;
    size_t struct_size;
    samba_status (*open)(const char *path, samba_hdf5_file **file, char *message);
    /* The dataset that `read` reads next, some rows (of the first dim, or all of a scalar) in C order. */
    samba_status (*find)(samba_hdf5_file *file, const char *name, samba_hdf5_facts *facts, char *message);
    samba_status (*read)(samba_hdf5_file *file, int64_t row, int64_t rows, void *to, char *message);
    /* A new file of int32 datasets (rows, columns), growable along the rows and cut into chunks of `chunk` whole rows. */
    samba_status (*create)(const char *path, int count, const char *const *names, int64_t rows, int64_t columns, int64_t chunk,
                           samba_hdf5_file **file, char *message);
    /* The chunk that begins at a row of a dataset: a zlib stream of all its rows, those behind the end too. */
    samba_status (*add)(samba_hdf5_file *file, int dataset, int64_t row, const void *stream, size_t bytes, char *message);
    /* Ends a file that was opened or created, which is freed whatever comes of it. NULL is allowed. */
    samba_status (*close)(samba_hdf5_file *file, char *message);
} samba_hdf5_interface;

typedef const samba_hdf5_interface *samba_hdf5_plugin_fn(void);
#define SAMBA_HDF5_SYMBOL "samba_hdf5_plugin"

/* hdf5.c: the interface, for this thread alone until the end. Fails, then with nothing to end, where there is no plugin. */
samba_status samba_hdf5_begin(samba_context *context, const samba_hdf5_interface **interface);
void samba_hdf5_end(void);

/* hdf5_read.c: a dataset that stays open in a process of its own, which reads rows of it. The facts are checked: the dataset's
 * size fits and can be what the file holds. One thread at a time. */
typedef struct samba_hdf5_rows samba_hdf5_rows;
samba_status samba_hdf5_rows_open(samba_context *context, const char *path, const char *dataset, samba_hdf5_rows **rows);
const samba_hdf5_facts *samba_hdf5_rows_facts(const samba_hdf5_rows *rows);
/* Rows of the first dim in C order, in the context of the thread at hand. */
samba_status samba_hdf5_rows_read(samba_context *context, samba_hdf5_rows *rows, int64_t row, int64_t count, void *to);
void samba_hdf5_rows_close(samba_hdf5_rows *rows); /* NULL allowed */

#endif
