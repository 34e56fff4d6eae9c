/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs never change, packed and computed once: which memory that is; and a session whose weights are written between runs
 * gives the bits of one that had them from the start, on every road of contractions, every ISA, with one thread to three. */
#include "training.h"
#include "failing_allocator.h"
#include "device/cpu/kernel.h"

#define NORMAL ((samba_initializer){SAMBA_INIT_NORMAL, 0, 1})

/* ---- models: each road of contractions with weights on either side ---- */
MODEL(small) /* blocks, few columns */
{
    samba_value h = samba_relu(samba_linear(samba_input(g, "x"), "fc1", 37));
    samba_output(g, "y", samba_linear(samba_layer_norm(h, "norm"), "fc2", 10));
}

MODEL(panels) /* with and without whole rows, several steps of k */
{
    samba_value h = samba_gelu(samba_linear(samba_input(g, "x"), "fc1", 900));
    h = samba_tanh(samba_layer_norm(samba_linear(h, "fc2", 190), "norm"));
    samba_output(g, "y", samba_linear(h, "fc3", 200));
}

MODEL(left) /* the weight gives the rows */
{
    samba_value w = samba_parameter(g, "w", SAMBA_FLOAT32, SIZES(130, 192), NORMAL);
    samba_value v = samba_parameter(g, "v", SAMBA_FLOAT32, SIZES(7, 130), NORMAL);
    samba_value y = samba_matmul(w, samba_transpose(samba_input(g, "x"), 0, 1));
    samba_output(g, "y", samba_matmul(v, samba_relu(y)));
}

MODEL(batched) /* a weight for each batch element, and one for all */
{
    samba_value x = samba_reshape(samba_input(g, "x"), SIZES(3, 64, 96));
    samba_value w = samba_parameter(g, "w", SAMBA_FLOAT32, SIZES(3, 96, 192), NORMAL);
    samba_value v = samba_parameter(g, "v", SAMBA_FLOAT32, SIZES(192, 11), NORMAL);
    samba_output(g, "y", samba_matmul(samba_tanh(samba_matmul(x, w)), v));
}

MODEL(convolution)
{
    samba_conv2d_options padded = {.padding = {1, 1}};
    samba_value x = samba_reshape(samba_input(g, "x"), SIZES(-1, 3, 8, 8));
    x = samba_relu(samba_conv2d(x, "conv1", 16, SHAPE(3, 3), &padded));
    samba_output(g, "y", samba_conv2d(x, "conv2", 17, SHAPE(2, 3), NULL));
}

MODEL(computed) /* stages of constants alone: a table of positions, a weight made of others */
{
    samba_value x = samba_input(g, "x"), positions = samba_arange(g, 192, SAMBA_INT64);
    samba_value u = samba_parameter(g, "u", SAMBA_FLOAT32, SIZES(192, 4), NORMAL);
    samba_value place = samba_sum(samba_embedding(positions, "table", 200, 4), 1, (const int[]){1}, false);
    samba_value w = samba_matmul(samba_softmax(u, -1), samba_transpose(samba_exp(u), 0, 1));
    samba_output(g, "y", samba_matmul(samba_add(x, place), w));
}

static const struct {
    const char *name;
    samba_model model;
    int64_t rows, columns;
} models[] = {{"small", small, 5, 30},       {"panels", panels, 70, 192},          {"left", left, 130, 192},
              {"batched", batched, 64, 288}, {"convolution", convolution, 6, 192}, {"computed", computed, 9, 192}};

static char paths[2 * LENGTH(models)][512]; /* fp32, then bf16 */
static samba_tensor *inputs[LENGTH(models)];

static int setup(void **unused)
{
    if (harness_begin(unused) != 0)
        return -1;
    for (int m = 0; m < LENGTH(models); m++) {
        inputs[m] = normal("x", SAMBA_FLOAT32, SIZES(models[m].rows, models[m].columns), 7);
        for (int bf16 = 0; bf16 < 2; bf16++) {
            char name[64];
            snprintf(name, sizeof name, "%s%d", models[m].name, bf16);
            samba_compile_options options = inference_of(name, models[m].model, NULL, 1, &inputs[m]);
            options.precision = bf16 ? SAMBA_BF16 : SAMBA_FP32;
            need(samba_compile(context, &options, paths[2 * m + bf16], sizeof paths[0]));
        }
    }
    return 0;
}

static int teardown(void **unused)
{
    free_each_tensor(LENGTH(models), inputs);
    return harness_end(unused);
}

static samba_session *open_with(int pef, const char *isa, int threads, uint64_t seed)
{
    samba_session *session;
    need(samba_session_new(context, paths[pef], SESSION(.threads = threads, .isa = isa, .seed = seed), &session));
    return session;
}

