/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: a session that was loaded goes on to the bits of the one that was saved, between steps and between the
 * micro-batches of one; weights may be cut into files; as many stay as are to be kept, and what an interrupted save left goes; no
 * damaged file is loaded and the newest whole one is found; what does not belong to the PEF is refused with nothing changed;
 * a save that fails leaves all that was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "../pef/plans.h"
#include "failing_allocator.h"
#include "seeded.h"
#include "runtime/checkpoint.h"
#include "runtime/runtime.h"

static char pef[64], folder[72];

typedef struct fixture {
    failing_allocator state;
    samba_context *context;
    samba_session *session;
    samba_tensor *inputs[3];
    samba_run_options run;
} fixture;

static void must(const fixture *f, samba_status status)
{
    if (status != SAMBA_OK)
        fail_msg("%s: %s", samba_status_name(status), samba_error_message(f->context));
}

static void expect(const fixture *f, samba_status status, samba_status expected, const char *part)
{
    if (status != expected || !strstr(samba_error_message(f->context), part))
        fail_msg("status %s (expected %s), message \"%s\" lacks \"%s\"", samba_status_name(status), samba_status_name(expected),
                 samba_error_message(f->context), part);
}

static void run_shell(const char *format, const char *argument)
{
    char command[512];
    snprintf(command, sizeof command, format, argument);
    if (system(command) != 0)
        fail_msg("%s failed", command);
}

typedef void change_fn(samba_plan *plan);

static void begin_with(fixture *f, int accumulation, uint64_t session_seed, change_fn *change)
{
    samba_plan plan;
    f->context = counting_context_new(&f->state);
    make_train_plan(&plan, f->context, 4);
    plan.graphs[0].grad_accumulation_steps = accumulation;
    if (change)
        change(&plan);
    must(f, samba_pef_write(f->context, &plan, pef));
    samba_plan_free(&plan);
    samba_session_options options = samba_session_defaults();
    options.seed = session_seed;
    options.threads = 1;
    must(f, samba_session_new(f->context, pef, &options, &f->session));
    must(f, samba_tensor_new(f->context, "x", SAMBA_FLOAT32, 2, (const int64_t[]){4, 6}, &f->inputs[0]));
    must(f, samba_tensor_new(f->context, "label", SAMBA_INT64, 1, (const int64_t[]){4}, &f->inputs[1]));
    must(f, samba_tensor_new(f->context, "token", SAMBA_INT64, 1, (const int64_t[]){4}, &f->inputs[2]));
    samba_fill_normal(f->inputs[0], 5, 0, 1);
    f->run = samba_run_defaults();
    f->run.input_count = 3;
    f->run.inputs = f->inputs;
}

static void begin(fixture *f, uint64_t session_seed) { begin_with(f, 1, session_seed, NULL); }

static void end(fixture *f)
{
    for (int i = 0; i < 3; i++)
        samba_tensor_free(f->inputs[i]);
    samba_session_free(f->session);
    counting_context_free(f->context, &f->state);
}

static void clear(void) { run_shell("rm -rf '%s'", folder); }

static samba_checkpoint_options at_step(int64_t step)
{
    samba_checkpoint_options options = samba_checkpoint_defaults();
    options.folder = folder;
    options.step = step;
    return options;
}

static void save(fixture *f, int64_t step)
{
    samba_checkpoint_options options = at_step(step);
    must(f, samba_checkpoint_save(f->session, &options));
}

static samba_checkpoint *newest(fixture *f)
{
    samba_checkpoint *checkpoint;
    must(f, samba_checkpoint_newest(f->context, folder, &checkpoint));
    assert_non_null(checkpoint);
    return checkpoint;
}

static void load_newest(fixture *f)
{
    samba_checkpoint *checkpoint = newest(f);
    must(f, samba_checkpoint_load(f->session, checkpoint));
    samba_checkpoint_free(checkpoint);
}

