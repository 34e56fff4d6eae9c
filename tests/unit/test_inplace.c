/* SPDX-License-Identifier: Apache-2.0
 *
 * Results over what they are made of. Random graphs, full of values that are read once more, in another order, by a later loop
 * over a row or by a product, are compiled, run on one and two threads and on every ISA, and compared, outputs and gradients,
 * with the reference evaluator: in float64, where an overwritten value cannot pass for rounding, and in float32. Then plans are
 * read: a chain that ends in a gradient lies in the gradient's memory, and pooling's gradient over what was pooled where kernels
 * allow it. */
#include "training.h"

#include "reference.h"

#include "device/cpu/kernel.h"
#include "plan/plan.h"
#include "tensor/philox.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

#define GRAPHS 80
#define POOL 24
#define DIMS(...)                                                                                                                \
    (const int[]) { __VA_ARGS__ }

/* ---- a random model: a pool of (rows, cols) values, each next one made of some of them ---- */
typedef struct recipe {
    uint64_t seed;
    int64_t rows, cols;
    int steps;
    samba_dtype dtype;
} recipe;
typedef struct draws {
    uint64_t seed, at;
} draws;

static int below(draws *d, int bound) { return (int)samba_philox_below(samba_philox_word64(d->seed, d->at++), (uint64_t)bound); }

static samba_value normal_parameter(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    return samba_parameter(g, name, dtype, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0.1, 0.7});
}

/* Rows moved down by one, the last first: the same elements at other places. */
static samba_value rolled(samba_value x, int64_t rows)
{
    if (rows < 2)
        return samba_neg(x);
    return samba_concat(2, (samba_value[]){samba_slice(x, 0, rows - 1, rows, 1), samba_slice(x, 0, 0, rows - 1, 1)}, 0);
}

static void random_model(samba_graph *g, const void *options)
{
    const recipe *r = options;
    draws d = {r->seed, 0};
    samba_value pool[POOL], w = normal_parameter(g, "w", r->dtype, 2, SHAPE(r->cols, r->cols)),
                            b = normal_parameter(g, "b", r->dtype, 1, SHAPE(r->cols));
    samba_value s = normal_parameter(g, "s", r->dtype, 2, SHAPE(r->rows, 1)),
                p = normal_parameter(g, "p", r->dtype, 2, SHAPE(r->rows, r->cols));
    int count = 0, outputs = 0;
    pool[count++] = samba_input(g, "x");
    pool[count++] = samba_mul(pool[0], p);
    while (count < POOL && count < r->steps) {
        samba_value a = pool[below(&d, 4) ? count - 1 : below(&d, count)], other = pool[below(&d, count)], v = a;
        char name[16];
        switch (below(&d, 14)) {
        case 0: v = samba_add(a, other); break;
        case 1: v = samba_sub(samba_mul(a, s), other); break;
        case 2: v = samba_tanh(samba_add(a, b)); break;
        case 3: v = samba_relu(a); break;
        case 4: v = samba_sub(a, samba_mean(a, 1, DIMS(1), true)); break;
        case 5: v = samba_mul(other, samba_softmax(a, 1)); break;
        case 6: v = samba_add(samba_mul_scalar(samba_matmul(a, w), 0.1), other); break;
        case 7: v = samba_add(a, samba_mul_scalar(samba_matmul(samba_tanh(a), w), 0.1)); break;
        case 8: v = samba_add(other, rolled(a, r->rows)); break;
        case 9:
            v = r->rows == r->cols ? samba_add(a, samba_transpose(a, 0, 1)) : samba_add(a, samba_sum(a, 1, DIMS(0), true));
            break;
        case 10: v = samba_mul_scalar(samba_add(samba_matmul(a, samba_transpose(w, 0, 1)), samba_mul(other, other)), 0.1); break;
        case 11: v = samba_sub(a, samba_amax(other, 1, DIMS(1), true)); break;
        case 12:
            snprintf(name, sizeof name, "n%d", count);
            v = samba_layer_norm(a, name);
            break;
        default: /* kept small, and looked at from outside */
            v = samba_tanh(samba_mul_scalar(a, 0.5));
            snprintf(name, sizeof name, "y%d", outputs++);
            samba_output(g, name, v);
        }
        pool[count++] = v;
    }
    samba_output(g, "y", pool[count - 1]);
    samba_value loss = samba_sum(samba_tanh(pool[count - 1]), 0, NULL, false);
    samba_loss(g, "loss", samba_add(loss, samba_mean(samba_sigmoid(pool[count / 2]), 0, NULL, false)));
}

static samba_plan compile_plan(samba_model model, const void *options, samba_tensor *x, char path[512])
{
    samba_plan plan;
    samba_compile_options o = compile_of("inplace", model, options, 1, &x);
    need(samba_compile(context, &o, path, 512));
    need(samba_pef_read(context, path, &plan));
    return plan;
}

