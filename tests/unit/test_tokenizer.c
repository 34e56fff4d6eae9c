/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers written by hand: ids and texts are those that the Python package tokenizers 0.23.3 gives for the same JSON; damaged
 * files and what is said of them; memory that is refused; streams. tests/python/test_text.py compares whole families. */
#include "harness.h"
#include "failing_allocator.h"

#include <pthread.h>
#include <sambaflow/text.h>

/* A ' in these is a " in the file. */
#define BYTE_LEVEL                                                                                                               \
    "{'added_tokens': [{'id': 11, 'content': '<|end|>', 'special': true}], 'normalizer': {'type': 'NFC'},"                       \
    "'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [{'type': 'Split', 'pattern': {'Regex':"                             \
    "'\\\\s?\\\\p{L}+|\\\\p{N}{1,3}|[^\\\\p{L}\\\\p{N}\\\\s]+|\\\\s+'}, 'behavior': 'Isolated'},"                                \
    "{'type': 'ByteLevel', 'add_prefix_space': false, 'use_regex': false}]}, 'decoder': {'type': 'ByteLevel'},"                  \
    "'post_processor': {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 'B'}}, {'Sequence': {'id': 'A'}}],"     \
    "'special_tokens': {'B': {'id': 'B', 'ids': [11]}}},"                                                                        \
    "'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, '\xc4\xa0': 3, 'ab': 4, 'abc': 5, '\xc4\xa0"                     \
    "a': 6, '\xc3\x83': 7, '\xc2\xa9': 8, '\xc3\x83\xc2\xa9': 9, 'bc': 10},"                                                     \
    "'merges': ['a b', 'ab c', '\xc4\xa0 a', ['\xc3\x83', '\xc2\xa9'], 'b c']}}"
#define WORDPIECE                                                                                                                \
    "{'normalizer': {'type': 'BertNormalizer'}, 'pre_tokenizer': {'type': 'BertPreTokenizer'},"                                  \
    "'post_processor': {'type': 'BertProcessing', 'sep': ['[SEP]', 2], 'cls': ['[CLS]', 1]},"                                    \
    "'added_tokens': [{'id': 1, 'content': '[CLS]', 'special': true}, {'id': 2, 'content': '[SEP]', 'special': true}],"          \
    "'decoder': {'type': 'WordPiece'}, 'model': {'type': 'WordPiece', 'unk_token': '[UNK]',"                                     \
    "'vocab': {'[UNK]': 0, '[CLS]': 1, '[SEP]': 2, 'cafe': 3, '##s': 4, '.': 5, '\xe4\xb8\x96': 6, 'un': 7, '##able': 8}}}"
#define UNIGRAM                                                                                                                  \
    "{'pre_tokenizer': {'type': 'Metaspace', 'replacement': '\xe2\x96\x81', 'prepend_scheme': 'always'},"                        \
    "'decoder': {'type': 'Metaspace', 'replacement': '\xe2\x96\x81', 'prepend_scheme': 'always'},"                               \
    "'model': {'type': 'Unigram', 'unk_id': 0, 'vocab': [['<unk>', 0], ['\xe2\x96\x81', -2], ['a', -3], ['b', -3],"              \
    "['ab', -4], ['\xe2\x96\x81"                                                                                                 \
    "a', -4], ['aba', -5.5]]}}"
#define FALLBACK                                                                                                                 \
    "{'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': '\xe2\x96\x81'},"                        \
    "{'type': 'Replace', 'pattern': {'String': ' '}, 'content': '\xe2\x96\x81'}]}, 'decoder': {'type': 'Sequence', 'decoders':"  \
    "[{'type': 'Replace', 'pattern': {'String': '\xe2\x96\x81'}, 'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'},"   \
    "{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]}, 'model': {'type': 'BPE', 'byte_fallback': true,"                \
    "'unk_token': '<unk>', 'fuse_unk': true, 'vocab': {'<unk>': 0, '<0xC3>': 1, '<0xA9>': 2, '\xe2\x96\x81': 3, 'h': 4, 'i': 5," \
    "'hi': 6, '\xe2\x96\x81hi': 7}, 'merges': ['h i', '\xe2\x96\x81 hi']}}"
