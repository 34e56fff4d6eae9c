/* SPDX-License-Identifier: Apache-2.0
 *
 * Words and their ids, found both ways by hashing. Ids come from files: they may leave gaps, be any number, and be there twice.
 * Of two words with one text the later one counts, of two with one id the first. Everything lies in the tokenizer's arena. */
#include "text/text.h"

samba_status samba_vocab_room(samba_arena *arena, samba_vocab *vocab, int64_t count, uint64_t bytes)
{
    if (count > SAMBA_MOST_TOKENS)
        return samba_fail(arena->context, SAMBA_ERROR_UNSUPPORTED, "a vocabulary has %lld tokens; %d are the most",
                          (long long)count, SAMBA_MOST_TOKENS);
    SAMBA_TRY(samba_arena_room(arena, (size_t)bytes + (size_t)count + 1, &vocab->room));
    return SAMBA_ROOM(arena, vocab->words, count + 1);
}

void samba_vocab_add(samba_vocab *vocab, const char *text, size_t size, int32_t id)
{
    memcpy(vocab->room, text, size); /* the arena's memory is zeroed: a NUL stands behind */
    vocab->words[vocab->count++] = (samba_word){vocab->room, (uint32_t)size, id};
    vocab->room += size + 1;
}

static uint64_t hash_id(int32_t id) { return (uint32_t)id * 0x9e3779b97f4a7c15u >> 32; }

samba_status samba_vocab_index(samba_arena *arena, samba_vocab *vocab)
{
    uint64_t slots = 8;
    while (slots < (uint64_t)vocab->count * 2)
        slots *= 2;
    vocab->mask = slots - 1;
    SAMBA_TRY(SAMBA_ROOM(arena, vocab->by_text, slots));
    SAMBA_TRY(SAMBA_ROOM(arena, vocab->by_id, slots));
    memset(vocab->by_text, 0xff, slots * sizeof *vocab->by_text);
    memset(vocab->by_id, 0xff, slots * sizeof *vocab->by_id);
    for (int64_t i = 0; i < vocab->count; i++) {
        const samba_word *word = &vocab->words[i];
        uint64_t at = samba_hash(word->text, word->size, 0) & vocab->mask;
        for (; vocab->by_text[at] >= 0; at = (at + 1) & vocab->mask) {
            const samba_word *other = &vocab->words[vocab->by_text[at]];
            if (other->size == word->size && memcmp(other->text, word->text, word->size) == 0)
                break;
        }
        vocab->by_text[at] = (int32_t)i;
        for (at = hash_id(word->id) & vocab->mask; vocab->by_id[at] >= 0; at = (at + 1) & vocab->mask)
            if (vocab->words[vocab->by_id[at]].id == word->id)
                break;
        if (vocab->by_id[at] < 0)
            vocab->by_id[at] = (int32_t)i;
    }
    return SAMBA_OK;
}

const samba_word *samba_vocab_find(const samba_vocab *vocab, const char *text, size_t size)
{
    if (!vocab->by_text)
        return NULL;
    for (uint64_t at = samba_hash(text, size, 0) & vocab->mask; vocab->by_text[at] >= 0; at = (at + 1) & vocab->mask) {
        const samba_word *word = &vocab->words[vocab->by_text[at]];
        if (word->size == size && memcmp(word->text, text, size) == 0)
            return word;
    }
    return NULL;
}

int32_t samba_vocab_id(const samba_vocab *vocab, const char *text, size_t size)
{
    const samba_word *word = samba_vocab_find(vocab, text, size);
    return word ? word->id : -1;
}

const samba_word *samba_vocab_word(const samba_vocab *vocab, int32_t id)
{
    if (!vocab->by_id)
        return NULL;
    for (uint64_t at = hash_id(id) & vocab->mask; vocab->by_id[at] >= 0; at = (at + 1) & vocab->mask)
        if (vocab->words[vocab->by_id[at]].id == id)
            return &vocab->words[vocab->by_id[at]];
    return NULL;
}
