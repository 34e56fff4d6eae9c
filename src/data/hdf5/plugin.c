/* SPDX-License-Identifier: Apache-2.0
 *
 * HDF5 files by libhdf5: a plugin of this file alone, nothing of the library is linked in. Whoever calls lets one thread in at a
 * time.
 *
 * A file is not trusted to name others: links, external storage, virtual datasets and filters that libhdf5 would load from
 * a folder are refused. Sizes are the caller's to check before it reads. libhdf5 prints nothing; its innermost reason goes into
 * the message. */
#include "data/hdf5.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DATASETS = 8, NAME = 256, WHOLE = SAMBA_HDF5_MESSAGE };

struct samba_hdf5_file {
    hid_t file, found, type; /* type: how `found` lies in memory */
    bool boolean;
    int64_t elements, columns;
    int count;
    hid_t datasets[MOST_DATASETS]; /* of a new file */
};

/* ---- messages ---- */
static herr_t take_reason(unsigned depth, const H5E_error2_t *error, void *message)
{
    if (depth == 0 && error->desc)
        snprintf(message, WHOLE / 2, "%s", error->desc);
    return 0;
}

static samba_status refuse(samba_status status, char *message, const char *words, const char *name)
{
    char reason[WHOLE / 2] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, reason);
    const char *quote = name ? "'" : "";
    snprintf(message, WHOLE, "%.256s%s%s%.100s%s%s%.100s%s", words, name ? " " : "", quote, name ? name : "", quote,
             reason[0] ? " (" : "", reason, reason[0] ? ")" : "");
    H5Eclear2(H5E_DEFAULT);
    return status;
}

/* At each entry: what libhdf5 prints is set for each thread. */
static void be_silent(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Eclear2(H5E_DEFAULT);
}

/* ---- reading ---- */
static samba_status file_open(const char *path, samba_hdf5_file **file, char *message)
{
    be_silent();
    *file = NULL;
    H5PLset_loading_state(0); /* no filters from folders that the environment names */
    if (access(path, R_OK) != 0)
        return refuse(SAMBA_ERROR_FILE, message, "no such file, or it may not be read", NULL);
    samba_hdf5_file *f = calloc(1, sizeof *f);
    if (!f)
        return refuse(SAMBA_ERROR_MEMORY, message, "no memory", NULL);
    *f = (samba_hdf5_file){.file = -1, .found = -1, .type = -1};
    *file = f;
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_cache(list, 0, 12289, SAMBA_HDF5_CACHE, 0); /* as many places as a prime far above the chunks that it holds */
    f->file = H5Fopen(path, H5F_ACC_RDONLY, list);
    H5Pclose(list);
    return f->file >= 0 ? SAMBA_OK : refuse(SAMBA_ERROR_FORMAT, message, "it is no HDF5 file, or a damaged one", NULL);
}

static herr_t list_name(hid_t group, const char *name, const H5L_info_t *info, void *list)
{
    size_t length = strlen(list);
    (void)group;
    (void)info;
    if (length + strlen(name) + 8 > WHOLE / 2)
        return strcat(list, " ..."), 1;
    snprintf((char *)list + length, WHOLE / 2 - length, "%s%s", length ? ", " : "", name);
    return 0;
}

/* Every part of the name is an object of this file. */
static samba_status check_links(const samba_hdf5_file *f, const char *name, char *message)
{
    char part[NAME];
    H5L_info_t info;
    if (!name[0] || strlen(name) >= sizeof part)
        return refuse(SAMBA_ERROR_NAME, message, "a dataset's name has 1 to 255 bytes: given", name);
    for (size_t i = 1; i <= strlen(name); i++) {
        if (name[i] != '/' && name[i] != '\0')
            continue;
        memcpy(part, name, i);
        part[i] = '\0';
        if (H5Lexists(f->file, part, H5P_DEFAULT) <= 0 || H5Lget_info(f->file, part, &info, H5P_DEFAULT) < 0) {
            char list[WHOLE / 2] = "", words[WHOLE];
            H5Literate(f->file, H5_INDEX_NAME, H5_ITER_INC, NULL, list_name, list);
            H5Eclear2(H5E_DEFAULT);
            snprintf(words, sizeof words, "there is %s%s, and no dataset", list[0] ? "" : "nothing", list);
            return refuse(SAMBA_ERROR_NAME, message, words, name);
        }
        if (info.type != H5L_TYPE_HARD)
            return refuse(SAMBA_ERROR_UNSUPPORTED, message, "a link to elsewhere is not followed:", part);
    }
    return SAMBA_OK;
}

