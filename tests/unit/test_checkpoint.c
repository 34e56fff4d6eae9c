/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: a session that was loaded goes on to the bits of the one that was saved; as many stay as are to be kept; no
 * damaged file is loaded and the newest whole one is found; what does not belong to the PEF is refused with nothing changed; a
 * save that fails leaves all that was there. */
#include "hand_trained.h"
#include "runtime/checkpoint.h"
#include "runtime/runtime.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

static char place[80];

static void run_shell(const char *format)
{
    char command[512];
    snprintf(command, sizeof command, format, place);
    if (system(command) != 0)
        fail_msg("%s failed", command);
}

static int setup(void **state)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* memory: thousands of files are flushed */
    snprintf(place, sizeof place, "%s%s.d", base, strrchr(folder, '/'));
    return count_memory(state);
}

static int teardown(void **state)
{
    run_shell("rm -rf '%s'");
    return check_memory(state);
}

static void begin(fixture *f, int accumulation, uint64_t session_seed, change_fn *change)
{
    begin_with(f, 4, accumulation, change, SESSION(.seed = session_seed, .threads = 1));
}

static samba_checkpoint_options at_step(int64_t step)
{
    samba_checkpoint_options options = samba_checkpoint_defaults();
    options.folder = place;
    options.step = step;
    return options;
}

static void save(fixture *f, int64_t step)
{
    samba_checkpoint_options options = at_step(step);
    need(samba_checkpoint_save(f->session, &options));
}

#define OWN_CHECKPOINT __attribute__((cleanup(free_own_checkpoint))) samba_checkpoint
static void free_own_checkpoint(samba_checkpoint **own) { samba_checkpoint_free(*own); }

static samba_checkpoint *newest(void)
{
    samba_checkpoint *checkpoint;
    need(samba_checkpoint_newest(context, place, &checkpoint));
    assert_non_null(checkpoint);
    return checkpoint;
}

static void load_newest(fixture *f)
{
    OWN_CHECKPOINT *checkpoint = newest();
    need(samba_checkpoint_load(f->session, checkpoint));
}

/* Device memory of these kinds and hyperparameters; right after loading only what a checkpoint has. */
static void compare(fixture *f, fixture *g, unsigned kinds)
{
    assert_same_bits(f->session, g->session, kinds);
    for (int i = 0; i < samba_session_hyperparameter_count(f->session); i++) {
        samba_hyperparameter a;
        need(samba_session_hyperparameter(f->session, i, &a));
        assert_true(a.value == get_hyper(g->session, a.name));
    }
}

/* These are in the folder, by number, and nothing else is. */
static void assert_folder(const char *names)
{
    char command[512];
    snprintf(command, sizeof command, "test \"$(cd '%s' && ls -v | tr '\\n' ' ')\" = '%s '", place, names);
    if (system(command) != 0)
        fail_msg("there is not just %s", names);
}

/* ---- going on ---- */
TEST(test_resume)
{
    for (int i = 0; i < 15; i++) {
        const int accumulation = 1 + i / 5, runs = i % 5;
        fixture f, g;
        run_shell("rm -rf '%s'");
        begin(&f, accumulation, 1, NULL);
        need(samba_session_set_hyperparameters(f.session, 1, &(samba_hyperparameter){"lr", 0.25}));
        for (int k = 0; k < runs; k++)
            run(&f);
        save(&f, runs);
        begin(&g, accumulation, 99, NULL);
        run(&g), run(&g); /* what it had before must not matter */
        load_newest(&g);
        for (int k = 0; k < 4; k++) {
            run(&f);
            run(&g);
            compare(&f, &g, ~0u);
        }
        drop_kept(NULL);
    }
}

