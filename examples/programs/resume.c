/* SPDX-License-Identifier: Apache-2.0
 *
 * A training that is killed and goes on: a child process trains and is ended by SIGKILL in the middle of an epoch; a second one
 * goes on from the last checkpoint. Its weights are, bit by bit, those of a training that nobody stopped, dropout, shuffled
 * samples and schedule among them. */
#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES = 600, BATCH = 20, WIDTH = 8, EPOCHS = 10, KILLED_AT = 100, EVERY = 25 };

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value x = samba_input(g, "x"), y = samba_input(g, "y");
    samba_value hidden = samba_dropout(samba_tanh(samba_linear(x, "fc1", 32)), "dropout", 0.1);
    samba_value guess = samba_linear(hidden, "fc2", 1);
    samba_loss(g, "loss", samba_mse_loss(guess, y, (samba_value){0}, SAMBA_MEAN));
    samba_output(g, "guess", guess);
}

/* The product of two numbers, of eight that are given. */
static samba_source *samples(samba_context *context)
{
    samba_source *source;
    samba_tensor *tensors[] = {named(context, "x", SAMBA_FLOAT32, SHAPE(SAMPLES, WIDTH)),
                               named(context, "y", SAMBA_FLOAT32, SHAPE(SAMPLES, 1))};
    must(context, samba_fill_uniform(tensors[0], 1, -1, 1));
    const float *x = samba_tensor_data(tensors[0]);
    float *y = samba_tensor_data(tensors[1]);
    for (int i = 0; i < SAMPLES; i++)
        y[i] = x[WIDTH * i] * x[WIDTH * i + 1] + x[WIDTH * i + 2];
    must(context, samba_source_tensors(context, 2, tensors, &source));
    samba_tensor_free(tensors[0]); /* the source holds them */
    samba_tensor_free(tensors[1]);
    return source;
}

static samba_status kill_at(samba_context *context, void *user, samba_train_event *event)
{
    (void)context, (void)user;
    if (event->kind == SAMBA_TRAIN_STEP && event->step == KILLED_AT)
        kill(getpid(), SIGKILL);
    return SAMBA_OK;
}

/* Trains, from the newest checkpoint of the folder where there is one, and saves the weights. */
static void train(const char *folder, const char *weights, bool killed)
{
    samba_context *context;
    samba_session *session;
    must(NULL, samba_context_new(NULL, &context));
    samba_source *source = samples(context);
    must(context, samba_session_new(context, "out/resume/resume.pef", NULL, &session));
    samba_train_options options = samba_train_defaults();
    samba_train_result result;
    options.train = source;
    options.epochs = EPOCHS;
    options.schedule = (samba_schedule){.kind = SAMBA_SCHEDULE_COSINE, .warmup_steps = 10};
    options.folder = folder, options.resume = true, options.checkpoint_every = EVERY;
    options.on_event = killed ? kill_at : NULL;
    must(context, samba_train(session, &options, &result));
    printf("%s: step %lld, of these made now %lld, loss %.4f\n", folder, (long long)result.steps,
           (long long)(result.samples / BATCH), result.loss);
    must(context, samba_session_save(session, weights, true));
    expect(result.loss < 0.1, "a loss below 0.1");
    samba_source_free(source);
    samba_session_free(session);
    samba_context_free(context);
}

static bool equal_files(const char *one, const char *other)
{
    FILE *a = fopen(one, "rb"), *b = fopen(other, "rb");
    expect(a && b, "both files are there");
    int x, y;
    do {
        x = getc(a);
        y = getc(b);
    } while (x == y && x != EOF);
    fclose(a);
    fclose(b);
    return x == y;
}

int main(void)
{
    samba_context *context;
    expect(system("rm -rf out/resume") == 0, "an earlier call's checkpoints are removed");
    must(NULL, samba_context_new(NULL, &context));
    samba_tensor *inputs[] = {named(context, "x", SAMBA_FLOAT32, SHAPE(BATCH, WIDTH)),
                              named(context, "y", SAMBA_FLOAT32, SHAPE(BATCH, 1))};
    samba_optimizer adamw = samba_adamw(0.02);
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "resume", compile.model = model;
    compile.inputs = inputs, compile.input_count = 2;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_compile(context, &compile, NULL, 0));
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
    samba_context_free(context);

    const pid_t child = fork();
    expect(child >= 0, "a process can be made");
    if (child == 0) {
        train("out/resume/killed", "out/resume/never.safetensors", true);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the first training was killed");
    train("out/resume/killed", "out/resume/killed.safetensors", false);
    train("out/resume/whole", "out/resume/whole.safetensors", false);
    expect(equal_files("out/resume/killed.safetensors", "out/resume/whole.safetensors"), "the same bits");
    printf("the same bits\n");
    return 0;
}