static bool is_half(hid_t type)
{
    size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
    return H5Tget_size(type) == 2 && H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
           sign == 15 && exponent == 10 && exponent_bits == 5 && mantissa == 0 && mantissa_bits == 10 && H5Tget_ebias(type) == 15;
}

/* The numbers FALSE and TRUE of a byte, as h5py writes them. */
static bool is_bool(hid_t type)
{
    char value[2] = {1, 0};
    return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && H5Tenum_valueof(type, "FALSE", &value[0]) >= 0 &&
           H5Tenum_valueof(type, "TRUE", &value[1]) >= 0 && value[0] == 0 && value[1] == 1;
}

/* The dtype of a type of the file, and the type in memory, which the file has from here on. */
static bool find_dtype(samba_hdf5_file *f, hid_t type, samba_dtype *dtype)
{
    const size_t size = H5Tget_size(type);
    const H5T_class_t class = H5Tget_class(type);
    const bool whole = class == H5T_ENUM || H5Tget_precision(type) == 8 * size;
    H5Tclose(f->type);
    f->type = -1;
    f->boolean = class == H5T_ENUM && is_bool(type);
    if (f->boolean) {
        *dtype = SAMBA_BOOL;
        f->type = H5Tcopy(type);
    } else if (class == H5T_INTEGER && whole && H5Tget_sign(type) == H5T_SGN_2) {
        *dtype = size == 1 ? SAMBA_INT8 : size == 2 ? SAMBA_INT16 : size == 4 ? SAMBA_INT32 : SAMBA_INT64;
        f->type = H5Tcopy(size == 1   ? H5T_NATIVE_INT8
                          : size == 2 ? H5T_NATIVE_INT16
                          : size == 4 ? H5T_NATIVE_INT32
                                      : H5T_NATIVE_INT64);
    } else if (class == H5T_INTEGER && whole && size == 1) {
        *dtype = SAMBA_UINT8;
        f->type = H5Tcopy(H5T_NATIVE_UINT8);
    } else if (class == H5T_FLOAT && whole && (size == 4 || size == 8)) {
        *dtype = size == 4 ? SAMBA_FLOAT32 : SAMBA_FLOAT64;
        f->type = H5Tcopy(size == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE);
    } else if (class == H5T_FLOAT && is_half(type)) {
        *dtype = SAMBA_FLOAT16;
        f->type = H5Tcopy(type);
        H5Tset_order(f->type, H5T_ORDER_LE);
    }
    return f->type >= 0;
}

/* How it lies in the file: in the file itself, by chunks no larger than the whole. */
static samba_status check_layout(const samba_hdf5_file *f, hid_t list, size_t element, int64_t *stored, char *message)
{
    const H5D_layout_t layout = H5Pget_layout(list);
    hsize_t sizes[H5S_MAX_RANK], length = 0, whole = (hsize_t)f->elements * element;
    if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
        return refuse(SAMBA_ERROR_UNSUPPORTED, message, "a dataset made of others cannot be read: copy it into one of its own",
                      NULL);
    if (H5Pget_external_count(list) != 0)
        return refuse(SAMBA_ERROR_UNSUPPORTED, message, "a dataset in other files cannot be read: copy it into one of its own",
                      NULL);
    if (layout == H5D_CHUNKED) {
        double bytes = (double)element;
        int rank = H5Pget_chunk(list, H5S_MAX_RANK, sizes);
        for (int i = 0; i < rank; i++)
            bytes *= (double)sizes[i];
        if (bytes > (double)whole + (64 << 20))
            return refuse(SAMBA_ERROR_FORMAT, message, "a dataset's chunks are larger than the dataset", NULL);
    }
    *stored = (int64_t)H5Dget_storage_size(f->found);
    if (H5Fget_filesize(f->file, &length) < 0 || *stored < 0 || (hsize_t)*stored > length)
        return refuse(SAMBA_ERROR_FORMAT, message, "a dataset takes more bytes than the file has", NULL);
    return SAMBA_OK;
}

