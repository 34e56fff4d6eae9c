#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# faults.sh MPI BUILD COUNT [SECONDS [KIND...]]: trainings by 2 to 4 replicas, one of which is killed, ended, stopped for SECONDS
# (3), exits, leaves early, meets an error, or finds the disk full, at a random moment. All end, with a code that is not 0 and,
# where the library can speak, one sentence, or go on to the same bits; none is left; no checkpoint is damaged. From the newest,
# training goes on to the bits of one without a fault. KIND: those alone.
set -u
mpi=$1 build=$2 count=$3 pause=${4:-3}
shift $(($# > 4 ? 4 : $#))
kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(kill term exit leave error stop late disk limit)
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'umount "$folder/checkpoints" 2>"$folder/log"; rm -rf "$folder"' EXIT
RANDOM=${SAMBAFLOW_SEED:-$$}
echo "seed ${SAMBAFLOW_SEED:-$$}"
bad=0
run() { # REPLICAS ARGUMENT...: of faulty
    local replicas=$1
    shift
    # Through a pipe: what is written to a file has a limit, too.
    timeout $((120 + pause)) "$here/launch.sh" "$mpi" "$replicas" "$build" "$build/tests/parallel/faulty" "$folder" "$@" 2>&1 |
        cat >"$folder/out"
    return "${PIPESTATUS[0]}"
}
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
# A small file system of its own, where one may be mounted: it is full soon.
small=
mkdir "$folder/checkpoints"
mount -t tmpfs -o size=512k none "$folder/checkpoints" 2>"$folder/log" && small=yes
declare -A usual training
for replicas in 2 3 4; do
    run $replicas none || { cat "$folder/out"; echo "a training without a fault ends with $?"; exit 1; }
    rm -rf "$folder/checkpoints"/*
    begin=$(milliseconds)
    run $replicas none || { cat "$folder/out"; echo "a training without a fault ends with $?"; exit 1; }
    usual[$replicas]=$(($(milliseconds) - begin))
    training[$replicas]=$(sed -n 's/^all steps in \([0-9]*\) ms.*/\1/p' "$folder/out")
    mv "$folder/weights.safetensors" "$folder/$replicas.safetensors"
done
declare -A tried
for ((i = 0; i < count; i++)); do
    replicas=$((2 + RANDOM % 3)) at=$((RANDOM % 1000)) how=${kinds[i < ${#kinds[@]} ? i : RANDOM % ${#kinds[@]}]}
    rank=$((RANDOM % replicas)) patience=600 begin=$(milliseconds)
    tried[$how]=$((${tried[$how]:-0} + 1))
    case $how in
    exit | leave | error | disk | limit) at=$((at % 370)) ;; # a step, before the last checkpoints
    *) at=$((at * training[$replicas] / 1000)) ;;
    esac
    case $how in
    disk | limit) rank=0 ;; # who saves
    late) patience=$(((pause + 2) / 3)) ;;
    esac
    [ "$how$small" != disk ] || how=limit
    rm -rf "$folder/checkpoints"/* "$folder/weights.safetensors"
    SAMBAFLOW_PATIENCE=$patience run $replicas "${how/late/stop}" $rank $at $pause
    code=$?
    took=$(($(milliseconds) - begin)) problem=
    rm -f "$folder/checkpoints/filler"
    case $how in
    # A signal may come when all is done, or where the end of one is no loss any more.
    kill | term)
        [ $code -ne 0 ] || cmp -s "$folder/weights.safetensors" "$folder/$replicas.safetensors" || problem="ends with 0" ;;
    stop) [ $code -eq 0 ] || problem="ends with $code, and should go on" ;;
    late)
        [ $code -eq 0 ] ||
            grep -qE "nothing has come for $patience seconds from replica.* $rank\b|same place for $patience seconds" \
                "$folder/out" || problem="does not say who is late"
        ;;
    *) [ $code -ne 0 ] || problem="ends with 0" ;;
    esac
    case $how in
    leave)
        grep -q "replica $rank has ended, and this one still waits for it" "$folder/out" || problem="does not say who left" ;;
    error) grep -q "faulty: .*/nowhere/weights.safetensors" "$folder/out" || problem="does not say the error" ;;
    disk)
        grep -q "faulty: .*/checkpoints/.*No space left on device" "$folder/out" ||
            problem="does not say that the disk is full" ;;
    limit) grep -q "faulty: .*/checkpoints/.*File too large" "$folder/out" || problem="does not say what cannot be written" ;;
    esac
    case $how in
    exit | leave | error | disk | limit)
        [ "$(grep -c "^handler of $rank\$" "$folder/out")" = 1 ] || problem="does not run its exit handler once"
        # Who leaves waits with the end of MPI, behind which the early ones come: the others end it there.
        [ "$how" = leave ] || [ "$(grep -c "^early handler of $rank\$" "$folder/out")" = 1 ] ||
            problem="does not run its early exit handler once"
        ;;
    esac
    case $how in
    stop | late) more=$((pause * 1000)) ;;
    *) more=0 ;;
    esac
    [ $code -ne 124 ] || problem="hangs"
    [ $took -lt $((4 * usual[$replicas] + 5000 + more)) ] ||
        problem="took $took ms, a training without a fault ${usual[$replicas]}"
    [ "$(pgrep -fc "parallel/faulty $folder")" = 0 ] || problem="leaves a process behind"
    cp "$folder/out" "$folder/first"
    if ! "$build/tests/parallel/faulty" "$folder" check >"$folder/checked" 2>&1; then
        problem="leaves a checkpoint that is damaged: $(cat "$folder/checked")"
    elif ! run $replicas none; then
        problem="cannot be resumed: $(cat "$folder/out")"
    elif ! cmp -s "$folder/weights.safetensors" "$folder/$replicas.safetensors"; then
        problem="goes on to other bits from $(cat "$folder/checked")"
    fi
    [ -z "${VERBOSE:-}" ] || echo "$replicas replicas, number $rank: $how at $at: code $code, $took ms, $(cat "$folder/checked")"
    [ -z "$problem" ] || { bad=1; echo "$replicas replicas, number $rank: $how at $at: $problem"; cat "$folder/first"; }
done
[ $bad -ne 0 ] || {
    echo "$count faults:$(for how in "${!tried[@]}"; do printf ' %s %d' "$how" "${tried[$how]}"; done):" \
        "all replicas end or go on, and what they saved is whole"
}
exit $bad
