/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the commands that make text, lm generate (lm_generate.c), lm chat (lm_chat.c) and lm serve (lm_serve.c): their options
 * and how they begin (lm_options.c). */
#ifndef SAMBA_CLI_LM_TEXT_H
#define SAMBA_CLI_LM_TEXT_H

#include "cli/cli.h"
#include <sambaflow/lm.h>

enum { SAMBA_LM_MOST_PROMPTS = 64, SAMBA_LM_MOST_STOPS = 16 };
enum { SAMBA_LM_GENERATE = 1, SAMBA_LM_CHAT = 2, SAMBA_LM_SERVE = 4 }; /* commands */
typedef enum samba_lm_prompt_kind { SAMBA_LM_TEXT, SAMBA_LM_FILE, SAMBA_LM_IDS } samba_lm_prompt_kind;

typedef struct samba_lm_words { /* of the command line */
    int command;
    const char *model, *isa;
    int64_t max_new_tokens, top_k, capacity, chunk, seed;
    int threads;
    double temperature, top_p, min_p, repetition_penalty;
    int base, draft_base; /* samba_base */
    const char *adapter, *draft;
    int64_t draft_tokens;
    bool has_draft_base;
    bool json, keep_special, plain, go_on;
    int prompt_count, stop_count;
    struct {
        const char *text;
        samba_lm_prompt_kind kind;
    } prompts[SAMBA_LM_MOST_PROMPTS]; /* of chat: what the user says */
    const char *stops[SAMBA_LM_MOST_STOPS];
    const char *system, *template; /* of chat */
    /* of serve */
    const char *host, *key_file, *origin;
    int port, connections;
    int64_t sequences, queue, most_bytes; /* sequences 0: not given */
    double seconds;
    bool quiet;
} samba_lm_words;
/* argv[0] is the command. Ends the program where words are wrong, or for --help. */
void samba_lm_words_parse(int command, int argc, char **argv, samba_lm_words *words);

typedef struct samba_lm_task { /* what each has open */
    samba_context *context;
    const samba_lm_words *words;
    samba_lm *lm;
    samba_tokenizer *tokenizer; /* NULL: prompts are ids */
    samba_generator *generator;
    samba_lm_adapter *adapter;
    samba_lm *draft_lm;
    samba_generator *draft; /* NULL: none */
    samba_draft_counts counts;
    const int32_t *stop_ids;
    int64_t stop_count;
} samba_lm_task;
samba_status samba_lm_task_open(samba_lm_task *task, int64_t sequences, bool is_text);
void samba_lm_task_close(samba_lm_task *task);
/* Without callbacks. */
samba_generation_options samba_lm_task_options(samba_lm_task *task);
/* What was drafted: a line of standard error, where there is a draft; an object of JSON. */
void samba_lm_task_tell_draft(const samba_lm_task *task);
json_t *samba_lm_task_draft(const samba_lm_task *task);

#endif