/* Device memory that a program can see and hyperparameters; right after loading only what a checkpoint has. */
static void compare(fixture *f, fixture *g, bool loaded)
{
    for (int i = 0; i < samba_session_tensor_count(f->session); i++) {
        samba_tensor_info info;
        samba_tensor *a, *b;
        must(f, samba_session_tensor_info(f->session, i, &info));
        if (loaded && info.kind != SAMBA_KIND_PARAMETER && info.kind != SAMBA_KIND_BUFFER)
            continue;
        must(f, samba_session_get_by_name(f->session, info.name, &a));
        must(g, samba_session_get_by_name(g->session, info.name, &b));
        if (memcmp(samba_tensor_data(a), samba_tensor_data(b), (size_t)info.bytes) != 0)
            fail_msg("\"%s\" differs", info.name);
        samba_tensor_free(a);
        samba_tensor_free(b);
    }
    for (int i = 0; i < samba_session_hyperparameter_count(f->session); i++) {
        samba_hyperparameter a, b;
        must(f, samba_session_hyperparameter(f->session, i, &a));
        must(g, samba_session_hyperparameter(g->session, i, &b));
        assert_true(a.value == b.value);
    }
}

static void assert_alike(fixture *f, fixture *g) { compare(f, g, true); }

static bool exists(const char *name)
{
    char path[256];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &facts) == 0;
}

/* ---- going on ---- */
static void test_resume(void **unused)
{
    (void)unused;
    for (int accumulation = 1; accumulation <= 3; accumulation++)
        for (int runs = 0; runs <= 4; runs++) {
            fixture f, g;
            clear();
            begin_with(&f, accumulation, 1, NULL);
            must(&f, samba_session_set_hyperparameters(f.session, 1, &(samba_hyperparameter){"lr", 0.25}));
            for (int i = 0; i < runs; i++)
                must(&f, samba_run(f.session, &f.run));
            save(&f, runs);
            begin_with(&g, accumulation, 99, NULL);
            for (int i = 0; i < 2; i++) /* what it had before must not matter */
                must(&g, samba_run(g.session, &g.run));
            load_newest(&g);
            for (int i = 0; i < 4; i++) {
                must(&f, samba_run(f.session, &f.run));
                must(&g, samba_run(g.session, &g.run));
                compare(&f, &g, false);
            }
            end(&g);
            end(&f);
        }
}

static samba_status run_type(fixture *f, const char *type)
{
    samba_run_options run = f->run;
    run.section_types = &type;
    run.section_type_count = 1;
    return samba_run(f->session, &run);
}

