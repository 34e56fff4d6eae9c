/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans made by hand, for tests of what works on plans without a compiler.
 *
 *   make_train_plan   y = relu(x*w + b), loss = sum(y), the gradient of w, a step w -= lr * w.grad; a table looked up by `token`;
 * outputs that show the dropout rate and seed that the device had. ZEROGRAD FWD BCKWD OPT, one section each. make_zoo_plan one
 * section with a stage of every kind: contraction with windows, pools, gather, scatter, a program that reduces rows and one that
 * does the same along long rows, random numbers, coordinates, attention and its gradient, lines; its graph's text has literals
 * beside it, which are its constants' bytes.
 *
 * Include after cmocka.h. The plan's memory is its arena's. */
#ifndef SAMBA_TEST_PLANS_H
#define SAMBA_TEST_PLANS_H

#include "pef/format.h"
#include "plan/plan.h"
#include <sambaflow/graph.h>
#include <string.h>

#define MOST 128 /* of anything in these plans */

/* Makes both checksums of a PEF's bytes right again after a change. */
static inline void seal(char *bytes, size_t size)
{
    samba_pef_header header;
    memcpy(&header, bytes, sizeof header);
    header.body_checksum = samba_hash(bytes + sizeof header, size - sizeof header, 0);
    header.header_checksum = samba_hash(&header, offsetof(samba_pef_header, header_checksum), 0);
    memcpy(bytes, &header, sizeof header);
}

static inline void *plan_alloc(samba_plan *plan, size_t size)
{
    void *block = samba_arena_alloc(&plan->arena, size);
    assert_non_null(block);
    return block;
}

static inline void plan_begin(samba_plan *plan, samba_context *of, const char *name)
{
    samba_plan_init(plan, of);
    plan->name = samba_arena_strdup(&plan->arena, name);
    plan->graphs = plan_alloc(plan, sizeof *plan->graphs);
    plan->graph_count = 1;
    plan->graphs[0] = (samba_plan_graph){.name = plan->name,
                                         .text = samba_arena_strdup(&plan->arena, "graph made by hand\n"),
                                         .hash = 0x0123456789abcdefu,
                                         .grad_accumulation_steps = 1};
    plan->ops_signature = 77;
    plan->buffers = plan_alloc(plan, MOST * sizeof *plan->buffers);
    plan->stages = plan_alloc(plan, MOST * sizeof *plan->stages);
    plan->sections = plan_alloc(plan, MOST * sizeof *plan->sections);
    plan->tensors = plan_alloc(plan, MOST * sizeof *plan->tensors);
    plan->argins = plan_alloc(plan, MOST * sizeof *plan->argins);
    plan->constants = plan_alloc(plan, MOST * sizeof *plan->constants);
    plan->blobs = plan_alloc(plan, MOST * sizeof *plan->blobs);
    plan->calls = plan_alloc(plan, MOST * sizeof *plan->calls);
}

/* ---- memory and names ---- */
static inline int32_t plan_buffer(samba_plan *plan, int64_t bytes)
{
    plan->buffers[plan->buffer_count] = (samba_buffer){plan->memory_bytes, bytes};
    plan->memory_bytes += (bytes + 63) / 64 * 64;
    plan->memory.total = plan->memory_bytes;
    return plan->buffer_count++;
}

static inline samba_plan_tensor *plan_tensor(samba_plan *plan, const char *name, samba_tensor_kind kind, samba_dtype dtype,
                                             int rank, const int64_t *shape)
{
    samba_plan_tensor *tensor = &plan->tensors[plan->tensor_count++];
    int64_t numel = 1;
    *tensor = (samba_plan_tensor){.kind = (int32_t)kind, .dtype = (int32_t)dtype, .rank = rank};
    tensor->name = samba_arena_strdup(&plan->arena, name);
    tensor->range_user = samba_arena_strdup(&plan->arena, "");
    for (int i = 0; i < rank; i++)
        numel *= tensor->shape[i] = shape[i];
    tensor->buffer = plan_buffer(plan, numel * (int64_t)samba_dtype_size(dtype));
    return tensor;
}

static inline int32_t plan_argin(samba_plan *plan, const char *name, int role, samba_dtype dtype, double value)
{
    plan->argins[plan->argin_count] =
        (samba_plan_argin){samba_arena_strdup(&plan->arena, name), role, (int32_t)dtype, plan_buffer(plan, 8), value};
    return plan->argins[plan->argin_count++].buffer;
}

static inline int32_t plan_blob(samba_plan *plan, const void *data, int64_t size)
{
    samba_blob *blob = samba_blob_copy(plan->arena.context, data, size);
    assert_non_null(blob);
    assert_int_equal(samba_arena_keep(&plan->arena, blob), SAMBA_OK);
    samba_blob_drop(blob);
    plan->blobs[plan->blob_count] = blob;
    return plan->blob_count++;
}

