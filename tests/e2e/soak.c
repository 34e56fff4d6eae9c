/* SPDX-License-Identifier: Apache-2.0
 *
 * Soak: soak SECONDS [SEED] [ACTIONS]. What programs do all night, in random order for so long: models are compiled and loaded,
 * trained, evaluated, run in pieces, accumulate gradients, save and load files and checkpoints, generate by a cache, are profiled
 * and reported, are given wrong names and truncated files, run side by side on threads, have an allocation refused, and are
 * freed. ACTIONS, if given, ends it after so many.
 *
 * Ten times or more, at least once a minute, all is freed and the process looked at. It fails where
 *   a block of the library's is alive (each is counted), or a descriptor is open that was not when everything had been done once;
 *   malloc holds a byte more than it ever did in the warm-up, the first fifth of the time: leaks of the libraries beneath;
 *   resident memory that is no file's has grown by more than 1 MiB since then: what is mapped, as the code that libxsmm makes for
 *   shapes it meets late.
 *
 * So that these are exact, malloc has one arena and no caches of threads, which would count as held, gives back what is free
 * before it is asked, and has no huge pages. Under valgrind and sanitizers malloc is theirs and says nothing;
 * they look for leaks themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../seed.h"
#include "failing_allocator.h"
#include "training.h"

#include "base/team.h"
#include "examples/gpt2/model.h"
#include "mapped_models.h"
#include "tensor/philox.h"
#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sambaflow/checkpoint.h>
#include <sambaflow/function.h>
#include <sambaflow/multigraph.h>
#include <sambaflow/report.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

static double most_seconds = 10;
static int64_t most_actions = INT64_MAX, actions;
static uint64_t seed, drawn;
static failing_allocator memory;
static int below(int bound) { return (int)samba_philox_below(samba_philox_word64(seed, drawn++), (uint64_t)bound); }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- programs: a PEF and the session that has it ---- */
enum { SLOTS = 3, GPT2 = MAPPED_MODELS, KINDS, PROMPT = 6, PLACES = 16, WORDS = 50 };
typedef struct slot {
    char pef[192];
    int kind, input_count;
    const char *graph; /* that trains */
    samba_tensor *inputs[2];
    samba_session *session;
} slot;
static slot slots[SLOTS];
static const gpt2_settings sizes = {
    .n_layer = 2, .n_head = 2, .n_embd = 16, .block_size = PLACES, .vocab_size = WORDS, .dropout = 0.1};

static void slot_free(slot *s)
{
    samba_session_free(s->session);
    samba_tensor_free(s->inputs[0]);
    samba_tensor_free(s->inputs[1]);
    *s = (slot){.session = NULL};
}

static void load(slot *s)
{
    samba_session_free(s->session);
    s->session = NULL;
    s->session = open_session(s->pef, below(2), (uint64_t)below(100)); /* one thread, or as many as OpenMP offers */
}

static void compile_gpt2(slot *s, const char *name)
{
    gpt2_step prefill = {&sizes, PROMPT, below(2) ? SAMBA_BFLOAT16 : SAMBA_FLOAT32}, decode = {&sizes, 1, prefill.cache};
    samba_tensor *inputs[4] = {tensor("tokens", SAMBA_INT64, 1, SHAPE(PROMPT)), tensor("last", SAMBA_INT64, 1, SHAPE(1)),
                               tensor("token", SAMBA_INT64, 1, SHAPE(1)), tensor("position", SAMBA_INT64, 1, SHAPE(1))};
    samba_multigraph *graphs;
    need(samba_multigraph_new(context, &graphs));
    samba_optimizer optimizer = samba_adamw(0.01);
    samba_compile_options o = compile_of("train", gpt2_train, &sizes, 2, s->inputs);
    o.optimizers = &optimizer, o.optimizer_count = 1;
    need(samba_multigraph_add(graphs, &o, false));
    o = compile_of("prefill", gpt2_prefill, &prefill, 2, inputs);
    o.inference = true, o.precision = prefill.cache == SAMBA_BFLOAT16 ? SAMBA_BF16 : SAMBA_FP32;
    need(samba_multigraph_add(graphs, &o, false));
    o.name = "decode", o.model = gpt2_decode, o.model_options = &decode, o.inputs = inputs + 2;
    need(samba_multigraph_add(graphs, &o, false));
    refuse(samba_multigraph_add(graphs, &o, false), SAMBA_ERROR_NAME, "decode");
    need(samba_multigraph_compile(graphs, name, folder, s->pef, sizeof s->pef));
    samba_multigraph_free(graphs);
    for (int i = 0; i < 4; i++)
        samba_tensor_free(inputs[i]);
}