/* Between the backward and the optimizer gradients are part of a checkpoint; activations never are. */
static void test_between_sections(void **unused)
{
    (void)unused;
    fixture f, g;
    clear();
    begin(&f, 1);
    begin(&g, 2);
    must(&f, run_type(&f, "FWD"));
    save(&f, 1);
    load_newest(&g);
    expect(&g, run_type(&g, "BCKWD"), SAMBA_ERROR_STATE, "run FWD before it");
    must(&f, run_type(&f, "BCKWD"));
    save(&f, 2);
    load_newest(&g);
    must(&f, run_type(&f, "OPT"));
    must(&g, run_type(&g, "OPT"));
    float w[2][6];
    for (int i = 0; i < 2; i++) {
        samba_tensor *tensor;
        must(&f, samba_session_get_by_name(i ? g.session : f.session, "w", &tensor));
        memcpy(w[i], samba_tensor_data(tensor), sizeof w[i]);
        samba_tensor_free(tensor);
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    must(&g, run_type(&g, "FWD"));
    load_newest(&g);
    expect(&g, run_type(&g, "BCKWD"), SAMBA_ERROR_STATE, "run FWD before it");
    end(&g);
    end(&f);
}

/* ---- what a checkpoint holds ---- */
static void test_files(void **unused)
{
    (void)unused;
    fixture f, g;
    clear();
    begin(&f, 7);
    must(&f, samba_run(f.session, &f.run));
    samba_tensor *own[2];
    must(&f, samba_tensor_new(f.context, "loader", SAMBA_INT64, 1, (const int64_t[]){2}, &own[0]));
    must(&f, samba_tensor_new(f.context, "random", SAMBA_UINT8, 1, (const int64_t[]){5}, &own[1]));
    memcpy(samba_tensor_data(own[0]), (const int64_t[]){3, -4}, 16);
    samba_checkpoint_options options = at_step(12);
    options.tensors = own;
    options.tensor_count = 2;
    options.text = "epoch 3, \"caf\xc3\xa9\"";
    options.shard_size = 1;
    must(&f, samba_checkpoint_save(f.session, &options));
    static const char *const files[] = {"model-00001-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors",
                                        "model.safetensors.index.json",
                                        "optimizer.safetensors",
                                        "program.safetensors",
                                        "checkpoint.json"};
    for (int i = 0; i < SAMBA_COUNT(files); i++) {
        char name[128];
        snprintf(name, sizeof name, "checkpoint-12/%s", files[i]);
        assert_true(exists(name));
    }
    run_shell("grep -q '\"total_size\": [0-9]' '%s'/checkpoint-12/model.safetensors.index.json", folder);
    run_shell("grep -q '\"w\": \"model-0000[0-9]-of-00003.safetensors\"' '%s'/checkpoint-12/model.safetensors.index.json",
              folder);

    samba_checkpoint *checkpoint = newest(&f);
    assert_int_equal(samba_checkpoint_step(checkpoint), 12);
    assert_int_equal(samba_checkpoint_seed(checkpoint), 7);
    assert_string_equal(samba_checkpoint_text(checkpoint), options.text);
    assert_string_equal(samba_checkpoint_skipped(checkpoint), "");
    assert_non_null(strstr(samba_checkpoint_path(checkpoint), "/checkpoint-12"));
    const samba_tensor_list *tensors = samba_checkpoint_tensors(checkpoint);
    assert_int_equal(tensors->count, 2);
    assert_string_equal(samba_tensor_name(tensors->tensors[0]), "loader"); /* the wider dtype comes first */
    assert_memory_equal(samba_tensor_data(tensors->tensors[0]), samba_tensor_data(own[0]), 16);
    begin(&g, 0);
    must(&g, samba_checkpoint_load(g.session, checkpoint)); /* a checkpoint of another context */
    assert_alike(&f, &g);
    samba_checkpoint_free(checkpoint);

    expect(&f, samba_checkpoint_save(f.session, NULL), SAMBA_ERROR_ARGUMENT, "no folder");
    options.step = -1;
    expect(&f, samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "step -1");
    options = at_step(13);
    options.text = "\xff";
    expect(&f, samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "UTF-8");
    options.text = NULL;
    options.tensor_count = 1;
    expect(&f, samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "1 tensors");
    options.tensors = (samba_tensor *const[]){NULL};
    expect(&f, samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "tensor 0 is NULL");
    options.tensors = (samba_tensor *const[]){own[0], own[0]};
    options.tensor_count = 2;
    expect(&f, samba_checkpoint_save(f.session, &options), SAMBA_ERROR_NAME, "two tensors are named");
    expect(&f, samba_checkpoint_prepare(f.context, ""), SAMBA_ERROR_ARGUMENT, "no folder");
    expect(&f, samba_checkpoint_newest(f.context, NULL, &checkpoint), SAMBA_ERROR_ARGUMENT, "no folder");
    expect(&f, samba_checkpoint_open(f.context, NULL, &checkpoint), SAMBA_ERROR_ARGUMENT, "no path");
    expect(&f, samba_checkpoint_load(f.session, NULL), SAMBA_ERROR_ARGUMENT, "no checkpoint");
    assert_false(exists("checkpoint-13") || exists("checkpoint-13.tmp"));
    samba_tensor_free(own[0]);
    samba_tensor_free(own[1]);
    end(&g);
    end(&f);
}

/* ---- which stay ---- */
static void test_keep(void **unused)
{
    (void)unused;
    fixture f;
    char name[64];
    samba_checkpoint *checkpoint;
    clear();
    begin(&f, 1);
    must(&f, samba_checkpoint_newest(f.context, folder, &checkpoint));
    assert_null(checkpoint); /* no folder */
    must(&f, samba_checkpoint_prepare(f.context, folder));
    must(&f, samba_checkpoint_newest(f.context, folder, &checkpoint));
    assert_null(checkpoint);
    for (int step = 0; step < 20; step++) {
        must(&f, samba_run(f.session, &f.run));
        save(&f, step);
        for (int i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "checkpoint-%d", i);
            assert_int_equal(exists(name), i <= step && i > step - 2);
        }
    }
    checkpoint = newest(&f);
    assert_int_equal(samba_checkpoint_step(checkpoint), 19); /* and not 9: numbers, not words */
    samba_checkpoint_free(checkpoint);

    /* The same step again, those of a run that went further, others' files, what interrupted saves have left. */
    run_shell("cd '%s' && mkdir checkpoint-30.tmp checkpoint-5.old checkpoint-030 checkpoint-x notes && touch "
              "checkpoint-30.tmp/model.safetensors",
              folder);
    must(&f, samba_run(f.session, &f.run));
    save(&f, 18);
    assert_true(exists("checkpoint-18") && exists("checkpoint-19") && exists("checkpoint-030") && exists("checkpoint-x") &&
                exists("notes"));
    assert_false(exists("checkpoint-30.tmp") || exists("checkpoint-5.old") || exists("checkpoint-18.tmp"));
    samba_checkpoint_options options = at_step(100);
    options.keep = 0;
    must(&f, samba_checkpoint_save(f.session, &options));
    assert_true(exists("checkpoint-18") && exists("checkpoint-19") && exists("checkpoint-100"));
    options.step = 101;
    options.keep = 1;
    must(&f, samba_checkpoint_save(f.session, &options));
    assert_false(exists("checkpoint-18") || exists("checkpoint-19") || exists("checkpoint-100"));
    end(&f);
}

