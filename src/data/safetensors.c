/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: a 64-bit length, a JSON object of that length that gives each tensor's dtype, shape and byte range, then the
 * elements.
 *
 * Reading: ranges must begin at 0, follow each other without a gap or an overlap and end at the file's end, and each must be as
 * long as its shape says. The tensors lie in the file's bytes as read. Writing: widest dtype first, then by name, as the format's
 * own library does, so every tensor is aligned without gaps; the header is padded with blanks to a multiple of 8. */
#include "base/null.h"
#include "data/data.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN "copy it again, or write it again (in Python session.save, in C samba_session_save)"
#define OTHER "copy it again, or give one that session.save (in C samba_session_save) wrote"

#define LARGEST_HEADER 100000000 /* as in the format's own library */

static const char *const dtype_names[SAMBA_DTYPE_COUNT] = {
    [SAMBA_FLOAT32] = "F32", [SAMBA_BFLOAT16] = "BF16", [SAMBA_FLOAT16] = "F16", [SAMBA_FLOAT64] = "F64", [SAMBA_INT64] = "I64",
    [SAMBA_INT32] = "I32",   [SAMBA_INT16] = "I16",     [SAMBA_INT8] = "I8",     [SAMBA_UINT8] = "U8",    [SAMBA_BOOL] = "BOOL",
};

/* ---- reading ---- */

typedef struct entry {
    const char *name; /* in the JSON object */
    samba_dtype dtype;
    int rank;
    int64_t shape[SAMBA_MAX_RANK], begin, end;
} entry;

typedef struct reader {
    samba_context *context;
    const char *path;
    samba_bytes *bytes; /* of the header alone, where `names` says so */
    size_t size, data_begin;
    bool names; /* the tensors are made without data */
} reader;

static samba_status read_dtype(const reader *r, const char *name, const json_t *value, samba_dtype *dtype)
{
    const char *text = json_string_value(value);
    if (!text)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: tensor \"%s\" has no dtype", r->path, name);
    for (int i = 0; i < SAMBA_DTYPE_COUNT; i++)
        if (strcmp(text, dtype_names[i]) == 0) {
            *dtype = (samba_dtype)i;
            return SAMBA_OK;
        }
    return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED,
                      "%s: tensor \"%s\" is of dtype %.32s; F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL are supported", r->path, name,
                      text);
}

static samba_status read_shape(const reader *r, const json_t *value, entry *e)
{
    if (!json_is_array(value))
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: tensor \"%s\" has no shape", r->path, e->name);
    size_t rank = json_array_size(value);
    if (rank > SAMBA_MAX_RANK)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: tensor \"%s\" has rank %zu; at most %d is supported", r->path,
                          e->name, rank, SAMBA_MAX_RANK);
    e->rank = (int)rank;
    for (int i = 0; i < e->rank; i++) {
        const json_t *size = json_array_get(value, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: tensor \"%s\" has a shape with something else than sizes",
                              r->path, e->name);
        e->shape[i] = json_integer_value(size);
    }
    return SAMBA_OK;
}

static samba_status read_entry(const reader *r, const char *name, const json_t *value, entry *e)
{
    e->name = name;
    if (!*name)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: a tensor has an empty name", r->path);
    SAMBA_TRY(read_dtype(r, name, json_object_get(value, "dtype"), &e->dtype));
    SAMBA_TRY(read_shape(r, json_object_get(value, "shape"), e));
    const json_t *offsets = json_object_get(value, "data_offsets"), *begin = json_array_get(offsets, 0),
                 *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: tensor \"%s\" has no data_offsets of two integers", r->path, name);
    e->begin = json_integer_value(begin);
    e->end = json_integer_value(end);

    int64_t room = (int64_t)(r->size - r->data_begin), numel = 0, size = 0;
    char text[SAMBA_SHAPE_TEXT];
    samba_shape_format(e->rank, e->shape, text, sizeof text);
    if (e->begin < 0 || e->end < e->begin || e->end > room)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT,
                          "%s is cut short or damaged: tensor \"%s\" lies at %lld to %lld, the file holds 0 to %lld: " AGAIN,
                          r->path, name, (long long)e->begin, (long long)e->end, (long long)room);
    if (!samba_shape_numel(e->rank, e->shape, &numel) || !samba_mul_checked(numel, (int64_t)samba_dtype_size(e->dtype), &size) ||
        size != e->end - e->begin)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT,
                          "%s: tensor \"%s\" of shape %s and dtype %s does not take its %lld bytes", r->path, name, text,
                          samba_dtype_name(e->dtype), (long long)(e->end - e->begin));
    return SAMBA_OK;
}

