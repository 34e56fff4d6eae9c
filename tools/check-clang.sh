#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds everything with two versions of Clang, warnings being errors, and runs the unit tests of each. Graphs have the nodes that
# they have by the compiler of BUILD_FOLDER, in the same order (tests/arm/graphs.c). Usage: tools/check-clang.sh BUILD_FOLDER
set -eu
build=$1
for version in 14 16; do
    here=$build-clang-$version
    tools/clang-build.sh "$version" "$here" "" -Dwerror=true
    ninja -C "$here" --quiet
    meson test -C "$here" --no-rebuild --print-errorlogs --suite unit
    "$here/tests/graphs" >"$here/graphs.txt"
    "$build/tests/graphs" | cmp - "$here/graphs.txt" ||
        { echo "check-clang: graphs have other nodes by clang $version" >&2; exit 1; }
done
