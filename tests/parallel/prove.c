/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas train as one process does on the whole batch, and as they did before: any PEF of a model with inputs, a loss "loss"
 * and parameters. Every process runs this program; prove.sh makes the PEFs and says which models.
 *
 *   mpirun -n 2 prove MODEL PEF_OF_A_REPLICA PEF_OF_THE_WHOLE STEPS CLASSES frozen|training parameters|kinks|losses|steps|float64
 *
 * CLASSES: integers that are given are 0 .. CLASSES - 1. frozen: steps run as in evaluation, in which batch norm takes its
 * running statistics, which the first weights were given before; those of a batch are each replica's own. The losses of every
 * step and the parameters behind the last, as one vector, may be off by 1e-5, relative to those of one process; float64: by
 * 1e-11. `losses`: parameters are not compared, as those of an optimizer that divides a gradient by its own size: where that is
 * nothing but rounding, as a key's bias has it, so is the update. `kinks`: parameters may be off by 1e-4; `steps`: each step is
 * judged by itself. Replicas, modes and a second run have the same bits in every case.
 *
 * A ReLU or a maximum passes a gradient or does not. Where a value is within rounding of the point at which that turns, one side
 * may pass what the other does not: in float32 somewhere in a deep network, once in some twenty steps, a difference by far
 * greater than rounding, from which the two go apart. In float64 it does not happen in so few steps. In float32 `steps` lets
 * replicas begin every step with what the one process has then: loss and parameters are within 1e-5 after each, the update within
 * a hundredth. How far they go apart when nothing brings them together is printed beside how far the one process goes from
 * itself where the samples of every batch come in another order. One parameter by itself may also be off by more if it
 * began at 0: it is small beside the terms of its gradient, which cancel. It is printed, not judged.
 *
 * A sample is a function of its number, so the whole batch is the replicas' batches one behind the other: an image is the
 * pattern of its class and noise, a text a walk through its tokens, whose label is the next token. */
#include <sambaflow/sambaflow.h>

#include "../seed.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_INPUTS = 4, RUNS = 4, MODES = 3, SETTLING = 20 };
#define BOUND 1e-5        /* a hundred roundings of float32 */
#define KINK_BOUND 1e-4   /* of parameters */
#define WIDE_BOUND 1e-11  /* of float64 */
#define UPDATE_BOUND 0.01 /* of the update of one step: a replica left out, or counted twice, is off by a third and more */
static const char *const modes[RUNS] = {"normal", "inorder", "optimal", "normal"};

static samba_context *context;
static samba_replicas self;
static uint64_t seed;
static const char *model;
static int steps;
static int64_t classes;
static bool frozen, sharded; /* sharded: each replica has a part of the optimizer's state */
static samba_dtype dtype;    /* of losses and parameters */

static void stop(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "prove: %s, replica %d, seed %llu: ", model, self.rank, (unsigned long long)seed);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1); /* ends the others */
}

static void need(samba_status status)
{
    if (status != SAMBA_OK)
        stop("%s: %s", samba_status_name(status), samba_error_message(context));
}

/* ---- samples ---- */
static double uniform(uint64_t *state) { return (double)(next_seed(state) >> 11) / (double)(UINT64_C(1) << 53); }

static double normal(uint64_t *state) /* Box and Muller's */
{
    const double a = uniform(state), b = uniform(state);
    return sqrt(-2 * log(1 - a)) * cos(6.283185307179586 * b);
}

