#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From the start of a program to the end of LeNet's first training step, compiling included: two programs one after the other, the
# one that compiles and one that loads the PEF and runs a step. The aim is 100 ms, which make bench measures; here callgrind
# counts their instructions, which no other program changes: 73 million with AVX2 and 110 million without, on one thread. 150
# million are allowed: what would make every program wait is more.
#
#   start.sh BUILD_FOLDER
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if grep -q fsanitize "$build/compile_commands.json"; then
    echo "what is counted is the plain build's; sanitizers add to everything"
    exit 77
fi
case ${SAMBAFLOW_ISA:-} in avx512 | amx) unset SAMBAFLOW_ISA ;; esac # valgrind's processor has none
instructions() {
    OMP_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>"$folder/said" >/dev/null ||
        { cat "$folder/said" >&2; exit 1; }
    awk '/Collected/ { print $NF }' "$folder/said"
}
compile=$(instructions "$build/examples/lenet" compile --batch-size 32 --output-folder "$folder")
step=$(instructions "$build/sambaflow" run "$folder/lenet/lenet.pef")
echo "start to first step, instructions: compiling $compile, loading and a step $step"
[ "$compile" -gt 1000000 ] && [ "$step" -gt 1000000 ] || { echo "start: nothing was counted" >&2; exit 1; }
[ $((compile + step)) -le 150000000 ] || { echo "start: more than 150 million" >&2; exit 1; }
