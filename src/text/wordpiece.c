/* SPDX-License-Identifier: Apache-2.0
 *
 * WordPiece: the longest token that begins the word, then the longest that goes on, whose spelling has a prefix ("##"), and so to
 * its end. A word that does not come out, or has too many characters, is one unknown token. WordLevel has whole words alone. */
#include "text/text.h"

static samba_status unknown(samba_work *work)
{
    const samba_wordpiece *w = &work->tokenizer->wordpiece;
    if (w->unknown < 0) {
        char shown[SAMBA_SHOWN];
        return samba_fail(work->context, SAMBA_ERROR_FORMAT,
                          "a word of the text is no token, and the vocabulary has no unk_token \"%.100s\" for it",
                          samba_shown(w->unknown_text, shown));
    }
    return samba_ids_add(work->context, &work->ids, w->unknown);
}

samba_status samba_wordpiece_ids(samba_work *work, samba_str piece)
{
    const samba_wordpiece *w = &work->tokenizer->wordpiece;
    const int64_t begin = work->ids.count;
    if (w->whole) {
        const int32_t id = samba_vocab_id(&work->tokenizer->vocab, piece.data, piece.size);
        return id >= 0 ? samba_ids_add(work->context, &work->ids, id) : unknown(work);
    }
    int64_t characters = 0;
    for (size_t i = 0; i < piece.size; i++)
        characters += (piece.data[i] & 0xc0) != 0x80;
    if (characters > w->most)
        return unknown(work);
    for (size_t at = 0; at < piece.size;) {
        uint32_t node = at == 0 ? 1 : w->inner;
        int32_t best = -1;
        size_t best_end = at;
        for (size_t end = at; node != 0 && end < piece.size;) {
            node = samba_trie_next(&w->trie, node, (uint8_t)piece.data[end++]);
            if (node != 0 && w->trie.values[node] >= 0 && (end == piece.size || (piece.data[end] & 0xc0) != 0x80)) {
                best = w->trie.values[node];
                best_end = end;
            }
        }
        if (best < 0) {
            work->ids.count = begin;
            return unknown(work);
        }
        SAMBA_TRY(samba_ids_add(work->context, &work->ids, best));
        at = best_end;
    }
    return SAMBA_OK;
}
