/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder's steps as a line of stages, through which tokens go one by one: what a stage can tell for good it hands to the
 * next one, the rest it keeps. So decoding at once and decoding id by id are the same walk, and give the same text.
 *
 * A stage gets pieces: a token is one, and so is all that a step joins. A piece comes in parts of whole characters, the last of
 * which ends it. Most steps need a piece whole. Those that may stand behind a step that joins everything (Fuse, Strip, Replace,
 * Metaspace) go by parts. A run of byte tokens is kept until it ends: one bad byte makes all of them U+FFFD. */
#define _GNU_SOURCE /* memmem */
#include "text/text.h"

static const samba_str none = {"", 0}, space = {" ", 1}, broken = {"\xef\xbf\xbd", 3};

static samba_str from(samba_str text, size_t at) { return samba_str_of(text.data + at, text.size - at); }

static bool ends(samba_str text, samba_str with)
{
    return text.size >= with.size && memcmp(text.data + text.size - with.size, with.data, with.size) == 0;
}

static samba_status give(samba_stages *line, int stage, samba_str text, bool end)
{
    if (text.size == 0 && !end)
        return SAMBA_OK;
    return samba_stages_push(line, stage + 1, text, end);
}

/* All of a buffer, which is then empty: a stage whose buffers are empty keeps nothing (decode_plain.c). */
static samba_status give_all(samba_stages *line, int stage, samba_chars *made, bool end)
{
    const samba_str text = samba_chars_view(made);
    made->size = 0;
    return give(line, stage, text, end);
}

/* The first bytes of a stage's text are done. */
static void drop(samba_chars *chars, size_t count)
{
    chars->size -= (int64_t)count;
    if (chars->size > 0 && count > 0)
        memmove(chars->data, chars->data + count, (size_t)chars->size);
}