/* Between the backward and the optimizer gradients are part of a checkpoint; activations never are. */
TEST(test_between_sections)
{
    fixture f, g;
    begin(&f, 1, 1, NULL);
    begin(&g, 1, 2, NULL);
    need(run_sections(f.session, &f.run, "FWD"));
    save(&f, 1);
    load_newest(&g);
    refuse(run_sections(g.session, &g.run, "BCKWD"), SAMBA_ERROR_STATE, "run FWD before it");
    need(run_sections(f.session, &f.run, "BCKWD"));
    save(&f, 2);
    load_newest(&g);
    need(run_sections(f.session, &f.run, "OPT"));
    need(run_sections(g.session, &g.run, "OPT"));
    assert_same_bits(f.session, g.session, LEARNED);
    need(run_sections(g.session, &g.run, "FWD"));
    load_newest(&g);
    refuse(run_sections(g.session, &g.run, "BCKWD"), SAMBA_ERROR_STATE, "run FWD before it");
}

/* ---- what a checkpoint holds ---- */
TEST(test_files)
{
    fixture f, g;
    begin(&f, 1, 7, NULL);
    run(&f);
    samba_tensor *own[2] = {kept(tensor("loader", SAMBA_INT64, 1, SHAPE(2))), kept(tensor("random", SAMBA_UINT8, 1, SHAPE(5)))};
    memcpy(samba_tensor_data(own[0]), (const int64_t[]){3, -4}, 16);
    samba_checkpoint_options options = at_step(12);
    options.tensors = own;
    options.tensor_count = 2;
    options.text = "epoch 3, \"caf\xc3\xa9\"";
    options.shard_size = 1;
    need(samba_checkpoint_save(f.session, &options));
    run_shell("cd '%s'/checkpoint-12 && ls model-00001-of-00003.safetensors model-00003-of-00003.safetensors "
              "model.safetensors.index.json optimizer.safetensors program.safetensors checkpoint.json >/dev/null");
    run_shell("grep -q '\"total_size\": [0-9]' '%s'/checkpoint-12/model.safetensors.index.json");
    run_shell("grep -q '\"w\": \"model-0000[0-9]-of-00003.safetensors\"' '%s'/checkpoint-12/model.safetensors.index.json");

    samba_checkpoint *checkpoint; /* of another context */
    need_in(uncounted, samba_checkpoint_newest(uncounted, place, &checkpoint));
    assert_int_equal(samba_checkpoint_step(checkpoint), 12);
    assert_int_equal(samba_checkpoint_seed(checkpoint), 7);
    assert_string_equal(samba_checkpoint_text(checkpoint), options.text);
    assert_string_equal(samba_checkpoint_skipped(checkpoint), "");
    assert_non_null(strstr(samba_checkpoint_path(checkpoint), "/checkpoint-12"));
    const samba_tensor_list *tensors = samba_checkpoint_tensors(checkpoint);
    assert_int_equal(tensors->count, 2);
    assert_string_equal(samba_tensor_name(tensors->tensors[0]), "loader"); /* the wider dtype comes first */
    assert_memory_equal(samba_tensor_data(tensors->tensors[0]), samba_tensor_data(own[0]), 16);
    begin(&g, 1, 0, NULL);
    need(samba_checkpoint_load(g.session, checkpoint));
    compare(&f, &g, LEARNED);
    samba_checkpoint_free(checkpoint);

    options.step = -1;
    refuse(samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "step -1");
    options = at_step(13);
    options.text = "\xff";
    refuse(samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "UTF-8");
    options.text = NULL;
    options.tensor_count = 1;
    refuse(samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "1 tensors");
    options.tensors = (samba_tensor *const[]){NULL};
    refuse(samba_checkpoint_save(f.session, &options), SAMBA_ERROR_ARGUMENT, "tensor 0 is NULL");
    options.tensors = (samba_tensor *const[]){own[0], own[0]};
    options.tensor_count = 2;
    refuse(samba_checkpoint_save(f.session, &options), SAMBA_ERROR_NAME, "two tensors are named");
    refuse(samba_checkpoint_prepare(context, ""), SAMBA_ERROR_ARGUMENT, "no folder");
    refuse(samba_checkpoint_newest(context, NULL, &checkpoint), SAMBA_ERROR_ARGUMENT, "no folder");
    refuse(samba_checkpoint_open(context, NULL, &checkpoint), SAMBA_ERROR_ARGUMENT, "no path");
    assert_folder("checkpoint-12");
}

