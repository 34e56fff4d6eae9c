/* SPDX-License-Identifier: Apache-2.0
 *
 * The PEF: what is written is read back, byte for byte the same each time; whatever else a file holds is refused with a message.
 * Damage is tried at random (the seed is printed); tests/fuzz/files has damage whose checksums are right. */
#include "harness.h"
#include "written_pef.h"

static samba_status decode(fixture *f, const void *bytes, size_t size)
{
    OWN_PLAN plan;
    samba_status status = samba_pef_decode(f->context, "test.pef", bytes, size, &plan);
    if (status == SAMBA_OK)
        assert_int_equal(samba_plan_check(f->context, &plan), SAMBA_OK);
    return status;
}

static void same_stages(const samba_stage *a, const samba_stage *b)
{
    assert_string_equal(a->name, b->name);
    assert_memory_equal(a->domain, b->domain, sizeof a->domain);
    assert_memory_equal(&a->contract, &b->contract, sizeof a->contract);
    assert_memory_equal(&a->pool, &b->pool, sizeof a->pool);
    assert_memory_equal(&a->gather, &b->gather, sizeof a->gather);
    assert_memory_equal(&a->attention, &b->attention, sizeof a->attention);
    assert_memory_equal(&a->line, &b->line, sizeof a->line);
    assert_int_equal(a->program.setup, b->program.setup);
    assert_int_equal(a->operator_count, b->operator_count);
    for (int32_t i = 0; i < a->operator_count; i++)
        assert_memory_equal(&a->operators[i], &b->operators[i], sizeof a->operators[i]);
    for (int32_t i = 0; i < a->operand_count; i++)
        assert_memory_equal(&a->operands[i], &b->operands[i], sizeof a->operands[i]);
    for (int32_t i = 0; i < a->program.instruction_count; i++) { /* they have holes */
        const samba_instruction *x = &a->program.instructions[i], *y = &b->program.instructions[i];
        assert_true(x->op == y->op && x->d == y->d && x->a == y->a && x->b == y->b && x->c == y->c && x->operand == y->operand &&
                    x->immediate == y->immediate && signbit(x->immediate) == signbit(y->immediate));
    }
}

TEST(test_round_trip)
{
    for (int zoo = 0; zoo < 2; zoo++) {
        OWN_FIXTURE f;
        begin_plan(&f, zoo);
        if (!zoo)
            f.plan.stages[0].program.instructions[0].immediate = -0.0;
        f.bytes = file_of(&f, &f.plan, &f.size);
        OWN_PLAN plan;
        need_in(f.context, samba_pef_read(f.context, path, &plan));
        assert_string_equal(plan.name, f.plan.name);
        assert_int_equal(plan.graph_count, 1);
        assert_string_equal(plan.graphs[0].text, f.plan.graphs[0].text);
        assert_true(plan.graphs[0].hash == f.plan.graphs[0].hash && plan.ops_signature == f.plan.ops_signature);
        assert_int_equal(plan.stage_count, f.plan.stage_count);
        assert_memory_equal(plan.buffers, f.plan.buffers, (size_t)plan.buffer_count * sizeof *plan.buffers);
        assert_memory_equal(plan.calls, f.plan.calls, (size_t)plan.call_count * sizeof *plan.calls);
        for (int32_t i = 0; i < plan.stage_count; i++)
            same_stages(&plan.stages[i], &f.plan.stages[i]);
        assert_int_equal(plan.word_count, f.plan.word_count);
        assert_int_equal(plan.location_count, f.plan.location_count);
        for (int32_t i = 0; i < plan.word_count; i++)
            assert_string_equal(plan.words[i], f.plan.words[i]);
        if (plan.location_count > 0)
            assert_memory_equal(plan.locations, f.plan.locations, (size_t)plan.location_count * sizeof *plan.locations);
        for (int32_t i = 0; i < plan.constant_count; i++)
            assert_true(samba_blob_equal(plan.blobs[plan.constants[i].blob], f.plan.blobs[f.plan.constants[i].blob]));
        assert_same_file(&f, &plan, &f.plan); /* what was read writes the same file */
    }
}

