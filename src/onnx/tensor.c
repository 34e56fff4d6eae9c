/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of a model's file: raw bytes, typed lists of numbers, or bytes of another file, which is mapped.
 *
 * A tensor says its shape and holds its elements; what it says must be what it holds before memory is taken for it. A tensor
 * whose elements lie as its dtype has them is a view of the model's memory. */
#include "onnx/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define T(name) SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__##name

/* How a type's elements lie in raw bytes: `bits` each, read as `format` says. */
typedef enum format { SAME, WIDER, FLOAT8, PACKED, NEVER } format;
typedef struct type_facts {
    const char *name;
    samba_dtype dtype; /* of the tensor here */
    int bits;
    format format;
    bool is_signed; /* of PACKED */
} type_facts;
static const type_facts types[] = {
    [T(UNDEFINED)] = {"undefined", SAMBA_DTYPE_COUNT, 0, NEVER, false},
    [T(FLOAT)] = {"float", SAMBA_FLOAT32, 32, SAME, true},
    [T(UINT8)] = {"uint8", SAMBA_UINT8, 8, SAME, false},
    [T(INT8)] = {"int8", SAMBA_INT8, 8, SAME, true},
    [T(UINT16)] = {"uint16", SAMBA_INT32, 16, WIDER, false},
    [T(INT16)] = {"int16", SAMBA_INT16, 16, SAME, true},
    [T(INT32)] = {"int32", SAMBA_INT32, 32, SAME, true},
    [T(INT64)] = {"int64", SAMBA_INT64, 64, SAME, true},
    [T(STRING)] = {"string", SAMBA_DTYPE_COUNT, 0, NEVER, false},
    [T(BOOL)] = {"bool", SAMBA_BOOL, 8, SAME, false},
    [T(FLOAT16)] = {"float16", SAMBA_FLOAT16, 16, SAME, true},
    [T(DOUBLE)] = {"double", SAMBA_FLOAT64, 64, SAME, true},
    [T(UINT32)] = {"uint32", SAMBA_INT64, 32, WIDER, false},
    [T(UINT64)] = {"uint64", SAMBA_INT64, 64, SAME, false},
    [T(COMPLEX64)] = {"complex64", SAMBA_DTYPE_COUNT, 64, NEVER, false},
    [T(COMPLEX128)] = {"complex128", SAMBA_DTYPE_COUNT, 128, NEVER, false},
    [T(BFLOAT16)] = {"bfloat16", SAMBA_BFLOAT16, 16, SAME, true},
    [T(FLOAT8E4M3FN)] = {"float8e4m3fn", SAMBA_DTYPE_COUNT, 8, NEVER, true},
    [T(FLOAT8E4M3FNUZ)] = {"float8e4m3fnuz", SAMBA_DTYPE_COUNT, 8, NEVER, true},
    [T(FLOAT8E5M2)] = {"float8e5m2", SAMBA_DTYPE_COUNT, 8, NEVER, true},
    [T(FLOAT8E5M2FNUZ)] = {"float8e5m2fnuz", SAMBA_DTYPE_COUNT, 8, NEVER, true},
    [T(UINT4)] = {"uint4", SAMBA_UINT8, 4, PACKED, false},
    [T(INT4)] = {"int4", SAMBA_INT8, 4, PACKED, true},
    [T(FLOAT4E2M1)] = {"float4e2m1", SAMBA_DTYPE_COUNT, 4, NEVER, true},
    [T(FLOAT8E8M0)] = {"float8e8m0", SAMBA_DTYPE_COUNT, 8, NEVER, false},
    [T(UINT2)] = {"uint2", SAMBA_UINT8, 2, PACKED, false},
    [T(INT2)] = {"int2", SAMBA_INT8, 2, PACKED, true},
};

static const type_facts *facts_of(int32_t type)
{
    return type > 0 && type < SAMBA_COUNT(types) && types[type].name ? &types[type] : &types[T(UNDEFINED)];
}

samba_dtype samba_onnx_dtype(int32_t type) { return facts_of(type)->dtype; }
const char *samba_onnx_type_name(int32_t type) { return facts_of(type)->name; }

/* ---- external data ---- */

