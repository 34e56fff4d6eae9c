/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file's metadata as a config.json. What a file leaves to its architecture's name, such as the activation, is what the
 * architecture has in transformers; what it says by a tensor that is there or not, a bias or a head, is read from the tensors'
 * names.
 *
 * Keys of the architecture that were not asked for are refused, as those of config.json are: they may change what the model
 * computes. Keys about the file, its author and its tokenizer are not. */
#include "lm/gguf.h"

#include <math.h>

#define LLAMA_KEYS                                                                                                               \
    .hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads", .inner = "intermediate_size",        \
    .positions = "max_position_embeddings", .eps = "rms_norm_eps", .theta = "rope_theta", .rms = true, .groups = true

const samba_lm_gguf_kind samba_lm_gguf_kinds[] = {
    {"llama", "llama", LLAMA_KEYS, .head_dim = true, .turned = true, .activation = SAMBA_LM_SILU},
    {"llama", "mistral", LLAMA_KEYS, .head_dim = true, .turned = true, .activation = SAMBA_LM_SILU}, /* with a window */
    {"qwen2", "qwen2", LLAMA_KEYS, .head_dim = true, .activation = SAMBA_LM_SILU},
    {"qwen3", "qwen3", LLAMA_KEYS, .head_dim = true, .activation = SAMBA_LM_SILU},
    {"gemma", "gemma", LLAMA_KEYS, .head_dim = true, .activation = SAMBA_LM_GELU_TANH},
    {"gemma2", "gemma2", LLAMA_KEYS, .head_dim = true, .activation = SAMBA_LM_GELU_TANH},
    {"gemma3", "gemma3_text", LLAMA_KEYS, .head_dim = true, .activation = SAMBA_LM_GELU_TANH},
    {"phi3", "phi3", LLAMA_KEYS, .head_dim = true, .partial = "partial_rotary_factor", .activation = SAMBA_LM_SILU},
    {"stablelm", "stablelm", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
     "max_position_embeddings", "layer_norm_eps", "rope_theta", .groups = true, .partial = "partial_rotary_factor",
     .activation = SAMBA_LM_SILU},
    {"gpt2", "gpt2", "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "layer_norm_epsilon", NULL,
     .activation = SAMBA_LM_GELU_TANH},
    {"gptneox", "gpt_neox", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
     "max_position_embeddings", "layer_norm_eps", "rotary_emb_base", .partial = "rotary_pct", .activation = SAMBA_LM_GELU},
    {"falcon", "falcon", "hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_hidden_size", "max_position_embeddings",
     "layer_norm_epsilon", "rope_theta", .activation = SAMBA_LM_GELU},
    {"bloom", "bloom", "hidden_size", "n_layer", "n_head", "n_inner", "seq_length", "layer_norm_epsilon", NULL,
     .activation = SAMBA_LM_GELU_TANH},
};
const int samba_lm_gguf_kind_count = SAMBA_COUNT(samba_lm_gguf_kinds);

typedef struct metadata {
    const samba_gguf *gguf;
    const samba_lm_gguf_kind *kind;
    json_t *config;
    samba_arena arena;
    bool *asked; /* of each entry */
    samba_status status;
    bool no_memory;
    int64_t hidden, layers, heads, head_dim, turning, vocab;
} metadata;

/* ---- values of the architecture ---- */

static void name_of(const metadata *m, const char *suffix, char name[128])
{
    snprintf(name, 128, "%s.%s", m->kind->name, suffix);
}

static void fail(metadata *m, samba_status status, const char *suffix, const char *expected)
{
    char name[128], shown[SAMBA_GGUF_SHOWN];
    name_of(m, suffix, name);
    if (m->status == SAMBA_OK)
        m->status = samba_fail(m->gguf->context, status, "%s: \"%s\" is %s: %s", m->gguf->path, name,
                               samba_gguf_shown(samba_gguf_find(m->gguf, name), shown), expected);
}

static const samba_gguf_value *ask(metadata *m, const char *suffix)
{
    char name[128];
    name_of(m, suffix, name);
    const samba_gguf_value *value = samba_gguf_find(m->gguf, name);
    if (value)
        m->asked[(const samba_gguf_entry *)(const void *)((const char *)value - offsetof(samba_gguf_entry, value)) -
                 m->gguf->entries] = true;
    return value;
}

