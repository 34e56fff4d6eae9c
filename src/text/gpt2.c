/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2's regular expression by hand, since most byte-level tokenizers have it:
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Its matches follow each other without a gap: a contraction, a word, a number or other signs with a space before them or not,
 * and spaces, of which the last is left to what follows. */
#include "text/text.h"

enum { LETTER, NUMBER, SPACE, SIGN };

static int kind_of(samba_str piece, size_t at, int *size)
{
    const uint32_t c = samba_utf8_code(piece.data + at, size);
    return samba_char_is_letter(c) ? LETTER : samba_char_is_space(c) ? SPACE : samba_char_is_number(c) ? NUMBER : SIGN;
}

static size_t run(samba_str piece, size_t at, int kind)
{
    int size;
    while (at < piece.size && kind_of(piece, at, &size) == kind)
        at += (size_t)size;
    return at;
}

/* The end of 's and its like at the begin, or 0. */
static size_t contraction(samba_str text)
{
    const char b = text.size > 1 ? text.data[1] : '\0', c = text.size > 2 ? text.data[2] : '\0';
    if (text.data[0] != '\'')
        return 0;
    if (b == 's' || b == 't' || b == 'm' || b == 'd')
        return 2;
    return (b == 'r' && c == 'e') || (b == 'v' && c == 'e') || (b == 'l' && c == 'l') ? 3 : 0;
}

size_t samba_gpt2_end(samba_str piece, size_t at)
{
    int size;
    const size_t apostrophe = contraction(samba_str_of(piece.data + at, piece.size - at));
    if (apostrophe)
        return at + apostrophe;
    int kind = kind_of(piece, at, &size);
    if (kind != SPACE)
        return run(piece, at + (size_t)size, kind);
    if (piece.data[at] == ' ' && at + 1 < piece.size) {
        kind = kind_of(piece, at + 1, &size);
        if (kind != SPACE)
            return run(piece, at + 1, kind);
    }
    size_t last = at, end = at; /* where the last space of the run begins, and the run's end */
    while (end < piece.size && kind_of(piece, end, &size) == SPACE) {
        last = end;
        end += (size_t)size;
    }
    return end == piece.size || last == at ? end : last;
}
