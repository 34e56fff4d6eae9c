/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow lm generate --model FOLDER: text that goes on from a prompt. One prompt's text appears as it is made; of several, or
 * with --json, when all of it is there. What is not text, the speed, goes to standard error. */
#include "cli/lm_text.h"

#include <errno.h>
#include <string.h>

/* ---- the job ---- */

typedef struct output { /* of a sequence */
    char *text;
    int64_t room, length, prompt; /* prompt: tokens */
} output;

typedef struct job {
    samba_lm_task task;
    output *outputs;
    samba_generation_end *ends;
    samba_status status; /* of what a callback met */
    double prompt_seconds, seconds;
} job;

static const char *const end_names[] = {"", "stop", "stop_string", "length", "capacity", "caller"};

static bool take_text(void *user, int64_t sequence, const char *text, size_t length)
{
    job *j = user;
    output *o = &j->outputs[sequence];
    if (j->task.words->prompt_count <= 1 && !j->task.words->json) {
        fwrite(text, 1, length, stdout);
        return fflush(stdout) == 0;
    }
    j->status = SAMBA_GROW(j->task.context, o->text, o->room, o->length + (int64_t)length + 1);
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
        SAMBA_TRY(SAMBA_GROW(j->task.context, *text, *room, *length + 65536));
        got = fread(*text + *length, 1, 65535, file);
    }
    if (ferror(file))
        return samba_fail(j->task.context, SAMBA_ERROR_FILE, "cannot read \"%.200s\": %s", name, strerror(errno));
    return SAMBA_OK;
}

static samba_status add_text(job *j, int64_t sequence, const char *text, int64_t length)
{
    samba_token_list list;
    SAMBA_TRY(samba_tokenizer_encode(j->task.context, j->task.tokenizer, text, (size_t)length, !j->task.words->plain, &list));
    samba_status status = samba_generator_add(j->task.generator, sequence, list.ids, list.count);
    j->outputs[sequence].prompt = list.count;
    samba_token_list_free(j->task.context, &list);
    if (status == SAMBA_OK && j->outputs[sequence].prompt == 0)
        return samba_fail(j->task.context, SAMBA_ERROR_ARGUMENT, "a prompt has no tokens: give it some text");
    return status;
}

static samba_status add_file(job *j, int64_t sequence, const char *path)
{
    const bool is_input = strcmp(path, "-") == 0;
    FILE *file = is_input ? stdin : fopen(path, "rb");
    char *text;
    int64_t room, length;
    if (!file)
        return samba_fail(j->task.context, SAMBA_ERROR_FILE, "cannot open \"%.200s\": %s", path, strerror(errno));
    samba_status status = read_all(j, file, path, &text, &room, &length);
    if (!is_input)
        fclose(file);
    if (status == SAMBA_OK)
        status = add_text(j, sequence, text, length);
    samba_free(j->task.context, text, (size_t)room);
    return status;
}

static samba_status add_ids(job *j, int64_t sequence, const char *text)
{
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        const long long id = strtoll(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX || (*end && *end != ','))
            return samba_fail(j->task.context, SAMBA_ERROR_ARGUMENT,
                              "--prompt-ids: expected numbers with commas between, given '%.80s'", text);
        SAMBA_TRY(samba_generator_add(j->task.generator, sequence, (const int32_t[]){(int32_t)id}, 1));
        j->outputs[sequence].prompt++;
        at = *end ? end + 1 : end;
    }
    return j->outputs[sequence].prompt > 0
               ? SAMBA_OK
               : samba_fail(j->task.context, SAMBA_ERROR_ARGUMENT, "--prompt-ids: a prompt has no tokens");
}

static samba_status add_prompts(job *j)
{
    if (j->task.words->prompt_count == 0)
        return add_file(j, 0, "-");
    for (int i = 0; i < j->task.words->prompt_count; i++) {
        const char *text = j->task.words->prompts[i].text;
        switch (j->task.words->prompts[i].kind) {
        case SAMBA_LM_TEXT: SAMBA_TRY(add_text(j, i, text, (int64_t)strlen(text))); break;
        case SAMBA_LM_FILE: SAMBA_TRY(add_file(j, i, text)); break;
        case SAMBA_LM_IDS: SAMBA_TRY(add_ids(j, i, text)); break;
        }
    }
    return SAMBA_OK;
}

/* ---- what is written ---- */

static int64_t new_tokens(const job *j)
{
    int64_t total = 0;
    for (int64_t i = 0; i < samba_generator_sequences(j->task.generator); i++) {
        int64_t count;
        samba_generator_ids(j->task.generator, i, &count);
        total += count - j->outputs[i].prompt;
    }
    return total;
}

static json_t *describe(const job *j, int64_t sequence)
{
    const output *o = &j->outputs[sequence];
    int64_t count;
    const int32_t *ids = samba_generator_ids(j->task.generator, sequence, &count);
    json_t *object = json_object(), *list = json_array();
    for (int64_t i = o->prompt; i < count; i++)
        json_array_append_new(list, json_integer(ids[i]));
    json_object_set_new(object, "prompt_tokens", json_integer(o->prompt));
    json_object_set_new(object, "new_tokens", json_integer(count - o->prompt));
    json_object_set_new(object, "end", json_string(end_names[j->ends[sequence]]));
    if (j->task.tokenizer)
        json_object_set_new(object, "text", json_stringn(o->text ? o->text : "", (size_t)o->length));
    json_object_set_new(object, "ids", list);
    return object;
}

