/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a model: scanned, then read by protobuf-c.
 *
 * protobuf-c recurses as deep as a file nests and takes memory as a file asks. So the wire format is scanned first, along the
 * message's descriptors: how deep it nests, and how much memory its messages will take. A file of small messages may ask for a
 * hundred times its size; one that asks for more than MOST_TIMES is none that any exporter writes.
 *
 * Blocks of the message belong to the model. Small ones are cut from large ones; freeing them does nothing. */
#include "base/null.h"
#include "onnx/onnx.h"
#include "onnx/wire.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEEPEST 100
#define MOST_TIMES 32
#define ROOM (1 << 20)   /* bytes that any file may take */
#define BLOCK (64 << 10) /* small requests are cut from blocks of this size */
#define SMALL (4 << 10)
#define MAPPED (1 << 20) /* bytes of a file that is mapped: a smaller one is copied, whatever becomes of it then */

/* ---- memory ---- */

struct samba_onnx_memory {
    samba_onnx_memory *next;
    size_t size, used; /* with this head */
};
#define HEAD ((sizeof(samba_onnx_memory) + 15) / 16 * 16)

static samba_onnx_memory *new_block(samba_onnx *model, size_t size)
{
    samba_onnx_memory *block = samba_alloc(model->context, HEAD + size);
    if (!block)
        return NULL;
    *block = (samba_onnx_memory){model->blocks, HEAD + size, HEAD};
    return model->blocks = block;
}

static void *give(void *user, size_t size)
{
    samba_onnx *model = user;
    size = (size + 15) / 16 * 16;
    samba_onnx_memory *block = model->blocks;
    if (size > SMALL) {
        samba_onnx_memory *current = block;
        if (!(block = new_block(model, size)))
            return NULL;
        if (current) { /* small ones go on where they were */
            model->blocks = current;
            block->next = current->next;
            current->next = block;
        }
    } else if ((!block || block->size - block->used < size) && !(block = new_block(model, BLOCK)))
        return NULL;
    void *given = (char *)block + block->used;
    block->used += size;
    return given;
}

static void take_back(void *user, void *block)
{
    (void)user;
    (void)block;
}

/* ---- scanning ---- */

/* Adds the memory that protobuf-c takes for a message; false where it is damaged or too deep. */
static bool scan_message(const ProtobufCMessageDescriptor *message, samba_onnx_wire s, int depth, uint64_t *memory, bool *deep)
{
    if (depth > DEEPEST) {
        *deep = true;
        return false;
    }
    *memory += message->sizeof_message + 16;
    const uint8_t *begin = s.at;
    uint64_t seen = 0; /* bit i: field i, a message that is no list */
    while (s.at < s.end) {
        samba_onnx_field given;
        if (!samba_onnx_wire_next(&s, &given))
            return false;
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(message, given.number);
        const uint64_t size = (uint64_t)(given.content.end - given.content.at);
        if (field && field->type == PROTOBUF_C_TYPE_MESSAGE && given.is_bytes &&
            !scan_message(field->descriptor, given.content, depth + 1, memory, deep))
            return false;
        if (field && field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED) {
            /* one that comes again is joined with what came before, whose lists are copied */
            uint64_t bit = (uint64_t)1 << ((field - message->fields) & 63);
            *memory += seen & bit ? 8 * (uint64_t)(given.content.at - begin) : 0;
            seen |= bit;
        }
        /* an element of a list, or of a packed one as many as its bytes may be; a field of text is copied */
        *memory +=
            16 + size +
            (given.is_bytes && field && field->label == PROTOBUF_C_LABEL_REPEATED && field->type != PROTOBUF_C_TYPE_MESSAGE &&
                     field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_BYTES &&
                     field->type != PROTOBUF_C_TYPE_FLOAT && field->type != PROTOBUF_C_TYPE_DOUBLE
                 ? 8 * size
                 : 0);
    }
    return true;
}

static samba_status unpack(samba_onnx *model, const void *data, size_t size)
{
    ProtobufCAllocator allocator = {give, take_back, model};
    int64_t refused = samba_memory_refused(model->context);
    model->message = samba__onnx__model_proto__unpack(&allocator, size, data);
    if (!model->message && samba_memory_refused(model->context) > refused)
        return SAMBA_ERROR_MEMORY;
    if (!model->message)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: it is no ONNX file, or a damaged one", model->path);
    return SAMBA_OK;
}

