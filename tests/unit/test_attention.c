/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: the compiled kernels against the reference kernels, forward and backward, over sizes around the blocks, masks,
 * shared heads, dropout and dtypes, on 1 to 3 threads and every ISA (test_random_shapes.c has random ones);
 * and the public function: what it makes of its arguments, names of dropout, what it refuses. Operators: values/attention.txt. */
#include "training.h"
#include "device/cpu/kernel.h"
#include "messages.h"
#include "reference.h"
#include "traced.h"

/* ---- compiled against reference ---- */

typedef enum mask_kind { NO_MASK, ADDED, SEEN, SEEN_KEYS, BLIND } mask_kind; /* BLIND: some queries see nothing */
typedef struct attention_case {
    const char *name;
    int64_t b, h, hkv, tq, tk, d, dv;
    bool causal, joint; /* joint: q, k and v are views of one parameter */
    mask_kind mask;
    double dropout, scale;
    samba_dtype dtype;
} attention_case;

static samba_value param(samba_graph *g, const char *name, samba_dtype dtype, int64_t b, int64_t t, int64_t h, int64_t d)
{
    return samba_parameter(g, name, dtype, 4, (const int64_t[]){b, t, h, d}, (samba_initializer){SAMBA_INIT_NORMAL, 0.05, 1});
}
static samba_value heads_first(samba_value v) { return samba_permute(v, (const int[]){0, 2, 1, 3}); }

static samba_value mask_of(samba_graph *g, const attention_case *c)
{
    int64_t n = c->mask == SEEN_KEYS ? c->b * c->tk : c->mask == ADDED ? c->h * c->tq * c->tk : c->tq * c->tk;
    samba_value i = samba_cast(samba_arange(g, n, SAMBA_INT64), SAMBA_FLOAT64), wave = samba_mul_scalar(i, 0.37);
    wave = samba_sub(wave, samba_cast(samba_cast(wave, SAMBA_INT64), SAMBA_FLOAT64)); /* in [0, 1) */
    samba_value least = samba_constant(g, c->mask == BLIND ? 0.9 : 0.3, SAMBA_FLOAT64, 0, NULL);
    switch (c->mask) {
    case ADDED: return samba_cast(samba_reshape(wave, 3, (const int64_t[]){c->h, c->tq, c->tk}), c->dtype);
    case SEEN_KEYS: return samba_reshape(samba_gt(wave, least), 4, (const int64_t[]){c->b, 1, 1, c->tk});
    default: return samba_reshape(samba_gt(wave, least), 2, (const int64_t[]){c->tq, c->tk});
    }
}

static void model(samba_graph *g, const void *options)
{
    const attention_case *c = options;
    samba_value q, k, v;
    if (c->joint) {
        samba_value all = param(g, "qkv", c->dtype, c->b, c->tq, c->h + 2 * c->hkv, c->d);
        q = heads_first(samba_slice(all, 2, 0, c->h, 1));
        k = heads_first(samba_slice(all, 2, c->h, c->h + c->hkv, 1));
        v = heads_first(samba_slice(all, 2, c->h + c->hkv, c->h + 2 * c->hkv, 1));
    } else {
        q = param(g, "q", c->dtype, c->b, c->h, c->tq, c->d);
        k = samba_transpose(param(g, "k", c->dtype, c->b, c->hkv, c->d, c->tk), 2, 3); /* elements apart */
        v = heads_first(param(g, "v", c->dtype, c->b, c->tk, c->hkv, c->dv));
    }
    samba_attention_options o = samba_attention_defaults();
    o.is_causal = c->causal;
    o.enable_gqa = true;
    o.scale = c->scale;
    if (c->mask != NO_MASK)
        o.mask = mask_of(g, c);
    o.dropout = c->dropout > 0 ? "drop" : NULL;
    o.dropout_p = c->dropout;
    samba_value y = samba_scaled_dot_product_attention(q, k, v, &o);
    int64_t n = c->b * c->tq * c->h * c->dv;
    samba_output(g, "y", y);
    samba_value w =
        samba_add_scalar(samba_mul_scalar(samba_cast(samba_arange(g, n, SAMBA_INT64), c->dtype), 1.3 / (double)(n + 1)), -0.4);
    y = samba_reshape(heads_first(y), 1, &n);
    samba_loss(g, "loss", samba_sum(samba_mul(samba_mul(y, w), y), 0, NULL, false));
}

