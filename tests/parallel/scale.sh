#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scale.sh BUILD [RATE...]: the model of `sambaflow scale` against steps by two replicas of one thread, in each mode: of LeNet
# b256 on this machine; of GPT d384 on this machine and with a cable of each RATE (1gbit) between them, as root; with gradients as
# bfloat16 and with parts of the optimizer by the cable alone, as what they take of the processors is not in the model. Fails
# where it is off by more than 15 %.
# STEPS and BATCH of the environment say how many steps of GPT (8) of how many samples a replica (2).
set -u
build=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$build/examples/gpt2" compile --data-parallel --n-layer 6 --n-head 6 --n-embd 384 --batch-size "${BATCH:-2}" \
    --output-folder "$folder" --pef-name d384 >"$folder/log" || { cat "$folder/log"; exit 1; }
"$build/examples/lenet" compile --data-parallel --batch-size 256 --output-folder "$folder" --pef-name lenet >"$folder/log" ||
    { cat "$folder/log"; exit 1; }
options=(--measure --threads 1 --replicas 2 --mode normal,inorder,optimal)
gpt=("$build/sambaflow" scale "$folder/d384/d384.pef" "${options[@]}" --num-iterations "${STEPS:-8}")
lenet=("$build/sambaflow" scale "$folder/lenet/lenet.pef" "${options[@]}" --num-iterations 60)
bad=0
judge() { # NAME COMMAND...
    local name=$1
    shift
    echo "== $name"
    "$@" >"$folder/out" 2>&1 || { cat "$folder/out"; bad=1; return; }
    cat "$folder/out"
    awk '/model [+-]/ { lines++; off = $(NF - 1); if (off > 15 || off < -15) far = 1 } END { exit far || lines != 3 }' \
        "$folder/out" || { bad=1; echo "the model is off by more than 15 %"; }
}
here=("$(dirname "$0")/launch.sh" openmpi 2 "$build")
[ "${LOOPBACK:-yes}" = no ] || judge "LeNet, one machine" "${here[@]}" "${lenet[@]}"
for how in "" "--reduce-dtype bfloat16" "--sharded-optimizer" "--sharded-optimizer --reduce-dtype bfloat16"; do
    # words on purpose
    [ "${LOOPBACK:-yes}" = no ] || [ -n "$how" ] || judge "GPT, one machine" "${here[@]}" "${gpt[@]}"
    for rate in "${@-1gbit}"; do
        [ -z "$rate" ] || judge "GPT $how, a cable of $rate" "$(dirname "$0")/network.sh" "$rate" "$build" "${gpt[@]}" $how
    done
done
exit $bad