/* ---- damage ---- */
static void test_damage(void **unused)
{
    (void)unused;
    static const char *const files[] = {"model-00002-of-00003.safetensors", "optimizer.safetensors", "checkpoint.json"};
    fixture f, g;
    char path[256], name[128];
    clear();
    begin(&f, 1);
    samba_checkpoint_options options = at_step(1);
    options.shard_size = 1;
    must(&f, samba_run(f.session, &f.run));
    must(&f, samba_checkpoint_save(f.session, &options));
    for (int i = 0; i < SAMBA_COUNT(files); i++) {
        void *bytes;
        size_t size;
        samba_checkpoint *checkpoint;
        options.step = 2;
        must(&f, samba_checkpoint_save(f.session, &options));
        snprintf(path, sizeof path, "%s/checkpoint-2/%s", folder, files[i]);
        must(&f, samba_file_read(f.context, path, &bytes, &size));
        char *damaged = malloc(size);
        snprintf(name, sizeof name, "%s", files[i]);
        for (int way = 0; way < 60; way++) { /* missing, cut somewhere, a bit changed somewhere */
            size_t left = way == 1 ? 0 : way < 20 ? next_random() % size : size;
            memcpy(damaged, bytes, size);
            size_t place = next_random() % size;
            if (way >= 20)
                damaged[place] = (char)(damaged[place] ^ (1 << next_random() % 8));
            if (way == 0)
                unlink(path);
            else
                must(&f, samba_file_write_atomic(f.context, path, (const void *const[]){damaged}, &left, 1));
            samba_status status = samba_checkpoint_newest(f.context, folder, &checkpoint);
            must(&f, status == SAMBA_ERROR_UNSUPPORTED ? SAMBA_OK : status); /* the format's number may have been hit */
            if (status == SAMBA_OK && samba_checkpoint_step(checkpoint) == 1) {
                if (!strstr(samba_checkpoint_skipped(checkpoint), name) ||
                    !strstr(samba_checkpoint_skipped(checkpoint), "damaged"))
                    fail_msg("skipped \"%s\" lacks \"%s\"", samba_checkpoint_skipped(checkpoint), name);
            } else if (status == SAMBA_OK) { /* blanks of the manifest carry nothing */
                assert_string_equal(files[i], "checkpoint.json");
            }
            samba_checkpoint_free(checkpoint);
        }
        free(damaged);
        samba_free(f.context, bytes, size);
    }
    /* Damage between opening and loading; nothing is loaded. */
    save(&f, 3);
    begin_with(&g, 1, 2, NULL);
    samba_checkpoint *checkpoint = newest(&g);
    snprintf(path, sizeof path, "%s/checkpoint-3/optimizer.safetensors", folder);
    assert_int_equal(truncate(path, 100), 0);
    expect(&g, samba_checkpoint_load(g.session, checkpoint), SAMBA_ERROR_FORMAT, "optimizer.safetensors has 100 bytes where");
    samba_checkpoint_free(checkpoint);
    run_shell("rm -rf '%s'/checkpoint-1 && echo >'%1$s'/checkpoint-2/checkpoint.json", folder);
    expect(&g, samba_checkpoint_newest(g.context, folder, &checkpoint), SAMBA_ERROR_FORMAT, "has no checkpoint that is whole");
    assert_null(checkpoint);
    save(&f, 3); /* takes the place of the damaged one */
    load_newest(&g);
    assert_alike(&f, &g);
    end(&g);
    end(&f);
}

/* ---- of something else ---- */
static void rename_w(samba_plan *plan)
{
    for (int i = 0; i < plan->tensor_count; i++)
        if (strcmp(plan->tensors[i].name, "b") == 0)
            plan->tensors[i].name = samba_arena_strdup(&plan->arena, "bias");
}

