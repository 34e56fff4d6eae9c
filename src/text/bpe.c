/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair encoding: a piece is its characters, and of all neighbours that merge those of the lowest rank become one, the
 * leftmost of equals first, until none merge. Short pieces look through their neighbours each time; long ones keep them in a
 * heap, so that a megabyte without a space takes n log n.
 *
 * SentencePiece's variant has no list of merges: neighbours that are a piece together merge, ranked by its score. */
#include "text/text.h"

enum { SHORT = 48 };

static samba_status add_symbol(samba_work *work, int64_t *count, int32_t id, size_t begin, size_t size)
{
    if (*count == INT32_MAX)
        return samba_fail(work->context, SAMBA_ERROR_UNSUPPORTED, "a piece of text has more than %d characters", INT32_MAX);
    if (*count == work->symbol_room)
        SAMBA_TRY(SAMBA_GROW(work->context, work->symbols, work->symbol_room, *count + 1));
    work->symbols[*count] = (samba_symbol){id, (int32_t)*count - 1, (int32_t)*count + 1, (uint32_t)begin, (uint32_t)size, false};
    ++*count;
    return SAMBA_OK;
}

/* The id of a character that stands in the piece, with prefix and suffix where they belong. `text` is its spelling then. */
static samba_status char_id(samba_work *work, samba_str piece, size_t at, size_t size, samba_str *text, int32_t *id)
{
    const samba_bpe *bpe = &work->tokenizer->bpe;
    const bool prefix = at > 0 && bpe->prefix.size > 0, suffix = at + size == piece.size && bpe->suffix.size > 0;
    *text = samba_str_of(piece.data + at, size);
    if (prefix || suffix) {
        samba_chars *word = &work->word;
        word->size = 0;
        if (prefix)
            SAMBA_TRY(samba_chars_add(work->context, word, bpe->prefix.data, bpe->prefix.size));
        SAMBA_TRY(samba_chars_add(work->context, word, piece.data + at, size));
        if (suffix)
            SAMBA_TRY(samba_chars_add(work->context, word, bpe->suffix.data, bpe->suffix.size));
        *text = samba_chars_view(word);
    } else if (size <= 2) {
        int same;
        *id = bpe->chars[samba_utf8_code(piece.data + at, &same)];
        return SAMBA_OK;
    }
    *id = samba_vocab_id(&work->tokenizer->vocab, text->data, text->size);
    return SAMBA_OK;
}

/* The symbols of a piece. Those that are unknown wait for a known character; bytes go before them. */
static samba_status begin(samba_work *work, samba_str piece, int64_t *count)
{
    const samba_bpe *bpe = &work->tokenizer->bpe;
    bool unknown = false;
    *count = 0;
    for (size_t at = 0; at < piece.size;) {
        const size_t size = (size_t)samba_utf8_size(piece.data[at]);
        samba_str text;
        int32_t id = -1;
        SAMBA_TRY(char_id(work, piece, at, size, &text, &id));
        bool bytes = id < 0 && bpe->byte_fallback;
        for (size_t i = 0; bytes && i < text.size; i++)
            bytes = bpe->bytes[(uint8_t)text.data[i]] >= 0;
        if (id >= 0) {
            if (unknown)
                SAMBA_TRY(add_symbol(work, count, bpe->unknown, at, 0));
            unknown = false;
            SAMBA_TRY(add_symbol(work, count, id, at, size));
        } else if (bytes)
            for (size_t i = 0; i < text.size; i++)
                SAMBA_TRY(add_symbol(work, count, bpe->bytes[(uint8_t)text.data[i]], at, 0));
        else if (bpe->unknown >= 0) {
            if (unknown && !bpe->fuse)
                SAMBA_TRY(add_symbol(work, count, bpe->unknown, at, 0));
            unknown = true;
        } else if (bpe->unknown_text) {
            char shown[SAMBA_SHOWN];
            return samba_fail(work->context, SAMBA_ERROR_FORMAT,
                              "a character of the text is no token, and the vocabulary has no unk_token \"%.100s\" for it",
                              samba_shown(bpe->unknown_text, shown));
        }
        at += size;
    }
    return unknown ? add_symbol(work, count, bpe->unknown, piece.size, 0) : SAMBA_OK;
}

