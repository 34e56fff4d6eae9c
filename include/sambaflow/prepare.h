/* SPDX-License-Identifier: Apache-2.0
 *
 * Data preparation for language models: a file of lines, jsonl or text, becomes HDF5 files of sequences of one length.
 * docs/prepare.md has the rules.
 *
 *     samba_prepare_options options = samba_prepare_defaults();
 *     options.max_seq_length = 1024;
 *     samba_prepare(context, "articles.jsonl", "gpt2", "prepared", &options, &result);
 *
 * The result depends on the input, the tokenizer and the options, not on threads or memory. A preparation that was interrupted
 * goes on where it stood when the same call is made again. Names appear in the output folder only with whole files under them.
 *
 * It needs tokenizers (-Dtext) and the plugin for HDF5 (-Dhdf5), and says so: UNSUPPORTED. */
#ifndef SAMBAFLOW_PREPARE_H
#define SAMBAFLOW_PREPARE_H

#include <sambaflow/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_packing {                         /* how tokens become sequences */
                             SAMBA_PACKING_FULL = 0, /* one after the other, cut where a sequence is full */
                             SAMBA_PACKING_GREEDY_DROP = 1,
                             SAMBA_PACKING_GREEDY_TRUNCATE_LEFT = 2,
                             SAMBA_PACKING_GREEDY_TRUNCATE_RIGHT = 3,
                             SAMBA_PACKING_SINGLE_DROP = 4,
                             SAMBA_PACKING_SINGLE_TRUNCATE_LEFT = 5,
                             SAMBA_PACKING_SINGLE_TRUNCATE_RIGHT = 6
} samba_packing;
typedef enum samba_boundary {
    SAMBA_BOUNDARY_JSONL = 0, /* a line: an article */
    SAMBA_BOUNDARY_PAIR = 1   /* a prompt with its completion */
} samba_boundary;
typedef enum samba_token_type { /* token_type_ids */
                                SAMBA_TOKEN_PROMPT = 0,
                                SAMBA_TOKEN_COMPLETION = 1,
                                SAMBA_TOKEN_PADDING = 2,
                                SAMBA_TOKEN_ARTICLE_END = 3
} samba_token_type;

typedef struct samba_prepare_options {
    size_t struct_size;
    int64_t max_seq_length; /* tokens of a sequence (2048), 2 to 1048576 */
    samba_packing packing;
    samba_boundary packing_boundary;   /* what greedy and single keep together; full takes JSONL alone */
    samba_boundary attention_boundary; /* whose last token has type 3 */
    /* Of jsonl ("prompt", "completion"); NULL: these. Prefix and postfix are put around prompts; NULL: none. */
    const char *prompt_keyword, *completion_keyword, *prompt_prefix, *prompt_postfix;
    bool disable_space_separator;    /* prompts and completions keep the spaces they have where they meet */
    bool keep_prompt_only_sequences; /* pairs without completion, and sequences without a token of type 1 */
    const char *categories_path;     /* a JSON list of names, or an object of names with their ids; NULL: no category_ids */
    /* Files of each part (1, 0, 0), up to 10000. A part's share of the articles is its ratio in [0, 1), or else that of its files
     * in what the ratios leave. */
    int num_training_splits, num_dev_splits, num_test_splits;
    double dev_ratio, test_ratio; /* negative: not given */
    bool no_shuffle;              /* articles in the order of the file; `seed` must be 0 */
    uint64_t seed;
    int num_workers;                   /* threads; 0: as many as there are */
    int64_t memory;                    /* bytes to stay within (500000000), at least 64 MiB; a line takes a 32nd at most */
    bool skip_bad;                     /* broken lines are counted and left out */
    bool overwrite_output_path;        /* removes what an earlier preparation left in the folder */
    int64_t vocab_size;                /* ids at or above it are refused; 0: as config.json beside the tokenizer says, if any */
    const char *eos_token, *pad_token; /* NULL: the tokenizer's; without a pad token EOS pads */
    void (*progress)(void *user, const char *stage, double share); /* called by the calling thread; may be NULL */
    void *progress_user;
} samba_prepare_options;
/* The defaults, with struct_size set; begin with them: those in brackets above. */
SAMBA_API samba_prepare_options samba_prepare_defaults(void);

typedef struct samba_prepare_result {
    int64_t articles, bad_lines; /* lines that are articles; lines that were skipped as broken */
    int64_t train_articles, dev_articles, test_articles;
    int64_t train_sequences, dev_sequences;
    int64_t train_tokens, dev_tokens;       /* without padding */
    int64_t dropped_sequences;              /* without a token of type 1 */
    int64_t dropped_units, truncated_units; /* articles or pairs that were too long for a sequence */
    int64_t max_batch_train, max_batch_dev; /* the sequences of the smallest file; 0: it has none */
    bool resumed;                           /* an earlier call had begun, or done, the work */
} samba_prepare_result;

/* Prepares `input`, a file whose name ends in .jsonl or .txt, by the tokenizer at a path that samba_tokenizer_open takes, into
 * the folder `output`, which is made; where it exists it is empty or holds the same preparation, begun or done. `options` and
 * `result` may be NULL. Errors: ARGUMENT; NAME, for a token that the tokenizer has not; FILE, also for a full disk, after which
 * the same call goes on; FORMAT, for a broken line, with its number; STATE, where the folder is not empty, or another process
 * prepares into it; UNSUPPORTED; MEMORY. */
SAMBA_API samba_status samba_prepare(samba_context *context, const char *input, const char *tokenizer, const char *output,
                                     const samba_prepare_options *options, samba_prepare_result *result);

#ifdef __cplusplus
}
#endif
#endif
