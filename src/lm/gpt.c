/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders with layer norm and an MLP without a gate: GPT-2, OPT, GPT-NeoX, Falcon, Bloom. They differ in where positions come
 * from, in how queries, keys and values share a projection, and in whether attention and MLP stand behind or beside each
 * other. */
#include "lm/lm.h"

#include <string.h>

void samba_lm_read_gpt2(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    (void)arena;
    s->names = (samba_lm_names){
        .model = "transformer",
        .embedding = "wte",
        .positions = "wpe",
        .layers = "h",
        .final_norm = "ln_f",
        .head = "lm_head",
        .attention = "attn",
        .qkv = "c_attn",
        .out = "c_proj",
        .mlp = "mlp",
        .up = "c_fc",
        .down = "c_proj",
        .norm_attention = "ln_1",
        .norm_mlp = "ln_2",
    };
    s->vocab_size = samba_lm_integer(c, "vocab_size", 50257, 1, 1 << 28);
    s->hidden_size = s->embedding_size = samba_lm_integer(c, "n_embd", 768, 1, SAMBA_LM_MOST_WIDTH);
    s->intermediate_size = samba_lm_integer(c, "n_inner", 4 * s->hidden_size, 1, 4 * SAMBA_LM_MOST_WIDTH);
    s->layers = samba_lm_integer(c, "n_layer", 12, 1, 10000);
    s->heads = s->key_value_heads = samba_lm_integer(c, "n_head", 12, 1, 1 << 16);
    samba_lm_divide_heads(c, s);
    s->positions = samba_lm_integer(c, "n_positions", 1024, 1, INT32_MAX);
    samba_lm_integer(c, "n_ctx", s->positions, 1, INT32_MAX); /* of older files; nothing has a use for it */
    s->norm.eps = samba_lm_number(c, "layer_norm_epsilon", 1e-5, 0, 1);
    s->activation = samba_lm_read_activation(c, "activation_function", "gelu_new");
    s->qkv = SAMBA_LM_JOINED;
    s->transposed = s->qkv_bias = s->out_bias = s->mlp_bias = true;
    s->embedding_dropout = samba_lm_read_dropout(c, "embd_pdrop", 0.1);
    s->attention_dropout = samba_lm_read_dropout(c, "attn_pdrop", 0.1);
    s->attention_out_dropout = s->mlp_out_dropout = samba_lm_read_dropout(c, "resid_pdrop", 0.1);
    if (!samba_lm_flag(c, "scale_attn_weights", true))
        s->scale = 1;
    s->scale_by_layer = samba_lm_flag(c, "scale_attn_by_inverse_layer_idx", false);
    samba_lm_flag(c, "reorder_and_upcast_attn", false); /* the same in float32 */
    samba_lm_only(c, "add_cross_attention", false);
    s->tied = samba_lm_flag(c, "tie_word_embeddings", true);
    static const char *const of_summaries[] = {"summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                                               "summary_type", "summary_use_proj"};
    for (int i = 0; i < SAMBA_COUNT(of_summaries); i++) /* of another head */
        samba_lm_ask(c, of_summaries[i]);
}

void samba_lm_read_opt(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    (void)arena;
    s->names = (samba_lm_names){
        .model = "model.decoder",
        .embedding = "embed_tokens",
        .positions = "embed_positions",
        .layers = "layers",
        .head = "lm_head",
        .attention = "self_attn",
        .query = "q_proj",
        .key = "k_proj",
        .value = "v_proj",
        .out = "out_proj",
        .up = "fc1",
        .down = "fc2",
        .norm_attention = "self_attn_layer_norm",
        .norm_mlp = "final_layer_norm",
    };
    samba_lm_read_sizes(c, s, 50272, 768, 0, 12, 12);
    samba_lm_divide_heads(c, s);
    s->intermediate_size = samba_lm_integer(c, "ffn_dim", 3072, 1, SAMBA_LM_MOST_WIDTH);
    s->embedding_size = samba_lm_integer(c, "word_embed_proj_dim", s->hidden_size, 1, SAMBA_LM_MOST_WIDTH);
    if (s->embedding_size != s->hidden_size) {
        s->names.project_in = "project_in";
        s->names.project_out = "project_out";
    }
    s->position_offset = 2;
    s->positions = samba_lm_integer(c, "max_position_embeddings", 2048, 1, INT32_MAX) + s->position_offset;
    s->positions_follow_mask = true;
    s->norm = (samba_lm_norm){.eps = 1e-5, .no_weight = !samba_lm_flag(c, "layer_norm_elementwise_affine", true)};
    bool before = samba_lm_flag(c, "do_layer_norm_before", true), removed = samba_lm_flag(c, "_remove_final_layer_norm", false);
    s->order = before ? SAMBA_LM_PRE_NORM : SAMBA_LM_POST_NORM;
    if (before && !removed)
        s->names.final_norm = "final_layer_norm";
    s->activation = samba_lm_read_activation(c, "activation_function", "relu");
    s->qkv_bias = s->out_bias = s->mlp_bias = samba_lm_flag(c, "enable_bias", true);
    s->attention_dropout = samba_lm_read_dropout(c, "attention_dropout", 0);
    s->attention_out_dropout = s->mlp_out_dropout = samba_lm_read_dropout(c, "dropout", 0.1);
    if (samba_lm_number(c, "layerdrop", 0, 0, 1) != 0)
        samba_lm_refuse(c, "layerdrop", "0");
    samba_lm_number(c, "activation_dropout", 0, 0, 1); /* of older files; nothing has a use for it */
    s->initializer_range = samba_lm_number(c, "init_std", 0.02, 0, 10);
    s->tied = samba_lm_flag(c, "tie_word_embeddings", true);
    samba_lm_read_padding(c, s, 1);
}

void samba_lm_read_gpt_neox(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    static const samba_lm_rope_keys keys = {.base = "rotary_emb_base",
                                            .partial = "rotary_pct",
                                            .default_base = 10000,
                                            .default_partial = 0.25,
                                            .may_be_partial = true};
    (void)arena;
    s->names = (samba_lm_names){
        .model = "gpt_neox",
        .embedding = "embed_in",
        .layers = "layers",
        .final_norm = "final_layer_norm",
        .head = "embed_out",
        .attention = "attention",
        .qkv = "query_key_value",
        .out = "dense",
        .mlp = "mlp",
        .up = "dense_h_to_4h",
        .down = "dense_4h_to_h",
        .norm_attention = "input_layernorm",
        .norm_mlp = "post_attention_layernorm",
    };
    samba_lm_read_sizes(c, s, 50432, 6144, 24576, 44, 64);
    samba_lm_divide_heads(c, s);
    int64_t most = samba_lm_integer(c, "max_position_embeddings", 2048, 1, INT32_MAX);
    samba_lm_rope_read(c, &keys, s->head_dim, most, &s->rope);
    s->norm.eps = samba_lm_number(c, "layer_norm_eps", 1e-5, 0, 1);
    s->activation = samba_lm_read_activation(c, "hidden_act", "gelu");
    s->qkv = SAMBA_LM_GROUPED;
    s->qkv_bias = s->out_bias = samba_lm_flag(c, "attention_bias", true);
    s->mlp_bias = true;
    s->order = samba_lm_flag(c, "use_parallel_residual", true) ? SAMBA_LM_PARALLEL : SAMBA_LM_PRE_NORM;
    s->attention_dropout = samba_lm_read_dropout(c, "attention_dropout", 0);
    s->embedding_dropout = s->attention_out_dropout = s->mlp_out_dropout = samba_lm_read_dropout(c, "hidden_dropout", 0);
    samba_lm_number(c, "attention_probs_dropout_prob", 0, 0, 0); /* of older files; nothing has a use for them */
    samba_lm_number(c, "hidden_dropout_prob", 0, 0, 0);
    s->tied = samba_lm_flag(c, "tie_word_embeddings", false);
}

/* Falcon's flags may be null, which is false, whatever one that is not there stands for. */
static bool falcon_flag(samba_lm_config *c, const char *key, bool otherwise)
{
    return samba_lm_flag(c, key, otherwise && !samba_lm_is_null(c, key));
}

/* Norms of one layer by the number that Falcon says it has, and whether attention and MLP stand beside each other. */
static void read_falcon_norms(samba_lm_config *c, samba_lm_shape *s, bool newer)
{
    bool parallel = falcon_flag(c, "parallel_attn", true);
    int64_t norms = samba_lm_integer(c, "num_ln_in_parallel_attn", newer ? 2 : 1, 1, 2);
    s->order = parallel ? SAMBA_LM_PARALLEL : SAMBA_LM_PRE_NORM;
    s->names.norm_attention = "input_layernorm";
    if (newer && !parallel)
        samba_lm_refuse(c, "parallel_attn", "true where \"new_decoder_architecture\" is true");
    if (!newer && parallel && norms == 2)
        samba_lm_refuse(c, "num_ln_in_parallel_attn", "null or 1 where \"new_decoder_architecture\" is false");
    if (!parallel)
        s->names.norm_mlp = "post_attention_layernorm";
    else if (norms == 2)
        s->names.norm_attention = "ln_attn", s->names.norm_mlp = "ln_mlp";
    else
        s->shared_norm = true;
}

void samba_lm_read_falcon(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    static const samba_lm_rope_keys keys = {.base = "rope_theta", .default_base = 10000, .default_partial = 1};
    (void)arena;
    s->names = (samba_lm_names){
        .model = "transformer",
        .embedding = "word_embeddings",
        .layers = "h",
        .final_norm = "ln_f",
        .head = "lm_head",
        .attention = "self_attention",
        .qkv = "query_key_value",
        .out = "dense",
        .mlp = "mlp",
        .up = "dense_h_to_4h",
        .down = "dense_4h_to_h",
    };
    samba_lm_read_sizes(c, s, 65024, 4544, 0, 32, 71);
    samba_lm_divide_heads(c, s);
    s->intermediate_size = samba_lm_integer(c, "ffn_hidden_size", 4 * s->hidden_size, 1, 4 * SAMBA_LM_MOST_WIDTH);
    bool newer = samba_lm_flag(c, "new_decoder_architecture", false), one = falcon_flag(c, "multi_query", true);
    int64_t groups = samba_lm_integer(c, "num_kv_heads", s->heads, 1, s->heads);
    s->key_value_heads = newer ? groups : one ? 1 : s->heads;
    if (s->heads % s->key_value_heads != 0)
        samba_lm_wrong(c, "num_kv_heads", "a number that divides \"num_attention_heads\"");
    if (!newer && !one && groups != s->heads)
        samba_lm_refuse(c, "num_kv_heads", "that of \"num_attention_heads\" where \"multi_query\" is false");
    int64_t most = samba_lm_integer(c, "max_position_embeddings", 2048, 1, INT32_MAX);
    samba_lm_rope_read(c, &keys, s->head_dim, most, &s->rope);
    s->alibi = s->alibi_scaled = s->alibi_rounded = samba_lm_flag(c, "alibi", false);
    if (s->alibi)
        s->rope.kind = SAMBA_LM_NO_ROPE; /* whatever the config says of rotary positions */
    read_falcon_norms(c, s, newer);
    s->norm.eps = samba_lm_number(c, "layer_norm_epsilon", 1e-5, 0, 1);
    s->activation = samba_lm_read_activation(c, "activation", "gelu");
    s->qkv = SAMBA_LM_GROUPED;
    s->qkv_bias = s->out_bias = s->mlp_bias = samba_lm_flag(c, "bias", false);
    if (samba_lm_number(c, "hidden_dropout", 0, 0, 1) != 0)
        samba_lm_refuse(c, "hidden_dropout", "0");
    if (samba_lm_number(c, "attention_dropout", 0, 0, 1) != 0)
        samba_lm_refuse(c, "attention_dropout", "0");
    s->tied = samba_lm_flag(c, "tie_word_embeddings", true);
}

/* The older name of a size where the file has that. */
static const char *either(samba_lm_config *c, const char *older, const char *newer)
{
    samba_lm_ask(c, newer);
    return samba_lm_ask(c, older) ? older : newer;
}

void samba_lm_read_bloom(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    (void)arena;
    s->names = (samba_lm_names){
        .model = "transformer",
        .embedding = "word_embeddings",
        .embedding_norm = "word_embeddings_layernorm",
        .layers = "h",
        .final_norm = "ln_f",
        .head = "lm_head",
        .attention = "self_attention",
        .qkv = "query_key_value",
        .out = "dense",
        .mlp = "mlp",
        .up = "dense_h_to_4h",
        .down = "dense_4h_to_h",
        .norm_attention = "input_layernorm",
        .norm_mlp = "post_attention_layernorm",
    };
    s->vocab_size = samba_lm_integer(c, "vocab_size", 250880, 1, 1 << 28);
    s->hidden_size = samba_lm_integer(c, either(c, "n_embed", "hidden_size"), 64, 1, SAMBA_LM_MOST_WIDTH);
    s->embedding_size = s->hidden_size;
    s->layers = samba_lm_integer(c, either(c, "num_hidden_layers", "n_layer"), 2, 1, 10000);
    s->heads = s->key_value_heads = samba_lm_integer(c, either(c, "num_attention_heads", "n_head"), 8, 1, 1 << 16);
    samba_lm_divide_heads(c, s);
    s->intermediate_size = 4 * s->hidden_size;
    samba_lm_integer(c, "n_inner", s->intermediate_size, s->intermediate_size, s->intermediate_size);
    s->norm.eps = samba_lm_number(c, "layer_norm_epsilon", 1e-5, 0, 1);
    s->activation = SAMBA_LM_GELU_TANH;
    s->qkv = SAMBA_LM_GROUPED;
    s->qkv_bias = s->out_bias = s->mlp_bias = true;
    s->alibi = true;
    samba_lm_only(c, "apply_residual_connection_post_layernorm", false);
    s->attention_dropout = samba_lm_read_dropout(c, "attention_dropout", 0);
    s->attention_out_dropout = s->mlp_out_dropout = samba_lm_read_dropout(c, "hidden_dropout", 0);
    s->tied = samba_lm_flag(c, "tie_word_embeddings", true);
    static const char *const idle[] = {"attention_softmax_in_fp32",
                                       "bias_dropout_fusion",
                                       "masked_softmax_fusion",
                                       "offset_alibi",
                                       "seq_length",
                                       "skip_bias_add",
                                       "skip_bias_add_qkv",
                                       "slow_but_exact",
                                       "unk_token_id"};
    for (int i = 0; i < SAMBA_COUNT(idle); i++) /* of the program that trained it; the numbers are the same */
        samba_lm_ask(c, idle[i]);
}