static samba_status take_found(samba_hdf5_file *f, const char *name, hid_t type, hid_t space, hid_t list, samba_hdf5_facts *facts,
                               char *message)
{
    hsize_t sizes[H5S_MAX_RANK];
    if (type < 0 || space < 0 || list < 0)
        return refuse(SAMBA_ERROR_FORMAT, message, "damaged: the dataset", name);
    if (!find_dtype(f, type, &facts->dtype))
        return refuse(
            SAMBA_ERROR_UNSUPPORTED, message,
            "supported are int8 to int64, uint8, float16, float32, float64 and bool, convert it with astype: the dataset", name);
    facts->rank = H5Sget_simple_extent_ndims(space);
    if (facts->rank < 0 || facts->rank > SAMBA_MAX_RANK || H5Sget_simple_extent_type(space) == H5S_NULL)
        return refuse(SAMBA_ERROR_UNSUPPORTED, message, "it is empty or has too many dims: the dataset", name);
    H5Sget_simple_extent_dims(space, sizes, NULL);
    f->elements = 1;
    for (int i = 0; i < facts->rank; i++) {
        facts->shape[i] = (int64_t)sizes[i];
        if (facts->shape[i] < 0 || __builtin_mul_overflow(f->elements, facts->shape[i], &f->elements) ||
            f->elements > INT64_MAX / 8)
            return refuse(SAMBA_ERROR_FORMAT, message, "too large: the dataset", name);
    }
    return check_layout(f, list, H5Tget_size(type), &facts->stored, message);
}

static samba_status dataset_find(samba_hdf5_file *f, const char *name, samba_hdf5_facts *facts, char *message)
{
    be_silent();
    samba_status status = check_links(f, name, message);
    if (status != SAMBA_OK)
        return status;
    if (f->found >= 0)
        H5Oclose(f->found);
    f->found = H5Oopen(f->file, name, H5P_DEFAULT);
    if (f->found < 0)
        return refuse(SAMBA_ERROR_FORMAT, message, "damaged: the dataset", name);
    if (H5Iget_type(f->found) != H5I_DATASET)
        return refuse(SAMBA_ERROR_NAME, message, "it is no dataset but a group or a type:", name);
    hid_t type = H5Dget_type(f->found), space = H5Dget_space(f->found), list = H5Dget_create_plist(f->found);
    status = take_found(f, name, type, space, list, facts, message);
    H5Tclose(type);
    H5Sclose(space);
    H5Pclose(list);
    H5Eclear2(H5E_DEFAULT);
    return status;
}

static samba_status dataset_read(samba_hdf5_file *f, int64_t row, int64_t rows, void *to, char *message)
{
    be_silent();
    hsize_t begin[H5S_MAX_RANK] = {(hsize_t)row}, count[H5S_MAX_RANK];
    hid_t space = H5Dget_space(f->found), part = H5S_ALL;
    const int rank = H5Sget_simple_extent_dims(space, count, NULL);
    bool fine = rank == 0;
    if (rank > 0) {
        count[0] = (hsize_t)rows;
        part = H5Screate_simple(rank, count, NULL);
        fine = part >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, NULL, count, NULL) >= 0;
    }
    fine = fine && H5Dread(f->found, f->type, part, rank > 0 ? space : H5S_ALL, H5P_DEFAULT, to) >= 0;
    const int64_t elements = rank > 0 ? (int64_t)H5Sget_simple_extent_npoints(part) : 1;
    if (rank > 0)
        H5Sclose(part);
    H5Sclose(space);
    if (!fine)
        return refuse(SAMBA_ERROR_FORMAT, message, "a dataset is damaged", NULL);
    for (int64_t i = 0; i < (f->boolean ? elements : 0); i++)
        ((char *)to)[i] = ((char *)to)[i] != 0;
    return SAMBA_OK;
}