/* SentencePiece's symbols: user-defined ones, which never merge, and characters. */
static samba_status begin_by_score(samba_work *work, samba_str piece, int64_t *count)
{
    const samba_tokenizer *t = work->tokenizer;
    *count = 0;
    for (size_t at = 0, size; at < piece.size; at += size) {
        const size_t defined = samba_trie_longest(&t->defined, samba_str_of(piece.data + at, piece.size - at));
        size = defined > 0 ? defined : (size_t)samba_utf8_size(piece.data[at]);
        int same;
        const int32_t id = defined == 0 && size <= 2 ? t->bpe.chars[samba_utf8_code(piece.data + at, &same)]
                                                     : samba_vocab_id(&t->vocab, piece.data + at, size);
        SAMBA_TRY(add_symbol(work, count, id >= 0 && t->types[id] != 6 && !t->control[id] ? id : t->bpe.unknown, at, size));
        work->symbols[*count - 1].frozen = defined > 0;
    }
    return SAMBA_OK;
}

/* The ids of its symbols: bytes for unknown ones, or one unknown token for neighbours. */
static samba_status put_by_score(samba_work *work, samba_str piece, int64_t count)
{
    const samba_bpe *bpe = &work->tokenizer->bpe;
    bool before = false; /* an unknown one, already written */
    for (int64_t i = 0; i < count; i++) {
        const samba_symbol *symbol = &work->symbols[i];
        const bool unknown = symbol->id == bpe->unknown;
        if (!unknown)
            SAMBA_TRY(samba_ids_add(work->context, &work->ids, symbol->id));
        for (uint32_t k = 0; unknown && bpe->byte_fallback && k < symbol->size; k++) {
            const int32_t byte = bpe->bytes[(uint8_t)piece.data[symbol->begin + k]];
            SAMBA_TRY(samba_ids_add(work->context, &work->ids, byte >= 0 ? byte : bpe->unknown));
        }
        if (unknown && !bpe->byte_fallback && !before)
            SAMBA_TRY(samba_ids_add(work->context, &work->ids, bpe->unknown));
        before = unknown;
    }
    return SAMBA_OK;
}

static bool find_merge(const samba_bpe *bpe, int32_t left, int32_t right, int32_t *rank, int32_t *made)
{
    if (!bpe->merges)
        return false;
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint64_t at = key * 0x9e3779b97f4a7c15u >> 24 & bpe->mask;; at = (at + 1) & bpe->mask) {
        const samba_merge *merge = &bpe->merges[at];
        if (merge->left < 0)
            return false;
        if (merge->left == left && merge->right == right) {
            *rank = merge->rank;
            *made = merge->made;
            return true;
        }
    }
}

/* The merge of two neighbours, by the list or by their text. */
static bool merge_of(const samba_work *work, samba_str piece, const samba_symbol *left, const samba_symbol *right, int32_t *rank,
                     int32_t *made)
{
    const samba_bpe *bpe = &work->tokenizer->bpe;
    if (!bpe->by_score)
        return find_merge(bpe, left->id, right->id, rank, made);
    if (left->frozen || right->frozen)
        return false;
    *made = samba_vocab_id(&work->tokenizer->vocab, piece.data + left->begin, left->size + right->size);
    *rank = *made >= 0 ? bpe->ranks[*made] : -1;
    return *rank >= 0;
}

/* Few symbols: they lie side by side, with the ranks between them. */
static samba_status merge_short(samba_work *work, samba_str piece, int64_t *count)
{
    samba_symbol *symbols = work->symbols;
    int32_t ranks[SHORT], made[SHORT];
    int64_t n = *count;
    for (int64_t i = 0; i + 1 < n; i++)
        if (!merge_of(work, piece, &symbols[i], &symbols[i + 1], &ranks[i], &made[i]))
            ranks[i] = INT32_MAX;
    while (n > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < n; i++)
            best = ranks[i] < ranks[best] ? i : best;
        if (ranks[best] == INT32_MAX)
            break;
        symbols[best].id = made[best];
        symbols[best].size += symbols[best + 1].size;
        memmove(symbols + best + 1, symbols + best + 2, (size_t)(n - best - 2) * sizeof *symbols);
        if (best + 2 < n) {
            memmove(ranks + best, ranks + best + 1, (size_t)(n - best - 2) * sizeof *ranks);
            memmove(made + best, made + best + 1, (size_t)(n - best - 2) * sizeof *made);
        }
        n--;
        if (best + 1 < n && !merge_of(work, piece, &symbols[best], &symbols[best + 1], &ranks[best], &made[best]))
            ranks[best] = INT32_MAX;
        if (best > 0 && !merge_of(work, piece, &symbols[best - 1], &symbols[best], &ranks[best - 1], &made[best - 1]))
            ranks[best - 1] = INT32_MAX;
    }
    *count = n;
    return SAMBA_OK;
}