/* `stays`: the bytes are there as long as the model. */
static samba_status parse(samba_onnx *model, const void *data, size_t size, bool stays)
{
    uint64_t memory = 0;
    bool deep = false;
    model->size = size;
    if (size > INT_MAX) /* protobuf's own limit */
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         "%s: %zu bytes are no ONNX file: its format ends at 2 GiB, beyond which tensors lie in files beside it",
                         model->path, size);
    if (!scan_message(&samba__onnx__model_proto__descriptor, (samba_onnx_wire){data, (const uint8_t *)data + size}, 0, &memory,
                      &deep))
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         deep ? "%s: graphs or types are nested more than %d deep" : "%s: it is no ONNX file, or a damaged one",
                         model->path, DEEPEST);
    if (memory > (uint64_t)size * MOST_TIMES + ROOM)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         "%s: reading %zu bytes would take %llu: it is no ONNX file that a program wrote", model->path, size,
                         (unsigned long long)memory);
    return stays ? samba_onnx_unpack_thin(model, data, size, unpack) : unpack(model, data, size);
}

/* ---- what a model must have ---- */

static samba_status check(samba_onnx *model)
{
    const Samba__Onnx__ModelProto *message = model->message;
    const Samba__Onnx__GraphProto *graph = message->graph;
    if (!graph)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: the model has no graph", model->path);
    if (message->n_opset_import == 0)
        return ONNX_FAIL(model, SAMBA_ERROR_FORMAT,
                         "%s: the model does not say which version of the operators it uses (opset_import)", model->path);
    if (graph->n_sparse_initializer > 0)
        return ONNX_FAIL(model, SAMBA_ERROR_UNSUPPORTED, "%s: it has %zu sparse initializers; store them as dense ones",
                         model->path, graph->n_sparse_initializer);
    SAMBA_TRY(samba_onnx_find_stored(model));
    SAMBA_TRY(
        SAMBA_ROOM(&model->arena, model->inputs, graph->n_input + 1)); /* initializers may be inputs too: those do not count */
    for (size_t i = 0; i < graph->n_input; i++) {
        if (!graph->input[i]->name || !graph->input[i]->name[0])
            return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: input %zu of the graph has no name", model->path, i);
        if (!samba_onnx_stored_as(model, graph->input[i]->name))
            model->inputs[model->input_count++] = graph->input[i];
    }
    for (size_t i = 0; i < graph->n_output; i++)
        if (!graph->output[i]->name || !graph->output[i]->name[0])
            return ONNX_FAIL(model, SAMBA_ERROR_FORMAT, "%s: output %zu of the graph has no name", model->path, i);
    return SAMBA_OK;
}

/* ---- opening ---- */

static samba_status new_model(samba_context *context, const char *path, const char *folder, samba_onnx **result)
{
    samba_onnx *model = samba_calloc(context, sizeof *model);
    if (!model)
        return SAMBA_ERROR_MEMORY;
    model->context = context;
    model->holders = 1;
    samba_arena_init(&model->arena, context);
    model->path = samba_arena_strdup(&model->arena, path);
    model->folder = folder ? samba_arena_strdup(&model->arena, folder) : NULL;
    if (!model->path || (folder && !model->folder)) {
        samba_onnx_free(model);
        return SAMBA_ERROR_MEMORY;
    }
    *result = model;
    return SAMBA_OK;
}

static samba_status open_bytes(samba_onnx *model, const void *data, size_t size, bool stays, samba_onnx **result)
{
    samba_status status = parse(model, data, size, stays);
    if (status == SAMBA_OK)
        status = check(model);
    if (status != SAMBA_OK) {
        samba_onnx_free(model);
        return status;
    }
    *result = model;
    return SAMBA_OK;
}

/* Whether the file is in memory now, where its tensors stay. */
static bool map_large(samba_onnx *model, const char *path)
{
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    void *data = MAP_FAILED;
    if (file < 0)
        return false;
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size >= MAPPED)
        data = mmap(NULL, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    (void)close(file);
    if (data == MAP_FAILED)
        return false;
    model->file = data;
    model->file_size = (size_t)facts.st_size;
    return true;
}

