#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A training that saves a checkpoint every few steps is killed at random moments and resumed, until it was killed as often as
# asked for. After every kill a copy of what is there is also resumed to the end, which must have the very bytes of the one that
# nobody killed: weights, optimizer state, loss. No checkpoint may be found damaged, since none is named before it is whole; at
# most the two newest and what was being written may be there after a kill, and the two alone after a start. Dropout, momentum, a
# schedule and micro-batches take part.
#
#   kill.sh BUILD_FOLDER SOURCE_FOLDER [KILLS] [SEED]
set -u
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd) kills=${3:-12} seed=${4:-$(date +%s)}
# In memory where there is a file system for that: thousands of flushed files would wait for the disk. KILL_FOLDER
# names another place.
work=$(mktemp -d -p "${KILL_FOLDER:-$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)}")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
RANDOM=$((seed % 32768))
echo "kill: $kills kills, seed $seed"
fail() {
    echo "kill: $* (seed $seed, kill $killed)"
    cat out.txt err.txt
    ls -la checkpoints
    exit 1
}

gpt2=$build/examples/gpt2
"$gpt2" compile --n-layer 1 --n-head 2 --n-embd 32 --block-size 16 --dropout 0.1 -b 8 -mb 4 >/dev/null || exit 1
train() {
    exec "$gpt2" run -p out/gpt2/gpt2.pef --data "$source/examples/data" --num-iterations "$steps" --seed 5 --threads 1 \
        --lr-schedule cosine --warmup-steps 10 \
        --json "$@" >out.txt 2>err.txt
}
losses() { grep -E '"test_loss"' out.txt && grep -E '"loss"' out.txt; } # of the epoch: none where no step was left to do

killed=0 steps=60
start=${EPOCHREALTIME/[.,]/}
(train --checkpoint-dir whole --checkpoint-every 2 --save whole.safetensors) || fail "the run that nobody kills"
whole=$((${EPOCHREALTIME/[.,]/} - start)) # microseconds: the moment of a kill is drawn from somewhat more
losses >whole.txt

# ends FOLDER: the training, resumed from there, ends as the one that nobody killed
ends() {
    (train --checkpoint-dir "$1" --checkpoint-every 2 --keep 2 --resume --save end.safetensors) ||
        fail "a resumed run ended with an error"
    ! grep -q damaged out.txt err.txt || fail "a damaged checkpoint"
    cmp end.safetensors whole.safetensors || fail "the end differs from that of the run that was never killed"
    losses >end.txt
    cmp end.txt <(head -"$(wc -l <end.txt)" whole.txt) || fail "the losses differ"
    [ "$(ls "$1" | wc -l)" -eq 2 ] || fail "not the two newest checkpoints at the end"
    rm -rf "$1"
}

runs=0 in_writing=0
while [ "$killed" -lt "$kills" ]; do
    limit=$((RANDOM * 32768 + RANDOM)) limit=$((limit % (whole * 3 / 5)))
    runs=$((runs + 1))
    train --checkpoint-dir checkpoints --checkpoint-every 2 --keep 2 --resume --shard-size 60000 --save end.safetensors &
    pid=$!
    sleep "$(printf '%d.%06d' $((limit / 1000000)) $((limit % 1000000)))"
    kill -9 $pid 2>/dev/null
    { wait $pid; } 2>/dev/null
    case $? in
    0) ends checkpoints ;; # it was faster; the next one begins anew
    137)
        killed=$((killed + 1))
        saved=$(ls -d checkpoints/checkpoint-* 2>/dev/null | grep -cv '\.') \
            unfinished=$(ls -d checkpoints/*.tmp checkpoints/*.old 2>/dev/null | wc -l)
        in_writing=$((in_writing + (unfinished > 0)))
        [ $((saved + unfinished)) -le 3 ] || fail "$saved checkpoints and $unfinished unfinished ones"
        mkdir -p checkpoints && cp -r checkpoints copy && ends copy
        ;;
    *) fail "a resumed run ended with an error" ;;
    esac
done
echo "kill: $killed kills, $in_writing of them while a checkpoint was written or removed, in $runs runs;" \
    "after each of them the training ended with the same bytes"