/* A run against the reference. Sums of up to tk (tq, backward) products; 16-bit floats round once, or twice in the gradients,
 * bfloat16 weights and gradients of scores besides. */
static void run_case(const attention_case *c, const char *path, int threads, const char *isa)
{
    const double tolerance = c->dtype == SAMBA_FLOAT64    ? 1e-12
                             : c->dtype == SAMBA_BFLOAT16 ? 6e-2
                             : c->dtype == SAMBA_FLOAT16  ? 4e-3
                                                          : 3e-5;
    const reference_case compared = {
        c->name, model, c, .tolerance = tolerance, .seed = c->dropout > 0 ? "drop.seed" : NULL, .seed_value = 1234567};
    samba_session_free(run_against_reference(&compared, path, threads, isa));
}

#define F32 SAMBA_FLOAT32
static const attention_case cases[] = {
    {"one block", 2, 3, 3, 20, 20, 8, 8, false, false, NO_MASK, 0, 0, F32},
    {"causal, joint", 2, 3, 3, 200, 200, 16, 16, true, true, NO_MASK, 0, 0, F32},
    {"whole blocks", 1, 2, 2, 128, 192, 64, 64, false, false, NO_MASK, 0, 0, F32},
    {"causal, more keys", 2, 2, 2, 70, 150, 24, 40, true, false, NO_MASK, 0, 0, F32},
    {"causal, more queries", 1, 2, 2, 150, 70, 9, 5, true, false, NO_MASK, 0, 0.3, F32},
    {"shared heads", 2, 6, 2, 70, 70, 12, 12, true, true, NO_MASK, 0, 0, F32},
    {"rows a page apart", 2, 8, 4, 131, 131, 64, 64, true, true, NO_MASK, 0, 0, F32}, /* 16 heads of 64 in all */
    {"rows a page apart, few heads, a mask", 1, 2, 1, 200, 200, 256, 256, false, true, SEEN, 0.1, 0, F32},
    {"float64, rows a page apart", 1, 4, 2, 70, 70, 64, 64, true, true, NO_MASK, 0, 0, SAMBA_FLOAT64},
    {"one query", 2, 2, 2, 1, 100, 16, 16, false, false, NO_MASK, 0, 0, F32},
    {"one of each", 1, 1, 1, 1, 1, 1, 1, true, true, NO_MASK, 0, 0, F32},
    {"deep", 1, 2, 2, 40, 40, 257, 257, true, true, NO_MASK, 0, 0, F32},
    {"sharp", 1, 2, 2, 150, 150, 4, 4, true, true, NO_MASK, 0, 4, F32},
    {"added mask", 2, 2, 2, 66, 67, 8, 8, false, false, ADDED, 0, 0, F32},
    {"added mask, causal", 2, 2, 1, 67, 67, 8, 8, true, true, ADDED, 0, 0, F32},
    {"seen keys", 3, 2, 2, 66, 130, 8, 8, false, false, SEEN_KEYS, 0, 0, F32},
    {"blind queries", 1, 2, 2, 80, 10, 8, 8, false, false, BLIND, 0, 0, F32},
    {"blind causal queries", 1, 2, 2, 80, 80, 8, 8, true, true, BLIND, 0, 0, F32},
    {"dropout", 2, 3, 3, 70, 131, 8, 8, false, false, NO_MASK, 0.3, 0, F32},
    {"dropout, causal", 2, 4, 2, 131, 131, 8, 8, true, true, NO_MASK, 0.2, 0, F32},
    {"dropout of all", 1, 1, 1, 10, 10, 4, 4, false, true, NO_MASK, 1, 0, F32},
    {"all at once", 2, 4, 2, 70, 70, 8, 8, true, true, SEEN, 0.2, -0.7, F32},
    {"float64", 2, 4, 2, 70, 100, 10, 6, true, false, SEEN, 0.2, 0, SAMBA_FLOAT64},
    {"float64, joint", 1, 2, 2, 130, 130, 32, 32, true, true, ADDED, 0, 0, SAMBA_FLOAT64},
    {"bfloat16", 2, 4, 2, 70, 70, 16, 16, true, true, ADDED, 0, 0, SAMBA_BFLOAT16},
    {"bfloat16, whole blocks", 1, 2, 2, 192, 192, 64, 64, true, true, NO_MASK, 0, 0, SAMBA_BFLOAT16},
    {"bfloat16, odd", 1, 2, 2, 77, 131, 9, 5, false, false, NO_MASK, 0, 0, SAMBA_BFLOAT16},
    {"bfloat16, odd, causal", 2, 2, 2, 141, 141, 33, 33, true, true, NO_MASK, 0, 0, SAMBA_BFLOAT16},
    {"bfloat16, more keys", 1, 2, 1, 83, 150, 24, 40, true, false, NO_MASK, 0, 0, SAMBA_BFLOAT16},
    {"bfloat16, more queries", 1, 2, 2, 150, 75, 10, 6, true, false, NO_MASK, 0, 0.3, SAMBA_BFLOAT16},
    {"bfloat16, all at once", 2, 4, 2, 70, 70, 8, 8, true, true, SEEN, 0.2, -0.7, SAMBA_BFLOAT16},
    {"bfloat16, blind queries", 1, 2, 2, 80, 3, 8, 8, false, false, BLIND, 0, 0, SAMBA_BFLOAT16},
    {"bfloat16, no keys", 1, 2, 2, 5, 0, 4, 4, true, false, NO_MASK, 0, 0, SAMBA_BFLOAT16},
    {"scale of nothing", 1, 2, 2, 70, 70, 4, 4, true, true, NO_MASK, 0, -1e-30, F32},
    {"float16", 1, 2, 2, 70, 100, 16, 8, false, false, SEEN, 0.1, 0, SAMBA_FLOAT16},
    {"no batch", 0, 2, 2, 5, 5, 4, 4, true, true, NO_MASK, 0, 0, F32},
    {"no queries", 2, 2, 2, 0, 5, 4, 4, false, false, NO_MASK, 0, 0, F32},
    {"no keys", 2, 2, 2, 5, 0, 4, 3, false, false, NO_MASK, 0, 0, F32},
    {"no depth", 2, 2, 2, 5, 6, 0, 3, false, false, NO_MASK, 0, 0, F32},
    {"no depth of values", 2, 2, 2, 5, 6, 4, 0, false, false, NO_MASK, 0, 0, F32},
};

