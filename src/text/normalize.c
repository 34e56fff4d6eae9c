/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalizers: each step reads the text that the one before it has made and writes its own, in two buffers by turns. Without
 * steps the text is the caller's. The first character of a text matters to a Metaspace that marks only the begin of all: where a
 * step takes it away, no piece begins there any more. */
#define _GNU_SOURCE /* memmem */
#include "text/text.h"

samba_status samba_search_next(samba_work *work, const samba_text_step *step, samba_str text, samba_search *search, size_t *begin,
                               size_t *end)
{
    *begin = *end = SIZE_MAX;
    if (!step->regex) {
        const char *found = step->text.size > 0 && search->at < text.size
                                ? memmem(text.data + search->at, text.size - search->at, step->text.data, step->text.size)
                                : NULL;
        if (found) {
            *begin = (size_t)(found - text.data);
            search->at = *end = *begin + step->text.size;
        }
        return SAMBA_OK;
    }
    while (search->at <= text.size && text.size > 0) {
        SAMBA_TRY(samba_regex_find(step->regex, work->matcher, text, search->at, begin, end));
        if (*begin == SIZE_MAX)
            break;
        if (*begin != *end || search->last != *end) {
            search->at = search->last = *end;
            return SAMBA_OK;
        }
        /* An empty match behind another match is none. */
        search->at += search->at < text.size ? (size_t)samba_utf8_size(text.data[search->at]) : 1;
        *begin = *end = SIZE_MAX;
    }
    return SAMBA_OK;
}

samba_status samba_normalize_replace(samba_work *work, const samba_text_step *step, samba_str text, samba_chars *to)
{
    samba_search search = {0, SIZE_MAX};
    size_t done = 0;
    for (;;) {
        size_t begin, end;
        SAMBA_TRY(samba_search_next(work, step, text, &search, &begin, &end));
        if (begin == SIZE_MAX)
            break;
        SAMBA_TRY(samba_chars_add(work->context, to, text.data + done, begin - done));
        SAMBA_TRY(samba_chars_add(work->context, to, step->with.data, step->with.size));
        done = end;
    }
    return samba_chars_add(work->context, to, text.data + done, text.size - done);
}

static samba_status lowercase(samba_context *context, samba_str text, samba_chars *to)
{
    SAMBA_TRY(samba_chars_room(context, to, text.size * 2 + 8)); /* U+0130 becomes two; others at most half as long again */
    for (size_t at = 0; at < text.size;) {
        int size;
        const uint32_t c = samba_utf8_code(text.data + at, &size);
        at += (size_t)size;
        SAMBA_TRY(samba_chars_room(context, to, 8));
        if (c == 0x130) {
            memcpy(to->data + to->size, "i\xcc\x87", 3);
            to->size += 3;
        } else
            to->size += samba_utf8_put(samba_char_lower(c), to->data + to->size);
    }
    return SAMBA_OK;
}

static samba_status drop(samba_context *context, bool (*belongs)(uint32_t c), samba_str text, samba_chars *to, bool *shifted)
{
    for (size_t at = 0; at < text.size;) {
        int size;
        const uint32_t c = samba_utf8_code(text.data + at, &size);
        if (!belongs(c))
            SAMBA_TRY(samba_chars_add(context, to, text.data + at, (size_t)size));
        else if (at == 0)
            *shifted = true;
        at += (size_t)size;
    }
    return SAMBA_OK;
}

static samba_status clean(samba_context *context, int flags, samba_str text, samba_chars *to, bool *shifted)
{
    for (size_t at = 0; at < text.size;) {
        int size;
        uint32_t c = samba_utf8_code(text.data + at, &size);
        const bool out = flags & 1 && samba_char_is_unclean(c);
        const bool around = flags & 2 && samba_char_is_ideograph(c);
        *shifted |= out && at == 0;
        if (flags & 1 && samba_char_is_space(c))
            c = ' ';
        if (around)
            SAMBA_TRY(samba_chars_add(context, to, " ", 1));
        if (!out)
            SAMBA_TRY(samba_chars_add_code(context, to, c));
        if (around)
            SAMBA_TRY(samba_chars_add(context, to, " ", 1));
        at += (size_t)size;
    }
    return SAMBA_OK;
}

