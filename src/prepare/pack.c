/* SPDX-License-Identifier: Apache-2.0
 *
 * Articles, in their order, into sequences. A packer fills one sequence and appends those that are whole to its spool, a file of
 * ids, categories where they are asked for, and types; the number of sequences is known when all is packed. What state.json says
 * is in the spool has reached the disk; what lies behind is cut off when the work goes on. */
#include "prepare/prepare.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BUFFER ((int64_t)1 << 20)

size_t samba_spool_row(const samba_preparation *p)
{
    return (size_t)p->o.max_seq_length * (p->categories ? 2 * sizeof(int32_t) + 1 : sizeof(int32_t) + 1);
}

static int64_t buffer_size(const samba_preparation *p) { return BUFFER + (int64_t)samba_spool_row(p); }

samba_status samba_packer_open(samba_preparation *p, int part)
{
    samba_packer *k = &p->packers[part];
    const size_t length = (size_t)p->o.max_seq_length;
    char path[SAMBA_PREPARE_PATH];
    samba_prepare_path(p, path, "%s.spool", samba_part_names[part]);
    if (!k->ids && !(k->ids = samba_calloc(p->context, length * sizeof *k->ids)))
        return SAMBA_ERROR_MEMORY;
    if (!k->categories && !(k->categories = samba_calloc(p->context, length * sizeof *k->categories)))
        return SAMBA_ERROR_MEMORY;
    if (!k->types && !(k->types = samba_calloc(p->context, length)))
        return SAMBA_ERROR_MEMORY;
    if (!k->buffer && !(k->buffer = samba_alloc(p->context, (size_t)buffer_size(p))))
        return SAMBA_ERROR_MEMORY;
    k->spool = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (k->spool < 0 || ftruncate(k->spool, k->spool_bytes) != 0 || lseek(k->spool, k->spool_bytes, SEEK_SET) < 0)
        return samba_prepare_fail(p, "write", path);
    return SAMBA_OK;
}

void samba_packer_close(samba_preparation *p, int part)
{
    samba_packer *k = &p->packers[part];
    const size_t length = (size_t)p->o.max_seq_length;
    if (k->spool >= 0)
        (void)close(k->spool);
    k->spool = -1;
    samba_free(p->context, k->ids, length * sizeof *k->ids);
    samba_free(p->context, k->categories, length * sizeof *k->categories);
    samba_free(p->context, k->types, length);
    samba_free(p->context, k->buffer, (size_t)buffer_size(p));
    k->ids = k->categories = NULL;
    k->types = NULL;
    k->buffer = NULL;
}

static samba_status empty_buffer(samba_preparation *p, int part)
{
    samba_packer *k = &p->packers[part];
    char path[SAMBA_PREPARE_PATH];
    samba_prepare_path(p, path, "%s.spool", samba_part_names[part]);
    SAMBA_TRY(samba_prepare_put(p, k->spool, path, k->buffer, (size_t)k->buffered));
    k->spool_bytes += k->buffered;
    k->buffered = 0;
    return SAMBA_OK;
}

samba_status samba_packer_flush(samba_preparation *p, int part)
{
    SAMBA_TRY(empty_buffer(p, part));
    return fdatasync(p->packers[part].spool) == 0 ? SAMBA_OK : samba_prepare_fail(p, "write", p->work);
}

/* Ends the sequence: pads it, and keeps it where something in it is learned. */
static samba_status end_sequence(samba_preparation *p, int part)
{
    samba_packer *k = &p->packers[part];
    const int64_t length = p->o.max_seq_length, filled = k->filled;
    const bool learned = memchr(k->types, SAMBA_TOKEN_COMPLETION, (size_t)filled) != NULL;
    k->filled = 0;
    if (filled == 0)
        return SAMBA_OK;
    if (!learned && !p->o.keep_prompt_only_sequences) {
        k->dropped_sequences++;
        return SAMBA_OK;
    }
    for (int64_t i = filled; i < length; i++) {
        k->ids[i] = p->pad;
        k->categories[i] = -1;
        k->types[i] = SAMBA_TOKEN_PADDING;
    }
    const size_t numbers = (size_t)length * sizeof *k->ids;
    char *to = k->buffer + k->buffered;
    memcpy(to, k->ids, numbers);
    if (p->categories)
        memcpy(to += numbers, k->categories, numbers);
    memcpy(to + numbers, k->types, (size_t)length);
    k->buffered += (int64_t)samba_spool_row(p);
    k->sequences++;
    k->tokens += filled;
    return k->buffered >= BUFFER ? empty_buffer(p, part) : SAMBA_OK;
}

