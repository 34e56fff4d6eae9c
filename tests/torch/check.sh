#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-torch: live comparisons with PyTorch. Usage: tests/torch/check.sh BUILD_FOLDER
set -eu
build=$1
python=$(tools/torch-python.sh "$build")
tests/torch/losses.sh "$build" "$python"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$python" tests/torch/make_values.py "$made"
"$python" tests/torch/same_numbers.py "$made" tests/unit/values
"$python" bench/test_report.py