static inline void plan_constant(samba_plan *plan, const void *data, int64_t size)
{
    int32_t buffer = plan_buffer(plan, size);
    plan->constants[plan->constant_count++] = (samba_plan_constant){buffer, plan_blob(plan, data, size)};
}

static inline int32_t plan_buffer_of(const samba_plan *plan, const char *name)
{
    for (int i = 0; i < plan->tensor_count; i++)
        if (strcmp(plan->tensors[i].name, name) == 0)
            return plan->tensors[i].buffer;
    fail_msg("no tensor %s", name);
    return -1;
}

/* ---- stages ---- */
static inline samba_stage *plan_stage(samba_plan *plan, samba_stage_kind kind, const char *name, int rank, const int64_t *domain)
{
    samba_stage *stage = &plan->stages[plan->stage_count++];
    samba_plan_section *section = &plan->sections[plan->section_count - 1];
    *stage = (samba_stage){
        .kind = (int32_t)kind, .name = samba_arena_strdup(&plan->arena, name), .flops = 1000, .bytes = 100, .rank = rank};
    if (rank > 0)
        memcpy(stage->domain, domain, sizeof(int64_t) * (size_t)rank);
    stage->operands = plan_alloc(plan, MOST * sizeof *stage->operands);
    stage->program.registers = plan_alloc(plan, MOST * sizeof *stage->program.registers);
    stage->program.instructions = plan_alloc(plan, MOST * sizeof *stage->program.instructions);
    stage->program.steps = plan_alloc(plan, MOST * sizeof *stage->program.steps);
    section->stage_count++;
    section->flops += stage->flops;
    section->bytes += stage->bytes;
    return stage;
}

static inline void plan_section(samba_plan *plan, int phase)
{
    plan->sections[plan->section_count] =
        (samba_plan_section){.id = plan->section_count,
                             .phase = phase,
                             .name = samba_arena_strdup(&plan->arena, samba_section_type_names[phase]),
                             .first_stage = plan->stage_count};
    plan->calls[plan->call_count++] = plan->section_count++;
}

static inline int16_t operand(samba_stage *stage, int32_t buffer, samba_dtype dtype, int64_t stride0, int64_t stride1)
{
    stage->operands[stage->operand_count] =
        (samba_operand){.buffer = buffer, .dtype = (int32_t)dtype, .strides = {stride0, stride1}};
    return (int16_t)stage->operand_count++;
}

static inline int16_t add_register(samba_stage *stage, samba_register_class class_, samba_extent extent)
{
    stage->program.registers[stage->program.register_count] = (samba_register){(uint8_t)class_, (uint8_t)extent, 0, -1};
    return (int16_t)stage->program.register_count++;
}

/* One instruction into the current step (none begun: the setup); sources that a form lacks are -1. */
static inline void instruct(samba_stage *stage, samba_tile op, int16_t d, int16_t a, int16_t b, int16_t c, int16_t at,
                            double immediate)
{
    samba_program *program = &stage->program;
    program->instructions[program->instruction_count++] = (samba_instruction){(uint16_t)op, d, a, b, c, at, immediate};
    if (program->step_count > 0)
        program->steps[program->step_count - 1].end = program->instruction_count;
    else
        program->setup = program->instruction_count;
}

static inline void begin_step(samba_stage *stage, int loop)
{
    samba_program *program = &stage->program;
    program->steps[program->step_count++] = (samba_step){program->instruction_count, program->instruction_count, loop};
}

static inline int16_t load(samba_stage *stage, int32_t buffer, samba_dtype dtype, int64_t stride0, int64_t stride1)
{
    int16_t at = operand(stage, buffer, dtype, stride0, stride1), d = add_register(stage, samba_class_of(dtype), SAMBA_FULL);
    instruct(stage, SAMBA_TILE_load, d, -1, -1, -1, at, 0);
    return d;
}

static inline int16_t binary(samba_stage *stage, samba_tile op, int16_t a, int16_t b)
{
    int16_t d = add_register(stage, SAMBA_F32, SAMBA_FULL);
    instruct(stage, op, d, a, b, -1, -1, 0);
    return d;
}

static inline int16_t unary(samba_stage *stage, samba_tile op, int16_t a)
{
    int16_t d = add_register(stage, SAMBA_F32, SAMBA_FULL);
    instruct(stage, op, d, a, -1, -1, -1, 0);
    return d;
}

