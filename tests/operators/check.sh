#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make prove: every row of the operators' tables against PyTorch, in the environment of make check-torch, with the library as
# it is built now.
# Usage: tests/operators/check.sh BUILD_FOLDER [arguments of prove.py]
set -eu
build=$(cd "$1" && pwd)
shift
python=$build/python-env/bin/python
if ! [ -x "$python" ] || ! "$python" -c "import torch, pytest" 2>/dev/null; then
    echo "sambaflow: make check-torch makes the environment that make prove needs: run it once" >&2
    exit 1
fi
PATH=$build/python-env/bin:$PATH
"$build/python-env/bin/pip" install --quiet --no-build-isolation --no-deps --force-reinstall -Cbuild-dir="$build/python" .
OMP_NUM_THREADS=1 "$python" -W ignore tests/operators/prove.py "$@"
