/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas that round in different ways: with another instruction set, or, where gradients are clipped, with another number of
 * threads. The first warns, once; where nothing can drift apart it does not.
 *
 *   launch.sh sockets 2 BUILD uneven */
#include <sambaflow/sambaflow.h>

#include "one_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 4, FEATURES = 300, STEPS = 3 };
#define TAIL ": they round in different ways, and their weights drift apart; give all replicas the same isa, threads and tune"

static samba_context *context;
static samba_replicas self;
static samba_tensor *x;
static char folder[64] = "/tmp/sambaflow-uneven-XXXXXX";

static void stop(const char *what, const char *text)
{
    fprintf(stderr, "uneven: replica %d: %s: %s\n", self.rank, what, text);
    exit(1);
}

static void need(samba_status status)
{
    if (status != SAMBA_OK)
        stop(samba_status_name(status), samba_error_message(context));
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value in = samba_input(g, "x");
    samba_loss(g, "loss", samba_mean(samba_square(samba_linear(samba_tanh(samba_linear(in, "a", 400)), "b", 3)), 0, NULL, false));
}

static void compile(const char *name, double max_grad_norm)
{
    samba_optimizer optimizer = samba_adamw(0.01);
    optimizer.max_grad_norm = max_grad_norm;
    need(compile_one_input(context, folder, name, model, x, optimizer));
}

/* Trains with options that this replica has; the warning begins with these words, "" for none, and comes once. */
static void train(const char *name, const samba_session_options *options, const char *words)
{
    char path[256];
    samba_session *session;
    samba_run_options run = samba_run_defaults();
    run.input_count = 1;
    run.inputs = &x;
    run.data_parallel = true;
    snprintf(path, sizeof path, "%s/%s/%s.pef", folder, name, name);
    need(samba_session_new(context, path, options, &session));
    for (int step = 0; step < STEPS; step++) {
        need(samba_run(session, &run));
        const char *warning = samba_session_warning(session), *expected = self.rank == 0 && step == 0 ? words : "";
        if (strncmp(warning, expected, strlen(expected)) != 0 || (warning[0] && !expected[0]))
            stop(expected[0] ? expected : "no warning is expected", warning);
    }
    samba_session_free(session);
    need(samba_replicas_wait(context));
}

static void remove_pef(const char *name)
{
    static const char *const patterns[] = {"%s/%s/%s.pef", "%s/%s/%s.pef.log", "%s/%s"};
    char path[256];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, patterns[i], folder, name, name);
        remove(path);
    }
}

int main(void)
{
    char expected[512];
    const int64_t shape[] = {BATCH, FEATURES};
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    need(samba_replicas_find(context, &self));
    if (self.size != 2 || (self.rank == 0 && !mkdtemp(folder)))
        stop("there are not two replicas, or no folder for them", folder);
    need(samba_replicas_broadcast(context, folder, sizeof folder, 0));
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 2, shape, &x));
    need(samba_fill_normal(x, (uint64_t)self.rank, 0, 1));
    if (self.rank == 0) {
        compile("plain", 0);
        compile("clipped", 1);
    }
    need(samba_replicas_wait(context));

    samba_session_options alike = samba_session_defaults();
    alike.data_parallel = true;
    alike.threads = 1;
    train("plain", &alike, "");
    train("clipped", &alike, "");

    /* Element by element an update is the same by one thread and by two; a norm is not. */
    samba_session_options other = alike;
    other.threads = 1 + self.rank;
    train("plain", &other, "");
    train("clipped", &other, "replica 1 has 2 threads and replica 0 1" TAIL);

    /* Every processor has "generic"; what it has beside is the best, which a session takes. */
    other = alike;
    samba_session *session;
    char path[256], isa[32];
    snprintf(path, sizeof path, "%s/plain/plain.pef", folder);
    need(samba_session_new(context, path, &alike, &session));
    snprintf(isa, sizeof isa, "%s", samba_session_isa(session));
    samba_session_free(session);
    need(samba_replicas_wait(context));
    other.isa = self.rank == 1 ? "generic" : NULL;
    const bool differs = strcmp(isa, "generic") != 0;
    snprintf(expected, sizeof expected, "replica 1 has instruction set generic and replica 0 %s" TAIL, isa);
    train("plain", &other, differs ? expected : "");
    train("clipped", &other, differs ? expected : "");

    /* Each parameter is updated by one replica, and comes to the others as it is. */
    other.shard_optimizer = true;
    train("plain", &other, "");
    train("clipped", &other, "");

    if (self.rank == 0) {
        remove_pef("plain");
        remove_pef("clipped");
        rmdir(folder);
    }
    samba_tensor_free(x);
    samba_context_free(context);
    return 0;
}
