/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and texts of files, escaped for display. A file may hold any bytes: control characters would move a terminal's cursor or
 * colour the text behind them, a line's end would begin a message of its own, marks of direction would reverse their neighbours.
 * These, and bytes that are no UTF-8, are shown as \x1b or \u202e. Everything else stays as it is. */
#include "base/base.h"

#include <string.h>

int samba_utf8_length(const char *at)
{
    const unsigned char *text = (const unsigned char *)at;
    int length = text[0] < 0x80                      ? 1
                 : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                 : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                 : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                     : 0;
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) || (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xf4 && text[1] >= 0x90))
        return 0;
    return length;
}

static unsigned code_point(const char *at, int length)
{
    static const unsigned first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned code = (unsigned char)at[0] & first[length];
    for (int i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)at[i] & 0x3f);
    return code;
}

/* C0, DEL and C1; ends of lines and paragraphs; marks of direction, and what has no width. */
static bool is_hidden(unsigned code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0x61c || code == 0x180e ||
           (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe007f);
}

/* The next piece of the text, as it is shown; how many bytes of the text it stands for. */
static int next_piece(const char *text, bool lines, char piece[16])
{
    int length = samba_utf8_length(text);
    unsigned code = length ? code_point(text, length) : 0;
    if (length == 0)
        snprintf(piece, 16, "\\x%02x", (unsigned char)text[0]);
    else if (is_hidden(code) && !(lines && code == '\n'))
        snprintf(piece, 16, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    else
        snprintf(piece, 16, "%.*s", length, text);
    return length ? length : 1;
}

size_t samba_show(const char *text, bool lines, char *buffer, size_t size)
{
    char piece[16];
    size_t used = 0;
    while (*text) {
        text += next_piece(text, lines, piece);
        size_t length = strlen(piece);
        if (used + length >= size)
            break;
        memcpy(buffer + used, piece, length);
        used += length;
    }
    if (size > 0)
        buffer[used] = '\0';
    return used;
}

const char *samba_shown(const char *text, char buffer[SAMBA_SHOWN])
{
    samba_show(text ? text : "", false, buffer, SAMBA_SHOWN);
    return buffer;
}

void samba_text_show(samba_text *text, const char *shown, bool lines)
{
    char piece[16];
    while (*shown && text->status == SAMBA_OK) {
        size_t plain = 0;
        int length;
        while (shown[plain] && (length = samba_utf8_length(shown + plain)) > 0 &&
               (!is_hidden(code_point(shown + plain, length)) || (lines && shown[plain] == '\n')))
            plain += (size_t)length;
        if (plain > 0)
            samba_text_add(text, "%.*s", (int)plain, shown);
        shown += plain;
        if (*shown) {
            shown += next_piece(shown, lines, piece);
            samba_text_add(text, "%s", piece);
        }
    }
}
