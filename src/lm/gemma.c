/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 1, 2 and 3 (text): as Llama, with a factor 1 + weight in norms and embeddings times the root of their width; from 2 on
 * norms behind attention and MLP too, windows in some layers and bounded logits; in 3 norms of queries and keys, and other
 * rotary positions where there is a window. */
#include "lm/lm.h"

#include <math.h>
#include <string.h>

static void read_common(samba_lm_config *c, samba_lm_shape *s)
{
    s->names = samba_lm_llama_names;
    s->norm = s->head_norm =
        (samba_lm_norm){.rms = true, .plus_one = true, .eps = samba_lm_number(c, "rms_norm_eps", 1e-6, 0, 1)};
    s->embedding_scale = sqrt((double)s->hidden_size);
    s->attention_dropout = samba_lm_read_dropout(c, "attention_dropout", 0);
    s->tied = samba_lm_flag(c, "tie_word_embeddings", true);
    s->qkv_bias = s->out_bias = samba_lm_flag(c, "attention_bias", false);
    samba_lm_read_padding(c, s, 0);
    samba_lm_only(c, "use_bidirectional_attention", false);
}

/* A key that transformers leaves alone where it has another: it must not say another thing. */
static void agree(samba_lm_config *c, const char *key, const char *other, samba_lm_activation activation)
{
    char words[64];
    snprintf(words, sizeof words, "that of \"%s\"", other);
    if (samba_lm_ask(c, key) && samba_lm_read_activation(c, key, "gelu") != activation)
        samba_lm_refuse(c, key, words);
}

void samba_lm_read_gemma(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    (void)arena;
    samba_lm_read_sizes(c, s, 256000, 3072, 24576, 28, 16);
    samba_lm_read_heads(c, s, 16, 256);
    read_common(c, s);
    samba_lm_rope_read(c, &samba_lm_rope_usual, s->head_dim, samba_lm_integer(c, "max_position_embeddings", 8192, 1, INT32_MAX),
                       &s->rope);
    s->activation = samba_lm_read_activation(c, "hidden_act", "gelu_pytorch_tanh");
    if (s->activation == SAMBA_LM_GELU) /* files of the first release say gelu and mean its approximation */
        s->activation = SAMBA_LM_GELU_TANH;
    agree(c, "hidden_activation", "hidden_act", s->activation);
}

/* What the second and third have of each other. */
static void read_later(samba_lm_config *c, samba_lm_shape *s)
{
    read_common(c, s);
    s->names.after_attention = "post_attention_layernorm";
    s->names.norm_mlp = "pre_feedforward_layernorm";
    s->names.after_mlp = "post_feedforward_layernorm";
    s->activation = samba_lm_read_activation(c, "hidden_activation", "gelu_pytorch_tanh");
    agree(c, "hidden_act", "hidden_activation", s->activation);
    s->scale = 1 / sqrt(samba_lm_number(c, "query_pre_attn_scalar", 256, 1e-9, 1e9));
    s->window = samba_lm_integer(c, "sliding_window", samba_lm_is_null(c, "sliding_window") ? 0 : 4096, 1, INT32_MAX);
}

/* A bound of logits; null: none. */
static double read_cap(samba_lm_config *c, const char *key, double otherwise)
{
    return samba_lm_number(c, key, samba_lm_is_null(c, key) ? 0 : otherwise, 1e-6, 1e9);
}

void samba_lm_read_gemma2(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    samba_lm_read_sizes(c, s, 256000, 2304, 9216, 26, 8);
    samba_lm_read_heads(c, s, 4, 256);
    read_later(c, s);
    samba_lm_rope_read(c, &samba_lm_rope_usual, s->head_dim, samba_lm_integer(c, "max_position_embeddings", 8192, 1, INT32_MAX),
                       &s->rope);
    s->attention_cap = read_cap(c, "attn_logit_softcapping", 50);
    s->final_cap = read_cap(c, "final_logit_softcapping", 30);
    samba_lm_read_sliding(c, arena, s, true, 0, 2);
}

/* "rope_parameters" has an object for each type of layer; older files have keys for one and for the other. */
static void read_ropes(samba_lm_config *c, samba_lm_shape *s, int64_t most)
{
    const json_t *both = samba_lm_ask(c, "rope_parameters"), *older = samba_lm_ask(c, "rope_scaling");
    double full_base = samba_lm_number(c, "rope_theta", 1e6, 1e-9, 1e18);
    double sliding_base = samba_lm_number(c, "rope_local_base_freq", 1e4, 1e-9, 1e18);
    const char *key;
    json_t *value;
    samba_lm_rope_keys keys = samba_lm_rope_usual;
    keys.partial = NULL;
    json_object_foreach((json_t *)both, key,
                        value) if (strcmp(key, "full_attention") != 0 && strcmp(key, "sliding_attention") != 0)
        samba_lm_refuse(c, "rope_parameters", "an object with full_attention and sliding_attention");
    if (both && older)
        samba_lm_refuse(c, "rope_scaling", "null where there is \"rope_parameters\"");
    const json_t *full = json_object_get(both, "full_attention"), *sliding = json_object_get(both, "sliding_attention");
    samba_lm_rope_of(c, older ? "rope_scaling" : "rope_parameters.full_attention",
                     older                ? older
                     : json_is_null(full) ? NULL
                                          : full,
                     &keys, full_base, s->head_dim, most, &s->rope);
    samba_lm_rope_of(c, "rope_parameters.sliding_attention", json_is_null(sliding) ? NULL : sliding, &keys, sliding_base,
                     s->head_dim, most, &s->sliding_rope);
}

void samba_lm_read_gemma3(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s)
{
    samba_lm_read_sizes(c, s, 262208, 2304, 9216, 26, 8);
    samba_lm_read_heads(c, s, 4, 256);
    read_later(c, s);
    s->names.query_norm = "q_norm";
    s->names.key_norm = "k_norm";
    read_ropes(c, s, samba_lm_integer(c, "max_position_embeddings", 131072, 1, INT32_MAX));
    /* transformers has this key and no use for it: files that mean something by it mean another model */
    if (samba_lm_ask(c, "attn_logit_softcapping"))
        samba_lm_refuse(c, "attn_logit_softcapping", "null");
    if (samba_lm_ask(c, "final_logit_softcapping"))
        s->final_cap = read_cap(c, "final_logit_softcapping", 0);
    samba_lm_read_sliding(c, arena, s, true, 0, samba_lm_integer(c, "sliding_window_pattern", 6, 1, INT32_MAX));
}
