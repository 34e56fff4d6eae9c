/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-tokenizers: each step cuts a piece into smaller ones, which the next step cuts, until the model has ids for them. Steps
 * call each other, one deeper for each, so pieces are never listed. A step that changes a piece writes it into its own buffer.
 *
 * A splitter finds matches; its behavior says what becomes of them and of what lies between: dropped, pieces of their own, joined
 * with a neighbour. A match is joined only with what is none. */
#include "text/text.h"

typedef struct cutter {
    samba_work *work;
    int next; /* the step that gets the pieces */
    const samba_text_step *step;
    samba_str piece;
    size_t zero;       /* so many bytes at its begin come from the begin of the text */
    size_t begin, end; /* what waits for its neighbour; begin SIZE_MAX: nothing */
    bool matched;      /* whether it is a match */
} cutter;

static samba_status emit(cutter *c, size_t begin, size_t end)
{
    if (begin >= end)
        return SAMBA_OK;
    return samba_split_text(c->work, c->next, samba_str_of(c->piece.data + begin, end - begin),
                            c->zero > begin ? c->zero - begin : 0);
}

static samba_status flush(cutter *c)
{
    const size_t begin = c->begin;
    c->begin = SIZE_MAX;
    return begin == SIZE_MAX ? SAMBA_OK : emit(c, begin, c->end);
}

/* The next part of the piece, in order; all of it comes. */
static samba_status part(cutter *c, size_t begin, size_t end, bool match)
{
    match ^= c->step->invert;
    bool join = false;
    switch (c->step->behavior) {
    case SAMBA_REMOVED: return match ? SAMBA_OK : emit(c, begin, end);
    case SAMBA_ISOLATED: return emit(c, begin, end);
    case SAMBA_CONTIGUOUS: join = c->begin != SIZE_MAX && c->matched == match; break;
    case SAMBA_MERGED_WITH_PREVIOUS: join = c->begin != SIZE_MAX && match && !c->matched; break;
    case SAMBA_MERGED_WITH_NEXT: join = c->begin != SIZE_MAX && !match && c->matched; break;
    }
    if (join)
        c->end = end;
    else {
        SAMBA_TRY(flush(c));
        c->begin = begin;
        c->end = end;
    }
    c->matched = match;
    return SAMBA_OK;
}

/* By a pattern: a text or a regular expression. */
static samba_status split_pattern(cutter *c)
{
    samba_search search = {0, SIZE_MAX};
    size_t done = 0;
    for (;;) {
        size_t begin, end;
        SAMBA_TRY(samba_search_next(c->work, c->step, c->piece, &search, &begin, &end));
        if (begin == SIZE_MAX)
            break;
        if (done < begin)
            SAMBA_TRY(part(c, done, begin, false));
        SAMBA_TRY(part(c, begin, end, true));
        done = end;
    }
    if (done < c->piece.size)
        SAMBA_TRY(part(c, done, c->piece.size, false));
    return flush(c);
}

/* By a class of characters, each a match. */
static samba_status split_class(cutter *c)
{
    size_t done = 0;
    for (size_t at = 0; at < c->piece.size;) {
        int size;
        const uint32_t code = samba_utf8_code(c->piece.data + at, &size);
        const size_t end = at + (size_t)size;
        if (c->step->belongs(code)) {
            if (done < at)
                SAMBA_TRY(part(c, done, at, false));
            SAMBA_TRY(part(c, at, end, true));
            done = end;
        }
        at = end;
    }
    if (done < c->piece.size)
        SAMBA_TRY(part(c, done, c->piece.size, false));
    return flush(c);
}

/* Runs of words and of what is neither word nor space. */
static samba_status split_words(cutter *c)
{
    size_t begin = 0;
    int before = 0; /* 0 space, 1 word, 2 neither */
    for (size_t at = 0; at <= c->piece.size;) {
        int size = 1, kind = 0;
        if (at < c->piece.size) {
            const uint32_t code = samba_utf8_code(c->piece.data + at, &size);
            kind = samba_char_is_word(code) ? 1 : samba_char_is_space(code) ? 0 : 2;
        }
        if (kind != before) {
            if (before != 0)
                SAMBA_TRY(emit(c, begin, at));
            begin = at;
            before = kind;
        }
        at += (size_t)size;
    }
    return SAMBA_OK;
}

