/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallel training: several processes, the replicas, train one model, each on batches of its own, and average their
 * gradients (DistributedDataParallel of torch.nn.parallel does the same). MPI starts them: `mpirun -n 4 PROGRAM`, or Slurm's
 * srun. A process that nothing of that kind has started is the only replica.
 *
 * A PEF that replicas run was compiled with samba_compile_options.data_parallel, and run with samba_run_options.data_parallel. */
#ifndef SAMBAFLOW_PARALLEL_H
#define SAMBAFLOW_PARALLEL_H

#include <sambaflow/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_replicas {
    int rank, size;             /* this replica, of so many */
    int local_rank, local_size; /* among those of this machine */
    char network[96];           /* "Open MPI v4.1.4"; "" without MPI */
} samba_replicas;

/* Who this process is among the replicas. The first call joins the others, for which MPI has started it: what an environment of
 * Open MPI or MPICH says decides which, or SAMBAFLOW_MPI ("openmpi", "mpich", "off"). MPI ends with the process. A program may
 * begin MPI itself, before or after, and then also ends it. What torchrun has started, or Slurm without MPI, knows who it is, and
 * whatever needs the others is UNSUPPORTED. UNSUPPORTED, too, where the library for that MPI is not installed; STATE where MPI
 * cannot begin, and in a child that a replica has forked. Any thread. */
SAMBA_API samba_status samba_replicas_find(samba_context *context, samba_replicas *replicas);
/* The same by what launchers say in the environment, without joining anyone. */
SAMBA_API samba_status samba_replicas_told(samba_context *context, samba_replicas *replicas);
/* Waits until all replicas are here. */
SAMBA_API samba_status samba_replicas_wait(samba_context *context);
/* `bytes` bytes of each replica, rank after rank, to all. */
SAMBA_API samba_status samba_replicas_gather(samba_context *context, const void *own, size_t bytes, void *all);
/* Copies `bytes` bytes of replica `root` to all others. ARGUMENT where there is no such replica. */
SAMBA_API samba_status samba_replicas_broadcast(samba_context *context, void *data, size_t bytes, int root);
/* What the end of this process means to the others, which exit tells them by itself, for one that ends otherwise (_exit): all end
 * where the status is not 0, and it does not return; else MPI ends here, when it does on all. */
SAMBA_API void samba_replicas_end(int status);

#ifdef __cplusplus
}
#endif
#endif
