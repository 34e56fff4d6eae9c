/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain tokens (decode_plain.c) and others in turn, drawn by a seed: decoding at once and as a stream gives what the decoder's
 * stages give, to which every token is shown here. Which tokens are plain is what it should be. */
#include "text/text.h"

#include "harness.h"

#define SEQUENCE(parts) "{'type': 'Sequence', 'decoders': [" parts "]}"
#define VOCAB                                                                                                                    \
    "'vocab': {'a': 0, 'b': 1, 'c': 2, 'x': 3, '_': 4, '': 5, 'ca': 6, '<0xC3>': 7, '<0xA9>': 8, ' .': 9, '\xc3\x83': 10,"       \
    "'\xc2\xa9': 11, 'a word of more than 16 bytes': 12, 'ba': 13, '\xe4\xb8\x96': 14, 'aa': 15, 'b</w>': 16}"

static samba_tokenizer *opened(const char *decoder)
{
    char json[2048];
    samba_tokenizer *t;
    const int length = snprintf(json, sizeof json,
                                "{'added_tokens': [{'id': 2, 'content': 'c', 'special': true}], 'decoder': %s, "
                                "'model': {'type': 'WordLevel', " VOCAB "}}",
                                decoder);
    for (char *c = json; *c; c++)
        *c = (char)(*c == '\'' ? '"' : *c);
    need(samba_tokenizer_open_memory(context, json, (size_t)length, &t));
    return t;
}

/* What the stages give for each of the tokens in turn. */
static void decode_by_stages(const samba_tokenizer *t, const int32_t *ids, int count, bool skip, samba_chars *to)
{
    samba_work work;
    need(samba_work_init(&work, context, t, false));
    samba_decode_begin(&work, 1000);
    for (int i = 0; i < count; i++) {
        const samba_word *word = samba_tokenizer_word(t, ids[i]);
        if (word && !(skip && word->id == 2))
            need(samba_decode_word(&work, word, to));
    }
    need(samba_decode_end(&work, to));
    samba_work_free(&work);
}

static void decode_by_stream(const samba_tokenizer *t, const int32_t *ids, int count, bool skip, samba_chars *to)
{
    samba_token_stream *stream;
    const char *text;
    size_t length;
    need(samba_token_stream_new(context, t, skip, &stream));
    for (int i = 0; i <= count; i++) {
        need(i < count ? samba_token_stream_next(stream, ids[i], &text, &length)
                       : samba_token_stream_end(stream, &text, &length));
        need(samba_chars_add(context, to, text, length));
    }
    samba_token_stream_free(stream);
}

static void compare(const samba_tokenizer *t, const int32_t *ids, int count, bool skip)
{
    samba_chars all[2] = {{0}, {0}};
    samba_token_text text;
    decode_by_stages(t, ids, count, skip, &all[0]);
    decode_by_stream(t, ids, count, skip, &all[1]);
    need(samba_tokenizer_decode(context, t, ids, count, skip, &text));
    for (int i = 0; i < 2; i++) {
        const samba_str expected = samba_chars_view(&all[i]);
        assert_int_equal(text.length, expected.size);
        assert_memory_equal(text.text, expected.data, expected.size);
        samba_chars_free(context, &all[i]);
    }
    samba_token_text_free(context, &text);
}

TEST(test_all_roads)
{
    static const char *const decoders[] = {
        "{'type': 'ByteFallback'}",
        "{'type': 'WordPiece', 'prefix': 'a'}",
        "{'type': 'Metaspace', 'replacement': '_'}",
        "{'type': 'BPEDecoder', 'suffix': '</w>'}",
        "{'type': 'BPEDecoder', 'suffix': ''}",
        "{'type': 'CTC', 'pad_token': 'c'}",
        "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'long'}",
        "{'type': 'Replace', 'pattern': {'String': 'x'}, 'content': 'xxxxxxxxxx'}",
        "{'type': 'Replace', 'pattern': {'String': ''}, 'content': 'b'}",
        "{'type': 'Replace', 'pattern': {'Regex': 'a+'}, 'content': 'b'}",
        SEQUENCE("{'type': 'ByteFallback'}, {'type': 'Fuse'}, {'type': 'Strip', 'content': 'a', 'start': 2, 'stop': 2},"
                 "{'type': 'Replace', 'pattern': {'String': 'ca'}, 'content': ''}"),
        SEQUENCE("{'type': 'Replace', 'pattern': {'String': '_'}, 'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'},"
                 "{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}"),
        SEQUENCE("{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 1}, {'type': 'Fuse'}"),
        SEQUENCE("{'type': 'WordPiece'}, {'type': 'Fuse'}, {'type': 'Metaspace', 'replacement': '_'}"),
        SEQUENCE("{'type': 'Fuse'}, {'type': 'Strip', 'content': 'x', 'start': 3, 'stop': 0}"),
        "{'type': 'ByteLevel'}",
        SEQUENCE("{'type': 'ByteLevel'}, {'type': 'Replace', 'pattern': {'String': 'ab'}, 'content': 'a'}"),
        "null"};
    seed_anew();
    for (int d = 0; d < LENGTH(decoders); d++) {
        samba_tokenizer *t = opened(decoders[d]);
        for (int i = 0; i < 400; i++) {
            int32_t ids[40];
            const int count = draw_below(LENGTH(ids) + 1);
            for (int k = 0; k < count; k++)
                ids[k] = draw_below(30) ? draw_below(17) : draw_below(2) ? 17 : -1;
            compare(t, ids, count, draw_below(2));
        }
        samba_tokenizer_free(t);
    }
}

static void check_plain(const char *decoder, int count, const bool *plain)
{
    samba_tokenizer *t = opened(decoder);
    assert_int_equal(t->shown_count, 17);
    for (int i = 0; i < count; i++)
        if ((t->shown[i].plain != NULL) != plain[i])
            fail_msg("%s: token %d is%s plain", decoder, i, plain[i] ? " not" : "");
    samba_tokenizer_free(t);
}
#define PLAIN(decoder, ...) check_plain(decoder, LENGTH(((bool[]){__VA_ARGS__})), (bool[]){__VA_ARGS__})

TEST(test_which_are_plain)
{
    PLAIN("null", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    PLAIN("{'type': 'ByteLevel'}", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    PLAIN("{'type': 'ByteFallback'}", 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    PLAIN("{'type': 'WordPiece'}", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    PLAIN("{'type': 'BPEDecoder'}", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0);
    PLAIN("{'type': 'CTC'}", 0, 0, 0, 0, 0, 0, 0, 0, 0);
    PLAIN(SEQUENCE("{'type': 'Fuse'}, {'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 1}"), 0, 1, 1, 1, 1, 1, 0);
    PLAIN("{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'bbbbb'}", 0, 0, 0);
}

TEST_MAIN(test_all_roads, test_which_are_plain)
