/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean of gradients over replicas, to the last bit, of every floating-point dtype and of sizes around those in which they
 * travel. A loss that is a sum of parameters times given numbers has these for gradients, so all know what the mean has to be:
 * the sum in the order of ranks, in the dtype or, of 16 bits, in float32, over the number of replicas. PEFs have one graph or
 * two that share parameters; runs go by the schedule, by types or numbers of sections, or by two parts of the calls; in every
 * mode, with one thread or two, by an instruction set of those that every processor here has.
 *
 *   mpirun -n 2 test_ranges CASES [QUEUE]     QUEUE: one case more, of as many ranges at once as are given */
#include <sambaflow/sambaflow.h>

#include "../seed.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 2048, DTYPES = 4, MODES = 3, WAYS = 4, RUNS = 6, GRAPHS = 2 };
static const samba_dtype dtypes[DTYPES] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_FLOAT16};
static const char *const modes[MODES] = {"normal", "inorder", "optimal"}, *const graph_names[GRAPHS] = {"a", "b"},
                         *const input_names[GRAPHS] = {"xa", "xb"}, *const losses[GRAPHS] = {"loss_a", "loss_b"};

typedef struct drawn { /* a PEF */
    int count, graphs;
    samba_dtype dtype[MOST];
    int64_t size[MOST], offset[MOST]; /* of its numbers in an input */
    bool in_second[MOST];             /* the first graph has all */
    int64_t total;
    bool norm, spatial;
    int threads;
    const char *isa;
} drawn;

typedef struct one_graph { /* what a model function is told */
    const drawn *d;
    int graph;
} one_graph;

static samba_context *context;
static samba_replicas self;
static uint64_t seed;
static int number;

static void stop(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "replica %d, seed %llu, case %d: ", self.rank, (unsigned long long)seed, number);
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
static bool has(const drawn *d, int graph, int i) { return graph == 0 || d->in_second[i]; }

static void model(samba_graph *g, const void *options)
{
    const one_graph *of = options;
    const drawn *d = of->d;
    samba_value x = samba_input(g, input_names[of->graph]), all = {0};
    for (int i = 0; i < d->count; i++) {
        char name[16];
        if (!has(d, of->graph, i))
            continue;
        snprintf(name, sizeof name, "p%d", i);
        samba_value p = samba_parameter(g, name, d->dtype[i], 1, &d->size[i], (samba_initializer){SAMBA_INIT_UNIFORM, -1, 1});
        samba_value its = samba_cast(samba_narrow(x, 0, d->offset[i], d->size[i]), d->dtype[i]);
        samba_value sum = samba_cast(samba_sum(samba_mul(p, its), 0, NULL, false), SAMBA_FLOAT32);
        all = all.graph ? samba_add(all, sum) : sum;
    }
    samba_loss(g, losses[of->graph], all);
}

static int64_t draw_size(uint64_t *state, samba_dtype dtype, bool large)
{
    const int64_t piece = ((int64_t)1 << 20) / (int64_t)samba_dtype_size(dtype);
    const int64_t off = (int64_t)(next_seed(state) % 7) - 3;
    switch (large ? next_seed(state) % 4 : 4 + next_seed(state) % 4) {
    case 0: return piece + off;
    case 1: return 2 * piece + off;
    case 2: return piece / 4 + off;
    case 3: return 4 * piece + 1021; /* a bucket and more */
    case 4: return 1;
    case 5: return 1 + (int64_t)(next_seed(state) % 5);
    default: return 1 + (int64_t)(next_seed(state) % 300);
    }
}

