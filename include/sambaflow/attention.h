/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention. */
#ifndef SAMBAFLOW_ATTENTION_H
#define SAMBAFLOW_ATTENTION_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* torch.nn.functional.scaled_dot_product_attention: softmax(q k^T * scale + mask) v for each head, in one kernel that stores no
 * matrix of scores. q (..., H, Tq, D), k (..., H, Tk, D), v (..., H, Tk, Dv) of one floating-point dtype, rank 2 (no heads) or
 * more, the leading dims equal; views of a joint projection are read in place. The result is (..., H, Tq, Dv), and lies in memory
 * as (..., Tq, H, Dv), so that what gives it back to a projection, samba_transpose and samba_reshape, costs nothing. A query that
 * may see no key gives 0. A mask that depends on a parameter is differentiated through a matrix of scores made for that. */
typedef struct samba_attention_options {
    samba_value
        mask; /* broadcasts to (..., H, Tq, Tk); bool: true where a query may see a key; floating-point: added to the scores;
                            a zeroed value: none */
    bool is_causal;      /* query i sees keys 0 .. i, also where Tq and Tk differ; with a mask both must allow */
    bool enable_gqa;     /* k and v may have fewer heads, H / n: n heads of q in a row share one */
    double scale;        /* 0: 1 / sqrt(D) */
    const char *dropout; /* NULL: none. Else the weights are dropped out by hyperparameters "<dropout>.p" and "<dropout>.seed" */
    double dropout_p;    /* what "<dropout>.p" starts at */
} samba_attention_options;
/* PyTorch's defaults; begin with them. */
static inline samba_attention_options samba_attention_defaults(void)
{
    samba_attention_options options = {{NULL, 0, 0}, false, false, 0.0, NULL, 0.0};
    return options;
}
SAMBA_API samba_value samba_scaled_dot_product_attention(samba_value q, samba_value k, samba_value v,
                                                         const samba_attention_options *options /* may be NULL */);

/* Attention of new tokens over a cache, in which no gradient flows: q (B, H, N, D), k (B, Hkv, C, D), v (B, Hkv, C, Dv) of one
 * floating-point dtype, Hkv dividing H; start (B), int64 or int32. Query i of sequence b stands at position t = start[b] + i.
 * The key of position p is that of slot p mod slots of k and v, where the caller has written it (samba_scatter,
 * samba_index_copy). The query sees positions p from 0 to t that are in its window, p > t - window. A ring holds what is seen if
 * slots is at least window + N - 1, or no position reaches it. What costs time are the tokens that are seen, not the size of the
 * cache. The result is (B, H, N, Dv), and lies in memory as (B, N, H, Dv); a query that sees nothing, as where start[b] < -i,
 * gives 0. */
typedef struct samba_cache_options {
    size_t struct_size;
    int64_t slots;  /* that are in use, in a ring; 0: all C of them */
    int64_t window; /* positions that a query sees, its own among them; 0, and more than slots: as many as slots */
    double scale;   /* of scores; 0: 1 / sqrt(D) */
    double cap;     /* > 0: scores, with their scale, become cap tanh(score / cap); 0: they stay */
} samba_cache_options;
SAMBA_API samba_value samba_cache_attention(samba_value q, samba_value k, samba_value v, samba_value start,
                                            const samba_cache_options *options /* may be NULL */);

/* Rotary position embedding of x (..., T, D): a pair of features (a, b) becomes (a cos - b sin, b cos + a sin) of its angle,
 * position / base^(2 i / dims) for pair i. 16-bit floats are computed in float32. */
typedef struct samba_rotary_options {
    bool interleaved; /* pairs are neighbours, 2 i and 2 i + 1; else i and i + dims / 2, as Llama has them */
    double base;
    int64_t dims;          /* how many features turn, from the first; 0: all */
    samba_value positions; /* broadcasts to (..., T); a zeroed value: 0 .. T-1 */
    /* given instead: they broadcast to (..., T, dims / 2), or to (..., T, dims), where both of a pair have the same */
    samba_value cos, sin;
} samba_rotary_options;
/* PyTorch's defaults; begin with them. */
static inline samba_rotary_options samba_rotary_defaults(void)
{
    samba_rotary_options options = {false, 10000.0, 0, {NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    return options;
}
SAMBA_API samba_value samba_rotary_embedding(samba_value x, const samba_rotary_options *options /* may be NULL */);

#ifdef __cplusplus
}
#endif
#endif
