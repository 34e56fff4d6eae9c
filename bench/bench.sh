#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make bench. Usage: bench/bench.sh BUILD_FOLDER [OPTION or CASE ...]; bench.py lists the options
set -eu
build=$1
shift
case " $* " in
    *" --against "*) python=python3 ;; # no peers, so no packages of theirs
    *) python=$(bench/python.sh "$build") ;;
esac
exec "$python" bench/bench.py "$build" "$@"