static inline void store(samba_stage *stage, int16_t a, int32_t buffer, samba_dtype dtype, int64_t stride0, int64_t stride1)
{
    instruct(stage, SAMBA_TILE_store, -1, a, -1, -1, operand(stage, buffer, dtype, stride0, stride1), 0);
}

static inline void collect(samba_stage *stage, int16_t a, int32_t buffer, int64_t stride0, int64_t stride1)
{
    instruct(stage, SAMBA_TILE_collect_sum, -1, a, -1, -1, operand(stage, buffer, SAMBA_FLOAT32, stride0, stride1), 0);
}

/* A scalar of 8 bytes from one buffer to another. */
static inline void plan_show(samba_plan *plan, int32_t from, int32_t to, samba_dtype dtype)
{
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_TILE, "show", 1, (const int64_t[]){1});
    begin_step(stage, 1);
    store(stage, load(stage, from, dtype, 1, 0), to, dtype, 1, 0);
}

/* ---- the training plan: x and y are (rows, 6) ---- */
static inline void make_train_tensors(samba_plan *plan, int64_t rows)
{
    const int64_t xy[] = {rows, 6}, columns[] = {6}, samples[] = {4}, table[] = {10, 3}, picked[] = {4, 3};
    plan_tensor(plan, "x", SAMBA_KIND_INPUT, SAMBA_FLOAT32, 2, xy);
    samba_plan_tensor *label = plan_tensor(plan, "label", SAMBA_KIND_INPUT, SAMBA_INT64, 1, samples);
    label->has_range = label->has_ignore = 1;
    label->low = 0;
    label->high = 10;
    label->ignore = -100;
    label->range_user = samba_arena_strdup(&plan->arena, "cross_entropy at loss");
    plan_tensor(plan, "token", SAMBA_KIND_INPUT, SAMBA_INT64, 1, samples);
    samba_plan_tensor *w = plan_tensor(plan, "w", SAMBA_KIND_PARAMETER, SAMBA_FLOAT32, 1, columns);
    w->init = SAMBA_INIT_UNIFORM;
    w->init_a = -1;
    w->init_b = 1;
    samba_plan_tensor *b = plan_tensor(plan, "b", SAMBA_KIND_PARAMETER, SAMBA_FLOAT32, 1, columns);
    b->init = SAMBA_INIT_CONSTANT;
    b->init_a = 0.5;
    samba_plan_tensor *e = plan_tensor(plan, "table", SAMBA_KIND_PARAMETER, SAMBA_FLOAT32, 2, table);
    e->init = SAMBA_INIT_NORMAL;
    e->init_b = 2;
    plan_tensor(plan, "w.grad", SAMBA_KIND_GRADIENT, SAMBA_FLOAT32, 1, columns);
    plan_tensor(plan, "w.momentum_buffer", SAMBA_KIND_BUFFER, SAMBA_FLOAT32, 1, columns)->role = SAMBA_ROLE_OPTIMIZER;
    plan_tensor(plan, "y", SAMBA_KIND_OUTPUT, SAMBA_FLOAT32, 2, xy);
    plan_tensor(plan, "loss", SAMBA_KIND_OUTPUT, SAMBA_FLOAT32, 0, NULL)->is_loss = 1;
    plan_tensor(plan, "picked", SAMBA_KIND_OUTPUT, SAMBA_FLOAT32, 2, picked);
    plan_tensor(plan, "seen_p", SAMBA_KIND_OUTPUT, SAMBA_FLOAT64, 0, NULL);
    plan_tensor(plan, "seen_seed", SAMBA_KIND_OUTPUT, SAMBA_INT64, 0, NULL);
}

static inline void make_train_forward(samba_plan *plan, int64_t rows, int32_t p, int32_t seed)
{
    const int64_t xy[] = {rows, 6};
    plan_section(plan, 1);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_TILE, "layer: mul add relu", 2, xy);
    begin_step(stage, 1);
    int16_t x = load(stage, plan_buffer_of(plan, "x"), SAMBA_FLOAT32, 6, 1);
    int16_t y = binary(stage, SAMBA_TILE_mul, x, load(stage, plan_buffer_of(plan, "w"), SAMBA_FLOAT32, 0, 1));
    y = unary(stage, SAMBA_TILE_relu,
              binary(stage, SAMBA_TILE_add, y, load(stage, plan_buffer_of(plan, "b"), SAMBA_FLOAT32, 0, 1)));
    store(stage, y, plan_buffer_of(plan, "y"), SAMBA_FLOAT32, 6, 1);
    collect(stage, y, plan_buffer_of(plan, "loss"), 0, 0);
    stage = plan_stage(plan, SAMBA_STAGE_GATHER, "embedding", 2, (const int64_t[]){4, 3});
    stage->gather = (samba_gather_stage){.table_rows = 10, .table_stride = 3};
    operand(stage, plan_buffer_of(plan, "table"), SAMBA_FLOAT32, 0, 1);
    operand(stage, plan_buffer_of(plan, "token"), SAMBA_INT64, 1, 0);
    operand(stage, plan_buffer_of(plan, "picked"), SAMBA_FLOAT32, 3, 1);
    plan_show(plan, p, plan_buffer_of(plan, "seen_p"), SAMBA_FLOAT64);
    plan_show(plan, seed, plan_buffer_of(plan, "seen_seed"), SAMBA_INT64);
}

