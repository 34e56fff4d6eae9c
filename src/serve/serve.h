/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of one language model, compatible with OpenAI's HTTP API (docs/generate.md): what its parts share.
 *
 *     http/plugin.c   connections, a thread each
 *     route.c         which path, who may ask; an error as an object
 *     fields.c        a body of JSON -> samba_serve_request, or why not
 *     tokens.c        its prompts as tokens
 *     engine.c        the queue, and the one thread that has the generator
 *     text.c          a token more of a text
 *     answer.c        objects of JSON; stream.c the same as events, piece by piece
 *     server.c        start and end
 *
 * A connection's thread reads, waits for the engine and writes; the engine's thread alone uses the generator. They meet in a
 * samba_serve_job, under the engine's lock. */
#ifndef SAMBA_SERVE_H
#define SAMBA_SERVE_H

#include "base/base.h"
#include "serve/http.h"
#include <jansson.h>
#include <pthread.h>
#include <sambaflow/lm.h>

/* ---- a request (fields.c) ---- */
typedef enum samba_serve_kind { SAMBA_SERVE_COMPLETION = 1, SAMBA_SERVE_CHAT = 2 } samba_serve_kind;

enum {
    SAMBA_SERVE_MOST_TEXTS = 128, /* of an answer: prompts times n */
    SAMBA_SERVE_MOST_STOPS = 16
};

typedef struct samba_serve_problem { /* beside the context's message; zeros: what the samba_status says */
    int status;                      /* of HTTP */
    char param[96];                  /* "": none */
    const char *code;                /* NULL: none */
} samba_serve_problem;

typedef struct samba_serve_request {
    samba_serve_kind kind;
    json_t *json;      /* the body, which owns the texts below; freed by samba_serve_request_free */
    const char *model; /* NULL: not given */
    bool stream, usage, echo;
    int64_t max_tokens, max_completion_tokens; /* 0: not given */
    int64_t n;
    samba_sampling sampling;
    bool seeded;
    int64_t seed; /* where `seeded` */
    int64_t stop_count;
    const char *stops[SAMBA_SERVE_MOST_STOPS];
    const json_t *prompt; /* of a completion: a text, a list of texts, a list of ids, or a list of those */
    json_t *messages;     /* of a chat: as its template takes them */
    samba_serve_problem problem;
} samba_serve_request;
/* Of bytes that nobody trusts. Whatever it returns, samba_serve_request_free frees. */
samba_status samba_serve_request_read(samba_context *context, samba_serve_kind kind, const char *body, size_t length,
                                      samba_serve_request *request);
void samba_serve_request_free(samba_serve_request *request);
/* Fills the problem, 400 with this code, and the context's message; ARGUMENT. */
samba_status samba_serve_refuse(samba_context *context, samba_serve_problem *problem, const char *param, const char *code,
                                const char *format, ...) __attribute__((format(printf, 5, 6)));
/* messages.c: messages of a request as templates take them, with texts in the place of lists of parts. */
samba_status samba_serve_messages_read(samba_context *context, const json_t *value, samba_serve_request *request);

/* ---- jobs: what a request asks the engine for ---- */
typedef enum samba_serve_end {
    SAMBA_SERVE_STOP = 1,   /* a token or a text that ends it */
    SAMBA_SERVE_LENGTH = 2, /* as many tokens as were asked for, or as there is room for */
    SAMBA_SERVE_LATE = 3,   /* its time is over */
    SAMBA_SERVE_GONE = 4,   /* nobody waits for it */
    SAMBA_SERVE_FAILED = 5  /* by the job's status */
} samba_serve_end;

typedef struct samba_serve_job samba_serve_job;

typedef struct samba_serve_text { /* that is made */
    samba_serve_job *job;
    int64_t place;         /* among the texts of its prompt: whose random numbers it takes */
    const int32_t *prompt; /* the job's */
    int64_t prompt_count;
    /* the engine's */
    int64_t fed, cached; /* tokens of the prompt that the generator has; that it had from before */
    samba_token_stream *stream;
    /* under the engine's lock */
    char *text;
    int64_t room, length, settled; /* settled: bytes that stay as they are */
    int64_t made;                  /* tokens */
    samba_serve_end end;
} samba_serve_text;

struct samba_serve_job {
    samba_context *context; /* the engine's while it has the job, else its connection's */
    const samba_serve_request *request;
    int64_t prompt_count, text_count;
    samba_token_list *prompts;
    samba_serve_text *texts; /* of the first prompt, then of the second ... */
    int64_t most;            /* tokens of each text */
    double deadline;
    /* under the engine's lock */
    samba_serve_job *next; /* in the queue */
    int64_t begun, open;   /* texts that are not waiting any more; that have no end */
    bool canceled;
    samba_status status; /* of what failed, with the context's message */
    double start, stop;  /* when its first text began, and its last ended */
    pthread_cond_t changed;
};

/* tokens.c: the request's prompts as a job of the context, which is the job's from then on. */
typedef struct samba_serve_model samba_serve_model;
samba_status samba_serve_job_new(samba_context *context, const samba_serve_model *model, samba_serve_request *request,
                                 samba_serve_job **job);
void samba_serve_job_free(samba_serve_job *job); /* NULL is allowed */

/* ---- the engine (engine.c) ---- */
/* All of it the caller's, and the engine's alone while there is one, but for the tokenizer and the template. */
struct samba_serve_model {
    samba_context *context; /* under which it was made */
    const char *name;
    samba_generator *generator, *draft; /* draft: NULL: none; then of one sequence */
    const samba_tokenizer *tokenizer;
    const samba_chat_template *template; /* NULL: there is none, and why */
    const char *no_template;
    const int32_t *stop_ids;
    int64_t stop_count, vocab, chunk;
    int64_t capacity; /* tokens of a sequence; INT64_MAX: it slides */
};

