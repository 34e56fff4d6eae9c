/* SPDX-License-Identifier: Apache-2.0
 *
 * The PEF: what is written is read back, byte for byte the same each time; whatever else a file holds is refused with a message.
 * Damage is tried at random (the seed is printed), with checksums as they were and with checksums made right again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "written_pef.h"
#include "seeded.h"
#include "plan/names.h"

static samba_status decode(fixture *f, const void *bytes, size_t size)
{
    samba_plan plan;
    samba_status status = samba_pef_decode(f->context, "test.pef", bytes, size, &plan);
    if (status == SAMBA_OK)
        assert_int_equal(samba_plan_check(f->context, &plan), SAMBA_OK);
    samba_plan_free(&plan);
    return status;
}

static void assert_message(fixture *f, samba_status status, samba_status expected, const char *part)
{
    if (status != expected || !strstr(samba_error_message(f->context), part))
        fail_msg("status %s, message \"%s\" lacks \"%s\"", samba_status_name(status), samba_error_message(f->context), part);
}

static void test_round_trip(void **unused)
{
    (void)unused;
    for (int zoo = 0; zoo < 2; zoo++) {
        fixture f;
        begin(&f, zoo);
        samba_plan plan;
        if (samba_pef_read(f.context, path, &plan) != SAMBA_OK)
            fail_msg("%s", samba_error_message(f.context));
        assert_string_equal(plan.name, f.plan.name);
        assert_int_equal(plan.graph_count, 1);
        assert_string_equal(plan.graphs[0].text, f.plan.graphs[0].text);
        assert_true(plan.graphs[0].hash == f.plan.graphs[0].hash && plan.ops_signature == f.plan.ops_signature);
        assert_int_equal(plan.stage_count, f.plan.stage_count);
        assert_memory_equal(plan.buffers, f.plan.buffers, (size_t)plan.buffer_count * sizeof *plan.buffers);
        assert_memory_equal(plan.calls, f.plan.calls, (size_t)plan.call_count * sizeof *plan.calls);
        for (int32_t i = 0; i < plan.stage_count; i++) {
            const samba_stage *a = &plan.stages[i], *b = &f.plan.stages[i];
            assert_string_equal(a->name, b->name);
            assert_memory_equal(a->domain, b->domain, sizeof a->domain);
            assert_int_equal(a->operator_count, b->operator_count);
            if (a->operator_count > 0)
                assert_memory_equal(a->operators, b->operators, (size_t)a->operator_count * sizeof *a->operators);
            assert_memory_equal(&a->contract, &b->contract, sizeof a->contract);
            assert_memory_equal(&a->pool, &b->pool, sizeof a->pool);
            assert_memory_equal(&a->gather, &b->gather, sizeof a->gather);
            assert_memory_equal(&a->attention, &b->attention, sizeof a->attention);
            assert_memory_equal(&a->line, &b->line, sizeof a->line);
            assert_int_equal(a->program.setup, b->program.setup);
            for (int32_t k = 0; k < a->operand_count; k++)
                assert_memory_equal(&a->operands[k], &b->operands[k], sizeof a->operands[k]);
            for (int32_t k = 0; k < a->program.instruction_count; k++) {
                const samba_instruction *x = &a->program.instructions[k], *y = &b->program.instructions[k];
                assert_true(x->op == y->op && x->d == y->d && x->a == y->a && x->b == y->b && x->c == y->c &&
                            x->operand == y->operand && x->immediate == y->immediate);
            }
        }
        assert_int_equal(plan.word_count, f.plan.word_count);
        assert_int_equal(plan.location_count, f.plan.location_count);
        for (int32_t i = 0; i < plan.word_count; i++)
            assert_string_equal(plan.words[i], f.plan.words[i]);
        if (plan.location_count > 0)
            assert_memory_equal(plan.locations, f.plan.locations, (size_t)plan.location_count * sizeof *plan.locations);
        for (int32_t i = 0; i < plan.constant_count; i++)
            assert_true(samba_blob_equal(plan.blobs[plan.constants[i].blob], f.plan.blobs[f.plan.constants[i].blob]));
        assert_int_equal(samba_pef_write(f.context, &plan, path), SAMBA_OK); /* what was read writes the same file */
        void *again;
        size_t size;
        assert_int_equal(samba_file_read(f.context, path, &again, &size), SAMBA_OK);
        assert_int_equal(size, f.size);
        assert_memory_equal(again, f.bytes, size);
        samba_free(f.context, again, size);
        samba_plan_free(&plan);
        end(&f);
    }
}

static void test_negative_zero(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, false);
    f.plan.stages[0].program.instructions[0].immediate = -0.0;
    samba_plan plan;
    assert_int_equal(samba_pef_write(f.context, &f.plan, path), SAMBA_OK);
    assert_int_equal(samba_pef_read(f.context, path, &plan), SAMBA_OK);
    assert_true(signbit(plan.stages[0].program.instructions[0].immediate));
    samba_plan_free(&plan);
    end(&f);
}

static void test_flipped_bits(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, true);
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
    end(&f);
}