static int compare_ranges(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

static samba_status check_ranges(const reader *r, const entry *entries, int count)
{
    int64_t reached = 0, room = (int64_t)(r->size - r->data_begin);
    for (int i = 0; i < count; i++) {
        if (entries[i].begin != reached)
            return samba_fail(r->context, SAMBA_ERROR_FORMAT,
                              "%s: tensor \"%s\" begins at %lld where %lld was expected: tensors %s", r->path, entries[i].name,
                              (long long)entries[i].begin, (long long)reached,
                              entries[i].begin < reached ? "overlap" : "leave a gap");
        reached = entries[i].end;
    }
    if (reached != room)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: %lld bytes follow the last tensor; nothing may", r->path,
                          (long long)(room - reached));
    return SAMBA_OK;
}

static samba_status check_metadata(const reader *r, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool fine = json_is_object(metadata);
    json_object_foreach(metadata, key, value) fine &= json_is_string(value);
    if (!fine)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: __metadata__ is no object of strings", r->path);
    return SAMBA_OK;
}

static samba_status read_tensors(const reader *r, json_t *header, entry *entries, samba_tensor_list *list)
{
    const char *name;
    json_t *value;
    int count = 0;
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            SAMBA_TRY(check_metadata(r, value));
        else
            SAMBA_TRY(read_entry(r, name, value, &entries[count++]));
    }
    qsort(entries, (size_t)count, sizeof *entries, compare_ranges);
    SAMBA_TRY(check_ranges(r, entries, count));
    SAMBA_TRY(samba_tensor_list_new(r->context, count, list));
    for (int i = 0; i < count; i++)
        SAMBA_TRY(r->names ? samba_tensor_empty(r->context, entries[i].name, entries[i].dtype, entries[i].rank, entries[i].shape,
                                                &list->tensors[i])
                           : samba_bytes_tensor(r->bytes, r->data_begin + (size_t)entries[i].begin, entries[i].name,
                                                entries[i].dtype, entries[i].rank, entries[i].shape, &list->tensors[i]));
    return SAMBA_OK;
}

static samba_status load_header(reader *r, json_t **header)
{
    *header = NULL;
    if (r->size < 8)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT,
                          "%s: no safetensors file: %zu bytes, where 8 for the header's length are the least", r->path, r->size);
    if (memcmp(r->bytes->data, "SAMBAPEF", 8) == 0)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT,
                          "%s: no safetensors file but a PEF, a compiled model, which samba_session_new opens (in Python pef= of "
                          "trace_graph): give weights, what samba_session_save wrote (session.save)",
                          r->path);
    if (memcmp(r->bytes->data, "PK\3\4", 4) == 0)
        return samba_fail(
            r->context, SAMBA_ERROR_FORMAT,
            "%s is no safetensors file but a ZIP archive, as torch.save writes: load it in PyTorch and send the weights "
            "(in Python model.load_state_dict(torch.load(path)), then session.to_rdu(model))",
            r->path);
    uint64_t length = samba_get64(r->bytes->data);
    if (length > LARGEST_HEADER)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT,
                          "%s is damaged, or no safetensors file (its header claims %llu bytes, the limit is 100 MB): " OTHER,
                          r->path, (unsigned long long)length);
    if (length > r->size - 8)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT,
                          "%s is cut short, or no safetensors file (its header claims %llu bytes, the file has %zu): " OTHER,
                          r->path, (unsigned long long)length, r->size);
    r->data_begin = 8 + (size_t)length;
    json_error_t error;
    *header = json_loadb(r->bytes->data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!*header && json_error_code(&error) == json_error_out_of_memory)
        return samba_fail(r->context, SAMBA_ERROR_MEMORY, "%s: no memory to read the header of %llu bytes", r->path,
                          (unsigned long long)length);
    if (!*header)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: the safetensors header is no valid JSON: %s at byte %d", r->path,
                          error.text, error.position);
    if (!json_is_object(*header))
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s: the safetensors header is no JSON object", r->path);
    return SAMBA_OK;
}