static inline void make_train_backward(samba_plan *plan, int64_t rows, int32_t lr)
{
    const int64_t xy[] = {rows, 6}, columns[] = {6};
    int32_t part = plan_buffer(plan, 24), zero;
    plan_section(plan, 2);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_TILE, "layer: relu mul sum", 2, xy);
    zero = add_register(stage, SAMBA_F32, SAMBA_FULL);
    instruct(stage, SAMBA_TILE_constant, (int16_t)zero, -1, -1, -1, -1, 0);
    begin_step(stage, 1);
    int16_t on = binary(stage, SAMBA_TILE_gt, load(stage, plan_buffer_of(plan, "y"), SAMBA_FLOAT32, 6, 1), (int16_t)zero);
    collect(stage, binary(stage, SAMBA_TILE_mul, load(stage, plan_buffer_of(plan, "x"), SAMBA_FLOAT32, 6, 1), on), part, 0, 1);
    stage = plan_stage(plan, SAMBA_STAGE_TILE, "w: add", 1, columns);
    begin_step(stage, 1);
    int16_t sum = binary(stage, SAMBA_TILE_add, load(stage, plan_buffer_of(plan, "w.grad"), SAMBA_FLOAT32, 1, 0),
                         load(stage, part, SAMBA_FLOAT32, 1, 0));
    store(stage, sum, plan_buffer_of(plan, "w.grad"), SAMBA_FLOAT32, 1, 0);

    plan_section(plan, 5);
    stage = plan_stage(plan, SAMBA_STAGE_TILE, "w: sgd", 1, columns);
    int16_t rate = load(stage, lr, SAMBA_FLOAT64, 0, 0), step = unary(stage, SAMBA_TILE_cast, rate);
    begin_step(stage, 1);
    int16_t down = binary(stage, SAMBA_TILE_mul, load(stage, plan_buffer_of(plan, "w.grad"), SAMBA_FLOAT32, 1, 0), step);
    int16_t fresh = binary(stage, SAMBA_TILE_sub, load(stage, plan_buffer_of(plan, "w"), SAMBA_FLOAT32, 1, 0), down);
    store(stage, fresh, plan_buffer_of(plan, "w"), SAMBA_FLOAT32, 1, 0);
    store(stage, down, plan_buffer_of(plan, "w.momentum_buffer"), SAMBA_FLOAT32, 1, 0);
}

/* A word, each once. */
static inline int32_t plan_word(samba_plan *plan, const char *word)
{
    for (int32_t i = 0; i < plan->word_count; i++)
        if (strcmp(plan->words[i], word) == 0)
            return i;
    plan->words[plan->word_count] = samba_arena_strdup(&plan->arena, word);
    return plan->word_count++;
}

/* Two operators for each stage, of one of two locations. */
static inline void plan_origins(samba_plan *plan)
{
    plan->words = plan_alloc(plan, MOST * sizeof *plan->words);
    plan->locations = plan_alloc(plan, MOST * sizeof *plan->locations);
    int32_t nothing = plan_word(plan, "");
    plan->locations[plan->location_count++] = (samba_plan_location){nothing, nothing, nothing};
    plan->locations[plan->location_count++] =
        (samba_plan_location){plan_word(plan, "encoder.0"), plan_word(plan, "model.py:42"), plan_word(plan, "ffn")};
    for (int32_t i = 0; i < plan->stage_count; i++) {
        samba_stage *stage = &plan->stages[i];
        stage->operators = plan_alloc(plan, 2 * sizeof *stage->operators);
        for (; stage->operator_count < 2; stage->operator_count++)
            stage->operators[stage->operator_count] = (samba_stage_operator){
                plan_word(plan, stage->operator_count ? "relu" : "add"), plan_word(plan, "float32(4, 6)"), i % 2};
    }
}