static samba_status nmt(samba_context *context, samba_str text, samba_chars *to, bool *shifted)
{
    for (size_t at = 0; at < text.size;) {
        int size;
        uint32_t c = samba_utf8_code(text.data + at, &size);
        const bool out = (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
        *shifted |= out && at == 0;
        at += (size_t)size;
        if (c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 ||
            c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
            c = ' ';
        if (!out)
            SAMBA_TRY(samba_chars_add_code(context, to, c));
    }
    return SAMBA_OK;
}

static samba_str strip(int flags, samba_str text, bool *shifted)
{
    int size;
    while (flags & 1 && text.size > 0 && samba_char_is_space(samba_utf8_code(text.data, &size))) {
        text = samba_str_of(text.data + size, text.size - (size_t)size);
        *shifted = true;
    }
    while (flags & 2 && text.size > 0) {
        size_t last = text.size - 1;
        while (last > 0 && (text.data[last] & 0xc0) == 0x80)
            last--;
        if (!samba_char_is_space(samba_utf8_code(text.data + last, &size)))
            break;
        text.size = last;
    }
    return text;
}

samba_status samba_normal_text(samba_work *work, const samba_text_steps *steps, samba_str text, samba_str *normal, size_t *zero)
{
    samba_context *context = work->context;
    int turn = 0;
    bool shifted = false;
    *zero = text.size > 0 ? (size_t)samba_utf8_size(text.data[0]) : 0;
    for (int i = 0; i < steps->count; i++) {
        const samba_text_step *step = &steps->steps[i];
        if (step->kind == SAMBA_STEP_STRIP) {
            text = strip(step->flags, text, &shifted);
            continue;
        }
        samba_chars *to = &work->normal[turn];
        to->size = 0;
        turn = !turn;
        switch (step->kind) {
        case SAMBA_STEP_FORM: SAMBA_TRY(samba_normalize_form(work, (samba_form)step->flags, text, to)); break;
        case SAMBA_STEP_LOWERCASE: SAMBA_TRY(lowercase(context, text, to)); break;
        case SAMBA_STEP_DROP_CLASS: SAMBA_TRY(drop(context, step->belongs, text, to, &shifted)); break;
        case SAMBA_STEP_REPLACE: SAMBA_TRY(samba_normalize_replace(work, step, text, to)); break;
        case SAMBA_STEP_BERT: SAMBA_TRY(clean(context, step->flags, text, to, &shifted)); break;
        case SAMBA_STEP_NMT: SAMBA_TRY(nmt(context, text, to, &shifted)); break;
        case SAMBA_STEP_PRECOMPILED: SAMBA_TRY(samba_charsmap_apply(context, step->charsmap, text, to)); break;
        case SAMBA_STEP_BYTES: SAMBA_TRY(samba_bytes_as_chars(context, text, to)); break;
        case SAMBA_STEP_SENTENCEPIECE: SAMBA_TRY(samba_sentencepiece_normalize(work, step, text, to)); break;
        default: /* PREPEND */
            if (text.size > 0)
                SAMBA_TRY(samba_chars_add(context, to, step->with.data, step->with.size));
            SAMBA_TRY(samba_chars_add(context, to, text.data, text.size));
        }
        const size_t before = *zero;
        if (step->kind == SAMBA_STEP_PREPEND)
            *zero += text.size > 0 ? step->with.size : 0;
        else if (step->kind == SAMBA_STEP_BYTES) /* two for some */
            for (size_t k = 0; k < before; k++)
                *zero += samba_byte_char((uint8_t)text.data[k]) >= 0x80;
        else
            *zero = to->size > 0 ? (size_t)samba_utf8_size(to->data[0]) : 0;
        text = samba_chars_view(to);
    }
    *zero = shifted ? 0 : *zero;
    *normal = text;
    return SAMBA_OK;
}