static void test_truncation(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, true);
    for (size_t size = 0; size < f.size; size += 97) {
        char *part = malloc(size + 1); /* of this very size, so that a sanitizer sees what reads behind it */
        assert_non_null(part);
        part = realloc(part, size ? size : 1);
        memcpy(part, f.bytes, size);
        assert_message(&f, decode(&f, part, size), SAMBA_ERROR_FORMAT, size < 8 ? "not a PEF" : "truncated");
        free(part);
    }
    char *longer = calloc(1, f.size + 1);
    memcpy(longer, f.bytes, f.size);
    assert_message(&f, decode(&f, longer, f.size + 1), SAMBA_ERROR_FORMAT, "too long: its header says");
    free(longer);
    end(&f);
}

static void test_headers(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, false);
    samba_pef_header header, original;
    memcpy(&original, f.bytes, sizeof original);
    const char *text = "PK\003\004 is no PEF at all, but it is longer than a header of one hundred and twenty-eight bytes, which "
                       "is what a PEF has";
    assert_message(&f, decode(&f, text, strlen(text)), SAMBA_ERROR_FORMAT, "not a PEF");
#define TRY_HEADER(change, part)                                                                                                 \
    do {                                                                                                                         \
        header = original;                                                                                                       \
        change;                                                                                                                  \
        memcpy(f.bytes, &header, sizeof header);                                                                                 \
        seal(f.bytes, f.size);                                                                                                   \
        assert_message(&f, decode(&f, f.bytes, f.size), SAMBA_ERROR_FORMAT, part);                                               \
    } while (0)
    TRY_HEADER(header.version = 2, "this library reads PEF versions 3 to 5 and \"test.pef\" is version 2: compile");
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
    assert_message(&f, decode(&f, f.bytes, f.size), SAMBA_ERROR_FORMAT, "damaged: its content");
    original.header_checksum++;
    memcpy(f.bytes, &original, sizeof original);
    assert_message(&f, decode(&f, f.bytes, f.size), SAMBA_ERROR_FORMAT, "damaged: its header");
    /* a beginning of the table is as good as all of it: operators are added at the end */
    memcpy(&header, f.bytes, sizeof header);
    header.tile_count = SAMBA_TILE_COUNT - 1;
    header.tile_signature = samba_pef_tile_signature(header.tile_count);
    memcpy(f.bytes, &header, sizeof header);
    seal(f.bytes, f.size);
    assert_int_equal(decode(&f, f.bytes, f.size), SAMBA_OK);
    end(&f);
}

static void test_hostile_messages(void **unused)
{
    (void)unused;
    int loaded = 0;
    for (int zoo = 0; zoo < 2; zoo++) {
        fixture f;
        begin(&f, zoo);
        samba_pef_header header;
        memcpy(&header, f.bytes, sizeof header);
        char *bytes = malloc(f.size);
        for (int i = 0; i < 2500; i++) {
            memcpy(bytes, f.bytes, f.size);
            int changes = 1 + (int)(next_random() % 3);
            for (int k = 0; k < changes; k++)
                bytes[header.message_offset + (int64_t)(next_random() % (uint64_t)header.message_length)] = (char)next_random();
            seal(bytes, f.size);
            samba_status status = decode(&f, bytes, f.size);
            if (status != SAMBA_OK && status != SAMBA_ERROR_FORMAT && status != SAMBA_ERROR_MEMORY)
                fail_msg("status %s: %s", samba_status_name(status), samba_error_message(f.context));
            loaded += status == SAMBA_OK;
        }
        free(bytes);
        end(&f);
    }
    assert_true(loaded > 0); /* names and numbers without limits may change */
}