static int64_t integer(metadata *m, const char *suffix, int64_t otherwise, int64_t low)
{
    const samba_gguf_value *value = ask(m, suffix);
    int64_t number = otherwise;
    char expected[64];
    if ((!value && otherwise >= low) || m->status != SAMBA_OK)
        return otherwise;
    if (samba_gguf_integer(value, &number) && number >= low && number <= INT32_MAX)
        return number;
    snprintf(expected, sizeof expected, "expected is an integer from %lld to 2147483647", (long long)low);
    fail(m, SAMBA_ERROR_FORMAT, suffix, expected);
    return low;
}

static double number(metadata *m, const char *suffix, double otherwise)
{
    const samba_gguf_value *value = ask(m, suffix);
    double found = otherwise;
    if (!value && !isnan(otherwise))
        return otherwise;
    if (!samba_gguf_number(value, &found) || !isfinite(found))
        fail(m, SAMBA_ERROR_FORMAT, suffix, "expected is a number");
    return found;
}

static bool flag(metadata *m, const char *suffix, bool otherwise)
{
    const samba_gguf_value *value = ask(m, suffix);
    bool found = otherwise;
    if (value && !samba_gguf_flag(value, &found))
        fail(m, SAMBA_ERROR_FORMAT, suffix, "expected is true or false");
    return found;
}

/* ---- the config ---- */

static void put(metadata *m, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        m->no_memory = true;
}

static void set(metadata *m, const char *key, json_t *value) { put(m, m->config, key, value); }
static void set_integer(metadata *m, const char *key, int64_t value) { set(m, key, json_integer(value)); }
/* float32 of the file as the shortest decimal number that is it, so that 1e-05 is written and not what it was rounded to. */
static json_t *real(double value)
{
    char text[40];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if ((float)strtod(text, NULL) == (float)value)
            break;
    }
    return (double)(float)value == value ? json_real(strtod(text, NULL)) : json_real(value);
}

static bool has(const metadata *m, const char *name) { return samba_gguf_tensor_find(m->gguf, name) != NULL; }

/* ---- rotary positions ---- */

/* A tensor's numbers as a list; NULL: it is not there. The caller drops it. */
static json_t *factors(metadata *m, const char *name)
{
    const samba_gguf_tensor *t = samba_gguf_tensor_find(m->gguf, name);
    float *values;
    if (!t || m->status != SAMBA_OK)
        return NULL;
    if (t->rank != 1 || t->type != SAMBA_GGUF_F32 || t->elements != m->turning / 2) {
        m->status = samba_fail(m->gguf->context, SAMBA_ERROR_FORMAT,
                               "%s: tensor \"%s\" is expected to be F32 (%lld), a factor for each pair of features that turn",
                               m->gguf->path, name, (long long)(m->turning / 2));
        return NULL;
    }
    m->status = SAMBA_ROOM(&m->arena, values, t->elements);
    if (m->status == SAMBA_OK)
        m->status = samba_gguf_tensor_bytes(m->gguf, t, values);
    json_t *list = json_array();
    for (int64_t i = 0; i < t->elements && m->status == SAMBA_OK; i++)
        if (json_array_append_new(list, json_real(values[i])) != 0)
            m->no_memory = true;
    return list;
}

/* Llama's scaling is there as its factors alone; Phi's has others for long sequences. */
static json_t *of_factors(metadata *m)
{
    const bool phi = strcmp(m->kind->model_type, "phi3") == 0;
    json_t *shorter = factors(m, phi ? "rope_factors_short.weight" : "rope_freqs.weight");
    json_t *longer = phi ? factors(m, "rope_factors_long.weight") : json_incref(shorter);
    const int64_t original = integer(m, "rope.scaling.original_context_length", 0, 0);
    const double grown = number(m, "rope.scaling.attn_factor", 1);
    if (!shorter && !longer)
        return NULL;
    json_t *scaling = json_object();
    if (!shorter || !longer)
        m->status = samba_fail(m->gguf->context, SAMBA_ERROR_FORMAT,
                               "%s: of the tensors \"rope_factors_short.weight\" and \"rope_factors_long.weight\" there is one "
                               "without the other",
                               m->gguf->path);
    put(m, scaling, "rope_type", json_string("longrope"));
    put(m, scaling, "short_factor", shorter);
    put(m, scaling, "long_factor", longer);
    put(m, scaling, "attention_factor", real(grown));
    put(m, scaling, "factor", json_real(1));
    if (original && phi)
        set_integer(m, "original_max_position_embeddings", original);
    else if (original)
        put(m, scaling, "original_max_position_embeddings", json_integer(original));
    return scaling;
}