static samba_status check_facts(const reader *r, const samba_file_facts *facts)
{
    if (facts && r->bytes->size != facts->bytes)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s has %zu bytes where %llu were written", r->path, r->bytes->size,
                          (unsigned long long)facts->bytes);
    if (facts && samba_hash(r->bytes->data, r->bytes->size, 0) != facts->hash)
        return samba_fail(r->context, SAMBA_ERROR_FORMAT, "%s has other bytes than were written: its checksum differs", r->path);
    return SAMBA_OK;
}

/* The tensors that the header tells of. */
static samba_status read_header(reader *r, samba_tensor_list *list)
{
    json_t *header = NULL;
    samba_status status = load_header(r, &header);
    if (status == SAMBA_OK) {
        size_t size = json_object_size(header) * sizeof(entry);
        entry *entries = samba_alloc(r->context, size);
        status = entries ? read_tensors(r, header, entries, list) : SAMBA_ERROR_MEMORY;
        samba_free(r->context, entries, size);
    }
    if (status != SAMBA_OK)
        samba_tensor_list_free(r->context, list);
    json_decref(header);
    return status;
}

samba_status samba_safetensors_read_known(samba_context *context, const char *path, const samba_file_facts *facts,
                                          samba_tensor_list *list)
{
    reader r = {.context = context, .path = path};
    *list = (samba_tensor_list){0};
    SAMBA_TRY(samba_bytes_read(context, path, &r.bytes));
    r.size = r.bytes->size;
    samba_status status = check_facts(&r, facts);
    if (status == SAMBA_OK)
        status = read_header(&r, list);
    samba_bytes_drop(r.bytes);
    return status;
}

samba_status samba_safetensors_names(samba_context *context, const char *path, samba_tensor_list *list)
{
    reader r = {.context = context, .path = path, .names = true};
    samba_bytes start = {.context = context};
    void *data;
    uint64_t length = 0;
    *list = (samba_tensor_list){0};
    SAMBA_TRY(samba_file_read_start(context, path, sizeof length, &data, &start.size, &r.size));
    if (start.size == sizeof length)
        length = samba_get64(data);
    samba_free(context, data, start.size);
    /* a length beyond all bounds is refused with the header */
    SAMBA_TRY(samba_file_read_start(context, path, sizeof length + (length > LARGEST_HEADER ? 0 : (size_t)length), &data,
                                    &start.size, &r.size));
    start.data = data;
    r.bytes = &start;
    samba_status status = read_header(&r, list);
    samba_free(context, data, start.size);
    return status;
}

/* One tensor's elements, which are next in the file; `like` has its facts. */
static samba_status visit_one(samba_context *context, const char *path, FILE *file, const samba_tensor *like,
                              samba_tensor_visit *visit, void *user)
{
    samba_tensor *tensor = NULL;
    SAMBA_TRY(samba_tensor_new(context, samba_tensor_name(like), like->dtype, like->rank, like->shape, &tensor));
    const size_t size = (size_t)samba_tensor_numel(tensor) * samba_dtype_size(tensor->dtype);
    errno = 0;
    if (size > 0 && fread(samba_tensor_data(tensor), 1, size, file) != size) {
        samba_tensor_free(tensor);
        return samba_fail(context, SAMBA_ERROR_FILE, "cannot read tensor \"%.200s\" of \"%.400s\": %s", samba_tensor_name(like),
                          path, errno ? strerror(errno) : "the file has become shorter");
    }
    return visit(user, tensor);
}

