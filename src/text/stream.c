/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding id by id: what the decoder's stages (decode_stage.c) tell for good. They hand on whole characters only. */
#include "text/text.h"

#include "base/null.h"

struct samba_token_stream {
    samba_work work;
    bool skip_special, begun;
    samba_chars given;
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

/* What has been decoded, with a NUL. */
static samba_status give(samba_token_stream *s, const char **text, size_t *length)
{
    SAMBA_TRY(samba_chars_room(s->work.context, &s->given, 1));
    s->given.data[s->given.size] = '\0';
    *text = s->given.data;
    *length = (size_t)s->given.size;
    return SAMBA_OK;
}

static void begin(samba_token_stream *s)
{
    s->given.size = 0;
    if (!s->begun)
        samba_decode_begin(&s->work, 0);
    else if (s->work.matcher)
        samba_matcher_begin(s->work.matcher, 0); /* anew for each id */
    s->begun = true;
}

samba_status samba_token_stream_next(samba_token_stream *stream, int32_t id, const char **text, size_t *length)
{
    SAMBA_NEED(NULL, stream);
    SAMBA_NEED(stream->work.context, text);
    SAMBA_NEED(stream->work.context, length);
    *text = "";
    *length = 0;
    begin(stream);
    SAMBA_TRY(samba_decode_next(&stream->work, id, stream->skip_special, &stream->given));
    return give(stream, text, length);
}

samba_status samba_token_stream_end(samba_token_stream *stream, const char **text, size_t *length)
{
    SAMBA_NEED(NULL, stream);
    SAMBA_NEED(stream->work.context, text);
    SAMBA_NEED(stream->work.context, length);
    *text = "";
    *length = 0;
    begin(stream);
    stream->begun = false;
    SAMBA_TRY(samba_decode_end(&stream->work, &stream->given));
    return give(stream, text, length);
}

void samba_token_stream_free(samba_token_stream *stream)
{
    if (!stream)
        return;
    samba_context *context = stream->work.context;
    samba_chars_free(context, &stream->given);
    samba_work_free(&stream->work);
    samba_free(context, stream, sizeof *stream);
}