/* ---- the plan's check: one change, one message ---- */
typedef void change(samba_plan *plan);
static void wrong_count(samba_plan *p) { p->stage_count = -1; }
static void no_name(samba_plan *p) { p->name = NULL; }
static void no_steps(samba_plan *p) { p->graphs[0].grad_accumulation_steps = 0; }
static void negative_memory(samba_plan *p) { p->memory.scratch = -1; }
static void huge_memory(samba_plan *p) { p->memory_bytes = INT64_MAX; }
static void small_memory(samba_plan *p) { p->memory_bytes -= 64; }
static void odd_buffer(samba_plan *p) { p->buffers[1].offset += 4; }
static void long_buffer(samba_plan *p) { p->buffers[0].bytes = INT64_MAX; }
static void twin_tensor(samba_plan *p) { p->tensors[2].name = p->tensors[0].name; }
static void nameless_tensor(samba_plan *p) { p->tensors[1].name = p->graphs[0].text + strlen(p->graphs[0].text); }
static void twin_argin(samba_plan *p) { p->argins[1].name = p->argins[0].name; }
static void wrong_dtype(samba_plan *p) { p->tensors[0].dtype = 10; }
static void wrong_rank(samba_plan *p) { p->tensors[0].rank = 9; }
static void huge_tensor(samba_plan *p) { p->tensors[0].shape[0] = INT64_MAX; }
static void large_tensor(samba_plan *p) { p->tensors[0].shape[0]++; }
static void foreign_buffer(samba_plan *p) { p->tensors[0].buffer = p->buffer_count; }
static void wrong_init(samba_plan *p) { p->tensors[1].init = SAMBA_INIT_NORMAL; }
static void turned_init(samba_plan *p) { p->tensors[3].init_a = 2; }
static void lost_row(samba_plan *p) { p->tensors[3].init = SAMBA_INIT_NORMAL_BUT_ROW, p->tensors[3].init_a = 1e9; }
static void nan_init(samba_plan *p) { p->tensors[4].init_a = (double)NAN; }
static void loss_input(samba_plan *p) { p->tensors[0].is_loss = 1; }
static void float_range(samba_plan *p) { p->tensors[0].has_range = 1; }
static void wrong_role(samba_plan *p) { p->argins[0].role = 4; }
static void half_training(samba_plan *p) { p->argins[0].role = 3; }
static void integer_rate(samba_plan *p) { p->argins[1].dtype = SAMBA_INT64; }
static void half_seed(samba_plan *p) { p->argins[2].value = 0.5; }
static void wrong_phase(samba_plan *p) { p->sections[1].phase = 6; }
static void wrong_id(samba_plan *p) { p->sections[1].id = 2; }
static void redone_by_nobody(samba_plan *p) { p->sections[1].redone_by = 4; }
static void redone_by_itself(samba_plan *p) { p->sections[1].redone_by = p->sections[1].phase; }
static void redone_before(samba_plan *p) { p->sections[p->section_count - 1].redone_by = 2; }
static void redone_by_minus(samba_plan *p) { p->sections[1].redone_by = -1; }
static void joint_backward(samba_plan *p) { p->sections[2].forward_stages = 1; }
static void joint_beyond(samba_plan *p) { p->sections[1].forward_stages = p->sections[1].stage_count + 1; }
static void joint_minus(samba_plan *p) { p->sections[1].forward_stages = -1; }
static void redone_beyond(samba_plan *p) { p->sections[1].redone_stages = 1; }
static void fast_minus(samba_plan *p) { p->sections[1].fast_memory = -1; }
static void wrong_mapping(samba_plan *p) { p->graphs[0].mapping = 2; }
static void overlapping_section(samba_plan *p) { p->sections[2].first_stage--; }
static void missing_stage(samba_plan *p) { p->sections[3].stage_count--; }
static void wrong_call(samba_plan *p) { p->calls[3] = 4; }
static void first_word(samba_plan *p) { p->words[0] = p->words[1]; }
static void empty_word(samba_plan *p) { p->words[2] = p->words[0]; }
static void place_module(samba_plan *p) { p->locations[1].module = p->word_count; }
static void place_source(samba_plan *p) { p->locations[1].source = -1; }
static void place_fusion(samba_plan *p) { p->locations[0].fusion = INT32_MAX; }
static void negative_operators(samba_plan *p) { p->stages[2].operator_count = -1; }
static void operator_nameless(samba_plan *p) { p->stages[1].operators[0].op = 0; }
static void operator_name(samba_plan *p) { p->stages[1].operators[1].op = p->word_count; }
static void operator_typeless(samba_plan *p) { p->stages[1].operators[1].type = 0; }
static void operator_type(samba_plan *p) { p->stages[1].operators[1].type = -5; }
static void operator_place(samba_plan *p) { p->stages[3].operators[1].location = p->location_count; }
static void negative_place(samba_plan *p) { p->stages[3].operators[1].location = -1; }
static void no_places(samba_plan *p) { p->location_count = 0; }
static void wrong_kind(samba_plan *p) { p->stages[1].kind = SAMBA_STAGE_KIND_COUNT; }
static void zero_rank(samba_plan *p) { p->stages[1].rank = 0; }
static void negative_domain(samba_plan *p) { p->stages[1].domain[0] = -1; }
static void huge_domain(samba_plan *p) { p->stages[1].domain[0] = (int64_t)1 << 48; }
static void long_domain(samba_plan *p) { p->stages[1].domain[0]++; }
static void long_stride(samba_plan *p) { p->stages[1].operands[0].strides[0]++; }
static void negative_stride(samba_plan *p) { p->stages[1].operands[0].strides[1] = -1; }
static void late_offset(samba_plan *p) { p->stages[1].operands[0].offset++; }
static void overflowing_stride(samba_plan *p) { p->stages[1].operands[0].strides[0] = INT64_MAX; }
static void empty_overflow(samba_plan *p)
{
    p->stages[1].domain[0] = 0, p->stages[1].domain[1] = (int64_t)1 << 47, p->stages[1].operands[0].strides[1] = (int64_t)1 << 40;
}
static void operand_buffer(samba_plan *p) { p->stages[1].operands[0].buffer = -2; }
static void no_operand_buffer(samba_plan *p) { p->stages[1].operands[0].buffer = -1; }
static void operand_dtype(samba_plan *p) { p->stages[1].operands[0].dtype = SAMBA_FLOAT64; }
static void operand_class(samba_plan *p) { p->stages[1].operands[1].dtype = SAMBA_INT16; }
static void empty_setup(samba_plan *p) { p->stages[7].domain[0] = 0, p->stages[7].operands[0].offset = 1; }
static void empty_collect(samba_plan *p) { p->stages[5].domain[0] = 0, p->stages[5].operands[2].offset = 1; }
static void many_registers(samba_plan *p) { p->stages[1].program.register_count = 4097; }
static void wrong_class(samba_plan *p) { p->stages[1].program.registers[0].class_ = 3; }
static void wrong_direct(samba_plan *p) { p->stages[1].program.registers[0].direct = 40; }
static void direct_class(samba_plan *p) { p->stages[7].program.registers[2].direct = 0; }
static void wrong_tile(samba_plan *p) { p->stages[1].program.instructions[0].op = SAMBA_TILE_COUNT; }
static void wrong_register(samba_plan *p)
{
    p->stages[1].program.instructions[0].d = (int16_t)p->stages[1].program.register_count;
}
static void no_register(samba_plan *p) { p->stages[1].program.instructions[0].d = -1; }
static void superfluous_register(samba_plan *p) { p->stages[1].program.instructions[0].a = 0; }
static void wrong_operand(samba_plan *p) { p->stages[1].program.instructions[0].operand = (int16_t)p->stages[1].operand_count; }
static void unset_register(samba_plan *p) { p->stages[1].program.instructions[2].a = 5; }
static void mixed_classes(samba_plan *p) { p->stages[1].program.registers[2].class_ = SAMBA_F64; }
static void mixed_extents(samba_plan *p) { p->stages[1].program.registers[1].extent = SAMBA_ROW; }
static void no_loop(samba_plan *p) { p->stages[1].program.steps[0].loop = 0; }
static void wrong_loop(samba_plan *p) { p->stages[1].program.steps[0].loop = 2; }
static void early_step(samba_plan *p) { p->stages[1].program.steps[0].begin = 1; }
static void short_step(samba_plan *p) { p->stages[1].program.steps[0].end--; }
static void long_step(samba_plan *p) { p->stages[1].program.steps[0].end++; }
static void long_setup(samba_plan *p) { p->stages[0].program.setup = 3; }
static void setup_store(samba_plan *p) { p->stages[0].program.setup = 2, p->stages[0].program.step_count = 0; }
static void setup_stride(samba_plan *p) { p->stages[7].operands[0].strides[0] = 1, p->stages[7].operands[0].buffer = 0; }
static void setup_written(samba_plan *p) { p->stages[5].program.instructions[2].d = 0; }
static void outside_block(samba_plan *p)
{
    p->stages[1].program.instructions[0] = (samba_instruction){SAMBA_TILE_block, 0, -1, -1, -1, -1, 0};
}
static void gather_rows(samba_plan *p) { p->stages[2].gather.table_rows = 11; }
static void gather_index(samba_plan *p) { p->stages[2].operands[1].dtype = SAMBA_INT16; }
static void gather_axis(samba_plan *p) { p->stages[2].gather.axis = 2; }
static void gather_mode(samba_plan *p) { p->stages[2].gather.mode = SAMBA_GATHER_MODE_COUNT; }
static void gather_negative(samba_plan *p) { p->stages[2].gather.negative = 2; }
static void gather_seen(samba_plan *p) { p->stages[2].operands[0].strides[0] = 1; }
static void gather_memory(samba_plan *p) { p->stages[2].operands[0].buffer = -1; }
static void gather_overflow(samba_plan *p) { p->stages[2].gather.table_stride = INT64_MAX; }
static const struct {
    change *change;
    const char *message;
} train_changes[] = {{wrong_count, "-1 stages"},
                     {no_name, "no name"},
                     {no_steps, "0 steps"},
                     {negative_memory, "-1 bytes"},
                     {huge_memory, "device memory of"},
                     {small_memory, "do not lie aligned"},
                     {odd_buffer, "buffer 1:"},
                     {long_buffer, "buffer 0:"},
                     {twin_tensor, "the name \"x\" is there twice"},
                     {nameless_tensor, "tensor 1 has no name"},
                     {twin_argin, "\"optim0.lr\" is there twice"},
                     {wrong_dtype, "\"x\": kind 0, dtype 10"},
                     {wrong_rank, "rank 9"},
                     {huge_tensor, "is impossible"},
                     {large_tensor, "30 elements of float32 do not fit buffer 0"},
                     {foreign_buffer, "do not fit buffer"},
                     {wrong_init, "initializer 3"},
                     {turned_init, "initializer 2 (2, 1)"},
                     {lost_row, "initializer 4 (1e+09"},
                     {nan_init, "initializer 1"},
                     {loss_input, "its loss"},
                     {float_range, "range of indices"},
                     {wrong_role, "role 4"},
                     {half_training, "0.25 is no value for it"},
                     {integer_rate, "\"drop.p\": role 1"},
                     {half_seed, "0.5 is no value"},
                     {wrong_phase, "phase 6"},
                     {wrong_id, "id 2"},
                     {redone_by_nobody, "redone by phase 4"},
                     {redone_by_itself, "no section of that phase comes after it"},
                     {redone_before, "no section of that phase comes after it"},
                     {redone_by_minus, "redone by phase -1"},
                     {joint_backward, "section 2: 1 stages of FWD"},
                     {joint_beyond, "are impossible"},
                     {joint_minus, "section 1: -1 stages of FWD"},
                     {redone_beyond, "0 stages of FWD, 1 that BCKWD makes again"},
                     {fast_minus, "-1 bytes of fast memory"},
                     {wrong_mapping, "mapping is 2"},
                     {overlapping_section, "section 2:"},
                     {missing_stage, "belong to no section"},
                     {wrong_call, "no section 4 among 4"},
                     {first_word, "word 0 of"},
                     {empty_word, "word 2 of"},
                     {place_module, "location 1: module"},
                     {place_source, "source -1"},
                     {place_fusion, "fusion 2147483647"},
                     {negative_operators, "stage 2: -1 operators"},
                     {operator_nameless, "stage 1, operator 0: name 0"},
                     {operator_name, "stage 1, operator 1: name"},
                     {operator_typeless, "type 0"},
                     {operator_type, "type -5"},
                     {operator_place, "location 2 is none of"},
                     {negative_place, "location -1"},
                     {no_places, "and 0 locations"},
                     {wrong_kind, "kind 6"},
                     {zero_rank, "rank 1 or more"},
                     {negative_domain, "domain is negative"},
                     {huge_domain, "domain has more than"},
                     {long_domain, "operand 0 reaches element 29 of float32"},
                     {long_stride, "operand 0 reaches element 26"},
                     {negative_stride, "before its first"},
                     {late_offset, "element 24"},
                     {overflowing_stride, "or a stride"},
                     {empty_overflow, "operand 0 reaches"},
                     {operand_buffer, "no buffer -2"},
                     {no_operand_buffer, "its operand has no buffer"},
                     {operand_dtype, "operand 0 reaches"},
                     {operand_class, "of another class"},
                     {empty_setup, "beyond the end of its buffer"},
                     {empty_collect, "beyond the end of its buffer"},
                     {many_registers, "4097 registers"},
                     {wrong_class, "register 0: class 3"},
                     {wrong_direct, "register 0:"},
                     {direct_class, "register 2 cannot lie in operand 0"},
                     {wrong_tile, "no tile operator"},
                     {wrong_register, "a register is missing"},
                     {no_register, "a register is missing"},
                     {superfluous_register, "too many"},
                     {wrong_operand, "the operand is missing"},
                     {unset_register, "was not written before"},
                     {mixed_classes, "classes of registers"},
                     {mixed_extents, "other extent"},
                     {no_loop, "outside a loop step"},
                     {wrong_loop, "step 0 takes"},
                     {early_step, "step 0 takes"},
                     {short_step, "belong to no step"},
                     {long_step, "step 0 takes"},
                     {long_setup, "(3 setup)"},
                     {setup_store, "may not stand in the setup"},
                     {setup_stride, "has a stride"},
                     {setup_written, "writes a register of the setup"},
                     {outside_block, "no block"},
                     {gather_rows, "11 rows of the table, 3 apart, reach beyond"},
                     {gather_index, "int64 or int32"},
                     {gather_axis, "along dim 2"},
                     {gather_mode, "a gather of mode"},
                     {gather_negative, "is impossible"},
                     {gather_seen, "seen by the domain too"},
                     {gather_memory, "has no memory"},
                     {gather_overflow, "reach beyond"}};

