/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floats that stages read where they lie (compiler/fuse/narrow.c): plans of norms store no float32 copy of what they are
 * given, whole or a part of it, and compute what the reference does, forward and backward. Where a cast is an output, is read by
 * a kernel, or is of what lies in another order, it is stored as it was. */
#include "training.h"
#include "reference.h"
#include <sambaflow/norm.h>
#include <sambaflow/sort.h>

enum { N = 6, C = 4, H = 11, ALL = N * C * H * H };
static const samba_value absent;

typedef struct narrow_case {
    samba_model model;
    samba_dtype dtype;
    int copies; /* float32 values of all elements, or all but one image's, that stages store */
} narrow_case;

static samba_value scaled(samba_graph *g)
{
    samba_value x = samba_input(g, "x");
    return samba_add(x, samba_parameter(g, "p", samba_value_dtype(x), 1, SHAPE(1), (samba_initializer){SAMBA_INIT_NORMAL, 0, 1}));
}

static samba_value normalized(samba_value x)
{
    samba_batch_norm_options options = samba_batch_norm_defaults();
    options.training = true;
    return samba_functional_batch_norm(x, absent, absent, absent, absent, &options);
}

MODEL(batch) { samba_output(g, "y", normalized(samba_input(g, "x"))); }
MODEL(groups) { samba_output(g, "y", samba_functional_group_norm(samba_input(g, "x"), 2, absent, absent, 1e-5)); }
MODEL(made) { samba_loss(g, "loss", samba_mean(samba_cast(normalized(scaled(g)), SAMBA_FLOAT32), 0, NULL, false)); }
MODEL(part) { samba_output(g, "y", normalized(samba_slice(samba_input(g, "x"), 0, 1, N, 1))); }
MODEL(turned) { samba_output(g, "y", normalized(samba_transpose(samba_input(g, "x"), 0, 1))); }

MODEL(delivered)
{
    samba_value x = samba_input(g, "x");
    samba_output(g, "wide", samba_cast(x, SAMBA_FLOAT32));
    samba_output(g, "y", normalized(x));
}

MODEL(sorted) /* by a kernel, which takes the dtype it is given */
{
    samba_value wide = samba_cast(samba_input(g, "x"), SAMBA_FLOAT32), indices;
    samba_output(g, "sorted", samba_sort(wide, -1, false, &indices));
    samba_output(g, "y", samba_mul(wide, samba_mean(wide, 1, (int[]){0}, true)));
}

static const narrow_case cases[] = {
    {batch, SAMBA_BFLOAT16, 0}, {batch, SAMBA_FLOAT16, 0},   {groups, SAMBA_BFLOAT16, 0},   {made, SAMBA_BFLOAT16, -1},
    {part, SAMBA_BFLOAT16, 0},  {turned, SAMBA_BFLOAT16, 1}, {delivered, SAMBA_FLOAT16, 1}, {sorted, SAMBA_BFLOAT16, -1},
};

/* Stores of so many float32 elements, at least all but one image's. */
static int copies(const samba_plan *plan)
{
    int found = 0;
    for (int32_t s = 0; s < plan->stage_count; s++)
        for (int o = 0; o < plan->stages[s].operand_count; o++) {
            const samba_operand *operand = &plan->stages[s].operands[o];
            found += operand->dtype == SAMBA_FLOAT32 && operand_form(&plan->stages[s], o, SAMBA_FORM_STORE) &&
                     plan->buffers[operand->buffer].bytes >= 4 * ALL / N * (N - 1);
        }
    return found;
}

TEST(norms_read_what_they_are_given)
{
    for (int i = 0; i < (int)SAMBA_COUNT(cases); i++) {
        samba_tensor *x = kept(normal("x", cases[i].dtype, 4, SHAPE(N, C, H, H), 7));
        bool trains = cases[i].model == made;
        reference_case compared = {"narrow", cases[i].model, NULL, 1, &x, .inference = !trains, .tolerance = 2e-2};
        char path[512];
        pass_texts texts = compile_case(&compared, 0, path);
        free_texts(&texts);
        check_teams(&compared, path);
        samba_compile_options options = compile_of("narrow", cases[i].model, NULL, 1, &x);
        options.inference = !trains;
        samba_plan plan = compiled_plan(&options);
        if (cases[i].copies >= 0 && copies(&plan) != cases[i].copies)
            fail_msg("case %d: %d float32 copies, expected %d", i, copies(&plan), cases[i].copies);
        samba_plan_free(&plan);
    }
}

TEST_MAIN_WITH(NULL, drop_kept, norms_read_what_they_are_given)
