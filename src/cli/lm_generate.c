/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow lm generate --model FOLDER: text that goes on from a prompt. One prompt's text appears as it is made; of several, or
 * with --json, when all of it is there. What is not text, the speed, goes to standard error. */
#include "cli/cli.h"
#include <sambaflow/lm.h>

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { MOST_PROMPTS = 64, MOST_STOPS = 16 };

typedef struct parse {
    const char *model, *isa;
    int64_t max_new_tokens, top_k, capacity, chunk, seed;
    int threads;
    double temperature, top_p, min_p, repetition_penalty;
    int bfloat16;
    bool json, keep_special, plain, go_on;
    int prompt_count, stop_count;
    struct {
        const char *text;
        enum { TEXT, FILE_NAME, IDS } kind;
    } prompts[MOST_PROMPTS];
    const char *stops[MOST_STOPS];
} parse;

/* ---- options ---- */

static void take_prompt(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    parse *p = into;
    if (p->prompt_count == MOST_PROMPTS)
        argp_error(state, "--%s: more than %d prompts are too many", row->name, MOST_PROMPTS);
    p->prompts[p->prompt_count].text = text;
    p->prompts[p->prompt_count++].kind = strcmp(row->name, "prompt") == 0        ? TEXT
                                         : strcmp(row->name, "prompt-file") == 0 ? FILE_NAME
                                                                                 : IDS;
}

static void take_stop(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    parse *p = into;
    if (p->stop_count == MOST_STOPS)
        argp_error(state, "--%s: more than %d are too many", row->name, MOST_STOPS);
    if (!text[0])
        argp_error(state, "--%s: an empty text is everywhere: give some", row->name);
    p->stops[p->stop_count++] = text;
}

static const char *const dtypes[] = {"float32", "bfloat16"};

static const samba_option_row rows[] = {
    {.name = "model", .value = "FOLDER", .help = "The model's folder: config.json, safetensors files, tokenizer", TEXT_AT(model)},
    {.name = "prompt",
     .value = "TEXT",
     .help = "What the text begins with; several are continued side by side",
     OTHER(take_prompt)},
    {.name = "prompt-file",
     .value = "FILE",
     .help = "The same from a file; -: standard input, as without any",
     OTHER(take_prompt)},
    {.name = "prompt-ids",
     .value = "N,N,...",
     .help = "The same as ids of tokens; then ids are written, too",
     OTHER(take_prompt)},
    {.name = "max-new-tokens", .value = "N", .help = "At most so many tokens (128)", INTEGER_AT(max_new_tokens, 0, INT32_MAX)},
    {.name = "temperature",
     .value = "X",
     .help = "Logits are divided by it; 0 (default): the likeliest token each time",
     REAL_AT(temperature, 0, 1e6)},
    {.name = "top-k", .value = "N", .help = "Of the N likeliest tokens alone", INTEGER_AT(top_k, 0, INT32_MAX)},
    {.name = "top-p", .value = "X", .help = "Of the likeliest that together have the probability X", REAL_AT(top_p, 0, 1)},
    {.name = "min-p", .value = "X", .help = "Of those with at least X times the likeliest's probability", REAL_AT(min_p, 0, 1)},
    {.name = "repetition-penalty",
     .value = "X",
     .help = "Logits of tokens that were there are divided by it",
     REAL_AT(repetition_penalty, 0, 1e6)},
    {.name = "seed", .value = "N", .help = "Of the random numbers (0)", INTEGER_AT(seed, 0, INT64_MAX)},
    {.name = "stop", .value = "TEXT", .help = "The text ends before TEXT; may be given several times", OTHER(take_stop)},
    {.name = "ignore-eos", .help = "Tokens that end a text do not", FLAG_AT(go_on)},
    {.name = "no-special", .help = "Without the tokens that the tokenizer puts around a text", FLAG_AT(plain)},
    {.name = "keep-special", .help = "Special tokens are written as text", FLAG_AT(keep_special)},
    {.name = "capacity",
     .value = "N",
     .help = "Tokens of prompt and text that the cache has room for (the model's positions, at most 4096)",
     INTEGER_AT(capacity, 1, INT32_MAX)},
    {.name = "chunk", .value = "N", .help = "Tokens of a prompt that are taken at once (128)", INTEGER_AT(chunk, 1, 4096)},
    {.name = "dtype",
     .value = "NAME",
     .help = "Weights are kept as float32 (default) or bfloat16",
     CHOICE_AT(bfloat16, dtypes, SAMBA_COUNT(dtypes))},
    {.name = "threads", .value = "N", .help = "Threads (as many as the machine has cores)", INT_AT(threads, 1, 4096)},
    {.name = "isa", .value = "NAME", .help = "Instruction set", TEXT_AT(isa)},
    {.name = "json", .help = "One JSON object at the end, instead of text", FLAG_AT(json)},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is no option: a prompt is given by --prompt TEXT", text);
    else if (key == ARGP_KEY_END && !p->model)
        argp_error(state, "which model? Give its folder by --model FOLDER");
    else if (row < 0)
        return key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
    if (row >= 0)
        samba_option_take(&rows[row], p, text, state);
    return 0;
}

