/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of checkpoints. What "checkpoint-<step>" names is always whole: it is written as "checkpoint-<step>.tmp", renamed when
 * all of it has reached the disk, and renamed to "checkpoint-<step>.old" before it is removed. A process that is killed leaves a
 * .tmp or .old behind, which the next one that opens the folder for saving removes;
 * a lock on the folder, which ends with the process, tells that nobody is still at it. */
#define _GNU_SOURCE /* renameat2, nftw */
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "checkpoint-"
enum { OPEN_FOLDERS = 8 }; /* while walking down a tree */

static samba_status fail_errno(samba_context *context, const char *verb, const char *path)
{
    return samba_fail(context, SAMBA_ERROR_FILE, "cannot %s \"%s\": %s", verb, path, strerror(errno));
}

samba_status samba_checkpoint_name(samba_text *text, samba_context *context, const char *folder, int64_t step, const char *ending)
{
    samba_text_init(text, context);
    samba_text_add(text, "%s/" PREFIX "%lld%s", folder, (long long)step, ending);
    return text->status;
}

/* ---- listing ---- */
/* "checkpoint-20" and its ending; digits as they are printed. */
static bool parse_name(const char *name, const char *ending, int64_t *step)
{
    char *end;
    size_t prefix = strlen(PREFIX);
    if (strncmp(name, PREFIX, prefix) != 0 || name[prefix] < '0' || name[prefix] > '9' ||
        (name[prefix] == '0' && name[prefix + 1] >= '0' && name[prefix + 1] <= '9'))
        return false;
    errno = 0;
    *step = strtoll(name + prefix, &end, 10);
    return errno == 0 && strcmp(end, ending) == 0;
}

/* Whatever else has the name of a checkpoint is none, and stays as it is. */
static bool is_folder(int directory, const char *name)
{
    struct stat facts;
    return fstatat(directory, name, &facts, 0) == 0 && S_ISDIR(facts.st_mode);
}

static int falling(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a > b ? -1 : a < b;
}

samba_status samba_checkpoint_steps(samba_arena *arena, const char *folder, const char *ending, int64_t **steps, int64_t *count)
{
    samba_context *context = arena->context;
    int64_t *found = NULL, room = 0, step;
    *steps = NULL;
    *count = 0;
    DIR *directory = opendir(folder);
    if (!directory)
        return errno == ENOENT ? SAMBA_OK : fail_errno(context, "read the folder", folder);
    samba_status status = SAMBA_OK;
    const struct dirent *entry;
    while (status == SAMBA_OK && (errno = 0, entry = readdir(directory))) {
        if (!parse_name(entry->d_name, ending, &step) ||
            (strcmp(ending, SAMBA_CHECKPOINT_WHOLE) == 0 && !is_folder(dirfd(directory), entry->d_name)))
            continue;
        status = SAMBA_GROW(context, found, room, *count + 1);
        if (status == SAMBA_OK)
            found[(*count)++] = step;
    }
    if (status == SAMBA_OK && errno != 0)
        status = fail_errno(context, "read the folder", folder);
    closedir(directory);
    if (status == SAMBA_OK && *count > 0) {
        qsort(found, (size_t)*count, sizeof *found, falling);
        *steps = samba_arena_alloc(arena, (size_t)*count * sizeof **steps);
        if (*steps)
            memcpy(*steps, found, (size_t)*count * sizeof *found);
        else
            status = SAMBA_ERROR_MEMORY;
    }
    samba_free(context, found, (size_t)room * sizeof *found);
    return status;
}

/* ---- removing ---- */
static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *place)
{
    (void)facts, (void)type, (void)place;
    return remove(path);
}

