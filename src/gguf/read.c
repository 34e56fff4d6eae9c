/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a GGUF file, checked whole before anybody sees it: magic, version, metadata, the tensors' names, shapes, types
 * and places. Places are multiples of the alignment, inside the file and apart from each other; names are there once.
 *
 * The header's length is nowhere said, so the file's beginning is read, and more of it where the header goes on. */
#include "gguf/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEPTH = 4, LEAST_ENTRY = 13, LEAST_TENSOR = 32, MOST_KEY = 65535, MOST_ALIGNMENT = 1 << 20 };
#define FIRST_BYTES ((size_t)4 << 20)
#define MOST_DIM ((int64_t)1 << 40)
static const char magic[4] = {'G', 'G', 'U', 'F'};

/* ---- a cursor that fails where bytes are missing ---- */

typedef struct cursor {
    samba_gguf *gguf;
    size_t at;
    bool more; /* the file goes on behind the bytes that were read: they are too few, and not the file */
} cursor;

static samba_status fail(const cursor *c, const char *what)
{
    return samba_fail(c->gguf->context, SAMBA_ERROR_FORMAT, "%s: %s", c->gguf->path, what);
}

static samba_status take(cursor *c, uint64_t size, const char **bytes)
{
    if (size > c->gguf->size - c->at) {
        c->more = (int64_t)c->gguf->size < c->gguf->whole;
        return samba_fail(c->gguf->context, SAMBA_ERROR_FORMAT, "%s: the file ends within its header, at byte %lld",
                          c->gguf->path, (long long)c->gguf->whole);
    }
    *bytes = c->gguf->data + c->at;
    c->at += size;
    return SAMBA_OK;
}

static samba_status take_number(cursor *c, size_t size, uint64_t *number)
{
    const char *bytes = NULL;
    *number = 0;
    SAMBA_TRY(take(c, size, &bytes));
    memcpy(number, bytes, size);
    return SAMBA_OK;
}

static samba_status take_text(cursor *c, const char **text, uint64_t *size)
{
    SAMBA_TRY(take_number(c, 8, size));
    return take(c, *size, text);
}

/* A name or key: not empty, no NUL in it, copied with one behind it. */
static samba_status take_name(cursor *c, const char **name)
{
    const char *text = NULL;
    char *copy;
    uint64_t size;
    SAMBA_TRY(take_text(c, &text, &size));
    if (size == 0 || size > MOST_KEY || memchr(text, '\0', size))
        return fail(c, "a name in the header is empty, has a NUL or more than 65535 bytes");
    SAMBA_TRY(samba_arena_room(&c->gguf->arena, size + 1, &copy));
    memcpy(copy, text, size);
    *name = copy;
    return SAMBA_OK;
}

/* ---- metadata ---- */

static size_t size_of(uint64_t kind)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return sizes[kind];
}

static samba_status take_kind(cursor *c, samba_gguf_kind *kind)
{
    uint64_t number;
    SAMBA_TRY(take_number(c, 4, &number));
    if (number > SAMBA_GGUF_FLOAT64)
        return samba_fail(c->gguf->context, SAMBA_ERROR_FORMAT, "%s: a value of type %llu, where types are numbered 0 to 12",
                          c->gguf->path, (unsigned long long)number);
    *kind = (samba_gguf_kind)number;
    return SAMBA_OK;
}

static samba_status take_array(cursor *c, int depth, samba_gguf_value *value);

/* What stands behind the kind of a value. */
static samba_status take_value(cursor *c, samba_gguf_kind kind, int depth, samba_gguf_value *value)
{
    uint64_t size = size_of(kind);
    *value = (samba_gguf_value){.kind = kind};
    if (kind == SAMBA_GGUF_ARRAY)
        return take_array(c, depth, value);
    SAMBA_TRY(kind == SAMBA_GGUF_STRING ? take_text(c, &value->data, &size) : take(c, size, &value->data));
    value->size = size;
    if (kind == SAMBA_GGUF_BOOL && (uint8_t)value->data[0] > 1)
        return fail(c, "a value of true or false is neither 0 nor 1");
    return SAMBA_OK;
}

