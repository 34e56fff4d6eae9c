#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make demo-parallel: LeNet trained by two processes, each on half of every step's digits.
# Usage: tools/demo-parallel.sh BUILD_FOLDER
set -eu
build=$1
out=$build/demo
tools/with-mpi.sh "$build"
"$build/examples/lenet" compile --data-parallel --batch-size 16 --output-folder "$out" --pef-name lenet2
echo
echo "mpirun -n 2 $build/examples/lenet run --data-parallel --pef $out/lenet2/lenet2.pef --num-epochs 15"
tests/parallel/launch.sh openmpi 2 "$build" "$build/examples/lenet" run --data-parallel --pef "$out/lenet2/lenet2.pef" \
    --num-epochs 15 --save "$out/lenet2.safetensors"
