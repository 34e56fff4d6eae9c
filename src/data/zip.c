/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading ZIP archives, as .npz files are: stored or deflated members, with the 64-bit extension that NumPy uses for large
 * arrays. What is read: the end record at the file's end, the directory it points to, and each member's local header, which must
 * agree with the directory. Sizes come from the directory. Each offset and size is checked against the file, and the packed sizes
 * together may not exceed it, so overlapping members cannot multiply. Encrypted and multi-disk archives are refused. */
#include "data/data.h"

#include <string.h>

#define END_SIZE 22
#define LOCATOR_SIZE 20
#define END64_SIZE 56
#define ENTRY_SIZE 46
#define LOCAL_SIZE 30

typedef struct archive {
    samba_context *context;
    const char *path, *data;
    size_t size;
} archive;

static samba_status damaged(const archive *zip, const char *what)
{
    return samba_fail(zip->context, SAMBA_ERROR_FORMAT, "%s: the ZIP archive is cut short or damaged: %s", zip->path, what);
}

/* Are `length` bytes at `offset` inside the file? */
static bool inside(const archive *zip, uint64_t offset, uint64_t length)
{
    return offset <= zip->size && length <= zip->size - offset;
}

/* The directory's offset and number of entries. */
static samba_status find_directory(const archive *zip, uint64_t *offset, uint64_t *length, uint64_t *count)
{
    size_t end = SIZE_MAX; /* the end record is followed only by a comment, at most 65535 bytes of it, which it counts */
    for (size_t tail = END_SIZE; tail <= zip->size && tail <= END_SIZE + 65535 && end == SIZE_MAX; tail++) {
        const char *p = zip->data + zip->size - tail;
        if (memcmp(p, "PK\5\6", 4) == 0 && samba_get16(p + 20) == tail - END_SIZE)
            end = zip->size - tail;
    }
    if (end == SIZE_MAX)
        return damaged(zip, "it has no end record");
    const char *p = zip->data + end;
    *count = samba_get16(p + 10);
    *length = samba_get32(p + 12);
    *offset = samba_get32(p + 16);
    bool one_disk = samba_get16(p + 4) == 0 && samba_get16(p + 6) == 0 && samba_get16(p + 8) == *count;
    if (*count == 0xFFFF || *length == 0xFFFFFFFF || *offset == 0xFFFFFFFF) {
        if (end < LOCATOR_SIZE || memcmp(p - LOCATOR_SIZE, "PK\6\7", 4) != 0)
            return damaged(zip, "its 64-bit end record is not where it should be");
        uint64_t end64 = samba_get64(p - LOCATOR_SIZE + 8);
        if (!inside(zip, end64, END64_SIZE) || memcmp(zip->data + end64, "PK\6\6", 4) != 0)
            return damaged(zip, "its 64-bit end record is not where it should be");
        p = zip->data + end64;
        *count = samba_get64(p + 32);
        *length = samba_get64(p + 40);
        *offset = samba_get64(p + 48);
        one_disk = samba_get32(p + 16) == 0 && samba_get32(p + 20) == 0 && samba_get64(p + 24) == *count;
    }
    if (!one_disk)
        return samba_fail(zip->context, SAMBA_ERROR_UNSUPPORTED, "%s: the ZIP archive is split over several files; join them",
                          zip->path);
    if (!inside(zip, *offset, *length) || *count > *length / ENTRY_SIZE)
        return damaged(zip, "its directory does not fit the file");
    return SAMBA_OK;
}

/* Sizes of 0xFFFFFFFF stand, in this order and 64 bits wide, in the entry's extra field 1. */
static bool widen(const char *extra, size_t length, uint64_t *size, uint64_t *compressed, uint64_t *offset)
{
    uint64_t *fields[] = {size, compressed, offset};
    if (*size != 0xFFFFFFFF && *compressed != 0xFFFFFFFF && *offset != 0xFFFFFFFF)
        return true;
    while (length >= 4) {
        size_t field_length = samba_get16(extra + 2);
        if (field_length > length - 4)
            return false;
        if (samba_get16(extra) == 1) {
            const char *p = extra + 4, *end = p + field_length;
            for (int i = 0; i < 3; i++)
                if (*fields[i] == 0xFFFFFFFF) {
                    if (end - p < 8)
                        return false;
                    *fields[i] = samba_get64(p);
                    p += 8;
                }
            return true;
        }
        extra += 4 + field_length;
        length -= 4 + field_length;
    }
    return false;
}

