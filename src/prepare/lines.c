/* SPDX-License-Identifier: Apache-2.0
 *
 * The input, some whole lines at a time. A batch has lines of a block of the file, or of a bucket; a line longer than a 32nd of
 * the memory is refused, since several copies of what is worked on are in memory at once. */
#define _GNU_SOURCE /* memrchr */
#include "prepare/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

samba_status samba_reader_open(samba_preparation *p)
{
    struct stat facts;
    p->reader = (samba_reader){.file = open(p->input, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (p->reader.file < 0 || fstat(p->reader.file, &facts) != 0)
        return samba_prepare_fail(p, "read", p->input);
    if (!S_ISREG(facts.st_mode))
        return samba_fail(p->context, SAMBA_ERROR_FILE, "cannot read \"%s\": it is %s; give the path of a file", p->input,
                          S_ISDIR(facts.st_mode) ? "a directory" : "not a regular file");
    p->reader.size = facts.st_size;
    return SAMBA_OK;
}

/* Up to `size` bytes at the reader's place, all there are where there are fewer. */
static samba_status read_block(samba_preparation *p, int64_t size, int64_t *got)
{
    *got = 0;
    if (size > p->batch.capacity)
        SAMBA_TRY(SAMBA_GROW(p->context, p->batch.text, p->batch.capacity, size));
    while (*got < size) {
        ssize_t more = pread(p->reader.file, p->batch.text + *got, (size_t)(size - *got), p->reader.offset + *got);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return samba_prepare_fail(p, "read", p->input);
        if (more == 0)
            break;
        *got += more;
    }
    return SAMBA_OK;
}

samba_status samba_batch_add(samba_preparation *p, const char *text, int64_t length, int64_t number)
{
    samba_batch *b = &p->batch;
    if (b->count == b->line_capacity)
        SAMBA_TRY(SAMBA_GROW(p->context, b->lines, b->line_capacity, b->count + 1));
    b->lines[b->count++] = (samba_line){text, length, number};
    b->size += length;
    return SAMBA_OK;
}

samba_status samba_batch_read(samba_preparation *p)
{
    const int64_t longest = p->o.memory / 32;
    int64_t size = p->o.memory / 128 < 4 << 20 ? p->o.memory / 128 : 4 << 20, got, whole = 0;
    p->batch.count = p->batch.size = 0;
    do {
        SAMBA_TRY(read_block(p, size, &got));
        const bool end = got < size;
        const char *last = got ? memrchr(p->batch.text, '\n', (size_t)got) : NULL;
        whole = end ? got : last ? last + 1 - p->batch.text : 0;
        if (!whole && !end && size > longest)
            return samba_fail(p->context, SAMBA_ERROR_FORMAT,
                              "%s, line %lld: longer than %lld bytes, a 32nd of the memory: give more by memory (--memory)",
                              p->input, (long long)p->reader.line + 1, (long long)longest);
        if (end)
            break;
        size = size * 2 <= longest ? size * 2 : longest + 1;
    } while (!whole);
    int64_t at = 0;
    while (at < whole && p->batch.count < SAMBA_MOST_LINES) {
        const char *begin = p->batch.text + at, *newline = memchr(begin, '\n', (size_t)(whole - at));
        int64_t length = newline ? newline + 1 - begin : whole - at;
        SAMBA_TRY(samba_batch_add(p, begin, length, ++p->reader.line));
        at += length;
    }
    p->reader.offset += at;
    return SAMBA_OK;
}
