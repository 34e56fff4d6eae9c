/* SPDX-License-Identifier: Apache-2.0
 *
 * Frozen parameters, low-rank adapters, weights in fewer bits and partial loads: which parameters train, what is refused, how far
 * integers are from what they stand for, and what a lack of memory leaves. tests/python/test_lm_adapter.py compares with PEFT. */
#include "training.h"
#include "failing_allocator.h"
#include <sambaflow/adapter.h>
#include <sambaflow/lm.h>
#include <math.h>
#include <sys/stat.h>

typedef struct wish { /* of a model of two linear layers */
    samba_freeze_options freeze;
    samba_lora_options lora;
    bool freezes, adapts;
} wish;

static samba_value mean_of(samba_value x)
{
    samba_value flat = samba_reshape(x, 1, SHAPE(-1));
    return samba_mean(flat, 1, (const int[]){0}, false);
}

static void two_layers(samba_graph *g, const void *settings)
{
    const wish *w = settings;
    samba_value x = samba_input(g, "x");
    if (w->freezes)
        samba_freeze_push(g, &w->freeze);
    if (w->adapts)
        samba_lora_push(g, &w->lora);
    x = samba_linear(x, "first", 32);
    x = samba_linear(samba_relu(x), "second", 3);
    if (w->adapts)
        samba_lora_pop(g);
    if (w->freezes)
        samba_freeze_pop(g);
    samba_loss(g, "loss", mean_of(x));
}

static wish wishes(void) { return (wish){.freeze = samba_freeze_defaults(), .lora = samba_lora_defaults()}; }

/* The names of what trains, with a space behind each; the graph's failure is expected to have these words, if any. */
static const char *trained(const wish *w, samba_status status, const char *words)
{
    static char names[1000];
    OWN_GRAPH *g;
    OWN_TENSOR *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(4, 64));
    need(samba_graph_new(context, "two", &g));
    need(samba_graph_add_input(g, x));
    two_layers(g, w);
    names[0] = 0;
    if (status != SAMBA_OK) {
        refuse(samba_graph_status(g), status, words);
        return names;
    }
    need(samba_graph_status(g));
    for (int64_t i = 0; i < samba_graph_parameter_count(g); i++) {
        samba_parameter_info info;
        need(samba_graph_parameter(g, i, &info));
        if (!info.buffer)
            strcat(strcat(names, info.name), " ");
    }
    return names;
}

#define PATTERNS(...)                                                                                                            \
    LENGTH(((const char *[]){__VA_ARGS__})), (const char *[]) { __VA_ARGS__ }
#define GIVE(count, list, ...) give(&(count), &(list), PATTERNS(__VA_ARGS__))
static void give(int *count, const char *const **list, int given, const char **patterns)
{
    static const char *room[16][8];
    static int used;
    memcpy(room[used % 16], patterns, sizeof *patterns * (size_t)given);
    *count = given, *list = room[used++ % 16];
}

TEST(test_which_train)
{
    wish w = wishes();
    assert_string_equal(trained(&w, SAMBA_OK, NULL), "first.weight first.bias second.weight second.bias ");
    w.freezes = true;
    assert_string_equal(trained(&w, SAMBA_OK, NULL), "");
    GIVE(w.freeze.pattern_count, w.freeze.patterns, "first.*");
    assert_string_equal(trained(&w, SAMBA_OK, NULL), "second.weight second.bias ");
    GIVE(w.freeze.pattern_count, w.freeze.patterns, "*");
    GIVE(w.freeze.except_count, w.freeze.excepts, "*.bias");
    assert_string_equal(trained(&w, SAMBA_OK, NULL), "first.bias second.bias ");
    w = wishes();
    w.freezes = w.adapts = true;
    GIVE(w.lora.target_count, w.lora.targets, "second");
    assert_string_equal(trained(&w, SAMBA_OK, NULL), "second.lora_A.weight second.lora_B.weight ");
    w.lora.dora = true;
    assert_string_equal(trained(&w, SAMBA_OK, NULL), "second.lora_A.weight second.lora_B.weight second.lora_magnitude_vector ");
    w = wishes();
    w.adapts = true;
    GIVE(w.lora.exclude_count, w.lora.excludes, "fir*");
    assert_string_equal(trained(&w, SAMBA_OK, NULL),
                        "first.weight first.bias second.weight second.bias second.lora_A.weight second.lora_B.weight ");
}

