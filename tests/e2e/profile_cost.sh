#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What profiling costs. Off: callgrind counts the instructions of a run of logistic regression, one sample, against the same
# program whose device has no profiler at all (the line that looks for one is taken out of cpu.c at build time); 0.5 % are
# allowed, and none for having been on before. On: sections of LeNet, batch 32, by a count as well, 0.1 % of a run's instructions;
# make bench has what it takes by the clock.
# Usage: tests/e2e/profile_cost.sh BUILD_FOLDER
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if grep -q fsanitize "$build/compile_commands.json"; then
    echo "what is counted is the plain build's; sanitizers add to everything"
    exit 77
fi
case ${SAMBAFLOW_ISA:-} in avx512 | amx) unset SAMBAFLOW_ISA ;; esac # valgrind's processor has none
fail() { echo "profile_cost: $*" >&2; exit 1; }
"$build/examples/logreg" compile -b 1 --output-folder "$folder" >/dev/null
"$build/examples/lenet" compile -b 32 --output-folder "$folder" >/dev/null

instructions() { # PROGRAM MODEL MODE RUNS: of one run
    OMP_NUM_THREADS=1 valgrind --tool=callgrind --toggle-collect=counted_runs --callgrind-out-file=/dev/null \
        "$build/tests/e2e/$1" "$folder/$2/$2.pef" "$3" "$4" \
        2>&1 | awk -v runs="$4" '/Collected/ { print int($NF / runs + 0.5) }'
}
without=$(instructions profile_cost_without logreg off 50) off=$(instructions profile_cost logreg off 50) \
    again=$(instructions profile_cost logreg again 50)
summary=$(instructions profile_cost logreg summary 50) detailed=$(instructions profile_cost logreg detailed 50)
echo "logreg, 1 sample, instructions of a run: without a profiler $without, off $off (+$((off - without))), off again $again," \
    "summary $summary, detailed $detailed"
[ "$without" -gt 1000 ] || fail "nothing was counted"
[ $((200 * (off - without))) -le "$without" ] || fail "off costs more than 0.5 %"
[ "$again" -eq "$off" ] || fail "off costs $((again - off)) instructions more after it was on"
[ "$summary" -gt "$off" ] && [ "$detailed" -gt "$summary" ] || fail "on costs nothing: is it on?"

off=$(instructions profile_cost lenet off 4) summary=$(instructions profile_cost lenet summary 4)
echo "lenet, 32 samples, instructions of a run: off $off, summary +$((summary - off))"
[ "$off" -gt 1000000 ] && [ "$summary" -gt "$off" ] || fail "nothing was counted"
[ $((1000 * (summary - off))) -le "$off" ] || fail "summary costs more than 0.1 %"
