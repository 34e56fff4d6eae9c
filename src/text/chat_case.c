/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as Python changes them: upper and lower case by Unicode's rules, the final sigma among them; white space; lines. */
#define _GNU_SOURCE /* memmem */
#include "text/chat.h"

#include "text/chat_case.h"

#include <utf8proc.h>

bool samba_chat_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The last character of a text that is not empty. */
static uint32_t last_code(samba_str text, int *size)
{
    size_t at = text.size - 1;
    while (at > 0 && ((unsigned char)text.data[at] & 0xc0) == 0x80)
        at--;
    return samba_utf8_code(text.data + at, size);
}

static bool stripped(samba_str of, const char *at, int size, uint32_t c)
{
    if (!of.data)
        return samba_chat_is_space(c);
    return of.size > 0 && memmem(of.data, of.size, at, (size_t)size) != NULL; /* UTF-8: no character lies within another */
}

samba_str samba_chat_strip(samba_str text, samba_str of, bool left, bool right)
{
    int size;
    while (left && text.size > 0) {
        const uint32_t c = samba_utf8_code(text.data, &size);
        if (!stripped(of, text.data, size, c))
            break;
        text = samba_str_of(text.data + size, text.size - (size_t)size);
    }
    while (right && text.size > 0) {
        const uint32_t c = last_code(text, &size);
        if (!stripped(of, text.data + text.size - size, size, c))
            break;
        text.size -= (size_t)size;
    }
    return text;
}

/* ---- case ---- */
static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

