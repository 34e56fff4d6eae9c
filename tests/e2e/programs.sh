#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every program of examples/programs learns what it says, on one thread, in a new folder. `answer` reads what `digits` left.
# Usage: programs.sh BUILD SOURCE
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1
for file in "$source"/examples/programs/digits.c "$source"/examples/programs/*.c; do
    name=$(basename "$file" .c)
    [ "$name" != digits ] || [ ! -d out/digits ] || continue
    echo "== $name"
    arguments=("$source/examples/data")
    [ "$name" != sharpen ] || arguments=(train --data "${arguments[0]}" --seed "${SAMBAFLOW_SEED:-1}")
    "$build/examples/programs/$name" "${arguments[@]}" >printed 2>&1 || {
        cat printed
        echo "programs.sh: $name failed" >&2
        exit 1
    }
    tail -n 2 printed
done
