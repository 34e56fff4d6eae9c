/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of an MPI. One plugin is built for each MPI there is, of this file alone: nothing of the library is linked in. Where
 * the program has begun MPI by itself (mpi4py does) it also ends it. All messages travel in a communicator of our own. */
#include "parallel/network.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    MPI_Request *requests;
    int count, room;
} slot;

struct samba_network {
    MPI_Comm world;
    bool begun; /* by us */
    slot *slots;
    int slot_count;
};

static void describe(int error, char *message, size_t size)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(error, text, &length) != MPI_SUCCESS)
        length = snprintf(text, sizeof text, "error %d", error);
    snprintf(message, size, "%.*s", length, text);
}

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

static int join(samba_network *n, samba_network_facts *facts)
{
    MPI_Comm node;
    int provided = MPI_THREAD_SINGLE, error = MPI_Comm_dup(MPI_COMM_WORLD, &n->world);
    if (error != MPI_SUCCESS)
        return error;
    MPI_Comm_set_errhandler(n->world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(n->world, &facts->rank);
    MPI_Comm_size(n->world, &facts->size);
    MPI_Query_thread(&provided);
    facts->any_thread = provided >= MPI_THREAD_SERIALIZED;
    tell_name(facts->name, sizeof facts->name);
    error = MPI_Comm_split_type(n->world, MPI_COMM_TYPE_SHARED, facts->rank, MPI_INFO_NULL, &node);
    if (error != MPI_SUCCESS)
        return error;
    MPI_Comm_rank(node, &facts->local_rank);
    MPI_Comm_size(node, &facts->local_size);
    return MPI_Comm_free(&node);
}

static int open_network(samba_network **network, samba_network_facts *facts, char *message, size_t size)
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
    if (error == MPI_SUCCESS)
        error = join(n, facts);
    if (error != MPI_SUCCESS) {
        describe(error, message, size);
        free(n);
        return error;
    }
    *network = n;
    return 0;
}

static void close_network(samba_network *n)
{
    int is_over = 0;
    for (int i = 0; i < n->slot_count; i++)
        free(n->slots[i].requests);
    free(n->slots);
    MPI_Finalized(&is_over);
    if (!is_over) {
        MPI_Comm_free(&n->world);
        if (n->begun)
            MPI_Finalize();
    }
    free(n);
}

static int broadcast(samba_network *n, void *data, size_t bytes, int root)
{
    int error = MPI_SUCCESS;
    for (size_t at = 0; at < bytes && error == MPI_SUCCESS; at += SAMBA_NETWORK_LARGEST) {
        const size_t part = bytes - at < SAMBA_NETWORK_LARGEST ? bytes - at : SAMBA_NETWORK_LARGEST;
        error = MPI_Bcast((char *)data + at, (int)part, MPI_BYTE, root, n->world);
    }
    return error;
}

static int gather(samba_network *n, const void *own, size_t bytes, void *all)
{
    return MPI_Allgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, n->world);
}

static int barrier(samba_network *n) { return MPI_Barrier(n->world); }

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
    if (room > n->slots[number].room) {
        MPI_Request *requests = realloc(n->slots[number].requests, sizeof *requests * (size_t)room);
        if (!requests)
            return MPI_ERR_NO_MEM;
        n->slots[number].requests = requests;
        n->slots[number].room = room;
    }
    return MPI_SUCCESS;
}

static int swap(samba_network *n, int number, const samba_network_part *parts, int count)
{
    int error = make_slot(n, number, 2 * count);
    if (error != MPI_SUCCESS)
        return error;
    slot *s = &n->slots[number];
    s->count = 0;
    for (int i = 0; i < count && error == MPI_SUCCESS; i++)
        if (parts[i].in_bytes > 0)
            error = MPI_Irecv(parts[i].in, (int)parts[i].in_bytes, MPI_BYTE, parts[i].peer, number, n->world,
                              &s->requests[s->count++]);
    for (int i = 0; i < count && error == MPI_SUCCESS; i++)
        if (parts[i].out_bytes > 0)
            error = MPI_Isend(parts[i].out, (int)parts[i].out_bytes, MPI_BYTE, parts[i].peer, number, n->world,
                              &s->requests[s->count++]);
    return error;
}

static int done(samba_network *n, int number, bool *is_done)
{
    int flag = 0;
    const int error = MPI_Testall(n->slots[number].count, n->slots[number].requests, &flag, MPI_STATUSES_IGNORE);
    *is_done = flag != 0;
    return error;
}

static void abort_all(samba_network *n, int code)
{
    MPI_Abort(n->world, code);
    abort();
}

__attribute__((visibility("default"))) samba_network_plugin_fn samba_network_plugin;

const samba_network_interface *samba_network_plugin(void)
{
    static const samba_network_interface interface = {
        SAMBA_NETWORK_VERSION, sizeof interface, open_network, close_network, describe, broadcast, gather, barrier, swap,
        done,                  abort_all};
    return &interface;
}
