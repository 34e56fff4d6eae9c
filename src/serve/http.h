/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP server as a plugin gives it (http/plugin.c), which alone knows GNU libmicrohttpd: the program starts without it. The
 * plugin is asked for one symbol, samba_http_plugin, whose version and size must be those of this header.
 *
 * Each connection has a thread of its own, in which the server's functions are called and may wait. The plugin keeps the limits
 * on bytes, connections and the time that bytes may take; what a request means is the caller's. */
#ifndef SAMBA_SERVE_HTTP_H
#define SAMBA_SERVE_HTTP_H

#include <sambaflow/context.h>

#define SAMBA_HTTP_VERSION 1
#define SAMBA_HTTP_MESSAGE 256
#define SAMBA_HTTP_HEADERS 6
#define SAMBA_HTTP_SYMBOL "samba_http_plugin"

typedef struct samba_http_server samba_http_server;

typedef struct samba_http_request {                    /* until its answer is done */
    const char *method, *path;                         /* the path without what stands behind a question mark */
    const char *content_type, *authorization, *origin; /* NULL: not sent */
    const char *body;                                  /* with a NUL behind its bytes */
    size_t length;
    bool too_large;   /* more bytes than are allowed: then there is no body */
    void *connection; /* of is_there */
} samba_http_request;

typedef struct samba_http_answer { /* begins as zeros */
    int status;
    int header_count;
    struct samba_http_header {
        const char *name, *value;
    } headers[SAMBA_HTTP_HEADERS];
    const char *body; /* all of it, which stays until `done` */
    size_t length;
    /* NULL, or where the body comes from: the next bytes, at most `most`, once there are some; 0: the end; -1: the connection is
     * to be cut. It may wait. */
    int64_t (*more)(void *state, char *into, size_t most);
    void *state;
} samba_http_answer;

typedef struct samba_http_options {
    int socket;         /* which listens; the server closes it */
    int connections;    /* at once; more are closed as they come */
    int64_t most_bytes; /* of a request's body */
    double seconds;     /* in which a request must have come, from its connection or the answer before it; and an answer gone */
    void *user;
    /* Fills the answer. */
    void (*answer)(void *user, const samba_http_request *request, samba_http_answer *answer);
    /* Once for each call of `answer`: the answer is sent, or, where not `whole`, the client is gone. */
    void (*done)(void *user, void *state, bool whole);
} samba_http_options;

typedef struct samba_http_interface {
    int version;
    size_t struct_size;
    samba_status (*start)(const samba_http_options *options, samba_http_server **server, char *message);
    bool (*is_there)(void *connection);         /* the client of a request has not hung up; of its own thread alone */
    void (*quiesce)(samba_http_server *server); /* no more connections; those that are there go on */
    int64_t (*busy)(samba_http_server *server); /* requests that have begun and have no whole answer yet */
    void (*stop)(samba_http_server *server);    /* ends all connections, waits for their threads, and frees; NULL is allowed */
} samba_http_interface;

typedef const samba_http_interface *samba_http_plugin_fn(void);

/* http.c: UNSUPPORTED, with the package's name, where there is no plugin. */
samba_status samba_http_open(samba_context *context, const samba_http_interface **interface);

#endif
