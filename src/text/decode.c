/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids to text: the tokens of the ids, one after the other, through the decoder's stages (decode_stage.c). Decoding at once takes
 * all ids, then the end; a stream (stream.c) takes them as they come. Most tokens decode to the same text wherever they stand:
 * decode_plain.c has it ready. */
#include "text/text.h"

#include "base/null.h"

static const samba_word *find_word(const samba_tokenizer *tokenizer, int32_t id)
{
    const samba_word *word = samba_vocab_word(&tokenizer->added_shown, id);
    return word ? word : samba_vocab_word(&tokenizer->vocab, id);
}

static bool find_special(const samba_tokenizer *tokenizer, const samba_word *word)
{
    const samba_word *added = samba_vocab_find(&tokenizer->added_vocab, word->text, word->size);
    return added && tokenizer->added[added - tokenizer->added_vocab.words].special;
}

samba_status samba_decode_index(samba_tokenizer *t)
{
    const samba_vocab *const all[] = {&t->vocab, &t->added_shown};
    const int64_t most = 2 * t->size + 1024; /* ids may leave gaps; those that are greater are looked for each time */
    int64_t count = 0;
    for (int i = 0; i < SAMBA_COUNT(all); i++)
        for (int64_t k = 0; k < all[i]->count; k++)
            count = all[i]->words[k].id >= count && all[i]->words[k].id < most ? all[i]->words[k].id + 1 : count;
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->shown, count + 1));
    for (int64_t i = 0; i < count; i++) {
        t->shown[i].word = find_word(t, (int32_t)i);
        t->shown[i].special = t->shown[i].word && find_special(t, t->shown[i].word);
    }
    t->shown_count = count;
    return samba_plain_index(t);
}

const samba_word *samba_tokenizer_word(const samba_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->shown_count ? tokenizer->shown[id].word : find_word(tokenizer, id);
}

static bool is_special(const samba_tokenizer *tokenizer, const samba_word *word, int32_t id)
{
    return id >= 0 && id < tokenizer->shown_count ? tokenizer->shown[id].special : find_special(tokenizer, word);
}

void samba_decode_begin(samba_work *work, size_t size)
{
    for (int i = 0; i < work->tokenizer->decoder.count; i++) {
        samba_stage *s = &work->stages[i];
        s->held.size = s->made.size = s->before.size = 0;
        s->count = s->run = 0;
        s->open = s->past = s->waits = false;
    }
    work->joined = false;
    work->settled = samba_plain_settled(work);
    if (work->matcher)
        samba_matcher_begin(work->matcher, size);
}

samba_status samba_decode_word(samba_work *work, const samba_word *word, samba_chars *to)
{
    const samba_tokenizer *t = work->tokenizer;
    samba_stages line = {work, work->stages, to};
    if (t->control && word->id == t->surface.id)
        word = &t->surface;
    if (t->control && t->control[word->id]) /* nothing, and what stands before and behind it is apart */
        return samba_stages_push(&line, 0, samba_str_of("", 0), true);
    if (t->has_decoder)
        return samba_stages_push(&line, 0, samba_str_of(word->text, word->size), true);
    if (work->joined)
        SAMBA_TRY(samba_chars_add(work->context, to, " ", 1));
    work->joined = true;
    return samba_chars_add(work->context, to, word->text, word->size);
}

samba_status samba_decode_next(samba_work *work, int32_t id, bool skip_special, samba_chars *to)
{
    const samba_tokenizer *t = work->tokenizer;
    const samba_dense *known = id >= 0 && id < t->shown_count ? &t->shown[id] : NULL;
    const samba_word *word = known ? known->word : find_word(t, id);
    if (!word || (skip_special && is_special(t, word, id)))
        return SAMBA_OK;
    if (work->settled && known && known->plain && known->whole)
        return samba_chars_add(work->context, to, known->plain, known->plain_size);
    SAMBA_TRY(samba_decode_word(work, word, to));
    work->settled = samba_plain_settled(work);
    return SAMBA_OK;
}

samba_status samba_decode_end(samba_work *work, samba_chars *to)
{
    samba_stages line = {work, work->stages, to};
    return samba_stages_end(&line);
}

/* Where ByteLevel is all of the decoder, the text is the bytes of all tokens. */
static samba_status decode_bytes(samba_work *work, const int32_t *ids, int64_t count, bool skip_special, samba_chars *to)
{
    const samba_tokenizer *t = work->tokenizer;
    samba_chars mended = {0};
    for (int64_t i = 0, done; i < count; i += done + 1) {
        SAMBA_TRY(samba_plain_add(work, ids + i, count - i, skip_special, to, &done));
        const samba_word *word = i + done < count ? samba_tokenizer_word(t, ids[i + done]) : NULL;
        if (word && !(skip_special && is_special(t, word, ids[i + done])))
            SAMBA_TRY(samba_stages_bytes(work->context, samba_str_of(word->text, word->size), to));
    }
    const samba_str all = samba_chars_view(to);
    if (samba_utf8_valid(all.data, all.size) == all.size)
        return SAMBA_OK;
    samba_status status = samba_utf8_mend(work->context, all, &mended);
    samba_chars_free(work->context, to);
    *to = mended;
    return status;
}

static samba_status decode(samba_work *work, const int32_t *ids, int64_t count, bool skip_special, samba_chars *to)
{
    size_t size = 0;
    if (work->tokenizer->bytes_alone)
        return decode_bytes(work, ids, count, skip_special, to);
    for (int64_t i = 0; work->matcher && i < count; i++) {
        const samba_word *word = samba_tokenizer_word(work->tokenizer, ids[i]);
        size += word ? word->size : 0;
    }
    samba_decode_begin(work, size);
    for (int64_t i = 0; i < count; i++) {
        int64_t done = 0;
        if (work->settled)
            SAMBA_TRY(samba_plain_add(work, ids + i, count - i, skip_special, to, &done));
        i += done;
        if (i < count)
            SAMBA_TRY(samba_decode_next(work, ids[i], skip_special, to));
    }
    return samba_decode_end(work, to);
}

static samba_status take_text(samba_work *work, const int32_t *ids, int64_t count, bool skip_special, samba_chars *text,
                              samba_token_text *taken)
{
    SAMBA_TRY(decode(work, ids, count, skip_special, text));
    taken->text = samba_alloc(work->context, (size_t)text->size + 1);
    if (!taken->text)
        return SAMBA_ERROR_MEMORY;
    if (text->size > 0)
        memcpy(taken->text, text->data, (size_t)text->size);
    taken->text[text->size] = '\0';
    taken->length = (size_t)text->size;
    return SAMBA_OK;
}

samba_status samba_tokenizer_decode(samba_context *context, const samba_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                    bool skip_special, samba_token_text *text)
{
    samba_work work;
    samba_chars all = {0};
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, text);
    *text = (samba_token_text){NULL, 0};
    SAMBA_NEED(context, tokenizer);
    if (count < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_tokenizer_decode: count is %lld", (long long)count);
    if (count > 0)
        SAMBA_NEED(context, ids);
    SAMBA_TRY(samba_work_init(&work, context, tokenizer, false));
    samba_status status = take_text(&work, ids, count, skip_special, &all, text);
    samba_chars_free(context, &all);
    samba_work_free(&work);
    return status;
}

void samba_token_text_free(samba_context *context, samba_token_text *text)
{
    if (!context || !text || !text->text)
        return;
    samba_free(context, text->text, text->length + 1);
    *text = (samba_token_text){NULL, 0};
}