samba_status samba_safetensors_each(samba_context *context, const char *path, samba_tensor_visit *visit, void *user)
{
    samba_tensor_list list;
    char length[8];
    SAMBA_TRY(samba_safetensors_names(context, path, &list)); /* in the order of their bytes, without gaps */
    FILE *file = fopen(path, "rbe");
    samba_status status = SAMBA_OK;
    if (!file || fread(length, 1, sizeof length, file) != sizeof length ||
        fseeko(file, (off_t)(sizeof length + samba_get64(length)), SEEK_SET) != 0)
        status = samba_fail(context, SAMBA_ERROR_FILE, "cannot read \"%.400s\": %s", path, strerror(errno));
    for (int i = 0; i < list.count && status == SAMBA_OK; i++)
        status = visit_one(context, path, file, list.tensors[i], visit, user);
    if (file)
        fclose(file);
    samba_tensor_list_free(context, &list);
    return status;
}

samba_status samba_safetensors_read(samba_context *context, const char *path, samba_tensor_list *list)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, list);
    return samba_safetensors_read_known(context, path, NULL, list);
}

/* ---- writing ---- */

static int compare_tensors(const void *left, const void *right)
{
    const samba_tensor *a = *(samba_tensor *const *)left, *b = *(samba_tensor *const *)right;
    size_t size_a = samba_dtype_size(a->dtype), size_b = samba_dtype_size(b->dtype);
    return size_a != size_b ? (size_a > size_b ? -1 : 1) : strcmp(samba_tensor_name(a), samba_tensor_name(b));
}

/* Takes `value`. Text that is no UTF-8 and memory that is not there look alike to jansson's callers, so text is checked first. */
static samba_status add_member(samba_context *context, json_t *object, const char *key, json_t *value)
{
    if (!value || json_object_set_new(object, key, value) != 0)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for the header's \"%s\"", key);
    return SAMBA_OK;
}

static samba_status check_text(samba_context *context, const char *path, const char *text)
{
    json_t *string = json_string(text);
    if (!string)
        return samba_fail(context, SAMBA_ERROR_NAME, "%s: \"%s\" is not valid UTF-8", path, text);
    json_decref(string);
    return SAMBA_OK;
}

static samba_status add_metadata(samba_context *context, const char *path, const char *const *metadata, json_t *header)
{
    json_t *object = json_object();
    SAMBA_TRY(add_member(context, header, "__metadata__", object));
    for (; *metadata; metadata += 2) {
        if (!metadata[1])
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: the metadata \"%s\" has no value", path, metadata[0]);
        if (json_object_get(object, metadata[0]))
            return samba_fail(context, SAMBA_ERROR_NAME, "%s: the metadata \"%s\" is given twice", path, metadata[0]);
        SAMBA_TRY(check_text(context, path, metadata[0]));
        SAMBA_TRY(check_text(context, path, metadata[1]));
        SAMBA_TRY(add_member(context, object, metadata[0], json_string(metadata[1])));
    }
    return SAMBA_OK;
}

static samba_status add_tensor(samba_context *context, const char *path, const samba_tensor *tensor, json_t *header,
                               int64_t *offset)
{
    const char *name = samba_tensor_name(tensor);
    if (!*name || strcmp(name, "__metadata__") == 0)
        return samba_fail(context, SAMBA_ERROR_NAME, "%s: a tensor is %s; name it with samba_tensor_set_name", path,
                          *name ? "named __metadata__, which the format keeps for itself" : "unnamed");
    if (json_object_get(header, name))
        return samba_fail(context, SAMBA_ERROR_NAME, "%s: two tensors are named \"%s\"", path, name);
    SAMBA_TRY(check_text(context, path, name));
    int64_t begin = *offset, size = samba_tensor_numel(tensor) * (int64_t)samba_dtype_size(tensor->dtype);
    if (!samba_add_checked(begin, size, offset))
        return samba_fail(context, SAMBA_ERROR_SHAPE, "%s: the tensors together take 2^63 bytes or more", path);
    json_t *shape = json_array();
    for (int i = 0; i < tensor->rank && shape; i++)
        if (json_array_append_new(shape, json_integer(tensor->shape[i])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    return add_member(context, header, name,
                      json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_names[tensor->dtype], "shape", shape, "data_offsets",
                                (json_int_t)begin, (json_int_t)*offset));
}

/* The length, the JSON text and blanks up to a multiple of 8, as one block. */
static samba_status dump_header(samba_context *context, const char *path, const json_t *header, char **block, size_t *size)
{
    size_t length = json_dumpb(header, NULL, 0, JSON_COMPACT);
    if (length == 0 || length > LARGEST_HEADER - 8)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: a header of %zu bytes; the format allows 1 to %d", path, length,
                          LARGEST_HEADER);
    uint64_t padded = (length + 7) / 8 * 8;
    *size = 8 + padded;
    *block = samba_alloc(context, *size);
    if (!*block)
        return SAMBA_ERROR_MEMORY;
    memset(*block, ' ', *size);
    memcpy(*block, &padded, 8);
    json_dumpb(header, *block + 8, length, JSON_COMPACT);
    return SAMBA_OK;
}

