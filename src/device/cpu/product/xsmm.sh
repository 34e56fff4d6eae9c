#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes one object of the parts of libxsmm.a that xsmm.h names, with every other name local. The BLAS that libxsmm would call is
# the stand-in that comes with it: none of what is named multiplies by it.
# Usage: xsmm.sh OBJECT HEADER NM OBJCOPY COMPILER [ARGUMENT]...
set -eu
object=$1 header=$2 nm=$3 objcopy=$4
shift 4
names=$(sed -n 's/^#define libxsmm_\([a-z_]*\) samba_xsmm_\1$/\1/p' "$header")
wanted= kept=
for name in $names; do
    wanted="$wanted -Wl,-u,libxsmm_$name"
    kept="$kept --redefine-sym libxsmm_$name=samba_xsmm_$name"
done
# -d: what is common to several objects gets its place here, or it would stay a name that others see. A sanitizer's library
# belongs to the program.
"$@" -fno-sanitize=all -r -nostdlib -o "$object" $wanted -Wl,-d -Wl,-Bstatic -lxsmm -lxsmmnoblas
"$objcopy" $kept "$object"
kept=
for name in $names; do
    kept="$kept --keep-global-symbol=samba_xsmm_$name"
done
"$objcopy" $kept "$object"
others=$("$nm" -g --defined-only "$object" | awk '$3 !~ /^samba_xsmm_/ { print $3 }')
[ -z "$others" ] || { echo "xsmm.sh: these names of libxsmm are still seen by others: $others" >&2; exit 1; }
