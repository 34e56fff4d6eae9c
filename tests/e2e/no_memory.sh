#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Little memory is an error that is said, never a signal: compiling and running a small PEF with every amount of address space in
# small steps, from what no program starts with up to what is enough. libxsmm, which takes a table when the process begins, used
# to read from address 0.
# Usage: tests/e2e/no_memory.sh BUILD_FOLDER
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1

# limited KIBIBYTES COMMAND...: its status; what it says goes to $folder/said
limited() {
    local kib=$1 status=0
    shift
    (ulimit -c 0; ulimit -v "$kib"; exec "$@") >"$folder/said" 2>&1 || status=$?
    return $status
}

# sweep WHAT COMMAND...: until it has been done with 8 amounts in a row
sweep() {
    local what=$1 kib=6144 done=0 tried=0 refused=0 status
    shift
    while [ $done -lt 8 ] && [ $kib -lt 400000 ]; do
        status=0
        limited $kib "$@" || status=$?
        tried=$((tried + 1))
        case $status in
        0) done=$((done + 1)) ;;
        1 | 2) done=0 refused=$((refused + 1)) ;;
        127) done=0 ;; # its libraries do not fit: it has not begun
        139) # the loader itself may read from address 0, where even --version ends so
            cp "$folder/said" "$folder/first"
            status=0
            limited $kib "$1" --version || status=$?
            [ $status -eq 139 ] || { echo "$what with $kib KiB: status 139" >&2; cat "$folder/first" >&2; exit 1; }
            done=0 ;;
        134) # the C library, libgomp or the loader may end a process that has no memory for a thread or for itself
            grep -q 'libgomp\|cannot allocate\|Cannot allocate' "$folder/said" ||
                { echo "$what with $kib KiB: aborted" >&2; cat "$folder/said" >&2; exit 1; }
            done=0 ;;
        *) echo "$what with $kib KiB: status $status" >&2; cat "$folder/said" >&2; exit 1 ;;
        esac
        kib=$((kib + 128))
    done
    [ $done -ge 8 ] || { echo "$what was never done" >&2; exit 1; }
    [ $refused -gt 0 ] || { echo "$what was never refused" >&2; exit 1; }
    echo "$what: $tried amounts of memory, $refused refused, done with $((kib - 1024)) KiB"
}

cd "$folder"
sweep "compile" "$build/examples/lenet" compile --pef-name lenet --batch-size 4
pef=$(find "$folder/out" -name lenet.pef | head -1)
sweep "run" "$build/sambaflow" run "$pef"