static void contract_class(samba_plan *p) { p->stages[0].contract.class_ = SAMBA_F64; }
static void contract_rank(samba_plan *p) { p->stages[0].contract.k_rank = 5; }
static void contract_size(samba_plan *p) { p->stages[0].contract.m[0]++; }
static void contract_huge(samba_plan *p) { p->stages[0].contract.k[0] = (int64_t)1 << 47; }
static void contract_inner(samba_plan *p) { p->stages[0].contract.k[0]++; }
static void contract_own(samba_plan *p) { p->stages[0].contract.a.own[0]++; }
static void contract_negative(samba_plan *p) { p->stages[0].contract.a.own[0] = -27; }
static void contract_buffer(samba_plan *p) { p->stages[0].contract.a.buffer = -1; }
static void window_limit(samba_plan *p) { p->stages[0].contract.b.windows[0].limit++; }
static void window_dilation(samba_plan *p) { p->stages[0].contract.b.windows[0].dilation = 0; }
static void window_base(samba_plan *p) { p->stages[0].contract.b.windows[0].base = INT64_MIN; }
static void window_step(samba_plan *p) { p->stages[0].contract.b.windows[0].own[0] = INT64_MIN; }
static void window_count(samba_plan *p) { p->stages[0].contract.b.window_count = 4; }
static void whole_rows(samba_plan *p)
{
    p->stages[0].program.instructions[1].op = SAMBA_TILE_sum, p->stages[0].program.registers[1].extent = SAMBA_ROW;
}
static void pool_operands(samba_plan *p) { p->stages[1].pool.gradient = 1; }
static void pool_size(samba_plan *p) { p->stages[1].pool.h++; }
static void pool_stride(samba_plan *p) { p->stages[1].pool.stride[1] = 0; }
static void pool_kernel(samba_plan *p) { p->stages[1].pool.kernel[0] = INT64_MAX; }
static void pool_padding(samba_plan *p) { p->stages[1].pool.padding[0] = -1; }
static void pool_share(samba_plan *p)
{
    p->stages[1].pool.adaptive = 1;
    p->stages[1].pool.h = 0;
}
static void pool_divisor(samba_plan *p) { p->stages[1].pool.divisor = 3; }
static void pool_indices(samba_plan *p) { p->stages[1].pool.indices = 1; }
static void pool_resample(samba_plan *p)
{
    p->stages[1].pool.average = 1;
    p->stages[1].pool.resample = 9;
}
static void pool_bool(samba_plan *p)
{
    for (int i = 0; i < 2; i++)
        p->stages[1].operands[i].dtype = SAMBA_BOOL;
}
static void pool_dtype(samba_plan *p) { p->stages[1].operands[1].dtype = SAMBA_FLOAT16; }
static void wide_rows(samba_plan *p) { p->stages[6].domain[0] = 0, p->stages[6].domain[1] = (int64_t)1 << 45; }
static void wrong_dim(samba_plan *p) { p->stages[7].program.instructions[2].immediate = 2; }
static void wrong_seed(samba_plan *p)
{
    p->stages[7].program.registers[0].class_ = SAMBA_F32, p->stages[7].operands[0].dtype = SAMBA_FLOAT32;
}
static void attention_flag(samba_plan *p) { p->stages[8].attention.causal = 2; }
static void attention_nothing(samba_plan *p) { p->stages[8].attention.has_result = p->stages[8].attention.has_lse = 0; }
static void attention_blind(samba_plan *p) { p->stages[9].attention.has_lse = 0; }
static void attention_heads(samba_plan *p) { p->stages[8].attention.hkv = 3; }
static void attention_headless(samba_plan *p) { p->stages[8].attention.hkv = 0; }
static void attention_scale(samba_plan *p) { p->stages[8].attention.scale = NAN; }
static void attention_rank(samba_plan *p) { p->stages[8].rank = 3; }
static void attention_parts(samba_plan *p) { p->stages[8].attention.masked = 0; }
static void attention_depth(samba_plan *p) { p->stages[8].attention.d += 100; }
static void attention_values(samba_plan *p) { p->stages[9].attention.dv = (int64_t)1 << 50; }
static void attention_keys(samba_plan *p) { p->stages[8].domain[3]++; }
static void attention_stride(samba_plan *p) { p->stages[8].operands[1].strides[2] += 5; }
static void attention_result(samba_plan *p) { p->stages[8].operands[6].offset = 1; }
static void attention_gradient(samba_plan *p) { p->stages[9].operands[8].strides[1] = 1000; }
static void attention_buffer(samba_plan *p) { p->stages[8].operands[3].buffer = -1; }
static void attention_dtype(samba_plan *p) { p->stages[8].operands[2].dtype = SAMBA_BFLOAT16; }
static void attention_integers(samba_plan *p)
{
    for (int i = 0; i < p->stages[9].operand_count; i++)
        p->stages[9].operands[i].dtype = SAMBA_INT32;
}
static void attention_mask(samba_plan *p) { p->stages[8].operands[3].dtype = SAMBA_UINT8; }
static void attention_rate(samba_plan *p) { p->stages[8].operands[4].dtype = SAMBA_INT64; }
static void line_function(samba_plan *p) { p->stages[10].line.function = SAMBA_LINE_FUNCTION_COUNT; }
static void line_negative(samba_plan *p) { p->stages[10].line.function = -1; }
static void line_count(samba_plan *p) { p->stages[10].line.count = 6; }
static void line_part(samba_plan *p) { p->stages[11].line.count = 4; }
static void line_nothing(samba_plan *p) { p->stages[10].line.has_values = p->stages[10].line.has_indices = 0; }
static void line_sums(samba_plan *p) { p->stages[10].line.function = SAMBA_LINE_CUMSUM; }
static void line_huge(samba_plan *p) { p->stages[10].line.outer = INT64_MAX; }
static void line_empty(samba_plan *p) { p->stages[10].line.size = -1; }
static void line_operands(samba_plan *p) { p->stages[10].line.has_indices = 0; }
static void line_size(samba_plan *p) { p->stages[10].line.outer = 3; }
static void line_dtype(samba_plan *p) { p->stages[10].operands[1].dtype = SAMBA_INT32; }
static void line_places(samba_plan *p) { p->stages[10].operands[2].dtype = SAMBA_INT32; }
static void line_integers(samba_plan *p)
{
    for (int i = 0; i < 3; i++)
        p->stages[11].operands[i].dtype = SAMBA_INT32;
}
static void attention_lse(samba_plan *p) { p->stages[8].operands[7].dtype = SAMBA_BFLOAT16; }
static void constant_size(samba_plan *p) { p->constants[0].blob = p->constants[1].blob; }
static void role_unknown(samba_plan *p) { p->tensors[0].role = 3; }
static void role_negative(samba_plan *p) { p->tensors[0].role = -1; }
static void role_of_input(samba_plan *p) { p->tensors[0].role = SAMBA_ROLE_OPTIMIZER; }
static void constant_blob(samba_plan *p) { p->constants[1].blob = 2; }
static void constant_no_blob(samba_plan *p) { p->constants[1].blob = -1; }
static void blobs_none(samba_plan *p) { p->blobs = NULL; }
static void blobs_less_than_none(samba_plan *p) { p->blob_count = -1; }
static void literal_blob(samba_plan *p) { p->graphs[0].literals[1] = 2; }
static void literal_no_blob(samba_plan *p) { p->graphs[0].literals[0] = -1; }
static void literals_none(samba_plan *p) { p->graphs[0].literals = NULL; }
static void literals_less_than_none(samba_plan *p) { p->graphs[0].literal_count = -1; }
static void literals_left_out(samba_plan *p) { p->graphs[0].literal_count = 1; }
static void text_refers(samba_plan *p) { p->graphs[0].text = "graph \"&9\" # &9\n%0 = literal data=&2 : "; }
static void text_refers_far(samba_plan *p) { p->graphs[0].text = "data=&0 data=&18446744073709551616"; }
static void text_refers_to_nothing(samba_plan *p) { p->graphs[0].text = "data=&"; }
static void text_refers_behind_a_quote(samba_plan *p) { p->graphs[0].text = "\"\\\"&\" &7"; }
static const struct {
    change *change;
    const char *message;
} zoo_changes[] = {{contract_class, "factor a"},
                   {contract_rank, "ranks 1, 1, 2, 5"},
                   {contract_size, "domain is not that"},
                   {contract_huge, "too large"},
                   {contract_inner, "factor a reaches element 116"},
                   {contract_own, "factor a reaches element 110"},
                   {contract_negative, "factor a has"},
                   {contract_buffer, "factor a: buffer -1"},
                   {window_limit, "factor b reaches"},
                   {window_dilation, "factor b, window 0"},
                   {window_base, "factor b, window 0"},
                   {window_step, "factor b, window 0"},
                   {window_count, "4 windows"},
                   {whole_rows, "needs whole rows"},
                   {pool_operands, "2 operands and not 3"},
                   {pool_size, "84 elements at 0"},
                   {pool_stride, "of the pool"},
                   {pool_kernel, "of the pool"},
                   {pool_padding, "of the pool"},
                   {pool_share, "of the pool"},
                   {pool_divisor, "of the pool"}, /* a maximum has none */
                   {pool_indices, "not int64"},
                   {pool_resample, "of the resampling is impossible"},
                   {pool_bool, "pool of bool"},
                   {pool_dtype, "several dtypes"},
                   {wide_rows, "need too much memory"},
                   {wrong_dim, "no such dim"},
                   {wrong_seed, "classes of registers"},
                   {attention_flag, "flag"},
                   {attention_nothing, "flag"},
                   {attention_blind, "flag"},
                   {attention_heads, "size, flag"},
                   {attention_headless, "size, flag"},
                   {attention_scale, "the scale"},
                   {attention_rank, "a rank"},
                   {attention_parts, "has 7 operands, not 8"},
                   {attention_depth, "operand 0 reaches element 231"},
                   {attention_values, "size, flag"},
                   {attention_keys, "operand 1 reaches element 161"},
                   {attention_stride, "operand 1 reaches element 147"},
                   {attention_result, "operand 6 reaches element 72"},
                   {attention_gradient, "operand 8 reaches"},
                   {attention_buffer, "operand 3 reaches"},
                   {attention_dtype, "operand 2 of the attention is bfloat16"},
                   {attention_integers, "operand 0 of the attention is int32"},
                   {attention_mask, "operand 3 of the attention is uint8"},
                   {attention_rate, "operand 4 of the attention is int64"},
                   {attention_lse, "operand 7 of the attention is bfloat16"},
                   {line_function, "function 7 over"},
                   {line_negative, "function -1 over"},
                   {line_count, "of which 6"},
                   {line_part, "of which 4"},
                   {line_nothing, "is impossible"},
                   {line_sums, "is impossible"},
                   {line_huge, "is impossible"},
                   {line_empty, "is impossible"},
                   {line_operands, "3 operands and not 2"},
                   {line_size, "45 elements at 0"},
                   {line_dtype, "operand 1 of a line is int32"},
                   {line_places, "must be int64"},
                   {line_integers, "takes floating point, not int32"},
                   {constant_size, "constant 0: 100 bytes"},
                   {constant_blob, "constant 1: its bytes are blob 2 of 2"},
                   {constant_no_blob, "constant 1: its bytes are blob -1 of 2"},
                   {blobs_none, "2 blobs"},
                   {blobs_less_than_none, "-1 blobs"},
                   {literal_blob, "literal 1 is blob 2 of 2"},
                   {literal_no_blob, "literal 0 is blob -1 of 2"},
                   {literals_none, "2 literals"},
                   {literals_less_than_none, "-1 literals"},
                   {literals_left_out, "refers to a literal that is none of its 1"},
                   {text_refers, "refers to a literal that is none of its 2"},
                   {text_refers_far, "refers to a literal that is none of its 2"},
                   {text_refers_to_nothing, "refers to a literal that is none of its 2"},
                   {text_refers_behind_a_quote, "refers to a literal that is none of its 2"},
                   {role_unknown, "role 3 is impossible"},
                   {role_negative, "role -1 is impossible"},
                   {role_of_input, "\"in\": role 1 is impossible for kind 0"}};