static inline void make_train_plan(samba_plan *plan, samba_context *of, int64_t rows)
{
    plan_begin(plan, of, "train");
    make_train_tensors(plan, rows);
    int32_t lr = plan_argin(plan, "optim0.lr", 0, SAMBA_FLOAT64, 0.25), p = plan_argin(plan, "drop.p", 1, SAMBA_FLOAT64, 0.5);
    int32_t seed = plan_argin(plan, "drop.seed", 2, SAMBA_INT64, 0);
    plan_section(plan, 0);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_TILE, "w: zero", 1, (const int64_t[]){6});
    int16_t zero = add_register(stage, SAMBA_F32, SAMBA_FULL);
    instruct(stage, SAMBA_TILE_constant, zero, -1, -1, -1, -1, 0);
    begin_step(stage, 1);
    store(stage, zero, plan_buffer_of(plan, "w.grad"), SAMBA_FLOAT32, 1, 0);
    make_train_forward(plan, rows, p, seed);
    make_train_backward(plan, rows, lr);
    plan_origins(plan);
    assert_int_equal(samba_plan_own_graph(plan), SAMBA_OK);
}

/* ---- the zoo ---- */
static inline void make_zoo_contract(samba_plan *plan)
{
    const int64_t domain[] = {2, 4, 25}; /* images, channels out, places: x (2,3,5,5), w (4,3,3,3), padding 1 */
    int32_t x = plan_buffer(plan, 150 * 4), w = plan_buffer(plan, 108 * 4), y = plan_buffer(plan, 200 * 4);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_CONTRACT, "conv: conv2d relu", 3, domain);
    samba_contract *t = &stage->contract;
    *t = (samba_contract){
        .batch_rank = 1, .m_rank = 1, .n_rank = 2, .k_rank = 3, .batch = {2}, .m = {4}, .n = {5, 5}, .k = {3, 3, 3}};
    t->a = (samba_factor){.buffer = w, .own = {27}, .inner = {9, 3, 1}};
    t->b = (samba_factor){.buffer = x, .batch = {75}, .inner = {25}, .window_count = 2};
    t->b.windows[0] = (samba_window){.base = -1, .limit = 5, .dilation = 1, .stride = 5, .own = {1}, .inner = {0, 1}};
    t->b.windows[1] = (samba_window){.base = -1, .limit = 5, .dilation = 1, .stride = 1, .own = {0, 1}, .inner = {0, 0, 1}};
    begin_step(stage, 1);
    int16_t block = add_register(stage, SAMBA_F32, SAMBA_FULL);
    instruct(stage, SAMBA_TILE_block, block, -1, -1, -1, -1, 0);
    int16_t at = operand(stage, y, SAMBA_FLOAT32, 100, 25);
    stage->operands[at].strides[2] = 1;
    instruct(stage, SAMBA_TILE_store, -1, unary(stage, SAMBA_TILE_relu, block), -1, -1, at, 0);
}

static inline void make_zoo_kernels(samba_plan *plan)
{
    int32_t x = plan_buffer(plan, 2 * 36 * 4), y = plan_buffer(plan, 2 * 4 * 4), dx = plan_buffer(plan, 2 * 36 * 4);
    const samba_pool pool = {
        .planes = 2, .h = 6, .w = 6, .oh = 2, .ow = 2, .kernel = {3, 3}, .stride = {3, 3}, .padding = {1, 0}, .dilation = {1, 1}};
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_POOL, "pool: max_pool2d", 0, NULL);
    stage->pool = pool;
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, y, SAMBA_FLOAT32, 0, 0);
    stage = plan_stage(plan, SAMBA_STAGE_POOL, "pool: avg_pool2d_grad", 0, NULL);
    stage->pool = pool;
    stage->pool.average = stage->pool.gradient = 1;
    operand(stage, y, SAMBA_FLOAT32, 0, 0);
    operand(stage, dx, SAMBA_FLOAT32, 0, 0);
    int32_t index = plan_buffer(plan, 5 * 8), rows = plan_buffer(plan, 15 * 4), table = plan_buffer(plan, 7 * 3 * 4);
    const samba_gather_stage gather = {.table_rows = 7, .table_stride = 3};
    stage = plan_stage(plan, SAMBA_STAGE_GATHER, "embedding", 2, (const int64_t[]){5, 3});
    stage->gather = gather;
    operand(stage, table, SAMBA_FLOAT32, 0, 1);
    operand(stage, index, SAMBA_INT64, 1, 0);
    operand(stage, rows, SAMBA_FLOAT32, 3, 1);
    stage = plan_stage(plan, SAMBA_STAGE_GATHER, "scatter", 2, (const int64_t[]){5, 3});
    stage->gather = gather;
    stage->gather.mode = SAMBA_GATHER_ADD;
    stage->gather.negative = 1;
    operand(stage, index, SAMBA_INT64, 1, 0);
    operand(stage, rows, SAMBA_FLOAT32, 3, 1);
    operand(stage, table, SAMBA_FLOAT32, 0, 1);
}

