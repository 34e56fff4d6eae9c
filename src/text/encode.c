/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to ids: the walk that text.h draws, the memory that it needs, and the cache of words. A text's words repeat: the ids of
 * short ones are kept in a table with one place for each hash, so what is found there is what would be computed. */
#define _GNU_SOURCE /* memmem */
#include "text/text.h"

#include "base/null.h"

samba_status samba_work_init(samba_work *work, samba_context *context, const samba_tokenizer *tokenizer, bool cache)
{
    *work = (samba_work){.context = context, .tokenizer = tokenizer};
    if (tokenizer->regexes)
        SAMBA_TRY(samba_matcher_new(context, &work->matcher));
    if (cache && !(work->cells = samba_calloc(context, sizeof *work->cells * SAMBA_CELLS))) {
        samba_work_free(work);
        return SAMBA_ERROR_MEMORY;
    }
    return SAMBA_OK;
}

void samba_work_free(samba_work *work)
{
    samba_context *context = work->context;
    samba_matcher_free(work->matcher);
    samba_ids_free(context, &work->ids);
    samba_ids_free(context, &work->wrapped);
    samba_chars_free(context, &work->mended);
    samba_chars_free(context, &work->word);
    for (int i = 0; i < 2; i++)
        samba_chars_free(context, &work->normal[i]);
    for (int i = 0; i < SAMBA_MOST_STEPS; i++) {
        samba_chars_free(context, &work->steps[i]);
        samba_chars_free(context, &work->spaced[i]);
        samba_chars_free(context, &work->stages[i].held);
        samba_chars_free(context, &work->stages[i].made);
        samba_chars_free(context, &work->stages[i].before);
    }
    if (work->cells)
        samba_free(context, work->cells, sizeof *work->cells * SAMBA_CELLS);
    samba_free(context, work->symbols, (size_t)work->symbol_room * sizeof *work->symbols);
    samba_free(context, work->offers, (size_t)work->offer_room * sizeof *work->offers);
    samba_free(context, work->nodes, (size_t)work->node_room * sizeof *work->nodes);
    samba_free(context, work->codes, (size_t)work->code_room * sizeof *work->codes);
    *work = (samba_work){0};
}

static samba_status compute(samba_work *work, samba_str piece)
{
    switch (work->tokenizer->model) {
    case SAMBA_MODEL_BPE: return samba_bpe_ids(work, piece);
    case SAMBA_MODEL_UNIGRAM: return samba_unigram_ids(work, piece);
    default: return samba_wordpiece_ids(work, piece);
    }
}

static samba_status ids_of_word(samba_work *work, samba_str piece)
{
    samba_ids *ids = &work->ids;
    if (!work->cells || piece.size > sizeof work->cells->text)
        return compute(work, piece);
    const uint64_t hash = samba_hash(piece.data, piece.size, 0);
    samba_cell *cell = &work->cells[hash % SAMBA_CELLS];
    if (cell->count > 0 && cell->hash == hash && cell->size == piece.size && memcmp(cell->text, piece.data, piece.size) == 0) {
        if (ids->capacity - ids->count < SAMBA_COUNT(cell->ids))
            SAMBA_TRY(SAMBA_GROW(work->context, ids->data, ids->capacity, ids->count + SAMBA_COUNT(cell->ids)));
        memcpy(ids->data + ids->count, cell->ids, cell->count * sizeof *cell->ids);
        ids->count += cell->count;
        return SAMBA_OK;
    }
    const int64_t begin = ids->count;
    SAMBA_TRY(compute(work, piece));
    const int64_t count = ids->count - begin;
    if (count > 0 && count <= SAMBA_COUNT(cell->ids)) {
        cell->hash = hash;
        cell->size = (uint8_t)piece.size;
        cell->count = (uint8_t)count;
        memcpy(cell->text, piece.data, piece.size);
        memcpy(cell->ids, ids->data + begin, (size_t)count * sizeof *cell->ids);
    }
    return SAMBA_OK;
}

samba_status samba_model_ids(samba_work *work, samba_str piece)
{
    static const char mark[] = "\xe2\x96\x81";
    if (!work->tokenizer->bpe.apart)
        return ids_of_word(work, piece);
    for (size_t at = 0, end; at < piece.size; at = end) { /* from one U+2581 to the next that is behind another character */
        end = at;
        while (piece.size - end >= 3 && memcmp(piece.data + end, mark, 3) == 0)
            end += 3;
        const char *next = end < piece.size ? memmem(piece.data + end, piece.size - end, mark, 3) : NULL;
        end = next ? (size_t)(next - piece.data) : piece.size;
        SAMBA_TRY(ids_of_word(work, samba_str_of(piece.data + at, end - at)));
    }
    return SAMBA_OK;
}

/* A part of the normalized text: an added token, or what is between two. */
static samba_status found_normalized(samba_work *work, int32_t id, samba_str text, size_t zero)
{
    return id >= 0 ? samba_ids_add(work->context, &work->ids, id) : samba_split_text(work, 0, text, zero);
}

