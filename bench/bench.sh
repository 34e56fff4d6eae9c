#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make bench. Usage: bench/bench.sh BUILD_FOLDER [OPTION or CASE ...]; bench.py lists the options
set -eu
build=$1
shift
python=$(bench/python.sh "$build")
exec "$python" bench/bench.py "$build" "$@"