static json_t *of_yarn(metadata *m)
{
    json_t *scaling = json_object();
    put(m, scaling, "rope_type", json_string("yarn"));
    put(m, scaling, "factor", real(number(m, "rope.scaling.factor", NAN)));
    put(m, scaling, "original_max_position_embeddings", json_integer(integer(m, "rope.scaling.original_context_length", 0, 1)));
    put(m, scaling, "beta_fast", real(number(m, "rope.scaling.yarn_beta_fast", 32)));
    put(m, scaling, "beta_slow", real(number(m, "rope.scaling.yarn_beta_slow", 1)));
    if (number(m, "rope.scaling.yarn_ext_factor", 1) != 1)
        fail(m, SAMBA_ERROR_UNSUPPORTED, "rope.scaling.yarn_ext_factor", "supported is 1");
    const double factor = json_number_value(json_object_get(scaling, "factor"));
    const double grown = factor <= 1 ? 1 : 0.1 * log(factor) + 1;
    put(m, scaling, "attention_factor", json_real(grown * number(m, "rope.scaling.attn_factor", 1)));
    return scaling;
}

static void read_rope(metadata *m)
{
    const samba_gguf_value *type = ask(m, "rope.scaling.type");
    json_t *scaling;
    m->turning = integer(m, "rope.dimension_count", m->head_dim, 1);
    flag(m, "rope.scaling.finetuned", false);
    if (m->kind->partial) {
        double part = (double)m->turning / (double)m->head_dim;
        if ((int64_t)((double)m->head_dim * part) < m->turning)
            part = nextafter(part, 2);
        set(m, m->kind->partial, json_real(part));
    } else if (m->turning != m->head_dim)
        fail(m, SAMBA_ERROR_UNSUPPORTED, "rope.dimension_count", "supported is the size of a head");
    set(m, m->kind->theta, real(number(m, "rope.freq_base", 10000)));
    scaling = of_factors(m);
    if (type && !scaling && samba_gguf_is_text(type, "yarn"))
        scaling = of_yarn(m);
    else if (type && !scaling && samba_gguf_is_text(type, "linear")) {
        scaling = json_object();
        put(m, scaling, "rope_type", json_string("linear"));
        put(m, scaling, "factor", real(number(m, "rope.scaling.factor", NAN)));
    } else if (type && !samba_gguf_is_text(type, "none") && !(scaling && samba_gguf_is_text(type, "longrope")))
        fail(m, SAMBA_ERROR_UNSUPPORTED, "rope.scaling.type",
             "supported are none, linear, yarn, and longrope with tensors of its factors");
    const double scale = number(m, "rope.scale_linear", 1); /* of older files */
    if (scale != 1 && !scaling) {
        scaling = json_object();
        put(m, scaling, "rope_type", json_string("linear"));
        put(m, scaling, "factor", real(scale));
    }
    if (!json_object_get(scaling, "attention_factor") && number(m, "rope.scaling.attn_factor", 1) != 1)
        fail(m, SAMBA_ERROR_UNSUPPORTED, "rope.scaling.attn_factor", "supported is 1 without \"yarn\" or factors");
    if (scaling)
        set(m, "rope_scaling", scaling);
}

/* ---- what is an architecture's own ---- */

static void read_window(metadata *m, int64_t otherwise)
{
    const int64_t window = integer(m, "attention.sliding_window", otherwise, 0);
    set(m, "sliding_window", window ? json_integer(window) : json_null());
}

static void read_cap(metadata *m, const char *suffix, const char *key, double otherwise)
{
    const double cap = number(m, suffix, otherwise);
    set(m, key, cap != 0 ? real(cap) : json_null());
}

