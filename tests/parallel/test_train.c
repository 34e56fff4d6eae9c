/* SPDX-License-Identifier: Apache-2.0
 *
 * samba_train by several replicas beside samba_train by one process on batches as large as theirs together: weights, losses and
 * figures are the same within rounding, and all replicas stop at one step. A training that ends early and is resumed has the bits
 * of one that was not. Every process runs this program; the first also trains alone.
 *
 *   launch.sh sockets 2 BUILD test_train */
#include <sambaflow/sambaflow.h>

#include "../seed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 4, ACCUMULATION = 2, FEATURES = 6, CLASSES = 3, MOST_SAMPLES = 512, EPOCHS = 4 };

static samba_context *context;
static samba_replicas self;
static uint64_t seed;
static bool shards; /* sessions from here on have a part of the optimizer's state each */
static char folder[64] = "/tmp/sambaflow-train-XXXXXX";

static void stop(const char *what, const char *text)
{
    fprintf(stderr, "test_train: replica %d, seed %llu: %s: %s\n", self.rank, (unsigned long long)seed, what, text);
    exit(1); /* ends the others */
}

static void need_at(samba_status status, const char *call)
{
    if (status != SAMBA_OK)
        stop(call, samba_error_message(context));
}
#define need(call) need_at((call), #call)

static void near(const char *what, double ours, double theirs, double by)
{
    char text[96];
    snprintf(text, sizeof text, "%.9g and not %.9g", ours, theirs);
    if (!(fabs(ours - theirs) <= by * (1 + fabs(theirs))))
        stop(what, text);
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value hidden = samba_tanh(samba_linear(samba_input(g, "x"), "a", 8)), logits = samba_linear(hidden, "b", CLASSES);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

/* Batches of so many rows. */
static samba_session *session_of(const char *name, int64_t rows, bool parallel)
{
    const int64_t shape[] = {rows, FEATURES};
    samba_tensor *inputs[2];
    samba_optimizer optimizer = samba_sgd(0.1);
    optimizer.momentum = 0.9;
    samba_session *session;
    char path[256];
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, 2, shape, &inputs[0]));
    need(samba_tensor_empty(context, "label", SAMBA_INT64, 1, shape, &inputs[1]));
    samba_compile_options o = samba_compile_defaults();
    o.name = name;
    o.model = model;
    o.input_count = 2;
    o.inputs = inputs;
    o.optimizer_count = 1;
    o.optimizers = &optimizer;
    o.output_folder = folder;
    o.data_parallel = parallel;
    o.grad_accumulation_steps = parallel ? ACCUMULATION : 1;
    if (self.rank == 0)
        need(samba_compile(context, &o, NULL, 0));
    if (parallel)
        need(samba_replicas_wait(context));
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
    samba_session_options by = samba_session_defaults();
    by.threads = 1;
    by.seed = seed;
    by.data_parallel = parallel;
    by.shard_optimizer = parallel && shards;
    snprintf(path, sizeof path, "%s/%s/%s.pef", folder, name, name);
    need(samba_session_new(context, path, &by, &session));
    return session;
}

/* All replicas have all samples. */
static samba_source *source_of(int64_t count, uint64_t salt)
{
    const int64_t shape[] = {count, FEATURES};
    samba_tensor *its[2];
    samba_source *source;
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 2, shape, &its[0]));
    need(samba_tensor_new(context, "label", SAMBA_INT64, 1, shape, &its[1]));
    need(samba_fill_normal(its[0], seed + salt, 0, 1));
    for (int64_t i = 0; i < count; i++) {
        const float *x = (const float *)samba_tensor_data(its[0]) + i * FEATURES;
        ((int64_t *)samba_tensor_data(its[1]))[i] = x[0] + x[1] > 0.3F ? 2 : x[2] > x[3];
    }
    need(samba_source_tensors(context, 2, its, &source));
    samba_tensor_free(its[0]);
    samba_tensor_free(its[1]);
    return source;
}

typedef struct seen { /* by the callback */
    int64_t stop_at;  /* by the last replica; 0: never */
    double losses[256], accuracy[256];
    int64_t steps, tests;
} seen;

static samba_status look(samba_context *of, void *user, samba_train_event *event)
{
    seen *s = user;
    (void)of;
    if (event->kind == SAMBA_TRAIN_STEP)
        s->losses[s->steps++] = event->loss;
    if (event->kind == SAMBA_TRAIN_VALIDATED)
        s->accuracy[s->tests++] = event->values[1].value;
    event->stop = event->stop || (event->kind == SAMBA_TRAIN_STEP && event->step == s->stop_at && self.rank == self.size - 1);
    return SAMBA_OK;
}

static samba_train_options options_of(samba_source *train, samba_source *validation, seen *s)
{
    static samba_metric_options accuracy;
    samba_train_options o = samba_train_defaults();
    accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    o.train = train;
    o.validation = validation;
    o.metrics = &accuracy;
    o.metric_count = 1;
    o.epochs = EPOCHS;
    o.seed = seed;
    o.drop_last = true;
    o.on_event = look;
    o.user = s;
    return o;
}

static const char *const parameters[] = {"a.weight", "a.bias", "b.weight", "b.bias"};