TEST(against_reference)
{
    for (int i = 0; i < LENGTH(cases); i++) {
        char path[512];
        samba_compile_options o = compile_of("attention", model, &cases[i], 0, NULL);
        print_message("%s\n", cases[i].name);
        need(samba_compile(context, &o, path, sizeof path));
        for (int threads = 1; threads <= 3; threads++)
            run_case(&cases[i], path, threads, NULL);
        SAMBA_EACH_ISA (isa)
            run_case(&cases[i], path, 2, samba_isa_names[isa]);
    }
}

/* ---- the same bits ---- */

/* Four threads for three heads share one with a neighbour; many heads are taken by threads as they come free. */
TEST(same_bits)
{
    const attention_case twice[] = {
        {"three heads", 1, 3, 3, 300, 300, 16, 16, true, true, NO_MASK, 0.1, 0, F32},
        {"many heads", 4, 8, 8, 100, 100, 16, 16, true, true, NO_MASK, 0, 0, F32},
        {"many heads of bfloat16", 4, 8, 8, 100, 100, 16, 16, true, true, NO_MASK, 0, 0, SAMBA_BFLOAT16},
    };
    static const int teams[][3] = {{4, 4}, {1, 2, 3}, {1, 2, 3}};
    for (int i = 0; i < LENGTH(twice); i++) {
        samba_compile_options o = compile_of("attention", model, &twice[i], 0, NULL);
        samba_session *sessions[3];
        for (int k = 0; k < 3 && teams[i][k]; k++) {
            sessions[k] = open_kept(&o, teams[i][k], 0);
            need(samba_run(sessions[k], NULL));
            if (k > 0)
                assert_same_bits(sessions[0], sessions[k], COMPUTED);
        }
        drop_kept(NULL);
    }
}

