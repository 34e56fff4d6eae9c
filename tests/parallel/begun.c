/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas of a program that uses MPI itself, and of one that forks. begun.sh starts them.
 *
 *   mpirun -n 2 begun FOLDER single|funneled|serialized|multiple   MPI is begun before, and ended by the program
 *   mpirun -n 2 begun FOLDER after                                 the program uses the MPI that sambaflow has begun
 *   mpirun -n 2 begun FOLDER early                                 replica 1 ends MPI while the other trains
 *   mpirun -n 2 begun FOLDER warned                                both read the same samples, of which one becomes nan
 *   mpirun -n 2 begun FOLDER forked                                children of a replica: MPI is not theirs */
#include <sambaflow/sambaflow.h>

#include "one_input.h"

#include <mpi.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 5, BATCH = 4, FEATURES = 30, SECONDS = 20 };

static samba_context *context;
static samba_session *session;
static samba_tensor *x;
static samba_replicas self;

static void complain(const char *what)
{
    fprintf(stderr, "begun: replica %d: %s\n", self.rank, what);
    exit(4);
}

static void need(samba_status status)
{
    if (status != SAMBA_OK)
        complain(samba_error_message(context));
}

static void refuse(samba_status status, samba_status expected, const char *words)
{
    if (status != expected || !strstr(samba_error_message(context), words)) {
        fprintf(stderr, "status %d, expected %d with \"%s\"\n", status, expected, words);
        complain(status == SAMBA_OK ? "nothing is refused" : samba_error_message(context));
    }
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value in = samba_input(g, "x");
    samba_loss(g, "loss", samba_mean(samba_square(samba_linear(samba_tanh(samba_linear(in, "a", 40)), "b", 3)), 0, NULL, false));
}

static void begin(const char *folder)
{
    char path[4096];
    const int64_t shape[] = {BATCH, FEATURES};
    need(samba_replicas_find(context, &self));
    if (self.size != 2)
        complain("there are not two replicas");
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 2, shape, &x));
    need(samba_fill_normal(x, (uint64_t)self.rank, 0, 1));
    if (self.rank == 0)
        need(compile_one_input(context, folder, "begun", model, x, samba_sgd(0.1)));
    need(samba_replicas_wait(context));
    snprintf(path, sizeof path, "%s/begun/begun.pef", folder);
    samba_session_options options = samba_session_defaults();
    options.data_parallel = true;
    options.threads = 1;
    need(samba_session_new(context, path, &options, &session));
}

static samba_status step(const char *mode)
{
    samba_run_options run = samba_run_defaults();
    run.input_count = 1;
    run.inputs = &x;
    run.data_parallel = true;
    run.data_parallel_mode = mode;
    return samba_run(session, &run);
}

static void train(const char *mode)
{
    for (int i = 0; i < STEPS; i++)
        need(step(mode));
}

/* The program's own message, which needs an MPI that works. */
static void sum_ranks(void)
{
    int sum = -1;
    MPI_Allreduce(&self.rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != 1)
        complain("the sum of ranks is wrong");
}

static void expect_warning(const char *words)
{
    const char *warning = samba_session_warning(session);
    if (strncmp(warning, words, strlen(words)) != 0 || (warning[0] && !words[0]))
        complain(warning[0] ? warning : "there is no warning");
}

/* ---- MPI is the program's ---- */
static void read_weights(float weights[40 * FEATURES])
{
    samba_tensor *a;
    const int64_t shape[] = {40, FEATURES};
    need(samba_tensor_new(context, "a.weight", SAMBA_FLOAT32, 2, shape, &a));
    need(samba_session_get(session, a));
    memcpy(weights, samba_tensor_data(a), sizeof(float) * 40 * FEATURES);
    samba_tensor_free(a);
}