static void test_check(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof train_changes / sizeof *train_changes + sizeof zoo_changes / sizeof *zoo_changes; i++) {
        size_t zoo_at = i - sizeof train_changes / sizeof *train_changes;
        bool zoo = i >= sizeof train_changes / sizeof *train_changes;
        fixture f;
        f.context = counting_context_new(&f.state);
        if (zoo)
            make_zoo_plan(&f.plan, f.context);
        else
            make_train_plan(&f.plan, f.context, 4);
        assert_int_equal(samba_plan_check(f.context, &f.plan), SAMBA_OK);
        (zoo ? zoo_changes[zoo_at].change : train_changes[i].change)(&f.plan);
        const char *message = zoo ? zoo_changes[zoo_at].message : train_changes[i].message;
        samba_status status = samba_plan_check(f.context, &f.plan);
        if (status != SAMBA_ERROR_FORMAT || !strstr(samba_error_message(f.context), message))
            fail_msg("change %zu (%s): %s, \"%s\"", i, message, samba_status_name(status), samba_error_message(f.context));
        assert_int_equal(samba_pef_write(f.context, &f.plan, path), SAMBA_ERROR_FORMAT); /* is never written */
        samba_plan_free(&f.plan);
        counting_context_free(f.context, &f.state);
    }
}

