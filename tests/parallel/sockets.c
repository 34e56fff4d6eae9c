/* SPDX-License-Identifier: Apache-2.0
 *
 * A network for tests, in place of an MPI's plugin: processes of one machine, a pair of sockets between any two, which the
 * program `launch` has made. So what replicas do runs under sanitizers and valgrind, and where there is no MPI.
 *
 * It is as unkind as a network may be: messages come in pieces of random size, and one that has come is told of late, so that
 * swaps end in any order. SAMBAFLOW_SEED fixes what is drawn, but not what the processes make of it. */
#include "parallel/network.h"

#include "../seed.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { END = -1, COLLECTIVE = -2, TROUBLE = 1, LATE_IN = 4, LOOKS = 64, SLOTS = 64 };

typedef struct head {
    int64_t tag, bytes;
} head;

typedef struct message {
    struct message *next;
    head head;
    size_t bytes; /* of what goes: none behind the head of an end, which tells calls */
    size_t at;    /* bytes that have gone or come, those of the head too where it goes */
    char *data;
    bool own;     /* the memory is this message's: it came before it was asked for */
    int *pending; /* messages that somebody waits for, this one among them */
} message;

typedef struct peer {
    int fd;
    bool ended;    /* it has said so, or is gone */
    int64_t calls; /* then of how many swaps and calls of all at once with this one it did its part; -1: it is gone */
    int64_t begun; /* of those, by this one */
    message *out, *wanted, *early; /* each in order */
    message *coming;               /* its head has come */
    head head;
    size_t head_at;
} peer;

typedef struct slot {
    int pending;
    double since;
} slot;

struct samba_network {
    int rank, size;
    double limit;
    uint64_t state; /* of random numbers */
    bool broken;    /* one has failed */
    peer *peers;
    slot slots[SLOTS];
    char trouble[200];
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *make(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    if (!memory)
        abort(); /* a test's */
    return memory;
}

static void append(message **list, message *m)
{
    while (*list)
        list = &(*list)->next;
    *list = m;
}

static message *take(message **list, int64_t tag)
{
    while (*list && (*list)->head.tag != tag)
        list = &(*list)->next;
    message *m = *list;
    if (m)
        *list = m->next, m->next = NULL;
    return m;
}

static void drop(message *m)
{
    if (m->own)
        free(m->data);
    free(m);
}

/* ---- sending and receiving ---- */
static void send_to(samba_network *n, int rank, int64_t tag, const void *data, size_t bytes, int *pending)
{
    message *m = make(sizeof *m);
    *m = (message){.head = {tag, (int64_t)bytes}, .bytes = bytes, .data = (char *)(uintptr_t)data, .pending = pending};
    ++*pending;
    append(&n->peers[rank].out, m);
}

static int fail_size(samba_network *n, int rank, int64_t given, int64_t wanted)
{
    snprintf(n->trouble, sizeof n->trouble, "%lld bytes have come from replica %d, expected %lld", (long long)given, rank,
             (long long)wanted);
    return TROUBLE;
}

static int receive_from(samba_network *n, int rank, int64_t tag, void *data, size_t bytes, int *pending)
{
    peer *p = &n->peers[rank];
    message *m = take(&p->early, tag);
    if (m) {
        const int64_t given = m->head.bytes;
        if (given == (int64_t)bytes && bytes > 0)
            memcpy(data, m->data, bytes);
        drop(m);
        return given == (int64_t)bytes ? 0 : fail_size(n, rank, given, (int64_t)bytes);
    }
    m = make(sizeof *m);
    *m = (message){.head = {tag, (int64_t)bytes}, .data = data, .pending = pending};
    ++*pending;
    append(&p->wanted, m);
    return 0;
}

static size_t draw(samba_network *n, size_t left)
{
    const size_t most = (size_t)1 << (4 + next_seed(&n->state) % 16);
    return left < most ? left : most;
}

/* Whether anything went. */
static bool push(samba_network *n, peer *p)
{
    message *m = p->out;
    if (!m || p->fd < 0)
        return false;
    const char *from = m->at < sizeof m->head ? (const char *)&m->head + m->at : m->data + (m->at - sizeof m->head);
    const size_t left = m->at < sizeof m->head ? sizeof m->head - m->at : sizeof m->head + m->bytes - m->at;
    const ssize_t sent = send(p->fd, from, draw(n, left), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR && !p->ended)
            p->ended = true, p->calls = -1;
        return false;
    }
    m->at += (size_t)sent;
    if (m->at == sizeof m->head + m->bytes) {
        --*m->pending;
        p->out = m->next;
        drop(m);
    }
    return sent > 0;
}

