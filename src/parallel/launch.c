/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment says of the processes that were started together with this one. MPI, torchrun and Slurm each have words of
 * their own for it. Those that MPI has started can reach each other; those of torchrun, and of srun without MPI, cannot: they
 * know who they are, and may not train as if they were alone. */
#include "parallel/replicas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct launcher {
    const char *mpi, *title;
    const char *variable; /* which is there where it has started the process */
    const char *rank, *size, *local_rank, *local_size;
} launchers[] = {
    {"openmpi", "Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpich", "MPICH", "PMI_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    /* Slurm's --mpi=pmix */
    {"openmpi", "Open MPI", "PMIX_RANK", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL},
};

static const struct launcher torchrun = {NULL, "torchrun", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
/* A batch script is not a step: it runs once, whatever number of tasks was asked for, and Slurm calls it task 0. */
static const struct launcher slurm_step = {NULL, "Slurm", "SLURM_PROCID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                                           NULL};
static const struct launcher slurm_task = {NULL, "Slurm", "SLURM_PROCID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL};

/* `fallback` where it does not say a number from `least` on. */
static int number(const char *name, int least, int fallback)
{
    const char *text = name ? getenv(name) : NULL;
    char *end;
    if (!text || !text[0])
        return fallback;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return errno || *end || value < least || value > 1 << 30 ? fallback : (int)value;
}

static void read_self(const struct launcher *l, samba_launch *launch)
{
    samba_replicas *self = &launch->self;
    launch->starter = l->title;
    launch->count = self->size = number(l->size, 1, 1);
    self->rank = number(l->rank, 0, 0);
    self->local_rank = number(l->local_rank, 0, 0);
    self->local_size = number(l->local_size, 1, self->local_rank + 1);
}

/* Of a process that no MPI has started. */
static samba_status find_others(samba_context *context, samba_launch *launch)
{
    samba_replicas *self = &launch->self;
    const bool is_step = getenv("SLURM_STEP_NUM_TASKS") != NULL;
    if (number("WORLD_SIZE", 1, 1) > 1 && getenv("RANK")) {
        read_self(&torchrun, launch);
        if (number("RANK", 0, -1) < 0 || self->rank >= self->size)
            return samba_fail(
                context, SAMBA_ERROR_ARGUMENT,
                "RANK is \"%.64s\" and WORLD_SIZE is %d: expected a rank from 0 to %d, as torchrun gives it, or none "
                "of the two variables",
                getenv("RANK"), self->size, self->size - 1);
    } else if (is_step && number("SLURM_STEP_NUM_TASKS", 1, 1) > 1) {
        read_self(&slurm_step, launch);
    } else if (!is_step && number("SLURM_NTASKS", 1, 1) > 1) {
        launch->starter = "Slurm";
        launch->count = number("SLURM_NTASKS", 1, 1);
        if (number("SLURM_PROCID", 0, 0) > 0)
            read_self(&slurm_task, launch);
    }
    if (self->rank >= self->size) /* what two launchers have said */
        *self = (samba_replicas){.size = 1, .local_size = 1};
    return SAMBA_OK;
}

samba_status samba_launch_find(samba_context *context, samba_launch *launch)
{
    const char *wanted = getenv("SAMBAFLOW_MPI");
    *launch = (samba_launch){.self = {.size = 1, .local_size = 1}};
    if (wanted && strcmp(wanted, "off") == 0)
        return SAMBA_OK;
    for (int i = 0; i < SAMBA_COUNT(launchers); i++) {
        const struct launcher *l = &launchers[i];
        if (wanted && wanted[0] && strcmp(wanted, l->mpi) != 0)
            continue;
        if (getenv(l->variable)) {
            read_self(l, launch);
            launch->mpi = l->mpi;
            launch->title = l->title;
            return SAMBA_OK;
        }
        if (wanted && wanted[0] && !launch->mpi) {
            launch->mpi = l->mpi;
            launch->title = l->title;
        }
    }
    if (wanted && wanted[0] && !launch->mpi)
        return samba_fail(context, SAMBA_ERROR_NAME, "SAMBAFLOW_MPI is \"%.64s\": expected \"openmpi\", \"mpich\" or \"off\"",
                          wanted);
    return find_others(context, launch);
}
