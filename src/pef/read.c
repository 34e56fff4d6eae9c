/* SPDX-License-Identifier: Apache-2.0
 *
 * File -> bytes -> plan. Nothing in a file is trusted: header and checksums first, then the message, whose lists bound every
 * allocation by what is really there, then the plan's own check. Until all have passed the caller gets no plan.
 *
 * protobuf-c allocates from a scratch arena (its frees do nothing) that is gone when reading ends; the plan's memory is the
 * plan's arena. */
#include "pef/format.h"
#include "pef/pef.pb-c.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

/* ---- header ---- */
/* Weights are taken for a PEF by mistake more often than anything else is. */
static const char *what_it_is(const samba_pef_header *header, int64_t size)
{
    const char *bytes = (const char *)header;
    if (size > 9 && bytes[8] == '{' && (bytes[9] == '"' || bytes[9] == '}'))
        return " but weights, a safetensors file: a session of the PEF loads it (in Python session.load, in C "
               "samba_session_load);";
    if (size > 4 && memcmp(bytes, "PK\3\4", 4) == 0)
        return " but a ZIP archive, as torch.save writes: load it in PyTorch;";
    return size > 4 && memcmp(bytes, "GGUF", 4) == 0 ? " but a GGUF file, of which `sambaflow compile` makes a PEF;"
                                                     : ", as it does not begin with " SAMBA_PEF_MAGIC ":";
}

static samba_status check_beginning(samba_context *context, const char *name, const samba_pef_header *header, int64_t size)
{
    if (size < (int64_t)sizeof header->magic || memcmp(header->magic, SAMBA_PEF_MAGIC, sizeof header->magic) != 0)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "\"%s\" is not a PEF%s give the .pef file that compile wrote", name,
                          what_it_is(header, size));
    if (size < (int64_t)sizeof *header)
        return samba_fail(
            context, SAMBA_ERROR_FORMAT,
            "\"%s\" is truncated: a PEF's header has %zu bytes, the file has %lld; copy it again or compile the model again",
            name, sizeof *header, (long long)size);
    if (header->endian == __builtin_bswap32(SAMBA_PEF_ENDIAN))
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "\"%s\" was written on a machine of the other byte order: compile the model again for this one", name);
    if (header->version < SAMBA_PEF_OLDEST || header->version > SAMBA_PEF_VERSION)
        return samba_fail(
            context, SAMBA_ERROR_FORMAT,
            "this library reads PEF versions %d to %d and \"%s\" is version %u: compile the model again with this library, or "
            "update the library",
            SAMBA_PEF_OLDEST, SAMBA_PEF_VERSION, name, header->version);
    if (header->header_checksum != samba_hash(header, offsetof(samba_pef_header, header_checksum), 0))
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "\"%s\" is damaged: its header does not match its checksum; copy it again or compile the model again",
                          name);
    return SAMBA_OK;
}

static samba_status check_header(samba_context *context, const char *name, const samba_pef_header *header, const char *bytes,
                                 int64_t size)
{
    if (header->endian != SAMBA_PEF_ENDIAN || header->number != SAMBA_PEF_NUMBER)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "\"%s\" writes its numbers as no machine does that this library knows: compile the model again", name);
    if (size != header->file_length)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "\"%s\" is %s: its header says %lld bytes, the file has %lld; copy it again", name,
                          size < header->file_length ? "truncated" : "too long", (long long)header->file_length, (long long)size);
    if (header->body_checksum != samba_hash(bytes + sizeof *header, (size_t)size - sizeof *header, 0))
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "\"%s\" is damaged: its content does not match its checksum; copy it again or compile the model again",
                          name);
    if (header->tile_count > SAMBA_TILE_COUNT || header->tile_signature != samba_pef_tile_signature(header->tile_count))
        return samba_fail(
            context, SAMBA_ERROR_FORMAT,
            "\"%s\" was compiled by a library with %u tile operators that are not the %d of this one: compile the model "
            "again with this library, or update the library",
            name, header->tile_count, (int)SAMBA_TILE_COUNT);
    if (header->zero || header->reserved[0] || header->reserved[1] || header->reserved[2] || header->reserved[3] ||
        header->message_offset != (int64_t)sizeof *header || header->message_length < 0 ||
        header->message_length > SAMBA_PEF_LARGEST_MESSAGE || header->message_length > size - header->message_offset ||
        header->blobs_offset != samba_pef_align(header->message_offset + header->message_length) || header->blobs_offset > size ||
        header->blobs_length != size - header->blobs_offset)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "\"%s\" is no valid PEF: its parts do not lie where version %u has them",
                          name, header->version);
    return SAMBA_OK;
}