static void compile(slot *s)
{
    slot_free(s);
    s->kind = below(KINDS);
    s->input_count = 2;
    char name[16];
    snprintf(name, sizeof name, "slot%d", (int)(s - slots));
    if (s->kind == GPT2) {
        s->graph = "train";
        s->inputs[0] = tensor("input", SAMBA_INT64, 2, SHAPE(2, PLACES));
        s->inputs[1] = tensor("label", SAMBA_INT64, 2, SHAPE(2, PLACES));
        for (int i = 0; i < 2; i++)
            need(samba_fill_integers(s->inputs[i], 1 + (uint64_t)i, 0, WORDS));
        compile_gpt2(s, name);
    } else {
        mapped_inputs(s->kind, s->inputs);
        int accumulation = below(2) ? 1 : 3;
        int64_t budget = below(2) ? 0 : (1 + below(2)) * mapped_least(s->kind, s->inputs, accumulation);
        samba_compile_options o = mapped_options(s->kind, s->inputs, accumulation, budget,
                                                 budget == 0 && below(2) ? SAMBA_MAPPING_SPATIAL : SAMBA_MAPPING_SECTION);
        o.precision = below(3) ? SAMBA_FP32 : SAMBA_BF16;
        o.pef_name = name;
        need(samba_compile(context, &o, s->pef, sizeof s->pef));
    }
    load(s);
}

static samba_run_options run_of(slot *s)
{
    samba_run_options r = samba_run_defaults();
    r.inputs = s->inputs, r.input_count = s->input_count, r.graph_name = s->graph;
    return r;
}

static void loss_is_finite(slot *s)
{
    if (!isfinite(get_scalar(s->session, "loss")))
        fail_msg("the loss of %s is not finite", s->pef);
}

/* ---- actions ---- */
static void train(slot *s)
{
    for (int i = 1 + below(20); i > 0; i--) {
        double rate = 0.001 * (1 + below(10));
        samba_run_options r = run_of(s);
        r.hyperparameters = &(samba_hyperparameter){"lr", rate}, r.hyperparameter_count = below(2);
        need(samba_run(s->session, &r));
    }
    loss_is_finite(s);
}

static void run_types(slot *s, int count, const char *const *types, bool train)
{
    samba_run_options r = run_of(s);
    r.section_types = types, r.section_type_count = count, r.train = train;
    need(samba_run(s->session, &r));
}

static void evaluate(slot *s)
{
    for (int i = 1 + below(5); i > 0; i--)
        run_types(s, 1, (const char *[]){"fwd"}, false);
    loss_is_finite(s);
}

static void run_in_pieces(slot *s)
{
    run_types(s, 2, (const char *[]){"FWD", "BCKWD"}, true);
    samba_section_info section;
    bool clips = false;
    for (int i = 0; i < samba_session_section_count(s->session); i++) {
        need(samba_session_section_info(s->session, i, &section));
        clips = clips || strcmp(section.type, "GRADNORM") == 0;
    }
    run_types(s, 1 + clips, clips ? (const char *[]){"GRADNORM", "OPT"} : (const char *[]){"OPT"}, true);
    samba_run_options r = run_of(s);
    int calls = samba_session_call_count(s->session), until = 1 + below(calls);
    r.run_until_call_id = until;
    need(samba_run(s->session, &r));
    r.run_from_call_id = until, r.run_until_call_id = -1;
    if (until < calls)
        need(samba_run(s->session, &r));
    samba_session_reset_random(s->session, (uint64_t)below(5));
    samba_session_reset_stats(s->session);
}