/* What scores are divided by: the size of a head, but for the largest model of a series. */
static void read_scalar(metadata *m, int64_t largest)
{
    set_integer(m, "query_pre_attn_scalar", m->layers == largest ? m->hidden / m->heads : m->head_dim);
}

static void read_gemma2(metadata *m)
{
    read_window(m, 4096); /* which the first files leave to the architecture, as its bounds of logits */
    read_scalar(m, 46);
    read_cap(m, "attn_logit_softcapping", "attn_logit_softcapping", 50);
    read_cap(m, "final_logit_softcapping", "final_logit_softcapping", 30);
}

static void read_gemma3(metadata *m)
{
    read_window(m, 0);
    read_scalar(m, 62);
    read_cap(m, "final_logit_softcapping", "final_logit_softcapping", 0);
    set_integer(m, "sliding_window_pattern", integer(m, "attention.sliding_window_pattern", 6, 1));
    set(m, "rope_local_base_freq", real(number(m, "rope.freq_base_swa", 10000)));
}

static void read_stablelm(metadata *m)
{
    set(m, "use_qkv_bias", json_boolean(has(m, "blk.0.attn_q.bias")));
    set(m, "qk_layernorm", json_boolean(has(m, "blk.0.attn_q_norm.weight")));
    set(m, "use_parallel_residual", json_boolean(flag(m, "use_parallel_residual", !has(m, "blk.0.ffn_norm.weight"))));
}

/* Two norms, or another number of key-value heads than one or all, are of Falcon's newer models. */
static void read_falcon(metadata *m, int64_t groups)
{
    const bool two_norms = has(m, "blk.0.attn_norm_2.weight"), newer = two_norms || (groups != 1 && groups != m->heads);
    const samba_gguf_value *layout = ask(m, "tensor_data_layout");
    if (layout && !samba_gguf_is_text(layout, "jploski"))
        fail(m, SAMBA_ERROR_UNSUPPORTED, "tensor_data_layout", "supported is \"jploski\"");
    set(m, "new_decoder_architecture", json_boolean(newer));
    set(m, "multi_query", json_boolean(groups == 1));
    set_integer(m, "num_kv_heads", newer ? groups : m->heads);
    set_integer(m, "num_ln_in_parallel_attn", two_norms ? 2 : 1);
    set(m, "parallel_attn", json_true());
    set(m, "alibi", json_false());
    set(m, "bias", json_boolean(has(m, "blk.0.attn_qkv.bias")));
}

static void read_own(metadata *m, int64_t groups)
{
    const char *type = m->kind->model_type;
    if (strcmp(type, "llama") == 0 || strcmp(type, "qwen3") == 0 || strcmp(type, "gemma") == 0)
        set(m, "attention_bias", json_boolean(has(m, "blk.0.attn_q.bias")));
    if (strcmp(type, "llama") == 0) {
        set(m, "mlp_bias", json_boolean(has(m, "blk.0.ffn_up.bias")));
        const samba_gguf_value *layout = ask(m, "tensor_data_layout");
        if (layout && !samba_gguf_is_text(layout, "Meta AI original pth"))
            fail(m, SAMBA_ERROR_UNSUPPORTED, "tensor_data_layout", "supported is \"Meta AI original pth\"");
    }
    if (strcmp(type, "mistral") == 0 || strcmp(type, "phi3") == 0)
        read_window(m, 0);
    if (strcmp(type, "gemma2") == 0)
        read_gemma2(m);
    if (strcmp(type, "gemma3_text") == 0)
        read_gemma3(m);
    if (strcmp(type, "stablelm") == 0)
        read_stablelm(m);
    if (strcmp(type, "gpt_neox") == 0)
        set(m, "use_parallel_residual", json_boolean(flag(m, "use_parallel_residual", true)));
    if (strcmp(type, "falcon") == 0)
        read_falcon(m, groups);
    if (strcmp(type, "bloom") == 0 && number(m, "attention.max_alibi_bias", 8) != 8)
        fail(m, SAMBA_ERROR_UNSUPPORTED, "attention.max_alibi_bias", "supported is 8");
}

/* ---- what all have ---- */

