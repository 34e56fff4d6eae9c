/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled against the reference: models of several operators, as people write them, are compiled, run by sections and compared,
 * outputs and gradients, with the same graph evaluated node by node by reference kernels. Each runs with one and two threads, in
 * bfloat16, and on every ISA this CPU has. The verifier runs after every pass. Elementwise functions, norms, products, pools,
 * losses, convolutions and moves of any shape are test_random_shapes', LeNet and its like tests/torch/losses.sh's. */
#include "training.h"
#include "device/cpu/kernel.h"
#include "reference.h"

#define F32 SAMBA_FLOAT32

typedef struct input {
    const char *name;
    samba_dtype dtype;
    int rank;
    int64_t shape[5];
    int64_t classes; /* integers in [0, classes) */
} input;
typedef struct model_case {
    const char *name;
    samba_model model;
    input inputs[4];
} model_case;

static samba_value in(samba_graph *g, const char *name) { return samba_input(g, name); }
static samba_value param(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    return samba_parameter(g, name, dtype, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0.1, 0.7});
}
#define DIMS(...)                                                                                                                \
    (const int[]) { __VA_ARGS__ }

static void lose(samba_graph *g, samba_value v) /* a loss that weighs every element differently */
{
    int64_t shape[8], n = 1;
    int rank = samba_value_rank(v);
    for (int i = 0; i < rank; i++)
        n *= shape[i] = samba_value_size(v, i);
    samba_value w = samba_reshape(samba_cast(samba_arange(g, n, SAMBA_INT64), samba_value_dtype(v)), rank, shape);
    w = samba_add_scalar(samba_mul_scalar(w, 0.37 / (double)(n + 1)), 0.2);
    samba_loss(g, "loss", samba_sum(samba_mul(v, w), 0, NULL, false));
}

/* ---- the models ---- */
MODEL(conv_transposed)
{
    samba_value w = param(g, "w", F32, 4, SHAPE(4, 3, 3, 2)), b = param(g, "b", F32, 1, SHAPE(6));
    samba_conv_transpose2d_options own = {{2, 3}, {1, 0}, {1, 2}, {1, 1}, 2, false};
    samba_value y =
        samba_functional_conv_transpose2d(samba_relu(samba_conv2d(in(g, "x"), "c", 4, SHAPE(1, 1), NULL)), w, b, &own);
    samba_output(g, "y", y);
    y = samba_functional_conv_transpose2d(y, param(g, "v", F32, 4, SHAPE(6, 2, 1, 1)), (samba_value){0}, NULL);
    lose(g, samba_mul(y, y));
}
/* products that sum over one row or column, forwards or in their gradients, batches that broadcast among them */
MODEL(thin_products)
{
    samba_value x = in(g, "x"), w = param(g, "w", F32, 2, SHAPE(1, 7)), v = param(g, "v", F32, 1, SHAPE(7));
    samba_value wide = samba_matmul(x, w); /* (2, 5, 1) x (1, 7) */
    samba_value many = samba_matmul(param(g, "u", F32, 4, SHAPE(3, 1, 5, 1)), samba_slice(x, 1, 0, 1, 1));
    samba_value y = samba_matmul(samba_gelu(wide), v); /* (2, 5) */
    samba_output(g, "y", y);
    lose(g, samba_add(samba_mul(y, samba_reshape(x, 2, SHAPE(2, 5))),
                      samba_reshape(samba_sum(many, 1, DIMS(0), false), 2, SHAPE(2, 5))));
}
/* masks and bias gradients on the pooled side; 0 and equal elements among x */
MODEL(relu_pool)
{
    samba_conv2d_options pad = {.padding = {1, 1}};
    samba_value a = samba_relu(samba_conv2d(in(g, "x"), "a", 5, SHAPE(3, 3), &pad));
    samba_value b = samba_max_pool2d(samba_relu(samba_conv2d(a, "b", 4, SHAPE(2, 2), NULL)), SHAPE(2, 2), NULL);
    samba_value c = samba_max_pool2d(samba_relu(samba_conv2d(a, "c", 3, SHAPE(1, 1), NULL)), SHAPE(3, 3),
                                     &(samba_pool2d_options){{2, 1}, {1, 1}, {1, 1}, false, false, 0});
    samba_value d = samba_avg_pool2d(samba_conv2d(b, "d", 3, SHAPE(1, 1), NULL), SHAPE(2, 2), NULL);
    samba_loss(g, "loss", samba_add(samba_sum(samba_mul(c, c), 0, NULL, false), samba_sum(samba_mul(d, d), 0, NULL, false)));
}
MODEL(tied) /* rows are added to the other gradient of the table, a first time in place */
{
    samba_value token = in(g, "token"), wte = param(g, "wte.weight", F32, 2, SHAPE(29, 40));
    samba_value h = samba_add(samba_embedding(token, "wte", 29, 40), samba_embedding(in(g, "next"), "wte", 29, 40));
    samba_value logits = samba_matmul(samba_layer_norm(h, "ln"), samba_transpose(wte, 0, 1));
    samba_output(g, "logits", logits);
    lose(g, logits);
}
MODEL(random_numbers)
{
    samba_scope_push(g, "block"); /* of the name that the harness gives a seed */
    samba_value a = samba_rand(g, "drop", 2, SHAPE(5, 40)), b = samba_rand(g, "drop", 2, SHAPE(5, 40)),
                c = samba_rand(g, "drop", 0, NULL);
    samba_scope_pop(g);
    samba_output(g, "a", a), samba_output(g, "b", b), samba_output(g, "c", c), samba_output(g, "equal", samba_eq(a, b));
    lose(g, samba_mul(samba_linear(in(g, "x"), "fc", 40), samba_add(a, samba_mul(b, c))));
}
MODEL(trained_mask)
{
    samba_value qkv = samba_linear(in(g, "x"), "qkv", 32), head[3];
    for (int i = 0; i < 3; i++) /* four heads of queries, two of keys and values */
        head[i] = samba_permute(
            samba_reshape(samba_slice(qkv, -1, i ? 8 + 8 * i : 0, i ? 16 + 8 * i : 16, 1), 4, SHAPE(2, 6, i ? 2 : 4, 4)),
            DIMS(0, 2, 1, 3));
    samba_attention_options own = samba_attention_defaults();
    own.mask = param(g, "bias", F32, 3, SHAPE(4, 6, 6));
    own.enable_gqa = own.is_causal = true;
    samba_value y = samba_scaled_dot_product_attention(head[0], head[1], head[2], &own);
    samba_output(g, "y", y);
    lose(g, y);
}

