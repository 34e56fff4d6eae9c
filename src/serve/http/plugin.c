/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP by GNU libmicrohttpd: a plugin of this file alone, nothing of the library is linked in.
 *
 * Each connection has a thread. A further thread keeps the time: each connection has a moment until which its bytes must have
 * come or gone, and its socket is shut down when that is past, which wakes its thread. While a caller's function waits there is
 * no such moment. A connection's entry in the list lives between two calls of `meet`, and its socket is open all that time. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "serve/http.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    STACK = 4 << 20, /* of a connection's thread */
    BLOCK = 16384,   /* bytes of an answer that are asked for at once */
    DISCARDED = 8,   /* so many times the bytes allowed are read and thrown away before a connection is cut */
    TICK = 250000000 /* nanoseconds between two looks at the connections */
};

typedef struct entry { /* a connection */
    struct entry *before, *behind;
    int socket;
    double until; /* INFINITY: nothing is due */
} entry;

struct samba_http_server {
    samba_http_options options;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    pthread_t keeper;
    bool keeps, ending;
    entry *entries;
    int64_t busy;
};

typedef struct exchange { /* a request and its answer */
    char *body;
    size_t length, room, gone; /* gone: bytes beyond those allowed */
    bool too_large, answered;
    samba_http_answer answer;
} exchange;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the time that connections have ---- */

static entry *entry_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void set_until(samba_http_server *s, entry *l, double until)
{
    pthread_mutex_lock(&s->lock);
    l->until = until;
    pthread_mutex_unlock(&s->lock);
}

static void meet(void *user, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode code)
{
    samba_http_server *s = user;
    entry *l = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        l = info ? calloc(1, sizeof *l) : NULL;
        *context = l;
        if (!l)
            return; /* its first request is refused */
        l->socket = info->connect_fd;
        l->until = now() + s->options.seconds;
    }
    if (!l)
        return;
    pthread_mutex_lock(&s->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        l->behind = s->entries;
        if (s->entries)
            s->entries->before = l;
        s->entries = l;
    } else {
        if (l->before)
            l->before->behind = l->behind;
        else
            s->entries = l->behind;
        if (l->behind)
            l->behind->before = l->before;
    }
    pthread_mutex_unlock(&s->lock);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        free(l);
        *context = NULL;
    }
}

static void *keep_time(void *user)
{
    samba_http_server *s = user;
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->changed, &s->lock, &until);
        const double at = now();
        for (entry *l = s->entries; l; l = l->behind)
            if (at > l->until) {
                shutdown(l->socket, SHUT_RDWR);
                l->until = INFINITY;
            }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- a request ---- */

static bool take_bytes(const samba_http_server *s, exchange *x, const char *data, size_t size)
{
    const size_t most = (size_t)s->options.most_bytes;
    if (x->too_large || size > most - x->length) {
        x->too_large = true;
        x->gone += size;
        return x->gone / DISCARDED <= most;
    }
    if (x->length + size + 1 > x->room) {
        size_t room = x->room ? x->room : 4096;
        while (room < x->length + size + 1)
            room *= 2;
        char *grown = realloc(x->body, room);
        if (!grown)
            return false;
        x->body = grown;
        x->room = room;
    }
    memcpy(x->body + x->length, data, size);
    x->length += size;
    x->body[x->length] = '\0';
    return true;
}

