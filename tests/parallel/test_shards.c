/* SPDX-License-Identifier: Apache-2.0
 *
 * Random models trained by several replicas with shard_optimizer, and without: the same bits in every mode, checkpoints of the
 * same bytes, and state that takes its part of memory. Then reduce_dtype bfloat16: replicas have the same bits, and what rounding
 * takes comes back. Every process runs this program.
 *
 *   mpirun -n 2 test_shards MODELS */
#include <sambaflow/checkpoint.h>
#include <sambaflow/sambaflow.h>

#include "../seed.h"
#include "one_input.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 3, MOST_LAYERS = 4, IN = 19, CLASSES = 5, KINDS = 10, LENGTH = 3001 };
static const char *const modes[] = {"normal", "inorder", "optimal"};

typedef struct drawn { /* a model */
    int layer_count, widths[MOST_LAYERS], batch, accumulation, optimizer;
    bool norm, tied, variant;
    double max_norm;
} drawn;

static samba_context *context;
static samba_replicas self;
static uint64_t seed;
static char folder[] = "/tmp/shards.XXXXXX";

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

static void refused(samba_status status, samba_status wanted, const char *words)
{
    if (status != wanted || !strstr(samba_error_message(context), words))
        stop("expected %s with \"%s\", got %s: %s", samba_status_name(wanted), words, samba_status_name(status),
             status == SAMBA_OK ? "" : samba_error_message(context));
}

/* ---- models ---- */
static void model(samba_graph *g, const void *options)
{
    const drawn *d = options;
    samba_value x = samba_input(g, "x"), label = samba_input(g, "label");
    for (int i = 0; i < d->layer_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d", i);
        x = samba_tanh(samba_linear(x, name, d->widths[i]));
        snprintf(name, sizeof name, "norm%d", i);
        x = d->norm ? samba_layer_norm(x, name) : x;
    }
    if (d->tied)
        x = samba_tanh(samba_linear(samba_tanh(samba_linear(samba_linear(x, "wide", 24), "tied", 24)), "tied", 24));
    samba_loss(g, "loss", samba_cross_entropy(samba_linear(x, "last", CLASSES), label));
}

static samba_optimizer optimizer_of(int kind)
{
    switch (kind) {
    case 0: return samba_sgd(0.05);
    case 1: return samba_adamw(1e-3);
    case 2: return samba_adam(1e-3);
    case 3: return samba_lion(1e-4);
    case 4: return samba_adagrad(1e-2);
    case 5: return samba_rmsprop(1e-3);
    case 6: return samba_adadelta(1.0);
    case 7: return samba_nadam(1e-3);
    case 8: return samba_radam(1e-3);
    default: return samba_adamax(1e-3);
    }
}

static drawn draw(uint64_t *state)
{
    drawn d = {.layer_count = (int)(next_seed(state) % (MOST_LAYERS + 1)),
               .batch = 1 + (int)(next_seed(state) % 4),
               .accumulation = next_seed(state) % 3 == 0 ? 2 : 1,
               .optimizer = (int)(next_seed(state) % KINDS),
               .norm = next_seed(state) % 2,
               .tied = next_seed(state) % 3 == 0,
               .variant = next_seed(state) % 2,
               .max_norm = next_seed(state) % 3 == 0 ? 0.5 : 0};
    for (int i = 0; i < d.layer_count; i++)
        d.widths[i] = 1 + (int)(next_seed(state) % 70);
    if (d.layer_count > 1 && next_seed(state) % 2) /* several buckets, and a gradient larger than one */
        d.widths[0] = 700 + (int)(next_seed(state) % 800), d.widths[1] = 1000 + (int)(next_seed(state) % 700);
    return d;
}

