/* SPDX-License-Identifier: Apache-2.0
 *
 * Random models trained by several replicas, which an MPI has started, and by one process on the whole batch: losses, parameters
 * and running statistics are the same within rounding. Replicas have the same bits, in every mode. Every process runs this
 * program; the first compiles, trains on the whole batch and compares.
 *
 *   mpirun -n 2 test_replicas MODELS */
#include <sambaflow/sambaflow.h>

#include "../seed.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 4, MOST_LAYERS = 5, SIDE = 6, CLASSES = 7, MODES = 3 };
static const char *const modes[MODES] = {"normal", "inorder", "optimal"};

typedef struct drawn { /* a model */
    int layer_count, kinds[MOST_LAYERS], widths[MOST_LAYERS];
    int batch, accumulation;
    bool adam, spatial, tied, synchronized; /* sync_batch_norm is among the layers */
    samba_batch_norm_layer norm;
    double max_norm;
    int64_t fast_memory;
} drawn;

static samba_context *context;
static samba_replicas self;
static uint64_t seed;

static void stop(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "replica %d, seed %llu: ", self.rank, (unsigned long long)seed);
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

/* ---- models ---- */
static void model(samba_graph *g, const void *options)
{
    const drawn *d = options;
    samba_value x = samba_input(g, "x"), label = samba_input(g, "label");
    bool flat = false;
    for (int i = 0; i < d->layer_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "norm%d", i);
        if (d->kinds[i] == 4) { /* of images, of lines of theirs, or of rows */
            const bool lines = !flat && d->widths[i] % 2;
            x = samba_sync_batch_norm(lines ? samba_flatten(x, 2, 3) : x, name, &d->norm);
            x = lines ? samba_unflatten(x, 2, 2, (const int64_t[]){SIDE, SIDE}) : x;
            continue;
        }
        snprintf(name, sizeof name, "layer%d", i);
        if (d->kinds[i] == 0 && !flat) {
            static const samba_conv2d_options same = {.same = true};
            x = samba_conv2d(x, name, d->widths[i] % 8 + 1, (const int64_t[]){3, 3}, &same);
            x = d->synchronized ? samba_tanh(x) : samba_relu(x);
            continue;
        }
        x = flat ? x : samba_flatten(x, 1, -1);
        flat = true;
        x = samba_linear(x, name, d->widths[i]);
        snprintf(name, sizeof name, "norm%d", i);
        x = d->kinds[i] == 1 ? samba_tanh(x) : d->kinds[i] == 2 ? samba_layer_norm(x, name) : samba_sigmoid(x);
    }
    x = flat ? x : samba_flatten(x, 1, -1);
    x = samba_linear(x, "wide", 24);
    if (d->tied) /* one parameter, two gradients that add up */
        x = samba_tanh(samba_linear(samba_tanh(samba_linear(x, "tied", 24)), "tied", 24));
    x = samba_linear(x, "last", CLASSES);
    samba_loss(g, "loss", samba_cross_entropy(x, label));
}

static drawn draw(uint64_t *state)
{
    drawn d = {.layer_count = (int)(next_seed(state) % (MOST_LAYERS + 1)),
               .batch = 1 + (int)(next_seed(state) % 5),
               .accumulation = next_seed(state) % 3 == 0 ? 2 + (int)(next_seed(state) % 2) : 1,
               .adam = next_seed(state) % 4 == 0,
               .spatial = next_seed(state) % 6 == 0,
               .tied = next_seed(state) % 3 == 0,
               .max_norm = next_seed(state) % 3 == 0 ? 0.5 : 0,
               .fast_memory = next_seed(state) % 6 == 0 ? 1 << 23 : 0};
    for (int i = 0; i < d.layer_count; i++) {
        d.kinds[i] = (int)(next_seed(state) % 5);
        d.widths[i] = 1 + (int)(next_seed(state) % 40);
        d.synchronized = d.synchronized || d.kinds[i] == 4;
    }
    if (d.synchronized) { /* norms of few numbers, and relu, would make much of rounding */
        d.batch += 2;
        for (int i = 0; i < d.layer_count; i++)
            d.widths[i] += d.kinds[i] == 2 ? 16 : 0;
        d.spatial = false; /* refused */
    }
    d.norm = (samba_batch_norm_layer){.no_affine = next_seed(state) % 4 == 0,
                                      .no_running_stats = next_seed(state) % 4 == 0,
                                      .cumulative = next_seed(state) % 4 == 0,
                                      .momentum = next_seed(state) % 2 ? 0.3 : 0,
                                      .eps = 0.125}; /* rows of sigmoids differ so little that less would make noise of them */
    if (d.layer_count > 1 && next_seed(state) % 2)   /* several buckets, and a gradient larger than one */
        d.widths[0] = 700 + (int)(next_seed(state) % 800), d.widths[1] = 1000 + (int)(next_seed(state) % 700);
    d.fast_memory = d.layer_count > 1 && d.widths[0] > 40 ? 0 : d.fast_memory;
    return d;
}

