/* SPDX-License-Identifier: Apache-2.0
 *
 * Added tokens in a text: found from left to right, the longest that begins at a place, before anything else looks at the text.
 * Those that are "normalized" are looked for in the text between the others once that is normalized, spelled as the normalizer
 * spells them. A token may take the spaces beside it, or want no word beside it. One of which the normalizer leaves nothing is
 * found between any two characters, and cuts there. */
#include "text/text.h"

static samba_status add(samba_tokenizer *t, samba_work *work, int64_t i)
{
    const samba_added *added = &t->added[i];
    samba_str text = added->text;
    size_t zero;
    if (added->normalized)
        SAMBA_TRY(samba_normal_text(work, &t->normalizer, text, &text, &zero));
    samba_vocab_add(&t->added_shown, text.data, text.size, added->id);
    samba_trie_add(added->normalized ? &t->added_normalized : &t->added_raw, text, (int32_t)i, false);
    t->any_raw |= !added->normalized;
    t->any_normalized |= added->normalized;
    return SAMBA_OK;
}

/* How many bytes the texts have, normalized where they are so, and `add` for each. */
static samba_status add_all(samba_tokenizer *t, samba_work *work)
{
    uint64_t raw = 0, normalized = 0;
    for (int64_t i = 0; i < t->added_count; i++) {
        samba_str text = t->added[i].text;
        size_t zero;
        if (t->added[i].normalized)
            SAMBA_TRY(samba_normal_text(work, &t->normalizer, text, &text, &zero));
        *(t->added[i].normalized ? &normalized : &raw) += text.size;
    }
    SAMBA_TRY(samba_trie_init(&t->arena, &t->added_raw, raw));
    SAMBA_TRY(samba_trie_init(&t->arena, &t->added_normalized, normalized));
    SAMBA_TRY(samba_vocab_room(&t->arena, &t->added_shown, t->added_count, raw + normalized));
    for (int special = 1; special >= 0; special--) /* of two spelled alike a special one is found */
        for (int64_t i = 0; i < t->added_count; i++)
            if (t->added[i].special == special)
                SAMBA_TRY(add(t, work, i));
    return samba_vocab_index(&t->arena, &t->added_shown);
}

samba_status samba_added_index(samba_tokenizer *t)
{
    samba_work work;
    SAMBA_TRY(samba_work_init(&work, t->context, t, false));
    if (work.matcher)
        samba_matcher_begin(work.matcher, 1 << 20);
    samba_status status = add_all(t, &work);
    samba_work_free(&work);
    return status;
}

static bool word_before(samba_str text, size_t at)
{
    int size;
    if (at == 0)
        return false;
    for (at--; at > 0 && (text.data[at] & 0xc0) == 0x80;)
        at--;
    return samba_char_is_word(samba_utf8_code(text.data + at, &size));
}

static bool word_behind(samba_str text, size_t at)
{
    int size;
    return at < text.size && samba_char_is_word(samba_utf8_code(text.data + at, &size));
}

static size_t spaces_before(samba_str text, size_t at)
{
    int size;
    while (at > 0) {
        size_t last = at - 1;
        while (last > 0 && (text.data[last] & 0xc0) == 0x80)
            last--;
        if (!samba_char_is_space(samba_utf8_code(text.data + last, &size)))
            break;
        at = last;
    }
    return at;
}

static size_t spaces_behind(samba_str text, size_t at)
{
    int size;
    while (at < text.size && samba_char_is_space(samba_utf8_code(text.data + at, &size)))
        at += (size_t)size;
    return at;
}

/* The longest key of the trie that begins at the place; -1: none does. */
static int32_t longest(const samba_trie *trie, samba_str text, size_t at, size_t *end)
{
    int32_t found = -1;
    uint32_t node = 1;
    for (size_t i = at; i < text.size; i++) {
        node = samba_trie_next(trie, node, (uint8_t)text.data[i]);
        if (node == 0)
            break;
        if (trie->values[node] >= 0) {
            found = trie->values[node];
            *end = i + 1;
        }
    }
    return found;
}

samba_status samba_added_cut(samba_work *work, const samba_trie *trie, samba_str text, size_t zero, samba_added_found *found)
{
    const int32_t empty = trie->values[1]; /* of a token that the normalizer leaves nothing of: it is found everywhere */
    size_t done = 0, last = SIZE_MAX;
    for (size_t at = 0; at < text.size || (at == text.size && empty >= 0);) {
        size_t begin = at, end = at;
        int32_t which = at < text.size && trie->begins[(uint8_t)text.data[at]] ? longest(trie, text, at, &end) : -1;
        if (which < 0 && (empty < 0 || at == last)) {
            at += empty < 0 || at == text.size ? 1 : (size_t)samba_utf8_size(text.data[at]);
            continue;
        }
        which = which < 0 ? empty : which;
        at = last = end;
        const samba_added *added = &work->tokenizer->added[which];
        if (added->single_word && (word_before(text, begin) || word_behind(text, end)))
            continue;
        if (added->lstrip) {
            begin = spaces_before(text, begin);
            begin = begin > done ? begin : done;
        }
        if (added->rstrip)
            end = spaces_behind(text, end);
        if (end <= begin && which != empty) /* all of it are spaces that the token before has taken */
            continue;
        if (done < begin)
            SAMBA_TRY(found(work, -1, samba_str_of(text.data + done, begin - done), zero > done ? zero - done : 0));
        if (begin < end)
            SAMBA_TRY(found(work, added->id, samba_str_of(text.data + begin, 0), 0));
        done = end;
    }
    if (done < text.size)
        SAMBA_TRY(found(work, -1, samba_str_of(text.data + done, text.size - done), zero > done ? zero - done : 0));
    return SAMBA_OK;
}
