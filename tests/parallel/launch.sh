#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# launch.sh MPI REPLICAS PLUGINS PROGRAM [ARGUMENT...]: the program as so many replicas, on however few cores, as root or not.
# MPI: openmpi, mpich, or sockets, a network of the tests' own (sockets.c), which needs none.
set -eu
mpi=$1 replicas=$2 SAMBAFLOW_PLUGINS=$3
shift 3
export SAMBAFLOW_PLUGINS OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [ "$mpi" = sockets ]; then
    own=$SAMBAFLOW_PLUGINS/tests/parallel
    SAMBAFLOW_PLUGINS=$own SAMBAFLOW_MPI=openmpi exec "$own/launch" "$replicas" "$@"
fi
run=$(command -v "mpirun.$mpi" || command -v mpirun)
case $mpi in
openmpi) exec "$run" -n "$replicas" --bind-to none --oversubscribe --mca btl_base_warn_component_unused 0 "$@" ;;
*) exec "$run" -n "$replicas" "$@" ;;
esac