TEST(test_refusals)
{
    wish w = wishes();
    w.freezes = true;
    GIVE(w.freeze.pattern_count, w.freeze.patterns, "first.*", "frist.*");
    trained(&w, SAMBA_ERROR_NAME, "samba_freeze_push: no parameter has a name like \"frist.*\"");
    w = wishes();
    w.freezes = true;
    GIVE(w.freeze.except_count, w.freeze.excepts, "third.bias");
    trained(&w, SAMBA_ERROR_NAME, "no frozen parameter has a name like \"third.bias\"");
    w = wishes();
    w.freezes = true, w.freeze.base = (samba_base)9;
    trained(&w, SAMBA_ERROR_ARGUMENT, "9 is no samba_base");
    w = wishes();
    w.freezes = true, w.freeze.pattern_count = 1;
    trained(&w, SAMBA_ERROR_ARGUMENT, "a list of 1 patterns is not there");
    w = wishes();
    w.adapts = true, w.lora.rank = 0;
    trained(&w, SAMBA_ERROR_ARGUMENT, "samba_lora_push: a rank of 1 or more");
    w = wishes();
    w.adapts = true, w.lora.dropout = 1;
    trained(&w, SAMBA_ERROR_ARGUMENT, "0 <= dropout < 1 are expected");
    w = wishes();
    w.adapts = true, w.lora.alpha = NAN;
    trained(&w, SAMBA_ERROR_ARGUMENT, "a finite alpha");
    w = wishes();
    w.adapts = true;
    GIVE(w.lora.target_count, w.lora.targets, "econd");
    trained(&w, SAMBA_ERROR_NAME, "samba_lora_push: no linear layer has a name like \"econd\"");
    w = wishes();
    w.adapts = true;
    GIVE(w.lora.exclude_count, w.lora.excludes, "third");
    trained(&w, SAMBA_ERROR_NAME, "no linear layer that would get an adapter has a name like \"third\"");
    w = wishes();
    w.adapts = true;
    GIVE(w.lora.target_count, w.lora.targets, "");
    trained(&w, SAMBA_ERROR_ARGUMENT, "pattern 0 is empty");
    w = wishes();
    w.freezes = true, w.freeze.struct_size = 3;
    trained(&w, SAMBA_ERROR_ARGUMENT, "struct_size");
    OWN_GRAPH *g, *h;
    need(samba_graph_new(context, "g", &g));
    samba_freeze_pop(g);
    refuse(samba_graph_status(g), SAMBA_ERROR_STATE, "samba_freeze_pop was called more often");
    need(samba_graph_new(context, "h", &h));
    samba_lora_pop(h);
    refuse(samba_graph_status(h), SAMBA_ERROR_STATE, "samba_lora_pop was called more often");
}

static void narrow(samba_graph *g, const void *unused)
{
    samba_freeze_options freeze = samba_freeze_defaults();
    (void)unused;
    freeze.base = SAMBA_BASE_INT4;
    samba_freeze_push(g, &freeze);
    samba_loss(g, "loss", mean_of(samba_linear(samba_input(g, "x"), "odd", 3)));
    samba_freeze_pop(g);
}

TEST(test_groups)
{
    OWN_GRAPH *g;
    OWN_TENSOR *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(4, 33));
    need(samba_graph_new(context, "g", &g));
    need(samba_graph_add_input(g, x));
    narrow(g, NULL);
    refuse(samba_graph_status(g), SAMBA_ERROR_SHAPE, "33 features are not a multiple of that: keep \"odd\" in INT8");
}

/* ---- integers ---- */

static float at(samba_tensor *const parts[2], samba_base base, int64_t in, int64_t i, int64_t k)
{
    return samba_quantized_at(parts, base == SAMBA_BASE_INT4, in, i, k);
}

/* What half of a step between two integers is. */
static double half_step(samba_tensor *const parts[2], samba_base base, int64_t in, int64_t i, int64_t k)
{
    const int64_t row = base == SAMBA_BASE_INT8 ? i : (i * in + k) / 32;
    return 0.5 * fabs(element_of(parts[1], row));
}

static void check_quantized(int64_t out, int64_t in, samba_base base, bool transposed)
{
    samba_tensor *parts[2];
    OWN_TENSOR *weight = normal("w.weight", SAMBA_FLOAT32, 2, transposed ? SHAPE(in, out) : SHAPE(out, in), 7);
    if (out > 1)
        for (int64_t k = 0; k < in; k++)
            ((float *)samba_tensor_data(weight))[transposed ? k * out : k] = 0; /* a row of zeros */
    need(samba_quantize(context, weight, base, transposed, parts));
    assert_string_equal(samba_tensor_name(parts[1]), "w.weight_scale");
    assert_string_equal(samba_tensor_name(parts[0]), base == SAMBA_BASE_INT8 ? "w.weight" : "w.weight_packed");
    for (int64_t i = 0; i < out; i++)
        for (int64_t k = 0; k < in; k++) {
            const double value = element_of(weight, transposed ? k * out + i : i * in + k);
            /* INT4 has -8 and no 8: what lies beside that is cut, by no more than a step. The scale is rounded too. */
            const double most = half_step(parts, base, in, i, k) * (base == SAMBA_BASE_INT8 ? 1.0001 : 2.01);
            assert_true(fabs(value - at(parts, base, in, i, k)) <= most + 1e-30);
        }
    free_each_tensor(2, parts);
}

