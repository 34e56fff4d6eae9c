#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds everything with two versions of Clang, warnings being errors, and runs the unit tests of each. Usage: tools/check-clang.sh BUILD_FOLDER
set -eu
build=$1
tools/install-packages.sh clang
# Debian keeps one version of LLVM's OpenMP library at a time, in a folder of that version's own; each works with both compilers.
openmp=$(ls -d /usr/lib/llvm-*/lib/libomp.so | tail -1)
folder=$(dirname "$openmp")
header=$(ls "$folder"/clang/*/include/omp.h | tail -1)
ccache=$(command -v ccache || true)
for version in 14 16; do
    here=$build-clang-$version
    if [ ! -f "$here/build.ninja" ]; then
        echo "clang $version: $("clang-$version" --version | head -1), OpenMP of $folder"
        mkdir -p "$here/openmp"
        ln -sf "$header" "$here/openmp/omp.h" # alone: the compiler's other headers are those of its own version
        CC="${ccache:+ccache }clang-$version" CFLAGS="-idirafter $(realpath "$here")/openmp" LDFLAGS="-L$folder -Wl,-rpath,$folder" meson setup "$here" -Dwerror=true >"$here.log" ||
            { cat "$here.log" >&2; exit 1; }
        rm -f "$here.log"
    fi
    ninja -C "$here" --quiet
    meson test -C "$here" --no-rebuild --print-errorlogs --suite unit
done
