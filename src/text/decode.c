/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids to text: the tokens, changed by one step of the decoder after the other, and put together. A step reads pieces and writes
 * pieces, each list one text with the ends of its parts. `raw` leaves bytes that are no characters as they are, which is how a
 * stream waits for the rest of one. */
#define _GNU_SOURCE /* memmem */
#include "text/text.h"

#include "base/null.h"

const samba_word *samba_tokenizer_word(const samba_tokenizer *tokenizer, int32_t id)
{
    const samba_word *word = samba_vocab_word(&tokenizer->added_shown, id);
    return word ? word : samba_vocab_word(&tokenizer->vocab, id);
}

bool samba_decode_skips(const samba_tokenizer *tokenizer, const samba_word *word, bool skip_special)
{
    if (!word)
        return true;
    const samba_word *added = skip_special ? samba_vocab_find(&tokenizer->added_vocab, word->text, word->size) : NULL;
    return added && tokenizer->added[added - tokenizer->added_vocab.words].special;
}

/* Ends the piece whose bytes were added last. */
static samba_status end_piece(samba_context *context, samba_pieces *pieces)
{
    if (pieces->count == pieces->room)
        SAMBA_TRY(SAMBA_GROW(context, pieces->ends, pieces->room, pieces->count + 1));
    pieces->ends[pieces->count++] = pieces->text.size;
    return SAMBA_OK;
}

static samba_str piece_at(const samba_pieces *pieces, int64_t i)
{
    const int64_t begin = i > 0 ? pieces->ends[i - 1] : 0;
    return samba_str_of(pieces->text.data + begin, (size_t)(pieces->ends[i] - begin));
}

static samba_status add(samba_context *context, samba_pieces *to, samba_str text)
{
    return samba_chars_add(context, &to->text, text.data, text.size);
}

/* The text with `with` in the place of each `what`. */
static samba_status add_replaced(samba_context *context, samba_str text, samba_str what, samba_str with, samba_chars *to)
{
    size_t at = 0;
    while (what.size > 0 && at < text.size) {
        const char *found = memmem(text.data + at, text.size - at, what.data, what.size);
        if (!found)
            break;
        SAMBA_TRY(samba_chars_add(context, to, text.data + at, (size_t)(found - text.data) - at));
        SAMBA_TRY(samba_chars_add(context, to, with.data, with.size));
        at = (size_t)(found - text.data) + what.size;
    }
    return samba_chars_add(context, to, text.data + at, text.size - at);
}

