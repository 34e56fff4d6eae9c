#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# faults.sh MPI BUILD COUNT: replicas one of which dies, exits, leaves early or meets an error at a random step. All end within 5
# seconds, with a code that is not 0 and, where the library can speak, one sentence; none is left.
set -u
mpi=$1 build=$2 count=$3
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
RANDOM=${SAMBAFLOW_SEED:-$$}
echo "seed $RANDOM"
bad=0
run() { # REPLICAS RANK STEP HOW
    timeout 60 "$here/launch.sh" "$mpi" "$1" "$build" "$build/tests/parallel/faulty" "$folder" "$2" "$3" "$4" >"$folder/out" 2>&1
}
begin=$(date +%s%N)
run 2 0 0 none || { cat "$folder/out"; echo "a training without a fault ends with $?"; exit 1; }
usual=$((($(date +%s%N) - begin) / 1000000))
kinds=(kill term exit leave error)
for ((i = 0; i < count; i++)); do
    replicas=$((2 + RANDOM % 3)) step=$((RANDOM % 400)) how=${kinds[RANDOM % 5]}
    rank=$((RANDOM % replicas))
    begin=$(date +%s%N)
    run $replicas $rank $step "$how"
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    problem=
    [ $code -ne 0 ] || problem="ends with 0"
    [ $code -ne 124 ] || problem="hangs"
    [ $took -lt $((4 * usual + 5000)) ] || problem="took $took ms, a training without a fault $usual"
    [ "$how" != leave ] || grep -q "replica $rank has ended, and this one still waits for it" "$folder/out" ||
        problem="does not say who left"
    [ "$how" != error ] || grep -q "faulty: .*/nowhere/weights.safetensors" "$folder/out" || problem="does not say the error"
    [ "$(pgrep -fc "parallel/faulty $folder")" = 0 ] || problem="leaves a process behind"
    [ -z "$problem" ] || { bad=1; echo "$replicas replicas, number $rank: $how at step $step: $problem"; cat "$folder/out"; }
done
[ $bad -ne 0 ] || echo "$count faults: all replicas end"
exit $bad