/* Where the script changes. Characters of any script, -2, stay with those before them; at the begin they are left out. */
static samba_status split_scripts(cutter *c)
{
    size_t begin = 0;
    int before = -3; /* none yet */
    for (size_t at = 0; at < c->piece.size;) {
        int size;
        const int script = samba_char_script(samba_utf8_code(c->piece.data + at, &size));
        if (script != -2 && script != before) {
            if (before != -3)
                SAMBA_TRY(emit(c, begin, at));
            begin = at;
        }
        before = script == -2 ? before : script;
        at += (size_t)size;
    }
    return before == -3 ? SAMBA_OK : emit(c, begin, c->piece.size);
}

static samba_status split_length(cutter *c)
{
    size_t begin = 0;
    int64_t count = 0;
    for (size_t at = 0; at < c->piece.size;) {
        if (count == c->step->start) {
            SAMBA_TRY(emit(c, begin, at));
            begin = at;
            count = 0;
        }
        at += (size_t)samba_utf8_size(c->piece.data[at]);
        count++;
    }
    return emit(c, begin, c->piece.size);
}

/* Spaces become the replacement, which also marks the begin; pieces begin with it. */
static samba_status metaspace(cutter *c)
{
    const samba_text_step *step = c->step;
    samba_chars *to = &c->work->steps[c->next - 1];
    samba_context *context = c->work->context;
    to->size = 0;
    const bool marked = samba_str_begins(c->piece, step->text) || c->piece.data[0] == ' ';
    const bool mark = step->prepend == SAMBA_ALWAYS || (step->prepend == SAMBA_FIRST && c->zero > 0);
    if (mark && !marked)
        SAMBA_TRY(samba_chars_add(context, to, step->text.data, step->text.size));
    for (size_t at = 0; at < c->piece.size;) {
        const char *space = memchr(c->piece.data + at, ' ', c->piece.size - at);
        const size_t end = space ? (size_t)(space - c->piece.data) : c->piece.size;
        SAMBA_TRY(samba_chars_add(context, to, c->piece.data + at, end - at));
        if (space)
            SAMBA_TRY(samba_chars_add(context, to, step->text.data, step->text.size));
        at = end + (space != NULL);
    }
    c->piece = samba_chars_view(to);
    return step->split ? split_pattern(c) : emit(c, 0, c->piece.size);
}

/* Each match of GPT-2's expression, its bytes as characters. */
static samba_status byte_level(cutter *c)
{
    samba_context *context = c->work->context;
    samba_chars *to = &c->work->steps[c->next - 1], *spaced = &c->work->spaced[c->next - 1];
    if (c->step->prepend == SAMBA_ALWAYS && c->piece.data[0] != ' ') {
        spaced->size = 0;
        SAMBA_TRY(samba_chars_add(context, spaced, " ", 1));
        SAMBA_TRY(samba_chars_add(context, spaced, c->piece.data, c->piece.size));
        c->piece = samba_chars_view(spaced);
        c->zero += c->zero > 0;
    }
    for (size_t at = 0; at < c->piece.size;) {
        size_t end = c->step->split ? samba_gpt2_end(c->piece, at) : c->piece.size;
        to->size = 0;
        SAMBA_TRY(samba_bytes_as_chars(context, samba_str_of(c->piece.data + at, end - at), to));
        size_t zero = 0; /* of the characters that stand for its bytes */
        for (size_t i = at; i < end && i < c->zero; i++)
            zero += samba_byte_char((uint8_t)c->piece.data[i]) < 0x80 ? 1 : 2;
        SAMBA_TRY(samba_split_text(c->work, c->next, samba_chars_view(to), zero));
        at = end;
    }
    return SAMBA_OK;
}

samba_status samba_split_text(samba_work *work, int step, samba_str piece, size_t zero)
{
    const samba_text_steps *steps = &work->tokenizer->splitter;
    if (piece.size == 0)
        return SAMBA_OK;
    if (step == steps->count)
        return samba_model_ids(work, piece);
    cutter c = {work, step + 1, &steps->steps[step], piece, zero, SIZE_MAX, 0, false};
    switch (c.step->kind) {
    case SAMBA_STEP_BYTE_LEVEL: return byte_level(&c);
    case SAMBA_STEP_WHITESPACE: return split_words(&c);
    case SAMBA_STEP_SPLIT_CLASS: return split_class(&c);
    case SAMBA_STEP_METASPACE: return metaspace(&c);
    case SAMBA_STEP_SCRIPTS: return split_scripts(&c);
    case SAMBA_STEP_FIXED_LENGTH: return split_length(&c);
    default: return split_pattern(&c);
    }
}