/* x - max(x) along rows, with the result's exp stored: two loops around a step of rows */
static inline void make_zoo_rows(samba_plan *plan, int64_t rows, int64_t columns)
{
    int32_t x = plan_buffer(plan, rows * columns * 4), y = plan_buffer(plan, rows * columns * 4),
            top = plan_buffer(plan, rows * 8);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_TILE, "softmax", 2, (const int64_t[]){rows, columns});
    begin_step(stage, 1);
    int16_t value = load(stage, x, SAMBA_FLOAT32, columns, 1), most = add_register(stage, SAMBA_F32, SAMBA_ROW);
    stage->program.registers[value].wide = 1;
    instruct(stage, SAMBA_TILE_amax, most, value, -1, -1, -1, 0);
    int16_t at = add_register(stage, SAMBA_I64, SAMBA_ROW);
    instruct(stage, SAMBA_TILE_argmax, at, value, -1, -1, -1, 0);
    begin_step(stage, 0);
    store(stage, at, top, SAMBA_INT64, 1, 0);
    begin_step(stage, 1);
    int16_t spread = unary(stage, SAMBA_TILE_spread, most);
    int16_t result = unary(stage, SAMBA_TILE_exp, binary(stage, SAMBA_TILE_sub, value, spread));
    store(stage, result, y, SAMBA_FLOAT32, columns, 1);
    stage->program.registers[result].direct = (int16_t)(stage->operand_count - 1);
}

static inline void make_zoo_numbers(samba_plan *plan)
{
    int32_t seed = plan_buffer(plan, 8), noise = plan_buffer(plan, 12 * 4), places = plan_buffer(plan, 12 * 8);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_TILE, "random iota", 2, (const int64_t[]){3, 4});
    int16_t key = load(stage, seed, SAMBA_INT64, 0, 0);
    begin_step(stage, 1);
    int16_t drawn = add_register(stage, SAMBA_F32, SAMBA_FULL), place = add_register(stage, SAMBA_I64, SAMBA_FULL);
    instruct(stage, SAMBA_TILE_random, drawn, key, -1, -1, operand(stage, -1, SAMBA_FLOAT32, 4, 1), 0);
    instruct(stage, SAMBA_TILE_iota, place, -1, -1, -1, -1, 1);
    store(stage, drawn, noise, SAMBA_FLOAT32, 4, 1);
    store(stage, place, places, SAMBA_INT64, 4, 1);
}

/* Four heads of queries and two of keys and values, 3 positions of 3 elements, side by side as a joint projection has them. */
static inline void make_zoo_attention(samba_plan *plan)
{
    enum { HEADS = 4, SHARED = 2, LENGTH = 3, DEPTH = 3, ROW = (HEADS + 2 * SHARED) * DEPTH };
    int32_t joint = plan_buffer(plan, 2 * LENGTH * ROW * 4), mask = plan_buffer(plan, LENGTH * LENGTH),
            rate = plan_buffer(plan, 8), seed = plan_buffer(plan, 8), result = plan_buffer(plan, 2 * HEADS * LENGTH * DEPTH * 4),
            lse = plan_buffer(plan, 2 * HEADS * LENGTH * 4), gradient = plan_buffer(plan, 2 * LENGTH * ROW * 4);
    for (int backward = 0; backward < 2; backward++) {
        samba_stage *stage = plan_stage(plan, SAMBA_STAGE_ATTENTION, backward ? "attention_grad" : "attention attention_lse", 4,
                                        (const int64_t[]){2, HEADS, LENGTH, LENGTH});
        stage->attention = (samba_attention){.gradient = backward,
                                             .causal = 1,
                                             .masked = !backward,
                                             .dropout = !backward,
                                             .has_result = 1,
                                             .has_lse = 1,
                                             .hkv = SHARED,
                                             .d = DEPTH,
                                             .dv = DEPTH,
                                             .scale = 0.5};
        int32_t places[SAMBA_ATTENTION_PARTS];
        samba_attention_operands(&stage->attention, places);
        for (int part = 0; part < SAMBA_ATTENTION_PARTS; part++) {
            static const int64_t rows[4] = {LENGTH * ROW, DEPTH, ROW, 1},
                                 results[4] = {LENGTH * HEADS * DEPTH, DEPTH, HEADS * DEPTH, 1},
                                 row[4] = {HEADS * LENGTH, LENGTH, 1, 0}, scores[4] = {0, 0, LENGTH, 1}, one[4] = {0};
            const struct {
                int32_t buffer;
                samba_dtype dtype;
                int64_t offset;
                const int64_t *strides;
            } all[SAMBA_ATTENTION_PARTS] = {{joint, SAMBA_FLOAT32, 0, rows},
                                            {joint, SAMBA_FLOAT32, HEADS * DEPTH, rows},
                                            {joint, SAMBA_FLOAT32, (HEADS + SHARED) * DEPTH, rows},
                                            {mask, SAMBA_BOOL, 0, scores},
                                            {rate, SAMBA_FLOAT64, 0, one},
                                            {seed, SAMBA_INT64, 0, one},
                                            {result, SAMBA_FLOAT32, 0, results},
                                            {lse, SAMBA_FLOAT32, 0, row},
                                            {result, SAMBA_FLOAT32, 0, results},
                                            {gradient, SAMBA_FLOAT32, 0, rows},
                                            {gradient, SAMBA_FLOAT32, HEADS * DEPTH, rows},
                                            {gradient, SAMBA_FLOAT32, (HEADS + SHARED) * DEPTH, rows}};
            if (places[part] < 0)
                continue;
            samba_operand *to = &stage->operands[operand(stage, all[part].buffer, all[part].dtype, 0, 0)];
            to->offset = all[part].offset;
            memcpy(to->strides, all[part].strides, 4 * sizeof(int64_t));
        }
    }
}

