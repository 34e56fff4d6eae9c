/* SPDX-License-Identifier: Apache-2.0
 *
 * Unigram: of all ways to write a piece as tokens the one whose scores sum to most, found from left to right: the best way to
 * each place is known before it is gone on from. A character that no token begins with alone may be unknown, at a cost below
 * all scores; neighbours that are unknown become one token, or the bytes of their text where the vocabulary has tokens for
 * those. */
#include "text/text.h"

static samba_status put_unknown(samba_work *work, samba_str text)
{
    const samba_unigram *u = &work->tokenizer->unigram;
    bool bytes = u->byte_fallback;
    for (size_t i = 0; bytes && i < text.size; i++)
        bytes = u->bytes[(uint8_t)text.data[i]] >= 0;
    if (!bytes)
        return samba_ids_add(work->context, &work->ids, u->unknown);
    for (size_t i = 0; i < text.size; i++)
        SAMBA_TRY(samba_ids_add(work->context, &work->ids, u->bytes[(uint8_t)text.data[i]]));
    return SAMBA_OK;
}

/* The nodes from the last back to the first, as ids in order. */
static samba_status collect(samba_work *work, samba_str piece)
{
    const samba_unigram *u = &work->tokenizer->unigram;
    samba_best *nodes = work->nodes;
    int32_t end = (int32_t)piece.size;
    for (int32_t at = end, behind = -1; at >= 0;) { /* turned around: `from` of a node is where the next one ends */
        const int32_t before = at > 0 ? nodes[at].from : -1;
        nodes[at].from = behind;
        behind = at;
        at = before;
    }
    for (int32_t at = 0; at < end;) {
        int32_t next = nodes[at].from;
        if (nodes[next].word != u->unknown) {
            SAMBA_TRY(samba_ids_add(work->context, &work->ids, nodes[next].word));
            at = next;
            continue;
        }
        while (next < end && nodes[nodes[next].from].word == u->unknown)
            next = nodes[next].from;
        const samba_str text = samba_str_of(piece.data + at, (size_t)(next - at));
        const int32_t id = u->single ? -1 : samba_vocab_id(&work->tokenizer->vocab, text.data, text.size);
        SAMBA_TRY(id >= 0 ? samba_ids_add(work->context, &work->ids, id) : put_unknown(work, text));
        at = next;
    }
    return SAMBA_OK;
}

/* SentencePiece's sums are floats, and where they get so low it counts anew, so that they stay precise. */
static const double LEAST = -100000;

static void rebase(samba_best *nodes, size_t at, size_t far)
{
    const float base = (float)nodes[at].score;
    for (size_t i = at; i <= far; i++)
        if (i == at || nodes[i].from >= 0)
            nodes[i].score = (double)((float)nodes[i].score - base);
}

samba_status samba_unigram_ids(samba_work *work, samba_str piece)
{
    const samba_unigram *u = &work->tokenizer->unigram;
    if (piece.size >= INT32_MAX)
        return samba_fail(work->context, SAMBA_ERROR_UNSUPPORTED, "a piece of text has more than %d bytes", INT32_MAX);
    SAMBA_TRY(SAMBA_GROW(work->context, work->nodes, work->node_room, (int64_t)piece.size + 1));
    samba_best *nodes = work->nodes;
    for (size_t i = 0; i <= piece.size; i++)
        nodes[i] = (samba_best){0, -1, -1};
    for (size_t at = 0, far = 0; at < piece.size;) { /* far: the last node that is reached */
        const size_t size = (size_t)samba_utf8_size(piece.data[at]);
        bool alone = false;
        if (u->single && nodes[at].score < LEAST)
            rebase(nodes, at, far);
        const double so_far = nodes[at].score;
        uint32_t node = 1;
        for (size_t end = at; end < piece.size;) {
            node = samba_trie_next(&u->trie, node, (uint8_t)piece.data[end++]);
            if (node == 0)
                break;
            const int32_t word = u->trie.values[node];
            if (word < 0)
                continue;
            const double exact = so_far + u->scores[word], score = u->single ? (double)(float)exact : exact;
            if (nodes[end].from < 0 || score > nodes[end].score)
                nodes[end] = (samba_best){score, (int32_t)at, word};
            far = end > far ? end : far;
            alone |= end - at == size;
        }
        if (!alone) {
            const double score = u->single ? (double)((float)so_far + (float)u->unknown_score) : so_far + u->unknown_score;
            if (u->unknown < 0)
                return samba_fail(work->context, SAMBA_ERROR_FORMAT,
                                  "a character of the text is no token, and the vocabulary has no unk_id for it");
            if (nodes[at + size].from < 0 || score > nodes[at + size].score)
                nodes[at + size] = (samba_best){score, (int32_t)at, u->unknown};
            far = at + size > far ? at + size : far;
        }
        at += size;
    }
    return collect(work, piece);
}
