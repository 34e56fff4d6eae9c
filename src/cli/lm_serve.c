/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow lm serve --model FOLDER: a server (src/serve) of what `lm generate` and `lm chat` do. It ends by SIGINT or SIGTERM
 * when the answers on their way are whole; by a second one at once. */
#define _GNU_SOURCE /* pipe2 */
#include "cli/lm.h"
#include "cli/lm_text.h"
#include "serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LOOK = 20, PATIENCE = 2000 }; /* milliseconds: between two looks; for what a second signal cuts off */

typedef struct serving {
    samba_lm_task task;
    samba_chat_template *template;
    char name[SAMBA_SHOWN], no_template[1024];
    samba_serve_model model;
    samba_server *server;
    int signals[2]; /* a pipe with a byte for each */
} serving;

/* ---- signals ---- */

static int signal_pipe = -1; /* a handler has no argument */

static void note_signal(int number)
{
    const int kept = errno;
    (void)number;
    (void)!write(signal_pipe, "", 1);
    errno = kept;
}

static samba_status take_signals(serving *s)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    if (pipe2(s->signals, O_CLOEXEC | O_NONBLOCK) != 0)
        return samba_fail(s->task.context, SAMBA_ERROR_FILE, "the system gives no pipe: %s", strerror(errno));
    signal_pipe = s->signals[1];
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN; /* a client that hangs up */
    sigaction(SIGPIPE, &action, NULL);
    return SAMBA_OK;
}

/* Whether one comes in so many milliseconds; -1: waits for it. */
static bool has_signal(const serving *s, int milliseconds)
{
    struct pollfd look = {.fd = s->signals[0], .events = POLLIN};
    char byte;
    return poll(&look, 1, milliseconds) > 0 && read(s->signals[0], &byte, 1) == 1;
}

/* ---- beginning ---- */

static samba_status check(serving *s)
{
    const samba_lm_words *p = s->task.words;
    if (p->draft && p->sequences > 1)
        return samba_fail(s->task.context, SAMBA_ERROR_ARGUMENT,
                          "--sequences %lld with --draft: a draft is of one text at a time", (long long)p->sequences);
    return SAMBA_OK;
}

/* A folder without a template completes texts, and says what it lacks to those who want to chat. */
static samba_status open_template(serving *s)
{
    const samba_lm_words *p = s->task.words;
    const samba_status status = samba_chat_template_open(s->task.context, p->model, p->template, &s->template);
    if (status == SAMBA_OK)
        return status;
    if (p->template)
        return status;
    snprintf(s->no_template, sizeof s->no_template, "%s", samba_error_message(s->task.context));
    fprintf(stderr, "sambaflow: no chat, completions alone: %s\n", s->no_template);
    return SAMBA_OK;
}

static samba_status open_model(serving *s)
{
    const samba_lm_words *p = s->task.words;
    samba_lm_info info;
    char name[SAMBA_CLI_NAME];
    SAMBA_TRY(open_template(s));
    SAMBA_TRY(samba_lm_task_open(&s->task, p->sequences ? p->sequences : p->draft ? 1 : 4, true));
    SAMBA_TRY(samba_lm_get_info(s->task.lm, &info));
    samba_cli_lm_name(p->model, "lm", name);
    samba_show(name, false, s->name, sizeof s->name);
    s->model = (samba_serve_model){.context = s->task.context,
                                   .name = s->name,
                                   .generator = s->task.generator,
                                   .draft = s->task.draft,
                                   .tokenizer = s->task.tokenizer,
                                   .template = s->template,
                                   .no_template = s->no_template,
                                   .stop_ids = s->task.stop_ids,
                                   .stop_count = s->task.stop_count,
                                   .vocab = info.vocab_size,
                                   .chunk = p->chunk,
                                   .capacity = samba_generator_room(s->task.generator, 0)};
    return SAMBA_OK;
}

static samba_status listen(serving *s)
{
    const samba_lm_words *p = s->task.words;
    const samba_serve_options options = {.model = &s->model,
                                         .host = p->host,
                                         .port = p->port,
                                         .connections = p->connections,
                                         .queue = p->queue,
                                         .most_bytes = p->most_bytes,
                                         .seconds = p->seconds,
                                         .key_file = p->key_file,
                                         .origin = p->origin,
                                         .log = p->quiet ? NULL : stderr};
    SAMBA_TRY(samba_serve_start(s->task.context, &options, &s->server));
    printf("%s at %s/v1\n", s->name, samba_serve_address(s->server));
    if (!samba_serve_is_local(s->server))
        fprintf(stderr, "sambaflow: other machines reach this address%s\n",
                p->key_file ? "" : " and need no key: --api-key-file FILE asks for one");
    return samba_flush_output(s->task.context);
}

/* ---- until the end ---- */

static void wait_for_end(serving *s)
{
    int after = -1; /* a second signal: milliseconds that are left */
    while (!has_signal(s, -1))
        continue;
    samba_serve_quiesce(s->server);
    while (samba_serve_busy(s->server) && after != 0) {
        after -= after > 0 ? LOOK : 0;
        if (has_signal(s, LOOK) && after < 0) {
            samba_serve_hurry(s->server);
            after = PATIENCE;
        }
    }
}

static samba_status serve(serving *s)
{
    const samba_http_interface *http;
    SAMBA_TRY(check(s));
    SAMBA_TRY(samba_http_open(s->task.context, &http)); /* before the model, which takes longer */
    SAMBA_TRY(open_model(s));
    SAMBA_TRY(take_signals(s));
    SAMBA_TRY(listen(s));
    wait_for_end(s);
    return SAMBA_OK;
}

int samba_cli_lm_serve(int argc, char **argv)
{
    samba_lm_words words;
    samba_lm_words_parse(SAMBA_LM_SERVE, argc, argv, &words);
    serving s = {.task.words = &words, .signals = {-1, -1}};
    if (!samba_cli_begin(&s.task.context))
        return 1;
    samba_context *context = s.task.context;
    const samba_status status = serve(&s);
    samba_serve_free(s.server);
    if (status == SAMBA_OK)
        samba_lm_task_tell_draft(&s.task);
    samba_chat_template_free(s.template);
    samba_lm_task_close(&s.task);
    return samba_cli_end(context, status);
}
