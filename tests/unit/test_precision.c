/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed precision: the rewritten graph keeps what ops.def's column says, parameters are cast once and trained unrounded, parts
 * are left out, losses follow those of float32, and a PEF says what it is.
 * Values of compiled bf16 programs are test_compile.c's. */
#include "training.h"
#include "reference.h"

/* ---- models of x, two blobs a class, and label, the class ---- */
static samba_tensor *inputs[2];

static int make_inputs(void **unused)
{
    inputs[0] = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(32, 64), 5));
    inputs[1] = kept(tensor("label", SAMBA_INT64, 1, SHAPE(32)));
    float *x = samba_tensor_data(inputs[0]);
    int64_t *label = samba_tensor_data(inputs[1]);
    for (int i = 0; i < 32; i++) {
        label[i] = i * 7 % 10;
        x[i * 64 + label[i] * 3] += 3;
    }
    return 0;
}

static void end(samba_graph *g, samba_value logits)
{
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

MODEL(mlp)
{
    samba_value h = samba_layer_norm(samba_linear(samba_input(g, "x"), "fc1", 48), "norm");
    samba_value k = samba_linear(samba_gelu(samba_linear(h, "fc2", 96)), "fc3", 48);
    end(g, samba_linear(samba_tanh(samba_add(h, k)), "fc4", 10));
}

MODEL(convolutions)
{
    samba_value h = samba_reshape(samba_input(g, "x"), 4, SHAPE(32, 1, 8, 8));
    h = samba_max_pool2d(samba_relu(samba_conv2d(h, "conv1", 6, SHAPE(3, 3), NULL)), SHAPE(2, 2), NULL);
    h = samba_relu(samba_conv2d(h, "conv2", 16, SHAPE(2, 2), NULL));
    end(g, samba_linear(samba_flatten(h, 1, -1), "fc", 10));
}

MODEL(transformer)
{
    samba_value h = samba_reshape(samba_input(g, "x"), 3, SHAPE(32, 4, 16)), part[3], head[3];
    samba_value qkv = samba_linear(samba_layer_norm(h, "ln_1"), "qkv", 48);
    samba_split(qkv, 16, -1, 3, part);
    for (int i = 0; i < 3; i++)
        head[i] = samba_transpose(samba_reshape(part[i], 4, SHAPE(32, 4, 2, 8)), 1, 2);
    samba_value y =
        samba_matmul(samba_softmax(samba_mul_scalar(samba_matmul(head[0], samba_transpose(head[1], 2, 3)), 0.35), -1), head[2]);
    h = samba_add(h, samba_linear(samba_reshape(samba_transpose(y, 1, 2), 3, SHAPE(32, 4, 16)), "proj", 16));
    h = samba_add(h, samba_linear(samba_gelu(samba_linear(samba_layer_norm(h, "ln_2"), "fc", 64)), "out", 16));
    end(g, samba_linear(samba_reshape(h, 2, SHAPE(32, 64)), "head", 10));
}

static const struct {
    const char *name;
    samba_model model;
} models[] = {{"mlp", mlp}, {"convolutions", convolutions}, {"transformer", transformer}};

static samba_graph *trace(samba_model model)
{
    samba_graph *traced;
    need(samba_graph_new(context, "traced", &traced));
    need(samba_graph_add_input(traced, inputs[0]));
    need(samba_graph_add_input(traced, inputs[1]));
    model(traced, NULL);
    need(samba_graph_status(traced));
    return traced;
}

static samba_graph *lower(const samba_graph *traced, samba_precision precision)
{
    samba_graph *lowered;
    need(samba_lower_precision(traced, precision, &lowered));
    need(samba_graph_verify(lowered));
    return lowered;
}

static samba_dtype dtype_at(const samba_graph *g, samba_ref ref) { return (samba_dtype)samba_node_at(g, ref)->dtype; }

/* ---- what the graph says ---- */
/* A weight's gradient is the product's own sum: behind views stands a contraction, not a rounding. */
static int unrounded_gradients(const samba_graph *graph)
{
    int weights = 0;
    for (int64_t i = 0; i < graph->sink_count; i++) {
        const samba_sink *sink = &graph->sinks[i];
        if (sink->kind != SAMBA_SINK_ASSIGN || samba_node_at(graph, sink->target)->rank < 2)
            continue;
        const samba_node *node = samba_node_at(graph, sink->value);
        while (samba_ops[node->op].class_ == SAMBA_VIEW)
            node = samba_node_at(graph, node->inputs[0]);
        weights += samba_ops[node->op].class_ == SAMBA_CONTRACT && node->dtype == SAMBA_FLOAT32;
    }
    return weights;
}

TEST(test_table)
{
    for (int m = 0; m < LENGTH(models); m++) {
        OWN_GRAPH *traced = trace(models[m].model), *lowered = lower(traced, SAMBA_BF16), *graph;
        need(samba_autodiff(lowered, 1, NULL, &graph));
        need(samba_graph_verify(graph));
        int contractions = 0, casts = 0, parameters = 0;
        for (int64_t i = 0; i < graph->node_count; i++) {
            const samba_node *node = samba_node_at(graph, (samba_ref)i);
            for (int k = 0; k < node->arity; k++) {
                bool low = dtype_at(graph, node->inputs[k]) == SAMBA_BFLOAT16;
                assert_true(low ? samba_ops[node->op].amp != SAMBA_AMP_fp32 : samba_ops[node->op].amp != SAMBA_AMP_low);
            }
            contractions += samba_ops[node->op].amp == SAMBA_AMP_low;
            parameters += node->op == SAMBA_OP_parameter && node->rank > 1; /* weights of contractions */
            casts += node->op == SAMBA_OP_cast && samba_node_at(graph, node->inputs[0])->op == SAMBA_OP_parameter;
            if (node->op == SAMBA_OP_parameter || node->op == SAMBA_OP_state)
                assert_int_equal(node->dtype, SAMBA_FLOAT32);
        }
        assert_true(contractions >= 8);
        assert_int_equal(casts, parameters); /* each once, and biases and norms never */
        assert_int_equal(unrounded_gradients(graph), parameters);
        for (int64_t i = 0; i < traced->sink_count; i++)
            assert_int_equal(dtype_at(traced, traced->sinks[i].value), dtype_at(lowered, lowered->sinks[i].value));
    }
}

/* ---- parts left out ---- */
/* Squared distances are what cancellation leaves of squares and products:
 * those of cdist stay in float32, and what follows is as it was. */
MODEL(distances)
{
    samba_value h = samba_linear(samba_input(g, "x"), "fc", 8);
    samba_output(g, "y", samba_linear(samba_cdist(h, h, 2, SAMBA_CDIST_MM_IF_NECESSARY), "head", 3));
}

MODEL(partly)
{
    samba_graphamp_push(g, false);
    samba_value h = samba_linear(samba_input(g, "x"), "plain", 16);
    samba_graphamp_push(g, true);
    h = samba_linear(h, "low", 16);
    samba_graphamp_pop(g);
    h = samba_linear(h, "plain2", 16);
    samba_graphamp_pop(g);
    end(g, samba_linear(h, "low2", 10));
}

/* Products in their order: f of float32 operands, b of bfloat16. No mark is left. */
static void check_products(const samba_graph *graph, const char *expected)
{
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        assert_int_equal(node->fp32, 0);
        if (samba_ops[node->op].amp == SAMBA_AMP_low)
            assert_int_equal(dtype_at(graph, node->inputs[0]), *expected++ == 'b' ? SAMBA_BFLOAT16 : SAMBA_FLOAT32);
    }
    assert_string_equal(expected, "");
}