/* A second session that loads what this one saved goes on with the same bits. */
static void save_and_load(slot *s)
{
    char path[160];
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    bool with_state = below(2);
    need(samba_session_save(s->session, path, with_state));
    samba_session *other = open_session(s->pef, 1, 7);
    need(samba_session_load(other, path));
    need(samba_session_load(s->session, path));
    assert_same_bits(s->session, other, 1u << SAMBA_KIND_PARAMETER);
    samba_session_free(other);
}

static void list_damaged(const char *path)
{
    samba_checkpoint *point;
    samba_status status = samba_checkpoint_newest(context, path, &point);
    if (status != SAMBA_OK && status != SAMBA_ERROR_FORMAT)
        need(status);
    if (status == SAMBA_OK)
        samba_checkpoint_free(point);
}

static void checkpoint(slot *s)
{
    char path[160], command[320], damaged[320];
    snprintf(path, sizeof path, "%s/points%d", folder, (int)(s - slots));
    need(samba_checkpoint_prepare(context, path));
    samba_tensor *order = tensor("order", SAMBA_INT64, 1, SHAPE(40));
    samba_checkpoint_options o = samba_checkpoint_defaults();
    o.folder = path, o.text = "{\"epoch\": 1}", o.tensors = &order, o.tensor_count = 1;
    o.keep = below(4), o.shard_size = below(2) ? 0 : 1000 + below(5000);
    for (int i = 0, count = 1 + below(3), first = below(5); i < count; i++) {
        o.step = first + i;
        need(samba_checkpoint_save(s->session, &o));
    }
    samba_tensor_free(order);
    samba_checkpoint *point;
    need(samba_checkpoint_newest(context, path, &point));
    assert_non_null(point);
    samba_session *other = open_session(s->pef, 1, 7);
    need(samba_checkpoint_load(other, point));
    if (samba_checkpoint_step(point) == o.step)
        assert_same_bits(s->session, other, LEARNED);
    snprintf(damaged, sizeof damaged, "%s/%s", samba_checkpoint_path(point),
             below(2) ? "checkpoint.json" : "program.safetensors");
    samba_checkpoint_free(point);
    samba_session_free(other);
    if (below(2))
        assert_int_equal(truncate(damaged, below(30)), 0);
    list_damaged(path);
    snprintf(command, sizeof command, "rm -rf %s", path);
    assert_int_equal(system(command), 0);
}

static void profile(slot *s)
{
    need(samba_session_profile(s->session, (samba_profile)below(3), below(300)));
    train(s);
    for (int i = 0; i < samba_session_section_count(s->session); i++) {
        samba_time time;
        need(samba_session_section_time(s->session, i, &time));
    }
    if (below(2))
        need(samba_session_profile(s->session, SAMBA_PROFILE_OFF, 0));
}

static void report(slot *s)
{
    samba_machine machine = {
        .threads = 1, .flops_per_second = 1e11, .memory_bytes_per_second = 1e10, .cache_bytes_per_second = 1e11};
    char *page;
    need(samba_session_page(s->session, below(2) ? &machine : NULL, s->pef, &page));
    assert_non_null(strstr(page, "<html"));
    samba_text_free(context, page);
}

static void copy_part(const char *from, const char *to, double part)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    struct stat about;
    assert_int_equal(fstat(fileno(in), &about), 0);
    for (int64_t left = (int64_t)(part * (double)about.st_size); left > 0; left--)
        putc(getc(in), out);
    fclose(in);
    fclose(out);
}

