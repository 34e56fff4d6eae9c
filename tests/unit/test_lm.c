/* SPDX-License-Identifier: Apache-2.0
 *
 * Language models from a folder: what is refused says which key it is and what is supported; damaged files are refused; a model
 * that was saved is opened again with the same weights; and with no memory nothing is left. tests/python/test_lm.py compares the
 * numbers with those of transformers. */
#include "training.h"
#include "messages.h"
#include "data/data.h"
#include "failing_allocator.h"
#include <sambaflow/lm.h>
#include <jansson.h>
#include <sys/stat.h>

#define SMALL                                                                                                                    \
    "\"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 12, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "  \
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 16"
#define LLAMA "\"model_type\": \"llama\", " SMALL
#define GPT2 "\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_embd\": 8, \"n_head\": 2, \"n_layer\": 1, \"n_positions\": 6"

/* A folder `name` with this config.json. */
static const char *folder_of(const char *name, const char *config)
{
    static char path[256];
    char file[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0777);
    snprintf(file, sizeof file, "%s/config.json", path);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(config, out);
    assert_int_equal(fclose(out), 0);
    return path;
}

static samba_status open_with(const char *config)
{
    samba_lm *lm = NULL;
    samba_status status = samba_lm_open(context, folder_of("one", config), &lm);
    assert_int_equal(status == SAMBA_OK, lm != NULL);
    samba_lm_free(lm);
    return status;
}

/* ---- what is refused ---- */

TEST(test_unsupported)
{
    static const struct {
        const char *config, *words;
    } cases[] = {
        {"{\"model_type\": \"mamba\"}", "\"model_type\" is \"mamba\": supported is llama, mistral, qwen2"},
        {"{\"hidden_size\": 8}", "\"model_type\" is not there: supported is llama"},
        {"{" LLAMA ", \"hidden_act\": \"mish\"}", "\"hidden_act\" is \"mish\": supported is gelu, "},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"spiral\"}}",
         "\"rope_scaling.type\" is \"spiral\": supported is default, linear"},
        {"{" LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\", \"wobble\": 2}}",
         "\"rope_parameters.wobble\" is 2, and nothing here knows that key"},
        {"{" LLAMA ", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
         "\"rope_parameters.partial_rotary_factor\" is 0.5: supported is 1"},
        {"{" LLAMA ", \"hyperdrive\": 3}", "\"hyperdrive\" is 3, and nothing here knows that key"},
        {"{" LLAMA ", \"quantization_config\": {\"bits\": 4}}", "\"quantization_config\" is {\"bits\":4}: supported is null"},
        {"{" LLAMA ", \"is_encoder_decoder\": true}", "\"is_encoder_decoder\" is true: supported is false"},
        {"{" LLAMA ", \"architectures\": [\"LlamaForSequenceClassification\"]}", "\"architectures\" is [\"LlamaForSequence"},
        {"{\"model_type\": \"qwen2\", " SMALL ", \"layer_types\": [\"full_attention\", \"chunked_attention\"]}",
         "\"layer_types\" is [\"full_attention\",\"chunked_attention\"]: supported is full_attention, sliding_attention"},
        {"{\"model_type\": \"gemma3_text\", " SMALL ", \"pad_token_id\": 0, \"use_bidirectional_attention\": true}",
         "\"use_bidirectional_attention\" is true: supported is false"},
        {"{\"model_type\": \"gemma3\", \"text_config\": {}}", "\"model_type\" is \"gemma3\": supported is llama"},
        {"{" GPT2 ", \"add_cross_attention\": true}", "\"add_cross_attention\" is true: supported is false"},
        {"{" GPT2 ", \"is_causal\": false}", "\"is_causal\" is false: supported is true"},
        {"{\"model_type\": \"falcon\", \"new_decoder_architecture\": true, \"parallel_attn\": false}",
         "\"parallel_attn\" is false: supported is true where"},
        {"{\"model_type\": \"opt\", \"layerdrop\": 0.1}", "\"layerdrop\" is 0.1: supported is 0"},
    };
    for (int i = 0; i < LENGTH(cases); i++)
        refuse(open_with(cases[i].config), SAMBA_ERROR_UNSUPPORTED, cases[i].words);
    need(open_with("{" LLAMA ", \"hyperdrive\": null, \"warp\": false, \"torch_dtype\": \"bfloat16\", \"use_cache\": true}"));
}

