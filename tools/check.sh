#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check: the house rules, then every test. Usage: tools/check.sh BUILD_FOLDER
set -eu
build=$1
tools/check-house.sh
if grep -A 9 "uses features which were added in newer versions" "$build/meson-logs/meson-log.txt"; then
    echo "check: the build files ask for a newer Meson than meson.build says" >&2
    exit 1
fi
[ "${FORMAT:-yes}" = no ] || tools/format.sh "$build"
echo "running alone: examples/train_alone has $(wc -l <examples/train_alone.c) lines and links to" \
    "$(wc -c <"$build/examples/train_alone") bytes," \
    "$(size "$build/examples/train_alone" | awk 'NR == 2 { print $1 }') of them code"
# Where sanitizers are built in, what they find fails the test.
export ASAN_OPTIONS="${ASAN_OPTIONS:-halt_on_error=1:abort_on_error=1}" \
    UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:abort_on_error=1:print_stacktrace=1}"
meson test -C "$build" --no-rebuild --print-errorlogs
