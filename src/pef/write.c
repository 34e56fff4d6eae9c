/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan -> bytes -> file. The plan is laid over protobuf-c's structs (lists point straight into the plan), packed, and put between
 * header and blobs. Only numbers and texts of the plan get in, in their order: one plan gives one sequence of bytes.
 *
 * The structs and the packed message live in a scratch arena that is gone when writing ends. */
#include "pef/format.h"
#include "pef/pef.pb-c.h"

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

static samba_status fill_program(samba_arena *arena, const samba_program *program, Samba__Pef__Program *message)
{
    samba__pef__program__init(message);
    message->setup = program->setup;
    message->n_registers = (size_t)program->register_count;
    message->n_instructions = (size_t)program->instruction_count;
    message->n_steps = (size_t)program->step_count;
    message->registers = new_list(arena, program->register_count, sizeof **message->registers);
    message->instructions = new_list(arena, program->instruction_count, sizeof **message->instructions);
    message->steps = new_list(arena, program->step_count, sizeof **message->steps);
    if (!message->registers || !message->instructions || !message->steps)
        return SAMBA_ERROR_MEMORY;
    for (int32_t i = 0; i < program->register_count; i++) {
        const samba_register *from = &program->registers[i];
        Samba__Pef__Register *to = message->registers[i];
        samba__pef__register__init(to);
        to->class_ = from->class_;
        to->extent = from->extent;
        to->wide = from->wide;
        to->direct = from->direct;
    }
    for (int32_t i = 0; i < program->instruction_count; i++) {
        const samba_instruction *from = &program->instructions[i];
        Samba__Pef__Instruction *to = message->instructions[i];
        samba__pef__instruction__init(to);
        to->op = from->op;
        to->d = from->d;
        to->a = from->a;
        to->b = from->b;
        to->c = from->c;
        to->operand = from->operand;
        to->immediate = from->immediate;
    }
    for (int32_t i = 0; i < program->step_count; i++) {
        const samba_step *from = &program->steps[i];
        Samba__Pef__Step *to = message->steps[i];
        samba__pef__step__init(to);
        to->begin = from->begin;
        to->end = from->end;
        to->loop = from->loop;
    }
    return SAMBA_OK;
}

static samba_status fill_factor(samba_arena *arena, const samba_contract *contract, const samba_factor *factor, int32_t own_rank,
                                Samba__Pef__Factor *message)
{
    samba__pef__factor__init(message);
    message->buffer = factor->buffer;
    message->dtype = factor->dtype;
    message->offset = factor->offset;
    message->n_batch = (size_t)contract->batch_rank;
    message->batch = (int64_t *)factor->batch;
    message->n_own = (size_t)own_rank;
    message->own = (int64_t *)factor->own;
    message->n_inner = (size_t)contract->k_rank;
    message->inner = (int64_t *)factor->inner;
    message->n_windows = (size_t)factor->window_count;
    message->windows = new_list(arena, factor->window_count, sizeof **message->windows);
    if (!message->windows)
        return SAMBA_ERROR_MEMORY;
    for (int32_t i = 0; i < factor->window_count; i++) {
        const samba_window *from = &factor->windows[i];
        Samba__Pef__Window *to = message->windows[i];
        samba__pef__window__init(to);
        to->base_ = from->base;
        to->limit = from->limit;
        to->dilation = from->dilation;
        to->stride = from->stride;
        to->n_own = (size_t)own_rank;
        to->own = (int64_t *)from->own;
        to->n_inner = (size_t)contract->k_rank;
        to->inner = (int64_t *)from->inner;
    }
    return SAMBA_OK;
}

static samba_status fill_contract(samba_arena *arena, const samba_contract *contract, Samba__Pef__Contract *message)
{
    samba__pef__contract__init(message);
    message->n_batch = (size_t)contract->batch_rank;
    message->batch = (int64_t *)contract->batch;
    message->n_m = (size_t)contract->m_rank;
    message->m = (int64_t *)contract->m;
    message->n_n = (size_t)contract->n_rank;
    message->n = (int64_t *)contract->n;
    message->n_k = (size_t)contract->k_rank;
    message->k = (int64_t *)contract->k;
    message->class_ = contract->class_;
    message->whole_rows = contract->whole_rows;
    message->a = samba_arena_alloc(arena, sizeof *message->a);
    message->b = samba_arena_alloc(arena, sizeof *message->b);
    if (!message->a || !message->b)
        return SAMBA_ERROR_MEMORY;
    SAMBA_TRY(fill_factor(arena, contract, &contract->a, contract->m_rank, message->a));
    return fill_factor(arena, contract, &contract->b, contract->n_rank, message->b);
}

