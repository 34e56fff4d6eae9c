#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# resume.sh MPI BUILD SOURCE COUNT: two replicas are killed at a random moment, as often as COUNT says, and resumed: in the end
# the weights are those of a training that was never killed. Then 2, 4 and 1 replicas go on one after the other.
set -eu
mpi=$1 build=$2 source=$3 count=$4
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
RANDOM=${SAMBAFLOW_SEED:-$$}
echo "seed $RANDOM"
"$build/examples/gpt2" compile --data-parallel --n-layer 1 --n-head 2 --n-embd 32 --block-size 16 --dropout 0.1 -b 4 -mb 2 \
    --output-folder "$folder" --pef-name gpt2 >"$folder/log"
"$build/examples/lenet" compile --data-parallel --batch-size 16 --output-folder "$folder" --pef-name lenet >"$folder/log"
train() { # REPLICAS MODEL FOLDER OPTION...
    local replicas=$1 model=$2 checkpoints=$3
    shift 3
    "$here/launch.sh" "$mpi" "$replicas" "$build" "$build/examples/$model" run --data-parallel --pef "$folder/$model/$model.pef" \
        --threads 1 --data "$source/examples/data" --checkpoint-dir "$checkpoints" --checkpoint-every 7 "$@"
}
steps="--num-iterations 700 --num-epochs 90 --seed 5 --data-parallel-mode inorder"
train 2 gpt2 "$folder/whole" $steps --save "$folder/whole.safetensors" >"$folder/log"
for ((i = 0; i < count; i++)); do
    train 2 gpt2 "$folder/killed" --resume $steps >"$folder/log" 2>&1 &
    sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
    pkill -KILL -f "examples/gpt2 run .*$folder/killed" || true
    wait $! || true
done
train 2 gpt2 "$folder/killed" --resume $steps --save "$folder/killed.safetensors" >"$folder/log" || { cat "$folder/log"; exit 1; }
cmp "$folder/whole.safetensors" "$folder/killed.safetensors"
for replicas in 2 4 1; do
    steps=$(((replicas == 2 ? 200 : replicas == 4 ? 150 : 800)))
    train $replicas lenet "$folder/shared" --resume --num-iterations $steps --num-epochs 50 >"$folder/log" 2>&1 ||
        { cat "$folder/log"; exit 1; }
done
grep -E 'test accuracy (9[0-9]|100)' "$folder/log" || { cat "$folder/log"; echo "2, 4 and 1 replicas have not learned"; exit 1; }
echo "$count kills: resumed to the same bits; 2, 4 and 1 replicas went on from each other"