static void compile(const drawn *d, const char *name)
{
    samba_tensor *inputs[2];
    const int64_t rows[] = {d->batch, IN}, labels[] = {d->batch};
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, 2, rows, &inputs[0]));
    need(samba_tensor_empty(context, "label", SAMBA_INT64, 1, labels, &inputs[1]));
    samba_optimizer optimizer = optimizer_of(d->optimizer);
    optimizer.max_grad_norm = d->max_norm;
    if (d->optimizer == 0)
        optimizer.momentum = 0.9;
    if (d->variant && (d->optimizer == 1 || d->optimizer == 2))
        optimizer.amsgrad = true;
    samba_compile_options options = samba_compile_defaults();
    options.name = name;
    options.model = model;
    options.model_options = d;
    options.input_count = 2;
    options.inputs = inputs;
    options.optimizer_count = 1;
    options.optimizers = &optimizer;
    options.grad_accumulation_steps = d->accumulation;
    options.output_folder = folder;
    options.data_parallel = true;
    options.verify = true;
    need(samba_compile(context, &options, NULL, 0));
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* ---- training ---- */
typedef struct how {
    const char *mode;
    bool shards;
    const char *dtype;
} how;

static samba_session *begin(const char *pef, const how *h)
{
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    options.seed = seed;
    options.data_parallel = true;
    options.shard_optimizer = h->shards;
    options.reduce_dtype = h->dtype;
    need(samba_session_new(context, pef, &options, &session));
    return session;
}

static void train(samba_session *session, const drawn *d, const how *h, int first, int steps)
{
    samba_tensor *tensors[2];
    const int64_t rows[] = {d->batch, IN}, labels[] = {d->batch};
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 2, rows, &tensors[0]));
    need(samba_tensor_new(context, "label", SAMBA_INT64, 1, labels, &tensors[1]));
    samba_run_options run = samba_run_defaults();
    run.input_count = 2;
    run.inputs = tensors;
    run.data_parallel = true;
    run.data_parallel_mode = h->mode;
    for (int i = first * d->accumulation; i < (first + steps) * d->accumulation; i++) {
        uint64_t state = seed + (uint64_t)(i * self.size + self.rank) * 7919;
        float *x = samba_tensor_data(tensors[0]);
        int64_t *label = samba_tensor_data(tensors[1]);
        for (int k = 0; k < d->batch * IN; k++)
            x[k] = (float)(next_seed(&state) >> 40) / (1 << 24) - 0.5f;
        for (int k = 0; k < d->batch; k++)
            label[k] = (int64_t)(next_seed(&state) % CLASSES);
        need(samba_run(session, &run));
    }
    samba_tensor_free(tensors[0]);
    samba_tensor_free(tensors[1]);
}

/* Bytes of all parameters, one behind the other. */
static char *parameters_of(samba_session *session, int64_t *bytes)
{
    char *all = NULL;
    *bytes = 0;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        samba_tensor *tensor;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER)
            continue;
        need(samba_session_get_by_name(session, info.name, &tensor));
        all = realloc(all, (size_t)(*bytes + info.bytes) + 1);
        if (!all)
            stop("no memory");
        memcpy(all + *bytes, samba_tensor_data(tensor), (size_t)info.bytes);
        *bytes += info.bytes;
        samba_tensor_free(tensor);
    }
    return all;
}

static void alike_on_all(const char *bits, int64_t bytes, const char *what)
{
    char *everyones = malloc((size_t)(bytes * self.size) + 1);
    need(samba_replicas_gather(context, bits, (size_t)bytes, everyones));
    for (int rank = 1; rank < self.size; rank++)
        if (memcmp(everyones, everyones + rank * bytes, (size_t)bytes) != 0)
            stop("%s: replica %d has other bits than replica 0", what, rank);
    free(everyones);
}

static void same_files(const char *left, const char *right)
{
    FILE *a = fopen(left, "rb"), *b = fopen(right, "rb");
    int x, y;
    if (!a || !b)
        stop("%s or %s is not there", left, right);
    do {
        x = getc(a), y = getc(b);
        if (x != y)
            stop("%s and %s differ", left, right);
    } while (x != EOF);
    fclose(a);
    fclose(b);
}

static int64_t state_bytes(const samba_session *session)
{
    samba_memory_info memory;
    need(samba_session_memory(session, &memory));
    return memory.state;
}