/* The path of a file that the model may read: below its folder, links followed. */
static samba_status resolve(samba_onnx *model, const char *tensor, const char *location, char path[PATH_MAX])
{
    char folder[PATH_MAX], joined[PATH_MAX];
    if (!model->folder)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         "%s: tensor \"%.200s\" lies in the file \"%.200s\", and the model was given without a folder",
                         model->path, tensor, location);
    if (!location[0] || location[0] == '/' || strstr(location, ".."))
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         "%s: tensor \"%.200s\" lies in \"%.200s\": a file below the model's folder is expected", model->path,
                         tensor, location);
    if (snprintf(joined, sizeof joined, "%s/%s", model->folder, location) >= (int)sizeof joined ||
        !realpath(model->folder, folder) || !realpath(joined, path))
        return ONNX_FAIL(model, SAMBA_ERROR_FILE, "%s: the file \"%.200s\" of tensor \"%.200s\": %s", model->path, location,
                         tensor, strerror(errno));
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0 || (path[length] != '/' && strcmp(folder, "/") != 0))
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         "%s: tensor \"%.200s\" lies in \"%.200s\", a link to a file outside the model's folder", model->path,
                         tensor, location);
    return SAMBA_OK;
}

static samba_status map_file(samba_onnx *model, const char *tensor, const char *location, samba_onnx_map **result)
{
    for (samba_onnx_map *map = model->maps; map; map = map->next)
        if (strcmp(map->location, location) == 0) {
            *result = map;
            return SAMBA_OK;
        }
    char path[PATH_MAX];
    SAMBA_TRY(resolve(model, tensor, location, path));
    samba_onnx_map *map;
    SAMBA_TRY(SAMBA_ROOM(&model->arena, map, 1));
    char *copy;
    SAMBA_TRY(samba_arena_copy(&model->arena, location, &copy));
    map->location = copy;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        int reason = file < 0 ? errno : 0;
        if (file >= 0)
            close(file);
        return ONNX_FAIL(model, SAMBA_ERROR_FILE, "%s: the file \"%.200s\" of tensor \"%.200s\": %s", model->path, location,
                         tensor, reason ? strerror(reason) : "it is no regular file");
    }
    map->size = (size_t)facts.st_size;
    if (map->size > 0) /* private: what is written to the tensors stays here */
        map->data = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    int reason = errno;
    close(file);
    if (map->size > 0 && map->data == MAP_FAILED)
        return ONNX_FAIL(model, SAMBA_ERROR_FILE, "%s: the file \"%.200s\" cannot be mapped: %s", model->path, location,
                         strerror(reason));
    map->next = model->maps;
    model->maps = map;
    *result = map;
    return SAMBA_OK;
}

static bool read_number(const char *text, int64_t *number)
{
    char *end;
    errno = 0;
    long long value = text ? strtoll(text, &end, 10) : -1;
    if (!text || end == text || *end || errno || value < 0)
        return false;
    *number = value;
    return true;
}

static samba_status find_external(samba_onnx *model, const Samba__Onnx__TensorProto *proto, const char *name, int64_t size,
                                  const void **data)
{
    const char *location = NULL;
    int64_t offset = 0, length = size;
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
        bool fine = key && value;
        if (fine && strcmp(key, "location") == 0)
            location = value;
        else if (fine && strcmp(key, "offset") == 0)
            fine = read_number(value, &offset);
        else if (fine && strcmp(key, "length") == 0)
            fine = read_number(value, &length);
        if (!fine)
            return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: the place of tensor \"%.200s\" is damaged: %.64s is \"%.64s\"",
                             model->path, name, key ? key : "a key", value ? value : "");
    }
    if (!location)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: tensor \"%.200s\" lies in a file that it does not name", model->path,
                         name);
    if (length != size)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: tensor \"%.200s\" has %lld bytes in \"%.200s\"; its shape takes %lld",
                         model->path, name, (long long)length, location, (long long)size);
    samba_onnx_map *map;
    SAMBA_TRY(map_file(model, name, location, &map));
    if (offset > (int64_t)map->size || length > (int64_t)map->size - offset)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         "%s: tensor \"%.200s\" lies at %llu to %llu of \"%.200s\", which has %zu bytes", model->path, name,
                         (unsigned long long)offset, (unsigned long long)offset + (unsigned long long)length, location,
                         map->size);
    *data = map->data ? map->data + offset : (const char *)"";
    return SAMBA_OK;
}

/* ---- elements ---- */

#define LARGE 4096 /* bytes of a constant that stays where the file has it */

static samba_status wrong_count(samba_onnx *model, const char *name, const char *where, int64_t held, int rank,
                                const int64_t *shape)
{
    return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: tensor \"%.200s\" of shape %s has %lld %s", model->path, name,
                     SAMBA_SHAPE(rank, shape), (long long)held, where);
}

