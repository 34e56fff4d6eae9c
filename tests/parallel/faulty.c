/* SPDX-License-Identifier: Apache-2.0
 *
 * A training by replicas in which one does not do its part. faults.sh starts it and looks how it ends, and that it goes on from
 * the checkpoints that replica 0 has saved.
 *
 *   mpirun -n 2 faulty FOLDER none|HOW [RANK AT [SECONDS]]
 *   faulty FOLDER check          the newest checkpoint is whole, and no other is damaged
 *
 * kill, term, stop: a signal AT ms after the replicas have met, whatever the replica does then; `stop` goes on after SECONDS.
 * exit, leave (exit with 0), error (the library's), disk (FOLDER/checkpoints is full), limit (no file may grow): before step AT.
 */
#include <sambaflow/sambaflow.h>

#include "../seed.h"
#include "one_input.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 400, BATCH = 4, FEATURES = 30, SAVE_EVERY = 20 };

static samba_context *context;
static samba_replicas self;
static const char *folder;

static void need(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "faulty: %s\n", samba_error_message(context));
    exit(4);
}

static void say_end(void) { printf("handler of %d\n", self.rank); }
static void say_early_end(void) { printf("early handler of %d\n", self.rank); }

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value x = samba_input(g, "x");
    samba_loss(g, "loss", samba_mean(samba_square(samba_linear(samba_tanh(samba_linear(x, "a", 40)), "b", 3)), 0, NULL, false));
}

static void fill_disk(void)
{
    static char zeros[4096];
    char path[4096];
    snprintf(path, sizeof path, "%s/checkpoints/filler", folder);
    const int file = open(path, O_CREAT | O_WRONLY, 0600);
    while (write(file, zeros, sizeof zeros) > 0)
        ;
    close(file);
}

/* What happens before a step. */
static void fail(const char *how, samba_session *session)
{
    if (strcmp(how, "exit") == 0)
        exit(3);
    if (strcmp(how, "leave") == 0)
        exit(0);
    if (strcmp(how, "error") == 0)
        need(samba_session_load(session, "/nowhere/weights.safetensors"));
    if (strcmp(how, "disk") == 0)
        fill_disk();
    if (strcmp(how, "limit") == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, RLIM_INFINITY});
    }
}

/* What happens at a moment: a child sends the signal. */
static void plan_signal(const char *how, int after, unsigned pause)
{
    const int number = strcmp(how, "kill") == 0 ? SIGKILL : strcmp(how, "term") == 0 ? SIGTERM : SIGSTOP;
    const pid_t parent = getpid();
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 3; i++) /* a launch waits for all that write to its terminal */
        close(i);
    usleep((useconds_t)after * 1000);
    kill(parent, number);
    if (number == SIGSTOP) {
        sleep(pause);
        kill(parent, SIGCONT);
    }
    _exit(0);
}

static samba_session *open_session(const char *path, samba_tensor *x)
{
    samba_session *session;
    if (self.rank == 0 && access(path, R_OK) != 0)
        need(compile_one_input(context, folder, "faulty", model, x, samba_adam(1e-4)));
    need(samba_replicas_wait(context));
    samba_session_options how = samba_session_defaults();
    how.data_parallel = true;
    how.threads = 1;
    need(samba_session_new(context, path, &how, &session));
    return session;
}

/* The step that the newest checkpoint goes on with. */
static int resume(samba_session *session, const char *checkpoints)
{
    samba_checkpoint *newest;
    int64_t step = 0;
    if (self.rank == 0) {
        need(samba_checkpoint_prepare(context, checkpoints));
        need(samba_checkpoint_newest(context, checkpoints, &newest));
        if (newest) {
            need(samba_checkpoint_load(session, newest));
            step = samba_checkpoint_step(newest);
        }
        samba_checkpoint_free(newest);
    }
    need(samba_replicas_broadcast(context, &step, sizeof step, 0));
    if (self.rank > 0 && step > 0) {
        need(samba_checkpoint_newest(context, checkpoints, &newest));
        need(samba_checkpoint_load(session, newest));
        samba_checkpoint_free(newest);
    }
    need(samba_replicas_wait(context));
    return (int)step;
}

static int check(void)
{
    char path[4096];
    samba_checkpoint *newest;
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    need(samba_checkpoint_newest(context, path, &newest));
    if (newest && samba_checkpoint_skipped(newest)[0]) {
        fprintf(stderr, "faulty: %s\n", samba_checkpoint_skipped(newest));
        return 4;
    }
    printf("whole: step %lld\n", newest ? (long long)samba_checkpoint_step(newest) : 0);
    samba_checkpoint_free(newest);
    return 0;
}

int main(int argc, char **argv)
{
    char path[4096], checkpoints[4096];
    samba_tensor *x;
    const int64_t shape[] = {BATCH, FEATURES};
    if (argc < 3 || samba_context_new(NULL, &context) != SAMBA_OK)
        return 2;
    folder = argv[1];
    if (strcmp(argv[2], "check") == 0)
        return check();
    const char *how = argv[2];
    const int rank = argc > 3 ? atoi(argv[3]) : -1, at = argc > 4 ? atoi(argv[4]) : 0, pause = argc > 5 ? atoi(argv[5]) : 0;
    const bool is_signal = strcmp(how, "kill") == 0 || strcmp(how, "term") == 0 || strcmp(how, "stop") == 0;
    atexit(say_early_end);
    need(samba_replicas_find(context, &self));
    atexit(say_end);
    const double begin = milliseconds();
    if (self.rank == rank && is_signal)
        plan_signal(how, at, (unsigned)pause);
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 2, shape, &x));
    snprintf(path, sizeof path, "%s/faulty/faulty.pef", folder);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    samba_session *session = open_session(path, x);
    samba_run_options run = samba_run_defaults();
    run.input_count = 1;
    run.inputs = &x;
    run.data_parallel = true;
    for (int i = resume(session, checkpoints); i < STEPS; i++) {
        uint64_t state = (uint64_t)(i * 100 + self.rank);
        for (int k = 0; k < BATCH * FEATURES; k++)
            ((float *)samba_tensor_data(x))[k] = (float)(next_seed(&state) >> 40) / (1 << 24) - 0.5f;
        if (self.rank == rank && i == at && !is_signal)
            fail(how, session);
        run.data_parallel_mode = i % 3 == 0 ? "normal" : i % 3 == 1 ? "inorder" : "optimal";
        need(samba_run(session, &run));
        samba_checkpoint_options options = samba_checkpoint_defaults();
        options.folder = checkpoints;
        options.step = i + 1;
        if (self.rank == 0 && (i + 1) % SAVE_EVERY == 0)
            need(samba_checkpoint_save(session, &options));
    }
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    if (self.rank == 0)
        need(samba_session_save(session, path, true));
    samba_session_free(session);
    samba_tensor_free(x);
    samba_context_free(context);
    if (self.rank == 0)
        printf("all steps in %.0f ms\n", milliseconds() - begin);
    return 0;
}