static void draw(drawn *d, uint64_t *state, int queue)
{
    static const char *const isas[] = {NULL, "generic", "avx2"};
    const int kind = (int)(next_seed(state) % 3);
    memset(d, 0, sizeof *d);
    d->count = queue ? queue : kind == 0 ? 1 + (int)(next_seed(state) % 6) : kind == 1 ? 200 + (int)(next_seed(state) % 150) : 12;
    d->graphs = 1 + (next_seed(state) % 3 == 0);
    d->norm = next_seed(state) % 3 == 0;
    d->spatial = !queue && next_seed(state) % 4 == 0;
    if (number == 0 && !queue) { /* parts of joint sections stand behind those of all graphs */
        d->graphs = GRAPHS;
        d->spatial = true;
    }
    d->threads = 1 + (next_seed(state) % 3 == 0);
    d->isa = isas[next_seed(state) % 3];
    for (int i = 0; i < d->count; i++) {
        /* neighbours of one dtype are one range */
        d->dtype[i] = queue ? dtypes[i % 2] : dtypes[next_seed(state) % DTYPES];
        d->size[i] = queue ? 1 + i % 3 : draw_size(state, d->dtype[i], kind == 0 || (kind == 2 && i % 4 == 0));
        d->offset[i] = d->total;
        d->total += d->size[i];
        d->in_second[i] = i == 0 || next_seed(state) % 2;
    }
}

static void compile(const drawn *d, const char *folder)
{
    samba_multigraph *graphs;
    samba_tensor *inputs[GRAPHS];
    need(samba_multigraph_new(context, &graphs));
    for (int i = 0; i < d->graphs; i++) {
        const one_graph of = {d, i};
        samba_optimizer optimizer = samba_sgd(0.5);
        optimizer.max_grad_norm = d->norm ? 1e30 : 0; /* none is so large */
        need(samba_tensor_empty(context, input_names[i], SAMBA_FLOAT32, 1, &d->total, &inputs[i]));
        samba_compile_options options = samba_compile_defaults();
        options.name = graph_names[i];
        options.model = model;
        options.model_options = &of;
        options.input_count = 1;
        options.inputs = &inputs[i];
        options.optimizer_count = 1;
        options.optimizers = &optimizer;
        options.mapping = d->spatial ? SAMBA_MAPPING_SPATIAL : SAMBA_MAPPING_SECTION;
        options.data_parallel = true;
        options.output_folder = folder;
        options.pef_name = "ranges";
        options.verify = d->count < 100;
        if (d->graphs == 1)
            need(samba_compile(context, &options, NULL, 0));
        else
            need(samba_multigraph_add(graphs, &options, false));
    }
    if (d->graphs > 1)
        need(samba_multigraph_compile(graphs, "ranges", folder, NULL, 0));
    samba_multigraph_free(graphs);
    for (int i = 0; i < d->graphs; i++)
        samba_tensor_free(inputs[i]);
}

/* ---- what is given ---- */
/* Number `at` of what replica `rank` gives in a run: of float32, or of few enough bits for all dtypes. */
static float given(const drawn *d, int run, int rank, int parameter, int64_t at)
{
    uint64_t state = seed + (uint64_t)run * 1000003 + (uint64_t)rank * 7919 + (uint64_t)(d->offset[parameter] + at) * 104729;
    const uint64_t bits = next_seed(&state);
    return samba_dtype_size(d->dtype[parameter]) == 2 ? (float)(int)(bits % 255 - 127) / 16
                                                      : (float)((double)(bits >> 11) / 9007199254740992.0 - 0.5);
}

/* float32 to 16 bits, by the library's own rounding, which others test. */
static void round_to(samba_dtype dtype, const float *x, int64_t count, void *out)
{
    samba_tensor *from, *to;
    need(samba_tensor_new(context, "from", SAMBA_FLOAT32, 1, &count, &from));
    memcpy(samba_tensor_data(from), x, (size_t)count * sizeof *x);
    need(samba_tensor_new(context, "to", dtype, 1, &count, &to));
    need(samba_tensor_copy(to, from));
    memcpy(out, samba_tensor_data(to), (size_t)count * 2);
    samba_tensor_free(from);
    samba_tensor_free(to);
}

