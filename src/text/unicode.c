/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of characters, as `tokenizers` has them. Each of its components goes by the tables of another library, so by another
 * version of Unicode: a class here is the table that its component goes by (unicode_table.h), found by bisection. */
#include "text/text.h"

#include "text/unicode_table.h"

/* The span that holds c, or NULL. */
static const samba_span *find(const samba_span *spans, int count, uint32_t c)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (c > spans[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && c >= spans[low].first ? &spans[low] : NULL;
}

#define IN(table, c) (find(table, SAMBA_COUNT(table), c) != NULL)

bool samba_char_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool samba_char_is_punctuation(uint32_t c) { return IN(punctuation, c); }
bool samba_char_is_unclean(uint32_t c) { return IN(unclean, c); }
bool samba_char_is_nonspacing(uint32_t c) { return c >= 0x300 && IN(nonspacing, c); }
bool samba_char_is_mark(uint32_t c) { return c >= 0x300 && IN(marks, c); }
bool samba_char_is_numeric(uint32_t c) { return IN(numeric, c); }

bool samba_char_is_word(uint32_t c)
{
    if (c < 0x80)
        return (c | 32u) - 'a' < 26u || c - '0' < 10u || c == '_';
    return IN(word, c);
}

bool samba_char_is_letter(uint32_t c)
{
    if (c < 0x80)
        return (c | 32u) - 'a' < 26u;
    if ((c >= 0x4e00 && c <= 0x9fff) || (c >= 0xac00 && c <= 0xd7a3)) /* most of those that are met */
        return true;
    return IN(letters, c);
}

bool samba_char_is_number(uint32_t c)
{
    if (c < 0x80)
        return c - '0' < 10u;
    return IN(numbers, c);
}

bool samba_char_is_unnormalized(uint32_t c) { return c >= 0x300 && IN(unnormalized, c); }

bool samba_char_is_ideograph(uint32_t c)
{
    static const samba_span spans[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                                       {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    return c >= 0x3400 && IN(spans, c);
}

uint32_t samba_char_lower(uint32_t c)
{
    if (c < 0x80)
        return c - 'A' < 26u ? c | 32u : c;
    int low = 0, high = SAMBA_COUNT(lowered);
    while (low < high) {
        int middle = (low + high) / 2;
        if (c > lowered[middle].first)
            low = middle + 1;
        else
            high = middle;
    }
    return low < SAMBA_COUNT(lowered) && lowered[low].first == c ? lowered[low].last : c;
}

int samba_char_script(uint32_t c)
{
    int low = 0, high = SAMBA_COUNT(scripts);
    while (low < high) {
        int middle = (low + high) / 2;
        if (c > scripts[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < SAMBA_COUNT(scripts) && c >= scripts[low].first ? (int)scripts[low].kind : -2;
}

bool samba_char_newer(char major, char minor, int *at, samba_span *span)
{
    for (; *at < SAMBA_COUNT(newer); ++*at) {
        const samba_span_kind *row = &newer[*at];
        if ((char)(row->kind >> 8) == major && (!minor || (char)(row->kind & 255) == minor)) {
            *span = (samba_span){row->first, row->last};
            ++*at;
            return true;
        }
    }
    return false;
}
