/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding id by id. How a token reads depends on few before it: whether it is the first, whether it is the last one again. So
 * the bytes that an id adds are those of it and the two before it, less those of these two alone, both decoded raw. They wait
 * until they are whole characters; of bytes that cannot become one each broken begin is a U+FFFD, as in any text. */
#include "text/text.h"

#include "base/null.h"

enum { BEFORE = 2 };

struct samba_token_stream {
    samba_work work;
    bool skip_special;
    int32_t ids[BEFORE + 1]; /* those before, `count` of them */
    int count;
    samba_chars alone, both, waiting, given;
};

samba_status samba_token_stream_new(samba_context *context, const samba_tokenizer *tokenizer, bool skip_special,
                                    samba_token_stream **stream)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, stream);
    *stream = NULL;
    SAMBA_NEED(context, tokenizer);
    samba_token_stream *made = samba_calloc(context, sizeof *made);
    if (!made)
        return SAMBA_ERROR_MEMORY;
    made->skip_special = skip_special;
    samba_status status = samba_work_init(&made->work, context, tokenizer, false);
    if (status != SAMBA_OK) {
        samba_free(context, made, sizeof *made);
        return status;
    }
    *stream = made;
    return SAMBA_OK;
}

/* Moves what is whole of the waiting bytes to `given`, at the end all of them. */
static samba_status give(samba_token_stream *s, bool end)
{
    samba_context *context = s->work.context;
    samba_chars *waiting = &s->waiting;
    size_t at = 0;
    s->given.size = 0;
    while ((int64_t)at < waiting->size) {
        const char *text = waiting->data + at;
        const size_t size = (size_t)waiting->size - at, whole = samba_utf8_valid(text, size);
        int bad;
        bool cut;
        SAMBA_TRY(samba_chars_add(context, &s->given, text, whole));
        at += whole;
        if (whole == size)
            break;
        (void)samba_utf8_check(text + whole, size - whole, &bad, &cut);
        if (cut && !end)
            break;
        SAMBA_TRY(samba_chars_add_code(context, &s->given, 0xfffd));
        at += (size_t)bad;
    }
    SAMBA_TRY(samba_chars_room(context, &s->given, 1));
    s->given.data[s->given.size] = '\0';
    waiting->size -= (int64_t)at;
    if (waiting->size > 0)
        memmove(waiting->data, waiting->data + at, (size_t)waiting->size);
    return SAMBA_OK;
}

samba_status samba_token_stream_next(samba_token_stream *stream, int32_t id, const char **text, size_t *length)
{
    SAMBA_NEED(NULL, stream);
    samba_token_stream *s = stream;
    samba_context *context = s->work.context;
    SAMBA_NEED(context, text);
    SAMBA_NEED(context, length);
    *text = "";
    *length = 0;
    const samba_tokenizer *t = s->work.tokenizer;
    if (samba_decode_skips(t, samba_tokenizer_word(t, id), s->skip_special))
        return SAMBA_OK;
    s->alone.size = s->both.size = 0;
    s->ids[s->count] = id;
    SAMBA_TRY(samba_decode(&s->work, s->ids, s->count, false, true, &s->alone));
    SAMBA_TRY(samba_decode(&s->work, s->ids, s->count + 1, false, true, &s->both));
    int64_t same = 0; /* all that was there before, but for decoders of odd parts */
    while (same < s->alone.size && same < s->both.size && s->alone.data[same] == s->both.data[same])
        same++;
    if (same < s->both.size)
        SAMBA_TRY(samba_chars_add(context, &s->waiting, s->both.data + same, (size_t)(s->both.size - same)));
    if (s->count < BEFORE)
        s->count++;
    else
        memmove(s->ids, s->ids + 1, BEFORE * sizeof *s->ids);
    SAMBA_TRY(give(s, false));
    *text = s->given.data;
    *length = (size_t)s->given.size;
    return SAMBA_OK;
}

samba_status samba_token_stream_end(samba_token_stream *stream, const char **text, size_t *length)
{
    SAMBA_NEED(NULL, stream);
    SAMBA_NEED(stream->work.context, text);
    SAMBA_NEED(stream->work.context, length);
    *text = "";
    *length = 0;
    stream->count = 0;
    SAMBA_TRY(give(stream, true));
    *text = stream->given.data;
    *length = (size_t)stream->given.size;
    return SAMBA_OK;
}

void samba_token_stream_free(samba_token_stream *stream)
{
    if (!stream)
        return;
    samba_context *context = stream->work.context;
    samba_chars_free(context, &stream->alone);
    samba_chars_free(context, &stream->both);
    samba_chars_free(context, &stream->waiting);
    samba_chars_free(context, &stream->given);
    samba_work_free(&stream->work);
    samba_free(context, stream, sizeof *stream);
}
