/* SPDX-License-Identifier: Apache-2.0
 *
 * Inflating from memory, in pieces. zlib checks the stream's own sums; this adds that nothing is missing and nothing follows, and
 * lets zlib's memory come from the context: its hook frees without a size, so each block carries its size in front. */
#include "data/data.h"

#include <limits.h>
#include <string.h>

static voidpf stream_alloc(voidpf context, uInt items, uInt size)
{
    size_t bytes = (size_t)items * size + SAMBA_ALIGNMENT;
    char *block = samba_alloc(context, bytes);
    if (!block)
        return Z_NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + SAMBA_ALIGNMENT;
}

static void stream_free(voidpf context, voidpf address)
{
    char *block = (char *)address - SAMBA_ALIGNMENT;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    samba_free(context, block, bytes);
}

samba_status samba_inflate_open(samba_inflater *inflater, samba_context *context, const char *path, bool gzip, const void *data,
                                size_t size)
{
    *inflater = (samba_inflater){.context = context, .path = path, .waiting = size};
    inflater->stream.zalloc = stream_alloc;
    inflater->stream.zfree = stream_free;
    inflater->stream.opaque = context;
    inflater->stream.next_in = (z_const Bytef *)data;
    int code = inflateInit2(&inflater->stream, gzip ? 16 + MAX_WBITS : -MAX_WBITS);
    if (code == Z_MEM_ERROR)
        return SAMBA_ERROR_MEMORY; /* recorded by samba_alloc */
    if (code != Z_OK)
        return samba_fail(context, SAMBA_ERROR_INTERNAL, "zlib %s does not start (code %d)", zlibVersion(), code);
    return SAMBA_OK;
}

samba_status samba_inflate_read(samba_inflater *inflater, void *to, size_t size, size_t *got)
{
    z_stream *stream = &inflater->stream;
    *got = 0;
    stream->next_out = to;
    while (*got < size && !inflater->done) {
        uInt shown = inflater->waiting < UINT_MAX ? (uInt)inflater->waiting : UINT_MAX;
        uInt room = size - *got < UINT_MAX ? (uInt)(size - *got) : UINT_MAX;
        stream->avail_in = shown;
        stream->avail_out = room;
        int code = inflate(stream, Z_NO_FLUSH);
        inflater->waiting -= shown - stream->avail_in;
        *got += room - stream->avail_out;
        if (code == Z_STREAM_END)
            inflater->done = true;
        else if (code == Z_MEM_ERROR)
            return SAMBA_ERROR_MEMORY;
        else if (code == Z_BUF_ERROR || (code == Z_OK && inflater->waiting == 0 && stream->avail_out > 0))
            return samba_fail(inflater->context, SAMBA_ERROR_FORMAT, "%s: the compressed data is cut short; get the file anew",
                              inflater->path);
        else if (code != Z_OK)
            return samba_fail(inflater->context, SAMBA_ERROR_FORMAT, "%s: the compressed data is damaged (%s); get the file anew",
                              inflater->path, stream->msg ? stream->msg : "no reason given");
    }
    return SAMBA_OK;
}

samba_status samba_inflate_finish(samba_inflater *inflater)
{
    char extra;
    size_t got;
    SAMBA_TRY(samba_inflate_read(inflater, &extra, 1, &got));
    if (got > 0)
        return samba_fail(inflater->context, SAMBA_ERROR_FORMAT, "%s: the compressed data goes on after its content's end",
                          inflater->path);
    if (inflater->waiting > 0)
        return samba_fail(inflater->context, SAMBA_ERROR_FORMAT, "%s: %zu bytes follow the compressed data; nothing may",
                          inflater->path, inflater->waiting);
    return SAMBA_OK;
}

void samba_inflate_close(samba_inflater *inflater) { inflateEnd(&inflater->stream); }