static void check_refusals(samba_session *session, bool has_state)
{
    samba_tensor *tensor;
    for (int i = 0; has_state && i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind == SAMBA_KIND_BUFFER && info.rank == 2) {
            refused(samba_session_get_by_name(session, info.name, &tensor), SAMBA_ERROR_UNSUPPORTED,
                    "with shard_optimizer each replica has a part of it");
            break;
        }
    }
    samba_run_options run = samba_run_defaults();
    run.section_type_count = 1;
    run.section_types = (const char *const[]){"OPT"};
    refused(samba_run(session, &run), SAMBA_ERROR_ARGUMENT, "updates this replica's part alone: run it with data_parallel");
}

static void try_model(const drawn *d)
{
    char pef[4096], whole[4096], shards[4096];
    snprintf(pef, sizeof pef, "%s/ours/ours.pef", folder);
    snprintf(whole, sizeof whole, "%s/whole.safetensors", folder);
    snprintf(shards, sizeof shards, "%s/shards.safetensors", folder);
    if (self.rank == 0)
        compile(d, "ours");
    need(samba_replicas_wait(context));
    const how plain = {.mode = "normal"};
    samba_session *session = begin(pef, &plain);
    const int64_t all_state = state_bytes(session);
    train(session, d, &plain, 0, STEPS);
    if (self.rank == 0)
        need(samba_session_save(session, whole, true));
    train(session, d, &plain, STEPS, STEPS);
    int64_t bytes, now_bytes;
    char *bits = parameters_of(session, &bytes);
    samba_session_free(session);
    for (int mode = 0; mode < 3; mode++) {
        const how sharded = {.mode = modes[mode], .shards = true};
        session = begin(pef, &sharded);
        int64_t own_state = state_bytes(session), everyones[64], sum = 0;
        need(samba_replicas_gather(context, &own_state, sizeof own_state, everyones));
        for (int rank = 0; rank < self.size; rank++)
            sum += everyones[rank];
        if (all_state > 1 << 20 && (own_state > all_state / self.size * 11 / 10 || sum < all_state))
            stop("state takes %lld bytes here, %lld on all, and %lld without shard_optimizer", (long long)own_state,
                 (long long)sum, (long long)all_state);
        train(session, d, &sharded, 0, STEPS);
        need(samba_session_save(session, shards, true)); /* all of them */
        if (self.rank == 0)
            same_files(whole, shards);
        if (mode == 1) { /* another session goes on from the file */
            samba_session_free(session);
            session = begin(pef, &sharded);
            need(samba_session_load(session, whole));
        }
        train(session, d, &sharded, STEPS, STEPS);
        check_refusals(session, d->widths[0] > 10 && d->layer_count > 0);
        char *now = parameters_of(session, &now_bytes);
        alike_on_all(now, now_bytes, modes[mode]);
        if (now_bytes != bytes || memcmp(now, bits, (size_t)bytes) != 0)
            stop("mode %s, optimizer %d: shard_optimizer gives other bits", modes[mode], d->optimizer);
        free(now);
        samba_session_free(session);
        need(samba_replicas_wait(context)); /* the file is everyone's */
    }
    char *first = NULL;
    for (int k = 0; k < 4; k++) { /* rounded gradients: sharded or not, everyone has the same, in every mode */
        const how rounded = {.mode = modes[k % 3], .shards = k > 1, .dtype = "bfloat16"};
        session = begin(pef, &rounded);
        train(session, d, &rounded, 0, STEPS);
        char *now = parameters_of(session, &now_bytes);
        alike_on_all(now, now_bytes, "bfloat16");
        if (k % 2 == 0) {
            free(first);
            first = now;
        } else {
            if (memcmp(now, first, (size_t)bytes) != 0)
                stop("reduce_dtype bfloat16: mode %s gives other bits than mode %s", modes[k % 3], modes[(k - 1) % 3]);
            free(now);
        }
        samba_session_free(session);
    }
    free(first);
    free(bits);
    need(samba_replicas_wait(context));
}

