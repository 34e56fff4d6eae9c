/* SPDX-License-Identifier: Apache-2.0
 *
 * Random models (random_models.h) through the whole compiler, and their stages run here, one part of one thread after the other,
 * on every ISA of this machine, with libxsmm and without, for teams of 1 to 3: outputs and gradients against the same graph
 * evaluated node by node in double. Buffers lie where they were planned, or each in memory of its own, as every scratch: filled
 * with NaN and followed by guard bytes, so what is read before it is written or written beyond the end shows.
 *
 * A family that rounds nowhere must agree exactly. For the others the reference tells how much is allowed: what its results move
 * when every element on the way is off by a few units in its last place, times the root of the longest sum.
 *
 * Usage: test_random_shapes [CASES [SEED [bare]]]. A case that fails prints its graph's text and its seed: test_random_shapes 1
 * SEED makes it again. Bare has no guard bytes, so that valgrind sees the first byte beyond. */
#include "training.h"
#include "device/cpu/kernel.h"
#include "machines.h"
#include "random_models.h"
#include "reference.h"

enum { DEFAULT_CASES = 180, MOST_SINKS = 64, MOST_LEAVES = 48, MOST_ELEMENTS = 4000000 };

#ifdef __SANITIZE_ADDRESS__
static int64_t guard = 0; /* the sanitizer has its own */
#else
static int64_t guard = 256;
#endif
static int case_count = DEFAULT_CASES, in_place;
static uint64_t first_seed;

/* ---- memory: a plan's buffers and a stage's scratch, each by itself ---- */
typedef struct block {
    char *data;
    int64_t bytes;
} block;

static block block_new(int64_t bytes)
{
    block b = {NULL, bytes};
    if (posix_memalign((void **)&b.data, SAMBA_ALIGNMENT, (size_t)(bytes + guard + (bytes == 0))) != 0)
        fail_msg("no memory for %lld bytes", (long long)bytes);
    memset(b.data, 0xff, (size_t)bytes); /* NaN, in every float dtype */
    memset(b.data + bytes, 0x5a, (size_t)guard);
    return b;
}

static bool block_is_whole(const block *b)
{
    for (int64_t i = 0; i < guard; i++)
        if ((unsigned char)b->data[b->bytes + i] != 0x5a)
            return false;
    return true;
}

/* Buffers move apart, each into its own block, unless a stage works over several that lie side by side: coalesce names such a
 * stage by how many tensors it joins. */
static void move_buffers(samba_plan *plan, char *memory, block *blocks)
{
    for (int32_t i = 0; i < plan->stage_count; i++)
        if (strstr(plan->stages[i].name, " tensors"))
            return;
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        blocks[i] = block_new(plan->buffers[i].bytes);
        plan->buffers[i].offset = blocks[i].data - memory;
    }
}

/* ---- leaves ----
 * Quarters, whose sums are exact and often equal or zero. Where sums round, such an end is at a relu's kink or another's tie by
 * rounding alone, and which side it falls on is nobody's mistake: there every element is up to an eighth off. */
typedef struct leaves {
    int count;
    const char *names[MOST_LEAVES];
    samba_array arrays[MOST_LEAVES];
} leaves;

static void make_leaf(random_case *t, const samba_graph *graph, const samba_node *node, leaves *all, samba_arena *arena)
{
    assert_true(all->count < MOST_LEAVES);
    samba_array *a = &all->arrays[all->count];
    *a = (samba_array){(samba_dtype)node->dtype, node->rank, {0}, node_numel(node), NULL};
    memcpy(a->shape, node->shape, sizeof a->shape);
    size_t width = samba_dtype_size(a->dtype);
    a->data = samba_arena_alloc(arena, (size_t)a->numel * width + 1);
    const char *name = samba_graph_name_at(graph, node->attrs->leaf.name);
    int64_t end = 0;
    for (int i = 0; i < t->index_count; i++)
        if (strcmp(t->indices[i].name, name) == 0)
            end = t->indices[i].end;
    for (int64_t i = 0; i < a->numel; i++) {
        double x = end ? (double)below(t, end) : (double)between(t, -8, 8) / 4;
        if (!end && !t->exact)
            x += (double)between(t, -(1 << 20), 1 << 20) * 0x1p-23;
        samba_store_double(a->dtype, (char *)a->data + (size_t)i * width, x);
    }
    all->names[all->count++] = name;
}

/* ---- what rounding may do ---- */
/* Per sink: how far the reference's result moves, in its greatest element, when parameters and all results on the way are off by
 * up to four units; twice that where sums are short, more where they are long. */
