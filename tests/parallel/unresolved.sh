#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# unresolved.sh PROGRAM: a host that nobody can resolve is reported by its name, and no replica starts. Open MPI's launcher says
# it; MPICH's prints the same words and stays, so it is not asked. Exit code 77 (skipped) without ssh, which asks for the host.
set -u
command -v ssh >/dev/null || { echo "no ssh: nothing resolves hosts"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run=$(command -v mpirun.openmpi || command -v mpirun)
said=$(timeout 30 "$run" -n 2 --host sambaflow-no-such-host:2 "$1" 1 2>&1)
code=$?
[ $code != 0 ] && [ $code != 124 ] || { echo "exit code $code: $said"; exit 1; }
case $said in
*"sambaflow-no-such-host"*) echo "refused, by name" ;;
*) echo "the host is not named: $said"; exit 1 ;;
esac
