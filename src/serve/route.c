/* SPDX-License-Identifier: Apache-2.0
 *
 * From a request of HTTP to its answer: who may ask, which path it is, what a refusal looks like, and a line of the log. All in
 * the connection's thread, which waits here for an answer that comes as a whole; one that comes in pieces is stream.c's.
 *
 * A page of a browser says where it is from (Origin), and may ask only where --cors names that: else any page that is open
 * beside a server on this machine could use it. For the same reason a body must say that it is JSON. */
#include "serve/serve.h"

#include <string.h>
#include <strings.h>

static const char no_memory[] =
    "{\"error\": {\"message\": \"no memory\", \"type\": \"server_error\", \"param\": null, \"code\": null}}";

static void add_header(samba_http_answer *a, const char *name, const char *value)
{
    if (a->header_count < SAMBA_HTTP_HEADERS)
        a->headers[a->header_count++] = (struct samba_http_header){name, value};
}

/* Takes the object; NULL: there was no memory for it. */
static void answer_json(samba_serve_call *c, int status, json_t *object, samba_http_answer *a)
{
    c->body = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    c->status = a->status = c->body ? status : 500;
    a->body = c->body ? c->body : no_memory;
    a->length = strlen(a->body);
    add_header(a, "Content-Type", "application/json");
}

static void answer_error(samba_serve_call *c, int status, const char *param, const char *code, const char *message,
                         samba_http_answer *a)
{
    answer_json(c, status, samba_serve_error(status, message, param, code), a);
}

/* ---- failures as statuses of HTTP ---- */

static int status_of(samba_status status)
{
    const bool asked_wrong = status == SAMBA_ERROR_ARGUMENT || status == SAMBA_ERROR_FORMAT || status == SAMBA_ERROR_UNSUPPORTED;
    return asked_wrong ? 400 : 500;
}

static void answer_failure(samba_serve_call *c, samba_status status, samba_http_answer *a)
{
    const samba_serve_problem *p = &c->request.problem;
    answer_error(c, p->status ? p->status : status_of(status), p->param, p->code, samba_error_message(c->context), a);
}

samba_serve_end samba_serve_job_failure(const samba_serve_job *job)
{
    samba_serve_end worst = 0;
    for (int64_t i = 0; i < job->text_count; i++)
        worst = job->texts[i].end > worst ? job->texts[i].end : worst;
    return worst > SAMBA_SERVE_LENGTH ? worst : (samba_serve_end)0;
}

int samba_serve_failure(const samba_serve_call *c, samba_serve_end end, char *message, size_t size)
{
    switch (end) {
    case SAMBA_SERVE_LATE:
        snprintf(
            message, size,
            "the answer was not whole after the %g seconds that it may take: ask for fewer tokens, or start the server with a "
            "greater --timeout",
            c->server->options.seconds);
        return 504;
    case SAMBA_SERVE_FAILED:
        snprintf(message, size, "%s", samba_error_message(c->job->context));
        return status_of(c->job->status);
    default: snprintf(message, size, "the server ends"); return 503;
    }
}

/* ---- completions ---- */

static void answer_whole(samba_serve_call *c, samba_http_answer *a)
{
    samba_serve_engine *engine = c->server->engine;
    char message[1024];
    samba_serve_engine_lock(engine);
    while (c->job->open > 0) {
        samba_serve_engine_wait(engine, c->job);
        if (c->job->open > 0 && !c->server->http->is_there(c->connection)) {
            samba_serve_engine_cancel(engine, c->job);
            c->gone = true;
        }
    }
    samba_serve_engine_unlock(engine);
    const samba_serve_end failure = samba_serve_job_failure(c->job);
    if (failure) {
        const int status = samba_serve_failure(c, failure, message, sizeof message);
        answer_error(c, status, NULL, NULL, message, a);
    } else {
        answer_json(c, 200, samba_serve_whole(&c->head, c->job), a);
    }
}

static samba_status make_job(samba_serve_call *c, samba_serve_kind kind, const samba_http_request *request)
{
    const samba_serve_model *model = c->server->options.model;
    SAMBA_TRY(samba_serve_request_read(c->context, kind, request->body, request->length, &c->request));
    if (c->request.model && strcmp(c->request.model, model->name) != 0) {
        char shown[SAMBA_SHOWN];
        samba_status status = samba_serve_refuse(c->context, &c->request.problem, "model", "model_not_found",
                                                 "there is no model '%.200s' here: there is '%.200s'",
                                                 samba_shown(c->request.model, shown), model->name);
        c->request.problem.status = 404;
        return status;
    }
    if (samba_context_new(NULL, &c->engine) != SAMBA_OK)
        return samba_fail(c->context, SAMBA_ERROR_MEMORY, "no memory for a request");
    const samba_status status = samba_serve_job_new(c->engine, model, &c->request, &c->job);
    return status == SAMBA_OK ? status : samba_fail(c->context, status, "%s", samba_error_message(c->engine));
}