/* ---- plans ---- */
static bool operand_form(const samba_stage *stage, int o, samba_tile_form form)
{
    for (int i = 0; i < stage->program.instruction_count; i++)
        if (stage->program.instructions[i].operand == o && samba_tile_table[stage->program.instructions[i].op].form == form)
            return true;
    return false;
}

/* Stages that store where they load. */
static int in_place_stages(const samba_plan *plan)
{
    int count = 0;
    for (int32_t s = 0; s < plan->stage_count; s++) {
        const samba_stage *stage = &plan->stages[s];
        bool found = false;
        for (int i = 0; i < stage->operand_count && stage->program.instruction_count > 0; i++)
            for (int j = 0; j < stage->operand_count; j++)
                found = found || (i != j && stage->operands[i].buffer == stage->operands[j].buffer &&
                                  operand_form(stage, i, SAMBA_FORM_LOAD) && operand_form(stage, j, SAMBA_FORM_STORE));
        count += found;
    }
    return count;
}

TEST(random_graphs)
{
    static const int64_t sizes[][2] = {{1, 1}, {7, 7}, {24, 24}, {5, 300}, {2, 777}, {33, 16}, {64, 64}, {3, 5000}, {40, 257}};
    int shared = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        draws d = {seed * 7919, 0};
        int pick = below(&d, LENGTH(sizes));
        recipe r = {seed, sizes[pick][0], sizes[pick][1], 6 + below(&d, POOL - 6), seed % 3 ? SAMBA_FLOAT64 : SAMBA_FLOAT32};
        if (r.cols > 1000) /* w would be large */
            r.cols = 1000 + below(&d, 90);
        samba_tensor *x = normal("x", r.dtype, 2, SHAPE(r.rows, r.cols), seed);
        char name[96], path[512];
        snprintf(name, sizeof name, "graph of seed %llu (%lld x %lld)", (unsigned long long)seed, (long long)r.rows,
                 (long long)r.cols);
        samba_plan plan = compile_plan(random_model, &r, x, path);
        shared += in_place_stages(&plan);
        samba_plan_free(&plan);
        const reference_case c = {name, random_model, &r, 1, &x, .tolerance = r.dtype == SAMBA_FLOAT64 ? 1e-9 : 1e-2};
        check_teams(&c, path);
        for (int isa = 0; isa < (int)samba_isa_best() && seed % 4 == 0; isa++)
            samba_session_free(run_against_reference(&c, path, 2, samba_isa_names[isa]));
        samba_tensor_free(x);
    }
    print_message("%d stages in place\n", shared);
    assert_true(shared > GRAPHS);
}

MODEL(tied) /* one weight, many times, none of its gradient's parts in the forward */
{
    samba_value w = normal_parameter(g, "w", SAMBA_FLOAT32, 2, SHAPE(90, 90)), h = samba_input(g, "x");
    for (int i = 0; i < 5; i++)
        h = samba_tanh(samba_matmul(h, w));
    samba_loss(g, "loss", samba_sum(h, 0, NULL, false));
}

TEST(chains_end_in_gradients)
{
    enum { ROWS = 48 }; /* so deep a product is not joined with others */
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, 90), 1);
    char path[512];
    samba_plan plan = compile_plan(tied, NULL, x, path);
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
    samba_tensor_free(x);
}

static void pooled(samba_graph *g, const void *options)
{
    const int64_t *size = options;
    samba_value y = samba_mul(samba_input(g, "x"), normal_parameter(g, "p", SAMBA_FLOAT32, 4, SHAPE(2, 3, 9, 8)));
    y = samba_max_pool2d(y, SHAPE(*size, *size), &(samba_pool2d_options){.stride = {2, 2}});
    samba_loss(g, "loss", samba_sum(samba_tanh(y), 0, NULL, false));
}

/* The gradient's values stand in test_pool.c and test_random_shapes.c; here it is where they lie. */
TEST(gradients_of_pooling)
{
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 4, SHAPE(2, 3, 9, 8), 1);
    for (int64_t size = 2; size <= 3; size++) {
        char path[512];
        samba_plan plan = compile_plan(pooled, &size, x, path);
        int found = 0;
        for (int32_t s = 0; s < plan.stage_count; s++) {
            const samba_stage *stage = &plan.stages[s];
            if (stage->kind != SAMBA_STAGE_POOL || !stage->pool.gradient)
                continue;
            bool over = plan.buffers[stage->operands[0].buffer].offset == plan.buffers[stage->operands[2].buffer].offset;
            assert_int_equal(over, size == 2); /* larger windows overlap */
            found++;
        }
        assert_int_equal(found, 1);
        samba_plan_free(&plan);
    }
    samba_tensor_free(x);
}

TEST_MAIN(random_graphs, chains_end_in_gradients, gradients_of_pooling)
