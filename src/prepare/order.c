/* SPDX-License-Identifier: Apache-2.0
 *
 * The second pass: all articles in their order, each to its part. Batches are tokenized by all threads and then packed one
 * article after the other, so the result is that of one thread. Twice a second it is noted how far the work has come. */
#include "prepare/prepare.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_BETWEEN_STATES 0.5
#define BLOCK ((int64_t)4 << 20)

/* The next lines of a bucket, and the bucket behind it at its end. */
static samba_status take_lines(samba_preparation *p, samba_bucket *bucket)
{
    p->batch.count = p->batch.size = 0;
    while (p->bucket < p->buckets && p->batch.count == 0) {
        if (!bucket->order)
            SAMBA_TRY(samba_bucket_open(p, p->bucket, bucket));
        while (p->in_bucket < bucket->count && p->batch.count < SAMBA_MOST_LINES &&
               p->batch.size < (p->o.memory / 128 < BLOCK ? p->o.memory / 128 : BLOCK)) {
            samba_line line = samba_bucket_line(bucket, p->in_bucket++);
            SAMBA_TRY(samba_batch_add(p, line.text, line.length, line.number));
        }
        if (p->batch.count == 0) {
            samba_bucket_close(p, bucket);
            p->bucket++;
            p->in_bucket = 0;
        }
    }
    return SAMBA_OK;
}

/* ---- the test part: lines as they are ---- */
static samba_status open_test(samba_preparation *p)
{
    char path[SAMBA_PREPARE_PATH];
    samba_prepare_path(p, path, "test_%d", p->test_file);
    p->test_spool = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (p->test_spool < 0 || ftruncate(p->test_spool, p->test_bytes) != 0 || lseek(p->test_spool, p->test_bytes, SEEK_SET) < 0)
        return samba_prepare_fail(p, "write", path);
    return SAMBA_OK;
}

static samba_status end_test(samba_preparation *p)
{
    int file = p->test_spool;
    p->test_spool = -1;
    if (file < 0)
        return SAMBA_OK;
    bool fine = fdatasync(file) == 0;
    fine &= close(file) == 0;
    return fine ? SAMBA_OK : samba_prepare_fail(p, "write", p->work);
}

static samba_status keep_line(samba_preparation *p, const samba_line *line)
{
    const int64_t at = p->article - p->part_articles[0] - p->part_articles[1];
    int64_t begin = 0, end = 0;
    samba_part_share(p->part_articles[2], p->o.num_test_splits, p->test_file ? p->test_file : 1, &begin, &end);
    if (p->test_file == 0 || at >= end) {
        SAMBA_TRY(end_test(p));
        p->test_file++;
        p->test_bytes = 0;
    }
    if (p->test_spool < 0)
        SAMBA_TRY(open_test(p));
    SAMBA_TRY(samba_prepare_put(p, p->test_spool, p->work, line->text, (size_t)line->length));
    p->test_bytes += line->length;
    if (line->text[line->length - 1] == '\n')
        return SAMBA_OK;
    p->test_bytes++;
    return samba_prepare_put(p, p->test_spool, p->work, "\n", 1);
}

/* ---- all parts ---- */
static samba_status save(samba_preparation *p)
{
    for (int part = 0; part < SAMBA_PARTS; part++)
        SAMBA_TRY(samba_packer_flush(p, part));
    if (p->test_spool >= 0 && fdatasync(p->test_spool) != 0)
        return samba_prepare_fail(p, "write", p->work);
    return samba_state_save(p);
}

static samba_status pack_batch(samba_preparation *p)
{
    SAMBA_TRY(samba_batch_work(p));
    for (int64_t i = 0; i < p->batch.count; i++) {
        const samba_article *article = &p->articles[i];
        if (!article->there)
            continue;
        if (p->article < p->part_articles[0])
            SAMBA_TRY(samba_packer_article(p, SAMBA_TRAIN, article));
        else if (p->article < p->part_articles[0] + p->part_articles[1])
            SAMBA_TRY(samba_packer_article(p, SAMBA_DEV, article));
        else
            SAMBA_TRY(keep_line(p, &p->batch.lines[i]));
        p->article++;
    }
    samba_prepare_tell(p, "tokenizing", (double)p->article / (double)(p->articles_total ? p->articles_total : 1));
    return samba_seconds() - p->saved < SECONDS_BETWEEN_STATES ? SAMBA_OK : save(p);
}

static samba_status pack_all(samba_preparation *p, samba_bucket *bucket)
{
    for (int part = 0; part < SAMBA_PARTS; part++)
        SAMBA_TRY(samba_packer_open(p, part));
    for (;;) {
        SAMBA_TRY(p->buckets ? take_lines(p, bucket) : samba_batch_read(p));
        if (p->batch.count == 0)
            break;
        SAMBA_TRY(pack_batch(p));
    }
    if (p->article != p->articles_total)
        return samba_fail(p->context, SAMBA_ERROR_STATE, "%s has changed while it was prepared: begin again", p->input);
    for (int part = 0; part < SAMBA_PARTS; part++)
        SAMBA_TRY(samba_packer_end(p, part));
    p->packed = true;
    return save(p);
}

samba_status samba_prepare_pack(samba_preparation *p)
{
    samba_bucket bucket = {0};
    p->tokenize = true;
    p->saved = samba_seconds();
    samba_status status = pack_all(p, &bucket), ended = end_test(p);
    samba_bucket_close(p, &bucket);
    for (int part = 0; part < SAMBA_PARTS; part++)
        samba_packer_close(p, part);
    return status != SAMBA_OK ? status : ended;
}