static void fill_pool(const samba_pool *pool, Samba__Pef__Pool *message)
{
    samba__pef__pool__init(message);
    message->average = pool->average;
    message->gradient = pool->gradient;
    message->count_include_pad = pool->count_include_pad;
    message->has_indices = message->indices = pool->indices;
    message->has_adaptive = message->adaptive = pool->adaptive;
    message->has_divisor = pool->divisor != 0;
    message->divisor = pool->divisor;
    message->has_resample = pool->resample != 0;
    message->resample = pool->resample;
    message->has_align_corners = message->align_corners = pool->align_corners;
    message->has_antialias = message->antialias = pool->antialias;
    message->n_scale = pool->resample ? 2 : 0;
    message->scale = (double *)pool->scale;
    message->planes = pool->planes;
    message->h = pool->h;
    message->w = pool->w;
    message->oh = pool->oh;
    message->ow = pool->ow;
    message->n_kernel = message->n_stride = message->n_padding = message->n_dilation = 2;
    message->kernel = (int64_t *)pool->kernel;
    message->stride = (int64_t *)pool->stride;
    message->padding = (int64_t *)pool->padding;
    message->dilation = (int64_t *)pool->dilation;
}

static void fill_attention(const samba_attention *attention, Samba__Pef__Attention *message)
{
    samba__pef__attention__init(message);
    message->gradient = attention->gradient;
    message->causal = attention->causal;
    message->masked = attention->masked;
    message->dropout = attention->dropout;
    message->has_result = attention->has_result;
    message->has_lse = attention->has_lse;
    message->hkv = attention->hkv;
    message->d = attention->d;
    message->dv = attention->dv;
    message->scale = attention->scale;
}

static void fill_line(const samba_line *line, Samba__Pef__Line *message)
{
    samba__pef__line__init(message);
    message->function = line->function;
    message->backwards = line->backwards;
    message->has_values = line->has_values;
    message->has_indices = line->has_indices;
    message->outer = line->outer;
    message->size = line->size;
    message->inner = line->inner;
    message->count = line->count;
}

_Static_assert(sizeof(samba_stage_operator) == 3 * sizeof(int32_t) && sizeof(samba_plan_location) == 3 * sizeof(int32_t),
               "lists of numbers");