samba_status samba_onnx_open(samba_context *context, const char *path, samba_onnx **result)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, path);
    SAMBA_NEED(context, result);
    *result = NULL;
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX] = ".";
    if (slash && (size_t)(slash - path) < sizeof folder - 1)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    void *data;
    size_t size;
    samba_onnx *model;
    SAMBA_TRY(new_model(context, path, folder, &model));
    if (map_large(model, path))
        return open_bytes(model, model->file, model->file_size, true, result);
    samba_status status = samba_file_read(context, path, &data, &size);
    if (status != SAMBA_OK) {
        samba_onnx_free(model);
        return status;
    }
    status = open_bytes(model, data, size, false, result);
    samba_free(context, data, size);
    return status;
}

samba_status samba_onnx_open_memory(samba_context *context, const void *data, size_t size, const char *folder,
                                    samba_onnx **result)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, data);
    SAMBA_NEED(context, result);
    *result = NULL;
    samba_onnx *model;
    SAMBA_TRY(new_model(context, "model", folder, &model));
    return open_bytes(model, data, size, false, result);
}

void samba_onnx_hold(samba_onnx *model) { model->holders++; }

void samba_onnx_free(samba_onnx *model)
{
    if (!model || --model->holders > 0)
        return;
    for (samba_onnx_memory *block = model->blocks, *next; block; block = next) {
        next = block->next;
        samba_free(model->context, block, block->size);
    }
    for (samba_onnx_map *map = model->maps; map; map = map->next)
        if (map->size > 0)
            munmap(map->data, map->size);
    if (model->file)
        munmap(model->file, model->file_size);
    if (model->kept)
        samba_free(model->context, model->kept, (size_t)model->kept_capacity * sizeof *model->kept);
    samba_arena_free(&model->arena);
    samba_free(model->context, model, sizeof *model);
}

/* ---- inputs and outputs ---- */

static samba_status tell(const samba_onnx *model, const char *what, int index, int count, Samba__Onnx__ValueInfoProto **values,
                         samba_onnx_tensor_info *info)
{
    if (index < 0 || index >= count)
        return ONNX_FAIL(model, SAMBA_ERROR_INDEX, "%s: there is no %s %d; it has %d", model->path, what, index, count);
    const Samba__Onnx__ValueInfoProto *value = values[index];
    const Samba__Onnx__TypeProto__Tensor *tensor =
        value->type && value->type->value_case == SAMBA__ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? value->type->tensor_type : NULL;
    *info = (samba_onnx_tensor_info){.name = value->name,
                                     .dtype = tensor ? samba_onnx_dtype(tensor->elem_type) : SAMBA_DTYPE_COUNT,
                                     .rank = tensor && tensor->shape ? (int)tensor->shape->n_dim : -1};
    if (info->rank > SAMBA_MAX_RANK)
        return ONNX_FAIL(model, SAMBA_ERROR_UNSUPPORTED, "%s: %s \"%.200s\" has %d dims; at most %d are supported", model->path,
                         what, value->name, info->rank, SAMBA_MAX_RANK);
    for (int i = 0; i < info->rank; i++) {
        const Samba__Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
        bool number = dim->value_case == SAMBA__ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        info->shape[i] = number && dim->dim_value >= 0 ? dim->dim_value : -1;
        info->dims[i] = dim->value_case == SAMBA__ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param
                            ? dim->dim_param
                            : "";
    }
    return SAMBA_OK;
}

int samba_onnx_input_count(const samba_onnx *model) { return model ? model->input_count : 0; }

samba_status samba_onnx_input(const samba_onnx *model, int index, samba_onnx_tensor_info *info)
{
    if (!model || !info)
        return SAMBA_ERROR_ARGUMENT;
    return tell(model, "input", index, model->input_count, model->inputs, info);
}

int samba_onnx_output_count(const samba_onnx *model) { return model ? (int)model->message->graph->n_output : 0; }

samba_status samba_onnx_output(const samba_onnx *model, int index, samba_onnx_tensor_info *info)
{
    if (!model || !info)
        return SAMBA_ERROR_ARGUMENT;
    return tell(model, "output", index, (int)model->message->graph->n_output, model->message->graph->output, info);
}

bool samba_onnx_built_in(const samba_onnx *model, int index)
{
    return model && index >= 0 && index < 64 && index < model->input_count && model->built_in >> index & 1;
}
