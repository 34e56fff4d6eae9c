/* SPDX-License-Identifier: Apache-2.0
 *
 * Unicode's forms of normalization, NFC, NFD, NFKC and NFKD, over utf8proc's tables. Runs of characters that no form changes are
 * copied. Others are decomposed, their marks ordered by class, and composed again, with the character before them, which a mark
 * may join. Characters that are newer than the tables of `tokenizers` stay as they are, between any others.
 *
 * Marks are ordered by counting, so a text of nothing but marks takes time in proportion to it. */
#include "text/text.h"

#include <utf8proc.h>

#define CODE(x) ((x)&0x1fffff) /* a character with its class above it */

static samba_status code_room(samba_work *work, int64_t needed)
{
    return SAMBA_GROW(work->context, work->codes, work->code_room, needed);
}

/* Orders each run of marks by class. `scratch` has room for as many. */
static void order(uint32_t *codes, int64_t count, uint32_t *scratch)
{
    for (int64_t i = 0; i < count;) {
        int64_t end = i;
        bool ordered = true;
        for (; end < count && codes[end] >> 21; end++)
            ordered &= end == i || codes[end] >> 21 >= codes[end - 1] >> 21;
        if (!ordered) {
            int64_t places[256] = {0}, place = 0;
            for (int64_t k = i; k < end; k++)
                places[codes[k] >> 21]++;
            for (int c = 0; c < 256; c++) {
                const int64_t of = places[c];
                places[c] = place;
                place += of;
            }
            for (int64_t k = i; k < end; k++)
                scratch[places[codes[k] >> 21]++] = codes[k];
            memcpy(codes + i, scratch, (size_t)(end - i) * sizeof *codes);
        }
        i = end + (end == i);
    }
}

/* A run of characters, none of which is unnormalized. */
static samba_status convert(samba_work *work, samba_form form, samba_str text, samba_chars *to)
{
    utf8proc_option_t options = UTF8PROC_STABLE;
    options |= form & 1 ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    options |= form & 4 ? UTF8PROC_COMPAT : 0;
    int64_t count = 0;
    for (size_t at = 0; at < text.size;) {
        int size, bound = UTF8PROC_BOUNDCLASS_START;
        const uint32_t c = samba_utf8_code(text.data + at, &size);
        at += (size_t)size;
        SAMBA_TRY(code_room(work, (count + 32) * 2));
        utf8proc_ssize_t made = utf8proc_decompose_char((utf8proc_int32_t)c, work->codes + count, 32, options, &bound);
        if (made < 0 || made > 32)
            return samba_fail(work->context, SAMBA_ERROR_INTERNAL, "U+%04X cannot be decomposed; please report it", c);
        count += made;
    }
    uint32_t *codes = (uint32_t *)work->codes;
    for (int64_t i = 0; i < count; i++)
        codes[i] |= (uint32_t)utf8proc_get_property(work->codes[i])->combining_class << 21;
    order(codes, count, codes + count);
    for (int64_t i = 0; i < count; i++)
        codes[i] = CODE(codes[i]);
    if (form & 1)
        count = utf8proc_normalize_utf32(work->codes, count, options);
    if (count < 0)
        return samba_fail(work->context, SAMBA_ERROR_INTERNAL, "a text cannot be composed; please report it");
    SAMBA_TRY(samba_chars_room(work->context, to, (size_t)count * 4));
    for (int64_t i = 0; i < count; i++)
        to->size += samba_utf8_put(codes[i], to->data + to->size);
    return SAMBA_OK;
}

samba_status samba_normalize_form(samba_work *work, samba_form form, samba_str text, samba_chars *to)
{
    const uint32_t plain = form == SAMBA_NFC ? 0x300 : form == SAMBA_NFD ? 0xc0 : 0xa0;
    for (size_t at = 0; at < text.size;) {
        size_t end = at, last = at; /* the plain ones, and where the last of them begins */
        int size;
        for (; end < text.size; end += (size_t)size) {
            if (samba_utf8_code(text.data + end, &size) >= plain)
                break;
            last = end;
        }
        if (end == text.size)
            return samba_chars_add(work->context, to, text.data + at, end - at);
        SAMBA_TRY(samba_chars_add(work->context, to, text.data + at, last - at));
        for (at = last; end < text.size; end += (size_t)size) {
            const uint32_t c = samba_utf8_code(text.data + end, &size);
            if (c < plain)
                break;
            if (samba_char_is_unnormalized(c)) {
                SAMBA_TRY(convert(work, form, samba_str_of(text.data + at, end - at), to));
                SAMBA_TRY(samba_chars_add(work->context, to, text.data + end, (size_t)size));
                at = end + (size_t)size;
            }
        }
        SAMBA_TRY(convert(work, form, samba_str_of(text.data + at, end - at), to));
        at = end;
    }
    return SAMBA_OK;
}