TEST(test_contradictions)
{
    static const struct {
        const char *config, *words;
    } cases[] = {
        {"", "no valid JSON"},
        {"{\"model_type\": \"llama\"", "no valid JSON"},
        {"[1, 2]", "no JSON object"},
        {"{\"model_type\": \"llama\", \"model_type\": \"gpt2\"}", "no valid JSON: duplicate object key"},
        {"{\"model_type\": 7}", "\"model_type\" is 7: expected is a string"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 0}", "\"hidden_size\" is 0: expected is an integer from 1 to"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 8.0}", "\"hidden_size\" is 8.0: expected is an integer"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 9223372036854775807}", "expected is an integer from 1 to 268435456"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 99999999999999999999}", "no valid JSON: too big integer"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": \"two\"}", "\"num_hidden_layers\" is \"two\""},
        {"{\"model_type\": \"llama\", \"hidden_size\": 9}", "32 heads do not divide the hidden size 9"},
        {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", "\"num_key_value_heads\" is 5, which does not divide"},
        {"{\"model_type\": \"llama\", \"rms_norm_eps\": -1}", "\"rms_norm_eps\" is -1: expected is a number from 0 to 1"},
        {"{\"model_type\": \"llama\", \"attention_bias\": 1}", "\"attention_bias\" is 1: expected is true or false"},
        {"{\"model_type\": \"llama\", \"rope_scaling\": 4}", "\"rope_scaling\" is 4: expected is an object"},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}",
         "\"rope_scaling.factor\" is not there: expected is a number"},
        {"{\"model_type\": \"llama\", \"pad_token_id\": 32000}", "\"pad_token_id\" is 32000: expected is an integer from -32000"},
        {"{\"model_type\": \"qwen3\", \"layer_types\": [\"full_attention\"]}", "expected is a list with one word for each layer"},
        {"{\"model_type\": \"phi3\", " SMALL "}", "\"pad_token_id\" is not there and stands for 32000"},
        {"{\"model_type\": \"phi3\", " SMALL ", \"pad_token_id\": 0, \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1], "
         "\"long_factor\": [1, 2]}}",
         "\"rope_scaling.long_factor\" is [1,2]: expected is a list of numbers"},
    };
    for (int i = 0; i < LENGTH(cases); i++)
        refuse(open_with(cases[i].config), SAMBA_ERROR_FORMAT, cases[i].words);
    samba_lm *lm;
    refuse(samba_lm_open(context, "/nowhere", &lm), SAMBA_ERROR_FILE, "/nowhere/config.json");
}

/* Every prefix of a config, and it with each byte another one: refused or read, and nothing worse. */
TEST(test_damaged)
{
    static const char text[] =
        "{" LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
        "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 4}}";
    char damaged[sizeof text];
    need(open_with(text));
    for (size_t i = 0; i < sizeof text - 1; i++) {
        memcpy(damaged, text, sizeof text);
        damaged[i] = '\0';
        assert_int_not_equal(open_with(damaged), SAMBA_OK);
        for (int k = 0; k < 4; k++) {
            damaged[i] = "9-\"]"[k];
            open_with(damaged);
        }
    }
}

/* Keys that published models have beside the sizes, of whatever version wrote them. */
#define TOKENS                                                                                                                   \
    "\"bos_token_id\": 1, \"eos_token_id\": [1, 2], \"pad_token_id\": 0, \"torch_dtype\": \"bfloat16\", "                        \
    "\"transformers_version\": \"4.40.0\", \"use_cache\": true, \"initializer_range\": 0.02, \"vocab_size\": 64, "