#define WORDLEVEL                                                                                                                \
    "{'pre_tokenizer': {'type': 'Whitespace'}, 'added_tokens': [{'id': 9, 'content': 'big cat', 'lstrip': true, 'rstrip': true," \
    "'normalized': true}], 'model': {'type': 'WordLevel', 'vocab': {'a': 0, 'b': 1, '!': 2}, 'unk_token': 'b'}}"
/* Keys with a NUL, and two of the characters that could stand in for it, one of them as an escape. */
#define NUL_KEYS                                                                                                                 \
    "{'decoder': {'type': 'Fuse'}, 'post_processor': {'type': 'TemplateProcessing', 'single': [{'Sequence': {'id': 'A'}},"       \
    "{'SpecialToken': {'id': 'x\\u0000y'}}], 'special_tokens': {'x\\u0000y': {'ids': [1]}, 'x': {'ids': [2]}}}, 'model': {"      \
    "'type': 'BPE', 'vocab': {'a': 0, '\\u0000' : 1, 'a\\u0000': 2, '\xef\xb7\x90': 3, '\\uFdD1': 4, '\\\\u0000': 5, '\\u0000"   \
    "a\\u0000' \n: 6}, 'merges': [['a', '\\u0000'], ['\\u0000', 'a\\u0000']]}}"

static samba_status open_in(samba_context *owner, const char *json, samba_tokenizer **t)
{
    char text[4096];
    size_t length = strlen(json);
    if (length >= sizeof text)
        fail_msg("the test's JSON has %zu bytes", length);
    for (size_t i = 0; i <= length; i++)
        text[i] = (char)(json[i] == '\'' ? '"' : json[i]);
    return samba_tokenizer_open_memory(owner, text, length, t);
}

static samba_tokenizer *opened(const char *json)
{
    samba_tokenizer *t;
    need(open_in(context, json, &t));
    return t;
}

#define IDS(...) LENGTH(((int32_t[]){__VA_ARGS__})), ((int32_t[]){__VA_ARGS__})
static void check(const char *json, const char *text, bool special, int count, const int32_t *ids)
{
    samba_tokenizer *t = opened(json);
    samba_token_list list;
    need(samba_tokenizer_encode(context, t, text, strlen(text), special, &list));
    if (list.count != count || memcmp(list.ids, ids, (size_t)count * sizeof *ids) != 0) {
        for (int64_t i = 0; i < list.count; i++)
            print_error("%d ", list.ids[i]);
        fail_msg("are the ids of \"%s\"", text);
    }
    samba_token_list_free(context, &list);
    samba_tokenizer_free(t);
}

static void check_text(const char *json, int count, const int32_t *ids, bool skip, const char *expected)
{
    samba_tokenizer *t = opened(json);
    samba_token_text text;
    need(samba_tokenizer_decode(context, t, ids, count, skip, &text));
    assert_string_equal(text.text, expected);
    assert_int_equal(text.length, strlen(expected));
    samba_token_text_free(context, &text);
    samba_tokenizer_free(t);
}

TEST(test_byte_level)
{
    check(BYTE_LEVEL, "abc abc", false, IDS(5, 3, 5));
    check(BYTE_LEVEL, "abc<|end|>ab", true, IDS(11, 5, 11, 4));
    check(BYTE_LEVEL, "e\xcc\x81", false, IDS(9)); /* composed */
    check(BYTE_LEVEL, "", true, IDS(11));
    check_text(BYTE_LEVEL, IDS(5, 6, 10, 9, 11), true, "abc abc\xc3\xa9");
    check_text(BYTE_LEVEL, IDS(7, 11, 99, -1), false, "\xef\xbf\xbd<|end|>");
}

TEST(test_wordpiece)
{
    check(WORDPIECE, "Caf\xc3\xa9s. \xe4\xb8\x96 unable unwell", true, IDS(1, 3, 4, 5, 6, 7, 8, 0, 2));
    check_text(WORDPIECE, IDS(1, 3, 4, 5, 7, 8, 2), true, "cafes. unable");
}

TEST(test_unigram)
{
    check(UNIGRAM, "aba zz ab", false, IDS(1, 6, 1, 0, 1, 4));
    check_text(UNIGRAM, IDS(1, 6, 5, 3), true, "aba ab");
}