/* The head has come: where does the rest go? */
static int begin_message(samba_network *n, peer *p)
{
    p->head_at = 0;
    if (p->head.tag == END) {
        p->ended = true;
        p->calls = p->head.bytes;
        return 0;
    }
    p->coming = take(&p->wanted, p->head.tag);
    if (p->coming)
        return p->coming->head.bytes == p->head.bytes ? 0
                                                      : fail_size(n, (int)(p - n->peers), p->head.bytes, p->coming->head.bytes);
    p->coming = make(sizeof *p->coming);
    *p->coming = (message){.head = p->head, .data = make((size_t)p->head.bytes), .own = true};
    return 0;
}

static void end_message(peer *p)
{
    message *m = p->coming;
    p->coming = NULL;
    if (!m->own) {
        --*m->pending;
        drop(m);
        return;
    }
    message *wanted = take(&p->wanted, m->head.tag); /* asked for while it came */
    if (!wanted) {
        append(&p->early, m);
        return;
    }
    if (wanted->head.bytes == m->head.bytes && m->head.bytes > 0)
        memcpy(wanted->data, m->data, (size_t)m->head.bytes);
    --*wanted->pending;
    drop(wanted);
    drop(m);
}

static int pull(samba_network *n, peer *p, bool *any)
{
    const bool is_head = !p->coming;
    if (p->fd < 0 || p->ended)
        return 0;
    char *to = is_head ? (char *)&p->head + p->head_at : p->coming->data + p->coming->at;
    const size_t left = is_head ? sizeof p->head - p->head_at : (size_t)p->coming->head.bytes - p->coming->at;
    const ssize_t came = left == 0 ? 0 : recv(p->fd, to, draw(n, left), MSG_DONTWAIT);
    if (left > 0 && came <= 0) {
        if (came == 0 || (errno != EAGAIN && errno != EINTR))
            p->ended = true, p->calls = -1;
        return 0;
    }
    *any = true;
    *(is_head ? &p->head_at : &p->coming->at) += (size_t)came;
    if (is_head && p->head_at == sizeof p->head) {
        const int error = begin_message(n, p);
        if (error)
            return error;
    }
    if (p->coming && p->coming->at == (size_t)p->coming->head.bytes)
        end_message(p);
    return 0;
}

static int go_on(samba_network *n, bool *any)
{
    int error = 0;
    *any = false;
    for (int rank = 0; rank < n->size && !error; rank++) {
        peer *p = &n->peers[rank];
        if (rank == n->rank || next_seed(&n->state) % 8 == 0)
            continue;
        for (int i = 0; i < LOOKS && push(n, p); i++)
            *any = true;
        bool came = true;
        for (int i = 0; i < LOOKS && came && !error; i++) {
            came = false;
            error = pull(n, p, &came);
            *any = *any || came;
        }
    }
    return error;
}

/* Somebody waits since `since`. */
static int look(samba_network *n, double since)
{
    for (int rank = 0; rank < n->size; rank++)
        if (n->peers[rank].ended && n->peers[rank].calls < n->peers[rank].begun) {
            n->broken = true;
            snprintf(n->trouble, sizeof n->trouble, "replica %d has ended, and this one still waits for it", rank);
            return TROUBLE;
        }
    if (seconds() - since <= n->limit)
        return 0;
    n->broken = true;
    int used = snprintf(n->trouble, sizeof n->trouble, "nothing has come for %.0f seconds from replica", n->limit);
    for (int rank = 0; rank < n->size && used < 150; rank++)
        if (n->peers[rank].wanted || n->peers[rank].out || (n->peers[rank].coming && !n->peers[rank].coming->own))
            used += snprintf(n->trouble + used, sizeof n->trouble - (size_t)used, " %d", rank);
    return TROUBLE;
}

static int wait_for(samba_network *n, const int *pending)
{
    const double since = seconds();
    while (*pending > 0) {
        bool any;
        int error = go_on(n, &any);
        if (!error && *pending > 0 && !any) {
            error = look(n, since);
            sched_yield();
        }
        if (error)
            return error;
    }
    return 0;
}

/* ---- the interface ---- */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : -1;
}

static int open_network(double limit, samba_network **network, samba_network_facts *facts, char *message_text, size_t size)
{
    const char *list = getenv("SOCKETS_OF_PEERS");
    samba_network *n = make(sizeof *n);
    *network = NULL;
    n->rank = number_of("SOCKETS_RANK");
    n->size = number_of("SOCKETS_SIZE");
    n->limit = limit;
    n->state = random_seed() + (uint64_t)n->rank;
    if (!list || n->rank < 0 || n->size < 1) {
        snprintf(message_text, size, "tests/parallel/launch has not started this process");
        free(n);
        return TROUBLE;
    }
    n->peers = make(sizeof *n->peers * (size_t)n->size);
    for (int rank = 0; rank < n->size; rank++) {
        char *end;
        n->peers[rank].fd = (int)strtol(list, &end, 10);
        list = end;
    }
    *facts = (samba_network_facts){n->rank, n->size, n->rank, n->size, true, "sockets"};
    *network = n;
    return 0;
}