/* ---- the job ---- */

typedef struct output { /* of a sequence */
    char *text;
    int64_t room, length, prompt; /* prompt: tokens */
} output;

typedef struct job {
    samba_context *context;
    const parse *p;
    samba_lm *lm;
    samba_tokenizer *tokenizer; /* NULL: prompts are ids */
    samba_generator *generator;
    output *outputs;
    samba_generation_end *ends;
    const int32_t *stop_ids;
    int64_t stop_count;
    samba_status status; /* of what a callback met */
    double prompt_seconds, seconds;
} job;

static const char *const end_names[] = {"", "stop", "stop_string", "length", "capacity", "caller"};

static bool take_text(void *user, int64_t sequence, const char *text, size_t length)
{
    job *j = user;
    output *o = &j->outputs[sequence];
    if (j->p->prompt_count <= 1 && !j->p->json) {
        fwrite(text, 1, length, stdout);
        return fflush(stdout) == 0;
    }
    j->status = SAMBA_GROW(j->context, o->text, o->room, o->length + (int64_t)length + 1);
    if (j->status != SAMBA_OK)
        return false;
    memcpy(o->text + o->length, text, length);
    o->length += (int64_t)length;
    return true;
}

/* Of prompts that are ids. */
static bool take_id(void *user, int64_t sequence, int32_t id)
{
    char text[16];
    const int length = snprintf(text, sizeof text, "%d ", id);
    return take_text(user, sequence, text, (size_t)length);
}

static samba_status read_all(job *j, FILE *file, const char *name, char **text, int64_t *room, int64_t *length)
{
    *text = NULL;
    *room = *length = 0;
    for (size_t got = 1; got > 0; *length += (int64_t)got) {
        SAMBA_TRY(SAMBA_GROW(j->context, *text, *room, *length + 65536));
        got = fread(*text + *length, 1, 65535, file);
    }
    if (ferror(file))
        return samba_fail(j->context, SAMBA_ERROR_FILE, "cannot read \"%.200s\": %s", name, strerror(errno));
    return SAMBA_OK;
}

static samba_status add_text(job *j, int64_t sequence, const char *text, int64_t length)
{
    samba_token_list list;
    SAMBA_TRY(samba_tokenizer_encode(j->context, j->tokenizer, text, (size_t)length, !j->p->plain, &list));
    samba_status status = samba_generator_add(j->generator, sequence, list.ids, list.count);
    j->outputs[sequence].prompt = list.count;
    samba_token_list_free(j->context, &list);
    if (status == SAMBA_OK && j->outputs[sequence].prompt == 0)
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "a prompt has no tokens: give it some text");
    return status;
}

static samba_status add_file(job *j, int64_t sequence, const char *path)
{
    const bool is_input = strcmp(path, "-") == 0;
    FILE *file = is_input ? stdin : fopen(path, "rb");
    char *text;
    int64_t room, length;
    if (!file)
        return samba_fail(j->context, SAMBA_ERROR_FILE, "cannot open \"%.200s\": %s", path, strerror(errno));
    samba_status status = read_all(j, file, path, &text, &room, &length);
    if (!is_input)
        fclose(file);
    if (status == SAMBA_OK)
        status = add_text(j, sequence, text, length);
    samba_free(j->context, text, (size_t)room);
    return status;
}

static samba_status add_ids(job *j, int64_t sequence, const char *text)
{
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        const long long id = strtoll(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX || (*end && *end != ','))
            return samba_fail(j->context, SAMBA_ERROR_ARGUMENT,
                              "--prompt-ids: expected numbers with commas between, given '%.80s'", text);
        SAMBA_TRY(samba_generator_add(j->generator, sequence, (const int32_t[]){(int32_t)id}, 1));
        j->outputs[sequence].prompt++;
        at = *end ? end + 1 : end;
    }
    return j->outputs[sequence].prompt > 0 ? SAMBA_OK
                                           : samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "--prompt-ids: a prompt has no tokens");
}

