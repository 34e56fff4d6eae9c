#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make soak: half of the time in C, half in Python, each its own program that says what it did and what it held, a line a minute.
# Usage: tests/e2e/soak.sh BUILD_FOLDER SECONDS
set -eu
build=$1 half=$(($2 / 2))
"$build/tests/e2e/soak" "$half"
python=$build/python-env/bin/python
if [ -x "$python" ] && "$python" -c "import sambaflow.samba" 2>/dev/null; then
    "$python" tests/python/soak.py "$half"
else
    echo "soak: Python's half is left out: $build/python-env, which make check-torch makes, is not there" >&2
fi