static void test_empty_domain(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, false);
    for (int i = 0; i < 3; i++)
        f.plan.stages[1].operands[i].buffer = plan_buffer(&f.plan, 0);
    f.plan.stages[1].domain[0] = 0; /* a batch of none reads and writes nothing: empty buffers are enough */
    assert_int_equal(samba_plan_check(f.context, &f.plan), SAMBA_OK);
    end(&f);
}

static void test_files(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, false);
    samba_plan plan;
    assert_message(&f, samba_pef_read(f.context, "/nowhere/there.pef", &plan), SAMBA_ERROR_FILE, "/nowhere/there.pef");
    assert_message(&f, samba_pef_read(f.context, "/tmp", &plan), SAMBA_ERROR_FILE, "directory");
    assert_message(&f, samba_pef_write(f.context, &f.plan, "/nowhere/there.pef"), SAMBA_ERROR_FILE, "/nowhere/there.pef");
    assert_int_equal(truncate(path, ((off_t)16 << 30) + 1), 0);
    assert_message(&f, samba_pef_read(f.context, path, &plan), SAMBA_ERROR_FORMAT, "the largest PEF has");
    end(&f);
}

static void test_log(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, true);
    samba_text text;
    samba_text_init(&text, f.context);
    assert_int_equal(samba_plan_log(f.context, &f.plan, &text), SAMBA_OK);
    const char *const parts[] = {"graph       zoo (inference)\n",
                                 "hash        0123456789abcdef\n",
                                 "device memory\n",
                                 "sections\n",
                                 "section 0 FWD: stages\n",
                                 "2 x 4x25x27",
                                 "pool: max_pool2d",
                                 "2 of 2x2",
                                 "attention  (2, 4, 3, 3)",
                                 "(5, 7)",
                                 "schedule\n",
                                 "hyperparameters\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text.data, parts[i]))
            fail_msg("the log lacks \"%s\":\n%s", parts[i], text.data);
    samba_text_clear(&text);
    end(&f);
}