/* From a typed list of the message. 16-bit floats are there as their bits, packed types as they are in raw bytes. */
static samba_status fill_from_list(samba_onnx *model, const Samba__Onnx__TensorProto *proto, const type_facts *facts,
                                   const char *name, samba_tensor *tensor, int64_t numel)
{
    char *to = samba_tensor_data(tensor);
    int64_t needed = facts->format == PACKED ? (numel * facts->bits + 7) / 8 : numel, held;
    size_t size = samba_dtype_size(facts->dtype);
    switch (proto->data_type) {
    case T(FLOAT): held = (int64_t)proto->n_float_data; break;
    case T(DOUBLE): held = (int64_t)proto->n_double_data; break;
    case T(INT64): held = (int64_t)proto->n_int64_data; break;
    case T(UINT32):
    case T(UINT64): held = (int64_t)proto->n_uint64_data; break;
    default: held = (int64_t)proto->n_int32_data; break;
    }
    if (held != needed)
        return wrong_count(model, name, "elements", held, tensor->rank, tensor->shape);
    for (int64_t i = 0; i < numel; i++) {
        void *element = to + (size_t)i * size;
        switch (proto->data_type) {
        case T(FLOAT): memcpy(element, &proto->float_data[i], 4); break;
        case T(DOUBLE): memcpy(element, &proto->double_data[i], 8); break;
        case T(INT64): memcpy(element, &proto->int64_data[i], 8); break;
        case T(UINT64): memcpy(element, &proto->uint64_data[i], 8); break;
        case T(UINT32): samba_store_int64(facts->dtype, element, (int64_t)(uint32_t)proto->uint64_data[i]); break;
        case T(UINT16): samba_store_int64(facts->dtype, element, (uint16_t)proto->int32_data[i]); break;
        case T(BOOL): *(uint8_t *)element = proto->int32_data[i] != 0; break;
        case T(FLOAT16):
        case T(BFLOAT16): memcpy(element, &(uint16_t){(uint16_t)proto->int32_data[i]}, 2); break;
        default:
            if (facts->format == PACKED) {
                int64_t bit = i * facts->bits;
                int value = proto->int32_data[bit / 8] >> (bit % 8) & ((1 << facts->bits) - 1);
                if (facts->is_signed && value >> (facts->bits - 1))
                    value -= 1 << facts->bits;
                *(int8_t *)element = (int8_t)value;
            } else
                samba_store_int64(facts->dtype, element, proto->int32_data[i]);
        }
    }
    return SAMBA_OK;
}

static void fill_from_bytes(const type_facts *facts, const uint8_t *from, samba_tensor *tensor, int64_t numel)
{
    char *to = samba_tensor_data(tensor);
    size_t size = samba_dtype_size(facts->dtype);
    if (facts->format == SAME) {
        if (numel > 0)
            memcpy(to, from, (size_t)numel * size);
        if (facts->dtype == SAMBA_BOOL)
            for (int64_t i = 0; i < numel; i++)
                to[i] = to[i] != 0;
        return;
    }
    for (int64_t i = 0; i < numel; i++) {
        int64_t value = 0;
        if (facts->format == WIDER)
            memcpy(&value, from + i * (facts->bits / 8), (size_t)facts->bits / 8);
        else {
            int64_t bit = i * facts->bits;
            value = from[bit / 8] >> (bit % 8) & ((1 << facts->bits) - 1);
            if (facts->is_signed && value >> (facts->bits - 1))
                value -= 1 << facts->bits;
        }
        samba_store_int64(facts->dtype, to + (size_t)i * size, value);
    }
}

static void release(void *model) { samba_onnx_free(model); }

typedef struct place { /* of a tensor's elements */
    const char *name;
    const type_facts *facts;
    int rank;
    const int64_t *shape;
    int64_t numel;
    const void *data; /* its bytes in the file; NULL: a list of the message has its elements */
} place;

