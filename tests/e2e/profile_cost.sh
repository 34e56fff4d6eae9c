#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What profiling costs. Off: callgrind counts the instructions of a run of logistic regression, one sample, against the same program whose device has no
# profiler at all (the line that looks for one is taken out of cpu.c at build time); 0.5 % are allowed, and none for having been on before. On: sections of
# LeNet, batch 32, by the clock, the best of many runs of each in turns; 2 % are allowed. A machine may be too busy for that at first: it is looked at again,
# and what was best stays the best of either.
# Usage: tests/e2e/profile_cost.sh BUILD_FOLDER
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if grep -q fsanitize "$build/compile_commands.json"; then
    echo "what is counted is the plain build's; sanitizers add to everything"
    exit 77
fi
fail() { echo "profile_cost: $*" >&2; exit 1; }
"$build/examples/logreg" compile -b 1 --output-folder "$folder" >/dev/null
"$build/examples/lenet" compile -b 32 --output-folder "$folder" >/dev/null

runs=50
instructions() { # PROGRAM MODE: of one run
    OMP_NUM_THREADS=1 valgrind --tool=callgrind --toggle-collect=counted_runs --callgrind-out-file=/dev/null "$build/tests/e2e/$1" "$folder/logreg/logreg.pef" "$2" $runs \
        2>&1 | awk -v runs=$runs '/Collected/ { print int($NF / runs + 0.5) }'
}
without=$(instructions profile_cost_without off) off=$(instructions profile_cost off) again=$(instructions profile_cost again)
summary=$(instructions profile_cost summary) detailed=$(instructions profile_cost detailed)
echo "logreg, 1 sample, instructions of a run: without a profiler $without, off $off (+$((off - without))), off again $again, summary $summary, detailed $detailed"
[ "$without" -gt 1000 ] || fail "nothing was counted"
[ $((200 * (off - without))) -le "$without" ] || fail "off costs more than 0.5 %"
[ "$again" -eq "$off" ] || fail "off costs $((again - off)) instructions more after it was on"
[ "$summary" -gt "$off" ] && [ "$detailed" -gt "$summary" ] || fail "on costs nothing: is it on?"

best_off=1e9 best_summary=1e9 best_detailed=1e9
less() { awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? a : b }'; }
for try in {1..20}; do
    read -r off summary detailed < <(OMP_NUM_THREADS=1 "$build/tests/e2e/profile_cost" "$folder/lenet/lenet.pef" time 1 |
        tr -d '{}":,' | awk '{ for (i = 1; i < NF; i++) if ($i == "best_ms") printf "%s ", $(i + 1); print "" }')
    best_off=$(less "$best_off" "$off") best_summary=$(less "$best_summary" "$summary") best_detailed=$(less "$best_detailed" "$detailed")
    told=$(awk -v off="$best_off" -v summary="$best_summary" -v detailed="$best_detailed" \
        'BEGIN { printf "%.4f ms off, summary %+.2f %%, detailed %+.2f %%", off, 100 * (summary / off - 1), 100 * (detailed / off - 1); exit summary > 1.02 * off }') && break
done
echo "lenet, 32 samples, one thread, best of a run: $told ($try tries)"
awk -v off="$best_off" -v summary="$best_summary" 'BEGIN { exit summary > 1.02 * off }' || fail "summary costs more than 2 %"
