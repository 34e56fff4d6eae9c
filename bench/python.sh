#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Python that has the peers of `make bench`, making its environment once: BUILD_FOLDER/bench-env sees all of
# BUILD_FOLDER/torch-env (torch, numpy) and adds JAX, ONNX Runtime and what torch.onnx writes files with. A package that does not install
# is reported in one line; bench.py then prints "-" for that peer. Usage: bench/python.sh BUILD_FOLDER
set -eu
env=$1/bench-env
torch=$(tools/torch-python.sh "$1")
if [ ! -e "$env/ready" ]; then
    tools/install-packages.sh bench >&2
    echo "sambaflow: making $env with jax 0.10.2, onnxruntime, onnx and onnxscript" >&2
    rm -rf "$env"
    python3 -m venv "$env" >&2
    packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
    case "$torch" in /*) ;; *) torch=$PWD/$torch ;; esac
    packages "$torch" >"$(packages "$env/bin/python")/torch-env.pth"
    for wanted in "jax[cpu]==0.10.2" "onnxruntime onnx onnxscript"; do
        # Words on purpose: each line is one peer's packages.
        "$env/bin/pip" install --quiet $wanted >&2 || echo "sambaflow: $wanted could not be installed; the bench goes on without" >&2
    done
    touch "$env/ready"
fi
echo "$env/bin/python"