TEST(test_quantize)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        check_quantized(5, 7, SAMBA_BASE_INT8, transposed);
        check_quantized(1, 1, SAMBA_BASE_INT8, transposed);
        check_quantized(3, 64, SAMBA_BASE_INT4, transposed);
        check_quantized(0, 32, SAMBA_BASE_INT4, transposed);
        check_quantized(3, 0, SAMBA_BASE_INT8, transposed);
    }
    samba_tensor *parts[2];
    OWN_TENSOR *flat = normal("v", SAMBA_FLOAT32, 1, SHAPE(32), 1), *odd = normal("o", SAMBA_FLOAT32, 2, SHAPE(2, 33), 1),
               *half = normal("h", SAMBA_FLOAT16, 2, SHAPE(2, 32), 1);
    need(samba_quantize(context, flat, SAMBA_BASE_BFLOAT16, false, parts));
    assert_int_equal(samba_tensor_dtype(parts[0]), SAMBA_BFLOAT16);
    assert_null(parts[1]);
    samba_tensor_free(parts[0]);
    refuse(samba_quantize(context, flat, SAMBA_BASE_INT8, false, parts), SAMBA_ERROR_SHAPE, "a weight of rank 2 is expected");
    refuse(samba_quantize(context, odd, SAMBA_BASE_INT4, false, parts), SAMBA_ERROR_SHAPE, "\"o\" has rows of 33");
    refuse(samba_quantize(context, half, SAMBA_BASE_INT8, false, parts), SAMBA_ERROR_DTYPE, "given float16");
    refuse(samba_quantize(context, flat, SAMBA_BASE_AS_TRACED, false, parts), SAMBA_ERROR_ARGUMENT, "a base of fewer bits");
}

/* ---- a part of the tensors ---- */

TEST(test_partial_loads)
{
    OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(4, 64), 3),
               *bias = normal("net.second.bias", SAMBA_FLOAT32, 1, SHAPE(3), 4),
               *other = normal("third.bias", SAMBA_FLOAT32, 1, SHAPE(3), 5),
               *wrong = normal("second.bias", SAMBA_FLOAT32, 1, SHAPE(4), 5);
    wish w = wishes();
    samba_compile_options options = compile_of("partial", two_layers, &w, 1, &x);
    samba_session *session = open_kept(&options, 1, 1);
    samba_load_options load = samba_load_defaults();
    int loaded = -1;
    OWN_TENSOR *before = get(session, "first.weight");
    load.loaded = &loaded;
    refuse(samba_session_load_tensors(session, 1, &bias, &load), SAMBA_ERROR_NAME,
           "has \"net.second.bias\" where the PEF has \"second.bias\": give drop_prefix \"net.\"; nothing was loaded, for it "
           "lacks 4 of the PEF's tensors: \"first.weight\"");
    load.drop_prefix = "net.";
    refuse(samba_session_load_tensors(session, 1, &bias, &load), SAMBA_ERROR_NAME, "lacks 3 of the PEF's tensors");
    load.partial = true;
    need(samba_session_load_tensors(session, 2, (samba_tensor *[]){other, bias}, &load));
    assert_int_equal(loaded, 1);
    OWN_TENSOR *after = get(session, "first.weight"), *given = get(session, "second.bias");
    assert_memory_equal(samba_tensor_data(before), samba_tensor_data(after), 32 * 64 * sizeof(float));
    assert_memory_equal(samba_tensor_data(bias), samba_tensor_data(given), 3 * sizeof(float));
    refuse(samba_session_load_tensors(session, 1, &other, &load), SAMBA_ERROR_NAME, "has none of the PEF's 4 tensors");
    refuse(samba_session_load_tensors(session, 1, &wrong, &load), SAMBA_ERROR_SHAPE,
           "A partial load takes every tensor whose name the PEF has");
    refuse(samba_session_load_tensors(session, 2, (samba_tensor *[]){bias, wrong}, &load), SAMBA_ERROR_NAME, "has two tensors");
    refuse(samba_session_load_tensors(session, 1, NULL, &load), SAMBA_ERROR_ARGUMENT, "1 tensors that are not there");
    refuse(samba_session_load_tensors(session, 1, (samba_tensor *[]){NULL}, &load), SAMBA_ERROR_ARGUMENT, "tensor 0 is NULL");
    refuse(samba_session_load_with(session, NULL, &load), SAMBA_ERROR_ARGUMENT, "no path");
    refuse(samba_session_load_with(session, "/nowhere/a.safetensors", &load), SAMBA_ERROR_FILE, "nowhere");
}

