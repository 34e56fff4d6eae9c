/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasting: an LSTM sees 24 hours of a series and says the next one. Training takes windows drawn at random, clips gradients
 * and lowers its rate by a cosine. Then the model goes on from its own forecasts, for a day that it has not seen. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { HOURS = 1200, TRAINED = 1000, SEEN = 24, BATCH = 32, STEPS = 400 };

static void lstm(samba_graph *g, const void *options)
{
    (void)options;
    samba_value past = samba_input(g, "past"), next = samba_input(g, "next");
    const samba_recurrent_options rows_first = {.batch_first = true};
    samba_value h = samba_lstm(past, "lstm", 32, &rows_first, NULL);
    samba_value guess = samba_linear(samba_select(h, 1, SEEN - 1), "head", 1);
    samba_loss(g, "loss", samba_mse_loss(guess, next, (samba_value){0}, SAMBA_MEAN));
    samba_output(g, "guess", guess);
}

/* A day, a week, and a little noise. */
static float *series(samba_context *context, samba_tensor **noise)
{
    *noise = named(context, "noise", SAMBA_FLOAT32, SHAPE(HOURS));
    must(context, samba_fill_normal(*noise, 1, 0, 0.05));
    float *y = samba_tensor_data(*noise);
    for (int t = 0; t < HOURS; t++)
        y[t] += (float)(sin(2 * 3.14159265 * t / 24) * (1 + 0.5 * sin(2 * 3.14159265 * t / 168)));
    return y;
}

/* The mean error of forecasts for the hours behind those that were trained: each from the true hours before it, or from the
 * forecasts themselves, which a day begins. */
static double error(samba_context *context, samba_session *session, const float *y, bool alone, samba_tensor *const *inputs)
{
    samba_tensor *guess = named(context, "guess", SAMBA_FLOAT32, SHAPE(BATCH, 1));
    float *past = samba_tensor_data(inputs[0]), *said = samba_tensor_data(guess);
    double sum = 0;
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 2;
    run.outputs = &guess, run.output_count = 1;
    run.section_types = (const char *const[]){"FWD"}, run.section_type_count = 1;
    run.train = false;
    for (int row = 0; row < BATCH; row++)
        for (int t = 0; t < SEEN; t++)
            past[row * SEEN + t] = y[TRAINED + 4 * row + t]; /* row r begins 4 r hours behind the first */
    for (int hour = 0; hour < 24; hour++) {
        must(context, samba_run(session, &run));
        for (int row = 0; row < BATCH; row++) {
            const float truth = y[TRAINED + 4 * row + SEEN + hour];
            sum += fabs((double)(said[row] - truth));
            for (int t = 0; t < SEEN - 1; t++)
                past[row * SEEN + t] = past[row * SEEN + t + 1];
            past[row * SEEN + SEEN - 1] = alone ? said[row] : truth;
        }
    }
    samba_tensor_free(guess);
    return sum / (24 * BATCH);
}

int main(void)
{
    samba_context *context;
    samba_session *session;
    samba_tensor *noise;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    const float *y = series(context, &noise);
    samba_tensor *inputs[] = {named(context, "past", SAMBA_FLOAT32, SHAPE(BATCH, SEEN, 1)),
                              named(context, "next", SAMBA_FLOAT32, SHAPE(BATCH, 1))};
    samba_tensor *begins = named(context, "begins", SAMBA_INT64, SHAPE(BATCH));
    samba_optimizer adamw = samba_adamw(0.01);
    samba_compile_options compile = samba_compile_defaults();
    adamw.max_grad_norm = 1;
    compile.name = "forecast", compile.model = lstm;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    must(context, samba_session_new(context, pef, NULL, &session));

    float *past = samba_tensor_data(inputs[0]), *next = samba_tensor_data(inputs[1]);
    const int64_t *begin = samba_tensor_data(begins);
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 2;
    for (int step = 0; step < STEPS; step++) {
        must(context, samba_fill_integers(begins, (uint64_t)step, 0, TRAINED - SEEN));
        for (int row = 0; row < BATCH; row++) {
            for (int t = 0; t < SEEN; t++)
                past[row * SEEN + t] = y[begin[row] + t];
            next[row] = y[begin[row] + SEEN];
        }
        const samba_hyperparameter lr = {"lr", samba_cosine_annealing_lr(0.01, step, STEPS, 0)};
        run.hyperparameters = &lr, run.hyperparameter_count = 1;
        must(context, samba_run(session, &run));
    }
    const double near = error(context, session, y, false, inputs), far = error(context, session, y, true, inputs);
    printf("mean error %.3f of the next hour, %.3f of a whole day\n", near, far);
    expect(near < 0.08 && far < 0.25, "errors below 0.08 and 0.25");

    samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]), samba_tensor_free(begins), samba_tensor_free(noise);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