/* ---- what the compiler makes of it ---- */

static const samba_stage *attention_stage(const samba_plan *plan, int which)
{
    for (int32_t i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].kind == SAMBA_STAGE_ATTENTION && which-- == 0)
            return &plan->stages[i];
    return NULL;
}

/* Training: result and log-sum-exp by one stage, gradients by another;
 * no matrix of scores, no copy of a joint projection's heads. */
TEST(two_stages)
{
    const attention_case c = {"", 1, 2, 2, 1024, 1024, 8, 8, true, true, NO_MASK, 0, 0, F32};
    samba_compile_options o = compile_of("attention", model, &c, 0, NULL);
    samba_plan plan = compiled_plan(&o);
    const samba_stage *forward = attention_stage(&plan, 0), *backward = attention_stage(&plan, 1);
    assert_non_null(backward);
    assert_null(attention_stage(&plan, 2));
    assert_true(forward->attention.has_result && forward->attention.has_lse && !forward->attention.gradient &&
                backward->attention.gradient);
    assert_int_equal(forward->flops, 2 * 2 * (1024 * 1025 / 2) * 16);
    assert_int_equal(forward->operands[0].buffer, forward->operands[1].buffer);
    assert_int_equal(forward->operands[1].offset, 2 * 8);
    assert_int_equal(forward->operands[1].strides[2], 6 * 8);
    assert_true(plan.memory.activations < 1024 * 1024 * 2);
    samba_plan_free(&plan);
    o.inference = true;
    plan = compiled_plan(&o);
    forward = attention_stage(&plan, 0);
    assert_true(forward->attention.has_result && !forward->attention.has_lse);
    assert_null(attention_stage(&plan, 1));
    samba_plan_free(&plan);
}

/* The log-sum-exp alone, of a graph that wants nothing else. */
MODEL(only_lse)
{
    samba_ref x = param(g, "x", F32, 1, 2, 100, 8).index;
    const samba_attrs attrs = {.attention = {.causal = 1, .scale = 0.4}};
    samba_output(g, "lse", (samba_value){g, samba_emit(g, SAMBA_OP_attention_lse, 3, (samba_ref[]){x, x, x}, &attrs), 0});
}

TEST(lse_alone)
{
    const reference_case compared = {"lse", only_lse, NULL, 0, NULL, .inference = true, .tolerance = 2e-6};
    samba_compile_options o = inference_of("lse", only_lse, NULL, 0, NULL);
    char path[512];
    need(samba_compile(context, &o, path, sizeof path));
    check_teams(&compared, path);
}

/* ---- the public function ---- */

static samba_value attention(const char *q, const char *k, const char *v, const samba_attention_options *o)
{
    return samba_scaled_dot_product_attention(zeros_of(q), zeros_of(k), zeros_of(v), o);
}

