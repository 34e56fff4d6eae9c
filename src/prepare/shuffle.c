/* SPDX-License-Identifier: Apache-2.0
 *
 * The first pass over the input, and the shuffle. Articles are counted from 0; their order is that of samba_prepare_key(seed,
 * number). The pass deals the lines into buckets, each a range of keys, as files; a bucket is then small enough to be mapped and
 * sorted by itself, and the buckets one after the other are all articles in order. */
#include "prepare/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PILE ((int64_t)32 << 10) /* bytes of a bucket that are written at once */

typedef struct record { /* in a bucket, before the line */
    uint64_t key;
    int64_t number, length; /* of the line */
} record;
struct samba_dealt {
    uint64_t key;
    int64_t offset; /* of its record: in the order of articles */
};

typedef struct dealer {
    int files[SAMBA_MOST_BUCKETS];
    int64_t piled[SAMBA_MOST_BUCKETS];
    char *piles;
} dealer;

/* The finalizer of splitmix64 over a Weyl sequence. */
uint64_t samba_prepare_key(uint64_t seed, uint64_t article)
{
    uint64_t z = seed + (article + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* ---- dealing ---- */
static samba_status open_buckets(samba_preparation *p, dealer *d)
{
    int64_t wanted = p->reader.size / (p->o.memory / 32) + 1;
    char path[SAMBA_PREPARE_PATH];
    p->buckets = p->o.no_shuffle ? 0 : wanted < SAMBA_MOST_BUCKETS ? (int)wanted : SAMBA_MOST_BUCKETS;
    for (int i = 0; i < SAMBA_MOST_BUCKETS; i++)
        d->files[i] = -1;
    d->piles = samba_alloc(p->context, (size_t)(PILE * (p->buckets + 1)));
    if (!d->piles)
        return SAMBA_ERROR_MEMORY;
    for (int i = 0; i < p->buckets; i++) {
        samba_prepare_path(p, path, "bucket-%d", i);
        d->files[i] = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (d->files[i] < 0)
            return samba_prepare_fail(p, "write", path);
    }
    return SAMBA_OK;
}

static samba_status push(samba_preparation *p, dealer *d, int bucket, const void *data, int64_t size)
{
    char *pile = d->piles + PILE * bucket;
    if (d->piled[bucket] + size > PILE) {
        SAMBA_TRY(samba_prepare_put(p, d->files[bucket], p->work, pile, (size_t)d->piled[bucket]));
        d->piled[bucket] = 0;
    }
    if (size > PILE)
        return samba_prepare_put(p, d->files[bucket], p->work, data, (size_t)size);
    memcpy(pile + d->piled[bucket], data, (size_t)size);
    d->piled[bucket] += size;
    return SAMBA_OK;
}

static samba_status deal(samba_preparation *p, dealer *d, const samba_line *line, int64_t article)
{
    const record head = {samba_prepare_key(p->o.seed, (uint64_t)article), line->number, line->length};
    const int bucket = (int)((unsigned __int128)head.key * (unsigned)p->buckets >> 64);
    SAMBA_TRY(push(p, d, bucket, &head, sizeof head));
    return push(p, d, bucket, line->text, line->length);
}

static samba_status scan_all(samba_preparation *p, dealer *d)
{
    for (;;) {
        SAMBA_TRY(samba_batch_read(p));
        if (p->batch.count == 0)
            break;
        SAMBA_TRY(samba_batch_work(p));
        for (int64_t i = 0; i < p->batch.count; i++) {
            p->bad_lines += p->articles[i].bad;
            if (!p->articles[i].there)
                continue;
            if (p->buckets)
                SAMBA_TRY(deal(p, d, &p->batch.lines[i], p->articles_total));
            p->articles_total++;
        }
        samba_prepare_tell(p, "reading", (double)p->reader.offset / (double)p->reader.size);
    }
    for (int i = 0; i < p->buckets; i++) {
        SAMBA_TRY(samba_prepare_put(p, d->files[i], p->work, d->piles + PILE * i, (size_t)d->piled[i]));
        if (fdatasync(d->files[i]) != 0)
            return samba_prepare_fail(p, "write", p->work);
    }
    return SAMBA_OK;
}

samba_status samba_prepare_scan(samba_preparation *p)
{
    dealer *d = samba_calloc(p->context, sizeof *d);
    if (!d)
        return SAMBA_ERROR_MEMORY;
    p->tokenize = false;
    p->articles_total = p->bad_lines = 0;
    samba_status status = open_buckets(p, d);
    if (status == SAMBA_OK)
        status = scan_all(p, d);
    for (int i = 0; i < p->buckets; i++)
        if (d->files[i] >= 0 && close(d->files[i]) != 0 && status == SAMBA_OK)
            status = samba_prepare_fail(p, "write", p->work);
    samba_free(p->context, d->piles, (size_t)(PILE * (p->buckets + 1)));
    samba_free(p->context, d, sizeof *d);
    SAMBA_TRY(status);
    int64_t *parts = p->part_articles;
    parts[1] = (int64_t)(p->o.dev_ratio * (double)p->articles_total);
    parts[2] = (int64_t)(p->o.test_ratio * (double)p->articles_total);
    parts[0] = p->articles_total - parts[1] - parts[2];
    p->reader.offset = p->reader.line = 0;
    p->scanned = true;
    return samba_state_save(p);
}

/* ---- a bucket in order ---- */
static int compare(const void *a, const void *b)
{
    const struct samba_dealt *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Counts them, and notes them where there is room for it. */
static samba_status find_records(samba_preparation *p, samba_bucket *b)
{
    for (size_t at = 0; at < b->size;) {
        record head;
        if (b->size - at < sizeof head)
            return samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s is damaged: remove it and begin again", p->work);
        memcpy(&head, b->data + at, sizeof head);
        if (head.length < 0 || (uint64_t)head.length > b->size - at - sizeof head)
            return samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s is damaged: remove it and begin again", p->work);
        if (b->order)
            b->order[b->count] = (struct samba_dealt){head.key, (int64_t)at};
        b->count++;
        at += sizeof head + (size_t)head.length;
    }
    return SAMBA_OK;
}

samba_status samba_bucket_open(samba_preparation *p, int64_t number, samba_bucket *b)
{
    char path[SAMBA_PREPARE_PATH];
    struct stat facts;
    *b = (samba_bucket){0};
    samba_prepare_path(p, path, "bucket-%lld", (long long)number);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &facts) != 0)
        return samba_prepare_fail(p, "read", path);
    b->size = (size_t)facts.st_size;
    void *data = b->size ? mmap(NULL, b->size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    int reason = errno;
    (void)close(file);
    errno = reason;
    if (data == MAP_FAILED) {
        b->size = 0;
        return samba_prepare_fail(p, "map", path);
    }
    b->data = data;
    SAMBA_TRY(find_records(p, b));
    const int64_t count = b->count;
    if (count * (int64_t)sizeof *b->order > p->o.memory / 4)
        return samba_fail(p->context, SAMBA_ERROR_MEMORY,
                          "%s has more lines than can be shuffled in %lld bytes: give more by memory (--memory)", p->input,
                          (long long)p->o.memory);
    b->order = samba_alloc(p->context, (size_t)count * sizeof *b->order);
    if (!b->order)
        return SAMBA_ERROR_MEMORY;
    b->count = 0;
    SAMBA_TRY(find_records(p, b));
    qsort(b->order, (size_t)count, sizeof *b->order, compare);
    return SAMBA_OK;
}

samba_line samba_bucket_line(const samba_bucket *b, int64_t i)
{
    record head;
    const char *at = b->data + b->order[i].offset;
    memcpy(&head, at, sizeof head);
    return (samba_line){at + sizeof head, head.length, head.number};
}

void samba_bucket_close(samba_preparation *p, samba_bucket *b)
{
    if (b->order)
        samba_free(p->context, b->order, (size_t)b->count * sizeof *b->order);
    if (b->data)
        (void)munmap(b->data, b->size);
    *b = (samba_bucket){0};
}