static samba_status write_json(const job *j)
{
    const int64_t tokens = new_tokens(j);
    json_t *object = json_object(), *list = json_array();
    for (int64_t i = 0; i < samba_generator_sequences(j->task.generator); i++)
        json_array_append_new(list, describe(j, i));
    json_object_set_new(object, "sequences", list);
    json_object_set_new(object, "prompt_seconds", samba_json_number(j->prompt_seconds));
    json_object_set_new(object, "seconds", samba_json_number(j->seconds));
    json_object_set_new(object, "tokens_per_second", samba_json_number(j->seconds > 0 ? (double)tokens / j->seconds : 0));
    if (j->task.draft)
        json_object_set_new(object, "draft", samba_lm_task_draft(&j->task));
    char *text = json_dumps(object, JSON_INDENT(2));
    json_decref(object);
    if (!text)
        return samba_fail(j->task.context, SAMBA_ERROR_MEMORY, "no memory for the JSON object");
    puts(text);
    free(text);
    return SAMBA_OK;
}

static samba_status write_results(const job *j)
{
    int64_t prompt = 0;
    const int64_t tokens = new_tokens(j), count = samba_generator_sequences(j->task.generator);
    for (int64_t i = 0; i < count; i++)
        prompt += j->outputs[i].prompt;
    if (j->task.words->json)
        SAMBA_TRY(write_json(j));
    for (int64_t i = 0; !j->task.words->json && count > 1 && i < count; i++)
        printf("--- %lld (%s)\n%.*s\n", (long long)i + 1, end_names[j->ends[i]], (int)j->outputs[i].length,
               j->outputs[i].text ? j->outputs[i].text : "");
    if (!j->task.words->json && count == 1)
        putchar('\n');
    SAMBA_TRY(samba_flush_output(j->task.context));
    fprintf(stderr, "prompt %lld tokens, %.1f a second; new %lld tokens, %.1f a second\n", (long long)prompt,
            j->prompt_seconds > 0 ? (double)prompt / j->prompt_seconds : 0, (long long)tokens,
            j->seconds > 0 ? (double)tokens / j->seconds : 0);
    samba_lm_task_tell_draft(&j->task);
    return SAMBA_OK;
}

/* ---- from start to end ---- */

static bool is_text(const samba_lm_words *p)
{
    for (int i = 0; i < p->prompt_count; i++)
        if (p->prompts[i].kind == SAMBA_LM_IDS)
            return false;
    return true;
}

static samba_status check(const job *j)
{
    const samba_lm_words *p = j->task.words;
    if (is_text(p))
        return SAMBA_OK;
    for (int i = 0; i < p->prompt_count; i++)
        if (p->prompts[i].kind != SAMBA_LM_IDS)
            return samba_fail(j->task.context, SAMBA_ERROR_ARGUMENT, "give all prompts as ids, or none");
    if (p->stop_count || p->keep_special || p->plain)
        return samba_fail(j->task.context, SAMBA_ERROR_ARGUMENT,
                          "--stop, --no-special and --keep-special are about text, and the prompts are ids");
    return SAMBA_OK;
}

static samba_status open_all(job *j)
{
    const samba_lm_words *p = j->task.words;
    const int64_t sequences = p->prompt_count > 1 ? p->prompt_count : 1;
    SAMBA_TRY(check(j));
    SAMBA_TRY(samba_lm_task_open(&j->task, sequences, is_text(p)));
    j->outputs = samba_calloc(j->task.context, sizeof *j->outputs * (size_t)sequences);
    j->ends = samba_calloc(j->task.context, sizeof *j->ends * (size_t)sequences);
    return j->outputs && j->ends ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static samba_status generate(job *j)
{
    SAMBA_TRY(open_all(j));
    SAMBA_TRY(add_prompts(j));
    samba_generation_options options = samba_lm_task_options(&j->task);
    options.user = j;
    double start = samba_seconds();
    SAMBA_TRY(samba_generator_run(j->task.generator));
    j->prompt_seconds = samba_seconds() - start;
    start = samba_seconds();
    if (j->task.tokenizer) {
        options.text = take_text;
        SAMBA_TRY(samba_generate_text(j->task.generator, j->task.tokenizer, &options, j->ends));
    } else {
        options.token = take_id;
        SAMBA_TRY(samba_generate(j->task.generator, &options, j->ends));
    }
    j->seconds = samba_seconds() - start;
    SAMBA_TRY(j->status);
    return write_results(j);
}

int samba_cli_lm_generate(int argc, char **argv)
{
    samba_lm_words words;
    samba_lm_words_parse(SAMBA_LM_GENERATE, argc, argv, &words);
    job j = {.task.words = &words};
    if (!samba_cli_begin(&j.task.context))
        return 1;
    samba_context *context = j.task.context;
    samba_status status = generate(&j);
    const int64_t sequences = samba_generator_sequences(j.task.generator);
    for (int64_t i = 0; j.outputs && i < sequences; i++)
        samba_free(context, j.outputs[i].text, (size_t)j.outputs[i].room);
    samba_free(context, j.outputs, sizeof *j.outputs * (size_t)sequences);
    samba_free(context, j.ends, sizeof *j.ends * (size_t)sequences);
    samba_lm_task_close(&j.task);
    return samba_cli_end(context, status);
}