/* 2 x 5 x 3: the greatest 4 of each line with their places, and the gradient of running products. */
static inline void make_zoo_lines(samba_plan *plan)
{
    int32_t x = plan_buffer(plan, 30 * 4), values = plan_buffer(plan, 24 * 4), places = plan_buffer(plan, 24 * 8),
            dx = plan_buffer(plan, 30 * 4);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_LINE, "sort argsort", 0, NULL);
    stage->line = (samba_line){SAMBA_LINE_SORT, 1, 1, 1, 2, 5, 3, 4, 0, 0};
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, values, SAMBA_FLOAT32, 0, 0);
    operand(stage, places, SAMBA_INT64, 0, 0);
    stage = plan_stage(plan, SAMBA_STAGE_LINE, "cumprod_grad", 0, NULL);
    stage->line = (samba_line){SAMBA_LINE_CUMPROD_GRAD, 0, 1, 0, 2, 5, 3, 5, 0, 0};
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, dx, SAMBA_FLOAT32, 0, 0);
}

/* Two rows of 32 by three of weights: groups of 4 bits, and float32 the other way round. */
static inline void make_zoo_linear(samba_plan *plan)
{
    int32_t x = plan_buffer(plan, 64 * 4), w = plan_buffer(plan, 48), scales = plan_buffer(plan, 3 * 2),
            y = plan_buffer(plan, 6 * 4), wide = plan_buffer(plan, 96 * 4);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_LINEAR, "stored_linear", 0, NULL);
    stage->linear = (samba_linear_stage){SAMBA_LINEAR_INT4, 0, 2, 3, 32};
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, w, SAMBA_UINT8, 0, 0);
    operand(stage, scales, SAMBA_FLOAT16, 0, 0);
    operand(stage, y, SAMBA_FLOAT32, 0, 0);
    stage = plan_stage(plan, SAMBA_STAGE_LINEAR, "stored_linear", 0, NULL);
    stage->linear = (samba_linear_stage){SAMBA_LINEAR_FLOAT32, 1, 2, 3, 32};
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, wide, SAMBA_FLOAT32, 0, 0);
    operand(stage, y, SAMBA_FLOAT32, 0, 0);
}

/* Six frequencies of two lines from real ones of ten, and the loss of three rows with at most two labels. */
static inline void make_zoo_fourier(samba_plan *plan)
{
    int32_t x = plan_buffer(plan, 20 * 4), y = plan_buffer(plan, 24 * 4), log_probs = plan_buffer(plan, 60 * 4),
            targets = plan_buffer(plan, 6 * 8), steps = plan_buffer(plan, 3 * 8), labels = plan_buffer(plan, 3 * 8),
            dy = plan_buffer(plan, 3 * 4), dx = plan_buffer(plan, 60 * 4);
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_FOURIER, "fft", 0, NULL);
    stage->fourier = (samba_fourier){SAMBA_FOURIER_FROM_REAL, 0, 2, 10, 1, 0.5, 1};
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, y, SAMBA_FLOAT32, 0, 0);
    stage = plan_stage(plan, SAMBA_STAGE_CTC, "ctc_loss_grad", 0, NULL);
    stage->ctc = (samba_ctc){1, 1, 5, 3, 4, 2, 0};
    operand(stage, log_probs, SAMBA_FLOAT32, 0, 0);
    operand(stage, targets, SAMBA_INT64, 0, 0);
    operand(stage, steps, SAMBA_INT64, 0, 0);
    operand(stage, labels, SAMBA_INT64, 0, 0);
    operand(stage, dy, SAMBA_FLOAT32, 0, 0);
    operand(stage, dx, SAMBA_FLOAT32, 0, 0);
}