static bool sooner(const samba_offer *a, const samba_offer *b) { return a->rank != b->rank ? a->rank < b->rank : a->at < b->at; }

static samba_status offer(samba_work *work, samba_str piece, int32_t left)
{
    samba_offer new = {.at = left};
    const samba_symbol *symbol = &work->symbols[left];
    if (!merge_of(work, piece, symbol, &work->symbols[symbol->behind], &new.rank, &new.made))
        return SAMBA_OK;
    if (work->offer_count == work->offer_room)
        SAMBA_TRY(SAMBA_GROW(work->context, work->offers, work->offer_room, work->offer_count + 1));
    int64_t at = work->offer_count++;
    for (; at > 0 && sooner(&new, &work->offers[(at - 1) / 2]); at = (at - 1) / 2)
        work->offers[at] = work->offers[(at - 1) / 2];
    work->offers[at] = new;
    return SAMBA_OK;
}

static samba_offer take_offer(samba_work *work)
{
    samba_offer *offers = work->offers;
    const samba_offer first = offers[0], last = offers[--work->offer_count];
    int64_t at = 0;
    for (int64_t child = 1; child < work->offer_count; child = 2 * at + 1) {
        if (child + 1 < work->offer_count && sooner(&offers[child + 1], &offers[child]))
            child++;
        if (!sooner(&offers[child], &last))
            break;
        offers[at] = offers[child];
        at = child;
    }
    offers[at] = last;
    return first;
}

/* Many symbols: a list, and a heap of what merges, in which stay offers that a merge beside them has overtaken. */
static samba_status merge_long(samba_work *work, samba_str piece, int64_t *count)
{
    samba_symbol *symbols = work->symbols;
    work->offer_count = 0;
    symbols[*count - 1].behind = -1;
    for (int32_t i = 0; i + 1 < *count; i++)
        SAMBA_TRY(offer(work, piece, i));
    while (work->offer_count > 0) {
        const samba_offer best = take_offer(work);
        samba_symbol *left = &symbols[best.at];
        int32_t rank, made;
        if (left->id < 0 || left->behind < 0 || !merge_of(work, piece, left, &symbols[left->behind], &rank, &made) ||
            made != best.made)
            continue;
        samba_symbol *right = &symbols[left->behind];
        left->id = made;
        left->size += right->size;
        left->behind = right->behind;
        right->id = -1;
        if (left->behind >= 0) {
            symbols[left->behind].before = best.at;
            SAMBA_TRY(offer(work, piece, best.at));
        }
        if (left->before >= 0)
            SAMBA_TRY(offer(work, piece, left->before));
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < *count; i++)
        if (symbols[i].id >= 0)
            symbols[kept++] = symbols[i];
    *count = kept;
    return SAMBA_OK;
}

static samba_status merge(samba_work *work, samba_str piece, int64_t *count)
{
    if (*count < 2)
        return SAMBA_OK;
    return *count <= SHORT ? merge_short(work, piece, count) : merge_long(work, piece, count);
}

samba_status samba_bpe_ids(samba_work *work, samba_str piece)
{
    int64_t count;
    if (work->tokenizer->bpe.ignore_merges) {
        const int32_t id = samba_vocab_id(&work->tokenizer->vocab, piece.data, piece.size);
        if (id >= 0)
            return samba_ids_add(work->context, &work->ids, id);
    }
    if (work->tokenizer->bpe.by_score) {
        SAMBA_TRY(begin_by_score(work, piece, &count));
        if (!work->tokenizer->bpe.chars_only)
            SAMBA_TRY(merge(work, piece, &count));
        return put_by_score(work, piece, count);
    }
    SAMBA_TRY(begin(work, piece, &count));
    SAMBA_TRY(merge(work, piece, &count));
    for (int64_t i = 0; i < count; i++)
        SAMBA_TRY(samba_ids_add(work->context, &work->ids, work->symbols[i].id));
    return SAMBA_OK;
}
