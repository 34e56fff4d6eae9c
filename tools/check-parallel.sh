#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-parallel: training by several processes, with each MPI. Usage: tools/check-parallel.sh BUILD_FOLDER
set -eu
build=$1
tools/with-mpi.sh "$build"
meson test -C "$build" --no-rebuild --print-errorlogs --suite parallel
