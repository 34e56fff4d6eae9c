/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama and those that differ from it in little: a decoder with norms before attention and a gated MLP, rotary positions, fewer
 * key-value heads than heads. Mistral, Qwen2, Qwen3, Phi-3 and StableLM. SmolLM is a Llama by its config. Defaults are those of
 * transformers' configurations, which are left out of some files. */
#include "lm/lm.h"

const samba_lm_names samba_lm_llama_names = {
    .model = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .final_norm = "norm",
    .head = "lm_head",
    .attention = "self_attn",
    .query = "q_proj",
    .key = "k_proj",
    .value = "v_proj",
    .out = "o_proj",
    .mlp = "mlp",
    .gate = "gate_proj",
    .up = "up_proj",
    .down = "down_proj",
    .norm_attention = "input_layernorm",
    .norm_mlp = "post_attention_layernorm",
};

/* What all of these have. */
static void read_common(samba_lm_config *c, samba_lm_shape *s, double eps)
{
    s->names = samba_lm_llama_names;
    s->norm = s->head_norm = (samba_lm_norm){.rms = true, .eps = samba_lm_number(c, "rms_norm_eps", eps, 0, 1)};
    s->activation = samba_lm_read_activation(c, "hidden_act", "silu");
    s->attention_dropout = samba_lm_read_dropout(c, "attention_dropout", 0);
    s->tied = samba_lm_flag(c, "tie_word_embeddings", false);
    samba_lm_read_padding(c, s, -1);
}

static void read_rope(samba_lm_config *c, samba_lm_shape *s, const samba_lm_rope_keys *keys, int64_t most)
{
    most = samba_lm_integer(c, "max_position_embeddings", most, 1, INT32_MAX);
    samba_lm_rope_read(c, keys, s->head_dim, most, &s->rope);
}

void samba_lm_read_llama(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    (void)arena;
    samba_lm_read_sizes(c, s, 32000, 4096, 11008, 32, 32);
    samba_lm_read_heads(c, s, 0, 0);
    read_common(c, s, 1e-6);
    read_rope(c, s, &samba_lm_rope_usual, 2048);
    s->qkv_bias = s->out_bias = samba_lm_flag(c, "attention_bias", false);
    s->mlp_bias = samba_lm_flag(c, "mlp_bias", false);
}

void samba_lm_read_mistral(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    samba_lm_read_sizes(c, s, 32000, 4096, 14336, 32, 32);
    samba_lm_read_heads(c, s, 8, 0);
    read_common(c, s, 1e-6);
    read_rope(c, s, &samba_lm_rope_usual, 131072);
    s->window = samba_lm_integer(c, "sliding_window", samba_lm_is_null(c, "sliding_window") ? 0 : 4096, 1, INT32_MAX);
    samba_lm_read_sliding(c, arena, s, false, 0, 0);
}

/* Layers from max_window_layers on have a window where use_sliding_window says so. */
static void read_qwen(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    samba_lm_read_sizes(c, s, 151936, 4096, 22016, 32, 32);
    read_common(c, s, 1e-6);
    int64_t window = samba_lm_integer(c, "sliding_window", samba_lm_is_null(c, "sliding_window") ? 0 : 4096, 0, INT32_MAX);
    s->window = samba_lm_flag(c, "use_sliding_window", false) ? window : 0;
    samba_lm_read_sliding(c, arena, s, true, samba_lm_integer(c, "max_window_layers", 28, 0, INT32_MAX), 0);
}

void samba_lm_read_qwen2(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    read_qwen(c, arena, s);
    samba_lm_read_heads(c, s, 32, 0);
    read_rope(c, s, &samba_lm_rope_usual, 32768);
    s->qkv_bias = true;
}

void samba_lm_read_qwen3(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    read_qwen(c, arena, s);
    samba_lm_read_heads(c, s, 32, 128);
    read_rope(c, s, &samba_lm_rope_usual, 32768);
    s->names.query_norm = "q_norm";
    s->names.key_norm = "k_norm";
    s->qkv_bias = s->out_bias = samba_lm_flag(c, "attention_bias", false);
}

void samba_lm_read_phi3(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    static const samba_lm_rope_keys keys = {.base = "rope_theta",
                                            .partial = "partial_rotary_factor",
                                            .default_base = 10000,
                                            .default_partial = 1,
                                            .may_be_partial = true,
                                            .yarn = "longrope",
                                            .original = 4096};
    samba_lm_read_sizes(c, s, 32064, 3072, 8192, 32, 32);
    samba_lm_read_heads(c, s, 0, 0);
    read_common(c, s, 1e-5);
    samba_lm_read_padding(c, s, 32000);
    read_rope(c, s, &keys, 4096);
    if (s->rope.kind != SAMBA_LM_ROPE && s->rope.kind != SAMBA_LM_LONGROPE)
        samba_lm_refuse(c, samba_lm_ask(c, "rope_scaling") ? "rope_scaling" : "rope_parameters", "default, longrope");
    s->names.query = s->names.key = s->names.value = s->names.gate = s->names.up = NULL;
    s->names.qkv = "qkv_proj";
    s->names.gate_up = "gate_up_proj";
    s->qkv = SAMBA_LM_JOINED;
    s->attention_out_dropout = s->mlp_out_dropout = samba_lm_read_dropout(c, "resid_pdrop", 0);
    samba_lm_read_dropout(c, "embd_pdrop", 0);     /* transformers has no use for it */
    samba_lm_integer(c, "full_attn_mod", 1, 1, 1); /* of the models' own code; 1 is without */
    samba_lm_integer(c, "interpolate_factor", 1, 1, 1);
    s->window = samba_lm_integer(c, "sliding_window", 0, 1, INT32_MAX);
    samba_lm_read_sliding(c, arena, s, false, 0, 0);
}

void samba_lm_read_stablelm(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    static const samba_lm_rope_keys keys = {.base = "rope_theta",
                                            .partial = "partial_rotary_factor",
                                            .default_base = 10000,
                                            .default_partial = 0.25,
                                            .may_be_partial = true};
    (void)arena;
    samba_lm_read_sizes(c, s, 50304, 2560, 6912, 32, 32);
    samba_lm_read_heads(c, s, 32, 0);
    read_common(c, s, 1e-6);
    read_rope(c, s, &keys, 4096);
    s->norm = (samba_lm_norm){.eps = samba_lm_number(c, "layer_norm_eps", 1e-5, 0, 1)};
    s->head_norm = (samba_lm_norm){.eps = s->norm.eps, .no_bias = true};
    s->qkv_bias = samba_lm_flag(c, "use_qkv_bias", false);
    s->mlp_out_dropout = samba_lm_read_dropout(c, "hidden_dropout", 0);
    if (samba_lm_flag(c, "qk_layernorm", false)) {
        s->names.query_norm = "q_layernorm";
        s->names.key_norm = "k_layernorm";
        s->norms_each_head = true;
    }
    if (samba_lm_flag(c, "use_parallel_residual", false)) {
        s->order = SAMBA_LM_PARALLEL;
        s->shared_norm = true;
        s->names.norm_mlp = NULL;
    }
}
