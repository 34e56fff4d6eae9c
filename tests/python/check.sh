#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python package against PyTorch. Usage: tests/python/check.sh BUILD_FOLDER
set -eu
build=$(cd "$1" && pwd)
env=$build/python-env
tests/python/python.sh "$build" >/dev/null
PATH=$env/bin:$PATH

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