static void find_allowed(random_case *t, const samba_graph *graph, const leaves *all, const samba_array *values, double *allowed)
{
    const double root = 1 + sqrt(longest_sum(graph));
    double greatest[MOST_SINKS] = {0}, most = 0;
    memset(allowed, 0, MOST_SINKS * sizeof *allowed);
    for (int round = 0; round < 3 && !t->exact; round++) {
        samba_arena arena;
        samba_graph *moved;
        samba_array near[MOST_SINKS];
        samba_arena_init(&arena, context);
        need(noisy_graph(graph, &t->state, true, &moved));
        need(samba_graph_evaluate(moved, all->count, all->names, all->arrays, &arena, near));
        for (int64_t s = 0; s < graph->sink_count; s++)
            for (int64_t i = 0; i < values[s].numel; i++)
                allowed[s] = fmax(allowed[s], fabs(value_at(&near[s], i) - value_at(&values[s], i)));
        samba_graph_free(moved);
        samba_arena_free(&arena);
    }
    for (int64_t s = 0; s < graph->sink_count; s++) {
        for (int64_t i = 0; i < values[s].numel; i++)
            greatest[s] = isfinite(value_at(&values[s], i)) ? fmax(greatest[s], fabs(value_at(&values[s], i))) : greatest[s];
        most = fmax(most, greatest[s]);
    }
    for (int64_t s = 0; s < graph->sink_count; s++) {
        bool rounds = !t->exact || values[s].dtype == SAMBA_BFLOAT16 || values[s].dtype == SAMBA_FLOAT16 ||
                      most >= 0x1p13; /* multiples of 1/256, and what was summed on the way may have been greater by far */
        if (!samba_dtype_is_floating_point(values[s].dtype))
            allowed[s] = t->exact ? 0 : allowed[s]; /* an index may move where what it chooses between does */
        else                                        /* 2: three samples seldom move all one way, as a row's roundings may */
            allowed[s] =
                rounds ? root * (2 * allowed[s] + 4 * epsilon_of(values[s].dtype) * (t->cancels ? most : greatest[s])) : 0;
    }
}

/* ---- one case ---- */
typedef struct running {
    uint64_t seed;
    const char *family;
    random_case *drawn;
    const samba_graph *traced, *graph; /* as the model was traced, with its gradients */
    samba_plan *plan;                  /* NULL: not compiled yet */
    leaves all;
    samba_array values[MOST_SINKS]; /* of the graph's sinks */
    double allowed[MOST_SINKS];
} running;

static void report(const running *run, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void report(const running *run, const char *format, ...)
{
    char message[512], *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (samba_graph_print(run->traced, &text) == SAMBA_OK)
        fprintf(stderr, "%s\n", text); /* cmocka would cut it */
    samba_text_free(context, text);
    samba_text log;
    samba_text_init(&log, context);
    if (run->plan && samba_plan_log(context, run->plan, &log) == SAMBA_OK)
        fprintf(stderr, "%s\n", log.data);
    samba_text_clear(&log);
    print_error("%s, seed %llu: %s\n", run->family, (unsigned long long)run->seed, message);
    fail();
    abort();
}

static int32_t tensor_named(const running *run, const char *name)
{
    for (int32_t i = 0; i < run->plan->tensor_count; i++)
        if (strcmp(run->plan->tensors[i].name, name) == 0)
            return i;
    report(run, "the plan has no tensor %s", name);
}

static void fill_device(const samba_plan *plan, const leaves *all, char *memory)
{
    for (int32_t i = 0; i < plan->constant_count; i++)
        memcpy(memory + plan->buffers[plan->constants[i].buffer].offset, plan->blobs[plan->constants[i].blob]->data,
               (size_t)plan->blobs[plan->constants[i].blob]->size);
    for (int32_t i = 0; i < plan->argin_count; i++) {
        int64_t whole = (int64_t)plan->argins[i].value;
        const void *value = plan->argins[i].dtype == SAMBA_INT64 ? (const void *)&whole : &plan->argins[i].value;
        memcpy(memory + plan->buffers[plan->argins[i].buffer].offset, value, 8);
    }
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[i];
        samba_dtype dtype = (samba_dtype)tensor->dtype;
        int64_t numel;
        assert_true(samba_shape_numel(tensor->rank, tensor->shape, &numel));
        char *data = memory + plan->buffers[tensor->buffer].offset;
        bool state = tensor->kind == SAMBA_KIND_BUFFER || tensor->kind == SAMBA_KIND_GRADIENT;
        for (int64_t k = 0; state && k < numel; k++)
            samba_store_double(dtype, data + (size_t)k * samba_dtype_size(dtype),
                               tensor->init == SAMBA_INIT_CONSTANT ? tensor->init_a : 0);
        for (int l = 0; l < all->count; l++)
            if (strcmp(all->names[l], tensor->name) == 0)
                memcpy(data, all->arrays[l].data, (size_t)numel * samba_dtype_size(dtype));
    }
}

