#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# prove.sh MPI BUILD REPLICAS STEPS [MODEL...]: replicas of one thread take the steps of one process on the whole batch, within
# 1e-5 in float32, with the same bits among them, in every mode and in a second run: logreg, resffn, lenet and gpt2 (d128), whose
# parameters are compared where sgd trains it; by adamw, as it comes, its losses are. ResNet-18 on 32 x 32 pixels, its batch norm
# frozen: resnet64, in float64 within 1e-11; resnet, in float32, within 1e-5 at each step that begins with the state of the one
# process, and how far it is off where none does is printed (prove.c).
# PROVE_SHARDED=1: the replicas shard the optimizer.
set -eu
mpi=$1 build=$2 replicas=$3 steps=$4
shift 4
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0
prove() { # MODEL BATCH CLASSES frozen|training parameters|kinks|losses|steps|float64 OPTION...
    local model=$1 batch=$2 classes=$3 how=$4 what=$5
    shift 5
    "$build/examples/$model" compile --batch-size "$batch" "$@" --output-folder "$folder" --pef-name whole >"$folder/log"
    "$build/examples/$model" compile --batch-size $((batch / replicas)) "$@" --data-parallel \
        --output-folder "$folder" --pef-name replica >"$folder/log"
    "$here/launch.sh" "$mpi" "$replicas" "$build" "$build/tests/parallel/prove" "$model" "$folder/replica/replica.pef" \
        "$folder/whole/whole.pef" "$steps" "$classes" "$how" "$what" || bad=1
}
[ $# -gt 0 ] || set -- logreg resffn lenet gpt2 resnet resnet64
for model in "$@"; do
    case $model in
    gpt2)
        prove gpt2 8 256 training parameters --optimizer sgd --lr 0.01
        prove gpt2 8 256 training losses
        ;;
    lenet) prove lenet 32 10 training kinks ;;
    resnet) prove resnet 4 10 frozen steps --channels 3 --image-size 32 --lr 0.0001 ;;
    resnet64) prove resnet 4 10 frozen float64 --channels 3 --image-size 32 --lr 0.0001 --float64 ;;
    *) prove "$model" 32 10 training parameters ;;
    esac
done
exit $bad
