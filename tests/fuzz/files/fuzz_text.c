/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a tokenizer: tokenizer.json or a SentencePiece model. One that opens encodes texts of all kinds, among them its own
 * bytes, decodes what comes out, whole and id by id, and ids of any kind. What is decoded is UTF-8. Memory is counted, and so is
 * the processor's time: no pattern of a file may keep it busy. */
#include "../../seed.h"
#include "files.h"

#include <sambaflow/text.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
#define MOST_SECONDS 12
#else
#define MOST_SECONDS 4
#endif

static void stop(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void is_utf8(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        const unsigned char c = (unsigned char)text[i];
        size_t size = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
        if (size == 0 || size > length - i)
            stop("a decoded text is no UTF-8");
        for (size_t k = 1; k < size; k++)
            if (((unsigned char)text[i + k] & 0xc0) != 0x80)
                stop("a decoded text is no UTF-8");
        i += size;
    }
}

static void stream(samba_context *context, const samba_tokenizer *tokenizer, const int32_t *ids, int64_t n)
{
    samba_token_stream *s;
    const char *text;
    size_t length;
    if (samba_token_stream_new(context, tokenizer, n % 2, &s) != SAMBA_OK)
        stop("no stream");
    for (int64_t i = 0; i < n; i++) {
        if (samba_token_stream_next(s, ids[i], &text, &length) != SAMBA_OK)
            break;
        is_utf8(text, length);
    }
    if (samba_token_stream_end(s, &text, &length) == SAMBA_OK)
        is_utf8(text, length);
    samba_token_stream_free(s);
}

static void use(samba_context *context, const samba_tokenizer *tokenizer, const char *text, size_t length)
{
    samba_token_list list;
    samba_token_text decoded;
    samba_status status = samba_tokenizer_encode(context, tokenizer, text, length, length % 2, &list);
    if (status != SAMBA_OK && !samba_error_message(context)[0])
        stop("a text is refused without a word");
    for (int64_t i = 0; i < list.count; i++)
        if (list.ids[i] < 0)
            stop("an id is negative");
    if (status == SAMBA_OK && samba_tokenizer_decode(context, tokenizer, list.ids, list.count, false, &decoded) == SAMBA_OK) {
        is_utf8(decoded.text, decoded.length);
        samba_token_text_free(context, &decoded);
        stream(context, tokenizer, list.ids, list.count < 300 ? list.count : 300);
    }
    samba_token_list_free(context, &list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char words[] =
        "Hello, world! It's 12345 na\xc3\xafve \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd\r\n\n"
        "\t x=f(a[1]); \xff\xfe \xe2\x96\x81 <s>[CLS] e\xcc\x81\xcc\xa7 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa   ";
    const samba_allocator allocator = {samba_fuzz_count, NULL};
    samba_context *context;
    samba_tokenizer *tokenizer;
    samba_fuzz_live = samba_fuzz_most = 0;
    clock_t begin = clock();
    if (samba_context_new(&allocator, &context) != SAMBA_OK)
        abort();
    samba_status status = samba_tokenizer_open_memory(context, data, size, &tokenizer);
    if (status != SAMBA_OK && !samba_error_message(context)[0])
        stop("a tokenizer is refused without a word");
    if (samba_fuzz_most > 256 * size + (16 << 20)) {
        fprintf(stderr, "opening %zu bytes took %zu\n", size, samba_fuzz_most);
        abort();
    }
    samba_fuzz_accepted += status == SAMBA_OK;
    if (status == SAMBA_OK) {
        use(context, tokenizer, words, sizeof words - 1);
        use(context, tokenizer, (const char *)data, size < 2048 ? size : 2048);
        stream(context, tokenizer, (int32_t[]){-1, 0, 1, 2, 3, 4, 5, INT32_MAX, 0, 300}, 10);
        samba_tokenizer_free(tokenizer);
    }
    samba_context_free(context);
    if (samba_fuzz_live != 0)
        stop("bytes are left");
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > seconds_allowed(MOST_SECONDS)) {
        fprintf(stderr, "%zu bytes took %.1f s\n", size, seconds);
        abort();
    }
    return 0;
}

