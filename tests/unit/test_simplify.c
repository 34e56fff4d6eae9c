/* SPDX-License-Identifier: Apache-2.0
 *
 * What simplify leaves of models, by the stages of their plans: nothing of what an embedding has for its gradient alone where
 * there is none, and no product that sums over one column. That such plans compute what they should is for test_compile.c and
 * test_evaluate.c. */
#include "training.h"
#include "reference.h"
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>

enum { ROWS = 9, WIDTH = 5 };

typedef struct options_case {
    bool padded, by_frequency;
    samba_dtype dtype;
} options_case;

static void looked_up(samba_graph *g, const void *given)
{
    const options_case *of = given;
    samba_embedding_options options = {
        .struct_size = sizeof options, .has_padding_idx = of->padded, .padding_idx = 2, .scale_grad_by_freq = of->by_frequency};
    samba_output(g, "y", samba_functional_embedding(samba_input(g, "i"), samba_input(g, "table"), &options));
}

TEST(embeddings_without_gradients)
{
    static const options_case cases[] = {
        {true, false, SAMBA_FLOAT32}, {false, true, SAMBA_FLOAT32}, {true, true, SAMBA_FLOAT32},
        {true, true, SAMBA_BFLOAT16}, {false, true, SAMBA_FLOAT64},
    };
    samba_tensor *indices = kept(tensor("i", SAMBA_INT64, 1, SHAPE(4)));
    for (int i = 0; i < LENGTH(cases); i++) {
        samba_tensor *table = kept(tensor("table", cases[i].dtype, 2, SHAPE(ROWS, WIDTH)));
        samba_compile_options options = compile_of("simplify", looked_up, &cases[i], 2, (samba_tensor *[]){indices, table});
        options.inference = true;
        samba_plan plan = compiled_plan(&options);
        assert_int_equal(plan.stage_count, 1);
        assert_int_equal(plan.stages[0].kind, SAMBA_STAGE_GATHER);
        samba_plan_free(&plan);
    }
}

/* The rows that are read become wide, not the table. */
MODEL(narrow_table)
{
    samba_value table = samba_register_buffer(g, "table", SAMBA_BFLOAT16, 2, SHAPE(ROWS, WIDTH), (samba_initializer){0});
    samba_output(g, "y", samba_functional_embedding(samba_input(g, "i"), samba_cast(table, SAMBA_FLOAT32), NULL));
}

TEST(embeddings_of_16_bits)
{
    samba_tensor *indices = kept(tensor("i", SAMBA_INT64, 1, SHAPE(4)));
    samba_compile_options options = compile_of("simplify", narrow_table, NULL, 1, &indices);
    options.inference = true;
    samba_plan plan = compiled_plan(&options);
    assert_int_equal(plan.stage_count, 2);
    assert_int_equal(plan.stages[0].kind, SAMBA_STAGE_GATHER);
    assert_int_equal(plan.stages[0].operands[0].dtype, SAMBA_BFLOAT16);
    assert_int_equal(plan.stages[1].kind, SAMBA_STAGE_TILE);
    assert_int_equal(samba_sizes_product(plan.stages[1].rank, plan.stages[1].domain), 4 * WIDTH);
    samba_plan_free(&plan);
}

static samba_value parameter(samba_graph *g, const char *name, int rank, const int64_t *shape)
{
    return samba_parameter(g, name, SAMBA_FLOAT32, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
}

/* dot forward is a product; its gradients are the vectors times one number each */
MODEL(dot) { samba_loss(g, "loss", samba_dot(parameter(g, "a", 1, SHAPE(70)), parameter(g, "b", 1, SHAPE(70)))); }
MODEL(outer)
{
    samba_value a = parameter(g, "a", 2, SHAPE(30, 1)), b = parameter(g, "b", 2, SHAPE(1, 40));
    samba_output(g, "y", samba_matmul(a, b));
}

static int products_of(samba_model model, bool inference)
{
    samba_compile_options options = compile_of("simplify", model, NULL, 0, NULL);
    options.inference = inference;
    samba_plan plan = compiled_plan(&options);
    int products = 0;
    for (int32_t s = 0; s < plan.stage_count; s++)
        products += plan.stages[s].kind == SAMBA_STAGE_CONTRACT;
    samba_plan_free(&plan);
    return products;
}

TEST(products_of_one_column)
{
    assert_int_equal(products_of(dot, false), 1);
    assert_int_equal(products_of(outer, true), 0);
    assert_int_equal(products_of(outer, false), 2); /* its gradients sum over 30 rows and 40 columns */
}

TEST_MAIN_WITH(NULL, drop_kept, embeddings_without_gradients, embeddings_of_16_bits, products_of_one_column)