MODEL(integers)
{
    samba_value a = in(g, "a"), b = in(g, "b");
    samba_output(g, "sum", samba_add(a, b));
    samba_output(g, "true", samba_div(a, samba_add_scalar(b, 300)));
    samba_output(g, "less", samba_lt(a, b));
    samba_output(g, "byte", samba_cast(samba_mul_scalar(a, 77), SAMBA_INT8));
    samba_output(g, "float", samba_mul(samba_cast(a, SAMBA_FLOAT16), samba_cast(b, SAMBA_FLOAT16)));
    samba_output(g, "same", a);
    samba_output(g, "seven", samba_constant(g, 7, SAMBA_INT16, 2, SHAPE(2, 3)));
}

static const model_case cases[] = {
    {"integers", integers, {{"a", SAMBA_INT16, 2, {6, 9}, 300}, {"b", SAMBA_UINT8, 2, {6, 9}, 20}}},
    {"relu_pool", relu_pool, {{"x", F32, 4, {2, 3, 12, 15}, 0}}},
    {"conv_transposed", conv_transposed, {{"x", F32, 4, {2, 3, 5, 4}, 0}}},
    {"thin_products", thin_products, {{"x", F32, 3, {2, 5, 1}, 0}}},
    {"tied", tied, {{"token", SAMBA_INT64, 2, {3, 8}, 29}, {"next", SAMBA_INT32, 2, {3, 8}, 29}}},
    {"random_numbers", random_numbers, {{"x", F32, 2, {5, 10}, 0}}},
    {"trained_mask", trained_mask, {{"x", F32, 3, {2, 6, 10}, 0}}},
};

/* ---- comparing ---- */
static int make_inputs(const model_case *c, samba_tensor **tensors)
{
    int count = 0;
    for (; count < 4 && c->inputs[count].name; count++) {
        const input *i = &c->inputs[count];
        need(samba_tensor_new(context, i->name, i->dtype, i->rank, i->shape, &tensors[count]));
        need(i->classes ? samba_fill_integers(tensors[count], (uint64_t)(11 + count), 0, i->classes)
                        : samba_fill_normal(tensors[count], (uint64_t)(7 + count), 0, 1));
    }
    return count;
}

static void check_case(const model_case *c, samba_precision precision, int threads, const char *isa)
{
    samba_tensor *inputs[4];
    char path[512];
    double tolerance = precision == SAMBA_BF16 ? 0.05 : 0;
    bool drops = c->model == random_numbers, inference = c->model == integers;
    const reference_case of = {c->name, c->model,  NULL,      make_inputs(c, inputs),
                               inputs,  inference, tolerance, drops ? "block.drop.seed" : NULL,
                               12345,   precision};
    pass_texts texts = compile_case(&of, 0, path);
    samba_session_free(run_against_reference(&of, path, threads, isa));
    free_texts(&texts);
    free_each_tensor(of.input_count, inputs);
}

TEST(every_model)
{
    for (int i = 0; i < LENGTH(cases); i++) {
        check_case(&cases[i], SAMBA_FP32, 1, NULL);
        SAMBA_EACH_ISA (isa)
            for (int precision = SAMBA_FP32; precision <= SAMBA_BF16; precision++)
                check_case(&cases[i], (samba_precision)precision, 2, samba_isa_names[isa]);
    }
}

TEST_MAIN(every_model)