static samba_status fill_stage(samba_arena *arena, const samba_stage *stage, Samba__Pef__Stage *message)
{
    samba__pef__stage__init(message);
    message->kind = stage->kind;
    message->name = stage->name;
    message->flops = stage->flops;
    message->bytes = stage->bytes;
    message->n_domain = (size_t)stage->rank;
    message->domain = (int64_t *)stage->domain;
    message->n_operators = 3 * (size_t)stage->operator_count;
    message->operators = (int32_t *)(void *)stage->operators;
    message->n_operands = (size_t)stage->operand_count;
    message->operands = new_list(arena, stage->operand_count, sizeof **message->operands);
    if (!message->operands)
        return SAMBA_ERROR_MEMORY;
    for (int32_t i = 0; i < stage->operand_count; i++) {
        const samba_operand *from = &stage->operands[i];
        Samba__Pef__Operand *to = message->operands[i];
        samba__pef__operand__init(to);
        to->buffer = from->buffer;
        to->dtype = from->dtype;
        to->offset = from->offset;
        to->n_strides = (size_t)stage->rank;
        to->strides = (int64_t *)from->strides;
    }
    if (stage->kind == SAMBA_STAGE_TILE || stage->kind == SAMBA_STAGE_CONTRACT) {
        message->program = samba_arena_alloc(arena, sizeof *message->program);
        if (!message->program)
            return SAMBA_ERROR_MEMORY;
        SAMBA_TRY(fill_program(arena, &stage->program, message->program));
    }
    if (stage->kind == SAMBA_STAGE_CONTRACT) {
        message->contract = samba_arena_alloc(arena, sizeof *message->contract);
        return message->contract ? fill_contract(arena, &stage->contract, message->contract) : SAMBA_ERROR_MEMORY;
    }
    if (stage->kind == SAMBA_STAGE_POOL) {
        message->pool = samba_arena_alloc(arena, sizeof *message->pool);
        if (!message->pool)
            return SAMBA_ERROR_MEMORY;
        fill_pool(&stage->pool, message->pool);
    }
    if (stage->kind == SAMBA_STAGE_GATHER) {
        message->gather = samba_arena_alloc(arena, sizeof *message->gather);
        if (!message->gather)
            return SAMBA_ERROR_MEMORY;
        samba__pef__gather__init(message->gather);
        message->gather->mode = stage->gather.mode;
        message->gather->axis = stage->gather.axis;
        message->gather->negative = stage->gather.negative;
        message->gather->table_rows = stage->gather.table_rows;
        message->gather->table_stride = stage->gather.table_stride;
    }
    if (stage->kind == SAMBA_STAGE_ATTENTION) {
        message->attention = samba_arena_alloc(arena, sizeof *message->attention);
        if (!message->attention)
            return SAMBA_ERROR_MEMORY;
        fill_attention(&stage->attention, message->attention);
    }
    if (stage->kind == SAMBA_STAGE_LINE) {
        message->line = samba_arena_alloc(arena, sizeof *message->line);
        if (!message->line)
            return SAMBA_ERROR_MEMORY;
        fill_line(&stage->line, message->line);
    }
    return SAMBA_OK;
}

static void fill_tensor(const samba_plan_tensor *from, Samba__Pef__Tensor *to)
{
    samba__pef__tensor__init(to);
    to->name = from->name;
    to->kind = from->kind;
    to->dtype = from->dtype;
    to->n_shape = (size_t)from->rank;
    to->shape = (int64_t *)from->shape;
    to->buffer = from->buffer;
    to->init = from->init;
    to->init_a = from->init_a;
    to->init_b = from->init_b;
    to->is_loss = from->is_loss;
    to->has_range = from->has_range;
    to->has_ignore = from->has_ignore;
    to->low = from->low;
    to->high = from->high;
    to->ignore = from->ignore;
    to->range_user = from->range_user ? from->range_user : "";
    to->has_role = 1;
    to->role = from->role;
}

static void fill_memory(const samba_memory_info *from, Samba__Pef__Memory *to)
{
    samba__pef__memory__init(to);
    to->parameters = from->parameters;
    to->state = from->state;
    to->gradients = from->gradients;
    to->inputs_outputs = from->inputs_outputs;
    to->activations = from->activations;
    to->constants = from->constants;
    to->scratch = from->scratch;
    to->total = from->total;
}

static void fill_section(const samba_plan_section *from, Samba__Pef__Section *to)
{
    samba__pef__section__init(to);
    to->id = from->id;
    to->phase = from->phase;
    to->name = from->name;
    to->first_stage = from->first_stage;
    to->stage_count = from->stage_count;
    to->flops = from->flops;
    to->bytes = from->bytes;
    to->redone_by = from->redone_by;
    to->has_forward_stages = to->has_redone_stages = to->has_fast_memory = 1;
    to->forward_stages = from->forward_stages;
    to->redone_stages = from->redone_stages;
    to->fast_memory = from->fast_memory;
}

