/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of lm generate and lm chat: one table, which says whose each is; and how both begin: model, tokenizer, generator.
 */
#include "cli/lm_text.h"

#include <string.h>

typedef samba_lm_words parse; /* as the macros of rows call it */

/* ---- options ---- */

static void take_prompt(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_lm_words *p = into;
    if (p->prompt_count == SAMBA_LM_MOST_PROMPTS)
        argp_error(state, "--%s: more than %d are too many", row->name, SAMBA_LM_MOST_PROMPTS);
    p->prompts[p->prompt_count].text = text;
    p->prompts[p->prompt_count++].kind = strcmp(row->name, "prompt-file") == 0  ? SAMBA_LM_FILE
                                         : strcmp(row->name, "prompt-ids") == 0 ? SAMBA_LM_IDS
                                                                                : SAMBA_LM_TEXT;
}

static void take_stop(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_lm_words *p = into;
    if (p->stop_count == SAMBA_LM_MOST_STOPS)
        argp_error(state, "--%s: more than %d are too many", row->name, SAMBA_LM_MOST_STOPS);
    if (!text[0])
        argp_error(state, "--%s: an empty text is everywhere: give some", row->name);
    p->stops[p->stop_count++] = text;
}

static const char *const dtypes[] = {"float32", "bfloat16"};

enum { BOTH = SAMBA_LM_GENERATE | SAMBA_LM_CHAT };

static const samba_option_row rows[] = {
    {.commands = BOTH,
     .name = "model",
     .value = "FOLDER",
     .help = "The model's folder: config.json, safetensors files, tokenizer",
     TEXT_AT(model)},
    {.commands = SAMBA_LM_GENERATE,
     .name = "prompt",
     .value = "TEXT",
     .help = "What the text begins with; several are continued side by side",
     OTHER(take_prompt)},
    {.commands = SAMBA_LM_GENERATE,
     .name = "prompt-file",
     .value = "FILE",
     .help = "The same from a file; -: standard input, as without any",
     OTHER(take_prompt)},
    {.commands = SAMBA_LM_GENERATE,
     .name = "prompt-ids",
     .value = "N,N,...",
     .help = "The same as ids of tokens; then ids are written, too",
     OTHER(take_prompt)},
    {.commands = SAMBA_LM_CHAT,
     .name = "message",
     .value = "TEXT",
     .help = "What the user says; several are turns. Without: lines of standard input",
     OTHER(take_prompt)},
    {.commands = SAMBA_LM_CHAT, .name = "system", .value = "TEXT", .help = "What the conversation begins with", TEXT_AT(system)},
    {.commands = SAMBA_LM_CHAT,
     .name = "template",
     .value = "TEXT",
     .help = "A chat template, or the name of one of the folder's (the folder's own)",
     TEXT_AT(template)},
    {.commands = BOTH,
     .name = "max-new-tokens",
     .value = "N",
     .help = "At most so many tokens (128)",
     INTEGER_AT(max_new_tokens, 0, INT32_MAX)},
    {.commands = BOTH,
     .name = "temperature",
     .value = "X",
     .help = "Logits are divided by it; 0 (default): the likeliest token each time",
     REAL_AT(temperature, 0, 1e6)},
    {.commands = BOTH, .name = "top-k", .value = "N", .help = "Of the N likeliest tokens alone", INTEGER_AT(top_k, 0, INT32_MAX)},
    {.commands = BOTH,
     .name = "top-p",
     .value = "X",
     .help = "Of the likeliest that together have the probability X",
     REAL_AT(top_p, 0, 1)},
    {.commands = BOTH,
     .name = "min-p",
     .value = "X",
     .help = "Of those with at least X times the likeliest's probability",
     REAL_AT(min_p, 0, 1)},
    {.commands = BOTH,
     .name = "repetition-penalty",
     .value = "X",
     .help = "Logits of tokens that were there are divided by it",
     REAL_AT(repetition_penalty, 0, 1e6)},
    {.commands = BOTH, .name = "seed", .value = "N", .help = "Of the random numbers (0)", INTEGER_AT(seed, 0, INT64_MAX)},
    {.commands = BOTH,
     .name = "stop",
     .value = "TEXT",
     .help = "The text ends before TEXT; may be given several times",
     OTHER(take_stop)},
    {.commands = BOTH, .name = "ignore-eos", .help = "Tokens that end a text do not", FLAG_AT(go_on)},
    {.commands = SAMBA_LM_GENERATE,
     .name = "no-special",
     .help = "Without the tokens that the tokenizer puts around a text",
     FLAG_AT(plain)},
    {.commands = BOTH, .name = "keep-special", .help = "Special tokens are written as text", FLAG_AT(keep_special)},
    {.commands = BOTH,
     .name = "capacity",
     .value = "N",
     .help = "Tokens of prompt and text that the cache has room for (the model's positions, at most 4096)",
     INTEGER_AT(capacity, 1, INT32_MAX)},
    {.commands = BOTH,
     .name = "chunk",
     .value = "N",
     .help = "Tokens of a prompt that are taken at once (128)",
     INTEGER_AT(chunk, 1, 4096)},
    {.commands = BOTH,
     .name = "dtype",
     .value = "NAME",
     .help = "Weights are kept as float32 (default) or bfloat16",
     CHOICE_AT(bfloat16, dtypes, SAMBA_COUNT(dtypes))},
    {.commands = BOTH,
     .name = "threads",
     .value = "N",
     .help = "Threads (as many as the machine has cores)",
     INT_AT(threads, 1, 4096)},
    {.commands = BOTH, .name = "isa", .value = "NAME", .help = "Instruction set", TEXT_AT(isa)},
    {.commands = BOTH, .name = "json", .help = "One JSON object at the end, instead of text", FLAG_AT(json)},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    samba_lm_words *p = state->input;
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is no option: %s", text,
                   p->command == SAMBA_LM_CHAT ? "what the user says is given by --message TEXT"
                                               : "a prompt is given by --prompt TEXT");
    else if (key == ARGP_KEY_END && !p->model)
        argp_error(state, "which model? Give its folder by --model FOLDER");
    else if (row < 0)
        return key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
    if (row >= 0)
        samba_option_take(&rows[row], p, text, state);
    return 0;
}