static const char *const configs[] = {
    "{\"model_type\": \"llama\", " TOKENS "\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, "
    "\"head_dim\": 64, \"mlp_bias\": false, \"pretraining_tp\": 1, \"rope_scaling\": {\"factor\": 32.0, "
    "\"high_freq_factor\": "
    "4.0, \"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}, \"rope_theta\": "
    "500000.0, \"max_position_embeddings\": 131072, \"tie_word_embeddings\": true, \"unsloth_fixed\": true}",
    "{\"model_type\": \"llama\", " TOKENS "\"is_llama_config\": true, \"rope_interleaved\": false, \"rope_scaling\": null, "
    "\"transformers.js_config\": {\"kv_cache_dtype\": {\"q4f16\": \"float16\"}}, \"max_sequence_length\": 2048}",
    "{\"model_type\": \"mistral\", " TOKENS "\"sliding_window\": 4096, \"rope_theta\": 10000.0, \"head_dim\": 128}",
    "{\"model_type\": \"qwen2\", " TOKENS "\"max_window_layers\": 21, \"sliding_window\": 32768, \"use_mrope\": false, "
    "\"use_sliding_window\": false, \"rope_scaling\": {\"factor\": 4.0, \"original_max_position_embeddings\": 32768, "
    "\"type\": \"yarn\"}}",
    "{\"model_type\": \"gemma\", " TOKENS "\"hidden_act\": \"gelu\", \"hidden_activation\": \"gelu_pytorch_tanh\"}",
    "{\"model_type\": \"gemma2\", " TOKENS "\"hidden_act\": \"gelu_pytorch_tanh\", \"hidden_activation\": "
    "\"gelu_pytorch_tanh\", \"cache_implementation\": \"hybrid\", \"final_logit_softcapping\": 30.0, "
    "\"attn_logit_softcapping\": 50.0, \"query_pre_attn_scalar\": 256}",
    "{\"model_type\": \"gemma3_text\", " TOKENS "\"rope_local_base_freq\": 10000, \"rope_theta\": 1000000, \"rope_scaling\": "
    "{\"factor\": 8.0, \"rope_type\": \"linear\"}, \"sliding_window_pattern\": 6, \"attn_logit_softcapping\": null}",
    "{\"model_type\": \"phi3\", " TOKENS "\"auto_map\": {\"AutoConfig\": \"configuration_phi3.Phi3Config\"}, \"resid_pdrop\": "
    "0.0, \"embd_pdrop\": 0.0, \"partial_rotary_factor\": 0.75, \"full_attn_mod\": 1, \"interpolate_factor\": 1, "
    "\"lm_head_bias\": false, \"original_max_position_embeddings\": 4096, \"sliding_window\": 262144}",
    "{\"model_type\": \"gpt2\", " TOKENS "\"_num_labels\": 1, \"n_ctx\": 1024, \"summary_type\": \"cls_index\", "
    "\"summary_first_dropout\": 0.1, \"summary_use_proj\": true, \"task_specific_params\": {\"text-generation\": "
    "{\"do_sample\": true, \"max_length\": 50}}, \"gradient_checkpointing\": false}",
    "{\"model_type\": \"opt\", " TOKENS "\"activation_dropout\": 0.0, \"prefix\": \"</s>\", \"word_embed_proj_dim\": 512, "
    "\"do_layer_norm_before\": false, \"_remove_final_layer_norm\": false}",
    "{\"model_type\": \"gpt_neox\", " TOKENS "\"rotary_emb_base\": 10000, \"rotary_pct\": 0.25, \"use_parallel_residual\": "
    "true, \"attention_probs_dropout_prob\": 0, \"hidden_dropout_prob\": 0, \"classifier_dropout\": 0.1}",
    "{\"model_type\": \"falcon\", " TOKENS "\"alibi\": false, \"apply_residual_connection_post_layernorm\": false, \"bias\": "
    "false, \"multi_query\": true, \"parallel_attn\": true, \"new_decoder_architecture\": false}",
    "{\"model_type\": \"stablelm\", " TOKENS "\"partial_rotary_factor\": 0.25, \"qk_layernorm\": true, \"use_qkv_bias\": "
    "false, \"use_parallel_residual\": true, \"hidden_dropout\": 0.0, \"layer_norm_eps\": 1e-05}",
};