static bool is_json(const char *type)
{
    const size_t length = strlen("application/json");
    return type && strncasecmp(type, "application/json", length) == 0 && strchr("; \t", type[length]);
}

static void complete(samba_serve_call *c, samba_serve_kind kind, const samba_http_request *request, samba_http_answer *a)
{
    if (!is_json(request->content_type)) {
        answer_error(c, 415, NULL, "unsupported_media_type", "expected a body with the header Content-Type: application/json", a);
        return;
    }
    const samba_status status = make_job(c, kind, request);
    if (status != SAMBA_OK) {
        answer_failure(c, status, a);
        return;
    }
    c->job->deadline = samba_seconds() + c->server->options.seconds;
    samba_serve_head_init(&c->head, kind, c->server->options.model->name);
    if (c->request.stream && samba_serve_stream_begin(c) != SAMBA_OK) {
        answer_failure(c, SAMBA_ERROR_MEMORY, a);
        return;
    }
    const samba_serve_admission admission = samba_serve_engine_take(c->server->engine, c->job);
    c->taken = admission == SAMBA_SERVE_TAKEN;
    if (!c->taken) {
        add_header(a, "Retry-After", "1");
        answer_error(c, 503, NULL, "overloaded",
                     admission == SAMBA_SERVE_FULL ? "too many requests wait for the model: ask again later" : "the server ends",
                     a);
    } else if (c->request.stream) {
        c->status = a->status = 200;
        a->more = samba_serve_stream_more;
        add_header(a, "Content-Type", "text/event-stream");
        add_header(a, "Cache-Control", "no-cache");
    } else {
        answer_whole(c, a);
    }
}

static void answer_completion(samba_serve_call *c, const samba_http_request *r, samba_http_answer *a)
{
    complete(c, SAMBA_SERVE_COMPLETION, r, a);
}

static void answer_chat(samba_serve_call *c, const samba_http_request *r, samba_http_answer *a)
{
    complete(c, SAMBA_SERVE_CHAT, r, a);
}

/* ---- the other paths ---- */

static void answer_health(samba_serve_call *c, const samba_http_request *r, samba_http_answer *a)
{
    (void)r;
    const json_int_t jobs = samba_serve_engine_jobs(c->server->engine);
    answer_json(c, 200, json_pack("{s:s, s:I}", "status", "ok", "requests", jobs), a);
}

static json_t *model_object(const samba_server *s)
{
    return json_pack("{s:s, s:s, s:I, s:s}", "id", s->options.model->name, "object", "model", "created", (json_int_t)s->created,
                     "owned_by", "sambaflow");
}

static void answer_models(samba_serve_call *c, const samba_http_request *r, samba_http_answer *a)
{
    (void)r;
    answer_json(c, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_object(c->server)), a);
}

static void answer_model(samba_serve_call *c, const samba_http_request *r, samba_http_answer *a)
{
    char message[600], shown[SAMBA_SHOWN];
    const char *name = r->path + strlen("/v1/models/");
    if (strcmp(name, c->server->options.model->name) == 0) {
        answer_json(c, 200, model_object(c->server), a);
        return;
    }
    snprintf(message, sizeof message, "there is no model '%.200s' here: there is '%.200s'", samba_shown(name, shown),
             c->server->options.model->name);
    answer_error(c, 404, "model", "model_not_found", message, a);
}

/* ---- which it is ---- */

typedef struct route {
    const char *path; /* with a '/' at its end: all that begin so */
    bool posts, open; /* a body is sent to it; it asks for no key */
    void (*answer)(samba_serve_call *call, const samba_http_request *request, samba_http_answer *answer);
} route;

static const route routes[] = {
    {"/health", false, true, answer_health},
    {"/v1/models", false, false, answer_models},
    {"/v1/models/", false, false, answer_model},
    {"/v1/completions", true, false, answer_completion},
    {"/v1/chat/completions", true, false, answer_chat},
};

static const route *find_route(const char *path)
{
    for (int i = 0; i < SAMBA_COUNT(routes); i++) {
        const size_t length = strlen(routes[i].path);
        const bool is_front = routes[i].path[length - 1] == '/' && strncmp(path, routes[i].path, length) == 0;
        if (is_front || strcmp(path, routes[i].path) == 0)
            return &routes[i];
    }
    return NULL;
}

/* Whether it is one of the keys, in a time that says nothing about them but their lengths. */
static bool has_key(const samba_server *s, const char *authorization)
{
    bool found = false;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *given = authorization + 7;
    for (int64_t i = 0; i < s->key_count; i++) {
        const size_t length = strlen(s->keys[i]);
        const bool other = strlen(given) != length;
        unsigned char difference = 0;
        for (size_t k = 0; !other && k < length; k++)
            difference |= (unsigned char)(given[k] ^ s->keys[i][k]);
        found |= !other && !difference;
    }
    return found;
}

