/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npy: magic, version, header length, a Python dict literal with descr, fortran_order and shape, then the elements. The
 * literal is read by a small scanner that knows just the forms NumPy writes: strings, True and False, tuples of integers; keys in
 * any order. The elements must fill the rest of the file. */
#include "base/null.h"
#include "data/data.h"

#include <string.h>

static const struct {
    const char *descr;
    samba_dtype dtype;
} descrs[] = {{"f4", SAMBA_FLOAT32}, {"f2", SAMBA_FLOAT16}, {"f8", SAMBA_FLOAT64}, {"i8", SAMBA_INT64}, {"i4", SAMBA_INT32},
              {"i2", SAMBA_INT16},   {"i1", SAMBA_INT8},    {"u1", SAMBA_UINT8},   {"b1", SAMBA_BOOL}};

typedef struct scanner {
    const char *at, *end;
} scanner;

static void skip_blanks(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n'))
        s->at++;
}

static bool take(scanner *s, const char *token)
{
    size_t length = strlen(token);
    skip_blanks(s);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, token, length) != 0)
        return false;
    s->at += length;
    return true;
}

/* A quoted string without escapes into text. */
static bool take_string(scanner *s, char *text, size_t size)
{
    skip_blanks(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"'))
        return false;
    char quote = *s->at++;
    size_t length = 0;
    while (s->at < s->end && *s->at != quote && *s->at != '\\' && *s->at != '\n' && length + 1 < size)
        text[length++] = *s->at++;
    text[length] = '\0';
    return s->at < s->end && *s->at++ == quote;
}

static bool take_size(scanner *s, int64_t *size)
{
    skip_blanks(s);
    const char *begin = s->at;
    *size = 0;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        if (!samba_mul_checked(*size, 10, size) || !samba_add_checked(*size, *s->at++ - '0', size))
            return false;
    bool any = s->at > begin;
    take(s, "L"); /* Python 2's long integers */
    return any;
}

/* (), (3,), (3, 4). A rank above `most` is counted but not kept. */
static bool take_shape(scanner *s, int most, int *rank, int64_t *shape)
{
    *rank = 0;
    if (!take(s, "("))
        return false;
    while (!take(s, ")")) {
        int64_t size;
        if (!take_size(s, &size))
            return false;
        if (*rank < most)
            shape[*rank] = size;
        ++*rank;
        if (!take(s, ",") && (*rank < 2 || s->at == s->end || *s->at != ')'))
            return false;
    }
    return true;
}

typedef struct header {
    char descr[32];
    bool has_descr, has_order, has_shape, fortran_order, is_record;
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
} header;

static bool take_header(scanner *s, header *h)
{
    char key[32];
    if (!take(s, "{"))
        return false;
    while (!take(s, "}")) {
        if (!take_string(s, key, sizeof key) || !take(s, ":"))
            return false;
        if (strcmp(key, "descr") == 0 && !h->has_descr) {
            h->has_descr = true;
            if (!take_string(s, h->descr, sizeof h->descr)) {
                h->is_record = take(s, "[");
                return h->is_record; /* a list of fields: it is refused by name, so the rest does not matter */
            }
        } else if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
            h->has_order = true;
            h->fortran_order = take(s, "True");
            if (!h->fortran_order && !take(s, "False"))
                return false;
        } else if (strcmp(key, "shape") == 0 && !h->has_shape) {
            h->has_shape = true;
            if (!take_shape(s, SAMBA_MAX_RANK, &h->rank, h->shape))
                return false;
        } else {
            return false;
        }
        skip_blanks(s);
        if (!take(s, ",") && (s->at == s->end || *s->at != '}'))
            return false;
    }
    skip_blanks(s);
    return s->at == s->end && h->has_descr && h->has_order && h->has_shape;
}

static samba_status find_dtype(samba_context *context, const char *path, const header *h, samba_dtype *dtype)
{
    const char *descr = h->descr;
    if (h->is_record)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: the .npy file holds records; save each field as an array of its own", path);
    char order = *descr && strchr("<>|=", *descr) ? *descr++ : '<';
    for (int i = 0; i < SAMBA_COUNT(descrs); i++)
        if (strcmp(descr, descrs[i].descr) == 0) {
            if (order == '>' && descr[1] != '1')
                return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                                  "%s: the .npy file is big-endian ('%s'); save x.astype(x.dtype.newbyteorder('<'))", path,
                                  h->descr);
            *dtype = descrs[i].dtype;
            return SAMBA_OK;
        }
    return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                      "%s: the .npy file's dtype '%s' is none of f2 f4 f8 i1 i2 i4 i8 u1 b1; convert it with astype", path,
                      h->descr);
}

