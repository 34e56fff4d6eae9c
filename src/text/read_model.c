/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of tokenizer.json: BPE, Unigram, WordPiece or WordLevel, with its vocabulary. Older files do not name the type; the
 * fields tell. */
#include "text/read.h"

#include <stdlib.h>

samba_status samba_read_vocab(const samba_reader *r, const char *where, const json_t *object)
{
    samba_vocab *vocab = &r->tokenizer->vocab;
    const char *key;
    size_t size;
    json_t *value;
    uint64_t bytes = 0;
    if (!json_is_object(object))
        return samba_reader_fail(r, where, "\"vocab\" is no object");
    json_object_keylen_foreach((json_t *)object, key, size, value) bytes += size;
    SAMBA_TRY(samba_vocab_room(r->arena, vocab, (int64_t)json_object_size(object), bytes));
    json_object_keylen_foreach((json_t *)object, key, size, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= INT32_MAX) {
            char shown[SAMBA_SHOWN];
            return samba_reader_fail(r, where, "the id of token \"%.100s\" is no whole number from 0 to %d",
                                     samba_shown(key, shown), INT32_MAX - 1);
        }
        samba_vocab_add(vocab, key, size, (int32_t)json_integer_value(value));
    }
    return samba_vocab_index(r->arena, vocab);
}

samba_status samba_read_byte_tokens(const samba_reader *r, int32_t bytes[256])
{
    char text[8];
    for (int i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        bytes[i] = samba_vocab_id(&r->tokenizer->vocab, text, 6);
    }
    return SAMBA_OK;
}

samba_status samba_read_chars(const samba_reader *r)
{
    samba_bpe *bpe = &r->tokenizer->bpe;
    char text[4];
    SAMBA_TRY(SAMBA_ROOM(r->arena, bpe->chars, 0x800));
    for (uint32_t c = 0; c < 0x800; c++)
        bpe->chars[c] = samba_vocab_id(&r->tokenizer->vocab, text, (size_t)samba_utf8_put(c, text));
    return samba_read_byte_tokens(r, bpe->bytes);
}

bool samba_read_apart(const samba_tokenizer *t)
{
    static const char mark[] = "\xe2\x96\x81";
    if (t->bpe.unknown < 0 || t->bpe.prefix.size || t->bpe.suffix.size || t->bpe.ignore_merges ||
        samba_vocab_id(&t->vocab, mark, 3) < 0)
        return false;
    for (int64_t i = 0; i < t->vocab.count; i++) {
        const samba_word *word = &t->vocab.words[i];
        for (uint32_t at = 1; at + 3 <= word->size; at++)
            if (memcmp(word->text + at, mark, 3) == 0 && (at < 3 || memcmp(word->text + at - 3, mark, 3) != 0))
                return false;
    }
    return true;
}

static samba_status read_bpe(const samba_reader *r, const json_t *model)
{
    samba_bpe *bpe = &r->tokenizer->bpe;
    samba_str unknown = {NULL, 0};
    const double dropout = json_number_value(json_object_get(model, "dropout"));
    r->tokenizer->model = SAMBA_MODEL_BPE;
    if (dropout > 0)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: model BPE: \"dropout\" is %g; ids by chance are not supported", r->path, dropout);
    SAMBA_TRY(samba_read_vocab(r, "model BPE", json_object_get(model, "vocab")));
    SAMBA_TRY(samba_read_text(r, "model BPE", model, "unk_token", &unknown));
    SAMBA_TRY(samba_read_text(r, "model BPE", model, "continuing_subword_prefix", &bpe->prefix));
    SAMBA_TRY(samba_read_text(r, "model BPE", model, "end_of_word_suffix", &bpe->suffix));
    SAMBA_TRY(samba_read_bool(r, "model BPE", model, "fuse_unk", &bpe->fuse));
    SAMBA_TRY(samba_read_bool(r, "model BPE", model, "byte_fallback", &bpe->byte_fallback));
    SAMBA_TRY(samba_read_bool(r, "model BPE", model, "ignore_merges", &bpe->ignore_merges));
    SAMBA_TRY(samba_read_chars(r));
    bpe->unknown = unknown.data ? samba_vocab_id(&r->tokenizer->vocab, unknown.data, unknown.size) : -1;
    bpe->apart = samba_read_apart(r->tokenizer);
    bpe->unknown_text = unknown.data && bpe->unknown < 0 ? unknown.data : NULL;
    return samba_read_merge_list(r, json_object_get(model, "merges"));
}

static uint64_t bytes_of(const samba_vocab *vocab)
{
    uint64_t bytes = 0;
    for (int64_t i = 0; i < vocab->count; i++)
        bytes += vocab->words[i].size;
    return bytes;
}

static samba_status read_wordpiece(const samba_reader *r, const json_t *model, bool whole)
{
    samba_wordpiece *w = &r->tokenizer->wordpiece;
    const samba_vocab *vocab = &r->tokenizer->vocab;
    const char *where = whole ? "model WordLevel" : "model WordPiece";
    samba_str unknown = {whole ? "<unk>" : "[UNK]", 5}, prefix = {"##", 2};
    r->tokenizer->model = SAMBA_MODEL_WORDPIECE;
    w->whole = whole;
    w->most = 100;
    SAMBA_TRY(samba_read_vocab(r, where, json_object_get(model, "vocab")));
    SAMBA_TRY(samba_read_text(r, where, model, "unk_token", &unknown));
    SAMBA_TRY(samba_read_text(r, where, model, "continuing_subword_prefix", &prefix));
    SAMBA_TRY(samba_read_count(r, where, model, "max_input_chars_per_word", INT64_MAX, &w->most));
    w->unknown = samba_vocab_id(vocab, unknown.data, unknown.size);
    w->unknown_text = unknown.data;
    if (whole)
        return SAMBA_OK;
    SAMBA_TRY(samba_trie_init(r->arena, &w->trie, bytes_of(vocab)));
    for (int64_t i = 0; i < vocab->count; i++)
        samba_trie_add(&w->trie, samba_str_of(vocab->words[i].text, vocab->words[i].size), vocab->words[i].id, true);
    w->inner = 1;
    for (size_t i = 0; i < prefix.size && w->inner; i++)
        w->inner = samba_trie_next(&w->trie, w->inner, (uint8_t)prefix.data[i]);
    return SAMBA_OK;
}

