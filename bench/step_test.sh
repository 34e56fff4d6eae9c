#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A smoke test of the benchmark's own contender, bench/step: training and inference of LeNet, the files it writes, its refusals.
# Usage: step_test.sh BUILD_FOLDER
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "step_test: $*" >&2; exit 1; }
like() { grep -qE "$2" <<<"$1" || fail "expected $2, got: $1"; }
number='-?[0-9.]+(e[-+][0-9]+)?'

"$build/examples/lenet" compile --batch-size 4 --output-folder "$folder" --pef-name train --json >/dev/null
"$build/examples/lenet" compile --batch-size 4 --output-folder "$folder" --pef-name infer --inference --json >/dev/null

mapfile -t lines < <(printf 'losses 3\ntime 2\n' | "$build/bench/step" "$folder/train/train.pef" "$folder" 1 train loss label=10)
[ ${#lines[@]} = 3 ] || fail "one line when ready and one for each command, got ${#lines[@]}"
like "${lines[0]}" '^\{"load_ms": .*"base_bytes": [1-9].*"plan_bytes": [1-9].*"threads": 1, "isa": "[a-z0-9]+"\}$'
like "${lines[1]}" "^\{\"losses\": \[$number, $number, $number\], \"first_ms\": $number\}$"
like "${lines[2]}" "^\{\"ms\": \[$number, $number\], \"outside_ms\": $number, \"peak_bytes\": [1-9][0-9]*\}$"
# The files: parameters as they were before the first step, and the inputs of every step.
for file in parameters inputs; do [ -s "$folder/$file.safetensors" ] || fail "$file.safetensors was not written"; done
kept=$(SAMBAFLOW_ISA=generic "$build/bench/step" "$folder/train/train.pef" "$folder" 1 train loss label=10 </dev/null)
like "$kept" '"isa": "generic"'
again=$(printf 'losses 3\n' | "$build/bench/step" "$folder/train/train.pef" "$folder" 1 train loss label=10 | tail -1)
[ "${again%%]*}" = "${lines[1]%%]*}" ] || fail "the same steps twice gave $again and ${lines[1]}"

answer=$(printf 'output %s/logits.npy\ntime 1\n' "$folder" |
    "$build/bench/step" "$folder/infer/infer.pef" "$folder" 1 inference logits label=10 | sed -n 2p)
like "$answer" \
    "^\{\"first_ms\": $number\}$"
[ "$(wc -c <"$folder/logits.npy")" = $((128 + 4 * 10 * 4)) ] || fail "logits.npy is not a header and 4 x 10 floats"

refuses() { # what it says, then its arguments, commands on stdin
    local wanted=$1
    shift
    if said=$("$build/bench/step" "$@" 2>&1 >/dev/null); then fail "accepted: $*"; fi
    like "$said" "$wanted"
}
refuses 'INPUT=CLASSES: label' "$folder/train/train.pef" "$folder" 1 train loss </dev/null
refuses 'no output speed' "$folder/train/train.pef" "$folder" 1 train speed label=10 </dev/null
refuses 'not one of losses, output, time: hurry' "$folder/train/train.pef" "$folder" 1 train loss label=10 <<<"hurry 3"
refuses 'not a number of steps: 0' "$folder/train/train.pef" "$folder" 1 train loss label=10 <<<"time 0"
refuses '^usage' "$folder/train/train.pef" </dev/null

cd "$(dirname "$0")/.."
# A build against itself: the same values; a folder without a build says so.
said=$(bench/bench.sh "$build" --quick --isa generic --against "$build" "logreg b1 inference" "lenet b32 inference")
like "$said" "^lenet b32 inference +$number +$number +[0-9.]+ +[0-9.]+ +[0-9.]+ +same$"
if said=$(bench/bench.sh "$build" --isa sse --against "$build" 2>&1); then fail "accepted --isa sse"; fi
like "$said" "isa sse: .*how other programs are kept to 'sse' is not known here"
if said=$(bench/bench.sh "$build" --against "$folder" 2>&1); then fail "accepted a folder without a build"; fi
like "$said" 'there is no bench/step in it'
if said=$(bench/bench.sh "$build" --against "$build" --last 2>&1); then fail "accepted --against with --last"; fi
like "$said" 'leave out --last'
if said=$(bench/bench.sh "$build" --against "$build" "1.5B" 2>&1); then fail "accepted --against without a step"; fi
like "$said" 'none of these cases is one'
