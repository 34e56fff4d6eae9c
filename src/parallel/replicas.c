/* SPDX-License-Identifier: Apache-2.0
 *
 * The launch that this process belongs to. The plugin for the MPI that has started it (launch.c) is loaded; without one none is.
 *
 * A process that ends with an error ends all: the others would wait for it for ever. A child that it has forked is no replica:
 * MPI belongs to the process that has begun it, whose end is not the child's to tell. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/null.h"
#include "parallel/replicas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_SECONDS 600

static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER, talking = PTHREAD_MUTEX_INITIALIZER;
static samba_world world = {.replicas = {.size = 1, .local_size = 1}, .sharers = 1, .any_thread = true};
static bool found;
static _Thread_local bool talks; /* this thread is in a call of the network */

void samba_world_lock(void)
{
    pthread_mutex_lock(&talking);
    talks = true;
}

void samba_world_unlock(void)
{
    talks = false;
    pthread_mutex_unlock(&talking);
}

/* MPI wants to end with the process, and without it where the process fails. MPICH's end calls exit itself, from within whatever
 * call of it hears that another process has failed. */
static void end(int status, bool fails, bool for_good)
{
    static bool ends;
    if (!world.network || world.process != getpid() || ends || talks || fails != (status != 0))
        return;
    ends = true;
    if (fails)
        world.interface->abort(world.network, status);
    world.interface->close(world.network, for_good);
    world.network = NULL;
}

static void end_well(int status, void *unused)
{
    (void)unused;
    end(status, false, false);
}

/* The end of all is sudden: what the program has to do at its exit comes before, and what it has printed goes out. So this is
 * registered when the library is loaded, and exit runs it behind all others. */
static void end_badly(int status, void *unused)
{
    (void)unused;
    if (world.network && status != 0)
        fflush(NULL);
    end(status, true, false);
}

__attribute__((constructor)) static void expect_end(void) { on_exit(end_badly, NULL); }

typedef struct place { /* where a replica runs */
    uint64_t machine;
    cpu_set_t processors;
} place;

/* How many replicas may run on the processors that this one may run on: launchers give each its own, or all to everyone. */
static samba_status find_sharers(samba_context *context)
{
    char name[256] = "";
    place own, *all = samba_alloc(context, sizeof *all * (size_t)world.replicas.size);
    if (!all)
        return SAMBA_ERROR_MEMORY;
    memset(&own, 0, sizeof own);
    gethostname(name, sizeof name - 1);
    own.machine = samba_hash(name, strlen(name), 0);
    sched_getaffinity(0, sizeof own.processors, &own.processors);
    samba_status status = samba_world_gather(context, &world, &own, sizeof own, all);
    world.sharers = 0;
    for (int i = 0; i < world.replicas.size && status == SAMBA_OK; i++)
        world.sharers += all[i].machine == own.machine && CPU_EQUAL(&all[i].processors, &own.processors);
    samba_free(context, all, sizeof *all * (size_t)world.replicas.size);
    return status;
}

static samba_status open_world(samba_context *context, const samba_launch *launch)
{
    char reason[512], name[64];
    samba_network_facts facts = {.rank = 0};
    snprintf(name, sizeof name, "mpi-%s", launch->mpi);
    /* Open MPI loads parts of its own, which look for its names among all */
    void *library = samba_plugin_open(name, true, reason, sizeof reason);
    if (!library)
        return samba_fail(
            context, SAMBA_ERROR_UNSUPPORTED,
            "%s has started this process, and libsambaflow-mpi-%s.so cannot be loaded (%.300s): install sambaflow's "
            "part for %s, name its folder in SAMBAFLOW_PLUGINS, or set SAMBAFLOW_MPI=off for a single replica",
            launch->title, launch->mpi, reason, launch->title);
    samba_network_plugin_fn *plugin;
    *(void **)&plugin = dlsym(library, SAMBA_NETWORK_SYMBOL);
    const samba_network_interface *interface = plugin ? plugin() : NULL;
    if (!interface || interface->version != SAMBA_NETWORK_VERSION || interface->struct_size != sizeof *interface)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "libsambaflow-mpi-%s.so is of another version of sambaflow (its interface is %d, expected %d): install "
                          "the one that came with this library",
                          launch->mpi, interface ? interface->version : 0, SAMBA_NETWORK_VERSION);
    const char *limit = getenv("SAMBAFLOW_PATIENCE");
    const double seconds = limit && limit[0] ? strtod(limit, NULL) : PATIENCE_SECONDS;
    if (!(seconds > 0))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "SAMBAFLOW_PATIENCE is \"%.64s\": expected the seconds, more than 0, that a replica waits for another",
                          limit);
    if (interface->open(seconds, &world.network, &facts, reason, sizeof reason) != 0)
        return samba_fail(context, SAMBA_ERROR_STATE, "%s cannot begin: %.400s", launch->title, reason);
    world.interface = interface;
    world.any_thread = facts.any_thread;
    world.replicas = (samba_replicas){facts.rank, facts.size, facts.local_rank, facts.local_size, ""};
    snprintf(world.replicas.network, sizeof world.replicas.network, "%.95s", facts.name);
    world.process = getpid();
    on_exit(end_well, NULL);
    return find_sharers(context);
}