/* What a browser wants to know before a page's request. */
static void answer_preflight(samba_serve_call *c, samba_http_answer *a)
{
    c->status = a->status = 204;
    add_header(a, "Access-Control-Allow-Methods", "GET, POST");
    add_header(a, "Access-Control-Allow-Headers", "Authorization, Content-Type, *");
    add_header(a, "Access-Control-Max-Age", "600");
}

static void answer(samba_serve_call *c, const samba_http_request *r, samba_http_answer *a)
{
    const samba_server *s = c->server;
    const char *origin = s->options.origin;
    char message[256];
    if (r->origin && (!origin || (strcmp(origin, "*") != 0 && strcmp(origin, r->origin) != 0))) {
        answer_error(c, 403, NULL, "forbidden_origin",
                     "pages of this origin may not ask here: start the server with --cors ORIGIN, where they may", a);
        return;
    }
    if (r->origin) {
        add_header(a, "Access-Control-Allow-Origin", origin);
        add_header(a, "Vary", "Origin");
    }
    if (r->too_large) {
        snprintf(message, sizeof message, "the body has more than the %lld bytes that are allowed (--max-request-size)",
                 (long long)s->options.most_bytes);
        answer_error(c, 413, NULL, "request_too_large", message, a);
        return;
    }
    const route *to = find_route(r->path);
    if (!to) {
        answer_error(c, 404, NULL, "unknown_url",
                     "there is no such path: there are /health, /v1/models, /v1/completions and /v1/chat/completions", a);
        return;
    }
    if (strcmp(r->method, "OPTIONS") == 0 && r->origin) {
        answer_preflight(c, a);
        return;
    }
    const bool fits =
        to->posts ? strcmp(r->method, "POST") == 0 : strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
    if (!fits) {
        add_header(a, "Allow", to->posts ? "POST" : "GET, HEAD");
        answer_error(c, 405, NULL, "method_not_allowed", to->posts ? "this path takes POST" : "this path takes GET", a);
        return;
    }
    if (s->keys && !to->open && !has_key(s, r->authorization)) {
        add_header(a, "WWW-Authenticate", "Bearer");
        answer_error(c, 401, NULL, "invalid_api_key",
                     r->authorization ? "the key is none of this server's" : "a key is expected: Authorization: Bearer KEY", a);
        return;
    }
    to->answer(c, r, a);
}

/* ---- from start to end ---- */

void samba_serve_answer(void *server, const samba_http_request *request, samba_http_answer *a)
{
    samba_context *context;
    samba_serve_call *c = NULL;
    if (samba_context_new(NULL, &context) == SAMBA_OK) {
        c = samba_calloc(context, sizeof *c);
        if (!c)
            samba_context_free(context);
    }
    if (!c) {
        a->status = 500;
        a->body = no_memory;
        a->length = strlen(no_memory);
        return;
    }
    c->server = server;
    c->context = context;
    c->connection = request->connection;
    samba_show(request->method, false, c->method, sizeof c->method);
    samba_show(request->path, false, c->path, sizeof c->path);
    a->state = c;
    answer(c, request, a);
}

static void tell(const samba_serve_call *c, bool whole)
{
    FILE *log = c->server->options.log;
    const samba_serve_job *job = c->taken ? c->job : NULL;
    int64_t prompt = 0, made = 0, cached = 0;
    for (int64_t i = 0; job && i < job->prompt_count; i++)
        prompt += job->prompts[i].count;
    for (int64_t i = 0; job && i < job->text_count; i++) {
        made += job->texts[i].made;
        cached += job->texts[i].cached;
    }
    const double seconds = job ? job->stop - job->start : 0;
    const char *end = whole ? "" : ", the client has gone";
    if (!log)
        return;
    if (!job)
        fprintf(log, "%s %s %d%s\n", c->method, c->path, c->status, end);
    else
        fprintf(log, "%s %s %d, prompt %lld tokens, %lld of them kept, new %lld tokens, %.1f a second%s\n", c->method, c->path,
                c->status, (long long)prompt, (long long)cached, (long long)made, seconds > 0 ? (double)made / seconds : 0, end);
    fflush(log);
}

void samba_serve_done(void *server, void *call, bool whole)
{
    samba_serve_call *c = call;
    (void)server;
    if (!c)
        return;
    if (c->taken) {
        samba_serve_engine_lock(c->server->engine);
        if (c->job->open > 0)
            samba_serve_engine_cancel(c->server->engine, c->job);
        samba_serve_engine_unlock(c->server->engine);
    }
    tell(c, whole && !c->gone);
    samba_context *context = c->context;
    samba_serve_stream_end(c);
    samba_serve_job_free(c->job);
    samba_context_free(c->engine);
    samba_serve_request_free(&c->request);
    free(c->body);
    samba_free(context, c, sizeof *c);
    samba_context_free(context);
}