/* ---- message -> plan ---- */
typedef struct reader {
    samba_context *context;
    samba_arena *arena; /* the plan's */
    const char *blobs;
    int64_t blobs_length;
    uint32_t version;
} reader;

static samba_status bad_list(const reader *in, const char *what, size_t count, int64_t room)
{
    return samba_fail(in->context, SAMBA_ERROR_FORMAT, "%s: %zu numbers where there should be %lld", what, count,
                      (long long)room);
}

/* Copies a list that must have exactly `count` numbers of `size` bytes. */
static samba_status copy_list(const reader *in, const char *what, const void *from, size_t length, int64_t count, void *to,
                              size_t size)
{
    if (length != (size_t)count)
        return bad_list(in, what, length, count);
    if (length > 0)
        memcpy(to, from, length * size);
    return SAMBA_OK;
}

/* The length of a list of up to `room` numbers is the rank. */
static samba_status take_rank(const reader *in, const char *what, size_t length, int64_t room, int32_t *rank)
{
    if (length > (size_t)room)
        return samba_fail(in->context, SAMBA_ERROR_FORMAT, "%s: rank %zu, but at most %lld is possible", what, length,
                          (long long)room);
    *rank = (int32_t)length;
    return SAMBA_OK;
}

/* A number that the plan holds in a narrower integer. */
static samba_status narrow(const reader *in, const char *what, int64_t value, int64_t low, int64_t high)
{
    if (value < low || value > high)
        return samba_fail(in->context, SAMBA_ERROR_FORMAT, "%s is %lld, outside [%lld, %lld]", what, (long long)value,
                          (long long)low, (long long)high);
    return SAMBA_OK;
}

/* get_MESSAGE(in, from, ranks, to): the fields of fields.def; all others of `to` become 0. */
#define MESSAGE(Message, message, type)                                                                                          \
    static samba_status get_##message(const reader *in, const Samba__Pef__##Message *from, const samba_pef_ranks *ranks,         \
                                      type *to)                                                                                  \
    {                                                                                                                            \
        (void)in, (void)ranks;                                                                                                   \
        *to = (type){0};
#define END                                                                                                                      \
    return SAMBA_OK;                                                                                                             \
    }
#define NUMBER(field) to->field = from->field;
#define RANGE(field, what, low, high)                                                                                            \
    SAMBA_TRY(narrow(in, what, from->field, low, high));                                                                         \
    to->field = (__typeof__(to->field))from->field;
#define FLAG(field) to->field = from->field ? 1 : 0;
#define LATER(field) NUMBER(field)
#define SPARSE(field) NUMBER(field)
#define SPARSE_FLAG(field) FLAG(field)
#define TEXT(field) SAMBA_TRY(samba_arena_copy(in->arena, from->field, &to->field));
#define SHAPE(field, rank, what, room)                                                                                           \
    SAMBA_TRY(take_rank(in, what, from->n_##field, room, &to->rank));                                                            \
    LIST(field, to->rank, what)
#define LIST(field, count, what)                                                                                                 \
    SAMBA_TRY(copy_list(in, what, from->field, from->n_##field, count, to->field, sizeof *to->field));
#include "pef/fields.def"

static samba_status take_program(const reader *in, const Samba__Pef__Program *from, samba_program *to)
{
    to->register_count = (int32_t)from->n_registers;
    to->instruction_count = (int32_t)from->n_instructions;
    to->step_count = (int32_t)from->n_steps;
    to->setup = from->setup;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->registers, from->n_registers));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->instructions, from->n_instructions));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->steps, from->n_steps));
    for (size_t i = 0; i < from->n_registers; i++)
        SAMBA_TRY(get_register(in, from->registers[i], NULL, &to->registers[i]));
    for (size_t i = 0; i < from->n_instructions; i++)
        SAMBA_TRY(get_instruction(in, from->instructions[i], NULL, &to->instructions[i]));
    for (size_t i = 0; i < from->n_steps; i++)
        SAMBA_TRY(get_step(in, from->steps[i], NULL, &to->steps[i]));
    return SAMBA_OK;
}