TEST(test_published_keys)
{
    for (int i = 0; i < LENGTH(configs); i++)
        need(open_with(configs[i]));
}

/* Each of their keys with each of these values: read, or refused in a sentence about the file. */
TEST(test_odd_values)
{
    static const char *const values[] = {"null",
                                         "true",
                                         "false",
                                         "0",
                                         "-1",
                                         "3",
                                         "9007199254740993",
                                         "1e308",
                                         "-0.5",
                                         "\"\"",
                                         "\"default\"",
                                         "[]",
                                         "[1, \"x\", null]",
                                         "{}",
                                         "{\"rope_type\": 3, \"factor\": []}"};
    for (int i = 0; i < LENGTH(configs); i++) {
        json_t *config = json_loads(configs[i], 0, NULL), *value;
        const char *key;
        assert_non_null(config);
        json_object_foreach(config, key, value) for (int k = 0; k < LENGTH(values); k++)
        {
            json_t *odd = json_copy(config);
            json_object_set_new(odd, key, json_loads(values[k], JSON_DECODE_ANY, NULL));
            char *text = json_dumps(odd, 0);
            samba_status status = open_with(text);
            if (status != SAMBA_OK && ((status != SAMBA_ERROR_FORMAT && status != SAMBA_ERROR_UNSUPPORTED) ||
                                       !strstr(samba_error_message(context), "/config.json: ")))
                fail_msg("%s with %s %s: %s: %s", configs[i], key, values[k], samba_status_name(status),
                         samba_error_message(context));
            free(text);
            json_decref(odd);
        }
        json_decref(config);
    }
}

/* ---- graphs ---- */

typedef struct task {
    const samba_lm *lm;
    bool options;
} task;

static void lm_model(samba_graph *g, const void *given)
{
    const task *t = given;
    samba_lm_options options = samba_lm_defaults();
    samba_value tokens = samba_input(g, "input_ids");
    if (t->options)
        options.attention_mask = options.position_ids = options.document_ids = tokens;
    samba_loss(g, "loss", samba_lm_loss(samba_lm_logits(t->lm, g, tokens, &options), tokens));
}

static samba_session *compiled(const samba_lm *lm, const char *name)
{
    char pef[512];
    OWN_TENSOR *tokens = tensor("input_ids", SAMBA_INT64, 2, SHAPE(2, 5));
    samba_optimizer sgd = samba_sgd(0.1);
    task t = {lm, true};
    samba_compile_options o = training_of(name, lm_model, &t, 1, &tokens, &sgd);
    need(samba_compile(context, &o, pef, sizeof pef));
    return open_session(pef, 1, 3);
}

TEST(test_saved_and_opened)
{
    samba_lm *first, *second;
    char saved[300];
    need(samba_lm_open(context, folder_of("two", "{" LLAMA ", \"dtype\": \"bfloat16\", \"tie_word_embeddings\": true}"), &first));
    samba_lm_info info;
    need(samba_lm_get_info(first, &info));
    assert_false(info.has_weights);
    assert_int_equal(info.head_dim, 2);
    assert_string_equal(info.model_type, "llama");
    OWN_SESSION *trained = compiled(first, "first");
    OWN_TENSOR *tokens = tensor("input_ids", SAMBA_INT64, 2, SHAPE(2, 5));
    need(samba_fill_integers(tokens, 7, 0, 11));
    need(samba_session_set(trained, tokens));
    need(samba_run(trained, NULL));
    snprintf(saved, sizeof saved, "%s/deep/er", folder);
    need(samba_lm_save(first, trained, saved));

    need(samba_lm_open(context, saved, &second));
    need(samba_lm_get_info(second, &info));
    assert_true(info.has_weights && info.float32);
    OWN_SESSION *again = compiled(second, "second");
    need(samba_session_set(again, tokens));
    refuse(samba_run(again, NULL), SAMBA_ERROR_STATE, "has no value");
    need(samba_session_load(again, saved));
    assert_same_bits(again, trained, LEARNED);
    samba_lm_free(first);
    samba_lm_free(second);

    char config[600] = "";
    strcat(saved, "/config.json");
    FILE *file = fopen(saved, "r");
    assert_non_null(file);
    assert_in_range(fread(config, 1, sizeof config - 1, file), 1, sizeof config - 2);
    fclose(file);
    assert_non_null(strstr(config, "\"dtype\": \"float32\""));
}

