/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow prepare: a file of lines becomes HDF5 files of sequences for a language model. Options are spelled with '-' or '_'.
 * A terminal has a bar; elsewhere each step of the work is a line when it begins. */
#include "cli/cli.h"
#include <sambaflow/prepare.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct parse {
    samba_prepare_options o;
    const char *input, *tokenizer, *output;
    bool json;
    int packing, packing_boundary, attention_boundary;
    int64_t seed;
} parse;

static const char *const packings[] = {"full",         "greedy::drop",          "greedy::truncate_left", "greedy::truncate_right",
                                       "single::drop", "single::truncate_left", "single::truncate_right"};
static const char *const boundaries[] = {"jsonl", "prompt_completion_pair"};

enum { ALL = 1 };
static const samba_option_row rows[] = {
    {.help = "What is prepared:"},
    {ALL, "input-file-path", "FILE", "A .jsonl file, whose lines have an object or a list of objects each, or a .txt file",
     TEXT_AT(input), .letter = 'i'},
    {ALL, "output-path", "FOLDER", "Where the files go; it is empty, or holds the same preparation, which goes on",
     TEXT_AT(output), .letter = 'o'},
    {ALL, "pretrained-tokenizer", "PATH", "A folder with a tokenizer, a tokenizer.json, a SentencePiece model or a GGUF file",
     TEXT_AT(tokenizer), .letter = 't'},
    {ALL, "overwrite-output-path", NULL, "Remove what an earlier preparation left in the folder",
     FLAG_AT(o.overwrite_output_path)},
    {.help = "Sequences:"},
    {ALL, "max-seq-length", "N", "Tokens in a sequence (2048)", INTEGER_AT(o.max_seq_length, 2, 1 << 20)},
    {ALL, "input-packing-config", "WORD",
     "How articles become sequences: full, cut where one is full; greedy, as many whole ones as fit; single, one each; the "
     "latter "
     "two with ::drop, ::truncate_left or ::truncate_right for what is too long, as greedy::drop (full)",
     CHOICE_AT(packing, packings, 7)},
    {ALL, "packing-boundary", "jsonl|prompt_completion_pair", "What greedy and single keep together: a line or a pair (jsonl)",
     CHOICE_AT(packing_boundary, boundaries, 2)},
    {ALL, "attention-boundary", "jsonl|prompt_completion_pair", "Whose last token is marked as the end of an article (jsonl)",
     CHOICE_AT(attention_boundary, boundaries, 2)},
    {ALL, "eos-token", "TOKEN", "The token that ends each pair (the tokenizer's)", TEXT_AT(o.eos_token)},
    {ALL, "pad-token", "TOKEN", "The token that pads (the tokenizer's; without one the token that ends)", TEXT_AT(o.pad_token)},
    {ALL, "vocab-size", "N", "Refuse ids from N on (as config.json beside the tokenizer says)",
     INTEGER_AT(o.vocab_size, 1, INT32_MAX)},
    {.help = "Members of jsonl:"},
    {ALL, "prompt-keyword", "NAME", "The member that is the prompt (prompt)", TEXT_AT(o.prompt_keyword)},
    {ALL, "completion-keyword", "NAME", "The member that is the completion (completion)", TEXT_AT(o.completion_keyword)},
    {ALL, "prompt-prefix", "TEXT", "Put before each prompt", TEXT_AT(o.prompt_prefix)},
    {ALL, "prompt-postfix", "TEXT", "Put behind each prompt", TEXT_AT(o.prompt_postfix)},
    {ALL, "disable-space-separator", NULL, "Leave the spaces between prompt and completion as they are",
     FLAG_AT(o.disable_space_separator)},
    {ALL, "keep-prompt-only-sequences", NULL, "Keep pairs without a completion, and sequences in which nothing is learned",
     FLAG_AT(o.keep_prompt_only_sequences)},
    {ALL, "categories-path", "FILE", "A JSON list of categories, or an object with their ids: category_ids are written too",
     TEXT_AT(o.categories_path)},
    {ALL, "skip-bad", NULL, "Leave broken lines out and count them", FLAG_AT(o.skip_bad)},
    {.help = "Parts:"},
    {ALL, "num-training-splits", "N", "Files of the training part (1)", INT_AT(o.num_training_splits, 1, 10000)},
    {ALL, "num-dev-splits", "N", "Files of the dev part (0)", INT_AT(o.num_dev_splits, 0, 10000)},
    {ALL, "num-test-splits", "N", "Files of the test part, which stays text (0)", INT_AT(o.num_test_splits, 0, 10000)},
    {ALL, "dev-ratio", "X", "The dev part's share of the articles (that of its files)", REAL_AT(o.dev_ratio, 0, 1)},
    {ALL, "test-ratio", "X", "The test part's share of the articles (that of its files)", REAL_AT(o.test_ratio, 0, 1)},
    {ALL, "no-shuffle", NULL, "Articles in the order of the file", FLAG_AT(o.no_shuffle)},
    {ALL, "seed", "N", "Of the shuffle (0)", INTEGER_AT(seed, 0, INT64_MAX)},
    {.help = "Running:"},
    {ALL, "num-workers", "N", "Threads (as many as the machine offers)", INT_AT(o.num_workers, 1, 4096)},
    {ALL, "memory", "BYTES", "Memory to stay within, the tokenizer's own left out (500000000)",
     INTEGER_AT(o.memory, 64 << 20, INT64_MAX)},
    {ALL, "json", NULL, "Print one JSON object, and progress to stderr", FLAG_AT(json)},
    {ALL, "version", NULL, "Print the library's version", OTHER(samba_print_version), .group = -1},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is no option: prepare takes options alone", text);
    else if (key == ARGP_KEY_END && (!p->input || !p->tokenizer || !p->output))
        argp_error(state, "expected --input-file-path FILE, --pretrained-tokenizer PATH and --output-path FOLDER");
    else if (key == ARGP_KEY_INIT)
        samba_words_check(state);
    else if (row < 0)
        return ARGP_ERR_UNKNOWN;
    if (row >= 0)
        samba_option_take(&rows[row], p, text, state);
    return 0;
}

