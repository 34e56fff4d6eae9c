/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of sambaflow lm share: the folder's model and what its graph is asked for, frozen weights and adapters; and
 * the sequences and samples that lm train learns from. */
#ifndef SAMBA_CLI_LM_H
#define SAMBA_CLI_LM_H

#include "cli/cli.h"
#include <sambaflow/app.h>
#include <sambaflow/lm.h>

/* ---- lm_adapter.c: frozen weights and adapters ---- */
#define SAMBA_CLI_TUNING_OPTIONS 9
#define SAMBA_CLI_TARGETS 64
typedef struct samba_cli_tuning {
    int64_t rank;
    double alpha, dropout; /* NAN: not given */
    bool rslora, dora;
    const char *targets[SAMBA_CLI_TARGETS], *excludes[SAMBA_CLI_TARGETS], *bases[1], *adapters[1];
    int target_count, exclude_count, base_count, adapter_count;
    /* what samba_cli_tuning_check makes of them */
    bool tuned;
    samba_base base;
    samba_lora_options lora;
    samba_lm_adapter *adapter;
} samba_cli_tuning;
void samba_cli_tuning_init(samba_cli_tuning *tuning);
/* Fills SAMBA_CLI_TUNING_OPTIONS options of an application; how many. They point into the struct. */
int samba_cli_tuning_options(samba_cli_tuning *tuning, samba_app_option *options);
/* Once they are parsed: NULL, or the sentence that says what is wrong. */
const char *samba_cli_tuning_check(samba_cli_tuning *tuning, samba_context *context, const samba_lm *lm);
void samba_cli_tuning_apply(const samba_cli_tuning *tuning, samba_lm_options *options);
bool samba_cli_tuning_changes(const samba_cli_tuning *tuning); /* a session cannot take the folder's weights as they are */
void samba_cli_tuning_free(samba_cli_tuning *tuning);

/* ---- a command's model ---- */
#define SAMBA_CLI_LENGTHS 16
typedef struct samba_lm_command {
    samba_context *context;
    const char *folder;
    samba_lm *lm; /* NULL while a command only tells its options */
    samba_lm_info info;
    int64_t length;                     /* of sequences, in tokens */
    int64_t lengths[SAMBA_CLI_LENGTHS]; /* that train has graphs for, the longest last */
    int length_count;                   /* 0: the data's alone */
    const char *length_text[1];         /* train's option */
    int length_given;
    bool inference, logits, attention_mask, position_ids, document_ids, no_dropout;
    samba_cli_tuning tuning;
} samba_lm_command;

/* cli/lm_graph.c: functions of a samba_app whose settings are a pointer to a pointer to one */
const char *samba_cli_lm_check(const void *settings); /* of compile; train, which knows the length later, has its own */
int samba_cli_lm_inputs(const void *settings, int64_t batch, samba_app_input *inputs);
int samba_cli_lm_sizes(const void *settings);
int samba_cli_lm_sized_inputs(const void *settings, int size, int64_t batch, samba_app_input *inputs);
void samba_cli_lm_build(samba_graph *graph, const void *settings);

/* cli/lm.c: the application's name, which is the last part of the folder's path, or `none`. */
void samba_cli_lm_name(const char *path, const char *none, char name[SAMBA_CLI_NAME]);
/* cli/lm_files.c: save, merge or export, argv[0] the word; false: it is none of them. */
bool samba_cli_lm_files(int argc, char **argv, int *result);

int samba_cli_lm_train(samba_lm_command *lm, int argc, char **argv); /* cli/lm_train.c; the exit status */

/* ---- sequences of tokens (cli/lm_sequences.c): files of tensors, or a text ---- */
enum {
    SAMBA_LM_PROMPT = 0,
    SAMBA_LM_COMPLETION = 1,
    SAMBA_LM_PADDING = 2,
    SAMBA_LM_END = 3
}; /* token_type_ids; see docs/lm.md */
#define SAMBA_LM_EVAL_FRACTION 0.05

typedef struct samba_lm_file { /* rows that lie in one file */
    samba_tensor *ids, *types; /* (count, length), integers; types: NULL where all are completion */
    int64_t first, count;      /* its first row is row `first` of all */
    const char *path;
    bool test;
} samba_lm_file;

typedef struct samba_lm_sequences {
    samba_context *context;
    samba_arena arena;
    int file_count;
    samba_lm_file *files; /* those to train on come first */
    int64_t length, count, train_count;
} samba_lm_sequences;
/* Reads `path`: a folder of prepared files, a file of tensors, or a text, which the tokenizer of the folder `model` cuts into
 * sequences of `length` tokens. `length` 0: the data's, or of a text 128. At most `most` (0: any). `fraction` of a file's or
 * text's sequences, the last ones, are to test with; negative: not given. */
samba_status samba_lm_sequences_read(samba_context *context, const char *path, const char *model, int64_t length, int64_t most,
                                     double fraction, samba_lm_sequences *sequences);
void samba_lm_sequences_free(samba_lm_sequences *sequences);                                    /* zeros are allowed */
const samba_lm_file *samba_lm_sequences_file(const samba_lm_sequences *sequences, int64_t row); /* that has it */
/* A row's ids and types, `length` of each, unchecked. */
void samba_lm_sequences_row(const samba_lm_sequences *sequences, int64_t row, int32_t *ids, int32_t *types);
/* cli/lm_tokens.c: a text as one such file in memory. */
samba_status samba_lm_text_read(samba_context *context, const char *path, const char *model, int64_t length, samba_lm_file *file);

/* ---- samples (cli/lm_samples.c): the inputs of a graph for each sequence ---- */
typedef struct samba_lm_samples {
    samba_context *context;
    samba_arena arena;
    samba_lm_sequences sequences;
    int64_t vocab_size;
    bool learn_prompts;
    bool apart;             /* articles do not see each other; the caller decides before the first batch */
    int length_count;       /* of sizes, or 1; set with the next before the first batch */
    const int64_t *lengths; /* ascending, the last of all */
    /* found in the data */
    bool prompts;       /* there is a token of one */
    bool several;       /* some sequence has more than one article */
    bool inner_padding; /* some padding stands before other tokens, so that a mask has to hide it */
    int64_t left_out;   /* sequences without a token to learn */
    int64_t train_count, test_count, train_tokens, test_tokens;
    int64_t *rows;        /* of each sample, those to test with last: its sequence */
    int32_t *tokens;      /* of each sample: up to its last one that is no padding */
    int32_t *learned;     /* of each sample: how many predictions count */
    int32_t *ids, *types; /* of one sequence */
} samba_lm_samples;
/* Looks through all sequences, which are taken whatever comes of it. FORMAT: an id beyond the vocabulary, an unknown type. */
samba_status samba_lm_samples_new(samba_context *context, samba_lm_sequences *sequences, int64_t vocab_size, bool learn_prompts,
                                  samba_lm_samples *samples);
void samba_lm_samples_free(samba_lm_samples *samples); /* zeros are allowed */
/* Of a samba_app_data whose user is the samples. Inputs are known by their names. */
samba_app_fill_fn samba_lm_samples_fill;
int64_t samba_lm_samples_weight(const void *user, int64_t sample);
int samba_lm_samples_size(const void *user, int64_t sample); /* the smallest of its lengths that has room for it */

#endif