/* The score as `tokenizers` reads its digits: as a whole number, divided by a power of ten, each rounded. That is not always
 * the nearest double, and ways to write a text whose scores sum to the same are told apart by it. The digits are those of the
 * shortest number that reads back the same, which is what writers of JSON put. */
static double as_read(double score)
{
    char text[40], power[16];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, score);
        if (strtod(text, NULL) == score)
            break;
    }
    uint64_t number = 0;
    int scale = 0, zeros = 0;
    bool behind = false;
    const char *at = text;
    for (; *at && *at != 'e'; at++) {
        if (*at < '0' || *at > '9') {
            behind |= *at != '-';
            continue;
        }
        scale -= behind;
        zeros = *at == '0' ? zeros + 1 : 0;
        number = number * 10 + (uint64_t)(*at - '0');
    }
    for (; zeros > 0 && number % 10 == 0 && number > 0; zeros--, scale++)
        number /= 10;
    if (*at != 'e')
        return score;
    scale += (int)strtol(at + 1, NULL, 10);
    if (scale > 0 || scale < -300)
        return score;
    snprintf(power, sizeof power, "1e%d", -scale);
    const double size = (double)number / strtod(power, NULL);
    return score < 0 ? -size : size;
}

static samba_status read_unigram(const samba_reader *r, const json_t *model)
{
    samba_unigram *u = &r->tokenizer->unigram;
    samba_vocab *vocab = &r->tokenizer->vocab;
    const json_t *list = json_object_get(model, "vocab");
    uint64_t bytes = 0;
    double least = 0;
    int64_t unknown = -1;
    if (!json_is_array(list))
        return samba_reader_fail(r, "model Unigram", "\"vocab\" is no list");
    r->tokenizer->model = SAMBA_MODEL_UNIGRAM;
    u->count = (int64_t)json_array_size(list);
    for (int64_t i = 0; i < u->count; i++)
        bytes += json_string_length(json_array_get(json_array_get(list, (size_t)i), 0));
    SAMBA_TRY(samba_vocab_room(r->arena, vocab, u->count, bytes));
    SAMBA_TRY(samba_trie_init(r->arena, &u->trie, bytes));
    SAMBA_TRY(SAMBA_ROOM(r->arena, u->scores, u->count + 1));
    for (int64_t i = 0; i < u->count; i++) {
        const json_t *row = json_array_get(list, (size_t)i), *text = json_array_get(row, 0), *score = json_array_get(row, 1);
        if (json_array_size(row) != 2 || !json_is_string(text) || !json_is_number(score))
            return samba_reader_fail(r, "model Unigram", "\"vocab\"[%lld] is no list of a text and a number", (long long)i);
        u->scores[i] = as_read(json_number_value(score));
        least = i == 0 || u->scores[i] < least ? u->scores[i] : least;
        samba_vocab_add(vocab, json_string_value(text), json_string_length(text), (int32_t)i);
        samba_trie_add(&u->trie, samba_str_of(json_string_value(text), json_string_length(text)), (int32_t)i, true);
    }
    SAMBA_TRY(samba_vocab_index(r->arena, vocab));
    SAMBA_TRY(samba_read_count(r, "model Unigram", model, "unk_id", INT64_MAX, &unknown));
    SAMBA_TRY(samba_read_bool(r, "model Unigram", model, "byte_fallback", &u->byte_fallback));
    if (unknown >= u->count)
        return samba_reader_fail(r, "model Unigram", "\"unk_id\" is %lld, the vocabulary has %lld tokens", (long long)unknown,
                                 (long long)u->count);
    u->unknown = (int32_t)unknown;
    u->unknown_score = least - 10;
    return samba_read_byte_tokens(r, u->bytes);
}

samba_status samba_read_model(const samba_reader *r, const json_t *model)
{
    const json_t *type = json_object_get(model, "type");
    const char *name = json_string_value(type);
    char shown[SAMBA_SHOWN];
    if (!json_is_object(model))
        return samba_reader_fail(r, "", "\"model\" is missing: this is no tokenizer.json");
    if (!name)
        name = json_object_get(model, "merges")                      ? "BPE"
               : json_is_array(json_object_get(model, "vocab"))      ? "Unigram"
               : json_object_get(model, "continuing_subword_prefix") ? "WordPiece"
                                                                     : "WordLevel";
    if (strcmp(name, "BPE") == 0)
        return read_bpe(r, model);
    if (strcmp(name, "Unigram") == 0)
        return read_unigram(r, model);
    if (strcmp(name, "WordPiece") == 0 || strcmp(name, "WordLevel") == 0)
        return read_wordpiece(r, model, name[4] == 'L');
    return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED,
                      "%s: model: type \"%.100s\" is none of BPE, Unigram, WordPiece and WordLevel", r->path,
                      samba_shown(name, shown));
}