static samba_status remove_tree(const samba_checkpoint_folder *folder, int64_t step, const char *ending)
{
    samba_text path;
    samba_status status = samba_checkpoint_name(&path, folder->context, folder->path, step, ending);
    if (status == SAMBA_OK && nftw(path.data, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        status = fail_errno(folder->context, "remove", path.data);
    samba_text_clear(&path);
    return status;
}

/* errno says why it failed. */
static samba_status rename_step(const samba_checkpoint_folder *folder, int64_t step, const char *from, const char *to,
                                unsigned how)
{
    samba_text old, new;
    samba_status status = samba_checkpoint_name(&old, folder->context, folder->path, step, from);
    samba_status named = samba_checkpoint_name(&new, folder->context, folder->path, step, to);
    int reason = 0;
    status = status == SAMBA_OK ? named : status;
    if (status == SAMBA_OK && renameat2(AT_FDCWD, old.data, AT_FDCWD, new.data, how) != 0) {
        reason = errno;
        status = samba_fail(folder->context, SAMBA_ERROR_FILE, "cannot rename \"%s\" to \"%s\": %s", old.data, new.data,
                            strerror(reason));
    }
    samba_text_clear(&old);
    samba_text_clear(&new);
    errno = reason;
    return status;
}

static samba_status remove_all(const samba_checkpoint_folder *folder, const char *ending)
{
    samba_arena arena;
    int64_t *steps, count;
    samba_arena_init(&arena, folder->context);
    samba_status status = samba_checkpoint_steps(&arena, folder->path, ending, &steps, &count);
    for (int64_t i = 0; status == SAMBA_OK && i < count; i++)
        status = remove_tree(folder, steps[i], ending);
    samba_arena_free(&arena);
    return status;
}

/* ---- the folder ---- */
samba_status samba_checkpoint_folder_open(samba_context *context, const char *path, samba_checkpoint_folder *folder)
{
    *folder = (samba_checkpoint_folder){.context = context, .path = path, .file = -1};
    SAMBA_TRY(samba_make_directories(context, path));
    folder->file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->file < 0)
        return fail_errno(context, "open the folder", path);
    if (access(path, W_OK | X_OK) != 0)
        return fail_errno(context, "save checkpoints into", path);
    /* where the file system has no locks, nobody can be told apart */
    if (flock(folder->file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return samba_fail(context, SAMBA_ERROR_STATE,
                          "another process saves a checkpoint into \"%s\": give each training a folder of its own", path);
    SAMBA_TRY(remove_all(folder, SAMBA_CHECKPOINT_UNFINISHED));
    return remove_all(folder, SAMBA_CHECKPOINT_OLD);
}

void samba_checkpoint_folder_close(samba_checkpoint_folder *folder)
{
    if (folder->file >= 0)
        (void)close(folder->file);
    folder->file = -1;
}

samba_status samba_checkpoint_folder_begin(const samba_checkpoint_folder *folder, int64_t step)
{
    samba_text path;
    samba_status status = samba_checkpoint_name(&path, folder->context, folder->path, step, SAMBA_CHECKPOINT_UNFINISHED);
    if (status == SAMBA_OK && mkdir(path.data, 0777) != 0)
        status = fail_errno(folder->context, "make the folder", path.data);
    samba_text_clear(&path);
    return status;
}

/* Of no use any more; what cannot be removed now is when the folder is opened next.
 * The message stays that of the failure before. */
void samba_checkpoint_folder_abandon(const samba_checkpoint_folder *folder, int64_t step)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/" PREFIX "%lld" SAMBA_CHECKPOINT_UNFINISHED, folder->path, (long long)step);
    if (length > 0 && length < PATH_MAX)
        (void)nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

/* Some file systems do not offer it for folders. */
static samba_status sync_folder(const samba_checkpoint_folder *folder, int file, const char *path)
{
    return fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP ? SAMBA_OK : fail_errno(folder->context, "write", path);
}

static samba_status sync_unfinished(const samba_checkpoint_folder *folder, int64_t step)
{
    samba_text path;
    samba_status status = samba_checkpoint_name(&path, folder->context, folder->path, step, SAMBA_CHECKPOINT_UNFINISHED);
    int file = status == SAMBA_OK ? open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (status == SAMBA_OK)
        status = file >= 0 ? sync_folder(folder, file, path.data) : fail_errno(folder->context, "open the folder", path.data);
    if (file >= 0)
        (void)close(file);
    samba_text_clear(&path);
    return status;
}

samba_status samba_checkpoint_folder_publish(const samba_checkpoint_folder *folder, int64_t step)
{
    SAMBA_TRY(sync_unfinished(folder, step));
    samba_status status = rename_step(folder, step, SAMBA_CHECKPOINT_UNFINISHED, SAMBA_CHECKPOINT_WHOLE, 0);
    bool replaces = status != SAMBA_OK && (errno == ENOTEMPTY || errno == EEXIST);
    if (replaces) /* the two are exchanged at once, so that neither is ever missing */
        status = rename_step(folder, step, SAMBA_CHECKPOINT_UNFINISHED, SAMBA_CHECKPOINT_WHOLE, RENAME_EXCHANGE);
    SAMBA_TRY(status);
    SAMBA_TRY(sync_folder(folder, folder->file, folder->path));
    return replaces ? remove_tree(folder, step, SAMBA_CHECKPOINT_UNFINISHED) : SAMBA_OK;
}

samba_status samba_checkpoint_folder_keep(const samba_checkpoint_folder *folder, int64_t step, int keep)
{
    samba_arena arena;
    int64_t *steps, count, before = 0;
    samba_arena_init(&arena, folder->context);
    samba_status status = samba_checkpoint_steps(&arena, folder->path, SAMBA_CHECKPOINT_WHOLE, &steps, &count);
    for (int64_t i = 0; status == SAMBA_OK && i < count; i++) {
        if (steps[i] >= step || ++before < keep)
            continue;
        status = rename_step(folder, steps[i], SAMBA_CHECKPOINT_WHOLE, SAMBA_CHECKPOINT_OLD, 0);
        if (status == SAMBA_OK)
            status = remove_tree(folder, steps[i], SAMBA_CHECKPOINT_OLD);
    }
    samba_arena_free(&arena);
    return status;
}
