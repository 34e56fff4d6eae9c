/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain tokens: those that decode to the same text wherever they stand between others, which are nearly all. The stages
 * (decode_stage.c) have a settled state, in which they keep no text; a token is plain if it leaves them in it. What it gives then
 * is found once, when the tokenizer is opened, by the stages themselves, so that both roads give one text by construction.
 * ByteLevel alone needs no stages: the text is the bytes of all tokens, and the bytes of each are known. */
#include "text/text.h"

enum { STRIDE = 16, /* texts are copied by so many bytes: as many lie behind the last */ MOST_GROWTH = 4 };

static samba_stage_state state_of(const samba_stage *s)
{
    return (samba_stage_state){s->count, s->run, s->open, s->past, s->waits};
}

static bool is_empty(const samba_work *work)
{
    for (int i = 0; i < work->tokenizer->decoder.count; i++)
        if (work->stages[i].held.size || work->stages[i].made.size || work->stages[i].before.size)
            return false;
    return true;
}

bool samba_plain_settled(const samba_work *work)
{
    const samba_tokenizer *t = work->tokenizer;
    if (!t->settles)
        return false;
    for (int i = 0; i < t->decoder.count; i++) {
        const samba_stage_state now = state_of(&work->stages[i]), then = t->settled[i];
        if (now.count != then.count || now.run != then.run || now.open != then.open || now.past != then.past ||
            now.waits != then.waits)
            return false;
    }
    return is_empty(work) && (t->has_decoder || work->joined);
}

static void settle(samba_work *work)
{
    for (int i = 0; i < work->tokenizer->decoder.count; i++) {
        samba_stage *s = &work->stages[i];
        const samba_stage_state state = work->tokenizer->settled[i];
        s->held.size = s->made.size = s->before.size = 0;
        s->count = state.count;
        s->run = state.run;
        s->open = state.open;
        s->past = state.past;
        s->waits = state.waits;
    }
}

/* Whether a step makes texts so much longer that they are better made when they are asked for, or has a regular expression,
 * whose steps count for a whole text. */
static bool is_costly(const samba_text_steps *decoder)
{
    size_t growth = 1;
    for (int i = 0; i < decoder->count; i++) {
        const samba_text_step *step = &decoder->steps[i];
        if (step->kind != SAMBA_STEP_DECODE_REPLACE)
            continue;
        if (step->regex || (step->text.size == 0 && step->with.size > 0) || step->with.size > MOST_GROWTH * step->text.size)
            return true;
        growth *= step->with.size > step->text.size ? (step->with.size + step->text.size - 1) / step->text.size : 1;
        if (growth > MOST_GROWTH)
            return true;
    }
    return false;
}

/* The state that a token leaves the stages in, if the next one leaves them in the same. */
static samba_status find_settled(samba_tokenizer *t, samba_work *work, samba_chars *to)
{
    const samba_str text = samba_str_of("x", 1);
    samba_stages line = {work, work->stages, to};
    samba_decode_begin(work, 0);
    work->joined = true;
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->settled, t->decoder.count + 1));
    SAMBA_TRY(samba_stages_push(&line, 0, text, true));
    for (int i = 0; i < t->decoder.count; i++)
        t->settled[i] = state_of(&work->stages[i]);
    SAMBA_TRY(samba_stages_push(&line, 0, text, true));
    t->settles = true;
    t->settles = samba_plain_settled(work);
    return SAMBA_OK;
}

static samba_status add_token(samba_work *work, samba_dense *token, samba_chars *to)
{
    const int64_t begin = to->size;
    if (work->tokenizer->bytes_alone)
        SAMBA_TRY(samba_stages_bytes(work->context, samba_str_of(token->word->text, token->word->size), to));
    else {
        settle(work);
        SAMBA_TRY(samba_decode_word(work, token->word, to));
    }
    const size_t size = (size_t)(to->size - begin);
    if (size > UINT32_MAX || (!work->tokenizer->bytes_alone && !samba_plain_settled(work))) {
        to->size = begin;
        return SAMBA_OK;
    }
    token->plain = ""; /* its place is known behind the last */
    token->plain_size = (uint32_t)size;
    token->whole = size == 0 || samba_utf8_valid(to->data + begin, size) == size;
    return SAMBA_OK;
}

static samba_status find_texts(samba_tokenizer *t, samba_work *work, samba_chars *to)
{
    char *texts;
    SAMBA_TRY(find_settled(t, work, to));
    if (!t->settles)
        return SAMBA_OK;
    to->size = 0;
    for (int64_t i = 0; i < t->shown_count; i++)
        if (t->shown[i].word)
            SAMBA_TRY(add_token(work, &t->shown[i], to));
    SAMBA_TRY(samba_arena_room(&t->arena, (size_t)to->size + STRIDE, &texts));
    if (to->size > 0)
        memcpy(texts, to->data, (size_t)to->size);
    for (int64_t i = 0; i < t->shown_count; i++)
        if (t->shown[i].plain) {
            t->shown[i].plain = texts;
            texts += t->shown[i].plain_size;
        }
    return SAMBA_OK;
}

samba_status samba_plain_index(samba_tokenizer *t)
{
    samba_work work;
    samba_chars all = {0};
    if (is_costly(&t->decoder))
        return SAMBA_OK;
    t->bytes_alone = t->decoder.count == 1 && t->decoder.steps[0].kind == SAMBA_STEP_DECODE_BYTES;
    SAMBA_TRY(samba_work_init(&work, t->context, t, false));
    samba_status status = find_texts(t, &work, &all);
    samba_chars_free(t->context, &all);
    samba_work_free(&work);
    return status;
}

samba_status samba_plain_add(samba_work *work, const int32_t *ids, int64_t count, bool skip_special, samba_chars *to,
                             int64_t *done)
{
    const samba_tokenizer *t = work->tokenizer;
    int64_t i = 0;
    for (; i < count; i++) {
        const samba_dense *token = ids[i] >= 0 && ids[i] < t->shown_count ? &t->shown[ids[i]] : NULL;
        if (!token || !token->plain)
            break;
        if (skip_special && token->special)
            continue;
        const int64_t size = token->plain_size;
        if (to->capacity - to->size < size + STRIDE)
            SAMBA_TRY(samba_chars_room(work->context, to, (size_t)size + STRIDE));
        if (size <= STRIDE)
            memcpy(to->data + to->size, token->plain, STRIDE);
        else
            memcpy(to->data + to->size, token->plain, (size_t)size);
        to->size += size;
    }
    *done = i;
    return SAMBA_OK;
}