static void rename_rate(samba_plan *plan) { plan->argins[0].name = samba_arena_strdup(&plan->arena, "speed"); }

/* The checkpoint's manifest after a change, with a checksum that fits: as if forged. */
static void forge(fixture *f, void (*change)(samba_manifest *manifest))
{
    samba_arena arena;
    samba_manifest manifest;
    char path[256];
    snprintf(path, sizeof path, "%s/checkpoint-1/checkpoint.json", folder);
    samba_arena_init(&arena, f->context);
    must(f, samba_manifest_read(&arena, path, &manifest));
    change(&manifest);
    must(f, samba_manifest_write(f->context, path, &manifest));
    samba_arena_free(&arena);
}

static void lead_out(samba_manifest *m) { m->files[0].name = "model/../../../etc/passwd"; }
static void many_runs(samba_manifest *m) { m->graphs[0].micro_step = 1000; }
static void other_graph(samba_manifest *m) { m->graphs[0].name = "decode"; }
static void no_graphs(samba_manifest *m) { m->graph_count = 0; }
static void negative(samba_manifest *m) { m->step = -5; }
static void twice(samba_manifest *m) { m->files[1] = m->files[0]; }
static void no_argins(samba_manifest *m) { m->argin_count = 0; }
static void half_seed(samba_manifest *m) { m->argins[m->argin_count - 1].value = 0.5; }

static void test_others(void **unused)
{
    (void)unused;
    static const struct {
        change_fn *change;
        samba_status status;
        const char *part;
    } plans[] = {{rename_w, SAMBA_ERROR_NAME, "has a tensor \"b\", which PEF of graph"},
                 {rename_rate, SAMBA_ERROR_NAME, "there is no hyperparameter"}};
    static const struct {
        void (*change)(samba_manifest *manifest);
        samba_status status;
        const char *part;
        bool opens;
    } forged[] = {{lead_out, SAMBA_ERROR_FORMAT, "\"name\" is missing or makes no sense", false},
                  {negative, SAMBA_ERROR_FORMAT, "\"step\" is missing or makes no sense", false},
                  {many_runs, SAMBA_ERROR_STATE, "was saved after 1000 runs of a step", true},
                  {other_graph, SAMBA_ERROR_NAME, "has a graph \"decode\" where this PEF has", true},
                  {no_graphs, SAMBA_ERROR_NAME, "is of a PEF with 0 graphs and this one has 1", true},
                  {twice, SAMBA_ERROR_NAME, "twice", true},
                  {no_argins, SAMBA_ERROR_NAME, "with 0 hyperparameters", true},
                  {half_seed, SAMBA_ERROR_ARGUMENT, "", true}};
    fixture f, g;
    char path[256];
    samba_checkpoint *checkpoint;
    clear();
    begin(&f, 1);
    must(&f, samba_run(f.session, &f.run));
    save(&f, 1);
    for (int i = 0; i < SAMBA_COUNT(plans); i++) {
        begin_with(&g, 1, 2, plans[i].change);
        checkpoint = newest(&g);
        expect(&g, samba_checkpoint_load(g.session, checkpoint), plans[i].status, plans[i].part);
        samba_checkpoint_free(checkpoint);
        end(&g);
    }
    snprintf(path, sizeof path, "%s/checkpoint-1", folder);
    for (int i = 0; i < SAMBA_COUNT(forged); i++) {
        save(&f, 1);
        forge(&f, forged[i].change);
        begin(&g, 2);
        fixture untouched;
        begin(&untouched, 2);
        samba_status status = samba_checkpoint_open(g.context, path, &checkpoint);
        assert_int_equal(status == SAMBA_OK, forged[i].opens);
        if (status == SAMBA_OK)
            status = samba_checkpoint_load(g.session, checkpoint);
        expect(&g, status, forged[i].status, forged[i].part);
        assert_alike(&g, &untouched);
        samba_checkpoint_free(checkpoint);
        end(&untouched);
        end(&g);
    }
    save(&f, 1);
    run_shell("sed -i 's/\"format\": 1/\"format\": 0/' '%s'/checkpoint-1/checkpoint.json", folder);
    expect(&f, samba_checkpoint_open(f.context, path, &checkpoint), SAMBA_ERROR_UNSUPPORTED,
           "is of format 0 and this library reads format 1: use the older");
    expect(&f, samba_checkpoint_newest(f.context, folder, &checkpoint), SAMBA_ERROR_UNSUPPORTED, "format 0");
    run_shell("sed -i 's/\"format\": 0/\"format\": 9/' '%s'/checkpoint-1/checkpoint.json", folder);
    expect(&f, samba_checkpoint_open(f.context, path, &checkpoint), SAMBA_ERROR_UNSUPPORTED, "use the newer");
    expect(&f, samba_checkpoint_open(f.context, pef, &checkpoint), SAMBA_ERROR_FILE, "samba_session_load takes files of weights");
    expect(&f, samba_checkpoint_open(f.context, "/nowhere/checkpoint-1", &checkpoint), SAMBA_ERROR_FILE, "No such file");
    expect(&f, samba_checkpoint_newest(f.context, pef, &checkpoint), SAMBA_ERROR_FILE, "Not a directory");
    end(&f);
}

