/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of lm generate, lm chat and lm serve: one table, which says whose each is; and how all begin: model, tokenizer,
 * generator. */
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

static const char *const bases[] = {"float32", "bfloat16", "int8", "int4"}; /* by samba_base */

static void take_draft_base(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_lm_words *p = into;
    p->draft_base = -1;
    for (int i = 0; i < SAMBA_COUNT(bases); i++)
        if (strcmp(bases[i], text) == 0)
            p->draft_base = i;
    if (p->draft_base < 0)
        argp_error(state, "--%s: expected float32, bfloat16, int8 or int4, given '%s'", row->name, text);
    p->has_draft_base = true;
}

enum { SERVE = SAMBA_LM_SERVE, BOTH = SAMBA_LM_GENERATE | SAMBA_LM_CHAT, ALL = BOTH | SERVE };

static const samba_option_row rows[] = {
    {.commands = ALL,
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
    {.commands = SAMBA_LM_CHAT | SERVE,
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
    {.commands = ALL,
     .name = "capacity",
     .value = "N",
     .help = "Tokens of prompt and text that the cache has room for (the model's positions, at most 4096)",
     INTEGER_AT(capacity, 1, INT32_MAX)},
    {.commands = ALL,
     .name = "chunk",
     .value = "N",
     .help = "Tokens of a prompt that are taken at once (512; of a server 128)",
     INTEGER_AT(chunk, 1, 4096)},
    {.commands = ALL,
     .name = "base",
     .value = "NAME",
     .help = "Weights are kept as float32 (default), bfloat16, int8 or int4",
     CHOICE_AT(base, bases, SAMBA_COUNT(bases))},
    {.commands = ALL,
     .name = "adapter",
     .value = "FOLDER",
     .help = "Adapters of PEFT, or of lm train, beside the model's weights",
     TEXT_AT(adapter)},
    {.commands = ALL,
     .name = "draft",
     .value = "FOLDER",
     .help = "A smaller model of the same tokenizer, whose tokens the model looks at several at once",
     TEXT_AT(draft)},
    {.commands = ALL,
     .name = "draft-tokens",
     .value = "N",
     .help = "How many of its tokens at once (4)",
     INTEGER_AT(draft_tokens, 1, 64)},
    {.commands = ALL,
     .name = "draft-base",
     .value = "NAME",
     .help = "How its weights are kept (as --base)",
     OTHER(take_draft_base)},
    {.commands = ALL,
     .name = "threads",
     .value = "N",
     .help = "Threads (as many as the machine has cores)",
     INT_AT(threads, 1, 4096)},
    {.commands = ALL, .name = "isa", .value = "NAME", .help = "Instruction set", TEXT_AT(isa)},
    {.commands = SERVE,
     .name = "host",
     .value = "ADDRESS",
     .help = "Where to listen (127.0.0.1, which this machine alone reaches)",
     TEXT_AT(host)},
    {.commands = SERVE,
     .name = "port",
     .value = "N",
     .help = "And at which port (8080); 0: any that is free",
     INT_AT(port, 0, 65535)},
    {.commands = SERVE,
     .name = "sequences",
     .value = "N",
     .help = "Texts that are made side by side (4; with a draft 1)",
     INTEGER_AT(sequences, 1, 1024)},
    {.commands = SERVE,
     .name = "queue",
     .value = "N",
     .help = "Requests that may wait beside as many as there are sequences (32)",
     INTEGER_AT(queue, 0, 65536)},
    {.commands = SERVE, .name = "connections", .value = "N", .help = "At once (64)", INT_AT(connections, 1, 4096)},
    {.commands = SERVE,
     .name = "max-request-size",
     .value = "BYTES",
     .help = "Of a request's body (1MiB)",
     INTEGER_AT(most_bytes, 1, (int64_t)1 << 30)},
    {.commands = SERVE,
     .name = "timeout",
     .value = "SECONDS",
     .help = "That a request may take to come, and that its answer may (600)",
     REAL_AT(seconds, 1, 1000000)},
    {.commands = SERVE,
     .name = "api-key-file",
     .value = "FILE",
     .help = "Keys, a line each, of which a request must have one",
     TEXT_AT(key_file)},
    {.commands = SERVE,
     .name = "cors",
     .value = "ORIGIN",
     .help = "Pages that may ask from a browser, http://localhost:3000; *: all (none)",
     TEXT_AT(origin)},
    {.commands = SERVE, .name = "quiet", .help = "No line for each request", FLAG_AT(quiet)},
    {.commands = BOTH, .name = "json", .help = "One JSON object at the end, instead of text", FLAG_AT(json)},
    {.commands = ALL, .name = "version", .help = "Print the library's version", OTHER(samba_print_version), .group = -1},
};

typedef struct facts { /* of a command */
    int command;
    char name[24]; /* messages begin with it */
    const char *help, *instead;
} facts;

static facts all_facts[] = {
    {SAMBA_LM_GENERATE, "sambaflow lm generate",
     "Continues a text by a language model of a Hugging Face folder (docs/generate.md).", "a prompt is given by --prompt TEXT"},
    {SAMBA_LM_CHAT, "sambaflow lm chat",
     "Talks with a language model of a Hugging Face folder, by its chat template (docs/generate.md).",
     "what the user says is given by --message TEXT"},
    {SAMBA_LM_SERVE, "sambaflow lm serve",
     "Answers requests over HTTP by a language model of a Hugging Face folder, as OpenAI's API does (docs/generate.md).",
     "the model's folder is given by --model FOLDER"},
};

static facts *facts_of(int command)
{
    int i = 0;
    while (all_facts[i].command != command)
        i++;
    return &all_facts[i];
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    samba_lm_words *p = state->input;
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (key == ARGP_KEY_INIT)
        samba_words_check(state);
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is no option: %s", text, facts_of(p->command)->instead);
    else if (key == ARGP_KEY_END && !p->model)
        argp_error(state, "which model? Give its folder by --model FOLDER");
    else if (key == ARGP_KEY_END && !p->draft && (p->draft_tokens || p->has_draft_base))
        argp_error(state, "--%s is about a smaller model: give its folder by --draft FOLDER",
                   p->draft_tokens ? "draft-tokens" : "draft-base");
    else if (row < 0)
        return key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
    if (row >= 0 && !(rows[row].commands & p->command))
        argp_error(state, "--%s is not an option of %s", rows[row].name, facts_of(p->command)->name);
    if (row >= 0)
        samba_option_take(&rows[row], p, text, state);
    return 0;
}

void samba_lm_words_parse(int command, int argc, char **argv, samba_lm_words *words)
{
    struct argp_option options[SAMBA_COUNT(rows) + 1];
    samba_options_list(rows, SAMBA_COUNT(rows), command, options);
    const struct argp argp = {options, parse_option, NULL, facts_of(command)->help, NULL, NULL, NULL};
    argv[0] = facts_of(command)->name;
    *words = (samba_lm_words){.command = command,
                              .max_new_tokens = 128,
                              .chunk = command == SAMBA_LM_SERVE ? 128 : 512,
                              .top_p = 1,
                              .repetition_penalty = 1,
                              .host = "127.0.0.1",
                              .port = 8080,
                              .queue = 32,
                              .connections = 64,
                              .most_bytes = 1 << 20,
                              .seconds = 600};
    samba_command_parse(&argp, NULL, argc, argv, words);
}

/* ---- beginning and end ---- */

/* Ids must mean the same to both. */
static samba_status compare_tokenizers(const samba_lm_task *t)
{
    const samba_lm_words *p = t->words;
    samba_tokenizer *other;
    SAMBA_TRY(samba_tokenizer_open(t->context, p->draft, &other));
    const int64_t count = samba_tokenizer_size(t->tokenizer);
    int64_t same = 0;
    const char *a = "", *b = "";
    for (bool equal = samba_tokenizer_size(other) == count; equal && same < count; same += equal) {
        a = samba_tokenizer_token(t->tokenizer, (int32_t)same);
        b = samba_tokenizer_token(other, (int32_t)same);
        equal = a && b ? strcmp(a, b) == 0 : a == b;
    }
    samba_status status = SAMBA_OK;
    if (samba_tokenizer_size(other) != count)
        status = samba_fail(t->context, SAMBA_ERROR_ARGUMENT,
                            "--draft: the tokenizer of \"%.200s\" has %lld tokens and the model's %lld: a draft needs the same",
                            p->draft, (long long)samba_tokenizer_size(other), (long long)count);
    else if (same < count)
        status = samba_fail(t->context, SAMBA_ERROR_ARGUMENT,
                            "--draft: token %lld of \"%.200s\" is \"%.40s\" and the model's is \"%.40s\": a draft needs the same "
                            "tokenizer",
                            (long long)same, p->draft, b ? b : "", a ? a : "");
    samba_tokenizer_free(other);
    return status;
}

static samba_status open_lm(samba_context *context, const char *folder, samba_lm **lm)
{
    samba_lm_info info;
    SAMBA_TRY(samba_lm_open(context, folder, lm));
    SAMBA_TRY(samba_lm_get_info(*lm, &info));
    if (!info.has_weights)
        fprintf(stderr, "sambaflow: warning: the folder '%s' has no weights: random ones are taken\n", folder);
    return SAMBA_OK;
}

static samba_status open_draft(samba_lm_task *t, samba_generator_options options)
{
    const samba_lm_words *p = t->words;
    options.base = (samba_base)(p->has_draft_base ? p->draft_base : p->base);
    options.draft_tokens = 0;
    options.adapter = NULL;
    SAMBA_TRY(open_lm(t->context, p->draft, &t->draft_lm));
    if (t->tokenizer)
        SAMBA_TRY(compare_tokenizers(t));
    return samba_generator_new(t->draft_lm, &options, &t->draft);
}

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
    options.base = (samba_base)p->base;
    options.draft_tokens = !p->draft ? 0 : p->draft_tokens ? p->draft_tokens : 4;
    SAMBA_TRY(open_lm(t->context, p->model, &t->lm));
    if (is_text)
        SAMBA_TRY(samba_tokenizer_open(t->context, p->model, &t->tokenizer));
    if (!p->go_on)
        SAMBA_TRY(samba_lm_stop_ids(t->lm, &t->stop_ids, &t->stop_count));
    if (p->adapter) {
        const samba_lora_options *lora;
        SAMBA_TRY(samba_lm_adapter_open(t->lm, p->adapter, &t->adapter, &lora));
        options.adapter = t->adapter;
    }
    if (p->draft)
        SAMBA_TRY(open_draft(t, options));
    return samba_generator_new(t->lm, &options, &t->generator);
}

void samba_lm_task_close(samba_lm_task *t)
{
    samba_generator_free(t->generator);
    samba_generator_free(t->draft);
    samba_lm_adapter_free(t->adapter);
    samba_lm_free(t->draft_lm);
    samba_tokenizer_free(t->tokenizer);
    samba_lm_free(t->lm);
}

samba_generation_options samba_lm_task_options(samba_lm_task *t)
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
    options.draft = t->draft;
    options.draft_counts = t->draft ? &t->counts : NULL;
    return options;
}

void samba_lm_task_tell_draft(const samba_lm_task *t)
{
    const samba_draft_counts *c = &t->counts;
    if (t->draft)
        fprintf(stderr, "draft %lld tokens, %.0f %% of them accepted, in %lld runs\n", (long long)c->drafted,
                c->drafted > 0 ? 100 * (double)c->accepted / (double)c->drafted : 0, (long long)c->runs);
}

json_t *samba_lm_task_draft(const samba_lm_task *t)
{
    const samba_draft_counts *c = &t->counts;
    json_t *object = json_object();
    json_object_set_new(object, "runs", json_integer(c->runs));
    json_object_set_new(object, "drafted", json_integer(c->drafted));
    json_object_set_new(object, "accepted", json_integer(c->accepted));
    json_object_set_new(object, "acceptance", samba_json_number(c->drafted > 0 ? (double)c->accepted / (double)c->drafted : 0));
    return object;
}