/* English spacing as WordPiece's decoder has it: eleven replacements, one after the other, in work->normal. */
static samba_status clean_up(samba_work *work, samba_str text, samba_str *cleaned)
{
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    int turn = 0;
    for (int i = 0; i < SAMBA_COUNT(pairs); i++) {
        const samba_str what = samba_str_of(pairs[i][0], strlen(pairs[i][0]));
        if (text.size == 0 || !memmem(text.data, text.size, what.data, what.size))
            continue;
        samba_chars *to = &work->normal[turn];
        turn = !turn;
        to->size = 0;
        SAMBA_TRY(add_replaced(work->context, text, what, samba_str_of(pairs[i][1], strlen(pairs[i][1])), to));
        text = samba_chars_view(to);
    }
    *cleaned = text;
    return SAMBA_OK;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* The byte of <0xHH>; -1: it is no such token. */
static int byte_of(samba_str token)
{
    if (token.size != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>')
        return -1;
    const int high = token.data[3] == '+' ? 0 : hex(token.data[3]), low = hex(token.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Runs of byte tokens become one piece, or a U+FFFD for each where they are no UTF-8 together. */
static samba_status byte_fallback(samba_work *work, const samba_text_step *step, const samba_pieces *from, samba_pieces *to,
                                  bool raw)
{
    samba_context *context = work->context;
    for (int64_t i = 0; i < from->count;) {
        if (byte_of(piece_at(from, i)) < 0) {
            SAMBA_TRY(add(context, to, piece_at(from, i++)));
            SAMBA_TRY(end_piece(context, to));
            continue;
        }
        const int64_t begin = to->text.size;
        int64_t count = 0;
        for (int byte; i < from->count && (byte = byte_of(piece_at(from, i))) >= 0; i++, count++)
            SAMBA_TRY(samba_chars_add(context, &to->text, (char[]){(char)byte}, 1));
        if (!raw && step->split) { /* SentencePiece: a U+FFFD for each byte that is of no character */
            work->mended.size = 0;
            SAMBA_TRY(samba_chars_add(context, &work->mended, to->text.data + begin, (size_t)count));
            to->text.size = begin;
            for (size_t at = 0, whole; at < (size_t)count; at += whole + 1) {
                whole = samba_utf8_valid(work->mended.data + at, (size_t)count - at);
                SAMBA_TRY(samba_chars_add(context, &to->text, work->mended.data + at, whole));
                if (at + whole < (size_t)count)
                    SAMBA_TRY(samba_chars_add_code(context, &to->text, 0xfffd));
            }
            SAMBA_TRY(end_piece(context, to));
        } else if (!raw && samba_utf8_valid(to->text.data + begin, (size_t)count) < (size_t)count) {
            to->text.size = begin;
            for (; count > 0; count--) {
                SAMBA_TRY(samba_chars_add_code(context, &to->text, 0xfffd));
                SAMBA_TRY(end_piece(context, to));
            }
        } else
            SAMBA_TRY(end_piece(context, to));
    }
    return SAMBA_OK;
}

/* All bytes that the characters of the tokens stand for; a token with another character is its own bytes. */
static samba_status bytes(samba_work *work, const samba_pieces *from, samba_pieces *to, bool raw)
{
    samba_chars *all = raw ? &to->text : &work->mended;
    all->size = 0;
    for (int64_t i = 0; i < from->count; i++) {
        const samba_str token = piece_at(from, i);
        const int64_t begin = all->size;
        SAMBA_TRY(samba_chars_room(work->context, all, token.size));
        char *put = all->data + begin;
        bool known = true;
        for (size_t at = 0; known && at < token.size;) {
            int size, byte;
            if ((token.data[at] & 0x80) && at + 1 >= token.size) { /* cut: only where bytes came from before */
                known = false;
                break;
            }
            byte = samba_char_byte(samba_utf8_code(token.data + at, &size));
            known = byte >= 0;
            *put++ = (char)byte;
            at += (size_t)size;
        }
        if (!known) {
            memcpy(all->data + begin, token.data, token.size);
            put = all->data + begin + token.size;
        }
        all->size = put - all->data;
    }
    if (!raw)
        SAMBA_TRY(samba_utf8_mend(work->context, samba_chars_view(all), &to->text));
    return end_piece(work->context, to);
}

/* U+2581 as a space, but for those that the normalizer has put before the text. */
static samba_status sentencepiece(samba_context *context, const samba_text_step *step, const samba_pieces *from, samba_pieces *to)
{
    const samba_str mark = samba_str_of("\xe2\x96\x81", 3), space = samba_str_of(" ", 1);
    bool first = step->prepend == SAMBA_ALWAYS || step->cleanup;
    for (int64_t i = 0; i < from->count; i++) {
        samba_str text = piece_at(from, i);
        const bool marked = first && samba_str_begins(text, mark);
        if (marked)
            text = samba_str_of(text.data + mark.size, text.size - mark.size);
        first = first && text.size == 0 && (!marked || step->cleanup);
        SAMBA_TRY(add_replaced(context, text, mark, space, &to->text));
        SAMBA_TRY(end_piece(context, to));
    }
    return SAMBA_OK;
}

static samba_str strip(const samba_text_step *step, samba_str text)
{
    const samba_str what = step->text;
    for (int64_t i = 0; i < step->start && samba_str_begins(text, what); i++)
        text = samba_str_of(text.data + what.size, text.size - what.size);
    for (int64_t i = 0;
         i < step->stop && text.size >= what.size && memcmp(text.data + text.size - what.size, what.data, what.size) == 0; i++)
        text.size -= what.size;
    return text;
}

/* A piece by itself, in its place; the one before it for CTC, which leaves out repeated ones. */
static samba_status change(samba_work *work, const samba_text_step *step, const samba_pieces *from, int64_t i, samba_pieces *to,
                           bool raw)
{
    samba_context *context = work->context;
    samba_str text = piece_at(from, i);
    const samba_str none = samba_str_of("", 0), space = samba_str_of(" ", 1);
    switch (step->kind) {
    case SAMBA_STEP_DECODE_WORDPIECE: {
        samba_chars *word = &work->word;
        word->size = 0;
        if (i > 0 && samba_str_begins(text, step->text))
            text = samba_str_of(text.data + step->text.size, text.size - step->text.size);
        else if (i > 0)
            SAMBA_TRY(samba_chars_add(context, word, " ", 1));
        SAMBA_TRY(samba_chars_add(context, word, text.data, text.size));
        text = samba_chars_view(word);
        if (step->cleanup)
            SAMBA_TRY(clean_up(work, text, &text));
        SAMBA_TRY(add(context, to, text));
        break;
    }
    case SAMBA_STEP_DECODE_METASPACE:
        SAMBA_TRY(add_replaced(context, text, step->text, i == 0 && step->prepend != SAMBA_NEVER ? none : space, &to->text));
        break;
    case SAMBA_STEP_DECODE_BPE: {
        const bool last = i + 1 == from->count,
                   ends = step->text.size > 0 && text.size >= step->text.size &&
                          samba_str_equal(samba_str_of(text.data + text.size - step->text.size, step->text.size), step->text);
        if (raw && last && ends) /* what stands before its end is as it is when more tokens come */
            text.size -= step->text.size;
        SAMBA_TRY(add_replaced(context, text, step->text, last && !raw ? none : space, &to->text));
        break;
    }
    case SAMBA_STEP_DECODE_CTC: {
        samba_chars *word = &work->word;
        const int64_t begin = to->text.size;
        if (i > 0 && samba_str_equal(text, piece_at(from, i - 1)))
            return SAMBA_OK;
        word->size = 0;
        SAMBA_TRY(add_replaced(context, text, step->text, none, word));
        text = samba_chars_view(word);
        if (step->cleanup) {
            SAMBA_TRY(clean_up(work, text, &text));
            SAMBA_TRY(add_replaced(context, text, step->with, space, &to->text));
        } else
            SAMBA_TRY(add(context, to, text));
        if (to->text.size == begin)
            return SAMBA_OK;
        break;
    }
    case SAMBA_STEP_DECODE_STRIP: SAMBA_TRY(add(context, to, strip(step, text))); break;
    default:                      /* DECODE_REPLACE */
        if (step->regex && raw) { /* a regular expression takes characters alone */
            work->word.size = 0;
            SAMBA_TRY(samba_utf8_mend(context, text, &work->word));
            text = samba_chars_view(&work->word);
        }
        SAMBA_TRY(samba_normalize_replace(work, step, text, &to->text));
    }
    return end_piece(context, to);
}

samba_status samba_decode(samba_work *work, const int32_t *ids, int64_t count, bool skip_special, bool raw, samba_chars *text)
{
    const samba_tokenizer *t = work->tokenizer;
    samba_context *context = work->context;
    samba_pieces *from = &work->pieces[0], *to = &work->pieces[1];
    from->text.size = from->count = 0;
    for (int64_t i = 0; i < count; i++) {
        const samba_word *word = samba_tokenizer_word(t, ids[i]);
        if (samba_decode_skips(t, word, skip_special))
            continue;
        if (t->control && word->id == t->surface.id)
            word = &t->surface;
        if (t->control && t->control[word->id]) { /* nothing, and what stands before and behind it is apart */
            SAMBA_TRY(end_piece(context, from));
            continue;
        }
        if (!t->has_decoder && from->count > 0)
            SAMBA_TRY(samba_chars_add(context, &from->text, " ", 1));
        SAMBA_TRY(samba_chars_add(context, &from->text, word->text, word->size));
        SAMBA_TRY(end_piece(context, from));
    }
    if (work->matcher)
        samba_matcher_begin(work->matcher, (size_t)from->text.size);
    for (int i = 0; i < t->decoder.count && from->count > 0; i++) {
        const samba_text_step *step = &t->decoder.steps[i];
        to->text.size = to->count = 0;
        if (step->kind == SAMBA_STEP_DECODE_BYTES)
            SAMBA_TRY(bytes(work, from, to, raw));
        else if (step->kind == SAMBA_STEP_DECODE_BYTE_FALLBACK)
            SAMBA_TRY(byte_fallback(work, step, from, to, raw));
        else if (step->kind == SAMBA_STEP_DECODE_SENTENCEPIECE)
            SAMBA_TRY(sentencepiece(context, step, from, to));
        else if (step->kind == SAMBA_STEP_DECODE_FUSE) {
            SAMBA_TRY(add(context, to, samba_chars_view(&from->text)));
            SAMBA_TRY(end_piece(context, to));
        } else
            for (int64_t k = 0; k < from->count; k++)
                SAMBA_TRY(change(work, step, from, k, to, raw));
        samba_pieces *kept = from;
        from = to;
        to = kept;
    }
    return samba_chars_add(context, text, from->text.data, (size_t)from->text.size);
}

static samba_status take_text(samba_work *work, const int32_t *ids, int64_t count, bool skip_special, samba_chars *text,
                              samba_token_text *taken)
{
    SAMBA_TRY(samba_decode(work, ids, count, skip_special, false, text));
    taken->text = samba_alloc(work->context, (size_t)text->size + 1);
    if (!taken->text)
        return SAMBA_ERROR_MEMORY;
    if (text->size > 0)
        memcpy(taken->text, text->data, (size_t)text->size);
    taken->text[text->size] = '\0';
    taken->length = (size_t)text->size;
    return SAMBA_OK;
}

samba_status samba_tokenizer_decode(samba_context *context, const samba_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                    bool skip_special, samba_token_text *text)
{
    samba_work work;
    samba_chars all = {0};
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, text);
    *text = (samba_token_text){NULL, 0};
    SAMBA_NEED(context, tokenizer);
    if (count < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_tokenizer_decode: count is %lld", (long long)count);
    if (count > 0)
        SAMBA_NEED(context, ids);
    SAMBA_TRY(samba_work_init(&work, context, tokenizer, false));
    samba_status status = take_text(&work, ids, count, skip_special, &all, text);
    samba_chars_free(context, &all);
    samba_work_free(&work);
    return status;
}

void samba_token_text_free(samba_context *context, samba_token_text *text)
{
    if (!context || !text || !text->text)
        return;
    samba_free(context, text->text, text->length + 1);
    *text = (samba_token_text){NULL, 0};
}