samba_status samba_npy_parse(samba_bytes *bytes, const char *path, const char *name, samba_tensor **tensor)
{
    samba_context *context = bytes->context;
    const char *data = bytes->data;
    *tensor = NULL;
    if (bytes->size < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: no .npy file: it does not begin with NumPy's magic number", path);
    int major = (unsigned char)data[6], minor = (unsigned char)data[7];
    if (major < 1 || major > 3 || minor != 0)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED, "%s: .npy version %d.%d; 1.0, 2.0 and 3.0 are supported", path, major,
                          minor);
    size_t begin = major == 1 ? 10 : 12;
    bool whole = bytes->size >= begin;
    size_t length = !whole ? 0 : major == 1 ? samba_get16(data + 8) : samba_get32(data + 8);
    if (!whole || length > bytes->size - begin)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the .npy file is cut short inside its header", path);

    header h = {0};
    samba_dtype dtype = SAMBA_FLOAT32;
    int64_t numel = 0, size = 0;
    char text[SAMBA_SHAPE_TEXT];
    if (!take_header(&(scanner){data + begin, data + begin + length}, &h))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the .npy header is no dict of descr, fortran_order and shape", path);
    SAMBA_TRY(find_dtype(context, path, &h, &dtype));
    if (h.rank > SAMBA_MAX_RANK)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED, "%s: the .npy array has rank %d; at most %d is supported", path,
                          h.rank, SAMBA_MAX_RANK);
    if (h.fortran_order && h.rank > 1)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: the .npy array is in Fortran order; save numpy.ascontiguousarray(x)", path);
    samba_shape_format(h.rank, h.shape, text, sizeof text);
    size_t rest = bytes->size - begin - length;
    bool fits = samba_shape_numel(h.rank, h.shape, &numel) && samba_mul_checked(numel, (int64_t)samba_dtype_size(dtype), &size);
    if (!fits || (size_t)size != rest)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "%s: the .npy file is %s: shape %s of %s is %lld bytes and %zu follow the header", path,
                          !fits || (size_t)size > rest ? "cut short" : "too long", text, samba_dtype_name(dtype),
                          fits ? (long long)size : INT64_MAX, rest);
    return samba_bytes_tensor(bytes, begin + length, name, dtype, h.rank, h.shape, tensor);
}

samba_status samba_npy_read(samba_context *context, const char *path, samba_tensor **tensor)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tensor);
    samba_bytes *bytes;
    *tensor = NULL;
    SAMBA_TRY(samba_bytes_read(context, path, &bytes));
    samba_status status = samba_npy_parse(bytes, path, NULL, tensor);
    samba_bytes_drop(bytes);
    return status;
}

samba_status samba_npy_write(samba_context *context, const char *path, const samba_tensor *tensor)
{
    SAMBA_NEED(context, path);
    SAMBA_NEED(context, tensor);
    const char *descr = NULL;
    for (int i = 0; i < SAMBA_COUNT(descrs); i++)
        if (descrs[i].dtype == tensor->dtype)
            descr = descrs[i].descr;
    if (!descr)
        return samba_fail(context, SAMBA_ERROR_DTYPE, "%s: .npy has no %s; copy the tensor to float32 or write safetensors", path,
                          samba_dtype_name(tensor->dtype));
    char shape[SAMBA_SHAPE_TEXT], head[512];
    samba_shape_format(tensor->rank, tensor->shape, shape, sizeof shape);
    if (tensor->rank == 1) /* Python's tuple of one */
        snprintf(shape, sizeof shape, "(%lld,)", (long long)tensor->shape[0]);
    int length = snprintf(head + 10, sizeof head - 10, "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                          samba_dtype_size(tensor->dtype) == 1 ? '|' : '<', descr, shape);
    int total = (10 + length + 1 + 63) / 64 * 64; /* elements begin at a multiple of 64 */
    memset(head + 10 + length, ' ', (size_t)(total - 10 - length));
    head[total - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((total - 10) & 255);
    head[9] = (char)((total - 10) >> 8);

    samba_tensor *copy;
    const void *parts[2] = {head, NULL};
    SAMBA_TRY(samba_tensor_elements(tensor, path, &copy, &parts[1]));
    size_t sizes[] = {(size_t)total, (size_t)samba_tensor_numel(tensor) * samba_dtype_size(tensor->dtype)};
    samba_status status = samba_file_write_atomic(context, path, parts, sizes, 2);
    samba_tensor_free(copy);
    return status;
}
