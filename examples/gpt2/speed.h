/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast generating is, and how fast it could be: a token reads all weights once, so memory is its limit; a prompt's limit are
 * multiply-adds. What a machine gives that others share changes from second to second:
 * so both are measured in turn with what they are held against, and medians compared. */
#ifndef GPT2_SPEED_H
#define GPT2_SPEED_H

#include "model.h"

enum { GPT2_PROMPTS = 5 }; /* times that the prompt is run, at most */

typedef struct gpt2_speed {
    bool measured;                  /* whether limits were */
    int64_t prompt, prompts, steps; /* tokens of the prompt's graph; times that it ran; tokens after the first */
    double flops, weight_bytes;     /* of a prompt; that a token reads */
    double prefill[GPT2_PROMPTS];   /* seconds */
    double peak[GPT2_PROMPTS];      /* FLOP/s, measured before each */
    double *step, *read;            /* of each token: seconds; bytes/s of a pass over as much memory just before it */
} gpt2_speed;

double gpt2_seconds(void);
/* FLOPs of a prompt's pass: two for each weight of a block and token, scores and sums of attention, and one row of logits. */
double gpt2_prompt_flops(const gpt2_settings *settings, int64_t tokens);
/* Bytes of the weights that a token reads: all parameters but the rows of the tables of tokens and places that it does not look
 * up; the table of tokens is the last projection, too. Negative where the session does not tell. */
double gpt2_weight_bytes(const samba_session *session, bool bf16);
/* Sorts the times. */
void gpt2_speed_print(gpt2_speed *speed, bool json);

#endif