static samba_status found_raw(samba_work *work, int32_t id, samba_str text, size_t zero)
{
    const samba_tokenizer *t = work->tokenizer;
    size_t begin;
    if (id >= 0)
        return samba_ids_add(work->context, &work->ids, id);
    SAMBA_TRY(samba_normal_text(work, &t->normalizer, text, &text, &begin));
    zero = zero > 0 ? begin : 0;
    return t->any_normalized ? samba_added_cut(work, &t->added_normalized, text, zero, found_normalized)
                             : found_normalized(work, -1, text, zero);
}

/* The tokens around the ids. */
static samba_status wrap(samba_work *work, const samba_around *around)
{
    samba_context *context = work->context;
    samba_ids *from = &work->ids, *to = &work->wrapped;
    const int64_t count = from->count + around->before_count + around->behind_count;
    SAMBA_TRY(SAMBA_GROW(context, to->data, to->capacity, count));
    if (around->before_count > 0)
        memcpy(to->data, around->before, (size_t)around->before_count * sizeof *to->data);
    if (from->count > 0)
        memcpy(to->data + around->before_count, from->data, (size_t)from->count * sizeof *to->data);
    if (around->behind_count > 0)
        memcpy(to->data + around->before_count + from->count, around->behind, (size_t)around->behind_count * sizeof *to->data);
    to->count = count;
    const samba_ids kept = *from;
    *from = *to;
    *to = kept;
    return SAMBA_OK;
}

samba_status samba_work_encode(samba_work *work, samba_str text, bool special)
{
    const samba_tokenizer *t = work->tokenizer;
    work->ids.count = 0;
    if (samba_utf8_valid(text.data, text.size) < text.size) {
        work->mended.size = 0;
        SAMBA_TRY(samba_utf8_mend(work->context, text, &work->mended));
        text = samba_chars_view(&work->mended);
    }
    if (work->matcher)
        samba_matcher_begin(work->matcher, text.size);
    if (text.size > 0)
        SAMBA_TRY(t->any_raw ? samba_added_cut(work, &t->added_raw, text, 1, found_raw) : found_raw(work, -1, text, 1));
    return special && t->around.before_count + t->around.behind_count > 0 ? wrap(work, &t->around) : SAMBA_OK;
}

/* ---- the public functions ---- */
struct samba_token_encoder {
    samba_work work;
};

samba_status samba_token_encoder_new(samba_context *context, const samba_tokenizer *tokenizer, samba_token_encoder **encoder)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, encoder);
    *encoder = NULL;
    SAMBA_NEED(context, tokenizer);
    samba_token_encoder *made = samba_calloc(context, sizeof *made);
    if (!made)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_work_init(&made->work, context, tokenizer, true);
    if (status != SAMBA_OK) {
        samba_free(context, made, sizeof *made);
        return status;
    }
    *encoder = made;
    return SAMBA_OK;
}

samba_status samba_token_encoder_run(samba_token_encoder *encoder, const char *text, size_t length, bool special,
                                     const int32_t **ids, int64_t *count)
{
    SAMBA_NEED(NULL, encoder);
    samba_context *context = encoder->work.context;
    SAMBA_NEED(context, ids);
    SAMBA_NEED(context, count);
    *ids = NULL;
    *count = 0;
    SAMBA_NEED(context, text);
    SAMBA_TRY(samba_work_encode(&encoder->work, samba_str_of(text, length), special));
    *ids = encoder->work.ids.data;
    *count = encoder->work.ids.count;
    return SAMBA_OK;
}

void samba_token_encoder_free(samba_token_encoder *encoder)
{
    if (!encoder)
        return;
    samba_context *context = encoder->work.context;
    samba_work_free(&encoder->work);
    samba_free(context, encoder, sizeof *encoder);
}

static samba_status take_ids(samba_work *work, samba_str text, bool special, samba_token_list *list)
{
    SAMBA_TRY(samba_work_encode(work, text, special));
    const int64_t count = work->ids.count;
    list->ids = samba_alloc(work->context, (size_t)count * sizeof *list->ids);
    if (!list->ids)
        return SAMBA_ERROR_MEMORY;
    if (count > 0)
        memcpy(list->ids, work->ids.data, (size_t)count * sizeof *list->ids);
    list->count = count;
    return SAMBA_OK;
}

samba_status samba_tokenizer_encode(samba_context *context, const samba_tokenizer *tokenizer, const char *text, size_t length,
                                    bool special, samba_token_list *list)
{
    samba_work work;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, list);
    *list = (samba_token_list){NULL, 0};
    SAMBA_NEED(context, tokenizer);
    SAMBA_NEED(context, text);
    SAMBA_TRY(samba_work_init(&work, context, tokenizer, length > 4096)); /* the cache costs more than few words */
    samba_status status = take_ids(&work, samba_str_of(text, length), special, list);
    samba_work_free(&work);
    return status;
}

void samba_token_list_free(samba_context *context, samba_token_list *list)
{
    if (!context || !list || !list->ids)
        return;
    samba_free(context, list->ids, (size_t)list->count * sizeof *list->ids);
    *list = (samba_token_list){NULL, 0};
}
