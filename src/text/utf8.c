/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, and buffers that grow. Text comes from anybody: it is checked once where it enters, and bytes that are no characters
 * become U+FFFD, one for each longest begin of a character that breaks off, as Unicode recommends and as Rust and Python do. */
#include "text/text.h"

samba_status samba_chars_room(samba_context *context, samba_chars *chars, size_t more)
{
    if ((int64_t)more > chars->capacity - chars->size)
        SAMBA_TRY(SAMBA_GROW(context, chars->data, chars->capacity, chars->size + (int64_t)more));
    return SAMBA_OK;
}

samba_status samba_chars_add(samba_context *context, samba_chars *chars, const char *data, size_t size)
{
    if (size == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_chars_room(context, chars, size));
    memcpy(chars->data + chars->size, data, size);
    chars->size += (int64_t)size;
    return SAMBA_OK;
}

samba_status samba_chars_add_code(samba_context *context, samba_chars *chars, uint32_t code)
{
    SAMBA_TRY(samba_chars_room(context, chars, 4));
    chars->size += samba_utf8_put(code, chars->data + chars->size);
    return SAMBA_OK;
}

void samba_chars_free(samba_context *context, samba_chars *chars)
{
    samba_free(context, chars->data, (size_t)chars->capacity);
    *chars = (samba_chars){0};
}

void samba_ids_free(samba_context *context, samba_ids *ids)
{
    samba_free(context, ids->data, (size_t)ids->capacity * sizeof *ids->data);
    *ids = (samba_ids){0};
}

int samba_utf8_put(uint32_t code, char *to)
{
    if (code < 0x80)
        return to[0] = (char)code, 1;
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 63));
        to[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 63));
    to[2] = (char)(0x80 | (code >> 6 & 63));
    to[3] = (char)(0x80 | (code & 63));
    return 4;
}

int samba_utf8_check(const char *text, size_t size, int *bad, bool *cut)
{
    const unsigned char *p = (const unsigned char *)text;
    const unsigned char first = p[0];
    *cut = false;
    *bad = 1;
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    const int length = samba_utf8_size((char)first);
    /* The second byte leaves out longer spellings, surrogates and what is above U+10FFFF. */
    unsigned char least = 0x80, most = 0xbf;
    least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : least;
    most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : most;
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= size) {
            *cut = true;
            return 0;
        }
        if (p[i] < least || p[i] > most)
            return 0;
        *bad = i + 1;
        least = 0x80;
        most = 0xbf;
    }
    return length;
}

size_t samba_utf8_valid(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        if (size - at >= 8) { /* eight of ASCII at once */
            memcpy(&eight, text + at, 8);
            if (!(eight & 0x8080808080808080u)) {
                at += 8;
                continue;
            }
        }
        int bad;
        bool cut;
        int length = samba_utf8_check(text + at, size - at, &bad, &cut);
        if (length == 0)
            break;
        at += (size_t)length;
    }
    return at;
}

samba_status samba_utf8_mend(samba_context *context, samba_str text, samba_chars *to)
{
    for (size_t at = 0; at < text.size;) {
        size_t whole = samba_utf8_valid(text.data + at, text.size - at);
        SAMBA_TRY(samba_chars_add(context, to, text.data + at, whole));
        at += whole;
        if (at == text.size)
            break;
        int bad;
        bool cut;
        (void)samba_utf8_check(text.data + at, text.size - at, &bad, &cut);
        SAMBA_TRY(samba_chars_add_code(context, to, 0xfffd));
        at += (size_t)bad;
    }
    return SAMBA_OK;
}
