#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the harnesses over files with clang's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer in BUILD_FOLDER-fuzz,
# and lets each search from stored inputs and those that it makes for so many seconds. What breaks one is left there, as
# crash-NAME-...; new inputs are kept in BUILD_FOLDER-fuzz/found/NAME.
# Usage: tools/fuzz-files.sh BUILD_FOLDER SECONDS [NAME]...
set -eu
plain=$1 build=$1-fuzz seconds=$2
shift 2
[ $# -gt 0 ] || set -- pef graph data checkpoint tune
# Coverage of everything; the flags that meson has for sanitizers are for all, too.
tools/clang-build.sh 16 "$build" -fsanitize=fuzzer-no-link -Db_sanitize=address,undefined -Dbuildtype=debugoptimized \
    -Db_lundef=false -Dlibfuzzer=true
bad=0
for name in "$@"; do
    ninja -C "$build" --quiet "tests/fuzz/fuzz_$name"
    mkdir -p "$build/found/$name" "$build/seeds/$name"
    stored=tests/fuzz/corpus/$name
    [ -d "$stored" ] || stored=
    "$plain/tests/fuzz/fuzz_$name" --seeds "$build/seeds/$name"
    echo "fuzz_$name: $seconds s"
    # Memory and time that an input may take are part of what is looked for.
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 OMP_NUM_THREADS=2 \
        "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=3000 -malloc_limit_mb=600 \
        -max_len=65536 -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="$build/crash-$name-" "$build/found/$name" "$build/seeds/$name" ${stored:+"$stored"} \
        >"$build/fuzz_$name.log" 2>&1 ||
        { bad=1; tail -40 "$build/fuzz_$name.log"; }
    grep 'cov:' "$build/fuzz_$name.log" | tail -1
    grep 'number_of_executed_units\|average_exec_per_sec\|peak_rss_mb' "$build/fuzz_$name.log" || true
done
exit $bad