/* Bytes that say beforehand how many they are, and are too many to be read and thrown away. */
static bool is_hopeless(const samba_http_server *s, struct MHD_Connection *connection)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtod(length, NULL) > (double)s->options.most_bytes * (DISCARDED + 1);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static ssize_t read_more(void *user, uint64_t position, char *into, size_t most)
{
    exchange *x = user;
    (void)position;
    const int64_t got = x->answer.more(x->answer.state, into, most);
    return got > 0 ? (ssize_t)got : got == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static enum MHD_Result respond(samba_http_server *s, exchange *x, struct MHD_Connection *connection, const char *path,
                               const char *method)
{
    entry *l = entry_of(connection);
    samba_http_answer *a = &x->answer;
    const samba_http_request request = {.method = method,
                                        .path = path,
                                        .content_type = header(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
                                        .authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION),
                                        .origin = header(connection, MHD_HTTP_HEADER_ORIGIN),
                                        .body = x->too_large || !x->body ? "" : x->body,
                                        .length = x->too_large ? 0 : x->length,
                                        .too_large = x->too_large,
                                        .connection = connection};
    set_until(s, l, INFINITY);
    s->options.answer(s->options.user, &request, a);
    x->answered = true;
    /* A stream is made in as much time as its caller allows it, and has as much again to go. */
    set_until(s, l, now() + s->options.seconds * (a->more ? 2 : 1));
    struct MHD_Response *response =
        a->more ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_more, x, NULL)
                : MHD_create_response_from_buffer(a->length, (void *)(uintptr_t)(a->body ? a->body : ""), MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_YES;
    for (int i = 0; i < a->header_count && result == MHD_YES; i++)
        result = MHD_add_response_header(response, a->headers[i].name, a->headers[i].value);
    if (result == MHD_YES)
        result = MHD_queue_response(connection, (unsigned)a->status, response);
    MHD_destroy_response(response);
    return result;
}

/* Called with a request's head, with its bytes as they come, and behind them. */
static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
    samba_http_server *s = user;
    exchange *x = *state;
    (void)version;
    if (!x) {
        x = entry_of(connection) ? calloc(1, sizeof *x) : NULL;
        if (!x)
            return MHD_NO;
        *state = x;
        pthread_mutex_lock(&s->lock);
        s->busy++;
        pthread_mutex_unlock(&s->lock);
        x->too_large = is_hopeless(s, connection);
        return x->too_large ? respond(s, x, connection, path, method) : MHD_YES;
    }
    if (*size > 0) {
        const bool taken = take_bytes(s, x, data, *size);
        *size = 0;
        return taken ? MHD_YES : MHD_NO;
    }
    return x->answered ? MHD_NO : respond(s, x, connection, path, method);
}

static void complete(void *user, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    samba_http_server *s = user;
    exchange *x = *state;
    entry *l = entry_of(connection);
    if (!x)
        return;
    if (x->answered)
        s->options.done(s->options.user, x->answer.state, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    free(x->body);
    free(x);
    *state = NULL;
    pthread_mutex_lock(&s->lock);
    s->busy--;
    if (l)
        l->until = now() + s->options.seconds;
    pthread_mutex_unlock(&s->lock);
}

/* ---- the server ---- */

static bool is_there(void *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd look = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};
    return info && (poll(&look, 1, 0) <= 0 || !(look.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)));
}

static void quiesce(samba_http_server *s)
{
    const MHD_socket listening = MHD_quiesce_daemon(s->daemon);
    if (listening != MHD_INVALID_SOCKET)
        close(listening);
}

static int64_t busy(samba_http_server *s)
{
    pthread_mutex_lock(&s->lock);
    const int64_t count = s->busy;
    pthread_mutex_unlock(&s->lock);
    return count;
}

static void stop(samba_http_server *s)
{
    if (!s)
        return;
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->keeps)
        pthread_join(s->keeper, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static samba_status start(const samba_http_options *options, samba_http_server **server, char *message)
{
    samba_http_server *s = calloc(1, sizeof *s);
    pthread_condattr_t clock;
    *server = NULL;
    if (!s) {
        snprintf(message, SAMBA_HTTP_MESSAGE, "no memory");
        return SAMBA_ERROR_MEMORY;
    }
    s->options = *options;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &clock);
    pthread_condattr_destroy(&clock);
    s->keeps = pthread_create(&s->keeper, NULL, keep_time, s) == 0;
    errno = 0;
    if (s->keeps)
        s->daemon =
            MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC, 0,
                             NULL, NULL, handle, s, MHD_OPTION_LISTEN_SOCKET, options->socket, MHD_OPTION_CONNECTION_LIMIT,
                             (unsigned)options->connections, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK,
                             MHD_OPTION_NOTIFY_CONNECTION, meet, s, MHD_OPTION_NOTIFY_COMPLETED, complete, s, MHD_OPTION_END);
    if (!s->daemon) {
        snprintf(message, SAMBA_HTTP_MESSAGE, "libmicrohttpd does not start: %s", strerror(errno ? errno : ENOMEM));
        stop(s);
        return SAMBA_ERROR_FILE;
    }
    *server = s;
    return SAMBA_OK;
}

__attribute__((visibility("default"))) const samba_http_interface *samba_http_plugin(void);
const samba_http_interface *samba_http_plugin(void)
{
    static const samba_http_interface interface = {.version = SAMBA_HTTP_VERSION,
                                                   .struct_size = sizeof interface,
                                                   .start = start,
                                                   .is_there = is_there,
                                                   .quiesce = quiesce,
                                                   .busy = busy,
                                                   .stop = stop};
    return &interface;
}
