#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make demo: LeNet from a C function to one PEF to a trained model, on real digits. Usage: tools/demo.sh BUILD_FOLDER
set -eu
build=$1
out=$build/demo
"$build/examples/lenet" compile --batch-size 32 --output-folder "$out" --pef-name lenet
echo
"$build/examples/lenet" run --pef "$out/lenet/lenet.pef" --batch-size 32 --num-epochs 15 --save "$out/lenet.safetensors"