/* Two matrices, 3 x 3: L, x with L x = b, and vectors, where a is seen turned around. */
static inline void make_zoo_matrix(samba_plan *plan)
{
    int32_t a = plan_buffer(plan, 18 * 8), l = plan_buffer(plan, 18 * 8), b = plan_buffer(plan, 12 * 8),
            x = plan_buffer(plan, 12 * 8), vectors = plan_buffer(plan, 24 * 8);
    const int64_t square[3] = {2, 3, 3}, sides[3] = {2, 3, 2}, more[3] = {2, 4, 3};
    samba_stage *stage = plan_stage(plan, SAMBA_STAGE_MATRIX, "cholesky", 3, square);
    stage->matrix = (samba_matrix_stage){.function = SAMBA_MATRIX_CHOLESKY, .m = 3, .n = 3};
    memcpy(stage->operands[operand(stage, a, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){9, 3, 1}, 3 * sizeof(int64_t));
    memcpy(stage->operands[operand(stage, l, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){9, 3, 1}, 3 * sizeof(int64_t));
    stage = plan_stage(plan, SAMBA_STAGE_MATRIX, "triangular_solve", 3, sides);
    stage->matrix = (samba_matrix_stage){.function = SAMBA_MATRIX_TRIANGULAR, .unit = 1, .m = 3, .n = 3, .right = 2};
    memcpy(stage->operands[operand(stage, l, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){9, 3, 1}, 3 * sizeof(int64_t));
    memcpy(stage->operands[operand(stage, b, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){6, 2, 1}, 3 * sizeof(int64_t));
    memcpy(stage->operands[operand(stage, x, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){6, 2, 1}, 3 * sizeof(int64_t));
    stage = plan_stage(plan, SAMBA_STAGE_MATRIX, "pinv", 3, square);
    stage->matrix = (samba_matrix_stage){.function = SAMBA_MATRIX_PINV, .m = 3, .n = 3, .atol = 0.25, .rtol = 1e-6};
    memcpy(stage->operands[operand(stage, a, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){9, 3, 1}, 3 * sizeof(int64_t));
    memcpy(stage->operands[operand(stage, l, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){9, 1, 3}, 3 * sizeof(int64_t));
    stage = plan_stage(plan, SAMBA_STAGE_MATRIX, "eigh_factors", 3, more);
    stage->matrix = (samba_matrix_stage){.function = SAMBA_MATRIX_EIGH, .m = 3, .n = 3};
    memcpy(stage->operands[operand(stage, a, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){9, 1, 3}, 3 * sizeof(int64_t));
    memcpy(stage->operands[operand(stage, vectors, SAMBA_FLOAT64, 0, 0)].strides, (int64_t[]){12, 3, 1}, 3 * sizeof(int64_t));
}

static inline void make_zoo_plan(samba_plan *plan, samba_context *of)
{
    static const float numbers[5] = {1, 2, 3, 4, 5};
    static const char bytes[100] = "a constant";
    plan_begin(plan, of, "zoo");
    plan_tensor(plan, "in", SAMBA_KIND_INPUT, SAMBA_FLOAT32, 2, (const int64_t[]){3, 4});
    plan_tensor(plan, "out", SAMBA_KIND_OUTPUT, SAMBA_BFLOAT16, 3, (const int64_t[]){2, 1, 2});
    plan_argin(plan, "drop.p", 1, SAMBA_FLOAT64, 0.1);
    plan_constant(plan, numbers, sizeof numbers);
    plan_constant(plan, bytes, sizeof bytes);
    plan->graphs[0].inference = 1;
    plan->graphs[0].text = samba_arena_strdup(
        &plan->arena, "graph \"made by hand, &7\"\n%0 = literal data=&0\n%1 = literal data=&1 # &8\n%2 = literal data=&0\n");
    plan->graphs[0].literal_count = 2;
    plan->graphs[0].literals = plan_alloc(plan, 2 * sizeof *plan->graphs[0].literals);
    plan->graphs[0].literals[1] = 1;
    plan_section(plan, 1);
    make_zoo_contract(plan);
    make_zoo_kernels(plan);
    make_zoo_rows(plan, 5, 7);
    make_zoo_rows(plan, 2, 700);
    make_zoo_numbers(plan);
    make_zoo_attention(plan);
    make_zoo_lines(plan);
    make_zoo_linear(plan);
    make_zoo_fourier(plan);
    make_zoo_matrix(plan);
    assert_int_equal(samba_plan_own_graph(plan), SAMBA_OK);
}

#endif
