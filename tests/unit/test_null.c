/* SPDX-License-Identifier: Apache-2.0
 *
 * NULL where a pointer is expected. Every public function is called with each of its pointers NULL in turn and with all of them
 * (null_calls.h, made of the headers), in a process of its own: none crashes, and where a session, a tensor or the like is NULL,
 * or the place of a result, a function that returns a status says ARGUMENT. */
#include "../seed.h"
#include "training.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SECONDS = 20 };
static samba_session *session;
static samba_graph *graph;
static samba_tensor *tensor_;
static samba_function *function;
static samba_multigraph *multigraph;
static samba_checkpoint *checkpoint;
static samba_lm *lm;
static samba_lm_adapter *adapter;
static samba_generator *generator;
static samba_onnx *onnx;           /* a model without nodes; NULL where the library reads none */
static samba_tokenizer *tokenizer; /* these three too */
static samba_token_encoder *encoder;
static samba_token_stream *stream;
static samba_tensor_list *tensors;
static samba_reading *reading;
static samba_source *source;
static samba_loader *loader;
static samba_metric *metric;
static samba_value value, values[8];
static int64_t sizes[16] = {2, 2, 2, 2, 2, 2, 2, 2};
static int numbers[16] = {0, 1};
static double reals[16] = {0.5, 0.5};
static const char *const names[8] = {"x", "x"};
static void *places[8];
static _Alignas(64) char room[8192]; /* of any struct, zeroed */

#include "null_calls.h"

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* The status of the process: what the call returned, or minus the signal that ended it. */
static int outcome(int (*call)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0, 0};
        if (chdir(folder) != 0) /* calls write files named x */
            _exit(99);
        setrlimit(RLIMIT_CORE, &none);
        alarm(seconds_allowed(SECONDS));
        for (int s = 0; s < LENGTH(crashes); s++)
            signal(crashes[s], SIG_DFL); /* the runner's own would go on with its next test */
        freopen("/dev/null", "w", stdout);
        freopen("/dev/null", "w", stderr);
        _exit(call());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(each_pointer_null)
{
    int bad = 0;
    for (int i = 0; i < LENGTH(calls); i++) {
        int given = outcome(calls[i].call);
        if (given >= 0 && (!calls[i].refused || given == SAMBA_ERROR_ARGUMENT))
            continue;
        bad++;
        print_error("%s, argument %d (0: all pointers) NULL: %s\n", calls[i].name, calls[i].argument + 1,
                    given < 0 ? strsignal(-given) : samba_status_name((samba_status)given));
    }
    print_message("%d calls\n", LENGTH(calls));
    assert_int_equal(bad, 0);
}

MODEL(model) { samba_loss(g, "loss", samba_mean(samba_linear(samba_input(g, "x"), "layer", 4), 0, NULL, false)); }

static samba_status write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0 ? SAMBA_OK : SAMBA_ERROR_FILE;
}

/* A model of a folder, as small as one may be, with an adapter. */
static samba_status open_lm(void)
{
    SAMBA_TRY(
        write_file("config.json", "{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_embd\": 2, \"n_head\": 1, \"n_layer\": 1}"));
    SAMBA_TRY(write_file("adapter_config.json", "{\"r\": 1, \"lora_alpha\": 1, \"target_modules\": [\"c_attn\"]}"));
    SAMBA_TRY(samba_lm_open(context, folder, &lm));
    return samba_lm_adapter_open(lm, folder, &adapter, NULL);
}

static int setup(void **unused)
{
    if (harness_begin(unused) != 0)
        return -1;
    char pef[512], path[128];
    tensor_ = normal("x", SAMBA_FLOAT32, 2, SHAPE(4, 4), 1);
    samba_compile_options o = compile_of("null", model, NULL, 1, &tensor_);
    need(samba_compile(context, &o, pef, sizeof pef));
    session = open_session(pef, 1, 0);
    if (samba_onnx_open_memory(context, "\x08\x08\x3a\x00\x42\x02\x10\x11", 8, NULL, &onnx) != SAMBA_OK)
        assert_null(onnx);
    static const char json[] = "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"x\": 0}, \"unk_token\": \"x\"}}";
    if (samba_tokenizer_open_memory(context, json, sizeof json - 1, &tokenizer) == SAMBA_OK) {
        need(samba_token_encoder_new(context, tokenizer, &encoder));
        need(samba_token_stream_new(context, tokenizer, false, &stream));
    }
    samba_checkpoint_options saved = samba_checkpoint_defaults();
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    saved.folder = path;
    need(samba_checkpoint_save(session, &saved));
    need(samba_checkpoint_newest(context, path, &checkpoint));
    tensors = (samba_tensor_list *)samba_checkpoint_tensors(checkpoint);
    need(samba_graph_new(context, "f", &graph));
    need(samba_graph_add_input(graph, tensor_));
    samba_output(graph, "y", samba_relu(samba_input(graph, "x")));
    need(samba_function_new(context, graph, NULL, &function));
    need(samba_multigraph_new(context, &multigraph));
    need(samba_reading_new(context, 1, 1 << 20, &reading));
    need(samba_source_tensors(context, 1, &tensor_, &source));
    need(samba_loader_new(context, source, NULL, &loader));
    const samba_metric_options accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    need(samba_metric_new(context, &accuracy, &metric));
    need(open_lm());
    need(samba_generator_new(lm, NULL, &generator));
    value = samba_input(graph, "x");
    for (int i = 0; i < LENGTH(values); i++)
        values[i] = value;
    for (int i = 0; i < LENGTH(places); i++)
        places[i] = room;
    return 0;
}

static int teardown(void **unused)
{
    samba_reading_free(reading);
    samba_metric_free(metric);
    samba_loader_free(loader);
    samba_source_free(source);
    samba_multigraph_free(multigraph);
    samba_function_free(function);
    samba_graph_free(graph);
    samba_checkpoint_free(checkpoint);
    samba_onnx_free(onnx);
    samba_generator_free(generator);
    samba_lm_adapter_free(adapter);
    samba_lm_free(lm);
    samba_token_encoder_free(encoder);
    samba_token_stream_free(stream);
    samba_tokenizer_free(tokenizer);
    samba_session_free(session);
    samba_tensor_free(tensor_);
    return harness_end(unused);
}

TEST_MAIN_AROUND(setup, teardown, NULL, NULL, each_pointer_null)
