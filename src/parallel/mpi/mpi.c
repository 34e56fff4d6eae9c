/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of an MPI. One plugin is built for each MPI there is, of this file alone: nothing of the library is linked in.
 * Where the program has begun MPI by itself (mpi4py does) it also ends it; the network hears of that by an attribute of
 * MPI_COMM_SELF, which MPI_Finalize deletes first. All messages travel in a communicator of our own.
 *
 * MPI lets a process wait for one that has ended for ever. So nothing here waits inside MPI: whoever waits looks, from time to
 * time, whether another process has said that it ends, which each does when it closes the network, and whether it has waited for
 * too long. A process that ends tells each other of how many calls with it it did its part; only who waits in a later one waits
 * in vain.
 * A process that waits sleeps a little between two looks, as another may need its core. */
#include "parallel/network.h"

#include <mpi.h>

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG_END = 32767, LOOKS = 256, TROUBLE = -1 }; /* TROUBLE: an error of our own, in words */
#define NAP_NANOSECONDS 50000

typedef struct slot {
    MPI_Request *requests;
    int *peers; /* of each request */
    int count, room;
    double since; /* that it was not done; 0: now */
    int looks;
} slot;

struct samba_network {
    MPI_Comm world;
    int rank, size;
    bool begun; /* by us */
    bool over;  /* MPI has ended, or is about to */
    int attribute;
    double limit;
    int64_t *calls;    /* with each other: swaps of anything, and calls of all at once, that have begun */
    bool broken;       /* one of them has failed */
    MPI_Request *ends; /* that others send; of the own rank: none */
    int64_t *ended;    /* after how many calls each other has ended, where its request is done */
    slot *slots;
    int slot_count;
    char trouble[256];
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void nap(void)
{
    const struct timespec time = {.tv_nsec = NAP_NANOSECONDS};
    nanosleep(&time, NULL);
}

static void describe(const samba_network *n, int error, char *message, size_t size)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (error == TROUBLE)
        snprintf(message, size, "%s", n->trouble);
    else if (MPI_Error_string(error, text, &length) == MPI_SUCCESS)
        snprintf(message, size, "%.*s", length, text);
    else
        snprintf(message, size, "error %d", error);
}

/* ---- waiting ---- */
/* TROUBLE where another process has ended and did not come to where this one is. */
static int look_for_ends(samba_network *n)
{
    for (int rank = 0; rank < n->size; rank++) {
        int flag = 0;
        const int error = rank == n->rank ? MPI_SUCCESS : MPI_Test(&n->ends[rank], &flag, MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS)
            return error;
        if (!flag || n->ended[rank] >= n->calls[rank])
            continue;
        snprintf(n->trouble, sizeof n->trouble, "replica %d has ended, and this one still waits for it", rank);
        return TROUBLE;
    }
    return MPI_SUCCESS;
}

/* The peers of what is not done. */
static int fail_late(samba_network *n, slot *s)
{
    int used = snprintf(n->trouble, sizeof n->trouble, "nothing has come for %.0f seconds from replica", n->limit), named = 0;
    for (int i = 0; i < s->count; i++) {
        int flag = 0;
        MPI_Test(&s->requests[i], &flag, MPI_STATUS_IGNORE);
        if (!flag && used < 200 && (named == 0 || s->peers[i] != s->peers[i - 1]))
            used += snprintf(n->trouble + used, sizeof n->trouble - (size_t)used, "%s%d", named++ ? ", " : " ", s->peers[i]);
    }
    return TROUBLE;
}

static int look_around(samba_network *n, slot *s)
{
    if (s->since == 0)
        s->since = seconds();
    const int error = seconds() - s->since > n->limit ? fail_late(n, s) : look_for_ends(n);
    n->broken = n->broken || error != MPI_SUCCESS;
    return error;
}

/* Whether all of a slot's messages have come and gone. */
static int test(samba_network *n, slot *s, bool *is_done)
{
    int flag = 0;
    int error = MPI_Testall(s->count, s->requests, &flag, MPI_STATUSES_IGNORE);
    *is_done = flag != 0;
    n->broken = n->broken || error != MPI_SUCCESS;
    return n->broken || flag || s->looks++ % LOOKS != LOOKS - 1 ? error : look_around(n, s);
}

static int wait_for(samba_network *n, MPI_Request request)
{
    int peer = -1, error = MPI_SUCCESS;
    slot s = {.requests = &request, .peers = &peer, .count = 1};
    for (bool is_done = false; !is_done && error == MPI_SUCCESS;) {
        error = test(n, &s, &is_done);
        if (!is_done && s.looks < LOOKS)
            sched_yield();
        else if (!is_done)
            nap();
    }
    if (error == TROUBLE && peer < 0 && strncmp(n->trouble, "nothing", 7) == 0)
        snprintf(n->trouble, sizeof n->trouble, "not all other replicas have come to the same place for %.0f seconds", n->limit);
    return error;
}