/* ---- a save that fails ---- */
static void test_no_room(void **unused)
{
    (void)unused;
    fixture f, g;
    struct rlimit old, little;
    clear();
    begin(&f, 1);
    begin(&g, 2);
    must(&f, samba_run(f.session, &f.run));
    save(&f, 1);
    must(&g, samba_run(g.session, &g.run));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    samba_checkpoint_options options = at_step(2);
    samba_status status = SAMBA_ERROR_FILE;
    int refused = 0;
    for (rlim_t size = 0; status != SAMBA_OK; size += 97) { /* a full disk in each of the files */
        little = (struct rlimit){size, old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &little);
        status = samba_checkpoint_save(g.session, &options);
        setrlimit(RLIMIT_FSIZE, &old);
        if (status == SAMBA_OK)
            break;
        expect(&g, status, SAMBA_ERROR_FILE, "checkpoint-2.tmp/");
        expect(&g, status, SAMBA_ERROR_FILE, strerror(EFBIG));
        assert_false(exists("checkpoint-2") || exists("checkpoint-2.tmp"));
        refused++;
    }
    assert_true(refused > 5);
    run_shell("rm -rf '%s'/checkpoint-2", folder);
    load_newest(&g);
    assert_alike(&f, &g);

    expect(&f, samba_checkpoint_prepare(f.context, "/proc/checkpoints"), SAMBA_ERROR_FILE, "/proc/checkpoints");
    expect(&f, samba_checkpoint_prepare(f.context, pef), SAMBA_ERROR_FILE, "make the directory");
    int file = open(folder, O_RDONLY);
    assert_int_equal(flock(file, LOCK_EX), 0); /* as another process would */
    expect(&f, samba_checkpoint_save(f.session, &options), SAMBA_ERROR_STATE, "another process saves");
    close(file);
    must(&f, samba_checkpoint_save(f.session, &options));
    end(&g);
    end(&f);
}

static samba_status save_and_load(samba_context *context, void *unused)
{
    (void)unused;
    samba_session *session;
    samba_checkpoint *checkpoint = NULL;
    samba_session_options defaults = samba_session_defaults();
    defaults.threads = 1;
    samba_checkpoint_options options = at_step(3);
    options.shard_size = 40;
    options.text = "text";
    samba_status status = samba_session_new(context, pef, &defaults, &session);
    if (status == SAMBA_OK)
        status = samba_checkpoint_save(session, &options);
    if (status == SAMBA_OK)
        status = samba_checkpoint_newest(context, folder, &checkpoint);
    if (status == SAMBA_OK)
        status = samba_checkpoint_load(session, checkpoint);
    samba_checkpoint_free(checkpoint);
    samba_session_free(session);
    return status;
}

static void test_allocations(void **unused)
{
    (void)unused;
    fixture f;
    clear();
    begin(&f, 1);
    save(&f, 1);
    save(&f, 2);
    end(&f);
    fail_each_allocation(save_and_load, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resume),  cmocka_unit_test(test_between_sections),
                                       cmocka_unit_test(test_files),   cmocka_unit_test(test_keep),
                                       cmocka_unit_test(test_damage),  cmocka_unit_test(test_others),
                                       cmocka_unit_test(test_no_room), cmocka_unit_test(test_allocations)};
    seed_anew();
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* memory: thousands of files are flushed */
    snprintf(pef, sizeof pef, "%s/samba_test_checkpoint_XXXXXX", base);
    int file = mkstemp(pef);
    if (file < 0)
        return 1;
    close(file);
    snprintf(folder, sizeof folder, "%s.d", pef);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(pef);
    clear();
    return failed;
}
