/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset of an HDF5 file as a tensor. libhdf5 crashes on some damaged files, so a child process has it read the file and sends
 * what is in it through a pipe: first what the dataset is, then its bytes, some rows at a time, and then whether all went well. A
 * child that ends too early tells of a damaged file. Where the dataset does not fit, the child stays and sends the rows that it
 * is asked for. What a file says that is more than its bytes can unpack to is refused before there is memory for it. */
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
#include <sys/socket.h>
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

/* ---- some rows at a time ---- */
typedef struct wanted { /* what the child is asked for; a count of -1 ends it */
    int64_t row, count;
} wanted;

struct samba_hdf5_rows {
    samba_context *context;
    char *path;
    samba_hdf5_facts facts;
    int64_t row; /* bytes */
    int to;      /* the child */
    pid_t child;
    bool broken; /* the child has ended, or sent less than was asked for */
};

static _Noreturn void serve_in_child(const samba_hdf5_interface *hdf5, const char *path, const char *name, int to, reply *r)
{
    samba_hdf5_file *file = NULL;
    wanted w;
    be_a_child();
    r->status = hdf5->open(path, &file, r->message);
    if (r->status == SAMBA_OK)
        r->status = hdf5->find(file, name, &r->facts, r->message);
    put(to, r, sizeof *r);
    int64_t row = (int64_t)samba_dtype_size(r->facts.dtype);
    for (int i = 1; i < r->facts.rank; i++)
        row *= r->facts.shape[i];
    while (r->status == SAMBA_OK && take(to, &w, sizeof w)) {
        if (w.count < 0)
            break;
        char *piece = malloc((size_t)(w.count * row) + 1);
        r->status = piece ? hdf5->read(file, w.row, w.count, piece, r->message) : SAMBA_ERROR_MEMORY;
        put(to, r, sizeof *r);
        if (r->status == SAMBA_OK)
            put(to, piece, (size_t)(w.count * row));
        free(piece);
    }
    _exit(0);
}

static samba_status fork_server(samba_hdf5_rows *rows, const samba_hdf5_interface *hdf5, const char *path, const char *name)
{
    int ends[2];
    reply r = {.status = SAMBA_OK};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return samba_fail(rows->context, SAMBA_ERROR_FILE, "cannot read \"%s\": %s", path, strerror(errno));
    rows->child = fork();
    if (rows->child == 0) {
        close(ends[0]);
        serve_in_child(hdf5, path, name, ends[1], &r);
    }
    int reason = errno;
    close(ends[1]);
    rows->to = ends[0];
    return rows->child > 0 ? SAMBA_OK
                           : samba_fail(rows->context, SAMBA_ERROR_FILE,
                                        "cannot read \"%s\", which needs a process of its own: %s", path, strerror(reason));
}

/* Sizes are multiplied here once, so that whoever reads rows need not. */
static samba_status check_rows(samba_hdf5_rows *rows, const char *path, const char *name)
{
    reply r;
    SAMBA_TRY(take_reply(rows->context, path, rows->to, &r));
    SAMBA_TRY(check_size(rows->context, path, name, &r.facts));
    rows->facts = r.facts;
    rows->row = (int64_t)samba_dtype_size(r.facts.dtype);
    for (int i = 1; i < r.facts.rank; i++)
        rows->row *= r.facts.shape[i];
    return SAMBA_OK;
}

samba_status samba_hdf5_rows_open(samba_context *context, const char *path, const char *dataset, samba_hdf5_rows **rows)
{
    const samba_hdf5_interface *hdf5;
    *rows = NULL;
    samba_hdf5_rows *made = samba_calloc(context, sizeof *made);
    if (!made)
        return SAMBA_ERROR_MEMORY;
    *made = (samba_hdf5_rows){.context = context, .path = samba_strdup(context, path), .to = -1, .child = -1};
    samba_status status = made->path ? samba_hdf5_begin(context, &hdf5) : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK) {
        status = fork_server(made, hdf5, path, dataset);
        samba_hdf5_end();
    }
    if (status == SAMBA_OK)
        status = check_rows(made, path, dataset);
    if (status == SAMBA_OK)
        *rows = made;
    else
        samba_hdf5_rows_close(made);
    return status;
}

const samba_hdf5_facts *samba_hdf5_rows_facts(const samba_hdf5_rows *rows) { return &rows->facts; }

samba_status samba_hdf5_rows_read(samba_context *context, samba_hdf5_rows *rows, int64_t row, int64_t count, void *to)
{
    const wanted w = {row, count};
    reply r;
    if (rows->broken)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: rows of it could not be read before: open it anew", rows->path);
    rows->broken = true; /* unless all goes well */
    const ssize_t sent = send(rows->to, &w, sizeof w, MSG_NOSIGNAL);
    if (sent != (ssize_t)sizeof w)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the process that reads it has ended", rows->path);
    SAMBA_TRY(take_reply(context, rows->path, rows->to, &r));
    if (!take(rows->to, to, (size_t)(count * rows->row)))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: a dataset is damaged", rows->path);
    rows->broken = false;
    return SAMBA_OK;
}

void samba_hdf5_rows_close(samba_hdf5_rows *rows)
{
    const wanted end = {0, -1};
    if (!rows)
        return;
    if (rows->to >= 0) { /* told in words: a process that was forked later may hold the other end open */
        (void)!send(rows->to, &end, sizeof end, MSG_NOSIGNAL);
        close(rows->to);
    }
    while (rows->child > 0 && waitpid(rows->child, NULL, 0) < 0 && errno == EINTR)
        continue;
    samba_strfree(rows->context, rows->path);
    samba_free(rows->context, rows, sizeof *rows);
}
