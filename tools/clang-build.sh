#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up a build folder with a version of Clang. Debian keeps one version of LLVM's OpenMP library at a time, in a folder of that
# version's own; each works with every version of the compiler. Of that folder's headers only omp.h is taken: the compiler's
# others are of its own version.
# Usage: tools/clang-build.sh VERSION FOLDER [FLAGS_OF_COMPILER_AND_LINKER [arguments of meson setup]...]
set -eu
version=$1 here=$2 flags=${3:-}
shift $(($# < 3 ? $# : 3))
tools/install-packages.sh clang
[ ! -f "$here/build.ninja" ] || exit 0
openmp=$(ls -d /usr/lib/llvm-*/lib/libomp.so | tail -1)
folder=$(dirname "$openmp")
ccache=$(command -v ccache || true)
echo "clang $version: $("clang-$version" --version | head -1), OpenMP of $folder"
mkdir -p "$here/openmp"
ln -sf "$(ls "$folder"/clang/*/include/omp.h | tail -1)" "$here/openmp/omp.h"
CC="${ccache:+ccache }clang-$version" CFLAGS="-idirafter $(realpath "$here")/openmp $flags" \
    LDFLAGS="-L$folder -Wl,-rpath,$folder $flags" \
    meson setup "$here" "$@" >"$here.log" || { cat "$here.log" >&2; exit 1; }
rm -f "$here.log"