TEST(shapes)
{
    samba_attention_options o = samba_attention_defaults();
    trace("");
    expect_type(attention("float32[5,3]", "float32[4,3]", "float32[4,2]", NULL), "float32[5,2]");
    expect_type(attention("float32[6,5,3]", "float32[6,4,3]", "float32[6,4,2]", &o), "float32[6,5,2]");
    o.mask = zeros_of("bool[5,4]");
    samba_value y = attention("float32[2,6,5,3]", "float32[2,6,4,3]", "float32[2,6,4,2]", &o);
    expect_type(y, "float32[2,6,5,2]");
    /* nothing else around it */
    const samba_node *permute = samba_node_at(traced, y.index), *node = samba_node_at(traced, permute->inputs[0]);
    assert_true(permute->op == SAMBA_OP_permute && node->op == SAMBA_OP_attention && node->attrs->attention.masked);
    assert_true(node->attrs->attention.scale == 1 / sqrt(3));
    static const char *const masks[] = {"float64[3,1,5,1]", "float32[2,3,6,1,4]"};
    o.enable_gqa = true;
    o.scale = 2;
    for (int i = 0; i < 2; i++) {
        o.mask = zeros_of(masks[i]);
        expect_type(attention("float32[2,3,6,5,3]", "float32[2,3,2,4,3]", "float32[2,3,2,4,2]", &o), "float32[2,3,6,5,2]");
    }
    untrace();
}

TEST(dropout_is_named)
{
    trace("x float32[2,3,4,5]");
    samba_value x = in("x"), y[2];
    samba_attention_options o = samba_attention_defaults();
    const samba_node *nodes[2];
    o.dropout = "drop";
    o.dropout_p = 0.1;
    samba_scope_push(traced, "attn");
    for (int i = 0; i < 2; i++)
        y[i] = samba_scaled_dot_product_attention(x, x, x, &o);
    samba_scope_pop(traced);
    need(samba_graph_status(traced));
    for (int i = 0; i < 2; i++)
        nodes[i] = samba_node_at(traced, samba_node_at(traced, y[i].index)->inputs[0]);
    assert_int_equal(nodes[0]->inputs[3], samba_graph_leaf(traced, "attn.drop.p"));
    assert_int_equal(nodes[0]->inputs[4], samba_graph_leaf(traced, "attn.drop.seed"));
    assert_int_equal(nodes[1]->inputs[3], nodes[0]->inputs[3]);
    assert_int_not_equal(nodes[1]->inputs[4], nodes[0]->inputs[4]); /* each call its own mask */
    untrace();
}

static samba_status refused(const char *q, const char *k, const char *v, const char *mask, samba_attention_options o)
{
    trace("");
    if (mask)
        o.mask = zeros_of(mask);
    attention(q, k, v, &o);
    samba_status status = samba_graph_status(traced);
    untrace();
    return status;
}

TEST(refusals)
{
    static const char x[] = "float32[1,2,3,4]";
    samba_attention_options o = samba_attention_defaults(), grouped = o, dropping = o, unscaled = o;
    grouped.enable_gqa = true;
    dropping.dropout_p = 0.5;
    unscaled.scale = NAN;
    says(refused("int64[1,2,3,4]", "int64[1,2,3,4]", "int64[1,2,3,4]", NULL, o));
    says(refused(x, "float32[1,2,3,5]", x, NULL, o));
    says(refused(x, "float32[2,2,3,4]", "float32[2,2,3,4]", NULL, o));
    says(refused(x, x, "float32[1,2,2,4]", NULL, o));
    says(refused("float32[1,4,3,4]", x, x, NULL, o));
    says(refused("float32[1,4,3,4]", "float32[1,3,3,4]", "float32[1,3,3,4]", NULL, grouped));
    says(refused(x, x, x, "bool[1,1,3,2]", o));
    says(refused(x, x, x, "int32[1,1,3,3]", o));
    says(refused(x, x, x, NULL, dropping));
    says(refused(x, x, x, NULL, unscaled));
}

TEST_MAIN(against_reference, same_bits, two_stages, lse_alone, shapes, dropout_is_named, refusals, every_message_said)