/* The bytes that a gradient has to have. */
static void expect(const drawn *d, int run, int parameter, char *out)
{
    const samba_dtype dtype = d->dtype[parameter];
    const int64_t count = d->size[parameter];
    float *sums = malloc(sizeof *sums * (size_t)(count + 1));
    if (!sums)
        stop("no memory");
    for (int64_t i = 0; i < count; i++) {
        float sum = given(d, run, 0, parameter, i);
        double wide = sum;
        for (int rank = 1; rank < self.size; rank++) {
            sum += given(d, run, rank, parameter, i);
            wide += (double)given(d, run, rank, parameter, i);
        }
        sums[i] = sum / (float)self.size;
        wide /= self.size;
        if (dtype == SAMBA_FLOAT64)
            memcpy(out + 8 * i, &wide, 8);
    }
    if (dtype == SAMBA_FLOAT32)
        memcpy(out, sums, (size_t)count * 4);
    else if (dtype != SAMBA_FLOAT64)
        round_to(dtype, sums, count, out);
    free(sums);
}

static void check_gradients(const drawn *d, samba_session *session, int graph, int run, const char *how)
{
    for (int i = 0; i < d->count; i++) {
        char name[24];
        samba_tensor *gradient;
        const size_t size = samba_dtype_size(d->dtype[i]), bytes = (size_t)d->size[i] * size;
        if (!has(d, graph, i))
            continue;
        snprintf(name, sizeof name, "p%d.grad", i);
        need(samba_session_get_by_name(session, name, &gradient));
        char *wanted = malloc(bytes + 1), *found = samba_tensor_data(gradient);
        if (!wanted)
            stop("no memory");
        expect(d, run, i, wanted);
        for (size_t at = 0; at < bytes; at++)
            if (wanted[at] != found[at])
                stop("%s: %s of %lld %s is not the mean from element %zu on", how, name, (long long)d->size[i],
                     samba_dtype_name(d->dtype[i]), at / size);
        free(wanted);
        samba_tensor_free(gradient);
    }
}

static void check_alike(samba_session *session, const char *how)
{
    uint64_t own = 14695981039346656037u, *all = malloc(sizeof *all * (size_t)self.size);
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        samba_tensor *tensor;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER)
            continue;
        need(samba_session_get_by_name(session, info.name, &tensor));
        for (int64_t k = 0; k < info.bytes; k++)
            own = (own ^ ((unsigned char *)samba_tensor_data(tensor))[k]) * 1099511628211u; /* FNV-1a */
        samba_tensor_free(tensor);
    }
    need(samba_replicas_gather(context, &own, sizeof own, all));
    for (int rank = 1; rank < self.size; rank++)
        if (all[rank] != all[0])
            stop("%s: replica %d has other parameters than replica 0", how, rank);
    free(all);
}

/* ---- runs ---- */
static void run_once(const drawn *d, samba_session *session, samba_run_options *run, int graph, int way, uint64_t *state)
{
    static const char *const types[] = {"zerograd", "fwd", "bckwd", "reduce", "gradnorm", "opt"};
    int ids[4 * MOST];
    samba_graph_info info;
    need(samba_session_graph_info(session, graph, &info));
    if (info.section_count > 4 * MOST)
        stop("%d sections", info.section_count);
    if (way == 1) {
        run->section_types = types;
        run->section_type_count = 6;
    } else if (way == 2) {
        for (int i = 0; i < info.section_count; i++)
            ids[i] = info.first_section + i;
        run->section_ids = ids;
        run->section_id_count = info.section_count;
    } else if (way == 3) {
        const int middle = (int)(next_seed(state) % (uint64_t)(info.call_count + 1));
        run->run_until_call_id = middle;
        if (middle > 0)
            need(samba_run(session, run));
        run->run_until_call_id = -1;
        run->run_from_call_id = middle;
        if (middle == info.call_count)
            return;
    }
    (void)d;
    need(samba_run(session, run));
}