static samba_status take_array(cursor *c, int depth, samba_gguf_value *value)
{
    uint64_t count;
    samba_gguf_value element;
    SAMBA_TRY(take_kind(c, &value->element));
    SAMBA_TRY(take_number(c, 8, &count));
    const size_t begin = c->at, each = size_of(value->element);
    const size_t least = each ? each : value->element == SAMBA_GGUF_STRING ? 8 : 12;
    if (depth == DEPTH)
        return samba_fail(c->gguf->context, SAMBA_ERROR_UNSUPPORTED, "%s: arrays within arrays, %d deep: supported is less",
                          c->gguf->path, DEPTH + 1);
    if (count > (uint64_t)c->gguf->whole / least)
        return samba_fail(c->gguf->context, SAMBA_ERROR_FORMAT, "%s: an array of %llu elements, more than the file has bytes for",
                          c->gguf->path, (unsigned long long)count);
    if (each && value->element != SAMBA_GGUF_BOOL)
        SAMBA_TRY(take(c, count * each, &value->data));
    else
        for (uint64_t i = 0; i < count; i++)
            SAMBA_TRY(take_value(c, value->element, depth + 1, &element));
    value->count = (int64_t)count;
    value->data = c->gguf->data + begin;
    value->size = c->at - begin;
    return SAMBA_OK;
}

static samba_status take_entries(cursor *c)
{
    samba_gguf *g = c->gguf;
    for (int64_t i = 0; i < g->entry_count; i++) {
        samba_gguf_kind kind = SAMBA_GGUF_UINT8;
        SAMBA_TRY(take_name(c, &g->entries[i].key));
        SAMBA_TRY(take_kind(c, &kind));
        SAMBA_TRY(take_value(c, kind, 0, &g->entries[i].value));
    }
    return SAMBA_OK;
}

/* ---- tensors ---- */

static samba_status fail_tensor(const cursor *c, const samba_gguf_tensor *t, samba_status status, const char *what)
{
    char shown[SAMBA_SHOWN];
    return samba_fail(c->gguf->context, status, "%s: tensor \"%.200s\" %s", c->gguf->path, samba_shown(t->name, shown), what);
}

static samba_status take_type(cursor *c, samba_gguf_tensor *t)
{
    uint64_t number;
    char words[256];
    SAMBA_TRY(take_number(c, 4, &number));
    const samba_gguf_facts facts = samba_gguf_type_facts((uint32_t)number);
    if (!facts.elements) {
        if (facts.name)
            snprintf(words, sizeof words, "is %s: supported are %s", facts.name, samba_gguf_supported);
        else
            snprintf(words, sizeof words, "is of type %llu: supported are %s", (unsigned long long)number, samba_gguf_supported);
        return fail_tensor(c, t, SAMBA_ERROR_UNSUPPORTED, words);
    }
    t->type = (samba_gguf_type)number;
    if (t->shape[t->rank - 1] % facts.elements != 0) {
        snprintf(words, sizeof words, "has rows of %lld, and %s has blocks of %lld", (long long)t->shape[t->rank - 1], facts.name,
                 (long long)facts.elements);
        return fail_tensor(c, t, SAMBA_ERROR_FORMAT, words);
    }
    if (!samba_mul_checked(t->elements / facts.elements, facts.bytes, &t->bytes))
        return fail_tensor(c, t, SAMBA_ERROR_FORMAT, "has more than 2^63 bytes");
    return SAMBA_OK;
}

static samba_status take_tensor(cursor *c, samba_gguf_tensor *t)
{
    uint64_t rank, dim, offset;
    SAMBA_TRY(take_name(c, &t->name));
    SAMBA_TRY(take_number(c, 4, &rank));
    if (rank < 1 || rank > SAMBA_GGUF_DIMS)
        return fail_tensor(c, t, SAMBA_ERROR_FORMAT, "has a rank that is none of 1 to 4");
    t->rank = (int)rank;
    t->elements = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        SAMBA_TRY(take_number(c, 8, &dim));
        if (dim < 1 || dim > MOST_DIM || !samba_mul_checked(t->elements, (int64_t)dim, &t->elements))
            return fail_tensor(c, t, SAMBA_ERROR_FORMAT, "has a size of 0, or sizes beyond all files");
        t->shape[i] = (int64_t)dim;
    }
    SAMBA_TRY(take_type(c, t));
    SAMBA_TRY(take_number(c, 8, &offset));
    if (offset > INT64_MAX)
        return fail_tensor(c, t, SAMBA_ERROR_FORMAT, "lies behind the end of the file");
    t->offset = (int64_t)offset;
    return SAMBA_OK;
}

static int by_offset(const void *a, const void *b)
{
    const samba_gguf_tensor *const *s = a, *const *t = b;
    return ((*s)->offset > (*t)->offset) - ((*s)->offset < (*t)->offset);
}

