/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory budgets: models of every shape are compiled without one, then into less and less. What the plan takes fits, training
 * goes on as without, bit for bit, and a budget that is too small is refused with the least that is not (for inference:
 * messages/messages.txt). */
#include "training.h"
#include "failing_allocator.h"
#include "runtime/runtime.h"

static void ten_classes(samba_graph *g, samba_value x)
{
    samba_loss(g, "loss", samba_cross_entropy(samba_linear(x, "out", 10), samba_input(g, "label")));
}

/* Convolutions that may be computed in several ways, by what they cost: the same one when they are computed again. */
MODEL(residual)
{
    samba_conv2d_options pad = {.padding = {1, 1}};
    samba_value h = samba_conv2d(samba_input(g, "x"), "stem", 48, SHAPE(3, 3), &pad);
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        samba_scope_push(g, name);
        samba_value y = samba_conv2d(samba_gelu(samba_group_norm(h, "norm1", 4, NULL)), "conv1", 48, SHAPE(3, 3), &pad);
        h = samba_add(h, samba_conv2d(samba_relu(samba_group_norm(y, "norm2", 4, NULL)), "conv2", 48, SHAPE(3, 3), &pad));
        samba_scope_pop(g);
    }
    ten_classes(g, samba_flatten(samba_max_pool2d(h, SHAPE(2, 2), NULL), 1, -1));
}

/* Each layer multiplies by what a buffer was before the run overwrote it:
 * the backward needs that, so it is held in memory of its own. */
MODEL(holding)
{
    samba_value h = samba_input(g, "x");
    char name[16];
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "fc%d", i);
        h = samba_tanh(samba_linear(h, name, 60));
        snprintf(name, sizeof name, "was%d", i);
        samba_value was =
            samba_register_buffer(g, name, SAMBA_FLOAT32, 2, SHAPE(200, 60), (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
        h = samba_mul(h, was);
        samba_assign(was, samba_mul_scalar(was, 0.5));
    }
    ten_classes(g, h);
}

typedef struct sizes {
    int64_t layers, batch, time, width, heads, words;
    double dropout;
} sizes;
static const sizes little = {6, 4, 32, 48, 4, 90, 0.1}, published = {12, 4, 256, 768, 12, 50257, 0},
                   wide = {1, 1, 1024, 48, 4, 90, 0.1};

static void gpt(samba_graph *g, const void *options)
{
    const sizes *s = options;
    const samba_initializer small = {SAMBA_INIT_NORMAL, 0, 0.02};
    const samba_transformer_options blocks = {.dim_feedforward = 4 * s->width,
                                              .gelu = true,
                                              .norm_first = true,
                                              .batch_first = true,
                                              .dropout_p = s->dropout,
                                              .is_causal = true,
                                              .final_norm = true};
    samba_value x = samba_embedding(samba_input(g, "x"), "wte", s->words, s->width),
                wte = samba_parameter(g, "wte.weight", SAMBA_FLOAT32, 2, SHAPE(s->words, s->width), small),
                wpe = samba_parameter(g, "wpe.weight", SAMBA_FLOAT32, 2, SHAPE(s->time, s->width), small);
    x = samba_transformer_encoder(samba_add(x, wpe), "h", s->layers, s->heads, &blocks);
    samba_loss(g, "loss",
               samba_cross_entropy(samba_matmul(samba_flatten(x, 0, 1), samba_transpose(wte, 0, 1)),
                                   samba_flatten(samba_input(g, "label"), 0, 1)));
}

typedef struct budget_case {
    const char *name;
    samba_model model;
    const void *settings;
    samba_dtype dtype; /* of x */
    int rank, label_rank;
    int64_t shape[4], label[2], classes;
    double least; /* share of the activations that can be saved, at least */
} budget_case;
static const budget_case cases[] = {
    {"residual", residual, NULL, SAMBA_FLOAT32, 4, 1, {4, 3, 26, 26}, {4}, 10, 0.2},
    {"holding", holding, NULL, SAMBA_FLOAT32, 2, 1, {200, 30}, {200}, 10, 0.2},
    {"gpt", gpt, &little, SAMBA_INT64, 2, 2, {4, 32}, {4, 32}, 90, 0.5},
};

static int64_t size_of(const samba_session *session, int64_t *activations)
{
    samba_memory_info memory;
    need(samba_session_memory(session, &memory));
    *activations = memory.activations;
    return memory.total - memory.scratch;
}

static void train(samba_session *session, samba_tensor *const *inputs)
{
    samba_run_options run = giving(2, inputs);
    for (int i = 0; i < 3; i++)
        need(samba_run(session, &run));
}