/* Letters of other categories that have a case: modifiers and the like. */
static bool otherwise_cased(uint32_t c)
{
    static const samba_span spans[] = {
        {0xaa, 0xaa},       {0xba, 0xba},       {0x2b0, 0x2b8},     {0x2c0, 0x2c1},     {0x2e0, 0x2e4},     {0x345, 0x345},
        {0x37a, 0x37a},     {0x10fc, 0x10fc},   {0x1d2c, 0x1d6a},   {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},   {0x2071, 0x2071},
        {0x207f, 0x207f},   {0x2090, 0x209c},   {0x2160, 0x217f},   {0x24b6, 0x24e9},   {0x2c7c, 0x2c7d},   {0xa69c, 0xa69d},
        {0xa770, 0xa770},   {0xa7f2, 0xa7f4},   {0xa7f8, 0xa7f9},   {0xab5c, 0xab5f},   {0xab69, 0xab69},   {0x10780, 0x10780},
        {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
    for (int i = 0; i < SAMBA_COUNT(spans); i++)
        if (c >= spans[i].first && c <= spans[i].last)
            return true;
    return false;
}

static bool cased(uint32_t c)
{
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT || otherwise_cased(c);
}

/* Between a sigma and the letters around it. */
static bool ignored(uint32_t c)
{
    static const uint32_t signs[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                     0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    const utf8proc_category_t k = category(c);
    for (int i = 0; i < SAMBA_COUNT(signs); i++)
        if (c == signs[i])
            return true;
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
           k == UTF8PROC_CATEGORY_SK;
}

static bool sigma_is_final(samba_str text, size_t at)
{
    int size;
    samba_str before = samba_str_of(text.data, at), behind = samba_str_of(text.data + at + 2, text.size - at - 2);
    uint32_t c = 0;
    while (before.size > 0 && ignored(c = last_code(before, &size)))
        before.size -= (size_t)size;
    if (before.size == 0 || !cased(c))
        return false;
    while (behind.size > 0 && ignored(c = samba_utf8_code(behind.data, &size)))
        behind = samba_str_of(behind.data + size, behind.size - (size_t)size);
    return behind.size == 0 || !cased(c);
}

static samba_status put_code(samba_chat_run *w, samba_chat_buffer *b, uint32_t code)
{
    char bytes[4];
    const int size = samba_utf8_put(code, bytes);
    return samba_chat_put(w, b, bytes, (size_t)size);
}

/* The character at `at` of the text in another case. */
static samba_status put_cased(samba_chat_run *w, samba_chat_buffer *b, samba_str text, size_t at, samba_chat_case to)
{
    int size;
    const uint32_t c = samba_utf8_code(text.data + at, &size);
    if (to == SAMBA_CHAT_LOWER && c == 0x3a3) {
        SAMBA_TRY(samba_chat_charge(w, 1));
        return put_code(w, b, sigma_is_final(text, at) ? 0x3c2 : 0x3c3);
    }
    if (to == SAMBA_CHAT_LOWER && c == 0x130) {
        SAMBA_TRY(put_code(w, b, 'i'));
        return put_code(w, b, 0x307);
    }
    for (int i = 0; to != SAMBA_CHAT_LOWER && c >= 0xdf && i < SAMBA_COUNT(SAMBA_CHAT_LETTERS); i++)
        if (SAMBA_CHAT_LETTERS[i].from == c) {
            const uint16_t *of = to == SAMBA_CHAT_UPPER ? SAMBA_CHAT_LETTERS[i].upper : SAMBA_CHAT_LETTERS[i].title;
            for (int k = 0; k < 3 && of[k]; k++)
                SAMBA_TRY(put_code(w, b, of[k]));
            return SAMBA_OK;
        }
    const utf8proc_int32_t code = (utf8proc_int32_t)c;
    return put_code(w, b,
                    (uint32_t)(to == SAMBA_CHAT_LOWER   ? utf8proc_tolower(code)
                               : to == SAMBA_CHAT_UPPER ? utf8proc_toupper(code)
                                                        : utf8proc_totitle(code)));
}

samba_status samba_chat_cased(samba_chat_run *w, samba_str text, samba_chat_case to, samba_chat_value *result)
{
    samba_chat_buffer b = {0};
    bool within = false; /* a word */
    SAMBA_TRY(samba_chat_charge(w, text.size / 8));
    for (size_t at = 0; at < text.size; at += (size_t)samba_utf8_size(text.data[at])) {
        int size;
        samba_chat_case how = to;
        if (to == SAMBA_CHAT_CAPITALIZE)
            how = at == 0 ? SAMBA_CHAT_TITLE : SAMBA_CHAT_LOWER;
        else if (to == SAMBA_CHAT_TITLE) {
            how = within ? SAMBA_CHAT_LOWER : SAMBA_CHAT_TITLE;
            within = cased(samba_utf8_code(text.data + at, &size));
        }
        SAMBA_TRY(put_cased(w, &b, text, at, how));
    }
    *result = samba_chat_taken(&b);
    return SAMBA_OK;
}

/* ---- parts ---- */
samba_status samba_chat_replace(samba_chat_run *w, samba_str text, samba_str old, samba_str with, int64_t most,
                                samba_chat_value *result)
{
    samba_chat_buffer b = {0};
    size_t at = 0;
    SAMBA_TRY(samba_chat_charge(w, text.size / 16));
    for (int64_t done = 0; most < 0 || done < most; done++) {
        size_t found = at;
        if (old.size > 0) {
            const char *place = text.size - at >= old.size ? memmem(text.data + at, text.size - at, old.data, old.size) : NULL;
            if (!place)
                break;
            found = (size_t)(place - text.data);
        }
        SAMBA_TRY(samba_chat_charge(w, 1));
        SAMBA_TRY(samba_chat_put(w, &b, text.data + at, found - at));
        SAMBA_TRY(samba_chat_put(w, &b, with.data, with.size));
        at = found + old.size;
        if (old.size == 0) { /* before each character and behind the last */
            if (at >= text.size)
                break;
            const size_t size = (size_t)samba_utf8_size(text.data[at]);
            SAMBA_TRY(samba_chat_put(w, &b, text.data + at, size));
            at += size;
        }
    }
    SAMBA_TRY(samba_chat_put(w, &b, text.data + at, text.size - at));
    *result = samba_chat_taken(&b);
    return SAMBA_OK;
}

samba_status samba_chat_lines(samba_chat_run *w, samba_str text, bool ends, samba_chat_list **lines)
{
    SAMBA_TRY(samba_chat_list_new(w, lines));
    SAMBA_TRY(samba_chat_charge(w, text.size / 8));
    for (size_t from = 0, at = 0; at < text.size;) {
        int size;
        const uint32_t c = samba_utf8_code(text.data + at, &size);
        const bool ended = (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
        size_t behind = at + (size_t)size;
        if (c == '\r' && behind < text.size && text.data[behind] == '\n')
            behind++;
        if (ended || behind >= text.size) {
            const size_t to = ends || !ended ? behind : at;
            SAMBA_TRY(samba_chat_list_add(w, *lines, samba_chat_text_of(samba_str_of(text.data + from, to - from))));
            from = behind;
        }
        at = behind;
    }
    return SAMBA_OK;
}
