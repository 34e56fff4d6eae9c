/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training says: events to the program's callback, lines of progress to a file that the program gave, and a history of
 * JSON lines. A history that is resumed loses the lines behind the step from which the training goes on. */
#include "train/train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

samba_status samba_loop_tell(samba_loop *loop, samba_train_event *event)
{
    event->session = loop->session;
    event->epoch = loop->epoch + 1;
    event->step = loop->step;
    event->lr = loop->lr;
    event->stop = loop->stopped;
    if (!loop->o.on_event)
        return SAMBA_OK;
    if (event->kind != SAMBA_TRAIN_STEP)
        samba_progress_end(&loop->progress);
    samba_status status = loop->o.on_event(loop->context, loop->o.user, event);
    loop->stopped = loop->stopped || event->stop;
    loop->finished = loop->finished || loop->stopped;
    return status;
}

/* Warnings stay with the session where nobody listens. */
samba_status samba_loop_tell_warnings(samba_loop *loop)
{
    const char *warning;
    while ((loop->o.on_event || loop->o.progress) && (warning = samba_session_warning(loop->session))[0]) {
        samba_train_event event = {.kind = SAMBA_TRAIN_WARNING, .loss = NAN, .text = warning};
        if (loop->o.progress) {
            char shown[1024];
            samba_progress_end(&loop->progress);
            samba_show(warning, false, shown, sizeof shown);
            fprintf(loop->o.progress, "warning: %s\n", shown);
        }
        SAMBA_TRY(samba_loop_tell(loop, &event));
    }
    return SAMBA_OK;
}

/* ---- lines ---- */

static void print_left(const samba_loop *loop, double spent)
{
    const double rate = (double)loop->samples / spent;
    fprintf(loop->o.progress, "  %.0f samples/s", rate);
    if (loop->last_step < 0 || loop->last_step == INT64_MAX || loop->step >= loop->last_step)
        return;
    const double left = (double)(loop->last_step - loop->step) * (double)(loop->o.batch_size * loop->accumulation) / rate;
    fprintf(loop->o.progress, "  %lld:%02d left", (long long)left / 60, (int)((long long)left % 60));
}

static void print_look(samba_loop *loop, double loss, bool improved)
{
    FILE *file = loop->o.progress;
    if (!file)
        return;
    samba_progress_end(&loop->progress);
    fprintf(file, "%s  step %lld  loss %.4f", loop->label, (long long)loop->step, loss);
    for (int i = 0; loop->tested && i <= loop->o.metric_count; i++)
        fprintf(file, "  %s%s %.4f", i ? "" : "validation ", loop->values[i].name, loop->values[i].value);
    if (!isnan(loop->lr))
        fprintf(file, "  lr %.3g", loop->lr);
    print_left(loop, samba_seconds() - loop->began);
    fprintf(file, "%s\n", improved ? "  best" : "");
    fflush(file);
}

/* ---- history ---- */

json_t *samba_train_json(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static samba_status history_failed(const samba_loop *loop)
{
    return samba_fail(loop->context, SAMBA_ERROR_FILE, "%s: %s", loop->o.history, strerror(errno));
}

static samba_status write_line(samba_loop *loop, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    if (!text)
        return samba_fail(loop->context, SAMBA_ERROR_MEMORY, "no memory for a line of the history");
    errno = 0;
    const bool written = fprintf(loop->history, "%s\n", text) > 0 && fflush(loop->history) == 0;
    free(text);
    return written ? SAMBA_OK : history_failed(loop);
}

samba_status samba_loop_tell_look(samba_loop *loop, double loss, bool improved)
{
    print_look(loop, loss, improved);
    json_t *values = loop->tested ? json_object() : json_null();
    for (int i = 0; loop->tested && i <= loop->o.metric_count; i++)
        json_object_set_new(values, loop->values[i].name, samba_train_json(loop->values[i].value));
    loop->tested = false;
    if (!loop->history) {
        json_decref(values);
        return SAMBA_OK;
    }
    return write_line(loop, json_pack("{s:I, s:I, s:o, s:o, s:o, s:b, s:f}", "epoch", (json_int_t)loop->epoch + 1, "step",
                                      (json_int_t)loop->step, "loss", samba_train_json(loss), "lr", samba_train_json(loop->lr),
                                      "validation", values, "best", improved, "seconds", samba_seconds() - loop->began));
}

/* The lines of steps up to this one. */
static size_t kept_length(const char *text, size_t size, int64_t step)
{
    size_t kept = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end)
            break; /* a line that was not finished */
        const size_t length = (size_t)(end - text) - at;
        json_t *object = json_loadb(text + at, length, 0, NULL);
        const json_t *its = json_object_get(object, "step");
        const bool stays = json_is_integer(its) && json_integer_value(its) <= step;
        json_decref(object);
        at += length + 1;
        if (!stays)
            break;
        kept = at;
    }
    return kept;
}

static samba_status keep_lines(samba_loop *loop)
{
    void *text;
    size_t size;
    FILE *there = fopen(loop->o.history, "rb");
    if (!there)
        return SAMBA_OK;
    fclose(there);
    SAMBA_TRY(samba_file_read(loop->context, loop->o.history, &text, &size));
    const void *const parts[] = {text};
    const size_t sizes[] = {kept_length(text, size, loop->step)};
    samba_status status = sizes[0] < size ? samba_file_write_atomic(loop->context, loop->o.history, parts, sizes, 1) : SAMBA_OK;
    samba_free(loop->context, text, size);
    return status;
}

samba_status samba_loop_open_history(samba_loop *loop)
{
    if (!loop->o.history)
        return SAMBA_OK;
    if (loop->step > 0)
        SAMBA_TRY(keep_lines(loop));
    errno = 0;
    loop->history = fopen(loop->o.history, loop->step > 0 ? "ab" : "wb");
    return loop->history ? SAMBA_OK : history_failed(loop);
}