static samba_status find_place(samba_onnx *model, const Samba__Onnx__TensorProto *proto, place *p)
{
    static const int64_t zero;
    const char *name = proto->name ? proto->name : "";
    *p = (place){.name = name, .facts = facts_of(proto->data_type)};
    if (p->facts->dtype == SAMBA_DTYPE_COUNT)
        return ONNX_FAIL(model, SAMBA_ERROR_UNSUPPORTED, "tensor \"%.200s\" is of type %s, which SambaFlow has not", name,
                         p->facts->name);
    if (proto->n_dims > SAMBA_MAX_RANK)
        return ONNX_FAIL(model, SAMBA_ERROR_UNSUPPORTED, "tensor \"%.200s\" has %zu dims; at most %d are supported", name,
                         proto->n_dims, SAMBA_MAX_RANK);
    int64_t bits;
    p->rank = (int)proto->n_dims;
    p->shape = p->rank ? proto->dims : &zero;
    if (!samba_shape_numel(p->rank, p->shape, &p->numel) || !samba_mul_checked(p->numel, 64, &bits))
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: tensor \"%.200s\" has a shape that is none", model->path, name);
    if (proto->segment)
        return ONNX_FAIL(model, SAMBA_ERROR_UNSUPPORTED, "tensor \"%.200s\" is stored in segments; store it whole", name);
    const int64_t size = (p->numel * p->facts->bits + 7) / 8,
                  listed = (int64_t)(proto->n_float_data + proto->n_double_data + proto->n_int64_data + proto->n_uint64_data);
    if (proto->has_data_location && proto->data_location == SAMBA__ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return find_external(model, proto, name, size, &p->data);
    if (proto->has_raw_data) {
        if ((int64_t)proto->raw_data.len != size)
            return wrong_count(model, name, "bytes", (int64_t)proto->raw_data.len, p->rank, p->shape);
        p->data = proto->raw_data.data ? proto->raw_data.data : (const uint8_t *)"";
    } else if (p->numel > listed + (int64_t)proto->n_int32_data * 4)
        return wrong_count(model, name, "elements", listed + (int64_t)proto->n_int32_data, p->rank, p->shape);
    return SAMBA_OK;
}

/* The elements lie in the file as memory has them. */
static bool is_as_memory(const place *p)
{
    return p->data && p->facts->format == SAME && p->facts->dtype != SAMBA_BOOL && p->numel > 0;
}

samba_status samba_onnx_form_of(samba_onnx *model, const Samba__Onnx__TensorProto *proto, samba_onnx_form *form)
{
    place p;
    SAMBA_TRY(find_place(model, proto, &p));
    *form = (samba_onnx_form){p.facts->dtype, p.rank, p.shape, p.numel * (int64_t)samba_dtype_size(p.facts->dtype)};
    return SAMBA_OK;
}

samba_status samba_onnx_tensor(samba_onnx *model, const Samba__Onnx__TensorProto *proto, samba_tensor **tensor)
{
    place p;
    *tensor = NULL;
    SAMBA_TRY(find_place(model, proto, &p));
    if (is_as_memory(&p) && (uintptr_t)p.data % samba_dtype_size(p.facts->dtype) == 0) {
        SAMBA_TRY(samba_tensor_from_memory(model->context, p.name, p.facts->dtype, p.rank, p.shape, NULL,
                                           (void *)(uintptr_t)p.data, release, model, tensor));
        samba_onnx_hold(model);
        return SAMBA_OK;
    }
    SAMBA_TRY(samba_tensor_new(model->context, p.name, p.facts->dtype, p.rank, p.shape, tensor));
    samba_status status = SAMBA_OK;
    if (p.data)
        fill_from_bytes(p.facts, p.data, *tensor, p.numel);
    else
        status = fill_from_list(model, proto, p.facts, p.name, *tensor, p.numel);
    if (status != SAMBA_OK) {
        samba_tensor_free(*tensor);
        *tensor = NULL;
    }
    return status;
}

samba_status samba_onnx_constant_of(samba_onnx *model, const Samba__Onnx__TensorProto *proto, samba_graph *graph,
                                    samba_value *value)
{
    place p;
    samba_tensor *tensor;
    *value = (samba_value){NULL, SAMBA_NONE, 0};
    SAMBA_TRY(find_place(model, proto, &p));
    if (is_as_memory(&p) && p.numel * (int64_t)samba_dtype_size(p.facts->dtype) >= LARGE) {
        samba_onnx_hold(model);
        *value = samba_constant_memory(graph, p.facts->dtype, p.rank, p.shape, p.data, release, model);
        return SAMBA_OK;
    }
    SAMBA_TRY(samba_onnx_tensor(model, proto, &tensor));
    *value = samba_constant_tensor(graph, tensor);
    samba_tensor_free(tensor);
    return SAMBA_OK;
}
