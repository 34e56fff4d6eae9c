/* SPDX-License-Identifier: Apache-2.0
 *
 * Transformer layers (torch.nn.MultiheadAttention, TransformerEncoderLayer, TransformerDecoderLayer and stacks of them), with
 * PyTorch's parameter names and initial values. Values are (T, N, E), with batch_first (N, T, E), or (T, E) without a batch. In
 * the options zero means PyTorch's default but for dropout, which is off unless asked for.
 *
 * Masks are those of PyTorch's modules, not of scaled_dot_product_attention: of a bool mask true hides a key; a floating-point
 * one is added to the scores. A query that may see no key gives 0 before the output projection;
 * where weights are wanted it gives NaN, as PyTorch does. */
#ifndef SAMBAFLOW_TRANSFORMER_H
#define SAMBAFLOW_TRANSFORMER_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_multi_head_options {
    bool no_bias, batch_first;
    bool add_bias_kv;    /* of the layer: parameters "bias_k" and "bias_v", one more key and its value */
    bool add_zero_attn;  /* one more key of zeros and a value of zeros */
    bool is_causal;      /* query i sees keys 0 .. i, where those of add_bias_kv and add_zero_attn are the last */
    double dropout_p;    /* of the attention's weights: hyperparameters "<dropout>.p" and "<dropout>.seed" */
    const char *dropout; /* NULL: "dropout" */
    /* (Tq, Tk) or (N * num_heads, Tq, Tk), without the keys that are added; a zeroed value: none */
    samba_value attn_mask;
    samba_value key_padding_mask; /* (N, Tk), or (Tk) without a batch; a zeroed value: none */
    samba_value
        *weights; /* receives the attention's weights behind softmax and dropout, the mean over the heads (N, Tq, Tk); NULL: not
                                         wanted, which is much faster: no matrix of scores is made */
    bool weights_of_heads; /* average_attn_weights=False: (N, num_heads, Tq, Tk) */
} samba_multi_head_options;
/* MultiheadAttention of embed_dim = the query's last size, which num_heads divides. Parameters "in_proj_weight" (3 E, E), where
 * key and value have E features too, else "q_proj_weight", "k_proj_weight", "v_proj_weight"; "in_proj_bias", "bias_k", "bias_v"
 * (1, 1, E), "out_proj.weight", "out_proj.bias". */
SAMBA_API samba_value samba_multi_head_attention(samba_value query, samba_value key, samba_value value, const char *name,
                                                 int64_t num_heads, const samba_multi_head_options *options /* may be NULL */);

typedef struct samba_multi_head_weights {                    /* of the query's dtype; a zeroed value: left out */
    samba_value in_proj_weight;                              /* (3 E, E); or instead of it */
    samba_value q_proj_weight, k_proj_weight, v_proj_weight; /* (E, E), (E, the key's features), (E, the value's features) */
    samba_value in_proj_bias;                                /* (3 E) */
    samba_value bias_k, bias_v;                              /* (1, 1, E), both or neither */
    samba_value out_proj_weight, out_proj_bias;              /* (E, E) and (E) */
} samba_multi_head_weights;
/* torch.nn.functional.multi_head_attention_forward, without static_k and static_v. Of the options no_bias and add_bias_kv do not
 * count: the weights say it. */
SAMBA_API samba_value samba_functional_multi_head_attention(samba_value query, samba_value key, samba_value value,
                                                            int64_t num_heads, const samba_multi_head_weights *weights,
                                                            const samba_multi_head_options *options /* may be NULL */);

typedef struct samba_transformer_options {
    int64_t dim_feedforward; /* 0: 2048 */
    bool gelu;               /* instead of relu */
    bool norm_first, batch_first, no_bias;
    double dropout_p;                 /* one rate for all, by the names "dropout", "dropout1" ... and "self_attn.dropout" */
    double layer_norm_eps;            /* 0: 1e-5 */
    bool is_causal, memory_is_causal; /* of the attention to itself; of a decoder's to the memory */
    samba_value mask, memory_mask;    /* attn_mask of the one and of the other */
    samba_value key_padding_mask, memory_key_padding_mask;
    bool final_norm; /* of a stack: layer norm "norm" at the end */
} samba_transformer_options;
/* torch.nn.TransformerEncoderLayer: parameters by its names below "<name>.". */
SAMBA_API samba_value samba_transformer_encoder_layer(samba_value src, const char *name, int64_t num_heads,
                                                      const samba_transformer_options *options /* may be NULL */);
/* torch.nn.TransformerDecoderLayer, over `memory`. */
SAMBA_API samba_value samba_transformer_decoder_layer(samba_value tgt, samba_value memory, const char *name, int64_t num_heads,
                                                      const samba_transformer_options *options /* may be NULL */);
/* num_layers of them, "<name>.layers.0" ... */
SAMBA_API samba_value samba_transformer_encoder(samba_value src, const char *name, int64_t num_layers, int64_t num_heads,
                                                const samba_transformer_options *options /* may be NULL */);
SAMBA_API samba_value samba_transformer_decoder(samba_value tgt, samba_value memory, const char *name, int64_t num_layers,
                                                int64_t num_heads, const samba_transformer_options *options /* may be NULL */);

#ifdef __cplusplus
}
#endif
#endif