/* One number, or the same for each layer. */
static int64_t same_for_all(metadata *m, const char *suffix, int64_t otherwise)
{
    const samba_gguf_value *value = ask(m, suffix);
    samba_gguf_value element;
    int64_t first = otherwise, other;
    size_t at = 0;
    if (!value || value->kind != SAMBA_GGUF_ARRAY)
        return integer(m, suffix, otherwise, 1);
    for (int64_t i = 0; samba_gguf_next(value, &at, &element); i++) {
        if (!samba_gguf_integer(&element, &other) || other < 1 || other > INT32_MAX || (i > 0 && other != first))
            fail(m, SAMBA_ERROR_UNSUPPORTED, suffix, "supported is one number for all layers");
        first = i == 0 ? other : first;
    }
    return first > 0 ? first : 1;
}

static void read_tokens(metadata *m)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id"};
    char name[64];
    int64_t id, other;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "tokenizer.ggml.%s", keys[i]);
        const bool there = samba_gguf_integer(samba_gguf_find(m->gguf, name), &id) && id >= 0 && id < m->vocab;
        set(m, keys[i], there ? json_integer(id) : json_null());
    }
    if (samba_gguf_integer(samba_gguf_find(m->gguf, "tokenizer.ggml.eot_token_id"), &other) && other >= 0 && other < m->vocab &&
        json_is_integer(json_object_get(m->config, "eos_token_id")) &&
        json_integer_value(json_object_get(m->config, "eos_token_id")) != other)
        set(m, "eos_token_id",
            json_pack("[I, I]", (json_int_t)json_integer_value(json_object_get(m->config, "eos_token_id")), (json_int_t)other));
    const bool pads = samba_gguf_integer(samba_gguf_find(m->gguf, "tokenizer.ggml.padding_token_id"), &id);
    set(m, "pad_token_id", pads && id >= 0 && id < m->vocab ? json_integer(id) : json_null());
}

