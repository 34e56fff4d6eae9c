#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make docs: the book as static HTML in BUILD_FOLDER/docs, to be read from file:// without a network. Sphinx, MyST and Furo come
# from PyPI once, into an environment of their own; then nothing is fetched. Usage: tools/docs.sh BUILD_FOLDER
set -eu
build=$(cd "$1" && pwd)
env=$build/docs-env
packages="sphinx==9.0.4 myst-parser==5.2.0 furo==2025.12.19"
if [ "$(cat "$env/ready" 2>/dev/null)" != "$packages" ]; then
    tools/install-packages.sh python >&2
    echo "sambaflow: making $env with $packages" >&2
    rm -rf "$env"
    python3 -m venv "$env"
    # shellcheck disable=SC2086
    if ! "$env/bin/pip" install --quiet --disable-pip-version-check $packages >"$build/docs-env.log" 2>&1; then
        cat "$build/docs-env.log" >&2
        echo "sambaflow: $packages could not be installed from PyPI; the pages of docs/ can be read as they are" >&2
        exit 1
    fi
    echo "$packages" >"$env/ready"
fi
"$env/bin/python" tools/docs/stage.py . "$build" "$build/docs-source"
rm -rf "$build/docs.new"
"$env/bin/sphinx-build" -q -W --keep-going -E -j auto -b html -c tools/docs -d "$build/docs-trees" \
    "$build/docs-source" "$build/docs.new"
rm -rf "$build/docs"
mv "$build/docs.new" "$build/docs"
echo "docs: $build/docs/index.html"
