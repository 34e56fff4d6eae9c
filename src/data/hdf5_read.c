/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset of an HDF5 file as a tensor. libhdf5 crashes on some damaged files, so a child process has it read the file and sends
 * what is in it through a pipe: first what the dataset is, then its bytes, some rows at a time, and then whether all went well. A
 * child that ends too early tells of a damaged file. What a file says that is more than its bytes can unpack to is refused before
 * there is memory for it. */
#define _GNU_SOURCE /* pipe2 */
#include "base/null.h"
#include "data/data.h"
#include "data/hdf5.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE ((int64_t)16 << 20)

typedef struct reply {
    samba_status status;
    samba_hdf5_facts facts;
    char message[SAMBA_HDF5_MESSAGE];
} reply;

/* What is unpacked is at most so much more than what is stored, but for a little that may be fill values. */
static samba_status check_size(samba_context *context, const char *path, const char *name, const samba_hdf5_facts *facts)
{
    int64_t bytes = (int64_t)samba_dtype_size(facts->dtype), most;
    bool fits = true;
    for (int i = 0; i < facts->rank; i++)
        fits &= samba_mul_checked(bytes, facts->shape[i], &bytes);
    if (!samba_mul_checked(facts->stored, SAMBA_INFLATE_RATIO, &most) || !samba_add_checked(most, 1 << 20, &most))
        most = INT64_MAX;
    if (fits && bytes <= most)
        return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_FORMAT,
                      "%s: the dataset '%s' says that it is larger than the %lld bytes that it takes can unpack to", path, name,
                      (long long)facts->stored);
}

/* ---- the child: nothing of the parent's is touched, and it ends without its exit functions ---- */
static void put(int to, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t written = write(to, at, size);
        if (written < 0 && errno != EINTR)
            _exit(1); /* nobody reads: the parent has refused */
        at += written < 0 ? 0 : written;
        size -= written < 0 ? 0 : (size_t)written;
    }
}

/* Dies in silence, whatever the program does with its own crashes. */
static void be_a_child(void)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPIPE, SIGTERM, SIGINT};
    const struct rlimit none = {0, 0};
    sigset_t all;
    for (int i = 0; i < SAMBA_COUNT(deadly); i++)
        signal(deadly[i], SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    setrlimit(RLIMIT_CORE, &none);
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
}

static void send_rows(const samba_hdf5_interface *hdf5, samba_hdf5_file *file, int to, reply *r)
{
    const int64_t rows = r->facts.rank > 0 ? r->facts.shape[0] : 1;
    int64_t row = (int64_t)samba_dtype_size(r->facts.dtype);
    for (int i = 1; i < r->facts.rank; i++)
        row *= r->facts.shape[i];
    const int64_t at_once = row > 0 && row < PIECE ? PIECE / row : 1;
    char *piece = malloc((size_t)((rows < at_once ? rows : at_once) * row + 1));
    if (!piece)
        r->status = SAMBA_ERROR_MEMORY;
    for (int64_t begin = 0; begin < rows && row > 0 && r->status == SAMBA_OK; begin += at_once) {
        const int64_t count = rows - begin < at_once ? rows - begin : at_once;
        r->status = hdf5->read(file, begin, count, piece, r->message);
        if (r->status == SAMBA_OK)
            put(to, piece, (size_t)(count * row));
    }
}

static _Noreturn void read_in_child(const samba_hdf5_interface *hdf5, const char *path, const char *name, int to, reply *r)
{
    samba_hdf5_file *file = NULL;
    be_a_child();
    r->status = hdf5->open(path, &file, r->message);
    if (r->status == SAMBA_OK)
        r->status = hdf5->find(file, name, &r->facts, r->message);
    put(to, r, sizeof *r);
    if (r->status != SAMBA_OK)
        _exit(0);
    send_rows(hdf5, file, to, r);
    put(to, r, sizeof *r);
    _exit(0);
}

/* ---- the parent ---- */
static bool take(int from, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t got = read(from, at, size);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        at += got < 0 ? 0 : got;
        size -= got < 0 ? 0 : (size_t)got;
    }
    return true;
}

static samba_status take_reply(samba_context *context, const char *path, int from, reply *r)
{
    if (!take(from, r, sizeof *r))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the HDF5 file is so damaged that libhdf5 crashes on it", path);
    r->message[sizeof r->message - 1] = '\0';
    return r->status == SAMBA_OK ? SAMBA_OK : samba_fail(context, r->status, "%s: %s", path, r->message);
}

static samba_status take_tensor(samba_context *context, const char *path, const char *name, int from, reply *r,
                                samba_tensor **tensor)
{
    SAMBA_TRY(take_reply(context, path, from, r));
    SAMBA_TRY(check_size(context, path, name, &r->facts));
    SAMBA_TRY(samba_tensor_new(context, name, r->facts.dtype, r->facts.rank, r->facts.shape, tensor));
    const size_t size = (size_t)samba_tensor_numel(*tensor) * samba_dtype_size(r->facts.dtype);
    bool whole = take(from, samba_tensor_data(*tensor), size);
    if (whole)
        return take_reply(context, path, from, r);
    return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the dataset '%s' is damaged", path, name);
}

static samba_status fork_reader(samba_context *context, const samba_hdf5_interface *hdf5, const char *path, const char *name,
                                int *from, pid_t *child)
{
    int ends[2];
    reply r = {.status = SAMBA_OK};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return samba_fail(context, SAMBA_ERROR_FILE, "cannot read \"%s\": %s", path, strerror(errno));
    *child = fork();
    if (*child == 0) {
        close(ends[0]);
        read_in_child(hdf5, path, name, ends[1], &r);
    }
    int reason = errno;
    close(ends[1]);
    *from = ends[0];
    if (*child > 0)
        return SAMBA_OK;
    close(ends[0]);
    return samba_fail(context, SAMBA_ERROR_FILE, "cannot read \"%s\", which needs a process of its own: %s", path,
                      strerror(reason));
}

samba_status samba_hdf5_read(samba_context *context, const char *path, const char *dataset, samba_tensor **tensor)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tensor);
    *tensor = NULL;
    SAMBA_NEED(context, path);
    SAMBA_NEED(context, dataset);
    const samba_hdf5_interface *hdf5;
    reply r;
    int from = -1;
    pid_t child = -1;
    SAMBA_TRY(samba_hdf5_begin(context, &hdf5));
    samba_status status = fork_reader(context, hdf5, path, dataset, &from, &child);
    samba_hdf5_end(); /* the child has its own copy of everything */
    SAMBA_TRY(status);
    status = take_tensor(context, path, dataset, from, &r, tensor);
    close(from);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (status != SAMBA_OK) {
        samba_tensor_free(*tensor);
        *tensor = NULL;
    }
    return status;
}
