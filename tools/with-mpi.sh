#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Open MPI and MPICH and builds the plugins for them. Usage: tools/with-mpi.sh BUILD_FOLDER
set -eu
build=$1
tools/install-packages.sh mpi
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build"
elif [ ! -e "$build/libsambaflow-mpi-openmpi.so" ]; then # what it had found before they were there
    meson setup --reconfigure "$build"
fi
ninja -C "$build" --quiet
