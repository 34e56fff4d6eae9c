/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequence to sequence: an encoder-decoder transformer (Vaswani et al., 2017) that sorts 8 digits. It learns with the right
 * answer given one place late, and answers by a second graph over the same weights, which is run once a digit: what it has said
 * so far is given to it again. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum {
    LENGTH = 8,
    DIGITS = 10,
    BEGIN = DIGITS,
    WORDS = DIGITS + 1,
    WIDTH = 32,
    HEADS = 4,
    BATCH = 32,
    ASKED = 200,
    STEPS = 1000
};

/* Words and places as numbers. */
static samba_value embedded(samba_value words, const char *name)
{
    samba_graph *g = words.graph;
    samba_scope_push(g, name);
    samba_value word = samba_embedding(words, "word", WORDS, WIDTH);
    samba_value place = samba_embedding(samba_arange(g, LENGTH, SAMBA_INT64), "place", LENGTH, WIDTH);
    samba_scope_pop(g);
    return samba_add(word, place); /* (N, LENGTH, WIDTH) and (LENGTH, WIDTH) */
}

static samba_value answers(samba_value digits, samba_value said)
{
    samba_transformer_options options = {.dim_feedforward = 64, .batch_first = true, .norm_first = true, .final_norm = true};
    samba_value memory = samba_transformer_encoder(embedded(digits, "from"), "encoder", 1, HEADS, &options);
    options.is_causal = true; /* a place sees what was said before, and all of the memory */
    samba_value hidden = samba_transformer_decoder(embedded(said, "to"), memory, "decoder", 1, HEADS, &options);
    return samba_linear(hidden, "out", DIGITS);
}

static void train_model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value digits = samba_input(g, "digits"), said = samba_input(g, "said"), answer = samba_input(g, "answer");
    samba_value logits = answers(digits, said);          /* (N, LENGTH, DIGITS) */
    samba_value of_places = samba_flatten(logits, 0, 1); /* the classes belong into dim 1 */
    samba_loss(g, "loss", samba_cross_entropy(of_places, samba_flatten(answer, 0, 1)));
}

static void answer_model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value asked = samba_input(g, "asked");
    samba_output(g, "next", samba_argmax(answers(asked, samba_input(g, "so_far")), 2, false));
}

static void sort(const int64_t *digits, int64_t *sorted)
{
    int count[DIGITS] = {0};
    for (int i = 0; i < LENGTH; i++)
        count[digits[i]]++;
    for (int d = 0; d < DIGITS; d++)
        while (count[d]-- > 0)
            *sorted++ = d;
}

int main(void)
{
    samba_context *context;
    samba_multigraph *graphs;
    samba_session *session;
    must(NULL, samba_context_new(NULL, &context));
    samba_tensor *lesson[] = {named(context, "digits", SAMBA_INT64, SHAPE(BATCH, LENGTH)),
                              named(context, "said", SAMBA_INT64, SHAPE(BATCH, LENGTH)),
                              named(context, "answer", SAMBA_INT64, SHAPE(BATCH, LENGTH))};
    samba_tensor *question[] = {named(context, "asked", SAMBA_INT64, SHAPE(ASKED, LENGTH)),
                                named(context, "so_far", SAMBA_INT64, SHAPE(ASKED, LENGTH))};
    samba_tensor *next = named(context, "next", SAMBA_INT64, SHAPE(ASKED, LENGTH));

    samba_optimizer adam = samba_adam(0.003);
    samba_compile_options compile = samba_compile_defaults();
    adam.max_grad_norm = 1;
    must(context, samba_multigraph_new(context, &graphs));
    compile.name = "train", compile.model = train_model;
    compile.inputs = lesson, compile.input_count = 3;
    compile.optimizers = &adam, compile.optimizer_count = 1;
    must(context, samba_multigraph_add(graphs, &compile, false));
    compile.name = "answer", compile.model = answer_model;
    compile.inputs = question, compile.input_count = 2;
    compile.optimizer_count = 0, compile.inference = true;
    must(context, samba_multigraph_add(graphs, &compile, false));
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_multigraph_session(graphs, "sorter", &device, &session));

    const samba_schedule schedule = {.kind = SAMBA_SCHEDULE_COSINE, .warmup_steps = 100};
    int64_t *digits = samba_tensor_data(lesson[0]), *said = samba_tensor_data(lesson[1]), *answer = samba_tensor_data(lesson[2]);
    samba_run_options train = samba_run_defaults();
    train.graph_name = "train";
    train.inputs = lesson, train.input_count = 3;
    samba_hyperparameter lr = {"lr", 0};
    train.hyperparameters = &lr, train.hyperparameter_count = 1;
    for (int step = 0; step < STEPS; step++) {
        must(context, samba_fill_integers(lesson[0], seed() * (STEPS + 1) + (uint64_t)step, 0, DIGITS));
        for (int row = 0; row < BATCH; row++) {
            sort(digits + LENGTH * row, answer + LENGTH * row);
            for (int i = 0; i < LENGTH; i++)
                said[LENGTH * row + i] = i ? answer[LENGTH * row + i - 1] : BEGIN;
        }
        lr.value = samba_schedule_lr(&schedule, 0.003, step, 0, STEPS);
        must(context, samba_run(session, &train));
    }

    samba_run_options ask = samba_run_defaults();
    ask.graph_name = "answer";
    ask.inputs = question, ask.input_count = 2;
    ask.outputs = &next, ask.output_count = 1;
    const int64_t *asked = samba_tensor_data(question[0]), *says = samba_tensor_data(next);
    int64_t *so_far = samba_tensor_data(question[1]);
    must(context, samba_fill_integers(question[0], seed() * (STEPS + 1) + STEPS, 0, DIGITS));
    for (int i = 0; i < LENGTH; i++) {
        for (int row = 0; row < ASKED; row++)
            so_far[LENGTH * row + i] = i ? says[LENGTH * row + i - 1] : BEGIN; /* places behind are not looked at */
        must(context, samba_run(session, &ask));
    }
    int right = 0;
    for (int row = 0; row < ASKED; row++) {
        int64_t sorted[LENGTH];
        bool same = true;
        sort(asked + LENGTH * row, sorted);
        for (int i = 0; i < LENGTH; i++)
            same &= says[LENGTH * row + i] == sorted[i];
        right += same;
    }
    printf("of %d rows of %d digits %d are sorted right\n", ASKED, LENGTH, right);
    expect(right > ASKED * 9 / 10, "9 of 10 rows sorted");

    for (int i = 0; i < 3; i++)
        samba_tensor_free(lesson[i]);
    samba_tensor_free(question[0]), samba_tensor_free(question[1]), samba_tensor_free(next);
    samba_session_free(session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
