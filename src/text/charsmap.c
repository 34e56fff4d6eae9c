/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece's precompiled_charsmap: texts and what is written for them, as a file holds it. A number of bytes, a
 * double-array trie of so many (units of 32 bits: a label, whether a key ends, the distance to the children), and texts that
 * NULs end, into which the trie's values point. Each step of a walk is checked against the array, each value against the texts.
 *
 * `tokenizers` goes by grapheme clusters and takes the shortest key; SentencePiece itself takes the longest key from each place
 * on. */
#include "text/text.h"

#include <utf8proc.h>

struct samba_charsmap {
    const uint32_t *units;
    size_t unit_count;
    const char *texts;
    size_t text_size;
};

samba_status samba_charsmap_new(samba_context *context, samba_arena *arena, const char *where, samba_str bytes,
                                samba_charsmap **map)
{
    uint32_t size = 0;
    char *copy;
    if (bytes.size >= 4)
        memcpy(&size, bytes.data, 4);
    if (bytes.size < 4 || size % 4 != 0 || size > bytes.size - 4)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "%s: precompiled_charsmap of %zu bytes says that its trie has %u; it is damaged", where, bytes.size,
                          size);
    SAMBA_TRY(SAMBA_ROOM(arena, *map, 1));
    SAMBA_TRY(samba_arena_room(arena, bytes.size - 4 + 1, &copy)); /* a NUL more: the last text ends */
    memcpy(copy, bytes.data + 4, bytes.size - 4);
    **map = (samba_charsmap){(const uint32_t *)(const void *)copy, size / 4, copy + size, bytes.size - 4 - size};
    if (samba_utf8_valid((*map)->texts, (*map)->text_size) != (*map)->text_size)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: precompiled_charsmap has texts that are no UTF-8", where);
    return SAMBA_OK;
}

static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 512) >> 6); }

/* The value of the shortest or longest key at the begin; -1: none. */
static int64_t walk(const samba_charsmap *map, samba_str text, bool longest, size_t *size)
{
    int64_t value = -1;
    if (map->unit_count == 0)
        return -1;
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < text.size; i++) {
        const uint8_t c = (uint8_t)text.data[i];
        at ^= c;
        if (c == 0 || at >= map->unit_count || (map->units[at] & 0x800000ff) != c)
            break;
        const uint32_t unit = map->units[at];
        at ^= offset_of(unit);
        if (unit >> 8 & 1) {
            if (at >= map->unit_count)
                break;
            value = map->units[at] & 0x7fffffff;
            *size = i + 1;
            if (!longest)
                break;
        }
    }
    return value;
}

bool samba_charsmap_leaves(const samba_charsmap *map, uint8_t c)
{
    if (map->unit_count == 0 || c == 0)
        return true;
    const size_t at = offset_of(map->units[0]) ^ c;
    if (at >= map->unit_count || (map->units[at] & 0x800000ff) != c)
        return true;
    const size_t children = at ^ offset_of(map->units[at]);
    bool leaves = !(map->units[at] >> 8 & 1);
    for (uint8_t next = 1; next < 128; next++) {
        const size_t child = children ^ next;
        leaves &= child >= map->unit_count || (map->units[child] & 0x800000ff) != next;
    }
    return leaves;
}

static samba_str text_at(const samba_charsmap *map, int64_t value)
{
    const char *text = map->texts + value;
    return samba_str_of(text, strlen(text));
}

samba_str samba_charsmap_longest(const samba_charsmap *map, samba_str text, size_t *size)
{
    *size = 0;
    int64_t value = walk(map, text, true, size);
    if (value < 0 || (size_t)value > map->text_size || (value > 0 && (map->texts[value] & 0xc0) == 0x80)) {
        *size = 0;
        return samba_str_of("", 0);
    }
    return text_at(map, value);
}

/* What the part becomes, if the map has something for it. */
static samba_status write_part(samba_context *context, const samba_charsmap *map, samba_str part, samba_chars *to, bool *written)
{
    size_t size;
    int64_t value = walk(map, part, false, &size);
    *written = value >= 0 && (size_t)value <= map->text_size && (map->texts[value] & 0xc0) != 0x80;
    if (!*written)
        return SAMBA_OK;
    const samba_str text = text_at(map, value);
    return samba_chars_add(context, to, text.data, text.size);
}

samba_status samba_charsmap_apply(samba_context *context, const samba_charsmap *map, samba_str text, samba_chars *to)
{
    bool written;
    for (size_t at = 0; at < text.size;) {
        int size;
        int32_t state = 0;
        uint32_t before = samba_utf8_code(text.data + at, &size);
        size_t end = at + (size_t)size;
        for (; end < text.size; end += (size_t)size) { /* the cluster */
            const uint32_t c = samba_utf8_code(text.data + end, &size);
            if (before < 0x80 && c < 0x80 && !(before == '\r' && c == '\n'))
                break;
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state))
                break;
            before = c;
        }
        written = false;
        if (end - at < 6)
            SAMBA_TRY(write_part(context, map, samba_str_of(text.data + at, end - at), to, &written));
        for (; !written && at < end; at += (size_t)size) {
            bool one;
            size = samba_utf8_size(text.data[at]);
            SAMBA_TRY(write_part(context, map, samba_str_of(text.data + at, (size_t)size), to, &one));
            if (!one)
                SAMBA_TRY(samba_chars_add(context, to, text.data + at, (size_t)size));
        }
        at = end;
    }
    return SAMBA_OK;
}
