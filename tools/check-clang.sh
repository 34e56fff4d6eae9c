#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds everything with two versions of Clang, warnings being errors, and runs the unit tests of each. Graphs have the nodes that
# they have by the compiler of BUILD_FOLDER, in the same order (tests/arm/graphs.c). The code of large products has about as many
# multiply-adds. Usage: tools/check-clang.sh BUILD_FOLDER
set -eu
build=$1
# Multiply-adds in the code of large products. Where they are a third of another compiler's or fewer, loops over registers were
# not unrolled.
fused() { objdump -d "$1/src/device/cpu/libkernels_avx2.a.p/product_dense.c.o" | grep -c vfmadd || true; }
for version in 14 16; do
    here=$build-clang-$version
    tools/clang-build.sh "$version" "$here" "" -Dwerror=true
    ninja -C "$here" --quiet
    meson test -C "$here" --no-rebuild --print-errorlogs --suite unit
    "$here/tests/graphs" >"$here/graphs.txt"
    "$build/tests/graphs" | cmp - "$here/graphs.txt" ||
        { echo "check-clang: graphs have other nodes by clang $version" >&2; exit 1; }
    if [ "$(uname -m)" = x86_64 ] && [ $((3 * $(fused "$here"))) -le "$(fused "$build")" ]; then
        echo "check-clang: $(fused "$here") multiply-adds by clang $version, $(fused "$build") by the other compiler" >&2
        exit 1
    fi
done
