/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads. Sessions, compilers and functions that each have a context of their own run beside each other and give the bits that
 * they give alone. Of two threads in one session one is told so and nothing else happens; threads that take turns are as one.
 * The thread sanitizer watches it with one thread a session, since it does not know OpenMP's barriers. */
#include "training.h"
#include "failing_allocator.h"
#include <pthread.h>
#include <semaphore.h>

#if defined(__SANITIZE_THREAD__)
enum { MOST_THREADS = 1 };
#else
enum { MOST_THREADS = 2 };
#endif
enum { ROWS = 16, IN = 24, CLASSES = 10, STEPS = 12, WORKERS = 4 };

static char pef[512];

MODEL(model)
{
    samba_value h = samba_tanh(samba_layer_norm(samba_linear(samba_input(g, "x"), "first", 32), "norm"));
    samba_value logits = samba_linear(samba_dropout(h, "drop", 0.2), "last", CLASSES);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

/* What a thread has: nothing of it is another's. */
typedef struct worker {
    samba_context *context;
    samba_session *session;
    samba_tensor *x, *label, *loss;
    char folder[160];
    int threads;
    bool profiled;
    samba_status status;
    float losses[STEPS], weights[32 * IN];
    char message[256];
} worker;

static samba_status open_worker(worker *w)
{
    SAMBA_TRY(samba_context_new(NULL, &w->context));
    SAMBA_TRY(samba_session_new(w->context, pef, SESSION(.threads = w->threads, .seed = 7), &w->session));
    SAMBA_TRY(give_zeros(w->context, w->session));
    SAMBA_TRY(samba_tensor_new(w->context, "x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN), &w->x));
    SAMBA_TRY(samba_tensor_new(w->context, "label", SAMBA_INT64, 1, SHAPE(ROWS), &w->label));
    return samba_tensor_new(w->context, "loss", SAMBA_FLOAT32, 0, NULL, &w->loss);
}

static void close_worker(worker *w)
{
    free_tensors(w->x, w->label, w->loss);
    samba_session_free(w->session);
    samba_context_free(w->context);
}

static samba_status step(worker *w, int number)
{
    samba_run_options run = giving(2, (samba_tensor *[]){w->x, w->label});
    run.outputs = &w->loss, run.output_count = 1;
    SAMBA_TRY(samba_fill_normal(w->x, (uint64_t)number, 0, 1));
    SAMBA_TRY(samba_fill_integers(w->label, (uint64_t)number, 0, CLASSES));
    return samba_run(w->session, &run);
}

/* With a checkpoint saved and loaded on the way, and profiles if it has them. */
static samba_status train_steps(worker *w)
{
    samba_checkpoint_options saved = samba_checkpoint_defaults();
    saved.folder = w->folder, saved.keep = 1;
    SAMBA_TRY(open_worker(w));
    for (int i = 0; i < STEPS; i++) {
        if (w->profiled)
            SAMBA_TRY(samba_session_profile(w->session, i % 2 ? SAMBA_PROFILE_STAGES : SAMBA_PROFILE_SECTIONS, 64));
        SAMBA_TRY(step(w, i));
        w->losses[i] = *(const float *)samba_tensor_data(w->loss);
        if (i == STEPS / 2) {
            samba_checkpoint *checkpoint;
            saved.step = i;
            SAMBA_TRY(samba_checkpoint_save(w->session, &saved));
            SAMBA_TRY(samba_checkpoint_newest(w->context, w->folder, &checkpoint));
            samba_status status = samba_checkpoint_load(w->session, checkpoint);
            samba_checkpoint_free(checkpoint);
            SAMBA_TRY(status);
        }
    }
    OWN_TENSOR *weights;
    SAMBA_TRY(samba_session_get_by_name(w->session, "first.weight", &weights));
    memcpy(w->weights, samba_tensor_data(weights), sizeof w->weights);
    return SAMBA_OK;
}

static void *train(void *argument)
{
    worker *w = argument;
    w->status = train_steps(w);
    snprintf(w->message, sizeof w->message, "%s", w->context ? samba_error_message(w->context) : "no context");
    close_worker(w);
    return NULL;
}

static int setup(void **state)
{
    OWN_TENSOR *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN)), *label = tensor("label", SAMBA_INT64, 1, SHAPE(ROWS));
    samba_optimizer adamw = samba_adamw(0.01);
    samba_compile_options o = training_of("threads", model, NULL, 2, (samba_tensor *[]){x, label}, &adamw);
    need(samba_compile(context, &o, pef, sizeof pef));
    return 0;
}

static worker worker_of(int number, int threads)
{
    worker w = {.threads = threads, .profiled = number % 2};
    snprintf(w.folder, sizeof w.folder, "%s/checkpoints-%d-%d", folder, number, threads);
    return w;
}

/* A thread for each of `count` arguments of `size` bytes, up to their ends. */
static void run_beside(int count, void *(*body)(void *), void *arguments, size_t size)
{
    pthread_t started[WORKERS];
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&started[i], NULL, body, (char *)arguments + (size_t)i * size), 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_join(started[i], NULL), 0);
}