static int64_t weights_of(samba_session *session, float *all)
{
    static const int64_t shapes[][2] = {{8, FEATURES}, {8}, {CLASSES, 8}, {CLASSES}};
    int64_t count = 0;
    for (int i = 0; i < 4; i++) {
        samba_tensor *tensor;
        need(samba_tensor_new(context, parameters[i], SAMBA_FLOAT32, i % 2 ? 1 : 2, shapes[i], &tensor));
        need(samba_session_get(session, tensor));
        memcpy(all + count, samba_tensor_data(tensor), sizeof *all * (size_t)samba_tensor_numel(tensor));
        count += samba_tensor_numel(tensor);
        samba_tensor_free(tensor);
    }
    return count;
}

/* The whole batch by one process, on the first replica. */
static void compare_alone(samba_source *train, samba_source *validation, const seen *ours, const samba_train_result *result,
                          const float *weights)
{
    seen alone = {0};
    float its[256];
    samba_train_result other;
    samba_session *session = session_of("alone", (int64_t)ROWS * ACCUMULATION * self.size, false);
    samba_train_options o = options_of(train, validation, &alone);
    static const samba_padding pad = {"label", -100};
    o.pads = &pad;
    o.pad_count = 1;
    need(samba_train(session, &o, &other));
    near("steps", (double)result->steps, (double)other.steps, 0);
    near("samples", (double)result->samples, (double)other.samples, 0);
    near("tests", (double)ours->tests, (double)alone.tests, 0);
    near("loss", result->loss, other.loss, 1e-4);
    near("best", result->best, other.best, 1e-4);
    for (int64_t i = 0; i < alone.steps; i++)
        near("a step's loss", ours->losses[i], alone.losses[i], 1e-4);
    for (int64_t i = 0; i < alone.tests; i++)
        near("accuracy", ours->accuracy[i], alone.accuracy[i], 0.04); /* a guess on the edge */
    const int64_t count = weights_of(session, its);
    for (int64_t i = 0; i < count; i++)
        near("a weight", weights[i], its[i], 1e-3);
    samba_session_free(session);
}

/* One replica's wish stops all, and as many go on from a checkpoint to the same bits. */
static void stop_and_resume(const samba_train_options *given, const float *weights, int64_t count, bool sharded)
{
    samba_train_options o = *given;
    samba_train_result result;
    seen cut = {.stop_at = 4}, rest = {0};
    float again[256];
    char path[128];
    shards = sharded;
    snprintf(path, sizeof path, "%s/stopped%d", folder, sharded);
    samba_session *session = session_of("together", ROWS, true);
    o.folder = path;
    o.user = &cut;
    o.checkpoint_every = 1;
    need(samba_train(session, &o, &result));
    near("stopped at", (double)result.steps, 4, 0);
    samba_session_free(session);
    need(samba_replicas_wait(context));

    snprintf(path, sizeof path, "%s/kept%d", folder, sharded);
    session = session_of("together", ROWS, true);
    cut = (seen){0};
    o.epochs = 2;
    need(samba_train(session, &o, &result));
    samba_session_free(session);
    session = session_of("together", ROWS, true);
    o.epochs = EPOCHS;
    o.resume = true;
    o.user = &rest;
    need(samba_train(session, &o, &result));
    near("resumed steps", (double)result.steps, 3 * EPOCHS, 0);
    weights_of(session, again);
    if (memcmp(weights, again, sizeof *weights * (size_t)count) != 0)
        stop("resumed", "the weights have other bits");
    o.restore_best = true; /* of a training that is over, which takes no further step */
    need(samba_train(session, &o, &result));
    samba_session_free(session);
    need(samba_replicas_wait(context));
    shards = false;
}

static void remove_all(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        stop("cannot remove", folder);
}

int main(void)
{
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    need(samba_replicas_find(context, &self));
    seed = random_seed();
    need(samba_replicas_broadcast(context, &seed, sizeof seed, 0));
    if (self.size < 2 || (self.rank == 0 && !mkdtemp(folder)))
        stop("there are no replicas, or no folder for them", folder);
    need(samba_replicas_broadcast(context, folder, sizeof folder, 0));
    if (self.rank == 0)
        fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    samba_source *train = source_of(ROWS * ACCUMULATION * self.size * 3 + 5, 1), *validation = source_of(ROWS * 7 + 2, 2);
    static const samba_padding pad = {"label", -100};
    seen whole = {0};
    float weights[256];
    samba_train_result result;

    samba_session *session = session_of("together", ROWS, true);
    samba_train_options o = options_of(train, validation, &whole);
    o.pads = &pad;
    o.pad_count = 1;
    o.data_parallel = true;
    need(samba_train(session, &o, &result));
    const int64_t count = weights_of(session, weights);
    near("steps", (double)result.steps, 3 * EPOCHS, 0);
    if (self.rank == 0)
        compare_alone(train, validation, &whole, &result, weights);
    samba_session_free(session);

    stop_and_resume(&o, weights, count, false);
    stop_and_resume(&o, weights, count, true);
    session = session_of("together", ROWS, true);
    o.folder = NULL;
    o.drop_last = false;
    if (samba_train(session, &o, NULL) != SAMBA_ERROR_SHAPE || !strstr(samba_error_message(context), "and these replicas is"))
        stop("without drop_last", samba_error_message(context));
    samba_session_free(session);
    samba_source_free(train);
    samba_source_free(validation);
    need(samba_replicas_wait(context));
    if (self.rank == 0)
        remove_all();
    samba_context_free(context);
    return 0;
}
