/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as the body of a request to `sambaflow lm serve`, a completion and a chat: read as JSON, its prompts made tokens of by a
 * small tokenizer and a chat template, all as a connection's thread does it. Memory is counted. What is refused has a sentence
 * and a status that says who is to blame, which is the client. */
#include "files.h"

#include "serve/serve.h"

#include <stdio.h>

static const char TOKENIZER[] =
    "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
    "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, \"post_processor\": null, \"decoder\": "
    "{\"type\": "
    "\"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"c\": 3, \"\\u0120\": 4}, "
    "\"merges\": [\"a b\"], \"unk_token\": null}}";
static const char TEMPLATE[] = "{% for m in messages %}<{{ m.role }}{{ m.name }}>{{ m.content | trim }}{% endfor %}";

static void stop(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_job(const samba_serve_request *request, const samba_serve_job *job)
{
    if (job->text_count < 1 || job->text_count > SAMBA_SERVE_MOST_TEXTS || job->text_count != job->prompt_count * request->n)
        stop("a job of too many texts");
    for (int64_t i = 0; i < job->prompt_count; i++)
        if (job->prompts[i].count < 1 || job->prompts[i].count >= 64)
            stop("a prompt that has no room");
}

static void ask(samba_serve_model *model, samba_context *context, samba_serve_kind kind, const char *body, size_t size)
{
    samba_serve_request request;
    samba_serve_job *job = NULL;
    samba_status status = samba_serve_request_read(context, kind, body, size, &request);
    if (status == SAMBA_OK)
        status = samba_serve_job_new(context, model, &request, &job);
    if (status == SAMBA_OK)
        check_job(&request, job);
    else if (!samba_error_message(context)[0])
        stop("a request is refused without a word");
    else if (status == SAMBA_ERROR_INTERNAL || status == SAMBA_ERROR_MEMORY)
        stop(samba_error_message(context));
    if (status != SAMBA_OK) {
        json_t *error = samba_serve_error(400, samba_error_message(context), request.problem.param, request.problem.code);
        if (!error)
            stop("a sentence that is no text");
        json_decref(error);
    }
    samba_serve_job_free(job);
    samba_serve_request_free(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const samba_allocator allocator = {samba_fuzz_count, NULL};
    samba_context *context;
    samba_tokenizer *tokenizer;
    samba_chat_template *template;
    samba_fuzz_live = samba_fuzz_most = 0;
    if (samba_context_new(&allocator, &context) != SAMBA_OK ||
        samba_tokenizer_open_memory(context, TOKENIZER, sizeof TOKENIZER - 1, &tokenizer) != SAMBA_OK ||
        samba_chat_template_open(context, NULL, TEMPLATE, &template) != SAMBA_OK)
        abort();
    samba_serve_model model = {
        .context = context, .name = "m", .tokenizer = tokenizer, .template = template, .vocab = 5, .capacity = 64};
    ask(&model, context, SAMBA_SERVE_COMPLETION, (const char *)data, size);
    ask(&model, context, SAMBA_SERVE_CHAT, (const char *)data, size);
    samba_chat_template_free(template);
    samba_tokenizer_free(tokenizer);
    samba_context_free(context);
    if (samba_fuzz_live != 0)
        stop("bytes are left");
    if (samba_fuzz_most > ((size_t)64 << 20) + 4096 * size) {
        fprintf(stderr, "%zu bytes took %zu\n", size, samba_fuzz_most);
        abort();
    }
    return 0;
}

/* A part of the body that becomes another part of it, or a value or name that requests have. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static const char *const parts[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "-1",
                                        "1e308",
                                        "-9223372036854775808",
                                        "0.5",
                                        "\"\"",
                                        "\"a\"",
                                        "[]",
                                        "{}",
                                        "[0]",
                                        "[[0, 1], [2]]",
                                        "[[]]",
                                        "\"\\u0000\"",
                                        "\"\\ud800\"",
                                        "\"\\u202e\"",
                                        "[\"a\", 1]",
                                        "[[[[[[[[",
                                        "{\"type\": \"text\", \"text\": \"b\"}",
                                        "\"n\": 3,",
                                        "\"seed\": 1,",
                                        "\"stop\":",
                                        "\"echo\": true,",
                                        "\"prompt\":",
                                        "\"messages\":",
                                        "\"max_tokens\": 2,",
                                        "\"temperature\": 0,",
                                        "\"top_p\": 0.5,",
                                        "\"tools\":",
                                        "\"stream_options\": {\"include_usage\": true},",
                                        "\"stream\": true,",
                                        "\"role\":",
                                        "\"content\":",
                                        "\"name\":",
                                        ",",
                                        ":",
                                        "\xff",
                                        "\xc3\xa9",
                                        " "};
    uint64_t state = seed;
    if (size < 4 || samba_fuzz_next(&state) % 3 == 0)
        return LLVMFuzzerMutate(data, size, room);
    const size_t at = samba_fuzz_next(&state) % size, cut = samba_fuzz_next(&state) % 12;
    const size_t gone = samba_fuzz_next(&state) % 2 ? 0 : cut < size - at ? cut : size - at;
    char word[64];
    size_t length;
    if (samba_fuzz_next(&state) % 3) {
        const char *part = parts[samba_fuzz_next(&state) % (sizeof parts / sizeof *parts)];
        length = strlen(part);
        memcpy(word, part, length);
    } else {
        const size_t from = samba_fuzz_next(&state) % size;
        length = 1 + samba_fuzz_next(&state) % 40;
        length = length < size - from ? length : size - from;
        memcpy(word, data + from, length);
    }
    if (size - gone + length > room)
        return LLVMFuzzerMutate(data, size, room);
    memmove(data + at + length, data + at + gone, size - at - gone);
    memcpy(data + at, word, length);
    return size - gone + length;
}

/* Those of corpus/serve were written by hand. */
void samba_fuzz_seeds(const char *folder) { (void)folder; }