TEST(test_flipped_bits)
{
    OWN_FIXTURE f;
    begin(&f, true);
    seed_anew();
    char *bytes = f.bytes;
    for (int i = 0; i < 1000; i++) {
        size_t bit = next_random() % (f.size * 8);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        samba_status status = decode(&f, bytes, f.size);
        if (status != SAMBA_ERROR_FORMAT)
            fail_msg("bit %zu flipped: %s", bit, samba_status_name(status));
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(decode(&f, bytes, f.size), SAMBA_OK);
}

TEST(test_truncation)
{
    OWN_FIXTURE f;
    begin(&f, true);
    for (size_t size = 0; size < f.size; size += 97) {
        char *part = malloc(size ? size : 1); /* of this very size, so that a sanitizer sees what reads behind it */
        memcpy(part, f.bytes, size);
        refuse_file(&f, part, size, size < 8 ? "not a PEF" : "truncated");
        free(part);
    }
    char *longer = calloc(1, f.size + 1);
    memcpy(longer, f.bytes, f.size);
    refuse_file(&f, longer, f.size + 1, "too long: its header says");
    free(longer);
}

TEST(test_headers)
{
    OWN_FIXTURE f;
    begin(&f, false);
    samba_pef_header header, original;
    memcpy(&original, f.bytes, sizeof original);
    const char *text = "PK\003\004 is no PEF at all, but it is longer than a header of one hundred and twenty-eight bytes, which "
                       "is what a PEF has";
    refuse_file(&f, text, strlen(text), "not a PEF");
#define TRY_HEADER(change, part)                                                                                                 \
    do {                                                                                                                         \
        header = original;                                                                                                       \
        change;                                                                                                                  \
        memcpy(f.bytes, &header, sizeof header);                                                                                 \
        seal(f.bytes, f.size);                                                                                                   \
        refuse_file(&f, f.bytes, f.size, part);                                                                                  \
    } while (0)
    TRY_HEADER(header.version = 2, "this library reads PEF versions 3 to 8 and \"test.pef\" is version 2: compile");
    TRY_HEADER(header.version = 99, "and \"test.pef\" is version 99: compile the model again");
    TRY_HEADER(header.endian = 0x04030201, "other byte order");
    TRY_HEADER(header.endian = 1, "writes its numbers");
    TRY_HEADER(header.number = 1, "writes its numbers");
    TRY_HEADER(header.tile_count = SAMBA_TILE_COUNT + 1, "update the library");
    TRY_HEADER(header.tile_signature++, "compile the model again");
    TRY_HEADER(header.file_length += 64, "truncated: its header says");
    TRY_HEADER(header.reserved[2] = 1, "do not lie where");
    TRY_HEADER(header.zero = 1, "do not lie where");
    TRY_HEADER(header.message_offset = 192, "do not lie where");
    TRY_HEADER(header.message_length = INT64_MAX, "do not lie where");
    TRY_HEADER(header.message_length = -1, "do not lie where");
    TRY_HEADER(header.blobs_offset = -64, "do not lie where");
    TRY_HEADER(header.blobs_length++, "do not lie where");
    TRY_HEADER(header.message_length--, "no valid PEF");
#undef TRY_HEADER
    memcpy(f.bytes, &original, sizeof original);
    original.body_checksum++;
    original.header_checksum = samba_hash(&original, offsetof(samba_pef_header, header_checksum), 0);
    memcpy(f.bytes, &original, sizeof original);
    refuse_file(&f, f.bytes, f.size, "damaged: its content");
    original.header_checksum++;
    memcpy(f.bytes, &original, sizeof original);
    refuse_file(&f, f.bytes, f.size, "damaged: its header");
    /* a beginning of the table is as good as all of it: operators are added at the end */
    memcpy(&header, f.bytes, sizeof header);
    header.tile_count = SAMBA_TILE_COUNT - 1;
    header.tile_signature = samba_pef_tile_signature(header.tile_count);
    memcpy(f.bytes, &header, sizeof header);
    seal(f.bytes, f.size);
    assert_int_equal(decode(&f, f.bytes, f.size), SAMBA_OK);
}

/* ---- the plan's check: one change, one message ---- */
TEST(test_wrong_training)
{
    const bool zoo = false;
    WRONG(p->stage_count = -1, "-1 stages");
    WRONG(p->name = NULL, "no name");
    WRONG(p->graphs[0].grad_accumulation_steps = 0, "0 steps");
    WRONG(p->memory.scratch = -1, "-1 bytes");
    WRONG(p->memory_bytes = INT64_MAX, "device memory of");
    WRONG(p->memory_bytes -= 64, "do not lie aligned");
    WRONG(p->buffers[1].offset += 4, "buffer 1:");
    WRONG(p->buffers[0].bytes = INT64_MAX, "buffer 0:");
    WRONG(p->tensors[2].name = p->tensors[0].name, "the name \"x\" is there twice");
    WRONG(p->tensors[1].name = p->graphs[0].text + strlen(p->graphs[0].text), "tensor 1 has no name");
    WRONG(p->argins[1].name = p->argins[0].name, "\"optim0.lr\" is there twice");
    WRONG(p->tensors[0].dtype = 10, "\"x\": kind 0, dtype 10");
    WRONG(p->tensors[0].rank = 9, "rank 9");
    WRONG(p->tensors[0].shape[0] = INT64_MAX, "is impossible");
    WRONG(p->tensors[0].shape[0]++, "30 elements of float32 do not fit buffer 0");
    WRONG(p->tensors[0].buffer = p->buffer_count, "do not fit buffer");
    WRONG(p->tensors[1].init = SAMBA_INIT_NORMAL, "initializer 3");
    WRONG(p->tensors[3].init_a = 2, "initializer 2 (2, 1)");
    WRONG((p->tensors[3].init = SAMBA_INIT_NORMAL_BUT_ROW, p->tensors[3].init_a = 1e9), "initializer 4 (1e+09");
    WRONG(p->tensors[4].init_a = (double)NAN, "initializer 1");
    WRONG(p->tensors[0].is_loss = 1, "its loss");
    WRONG(p->tensors[0].has_range = 1, "range of indices");
    WRONG(p->argins[0].role = 5, "role 5");
    WRONG(p->argins[0].role = 4, "0.25 is no value for it");
    WRONG(p->argins[0].role = 3, "0.25 is no value for it");
    WRONG(p->argins[1].dtype = SAMBA_INT64, "\"drop.p\": role 1");
    WRONG(p->argins[2].value = 0.5, "0.5 is no value");
    WRONG(p->sections[1].phase = 6, "phase 6");
    WRONG(p->sections[1].id = 2, "id 2");
    WRONG(p->sections[1].redone_by = 4, "redone by phase 4");
    WRONG(p->sections[1].redone_by = p->sections[1].phase, "no section of that phase comes after it");
    WRONG(p->sections[p->section_count - 1].redone_by = 2, "no section of that phase comes after it");
    WRONG(p->sections[1].redone_by = -1, "redone by phase -1");
    WRONG(p->sections[2].forward_stages = 1, "section 2: 1 stages of FWD");
    WRONG(p->sections[1].forward_stages = p->sections[1].stage_count + 1, "are impossible");
    WRONG(p->sections[1].forward_stages = -1, "section 1: -1 stages of FWD");
    WRONG(p->sections[1].redone_stages = 1, "0 stages of FWD, 1 that BCKWD makes again");
    WRONG(p->sections[1].fast_memory = -1, "-1 bytes of fast memory");
    WRONG(p->graphs[0].mapping = 2, "mapping is 2");
    WRONG(p->sections[2].first_stage--, "section 2:");
    WRONG(p->sections[3].stage_count--, "belong to no section");
    WRONG(p->calls[3] = 4, "no section 4 among 4");
    WRONG(p->words[0] = p->words[1], "word 0 of");
    WRONG(p->words[2] = p->words[0], "word 2 of");
    WRONG(p->locations[1].module = p->word_count, "location 1: module");
    WRONG(p->locations[1].source = -1, "source -1");
    WRONG(p->locations[0].fusion = INT32_MAX, "fusion 2147483647");
    WRONG(p->stages[2].operator_count = -1, "stage 2: -1 operators");
    WRONG(p->stages[1].operators[0].op = 0, "stage 1, operator 0: name 0");
    WRONG(p->stages[1].operators[1].op = p->word_count, "stage 1, operator 1: name");
    WRONG(p->stages[1].operators[1].type = 0, "type 0");
    WRONG(p->stages[3].operators[1].location = p->location_count, "location 2 is none of");
    WRONG(p->stages[3].operators[1].location = -1, "location -1");
    WRONG(p->location_count = 0, "and 0 locations");
    WRONG(p->stages[1].kind = SAMBA_STAGE_KIND_COUNT, "kind 11");
    WRONG(p->stages[1].rank = 0, "rank 1 or more");
    WRONG(p->stages[1].domain[0] = -1, "domain is negative");
    WRONG(p->stages[1].domain[0] = (int64_t)1 << 48, "domain has more than");
    WRONG(p->stages[1].domain[0]++, "operand 0 reaches element 29 of float32");
    WRONG(p->stages[1].operands[0].strides[0]++, "operand 0 reaches element 26");
    WRONG(p->stages[1].operands[0].strides[1] = -1, "before its first");
    WRONG(p->stages[1].operands[0].offset++, "element 24");
    WRONG(p->stages[1].operands[0].strides[0] = INT64_MAX, "or a stride");
    WRONG((p->stages[1].domain[0] = 0, p->stages[1].domain[1] = (int64_t)1 << 47,
           p->stages[1].operands[0].strides[1] = (int64_t)1 << 40),
          "operand 0 reaches");
    WRONG(p->stages[1].operands[0].buffer = -2, "no buffer -2");
    WRONG(p->stages[1].operands[0].buffer = -1, "its operand has no buffer");
    WRONG(p->stages[1].operands[0].dtype = SAMBA_FLOAT64, "operand 0 reaches");
    WRONG(p->stages[1].operands[1].dtype = SAMBA_INT16, "of another class");
    WRONG((p->stages[7].domain[0] = 0, p->stages[7].operands[0].offset = 1), "beyond the end of its buffer");
    WRONG((p->stages[5].domain[0] = 0, p->stages[5].operands[2].offset = 1), "beyond the end of its buffer");
    WRONG(p->stages[1].program.register_count = 4097, "4097 registers");
    WRONG(p->stages[1].program.registers[0].class_ = 3, "register 0: class 3");
    WRONG(p->stages[1].program.registers[0].direct = 40, "register 0:");
    WRONG(p->stages[7].program.registers[2].direct = 0, "register 2 cannot lie in operand 0");
    WRONG(p->stages[1].program.instructions[0].op = SAMBA_TILE_COUNT, "no tile operator");
    WRONG(p->stages[1].program.instructions[0].d = (int16_t)p->stages[1].program.register_count, "a register is missing");
    WRONG(p->stages[1].program.instructions[0].d = -1, "a register is missing");
    WRONG(p->stages[1].program.instructions[0].a = 0, "too many");
    WRONG(p->stages[1].program.instructions[0].operand = (int16_t)p->stages[1].operand_count, "the operand is missing");
    WRONG(p->stages[1].program.instructions[2].a = 5, "was not written before");
    WRONG(p->stages[1].program.registers[2].class_ = SAMBA_F64, "classes of registers");
    WRONG(p->stages[1].program.registers[1].extent = SAMBA_ROW, "other extent");
    WRONG(p->stages[1].program.steps[0].loop = 0, "outside a loop step");
    WRONG(p->stages[1].program.steps[0].loop = 2, "step 0 takes");
    WRONG(p->stages[1].program.steps[0].begin = 1, "step 0 takes");
    WRONG(p->stages[1].program.steps[0].end--, "belong to no step");
    WRONG(p->stages[1].program.steps[0].end++, "step 0 takes");
    WRONG(p->stages[0].program.setup = 3, "(3 setup)");
    WRONG((p->stages[0].program.setup = 2, p->stages[0].program.step_count = 0), "may not stand in the setup");
    WRONG((p->stages[7].operands[0].strides[0] = 1, p->stages[7].operands[0].buffer = 0), "has a stride");
    WRONG(p->stages[5].program.instructions[2].d = 0, "writes a register of the setup");
    WRONG((p->stages[1].program.instructions[0].op = SAMBA_TILE_block, p->stages[1].program.instructions[0].operand = -1),
          "no block");
    WRONG(p->stages[2].gather.table_rows = 11, "11 rows of the table, 3 apart, reach beyond");
    WRONG(p->stages[2].operands[1].dtype = SAMBA_INT16, "int64 or int32");
    WRONG(p->stages[2].gather.axis = 2, "along dim 2");
    WRONG(p->stages[2].gather.mode = SAMBA_GATHER_MODE_COUNT, "a gather of mode");
    WRONG(p->stages[2].gather.negative = 2, "is impossible");
    WRONG(p->stages[2].operands[0].strides[0] = 1, "seen by the domain too");
    WRONG(p->stages[2].operands[0].buffer = -1, "has no memory");
    WRONG(p->stages[2].gather.table_stride = INT64_MAX, "reach beyond");
}

static void all_operands(samba_stage *stage, samba_dtype dtype)
{
    for (int32_t i = 0; i < stage->operand_count; i++)
        stage->operands[i].dtype = dtype;
}

TEST(test_wrong_zoo)
{
    const bool zoo = true;
    WRONG(p->stages[0].contract.class_ = SAMBA_F64, "factor a");
    WRONG(p->stages[0].contract.k_rank = 5, "ranks 1, 1, 2, 5");
    WRONG(p->stages[0].contract.m[0]++, "domain is not that");
    WRONG(p->stages[0].contract.k[0] = (int64_t)1 << 47, "too large");
    WRONG(p->stages[0].contract.k[0]++, "factor a reaches element 116");
    WRONG(p->stages[0].contract.a.own[0]++, "factor a reaches element 110");
    WRONG(p->stages[0].contract.a.own[0] = -27, "factor a has");
    WRONG(p->stages[0].contract.a.buffer = -1, "factor a: buffer -1");
    WRONG(p->stages[0].contract.b.windows[0].limit++, "factor b reaches");
    WRONG(p->stages[0].contract.b.windows[0].dilation = 0, "factor b, window 0");
    WRONG(p->stages[0].contract.b.windows[0].base = INT64_MIN, "factor b, window 0");
    WRONG(p->stages[0].contract.b.windows[0].own[0] = INT64_MIN, "factor b, window 0");
    WRONG(p->stages[0].contract.b.window_count = 4, "4 windows");
    WRONG((p->stages[0].program.instructions[1].op = SAMBA_TILE_sum, p->stages[0].program.registers[1].extent = SAMBA_ROW),
          "needs whole rows");
    WRONG(p->stages[1].pool.gradient = 1, "2 operands and not 3");
    WRONG(p->stages[1].pool.h++, "84 elements at 0");
    WRONG(p->stages[1].pool.stride[1] = 0, "of the pool");
    WRONG(p->stages[1].pool.kernel[0] = INT64_MAX, "of the pool");
    WRONG(p->stages[1].pool.padding[0] = -1, "of the pool");
    WRONG((p->stages[1].pool.adaptive = 1, p->stages[1].pool.h = 0), "of the pool");
    WRONG(p->stages[1].pool.divisor = 3, "of the pool"); /* a maximum has none */
    WRONG(p->stages[1].pool.indices = 1, "not int64");
    WRONG((p->stages[1].pool.average = 1, p->stages[1].pool.resample = 9), "of the resampling is impossible");
    WRONG(p->stages[1].pool.sample = 2, "of the sampling is impossible");
    WRONG((p->stages[1].pool.sample = 1, p->stages[1].pool.images = 5), "of the sampling is impossible");
    WRONG((p->stages[1].pool.sample = 4, p->stages[1].pool.images = 1, p->stages[1].pool.depth = 1),
          "of the sampling is impossible");
    WRONG((p->stages[1].pool.sample = 3, p->stages[1].pool.images = 1), "2 operands and not 3");
    WRONG(all_operands(&p->stages[1], SAMBA_BOOL), "pool of bool");
    WRONG(p->stages[1].operands[1].dtype = SAMBA_FLOAT16, "several dtypes");
    WRONG((p->stages[6].domain[0] = 0, p->stages[6].domain[1] = (int64_t)1 << 45), "need too much memory");
    WRONG((p->stages[6].domain[1] = 0, p->stages[6].operands[1].offset = 1), "operand=1): its operand lies beyond the end");
    WRONG((p->stages[6].domain[1] = 0, p->stages[6].operands[1].offset = 1, p->stages[6].program.registers[2].direct = 1),
          "register 2 lies in operand 1, beyond");
    WRONG(p->stages[7].program.instructions[2].immediate = 2, "no such dim");
    WRONG((p->stages[7].program.registers[0].class_ = SAMBA_F32, p->stages[7].operands[0].dtype = SAMBA_FLOAT32),
          "classes of registers");
    WRONG(p->stages[8].attention.causal = 2, "flag");
    WRONG(p->stages[8].attention.has_result = p->stages[8].attention.has_lse = 0, "flag");
    WRONG(p->stages[9].attention.has_lse = 0, "flag");
    WRONG(p->stages[8].attention.hkv = 3, "size, flag");
    WRONG(p->stages[8].attention.hkv = 0, "size, flag");
    WRONG(p->stages[8].attention.scale = NAN, "the scale");
    WRONG(p->stages[8].attention.slots = 1, "slots, a window, a cap or flags");
    WRONG(p->stages[8].attention.window = 1, "slots, a window, a cap or flags");
    WRONG(p->stages[8].attention.cap = 1, "slots, a window, a cap or flags");
    WRONG(p->stages[8].rank = 3, "a rank");
    WRONG(p->stages[8].attention.masked = 0, "has 7 operands, not 8");
    WRONG(p->stages[8].attention.d += 100, "operand 0 reaches element 231");
    WRONG(p->stages[9].attention.dv = (int64_t)1 << 50, "size, flag");
    WRONG(p->stages[8].domain[3]++, "operand 1 reaches element 161");
    WRONG(p->stages[8].operands[1].strides[2] += 5, "operand 1 reaches element 147");
    WRONG(p->stages[8].operands[6].offset = 1, "operand 6 reaches element 72");
    WRONG(p->stages[9].operands[8].strides[1] = 1000, "operand 8 reaches");
    WRONG(p->stages[8].operands[3].buffer = -1, "operand 3 reaches");
    WRONG(p->stages[8].operands[2].dtype = SAMBA_BFLOAT16, "operand 2 of the attention is bfloat16");
    WRONG(all_operands(&p->stages[9], SAMBA_INT32), "operand 0 of the attention is int32");
    WRONG(p->stages[8].operands[3].dtype = SAMBA_UINT8, "operand 3 of the attention is uint8");
    WRONG(p->stages[8].operands[4].dtype = SAMBA_INT64, "operand 4 of the attention is int64");
    WRONG(p->stages[8].operands[7].dtype = SAMBA_BFLOAT16, "operand 7 of the attention is bfloat16");
    WRONG(p->stages[10].line.function = SAMBA_LINE_FUNCTION_COUNT, "function 10 over");
    WRONG(p->stages[10].line.function = -1, "function -1 over");
    WRONG(p->stages[10].line.count = 6, "of which 6");
    WRONG(p->stages[11].line.count = 4, "of which 4");
    WRONG(p->stages[10].line.first = 1, "is impossible");
    WRONG(p->stages[10].line.nan = 1, "is impossible");
    WRONG((p->stages[10].line.function = SAMBA_LINE_CHOOSE, p->stages[10].line.first = 2), "is impossible");
    WRONG((p->stages[10].line.function = SAMBA_LINE_CHOOSE, p->stages[10].line.first = -1), "is impossible");
    WRONG(p->stages[10].line.has_values = p->stages[10].line.has_indices = 0, "is impossible");
    WRONG(p->stages[10].line.function = SAMBA_LINE_CUMSUM, "is impossible");
    WRONG(p->stages[10].line.outer = INT64_MAX, "is impossible");
    WRONG(p->stages[10].line.size = -1, "is impossible");
    WRONG(p->stages[10].line.has_indices = 0, "3 operands and not 2");
    WRONG(p->stages[10].line.outer = 3, "45 elements at 0");
    WRONG(p->stages[11].line.function = SAMBA_LINE_MARGIN, "margins of 2 x 5 x 3 are impossible");
    WRONG((p->stages[11].line.function = SAMBA_LINE_MARGIN, p->stages[11].line.inner = p->stages[11].line.count = 1),
          "margins take float32 or float64 and int64 labels");
    WRONG((p->stages[11].line.function = SAMBA_LINE_MARGIN_GRAD, p->stages[11].line.inner = 1), "3 operands and not 4");
    WRONG(p->stages[10].operands[1].dtype = SAMBA_INT32, "operand 1 of a line is int32");
    WRONG(p->stages[10].operands[2].dtype = SAMBA_INT32, "must be int64");
    WRONG(all_operands(&p->stages[11], SAMBA_INT32), "takes floating point, not int32");
    WRONG(p->stages[12].linear.form = 4, "form 4 of 2 x 3 x 32 is impossible");
    WRONG(p->stages[12].linear.form = -1, "form -1 of");
    WRONG(p->stages[12].linear.transposed = 1, "is impossible");
    WRONG(p->stages[13].linear.transposed = 2, "is impossible");
    WRONG(p->stages[12].linear.k = 16, "is impossible");
    WRONG(p->stages[12].linear.m = -1, "is impossible");
    WRONG(p->stages[12].linear.n = INT64_MAX, "is impossible");
    WRONG(p->stages[12].linear.m = 3, "operand 0: 96 elements at 0 do not fit");
    WRONG(p->stages[12].linear.n = 4, "operand 1: 64 elements at 0 do not fit");
    WRONG(p->stages[12].operands[3].offset = 1, "operand 3: 6 elements at 1 do not fit");
    WRONG(p->stages[12].linear.form = SAMBA_LINEAR_FLOAT32, "4 operands and not 3");
    WRONG(p->stages[13].linear.form = SAMBA_LINEAR_BFLOAT16, "operands of form 1 are of other dtypes");
    WRONG(p->stages[12].operands[2].dtype = SAMBA_BFLOAT16, "operands of form 3 are of other dtypes");
    WRONG(p->stages[12].operands[3].dtype = SAMBA_INT32, "operands of form 3 are of other dtypes");
    WRONG(p->stages[14].fourier.form = 3, "a transform of form 3 of 2 x 10 x 1 is impossible");
    WRONG(p->stages[14].fourier.form = -1, "is impossible");
    WRONG(p->stages[14].fourier.inverse = 2, "is impossible");
    WRONG(p->stages[14].fourier.size = 0, "is impossible");
    WRONG(p->stages[14].fourier.size = INT64_MAX, "is impossible");
    WRONG(p->stages[14].fourier.outer = -1, "is impossible");
    WRONG(p->stages[14].fourier.inner = INT64_MAX / 4, "is impossible");
    WRONG(p->stages[14].fourier.scale = NAN, "is impossible");
    WRONG(p->stages[14].fourier.pairs = INFINITY, "is impossible");
    WRONG(p->stages[14].fourier.size = 12, "operand 0: 24 elements at 0 do not fit");
    WRONG(p->stages[14].fourier.form = SAMBA_FOURIER_COMPLEX, "operand 0: 40 elements at 0 do not fit");
    WRONG(p->stages[14].fourier.inner = 2, "operand 0: 40 elements at 0 do not fit");
    WRONG(p->stages[14].operands[1].offset = 1, "operand 1: 24 elements at 1 do not fit");
    WRONG(p->stages[14].operands[1].buffer = p->stages[14].operands[0].buffer, "do not fit");
    WRONG(p->stages[14].operand_count = 1, "1 operands and not 2");
    WRONG(p->stages[14].operands[1].dtype = SAMBA_INT32, "a transform takes float32 or float64, and gives the same");
    WRONG(p->stages[15].ctc.gradient = 2, "a loss of 5 x 3 x 4, with 2 labels and blank 0, is impossible");
    WRONG(p->stages[15].ctc.zero_infinity = -1, "is impossible");
    WRONG(p->stages[15].ctc.blank = 4, "is impossible");
    WRONG(p->stages[15].ctc.blank = -1, "is impossible");
    WRONG(p->stages[15].ctc.steps = -1, "is impossible");
    WRONG(p->stages[15].ctc.most = INT64_MAX, "is impossible");
    WRONG(p->stages[15].ctc.batch = INT64_MAX, "is impossible");
    WRONG(p->stages[15].ctc.steps = 6, "operand 0: 72 elements at 0 do not fit");
    WRONG(p->stages[15].ctc.most = 3, "operand 1: 9 elements at 0 do not fit");
    WRONG(p->stages[15].ctc.gradient = 0, "6 operands and not 5");
    WRONG(p->stages[15].operands[1].dtype = SAMBA_INT32, "a ctc loss takes float32 or float64, and int64 labels and lengths");
    WRONG(p->stages[15].operands[5].buffer = p->stages[15].operands[0].buffer, "operand 5, which it writes, lies over operand 0");
    WRONG(p->constants[0].blob = p->constants[1].blob, "constant 0: 100 bytes");
    WRONG(p->constants[1].blob = 2, "constant 1: its bytes are blob 2 of 2");
    WRONG(p->constants[1].blob = -1, "constant 1: its bytes are blob -1 of 2");
    WRONG(p->blobs = NULL, "2 blobs");
    WRONG(p->blob_count = -1, "-1 blobs");
    WRONG(p->graphs[0].literals[1] = 2, "literal 1 is blob 2 of 2");
    WRONG(p->graphs[0].literals[0] = -1, "literal 0 is blob -1 of 2");
    WRONG(p->graphs[0].literals = NULL, "2 literals");
    WRONG(p->graphs[0].literal_count = -1, "-1 literals");
    WRONG(p->graphs[0].literal_count = 1, "refers to a literal that is none of its 1");
    WRONG(p->graphs[0].text = "graph \"&9\" # &9\n%0 = literal data=&2 : ", "refers to a literal that is none of its 2");
    WRONG(p->graphs[0].text = "data=&0 data=&18446744073709551616", "refers to a literal that is none of its 2");
    WRONG(p->graphs[0].text = "data=&", "refers to a literal that is none of its 2");
    WRONG(p->graphs[0].text = "\"\\\"&\" &7", "refers to a literal that is none of its 2");
    WRONG(p->tensors[0].role = 3, "role 3 is impossible");
    WRONG(p->tensors[0].role = -1, "role -1 is impossible");
    WRONG(p->tensors[0].role = SAMBA_ROLE_OPTIMIZER, "\"in\": role 1 is impossible for kind 0");
}

TEST(test_empty_domain)
{
    OWN_FIXTURE f;
    begin(&f, false);
    for (int i = 0; i < 3; i++)
        f.plan.stages[1].operands[i].buffer = plan_buffer(&f.plan, 0);
    f.plan.stages[1].domain[0] = 0; /* a batch of none reads and writes nothing: empty buffers are enough */
    need_in(f.context, samba_plan_check(f.context, &f.plan));
}

TEST(test_files)
{
    OWN_FIXTURE f;
    begin(&f, false);
    OWN_PLAN plan;
    refuse_in(f.context, samba_pef_read(f.context, "/nowhere/there.pef", &plan), SAMBA_ERROR_FILE, "/nowhere/there.pef");
    refuse_in(f.context, samba_pef_read(f.context, "/tmp", &plan), SAMBA_ERROR_FILE, "is a folder and no PEF");
    refuse_in(f.context, samba_pef_write(f.context, &f.plan, "/nowhere/there.pef"), SAMBA_ERROR_FILE, "/nowhere/there.pef");
    assert_int_equal(truncate(path, ((off_t)16 << 30) + 1), 0);
    refuse_in(f.context, samba_pef_read(f.context, path, &plan), SAMBA_ERROR_FORMAT, "the largest PEF has");
}

TEST(test_log)
{
    OWN_FIXTURE f;
    begin(&f, true);
    samba_text text;
    samba_text_init(&text, f.context);
    need_in(f.context, samba_plan_log(f.context, &f.plan, &text));
    char parts[] =
        "graph       zoo (inference)\n|hash        0123456789abcdef\n|device memory\n|sections\n|section 0 FWD: stages\n|"
        "2 x 4x25x27|pool: max_pool2d|2 of 2x2|attention  (2, 4, 3, 3)|(5, 7)|schedule\n|hyperparameters\n";
    for (char *rest = parts, *part; (part = strtok_r(rest, "|", &rest));)
        if (!strstr(text.data, part))
            fail_msg("the log lacks \"%s\":\n%s", part, text.data);
    samba_text_clear(&text);
}

static samba_status write_and_read(samba_context *of, void *user)
{
    const samba_plan *plan = user;
    OWN_PLAN copy;
    samba_text text;
    samba_text_init(&text, of);
    samba_plan_init(&copy, of);
    samba_status status = samba_pef_write(of, plan, path);
    THEN(status, samba_pef_read(of, path, &copy));
    THEN(status, samba_plan_log(of, &copy, &text));
    samba_text_clear(&text);
    return status;
}

TEST(test_allocations)
{
    OWN_FIXTURE f;
    begin(&f, true);
    fail_each_allocation(write_and_read, &f.plan);
}

TEST_MAIN(test_round_trip, test_flipped_bits, test_truncation, test_headers, test_wrong_training, test_wrong_zoo,
          test_empty_domain, test_files, test_log, test_allocations)
