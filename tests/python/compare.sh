#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tests/python/check.sh does when the package is installed: its tests, operators and random graphs beside PyTorch. Usage:
# compare.sh BUILD_FOLDER, in which check.sh has made python-env.
set -eu
build=$(cd "$1" && pwd)
python=$build/python-env/bin/python
[ -x "$python" ] || { echo "sambaflow: $python is not there: run make check-torch once" >&2; exit 1; }
PATH=$build/python-env/bin:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")"
SAMBAFLOW_BUILD=$build "$python" -m pytest -q -p no:cacheprovider .
OMP_NUM_THREADS=1 "$python" -W ignore ../operators/prove.py --quick 4
"$build/tests/fuzz/fuzz" --count 400 --write "$folder/graphs"
OMP_NUM_THREADS=1 "$python" -W ignore ../fuzz/onnx_graphs.py "$folder/graphs"
OMP_NUM_THREADS=1 "$python" -W ignore ../fuzz/torch_graphs.py "$folder/graphs"
