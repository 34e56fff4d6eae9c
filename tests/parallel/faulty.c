/* SPDX-License-Identifier: Apache-2.0
 *
 * A training by replicas in which one does not do its part. faults.sh starts it and looks how it ends.
 *
 *   mpirun -n 2 faulty FOLDER RANK STEP kill|term|exit|leave|error|none */
#include <sambaflow/sambaflow.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 400, BATCH = 4, FEATURES = 30 };

static samba_context *context;

static void need(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "faulty: %s\n", samba_error_message(context));
    exit(4);
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value x = samba_input(g, "x");
    samba_loss(g, "loss", samba_mean(samba_square(samba_linear(samba_tanh(samba_linear(x, "a", 40)), "b", 3)), 0, NULL, false));
}

static void fail(const char *how, samba_session *session)
{
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "term") == 0)
        raise(SIGTERM);
    if (strcmp(how, "exit") == 0)
        exit(3);
    if (strcmp(how, "leave") == 0)
        exit(0);
    if (strcmp(how, "error") == 0)
        need(samba_session_load(session, "/nowhere/weights.safetensors"));
}

int main(int argc, char **argv)
{
    char path[4096];
    samba_replicas self;
    samba_tensor *x;
    samba_session *session;
    const int64_t shape[] = {BATCH, FEATURES};
    if (argc != 5 || samba_context_new(NULL, &context) != SAMBA_OK)
        return 2;
    const int rank = atoi(argv[2]), step = atoi(argv[3]);
    need(samba_replicas_find(context, &self));
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 2, shape, &x));
    samba_optimizer optimizer = samba_sgd(1e-6);
    samba_compile_options options = samba_compile_defaults();
    options.name = "faulty";
    options.model = model;
    options.input_count = 1;
    options.inputs = &x;
    options.optimizer_count = 1;
    options.optimizers = &optimizer;
    options.output_folder = argv[1];
    options.data_parallel = true;
    if (self.rank == 0)
        need(samba_compile(context, &options, NULL, 0));
    need(samba_replicas_wait(context));
    snprintf(path, sizeof path, "%s/faulty/faulty.pef", argv[1]);
    samba_session_options how = samba_session_defaults();
    how.data_parallel = true;
    how.threads = 1;
    need(samba_session_new(context, path, &how, &session));
    samba_run_options run = samba_run_defaults();
    run.input_count = 1;
    run.inputs = &x;
    run.data_parallel = true;
    run.data_parallel_mode = step % 2 ? "inorder" : "normal";
    for (int i = 0; i < STEPS; i++) {
        if (self.rank == rank && i == step)
            fail(argv[4], session);
        need(samba_run(session, &run));
    }
    samba_session_free(session);
    samba_tensor_free(x);
    samba_context_free(context);
    if (self.rank == 0)
        puts("all steps");
    return 0;
}