/* ---- writing ---- */
static hid_t make_dataset(hid_t file, const char *name, int64_t rows, int64_t columns, int64_t chunk)
{
    const hsize_t size[2] = {(hsize_t)rows, (hsize_t)columns}, most[2] = {H5S_UNLIMITED, (hsize_t)columns};
    const hsize_t part[2] = {(hsize_t)chunk, (hsize_t)columns};
    hid_t space = H5Screate_simple(2, size, most), list = H5Pcreate(H5P_DATASET_CREATE), made = -1;
    if (space >= 0 && list >= 0 && H5Pset_chunk(list, 2, part) >= 0 && H5Pset_deflate(list, SAMBA_HDF5_LEVEL) >= 0 &&
        H5Pset_obj_track_times(list, false) >= 0) /* the same bytes each time */
        made = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(list);
    return made;
}

static samba_status file_create(const char *path, int count, const char *const *names, int64_t rows, int64_t columns,
                                int64_t chunk, samba_hdf5_file **file, char *message)
{
    be_silent();
    *file = NULL;
    samba_hdf5_file *f = calloc(1, sizeof *f);
    if (!f || count > MOST_DATASETS)
        return free(f), refuse(SAMBA_ERROR_MEMORY, message, "no memory", NULL);
    *f = (samba_hdf5_file){.file = -1, .found = -1, .type = -1};
    *file = f;
    f->file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (f->file < 0)
        return refuse(SAMBA_ERROR_FILE, message, "the file cannot be made", NULL);
    for (; f->count < count; f->count++) {
        f->datasets[f->count] = make_dataset(f->file, names[f->count], rows, columns, chunk);
        if (f->datasets[f->count] < 0)
            return refuse(SAMBA_ERROR_FILE, message, "the dataset cannot be made:", names[f->count]);
    }
    return SAMBA_OK;
}

static samba_status chunk_add(samba_hdf5_file *f, int dataset, int64_t row, const void *stream, size_t bytes, char *message)
{
    const hsize_t offset[2] = {(hsize_t)row, 0};
    be_silent();
    if (H5Dwrite_chunk(f->datasets[dataset], H5P_DEFAULT, 0, offset, bytes, stream) < 0)
        return refuse(SAMBA_ERROR_FILE, message, "the file cannot be written", NULL);
    return SAMBA_OK;
}

static samba_status file_close(samba_hdf5_file *f, char *message)
{
    if (!f)
        return SAMBA_OK;
    be_silent();
    bool fine = true;
    for (int i = 0; i < f->count; i++)
        fine &= H5Dclose(f->datasets[i]) >= 0;
    if (f->found >= 0)
        fine &= H5Oclose(f->found) >= 0;
    if (f->type >= 0)
        fine &= H5Tclose(f->type) >= 0;
    if (f->file >= 0)
        fine &= H5Fclose(f->file) >= 0;
    free(f);
    return fine ? SAMBA_OK : refuse(SAMBA_ERROR_FILE, message, "the file cannot be written", NULL);
}

#define SHOWN __attribute__((visibility("default")))
SHOWN const samba_hdf5_interface *samba_hdf5_plugin(void);

const samba_hdf5_interface *samba_hdf5_plugin(void)
{
    static const samba_hdf5_interface interface = {SAMBA_HDF5_VERSION, sizeof interface, file_open, dataset_find,
                                                   dataset_read,       file_create,      chunk_add, file_close};
    return &interface;
}
