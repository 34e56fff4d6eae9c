/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files. Writing is all or nothing: bytes go to a new file in the same directory, reach the disk, and only then take the
 * name, so a crash, a full disk or a second writer never leaves half a file under it. What can be made again takes a new name
 * without waiting for the disk; a power cut may then cost it, and nothing else. A symbolic link is followed, so the file it names
 * is replaced and not the link; what is no regular file (a directory, a device) is refused. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_TRANSFER ((size_t)1 << 30) /* one read or write moves at most this: Linux stops at 2 GiB */

static samba_status write_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(file, bytes, size < LARGEST_TRANSFER ? size : LARGEST_TRANSFER);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return SAMBA_ERROR_FILE;
        bytes += written;
        size -= (size_t)written;
    }
    return SAMBA_OK;
}

/* Makes a new file "<target>.<pid>.<n>.tmp" with the mode the system gives new files; -1 and errno where it cannot. */
static int open_beside(const char *target, char *temporary, size_t size)
{
    int file = -1;
    for (int n = 0; n < 1000 && file < 0; n++) {
        snprintf(temporary, size, "%s.%ld.%d.tmp", target, (long)getpid(), n);
        file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            break;
    }
    return file;
}

/* After the rename the new content stands under the name whatever happens here; this only makes the rename itself last over
 * a power cut, and some file systems do not offer it: so there is nothing to report. */
static void sync_directory(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = '\0';
    int directory = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        (void)fsync(directory);
        (void)close(directory);
    }
}

static samba_status fail_errno(samba_context *context, const char *verb, const char *path)
{
    const int error = errno;
    const char *cure = error != ENOENT || strcmp(verb, "read") != 0 ? ""
                       : path[0] == '/'                             ? "; check the path"
                                                                    : "; check the path, which begins in the working directory";
    return samba_fail(context, SAMBA_ERROR_FILE, "cannot %s \"%s\": %s%s", verb, path, strerror(error), cure);
}

/* The file that `path` names, through a link, or will name; `facts` where it exists. */
static samba_status find_target(samba_context *context, const char *path, char target[PATH_MAX], bool *exists, struct stat *facts)
{
    *exists = lstat(path, facts) == 0;
    if (*exists && S_ISLNK(facts->st_mode)) {
        if (!realpath(path, target) || stat(target, facts) != 0)
            return fail_errno(context, "write through the link", path);
    } else if (strlen(path) >= PATH_MAX) {
        return samba_fail(context, SAMBA_ERROR_FILE, "cannot write \"%.64s...\": the path is longer than %d bytes", path,
                          PATH_MAX - 1);
    } else {
        memcpy(target, path, strlen(path) + 1);
    }
    if (*exists && !S_ISREG(facts->st_mode))
        return samba_fail(context, SAMBA_ERROR_FILE, "cannot write \"%s\": it is %s; give the path of a file", path,
                          S_ISDIR(facts->st_mode) ? "a directory" : "not a regular file");
    return SAMBA_OK;
}

samba_status samba_file_check_writable(samba_context *context, const char *path)
{
    char target[PATH_MAX];
    struct stat facts;
    bool exists;
    SAMBA_TRY(find_target(context, path, target, &exists, &facts));
    char *slash = strrchr(target, '/');
    bool named = slash ? slash[1] != '\0' : target[0] != '\0';
    if (slash)
        slash[slash == target] = '\0';
    if (!named)
        return samba_fail(context, SAMBA_ERROR_FILE, "cannot write \"%s\": it names no file; give the path of a file", path);
    return access(slash ? target : ".", W_OK | X_OK) == 0 ? SAMBA_OK : fail_errno(context, "write", path);
}

bool samba_file_same(const char *path, const char *other)
{
    struct stat facts, others;
    return stat(path, &facts) == 0 && stat(other, &others) == 0 && facts.st_dev == others.st_dev && facts.st_ino == others.st_ino;
}

samba_status samba_file_stage(samba_context *context, const char *path, const void *const *parts, const size_t *sizes, int count,
                              bool remade, samba_file_staged *staged)
{
    struct stat facts;
    bool exists;
    staged->path = path;
    SAMBA_TRY(find_target(context, path, staged->target, &exists, &facts));
    staged->lasts = exists || !remade;
    int file = open_beside(staged->target, staged->temporary, sizeof staged->temporary);
    if (file < 0)
        return fail_errno(context, "write", path);
    samba_status status = SAMBA_OK;
    if (exists && fchmod(file, facts.st_mode & 07777) != 0)
        status = SAMBA_ERROR_FILE;
    for (int i = 0; i < count && status == SAMBA_OK; i++)
        status = write_all(file, parts[i], sizes[i]);
    if (status == SAMBA_OK && staged->lasts && fsync(file) != 0)
        status = SAMBA_ERROR_FILE;
    int reason = errno;
    if (close(file) != 0 && status == SAMBA_OK) {
        status = SAMBA_ERROR_FILE;
        reason = errno;
    }
    if (status == SAMBA_OK)
        return SAMBA_OK;
    samba_file_unstage(staged);
    errno = reason;
    return fail_errno(context, "write", path);
}

