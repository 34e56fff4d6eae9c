#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One file, two families of processors: every example compiles to the same bytes here and by the program for aarch64, and both
# train it to the same losses, up to rounding: 20 steps, within 1e-5 relative, in bfloat16 within 2^-8 (tests/torch/losses.sh says
# why). The program for aarch64 runs by qemu-user, as QEMU_CPU says which processor.
# Usage: tests/arm/same.sh BUILD_FOLDER BUILD_FOLDER_FOR_AARCH64 [MODEL ...]
set -euo pipefail
build=$1 arm=$2
shift 2
[ $# -gt 0 ] || set -- lenet gpt2
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
emulated() { qemu-aarch64 "$@"; }

size_of() { # MODEL
    case $1 in
    gpt2) echo --batch-size 4 --n-layer 2 --n-head 4 --n-embd 32 --block-size 16 --vocab-size 128 ;;
    resnet) echo --batch-size 8 --width 8 ;;
    unet) echo --batch-size 4 --width 8 --groups 2 ;;
    vit) echo --batch-size 8 --num-layers 2 --num-heads 2 --hidden-dim 32 ;;
    lstm) echo --batch-size 4 --num-layers 2 --hidden-size 32 --block-size 16 --vocab-size 128 ;;
    *) echo --batch-size 16 ;;
    esac
}
both() { # MODEL WORDS...: the same PEF by both, in "$folder/here" and "$folder/arm"
    local model=$1
    shift
    "$build/examples/$model" compile $(size_of "$model") "$@" --output-folder "$folder/here" --pef-name "$model" --json >/dev/null
    emulated "$arm/examples/$model" compile $(size_of "$model") "$@" --output-folder "$folder/arm" --pef-name "$model" --json \
        >/dev/null
    cmp "$folder/here/$model/$model.pef" "$folder/arm/$model/$model.pef" || { echo "FAIL $model $*: other bytes"; failed=1; }
}

for model in logreg resffn lenet gpt2 lstm resnet unet vit; do
    both $model
    both $model --precision bf16
done
[ $failed = 1 ] || echo "same bytes: 8 examples, in float32 and bfloat16"
"$build/tests/graphs" >"$folder/graphs.here"
emulated "$arm/tests/graphs" >"$folder/graphs.arm"
cmp "$folder/graphs.here" "$folder/graphs.arm" && echo "same graphs: $(wc -l <"$folder/graphs.here") lines" ||
    { echo "FAIL graphs: other nodes, or in another order"; failed=1; }

for model in "$@"; do
    for precision in fp32 bf16; do
        both "$model" --optimizer adamw --lr 0.0005 --precision $precision
        steps=("$folder/arm/$model/$model.pef" "$root/examples/data" 20)
        "$build/tests/steps" "${steps[@]}" >"$folder/ours"
        emulated "$arm/tests/steps" "${steps[@]}" >"$folder/theirs"
        [ $precision = fp32 ] && allowed=1e-5 || allowed=0.00390625
        paste "$folder/ours" "$folder/theirs" | awk -v what="$model $precision" -v allowed=$allowed '
            { e = ($1 - $2) / $1; e = e < 0 ? -e : e; if (!(e <= worst)) worst = e; if (NR == 1) first = $1; last = $1; n++ }
            END {
                printf "%-12s losses %.6f to %.6f, greatest difference %.1e relative\n", what, first, last, worst
                exit !(n == 20 && worst <= allowed && last < first)
            }' || { echo "FAIL $model $precision: other losses"; failed=1; }
    done
done
exit $failed