/* Before any lock: another thread of the parent may have held it while it forked. */
static samba_status check_process(samba_context *context)
{
    if (world.process == 0 || world.process == getpid())
        return SAMBA_OK;
    return samba_fail(
        context, SAMBA_ERROR_STATE,
        "this process was forked from replica %d of %d (process %ld), and MPI belongs to that one alone: leave it to "
        "the parent, or start a program of its own, with SAMBAFLOW_MPI=off",
        world.replicas.rank, world.replicas.size, world.process);
}

samba_status samba_world_find(samba_context *context, const samba_world **result)
{
    samba_launch launch = {.count = 1};
    *result = &world;
    SAMBA_TRY(check_process(context));
    pthread_mutex_lock(&finding);
    samba_status status = found ? SAMBA_OK : samba_launch_find(context, &launch);
    if (status == SAMBA_OK && !found && launch.mpi)
        status = open_world(context, &launch);
    if (status == SAMBA_OK && !found)
        world.launch = launch;
    found = status == SAMBA_OK;
    pthread_mutex_unlock(&finding);
    return status;
}

samba_status samba_world_meet(samba_context *context, const samba_world **result)
{
    SAMBA_TRY(samba_world_find(context, result));
    const samba_launch *launch = &world.launch;
    if (world.replicas.size > 1 || launch->count <= 1)
        return SAMBA_OK;
    const char *who = launch->self.size > 1 ? "this process as one of" : "a job of";
    const bool slurm = strcmp(launch->starter, "Slurm") == 0;
    if (world.interface)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "%s has started %s %d, and by %s it is alone: start it by the mpirun of that MPI, by srun with a --mpi "
                          "that it knows, or set SAMBAFLOW_MPI=off for a single replica",
                          launch->starter, who, launch->count, world.replicas.network);
    return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                      "%s has started %s %d, and replicas reach each other by MPI alone: start the same program by %s -n %d, or "
                      "set SAMBAFLOW_MPI=off for a single replica",
                      launch->starter, who, launch->count, slurm ? "srun --mpi=pmix (pmi2 for MPICH)" : "mpirun", launch->count);
}

samba_status samba_world_fail(samba_context *context, const samba_world *w, const char *what, int error)
{
    char message[300];
    w->interface->describe(w->network, error, message, sizeof message);
    return samba_fail(context, SAMBA_ERROR_NETWORK, "replica %d of %d: %s failed: %s says: %s", w->replicas.rank,
                      w->replicas.size, what, w->replicas.network, message);
}

samba_status samba_world_gather(samba_context *context, const samba_world *w, const void *own, size_t bytes, void *all)
{
    SAMBA_TRY(check_process(context));
    if (!w->interface) {
        memcpy(all, own, bytes);
        return SAMBA_OK;
    }
    samba_world_lock();
    const int error = w->interface->gather(w->network, own, bytes, all);
    samba_world_unlock();
    return error ? samba_world_fail(context, w, "gathering from all", error) : SAMBA_OK;
}

samba_status samba_world_broadcast(samba_context *context, const samba_world *w, void *data, size_t bytes, int root)
{
    SAMBA_TRY(check_process(context));
    if (!w->interface)
        return SAMBA_OK;
    samba_world_lock();
    const int error = w->interface->broadcast(w->network, data, bytes, root);
    samba_world_unlock();
    return error ? samba_world_fail(context, w, "sending to all", error) : SAMBA_OK;
}

#define SLOT_OF_COLLECT 8 /* behind those of exchanges */