void samba_file_unstage(const samba_file_staged *staged) { (void)unlink(staged->temporary); }

samba_status samba_file_publish(samba_context *context, samba_file_staged *staged)
{
    if (rename(staged->temporary, staged->target) != 0) {
        int reason = errno;
        samba_file_unstage(staged);
        errno = reason;
        return fail_errno(context, "write", staged->path);
    }
    if (staged->lasts)
        sync_directory(staged->target);
    return SAMBA_OK;
}

samba_status samba_file_move(samba_context *context, const char *from, const char *to)
{
    struct stat facts;
    if (lstat(to, &facts) == 0) {
        int file = open(from, O_RDONLY | O_CLOEXEC);
        bool lasts = file >= 0 && fsync(file) == 0;
        int reason = errno;
        if (file >= 0)
            (void)close(file);
        errno = reason;
        if (!lasts)
            return fail_errno(context, "write", to);
    }
    return rename(from, to) == 0 ? SAMBA_OK : fail_errno(context, "write", to);
}

static samba_status write_file(samba_context *context, const char *path, const void *const *parts, const size_t *sizes, int count,
                               bool remade)
{
    samba_file_staged staged;
    SAMBA_TRY(samba_file_stage(context, path, parts, sizes, count, remade, &staged));
    return samba_file_publish(context, &staged);
}

samba_status samba_file_write_atomic(samba_context *context, const char *path, const void *const *parts, const size_t *sizes,
                                     int count)
{
    return write_file(context, path, parts, sizes, count, false);
}

samba_status samba_file_write_remade(samba_context *context, const char *path, const void *const *parts, const size_t *sizes,
                                     int count)
{
    return write_file(context, path, parts, sizes, count, true);
}

/* The first `most` bytes, or all where there are fewer. */
static samba_status read_open(samba_context *context, const char *path, int file, size_t most, void **data, size_t *size,
                              size_t *whole)
{
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return fail_errno(context, "read", path);
    if (!S_ISREG(facts.st_mode))
        return samba_fail(context, SAMBA_ERROR_FILE, "cannot read \"%s\": it is %s; give the path of a file", path,
                          S_ISDIR(facts.st_mode) ? "a directory" : "not a regular file");
    *whole = (size_t)facts.st_size;
    size_t total = *whole < most ? *whole : most, done = 0;
    char *bytes = samba_alloc(context, total);
    if (!bytes)
        return SAMBA_ERROR_MEMORY;
    while (done < total) {
        ssize_t got = read(file, bytes + done, total - done < LARGEST_TRANSFER ? total - done : LARGEST_TRANSFER);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            samba_status status =
                got < 0
                    ? fail_errno(context, "read", path)
                    : samba_fail(context, SAMBA_ERROR_FILE,
                                 "cannot read \"%s\": it became shorter while it was read (%zu of %zu bytes)", path, done, total);
            samba_free(context, bytes, total);
            return status;
        }
        done += (size_t)got;
    }
    *data = bytes;
    *size = total;
    return SAMBA_OK;
}

samba_status samba_file_read_start(samba_context *context, const char *path, size_t most, void **data, size_t *size,
                                   size_t *whole)
{
    *data = NULL;
    *size = 0;
    if (!path)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "cannot read a file: its path is missing");
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* non-blocking: opening a pipe must not wait for its writer */
    if (file < 0)
        return fail_errno(context, "read", path);
    samba_status status = read_open(context, path, file, most, data, size, whole);
    (void)close(file);
    return status;
}

samba_status samba_file_read(samba_context *context, const char *path, void **data, size_t *size)
{
    size_t whole;
    return samba_file_read_start(context, path, SIZE_MAX, data, size, &whole);
}

samba_status samba_make_directories(samba_context *context, const char *path)
{
    char *partial = samba_strdup(context, path);
    if (!partial)
        return SAMBA_ERROR_MEMORY;
    size_t length = strlen(path);
    samba_status status = SAMBA_OK;
    for (size_t i = 1; i <= length && status == SAMBA_OK; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        struct stat facts;
        partial[i] = '\0';
        if (mkdir(partial, 0777) != 0) {
            int reason = errno;
            if (stat(partial, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
                errno = reason;
                status = fail_errno(context, "make the directory", partial);
            }
        }
        partial[i] = path[i];
    }
    samba_free(context, partial, length + 1);
    return status;
}
