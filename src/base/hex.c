/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as text, two hexadecimal digits each: how a graph's text carries tensors. */
#include "base/base.h"

static const char digits[] = "0123456789abcdef";

void samba_hex_encode(const void *bytes, size_t size, char *text)
{
    const unsigned char *from = bytes;
    for (size_t i = 0; i < size; i++) {
        *text++ = digits[from[i] >> 4];
        *text++ = digits[from[i] & 15];
    }
    *text = 0;
}

static int value_of(char digit)
{
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool samba_hex_decode(const char *text, size_t size, void *bytes)
{
    unsigned char *to = bytes;
    for (size_t i = 0; i < size; i++, text += 2) {
        int high = value_of(text[0]), low = high < 0 ? -1 : value_of(text[1]);
        if (low < 0)
            return false;
        if (to)
            to[i] = (unsigned char)(high << 4 | low);
    }
    return *text == 0;
}
