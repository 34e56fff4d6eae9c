#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# measure.sh MPI BUILD: `sambaflow scale --measure` by replicas. The first prints, once, what all have measured: the network, in
# words that --network takes, and steps with exchanges. How near the model is, is no question here (scale.sh).
set -eu
mpi=$1 build=$2
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { cat "$folder/out"; echo "$*"; exit 1; }
"$build/examples/gpt2" compile --data-parallel --n-layer 1 --n-head 2 --n-embd 32 --block-size 16 -b 4 -mb 2 \
    --output-folder "$folder" --pef-name small >"$folder/out" || fail "it does not compile"
scale() { # REPLICAS OPTION...
    local replicas=$1
    shift
    "$here/launch.sh" "$mpi" "$replicas" "$build" "$build/sambaflow" scale "$folder/small/small.pef" --threads 1 "$@" \
        >"$folder/out" 2>&1 || fail "scale $* fails"
}
for replicas in 2 3; do
    scale $replicas --measure --mode normal,inorder,optimal --replicas 2,3,50 --num-iterations 3 --json
    [ "$(grep -c '"command": "scale"' "$folder/out")" = 1 ] || fail "not one replica prints"
    [ "$(grep -c '"measured_ms"' "$folder/out")" = 3 ] || fail "not all modes were measured"
    words=$(sed -n 's/.*"option": "\(.*\)",/\1/p' "$folder/out")
    scale 1 --flops 1G --network "$words" --replicas $replicas
    grep -q "efficiency" "$folder/out" || fail "$words is not taken"
done
scale 2 --measure --flops 1G --replicas 50 --svg "$folder/scale.svg"
grep -q "measured  inorder         2 " "$folder/out" || fail "this launch's replicas are not there"
grep -q "polyline" "$folder/scale.svg" || fail "nothing is drawn"
(scale 2 --measure --flops 1G --replicas 2 --svg "$folder/scale.svg" >"$folder/said") && fail "a line of one point is drawn"
grep -q "two numbers of replicas, and there is only 2" "$folder/said" || fail "a line of one point is not refused"
scale 2 --measure --num-iterations 2 --replicas 2 --sharded-optimizer --reduce-dtype bfloat16
grep -q "gradients travel as bfloat16" "$folder/out" || fail "it does not say how gradients travel"
scale 2 --num-iterations 2 --replicas 2
grep -q "all replicas of this launch at once" "$folder/out" || fail "it does not say who measured"
echo "scale --measure: 2 and 3 replicas measure and one prints"