static samba_status take_factor(const reader *in, const Samba__Pef__Factor *from, const samba_contract *contract,
                                int32_t own_rank, samba_factor *to)
{
    const samba_pef_ranks ranks = {contract->batch_rank, own_rank, contract->k_rank};
    SAMBA_TRY(get_factor(in, from, &ranks, to));
    if (from->n_windows > SAMBA_COUNT(to->windows))
        return bad_list(in, "a factor's windows", from->n_windows, SAMBA_COUNT(to->windows));
    to->window_count = (int32_t)from->n_windows;
    for (int32_t i = 0; i < to->window_count; i++) {
        SAMBA_TRY(get_window(in, from->windows[i], &ranks, &to->windows[i]));
        to->windows[i].base = from->windows[i]->base_;
    }
    return SAMBA_OK;
}

static samba_status take_contract(const reader *in, const Samba__Pef__Contract *from, samba_contract *to)
{
    SAMBA_TRY(get_contract(in, from, NULL, to));
    SAMBA_TRY(take_factor(in, from->a, to, to->m_rank, &to->a));
    return take_factor(in, from->b, to, to->n_rank, &to->b);
}

/* Groups of three numbers, which are structs of three; how many. */
static samba_status take_triples(const reader *in, const char *what, const int32_t *from, size_t length, void **to,
                                 int32_t *count)
{
    if (length % 3 != 0)
        return samba_fail(in->context, SAMBA_ERROR_FORMAT, "%s: %zu numbers are not three each", what, length);
    *count = (int32_t)(length / 3);
    *to = samba_arena_alloc(in->arena, length * sizeof *from);
    if (!*to)
        return SAMBA_ERROR_MEMORY;
    if (length > 0)
        memcpy(*to, from, length * sizeof *from);
    return SAMBA_OK;
}

static samba_status take_stage(const reader *in, const Samba__Pef__Stage *from, samba_stage *to)
{
    bool program = from->kind == SAMBA_STAGE_TILE || from->kind == SAMBA_STAGE_CONTRACT;
    SAMBA_TRY(get_stage(in, from, NULL, to));
    if (!from->program != !program || !from->contract != (from->kind != SAMBA_STAGE_CONTRACT) ||
        !from->pool != (from->kind != SAMBA_STAGE_POOL) || !from->gather != (from->kind != SAMBA_STAGE_GATHER) ||
        !from->attention != (from->kind != SAMBA_STAGE_ATTENTION) || !from->line != (from->kind != SAMBA_STAGE_LINE) ||
        !from->linear != (from->kind != SAMBA_STAGE_LINEAR) || !from->fourier != (from->kind != SAMBA_STAGE_FOURIER) ||
        !from->ctc != (from->kind != SAMBA_STAGE_CTC) || !from->matrix != (from->kind != SAMBA_STAGE_MATRIX))
        return samba_fail(in->context, SAMBA_ERROR_FORMAT, "stage \"%.64s\" lacks a part of its kind or has one of another kind",
                          from->name);
    void *operators = NULL;
    SAMBA_TRY(take_triples(in, "a stage's operators", from->operators, from->n_operators, &operators, &to->operator_count));
    to->operators = operators;
    to->operand_count = (int32_t)from->n_operands;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->operands, from->n_operands));
    const samba_pef_ranks ranks = {.own = to->rank};
    for (int32_t i = 0; i < to->operand_count; i++)
        SAMBA_TRY(get_operand(in, from->operands[i], &ranks, &to->operands[i]));
    if (program)
        SAMBA_TRY(take_program(in, from->program, &to->program));
    if (from->contract)
        SAMBA_TRY(take_contract(in, from->contract, &to->contract));
    if (from->pool)
        SAMBA_TRY(get_pool(in, from->pool, NULL, &to->pool));
    if (from->gather)
        SAMBA_TRY(get_gather(in, from->gather, NULL, &to->gather));
    if (from->attention)
        SAMBA_TRY(get_attention(in, from->attention, NULL, &to->attention));
    if (from->line)
        SAMBA_TRY(get_line(in, from->line, NULL, &to->line));
    if (from->linear)
        SAMBA_TRY(get_linear(in, from->linear, NULL, &to->linear));
    if (from->fourier)
        SAMBA_TRY(get_fourier(in, from->fourier, NULL, &to->fourier));
    if (from->ctc)
        SAMBA_TRY(get_ctc(in, from->ctc, NULL, &to->ctc));
    if (from->matrix)
        SAMBA_TRY(get_matrix(in, from->matrix, NULL, &to->matrix));
    return SAMBA_OK;
}

