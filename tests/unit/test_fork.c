/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes made by fork. The thread that forks takes OpenMP's record of its team along and none of the threads: what waits for
 * them waits for ever. Children of parents with a team do here all that wants one, and give the bits that the parent gives; a
 * child that takes too long is ended by its alarm, and its status tells. */
#include "../seed.h"
#include "training.h"
#include <pthread.h>
#include <sys/wait.h>

enum { ROWS = 64, IN = 96, HIDDEN = 512, STEPS = 3, SECONDS = 60, FILLED = 200000 };
static char pef[512];
static samba_tensor *x, *label, *loss;
static samba_session *parent;
static float expected[STEPS]; /* losses of a new session's first steps */
static samba_function *doubled;

MODEL(model)
{
    samba_value logits = samba_linear(samba_tanh(samba_linear(samba_input(g, "x"), "first", HIDDEN)), "last", 10);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

static pid_t mother; /* the process that runs the tests */
static void only_in_the_mother(void)
{
    if (getpid() != mother)
        _exit(1);
}

static float step(samba_session *session, int number)
{
    samba_run_options run = giving(2, (samba_tensor *[]){x, label});
    run.outputs = &loss, run.output_count = 1;
    need(samba_fill_normal(x, (uint64_t)number, 0, 1));
    need(samba_fill_integers(label, (uint64_t)number, 0, 10));
    need(samba_run(session, &run));
    return *(const float *)samba_tensor_data(loss);
}

static void train_anew(int threads, int steps)
{
    OWN_SESSION *session = open_session(pef, threads, 7);
    for (int i = 0; i < steps; i++)
        assert_float_equal(step(session, i), expected[i], threads == 2 ? 0 : 1e-5);
}

/* ---- what children do ---- */
static void new_sessions(void)
{
    train_anew(2, STEPS);
    train_anew(1, STEPS);
    train_anew(0, STEPS);
}

static void the_parents_session(void)
{
    for (int i = 1; i < STEPS; i++)
        assert_float_equal(step(parent, i), expected[i], 0);
}

static void a_function(void)
{
    OWN_TENSOR *y = tensor("y", SAMBA_FLOAT32, 2, SHAPE(ROWS, ROWS));
    need(samba_fill_normal(x, 1, 0, 1));
    need(samba_function_run(doubled, &x, &y));
    const float *from = samba_tensor_data(x), *to = samba_tensor_data(y);
    double sum = 0;
    for (int i = 0; i < IN; i++)
        sum += (double)from[i] * from[i];
    assert_float_equal(to[0], sum, 1e-3);
}

static void checkpoints(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/checkpoints-%d", folder, (int)getpid());
    samba_checkpoint_options saved = samba_checkpoint_defaults();
    saved.folder = path, saved.keep = 1;
    samba_checkpoint *checkpoint;
    need(samba_checkpoint_save(parent, &saved));
    float before = step(parent, 1);
    need(samba_checkpoint_newest(context, path, &checkpoint));
    need(samba_checkpoint_load(parent, checkpoint));
    assert_float_equal(step(parent, 1), before, 0);
    samba_checkpoint_free(checkpoint);
}

static void fills_and_measures(void)
{
    OWN_TENSOR *one = tensor("one", SAMBA_FLOAT32, 1, SHAPE(FILLED)), *many = tensor("many", SAMBA_FLOAT32, 1, SHAPE(FILLED));
    samba_fill_options fill = samba_fill_defaults();
    fill.seed = 5, fill.threads = 1;
    need(samba_fill(one, &fill));
    for (int threads = 0; threads < 5; threads += 2) {
        fill.threads = threads;
        need(samba_fill(many, &fill));
        assert_memory_equal(samba_tensor_data(one), samba_tensor_data(many), FILLED * sizeof(float));
    }
    double rate;
    need(samba_measure_bandwidth(context, 2, &rate));
    assert_true(samba_measure_fma_peak(2) > 0);
}

static void train_once(void) { train_anew(2, 1); }

static void *train_here(void *unused)
{
    train_once();
    return unused;
}

static void in_a_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
    pthread_join(thread, NULL);
}

static void a_new_thread(void) { in_a_thread(train_here, NULL); }

/* The child's status; that of a signal is negative.
 * A failed check there goes on with the runner's next test, which ends the child. */
typedef void work(void);
static int ended(work *child)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(seconds_allowed(SECONDS));
        child();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void grandchildren(void)
{
    the_parents_session(); /* this process has a team of its own now */
    assert_int_equal(ended(new_sessions), 0);
    train_anew(2, 1);
    assert_int_equal(ended(a_function), 0);
}

TEST(children)
{
    only_in_the_mother();
    static const struct {
        const char *name;
        work *work;
    } cases[] = {{"new sessions", new_sessions},  {"the parent's session", the_parents_session}, {"a function", a_function},
                 {"checkpoints", checkpoints},    {"fills and measures", fills_and_measures},    {"a new thread", a_new_thread},
                 {"grandchildren", grandchildren}};
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        int status = ended(cases[i].work);
        if (status != 0)
            fail_msg("%s: the child ended with %d", cases[i].name, status);
    }
    for (int i = 1; i < STEPS; i++) /* and the parent goes on */
        assert_float_equal(step(parent, i), expected[i], 0);
}

/* A team that the program made for itself is in the way as well. */
static void *fork_with_a_team(void *status)
{
    int together = 0;
#pragma omp parallel num_threads(2) reduction(+ : together)
    together += 1;
    *(int *)status = together > 0 ? ended(train_once) : 0;
    return NULL;
}

TEST(the_programs_own_team)
{
    only_in_the_mother();
    int status = 1;
    in_a_thread(fork_with_a_team, &status); /* the library has had no team in it */
    assert_int_equal(status, 0);
}

static int setup(void **state)
{
    if (getenv("SAMBAFLOW_EMULATED")) {
        print_message("left out: qemu-user 7.2 ends a forked process that makes a thread\n");
        exit(77); /* for Meson: skipped */
    }
    mother = getpid();
    x = kept(tensor("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN)));
    label = kept(tensor("label", SAMBA_INT64, 1, SHAPE(ROWS)));
    loss = kept(tensor("loss", SAMBA_FLOAT32, 0, NULL));
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options o = training_of("fork", model, NULL, 2, (samba_tensor *[]){x, label}, &sgd);
    need(samba_compile(context, &o, pef, sizeof pef));
    OWN_SESSION *first = open_session(pef, 2, 7);
    for (int i = 0; i < STEPS; i++)
        expected[i] = step(first, i);
    parent = kept_session(open_session(pef, 2, 7));
    assert_float_equal(step(parent, 0), expected[0], 0);

    OWN_GRAPH *g;
    need(samba_graph_new(context, "square", &g));
    need(samba_graph_add_input(g, x));
    samba_value v = samba_input(g, "x");
    samba_output(g, "y", samba_matmul(v, samba_transpose(v, 0, 1)));
    need(samba_function_new(context, g, FUNCTION(.threads = 2), &doubled));
    return 0;
}

static int teardown(void **state)
{
    only_in_the_mother();
    samba_function_free(doubled);
    return drop_kept(state);
}

TEST_MAIN_WITH(setup, teardown, children, the_programs_own_team)
