/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over heads, for the operators that say it in their several ways. */
#ifndef SAMBA_ONNX_ATTEND_H
#define SAMBA_ONNX_ATTEND_H

#include "onnx/onnx.h"

typedef struct samba_onnx_attention {
    samba_value q, k, v;   /* (N, heads, T, D); k and v may have fewer heads, of which several of q in a row share one */
    samba_value allowed;   /* bool, broadcasts to (N, heads, Tq, Tk): false where a query may not see a key; zeroed: none */
    samba_value bias;      /* added to the scores; zeroed: none */
    bool is_causal;        /* query i sees keys 0 .. i */
    double scale;          /* 0: 1 / sqrt(D) */
    double softcap;        /* 0: none; else scores are softcap * tanh(score / softcap) */
    samba_dtype precision; /* of the softmax, where it is float64; else float32 */
    int shown; /* what samba_onnx_attend stores: -1 nothing, the scores 0 as they are, 1 capped, 2 with bias, 3 as weights */
} samba_onnx_attention;

/* (N, heads, Tq, Dv); `*shown`, (N, heads, Tq, Tk), may be NULL where nothing is to be shown. */
samba_value samba_onnx_attend(samba_onnx_node *node, const samba_onnx_attention *attention, samba_value *shown);

/* (N, T, heads * D) as (N, heads, T, D), and back. */
samba_value samba_onnx_split_heads(samba_onnx_node *node, samba_value a, int64_t heads);
samba_value samba_onnx_join_heads(samba_value a);
/* What two masks allow; a zeroed one allows all. */
samba_value samba_onnx_both(samba_value a, samba_value b);

/* Rotary embedding of x (N, heads, T, D) by rows of tables (P, dims / 2) at positions (N, T); without these, zeroed, by tables
 * (N, T, dims / 2). */
samba_value samba_onnx_rotate(samba_onnx_node *node, samba_value x, samba_value cos, samba_value sin, samba_value positions,
                              int64_t dims, bool interleaved);

#endif