/* ---- JSON ---- */
static bool is_one_of(uint8_t c, const char *chars) { return c && strchr(chars, c); }

/* Where a value ends, or a member of an object, that begins at `at`: before the comma or bracket that is not within it. */
static size_t value_end(const uint8_t *data, size_t size, size_t at)
{
    bool quoted = false;
    for (int depth = 0; at < size; at++) {
        const uint8_t c = data[at];
        if (c == '\\')
            at++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && depth == 0 && is_one_of(c, ",]}"))
            break;
        else if (!quoted)
            depth += is_one_of(c, "[{") ? 1 : is_one_of(c, "]}") ? -1 : 0;
    }
    return at < size ? at : size;
}

/* Some value: behind a colon, a comma or a bracket. */
static size_t value_begin(const uint8_t *data, size_t size, uint64_t *state)
{
    size_t at = samba_fuzz_next(state) % size;
    while (at < size && !is_one_of(data[at], ":,[{"))
        at++;
    return at < size ? at + 1 : size;
}

/* Bytes [begin, end) become the word. */
static size_t put(uint8_t *data, size_t size, size_t room, size_t begin, size_t end, const uint8_t *word, size_t length)
{
    if (size - (end - begin) + length > room)
        return size;
    memmove(data + begin + length, data + end, size - end);
    if (length > 0)
        memcpy(data + begin, word, length);
    return size - (end - begin) + length;
}

/* A value of the JSON that becomes another one of it or a word, goes, or comes twice; or any bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static const char *const others[] = {"null",
                                         "true",
                                         "-1",
                                         "0",
                                         "1e300",
                                         "4294967296",
                                         "\"\"",
                                         "[]",
                                         "{}",
                                         "\"(a+)+$\"",
                                         "\"[\\\\w&&[^a]]\"",
                                         "\"\\u0000\"",
                                         "\"\\u0000a\": 3",
                                         "\"\\ufdd0\": 4",
                                         "\"\\\\p{L}*\"",
                                         "\"\xe2\x96\x81\"",
                                         "{\"type\": \"Fuse\"}",
                                         "{\"type\": \"ByteFallback\"}",
                                         "{\"type\": \"ByteLevel\"}",
                                         "{\"type\": \"Strip\", \"content\": \"a\", \"start\": 1, \"stop\": 2}",
                                         "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"bb\"}"};
    uint64_t state = seed;
    if (size < 2 || data[0] != '{' || samba_fuzz_next(&state) % 4 == 0)
        return LLVMFuzzerMutate(data, size, room);
    const size_t begin = value_begin(data, size, &state), end = value_end(data, size, begin);
    if (end >= size)
        return LLVMFuzzerMutate(data, size, room);
    static uint8_t word[1 << 12];
    const char *other = others[samba_fuzz_next(&state) % (sizeof others / sizeof *others)];
    size_t length = strlen(other), from, to;
    switch (samba_fuzz_next(&state) % 5) {
    case 0: return put(data, size, room, begin, end, (const uint8_t *)other, length);
    case 1: return put(data, size, room, begin, end + (data[end] == ','), NULL, 0);
    case 2: from = begin, to = end; break;
    default: from = value_begin(data, size, &state), to = value_end(data, size, from);
    }
    length = to - from < sizeof word - 1 ? to - from : 0;
    memcpy(word, data + from, length);
    if (from != begin)
        return put(data, size, room, begin, end, word, length);
    word[length++] = ',';
    return put(data, size, room, begin, begin, word, length);
}

/* Those of corpus/text are small tokenizers of all kinds, made by tokenizers and sentencepiece (docs/text.md). */
void samba_fuzz_seeds(const char *folder) { (void)folder; }