/* What is left of `bytes` behind `at`, in one message. */
static size_t next_of(size_t bytes, size_t at)
{
    const size_t left = bytes > at ? bytes - at : 0;
    return left < SAMBA_NETWORK_LARGEST ? left : SAMBA_NETWORK_LARGEST;
}

static int collect(const samba_world *w, samba_network_part *parts, int count)
{
    bool done = false;
    int error = w->interface->swap(w->network, SLOT_OF_COLLECT, parts, count);
    while (!error && !done) {
        error = w->interface->done(w->network, SLOT_OF_COLLECT, &done);
        if (!done)
            sched_yield();
    }
    return error;
}

samba_status samba_world_collect(samba_context *context, const samba_world *w, const void *own, size_t bytes, const size_t *sizes,
                                 char *all)
{
    const int size = w->replicas.size;
    const bool first = w->replicas.rank == 0;
    size_t most = first ? 0 : bytes;
    int error = 0;
    SAMBA_TRY(check_process(context));
    if (first && bytes > 0)
        memcpy(all, own, bytes);
    if (!w->interface)
        return SAMBA_OK;
    samba_network_part *parts = samba_calloc(context, sizeof *parts * (size_t)size);
    if (!parts)
        return SAMBA_ERROR_MEMORY;
    for (int rank = 1; rank < size && first; rank++)
        most = sizes[rank] > most ? sizes[rank] : most;
    samba_world_lock();
    for (size_t at = 0; at < most && !error; at += SAMBA_NETWORK_LARGEST) {
        size_t begin = bytes;
        for (int rank = 1; rank < size && first; begin += sizes[rank++])
            parts[rank - 1] = (samba_network_part){.peer = rank, .in = all + begin + at, .in_bytes = next_of(sizes[rank], at)};
        if (!first)
            parts[0] = (samba_network_part){.peer = 0, .out = (const char *)own + at, .out_bytes = next_of(bytes, at)};
        error = collect(w, parts, first ? size - 1 : 1);
    }
    samba_world_unlock();
    samba_free(context, parts, sizeof *parts * (size_t)size);
    return error ? samba_world_fail(context, w, "collecting from all", error) : SAMBA_OK;
}

/* ---- public ---- */
samba_status samba_replicas_find(samba_context *context, samba_replicas *replicas)
{
    const samba_world *w;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, replicas);
    SAMBA_TRY(samba_world_find(context, &w));
    *replicas = w->replicas.size > 1 ? w->replicas : w->launch.self;
    memcpy(replicas->network, w->replicas.network, sizeof replicas->network);
    return SAMBA_OK;
}

samba_status samba_replicas_told(samba_context *context, samba_replicas *replicas)
{
    samba_launch launch;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, replicas);
    SAMBA_TRY(samba_launch_find(context, &launch));
    *replicas = launch.self;
    return SAMBA_OK;
}

samba_status samba_replicas_wait(samba_context *context)
{
    const samba_world *w;
    SAMBA_NEED(NULL, context);
    SAMBA_TRY(samba_world_meet(context, &w));
    if (!w->interface)
        return SAMBA_OK;
    samba_world_lock();
    const int error = w->interface->barrier(w->network);
    samba_world_unlock();
    return error ? samba_world_fail(context, w, "waiting for all", error) : SAMBA_OK;
}

samba_status samba_replicas_broadcast(samba_context *context, void *data, size_t bytes, int root)
{
    const samba_world *w;
    SAMBA_NEED(NULL, context);
    SAMBA_TRY(samba_world_meet(context, &w));
    if (root < 0 || root >= w->replicas.size || (bytes > 0 && !data))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_replicas_broadcast: %s %d: replicas are 0 to %d",
                          bytes > 0 && !data ? "no data to send from" : "there is no replica", root, w->replicas.size - 1);
    return samba_world_broadcast(context, w, data, bytes, root);
}

samba_status samba_replicas_gather(samba_context *context, const void *own, size_t bytes, void *all)
{
    const samba_world *w;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, own);
    SAMBA_NEED(context, all);
    SAMBA_TRY(samba_world_meet(context, &w));
    if (bytes > SAMBA_NETWORK_LARGEST)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_replicas_gather: %zu bytes, expected at most %zu", bytes,
                          SAMBA_NETWORK_LARGEST);
    return samba_world_gather(context, w, own, bytes, all);
}

void samba_replicas_end(int status) { end(status, status != 0, true); }