static void mistakes(slot *s)
{
    char path[160];
    samba_session *none = NULL;
    samba_tensor *wrong = tensor("nothing of that name", SAMBA_FLOAT32, 1, SHAPE(3)), *found;
    refuse(samba_session_set(s->session, wrong), SAMBA_ERROR_NAME, "nothing of that name");
    refuse(samba_session_get_by_name(s->session, "neither this", &found), SAMBA_ERROR_NAME, "neither this");
    samba_run_options r = run_of(s);
    r.inputs = &wrong, r.input_count = 1;
    refuse(samba_run(s->session, &r), SAMBA_ERROR_NAME, "nothing of that name");
    samba_tensor_free(wrong);
    r = run_of(s);
    r.section_types = (const char *[]){"BACKWARD"}, r.section_type_count = 1;
    refuse(samba_run(s->session, &r), SAMBA_ERROR_NAME, "section type");
    refuse(samba_session_new(context, "/no/such.pef", NULL, &none), SAMBA_ERROR_FILE, "/no/such.pef");
    snprintf(path, sizeof path, "%s/part", folder);
    copy_part(s->pef, path, 0.01 * below(100));
    refuse(samba_session_new(context, path, NULL, &none), SAMBA_ERROR_FORMAT, path);
    need(samba_session_save(s->session, path, true));
    assert_int_equal(truncate(path, below(200)), 0);
    refuse(samba_session_load(s->session, path), SAMBA_ERROR_FORMAT, path);
    samba_compile_options o = compile_of("wrong", mapped_dense, NULL, 1, s->inputs); /* it has no such inputs */
    refuse(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_NAME, "input");
}

/* An allocation of what comes next is refused: then it says so, and nothing else has changed. */
static void out_of_memory(slot *s)
{
    samba_session *other = NULL;
    char *page = NULL;
    memory.fail_from = memory.calls + below(60), memory.fail_count = 1;
    samba_status status = samba_session_new(context, s->pef, NULL, &other);
    if (status == SAMBA_OK)
        status = samba_session_page(other, NULL, NULL, &page);
    memory.fail_from = -1;
    if (status != SAMBA_OK)
        assert_int_equal(status, SAMBA_ERROR_MEMORY);
    if (page)
        samba_text_free(context, page);
    samba_session_free(other);
}

/* Greedy tokens from a prompt, by the weights that "train" trains. */
static void generate(slot *s)
{
    if (s->kind != GPT2)
        return;
    static const char *const names[] = {"prefill", "decode"}, *const words[] = {"tokens", "last", "token", "position"};
    samba_tensor *inputs[4], *next[2];
    for (int i = 0; i < 4; i++)
        inputs[i] = tensor(words[i], SAMBA_INT64, 1, SHAPE(i == 0 ? PROMPT : 1));
    next[0] = tensor("prefill.next", SAMBA_INT64, 1, SHAPE(1)), next[1] = tensor("decode.next", SAMBA_INT64, 1, SHAPE(1));
    need(samba_fill_integers(inputs[0], (uint64_t)below(9), 0, WORDS));
    *(int64_t *)samba_tensor_data(inputs[1]) = PROMPT - 1;
    for (int64_t place = PROMPT - 1; place < PLACES; place++) {
        int graph = place >= PROMPT;
        samba_run_options r = samba_run_defaults();
        r.graph_name = names[graph], r.inputs = inputs + 2 * graph, r.input_count = 2, r.outputs = &next[graph],
        r.output_count = 1;
        if (graph)
            *(int64_t *)samba_tensor_data(inputs[3]) = place;
        need(samba_run(s->session, &r));
        int64_t token = *(int64_t *)samba_tensor_data(next[graph]);
        assert_in_range(token, 0, WORDS - 1);
        *(int64_t *)samba_tensor_data(inputs[2]) = token;
    }
    for (int i = 0; i < 4; i++)
        samba_tensor_free(inputs[i]);
    samba_tensor_free(next[0]);
    samba_tensor_free(next[1]);
}