/* The text with `with` in the place of each `what`; of an empty one, around each character. */
static samba_status add_replaced(samba_context *context, samba_str text, samba_str what, samba_str with, samba_chars *to)
{
    size_t at = 0;
    while (what.size == 0 && with.size > 0 && at < text.size) {
        const size_t size = (size_t)samba_utf8_size(text.data[at]);
        SAMBA_TRY(samba_chars_add(context, to, with.data, with.size));
        SAMBA_TRY(samba_chars_add(context, to, text.data + at, size));
        at += size;
    }
    if (what.size == 0 && with.size > 0)
        SAMBA_TRY(samba_chars_add(context, to, with.data, with.size));
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
    const char *first = text.size > 0 ? memchr(text.data, ' ', text.size) : NULL;
    for (int i = 0; first && i < SAMBA_COUNT(pairs); i++) { /* all of them begin with a space */
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

/* ---- bytes ---- */
static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* The byte of <0xHH>; -1: it is no such token. */
static int byte_of(samba_str token)
{
    if (token.size != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>')
        return -1;
    const int high = token.data[3] == '+' ? 0 : hex(token.data[3]), low = hex(token.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* The whole characters of the bytes that the stage keeps, and a U+FFFD for what cannot become one: for each byte, or for each
 * begin of a character. What further bytes may complete stays, but at the end. */
static samba_status give_characters(samba_stages *line, int stage, bool each, bool end)
{
    samba_chars *made = &line->stages[stage].made;
    const samba_str all = samba_chars_view(made);
    size_t at = 0;
    while (at < all.size) {
        const size_t whole = samba_utf8_valid(all.data + at, all.size - at);
        int bad;
        bool cut;
        SAMBA_TRY(give(line, stage, samba_str_of(all.data + at, whole), false));
        at += whole;
        if (at == all.size)
            break;
        (void)samba_utf8_check(all.data + at, all.size - at, &bad, &cut);
        if (cut && !end)
            break;
        SAMBA_TRY(give(line, stage, broken, false));
        at += each ? 1 : (size_t)bad;
    }
    drop(made, at);
    return SAMBA_OK;
}

/* A run of byte tokens is over: one piece, or one for each byte where they are no text together. */
static samba_status end_run(samba_stages *line, int stage, const samba_text_step *step)
{
    samba_stage *s = &line->stages[stage];
    const samba_str run = samba_chars_view(&s->made);
    if (!s->waits)
        return SAMBA_OK;
    s->waits = false;
    if (step->split) {
        SAMBA_TRY(give_characters(line, stage, true, true));
        return give(line, stage, none, true);
    }
    s->made.size = 0;
    if (samba_utf8_valid(run.data, run.size) == run.size)
        return give(line, stage, run, true);
    for (size_t i = 0; i < run.size; i++)
        SAMBA_TRY(give(line, stage, broken, true));
    return SAMBA_OK;
}

static samba_status byte_fallback(samba_stages *line, int stage, const samba_text_step *step, samba_str text)
{
    samba_stage *s = &line->stages[stage];
    const int byte = byte_of(text);
    if (byte < 0) {
        SAMBA_TRY(end_run(line, stage, step));
        return give(line, stage, text, true);
    }
    s->waits = true;
    SAMBA_TRY(samba_chars_add(line->work->context, &s->made, (char[]){(char)byte}, 1));
    return step->split ? give_characters(line, stage, true, false) : SAMBA_OK;
}

/* The bytes that a token's characters stand for; a token with another character is its own bytes. */
samba_status samba_stages_bytes(samba_context *context, samba_str token, samba_chars *to)
{
    if (token.size == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_chars_room(context, to, token.size));
    char *put = to->data + to->size;
    for (size_t at = 0; at < token.size;) {
        int size;
        const int byte = samba_char_byte(samba_utf8_code(token.data + at, &size));
        if (byte < 0) {
            memcpy(to->data + to->size, token.data, token.size);
            put = to->data + to->size + token.size;
            break;
        }
        *put++ = (char)byte;
        at += (size_t)size;
    }
    to->size = put - to->data;
    return SAMBA_OK;
}

static samba_status byte_level(samba_stages *line, int stage, samba_str text)
{
    SAMBA_TRY(samba_stages_bytes(line->work->context, text, &line->stages[stage].made));
    return give_characters(line, stage, false, false);
}

/* ---- steps that go by parts ---- */
/* U+2581 as a space, but for those that the normalizer has put before the text. */
static samba_status sentencepiece(samba_stages *line, int stage, const samba_text_step *step, samba_str text, bool begin,
                                  bool end)
{
    samba_stage *s = &line->stages[stage];
    const samba_str mark = samba_str_of("\xe2\x96\x81", 3);
    const bool first = (step->prepend == SAMBA_ALWAYS || step->cleanup) && !s->past;
    if (begin)
        s->count = 0; /* 1: a mark has been taken off; 2: more has come */
    if (first && begin && samba_str_begins(text, mark)) {
        text = from(text, mark.size);
        s->count = 1;
    }
    if (text.size > 0)
        s->count = 2;
    if (end) {
        s->past = s->past || s->count == 2 || (s->count == 1 && !step->cleanup);
        s->count = 0;
    }
    SAMBA_TRY(add_replaced(line->work->context, text, mark, space, &s->made));
    return give_all(line, stage, &s->made, end);
}

static samba_status metaspace(samba_stages *line, int stage, const samba_text_step *step, samba_str text, bool end)
{
    samba_stage *s = &line->stages[stage];
    SAMBA_TRY(
        add_replaced(line->work->context, text, step->text, !s->past && step->prepend != SAMBA_NEVER ? none : space, &s->made));
    s->past |= end;
    return give_all(line, stage, &s->made, end);
}

/* Those at the end may be followed by more: as many as are to go at the end are kept. */
static samba_status strip(samba_stages *line, int stage, const samba_text_step *step, samba_str text, bool begin, bool end)
{
    samba_stage *s = &line->stages[stage];
    const samba_str what = step->text;
    int64_t run = 0;
    if (begin)
        s->count = s->run = s->made.size = 0; /* also of a text that broke off */
    for (; s->count < step->start && samba_str_begins(text, what); s->count++)
        text = from(text, what.size);
    if (text.size > 0)
        s->count = step->start;
    SAMBA_TRY(samba_chars_add(line->work->context, &s->made, text.data, text.size));
    for (; text.size > 0 && ends(text, what); run++)
        text.size -= what.size;
    run += text.size > 0 ? 0 : s->run;
    s->run = run < step->stop ? run : step->stop;
    text = samba_chars_view(&s->made);
    text.size -= (size_t)s->run * what.size;
    SAMBA_TRY(give(line, stage, text, end));
    drop(&s->made, text.size);
    if (end)
        s->count = s->run = s->made.size = 0;
    return SAMBA_OK;
}

/* The bytes at the end that may begin a match. */
static size_t may_begin(samba_str text, samba_str what)
{
    size_t size = what.size - 1 < text.size ? what.size - 1 : text.size;
    if (what.size > 64)
        return size;
    while (size > 0 && memcmp(text.data + text.size - size, what.data, size) != 0)
        size--;
    return size;
}

/* Of a text in parts, the part up to the last place where the pattern may yet match. */
static samba_status replace_in_parts(samba_stages *line, int stage, const samba_text_step *step, samba_str text, bool end)
{
    samba_stage *s = &line->stages[stage];
    const samba_str what = step->text;
    size_t at = 0;
    SAMBA_TRY(samba_chars_add(line->work->context, &s->held, text.data, text.size));
    text = samba_chars_view(&s->held);
    while (at < text.size) {
        const char *found = memmem(text.data + at, text.size - at, what.data, what.size);
        size_t to = found ? (size_t)(found - text.data) : text.size - (end ? 0 : may_begin(from(text, at), what));
        while (to > at && to < text.size && (text.data[to] & 0xc0) == 0x80) /* whole characters */
            to--;
        SAMBA_TRY(give(line, stage, samba_str_of(text.data + at, to - at), false));
        at = to;
        if (!found)
            break;
        SAMBA_TRY(give(line, stage, step->with, false));
        at += what.size;
    }
    drop(&s->held, at);
    return end ? give(line, stage, none, true) : SAMBA_OK;
}

/* ---- steps that take a piece whole ---- */
static samba_status wordpiece(samba_stages *line, int stage, const samba_text_step *step, samba_str text)
{
    samba_stage *s = &line->stages[stage];
    samba_chars *made = &s->made;
    if (s->past && samba_str_begins(text, step->text))
        text = from(text, step->text.size);
    else if (s->past) {
        SAMBA_TRY(samba_chars_add(line->work->context, made, " ", 1));
        SAMBA_TRY(samba_chars_add(line->work->context, made, text.data, text.size));
        text = samba_chars_view(made);
        made->size = 0;
    }
    s->past = true;
    samba_str cleaned = text;
    if (step->cleanup)
        SAMBA_TRY(clean_up(line->work, text, &cleaned));
    if (cleaned.data != text.data) { /* the stages behind clean up in the same buffers */
        SAMBA_TRY(samba_chars_add(line->work->context, made, cleaned.data, cleaned.size));
        return give_all(line, stage, made, true);
    }
    return give(line, stage, cleaned, true);
}

static samba_status ctc(samba_stages *line, int stage, const samba_text_step *step, samba_str text)
{
    samba_stage *s = &line->stages[stage];
    samba_context *context = line->work->context;
    samba_chars *made = &s->made, *before = &s->before;
    if (s->past && samba_str_equal(text, samba_chars_view(before)))
        return SAMBA_OK;
    s->past = true;
    before->size = made->size = 0;
    SAMBA_TRY(samba_chars_add(context, before, text.data, text.size));
    SAMBA_TRY(add_replaced(context, text, step->text, none, made));
    if (step->cleanup) {
        SAMBA_TRY(clean_up(line->work, samba_chars_view(made), &text));
        made = &s->held;
        SAMBA_TRY(add_replaced(context, text, step->with, space, made));
    }
    return made->size > 0 ? give_all(line, stage, made, true) : SAMBA_OK;
}

/* BPE's ends of words are spaces, but in the last token: from one on, a token waits for the next. */
static samba_status end_of_words(samba_stages *line, int stage, const samba_text_step *step, bool last)
{
    samba_stage *s = &line->stages[stage];
    if (!s->waits)
        return SAMBA_OK;
    s->waits = false;
    SAMBA_TRY(add_replaced(line->work->context, samba_chars_view(&s->before), step->text, last ? none : space, &s->made));
    s->before.size = 0;
    return give_all(line, stage, &s->made, true);
}

static samba_status bpe(samba_stages *line, int stage, const samba_text_step *step, samba_str text)
{
    samba_stage *s = &line->stages[stage];
    SAMBA_TRY(end_of_words(line, stage, step, false));
    const char *found = step->text.size == 0 ? text.data
                        : text.size > 0      ? memmem(text.data, text.size, step->text.data, step->text.size)
                                             : NULL;
    if (!found)
        return give(line, stage, text, true);
    const size_t begin = (size_t)(found - text.data);
    s->waits = true;
    SAMBA_TRY(samba_chars_add(line->work->context, &s->before, found, text.size - begin));
    return give(line, stage, samba_str_of(text.data, begin), false);
}

static samba_status replace(samba_stages *line, int stage, const samba_text_step *step, samba_str text)
{
    samba_chars *made = &line->stages[stage].made;
    SAMBA_TRY(samba_normalize_replace(line->work, step, text, made));
    return give_all(line, stage, made, true);
}

samba_status samba_stages_push(samba_stages *line, int stage, samba_str text, bool end)
{
    const samba_text_steps *steps = &line->work->tokenizer->decoder;
    if (stage == steps->count)
        return samba_chars_add(line->work->context, line->to, text.data, text.size);
    const samba_text_step *step = &steps->steps[stage];
    samba_stage *s = &line->stages[stage];
    const bool begin = !s->open;
    s->open = !end;
    switch (step->kind) {
    case SAMBA_STEP_DECODE_FUSE: return give(line, stage, text, false);
    case SAMBA_STEP_DECODE_STRIP: return strip(line, stage, step, text, begin, end);
    case SAMBA_STEP_DECODE_METASPACE: return metaspace(line, stage, step, text, end);
    case SAMBA_STEP_DECODE_SENTENCEPIECE: return sentencepiece(line, stage, step, text, begin, end);
    case SAMBA_STEP_DECODE_REPLACE:
        if (!step->regex && step->text.size > 0 && (!begin || !end))
            return replace_in_parts(line, stage, step, text, end);
        break;
    default: break;
    }
    if (!begin || !end) { /* the rest take whole pieces */
        s->held.size = begin ? 0 : s->held.size;
        SAMBA_TRY(samba_chars_add(line->work->context, &s->held, text.data, text.size));
        if (!end)
            return SAMBA_OK;
        text = samba_chars_view(&s->held);
        s->held.size = 0;
    }
    switch (step->kind) {
    case SAMBA_STEP_DECODE_BYTES: return byte_level(line, stage, text);
    case SAMBA_STEP_DECODE_BYTE_FALLBACK: return byte_fallback(line, stage, step, text);
    case SAMBA_STEP_DECODE_WORDPIECE: return wordpiece(line, stage, step, text);
    case SAMBA_STEP_DECODE_CTC: return ctc(line, stage, step, text);
    case SAMBA_STEP_DECODE_BPE: return bpe(line, stage, step, text);
    default: return replace(line, stage, step, text);
    }
}

samba_status samba_stages_end(samba_stages *line)
{
    const samba_text_steps *steps = &line->work->tokenizer->decoder;
    for (int i = 0; i < steps->count; i++)
        switch (steps->steps[i].kind) {
        case SAMBA_STEP_DECODE_FUSE: SAMBA_TRY(give(line, i, none, true)); break;
        case SAMBA_STEP_DECODE_BYTES:
            SAMBA_TRY(give_characters(line, i, false, true));
            SAMBA_TRY(give(line, i, none, true));
            break;
        case SAMBA_STEP_DECODE_BYTE_FALLBACK: SAMBA_TRY(end_run(line, i, &steps->steps[i])); break;
        case SAMBA_STEP_DECODE_BPE: SAMBA_TRY(end_of_words(line, i, &steps->steps[i], true)); break;
        default: break;
        }
    return SAMBA_OK;
}