/* ---- weights ---- */

/* A table, what is no weight, and the table again as a head, if that has a name. */
static void write_weights(const char *path, const char *name, samba_dtype dtype, int64_t rows, const char *head)
{
    char file[300];
    OWN_TENSOR *table = tensor(name, dtype, 2, SHAPE(rows, 8));
    OWN_TENSOR *again = tensor(head, dtype, 2, SHAPE(rows, 8));
    OWN_TENSOR *mask = tensor("h.0.attn.bias", SAMBA_BOOL, 1, SHAPE(4));
    need(samba_fill_uniform(table, 1, -1, 1));
    need(samba_fill_uniform(again, 1, -1, 1));
    snprintf(file, sizeof file, "%s/model.safetensors", path);
    need(samba_safetensors_write(context, file, head ? 3 : 2, (samba_tensor *[]){table, mask, again}, NULL));
}

TEST(test_names_and_dtypes)
{
    samba_lm *lm;
    samba_lm_info info;
    samba_tensor_list list;
    const char *path = folder_of("three", "{" GPT2 "}");
    write_weights(path, "wte.weight", SAMBA_BFLOAT16, 11, NULL); /* as the bare model's are named */
    need(samba_lm_open(context, path, &lm));
    need(samba_lm_get_info(lm, &info));
    assert_true(info.has_weights && !info.float32);
    need(samba_lm_weights(lm, &list));
    assert_int_equal(list.count, 1);
    assert_int_equal(samba_tensor_dtype(list.tensors[0]), SAMBA_FLOAT32);
    samba_tensor_list_free(context, &list);
    OWN_SESSION *session = compiled(lm, "bare");
    OWN_TENSOR *table = NULL;
    refuse(samba_session_get_by_name(session, "h.0.attn.c_attn.weight", &table), SAMBA_ERROR_STATE, "has no value");
    refuse(samba_session_get_by_name(session, "transformer.h.0.attn.c_attn.weight", &table), SAMBA_ERROR_NAME, "");
    samba_lm_free(lm);

    write_weights(path, "transformer.wte.weight", SAMBA_FLOAT32, 12, NULL);
    refuse(samba_lm_open(context, path, &lm), SAMBA_ERROR_FORMAT,
           "\"transformer.wte.weight\" is expected to be 11 x 8, given (12, 8)");
    write_weights(path, "table", SAMBA_FLOAT32, 11, NULL);
    refuse(samba_lm_open(context, path, &lm), SAMBA_ERROR_FORMAT, "have no tensor \"transformer.wte.weight\"");
    need(samba_lm_open(context, folder_of("four", "{" GPT2 "}"), &lm));
    refuse(samba_lm_weights(lm, &list), SAMBA_ERROR_STATE, "has no weights");
    samba_lm_free(lm);
}

/* ---- misuse ---- */

static samba_status build(const samba_lm *lm, int rank, const int64_t *shape, samba_dtype dtype, bool options)
{
    OWN_GRAPH *g;
    OWN_TENSOR *tokens = tensor("input_ids", dtype, rank, shape);
    task t = {lm, options};
    need(samba_graph_new(context, "lm", &g));
    need(samba_graph_add_input(g, tokens));
    lm_model(g, &t);
    return samba_graph_status(g);
}

