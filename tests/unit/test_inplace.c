/* SPDX-License-Identifier: Apache-2.0
 *
 * Results over what they are made of, as plans have them: a chain that ends in a gradient lies in the gradient's memory, and
 * pooling's gradient over what was pooled where kernels allow it. That such plans compute what they should is for
 * test_random_shapes.c. */
#include "training.h"
#include "reference.h"

static samba_value normal_parameter(samba_graph *g, const char *name, int rank, const int64_t *shape)
{
    return samba_parameter(g, name, SAMBA_FLOAT32, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0.1, 0.7});
}

MODEL(tied) /* one weight, many times, none of its gradient's parts in the forward */
{
    samba_value w = normal_parameter(g, "w", 2, SHAPE(90, 90)), h = samba_input(g, "x");
    for (int i = 0; i < 5; i++)
        h = samba_tanh(samba_matmul(h, w));
    samba_loss(g, "loss", samba_sum(h, 0, NULL, false));
}

TEST(chains_end_in_gradients)
{
    enum { ROWS = 48 }; /* so deep a product is not joined with others */
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, 90), 1));
    samba_compile_options options = compile_of("inplace", tied, NULL, 1, &x);
    samba_plan plan = compiled_plan(&options);
    int64_t gradient = -1;
    int into = 0;
    for (int32_t t = 0; t < plan.tensor_count; t++)
        if (strcmp(plan.tensors[t].name, "w.grad") == 0)
            gradient = plan.buffers[plan.tensors[t].buffer].offset;
    assert_true(gradient >= 0);
    for (int32_t s = 0; s < plan.stage_count; s++)
        for (int o = 0; o < plan.stages[s].operand_count && plan.stages[s].kind == SAMBA_STAGE_CONTRACT; o++)
            into += operand_form(&plan.stages[s], o, SAMBA_FORM_STORE) &&
                    plan.buffers[plan.stages[s].operands[o].buffer].offset == gradient;
    assert_int_equal(into, 5); /* each product is added where the last one was */
    assert_true(plan.memory.activations < (5 * ROWS * 90 + 90 * 90) * 4);
    samba_plan_free(&plan);
}

static void pooled(samba_graph *g, const void *options)
{
    const int64_t *size = options;
    samba_value y = samba_mul(samba_input(g, "x"), normal_parameter(g, "p", 4, SHAPE(2, 3, 9, 8)));
    y = samba_max_pool2d(y, SHAPE(*size, *size), &(samba_pool2d_options){.stride = {2, 2}});
    samba_loss(g, "loss", samba_sum(samba_tanh(y), 0, NULL, false));
}

/* The gradient's values stand in test_pool.c and test_random_shapes.c; here it is where they lie. */
TEST(gradients_of_pooling)
{
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 4, SHAPE(2, 3, 9, 8), 1));
    for (int64_t size = 2; size <= 3; size++) {
        samba_compile_options options = compile_of("inplace", pooled, &size, 1, &x);
        samba_plan plan = compiled_plan(&options);
        int found = 0;
        for (int32_t s = 0; s < plan.stage_count; s++) {
            const samba_stage *stage = &plan.stages[s];
            if (stage->kind == SAMBA_STAGE_POOL && stage->pool.gradient)
                found += 1 + (plan.buffers[stage->operands[0].buffer].offset == plan.buffers[stage->operands[2].buffer].offset);
        }
        assert_int_equal(found, size == 2 ? 2 : 1); /* larger windows overlap */
        samba_plan_free(&plan);
    }
}

TEST_MAIN_WITH(NULL, drop_kept, chains_end_in_gradients, gradients_of_pooling)
