#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests and the comparisons with PyTorch as on other processors: with each instruction set that this one has, or those that
# are named, and with one thread and two. Our programs and tests obey SAMBAFLOW_ISA, and the libraries beside them are kept to the
# same instructions by variables of their own, as a processor without the others would keep them.
# Usage: tools/every-isa.sh BUILD_FOLDER [check|torch|python ...] [generic|avx2|avx512|amx ...] [1|2 ...]
#   check   every test of make check           torch    losses and gradients beside PyTorch (tests/torch)
#   python  the Python tests, operators and random graphs of tests/python/check.sh, in the environment that make check-torch makes
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
# Every row of the table of sets
known=$(sed -n 's/^ISA(\([a-z0-9]*\),.*/\1/p' src/device/cpu/isa/sets.def)
parts=() isas=() teams=()
for word in "$@"; do
    case $word in
    check | torch | python) parts+=("$word") ;;
    [0-9]*) teams+=("$word") ;;
    *)
        grep -qx "$word" <<<"$known" || {
            echo "every-isa: '$word' is no part (check, torch, python), no instruction set ($(echo $known))" \
                "and no number of threads" >&2
            exit 2
        }
        isas+=("$word")
        ;;
    esac
done
[ ${#parts[@]} -gt 0 ] || parts=(check torch python)
[ ${#isas[@]} -gt 0 ] || mapfile -t isas <<<"$known"
[ ${#teams[@]} -gt 0 ] || teams=(1 2)
pef=$(mktemp -d)
trap 'rm -rf "$pef"' EXIT
"$build/examples/logreg" compile -b 1 --output-folder "$pef" >/dev/null

part() { # PART: with the environment as it is
    case $1 in
    check) meson test -C "$build" --no-rebuild --print-errorlogs --logbase "testlog-$SAMBAFLOW_ISA-$OMP_NUM_THREADS" ;;
    torch) tests/torch/losses.sh "$build" "$(tools/torch-python.sh "$build")" ;;
    python) tests/python/compare.sh "$build" ;;
    esac
}
export -f part
export build

failed=()
for isa in "${isas[@]}"; do
    if ! SAMBAFLOW_ISA=$isa "$build/sambaflow" run "$pef/logreg/logreg.pef" >/dev/null 2>"$pef/said"; then
        grep -q 'is not available' "$pef/said" || { cat "$pef/said" >&2; exit 1; }
        echo "every-isa: $isa is left out: this processor or this build has none"
        continue
    fi
    limits=$(tools/isa-variables.sh "$isa")
    mapfile -t variables <<<"$limits"
    for threads in "${teams[@]}"; do
        for name in "${parts[@]}"; do
            echo "every-isa: $name, $isa, OMP_NUM_THREADS=$threads"
            env "${variables[@]}" OMP_NUM_THREADS="$threads" bash -euo pipefail -c "part $name" || failed+=("$name $isa $threads")
        done
    done
done
[ ${#failed[@]} = 0 ] || { printf 'every-isa: failed: %s\n' "${failed[@]}" >&2; exit 1; }
