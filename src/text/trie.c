/* SPDX-License-Identifier: Apache-2.0
 *
 * Tries over bytes: one table by hash of node and byte, whose rows are as many as the keys have bytes. So a file of n bytes makes
 * one of at most n nodes in time n, whatever its keys are. A row is 36 bits of node and byte and 28 of the next node. */
#include "text/text.h"

samba_status samba_trie_init(samba_arena *arena, samba_trie *trie, uint64_t bytes)
{
    uint64_t slots = 64;
    if (bytes > ((uint64_t)1 << 27))
        return samba_fail(arena->context, SAMBA_ERROR_UNSUPPORTED, "a vocabulary has %llu bytes; 134217728 are the most",
                          (unsigned long long)bytes);
    while (slots < bytes * 2)
        slots *= 2;
    *trie = (samba_trie){.mask = slots - 1, .nodes = 2, .room = (uint32_t)bytes + 2};
    SAMBA_TRY(SAMBA_ROOM(arena, trie->slots, slots));
    SAMBA_TRY(SAMBA_ROOM(arena, trie->values, bytes + 2));
    memset(trie->values, 0xff, (bytes + 2) * sizeof *trie->values);
    return SAMBA_OK;
}

void samba_trie_add(samba_trie *trie, samba_str key, int32_t value, bool replace)
{
    uint32_t node = 1;
    if (key.size > 0)
        trie->begins[(uint8_t)key.data[0]] = 1;
    for (size_t i = 0; i < key.size; i++) {
        const uint8_t byte = (uint8_t)key.data[i];
        uint32_t next = samba_trie_next(trie, node, byte);
        if (next == 0) {
            const uint64_t row = (uint64_t)node << 8 | byte;
            uint64_t at = row * 0x9e3779b97f4a7c15u >> 20 & trie->mask;
            while (trie->slots[at])
                at = (at + 1) & trie->mask;
            next = trie->nodes++;
            trie->slots[at] = row << 28 | next;
        }
        node = next;
    }
    if (replace || trie->values[node] < 0)
        trie->values[node] = value;
}

size_t samba_trie_longest(const samba_trie *trie, samba_str text)
{
    size_t found = 0;
    uint32_t node = text.size > 0 && trie->begins[(uint8_t)text.data[0]] ? 1 : 0;
    for (size_t i = 0; node != 0 && i < text.size; i++) {
        node = samba_trie_next(trie, node, (uint8_t)text.data[i]);
        if (node != 0 && trie->values[node] >= 0)
            found = i + 1;
    }
    return found;
}