static void compile(const drawn *d, int batch, bool parallel, const char *folder, const char *name)
{
    samba_tensor *inputs[2];
    const int64_t image[] = {batch, 1, SIDE, SIDE}, labels[] = {batch};
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, 4, image, &inputs[0]));
    need(samba_tensor_empty(context, "label", SAMBA_INT64, 1, labels, &inputs[1]));
    samba_optimizer optimizer = d->adam ? samba_adamw(1e-3) : samba_sgd(0.1);
    optimizer.max_grad_norm = d->max_norm;
    if (!d->adam)
        optimizer.momentum = 0.9;
    samba_compile_options options = samba_compile_defaults();
    options.name = name;
    options.model = model;
    options.model_options = d;
    options.input_count = 2;
    options.inputs = inputs;
    options.optimizer_count = 1;
    options.optimizers = &optimizer;
    options.grad_accumulation_steps = d->accumulation;
    options.mapping = d->spatial ? SAMBA_MAPPING_SPATIAL : SAMBA_MAPPING_SECTION;
    options.fast_memory = d->spatial ? 0 : d->fast_memory;
    options.output_folder = folder;
    options.data_parallel = parallel;
    options.verify = true;
    need(samba_compile(context, &options, NULL, 0));
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* ---- training ---- */
/* Samples first .. first + count - 1 of a run. */
static void fill(int64_t run, int first, int count, float *x, int64_t *label)
{
    for (int i = 0; i < count; i++) {
        uint64_t state = seed + (uint64_t)run * 1000003 + (uint64_t)(first + i) * 7919;
        for (int k = 0; k < SIDE * SIDE; k++)
            x[i * SIDE * SIDE + k] = (float)(next_seed(&state) >> 40) / (1 << 24) - 0.5f;
        label[i] = (int64_t)(next_seed(&state) % CLASSES);
    }
}

/* A run that does not train exchanges nothing: replica 0 may have one alone. */
static void evaluate(samba_session *session, const drawn *d, bool parallel, samba_tensor *const *tensors)
{
    const char *types[] = {"FWD"};
    samba_run_options run = samba_run_defaults();
    run.input_count = 2;
    run.inputs = tensors;
    run.section_type_count = 1;
    run.section_types = types;
    run.train = false;
    run.data_parallel = parallel;
    if (d->synchronized && self.rank == 0)
        need(samba_run(session, &run));
}

/* A session after STEPS steps; its losses, each the mean over a step's runs. */
static samba_session *train(const drawn *d, const char *pef, int batch, int first, bool parallel, const char *mode,
                            double losses[STEPS])
{
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    samba_tensor *tensors[3];
    const int64_t image[] = {batch, 1, SIDE, SIDE}, labels[] = {batch};
    options.threads = 1;
    options.seed = seed;
    options.data_parallel = parallel;
    need(samba_session_new(context, pef, &options, &session));
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 4, image, &tensors[0]));
    need(samba_tensor_new(context, "label", SAMBA_INT64, 1, labels, &tensors[1]));
    need(samba_tensor_new(context, "loss", SAMBA_FLOAT32, 0, NULL, &tensors[2]));
    samba_run_options run = samba_run_defaults();
    run.input_count = 2;
    run.inputs = tensors;
    run.output_count = 1;
    run.outputs = &tensors[2];
    run.data_parallel = parallel;
    run.data_parallel_mode = mode;
    for (int step = 0; step < STEPS; step++) {
        losses[step] = 0;
        for (int i = 0; i < d->accumulation; i++) {
            double loss;
            fill(step * d->accumulation + i, first, batch, samba_tensor_data(tensors[0]), samba_tensor_data(tensors[1]));
            need(samba_run(session, &run));
            need(samba_tensor_item(tensors[2], &loss));
            losses[step] += loss / d->accumulation;
        }
    }
    evaluate(session, d, parallel, tensors);
    for (int i = 0; i < 3; i++)
        samba_tensor_free(tensors[i]);
    return session;
}

/* Bytes of all parameters and state, one behind the other. */
static char *weights_of(const samba_session *session, int64_t *bytes)
{
    char *all = NULL;
    *bytes = 0;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        samba_tensor *tensor;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER && info.kind != SAMBA_KIND_BUFFER)
            continue;
        need(samba_session_get_by_name((samba_session *)session, info.name, &tensor));
        all = realloc(all, (size_t)(*bytes + info.bytes) + 1);
        if (!all)
            stop("no memory");
        memcpy(all + *bytes, samba_tensor_data(tensor), (size_t)info.bytes);
        *bytes += info.bytes;
        samba_tensor_free(tensor);
    }
    return all;
}

/* What a norm behind it takes away, a bias, has rounding for a gradient: it is measured by 0.1. Running statistics are of values
 * whose rounding the layer norms before them have amplified. */
