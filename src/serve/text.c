/* SPDX-License-Identifier: Apache-2.0
 *
 * A text as it is made, token by token: whole characters, of which those at the end are not settled that may yet turn out to be
 * the beginning of what ends it. A token that ends it is no text. */
#include "serve/serve.h"

#include <string.h>

static samba_status add(samba_serve_text *t, const char *bytes, size_t length)
{
    SAMBA_TRY(SAMBA_GROW(t->job->context, t->text, t->room, t->length + (int64_t)length + 1));
    memcpy(t->text + t->length, bytes, length);
    t->length += (int64_t)length;
    return SAMBA_OK;
}

/* What is settled now; an end where one of the request's stops is in what was not. */
static void settle(samba_serve_text *t)
{
    const samba_serve_request *r = t->job->request;
    const int64_t open = t->length - t->settled;
    if (open == 0)
        return;
    const int64_t stop = samba_stop_find(r->stop_count, r->stops, t->text + t->settled, open);
    if (stop >= 0) {
        t->length = t->settled + stop;
        t->end = SAMBA_SERVE_STOP;
    }
    const int64_t kept = t->end ? 0 : samba_stop_begun(r->stop_count, r->stops, t->text + t->settled, open);
    t->settled = t->length - kept;
}

static bool ends_with(const samba_serve_model *model, int32_t id)
{
    for (int64_t i = 0; i < model->stop_count; i++)
        if (model->stop_ids[i] == id)
            return true;
    return false;
}

samba_status samba_serve_text_take(const samba_serve_model *model, samba_serve_text *t, int32_t id)
{
    const char *bytes;
    size_t length;
    t->made++;
    if (ends_with(model, id))
        return samba_serve_text_end(t, SAMBA_SERVE_STOP);
    if (!t->stream)
        SAMBA_TRY(samba_token_stream_new(t->job->context, model->tokenizer, true, &t->stream));
    SAMBA_TRY(samba_token_stream_next(t->stream, id, &bytes, &length));
    SAMBA_TRY(add(t, bytes, length));
    if (t->made == t->job->most)
        return samba_serve_text_end(t, SAMBA_SERVE_LENGTH);
    settle(t);
    return SAMBA_OK;
}

samba_status samba_serve_text_end(samba_serve_text *t, samba_serve_end end)
{
    const char *bytes;
    size_t length;
    t->end = end;
    if (t->stream) {
        SAMBA_TRY(samba_token_stream_end(t->stream, &bytes, &length));
        SAMBA_TRY(add(t, bytes, length));
    }
    settle(t);
    return SAMBA_OK;
}
