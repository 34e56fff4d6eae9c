/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer as server-sent events: pieces of its texts as they are settled, the end of each, what was used, "[DONE]". A failure
 * on the way is an event with the error, and the last. Called in the connection's thread, which waits here for the engine. */
#include "serve/serve.h"

#include <string.h>

enum { ENDED = -2, NEW = -1 }; /* in `told` */

samba_status samba_serve_stream_begin(samba_serve_call *c)
{
    samba_text_init(&c->out, c->context);
    c->told = samba_alloc(c->context, sizeof *c->told * (size_t)c->job->text_count);
    if (!c->told)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < c->job->text_count; i++)
        c->told[i] = NEW;
    return SAMBA_OK;
}

void samba_serve_stream_end(samba_serve_call *c)
{
    samba_text_clear(&c->out);
    if (c->told)
        samba_free(c->context, c->told, sizeof *c->told * (size_t)c->job->text_count);
    c->told = NULL;
}

/* Takes the object; NULL, no memory, ends the stream. */
static void send_event(samba_serve_call *c, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (text)
        samba_text_add(&c->out, "data: %s\n\n", text);
    else
        c->out.status = samba_fail(c->context, SAMBA_ERROR_MEMORY, "no memory for an answer");
    free(text);
}

/* What is new of a text; with the engine's lock. */
static void tell(samba_serve_call *c, int64_t i)
{
    const samba_serve_text *t = &c->job->texts[i];
    const samba_serve_end end = t->end <= SAMBA_SERVE_LENGTH ? t->end : (samba_serve_end)0;
    if (c->told[i] == NEW) {
        c->told[i] = 0;
        if (c->head.kind == SAMBA_SERVE_CHAT)
            send_event(c, samba_serve_piece(&c->head, c->job, i, "", 0, 0, true));
    }
    if (c->told[i] == ENDED)
        return;
    const int64_t length = t->settled - c->told[i];
    const bool apart = c->head.kind == SAMBA_SERVE_CHAT; /* the end has an event of its own */
    if (length > 0)
        send_event(c, samba_serve_piece(&c->head, c->job, i, t->text + c->told[i], length, apart ? 0 : end, false));
    if (end && (apart || length == 0))
        send_event(c, samba_serve_piece(&c->head, c->job, i, "", 0, end, false));
    c->told[i] = end ? ENDED : t->settled;
}

/* Behind the last of the texts; with the engine's lock. */
static void finish(samba_serve_call *c)
{
    const samba_serve_end failure = samba_serve_job_failure(c->job);
    c->whole = true;
    if (failure) {
        char message[1024];
        const int status = samba_serve_failure(c, failure, message, sizeof message);
        send_event(c, samba_serve_error(status, message, NULL, NULL));
        return;
    }
    if (c->request.usage)
        send_event(c, samba_serve_last(&c->head, c->job));
    samba_text_add(&c->out, "data: [DONE]\n\n");
}

/* Waits until there is something to send; false: the client is gone. */
static bool wait_for_more(samba_serve_call *c)
{
    samba_serve_engine *engine = c->server->engine;
    bool there = true;
    c->out.length = 0;
    c->sent = 0;
    samba_serve_engine_lock(engine);
    for (;;) {
        const bool ended = c->job->open == 0;
        for (int64_t i = 0; i < c->job->text_count; i++)
            tell(c, i);
        if (ended)
            finish(c);
        there = c->server->http->is_there(c->connection);
        if (c->out.length > 0 || c->out.status != SAMBA_OK || !there)
            break;
        samba_serve_engine_wait(engine, c->job);
    }
    samba_serve_engine_unlock(engine);
    return there;
}

int64_t samba_serve_stream_more(void *call, char *into, size_t most)
{
    samba_serve_call *c = call;
    if (c->sent == c->out.length) {
        if (c->whole)
            return 0;
        if (!wait_for_more(c) || c->out.status != SAMBA_OK)
            return -1;
    }
    const int64_t left = c->out.length - c->sent, count = left < (int64_t)most ? left : (int64_t)most;
    memcpy(into, c->out.data + c->sent, (size_t)count);
    c->sent += count;
    return count;
}