static void run_stage(const running *run, int32_t index, samba_preparing *prepare, const char *how)
{
    samba_prepared stage;
    const samba_stage *source = &run->plan->stages[index];
    prepare->stage_index = index;
    if (samba_prepare_stage(prepare, source, &stage) != SAMBA_OK)
        report(run, "stage %s: %s", source->name, samba_error_message(context));
    block scratch = block_new(stage.shared_scratch + stage.thread_scratch * prepare->threads), kept = block_new(stage.kept_bytes);
    memset(kept.data, 0, (size_t)kept.bytes);
    if (stage.kept)
        *stage.kept = kept.data;
    for (int phase = 0; phase < stage.phases; phase++)
        for (int thread = 0; thread < prepare->threads; thread++)
            stage.run(stage.state, scratch.data, phase, thread, prepare->threads);
    if (!block_is_whole(&scratch) || !block_is_whole(&kept))
        report(run, "stage %s wrote beyond its scratch or the packs it keeps (%s)", source->name, how);
    if (*prepare->fault)
        report(run, "stage %s met an index out of range (%s)", source->name, how);
    free(scratch.data);
    free(kept.data);
}

static void run_plan(const running *run, const samba_cpu_machine *machine, const char *kind)
{
    samba_plan *plan = run->plan;
    const samba_graph *graph = run->graph;
    const int threads = (int)(between(run->drawn, 0, 3) ? between(run->drawn, 1, 3) : between(run->drawn, 4, 16));
    const bool apart = chance(run->drawn, 50);
    char how[96];
    volatile int32_t fault = 0;
    samba_arena arena;
    snprintf(how, sizeof how, "%s%s, libxsmm %s, %d threads, buffers %s", samba_isa_names[machine->isa], kind,
             machine->libxsmm ? "on" : "off", threads, apart ? "apart" : "as planned");
    samba_arena_init(&arena, context);
    samba_constants constants;
    need(samba_constants_find(plan, &arena, &constants));
    samba_buffer *planned = plan->buffers;
    plan->buffers = samba_arena_alloc(&arena, (size_t)plan->buffer_count * sizeof *planned + 1);
    block memory = block_new(plan->memory_bytes), *blocks = calloc((size_t)plan->buffer_count + 1, sizeof *blocks);
    memcpy(plan->buffers, planned, (size_t)plan->buffer_count * sizeof *planned);
    if (apart)
        move_buffers(plan, memory.data, blocks);
    fill_device(plan, &run->all, memory.data);
    samba_preparing prepare = {.context = context,
                               .machine = machine,
                               .threads = threads,
                               .memory = memory.data,
                               .buffers = plan->buffers,
                               .arena = &arena,
                               .fault = &fault,
                               .far = threads % 2 == 0,
                               .constant = constants.buffer};
    for (int32_t c = 0; c < plan->call_count; c++) {
        const samba_plan_section *section = &plan->sections[plan->calls[c]];
        for (int32_t i = section->first_stage; i < section->first_stage + section->stage_count; i++) {
            run_stage(run, i, &prepare, how);
            for (int32_t b = 0; b < plan->buffer_count; b++)
                if (blocks[b].data && !block_is_whole(&blocks[b]))
                    report(run, "stage %s wrote beyond buffer %d (%s)", plan->stages[i].name, (int)b, how);
        }
    }
    if (!block_is_whole(&memory))
        report(run, "a stage wrote beyond the plan's memory (%s)", how);
    for (int64_t s = 0; s < graph->sink_count; s++) {
        const char *name = sink_name(graph, &graph->sinks[s]);
        const samba_plan_tensor *tensor = &plan->tensors[tensor_named(run, name)];
        samba_array given = {(samba_dtype)tensor->dtype, 0, {0}, 0, memory.data + plan->buffers[tensor->buffer].offset};
        if (given.dtype != run->values[s].dtype)
            report(run, "%s is %s", name, samba_dtype_name(given.dtype));
        for (int64_t i = 0; i < run->values[s].numel; i++) {
            double x = value_at(&run->values[s], i), y = value_at(&given, i);
            if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= run->allowed[s]))
                report(run, "%s[%lld] is %.9g, not %.9g; off by %g, %g allowed (%s)", name, (long long)i, y, x, fabs(x - y),
                       run->allowed[s], how);
        }
    }
    for (int32_t b = 0; b < plan->buffer_count; b++)
        free(blocks[b].data);
    free(blocks);
    free(memory.data);
    plan->buffers = planned;
    samba_arena_free(&arena);
}