static samba_status run_input(samba_session *session, samba_tensor *input)
{
    samba_run_options run = giving(1, &input);
    return samba_run(session, &run);
}

static samba_tensor *run_of(samba_session *session, samba_tensor *input)
{
    need(run_input(session, input));
    return get(session, "y");
}

static bool same(const samba_tensor *a, const samba_tensor *b)
{
    return memcmp(samba_tensor_data(a), samba_tensor_data(b), (size_t)samba_tensor_numel(a) * 4) == 0;
}

/* ---- sessions ---- */

/* One weight after the other, until all are another session's. */
static void update_weights(int pef, const char *isa, int threads)
{
    OWN_SESSION *old = open_with(pef, isa, threads, 1), *new = open_with(pef, isa, threads, 2);
    samba_tensor *input = inputs[pef / 2];
    OWN_TENSOR *last = run_of(old, input), *expected = run_of(new, input);
    for (int i = 0; i < samba_session_tensor_count(old); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(old, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER)
            continue;
        OWN_TENSOR *weight = get(new, info.name), *was = get(old, info.name);
        bool moved = !same(weight, was); /* a norm's weights are the same for all seeds */
        need(samba_session_set(old, weight));
        samba_tensor *next = run_of(old, input);
        OWN_TENSOR *again = run_of(old, input);
        if (moved == same(last, next))
            fail_msg("%s: %s was set and the result %s (%s, %d threads)", paths[pef], info.name, moved ? "stayed" : "changed",
                     isa, threads);
        assert_true(same(next, again));
        samba_tensor_free(last);
        last = next;
    }
    if (!same(last, expected))
        fail_msg("%s: not the result of a session that had the weights from the start (%s, %d threads)", paths[pef], isa,
                 threads);
}

/* All of them at once, from a file. */
static void load_weights(int pef)
{
    char path[128];
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    OWN_SESSION *old = open_with(pef, NULL, 2, 1), *new = open_with(pef, NULL, 2, 2);
    OWN_TENSOR *before = run_of(old, inputs[pef / 2]), *expected = run_of(new, inputs[pef / 2]);
    need(samba_session_save(new, path, false));
    need(samba_session_load(old, path));
    OWN_TENSOR *after = run_of(old, inputs[pef / 2]);
    assert_false(same(before, after));
    assert_true(same(expected, after));
}

TEST(test_updates)
{
    for (int pef = 0; pef < LENGTH(paths); pef++) {
        load_weights(pef);
        SAMBA_EACH_ISA (isa)
            for (int threads = 1; threads <= 3; threads++)
                update_weights(pef, samba_isa_names[isa], threads);
    }
}

static samba_status live(samba_context *with, void *user)
{
    const int *pef = user;
    OWN_SESSION *session;
    SAMBA_TRY(samba_session_new(with, paths[*pef], SESSION(.threads = 2), &session));
    return run_input(session, inputs[*pef / 2]);
}

TEST(test_memory)
{
    int packed = 0;
    for (int pef = 0; pef < LENGTH(paths); pef++) {
        fail_each_allocation(live, &pef);
        failing_allocator memory_of;
        samba_context *counted = counting_context_new(&memory_of);
        samba_session *session;
        need(samba_session_new(counted, paths[pef], NULL, &session));
        samba_memory_info memory;
        need(samba_session_memory(session, &memory));
        packed += memory.constants > 0;
        assert_true(memory_of.live_bytes >= memory.total);
        int64_t calls = memory_of.calls;
        need(run_input(session, inputs[pef / 2])); /* packs */
        assert_int_equal(memory_of.calls, calls);
        samba_session_free(session);
        counting_context_free(counted, &memory_of);
    }
    assert_true(packed >= 2 * LENGTH(models) - 2); /* few rows may be cheaper with weights as they are */
}

/* ---- what is constant ---- */
#define OWN_ARENA __attribute__((cleanup(samba_arena_free))) samba_arena

/* In bf16 no run casts a weight: all that it rounds are activations. */
TEST(test_casts_of_weights)
{
    int casts = 0;
    for (int m = 0; m < LENGTH(models); m++) {
        samba_plan plan;
        OWN_ARENA arena;
        samba_constants constants;
        samba_arena_init(&arena, context);
        need(samba_pef_read(context, paths[2 * m + 1], &plan));
        need(samba_constants_find(&plan, &arena, &constants));
        for (int32_t s = 0; s < plan.stage_count; s++) {
            const samba_stage *stage = &plan.stages[s];
            bool weights_alone = stage->kind == SAMBA_STAGE_TILE;
            for (int32_t o = 0; o < stage->operand_count; o++)
                weights_alone = weights_alone &&
                                (samba_stage_access(stage, o) == SAMBA_WRITES || constants.buffer[stage->operands[o].buffer]);
            assert_true(!weights_alone || constants.stage[s]);
            casts += constants.stage[s];
            if (stage->kind == SAMBA_STAGE_CONTRACT && !constants.stage[s])
                assert_true(constants.buffer[stage->contract.a.buffer] || constants.buffer[stage->contract.b.buffer]);
        }
        samba_plan_free(&plan);
    }
    assert_true(casts >= LENGTH(models));
}

