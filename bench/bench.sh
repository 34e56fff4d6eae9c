#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make bench. Usage: bench/bench.sh BUILD_FOLDER [CASE ...]
set -eu
build=$1
shift
python=$(tools/torch-python.sh "$build")
exec "$python" bench/bench.py "$build" "$@"
