/* SPDX-License-Identifier: Apache-2.0
 *
 * IDX, the format of MNIST: two zero bytes, a type, a rank, that many sizes of 32 bits, then the elements; all numbers
 * big-endian. A file that begins with gzip's magic is inflated on the way. The header says how long the content must be, and it
 * must be just that long; a compressed file claiming more than deflate can pack is refused before memory is taken. */
#include "base/null.h"
#include "data/data.h"

#include <string.h>

/* Plain bytes or an inflating stream, seen as one. */
typedef struct source {
    samba_context *context;
    const char *path;
    bool compressed;
    samba_inflater inflater;
    const char *plain;
    size_t left; /* plain bytes */
    size_t packed_size;
} source;

static samba_status read_exactly(source *from, void *to, size_t size, const char *what)
{
    size_t got = from->left < size ? from->left : size;
    if (from->compressed) {
        SAMBA_TRY(samba_inflate_read(&from->inflater, to, size, &got));
    } else {
        memcpy(to, from->plain, got);
        from->plain += got;
        from->left -= got;
    }
    if (got < size)
        return samba_fail(from->context, SAMBA_ERROR_FORMAT,
                          "%s: the IDX file is cut short: %s should have %zu bytes and has %zu", from->path, what, size, got);
    return SAMBA_OK;
}

static samba_status check_end(source *from)
{
    if (from->compressed)
        return samba_inflate_finish(&from->inflater);
    if (from->left > 0)
        return samba_fail(from->context, SAMBA_ERROR_FORMAT, "%s: the IDX file is too long: %zu bytes follow its elements",
                          from->path, from->left);
    return SAMBA_OK;
}

static void swap_bytes(char *data, size_t element, size_t bytes)
{
    for (size_t i = 0; i + element <= bytes; i += element)
        for (size_t j = 0; j < element / 2; j++) {
            char kept = data[i + j];
            data[i + j] = data[i + element - 1 - j];
            data[i + element - 1 - j] = kept;
        }
}

static samba_status find_dtype(const source *from, const unsigned char magic[4], samba_dtype *dtype)
{
    static const struct {
        unsigned char type;
        samba_dtype dtype;
    } types[] = {{0x08, SAMBA_UINT8}, {0x09, SAMBA_INT8},    {0x0B, SAMBA_INT16},
                 {0x0C, SAMBA_INT32}, {0x0D, SAMBA_FLOAT32}, {0x0E, SAMBA_FLOAT64}};
    if (magic[0] == 0 && magic[1] == 0)
        for (int i = 0; i < SAMBA_COUNT(types); i++)
            if (types[i].type == magic[2]) {
                *dtype = types[i].dtype;
                return SAMBA_OK;
            }
    return samba_fail(
        from->context, SAMBA_ERROR_FORMAT,
        "%s: no IDX file: it begins with %02x %02x %02x %02x; 00 00, a type (08 09 0b 0c 0d 0e) and a rank are expected",
        from->path, magic[0], magic[1], magic[2], magic[3]);
}

static samba_status read_content(source *from, samba_tensor **tensor)
{
    unsigned char magic[4], sizes[4 * SAMBA_MAX_RANK];
    int64_t shape[SAMBA_MAX_RANK], numel = 0, size = 0;
    samba_dtype dtype = SAMBA_UINT8;
    char text[SAMBA_SHAPE_TEXT];
    SAMBA_TRY(read_exactly(from, magic, sizeof magic, "the magic number"));
    SAMBA_TRY(find_dtype(from, magic, &dtype));
    int rank = magic[3];
    if (rank > SAMBA_MAX_RANK)
        return samba_fail(from->context, SAMBA_ERROR_UNSUPPORTED, "%s: the IDX file has rank %d; at most %d is supported",
                          from->path, rank, SAMBA_MAX_RANK);
    SAMBA_TRY(read_exactly(from, sizes, 4 * (size_t)rank, "the shape"));
    for (int i = 0; i < rank; i++)
        shape[i] = (int64_t)sizes[4 * i] << 24 | sizes[4 * i + 1] << 16 | sizes[4 * i + 2] << 8 | sizes[4 * i + 3];
    samba_shape_format(rank, shape, text, sizeof text);
    int64_t possible = from->compressed ? ((int64_t)from->packed_size + 64) * SAMBA_INFLATE_RATIO : (int64_t)from->left;
    if (!samba_shape_numel(rank, shape, &numel) || !samba_mul_checked(numel, (int64_t)samba_dtype_size(dtype), &size) ||
        size > possible)
        return samba_fail(from->context, SAMBA_ERROR_FORMAT,
                          "%s: the IDX file is cut short: shape %s of %s does not fit the %zu bytes that are there", from->path,
                          text, samba_dtype_name(dtype), from->compressed ? from->packed_size : from->left);
    samba_bytes *bytes;
    SAMBA_TRY(samba_bytes_new(from->context, (size_t)size, &bytes));
    samba_status status = read_exactly(from, bytes->data, (size_t)size, "the data");
    if (status == SAMBA_OK)
        status = check_end(from);
    if (status == SAMBA_OK) {
        swap_bytes(bytes->data, samba_dtype_size(dtype), (size_t)size);
        status = samba_bytes_tensor(bytes, 0, NULL, dtype, rank, shape, tensor);
    }
    samba_bytes_drop(bytes);
    return status;
}

samba_status samba_idx_read(samba_context *context, const char *path, samba_tensor **tensor)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tensor);
    samba_bytes *file;
    *tensor = NULL;
    SAMBA_TRY(samba_bytes_read(context, path, &file));
    source from = {.context = context, .path = path, .plain = file->data, .left = file->size, .packed_size = file->size};
    from.compressed = file->size >= 2 && memcmp(file->data, "\x1f\x8b", 2) == 0;
    samba_status status = SAMBA_OK;
    if (from.compressed)
        status = samba_inflate_open(&from.inflater, context, path, true, file->data, file->size);
    if (status == SAMBA_OK) {
        status = read_content(&from, tensor);
        if (from.compressed)
            samba_inflate_close(&from.inflater);
    }
    samba_bytes_drop(file);
    return status;
}
