/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in several files: what a checkpoint cuts is loaded as one file is, by its folder and by its index; an index that is not
 * what its files are is refused and nothing is loaded; and with no memory nothing is left. */
#include "training.h"
#include "failing_allocator.h"

#include <sambaflow/checkpoint.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

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

static int setup(void **state)
{
    (void)state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(6, 4), 1);
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options o = compile_of("shards", model, NULL, 1, &x);
    o.optimizers = &sgd, o.optimizer_count = 1;
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
    samba_tensor_free(x);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    samba_session_free(trained);
    samba_session_free(fresh);
    return 0;
}

/* ---- what is loaded ---- */
TEST(folders_and_indices)
{
    char path[700];
    assert_int_equal(access(index_path, F_OK), 0);
    snprintf(path, sizeof path, "%s/model-00005-of-00005.safetensors", saved);
    assert_int_equal(access(path, F_OK), 0); /* five files of weights */
    const char *const ways[] = {saved, index_path};
    for (int i = 0; i < 2; i++) {
        samba_session *session = open_session(pef, 1, (uint64_t)i + 5);
        need(samba_session_load(session, ways[i]));
        assert_same_bits(session, trained, LEARNED);
        samba_session_free(session);
    }
    snprintf(path, sizeof path, "%s/one", folder);
    shell("mkdir '%s'%s", path, "");
    snprintf(path, sizeof path, "%s/one/model.safetensors", folder);
    need(samba_session_save(trained, path, false));
    snprintf(path, sizeof path, "%s/one", folder);
    samba_session *session = open_session(pef, 1, 9);
    need(samba_session_load(session, path));
    assert_same_bits(session, trained, LEARNED);
    samba_session_free(session);
}

/* ---- what is not ---- */
static void write_index(const char *home, const char *text)
{
    char path[700];
    shell("rm -rf '%s'%s", home, "");
    shell("cp -r '%s' '%s'", saved, home);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(indices_that_lie)
{
    static const struct {
        const char *text;
        samba_status status;
        const char *part;
    } cases[] = {
        {"no json", SAMBA_ERROR_FORMAT, "model.safetensors.index.json\" is no index of safetensors files: "},
        {"[]", SAMBA_ERROR_FORMAT, "it has no object \"weight_map\""},
        {"{\"weight_map\": 3}", SAMBA_ERROR_FORMAT, "it has no object \"weight_map\""},
        {"{\"weight_map\": {\"a\": 1}}", SAMBA_ERROR_FORMAT, "it names no file for a"},
        {"{\"weight_map\": {\"a\": \"../up.safetensors\"}}", SAMBA_ERROR_FORMAT,
         "its files lie beside it, and it names ../up.safetensors"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", SAMBA_ERROR_FORMAT, "its files lie beside it, and it names /etc/passwd"},
        {"{\"weight_map\": {\"a\": \"\"}}", SAMBA_ERROR_FORMAT, "its files lie beside it, and it names "},
        {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}", SAMBA_ERROR_FILE, "gone.safetensors\": No such file"},
        {"{\"weight_map\": {\"a\": \"checkpoint.json\"}}", SAMBA_ERROR_FORMAT, "checkpoint.json: no safetensors file"},
        {"{\"weight_map\": {\"a\": \"model-00001-of-00005.safetensors\"}}", SAMBA_ERROR_FORMAT,
         "which the index says nothing of"},
        {"{\"weight_map\": {}}", SAMBA_ERROR_NAME, "tensors: \"first.weight\""},
    };
    char home[256], path[300];
    snprintf(home, sizeof home, "%s/lies", folder);
    size_t size;
    char *before = snapshot(fresh, LEARNED, &size), *after;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_index(home, cases[i].text);
        refuse(samba_session_load(fresh, home), cases[i].status, cases[i].part);
    }
    snprintf(path, sizeof path, "%s/empty", folder);
    shell("mkdir '%s'%s", path, "");
    refuse(samba_session_load(fresh, path), SAMBA_ERROR_FILE,
           "has neither model.safetensors.index.json nor model.safetensors: give one that has, or a file of weights");
    after = snapshot(fresh, LEARNED, &size);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

static samba_status load_once(samba_context *own, void *unused)
{
    (void)unused;
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    samba_session *session;
    SAMBA_TRY(samba_session_new(own, pef, &options, &session));
    samba_status status = samba_session_load(session, saved);
    samba_session_free(session);
    return status;
}

TEST(no_memory) { fail_each_allocation(load_once, NULL); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_and_indices), cmocka_unit_test(indices_that_lie),
                                       cmocka_unit_test(no_memory)};
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, setup, teardown));
}
