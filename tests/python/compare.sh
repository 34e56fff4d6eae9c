#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tests/python/check.sh does when the package is installed: its tests, operators and random graphs beside PyTorch. Usage:
# compare.sh BUILD_FOLDER, in which check.sh has made python-env. The tests run in as many processes as the machine has
# processors for teams of OMP_NUM_THREADS (1 where nobody set it): most of their time is Python's own, which has one thread.
set -eu
build=$(cd "$1" && pwd)
python=$build/python-env/bin/python
[ -x "$python" ] || { echo "sambaflow: $python is not there: run make check-torch once" >&2; exit 1; }
PATH=$build/python-env/bin:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
workers=$(($(nproc) / OMP_NUM_THREADS))
[ "$workers" -ge 1 ] || workers=1
SAMBAFLOW_BUILD=$build "$python" -m pytest -q -p no:cacheprovider -n "$workers" --dist loadfile .
OMP_NUM_THREADS=1 "$python" -W ignore ../operators/prove.py --quick 4
"$build/tests/fuzz/fuzz" --count 400 --write "$folder/graphs"
OMP_NUM_THREADS=1 "$python" -W ignore ../fuzz/onnx_graphs.py "$folder/graphs"
OMP_NUM_THREADS=1 "$python" -W ignore ../fuzz/torch_graphs.py "$folder/graphs"