TEST(test_misuse)
{
    samba_lm *lm;
    need(samba_lm_open(context, folder_of("five", "{" GPT2 "}"), &lm));
    need(build(lm, 2, SHAPE(1, 6), SAMBA_INT64, true));
    need(build(lm, 2, SHAPE(1, 6), SAMBA_INT32, false));
    refuse(build(lm, 2, SHAPE(1, 7), SAMBA_INT64, false), SAMBA_ERROR_SHAPE, "7 tokens, and the model has 6 positions");
    refuse(build(lm, 1, SHAPE(6), SAMBA_INT64, false), SAMBA_ERROR_SHAPE, "input_ids of shape (batch, length)");
    refuse(build(lm, 2, SHAPE(1, 6), SAMBA_FLOAT32, false), SAMBA_ERROR_SHAPE, "an integer dtype");
    samba_lm_free(lm);
}

/* A tensor for each of the graph's parameters, and one that is none. */
static samba_status fill_like(samba_context *owner, const samba_graph *g, samba_tensor *tensors[64], int *count)
{
    SAMBA_TRY(samba_tensor_new(owner, "model.step", SAMBA_FLOAT32, 0, NULL, &tensors[0]));
    for (int64_t i = 0; i < samba_graph_parameter_count(g); i++) {
        samba_parameter_info info;
        ++*count;
        SAMBA_TRY(samba_graph_parameter(g, i, &info));
        SAMBA_TRY(samba_tensor_new(owner, info.name, info.dtype, info.rank, info.shape, &tensors[*count]));
    }
    ++*count;
    return SAMBA_OK;
}

static samba_status open_build_save(samba_context *owner, void *lacking)
{
    samba_lm *lm = NULL;
    samba_graph *g = NULL;
    samba_tensor *tokens = NULL, *tensors[64] = {NULL};
    samba_tensor_list list = {0};
    char path[300];
    int count = 0;
    snprintf(path, sizeof path, "%s/six", folder);
    samba_status status = samba_lm_open(owner, path, &lm);
    THEN(status, samba_tensor_new(owner, "input_ids", SAMBA_INT64, 2, SHAPE(1, 4), &tokens));
    THEN(status, samba_graph_new(owner, "lm", &g));
    THEN(status, samba_graph_add_input(g, tokens));
    if (status == SAMBA_OK) {
        lm_model(g, &(task){lm, true});
        status = samba_graph_status(g);
    }
    THEN(status, samba_lm_weights(lm, &list));
    THEN(status, fill_like(owner, g, tensors, &count));
    if (status == SAMBA_OK && lacking)
        THEN(status, samba_tensor_set_name(tensors[3], lacking));
    strcat(path, "/saved");
    THEN(status, samba_lm_save_tensors(lm, count, tensors, path));
    free_each_tensor(LENGTH(tensors), tensors);
    samba_tensor_list_free(owner, &list);
    samba_graph_free(g);
    samba_tensor_free(tokens);
    samba_lm_free(lm);
    return status;
}

TEST(test_no_memory)
{
    const char *path =
        folder_of("six", "{\"model_type\": \"gemma2\", " SMALL ", \"sliding_window\": 2, \"torch_dtype\": \"bfloat16\"}");
    write_weights(path, "model.embed_tokens.weight", SAMBA_BFLOAT16, 11, "lm_head.weight");
    refuse(open_build_save(context, "other"), SAMBA_ERROR_NAME, "the model has a parameter \"model.layers.0.");
    refuse(open_build_save(context, "model.embed_tokens.weight"), SAMBA_ERROR_NAME, "and no tensor is called so");
    fail_each_allocation(open_build_save, NULL);
}

TEST_MAIN(test_unsupported, test_contradictions, test_damaged, test_published_keys, test_odd_values, test_saved_and_opened,
          test_names_and_dtypes, test_misuse, test_no_memory)