static const random_family *choose_family(random_case *t)
{
    int64_t total = 0;
    for (int i = 0; i < SAMBA_COUNT(random_families); i++)
        total += random_families[i].share;
    const random_family *family = random_families;
    for (int64_t pick = below(t, total); pick >= family->share; family++)
        pick -= family->share;
    return family;
}

/* A seed's model, traced in t, and its graph; of smaller sizes until it has few elements. */
static samba_graph *make_model(random_case *t, running *run)
{
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_FLOAT32,  SAMBA_FLOAT32,
                                         SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_FLOAT16};
    for (int64_t budget = 100000;; budget /= 4) {
        *t =
            (random_case){.state = run->seed * UINT64_C(0xd1342543de82ef95), .context = context, .exact = true, .budget = budget};
        const random_family *family = choose_family(t);
        run->family = family->name;
        t->dtype = dtypes[below(t, SAMBA_COUNT(dtypes))];
        need(samba_graph_new(context, "random", &t->graph));
        run->traced = t->graph;
        family->make(t);
        if (samba_graph_status(t->graph) != SAMBA_OK)
            report(run, "the generator made no sound model: %s", samba_error_message(context));
        samba_graph *graph;
        need(t->inference ? samba_graph_rewrite(t->graph, NULL, NULL, &graph) : samba_autodiff(t->graph, 1, NULL, &graph));
        int64_t elements = 0; /* of all values: how long the reference takes, about */
        for (int64_t i = 0; i < graph->node_count; i++)
            elements += node_numel(&graph->nodes[i]);
        if (elements <= MOST_ELEMENTS || budget == 0)
            return graph;
        samba_graph_free(graph);
        samba_graph_free(t->graph);
    }
}

static uint64_t next_figure(void *t) { return (uint64_t)below(t, 1 << 20); }

static void run_case(uint64_t seed)
{
    random_case t;
    running run = {.seed = seed, .drawn = &t};
    samba_graph *graph = make_model(&t, &run);
    run.graph = graph;
    char path[512];
    samba_compile_options options = compile_of("random", NULL, NULL, 0, NULL);
    options.graph = t.graph;
    options.inference = t.inference;
    samba_plan plan;
    if (samba_compile(context, &options, path, sizeof path) != SAMBA_OK || samba_pef_read(context, path, &plan) != SAMBA_OK)
        report(&run, "compile: %s", samba_error_message(context));
    run.plan = &plan;
    in_place += in_place_stages(&plan);
    samba_arena arena;
    samba_arena_init(&arena, context);
    assert_true(graph->sink_count <= MOST_SINKS);
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == SAMBA_OP_input || graph->nodes[i].op == SAMBA_OP_parameter)
            make_leaf(&t, graph, &graph->nodes[i], &run.all, &arena);
    need(samba_graph_evaluate(graph, run.all.count, run.all.names, run.all.arrays, &arena, run.values));
    find_allowed(&t, graph, &run.all, run.values, run.allowed);
    if (LIBXSMM_WAYS > 1)
        run_plan(&run, machine_with(samba_isa_best(), true), "");
    samba_cpu_machine strange = *machine_with(samba_isa_best(), between(&t, 0, 1));
    make_strange(&strange, next_figure, &t);
    run_plan(&run, &strange, " of a strange machine");
    SAMBA_EACH_ISA (isa)
        run_plan(&run, machine_with((samba_isa)isa, false), "");
    samba_arena_free(&arena);
    samba_plan_free(&plan);
    samba_graph_free(graph);
    samba_graph_free(t.graph);
}

TEST(test_cases)
{
    print_message("%d cases from seed %llu on\n", case_count, (unsigned long long)first_seed);
    for (int i = 0; i < case_count; i++)
        run_case(first_seed + (uint64_t)i);
    print_message("%d stages in place\n", in_place);
    assert_true(case_count < 100 || in_place > case_count / 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    case_count = argc > 1 ? atoi(argv[1]) : DEFAULT_CASES;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : random_seed() * 1000 % 1000000000;
    if (argc > 3 && strcmp(argv[3], "bare") == 0)
        guard = 0;
    return cmocka_run_group_tests(tests, harness_begin, harness_end);
}