static samba_status add_prompts(job *j)
{
    if (j->p->prompt_count == 0)
        return add_file(j, 0, "-");
    for (int i = 0; i < j->p->prompt_count; i++) {
        const char *text = j->p->prompts[i].text;
        switch (j->p->prompts[i].kind) {
        case TEXT: SAMBA_TRY(add_text(j, i, text, (int64_t)strlen(text))); break;
        case FILE_NAME: SAMBA_TRY(add_file(j, i, text)); break;
        case IDS: SAMBA_TRY(add_ids(j, i, text)); break;
        }
    }
    return SAMBA_OK;
}

/* ---- what is written ---- */

static int64_t new_tokens(const job *j)
{
    int64_t total = 0;
    for (int64_t i = 0; i < samba_generator_sequences(j->generator); i++) {
        int64_t count;
        samba_generator_ids(j->generator, i, &count);
        total += count - j->outputs[i].prompt;
    }
    return total;
}

static json_t *describe(const job *j, int64_t sequence)
{
    const output *o = &j->outputs[sequence];
    int64_t count;
    const int32_t *ids = samba_generator_ids(j->generator, sequence, &count);
    json_t *object = json_object(), *list = json_array();
    for (int64_t i = o->prompt; i < count; i++)
        json_array_append_new(list, json_integer(ids[i]));
    json_object_set_new(object, "prompt_tokens", json_integer(o->prompt));
    json_object_set_new(object, "new_tokens", json_integer(count - o->prompt));
    json_object_set_new(object, "end", json_string(end_names[j->ends[sequence]]));
    if (j->tokenizer)
        json_object_set_new(object, "text", json_stringn(o->text ? o->text : "", (size_t)o->length));
    json_object_set_new(object, "ids", list);
    return object;
}

static samba_status write_json(const job *j)
{
    const int64_t tokens = new_tokens(j);
    json_t *object = json_object(), *list = json_array();
    for (int64_t i = 0; i < samba_generator_sequences(j->generator); i++)
        json_array_append_new(list, describe(j, i));
    json_object_set_new(object, "sequences", list);
    json_object_set_new(object, "prompt_seconds", samba_json_number(j->prompt_seconds));
    json_object_set_new(object, "seconds", samba_json_number(j->seconds));
    json_object_set_new(object, "tokens_per_second", samba_json_number(j->seconds > 0 ? (double)tokens / j->seconds : 0));
    char *text = json_dumps(object, JSON_INDENT(2));
    json_decref(object);
    if (!text)
        return samba_fail(j->context, SAMBA_ERROR_MEMORY, "no memory for the JSON object");
    puts(text);
    free(text);
    return SAMBA_OK;
}

static samba_status write_results(const job *j)
{
    int64_t prompt = 0;
    const int64_t tokens = new_tokens(j), count = samba_generator_sequences(j->generator);
    for (int64_t i = 0; i < count; i++)
        prompt += j->outputs[i].prompt;
    if (j->p->json)
        SAMBA_TRY(write_json(j));
    for (int64_t i = 0; !j->p->json && count > 1 && i < count; i++)
        printf("--- %lld (%s)\n%.*s\n", (long long)i + 1, end_names[j->ends[i]], (int)j->outputs[i].length,
               j->outputs[i].text ? j->outputs[i].text : "");
    if (!j->p->json && count == 1)
        putchar('\n');
    SAMBA_TRY(samba_flush_output(j->context));
    fprintf(stderr, "prompt %lld tokens, %.1f a second; new %lld tokens, %.1f a second\n", (long long)prompt,
            j->prompt_seconds > 0 ? (double)prompt / j->prompt_seconds : 0, (long long)tokens,
            j->seconds > 0 ? (double)tokens / j->seconds : 0);
    return SAMBA_OK;
}

/* ---- from start to end ---- */

static bool is_text(const parse *p)
{
    for (int i = 0; i < p->prompt_count; i++)
        if (p->prompts[i].kind == IDS)
            return false;
    return true;
}