/* ---- what rounding takes ---- */
static void linear_model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value x = samba_input(g, "x"), w = samba_parameter(g, "w", SAMBA_FLOAT32, 1, (const int64_t[]){LENGTH},
                                                             (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    samba_loss(g, "loss", samba_sum(samba_mul(x, w), 0, NULL, false));
}

/* The gradient of each step is x, so its mean is rounded in the same direction each time: after many steps the parameter is off
 * by what one rounding takes, here and at the owner, and not by that of all steps. */
static void try_rounding(bool shards)
{
    enum { MANY = 48 };
    char pef[4096];
    snprintf(pef, sizeof pef, "%s/linear/linear.pef", folder);
    samba_tensor *x, *w;
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 1, (const int64_t[]){LENGTH}, &x));
    if (self.rank == 0)
        need(compile_one_input(context, folder, "linear", linear_model, x, samba_sgd(0.25)));
    need(samba_replicas_wait(context));
    double mean[LENGTH] = {0};
    for (int rank = 0; rank < self.size; rank++) {
        uint64_t state = seed + (uint64_t)rank * 7919;
        for (int k = 0; k < LENGTH; k++) {
            const float number = (float)(next_seed(&state) >> 40) / (1 << 24) + 0.5f;
            mean[k] += (double)number / self.size;
            if (rank == self.rank)
                ((float *)samba_tensor_data(x))[k] = number;
        }
    }
    const how rounded = {.mode = "normal", .shards = shards, .dtype = "bfloat16"};
    samba_session *session = begin(pef, &rounded);
    samba_run_options run = samba_run_defaults();
    run.input_count = 1;
    run.inputs = &x;
    run.data_parallel = true;
    for (int step = 0; step < MANY; step++)
        need(samba_run(session, &run));
    need(samba_session_get_by_name(session, "w", &w));
    bool any = false;
    for (int k = 0; k < LENGTH; k++) {
        const double off = fabs((double)((const float *)samba_tensor_data(w))[k] + 0.25 * MANY * mean[k]);
        /* half a unit of bfloat16 below 2 is 2^-8, once for what is sent and once for the mean; then sums of float32 */
        if (off > 0.25 * 2 * 1.5 / 256 + MANY * 0.25 * 1.5 * MANY * 6e-8)
            stop("after %d steps w[%d] is off by %g: what rounding takes does not come back", MANY, k, off);
        any = any || off > 1e-4;
    }
    if (self.size > 1 && !any)
        stop("nothing was rounded");
    samba_tensor_free(w);
    samba_tensor_free(x);
    samba_session_free(session);
    need(samba_replicas_wait(context));
}

static void check_options(void)
{
    char pef[4096];
    snprintf(pef, sizeof pef, "%s/linear/linear.pef", folder);
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    options.reduce_dtype = "float16";
    refused(samba_session_new(context, pef, &options, &session), SAMBA_ERROR_NAME, "reduce_dtype is \"float16\"");
    options.reduce_dtype = "bfloat16";
    refused(samba_session_new(context, pef, &options, &session), SAMBA_ERROR_ARGUMENT, "give the session data_parallel");
    options.reduce_dtype = NULL;
    options.shard_optimizer = true;
    refused(samba_session_new(context, pef, &options, &session), SAMBA_ERROR_ARGUMENT, "give the session data_parallel");
    options.data_parallel = true;
    options.shard_optimizer = self.rank == 0;
    refused(samba_session_new(context, pef, &options, &session), SAMBA_ERROR_ARGUMENT, "has another shard_optimizer");
    need(samba_replicas_wait(context));
}

int main(int argc, char **argv)
{
    const int models = argc > 1 ? atoi(argv[1]) : 6;
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
        try_model(&d);
    }
    try_rounding(false);
    try_rounding(true);
    if (self.size > 1)
        check_options();
    if (self.rank == 0)
        printf("%d models: %d replicas that shard the optimizer train as those that do not\n", models, self.size);
    if (self.rank == 0) {
        char command[256];
        snprintf(command, sizeof command, "rm -r %s", folder);
        if (system(command) != 0)
            stop("%s cannot be removed", folder);
    }
    samba_context_free(context);
    return 0;
}
