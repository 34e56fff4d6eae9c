#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scale.sh BUILD [RATE...]: the model of `sambaflow scale` against steps of GPT d384 by two replicas of one thread, in each mode:
# on this machine, and with a cable of each RATE (1gbit) between them, as root. Fails where the model is off by more than 15 %.
# STEPS and BATCH of the environment say how many steps (8) of how many samples a replica (2).
set -u
build=$1
shift
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$build/examples/gpt2" compile --data-parallel --n-layer 6 --n-head 6 --n-embd 384 --batch-size "${BATCH:-2}" \
    --output-folder "$folder" --pef-name d384 >"$folder/log" || { cat "$folder/log"; exit 1; }
scale=("$build/sambaflow" scale "$folder/d384/d384.pef" --measure --threads 1 --replicas 2 --mode normal,inorder,optimal
    --num-iterations "${STEPS:-8}")
bad=0
judge() { # NAME COMMAND...
    local name=$1
    shift
    echo "== $name"
    "$@" "${scale[@]}" >"$folder/out" 2>&1 || { cat "$folder/out"; bad=1; return; }
    cat "$folder/out"
    awk '/model [+-]/ { lines++; off = $(NF - 1); if (off > 15 || off < -15) far = 1 } END { exit far || lines != 3 }' \
        "$folder/out" || { bad=1; echo "the model is off by more than 15 %"; }
}
[ "${LOOPBACK:-yes}" = no ] || judge "one machine" "$here/launch.sh" openmpi 2 "$build"
for rate in "${@-1gbit}"; do
    [ -z "$rate" ] || judge "a cable of $rate" "$here/network.sh" "$rate" "$build"
done
exit $bad
