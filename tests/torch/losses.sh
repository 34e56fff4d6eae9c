#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 100 training steps of each example with each optimizer: losses within 1e-4 relative of PyTorch's, which are those stored under
# tests/torch/losses/, or, with a Python that has torch, made now (and stored with --store);
# then every parameter's mean gradient is compared too: the column "of allowed" has the greatest distance as a share of what
# losses.py allows.
# With torch also 20 steps in bf16, whose losses must be those of torch.autocast within 2^-8, what bfloat16 rounds a number by at
# most: both round at the same places, but where sums differ in their last bit either may round the other way. Where PyTorch has
# no bf16 for this processor the case is left out, with what PyTorch says.
# ResNet takes its 100 steps in float64: in float32 PyTorch's own losses move by percents within 30 steps when weights move by
# 1e-7, since a relu that opens or closes changes gradients at once, and batch norm over few samples makes much of that. Its first
# steps are compared in float32 too.
# Usage: tests/torch/losses.sh BUILD_FOLDER [PYTHON [--store | MODEL ...]]
set -euo pipefail
build=$1 python=${2:-} store=
models="logreg resffn lenet gpt2 lstm resnet unet vit"
[ "${3:-}" = --store ] && store=--store
[ $# -gt 2 ] && [ -z "$store" ] && models="${*:3}"
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
printf '%-8s %-6s %-9s %14s %14s  %s\n' model optim precision 'first loss' 'greatest error' "${python:+of allowed}"
for model in $models; do
    for optimizer in sgd adamw; do
        # The same settings stand in losses.py.
        if [ $optimizer = sgd ]; then
            settings=(--lr 0.003 --momentum 0.9 --weight-decay 0.001)
        else
            settings=(--lr 0.0005 --weight-decay 0.01 --max-grad-norm 1 --beta2 0.999)
        fi
        case $model in
        gpt2) size=(--batch-size 4 --n-layer 2 --n-head 4 --n-embd 32 --block-size 16 --vocab-size 128) ;;
        resnet) size=(--batch-size 16 --width 8) ;;
        unet) size=(--batch-size 8 --width 8 --groups 2) ;;
        vit) size=(--batch-size 32 --num-layers 2 --num-heads 2 --hidden-dim 32) ;;
        lstm) size=(--batch-size 4 --num-layers 2 --hidden-size 32 --block-size 16 --vocab-size 128) ;;
        *) size=(--batch-size 32) ;;
        esac
        case $model in
        resnet) precisions="fp64 ${python:+fp32}" ;;
        *) precisions="fp32 ${python:+bf16}" ;;
        esac
        # The image models' second precision with one optimizer: a run with PyTorch is seconds.
        [[ $model-$optimizer =~ ^(resnet|unet|vit)-adamw$ ]] && precisions=${precisions%% *}
        for precision in $precisions; do
            case $precision in
            bf16) steps=20 allowed=0.00390625 ;;
            *) steps=100 allowed=1e-4 ;;
            esac
            [ $model-$precision = resnet-fp32 ] && steps=5
            [ $precision = fp64 ] && words=(--float64) || words=(--precision $precision)
            "$build/examples/$model" compile "${size[@]}" --optimizer $optimizer "${settings[@]}" "${words[@]}" --output-folder \
                "$folder" --pef-name "$model" --json >/dev/null
            "$build/tests/steps" "$folder/$model/$model.pef" "$root/examples/data" $steps "$folder/initial.safetensors" \
                "$folder/final.safetensors" >"$folder/ours"
            stored=$root/tests/torch/losses/$model-$optimizer.txt
            : >"$folder/gradients"
            if [ -n "$python" ]; then
                status=0
                "$python" "$root/tests/torch/losses.py" $model $optimizer $precision "$folder/initial.safetensors" \
                    "$root/examples/data" $steps "$folder/final.safetensors" \
                    "$folder/gradients" >"$folder/torch" 2>"$folder/said" || status=$?
                if [ $status = 3 ]; then
                    printf '%-8s %-6s %-9s left out: %s\n' $model $optimizer $precision "$(cat "$folder/said")"
                    continue
                elif [ $status != 0 ]; then
                    printf '%-8s %-6s %-9s failed\n' $model $optimizer $precision
                    cat "$folder/said" >&2
                    failed=1
                    continue
                fi
                [ "$store" = --store ] && [ $precision = "${precisions%% *}" ] && mkdir -p "$(dirname "$stored")" &&
                    cp "$folder/torch" "$stored"
            else
                cp "$stored" "$folder/torch"
            fi
            paste "$folder/ours" "$folder/torch" | awk -v model=$model -v optimizer=$optimizer -v precision=$precision \
                -v steps=$steps -v allowed=$allowed -v gradients="$(cat "$folder/gradients")" '
                { e = ($1 - $2) / $2; e = e < 0 ? -e : e; if (!(e <= worst)) worst = e; if (NR == 1) first = $1; n++ }
                END {
                    printf "%-8s %-6s %-9s %14.6f %14.1e  %s\n", model, optimizer, precision, first, worst, gradients
                    exit !(n == steps && worst <= allowed)
                }' || failed=1
        done
    done
done
[ $failed = 0 ] || { echo "losses: not PyTorch's: beyond 1e-4 relative, in bf16 2^-8, or what is said above" >&2; exit 1; }
