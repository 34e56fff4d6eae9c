#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Python that has the peers of `make bench`, making its environment once: BUILD_FOLDER/bench-env sees all of
# BUILD_FOLDER/torch-env (torch, numpy) and adds JAX, ONNX Runtime, what torch.onnx writes files with, transformers, and this
# package from the sources as they are now. What does not install is reported in one line; bench.py then prints "-" for it. Usage:
# bench/python.sh BUILD_FOLDER
set -eu
env=$1/bench-env
torch=$(tools/torch-python.sh "$1")
packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
lines="jax[cpu]==0.10.2
onnxruntime onnx onnxscript
transformers
cffi tqdm meson-python meson ninja"
if [ "$(cat "$env/ready" 2>/dev/null)" != "$lines" ]; then
    tools/install-packages.sh bench >&2
    echo "sambaflow: making $env with jax 0.10.2, onnxruntime, onnx, onnxscript and transformers" >&2
    rm -rf "$env"
    python3 -m venv "$env" >&2
    case "$torch" in /*) ;; *) torch=$PWD/$torch ;; esac
    packages "$torch" >"$(packages "$env/bin/python")/torch-env.pth"
    echo "$lines" | while read -r wanted; do
        # Words on purpose: each line is one peer's packages.
        "$env/bin/pip" install --quiet $wanted >&2 || echo \
            "sambaflow: $wanted could not be installed; the bench goes on without" >&2
    done
    echo "$lines" >"$env/ready"
fi
build=$(cd "$1" && pwd)
PATH=$build/bench-env/bin:$PATH "$env/bin/pip" install --quiet --no-build-isolation --no-deps --force-reinstall \
    -Cbuild-dir="$build/python" . >&2 ||
    echo "sambaflow: the Python package could not be installed; the bench goes on without" >&2
echo "$env/bin/python"