typedef struct samba_serve_engine samba_serve_engine;
/* queue: requests that may wait beside as many as there are sequences. */
samba_status samba_serve_engine_new(const samba_serve_model *model, int64_t queue, samba_serve_engine **engine);
/* Waits until all jobs have ended. */
void samba_serve_engine_free(samba_serve_engine *engine);  /* NULL is allowed */
void samba_serve_engine_end(samba_serve_engine *engine);   /* takes no more jobs */
void samba_serve_engine_hurry(samba_serve_engine *engine); /* and those that it has end now, as though nobody waited */
typedef enum samba_serve_admission { SAMBA_SERVE_TAKEN, SAMBA_SERVE_FULL, SAMBA_SERVE_ENDING } samba_serve_admission;
samba_serve_admission samba_serve_engine_take(samba_serve_engine *engine, samba_serve_job *job);
int64_t samba_serve_engine_jobs(samba_serve_engine *engine); /* that it has */
/* Around what is read of a job while it goes on. */
void samba_serve_engine_lock(samba_serve_engine *engine);
void samba_serve_engine_unlock(samba_serve_engine *engine);
/* With the lock: until the job has changed, or some time is over. */
void samba_serve_engine_wait(samba_serve_engine *engine, samba_serve_job *job);
/* With the lock: the job's texts end; returns once they have. */
void samba_serve_engine_cancel(samba_serve_engine *engine, samba_serve_job *job);

/* text.c, all with the lock: a token more, whether the text goes on; its end. */
samba_status samba_serve_text_take(const samba_serve_model *model, samba_serve_text *text, int32_t id);
samba_status samba_serve_text_end(samba_serve_text *text, samba_serve_end end);

/* ---- answers (answer.c); NULL without memory ---- */
typedef struct samba_serve_head { /* what all objects of an answer have */
    samba_serve_kind kind;
    const char *model;
    char id[40];
    int64_t created;
} samba_serve_head;
void samba_serve_head_init(samba_serve_head *head, samba_serve_kind kind, const char *model);
json_t *samba_serve_whole(const samba_serve_head *head, const samba_serve_job *job); /* of a job that has ended */
/* A piece of a text; `end` 0: it goes on. first: of a chat, who speaks. */
json_t *samba_serve_piece(const samba_serve_head *head, const samba_serve_job *job, int64_t text, const char *bytes,
                          int64_t length, samba_serve_end end, bool first);
json_t *samba_serve_last(const samba_serve_head *head, const samba_serve_job *job); /* what was used */
json_t *samba_serve_usage(const samba_serve_job *job);
json_t *samba_serve_error(int status, const char *message, const char *param, const char *code);

/* ---- the server (server.c) ---- */
typedef struct samba_serve_options {
    const samba_serve_model *model;
    const char *host; /* an address, or a name of one */
    int port;         /* 0: any that is free */
    int connections;
    int64_t queue, most_bytes;
    double seconds;       /* that a request's bytes, and its answer, may take */
    const char *key_file; /* of keys, a line each; NULL: nobody is asked for one */
    const char *origin;   /* of pages that may ask, or "*"; NULL: none */
    FILE *log;            /* a line a request; NULL: none */
} samba_serve_options;

typedef struct samba_server samba_server;
/* The model's context is the server's until samba_serve_free. FILE: the address cannot be had, or the file of keys. */
samba_status samba_serve_start(samba_context *context, const samba_serve_options *options, samba_server **server);
const char *samba_serve_address(const samba_server *server); /* "http://127.0.0.1:8080" */
bool samba_serve_is_local(const samba_server *server);       /* no other machine reaches it */
void samba_serve_quiesce(samba_server *server);              /* no more connections and requests; those that are there go on */
bool samba_serve_busy(samba_server *server);                 /* with some of them */
void samba_serve_hurry(samba_server *server);                /* they end now */
void samba_serve_free(samba_server *server);                 /* and waits for nobody but its threads; NULL is allowed */

/* route.c: the functions of the plugin's options, whose user is the server */
void samba_serve_answer(void *server, const samba_http_request *request, samba_http_answer *answer);
void samba_serve_done(void *server, void *call, bool whole);

struct samba_server {
    samba_context *context;
    samba_serve_options options;
    const samba_http_interface *http;
    samba_http_server *connections;
    samba_serve_engine *engine;
    samba_arena arena;
    int64_t key_count;
    const char **keys;
    char address[128];
    bool is_local;
    int64_t created; /* the time, of the model in lists */
};

/* ---- a request and its answer (route.c) ---- */
typedef struct samba_serve_call {
    samba_server *server;
    samba_context *context, *engine; /* of its thread; of its job */
    void *connection;
    char method[16], path[96]; /* as the log shows them */
    samba_serve_request request;
    samba_serve_job *job;
    bool taken; /* by the engine */
    samba_serve_head head;
    int status;     /* of HTTP */
    bool gone;      /* its client, while it waited */
    char *body;     /* jansson's */
    samba_text out; /* of a stream: what is to be sent */
    int64_t sent;
    int64_t *told; /* of each text: see stream.c */
    bool whole;    /* nothing comes behind `out` */
} samba_serve_call;
/* The status of HTTP and the sentence for a job that has such an end. */
int samba_serve_failure(const samba_serve_call *call, samba_serve_end end, char *message, size_t size);
samba_serve_end samba_serve_job_failure(const samba_serve_job *job); /* of its texts; 0: none */
/* stream.c: `more` of an answer. */
samba_status samba_serve_stream_begin(samba_serve_call *call);
int64_t samba_serve_stream_more(void *call, char *into, size_t most);
void samba_serve_stream_end(samba_serve_call *call);

#endif