/* ---- which stay ---- */
TEST(test_keep)
{
    fixture f;
    char names[64];
    samba_checkpoint *checkpoint;
    begin(&f, 1, 1, NULL);
    need(samba_checkpoint_newest(context, place, &checkpoint));
    assert_null(checkpoint); /* no folder */
    need(samba_checkpoint_prepare(context, place));
    need(samba_checkpoint_newest(context, place, &checkpoint));
    assert_null(checkpoint);
    for (int step = 0; step < 20; step++) {
        run(&f);
        save(&f, step);
        snprintf(names, sizeof names, step ? "checkpoint-%d checkpoint-%d" : "checkpoint-%d", step ? step - 1 : step, step);
        assert_folder(names);
    }
    OWN_CHECKPOINT *last = newest();
    assert_int_equal(samba_checkpoint_step(last), 19); /* and not 9: numbers, not words */

    /* The same step again, those of a run that went further, others' files, what interrupted saves have left. */
    run_shell("cd '%s' && mkdir checkpoint-30.tmp checkpoint-5.old checkpoint-030 checkpoint-x notes && touch "
              "checkpoint-30.tmp/model.safetensors");
    run(&f);
    save(&f, 18);
    assert_folder("checkpoint-18 checkpoint-19 checkpoint-030 checkpoint-x notes");
    samba_checkpoint_options options = at_step(100);
    options.keep = 0;
    need(samba_checkpoint_save(f.session, &options));
    assert_folder("checkpoint-18 checkpoint-19 checkpoint-030 checkpoint-100 checkpoint-x notes");
    options.step = 101;
    options.keep = 1;
    need(samba_checkpoint_save(f.session, &options));
    assert_folder("checkpoint-030 checkpoint-101 checkpoint-x notes");
}

/* ---- damage ---- */
TEST(test_damage)
{
    seed_anew();
    static const char *const files[] = {"model-00002-of-00003.safetensors", "optimizer.safetensors", "checkpoint.json"};
    fixture f, g;
    char path[256];
    begin(&f, 1, 1, NULL);
    samba_checkpoint_options options = at_step(1);
    options.shard_size = 1;
    run(&f);
    need(samba_checkpoint_save(f.session, &options));
    for (int i = 0; i < LENGTH(files); i++) {
        void *bytes;
        size_t size;
        options.step = 2;
        need(samba_checkpoint_save(f.session, &options));
        snprintf(path, sizeof path, "%s/checkpoint-2/%s", place, files[i]);
        need(samba_file_read(context, path, &bytes, &size));
        char *damaged = malloc(size);
        for (int way = 0; way < 60; way++) { /* missing, cut somewhere, a bit changed somewhere */
            size_t left = way == 1 ? 0 : way < 20 ? next_random() % size : size;
            memcpy(damaged, bytes, size);
            size_t changed = next_random() % size;
            if (way >= 20)
                damaged[changed] = (char)(damaged[changed] ^ (1 << next_random() % 8));
            if (way == 0)
                unlink(path);
            else
                need(samba_file_write_atomic(context, path, (const void *const[]){damaged}, &left, 1));
            OWN_CHECKPOINT *checkpoint;
            samba_status status = samba_checkpoint_newest(context, place, &checkpoint);
            need(status == SAMBA_ERROR_UNSUPPORTED ? SAMBA_OK : status); /* the format's number may have been hit */
            if (status == SAMBA_OK && samba_checkpoint_step(checkpoint) == 1) {
                const char *skipped = samba_checkpoint_skipped(checkpoint);
                if (!strstr(skipped, files[i]) || !strstr(skipped, "damaged"))
                    fail_msg("skipped \"%s\" lacks \"%s\"", skipped, files[i]);
            } else if (status == SAMBA_OK) { /* blanks of the manifest carry nothing */
                assert_string_equal(files[i], "checkpoint.json");
            }
        }
        free(damaged);
        samba_free(context, bytes, size);
    }
    /* Damage between opening and loading; nothing is loaded. */
    save(&f, 3);
    begin(&g, 1, 2, NULL);
    OWN_CHECKPOINT *third = newest();
    samba_checkpoint *checkpoint;
    snprintf(path, sizeof path, "%s/checkpoint-3/optimizer.safetensors", place);
    assert_int_equal(truncate(path, 100), 0);
    refuse(samba_checkpoint_load(g.session, third), SAMBA_ERROR_FORMAT, "optimizer.safetensors has 100 bytes where");
    run_shell("rm -rf '%s'/checkpoint-1 && echo >'%1$s'/checkpoint-2/checkpoint.json");
    refuse(samba_checkpoint_newest(context, place, &checkpoint), SAMBA_ERROR_FORMAT, "has no checkpoint that is whole");
    assert_null(checkpoint);
    save(&f, 3); /* takes the place of the damaged one */
    load_newest(&g);
    compare(&f, &g, LEARNED);
}

