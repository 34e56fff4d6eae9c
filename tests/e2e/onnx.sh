#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Models out as ONNX and in again, by the command line alone: an example's inference gives the same outputs from the file that was
# written; its training goes on from there, loss by loss; what is refused says so and leaves nothing behind.
#
#   onnx.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$(realpath "$0")")/calls.sh"
sambaflow=$build/sambaflow
means() { awk '/float32/ { print $1, $NF, $(NF - 1), $(NF - 2) }' "$1" | sort; } # of the table of run: output, max, mean, min
same() { # A B: the same outputs, to six digits less one
    paste <(means "$1") <(means "$2") | awk '
        { n++ }
        { for (i = 2; i <= 4; i++) { d = $i - $(i + 4); if (d * d > 1e-8 * (1 + $i * $i)) bad = 1 } }
        END { exit bad || n == 0 }' || { cat "$1" "$2" >&2; fail "$1 and $2 differ"; }
}

for example in lenet resffn; do
    quiet "$build/examples/$example" compile --batch-size 4 --inference --pef-name "$example"
    pef=out/$example/$example.pef
    quiet "$sambaflow" run "$pef" --save "$example.safetensors" --seed 3
    quiet "$sambaflow" export "$pef" --load "$example.safetensors" -o "$example.onnx"
    quiet "$sambaflow" compile "$example.onnx" --inference --output-folder again
    "$sambaflow" run "$pef" --load "$example.safetensors" --seed 3 >"$example.before"
    "$sambaflow" run "again/$example/$example.pef" --seed 3 >"$example.after"
    same "$example.before" "$example.after"
done

# Read again they are made of the same operators, however many of ONNX say one: but for numbers that shapes were read from.
operators() {
    "$sambaflow" inspect "$1" --graph | awk '/^%/ && $3 != "literal" && $3 != "constant" { print $3 }' | sort | uniq -c
}
for example in lenet resffn gpt2 unet vit; do
    quiet "$build/examples/$example" compile --batch-size 2 --inference --pef-name "$example"
    pef=out/$example/$example.pef
    quiet "$sambaflow" run "$pef" --save "$example.safetensors"
    for opset in 17 23; do
        quiet "$sambaflow" export "$pef" --load "$example.safetensors" --opset "$opset" -o "$example.onnx"
        quiet "$sambaflow" compile "$example.onnx" --output-folder same
        diff <(operators "$pef") <(operators "same/$example/$example.pef") >&2 || fail "$example of opset $opset is another graph"
    done
done

# Training from the file: the first loss is that of the weights, and it falls. The model has a loss of its own.
quiet "$sambaflow" compile lenet.onnx --loss cross_entropy:logits,digit --optimizer sgd --lr 0.05 --output-folder trained
pef=trained/lenet/lenet.pef weights=trained/lenet/lenet.safetensors
loss() { "$sambaflow" run "$pef" --load "$weights" --num-iterations "$1" --seed 5 --json | grep -oE '"name": "loss_1".*' |
    grep -oE '"mean": [0-9.e+-]+' | head -1 | cut -d' ' -f2; }
awk -v first="$(loss 1)" -v last="$(loss 60)" 'BEGIN { exit !(last < 0.7 * first) }' || fail "the loss does not fall"
refused "has no value: the PEF does not say what it starts from" "$sambaflow" run "$pef"
quiet "$sambaflow" measure-performance "$pef" --load "$weights" --num-iterations 3
quiet "$sambaflow" run "$pef" --load "$weights" --num-iterations 5 --save after.safetensors
quiet "$sambaflow" export "$pef" --load after.safetensors -o after.onnx
quiet "$sambaflow" compile lenet.onnx --loss output:loss --output-folder own
"$sambaflow" run own/lenet/lenet.pef --load own/lenet/lenet.safetensors | grep -q '^loss ' || fail "the model's own loss is lost"
quiet "$sambaflow" compile lenet.onnx --loss cross_entropy:logits,digit --freeze 'conv*' --pef frozen.pef
grep -q frozen.safetensors out.log || fail "compile --pef does not say where the weights are"

refused "'lenet.onnx' has no output 'nothing'" "$sambaflow" compile lenet.onnx --loss cross_entropy:nothing,digit
refused "expected KIND:OUTPUT,LABEL" "$sambaflow" compile lenet.onnx --loss cross_entropy
refused "'best' is no loss: expected output, cross_entropy" "$sambaflow" compile lenet.onnx --loss best:logits,digit
refused "no input has a dim \"batch\"" "$sambaflow" compile lenet.onnx --dim batch=3
refused "expected NAME=SIZE" "$sambaflow" compile lenet.onnx --dim batch
refused "no parameter has a name like \"head*\"" "$sambaflow" compile lenet.onnx --loss mse:logits,y --freeze 'head*'
refused "--loss and --inference contradict each other" "$sambaflow" compile lenet.onnx --inference --loss mse:logits,y
refused "which model? Give the path of an .onnx file" "$sambaflow" compile --inference
head -c 200 lenet.onnx >cut.onnx
refused "no ONNX file, or a damaged one" "$sambaflow" compile cut.onnx
refused "No such file" "$sambaflow" compile missing.onnx
refused "'another' is one too many" "$sambaflow" compile lenet.onnx another
quiet "$sambaflow" compile --help
grep -q -- "--loss=KIND:OUTPUT,LABEL" out.log || fail "--help does not show --loss"
[ -z "$(find . -name 'cut*' ! -name cut.onnx)" ] || fail "a refused compile left files"
echo "onnx: written, read again, trained from there"
