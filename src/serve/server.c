/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's start and end: the keys, the socket, the engine, then connections; and in the other order. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "serve/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- keys ---- */

static samba_status take_key(samba_server *s, const char *path, char *key, int64_t *room)
{
    size_t length = strlen(key);
    while (length > 0 && strchr(" \t\r", key[length - 1]))
        key[--length] = '\0';
    while (*key == ' ' || *key == '\t')
        key++;
    if (!*key)
        return SAMBA_OK;
    for (const char *at = key; *at; at++)
        if (*at <= ' ' || *at > '~')
            return samba_fail(s->context, SAMBA_ERROR_FORMAT, "%.300s: a key has other characters than visible ones of ASCII",
                              path);
    SAMBA_TRY(SAMBA_MORE(&s->arena, s->keys, s->key_count, *room));
    s->keys[s->key_count++] = key;
    return SAMBA_OK;
}

static samba_status read_keys(samba_server *s, const char *path)
{
    void *data;
    size_t size;
    char *text;
    int64_t room = 0;
    SAMBA_TRY(samba_file_read(s->context, path, &data, &size));
    samba_status status = SAMBA_ROOM(&s->arena, text, size + 1);
    if (status == SAMBA_OK) {
        memcpy(text, data, size);
        if (memchr(text, '\0', size))
            status = samba_fail(s->context, SAMBA_ERROR_FORMAT, "%.300s: a key has a byte 0", path);
    }
    samba_free(s->context, data, size);
    for (char *line = text, *end; status == SAMBA_OK && line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        status = take_key(s, path, line, &room);
    }
    if (status == SAMBA_OK && s->key_count == 0)
        return samba_fail(s->context, SAMBA_ERROR_FORMAT, "%.300s has no key: write one a line", path);
    return status;
}

/* ---- the socket ---- */

static samba_status tell_address(samba_server *s, int socket)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[64], port[16];
    if (getsockname(socket, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) !=
            0)
        return samba_fail(s->context, SAMBA_ERROR_FILE, "the system does not say where it listens");
    const bool is_six = address.ss_family == AF_INET6;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
    s->is_local = is_six ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) : ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    snprintf(s->address, sizeof s->address, "http://%s%s%s:%s", is_six ? "[" : "", host, is_six ? "]" : "", port);
    return SAMBA_OK;
}

static int listen_at(const struct addrinfo *at)
{
    const int yes = 1, made = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (made >= 0 && setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(made, at->ai_addr, at->ai_addrlen) == 0 && listen(made, SOMAXCONN) == 0)
        return made;
    const int reason = errno;
    if (made >= 0)
        close(made);
    errno = reason;
    return -1;
}

static samba_status open_socket(samba_server *s, int *opened)
{
    const samba_serve_options *o = &s->options;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char port[16];
    snprintf(port, sizeof port, "%d", o->port);
    const int failure = getaddrinfo(o->host, port, &hints, &found);
    if (failure)
        return samba_fail(s->context, SAMBA_ERROR_ARGUMENT, "--host: '%.200s' is no address of this machine: %s", o->host,
                          gai_strerror(failure));
    *opened = listen_at(found);
    freeaddrinfo(found);
    if (*opened < 0)
        return samba_fail(s->context, SAMBA_ERROR_FILE, "cannot listen at %.200s, port %d: %s: give another --port, 0 for any",
                          o->host, o->port, strerror(errno));
    return tell_address(s, *opened);
}

/* ---- start and end ---- */

static samba_status listen_to(samba_server *s)
{
    char message[SAMBA_HTTP_MESSAGE];
    int opened = -1;
    samba_http_options options = {.connections = s->options.connections,
                                  .most_bytes = s->options.most_bytes,
                                  .seconds = s->options.seconds,
                                  .user = s,
                                  .answer = samba_serve_answer,
                                  .done = samba_serve_done};
    samba_status status = open_socket(s, &opened);
    options.socket = opened;
    if (status == SAMBA_OK) {
        status = s->http->start(&options, &s->connections, message);
        if (status != SAMBA_OK)
            samba_fail(s->context, status, "%s", message);
    }
    if (status != SAMBA_OK && opened >= 0)
        close(opened);
    return status;
}

static samba_status start(samba_server *s)
{
    SAMBA_TRY(samba_http_open(s->context, &s->http));
    if (s->options.key_file)
        SAMBA_TRY(read_keys(s, s->options.key_file));
    SAMBA_TRY(samba_serve_engine_new(s->options.model, s->options.queue, &s->engine));
    return listen_to(s);
}

samba_status samba_serve_start(samba_context *context, const samba_serve_options *options, samba_server **server)
{
    *server = NULL;
    samba_server *s = samba_calloc(context, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    s->context = context;
    s->options = *options;
    s->created = (int64_t)time(NULL);
    json_object_seed(0); /* jansson's, once for all threads */
    samba_arena_init(&s->arena, context);
    const samba_status status = start(s);
    if (status == SAMBA_OK)
        *server = s;
    else
        samba_serve_free(s);
    return status;
}

const char *samba_serve_address(const samba_server *s) { return s->address; }
bool samba_serve_is_local(const samba_server *s) { return s->is_local; }

void samba_serve_quiesce(samba_server *s)
{
    s->http->quiesce(s->connections);
    samba_serve_engine_end(s->engine);
}

bool samba_serve_busy(samba_server *s) { return s->http->busy(s->connections) > 0; }
void samba_serve_hurry(samba_server *s) { samba_serve_engine_hurry(s->engine); }

void samba_serve_free(samba_server *s)
{
    if (!s)
        return;
    if (s->connections)
        s->http->stop(s->connections);
    samba_serve_engine_free(s->engine);
    samba_arena_free(&s->arena);
    samba_free(s->context, s, sizeof *s);
}