/* Sample `number` into place `at` of each input; an input named "label" is what belongs to the other. */
static void fill_sample(samba_tensor *input, int64_t number, int64_t at)
{
    const int rank = samba_tensor_rank(input);
    const int64_t *shape = samba_tensor_shape(input);
    const bool is_label = strcmp(samba_tensor_name(input), "label") == 0;
    uint64_t state = seed + (uint64_t)number * 7919;
    const int64_t first = (int64_t)(next_seed(&state) % (uint64_t)classes);
    int64_t count = 1;
    for (int i = 1; i < rank; i++)
        count *= shape[i];
    if (samba_tensor_dtype(input) == SAMBA_FLOAT32) {
        uint64_t pattern = seed ^ (uint64_t)(first + 1) * 104729;
        float *x = (float *)samba_tensor_data(input) + at * count;
        for (int64_t i = 0; i < count; i++)
            x[i] = (float)(0.5 * normal(&pattern) + 0.5 * normal(&state));
        return;
    }
    int64_t *x = (int64_t *)samba_tensor_data(input) + at * count, token = first;
    for (int64_t i = -is_label; i < count; i++) {
        if (i >= 0 || rank == 1)
            x[i < 0 ? 0 : i] = token;
        if (rank == 1)
            return;
        token = next_seed(&state) % 10 == 0 ? (int64_t)(next_seed(&state) % (uint64_t)classes) : (5 * token + 3) % classes;
    }
}

/* ---- training ---- */
static int make_inputs(samba_session *session, samba_tensor **inputs)
{
    int count = 0;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_INPUT)
            continue;
        if (count == MOST_INPUTS || (info.dtype != SAMBA_FLOAT32 && info.dtype != SAMBA_INT64))
            stop("input %s is one too many, or neither float32 nor int64", info.name);
        need(samba_tensor_new(context, info.name, info.dtype, info.rank, info.shape, &inputs[count++]));
    }
    return count;
}

/* `first`: the place of the batch's first sample; those behind the last place come to the first ones. */
static void fill(samba_tensor **inputs, int count, int64_t step, int rank, int size, int64_t first)
{
    const int64_t batch = samba_tensor_shape(inputs[0])[0];
    for (int i = 0; i < count; i++)
        for (int64_t at = 0; at < batch; at++)
            fill_sample(inputs[i], (step * size + rank) * batch + at, (at + first) % batch);
}

/* Running statistics of SETTLING batches into a file: batch norm that is frozen has been trained before. */
static void settle(const char *pef, const char *file)
{
    samba_session *session;
    samba_tensor *inputs[MOST_INPUTS];
    const char *forward[] = {"FWD"};
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    options.seed = 11;
    need(samba_session_new(context, pef, &options, &session));
    const int count = make_inputs(session, inputs);
    samba_run_options run = samba_run_defaults();
    run.input_count = count;
    run.inputs = inputs;
    run.section_type_count = 1;
    run.section_types = forward;
    for (int step = 0; step < SETTLING; step++) {
        fill(inputs, count, -1 - step, 0, 1, 0);
        need(samba_run(session, &run));
    }
    need(samba_session_save(session, file, false));
    for (int i = 0; i < count; i++)
        samba_tensor_free(inputs[i]);
    samba_session_free(session);
}

typedef struct trainer {
    samba_session *session;
    samba_tensor *inputs[MOST_INPUTS], *loss;
    samba_run_options run; /* points into this */
} trainer;

/* `start`: a file of weights, or NULL. `mode`: the trainer is a replica; NULL: one process. */
static void begin_training(trainer *t, const char *pef, const char *start, const char *mode)
{
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    options.seed = 11;
    options.data_parallel = mode != NULL;
    options.shard_optimizer = mode != NULL && sharded;
    need(samba_session_new(context, pef, &options, &t->session));
    if (start)
        need(samba_session_load(t->session, start));
    t->run = samba_run_defaults();
    t->run.input_count = make_inputs(t->session, t->inputs);
    t->run.inputs = t->inputs;
    need(samba_tensor_new(context, "loss", dtype, 0, NULL, &t->loss));
    t->run.output_count = 1;
    t->run.outputs = &t->loss;
    t->run.train = !frozen;
    t->run.data_parallel = mode != NULL;
    t->run.data_parallel_mode = mode;
}

