/* SPDX-License-Identifier: Apache-2.0
 *
 * The call: what was begun is gone on with, step by step. What the steps share of files and messages is here too. */
#include "prepare/prepare.h"
#include "base/null.h"
#include "data/hdf5.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

samba_status samba_prepare_fail(samba_preparation *p, const char *verb, const char *path)
{
    return samba_fail(p->context, SAMBA_ERROR_FILE, "cannot %s \"%s\": %s", verb, path, strerror(errno));
}

samba_status samba_prepare_put(samba_preparation *p, int file, const char *path, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t written = write(file, at, size < 1 << 30 ? size : 1 << 30);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return samba_prepare_fail(p, "write", path);
        at += written;
        size -= (size_t)written;
    }
    return SAMBA_OK;
}

void samba_prepare_tell(samba_preparation *p, const char *stage, double share)
{
    if (p->o.progress)
        p->o.progress(p->o.progress_user, stage, share);
}

void samba_prepare_path(const samba_preparation *p, char path[SAMBA_PREPARE_PATH], const char *format, ...)
{
    char name[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    snprintf(path, SAMBA_PREPARE_PATH, "%.4020s/%s", p->work, name);
}

/* The sequences that a state tells of are read into memory that is there for any. */
static samba_status new_sequences(samba_preparation *p)
{
    const size_t length = (size_t)p->o.max_seq_length;
    for (int part = 0; part < SAMBA_PARTS; part++) {
        samba_packer *k = &p->packers[part];
        k->ids = samba_calloc(p->context, length * sizeof *k->ids);
        k->categories = samba_calloc(p->context, length * sizeof *k->categories);
        k->types = samba_calloc(p->context, length);
        if (!k->ids || !k->categories || !k->types)
            return SAMBA_ERROR_MEMORY;
    }
    return SAMBA_OK;
}

static samba_status check_hdf5(samba_preparation *p)
{
    const samba_hdf5_interface *hdf5;
    SAMBA_TRY(samba_hdf5_begin(p->context, &hdf5));
    samba_hdf5_end();
    return SAMBA_OK;
}

static samba_status work(samba_preparation *p, const samba_prepare_options *options, samba_prepare_result *result)
{
    bool done;
    SAMBA_TRY(samba_prepare_settle(p, options));
    SAMBA_TRY(check_hdf5(p));
    SAMBA_TRY(samba_reader_open(p));
    SAMBA_TRY(new_sequences(p));
    SAMBA_TRY(samba_state_begin(p, &done, result));
    if (done) {
        result->max_batch_dev = p->o.num_dev_splits ? result->dev_sequences / p->o.num_dev_splits : 0;
        result->resumed = true;
        return SAMBA_OK;
    }
    SAMBA_TRY(samba_workers_new(p));
    if (!p->scanned)
        SAMBA_TRY(samba_prepare_scan(p));
    if (!p->packed)
        SAMBA_TRY(samba_prepare_pack(p));
    SAMBA_TRY(samba_prepare_write(p));
    samba_prepare_count(p, result);
    result->resumed = p->resumed;
    SAMBA_TRY(samba_prepare_finish(p, result));
    samba_state_end(p);
    return SAMBA_OK;
}

samba_status samba_prepare(samba_context *context, const char *input, const char *tokenizer, const char *output,
                           const samba_prepare_options *options, samba_prepare_result *result)
{
    samba_prepare_result unseen;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, input);
    SAMBA_NEED(context, tokenizer);
    SAMBA_NEED(context, output);
    samba_prepare_result *to = result ? result : &unseen;
    *to = (samba_prepare_result){0};
    samba_preparation *p = samba_calloc(context, sizeof *p);
    if (!p)
        return SAMBA_ERROR_MEMORY;
    p->context = context;
    p->input = input, p->tokenizer_path = tokenizer, p->output = output;
    p->lock = p->reader.file = p->test_spool = p->packers[0].spool = p->packers[1].spool = -1;
    samba_status status = work(p, options, to);
    for (int part = 0; part < SAMBA_PARTS; part++)
        samba_packer_close(p, part);
    samba_workers_free(p);
    samba_free(context, p->batch.text, (size_t)p->batch.capacity);
    samba_free(context, p->batch.lines, (size_t)p->batch.line_capacity * sizeof *p->batch.lines);
    samba_free(context, p->articles, (size_t)p->article_capacity * sizeof *p->articles);
    json_decref(p->categories);
    samba_chat_template_free(p->chat);
    samba_tokenizer_free(p->tokenizer);
    if (p->reader.file >= 0)
        (void)close(p->reader.file);
    if (p->lock >= 0)
        (void)close(p->lock);
    samba_free(context, p, sizeof *p);
    return status;
}