static void fill_graph(const samba_plan_graph *from, Samba__Pef__Graph *to)
{
    samba__pef__graph__init(to);
    to->name = from->name;
    to->text = from->text;
    to->hash = from->hash;
    to->inference = from->inference;
    to->grad_accumulation_steps = from->grad_accumulation_steps;
    to->precision = from->precision;
    to->has_mapping = to->has_fast_memory = 1;
    to->mapping = from->mapping;
    to->fast_memory = from->fast_memory;
    to->first_section = from->first_section;
    to->section_count = from->section_count;
    to->first_call = from->first_call;
    to->call_count = from->call_count;
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
    message->graphs = new_list(arena, plan->graph_count, sizeof **message->graphs);
    message->buffers = new_list(arena, plan->buffer_count, sizeof **message->buffers);
    message->stages = new_list(arena, plan->stage_count, sizeof **message->stages);
    message->sections = new_list(arena, plan->section_count, sizeof **message->sections);
    message->tensors = new_list(arena, plan->tensor_count, sizeof **message->tensors);
    message->argins = new_list(arena, plan->argin_count, sizeof **message->argins);
    message->constants = new_list(arena, plan->constant_count, sizeof **message->constants);
    message->blobs = new_list(arena, plan->blob_count, sizeof **message->blobs);
    if (!message->buffers || !message->stages || !message->sections || !message->tensors || !message->argins ||
        !message->constants || !message->graphs || !message->blobs)
        return SAMBA_ERROR_MEMORY;
    for (int32_t i = 0; i < plan->graph_count; i++)
        fill_graph(&plan->graphs[i], message->graphs[i]);
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        samba__pef__buffer__init(message->buffers[i]);
        message->buffers[i]->offset = plan->buffers[i].offset;
        message->buffers[i]->bytes = plan->buffers[i].bytes;
    }
    for (int32_t i = 0; i < plan->stage_count; i++)
        SAMBA_TRY(fill_stage(arena, &plan->stages[i], message->stages[i]));
    for (int32_t i = 0; i < plan->section_count; i++)
        fill_section(&plan->sections[i], message->sections[i]);
    for (int32_t i = 0; i < plan->tensor_count; i++)
        fill_tensor(&plan->tensors[i], message->tensors[i]);
    for (int32_t i = 0; i < plan->argin_count; i++) {
        samba__pef__argin__init(message->argins[i]);
        message->argins[i]->name = plan->argins[i].name;
        message->argins[i]->role = plan->argins[i].role;
        message->argins[i]->dtype = plan->argins[i].dtype;
        message->argins[i]->buffer = plan->argins[i].buffer;
        message->argins[i]->value = plan->argins[i].value;
    }
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
    message->memory = samba_arena_alloc(arena, sizeof *message->memory);
    if (!message->memory)
        return SAMBA_ERROR_MEMORY;
    fill_memory(&plan->memory, message->memory);
    message->n_calls = (size_t)plan->call_count;
    message->calls = plan->calls;
    message->n_words = (size_t)plan->word_count;
    message->words = plan->words;
    message->n_locations = 3 * (size_t)plan->location_count;
    message->locations = (int32_t *)(void *)plan->locations;
    return fill_lists(arena, plan, message);
}

/* Header and message are one block; blobs are copied behind, so that the checksum is taken over what reaches the disk. */
static samba_status write_bytes(samba_context *context, const samba_plan *plan, const Samba__Pef__Plan *message, const char *path)
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

    char *bytes = samba_calloc(context, (size_t)header.file_length);
    if (!bytes)
        return SAMBA_ERROR_MEMORY;
    samba__pef__plan__pack(message, (uint8_t *)bytes + header.message_offset);
    char *to = bytes + header.blobs_offset;
    for (int32_t i = 0; i < plan->blob_count; i++) {
        memcpy(to, plan->blobs[i]->data, (size_t)plan->blobs[i]->size);
        to += samba_pef_align(plan->blobs[i]->size);
    }
    header.body_checksum = samba_hash(bytes + sizeof header, (size_t)header.file_length - sizeof header, 0);
    header.header_checksum = samba_hash(&header, offsetof(samba_pef_header, header_checksum), 0);
    memcpy(bytes, &header, sizeof header);

    const void *parts[] = {bytes};
    size_t sizes[] = {(size_t)header.file_length};
    samba_status status = samba_file_write_atomic(context, path, parts, sizes, 1);
    samba_free(context, bytes, (size_t)header.file_length);
    return status;
}

samba_status samba_pef_write(samba_context *context, const samba_plan *plan, const char *path)
{
    SAMBA_TRY(samba_plan_check(context, plan)); /* ranks and counts are trusted from here on */
    samba_arena arena;
    samba_arena_init(&arena, context);
    Samba__Pef__Plan message;
    samba_status status = fill_plan(&arena, plan, &message);
    if (status == SAMBA_OK)
        status = write_bytes(context, plan, &message, path);
    samba_arena_free(&arena);
    return status;
}
