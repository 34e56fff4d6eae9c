#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 beside this machine's own build and runs what is built by qemu-user: every unit test on a processor that
# has all that ARM has (max), those that depend on what a processor has once more on one without bfloat16 (cortex-a72). Then what
# the programs for both make and train is compared (tests/arm/same.sh), and the kernels' loops are read for products and sums that
# are not fused (check_fused.py).
#
# The second processor differs from the first in one thing alone, that products of bfloat16 are of floats there; so all tests
# twice would be the same code twice, at an emulator's speed.
# Usage: tools/check-arm.sh BUILD_FOLDER [fused|unit|plain|same ...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 arm=$1-arm
shift
[ $# -gt 0 ] || set -- fused unit plain same
[ "$(uname -m)" != aarch64 ] || { echo "check-arm: this is an aarch64 machine, where make check does it" >&2; exit 2; }
# Programs whose code asks what the processor has
plain=(machine dense contract rows attention precision)
tools/install-packages.sh arm
[ -f "$arm/build.ninja" ] || meson setup "$arm" --cross-file tools/aarch64.ini >"$arm.log" || { cat "$arm.log" >&2; exit 1; }
rm -f "$arm.log"
ninja -C "$arm" --quiet
export OMP_WAIT_POLICY=passive # threads that wait in turns would keep the emulator from those that work
export SAMBAFLOW_EMULATED=4    # tests/seed.h: one case in four of tests that try many alike
failed=()
tests() { # CPU TEST...
    QEMU_CPU=$1 meson test -C "$arm" --no-rebuild --print-errorlogs --suite unit --timeout-multiplier 10 \
        --logbase "testlog-$1" "${@:2}"
}
read_loops() {
    local read=(python3 tools/check_fused.py aarch64-linux-gnu-objdump)
    # It finds what it is for.
    echo 'void add(float *d, const float *a, const float *b, long n) { for (long i = 0; i < n; i++) d[i] += a[i] * b[i]; }' |
        aarch64-linux-gnu-gcc -O3 -ffp-contract=off -xc - -c -o "$arm/apart.o"
    local seen
    seen=$("${read[@]}" "$arm/apart.o" src/device/cpu) || true # which exits with 1, as it is to
    [[ $seen == *'add: a loop '*' multiplies and adds apart'* ]] ||
        { echo "check_fused: a product and a sum apart are not seen" >&2; return 1; }
    "${read[@]}" "$arm/src/device/cpu/libkernels_neon.a" src/device/cpu --table
}
for part in "$@"; do
    begin=$SECONDS
    case $part in
    fused) read_loops ;;
    unit) tests max ;;
    plain) tests cortex-a72 "${plain[@]}" ;;
    same) QEMU_CPU=max tests/arm/same.sh "$build" "$arm" && QEMU_CPU=cortex-a72 tests/arm/same.sh "$build" "$arm" gpt2 ;;
    *) echo "check-arm: '$part' is no part (fused, unit, plain, same)" >&2; exit 2 ;;
    esac || failed+=("$part")
    echo "check-arm: $part took $((SECONDS - begin)) s"
done
[ ${#failed[@]} = 0 ] || { echo "check-arm: failed: ${failed[*]}" >&2; exit 1; }
