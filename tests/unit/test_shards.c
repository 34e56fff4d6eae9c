/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in several files: what a checkpoint cuts is loaded as one file is, by its folder and by its index; an index that is not
 * what its files are is refused and nothing is loaded; and with no memory nothing is left. */
#include "training.h"
#include "messages.h"
#include "data/data.h"
#include "failing_allocator.h"

MODEL(model)
{
    samba_value h = samba_batch_norm(samba_linear(samba_input(g, "x"), "first", 8), "norm", NULL);
    samba_loss(g, "loss", samba_mean(samba_linear(h, "last", 3), 0, NULL, false));
}

static char pef[512], saved[512], index_path[600];
static samba_session *trained, *fresh;

static void shell(const char *format, const char *a, const char *b)
{
    char command[2048];
    snprintf(command, sizeof command, format, a, b);
    if (system(command) != 0)
        fail_msg("%s failed", command);
}

static int setup(void **unused)
{
    if (harness_begin(unused) != 0)
        return -1;
    OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(6, 4), 1);
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options o = training_of("shards", model, NULL, 1, &x, &sgd);
    need(samba_compile(context, &o, pef, sizeof pef));
    trained = open_session(pef, 1, 1);
    need(samba_session_set(trained, x));
    need(samba_run(trained, NULL));
    samba_checkpoint_options options = samba_checkpoint_defaults();
    char home[256];
    snprintf(home, sizeof home, "%s/checkpoints", folder);
    options.folder = home, options.step = 1, options.shard_size = 100;
    need(samba_checkpoint_save(trained, &options));
    snprintf(saved, sizeof saved, "%s/checkpoint-1", home);
    snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", saved);
    fresh = open_session(pef, 1, 2);
    return 0;
}

static int teardown(void **unused)
{
    samba_session_free(trained);
    samba_session_free(fresh);
    return harness_end(unused);
}

/* ---- what is loaded ---- */
static void load_as_trained(const char *path)
{
    OWN_SESSION *session = open_session(pef, 1, 5);
    need(samba_session_load(session, path));
    assert_same_bits(session, trained, LEARNED);
}

TEST(folders_and_indices)
{
    char path[700];
    assert_int_equal(access(index_path, F_OK), 0);
    snprintf(path, sizeof path, "%s/model-00005-of-00005.safetensors", saved);
    assert_int_equal(access(path, F_OK), 0); /* five files of weights */
    load_as_trained(saved);
    load_as_trained(index_path);
    shell("mkdir '%s'/%s", folder, "one");
    snprintf(path, sizeof path, "%s/one/model.safetensors", folder);
    need(samba_session_save(trained, path, false));
    *strrchr(path, '/') = 0;
    load_as_trained(path);
}

/* Headers alone tell of the same tensors, and are checked as whole files are. */
static void cut_short(const char *path, const char *bytes)
{
    char name[700];
    samba_tensor_list list;
    shell("head -c %2$s '%1$s' >'%1$s.cut'", path, bytes);
    snprintf(name, sizeof name, "%s.cut", path);
    assert_int_equal(samba_weights_read(context, name, &list), SAMBA_ERROR_FORMAT);
    char words[300];
    snprintf(words, sizeof words, "%.200s", samba_error_message(context));
    refuse(samba_weights_names(context, name, &list), SAMBA_ERROR_FORMAT, words);
}

TEST(names_alone)
{
    char path[700];
    samba_tensor_list whole, names;
    need(samba_weights_read(context, saved, &whole));
    need(samba_weights_names(context, saved, &names));
    assert_true(whole.count > 5 && whole.count == names.count);
    for (int i = 0; i < whole.count; i++) {
        const samba_tensor *a = whole.tensors[i], *b = names.tensors[i];
        assert_string_equal(samba_tensor_name(a), samba_tensor_name(b));
        assert_true(samba_shape_equal(a->rank, a->shape, b->rank, b->shape) && a->dtype == b->dtype);
        assert_false(samba_tensor_has_data(b));
    }
    samba_tensor_list_free(context, &whole);
    samba_tensor_list_free(context, &names);
    snprintf(path, sizeof path, "%s/model-00001-of-00005.safetensors", saved);
    cut_short(path, "0");
    cut_short(path, "7");
    cut_short(path, "8");
    cut_short(path, "60");
    cut_short(path, "-1");
    assert_true(samba_weights_exist(saved) && !samba_weights_exist("/nowhere"));
}

/* ---- what is not ---- */
/* Weights with this index, or with nothing. */
static samba_status load_with(const char *text)
{
    char home[256], path[300];
    snprintf(home, sizeof home, "%s/lies", folder);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", home);
    shell("rm -rf '%s'%s", home, "");
    if (strcmp(text, "folder of nothing") == 0) {
        shell("mkdir '%s'%s", home, "");
    } else {
        shell("cp -r '%s' '%s'", saved, home);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    return samba_session_load(fresh, home);
}

TEST(indices_that_lie)
{
    uint64_t before = bits_of(fresh, LEARNED);
    replay("indices_that_lie", load_with);
    assert_true(bits_of(fresh, LEARNED) == before);
}

static samba_status load_once(samba_context *own, void *unused)
{
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    OWN_SESSION *session;
    SAMBA_TRY(samba_session_new(own, pef, &options, &session));
    return samba_session_load(session, saved);
}

TEST(no_memory) { fail_each_allocation(load_once, NULL); }

TEST_MAIN_AROUND(setup, teardown, NULL, NULL, folders_and_indices, names_alone, indices_that_lie, no_memory, every_message_said)
