#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From the start of a program to the end of LeNet's first training step, compiling included: two programs one after the other, the one that
# compiles and one that loads the PEF and runs a step, from fork to exit. The aim is 100 ms (make bench measures it); a test on a busy machine
# is content with the best of some tries in 400 ms, which still finds what would make every program wait.
#
#   start.sh BUILD_FOLDER
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
best=1000000000
for try in {1..20}; do
    start=${EPOCHREALTIME/[.,]/}
    "$build/examples/lenet" compile --batch-size 32 --output-folder "$folder" >/dev/null
    "$build/sambaflow" run "$folder/lenet/lenet.pef" >/dev/null
    took=$((${EPOCHREALTIME/[.,]/} - start))
    [ $took -ge $best ] || best=$took
    [ $best -ge 400000 ] || break
done
echo "start to first step: $((best / 1000)) ms, try $try"
[ $best -lt 400000 ]