TEST(test_byte_fallback)
{
    check(FALLBACK, "hi hi", false, IDS(7, 7));
    check(FALLBACK, "hi\xc3\xa9zz", false, IDS(7, 1, 2, 0));
    check_text(FALLBACK, IDS(7, 1, 2, 1), true, "hi\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(test_added_tokens)
{
    check(WORDLEVEL, "a  big cat b a!", false, IDS(0, 3, 1, 0, 2)); /* it takes the spaces; its id is the next one */
    samba_tokenizer *t = opened(WORDLEVEL);
    assert_int_equal(samba_tokenizer_size(t), 4);
    assert_int_equal(samba_tokenizer_id(t, "big cat"), 3);
    assert_int_equal(samba_tokenizer_id(t, "no"), -1);
    assert_string_equal(samba_tokenizer_token(t, 3), "big cat");
    assert_null(samba_tokenizer_token(t, 9));
    assert_int_equal(samba_tokenizer_special(t, SAMBA_SPECIAL_UNK), 1);
    assert_int_equal(samba_tokenizer_special(t, SAMBA_SPECIAL_BOS), -1);
    samba_tokenizer_free(t);
}

/* Broken UTF-8 counts as U+FFFD, a NUL as a character. */
TEST(test_any_bytes)
{
    samba_tokenizer *t = opened(WORDLEVEL);
    samba_token_list list;
    need(samba_tokenizer_encode(context, t, "a \xe2\x96 b\0c \xff", 10, false, &list));
    assert_int_equal(list.count, 6);
    samba_token_list_free(context, &list);
    samba_tokenizer_free(t);
}

TEST(test_nul_in_keys)
{
    static const char given[] = "\0a\0\0\xef\xb7\x90\xef\xb7\x91";
    static const int32_t expected[] = {6, 1, 3, 4, 1};
    samba_tokenizer *t = opened(NUL_KEYS);
    samba_token_list list;
    samba_token_text text;
    need(samba_tokenizer_encode(context, t, given, sizeof given - 1, true, &list));
    assert_int_equal(list.count, LENGTH(expected));
    assert_memory_equal(list.ids, expected, sizeof expected);
    need(samba_tokenizer_decode(context, t, list.ids, list.count - 1, true, &text));
    assert_int_equal(text.length, sizeof given - 1);
    assert_memory_equal(text.text, given, sizeof given);
    assert_int_equal(samba_tokenizer_id(t, "\\u0000"), 5);
    samba_token_text_free(context, &text);
    samba_token_list_free(context, &list);
    samba_tokenizer_free(t);
}

/* Where the file has all the characters that could stand in for a NUL, the key is refused; after it, what is no JSON. */
TEST(test_nul_in_keys_refused)
{
    char json[1024] = "{'model': {'type': 'WordLevel', 'vocab': {'\\u0000': 1";
    samba_tokenizer *t;
    for (int i = 0; i < 32; i++)
        snprintf(json + strlen(json), 32, ", '\\ufd%x%x': %d", 0xd + i / 16, i % 16, i + 2);
    strcat(json, "}}}");
    refuse(open_in(context, json, &t), SAMBA_ERROR_FORMAT, "NUL byte in object key not supported");
    refuse(open_in(context, "{'\\u0000': 1,}", &t), SAMBA_ERROR_FORMAT, "line 1, column 14: this is no JSON");
    refuse(open_in(context, "{'a': {'\\u0000': 1}, 'model': 3}", &t), SAMBA_ERROR_FORMAT, "\"model\" is missing");
}

TEST(test_stream)
{
    static const int32_t ids[] = {5, 7, 8, 11, 7, 7, 8, 0, 7};
    static const char *const given[] = {"abc", "", "\xc3\xa9", "", "", "\xef\xbf\xbd", "\xc3\xa9", "a", ""};
    samba_tokenizer *t = opened(BYTE_LEVEL);
    samba_token_stream *stream;
    const char *text;
    size_t length;
    need(samba_token_stream_new(context, t, true, &stream));
    for (int i = 0; i < LENGTH(ids); i++) {
        need(samba_token_stream_next(stream, ids[i], &text, &length));
        assert_string_equal(text, given[i]);
        assert_int_equal(length, strlen(given[i]));
    }
    need(samba_token_stream_end(stream, &text, &length));
    assert_string_equal(text, "\xef\xbf\xbd");
    samba_token_stream_free(stream);
    samba_tokenizer_free(t);
}

/* The parts of a stream are what decoding at once gives, whatever the decoder's steps, and whole characters. */
static void check_stream(const char *decoder, int count, const int32_t *ids, const char *const *parts)
{
    static const char vocab[] = "{'decoder': %s, 'model': {'type': 'WordLevel', 'vocab': {'<0xC3>': 0, '<0xA9>': 1, 'a': 2, "
                                "' ': 3, 'b</w>': 4, '\xe2\x96\x81x': 5, ' .': 6, 'a ': 7}}}";
    char json[1024], all[256] = "";
    samba_token_text whole;
    samba_token_stream *stream;
    const char *text;
    size_t length;
    snprintf(json, sizeof json, vocab, decoder);
    samba_tokenizer *t = opened(json);
    need(samba_token_stream_new(context, t, true, &stream));
    for (int i = 0; i <= count; i++) {
        need(i < count ? samba_token_stream_next(stream, ids[i], &text, &length)
                       : samba_token_stream_end(stream, &text, &length));
        assert_string_equal(text, parts[i]);
        strcat(all, text);
    }
    need(samba_tokenizer_decode(context, t, ids, count, true, &whole));
    assert_string_equal(whole.text, all);
    samba_token_text_free(context, &whole);
    samba_token_stream_free(stream);
    samba_tokenizer_free(t);
}
#define PARTS(...)                                                                                                               \
    (const char *const[]) { __VA_ARGS__ }
#define STREAM(decoder, ids, ...) check_stream(decoder, ids, PARTS(__VA_ARGS__))
#define SEQUENCE(parts) "{'type': 'Sequence', 'decoders': [" parts "]}"
#define BYTES "{'type': 'ByteFallback'}"
#define FUSE "{'type': 'Fuse'}"

TEST(test_streams_of_chains)
{
    STREAM("null", IDS(2, 3, 2), "a", "  ", " a", "");
    STREAM(BYTES, IDS(0, 1, 2), "", "",
           "\xc3\xa9"
           "a",
           ""); /* a run of bytes may yet be no text */
    STREAM(BYTES, IDS(0, 1, 1), "", "", "", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    STREAM(SEQUENCE(BYTES ", " FUSE ", {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 2}"), IDS(3, 3, 2, 3, 3, 3, 2, 3),
           "", "", " a", "", "", " ", "  a", "", "");
    STREAM(SEQUENCE(FUSE ", {'type': 'Replace', 'pattern': {'String': 'a a'}, 'content': '!'}"), IDS(2, 3, 2, 2, 3, 3), "", "",
           "!", "", "", "a  ", "");
    STREAM(SEQUENCE(FUSE ", {'type': 'Replace', 'pattern': {'Regex': 'a+'}, 'content': '!'}"), IDS(2, 2, 3), "", "", "", "! ");
    STREAM("{'type': 'BPEDecoder', 'suffix': '</w>'}", IDS(4, 2, 4), "b", " a", "b", "");
    STREAM("{'type': 'CTC', 'pad_token': 'a', 'word_delimiter_token': ' ', 'cleanup': false}", IDS(3, 3, 2, 3, 2), " ", "", "",
           " ", "", "");
    STREAM("{'type': 'WordPiece', 'prefix': '##', 'cleanup': true}", IDS(2, 6, 2), "a", " .", " a", "");
    STREAM("{'type': 'Metaspace', 'replacement': '\xe2\x96\x81', 'prepend_scheme': 'first'}", IDS(5, 5), "x", " x", "");
    STREAM(SEQUENCE(FUSE ", {'type': 'Metaspace', 'replacement': '\xe2\x96\x81', 'prepend_scheme': 'always'}"), IDS(5, 5), "x",
           "x", "");
}

/* A template behind a template, and Bert's behind one, are as `tokenizers` has them. */
TEST(test_around_in_sequence)
{
#define CLS "'special_tokens': {'c': {'ids': [1]}}}"
#define AROUND(parts)                                                                                                            \
    "{'post_processor': {'type': 'Sequence', 'processors': [" parts                                                              \
    "]}, 'model': {'type': 'WordLevel', 'vocab': {'a': 0, 'c': 1, 's': 2}, 'unk_token': 'a'}}"
#define ONE "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 'c'}}, {'Sequence': {'id': 'A'}}], "
#define TWO "'pair': [{'Sequence': {'id': 'B'}}, {'SpecialToken': {'id': 'c'}}, {'Sequence': {'id': 'A'}}], "
    check(AROUND(ONE CLS ", {'type': 'BertProcessing', 'cls': ['c', 1], 'sep': ['s', 2]}"), "a", true, IDS(1, 1, 2, 0, 2));
    check(AROUND(ONE CLS ", {'type': 'RobertaProcessing', 'cls': ['c', 1], 'sep': ['s', 2]}"), "a", true, IDS(1, 1, 2, 2, 0, 2));
    check(AROUND(ONE CLS ", " ONE TWO CLS), "a", true, IDS(0, 1, 1));
    samba_tokenizer *t;
    refuse(open_in(context, AROUND(ONE CLS ", " ONE TWO CLS ", " ONE TWO CLS), &t), SAMBA_ERROR_UNSUPPORTED,
           "a template behind one of 3 pieces is not supported");
}

/* A token of which the normalizer leaves nothing cuts between any two characters. */
TEST(test_empty_token)
{
    check("{'normalizer': {'type': 'Strip', 'strip_left': true, 'strip_right': true}, 'added_tokens': [{'id': 3, 'content': ' ', "
          "'normalized': true}], 'model': {'type': 'WordLevel', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'unk_token': 'a'}}",
          "ab", false, IDS(0, 1));
}

/* A word that is as long as a text takes time in proportion to it, and gives what the short way gives. */
TEST(test_long_word)
{
    enum { TIMES = 50000 };
    samba_tokenizer *t = opened(BYTE_LEVEL);
    samba_token_encoder *encoder;
    const int32_t *ids;
    int64_t count;
    char *text = malloc(TIMES * 4);
    assert_non_null(text);
    for (int i = 0; i < TIMES; i++)
        memcpy(text + i * 4, "abcc", 4);
    need(samba_token_encoder_new(context, t, &encoder));
    need(samba_token_encoder_run(encoder, text, TIMES * 4, false, &ids, &count));
    assert_int_equal(count, TIMES * 2);
    for (int i = 0; i < TIMES; i++)
        assert_true(ids[i * 2] == 5 && ids[i * 2 + 1] == 2);
    free(text);
    samba_token_encoder_free(encoder);
    samba_tokenizer_free(t);
}

/* ---- what is refused ---- */
static void damaged(const char *json, samba_status status, const char *words)
{
    samba_tokenizer *t;
    refuse(open_in(context, json, &t), status, words);
    assert_null(t);
}

TEST(test_damaged)
{
    const samba_status format = SAMBA_ERROR_FORMAT, no = SAMBA_ERROR_UNSUPPORTED;
    damaged("{'model': ", format, "tokenizer: line 1, column 10: this is no JSON");
    damaged("[]", format, "the file is no JSON object");
    damaged("xx", format, "neither the JSON of a tokenizer.json nor a SentencePiece model");
    damaged("\nx\x80", format, "this is no SentencePiece model");
    damaged("{}", format, "\"model\" is missing: this is no tokenizer.json");
    damaged("{'model': {'type': 'LSTM'}}", no, "type \"LSTM\" is none of BPE, Unigram, WordPiece and WordLevel");
    damaged("{'model': {'type': 'BPE', 'vocab': []}}", format, "model BPE: \"vocab\" is no object");
    damaged("{'model': {'type': 'BPE', 'vocab': {'a': -1}}}", format, "the id of token \"a\" is no whole number");
    damaged("{'model': {'type': 'BPE', 'vocab': {'a': 0}, 'dropout': 0.1}}", no, "\"dropout\" is 0.1");
    damaged("{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1}, 'merges': ['a b']}}", format,
            "merge 0: the token \"ab\" is not in the vocabulary");
    damaged("{'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['a b c']}}", format, "not two tokens with a space between");
    damaged("{'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': [7]}}", format, "\"merges\"[0] is neither");
    damaged("{'model': {'type': 'Unigram', 'vocab': [['a']]}}", format, "\"vocab\"[0] is no list of a text and a number");
    damaged("{'model': {'type': 'Unigram', 'vocab': [['a', 0]], 'unk_id': 1}}", format, "\"unk_id\" is 1, the vocabulary has 1");
#define MODEL_A "'model': {'type': 'WordLevel', 'vocab': {'a': 0}}}"
    damaged("{'normalizer': {'type': 'Upper'}, " MODEL_A, no, "normalizer: type \"Upper\" is not supported");
    damaged("{'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'NFC'}, 3]}, " MODEL_A, format,
            "normalizer[1]: it is no object");
    damaged("{'normalizer': {'type': 'Precompiled', 'precompiled_charsmap': '//8='}, " MODEL_A, format, "it is damaged");
    damaged("{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '(a'}, 'behavior': 'Isolated'}, " MODEL_A, format,
            "pre_tokenizer Split: the regular expression \"(a\" is none: missing closing parenthesis");
    damaged("{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '\\\\X'}, 'behavior': 'Isolated'}, " MODEL_A, no,
            "has an escape that is not known, which is not supported");
    damaged("{'pre_tokenizer': {'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Odd'}, " MODEL_A, format,
            "\"behavior\" is \"Odd\", none of");
    damaged("{'pre_tokenizer': {'type': 'Metaspace', 'replacement': 'ab'}, " MODEL_A, format,
            "\"replacement\" is not one character");
    damaged("{'decoder': {'type': 'Metaspace'}, " MODEL_A, format, "decoder Metaspace: \"replacement\" is missing");
    damaged("{'post_processor': {'type': 'TemplateProcessing', 'single': [{'Sequence': {'id': 'B'}}]}, " MODEL_A, format,
            "\"single\"[0] is neither");
    damaged("{'added_tokens': [{'id': 0}], " MODEL_A, format, "added_tokens[0]: \"content\" is missing");
    samba_tokenizer *t;
    refuse(samba_tokenizer_open(context, folder, &t), SAMBA_ERROR_FILE, "this folder has no tokenizer");
    refuse(samba_tokenizer_open(context, "/nowhere/tokenizer.json", &t), SAMBA_ERROR_FILE, "/nowhere/tokenizer.json");
}

/* Text that cannot be encoded. */
TEST(test_refused_text)
{
    samba_tokenizer *t = opened("{" MODEL_A);
    samba_token_list list;
    refuse(samba_tokenizer_encode(context, t, "b", 1, false, &list), SAMBA_ERROR_FORMAT, "no unk_token \"<unk>\" for it");
    assert_null(list.ids);
    samba_tokenizer_free(t);
    /* A pattern that takes exponential time ends. */
    char text[4097];
    memset(text, 'a', 4096);
    text[4096] = '\0';
    t = opened("{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '(a+)+[xy]'}, 'behavior': 'Isolated'}, " MODEL_A);
    refuse(samba_tokenizer_encode(context, t, text, 4096, false, &list), SAMBA_ERROR_UNSUPPORTED, "takes too many steps");
    samba_tokenizer_free(t);
}

/* ---- files beside each other ---- */
static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (; *text; text++)
        fputc(*text == '\'' ? '"' : *text, file);
    fclose(file);
}

TEST(test_gpt2_files)
{
    samba_tokenizer *t;
    samba_token_list list;
    write_file("vocab.json", "{'a': 0, 'b': 1, 'ab': 2, '\xc4\xa0': 3, '\xc4\xa0"
                             "ab': 4, '<|endoftext|>': 5}");
    write_file("merges.txt", "#version: 0.2\na b\n\xc4\xa0 ab\n");
    write_file("tokenizer_config.json", "{'bos_token': {'content': '<|endoftext|>'}, 'eos_token': '<|endoftext|>'}");
    need(samba_tokenizer_open(context, folder, &t));
    need(samba_tokenizer_encode(context, t, "ab ab<|endoftext|>", 18, true, &list));
    assert_int_equal(list.count, 3);
    assert_true(list.ids[0] == 2 && list.ids[1] == 4 && list.ids[2] == 5);
    assert_int_equal(samba_tokenizer_special(t, SAMBA_SPECIAL_BOS), 5);
    assert_int_equal(samba_tokenizer_special(t, SAMBA_SPECIAL_EOS), 5);
    assert_int_equal(samba_tokenizer_special(t, SAMBA_SPECIAL_PAD), -1);
    samba_token_list_free(context, &list);
    samba_tokenizer_free(t);
    write_file("tokenizer_config.json", "{'add_bos_token': true, 'add_prefix_space': true, 'eos_token': null}");
    need(samba_tokenizer_open(context, folder, &t));
    need(samba_tokenizer_encode(context, t, "ab", 2, true, &list));
    assert_int_equal(list.count, 2);
    assert_true(list.ids[0] == 5 && list.ids[1] == 4);
    samba_token_list_free(context, &list);
    samba_tokenizer_free(t);
    write_file("tokenizer_config.json", "{'tokenizer_class': 'Qwen2Tokenizer'}");
    refuse(samba_tokenizer_open(context, folder, &t), SAMBA_ERROR_UNSUPPORTED,
           "supported with vocab.json and merges.txt is GPT2");
    write_file("tokenizer_config.json", "{'added_tokens_decoder': {'6': {'content': '<new>', 'special': true}}}");
    refuse(samba_tokenizer_open(context, folder, &t), SAMBA_ERROR_UNSUPPORTED, "the token \"<new>\" is none of vocab.json");
    write_file("tokenizer_config.json", "{}");
    write_file("merges.txt", "a c\n");
    refuse(samba_tokenizer_open(context, folder, &t), SAMBA_ERROR_FORMAT, "merges.txt: merge 0: the token \"c\" is not in");
}

/* ---- threads: one tokenizer, a context each ---- */
static void *encode_often(void *tokenizer)
{
    static const char words[] = "abc 123 e\xcc\x81<|end|> ab cab";
    samba_context *own;
    samba_token_list first = {NULL, 0}, list;
    bool same = samba_context_new(NULL, &own) == SAMBA_OK;
    if (!same)
        return NULL;
    same = samba_tokenizer_encode(own, tokenizer, words, sizeof words - 1, true, &first) == SAMBA_OK && first.count > 5;
    for (int i = 0; same && i < 300; i++) {
        same = samba_tokenizer_encode(own, tokenizer, words, sizeof words - 1, true, &list) == SAMBA_OK &&
               list.count == first.count && memcmp(list.ids, first.ids, (size_t)list.count * sizeof *list.ids) == 0;
        samba_token_list_free(own, &list);
    }
    samba_token_list_free(own, &first);
    samba_context_free(own);
    return same ? tokenizer : NULL;
}

TEST(test_threads)
{
    pthread_t threads[4];
    samba_tokenizer *t = opened(BYTE_LEVEL);
    for (int i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
    for (int i = 0; i < LENGTH(threads); i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, t);
    }
    samba_tokenizer_free(t);
}

/* ---- memory ---- */
static samba_status all_of_it(samba_context *owner, void *json)
{
    samba_tokenizer *t = NULL;
    samba_token_encoder *encoder = NULL;
    samba_token_stream *stream = NULL;
    samba_token_list list = {NULL, 0};
    samba_token_text text = {NULL, 0};
    const int32_t *ids;
    int64_t count;
    const char *part;
    size_t length;
    static const char words[] = "ab abc Caf\xc3\xa9s zz <|end|> big cat 12345 \xff e\xcc\x81";
    samba_status status = open_in(owner, json, &t);
    THEN(status, samba_tokenizer_encode(owner, t, words, sizeof words - 1, true, &list));
    THEN(status, samba_tokenizer_decode(owner, t, list.ids, list.count, false, &text));
    THEN(status, samba_token_encoder_new(owner, t, &encoder));
    THEN(status, samba_token_encoder_run(encoder, words, sizeof words - 1, false, &ids, &count));
    THEN(status, samba_token_stream_new(owner, t, false, &stream));
    for (int64_t i = 0; status == SAMBA_OK && i < count; i++)
        THEN(status, samba_token_stream_next(stream, ids[i], &part, &length));
    THEN(status, samba_token_stream_end(stream, &part, &length));
    samba_token_stream_free(stream);
    samba_token_encoder_free(encoder);
    samba_token_text_free(owner, &text);
    samba_token_list_free(owner, &list);
    samba_tokenizer_free(t);
    return status;
}

TEST(test_no_memory)
{
    fail_each_allocation(all_of_it, BYTE_LEVEL);
    fail_each_allocation(all_of_it, WORDPIECE);
    fail_each_allocation(all_of_it, UNIGRAM);
    fail_each_allocation(all_of_it, FALLBACK);
    fail_each_allocation(all_of_it, WORDLEVEL);
    fail_each_allocation(all_of_it, NUL_KEYS);
}

TEST_MAIN(test_byte_level, test_wordpiece, test_unigram, test_byte_fallback, test_added_tokens, test_any_bytes, test_nul_in_keys,
          test_nul_in_keys_refused, test_stream, test_streams_of_chains, test_around_in_sequence, test_empty_token,
          test_long_word, test_damaged, test_refused_text, test_gpt2_files, test_threads, test_no_memory)