/* ---- folders of adapters ---- */

#define CONFIG                                                                                                                   \
    "\"model_type\": \"llama\", \"vocab_size\": 11, \"hidden_size\": 32, \"intermediate_size\": 32, \"num_hidden_layers\": 1, "  \
    "\"num_attention_heads\": 2, \"tie_word_embeddings\": true"

static void write_text(const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

/* A folder with all weights of CONFIG, and adapters of rank 2 for q_proj. */
static void write_folders(void)
{
    char path[300];
    samba_lm *lm;
    OWN_GRAPH *g;
    OWN_TENSOR *tokens = tensor("input_ids", SAMBA_INT64, 2, SHAPE(1, 1));
    samba_tensor *tensors[32] = {NULL};
    snprintf(path, sizeof path, "%s/model", folder);
    mkdir(path, 0777);
    write_text("model/config.json", "{" CONFIG "}");
    need(samba_lm_open(context, path, &lm));
    need(samba_graph_new(context, "lm", &g));
    need(samba_graph_add_input(g, tokens));
    samba_lm_logits(lm, g, samba_input(g, "input_ids"), NULL);
    need(samba_graph_status(g));
    const int count = (int)samba_graph_parameter_count(g);
    for (int i = 0; i < count; i++) {
        samba_parameter_info info;
        need(samba_graph_parameter(g, i, &info));
        tensors[i] = normal(info.name, SAMBA_FLOAT32, info.rank, info.shape, (uint64_t)i);
    }
    snprintf(path, sizeof path, "%s/model/model.safetensors", folder);
    need(samba_safetensors_write(context, path, count, tensors, NULL));
    free_each_tensor(LENGTH(tensors), tensors);
    samba_lm_free(lm);

    snprintf(path, sizeof path, "%s/adapter", folder);
    mkdir(path, 0777);
    OWN_TENSOR *a = normal("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", SAMBA_FLOAT32, 2, SHAPE(2, 32), 1);
    OWN_TENSOR *b = normal("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", SAMBA_FLOAT32, 2, SHAPE(32, 2), 2);
    snprintf(path, sizeof path, "%s/adapter/adapter_model.safetensors", folder);
    need(samba_safetensors_write(context, path, 2, (samba_tensor *[]){a, b}, NULL));
}

#define LORA "\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"target_modules\": [\"q_proj\"]"

static samba_status open_and_merge(samba_context *owner, void *unused)
{
    char path[300];
    samba_lm *lm = NULL;
    samba_lm_adapter *adapter = NULL;
    const samba_lora_options *lora = NULL;
    samba_tensor_list list = {0};
    (void)unused;
    snprintf(path, sizeof path, "%s/model", folder);
    samba_status status = samba_lm_open(owner, path, &lm);
    snprintf(path, sizeof path, "%s/adapter", folder);
    THEN(status, samba_lm_adapter_open(lm, path, &adapter, &lora));
    samba_lm_options options = samba_lm_defaults();
    options.lora = lora;
    options.base = SAMBA_BASE_INT4;
    THEN(status, samba_lm_tuned_weights(lm, &options, &list));
    snprintf(path, sizeof path, "%s/merged", folder);
    THEN(status, samba_lm_adapter_merge(adapter, path));
    samba_tensor_list_free(owner, &list);
    samba_lm_adapter_free(adapter);
    samba_lm_free(lm);
    return status;
}

TEST(test_adapter_folders)
{
    static const struct {
        const char *config, *words;
        samba_status status;
    } cases[] = {
        {"{\"peft_type\": \"IA3\"}", "\"peft_type\" is \"IA3\": supported is LORA", SAMBA_ERROR_UNSUPPORTED},
        {"{" LORA ", \"bias\": \"all\"}", "\"bias\" is \"all\": supported is none", SAMBA_ERROR_UNSUPPORTED},
        {"{" LORA ", \"rank_pattern\": {\"q_proj\": 3}}", "\"rank_pattern\"", SAMBA_ERROR_UNSUPPORTED},
        {"{" LORA ", \"modules_to_save\": [\"lm_head\"]}", "\"modules_to_save\"", SAMBA_ERROR_UNSUPPORTED},
        {"{" LORA ", \"hyperdrive\": 3}", "nothing here knows that key", SAMBA_ERROR_UNSUPPORTED},
        {"{\"target_modules\": \".*q_proj\"}", "a list of names, or all-linear; expressions are not", SAMBA_ERROR_UNSUPPORTED},
        {"{\"target_modules\": 3}", "a list of names", SAMBA_ERROR_FORMAT},
        {"{\"target_modules\": [3]}", "a list of names", SAMBA_ERROR_FORMAT},
        {"{" LORA ", \"r\": 0}", "no object of JSON", SAMBA_ERROR_FORMAT}, /* twice */
        {"{\"r\": 0}", "\"r\" is 0", SAMBA_ERROR_FORMAT},
        {"[1]", "no object of JSON: it is of another kind", SAMBA_ERROR_FORMAT},
        {"{", "no object of JSON", SAMBA_ERROR_FORMAT},
        {"{" LORA ", \"use_dora\": 1}", "\"use_dora\" is 1", SAMBA_ERROR_FORMAT},
        {"{" LORA ", \"init_lora_weights\": \"pissa_niter_4\"}", "\"init_lora_weights\" is \"pissa_niter_4\"",
         SAMBA_ERROR_UNSUPPORTED},
        {"{" LORA ", \"init_lora_weights\": \"olora\"}", "\"init_lora_weights\" is \"olora\"", SAMBA_ERROR_UNSUPPORTED},
        {"{\"r\": 2}", "\"target_modules\" is not there: expected is a list of names, or all-linear", SAMBA_ERROR_FORMAT},
        {"{\"r\": 2, \"target_modules\": null}", "\"target_modules\" is null: expected is", SAMBA_ERROR_FORMAT},
        {"{\"r\": 2, \"target_modules\": []}", "\"target_modules\" is []: expected is a list of one name", SAMBA_ERROR_FORMAT},
    };
    static const struct {
        const char *config, *words;
        samba_status status;
    } merged[] = {
        {"{\"r\": 3, \"lora_alpha\": 4, \"target_modules\": [\"q_proj\"]}", "which is (3, 32) by adapter_config.json",
         SAMBA_ERROR_SHAPE},
        {"{\"r\": 2, \"lora_alpha\": 4, \"target_modules\": [\"k_proj\"]}", "no adapter of the model by adapter_config.json",
         SAMBA_ERROR_NAME},
        {"{" LORA ", \"exclude_modules\": [\"layers.0.self_attn.q_proj\"]}", "no adapter of the model by adapter_config.json",
         SAMBA_ERROR_NAME},
        {"{" LORA ", \"use_dora\": true}", "0 magnitudes for 1 adapters", SAMBA_ERROR_NAME},
    };
    char path[300];
    samba_lm *lm;
    samba_lm_adapter *adapter;
    write_folders();
    snprintf(path, sizeof path, "%s/model", folder);
    need(samba_lm_open(context, path, &lm));
    snprintf(path, sizeof path, "%s/adapter", folder);
    refuse(samba_lm_adapter_open(lm, path, &adapter, NULL), SAMBA_ERROR_FILE, "adapter_config.json");
    for (int i = 0; i < LENGTH(cases); i++) {
        write_text("adapter/adapter_config.json", cases[i].config);
        refuse(samba_lm_adapter_open(lm, path, &adapter, NULL), cases[i].status, cases[i].words);
    }
    write_text("adapter/adapter_config.json", "{" LORA "}");
    fail_each_allocation(open_and_merge, NULL);

    char to[300];
    snprintf(to, sizeof to, "%s/merged", folder);
    for (int i = 0; i < LENGTH(merged); i++) {
        write_text("adapter/adapter_config.json", merged[i].config);
        need(samba_lm_adapter_open(lm, path, &adapter, NULL));
        refuse(samba_lm_adapter_merge(adapter, to), merged[i].status, merged[i].words);
        samba_lm_adapter_free(adapter);
    }
    write_text("adapter/adapter_config.json", "{" LORA ", \"init_lora_weights\": \"gaussian\"}");
    need(samba_lm_adapter_open(lm, path, &adapter, NULL));
    need(samba_lm_adapter_merge(adapter, to));
    samba_lm_adapter_free(adapter);
    samba_lm_free(lm);
}

TEST_MAIN(test_which_train, test_refusals, test_groups, test_quantize, test_partial_loads, test_adapter_folders)
