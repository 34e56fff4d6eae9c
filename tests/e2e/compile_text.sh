#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Graphs' texts compiled by the command line: what a PEF prints is compiled to a PEF that prints the same and computes the same;
# losses and frozen parameters of a text; what is refused says so.
#
#   compile_text.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$(realpath "$0")")/calls.sh"
sambaflow=$build/sambaflow

for example in lenet resffn gpt2; do
    quiet "$build/examples/$example" compile --pef-name "$example"
    "$sambaflow" inspect "out/$example/$example.pef" --graph >"$example.graph"
    quiet "$sambaflow" compile "$example.graph" --output-folder again
    "$sambaflow" inspect "again/$example/$example.pef" --graph >after.graph
    cmp "$example.graph" after.graph || fail "$example: another graph"
done
quiet "$build/examples/lenet" compile --optimizer sgd --momentum 0.5 --weight-decay 0.01 --lr 0.05 --pef-name sgd
quiet "$sambaflow" compile lenet.graph --optimizer sgd --momentum 0.5 --weight-decay 0.01 --lr 0.05 --output-folder sgd
figures() { grep -v 'runs,' "$1"; } # all but the times
"$sambaflow" run out/sgd/sgd.pef --num-iterations 5 --seed 3 >before.txt
"$sambaflow" run sgd/lenet/lenet.pef --num-iterations 5 --seed 3 >after.txt
[ "$(figures before.txt)" = "$(figures after.txt)" ] || { diff before.txt after.txt >&2; fail "training differs"; }

cat >mlp.txt <<'END'
graph "mlp"
%0 = input name="x" dtype=float32 shape=[8,4] : float32[8,4]
%1 = parameter name="w" dtype=float32 shape=[4,3] init=2 init_a=-1 init_b=1 : float32[4,3] "fc"
%2 = parameter name="b" dtype=float32 shape=[3] init=0 init_a=0 init_b=0 : float32[3] "fc"
%3 = matmul %0 %1 : float32[8,3] @FWD "fc"
%4 = add %3 %2 : float32[8,3] @FWD "fc"
output "logits" %4 @FWD
END
quiet "$sambaflow" compile mlp.txt --loss cross_entropy:logits,digit --lr 0.5
loss() { "$sambaflow" run out/mlp/mlp.pef --num-iterations "$1" --seed 5 --json | grep -oE '"name": "loss".*' |
    grep -oE '"mean": [0-9.e+-]+' | head -1 | cut -d' ' -f2; }
awk -v first="$(loss 1)" -v last="$(loss 60)" 'BEGIN { exit !(last < 0.7 * first) }' || fail "the loss does not fall"
quiet "$sambaflow" compile mlp.txt --loss cross_entropy:logits,digit --freeze 'w*' --pef frozen.pef
"$sambaflow" inspect frozen.pef --graph | grep -q '= state name="w"' || fail "w is not frozen"
quiet "$sambaflow" compile mlp.txt --loss cross_entropy:logits,digit --batch-size 8

refused "no parameter has a name like \"q*\"" "$sambaflow" compile mlp.txt --loss cross_entropy:logits,digit --freeze 'q*'
refused "'mlp.txt' has no output 'nothing'" "$sambaflow" compile mlp.txt --loss cross_entropy:nothing,digit
refused "the sizes of 'mlp.txt' are numbers, none has a name" "$sambaflow" compile mlp.txt --dim batch=3
refused "are its own, 8 for a batch, given --batch-size 5" "$sambaflow" compile mlp.txt --batch-size 5
refused "cannot read \"none.graph\"" "$sambaflow" compile none.graph
refused "which model?" "$sambaflow" compile model.pef
echo 'graph "x' >bad.graph
refused "'bad.graph': line 1" "$sambaflow" compile bad.graph
printf 'graph "x"\n\0' >zero.graph
refused "'zero.graph': a text has no byte 0" "$sambaflow" compile zero.graph
sed 's/@FWD/@BCKWD/' mlp.txt >backward.graph
refused "a node of another phase than FWD, %3" "$sambaflow" compile backward.graph
sed 's/output "logits" %4 @FWD/output "logits" %4 @OPT/' mlp.txt >late.graph
refused "of another phase than FWD" "$sambaflow" compile late.graph