static samba_status check_places(cursor *c, int64_t begin, int64_t alignment)
{
    samba_gguf *g = c->gguf;
    const samba_gguf_tensor **sorted;
    SAMBA_TRY(SAMBA_ROOM(&g->arena, sorted, g->tensor_count + 1));
    for (int64_t i = 0; i < g->tensor_count; i++) {
        samba_gguf_tensor *t = &g->tensors[i];
        int64_t end;
        sorted[i] = t;
        if (t->offset % alignment != 0)
            return fail_tensor(c, t, SAMBA_ERROR_FORMAT, "does not lie at a multiple of the alignment");
        if (!samba_add_checked(begin, t->offset, &t->offset) || !samba_add_checked(t->offset, t->bytes, &end) || end > g->whole)
            return fail_tensor(c, t, SAMBA_ERROR_FORMAT, "lies behind the end of the file");
    }
    qsort(sorted, (size_t)g->tensor_count, sizeof(samba_gguf_tensor *), by_offset);
    for (int64_t i = 1; i < g->tensor_count; i++)
        if (sorted[i]->offset - sorted[i - 1]->offset < sorted[i - 1]->bytes)
            return fail_tensor(c, sorted[i], SAMBA_ERROR_FORMAT, "lies over another one");
    return SAMBA_OK;
}

static samba_status find_data(cursor *c)
{
    samba_gguf *g = c->gguf;
    const samba_gguf_value *value = samba_gguf_find(g, "general.alignment");
    char shown[SAMBA_GGUF_SHOWN];
    int64_t alignment = 32;
    if (value && (!samba_gguf_integer(value, &alignment) || alignment < 1 || alignment > MOST_ALIGNMENT || alignment % 8 != 0))
        return samba_fail(g->context, SAMBA_ERROR_FORMAT, "%s: \"general.alignment\" is %s: expected is a multiple of 8 up to %d",
                          g->path, samba_gguf_shown(value, shown), MOST_ALIGNMENT);
    return check_places(c, ((int64_t)c->at + alignment - 1) / alignment * alignment, alignment);
}

/* ---- names ---- */

static samba_status twice(const samba_gguf *g, const char *name)
{
    char shown[SAMBA_SHOWN];
    return samba_fail(g->context, SAMBA_ERROR_FORMAT, "%s: \"%.200s\" is there twice", g->path, samba_shown(name, shown));
}

static samba_status index_entries(samba_gguf *g)
{
    int32_t duplicate;
    SAMBA_TRY(samba_names_build(&g->keys, g->context, g->entries, sizeof *g->entries, (int32_t)g->entry_count, &duplicate));
    return duplicate < 0 ? SAMBA_OK : twice(g, g->entries[duplicate].key);
}

static samba_status index_tensors(samba_gguf *g)
{
    int32_t duplicate;
    SAMBA_TRY(samba_names_build(&g->names, g->context, g->tensors, sizeof *g->tensors, (int32_t)g->tensor_count, &duplicate));
    return duplicate < 0 ? SAMBA_OK : twice(g, g->tensors[duplicate].name);
}

const samba_gguf_value *samba_gguf_find(const samba_gguf *g, const char *key)
{
    const int32_t at = samba_names_find(&g->keys, key);
    return at < 0 ? NULL : &g->entries[at].value;
}

const samba_gguf_tensor *samba_gguf_tensor_find(const samba_gguf *g, const char *name)
{
    const int32_t at = samba_names_find(&g->names, name);
    return at < 0 ? NULL : &g->tensors[at];
}

/* ---- the header ---- */

static samba_status take_counts(cursor *c)
{
    samba_gguf *g = c->gguf;
    const char *begin = NULL;
    uint64_t version, tensors, entries;
    SAMBA_TRY(take(c, sizeof magic, &begin));
    if (memcmp(begin, magic, sizeof magic) != 0)
        return fail(c, "this is no GGUF file: it does not begin with those letters");
    SAMBA_TRY(take_number(c, 4, &version));
    if (version == 0x02000000 || version == 0x03000000)
        return samba_fail(g->context, SAMBA_ERROR_UNSUPPORTED, "%s: a big-endian GGUF file: supported is little-endian", g->path);
    if (version != 2 && version != 3)
        return samba_fail(g->context, SAMBA_ERROR_UNSUPPORTED, "%s: version %llu of GGUF: supported are 2 and 3", g->path,
                          (unsigned long long)version);
    SAMBA_TRY(take_number(c, 8, &tensors));
    SAMBA_TRY(take_number(c, 8, &entries));
    const uint64_t whole = (uint64_t)g->whole;
    if (tensors > whole / LEAST_TENSOR || entries > whole / LEAST_ENTRY || tensors > INT32_MAX || entries > INT32_MAX)
        return samba_fail(g->context, SAMBA_ERROR_FORMAT,
                          "%s: %llu tensors and %llu values of metadata are more than the file has bytes for", g->path,
                          (unsigned long long)tensors, (unsigned long long)entries);
    g->tensor_count = (int64_t)tensors;
    g->entry_count = (int64_t)entries;
    return SAMBA_OK;
}