static void begun(const char *folder, int level)
{
    static float before[40 * FEATURES], after[40 * FEATURES];
    static const char *const overlapping[] = {"inorder", "optimal"};
    int provided = -1;
    MPI_Init_thread(NULL, NULL, level, &provided);
    begin(folder);
    sum_ranks();
    train("normal");
    read_weights(before);
    for (int i = 0; i < 2 && provided < MPI_THREAD_SERIALIZED; i++)
        refuse(step(overlapping[i]), SAMBA_ERROR_UNSUPPORTED,
               "has a thread speak with the other replicas, and this program has begun MPI for one thread");
    read_weights(after);
    if (memcmp(before, after, sizeof before) != 0)
        complain("a refused run has changed weights");
    train(provided < MPI_THREAD_SERIALIZED ? "normal" : "inorder");
    sum_ranks();
    MPI_Finalize();
    refuse(samba_replicas_wait(context), SAMBA_ERROR_NETWORK, "this process has called MPI_Finalize already");
    refuse(step("normal"), SAMBA_ERROR_NETWORK, "this process has called MPI_Finalize already");
}

static void after(const char *folder)
{
    int is_begun = 0;
    begin(folder);
    MPI_Initialized(&is_begun);
    if (!is_begun)
        complain("MPI has not begun");
    sum_ranks();
    train("optimal");
    sum_ranks();
    expect_warning("");
}

static void early(const char *folder)
{
    MPI_Init(NULL, NULL);
    begin(folder);
    train("normal");
    if (self.rank == 1)
        MPI_Finalize();
    else
        train("normal");
}

/* What all have alike the first tells; what one alone has, it tells itself. */
static void warned(const char *folder)
{
    begin(folder);
    need(samba_fill_normal(x, 1, 0, 1));
    need(step("normal"));
    expect_warning(self.rank == 0 ? "all 2 replicas begin with the same samples, so they do the same work" : "");
    if (self.rank == 1)
        *(float *)samba_tensor_data(x) = NAN;
    need(step("normal"));
    expect_warning(self.rank == 1 ? "loss 'loss' of replica 1 became nan in run 2" : "");
    need(step("normal")); /* by gradients it has become everyone's */
    expect_warning(self.rank == 0 ? "loss 'loss' of replica 0 became nan in run 3" : "");
}

/* ---- children ---- */
static void only_exit(void) {}

static void use_all(void)
{
    static const char words[] = "and MPI belongs to that one alone";
    int number = 1, all[2];
    refuse(samba_replicas_wait(context), SAMBA_ERROR_STATE, words);
    refuse(samba_replicas_find(context, &self), SAMBA_ERROR_STATE, words);
    refuse(samba_replicas_gather(context, &number, sizeof number, all), SAMBA_ERROR_STATE, words);
    refuse(samba_replicas_broadcast(context, &number, sizeof number, 0), SAMBA_ERROR_STATE, words);
    refuse(step("inorder"), SAMBA_ERROR_STATE, words);
    refuse(step("normal"), SAMBA_ERROR_STATE, words);
    samba_run_options alone = samba_run_defaults(); /* which needs nobody */
    alone.input_count = 1;
    alone.inputs = &x;
    need(samba_run(session, &alone));
    samba_session_free(session);
}

static void end_badly(void) { exit(3); }

static void as_child(void (*what)(void), int expected)
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        what();
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != expected)
        complain("a child hangs or ends in another way than it should");
}

static void forked(const char *folder)
{
    begin(folder);
    train("inorder"); /* the exchange has a thread now, which no child has */
    as_child(only_exit, 0);
    as_child(use_all, 0);
    as_child(end_badly, 3);
    train("inorder");
    need(samba_replicas_wait(context));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"single", MPI_THREAD_SINGLE},
                  {"funneled", MPI_THREAD_FUNNELED},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"multiple", MPI_THREAD_MULTIPLE}};
    if (argc != 3 || samba_context_new(NULL, &context) != SAMBA_OK)
        return 2;
    for (int i = 0; i < 4; i++)
        if (strcmp(argv[2], levels[i].name) == 0)
            begun(argv[1], levels[i].level);
    if (strcmp(argv[2], "after") == 0)
        after(argv[1]);
    if (strcmp(argv[2], "early") == 0)
        early(argv[1]);
    if (strcmp(argv[2], "warned") == 0)
        warned(argv[1]);
    if (strcmp(argv[2], "forked") == 0)
        forked(argv[1]);
    samba_session_free(session);
    samba_tensor_free(x);
    samba_context_free(context);
    puts("as it should");
    return 0;
}
