#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Python that has torch 2.13.0, making its environment once. Usage: tools/torch-python.sh BUILD_FOLDER
set -eu
env=$1/torch-env
if [ ! -e "$env/ready" ]; then
    tools/install-packages.sh python >&2
    echo "sambaflow: making $env with torch 2.13.0 and numpy" >&2
    rm -rf "$env"
    python3 -m venv "$env" >&2
    "$env/bin/pip" install --quiet torch==2.13.0 numpy >&2
    touch "$env/ready"
fi
echo "$env/bin/python"