/* Functions of host tensors, as eager execution is: made, run, freed. */
static void call_function(slot *s)
{
    (void)s;
    samba_graph *g;
    samba_function *f;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(1 + below(40), 1 + below(40)), 1),
                 *y = tensor("y", SAMBA_FLOAT32, 0, NULL);
    need(samba_graph_new(context, "squares", &g));
    need(samba_graph_add_input(g, x));
    samba_value v = samba_input(g, "x");
    samba_output(g, "y", samba_sum(samba_mul(v, v), 0, NULL, false));
    need(samba_function_new(context, g, NULL, &f));
    samba_graph_free(g);
    for (int i = 0; i < 3; i++)
        need(samba_function_run(f, &x, &y));
    assert_true(*(const float *)samba_tensor_data(y) > 0);
    samba_function_free(f);
    samba_tensor_free(x);
    samba_tensor_free(y);
}

typedef struct side { /* a session on a thread of its own, under a context of its own */
    pthread_t thread;
    const slot *slot;
    int steps;
    char message[512];
} side;

static void *run_aside(void *argument)
{
    side *mine = argument;
    samba_context *own;
    samba_session *session = NULL;
    samba_session_options o = samba_session_defaults();
    o.threads = 1;
    samba_tensor *inputs[2] = {NULL, NULL};
    if (samba_context_new(NULL, &own) != SAMBA_OK)
        return NULL;
    samba_status status = samba_session_new(own, mine->slot->pef, &o, &session);
    for (int i = 0; i < 2 && status == SAMBA_OK; i++) {
        const samba_tensor *x = mine->slot->inputs[i];
        status = samba_tensor_new(own, samba_tensor_name(x), samba_tensor_dtype(x), samba_tensor_rank(x), samba_tensor_shape(x),
                                  &inputs[i]);
        if (status == SAMBA_OK)
            status = samba_tensor_copy(inputs[i], x);
    }
    samba_run_options r = samba_run_defaults();
    r.inputs = inputs, r.input_count = 2, r.graph_name = mine->slot->graph;
    for (int i = 0; i < mine->steps && status == SAMBA_OK; i++)
        status = samba_run(session, &r);
    snprintf(mine->message, sizeof mine->message, "%s", status == SAMBA_OK ? "" : samba_error_message(own));
    samba_session_free(session);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
    samba_context_free(own);
    return NULL;
}

static void side_by_side(slot *s)
{
    enum { SIDES = 3 };
    side sides[SIDES];
    for (int i = 0; i < SIDES; i++) {
        sides[i] = (side){.slot = s, .steps = 1 + below(6)};
        snprintf(sides[i].message, sizeof sides[i].message, "no context");
        assert_int_equal(pthread_create(&sides[i].thread, NULL, run_aside, &sides[i]), 0);
    }
    for (int i = 0; i < SIDES; i++) {
        assert_int_equal(pthread_join(sides[i].thread, NULL), 0);
        assert_string_equal(sides[i].message, "");
    }
}

static const struct {
    const char *name;
    void (*act)(slot *s);
} table[] = {
    {"compile", compile},
    {"load", load},
    {"train", train},
    {"evaluate", evaluate},
    {"run in pieces", run_in_pieces},
    {"save and load", save_and_load},
    {"checkpoint", checkpoint},
    {"profile", profile},
    {"report", report},
    {"mistakes", mistakes},
    {"out of memory", out_of_memory},
    {"generate", generate},
    {"call a function", call_function},
    {"side by side", side_by_side},
};

/* ---- looking at the process ---- */
typedef struct view {
    int64_t resident, anonymous, in_use; /* bytes: in memory, of these no file's, and held by malloc (0: it does not say) */
    int descriptors, threads;
    int64_t blocks; /* of the library's that are alive, without the context's own */
} view;

static view look(void)
{
    view v = {.descriptors = -3}; /* ".", ".." and the one that reads the folder */
    char line[256];
    malloc_trim(0);
    FILE *status = fopen("/proc/self/status", "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status)) {
        long long value;
        if (sscanf(line, "VmRSS: %lld kB", &value) == 1)
            v.resident = value * 1024;
        if (sscanf(line, "RssAnon: %lld kB", &value) == 1)
            v.anonymous = value * 1024;
        if (sscanf(line, "Threads: %lld", &value) == 1)
            v.threads = (int)value;
    }
    fclose(status);
    DIR *open = opendir("/proc/self/fd");
    assert_non_null(open);
    while (readdir(open))
        v.descriptors++;
    closedir(open);
    struct mallinfo2 heap = mallinfo2();
    v.in_use = (int64_t)(heap.uordblks + heap.hblkhd);
    v.blocks = memory.live_blocks - 1;
    return v;
}