/* ---- each with a session of its own ---- */
TEST(sessions_beside_each_other)
{
    static worker alone, all[WORKERS];
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        alone = worker_of(WORKERS, threads);
        train(&alone);
        assert_int_equal(alone.status, SAMBA_OK);
        assert_true(alone.losses[STEPS - 1] < 100 && alone.losses[0] != alone.losses[1]);
        for (int i = 0; i < WORKERS; i++)
            all[i] = worker_of(i, threads);
        run_beside(WORKERS, train, all, sizeof *all);
        for (int i = 0; i < WORKERS; i++) {
            if (all[i].status != SAMBA_OK)
                fail_msg("thread %d: %s", i, all[i].message);
            assert_memory_equal(all[i].losses, alone.losses, sizeof alone.losses);
            assert_memory_equal(all[i].weights, alone.weights, sizeof alone.weights);
        }
    }
}

/* ---- compilers and functions ---- */
typedef struct maker {
    char path[512];
    samba_status status;
    int number;
    float sum;
} maker;

static samba_status make_all(samba_context *own, maker *m)
{
    OWN_TENSOR *x = NULL, *label = NULL, *a = NULL, *b = NULL;
    OWN_GRAPH *graph = NULL;
    samba_function *function;
    char name[32];
    samba_optimizer adamw = samba_adamw(0.01);
    SAMBA_TRY(samba_tensor_empty(own, "x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN), &x));
    SAMBA_TRY(samba_tensor_empty(own, "label", SAMBA_INT64, 1, SHAPE(ROWS), &label));
    samba_compile_options o = training_of("threads", model, NULL, 2, (samba_tensor *[]){x, label}, &adamw);
    snprintf(name, sizeof name, "made-%d", m->number);
    o.pef_name = name;
    SAMBA_TRY(samba_compile(own, &o, m->path, sizeof m->path));
    SAMBA_TRY(samba_tensor_new(own, "a", SAMBA_FLOAT32, 1, SHAPE(1000), &a));
    SAMBA_TRY(samba_tensor_new(own, "b", SAMBA_FLOAT32, 0, NULL, &b));
    SAMBA_TRY(samba_graph_new(own, "sum", &graph));
    SAMBA_TRY(samba_graph_add_input(graph, a));
    samba_output(graph, "b", samba_sum(samba_exp(samba_input(graph, "a")), 0, NULL, false));
    samba_status status = samba_function_new(own, graph, NULL, &function);
    for (int i = 0; i < 50 && status == SAMBA_OK; i++)
        status = samba_function_run(function, &a, &b);
    samba_function_free(function);
    m->sum = *(const float *)samba_tensor_data(b);
    return status;
}

static void *make(void *argument)
{
    maker *m = argument;
    samba_context *own = NULL;
    m->status = samba_context_new(NULL, &own);
    m->status = own ? make_all(own, m) : m->status;
    samba_context_free(own);
    return NULL;
}

TEST(compilers_and_functions)
{
    maker all[WORKERS] = {{.number = 0}};
    for (int i = 0; i < WORKERS; i++)
        all[i].number = i;
    run_beside(WORKERS, make, all, sizeof *all);
    for (int i = 0; i < WORKERS; i++) {
        char command[4096];
        assert_int_equal(all[i].status, SAMBA_OK);
        assert_true(all[i].sum == 1000);
        snprintf(command, sizeof command, "cmp -s %s %s", pef, all[i].path);
        assert_int_equal(system(command), 0); /* the bytes that one thread made alone */
    }
}

/* ---- two in one session: the first is held inside a call by its allocator ---- */
typedef struct gate {
    failing_allocator memory;
    sem_t inside, go_on;
    bool closed;
} gate;

static void *allocate_behind_a_gate(void *user, void *block, size_t old_size, size_t new_size)
{
    gate *g = user;
    if (g->closed && new_size > 0) {
        g->closed = false;
        sem_post(&g->inside);
        sem_wait(&g->go_on);
    }
    return failing_allocate(&g->memory, block, old_size, new_size);
}

typedef struct holder {
    samba_session *session;
    samba_tensor *found;
    samba_status status;
} holder;

static void *hold(void *argument)
{
    holder *h = argument;
    h->status = samba_session_get_by_name(h->session, "first.weight", &h->found);
    return NULL;
}

static samba_context *of_both;
#define told(call, name)                                                                                                         \
    refuse_in(of_both, call, SAMBA_ERROR_STATE,                                                                                  \
              name ": another thread is using this session: give each thread a session of its own, made under a context of its " \
                   "own, or take turns")

TEST(the_second_is_told)
{
    gate g = {.memory = {.fail_from = -1}};
    assert_int_equal(sem_init(&g.inside, 0, 0) | sem_init(&g.go_on, 0, 0), 0);
    const samba_allocator allocator = {allocate_behind_a_gate, &g};
    samba_session *session;
    assert_int_equal(samba_context_new(&allocator, &of_both), SAMBA_OK);
    need_in(of_both, samba_session_new(of_both, pef, SESSION(.threads = 1), &session));
    assert_int_equal(samba_session_set(session, NULL), SAMBA_ERROR_ARGUMENT); /* a message that must stay for the first thread */
    samba_tensor *mine = tensor("first.weight", SAMBA_FLOAT32, 2, SHAPE(32, IN)), *made = NULL;
    const samba_hyperparameter lr = {"lr", 0.5};
    samba_checkpoint_options saved = samba_checkpoint_defaults();
    char file[160], *page;
    snprintf(file, sizeof file, "%s/never.safetensors", folder);
    saved.folder = file;
    holder first = {.session = session};
    pthread_t thread;
    g.closed = true;
    assert_int_equal(pthread_create(&thread, NULL, hold, &first), 0);
    sem_wait(&g.inside);
    told(samba_run(session, NULL), "samba_run");
    told(samba_session_set(session, mine), "samba_session_set");
    told(samba_session_get(session, mine), "samba_session_get");
    told(samba_session_get_by_name(session, "first.weight", &made), "samba_session_get_by_name");
    told(samba_session_input(session, "x", &made), "samba_session_input");
    told(samba_session_save(session, file, true), "samba_session_save");
    told(samba_session_load(session, file), "samba_session_load");
    told(samba_session_set_hyperparameters(session, 1, &lr), "samba_session_set_hyperparameters");
    told(samba_session_reset_random(session, 3), "samba_session_reset_random");
    told(samba_session_profile(session, SAMBA_PROFILE_STAGES, 10), "samba_session_profile");
    told(samba_checkpoint_save(session, &saved), "samba_checkpoint_save");
    told(samba_checkpoint_load(session, NULL), "samba_checkpoint_load");
    told(samba_session_page(session, NULL, "", &page), "samba_session_page");
    assert_null(made);
    assert_null(page);
    assert_int_equal(access(file, F_OK), -1);
    sem_post(&g.go_on);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(first.status, SAMBA_OK);
    assert_non_null(first.found);
    assert_true(samba_session_hyperparameter_count(session) > 0 && get_hyper(session, "lr") != 0.5); /* nothing of it was done */
    need_in(of_both, give_zeros(of_both, session));
    need_in(of_both, samba_run(session, NULL)); /* and now it is */
    assert_int_equal(samba_session_set(session, NULL), SAMBA_ERROR_ARGUMENT);
    /* a later failure is what is told */
    assert_string_equal(samba_error_message(of_both), "samba_session_set was given no tensor");
    free_tensors(first.found, mine);
    samba_session_free(session);
    samba_context_free(of_both);
    sem_destroy(&g.inside);
    sem_destroy(&g.go_on);
}

/* ---- two at once, as it comes; then in turns ---- */
enum { TRIES = 3000 };
typedef struct racer {
    worker *shared;
    pthread_mutex_t *turn; /* NULL: none is taken */
    int64_t fine, refused, other;
} racer;

static void *race(void *argument)
{
    racer *r = argument;
    for (int i = 0; i < TRIES; i++) {
        if (r->turn)
            pthread_mutex_lock(r->turn);
        samba_status status = samba_run(r->shared->session, NULL);
        if (r->turn)
            pthread_mutex_unlock(r->turn);
        r->fine += status == SAMBA_OK;
        r->refused += status == SAMBA_ERROR_STATE;
        r->other += status != SAMBA_OK && (status != SAMBA_ERROR_STATE ||
                                           !strstr(samba_error_message(r->shared->context), "samba_run: another thread"));
    }
    return NULL;
}

TEST(runs_at_once)
{
    for (int turns = 0; turns < 2; turns++) {
        static worker shared, alone;
        pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
        shared = worker_of(20, 1), alone = worker_of(21, 1);
        assert_int_equal(open_worker(&shared), SAMBA_OK);
        assert_int_equal(open_worker(&alone), SAMBA_OK);
        const racer one = {.shared = &shared, .turn = turns ? &turn : NULL};
        racer both[2] = {one, one};
        run_beside(2, race, both, sizeof *both);
        int64_t fine = both[0].fine + both[1].fine, refused = both[0].refused + both[1].refused;
        assert_int_equal(both[0].other + both[1].other, 0);
        assert_int_equal(fine + refused, 2 * TRIES);
        assert_true(turns ? refused == 0 : fine > 0);
        for (int64_t i = 0; i < fine; i++)
            assert_int_equal(samba_run(alone.session, NULL), SAMBA_OK);
        assert_same_bits(shared.session, alone.session, 1u << SAMBA_KIND_PARAMETER); /* each run was whole */
        close_worker(&shared);
        close_worker(&alone);
        pthread_mutex_destroy(&turn);
    }
}

TEST_MAIN_WITH(setup, NULL, sessions_beside_each_other, compilers_and_functions, the_second_is_told, runs_at_once)
