#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# begun.sh MPI BUILD PROGRAM HOW: two replicas of begun.c. "early" is to fail, soon, by what the other one hears; all else works.
set -u
mpi=$1 build=$2 program=$3 how=$4
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
timeout 50 "$here/launch.sh" "$mpi" 2 "$build" "$program" "$folder" "$how" >"$folder/out" 2>&1
code=$?
if [ "$how" = early ]; then
    [ $code -ne 0 ] && [ $code -ne 124 ] && grep -q "replica 1 has ended, and this one still waits for it" "$folder/out" && exit 0
else
    [ $code -eq 0 ] && [ "$(grep -o 'as it should' "$folder/out" | wc -l)" -eq 2 ] && exit 0
fi
echo "$how ends with $code"
cat "$folder/out"
exit 1