static void show(double seconds, const view *v)
{
    print_message(
        "%s%7.1f s %8lld actions: resident %.3f MB, of it %.3f MB no file's, malloc %lld bytes, %d descriptors, %d threads\n",
        isatty(2) ? "\r" : "", seconds, (long long)actions, (double)v->resident / 1e6, (double)v->anonymous / 1e6,
        (long long)v->in_use, v->descriptors, v->threads);
    fflush(stdout);
}

static view at_rest(void)
{
    for (int i = 0; i < SLOTS; i++)
        slot_free(&slots[i]);
    return look();
}

static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

static void nothing(void *argument, int thread, int team) { (void)argument, (void)thread, (void)team; }

static void soak(void **unused)
{
    (void)unused;
    enum { LATE = 1 << 20 };
    print_message("seed %llu\n", (unsigned long long)seed);
    int64_t counts[SAMBA_COUNT(table)] = {0}, most_in_use = 0, most_anonymous = 0;
    samba_team(samba_team_offered(), nothing, NULL); /* OpenMP keeps its threads */
    for (int i = 0; i < SAMBA_COUNT(table); i++) {   /* what opens a file once and keeps it, as libxsmm does, has done so */
        compile(slots);
        table[i].act(slots);
    }
    view first = at_rest();
    double start = now(), often = fmin(60, most_seconds / 10), next = 0;
    for (bool end = false; !end;) {
        double seconds = now() - start;
        end = seconds >= most_seconds || actions >= most_actions;
        if (seconds >= next || end) {
            view v = at_rest();
            show(seconds, &v);
            assert_int_equal(v.blocks, 0);
            assert_int_equal(memory.wrong_sizes, 0);
            assert_int_equal(v.descriptors, first.descriptors);
            if (seconds > most_seconds / 5 && v.in_use > 0) {
                if (v.in_use > most_in_use)
                    fail_msg("malloc holds %lld bytes more than in the warm-up", (long long)(v.in_use - most_in_use));
                if (v.anonymous > most_anonymous + LATE)
                    fail_msg("resident memory has grown by %lld bytes since the warm-up",
                             (long long)(v.anonymous - most_anonymous));
            } else {
                most_in_use = greater(most_in_use, v.in_use);
                most_anonymous = greater(most_anonymous, v.anonymous);
            }
            next = seconds + often;
            continue;
        }
        slot *s = &slots[below(SLOTS)];
        int what = below(SAMBA_COUNT(table));
        if (isatty(2))
            fprintf(stderr, "\r%.0f of %.0f s: %-16s", seconds, most_seconds, table[what].name);
        if (!s->session)
            compile(s);
        table[what].act(s);
        counts[what]++;
        actions++;
    }
    for (int i = 0; i < SAMBA_COUNT(table); i++)
        print_message("%s%s %lld", i ? ", " : "", table[i].name, (long long)counts[i]);
    print_message("\n");
}

int main(int argc, char **argv)
{
    static const char exact[] = "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1";
    const char *tunables = getenv("GLIBC_TUNABLES");
    if (mallinfo2().arena > 0 && (!tunables || strcmp(tunables, exact) != 0)) { /* they are read when a program starts */
        setenv("GLIBC_TUNABLES", exact, 1);
        execv("/proc/self/exe", argv);
    }
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (argc > 1)
        most_seconds = strtod(argv[1], NULL);
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : random_seed();
    if (argc > 3)
        most_actions = strtoll(argv[3], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(soak)};
    if (!training_begin())
        return 1;
    samba_context_free(context);
    context = counting_context_new(&memory);
    return training_end(cmocka_run_group_tests_name("soak", tests, NULL, NULL));
}