/* Options of the other command are unknown. */
void samba_lm_words_parse(int command, int argc, char **argv, samba_lm_words *words)
{
    struct argp_option options[SAMBA_COUNT(rows) + 1] = {{0}};
    static char generate[] = "sambaflow lm generate", chat[] = "sambaflow lm chat"; /* messages begin with it */
    int count = 0;
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        if (rows[i].commands & command)
            options[count++] = samba_option_of(rows, i);
    const struct argp argp = {options,
                              parse_option,
                              NULL,
                              command == SAMBA_LM_CHAT
                                  ? "Talks with a language model of a Hugging Face folder, by its chat template (docs/lm.md)."
                                  : "Continues a text by a language model of a Hugging Face folder (docs/lm.md).",
                              NULL,
                              NULL,
                              NULL};
    argv[0] = command == SAMBA_LM_CHAT ? chat : generate;
    *words = (samba_lm_words){.command = command, .max_new_tokens = 128, .chunk = 128, .top_p = 1, .repetition_penalty = 1};
    argp_parse(&argp, argc, argv, 0, NULL, words);
}

/* ---- beginning and end ---- */

samba_status samba_lm_task_open(samba_lm_task *t, int64_t sequences, bool is_text)
{
    const samba_lm_words *p = t->words;
    samba_generator_options options = samba_generator_defaults();
    options.sequences = sequences;
    options.capacity = p->capacity;
    options.chunk = p->chunk;
    options.threads = p->threads;
    options.isa = samba_word_isa(p->isa);
    options.seed = (uint64_t)p->seed;
    options.base = p->bfloat16 ? SAMBA_BASE_BFLOAT16 : SAMBA_BASE_AS_TRACED;
    SAMBA_TRY(samba_lm_open(t->context, p->model, &t->lm));
    if (is_text)
        SAMBA_TRY(samba_tokenizer_open(t->context, p->model, &t->tokenizer));
    if (!p->go_on)
        SAMBA_TRY(samba_lm_stop_ids(t->lm, &t->stop_ids, &t->stop_count));
    return samba_generator_new(t->lm, &options, &t->generator);
}

void samba_lm_task_close(samba_lm_task *t)
{
    samba_generator_free(t->generator);
    samba_tokenizer_free(t->tokenizer);
    samba_lm_free(t->lm);
}

samba_generation_options samba_lm_task_options(const samba_lm_task *t)
{
    const samba_lm_words *p = t->words;
    samba_generation_options options = samba_generation_defaults();
    options.sampling.temperature = p->temperature;
    options.sampling.top_k = p->top_k;
    options.sampling.top_p = p->top_p;
    options.sampling.min_p = p->min_p;
    options.sampling.repetition_penalty = p->repetition_penalty;
    options.sampling.seed = (uint64_t)p->seed;
    options.max_new_tokens = p->max_new_tokens;
    options.stop_ids = t->stop_ids;
    options.stop_count = t->stop_count;
    options.stop_strings = p->stops;
    options.stop_string_count = p->stop_count;
    options.keep_special = p->keep_special;
    return options;
}