static samba_status check(const job *j)
{
    const parse *p = j->p;
    if (is_text(p))
        return SAMBA_OK;
    for (int i = 0; i < p->prompt_count; i++)
        if (p->prompts[i].kind != IDS)
            return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "give all prompts as ids, or none");
    if (p->stop_count || p->keep_special || p->plain)
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT,
                          "--stop, --no-special and --keep-special are about text, and the prompts are ids");
    return SAMBA_OK;
}

static samba_status open_all(job *j)
{
    const parse *p = j->p;
    samba_generator_options options = samba_generator_defaults();
    options.sequences = p->prompt_count > 1 ? p->prompt_count : 1;
    options.capacity = p->capacity;
    options.chunk = p->chunk;
    options.threads = p->threads;
    options.isa = samba_word_isa(p->isa);
    options.seed = (uint64_t)p->seed;
    options.bfloat16 = p->bfloat16;
    SAMBA_TRY(check(j));
    SAMBA_TRY(samba_lm_open(j->context, p->model, &j->lm));
    if (is_text(p))
        SAMBA_TRY(samba_tokenizer_open(j->context, p->model, &j->tokenizer));
    if (!p->go_on)
        SAMBA_TRY(samba_lm_stop_ids(j->lm, &j->stop_ids, &j->stop_count));
    SAMBA_TRY(samba_generator_new(j->lm, &options, &j->generator));
    j->outputs = samba_calloc(j->context, sizeof *j->outputs * (size_t)options.sequences);
    j->ends = samba_calloc(j->context, sizeof *j->ends * (size_t)options.sequences);
    return j->outputs && j->ends ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static samba_status generate(job *j)
{
    const parse *p = j->p;
    samba_generation_options options = samba_generation_defaults();
    SAMBA_TRY(open_all(j));
    SAMBA_TRY(add_prompts(j));
    options.sampling.temperature = p->temperature;
    options.sampling.top_k = p->top_k;
    options.sampling.top_p = p->top_p;
    options.sampling.min_p = p->min_p;
    options.sampling.repetition_penalty = p->repetition_penalty;
    options.sampling.seed = (uint64_t)p->seed;
    options.max_new_tokens = p->max_new_tokens;
    options.stop_ids = j->stop_ids;
    options.stop_count = j->stop_count;
    options.user = j;
    double start = samba_seconds();
    SAMBA_TRY(samba_generator_run(j->generator));
    j->prompt_seconds = samba_seconds() - start;
    start = samba_seconds();
    if (j->tokenizer) {
        options.stop_strings = p->stops;
        options.stop_string_count = p->stop_count;
        options.keep_special = p->keep_special;
        options.text = take_text;
        SAMBA_TRY(samba_generate_text(j->generator, j->tokenizer, &options, j->ends));
    } else {
        options.token = take_id;
        SAMBA_TRY(samba_generate(j->generator, &options, j->ends));
    }
    j->seconds = samba_seconds() - start;
    SAMBA_TRY(j->status);
    return write_results(j);
}

int samba_cli_lm_generate(int argc, char **argv)
{
    struct argp_option options[SAMBA_COUNT(rows) + 1] = {{0}};
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        options[i] = samba_option_of(rows, i);
    const struct argp argp = {
        options, parse_option, NULL, "Continues a text by a language model of a Hugging Face folder (docs/lm.md).",
        NULL,    NULL,         NULL};
    static char name[] = "sambaflow lm generate"; /* messages begin with it */
    argv[0] = name;
    parse p = {.max_new_tokens = 128, .chunk = 128, .top_p = 1, .repetition_penalty = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &p);
    job j = {.p = &p};
    if (samba_context_new(NULL, &j.context) != SAMBA_OK) {
        fputs("sambaflow: no memory\n", stderr);
        return 1;
    }
    samba_status status = generate(&j);
    if (status != SAMBA_OK)
        fprintf(stderr, "sambaflow: %s\n", samba_error_message(j.context));
    const int64_t sequences = samba_generator_sequences(j.generator);
    for (int64_t i = 0; j.outputs && i < sequences; i++)
        samba_free(j.context, j.outputs[i].text, (size_t)j.outputs[i].room);
    samba_free(j.context, j.outputs, sizeof *j.outputs * (size_t)sequences);
    samba_free(j.context, j.ends, sizeof *j.ends * (size_t)sequences);
    samba_generator_free(j.generator);
    samba_tokenizer_free(j.tokenizer);
    samba_lm_free(j.lm);
    samba_context_free(j.context);
    return status == SAMBA_OK ? 0 : 1;
}
