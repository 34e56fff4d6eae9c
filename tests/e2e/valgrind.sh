#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo's compile and first five training steps, graphs as functions, kernels over some random shapes,
# and everything that the soak does, under valgrind: no invalid access, nothing
# uninitialised, nothing leaked.
# Usage: tests/e2e/valgrind.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if grep -q fsanitize "$build/compile_commands.json"; then
    echo "valgrind and the address sanitizer exclude each other; the plain build runs this test"
    exit 77
fi
case ${SAMBAFLOW_ISA:-} in avx512 | amx) unset SAMBAFLOW_ISA ;; esac # valgrind's processor has none
# OpenMP keeps its threads and libxsmm its code until the process ends: still reachable, which is no leak.
valgrind="valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect"
$valgrind "$build/examples/lenet" compile --batch-size 32 --output-folder "$folder" --pef-name lenet
$valgrind "$build/examples/lenet" run --pef "$folder/lenet/lenet.pef" --data "$source/examples/data" --num-iterations 5
OMP_NUM_THREADS=1 $valgrind "$build/tests/unit/test_function"
$valgrind "$build/tests/unit/test_random_shapes" 10 $RANDOM bare
OMP_NUM_THREADS=1 $valgrind "$build/tests/e2e/soak" 600 $RANDOM 20
