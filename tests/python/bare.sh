#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A wheel on Debians with nothing but Python: installs debootstrap, makes a chroot of each release, and there runs
# tests/python/bare.py. As root.
# Usage: tests/python/bare.sh WHEEL FOLDER RELEASE...   FOLDER: with out/digits and digits.safetensors, as
# docs/python.md makes them.
set -eu
wheel=$(readlink -f "$1")
folder=$(readlink -f "$2")
shift 2
command -v debootstrap >/dev/null || apt-get install -y --no-install-recommends debootstrap >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for release in "$@"; do
    root=$work/$release
    debootstrap --variant=minbase --include=python3,python3-venv "$release" "$root" >"$work/log" 2>&1 ||
        { tail "$work/log" >&2; exit 1; }
    mkdir -p "$root/sambaflow/tests/python" "$root/sambaflow/docs" "$root/wheels"
    cp "$wheel" "$root/wheels"
    cp tests/python/bare.py tests/python/page.py "$root/sambaflow/tests/python"
    cp docs/python.md "$root/sambaflow/docs"
    cp -r "$folder" "$root/folder"
    version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    python3 -m pip download --quiet --only-binary :all: --python-version "$version" --dest "$root/wheels" cffi tqdm \
        # nothing in there reaches a registry
    mount -t proc proc "$root/proc"
    status=0
    chroot "$root" sh -ec 'python3 -m venv /env
        /env/bin/pip install --quiet --no-index --find-links /wheels sambaflow
        /env/bin/python /sambaflow/tests/python/bare.py /folder' || status=$?
    umount "$root/proc"
    [ "$status" = 0 ] || exit 1
done