/* ---- beginning and ending ---- */
static void tell_name(char *name, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[length < (int)sizeof text ? length : (int)sizeof text - 1] = '\0';
    text[strcspn(text, ",\n")] = '\0';
    for (char *c = text; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    snprintf(name, size, "%.*s", (int)size - 1, text);
}

static int expect_ends(samba_network *n)
{
    int error = MPI_SUCCESS;
    n->ends = malloc(sizeof *n->ends * (size_t)n->size);
    n->ended = malloc(sizeof *n->ended * (size_t)n->size);
    n->calls = calloc((size_t)n->size, sizeof *n->calls);
    if (!n->ends || !n->ended || !n->calls)
        return MPI_ERR_NO_MEM;
    for (int rank = 0; rank < n->size; rank++) {
        n->ends[rank] = MPI_REQUEST_NULL;
        if (rank != n->rank && error == MPI_SUCCESS)
            error = MPI_Irecv(&n->ended[rank], 1, MPI_INT64_T, rank, TAG_END, n->world, &n->ends[rank]);
    }
    return error;
}

static void part(samba_network *n);

/* MPI_Finalize begins, called by whomever. */
static int hear_finalize(MPI_Comm self, int key, void *network, void *unused)
{
    (void)self, (void)key, (void)unused;
    part(network);
    return MPI_SUCCESS;
}

static int watch_finalize(samba_network *n)
{
    const int error = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, hear_finalize, &n->attribute, NULL);
    return error == MPI_SUCCESS ? MPI_Comm_set_attr(MPI_COMM_SELF, n->attribute, n) : error;
}

static int join(samba_network *n, samba_network_facts *facts)
{
    MPI_Comm node;
    int provided = MPI_THREAD_SINGLE, error = MPI_Comm_dup(MPI_COMM_WORLD, &n->world);
    if (error != MPI_SUCCESS)
        return error;
    MPI_Comm_set_errhandler(n->world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(n->world, &n->rank);
    MPI_Comm_size(n->world, &n->size);
    MPI_Query_thread(&provided);
    *facts = (samba_network_facts){.rank = n->rank, .size = n->size, .any_thread = provided >= MPI_THREAD_SERIALIZED};
    tell_name(facts->name, sizeof facts->name);
    error = MPI_Comm_split_type(n->world, MPI_COMM_TYPE_SHARED, n->rank, MPI_INFO_NULL, &node);
    if (error != MPI_SUCCESS)
        return error;
    MPI_Comm_rank(node, &facts->local_rank);
    MPI_Comm_size(node, &facts->local_size);
    error = MPI_Comm_free(&node);
    error = error == MPI_SUCCESS ? expect_ends(n) : error;
    return error == MPI_SUCCESS ? watch_finalize(n) : error;
}

static int open_network(double limit, samba_network **network, samba_network_facts *facts, char *message, size_t size)
{
    int is_begun = 0, is_over = 0, provided, error;
    samba_network *n = calloc(1, sizeof *n);
    *network = NULL;
    message[0] = '\0';
    if (!n) {
        snprintf(message, size, "there is no memory for it");
        return 1;
    }
    MPI_Initialized(&is_begun);
    MPI_Finalized(&is_over);
    if (is_over) {
        snprintf(message, size, "this process has ended MPI already");
        free(n);
        return 1;
    }
    error = is_begun ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    n->begun = !is_begun;
    n->limit = limit;
    if (error == MPI_SUCCESS)
        error = join(n, facts);
    if (error != MPI_SUCCESS) {
        describe(n, error, message, size);
        free(n->ends);
        free(n->ended);
        free(n->calls);
        free(n);
        return error;
    }
    *network = n;
    return 0;
}

/* Says that this process ends and hears it of all others, who may have much to do before. Once. */
static void part(samba_network *n)
{
    if (n->over)
        return;
    MPI_Request *said = malloc(sizeof *said * (size_t)n->size);
    int all_said = 0, all_heard = 0;
    n->over = true;
    if (!said)
        MPI_Abort(n->world, 1);
    for (int rank = 0; rank < n->size; rank++) {
        said[rank] = MPI_REQUEST_NULL;
        if (n->broken)
            n->calls[rank] = -1;
        if (rank != n->rank)
            MPI_Isend(&n->calls[rank], 1, MPI_INT64_T, rank, TAG_END, n->world, &said[rank]);
    }
    while (!all_said || !all_heard) {
        MPI_Testall(n->size, said, &all_said, MPI_STATUSES_IGNORE);
        MPI_Testall(n->size, n->ends, &all_heard, MPI_STATUSES_IGNORE);
        if (!all_said || !all_heard)
            nap();
    }
    free(said);
    MPI_Comm_free(&n->world);
}

static void close_network(samba_network *n, bool for_good)
{
    if (!n->over) {
        MPI_Comm_delete_attr(MPI_COMM_SELF, n->attribute); /* which parts */
        if (n->begun || for_good)
            MPI_Finalize();
    }
    for (int i = 0; i < n->slot_count; i++) {
        free(n->slots[i].requests);
        free(n->slots[i].peers);
    }
    free(n->slots);
    free(n->ends);
    free(n->ended);
    free(n->calls);
    free(n);
}

static void abort_all(samba_network *n, int code)
{
    if (!n->over)
        MPI_Abort(n->world, code);
    _exit(code);
}

/* ---- all at once ---- */
static void count_call(samba_network *n)
{
    for (int rank = 0; rank < n->size; rank++)
        n->calls[rank]++;
}

/* TROUBLE where the program has ended MPI, which no call of it survives. */
static int look_for_own_end(samba_network *n)
{
    if (n->over)
        snprintf(n->trouble, sizeof n->trouble, "this process has called MPI_Finalize already");
    return n->over ? TROUBLE : MPI_SUCCESS;
}

static int broadcast(samba_network *n, void *data, size_t bytes, int root)
{
    int error = look_for_own_end(n);
    count_call(n);
    for (size_t at = 0; at < bytes && error == MPI_SUCCESS; at += SAMBA_NETWORK_LARGEST) {
        const size_t piece = bytes - at < SAMBA_NETWORK_LARGEST ? bytes - at : SAMBA_NETWORK_LARGEST;
        MPI_Request request;
        error = MPI_Ibcast((char *)data + at, (int)piece, MPI_BYTE, root, n->world, &request);
        error = error == MPI_SUCCESS ? wait_for(n, request) : error;
    }
    return error;
}

static int gather(samba_network *n, const void *own, size_t bytes, void *all)
{
    MPI_Request request;
    int error = look_for_own_end(n);
    count_call(n);
    if (error == MPI_SUCCESS)
        error = MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, n->world, &request);
    return error == MPI_SUCCESS ? wait_for(n, request) : error;
}

