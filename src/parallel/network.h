/* SPDX-License-Identifier: Apache-2.0
 *
 * What replicas speak through: a network, which a plugin gives (mpi/mpi.c), so that the library itself needs none. The plugin is
 * asked for one symbol, samba_network_plugin, whose version and size must be those of this header.
 *
 * Functions return 0, or a number whose meaning `describe` tells. One thread at a time calls them. Memory stays the caller's;
 * that of a swap may not be touched until it is done. Where another process ends while this one waits for it, or keeps it
 * waiting for longer than the limit, that is an error, which says whom it was about. */
#ifndef SAMBA_NETWORK_H
#define SAMBA_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

#define SAMBA_NETWORK_VERSION 2
#define SAMBA_NETWORK_LARGEST ((size_t)1 << 30) /* bytes of one message at most */

typedef struct samba_network samba_network;

typedef struct samba_network_facts {
    int rank, size;             /* among all replicas */
    int local_rank, local_size; /* among those of this machine */
    bool any_thread;            /* calls may come from a thread other than the one that opened */
    char name[96];              /* of the library, with its version */
} samba_network_facts;

typedef struct samba_network_part { /* of a swap: what goes to a peer and what comes from it; 0 bytes: nothing */
    int peer;
    const void *out;
    size_t out_bytes;
    void *in;
    size_t in_bytes;
} samba_network_part;

typedef struct samba_network_interface {
    int version;
    size_t struct_size;
    /* Joins the other processes of the launch. `message` says why not. */
    int (*open)(double limit_seconds, samba_network **network, samba_network_facts *facts, char *message, size_t message_size);
    /* When all others close it, too. `for_good`: the process ends here, so MPI ends even where the program has begun it. */
    void (*close)(samba_network *network, bool for_good);
    void (*describe)(const samba_network *network, int error, char *message, size_t message_size);
    int (*broadcast)(samba_network *network, void *data, size_t bytes, int root);
    int (*gather)(samba_network *network, const void *own, size_t bytes, void *all); /* `all`: rank after rank, on every one */
    int (*barrier)(samba_network *network);
    /* Begins a swap in a slot, 0 or more, that holds none; swaps of one slot meet each other, in order. */
    int (*swap)(samba_network *network, int slot, const samba_network_part *parts, int count);
    int (*done)(samba_network *network, int slot, bool *done);
    void (*abort)(samba_network *network, int code); /* ends all processes of the launch; does not return */
} samba_network_interface;

typedef const samba_network_interface *samba_network_plugin_fn(void);
#define SAMBA_NETWORK_SYMBOL "samba_network_plugin"

#endif
