#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds with clang's ThreadSanitizer in BUILD_FOLDER-threads and runs what works by several threads, with two: sessions, random
# graphs and plans of every kind of stage, steps of three models; small stages are shared too. LLVM's OpenMP tells the sanitizer
# through its Archer where a team begins and ends; GCC's does not.
# Usage: tools/check-threads.sh BUILD_FOLDER [UNIT_TEST]...
set -eu
build=$1-threads
shift
[ $# -gt 0 ] ||
    set -- session threads run_state schedule random_schedules function multigraph recurrent starts checkpoint profile stored
tools/clang-build.sh 16 "$build" "-fno-omit-frame-pointer -DSHARED_SECONDS=-1 -DSHARED_COPY=0" \
    -Db_sanitize=thread -Dbuildtype=debugoptimized -Db_lundef=false
archer=$(ls -d /usr/lib/llvm-*/lib/libarcher.so | tail -1)
for name in "$@"; do
    ninja -C "$build" --quiet "tests/unit/test_$name"
done
ninja -C "$build" --quiet tests/fuzz/fuzz sambaflow examples/lenet examples/gpt2 examples/lstm
# The fuzzer draws matrices where LAPACK is there.
! ninja -C "$build" -t query libsambaflow-lapack.so >/dev/null 2>&1 || ninja -C "$build" --quiet libsambaflow-lapack.so
export OMP_NUM_THREADS=2 OMP_TOOL_LIBRARIES="$archer" ARCHER_OPTIONS=verbose=0
export TSAN_OPTIONS=halt_on_error=0:exitcode=66:ignore_noninstrumented_modules=1
# The sanitizer of this version needs addresses where older kernels put them.
fixed=
if setarch -R true 2>/dev/null; then fixed="setarch -R"; fi
bad=0
run() { # LOG COMMAND...
    log=$build/$1.log
    shift
    if $fixed "$@" >"$log" 2>&1; then echo "no race: $*"; else
        echo "FAILED ($?): $*; $log begins:"
        grep -m 1 -A 25 'WARNING: ThreadSanitizer' "$log" || tail -5 "$log"
        bad=1
    fi
}
for name in "$@"; do
    run "$name" "$build/tests/unit/test_$name"
done
run fuzz "$build/tests/fuzz/fuzz" --count 500
for model in lenet gpt2 lstm; do # pooling, attention, gathering and products, forward to optimizer
    "$build/examples/$model" compile --batch-size 4 --pef-name "$model" --output-folder "$build/pef" >/dev/null
    run "$model" "$build/sambaflow" run "$build/pef/$model/$model.pef"
done
exit $bad