static int barrier(samba_network *n)
{
    MPI_Request request;
    int error = look_for_own_end(n);
    count_call(n);
    if (error == MPI_SUCCESS)
        error = MPI_Ibarrier(n->world, &request);
    return error == MPI_SUCCESS ? wait_for(n, request) : error;
}

/* ---- swaps ---- */
static int make_slot(samba_network *n, int number, int room)
{
    if (number >= n->slot_count) {
        slot *slots = realloc(n->slots, sizeof *slots * (size_t)(number + 1));
        if (!slots)
            return MPI_ERR_NO_MEM;
        memset(slots + n->slot_count, 0, sizeof *slots * (size_t)(number + 1 - n->slot_count));
        n->slots = slots;
        n->slot_count = number + 1;
    }
    slot *s = &n->slots[number];
    if (room > s->room) {
        MPI_Request *requests = realloc(s->requests, sizeof *requests * (size_t)room);
        int *peers = realloc(s->peers, sizeof *peers * (size_t)room);
        s->requests = requests ? requests : s->requests;
        s->peers = peers ? peers : s->peers;
        if (!requests || !peers)
            return MPI_ERR_NO_MEM;
        s->room = room;
    }
    return MPI_SUCCESS;
}

static int swap(samba_network *n, int number, const samba_network_part *parts, int count)
{
    int error = look_for_own_end(n);
    error = error == MPI_SUCCESS ? make_slot(n, number, 2 * count) : error;
    if (error != MPI_SUCCESS)
        return error;
    slot *s = &n->slots[number];
    for (int i = 0; i < count; i++)
        n->calls[parts[i].peer] += parts[i].in_bytes + parts[i].out_bytes > 0;
    s->count = s->looks = 0;
    s->since = 0;
    for (int i = 0; i < 2 * count && error == MPI_SUCCESS; i++) { /* receives first: what is sent finds its place */
        const samba_network_part *p = &parts[i % count];
        if ((i < count ? p->in_bytes : p->out_bytes) == 0)
            continue;
        s->peers[s->count] = p->peer;
        error = i < count ? MPI_Irecv(p->in, (int)p->in_bytes, MPI_BYTE, p->peer, number, n->world, &s->requests[s->count])
                          : MPI_Isend(p->out, (int)p->out_bytes, MPI_BYTE, p->peer, number, n->world, &s->requests[s->count]);
        s->count++;
    }
    return error;
}

static int done(samba_network *n, int number, bool *is_done) { return test(n, &n->slots[number], is_done); }

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