/* The loss of a step with replica `rank`'s batch of `size`. */
static double take_step(trainer *t, int64_t step, int rank, int size, int64_t first)
{
    double loss;
    fill(t->inputs, t->run.input_count, step, rank, size, first);
    need(samba_run(t->session, &t->run));
    need(samba_tensor_item(t->loss, &loss));
    return loss;
}

/* The session, which is the caller's. */
static samba_session *end_training(trainer *t)
{
    for (int i = 0; i < t->run.input_count; i++)
        samba_tensor_free(t->inputs[i]);
    samba_tensor_free(t->loss);
    return t->session;
}

/* A session after all steps; the losses of each. */
static samba_session *train(const char *pef, const char *start, const char *mode, int64_t first, double *losses)
{
    trainer t;
    begin_training(&t, pef, start, mode);
    for (int step = 0; step < steps; step++)
        losses[step] = take_step(&t, step, mode ? self.rank : 0, mode ? self.size : 1, first);
    return end_training(&t);
}

/* ---- comparing ---- */
/* All that a session has learned, one behind the other: the name of the tensor that byte `at` belongs to. */
static char *learned(samba_session *session, int64_t *bytes, int64_t at, char *name, size_t name_size)
{
    char *all = NULL;
    *bytes = 0;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        samba_tensor *tensor;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER && (sharded || info.kind != SAMBA_KIND_BUFFER))
            continue;
        need(samba_session_get_by_name(session, info.name, &tensor));
        all = realloc(all, (size_t)(*bytes + info.bytes) + 1);
        if (!all)
            stop("no memory");
        memcpy(all + *bytes, samba_tensor_data(tensor), (size_t)info.bytes);
        if (name && at >= *bytes && at < *bytes + info.bytes)
            snprintf(name, name_size, "%s", info.name);
        *bytes += info.bytes;
        samba_tensor_free(tensor);
    }
    return all;
}

static int64_t first_difference(const char *a, const char *b, int64_t bytes)
{
    int64_t at = 0;
    while (at < bytes && a[at] == b[at])
        at++;
    return at;
}

/* Replica 0's bytes come to all: each compares its own. */
static void need_alike(samba_session *session, const char *mode)
{
    int64_t bytes;
    char name[256] = "", *own = learned(session, &bytes, -1, NULL, 0), *theirs = malloc((size_t)bytes + 1);
    if (!theirs)
        stop("no memory");
    memcpy(theirs, own, (size_t)bytes);
    need(samba_replicas_broadcast(context, theirs, (size_t)bytes, 0));
    if (memcmp(own, theirs, (size_t)bytes) != 0) {
        free(learned(session, &bytes, first_difference(own, theirs, bytes), name, sizeof name));
        stop("mode %s: this replica has other bits than replica 0, in %s", mode, name);
    }
    free(own);
    free(theirs);
}

typedef struct distance { /* of two vectors, relative to the second */
    double off, all;
} distance;

static double relative(distance d) { return d.off == 0 ? 0 : sqrt(d.off / d.all); }

static distance add(distance d, const samba_tensor *left, const samba_tensor *right, int64_t count)
{
    const bool wide = samba_tensor_dtype(left) == SAMBA_FLOAT64;
    const void *a = samba_tensor_data((samba_tensor *)left), *b = samba_tensor_data((samba_tensor *)right);
    for (int64_t k = 0; k < count; k++) {
        const double x = wide ? ((const double *)a)[k] : (double)((const float *)a)[k],
                     y = wide ? ((const double *)b)[k] : (double)((const float *)b)[k];
        d.off += (x - y) * (x - y);
        d.all += y * y;
    }
    return d;
}