static void check_budget(const budget_case *c)
{
    samba_tensor *inputs[] = {kept(tensor("x", c->dtype, c->rank, c->shape)),
                              kept(tensor("label", SAMBA_INT64, c->label_rank, c->label))};
    need(c->dtype == SAMBA_FLOAT32 ? samba_fill_normal(inputs[0], 1, 0, 1) : samba_fill_integers(inputs[0], 1, 0, c->classes));
    need(samba_fill_integers(inputs[1], 2, 0, c->classes));
    samba_optimizer adamw = samba_adamw(1e-3);
    adamw.max_grad_norm = 1;
    samba_compile_options o = training_of(c->name, c->model, c->settings, 2, inputs, &adamw);
    samba_session *plain = open_kept(&o, 2, 7);
    int64_t activations, now, total = size_of(plain, &activations);
    train(plain, inputs);
    for (double saved = 0; saved <= c->least; saved += 0.1) {
        o.memory_budget = total - (int64_t)(saved * (double)activations);
        samba_session *session = open_kept(&o, 2, 7);
        int64_t given = size_of(session, &now);
        assert_true(given <= o.memory_budget);
        if (c->model == gpt) /* with many values to choose from it comes near, and repeats no more than it must */
            assert_true((double)(o.memory_budget - given) <= 0.03 * (double)(o.memory_budget - (total - activations)));
        train(session, inputs);
        assert_same_bits(plain, session, COMPUTED);
    }
    /* the least that the message names is met */
    o.memory_budget = 1000;
    refuse(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT,
           "a memory budget of 1000 bytes cannot be met: the least found for model");
    long long least = atoll(strstr(samba_error_message(context), "' is ") + 5);
    o.memory_budget = least;
    assert_true(size_of(open_kept(&o, 1, 7), &now) <= least && least < total);
    drop_kept(NULL);
}

TEST(fits_and_trains)
{
    for (int i = 0; i < LENGTH(cases); i++)
        check_budget(&cases[i]);
}

static samba_plan compile_gpt(const sizes *s, bool inference, int64_t budget)
{
    samba_tensor *inputs[2];
    for (int i = 0; i < 2; i++) {
        need(samba_tensor_empty(context, i ? "label" : "x", SAMBA_INT64, 2, SHAPE(s->batch, s->time), &inputs[i]));
        kept(inputs[i]);
    }
    samba_optimizer adamw = samba_adamw(1e-3);
    adamw.max_grad_norm = 1;
    samba_compile_options o =
        inference ? inference_of("sized", gpt, s, 2, inputs) : training_of("sized", gpt, s, 2, inputs, &adamw);
    o.memory_budget = budget;
    return compiled_plan(&o);
}

/* The published GPT-2, 70 % of what its activations take: met within 3 %. */
TEST(published_gpt)
{
    samba_plan plan = compile_gpt(&published, false, 0);
    int64_t saved = plan.memory.activations * 3 / 10, allowed = plan.memory.activations - saved,
            budget = plan.memory.total - saved;
    samba_plan_free(&plan);
    plan = compile_gpt(&published, false, budget);
    int64_t now = plan.memory.activations;
    samba_plan_free(&plan);
    assert_true(now <= allowed && (double)now >= 0.97 * (double)allowed);
}

/* With 1024 tokens nothing of 1024 x 1024 has memory, not even a byte an element for the mask of dropout. */
TEST(no_scores)
{
    for (int inference = 0; inference < 2; inference++) {
        samba_plan plan = compile_gpt(&wide, inference, 0);
        assert_true(plan.buffer_count > 10);
        for (int32_t b = 0; b < plan.buffer_count; b++)
            assert_true(plan.buffers[b].bytes < wide.time * wide.time);
        char path[128];
        snprintf(path, sizeof path, "%s/sized/sized.pef", folder);
        samba_session *session = kept_session(open_session(path, 2, 7));
        samba_memory_info memory;
        need(samba_session_memory(session, &memory));
        assert_true(memory.scratch < 2 * wide.time * wide.time); /* two threads' own */
        samba_memory_info told;                                  /* without loading */
        int threads;
        const char *isa;
        need(samba_plan_memory(context, &plan, 2, NULL, &told, &threads, &isa));
        assert_memory_equal(&told, &memory, sizeof memory);
        assert_int_equal(threads, 2);
        assert_string_equal(isa, samba_session_isa(session));
        samba_plan_free(&plan);
    }
}

static samba_status compile_holding(samba_context *own, void *unused)
{
    OWN_TENSOR *x, *label = NULL;
    SAMBA_TRY(samba_tensor_empty(own, "x", SAMBA_FLOAT32, 2, SHAPE(200, 30), &x));
    SAMBA_TRY(samba_tensor_empty(own, "label", SAMBA_INT64, 1, SHAPE(200), &label));
    samba_optimizer adamw = samba_adamw(1e-3);
    samba_compile_options o = training_of("no_memory", holding, NULL, 2, (samba_tensor *[]){x, label}, &adamw);
    o.memory_budget = 1252000; /* of the 1.3 MB that it takes without one */
    return samba_compile(own, &o, NULL, 0);
}

/* Too little memory while looking for a price. */
TEST(no_memory) { fail_some_allocations(compile_holding, NULL, 0, 997, 1); }

TEST_MAIN_WITH(NULL, drop_kept, fits_and_trains, no_memory, published_gpt, no_scores)