/* The member's data starts after its local header, whose name must be the directory's. */
static samba_status find_data(const archive *zip, uint64_t offset, samba_zip_member *member)
{
    size_t name_length = strlen(member->name);
    if (!inside(zip, offset, LOCAL_SIZE + name_length))
        return damaged(zip, "a member lies outside of it");
    const char *p = zip->data + offset;
    if (memcmp(p, "PK\3\4", 4) != 0 || samba_get16(p + 26) != name_length ||
        memcmp(p + LOCAL_SIZE, member->name, name_length) != 0)
        return damaged(zip, "a member's own header differs from the directory");
    uint64_t begin = offset + LOCAL_SIZE + name_length + samba_get16(p + 28);
    if (!inside(zip, begin, member->compressed))
        return damaged(zip, "a member lies outside of it");
    member->data = zip->data + begin;
    return SAMBA_OK;
}

static samba_status read_entry(const archive *zip, samba_arena *arena, const char *p, size_t left, samba_zip_member *member,
                               size_t *used)
{
    if (left < ENTRY_SIZE || memcmp(p, "PK\1\2", 4) != 0)
        return damaged(zip, "its directory has fewer entries than it says");
    int flags = samba_get16(p + 8), method = samba_get16(p + 10);
    uint64_t compressed = samba_get32(p + 20), size = samba_get32(p + 24), offset = samba_get32(p + 42);
    size_t name_length = samba_get16(p + 28), extra_length = samba_get16(p + 30);
    *used = ENTRY_SIZE + name_length + extra_length + samba_get16(p + 32);
    if (*used > left || !widen(p + ENTRY_SIZE + name_length, extra_length, &size, &compressed, &offset))
        return damaged(zip, "an entry of its directory is incomplete");
    SAMBA_TRY(SAMBA_ROOM(arena, member->name, name_length + 1)); /* zeroed, so it ends */
    memcpy(member->name, p + ENTRY_SIZE, name_length);
    if (strlen(member->name) != name_length)
        return damaged(zip, "a member's name holds a zero byte");
    if (flags & 1)
        return samba_fail(zip->context, SAMBA_ERROR_UNSUPPORTED, "%s (%s): the member is encrypted; store it plainly", zip->path,
                          member->name);
    if (method != 0 && method != 8)
        return samba_fail(zip->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s (%s): compression method %d; stored (0) and deflated (8) are supported", zip->path, member->name,
                          method);
    member->deflated = method == 8;
    member->crc = samba_get32(p + 16);
    if (compressed > zip->size || (!member->deflated && size != compressed) || size > (compressed + 64) * SAMBA_INFLATE_RATIO)
        return damaged(zip, "a member's sizes cannot be");
    member->compressed = (size_t)compressed;
    member->size = (size_t)size;
    return find_data(zip, offset, member);
}

samba_status samba_zip_open(samba_arena *arena, const char *path, const samba_bytes *bytes, samba_zip_member **members,
                            int *count)
{
    archive zip = {arena->context, path, bytes->data, bytes->size};
    uint64_t offset = 0, length = 0, entries = 0;
    size_t used = 0, packed = 0;
    *members = NULL;
    *count = 0;
    SAMBA_TRY(find_directory(&zip, &offset, &length, &entries));
    if (entries > INT32_MAX)
        return damaged(&zip, "it claims more members than can be");
    samba_zip_member *list;
    SAMBA_TRY(SAMBA_ROOM(arena, list, entries));
    const char *p = zip.data + offset;
    for (uint64_t i = 0; i < entries; i++, p += used, length -= used) {
        SAMBA_TRY(read_entry(&zip, arena, p, (size_t)length, &list[i], &used));
        packed += list[i].compressed;
        if (packed > zip.size)
            return damaged(&zip, "its members overlap");
    }
    *members = list;
    *count = (int)entries;
    return SAMBA_OK;
}

static samba_status inflate_member(samba_context *context, const char *label, const samba_zip_member *member, void *to)
{
    samba_inflater inflater;
    size_t got;
    SAMBA_TRY(samba_inflate_open(&inflater, context, label, false, member->data, member->compressed));
    samba_status status = samba_inflate_read(&inflater, to, member->size, &got);
    if (status == SAMBA_OK && got < member->size)
        status = samba_fail(context, SAMBA_ERROR_FORMAT, "%s: %zu bytes inflated where the archive says %zu; get the file anew",
                            label, got, member->size);
    if (status == SAMBA_OK)
        status = samba_inflate_finish(&inflater);
    samba_inflate_close(&inflater);
    return status;
}

samba_status samba_zip_extract(samba_context *context, const char *path, const samba_zip_member *member, void *to)
{
    samba_text label;
    samba_status status = samba_text_begin(&label, context, "%s (%s)", path, member->name);
    if (status == SAMBA_OK && member->deflated)
        status = inflate_member(context, label.data, member, to);
    else if (status == SAMBA_OK)
        memcpy(to, member->data, member->size);
    if (status == SAMBA_OK && crc32_z(0, to, member->size) != member->crc)
        status = samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the checksum is wrong; get the file anew", label.data);
    samba_text_clear(&label);
    return status;
}