static void read_sizes(metadata *m)
{
    const samba_lm_gguf_kind *k = m->kind;
    const samba_gguf_tensor *table = samba_gguf_tensor_find(m->gguf, "token_embd.weight");
    m->hidden = integer(m, "embedding_length", 0, 1);
    m->layers = integer(m, "block_count", 0, 1);
    m->heads = same_for_all(m, "attention.head_count", 0);
    if (m->status != SAMBA_OK)
        return;
    if (!table || table->rank != 2) {
        m->status = samba_fail(m->gguf->context, SAMBA_ERROR_FORMAT, "%s: there is no tensor \"token_embd.weight\" of rank 2",
                               m->gguf->path);
        return;
    }
    m->vocab = table->shape[0];
    if (integer(m, "vocab_size", m->vocab, 1) != m->vocab)
        fail(m, SAMBA_ERROR_FORMAT, "vocab_size", "expected is the number of rows of \"token_embd.weight\"");
    const int64_t groups = same_for_all(m, "attention.head_count_kv", m->heads);
    m->head_dim = integer(m, "attention.key_length", m->hidden / m->heads > 0 ? m->hidden / m->heads : 1, 1);
    if (integer(m, "attention.value_length", m->head_dim, 1) != m->head_dim)
        fail(m, SAMBA_ERROR_UNSUPPORTED, "attention.value_length", "supported is that of \"attention.key_length\"");
    if (!k->head_dim && m->head_dim * m->heads != m->hidden)
        fail(m, SAMBA_ERROR_UNSUPPORTED, "attention.key_length", "supported is the width over the number of heads");
    if (!k->groups && strcmp(k->name, "falcon") != 0 && groups != m->heads)
        fail(m, SAMBA_ERROR_UNSUPPORTED, "attention.head_count_kv", "supported is that of \"attention.head_count\"");
    set_integer(m, k->hidden, m->hidden);
    set_integer(m, k->layers, m->layers);
    set_integer(m, k->heads, m->heads);
    set_integer(m, k->inner, same_for_all(m, "feed_forward_length", 0));
    set_integer(m, k->positions, integer(m, "context_length", 0, 1));
    set_integer(m, "vocab_size", m->vocab);
    if (k->groups)
        set_integer(m, "num_key_value_heads", groups);
    if (k->head_dim)
        set_integer(m, "head_dim", m->head_dim);
    set(m, k->eps, real(number(m, k->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", NAN)));
    set(m, "tie_word_embeddings", json_boolean(!has(m, "output.weight")));
    read_own(m, groups);
    if (k->theta)
        read_rope(m);
    read_tokens(m);
}

/* ---- what is left ---- */

static void check_rest(metadata *m)
{
    const size_t length = strlen(m->kind->name);
    char shown[SAMBA_GGUF_SHOWN], key[SAMBA_SHOWN];
    if (!flag(m, "attention.causal", true))
        fail(m, SAMBA_ERROR_UNSUPPORTED, "attention.causal", "supported is true");
    for (int64_t i = 0; i < m->gguf->entry_count && m->status == SAMBA_OK; i++) {
        const samba_gguf_entry *e = &m->gguf->entries[i];
        double value = 1;
        bool on = true;
        if (strncmp(e->key, m->kind->name, length) != 0 || e->key[length] != '.' || m->asked[i])
            continue;
        const bool asks = !(samba_gguf_number(&e->value, &value) && value == 0) && !(samba_gguf_flag(&e->value, &on) && !on);
        if (asks)
            m->status = samba_fail(m->gguf->context, SAMBA_ERROR_UNSUPPORTED,
                                   "%s: \"%.100s\" is %s, and nothing here knows that key of the model \"%s\"", m->gguf->path,
                                   samba_shown(e->key, key), samba_gguf_shown(&e->value, shown), m->kind->name);
    }
}

/* ---- which architecture ---- */

static const samba_lm_gguf_kind *kind_of(const samba_gguf *g, const samba_gguf_value *name)
{
    int64_t window = 0;
    for (int i = 0; i < samba_lm_gguf_kind_count; i++) {
        const samba_lm_gguf_kind *kind = &samba_lm_gguf_kinds[i];
        if (!samba_gguf_is_text(name, kind->name))
            continue;
        const bool windowed = samba_gguf_integer(samba_gguf_find(g, "llama.attention.sliding_window"), &window) && window > 0;
        if (strcmp(kind->model_type, "llama") != 0 || !windowed)
            return kind;
    }
    return NULL;
}

static samba_status find_kind(const samba_gguf *g, const samba_lm_gguf_kind **kind)
{
    const samba_gguf_value *name = samba_gguf_find(g, "general.architecture");
    char names[256] = "", shown[SAMBA_GGUF_SHOWN];
    int64_t parts;
    if (samba_gguf_integer(samba_gguf_find(g, "split.count"), &parts) && parts > 1)
        return samba_fail(g->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: a model in %lld files: supported is one file, into which gguf-split merges them", g->path,
                          (long long)parts);
    *kind = kind_of(g, name);
    for (int i = 0; i < samba_lm_gguf_kind_count; i++)
        if (strcmp(samba_lm_gguf_kinds[i].model_type, "mistral") != 0)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", samba_lm_gguf_kinds[i].name);
    return *kind ? SAMBA_OK
                 : samba_fail(g->context, SAMBA_ERROR_UNSUPPORTED, "%s: \"general.architecture\" is %s: supported are %s",
                              g->path, samba_gguf_shown(name, shown), names);
}

samba_status samba_lm_gguf_config(const samba_gguf *gguf, const samba_lm_gguf_kind **kind, json_t **config)
{
    *config = NULL;
    SAMBA_TRY(find_kind(gguf, kind));
    metadata m = {.gguf = gguf, .kind = *kind, .config = json_object()};
    samba_arena_init(&m.arena, gguf->context);
    m.status = SAMBA_ROOM(&m.arena, m.asked, gguf->entry_count + 1);
    if (m.status == SAMBA_OK) {
        set(&m, "model_type", json_string((*kind)->model_type));
        read_sizes(&m);
        check_rest(&m);
    }
    samba_arena_free(&m.arena);
    if (m.status == SAMBA_OK && m.no_memory)
        m.status = samba_fail(gguf->context, SAMBA_ERROR_MEMORY, "%s: no memory for its config", gguf->path);
    if (m.status != SAMBA_OK) {
        json_decref(m.config);
        return m.status;
    }
    *config = m.config;
    return SAMBA_OK;
}
