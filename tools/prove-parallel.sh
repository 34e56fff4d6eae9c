#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make prove-parallel: replicas beside one process, ranges to the last bit, and faults, a hundred of each, with each MPI.
# Usage: tools/prove-parallel.sh BUILD_FOLDER
set -eu
build=$(realpath "$1")
tools/with-mpi.sh "$build"
bad=0
for mpi in openmpi mpich; do
    for replicas in 2 4; do
        tests/parallel/prove.sh $mpi "$build" $replicas 100 || bad=1
        tests/parallel/launch.sh $mpi $replicas "$build" "$build/tests/parallel/test_ranges" 100 1100 || bad=1
    done
    tests/parallel/faults.sh $mpi "$build" 100 30 || bad=1
done
exit $bad