static samba_status take_tensor(const reader *in, const Samba__Pef__Tensor *from, samba_plan_tensor *to)
{
    if ((in->version >= SAMBA_PEF_BLOBS) != (from->has_role != 0))
        return samba_fail(in->context, SAMBA_ERROR_FORMAT, "tensor \"%.128s\" is not that of version %u", from->name,
                          in->version);
    return get_tensor(in, from, NULL, to);
}

/* Blobs lie one behind the other without a gap beyond the alignment, so none of the file's bytes is left over.
 * `what` names them in messages. */
static samba_status take_blob(const reader *in, const char *what, int32_t number, int64_t size, int64_t offset, int64_t *end,
                              samba_blob **to)
{
    if (size < 0 || offset != *end || size > in->blobs_length - offset)
        return samba_fail(in->context, SAMBA_ERROR_FORMAT,
                          "%s %d: %lld bytes at %lld are not where the %lld bytes of %ss have it", what, number, (long long)size,
                          (long long)offset, (long long)in->blobs_length, what);
    samba_blob *blob = samba_blob_copy(in->context, in->blobs + offset, size);
    if (!blob)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_arena_keep(in->arena, blob);
    samba_blob_drop(blob);
    *to = blob;
    *end += samba_pef_align(size);
    return status;
}

static samba_status check_end(const reader *in, const char *what, int64_t end)
{
    if (end == in->blobs_length)
        return SAMBA_OK;
    return samba_fail(in->context, SAMBA_ERROR_FORMAT, "%ss take %lld bytes and the file has %lld for them", what, (long long)end,
                      (long long)in->blobs_length);
}

/* Up to version 4 each constant has bytes of its own, and there are no blobs. */
static samba_status take_older_constants(const reader *in, const Samba__Pef__Plan *from, samba_plan *to)
{
    int64_t end = 0;
    to->blob_count = to->constant_count;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->blobs, from->n_constants));
    for (int32_t i = 0; i < to->constant_count; i++) {
        const Samba__Pef__Constant *c = from->constants[i];
        if (!c->has_size || !c->has_offset || c->has_blob)
            return samba_fail(in->context, SAMBA_ERROR_FORMAT, "constant %d is not that of version %u", i, in->version);
        SAMBA_TRY(take_blob(in, "constant", i, c->size, c->offset, &end, &to->blobs[i]));
        to->constants[i] = (samba_plan_constant){c->buffer, i};
    }
    return check_end(in, "constant", end);
}

static samba_status take_constants(const reader *in, const Samba__Pef__Plan *from, samba_plan *to)
{
    int64_t end = 0;
    if (in->version < SAMBA_PEF_BLOBS && from->n_blobs > 0)
        return samba_fail(in->context, SAMBA_ERROR_FORMAT, "the message is not that of version %u", in->version);
    if (in->version < SAMBA_PEF_BLOBS)
        return take_older_constants(in, from, to);
    to->blob_count = (int32_t)from->n_blobs;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->blobs, from->n_blobs));
    for (int32_t i = 0; i < to->blob_count; i++)
        SAMBA_TRY(take_blob(in, "blob", i, from->blobs[i]->size, from->blobs[i]->offset, &end, &to->blobs[i]));
    for (int32_t i = 0; i < to->constant_count; i++) {
        const Samba__Pef__Constant *c = from->constants[i];
        if (c->has_size || c->has_offset || !c->has_blob)
            return samba_fail(in->context, SAMBA_ERROR_FORMAT, "constant %d is not that of version %u", i, in->version);
        to->constants[i] = (samba_plan_constant){c->buffer, c->blob};
    }
    return check_end(in, "blob", end);
}