/* --max_seq_length is --max-seq-length; what follows '=' stays. */
static void take_underscores(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--", 2) == 0)
            for (char *c = argv[i]; *c && *c != '='; c++)
                *c = *c == '_' ? '-' : *c;
}

/* ---- progress ---- */
typedef struct showing {
    FILE *file;
    samba_progress bar;
    char stage[32];
    double megabytes, first; /* of the input; the share that an earlier call had done of this stage */
} showing;

static void show(void *user, const char *stage, double share)
{
    showing *s = user;
    char rate[32] = "";
    if (strcmp(s->stage, stage) != 0) {
        if (s->stage[0])
            samba_progress_end(&s->bar);
        snprintf(s->stage, sizeof s->stage, "%s", stage);
        samba_progress_begin(&s->bar, s->file, s->stage, 100, 1);
        s->bar.lines = true;
        s->first = share;
        if (!s->bar.bar) {
            fprintf(s->file, "%s ...\n", s->stage);
            fflush(s->file);
        }
    }
    const double spent = samba_seconds() - s->bar.start;
    if (spent > 0 && s->megabytes > 0)
        snprintf(rate, sizeof rate, "%.1f MB/s of the input", (share - s->first) * s->megabytes / spent);
    samba_progress_share(&s->bar, share, rate);
}

/* ---- results ---- */
static samba_status report_json(samba_context *context, const parse *p, const samba_prepare_result *r, double seconds)
{
    return samba_json_print(
        context,
        json_pack("{s:s, s:s, s:b, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "command",
                  "prepare", "output", p->output, "resumed", r->resumed, "seconds", seconds, "articles", (json_int_t)r->articles,
                  "bad_lines", (json_int_t)r->bad_lines, "train_articles", (json_int_t)r->train_articles, "dev_articles",
                  (json_int_t)r->dev_articles, "test_articles", (json_int_t)r->test_articles, "train_sequences",
                  (json_int_t)r->train_sequences, "dev_sequences", (json_int_t)r->dev_sequences, "train_tokens",
                  (json_int_t)r->train_tokens, "dev_tokens", (json_int_t)r->dev_tokens, "dropped_sequences",
                  (json_int_t)r->dropped_sequences, "dropped_units", (json_int_t)r->dropped_units, "truncated_units",
                  (json_int_t)r->truncated_units, "max_batch_size_train", (json_int_t)r->max_batch_train, "max_batch_size_dev",
                  (json_int_t)r->max_batch_dev),
        stdout);
}

