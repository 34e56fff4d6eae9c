#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check: the house rules, then every test. Usage: tools/check.sh BUILD_FOLDER
set -eu
build=$1
tools/check-house.sh
meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 3