/* Stages y = neg x between ranges of memory: buffers are of 64 bytes, as many as `offsets` has. */
enum { MOST = 8 };
typedef struct by_hand {
    samba_plan plan;
    samba_buffer buffers[MOST];
    samba_plan_tensor tensors[MOST];
    samba_stage stages[MOST];
    samba_operand operands[MOST][2];
    samba_instruction instructions[3];
} by_hand;

static void add_stage(by_hand *h, int32_t from, int32_t to)
{
    int32_t s = h->plan.stage_count++;
    h->operands[s][0] = (samba_operand){.buffer = from, .strides = {1}};
    h->operands[s][1] = (samba_operand){.buffer = to, .strides = {1}};
    h->stages[s] = (samba_stage){.kind = SAMBA_STAGE_TILE,
                                 .rank = 1,
                                 .domain = {16},
                                 .operand_count = 2,
                                 .operands = h->operands[s],
                                 .program = {.instruction_count = 3, .instructions = h->instructions}};
}

/* Buffer 0 is an input, 1 a parameter. What is constant, of stages and of buffers, has a '1'. */
static const struct {
    const char *what;
    int64_t offsets[5];
    int32_t stages[3][2]; /* from a buffer to another */
    const char *constant_stages, *constant_buffers;
} hands[] = {
    {"a chain from the parameter, a stage of the input", {0, 64, 128, 192, 256}, {{1, 2}, {2, 3}, {0, 4}}, "110", "01110"},
    {"in the wrong order: the first run would read what is not there yet", {0, 64, 128, 192}, {{2, 3}, {1, 2}}, "01", "0110"},
    {"two stages write to memory that overlaps", {0, 64, 128, 160}, {{1, 2}, {0, 3}}, "00", "0100"},
    {"so do two of constants: which would be the last in each run?", {0, 64, 128}, {{1, 2}, {1, 2}}, "00", "010"},
    {"over itself", {0, 64, 128}, {{2, 2}}, "0", "010"},
    {"over a part of the parameter", {0, 64, 96}, {{0, 2}}, "0", "000"},
    {"an output's memory is the host's to read", {0, 64, 128}, {{2, 1}}, "0", "001"},
    {"a parameter under the input", {0, 32, 128}, {{1, 2}}, "0", "000"},
};

TEST(test_by_hand)
{
    for (int i = 0; i < LENGTH(hands); i++) {
        by_hand h = {.instructions = {{.op = SAMBA_TILE_load, .operand = 0},
                                      {.op = SAMBA_TILE_neg, .operand = -1},
                                      {.op = SAMBA_TILE_store, .operand = 1}}};
        OWN_ARENA arena;
        samba_constants constants;
        h.plan = (samba_plan){.buffers = h.buffers, .tensor_count = 2, .tensors = h.tensors, .stages = h.stages};
        h.plan.buffer_count = (int32_t)strlen(hands[i].constant_buffers);
        for (int32_t b = 0; b < h.plan.buffer_count; b++)
            h.buffers[b] = (samba_buffer){hands[i].offsets[b], 64};
        h.tensors[0] = (samba_plan_tensor){.kind = SAMBA_KIND_INPUT, .buffer = 0};
        h.tensors[1] = (samba_plan_tensor){
            .kind = strncmp(hands[i].what, "an output", 9) == 0 ? SAMBA_KIND_OUTPUT : SAMBA_KIND_PARAMETER, .buffer = 1};
        for (int k = 0; hands[i].constant_stages[k]; k++)
            add_stage(&h, hands[i].stages[k][0], hands[i].stages[k][1]);
        samba_arena_init(&arena, context);
        need(samba_constants_find(&h.plan, &arena, &constants));
        print_message("%s\n", hands[i].what);
        for (int32_t k = 0; k < h.plan.stage_count; k++)
            assert_int_equal(constants.stage[k], hands[i].constant_stages[k] == '1');
        for (int32_t b = 0; b < h.plan.buffer_count; b++) {
            assert_int_equal(constants.buffer[b], hands[i].constant_buffers[b] == '1');
            assert_int_equal(samba_constants_spared(&constants, h.buffers[b].offset, 64), hands[i].constant_buffers[b] != '1');
        }
        assert_false(samba_constants_spared(&constants, 4096, 8)); /* where nothing is known to be */
    }
}

TEST_MAIN_AROUND(setup, teardown, NULL, NULL, test_updates, test_memory, test_casts_of_weights, test_by_hand)
