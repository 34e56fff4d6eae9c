/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a chat template, which renders a conversation with tools; a file that begins with [ is the conversation, for a
 * template that looks at all of it. Memory is counted, and so is the processor's time: no template may keep it busy. */
#include "../../seed.h"
#include "files.h"

#include <sambaflow/text.h>
#include <stdio.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
#define MOST_SECONDS 20
#else
#define MOST_SECONDS 6
#endif

static const char MESSAGES[] =
    "[{\"role\": \"system\", \"content\": \"Be\\n brief\"}, {\"role\": \"user\", \"content\": \" Hi \\u00df\"},"
    "{\"role\": \"assistant\", \"content\": \"<think>a</think>You\", \"tool_calls\": [{\"id\": \"call12345\", \"type\": "
    "\"function\","
    "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null, true]}}}]}, {\"role\": \"tool\", \"content\": \"3\"},"
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"b\"}]}]";
static const char TOOLS[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\","
                            "\"properties\": {\"x\": {\"type\": \"string\"}}}}}]";
static const char ALL[] =
    "{% for m in messages %}{{ m }}{{ m | tojson(indent=1) }}{{ m.content | upper }}{% for k, v in m.items() %}"
    "{{ k | title }}{{ v | string | lower }}{% endfor %}{% endfor %}";

static void stop(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void render(samba_context *context, const char *source, const char *messages, size_t length)
{
    samba_chat_template *t;
    samba_chat_text text;
    const samba_chat_options options = {.struct_size = sizeof options,
                                        .add_generation_prompt = true,
                                        .tools = TOOLS,
                                        .variables = "{\"bos_token\": \"<s>\", \"enable_thinking\": true}",
                                        .now = 86400};
    if (samba_chat_template_open(context, NULL, source, &t) != SAMBA_OK) {
        if (!samba_error_message(context)[0])
            stop("a template is refused without a word");
        return;
    }
    const samba_status status = samba_chat_render(context, t, messages, length, &options, &text);
    if (status != SAMBA_OK && !samba_error_message(context)[0])
        stop("a conversation is refused without a word");
    if (status == SAMBA_ERROR_INTERNAL || status == SAMBA_ERROR_MEMORY)
        stop(samba_error_message(context));
    samba_fuzz_accepted += status == SAMBA_OK;
    if (text.text && strlen(text.text) > text.length)
        stop("a text has no end");
    samba_chat_text_free(context, &text);
    samba_chat_template_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const samba_allocator allocator = {samba_fuzz_count, NULL};
    samba_context *context;
    samba_fuzz_live = samba_fuzz_most = 0;
    const clock_t begin = clock();
    char *copy = malloc(size + 1);
    if (!copy || samba_context_new(&allocator, &context) != SAMBA_OK)
        abort();
    memcpy(copy, data, size);
    copy[size] = '\0';
    if (size > 0 && data[0] == '[')
        render(context, ALL, copy, size);
    else
        render(context, copy, MESSAGES, sizeof MESSAGES - 1);
    free(copy);
    samba_context_free(context);
    if (samba_fuzz_live != 0)
        stop("bytes are left");
    if (samba_fuzz_most > ((size_t)640 << 20) + 4096 * size) {
        fprintf(stderr, "%zu bytes took %zu\n", size, samba_fuzz_most);
        abort();
    }
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > seconds_allowed(MOST_SECONDS)) {
        fprintf(stderr, "%zu bytes took %.1f s\n", size, seconds);
        abort();
    }
    return 0;
}

/* A part of the template that becomes another part of it, or one of Jinja's. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static const char *const parts[] = {"{{",
                                        "}}",
                                        "{%",
                                        "%}",
                                        "{%-",
                                        "-%}",
                                        "{#",
                                        "#}",
                                        "messages",
                                        "loop",
                                        "range(9)",
                                        "ns.x",
                                        "[::-1]",
                                        "[1:]",
                                        "|length",
                                        "|tojson",
                                        "|list",
                                        "|join('')",
                                        "|sort",
                                        "|map('upper')",
                                        ".split()",
                                        ".items()",
                                        " if ",
                                        " else ",
                                        " for ",
                                        " in ",
                                        "-1",
                                        "*99999",
                                        "**9",
                                        "//0",
                                        "' '",
                                        "none",
                                        "{}",
                                        "[]",
                                        "()",
                                        "{% set x = x %}",
                                        "{% endfor %}",
                                        "{% endif %}",
                                        "|e",
                                        "|safe",
                                        "|title",
                                        "|indent(9)",
                                        "{% for a in x %}",
                                        "\\xff",
                                        "\\",
                                        "\xc3\x9f",
                                        "|last"};
    uint64_t state = seed;
    if (size < 4 || samba_fuzz_next(&state) % 3 == 0)
        return LLVMFuzzerMutate(data, size, room);
    const size_t at = samba_fuzz_next(&state) % size, cut = samba_fuzz_next(&state) % 12;
    const size_t gone = samba_fuzz_next(&state) % 2 ? 0 : cut < size - at ? cut : size - at;
    char word[64];
    size_t length;
    if (samba_fuzz_next(&state) % 2) {
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

/* Those of corpus/chat are templates of test_chat.py's folder and some that have all statements, filters and methods. */
void samba_fuzz_seeds(const char *folder) { (void)folder; }