TEST(test_left_out)
{
    OWN_GRAPH *apart = trace(distances), *lowered = lower(apart, SAMBA_BF16), *traced = trace(partly), *parsed;
    check_products(lowered, "bfb");
    char *text;
    need(samba_graph_print(traced, &text));
    assert_non_null(strstr(text, " @FWD fp32 \"plain\""));
    need(samba_graph_parse(context, text, &parsed));
    assert_true(samba_graph_hash(parsed) == samba_graph_hash(traced));
    OWN_GRAPH *low = lower(parsed, SAMBA_BF16), *high = lower(parsed, SAMBA_FP32);
    check_products(low, "fbfb");
    check_products(high, "ffff"); /* without mixed precision the marks say nothing */
    samba_text_free(context, text);
}

TEST(test_refusals)
{
    OWN_GRAPH *few, *many;
    need(samba_graph_new(context, "few", &few));
    samba_graphamp_pop(few);
    refuse(samba_graph_status(few), SAMBA_ERROR_STATE, "samba_graphamp_pop");
    need(samba_graph_new(context, "many", &many));
    for (int i = 0; i < 65; i++)
        samba_graphamp_push(many, i % 2);
    refuse(samba_graph_status(many), SAMBA_ERROR_UNSUPPORTED, "64 regions");
}