static samba_status take_lists(const reader *in, const Samba__Pef__Plan *from, samba_plan *to)
{
    to->buffer_count = (int32_t)from->n_buffers;
    to->stage_count = (int32_t)from->n_stages;
    to->section_count = (int32_t)from->n_sections;
    to->tensor_count = (int32_t)from->n_tensors;
    to->argin_count = (int32_t)from->n_argins;
    to->constant_count = (int32_t)from->n_constants;
    to->call_count = (int32_t)from->n_calls;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->buffers, from->n_buffers));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->stages, from->n_stages));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->sections, from->n_sections));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->tensors, from->n_tensors));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->argins, from->n_argins));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->constants, from->n_constants));
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->calls, from->n_calls));
    for (int32_t i = 0; i < to->buffer_count; i++)
        SAMBA_TRY(get_buffer(in, from->buffers[i], NULL, &to->buffers[i]));
    for (int32_t i = 0; i < to->stage_count; i++)
        SAMBA_TRY(take_stage(in, from->stages[i], &to->stages[i]));
    for (int32_t i = 0; i < to->section_count; i++)
        SAMBA_TRY(get_section(in, from->sections[i], NULL, &to->sections[i]));
    if (in->version < SAMBA_PEF_REPLICAS)
        samba_pef_number_phases(to);
    for (int32_t i = 0; i < to->tensor_count; i++)
        SAMBA_TRY(take_tensor(in, from->tensors[i], &to->tensors[i]));
    if (in->version < SAMBA_PEF_BLOBS)
        samba_pef_find_roles(to);
    for (int32_t i = 0; i < to->argin_count; i++)
        SAMBA_TRY(get_argin(in, from->argins[i], NULL, &to->argins[i]));
    void *locations = NULL;
    SAMBA_TRY(take_triples(in, "locations", from->locations, from->n_locations, &locations, &to->location_count));
    to->locations = locations;
    to->word_count = (int32_t)from->n_words;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->words, from->n_words));
    for (int32_t i = 0; i < to->word_count; i++)
        SAMBA_TRY(samba_arena_copy(in->arena, from->words[i], &to->words[i]));
    if (to->call_count > 0)
        memcpy(to->calls, from->calls, from->n_calls * sizeof *to->calls);
    return take_constants(in, from, to);
}

/* Version 3 has one graph, which is the plan. */
static samba_status take_only_graph(const reader *in, const Samba__Pef__Plan *from, samba_plan *to)
{
    if (from->n_graphs > 0 || !from->graph_text || !from->has_graph_hash || !from->has_inference ||
        !from->has_grad_accumulation_steps || !from->has_precision)
        return samba_fail(in->context, SAMBA_ERROR_FORMAT, "the message is not that of version %d", SAMBA_PEF_OLDEST);
    samba_plan_graph *graph = &to->graphs[0];
    *graph = (samba_plan_graph){.name = to->name,
                                .hash = from->graph_hash,
                                .inference = from->inference ? 1 : 0,
                                .grad_accumulation_steps = from->grad_accumulation_steps,
                                .precision = from->precision};
    SAMBA_TRY(samba_arena_copy(in->arena, from->graph_text, &graph->text));
    return samba_plan_own_graph(to);
}

static samba_status take_graph(const reader *in, const Samba__Pef__Graph *from, samba_plan_graph *to)
{
    SAMBA_TRY(get_graph(in, from, NULL, to));
    to->tensor_count = (int32_t)from->n_tensors;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->tensors, from->n_tensors));
    if (from->n_tensors > 0)
        memcpy(to->tensors, from->tensors, from->n_tensors * sizeof *to->tensors);
    to->literal_count = (int32_t)from->n_literals;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->literals, from->n_literals));
    if (from->n_literals > 0)
        memcpy(to->literals, from->literals, from->n_literals * sizeof *to->literals);
    return SAMBA_OK;
}

