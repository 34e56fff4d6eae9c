# SPDX-License-Identifier: Apache-2.0
#
# What tests of the command line share; sourced. `folder` is a new one that goes at the end, and where they run.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
test_name=$(basename "$0" .sh)
fail() { echo "$test_name: $*" >&2; exit 1; }
quiet() { "$@" >out.log 2>&1 || { cat out.log >&2; fail "$* failed"; }; }
# What a call that must fail says.
refused() { # WORDS COMMAND...
    local words=$1
    shift
    if "$@" >out.log 2>&1; then fail "$* was not refused"; fi
    grep -qF -- "$words" out.log || { cat out.log >&2; fail "$* does not say '$words'"; }
}
