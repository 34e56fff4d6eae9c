#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a step needs, says which, and does nothing when all are there.
# arm has libraries of another architecture, PACKAGE:arm64, which it tells dpkg of.
# Usage: tools/install-packages.sh build|python|bench|clang|coverage|arm|mpi
set -eu
build="gcc g++ libc6-dev make meson ninja-build pkg-config libxsmm-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler
libjansson-dev libxxhash-dev zlib1g-dev libpcre2-dev libutf8proc-dev libhdf5-dev libmicrohttpd-dev liblapacke-dev
libopenblas0-pthread libcmocka-dev curl valgrind"
python="python3 python3-venv python3-pip python3-dev"
clang="$build clang-14 clang-16 libclang-rt-16-dev"
ls /usr/lib/llvm-*/lib/libomp.so >/dev/null 2>&1 || clang="$clang libomp-14-dev" # only one version can be there, and any will do
arm="$build gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libgomp1:arm64 libprotobuf-c-dev:arm64 libjansson-dev:arm64
libxxhash-dev:arm64 zlib1g-dev:arm64 libpcre2-dev:arm64 libutf8proc-dev:arm64 liblapacke-dev:arm64 libcmocka-dev:arm64"
bench="$python g++" # torch.compile writes C++ that includes Python.h
case "${1:-}" in
build) wanted=$build ;;
python) wanted=$python ;;
clang) wanted=$clang ;;
coverage) wanted="$build gcovr" ;;
bench) wanted=$bench ;;
arm) wanted=$arm ;;
mpi) wanted="$build libopenmpi-dev openmpi-bin libmpich-dev mpich" ;;
*) echo "usage: $0 build|python|bench|clang|coverage|arm|mpi" >&2; exit 2 ;;
esac
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "sambaflow: this is not Debian; these packages (by their Debian names) are needed and not checked for: $(echo $wanted)" \
        >&2
    exit 0
fi
missing= foreign= here=$(dpkg --print-architecture)
for package in $wanted; do
    of=$here
    case $package in
    *:*) of=${package#*:} ;;
    esac
    # A line for each architecture of it; that of another one is of no use here.
    dpkg-query -W -f='${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null | grep -qxE "($of|all) installed" || {
        missing="$missing $package"
        [ "$of" = "$here" ] || foreign=$of
    }
done
[ -n "$missing" ] || exit 0
echo "sambaflow: installing Debian packages:$missing"
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || \
        { echo "sambaflow: run as root, or install sudo, or install them yourself:$missing" >&2; exit 1; }
    as_root=sudo
fi
log=$(mktemp)
if [ -n "$foreign" ] && ! dpkg --print-foreign-architectures | grep -qx "$foreign"; then
    echo "sambaflow: telling dpkg of packages for $foreign"
    { $as_root dpkg --add-architecture "$foreign" && $as_root apt-get update; } >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
install_them() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >"$log" 2>&1; }
if ! install_them; then
    if ! { $as_root apt-get update && install_them; } >>"$log" 2>&1; then
        cat "$log" >&2
        echo "sambaflow: the packages could not be installed; the reason stands above" >&2
        rm -f "$log"
        exit 1
    fi
fi
rm -f "$log"