/* Sections of REDUCE of a graph: each is a range. */
static int count_ranges(const samba_session *session, int graph)
{
    int count = 0;
    for (int i = 0; i < samba_session_section_count(session); i++) {
        samba_section_info info;
        need(samba_session_section_info(session, i, &info));
        count += info.graph == graph && strcmp(info.type, "REDUCE") == 0;
    }
    return count;
}

/* `least`: ranges that the first graph has. */
static void try_case(const char *folder, const drawn *d, int least, uint64_t *state)
{
    static const char *const ways[WAYS] = {"schedule", "types", "ids", "calls"};
    char path[4096], how[256];
    snprintf(path, sizeof path, "%s/ranges/ranges.pef", folder);
    if (self.rank == 0)
        compile(d, folder);
    need(samba_replicas_wait(context));
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    options.threads = d->threads;
    options.seed = seed;
    options.isa = d->isa;
    options.data_parallel = true;
    need(samba_session_new(context, path, &options, &session));
    if (count_ranges(session, 0) < least)
        stop("%d ranges, expected %d", count_ranges(session, 0), least);
    for (int i = 0; i < RUNS; i++) {
        const int graph = d->graphs == 1 ? 0 : (int)(next_seed(state) % 2), way = (int)(next_seed(state) % WAYS);
        samba_tensor *input;
        samba_run_options run = samba_run_defaults();
        need(samba_tensor_new(context, input_names[graph], SAMBA_FLOAT32, 1, &d->total, &input));
        for (int p = 0; p < d->count; p++)
            for (int64_t k = 0; k < d->size[p]; k++)
                ((float *)samba_tensor_data(input))[d->offset[p] + k] = given(d, i, self.rank, p, k);
        run.input_count = 1;
        run.inputs = &input;
        run.graph_name = d->graphs > 1 ? graph_names[graph] : NULL;
        run.data_parallel = true;
        run.data_parallel_mode = modes[next_seed(state) % MODES];
        snprintf(how, sizeof how, "%d parameters%s, %d threads, %s, run %d of graph %s by %s, %s", d->count,
                 d->spatial ? " (spatial)" : "", d->threads, samba_session_isa(session), i, graph_names[graph], ways[way],
                 run.data_parallel_mode);
        run_once(d, session, &run, graph, way, state);
        check_gradients(d, session, graph, i, how);
        check_alike(session, how);
        samba_tensor_free(input);
    }
    samba_session_free(session);
    need(samba_replicas_wait(context));
}

int main(int argc, char **argv)
{
    const int cases = argc > 1 ? atoi(argv[1]) : 6, queue = argc > 2 ? atoi(argv[2]) : 0;
    static drawn d;
    char folder[] = "/tmp/ranges.XXXXXX";
    seed = random_seed();
    if (queue > MOST || samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    need(samba_replicas_find(context, &self));
    if (self.rank == 0 && !mkdtemp(folder))
        stop("%s cannot be made", folder);
    need(samba_replicas_broadcast(context, folder, sizeof folder, 0));
    need(samba_replicas_broadcast(context, &seed, sizeof seed, 0));
    uint64_t state = seed;
    if (self.rank == 0)
        printf("seed %llu, %d replicas, %s\n", (unsigned long long)seed, self.size, self.network);
    for (number = 0; number < cases + (queue > 0); number++) {
        draw(&d, &state, number == cases ? queue : 0);
        try_case(folder, &d, number == cases ? queue : 1, &state);
    }
    if (self.rank == 0) {
        char command[256];
        printf("%d cases: gradients of %d replicas are their mean to the last bit\n", number, self.size);
        snprintf(command, sizeof command, "rm -r %s", folder);
        if (system(command) != 0)
            stop("%s cannot be removed", folder);
    }
    samba_context_free(context);
    return 0;
}
