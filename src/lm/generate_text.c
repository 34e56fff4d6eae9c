/* SPDX-License-Identifier: Apache-2.0
 *
 * New tokens as text. Each sequence has a stream of its tokens' characters, of which those are kept back that may yet turn out
 * to be the beginning of a stop string: what a caller is told is never taken back. A token that ends its sequence is no text. */
#include "base/null.h"
#include "lm/lm.h"

#include <string.h>

typedef struct writer { /* of a sequence */
    samba_token_stream *stream;
    char *kept;
    int64_t room, length;
} writer;

typedef struct texts {
    samba_context *context;
    const samba_generation_options *options;
    writer *writers;
    int64_t count;
} texts;

/* Whole characters: what is kept back begins with one, as a stop string does. */
static void tell(texts *t, int64_t sequence, int64_t length, samba_generation_end *end)
{
    writer *w = &t->writers[sequence];
    const samba_generation_options *o = t->options;
    if (length > 0 && o->text && !o->text(o->user, sequence, w->kept, (size_t)length) && !*end)
        *end = SAMBA_END_CALLER;
    memmove(w->kept, w->kept + length, (size_t)(w->length - length));
    w->length -= length;
}

static samba_status take(texts *t, int64_t sequence, const char *text, size_t length)
{
    writer *w = &t->writers[sequence];
    SAMBA_TRY(SAMBA_GROW(t->context, w->kept, w->room, w->length + (int64_t)length + 1));
    memcpy(w->kept + w->length, text, length);
    w->length += (int64_t)length;
    return SAMBA_OK;
}

static samba_status visit(void *user, int64_t sequence, int32_t id, samba_generation_end *end)
{
    texts *t = user;
    writer *w = &t->writers[sequence];
    const char *text = "";
    size_t length = 0;
    if (id >= 0 && *end != SAMBA_END_STOP) {
        SAMBA_TRY(samba_token_stream_next(w->stream, id, &text, &length));
        SAMBA_TRY(take(t, sequence, text, length));
    }
    if (*end) {
        SAMBA_TRY(samba_token_stream_end(w->stream, &text, &length));
        SAMBA_TRY(take(t, sequence, text, length));
    }
    const samba_generation_options *o = t->options;
    const int64_t stop = samba_stop_find(o->stop_string_count, o->stop_strings, w->kept, w->length);
    if (stop >= 0) {
        w->length = stop;
        *end = SAMBA_END_STRING;
    }
    const int64_t kept = *end ? 0 : samba_stop_begun(o->stop_string_count, o->stop_strings, w->kept, w->length);
    tell(t, sequence, w->length - kept, end);
    return SAMBA_OK;
}

static samba_status make(texts *t, const samba_tokenizer *tokenizer)
{
    for (int64_t i = 0; i < t->count; i++) {
        SAMBA_TRY(samba_token_stream_new(t->context, tokenizer, !t->options->keep_special, &t->writers[i].stream));
        SAMBA_TRY(SAMBA_GROW(t->context, t->writers[i].kept, t->writers[i].room, 64));
    }
    return SAMBA_OK;
}

static void unmake(texts *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        samba_token_stream_free(t->writers[i].stream);
        samba_free(t->context, t->writers[i].kept, (size_t)t->writers[i].room);
    }
    samba_free(t->context, t->writers, sizeof *t->writers * (size_t)t->count);
}

static samba_status check_strings(samba_context *context, const samba_generation_options *o)
{
    bool fits = o->stop_string_count >= 0 && (o->stop_string_count == 0 || o->stop_strings);
    for (int64_t i = 0; fits && i < o->stop_string_count; i++)
        fits = o->stop_strings[i] && o->stop_strings[i][0];
    return fits ? SAMBA_OK : samba_fail(context, SAMBA_ERROR_ARGUMENT, "generate: a stop string is expected to be some text");
}

samba_status samba_generate_text(samba_generator *generator, const samba_tokenizer *tokenizer,
                                 const samba_generation_options *given, samba_generation_end *ends)
{
    samba_generation_options options = samba_generation_defaults();
    SAMBA_NEED(NULL, generator);
    texts t = {.context = samba_generator_context(generator), .count = samba_generator_sequences(generator), .options = &options};
    SAMBA_NEED(t.context, tokenizer);
    SAMBA_NEED(t.context, ends);
    if (given)
        SAMBA_TRY(samba_options_take(t.context, "samba_generate_text", given, sizeof options, &options));
    SAMBA_TRY(check_strings(t.context, &options));
    t.writers = samba_calloc(t.context, sizeof *t.writers * (size_t)t.count);
    if (!t.writers)
        return SAMBA_ERROR_MEMORY;
    samba_status status = make(&t, tokenizer);
    if (status == SAMBA_OK)
        status = samba_lm_generate(generator, &options, visit, &t, ends);
    unmake(&t);
    return status;
}