/* Of all parameters as one vector. `worst`, `name`: of the one that is off most by itself. */
static double compare_parameters(samba_session *ours, samba_session *whole, double *worst, char *name, size_t size)
{
    distance all = {0};
    *worst = 0;
    for (int i = 0; i < samba_session_tensor_count(ours); i++) {
        samba_tensor_info info;
        samba_tensor *a, *b;
        need(samba_session_tensor_info(ours, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER)
            continue;
        need(samba_session_get_by_name(ours, info.name, &a));
        need(samba_session_get_by_name(whole, info.name, &b));
        const int64_t count = info.bytes / (int64_t)samba_dtype_size(info.dtype);
        const double own = relative(add((distance){0}, a, b, count));
        all = add(all, a, b, count);
        if (!(own <= *worst)) {
            *worst = own;
            snprintf(name, size, "%s", info.name);
        }
        samba_tensor_free(a);
        samba_tensor_free(b);
    }
    return relative(all);
}

/* How far the one process goes from itself, `whole`, with its losses, where the batches' samples come in another order. */
static void compare_orders(const char *pef, const char *start, samba_session *whole, const double *losses)
{
    double *turned = malloc(sizeof *turned * (size_t)steps), worst = 0, worst_parameter;
    char name[256];
    if (!turned)
        stop("no memory");
    samba_session *session = train(pef, start, NULL, 1, turned);
    for (int step = 0; step < steps; step++)
        worst = fmax(worst, fabs(turned[step] - losses[step]) / fabs(losses[step]));
    printf("%-8s one process, samples in another order: off: loss %.1e, parameters %.1e\n", model, worst,
           compare_parameters(session, whole, &worst_parameter, name, sizeof name));
    samba_session_free(session);
    free(turned);
}

/* Each step begins with the state of the one process, in the replicas' sessions too; the modes take turns. */
static void compare_steps(const char *pef, const char *whole_pef, const char *start, double *all)
{
    trainer ours, whole = {0}, before = {0};
    double worst = 0, worst_parameters = 0, worst_update = 0, worst_parameter;
    char file[4096], name[256];
    snprintf(file, sizeof file, "%s.state.safetensors", whole_pef);
    begin_training(&ours, pef, start, modes[0]);
    if (self.rank == 0) {
        begin_training(&whole, whole_pef, start, NULL);
        begin_training(&before, whole_pef, start, NULL);
    }
    for (int step = 0; step < steps; step++) {
        if (self.rank == 0)
            need(samba_session_save(whole.session, file, true));
        need(samba_replicas_wait(context));
        need(samba_session_load(ours.session, file));
        ours.run.data_parallel_mode = modes[step % MODES];
        const double loss = take_step(&ours, step, self.rank, self.size, 0);
        need(samba_replicas_gather(context, &loss, sizeof loss, all));
        if (self.rank > 0)
            continue;
        double mean = 0;
        for (int rank = 0; rank < self.size; rank++)
            mean += all[rank] / self.size;
        need(samba_session_load(before.session, file));
        const double right = take_step(&whole, step, 0, 1, 0), off = fabs(mean - right) / fabs(right),
                     apart = compare_parameters(ours.session, whole.session, &worst_parameter, name, sizeof name),
                     update = compare_parameters(before.session, whole.session, &worst_parameter, name, sizeof name);
        if (!(off <= BOUND) || !(apart <= BOUND) || !(apart <= UPDATE_BOUND * update))
            stop("step %d from the same state: off: loss %.1e, parameters %.1e, which it moved by %.1e", step, off, apart,
                 update);
        worst = fmax(worst, off);
        worst_parameters = fmax(worst_parameters, apart);
        worst_update = fmax(worst_update, apart / update);
    }
    samba_session_free(end_training(&ours));
    if (self.rank > 0)
        return;
    samba_session_free(end_training(&whole));
    samba_session_free(end_training(&before));
    printf("%-8s %d replicas, %d steps, each from the state of one process: off: loss %.1e, parameters %.1e, update %.1e\n",
           model, self.size, steps, worst, worst_parameters, worst_update);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 8 || samba_context_new(NULL, &context) != SAMBA_OK)
        return 2;
    model = argv[1];
    steps = atoi(argv[4]);
    classes = atoll(argv[5]);
    frozen = strcmp(argv[6], "frozen") == 0;
    sharded = getenv("PROVE_SHARDED") != NULL;
    const bool has_kinks = strcmp(argv[7], "kinks") == 0, each_step = strcmp(argv[7], "steps") == 0,
               parameters_too = !each_step && strcmp(argv[7], "losses") != 0;
    dtype = strstr(argv[7], "float64") ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    const double bound = dtype == SAMBA_FLOAT64 ? WIDE_BOUND : BOUND, begin = now();
    seed = random_seed();
    need(samba_replicas_find(context, &self));
    need(samba_replicas_broadcast(context, &seed, sizeof seed, 0));
    double *losses = calloc((size_t)steps * RUNS, sizeof *losses), *alone = calloc((size_t)steps, sizeof *alone),
           *all = calloc((size_t)steps * (size_t)self.size, sizeof *all);
    if (!losses || !alone || !all)
        stop("no memory");
    samba_session *first = NULL;
    char *bits = NULL, file[4096], *start = frozen ? file : NULL;
    snprintf(file, sizeof file, "%s.safetensors", argv[3]);
    if (self.rank == 0 && frozen)
        settle(argv[3], file);
    need(samba_replicas_wait(context));
    int64_t bytes = 0;
    for (int i = 0; i < RUNS; i++) {
        samba_session *session = train(argv[2], start, modes[i], 0, losses + i * steps);
        int64_t its_bytes;
        char *its = learned(session, &its_bytes, -1, NULL, 0);
        need_alike(session, modes[i]);
        if (i > 0 && (bytes != its_bytes || memcmp(bits, its, (size_t)bytes) != 0))
            stop("%s gives other bits than %s before", modes[i], modes[0]);
        if (memcmp(losses, losses + i * steps, sizeof *losses * (size_t)steps) != 0)
            stop("%s gives other losses than %s before", modes[i], modes[0]);
        if (i == 0) {
            first = session, bits = its, bytes = its_bytes;
        } else {
            free(its);
            samba_session_free(session);
        }
    }
    need(samba_replicas_gather(context, losses, sizeof *losses * (size_t)steps, all));
    if (self.rank == 0) {
        samba_session *whole = train(argv[3], start, NULL, 0, alone);
        double worst = 0;
        int worst_step = 0;
        char name[256] = "none";
        for (int step = 0; step < steps; step++) {
            double mean = 0;
            for (int rank = 0; rank < self.size; rank++)
                mean += all[rank * steps + step] / self.size;
            const double off = fabs(mean - alone[step]) / fabs(alone[step]);
            if (getenv("VERBOSE"))
                printf("step %d: %.9g, the whole batch %.9g, off %.1e\n", step, mean, alone[step], off);
            if (!(off <= worst))
                worst = off, worst_step = step;
        }
        double worst_parameter;
        const double parameters = compare_parameters(first, whole, &worst_parameter, name, sizeof name);
        printf("%-8s %d replicas, %s, seed %llu: %d steps, loss %.4f to %.4f; off: loss %.1e (step %d), parameters %.1e "
               "(%s %.1e); %.0f s\n",
               model, self.size, self.network, (unsigned long long)seed, steps, alone[0], alone[steps - 1], worst, worst_step,
               parameters, name, worst_parameter, now() - begin);
        if (!each_step && !(worst <= bound))
            stop("the mean of the losses is off by more than %g", bound);
        if (parameters_too && !(parameters <= (has_kinks ? KINK_BOUND : bound)))
            stop("parameters are off by %g", parameters);
        if (each_step)
            compare_orders(argv[3], start, whole, alone);
        samba_session_free(whole);
    }
    need(samba_replicas_wait(context));
    samba_session_free(first);
    if (each_step)
        compare_steps(argv[2], argv[3], start, all);
    free(bits);
    free(losses);
    free(alone);
    free(all);
    samba_context_free(context);
    return 0;
}