static void test_names(void **unused)
{
    (void)unused;
    failing_allocator state;
    samba_context *context = counting_context_new(&state);
    const char *items[100];
    char room[100][16];
    for (int i = 0; i < 100; i++)
        items[i] = (snprintf(room[i], sizeof room[i], "name%d", i), room[i]);
    samba_names names;
    int32_t duplicate;
    assert_int_equal(samba_names_build(&names, context, items, sizeof *items, 100, &duplicate), SAMBA_OK);
    assert_int_equal(duplicate, -1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(samba_names_find(&names, items[i]), i);
    assert_int_equal(samba_names_find(&names, "name100"), -1);
    samba_names_free(&names);
    items[70] = "name3";
    assert_int_equal(samba_names_build(&names, context, items, sizeof *items, 100, &duplicate), SAMBA_OK);
    assert_int_equal(duplicate, 70);
    samba_names_free(&names);
    counting_context_free(context, &state);
}

static samba_status write_and_read(samba_context *context, void *user)
{
    const samba_plan *plan = user;
    samba_plan copy;
    samba_text text;
    samba_text_init(&text, context);
    samba_plan_init(&copy, context);
    samba_status status = samba_pef_write(context, plan, path);
    if (status == SAMBA_OK)
        status = samba_pef_read(context, path, &copy);
    if (status == SAMBA_OK)
        status = samba_plan_log(context, &copy, &text);
    samba_text_clear(&text);
    samba_plan_free(&copy);
    return status;
}

static void test_allocations(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, true);
    fail_each_allocation(write_and_read, &f.plan);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_negative_zero), cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_truncation), cmocka_unit_test(test_headers),       cmocka_unit_test(test_hostile_messages),
        cmocka_unit_test(test_check),      cmocka_unit_test(test_empty_domain),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_log),        cmocka_unit_test(test_names),         cmocka_unit_test(test_allocations)};
    seed_anew();
    strcpy(path, "/tmp/samba_test_pef_XXXXXX");
    int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
