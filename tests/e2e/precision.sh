#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# GPT-2 learns a text as well in bf16 as in fp32: from the same weights, on the same samples, 200 steps each. The mean loss of
# every epoch and the loss on the tenth of the text that was held back must be within 1 % of each other.
#
#   precision.sh BUILD_FOLDER SOURCE_FOLDER [OPTION OF gpt2 compile ...]      a small model unless options say otherwise
set -euo pipefail
build=$1 source=$2
shift 2
[ $# -gt 0 ] || set -- --batch-size 8 --n-layer 2 --n-head 4 --n-embd 64 --block-size 32
threads=${THREADS:-1} # more are of no use to a small model, and a test should be content with one
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for precision in fp32 bf16; do
    "$build/examples/gpt2" compile "$@" --precision $precision --output-folder "$folder" --pef-name $precision --json >/dev/null
    "$build/examples/gpt2" run --pef "$folder/$precision/$precision.pef" --data "$source/examples/data" --num-iterations 200 \
        --num-epochs 1000 --seed 1 \
        --threads "$threads" --json 2>/dev/null >"$folder/$precision.json"
    # "epochs": [{"loss": x, ...}, ...], ..., "test_loss": y: one number a line
    grep -oE '"(test_)?loss": [0-9.e+-]+' "$folder/$precision.json" | tr -d '":' >"$folder/$precision.txt"
done
paste "$folder/fp32.txt" "$folder/bf16.txt" | awk '
    { e = $4 / $2 - 1; e = e < 0 ? -e : e; if (!(e <= worst)) worst = e; if (NR == 1) first = $2; last = $2; name = $1; n++ }
    { when = $1 == "loss" ? sprintf("epoch %d:", n) : "after 200 steps:" }
    { printf "%-10s %s fp32 %.4f  bf16 %.4f  apart %.2f %%\n", $1, when, $2, $4, 100 * e }
    END {
        if (!(n >= 3 && name == "test_loss" && last < 0.9 * first)) {
            print "precision: it has not learnt, or there are no losses"
            exit 1
        }
        if (!(worst <= 0.01)) { print "precision: losses of bf16 and fp32 are more than 1 % apart"; exit 1 }
    }'
