/* SPDX-License-Identifier: Apache-2.0
 *
 * A small transformer that learns which letter comes next, in batches larger than the memory is to hold: an update is by 32
 * passages of the text, of which a run has 8. The session adds up the gradients of four runs and updates in the fourth. The
 * learning rate warms up and falls as a cosine, by updates; gradients are clipped, by the norm of the sum. What it is compared
 * with is how often letters come at all, and after each other.
 *
 *     letters [FOLDER OF text.txt, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { LENGTH = 32, WIDTH = 32, BATCH = 8, RUNS = 4, UPDATES = 700, WORDS = 128, LAYERS = 1, HEADS = 4 };

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value letters = samba_input(g, "letters"), next = samba_input(g, "next");
    samba_value place = samba_embedding(samba_arange(g, LENGTH, SAMBA_INT64), "place", LENGTH, WIDTH);
    samba_value hidden = samba_add(samba_embedding(letters, "letter", WORDS, WIDTH), place);
    const samba_transformer_options causal = {.dim_feedforward = 4 * WIDTH,
                                              .gelu = true,
                                              .batch_first = true,
                                              .norm_first = true,
                                              .is_causal = true,
                                              .final_norm = true};
    hidden = samba_transformer_encoder(hidden, "body", LAYERS, HEADS, &causal);
    samba_value logits = samba_flatten(samba_linear(hidden, "out", WORDS), 0, 1); /* (N LENGTH, WORDS) */
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_flatten(next, 0, 1)));
}

/* The text's bytes; what is not ASCII becomes a question mark. */
static int64_t read_text(const char *folder, unsigned char *text, int64_t most)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/text.txt", folder);
    FILE *file = fopen(path, "rb");
    expect(file != NULL, "text.txt in the folder");
    const int64_t count = (int64_t)fread(text, 1, (size_t)most, file);
    fclose(file);
    for (int64_t i = 0; i < count; i++)
        text[i] = text[i] < WORDS ? text[i] : '?';
    return count;
}

/* Nats a letter of the test part, by how often letters come in the rest, at all or after the one before. */
static double counted(const unsigned char *text, int64_t trained, int64_t count, bool after)
{
    static double pair[WORDS][WORDS];
    double sum = 0;
    for (int i = 0; i < WORDS * WORDS; i++)
        pair[i / WORDS][i % WORDS] = 0.02;
    for (int64_t i = 1; i < trained; i++)
        pair[after ? text[i - 1] : 0][text[i]]++;
    for (int64_t i = trained + 1; i < count; i++) {
        const double *row = pair[after ? text[i - 1] : 0];
        double total = 0;
        for (int k = 0; k < WORDS; k++)
            total += row[k];
        sum -= log(row[text[i]] / total);
    }
    return sum / (double)(count - trained - 1);
}

static void passage(const unsigned char *text, int64_t from, int row, samba_tensor *const *inputs)
{
    int64_t *letters = (int64_t *)samba_tensor_data(inputs[0]) + row * LENGTH;
    int64_t *next = (int64_t *)samba_tensor_data(inputs[1]) + row * LENGTH;
    for (int i = 0; i < LENGTH; i++)
        letters[i] = text[from + i], next[i] = text[from + i + 1];
}

int main(int argc, char **argv)
{
    static unsigned char text[1 << 20];
    samba_context *context;
    samba_session *session;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    const int64_t count = read_text(argc > 1 ? argv[1] : "examples/data", text, sizeof text), trained = count * 9 / 10;
    samba_tensor *inputs[] = {named(context, "letters", SAMBA_INT64, SHAPE(BATCH, LENGTH)),
                              named(context, "next", SAMBA_INT64, SHAPE(BATCH, LENGTH))};
    samba_tensor *begins = named(context, "begins", SAMBA_INT64, SHAPE(BATCH)),
                 *loss = named(context, "loss", SAMBA_FLOAT32, 0, NULL);
    samba_optimizer adamw = samba_adamw(0.006);
    samba_compile_options compile = samba_compile_defaults();
    adamw.max_grad_norm = 1;
    compile.name = "letters", compile.model = model;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    compile.grad_accumulation_steps = RUNS; /* each run's gradients are divided by that */
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_session_new(context, pef, &device, &session));

    const samba_schedule schedule = {.kind = SAMBA_SCHEDULE_COSINE, .warmup_steps = UPDATES / 10};
    const int64_t *begin = samba_tensor_data(begins);
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 2;
    samba_hyperparameter lr = {"lr", 0}; /* which `run` points to, here and below */
    run.hyperparameters = &lr, run.hyperparameter_count = 1;
    for (int step = 0; step < UPDATES * RUNS; step++) {
        must(context, samba_fill_integers(begins, seed() * UPDATES * RUNS + (uint64_t)step, 0, trained - LENGTH - 1));
        for (int row = 0; row < BATCH; row++)
            passage(text, begin[row], row, inputs);
        /* Of the update that this run belongs to. */
        lr.value = samba_schedule_lr(&schedule, 0.006, step / RUNS, 0, UPDATES);
        must(context, samba_run(session, &run)); /* FWD and BCKWD; every fourth time also GRADNORM and OPT */
    }

    samba_tensor *steps;
    double nats = 0, value, updates;
    int tests = 0;
    must(context, samba_session_get_by_name(session, "optim0.step", &steps));
    must(context, samba_tensor_item(steps, &updates));
    run.outputs = &loss, run.output_count = 1;
    run.section_types = (const char *const[]){"FWD"}, run.section_type_count = 1;
    run.train = false;
    for (int64_t from = trained; from + BATCH * LENGTH + 1 <= count; from += BATCH * LENGTH, tests++) {
        for (int row = 0; row < BATCH; row++)
            passage(text, from + row * LENGTH, row, inputs);
        must(context, samba_run(session, &run));
        must(context, samba_tensor_item(loss, &value));
        nats += value;
    }
    nats /= tests;
    const double alone = counted(text, trained, count, false), after = counted(text, trained, count, true);
    printf("%.0f updates by %d passages; a letter costs %.2f nats, by counting letters %.2f, by counting pairs %.2f\n", updates,
           BATCH * RUNS, nats, alone, after);
    expect(lround(updates) == UPDATES, "an update by every four runs");
    expect(nats < after && nats < alone - 0.5, "less than by counting pairs");

    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]), samba_tensor_free(begins);
    samba_tensor_free(loss), samba_tensor_free(steps);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
