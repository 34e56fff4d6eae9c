#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check: the house rules, then every test. Usage: tools/check.sh BUILD_FOLDER
set -eu
build=$1
tools/check-house.sh
echo "running alone: examples/train_alone has $(wc -l <examples/train_alone.c) lines and links to $(wc -c <"$build/examples/train_alone") bytes," \
    "$(size "$build/examples/train_alone" | awk 'NR == 2 { print $1 }') of them code"
meson test -C "$build" --no-rebuild --print-errorlogs
