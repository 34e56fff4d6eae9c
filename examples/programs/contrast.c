/* SPDX-License-Identifier: Apache-2.0
 *
 * Contrastive learning (InfoNCE: van den Oord et al., 2018): nothing has a label. Two views of one thing should have embeddings
 * that are near each other, and those of different things far from each other. Here a thing is 4 numbers, a view mixes them with
 * 12 larger ones that are noise; the encoder has to find out which part of a view is the thing. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { BATCH = 64, THING = 4, VIEW = 16, EMBEDDING = 8, STEPS = 1000 };

static samba_value encoder(samba_value view)
{
    samba_value hidden = samba_gelu(samba_linear(view, "fc1", 64));
    return samba_normalize(samba_linear(hidden, "fc2", EMBEDDING), 2, 1, 1e-12);
}

/* Row i of the scores compares view i with all other views: the class that is right is i. */
static void contrast(samba_graph *g, const void *options)
{
    (void)options;
    samba_value a = encoder(samba_input(g, "a"));
    samba_value b = encoder(samba_input(g, "b")); /* the same names: the same weights */
    samba_value scores = samba_mul_scalar(samba_matmul(a, samba_transpose(b, 0, 1)), 10);
    samba_value itself = samba_arange(g, BATCH, SAMBA_INT64);
    samba_value of_rows = samba_cross_entropy(scores, itself);
    samba_value of_columns = samba_cross_entropy(samba_transpose(scores, 0, 1), itself);
    samba_loss(g, "loss", samba_add(of_rows, of_columns));
    samba_output(g, "embedding_a", a);
    samba_output(g, "embedding_b", b);
}

/* Views of the same things with noise of their own, mixed by the same matrix. */
static void fill_views(samba_context *context, uint64_t seed, samba_tensor *const *random, samba_tensor *const *views)
{
    const float *thing = samba_tensor_data(random[0]), *mix = samba_tensor_data(random[2]);
    float *noise = samba_tensor_data(random[1]);
    must(context, samba_fill_normal(random[0], 3 * seed, 0, 1));
    must(context, samba_fill_normal(random[2], 12345, 0, 0.5)); /* always the same */
    for (int v = 0; v < 2; v++) {
        float *view = samba_tensor_data(views[v]);
        must(context, samba_fill_normal(random[1], 3 * seed + 1 + (uint64_t)v, 0, 2));
        for (int i = 0; i < BATCH; i++)
            for (int j = 0; j < VIEW; j++) {
                float sum = 0;
                for (int k = 0; k < VIEW; k++)
                    sum += mix[VIEW * j + k] * (k < THING ? thing[THING * i + k] : noise[VIEW * i + k]);
                view[VIEW * i + j] = sum;
            }
    }
}

/* How many rows of a have their own row of b as the nearest one. */
static int found(const float *a, const float *b, int width)
{
    int right = 0;
    for (int i = 0; i < BATCH; i++) {
        int best = 0;
        float least = INFINITY;
        for (int j = 0; j < BATCH; j++) {
            float distance = 0;
            for (int k = 0; k < width; k++)
                distance += (a[i * width + k] - b[j * width + k]) * (a[i * width + k] - b[j * width + k]);
            if (distance < least)
                least = distance, best = j;
        }
        right += best == i;
    }
    return right;
}

int main(void)
{
    samba_context *context;
    samba_session *session;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    samba_tensor *views[] = {named(context, "a", SAMBA_FLOAT32, SHAPE(BATCH, VIEW)),
                             named(context, "b", SAMBA_FLOAT32, SHAPE(BATCH, VIEW))};
    samba_tensor *embeddings[] = {named(context, "embedding_a", SAMBA_FLOAT32, SHAPE(BATCH, EMBEDDING)),
                                  named(context, "embedding_b", SAMBA_FLOAT32, SHAPE(BATCH, EMBEDDING))};
    samba_tensor *random[] = {named(context, "thing", SAMBA_FLOAT32, SHAPE(BATCH, THING)),
                              named(context, "noise", SAMBA_FLOAT32, SHAPE(BATCH, VIEW)),
                              named(context, "mix", SAMBA_FLOAT32, SHAPE(VIEW, VIEW))};
    samba_optimizer adamw = samba_adamw(0.003);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "contrast", compile.model = contrast;
    compile.inputs = views, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    must(context, samba_session_new(context, pef, NULL, &session));

    samba_run_options train = samba_run_defaults();
    train.inputs = views, train.input_count = 2;
    for (uint64_t step = 1; step <= STEPS; step++) {
        fill_views(context, step, random, views);
        must(context, samba_run(session, &train));
    }

    /* Things that it has never seen. */
    samba_run_options embed = train;
    embed.outputs = embeddings, embed.output_count = 2;
    embed.section_types = (const char *const[]){"FWD"}, embed.section_type_count = 1;
    embed.train = false;
    fill_views(context, STEPS + 1, random, views);
    must(context, samba_run(session, &embed));
    const int before = found(samba_tensor_data(views[0]), samba_tensor_data(views[1]), VIEW);
    const int after = found(samba_tensor_data(embeddings[0]), samba_tensor_data(embeddings[1]), EMBEDDING);
    printf("of %d things are found by their views %d, by their embeddings %d\n", BATCH, before, after);
    expect(before < BATCH / 4 && after > BATCH * 3 / 4, "3 of 4 things found, where less than 1 was");

    for (int i = 0; i < 2; i++)
        samba_tensor_free(views[i]), samba_tensor_free(embeddings[i]);
    for (int i = 0; i < 3; i++)
        samba_tensor_free(random[i]);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