typedef struct writer { /* one slot more than tensors: the header comes first */
    samba_arena arena;
    samba_tensor **order, **copies;
    const void **parts;
    size_t *sizes;
    samba_file_facts *facts; /* of what was written; NULL: nobody asks */
    bool remade;             /* the file can be made again */
} writer;

static samba_status write_sorted(samba_context *context, const char *path, int count, samba_tensor *const *tensors,
                                 const char *const *metadata, json_t *header, writer *w)
{
    int64_t offset = 0;
    char *block = NULL;
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->order, (size_t)count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->copies, (size_t)count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->parts, (size_t)count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->sizes, (size_t)count + 1));
    if (count > 0)
        memcpy(w->order, tensors, (size_t)count * sizeof *tensors);
    if (metadata)
        SAMBA_TRY(add_metadata(context, path, metadata, header));
    qsort(w->order, (size_t)count, sizeof *w->order, compare_tensors);
    for (int i = 0; i < count; i++)
        SAMBA_TRY(add_tensor(context, path, w->order[i], header, &offset));
    for (int i = 0; i < count; i++) {
        SAMBA_TRY(samba_tensor_elements(w->order[i], path, &w->copies[i], &w->parts[i + 1]));
        w->sizes[i + 1] = (size_t)samba_tensor_numel(w->order[i]) * samba_dtype_size(w->order[i]->dtype);
    }
    SAMBA_TRY(dump_header(context, path, header, &block, &w->sizes[0]));
    w->parts[0] = block;
    samba_status status =
        (w->remade ? samba_file_write_remade : samba_file_write_atomic)(context, path, w->parts, w->sizes, count + 1);
    if (w->facts) {
        *w->facts = (samba_file_facts){.hash = samba_hash_parts(w->parts, w->sizes, count + 1)};
        for (int i = 0; i <= count; i++)
            w->facts->bytes += w->sizes[i];
    }
    samba_free(context, block, w->sizes[0]);
    return status;
}

static samba_status write_with(samba_context *context, const char *path, int count, samba_tensor *const *tensors,
                               const char *const *metadata, writer w)
{
    json_t *header = json_object();
    if (!header)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for the header of %s", path);
    samba_arena_init(&w.arena, context);
    samba_status status = write_sorted(context, path, count, tensors, metadata, header, &w);
    for (int i = 0; w.copies && i < count; i++)
        samba_tensor_free(w.copies[i]);
    samba_arena_free(&w.arena);
    json_decref(header);
    return status;
}

samba_status samba_safetensors_write_known(samba_context *context, const char *path, int count, samba_tensor *const *tensors,
                                           const char *const *metadata, samba_file_facts *facts)
{
    return write_with(context, path, count, tensors, metadata, (writer){.facts = facts});
}

samba_status samba_safetensors_write_remade(samba_context *context, const char *path, int count, samba_tensor *const *tensors)
{
    return write_with(context, path, count, tensors, NULL, (writer){.remade = true});
}

samba_status samba_safetensors_write(samba_context *context, const char *path, int count, samba_tensor *const *tensors,
                                     const char *const *metadata)
{
    SAMBA_NEED(NULL, context);
    if (!path)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_safetensors_write was given no path");
    if (count < 0 || (count > 0 && !tensors))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: %d tensors, and their list is %s", path, count,
                          tensors ? "given" : "NULL");
    for (int i = 0; i < count; i++)
        if (!tensors[i])
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: tensor %d of %d is NULL", path, i, count);
    return samba_safetensors_write_known(context, path, count, tensors, metadata, NULL);
}
