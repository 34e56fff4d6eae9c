/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan -> bytes -> file. The plan is laid over protobuf-c's structs (lists point straight into the plan), packed, and put between
 * header and blobs. Only numbers and texts of the plan get in, in their order: one plan gives one sequence of bytes.
 *
 * The structs and the packed message live in a scratch arena that is gone when writing ends. */
#include "pef/format.h"
#include "pef/pef.pb-c.h"

#include <stdint.h>
#include <string.h>

/* `count` zeroed messages and the list of pointers to them. */
static void *new_list(samba_arena *arena, int32_t count, size_t item_size)
{
    size_t list_size = (size_t)samba_pef_align((int64_t)count * (int64_t)sizeof(void *));
    char *block = samba_arena_alloc(arena, list_size + (size_t)count * item_size);
    void **list = (void **)block;
    for (int32_t i = 0; block && i < count; i++)
        list[i] = block + list_size + (size_t)i * item_size;
    return list;
}

/* put_MESSAGE(from, ranks, to): the fields of fields.def. Lists are the plan's own. */
#define MESSAGE(Message, message, type)                                                                                          \
    static void put_##message(const type *from, const samba_pef_ranks *ranks, Samba__Pef__##Message *to)                         \
    {                                                                                                                            \
        (void)ranks;                                                                                                             \
        samba__pef__##message##__init(to);
#define END }
#define NUMBER(field) to->field = from->field;
#define RANGE(field, what, low, high) NUMBER(field)
#define FLAG(field) NUMBER(field)
#define LATER(field) to->has_##field = 1, to->field = from->field;
#define SPARSE(field) to->has_##field = from->field != 0, to->field = from->field;
#define SPARSE_FLAG(field) SPARSE(field)
#define TEXT(field) to->field = from->field ? from->field : (char *)"";
#define SHAPE(field, rank, what, room) LIST(field, from->rank, what)
#define LIST(field, count, what) to->n_##field = (size_t)(count), to->field = (void *)(uintptr_t)from->field;
#include "pef/fields.def"

/* The list `to` of a message: as many messages as `from` has structs, put one by one. */
#define PUT_LIST(arena, message, to, from, count, ranks)                                                                         \
    do {                                                                                                                         \
        (to) = new_list((arena), (count), sizeof **(to));                                                                        \
        for (int32_t put_at = 0; (to) && put_at < (count); put_at++)                                                             \
            put_##message(&(from)[put_at], (ranks), (to)[put_at]);                                                               \
        if (!(to))                                                                                                               \
            return SAMBA_ERROR_MEMORY;                                                                                           \
    } while (0)

/* A message of its own. */
#define PUT_NEW(arena, message, to, from, ranks)                                                                                 \
    do {                                                                                                                         \
        SAMBA_TRY(SAMBA_ROOM((arena), (to), 1));                                                                                 \
        put_##message((from), (ranks), (to));                                                                                    \
    } while (0)

static samba_status fill_program(samba_arena *arena, const samba_program *program, Samba__Pef__Program *message)
{
    samba__pef__program__init(message);
    message->setup = program->setup;
    message->n_registers = (size_t)program->register_count;
    message->n_instructions = (size_t)program->instruction_count;
    message->n_steps = (size_t)program->step_count;
    PUT_LIST(arena, register, message->registers, program->registers, program->register_count, NULL);
    PUT_LIST(arena, instruction, message->instructions, program->instructions, program->instruction_count, NULL);
    PUT_LIST(arena, step, message->steps, program->steps, program->step_count, NULL);
    return SAMBA_OK;
}

static samba_status fill_factor(samba_arena *arena, const samba_contract *contract, const samba_factor *factor, int32_t own_rank,
                                Samba__Pef__Factor **message)
{
    const samba_pef_ranks ranks = {contract->batch_rank, own_rank, contract->k_rank};
    PUT_NEW(arena, factor, *message, factor, &ranks);
    (*message)->n_windows = (size_t)factor->window_count;
    PUT_LIST(arena, window, (*message)->windows, factor->windows, factor->window_count, &ranks);
    for (int32_t i = 0; i < factor->window_count; i++)
        (*message)->windows[i]->base_ = factor->windows[i].base;
    return SAMBA_OK;
}

static samba_status fill_contract(samba_arena *arena, const samba_contract *contract, Samba__Pef__Contract **message)
{
    PUT_NEW(arena, contract, *message, contract, NULL);
    SAMBA_TRY(fill_factor(arena, contract, &contract->a, contract->m_rank, &(*message)->a));
    return fill_factor(arena, contract, &contract->b, contract->n_rank, &(*message)->b);
}

_Static_assert(sizeof(samba_stage_operator) == 3 * sizeof(int32_t) && sizeof(samba_plan_location) == 3 * sizeof(int32_t),
               "lists of numbers");

static samba_status fill_stage(samba_arena *arena, const samba_stage *stage, Samba__Pef__Stage *message)
{
    const samba_pef_ranks ranks = {.own = stage->rank};
    message->n_operators = 3 * (size_t)stage->operator_count;
    message->operators = (int32_t *)(void *)stage->operators;
    message->n_operands = (size_t)stage->operand_count;
    PUT_LIST(arena, operand, message->operands, stage->operands, stage->operand_count, &ranks);
    if (stage->kind == SAMBA_STAGE_TILE || stage->kind == SAMBA_STAGE_CONTRACT) {
        SAMBA_TRY(SAMBA_ROOM(arena, message->program, 1));
        SAMBA_TRY(fill_program(arena, &stage->program, message->program));
    }
    if (stage->kind == SAMBA_STAGE_CONTRACT)
        SAMBA_TRY(fill_contract(arena, &stage->contract, &message->contract));
    if (stage->kind == SAMBA_STAGE_POOL)
        PUT_NEW(arena, pool, message->pool, &stage->pool, NULL);
    if (stage->kind == SAMBA_STAGE_GATHER)
        PUT_NEW(arena, gather, message->gather, &stage->gather, NULL);
    if (stage->kind == SAMBA_STAGE_ATTENTION)
        PUT_NEW(arena, attention, message->attention, &stage->attention, NULL);
    if (stage->kind == SAMBA_STAGE_LINE)
        PUT_NEW(arena, line, message->line, &stage->line, NULL);
    if (stage->kind == SAMBA_STAGE_LINEAR)
        PUT_NEW(arena, linear, message->linear, &stage->linear, NULL);
    if (stage->kind == SAMBA_STAGE_FOURIER)
        PUT_NEW(arena, fourier, message->fourier, &stage->fourier, NULL);
    if (stage->kind == SAMBA_STAGE_CTC)
        PUT_NEW(arena, ctc, message->ctc, &stage->ctc, NULL);
    if (stage->kind == SAMBA_STAGE_MATRIX)
        PUT_NEW(arena, matrix, message->matrix, &stage->matrix, NULL);
    return SAMBA_OK;
}

static void fill_graph(const samba_plan_graph *from, Samba__Pef__Graph *to)
{
    to->n_tensors = (size_t)from->tensor_count;
    to->tensors = from->tensors;
    to->n_literals = (size_t)from->literal_count;
    to->literals = from->literals;
}

static samba_status fill_lists(samba_arena *arena, const samba_plan *plan, Samba__Pef__Plan *message)
{
    message->n_buffers = (size_t)plan->buffer_count;
    message->n_stages = (size_t)plan->stage_count;
    message->n_sections = (size_t)plan->section_count;
    message->n_tensors = (size_t)plan->tensor_count;
    message->n_argins = (size_t)plan->argin_count;
    message->n_constants = (size_t)plan->constant_count;
    message->n_blobs = (size_t)plan->blob_count;
    message->n_graphs = (size_t)plan->graph_count;
    PUT_LIST(arena, buffer, message->buffers, plan->buffers, plan->buffer_count, NULL);
    PUT_LIST(arena, stage, message->stages, plan->stages, plan->stage_count, NULL);
    PUT_LIST(arena, section, message->sections, plan->sections, plan->section_count, NULL);
    PUT_LIST(arena, tensor, message->tensors, plan->tensors, plan->tensor_count, NULL);
    PUT_LIST(arena, argin, message->argins, plan->argins, plan->argin_count, NULL);
    PUT_LIST(arena, graph, message->graphs, plan->graphs, plan->graph_count, NULL);
    for (int32_t i = 0; i < plan->graph_count; i++)
        fill_graph(&plan->graphs[i], message->graphs[i]);
    for (int32_t i = 0; i < plan->stage_count; i++)
        SAMBA_TRY(fill_stage(arena, &plan->stages[i], message->stages[i]));
    message->constants = new_list(arena, plan->constant_count, sizeof **message->constants);
    message->blobs = new_list(arena, plan->blob_count, sizeof **message->blobs);
    if (!message->constants || !message->blobs)
        return SAMBA_ERROR_MEMORY;
    for (int32_t i = 0; i < plan->constant_count; i++) {
        samba__pef__constant__init(message->constants[i]);
        message->constants[i]->buffer = plan->constants[i].buffer;
        message->constants[i]->has_blob = 1;
        message->constants[i]->blob = plan->constants[i].blob;
    }
    int64_t offset = 0;
    for (int32_t i = 0; i < plan->blob_count; i++) {
        samba__pef__blob__init(message->blobs[i]);
        message->blobs[i]->size = plan->blobs[i]->size;
        message->blobs[i]->offset = offset;
        offset += samba_pef_align(plan->blobs[i]->size);
    }
    return SAMBA_OK;
}

static samba_status fill_plan(samba_arena *arena, const samba_plan *plan, Samba__Pef__Plan *message)
{
    samba__pef__plan__init(message);
    message->name = plan->name;
    message->ops_signature = plan->ops_signature;
    message->memory_bytes = plan->memory_bytes;
    PUT_NEW(arena, memory, message->memory, &plan->memory, NULL);
    message->n_calls = (size_t)plan->call_count;
    message->calls = plan->calls;
    message->n_words = (size_t)plan->word_count;
    message->words = plan->words;
    message->n_locations = 3 * (size_t)plan->location_count;
    message->locations = (int32_t *)(void *)plan->locations;
    return fill_lists(arena, plan, message);
}

/* The file's parts behind each other: header, message, then blob by blob what fills up to the next, which is aligned. Blobs are
 * written from where they lie. */
static samba_status write_parts(samba_context *context, samba_arena *arena, const samba_plan *plan, samba_pef_header *header,
                                const Samba__Pef__Plan *message, const char *path)
{
    static const char zeros[SAMBA_PEF_ALIGN];
    const int count = 2 + 2 * plan->blob_count;
    const size_t length = (size_t)(header->blobs_offset - header->message_offset);
    const void **parts = samba_arena_alloc(arena, (size_t)count * sizeof *parts);
    size_t *sizes = samba_arena_alloc(arena, (size_t)count * sizeof *sizes);
    char *packed = samba_arena_alloc(arena, length);
    if (!parts || !sizes || !packed)
        return SAMBA_ERROR_MEMORY;
    samba__pef__plan__pack(message, (uint8_t *)packed);
    parts[0] = header, sizes[0] = sizeof *header;
    parts[1] = packed, sizes[1] = length;
    for (int32_t i = 0; i < plan->blob_count; i++) {
        const samba_blob *blob = plan->blobs[i];
        parts[2 + 2 * i] = blob->data, sizes[2 + 2 * i] = (size_t)blob->size;
        parts[3 + 2 * i] = zeros, sizes[3 + 2 * i] = (size_t)(samba_pef_align(blob->size) - blob->size);
    }
    header->body_checksum = samba_hash_parts(parts + 1, sizes + 1, count - 1);
    header->header_checksum = samba_hash(header, offsetof(samba_pef_header, header_checksum), 0);
    return samba_file_write_remade(context, path, parts, sizes, count);
}

static samba_status write_message(samba_context *context, samba_arena *arena, const samba_plan *plan,
                                  const Samba__Pef__Plan *message, const char *path)
{
    samba_pef_header header = {.magic = SAMBA_PEF_MAGIC,
                               .version = SAMBA_PEF_VERSION,
                               .endian = SAMBA_PEF_ENDIAN,
                               .number = SAMBA_PEF_NUMBER,
                               .tile_count = SAMBA_TILE_COUNT,
                               .tile_signature = samba_pef_tile_signature(SAMBA_TILE_COUNT),
                               .message_offset = sizeof header,
                               .message_length = (int64_t)samba__pef__plan__get_packed_size(message)};
    if (header.message_length > SAMBA_PEF_LARGEST_MESSAGE)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "cannot write \"%s\": its stages take %lld bytes and a PEF has room for %lld; make the graph smaller",
                          path, (long long)header.message_length, (long long)SAMBA_PEF_LARGEST_MESSAGE);
    header.blobs_offset = samba_pef_align(header.message_offset + header.message_length);
    for (int32_t i = 0; i < plan->blob_count; i++)
        header.blobs_length += samba_pef_align(plan->blobs[i]->size);
    header.file_length = header.blobs_offset + header.blobs_length;
    if (header.file_length > SAMBA_PEF_LARGEST_FILE)
        return samba_fail(
            context, SAMBA_ERROR_UNSUPPORTED,
            "cannot write \"%s\": its constants take %lld bytes and a PEF has room for %lld; give large constants as inputs",
            path, (long long)header.blobs_length, (long long)SAMBA_PEF_LARGEST_FILE);
    return write_parts(context, arena, plan, &header, message, path);
}

samba_status samba_pef_write(samba_context *context, const samba_plan *plan, const char *path)
{
    SAMBA_TRY(samba_plan_check(context, plan)); /* ranks and counts are trusted from here on */
    samba_arena arena;
    samba_arena_init(&arena, context);
    Samba__Pef__Plan message;
    samba_status status = fill_plan(&arena, plan, &message);
    if (status == SAMBA_OK)
        status = write_message(context, &arena, plan, &message, path);
    samba_arena_free(&arena);
    return status;
}