static samba_status parse(cursor *c)
{
    samba_gguf *g = c->gguf;
    SAMBA_TRY(take_counts(c));
    SAMBA_TRY(SAMBA_ROOM(&g->arena, g->entries, g->entry_count + 1));
    SAMBA_TRY(take_entries(c));
    SAMBA_TRY(index_entries(g));
    SAMBA_TRY(SAMBA_ROOM(&g->arena, g->tensors, g->tensor_count + 1));
    for (int64_t i = 0; i < g->tensor_count; i++)
        SAMBA_TRY(take_tensor(c, &g->tensors[i]));
    SAMBA_TRY(index_tensors(g));
    return find_data(c);
}

/* ---- opening ---- */

static samba_status begin(samba_context *context, const char *path, samba_gguf **gguf)
{
    char *copy;
    samba_gguf *g = *gguf = samba_calloc(context, sizeof *g);
    if (!g)
        return SAMBA_ERROR_MEMORY;
    g->context = context;
    samba_arena_init(&g->arena, context);
    samba_status status = samba_arena_copy(&g->arena, path, &copy);
    if (status != SAMBA_OK) {
        samba_gguf_free(g);
        *gguf = NULL;
        return status;
    }
    g->path = copy;
    return SAMBA_OK;
}

void samba_gguf_free(samba_gguf *g)
{
    if (!g)
        return;
    samba_names_free(&g->keys);
    samba_names_free(&g->names);
    samba_arena_free(&g->arena);
    if (g->owns)
        samba_free(g->context, (char *)g->data, g->size);
    samba_free(g->context, g, sizeof *g);
}

samba_status samba_gguf_open_memory(samba_context *context, const char *path, const void *data, size_t size, samba_gguf **gguf)
{
    SAMBA_TRY(begin(context, path, gguf));
    samba_gguf *g = *gguf;
    g->data = data;
    g->size = size;
    g->whole = (int64_t)size;
    g->in_memory = true;
    samba_status status = parse(&(cursor){.gguf = g});
    if (status != SAMBA_OK) {
        samba_gguf_free(g);
        *gguf = NULL;
    }
    return status;
}

/* The header of the file's first `most` bytes; *more: they are too few. */
static samba_status open_start(samba_context *context, const char *path, size_t most, samba_gguf **gguf, bool *more)
{
    void *data;
    size_t whole;
    SAMBA_TRY(begin(context, path, gguf));
    samba_gguf *g = *gguf;
    cursor c = {.gguf = g};
    samba_status status = samba_file_read_start(context, path, most, &data, &g->size, &whole);
    if (status == SAMBA_OK) {
        g->data = data;
        g->owns = true;
        g->whole = (int64_t)whole;
        status = parse(&c);
    }
    *more = c.more;
    if (status != SAMBA_OK) {
        samba_gguf_free(g);
        *gguf = NULL;
    }
    return status;
}

samba_status samba_gguf_open(samba_context *context, const char *path, samba_gguf **gguf)
{
    bool more = false;
    size_t most = FIRST_BYTES;
    samba_status status = open_start(context, path, most, gguf, &more);
    while (more && most < SIZE_MAX / 4) {
        most *= 4;
        status = open_start(context, path, most, gguf, &more);
    }
    return status;
}

bool samba_gguf_is(const char *path)
{
    char begins[sizeof magic];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool is = read(file, begins, sizeof begins) == (ssize_t)sizeof begins && memcmp(begins, magic, sizeof magic) == 0;
    close(file);
    return is;
}

/* ---- bytes of tensors ---- */

static samba_status read_at(const samba_gguf *g, int file, int64_t offset, char *to, int64_t size)
{
    while (size > 0) {
        const ssize_t got = pread(file, to, (size_t)size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return samba_fail(g->context, SAMBA_ERROR_FILE, "%s: the bytes of a tensor cannot be read: %s", g->path,
                              got < 0 ? strerror(errno) : "the file has become shorter");
        to += got, offset += got, size -= got;
    }
    return SAMBA_OK;
}

samba_status samba_gguf_tensor_bytes(const samba_gguf *g, const samba_gguf_tensor *tensor, void *to)
{
    if (g->in_memory) {
        memcpy(to, g->data + tensor->offset, (size_t)tensor->bytes);
        return SAMBA_OK;
    }
    const int file = open(g->path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return samba_fail(g->context, SAMBA_ERROR_FILE, "%s: %s", g->path, strerror(errno));
    samba_status status = read_at(g, file, tensor->offset, to, tensor->bytes);
    close(file);
    return status;
}
