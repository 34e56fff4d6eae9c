/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2 as graphs: for training on whole samples (gpt2.c), and for generating with a cache (generate.c). */
#ifndef GPT2_MODEL_H
#define GPT2_MODEL_H

#include <sambaflow/sambaflow.h>

typedef struct gpt2_settings {
    int64_t n_layer, n_head, n_embd, block_size, vocab_size;
    double dropout;
    bool logits;
} gpt2_settings;

/* Inputs "input" and "label", both (B, T); loss "loss". */
void gpt2_train(samba_graph *graph, const void *settings);

typedef struct gpt2_step { /* one of the graphs that generate */
    const gpt2_settings *settings;
    int64_t tokens;    /* that it takes: of a prompt, or one */
    samba_dtype cache; /* of keys and values */
} gpt2_step;
/* Inputs: "tokens" (T) and "last" (1), the place of the prompt's last token; or "token" (1) and "position" (1), its place. The
 * cache "h.<i>.attn.cache" (2, heads, block_size, width / heads), a buffer, gets the tokens' keys and values. Outputs, for that
 * one token: "<graph>.logits" (V), and "<graph>.next", the likeliest. */
void gpt2_prefill(samba_graph *graph, const void *step);
void gpt2_decode(samba_graph *graph, const void *step);

int gpt2_generate(int argc, char **argv); /* generate.c */

#endif