static samba_status take_graphs(const reader *in, const Samba__Pef__Plan *from, samba_plan *to)
{
    to->graph_count = in->version == SAMBA_PEF_OLDEST ? 1 : (int32_t)from->n_graphs;
    SAMBA_TRY(SAMBA_ROOM(in->arena, to->graphs, (size_t)to->graph_count));
    if (in->version == SAMBA_PEF_OLDEST)
        return take_only_graph(in, from, to);
    for (int32_t i = 0; i < to->graph_count; i++)
        SAMBA_TRY(take_graph(in, from->graphs[i], &to->graphs[i]));
    return SAMBA_OK;
}

static samba_status take_plan(const reader *in, const Samba__Pef__Plan *from, samba_plan *to)
{
    SAMBA_TRY(samba_arena_copy(in->arena, from->name, &to->name));
    to->ops_signature = from->ops_signature;
    to->memory_bytes = from->memory_bytes;
    SAMBA_TRY(get_memory(in, from->memory, NULL, &to->memory));
    SAMBA_TRY(take_lists(in, from, to));
    return take_graphs(in, from, to);
}

/* ---- protobuf-c's memory ---- */
typedef struct unpack_memory {
    samba_arena arena;
    bool refused;
} unpack_memory;

static void *unpack_allocate(void *user, size_t size)
{
    unpack_memory *memory = user;
    void *block = samba_arena_alloc(&memory->arena, size);
    memory->refused |= !block;
    return block;
}

static void unpack_free(void *user, void *block)
{
    (void)user;
    (void)block;
}

/* ---- all of it ---- */
static samba_status decode(samba_context *context, const char *name, const char *bytes, size_t size, unpack_memory *memory,
                           samba_plan *plan)
{
    samba_pef_header header = {.version = 0};
    memcpy(&header, bytes, size < sizeof header ? size : sizeof header);
    if (size > INT64_MAX)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "\"%s\" is no valid PEF: %zu bytes", name, size);
    SAMBA_TRY(check_beginning(context, name, &header, (int64_t)size));
    SAMBA_TRY(check_header(context, name, &header, bytes, (int64_t)size));
    ProtobufCAllocator allocator = {unpack_allocate, unpack_free, memory};
    const Samba__Pef__Plan *message =
        samba__pef__plan__unpack(&allocator, (size_t)header.message_length, (const uint8_t *)bytes + header.message_offset);
    if (!message)
        return memory->refused
                   ? SAMBA_ERROR_MEMORY
                   : samba_fail(context, SAMBA_ERROR_FORMAT,
                                "\"%s\" is no valid PEF: its message is not that of version %u; compile the model again", name,
                                header.version);
    reader in = {context, &plan->arena, bytes + header.blobs_offset, header.blobs_length, header.version};
    samba_status status = take_plan(&in, message, plan);
    plan->hash = header.body_checksum;
    if (status == SAMBA_OK)
        status = samba_plan_check(context, plan);
    if (status == SAMBA_ERROR_FORMAT)
        return samba_fail(context, status, "\"%s\" is no valid PEF: %s", name, samba_error_message(context));
    return status;
}

samba_status samba_pef_decode(samba_context *context, const char *name, const void *data, size_t size, samba_plan *plan)
{
    unpack_memory memory = {.refused = false};
    samba_arena_init(&memory.arena, context);
    samba_plan_init(plan, context);
    samba_status status = decode(context, name, data, size, &memory, plan);
    samba_arena_free(&memory.arena);
    if (status != SAMBA_OK)
        samba_plan_free(plan);
    return status;
}

samba_status samba_pef_read(samba_context *context, const char *path, samba_plan *plan)
{
    samba_plan_init(plan, context);
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return samba_fail(context, SAMBA_ERROR_FILE, "\"%s\" is a folder and no PEF: give the .pef file that compile wrote in it",
                          path);
    if (stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > SAMBA_PEF_LARGEST_FILE)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "\"%s\" is no PEF: it has %lld bytes and the largest PEF has %lld", path,
                          (long long)facts.st_size, (long long)SAMBA_PEF_LARGEST_FILE);
    void *data = NULL;
    size_t size = 0;
    SAMBA_TRY(samba_file_read(context, path, &data, &size)); /* what cannot be read is reported there */
    samba_status status = samba_pef_decode(context, path, data, size, plan);
    samba_free(context, data, size);
    return status;
}