static void forget(message **list)
{
    while (*list) {
        message *m = *list;
        *list = m->next;
        drop(m);
    }
}

static void close_network(samba_network *n, bool for_good)
{
    (void)for_good;
    int pending = 0, heard = 0;
    for (int rank = 0; rank < n->size; rank++) {
        forget(&n->peers[rank].wanted); /* whose memory may be gone */
        if (rank == n->rank)
            continue;
        send_to(n, rank, END, NULL, 0, &pending);
        message *last = n->peers[rank].out;
        while (last->next)
            last = last->next;
        last->head.bytes = n->broken ? -1 : n->peers[rank].begun;
    }
    while (heard < n->size - 1) {
        bool any;
        if (go_on(n, &any))
            break;
        heard = 0;
        for (int rank = 0; rank < n->size; rank++)
            heard += rank != n->rank && n->peers[rank].ended && !n->peers[rank].out;
        sched_yield();
    }
    for (int rank = 0; rank < n->size; rank++) {
        forget(&n->peers[rank].out);
        forget(&n->peers[rank].early);
        if (n->peers[rank].coming)
            drop(n->peers[rank].coming);
        if (n->peers[rank].fd >= 0)
            close(n->peers[rank].fd);
    }
    free(n->peers);
    free(n);
}

static void describe(const samba_network *n, int error, char *text, size_t size)
{
    (void)error;
    snprintf(text, size, "%s", n->trouble);
}

static void count_call(samba_network *n)
{
    for (int rank = 0; rank < n->size; rank++)
        n->peers[rank].begun++;
}

static int broadcast(samba_network *n, void *data, size_t bytes, int root)
{
    int pending = 0, error = 0;
    count_call(n);
    if (n->rank != root)
        error = receive_from(n, root, COLLECTIVE, data, bytes, &pending);
    for (int rank = 0; rank < n->size && n->rank == root; rank++)
        if (rank != root)
            send_to(n, rank, COLLECTIVE, data, bytes, &pending);
    return error ? error : wait_for(n, &pending);
}

static int gather(samba_network *n, const void *own, size_t bytes, void *all)
{
    int pending = 0, error = 0;
    count_call(n);
    for (int rank = 0; rank < n->size && !error; rank++) {
        if (rank == n->rank) {
            memcpy((char *)all + (size_t)rank * bytes, own, bytes);
            continue;
        }
        error = receive_from(n, rank, COLLECTIVE, (char *)all + (size_t)rank * bytes, bytes, &pending);
        send_to(n, rank, COLLECTIVE, own, bytes, &pending);
    }
    return error ? error : wait_for(n, &pending);
}

static int barrier(samba_network *n)
{
    char own = 1, all[256];
    return gather(n, &own, 1, all);
}

static int swap(samba_network *n, int number, const samba_network_part *parts, int count)
{
    int error = 0;
    if (number >= SLOTS)
        abort();
    slot *s = &n->slots[number];
    for (int i = 0; i < count; i++)
        n->peers[parts[i].peer].begun += parts[i].in_bytes + parts[i].out_bytes > 0;
    s->pending = 0;
    s->since = seconds();
    for (int i = 0; i < count && !error; i++)
        if (parts[i].in_bytes > 0)
            error = receive_from(n, parts[i].peer, number, parts[i].in, parts[i].in_bytes, &s->pending);
    for (int i = 0; i < count && !error; i++)
        if (parts[i].out_bytes > 0)
            send_to(n, parts[i].peer, number, parts[i].out, parts[i].out_bytes, &s->pending);
    return error;
}

static int done(samba_network *n, int number, bool *is_done)
{
    bool any;
    const int error = go_on(n, &any);
    *is_done = !error && n->slots[number].pending == 0 && next_seed(&n->state) % LATE_IN != 0;
    return error || *is_done || n->slots[number].pending == 0 ? error : look(n, n->slots[number].since);
}

static void abort_all(samba_network *n, int code)
{
    (void)n;
    _exit(code); /* launch ends the others */
}

__attribute__((visibility("default"))) samba_network_plugin_fn samba_network_plugin;

const samba_network_interface *samba_network_plugin(void)
{
    static const samba_network_interface interface = {SAMBA_NETWORK_VERSION,
                                                      sizeof interface,
                                                      open_network,
                                                      close_network,
                                                      describe,
                                                      broadcast,
                                                      gather,
                                                      barrier,
                                                      swap,
                                                      done,
                                                      abort_all};
    return &interface;
}