static samba_status report(samba_context *context, const parse *p, const samba_prepare_result *r, double seconds)
{
    samba_table table;
    samba_table_init(&table, context, "lrrrrr");
    samba_table_row(&table, "part\tarticles\tsequences\ttokens\tfiles\tgreatest batch");
    samba_table_row(&table, "train\t%lld\t%lld\t%lld\t%d\t%lld", (long long)r->train_articles, (long long)r->train_sequences,
                    (long long)r->train_tokens, p->o.num_training_splits, (long long)r->max_batch_train);
    if (r->dev_articles)
        samba_table_row(&table, "dev\t%lld\t%lld\t%lld\t%d\t%lld", (long long)r->dev_articles, (long long)r->dev_sequences,
                        (long long)r->dev_tokens, p->o.num_dev_splits ? p->o.num_dev_splits : 1, (long long)r->max_batch_dev);
    if (r->test_articles)
        samba_table_row(&table, "test\t%lld\t\t\t%d\t", (long long)r->test_articles,
                        p->o.num_test_splits ? p->o.num_test_splits : 1);
    SAMBA_TRY(samba_table_print(&table, stdout, ""));
    if (r->bad_lines)
        printf("%lld broken lines were left out\n", (long long)r->bad_lines);
    if (r->dropped_units)
        printf("%lld were too long for a sequence and were dropped\n", (long long)r->dropped_units);
    if (r->truncated_units)
        printf("%lld were too long for a sequence and were cut\n", (long long)r->truncated_units);
    if (r->dropped_sequences)
        printf("%lld sequences had nothing to learn and were dropped\n", (long long)r->dropped_sequences);
    printf("%s: %.1f s%s\n", p->output, seconds, r->resumed ? ", begun by an earlier call" : "");
    return SAMBA_OK;
}

static samba_status work(samba_context *context, parse *p)
{
    samba_prepare_result result;
    struct stat input;
    showing s = {.file = p->json ? stderr : stdout};
    if (stat(p->input, &input) == 0 && S_ISREG(input.st_mode))
        s.megabytes = (double)input.st_size / 1e6;
    p->o.packing = (samba_packing)p->packing;
    p->o.packing_boundary = (samba_boundary)p->packing_boundary;
    p->o.attention_boundary = (samba_boundary)p->attention_boundary;
    p->o.seed = (uint64_t)p->seed;
    p->o.progress = show;
    p->o.progress_user = &s;
    double start = samba_seconds();
    samba_status status = samba_prepare(context, p->input, p->tokenizer, p->output, &p->o, &result);
    if (s.stage[0])
        samba_progress_end(&s.bar);
    SAMBA_TRY(status);
    double seconds = samba_seconds() - start;
    return p->json ? report_json(context, p, &result, seconds) : report(context, p, &result, seconds);
}

int samba_cli_prepare(int argc, char **argv)
{
    struct argp_option options[SAMBA_COUNT(rows) + 1];
    samba_options_list(rows, SAMBA_COUNT(rows), ALL, options);
    const struct argp argp = {
        options,
        parse_option,
        NULL,
        "sambaflow prepare: shuffles the lines of a file, parts them into train, dev and test, tokenizes and packs them into "
        "sequences of one length, and writes these as HDF5 files: input_ids and token_type_ids (0 prompt, 1 completion, 2 "
        "padding, "
        "3 end of an article). A call that was interrupted goes on when it is made again.",
        NULL,
        NULL,
        NULL};
    static char name[] = "sambaflow prepare";
    parse p = {.o = samba_prepare_defaults()};
    samba_context *context;
    argv[1] = name;
    take_underscores(argc - 1, argv + 1);
    samba_command_parse(&argp, NULL, argc - 1, argv + 1, &p);
    if (!samba_cli_begin(&context))
        return 1;
    return samba_cli_end(context, work(context, &p));
}