static void compare_weights(const samba_session *ours, const samba_session *whole)
{
    for (int i = 0; i < samba_session_tensor_count(ours); i++) {
        samba_tensor_info info;
        samba_tensor *a, *b;
        need(samba_session_tensor_info(ours, i, &info));
        const bool statistic = strstr(info.name, ".running_") != NULL;
        if (info.kind != SAMBA_KIND_PARAMETER && !statistic)
            continue;
        need(samba_session_get_by_name((samba_session *)ours, info.name, &a));
        need(samba_session_get_by_name((samba_session *)whole, info.name, &b));
        const float *x = samba_tensor_data(a), *y = samba_tensor_data(b);
        double most = 0, off = 0;
        for (int64_t k = 0; k < info.bytes / 4; k++) {
            most = fmax(most, fabs((double)y[k]));
            off = fmax(off, fabs((double)x[k] - (double)y[k]));
        }
        if (!(off <= (statistic ? 2e-4 : 5e-5) * fmax(most, 0.1)))
            stop("%s differs by %g from that of the whole batch, where the largest is %g", info.name, off, most);
        samba_tensor_free(a);
        samba_tensor_free(b);
    }
}

static double mean_of(const double *numbers, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += numbers[i];
    return sum / count;
}

static void try_model(const char *folder, const drawn *d)
{
    char ours[4096], whole[4096];
    snprintf(ours, sizeof ours, "%s/ours/ours.pef", folder);
    snprintf(whole, sizeof whole, "%s/whole/whole.pef", folder);
    if (self.rank == 0) {
        compile(d, d->batch, true, folder, "ours");
        compile(d, d->batch * self.size, false, folder, "whole");
    }
    need(samba_replicas_wait(context));
    double losses[STEPS], mean[STEPS], *all = malloc(sizeof *all * (size_t)self.size);
    samba_session *first = NULL;
    char *bits = NULL;
    int64_t bytes = 0;
    for (int mode = 0; mode < MODES; mode++) {
        samba_session *session = train(d, ours, d->batch, self.rank * d->batch, true, modes[mode], losses);
        int64_t now_bytes;
        char *now = weights_of(session, &now_bytes), *everyones = malloc((size_t)(now_bytes * self.size) + 1);
        need(samba_replicas_gather(context, now, (size_t)now_bytes, everyones));
        for (int rank = 1; rank < self.size; rank++)
            if (memcmp(everyones, everyones + rank * now_bytes, (size_t)now_bytes) != 0)
                stop("mode %s: replica %d has other bits than replica 0", modes[mode], rank);
        free(everyones);
        if (mode > 0 && (bytes != now_bytes || memcmp(bits, now, (size_t)bytes) != 0))
            stop("mode %s gives other bits than mode %s", modes[mode], modes[0]);
        if (mode == 0) {
            bits = now, bytes = now_bytes, first = session;
        } else {
            free(now);
            samba_session_free(session);
        }
    }
    for (int step = 0; step < STEPS; step++) {
        need(samba_replicas_gather(context, &losses[step], sizeof(double), all));
        mean[step] = mean_of(all, self.size);
    }
    if (self.rank == 0) {
        samba_session *alone = train(d, whole, d->batch * self.size, 0, false, NULL, losses);
        for (int step = 0; step < STEPS; step++)
            if (!(fabs(mean[step] - losses[step]) <= 2e-5 * fabs(losses[step])))
                stop("step %d: the mean of the replicas' losses is %.9g, that of the whole batch %.9g", step, mean[step],
                     losses[step]);
        if (!d->adam) /* it divides by what may be nothing but rounding */
            compare_weights(first, alone);
        samba_session_free(alone);
    }
    samba_session_free(first);
    free(bits);
    free(all);
    need(samba_replicas_wait(context));
}

int main(int argc, char **argv)
{
    const int models = argc > 1 ? atoi(argv[1]) : 6;
    char folder[] = "/tmp/replicas.XXXXXX";
    seed = random_seed();
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    need(samba_replicas_find(context, &self));
    if (self.rank == 0 && !mkdtemp(folder))
        stop("%s cannot be made", folder);
    need(samba_replicas_broadcast(context, folder, sizeof folder, 0));
    need(samba_replicas_broadcast(context, &seed, sizeof seed, 0));
    uint64_t state = seed;
    if (self.rank == 0)
        printf("seed %llu, %d replicas, %s\n", (unsigned long long)seed, self.size, self.network);
    for (int i = 0; i < models; i++) {
        const drawn d = draw(&state);
        try_model(folder, &d);
    }
    if (self.rank == 0)
        printf("%d models: %d replicas train as one process does, in every mode alike\n", models, self.size);
    if (self.rank == 0) {
        char command[256];
        snprintf(command, sizeof command, "rm -r %s", folder);
        if (system(command) != 0)
            stop("%s cannot be removed", folder);
    }
    samba_context_free(context);
    return 0;
}