/* ---- of something else ---- */
static void rename_b(samba_plan *plan)
{
    for (int i = 0; i < plan->tensor_count; i++)
        if (strcmp(plan->tensors[i].name, "b") == 0)
            plan->tensors[i].name = samba_arena_strdup(&plan->arena, "bias");
}

static void rename_rate(samba_plan *plan) { plan->argins[0].name = samba_arena_strdup(&plan->arena, "speed"); }

/* The checkpoint's manifest after a change, with a checksum that fits: as if forged. */
static void forge(void (*change)(samba_manifest *manifest))
{
    samba_arena arena;
    samba_manifest manifest;
    char path[256];
    snprintf(path, sizeof path, "%s/checkpoint-1/checkpoint.json", place);
    samba_arena_init(&arena, context);
    need(samba_manifest_read(&arena, path, &manifest));
    change(&manifest);
    need(samba_manifest_write(context, path, &manifest));
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

TEST(test_others)
{
    static const struct {
        change_fn *plan;
        void (*manifest)(samba_manifest *manifest);
        samba_status status;
        const char *part;
        bool opens;
    } cases[] = {{rename_b, NULL, SAMBA_ERROR_NAME, "has a tensor \"b\", which PEF of graph", true},
                 {rename_rate, NULL, SAMBA_ERROR_NAME, "there is no hyperparameter", true},
                 {NULL, lead_out, SAMBA_ERROR_FORMAT, "\"name\" is missing or makes no sense", false},
                 {NULL, negative, SAMBA_ERROR_FORMAT, "\"step\" is missing or makes no sense", false},
                 {NULL, many_runs, SAMBA_ERROR_STATE, "was saved after 1000 runs of a step", true},
                 {NULL, other_graph, SAMBA_ERROR_NAME, "has a graph \"decode\" where this PEF has", true},
                 {NULL, no_graphs, SAMBA_ERROR_NAME, "is of a PEF with 0 graphs and this one has 1", true},
                 {NULL, twice, SAMBA_ERROR_NAME, "twice", true},
                 {NULL, no_argins, SAMBA_ERROR_NAME, "with 0 hyperparameters", true},
                 {NULL, half_seed, SAMBA_ERROR_ARGUMENT, "", true}};
    fixture f, g, untouched;
    char path[256];
    samba_checkpoint *checkpoint;
    begin(&f, 1, 1, NULL);
    run(&f);
    snprintf(path, sizeof path, "%s/checkpoint-1", place);
    for (int i = 0; i < LENGTH(cases); i++) {
        save(&f, 1);
        if (cases[i].manifest)
            forge(cases[i].manifest);
        begin(&g, 1, 2, cases[i].plan);
        begin(&untouched, 1, 2, cases[i].plan);
        samba_status status = samba_checkpoint_open(context, path, &checkpoint);
        assert_int_equal(status == SAMBA_OK, cases[i].opens);
        status = status ? status : samba_checkpoint_load(g.session, checkpoint);
        refuse(status, cases[i].status, cases[i].part);
        compare(&g, &untouched, LEARNED);
        samba_checkpoint_free(checkpoint);
    }
    save(&f, 1);
    run_shell("sed -i 's/\"format\": 1/\"format\": 0/' '%s'/checkpoint-1/checkpoint.json");
    refuse(samba_checkpoint_open(context, path, &checkpoint), SAMBA_ERROR_UNSUPPORTED,
           "is of format 0 and this library reads format 1: use the older");
    refuse(samba_checkpoint_newest(context, place, &checkpoint), SAMBA_ERROR_UNSUPPORTED, "format 0");
    run_shell("sed -i 's/\"format\": 0/\"format\": 9/' '%s'/checkpoint-1/checkpoint.json");
    refuse(samba_checkpoint_open(context, path, &checkpoint), SAMBA_ERROR_UNSUPPORTED, "use the newer");
    refuse(samba_checkpoint_open(context, "/nowhere/checkpoint-1", &checkpoint), SAMBA_ERROR_FILE, "No such file");
    refuse(samba_checkpoint_newest(context, pef, &checkpoint), SAMBA_ERROR_FILE, "Not a directory");
}

/* ---- a save that fails ---- */
TEST(test_no_room)
{
    fixture f, g;
    struct rlimit old;
    begin(&f, 1, 1, NULL);
    begin(&g, 1, 2, NULL);
    run(&f);
    save(&f, 1);
    run(&g);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    samba_checkpoint_options options = at_step(2);
    samba_status status = SAMBA_ERROR_FILE;
    int refused = 0;
    for (rlim_t size = 0; status != SAMBA_OK; size += 97) { /* a full disk in each of the files */
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){size, old.rlim_max});
        status = samba_checkpoint_save(g.session, &options);
        setrlimit(RLIMIT_FSIZE, &old);
        if (status != SAMBA_OK) {
            refuse(status, SAMBA_ERROR_FILE, "checkpoint-2.tmp/");
            refuse(status, SAMBA_ERROR_FILE, strerror(EFBIG));
            assert_folder("checkpoint-1");
            refused++;
        }
    }
    assert_true(refused > 5);
    run_shell("rm -rf '%s'/checkpoint-2");
    load_newest(&g);
    compare(&f, &g, LEARNED);

    refuse(samba_checkpoint_prepare(context, "/proc/checkpoints"), SAMBA_ERROR_FILE, "/proc/checkpoints");
    refuse(samba_checkpoint_prepare(context, pef), SAMBA_ERROR_FILE, "make the directory");
    int file = open(place, O_RDONLY);
    assert_int_equal(flock(file, LOCK_EX), 0); /* as another process would */
    refuse(samba_checkpoint_save(f.session, &options), SAMBA_ERROR_STATE, "another process saves");
    close(file);
    need(samba_checkpoint_save(f.session, &options));
}

static samba_status save_and_load(samba_context *of, void *unused)
{
    OWN_SESSION *session;
    OWN_CHECKPOINT *checkpoint = NULL;
    samba_checkpoint_options options = at_step(3);
    options.shard_size = 40;
    options.text = "text";
    samba_status status = samba_session_new(of, pef, SESSION(.threads = 1), &session);
    THEN(status, samba_checkpoint_save(session, &options));
    THEN(status, samba_checkpoint_newest(of, place, &checkpoint));
    THEN(status, samba_checkpoint_load(session, checkpoint));
    return status;
}

TEST(test_allocations)
{
    fixture f;
    begin(&f, 1, 1, NULL);
    save(&f, 1);
    save(&f, 2);
    fail_each_allocation(save_and_load, NULL);
}

TEST_MAIN_WITH(setup, teardown, test_resume, test_between_sections, test_files, test_keep, test_damage, test_others, test_no_room,
               test_allocations)