samba_status samba_packer_end(samba_preparation *p, int part) { return end_sequence(p, part); }

/* A run of tokens of one category, into sequences that are ended as they fill. */
static samba_status append(samba_preparation *p, int part, const int32_t *ids, const uint8_t *types, int64_t count,
                           int32_t category)
{
    samba_packer *k = &p->packers[part];
    while (count > 0) {
        int64_t fits = p->o.max_seq_length - k->filled;
        if (fits > count)
            fits = count;
        memcpy(k->ids + k->filled, ids, (size_t)fits * sizeof *ids);
        memcpy(k->types + k->filled, types, (size_t)fits);
        for (int64_t i = 0; i < fits; i++)
            k->categories[k->filled + i] = category;
        k->filled += fits;
        ids += fits, types += fits, count -= fits;
        if (k->filled == p->o.max_seq_length)
            SAMBA_TRY(end_sequence(p, part));
    }
    return SAMBA_OK;
}

/* Pairs that stay together: tokens [skipped, skipped + kept) of theirs. */
static samba_status append_pairs(samba_preparation *p, int part, const samba_worker *w, int64_t token, const samba_pair *pairs,
                                 int64_t count, int64_t skipped, int64_t kept)
{
    int64_t at = 0;
    for (int64_t i = 0; i < count; at += pairs[i].tokens, i++) {
        int64_t begin = skipped > at ? skipped : at, end = at + pairs[i].tokens;
        if (end > skipped + kept)
            end = skipped + kept;
        if (begin < end)
            SAMBA_TRY(append(p, part, w->ids + token + begin, w->types + token + begin, end - begin, pairs[i].category));
    }
    return SAMBA_OK;
}

static samba_status pack_unit(samba_preparation *p, int part, const samba_worker *w, int64_t token, const samba_pair *pairs,
                              int64_t count)
{
    samba_packer *k = &p->packers[part];
    const int64_t length = p->o.max_seq_length;
    const samba_packing packing = p->o.packing;
    const bool single = packing >= SAMBA_PACKING_SINGLE_DROP;
    int64_t tokens = 0, skipped = 0, kept;
    for (int64_t i = 0; i < count; i++)
        tokens += pairs[i].tokens;
    if (packing == SAMBA_PACKING_FULL)
        return append_pairs(p, part, w, token, pairs, count, 0, tokens);
    if (tokens > length && (packing == SAMBA_PACKING_GREEDY_DROP || packing == SAMBA_PACKING_SINGLE_DROP)) {
        k->dropped_units++;
        return SAMBA_OK;
    }
    kept = tokens < length ? tokens : length;
    k->truncated_units += tokens > length;
    if (packing == SAMBA_PACKING_GREEDY_TRUNCATE_LEFT || packing == SAMBA_PACKING_SINGLE_TRUNCATE_LEFT)
        skipped = tokens - kept;
    if (single || k->filled + kept > length)
        SAMBA_TRY(end_sequence(p, part));
    return append_pairs(p, part, w, token, pairs, count, skipped, kept);
}

samba_status samba_packer_article(samba_preparation *p, int part, const samba_article *article)
{
    const samba_worker *w = &p->workers[article->worker];
    const samba_pair *pairs = w->pairs + article->first_pair;
    int64_t token = article->first_token;
    if (article->pairs == 0)
        return SAMBA_OK;
    if (p->o.packing_boundary == SAMBA_BOUNDARY_JSONL)
        return pack_unit(p, part, w, token, pairs, article->pairs);
    for (int64_t i = 0; i < article->pairs; token += pairs[i].tokens, i++)
        SAMBA_TRY(pack_unit(p, part, w, token, &pairs[i], 1));
    return SAMBA_OK;
}
