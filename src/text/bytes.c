/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2's alphabet: a printable character for each byte, so that a vocabulary of bytes is one of texts. Bytes that print in
 * Latin-1 stand for themselves, the others for the characters from U+0100 on, in their order. */
#include "text/text.h"

static bool prints(uint32_t byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

uint32_t samba_byte_char(uint8_t byte)
{
    if (prints(byte))
        return byte;
    return byte <= 32 ? 256u + byte : byte <= 160 ? 256u + 33u + (byte - 127u) : 256u + 33u + 34u;
}

int samba_char_byte(uint32_t c)
{
    if (c < 256)
        return prints(c) ? (int)c : -1;
    if (c <= 256 + 32)
        return (int)(c - 256);
    if (c < 256 + 33 + 34)
        return (int)(c - 256 - 33 + 127);
    return c == 256 + 33 + 34 ? 173 : -1;
}

samba_status samba_bytes_as_chars(samba_context *context, samba_str bytes, samba_chars *to)
{
    SAMBA_TRY(samba_chars_room(context, to, bytes.size * 2));
    char *at = to->data + to->size;
    for (size_t i = 0; i < bytes.size; i++) {
        const uint8_t byte = (uint8_t)bytes.data[i];
        if (byte > 32 && byte < 127)
            *at++ = (char)byte;
        else {
            const uint32_t c = samba_byte_char(byte);
            *at++ = (char)(0xc0 | c >> 6);
            *at++ = (char)(0x80 | (c & 63));
        }
    }
    to->size = at - to->data;
    return SAMBA_OK;
}