/* ---- training ---- */
enum { STEPS = 30 };
static void losses_of(samba_model model, samba_precision precision, double *losses)
{
    samba_optimizer adamw = samba_adamw(2e-3);
    adamw.max_grad_norm = 1;
    samba_compile_options options = training_of("losses", model, NULL, 2, inputs, &adamw);
    options.precision = precision;
    samba_session *session = open_kept(&options, 2, 9);
    samba_run_options run = giving(2, inputs);
    for (int i = 0; i < STEPS; i++) {
        need(samba_run(session, &run));
        losses[i] = get_scalar(session, "loss");
    }
}

TEST(test_losses)
{
    for (int m = 0; m < LENGTH(models); m++) {
        double full[STEPS], mixed[STEPS];
        losses_of(models[m].model, SAMBA_FP32, full);
        losses_of(models[m].model, SAMBA_BF16, mixed);
        assert_true(full[STEPS - 1] < 0.9 * full[0]); /* it learns */
        for (int i = 0; i < STEPS; i++)
            if (!(fabs(mixed[i] - full[i]) <= 0.01 * full[0]))
                fail_msg("%s, step %d: loss %g in bf16, %g in fp32", models[m].name, i, mixed[i], full[i]);
    }
}

/* ---- the PEF ---- */
TEST(test_pef_says_it)
{
    for (int inference = 0; inference < 2; inference++) {
        samba_compile_options options = compile_of("said", mlp, NULL, 2, inputs);
        options.precision = SAMBA_BF16;
        options.inference = inference;
        samba_plan plan = compiled_plan(&options);
        assert_int_equal(plan.graphs[0].precision, SAMBA_BF16);
        int low = 0;
        for (int i = 0; i < plan.stage_count; i++)
            low += plan.stages[i].kind == SAMBA_STAGE_CONTRACT && plan.stages[i].contract.a.dtype == SAMBA_BFLOAT16 &&
                   plan.stages[i].contract.b.dtype == SAMBA_BFLOAT16 && plan.stages[i].contract.class_ == SAMBA_F32;
        assert_int_equal(low, inference ? 4 : 4 + 4 + 3); /* x needs no gradient */
        plan.graphs[0].precision = 2;
        refuse(samba_plan_check(context, &plan), SAMBA_ERROR_FORMAT, "precision is 2");
        samba_plan_free(&plan);
    }
}

/* A CPU without a bfloat16 unit, here an instruction set that is made to lack it, says so once. */
TEST(test_warning)
{
    for (int precision = SAMBA_FP32; precision <= SAMBA_BF16; precision++) {
        samba_compile_options options = compile_of("warned", mlp, NULL, 2, inputs);
        options.precision = (samba_precision)precision;
        char path[512];
        need(samba_compile(context, &options, path, sizeof path));
        OWN_SESSION *session;
        need(samba_session_new(context, path, SESSION(.isa = "generic"), &session));
        assert_int_equal(strstr(samba_session_warning(session), "bfloat16") != NULL, precision == SAMBA_BF16);
        assert_string_equal(samba_session_warning(session), "");
    }
}

/* For inference dropout does nothing, whatever the run says, and leaves no hyperparameters. */
static void drops(samba_graph *g, const void *plain)
{
    samba_value x = samba_linear(samba_input(g, "x"), "fc", 32), h = samba_reshape(x, 4, SHAPE(1, 2, 32, 16));
    samba_attention_options options = samba_attention_defaults();
    if (!plain) {
        x = samba_dropout(x, "drop", 0.5);
        options.dropout = "attn", options.dropout_p = 0.5;
    }
    samba_output(g, "y", samba_relu(x));
    samba_output(g, "z", samba_scaled_dot_product_attention(h, h, h, &options));
}

TEST(test_inference_drops_nothing)
{
    samba_session *sessions[2];
    for (int plain = 0; plain < 2; plain++) {
        samba_compile_options options = inference_of(plain ? "plain" : "drops", drops, plain ? &plain : NULL, 1, inputs);
        sessions[plain] = open_kept(&options, 2, 4);
        assert_int_equal(samba_session_hyperparameter_count(sessions[plain]), 0);
        need(samba_session_set(sessions[plain], inputs[0]));
        need(samba_run(sessions[plain], NULL));
    }
    assert_same_bits(sessions[0], sessions[1], 1u << SAMBA_KIND_OUTPUT);
}

TEST_MAIN_WITH(make_inputs, drop_kept, test_table, test_left_out, test_refusals, test_losses, test_pef_says_it, test_warning,
               test_inference_drops_nothing)
