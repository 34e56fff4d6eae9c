#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages of a program and its commands, as it prints them itself (--man): sambaflow.1, sambaflow-run.1 ...
# Usage: make_man.sh PROGRAM FOLDER
# Of an installation, meson says where: FOLDER is then below MESON_INSTALL_DESTDIR_PREFIX.
set -eu
program=$1
folder=${MESON_INSTALL_DESTDIR_PREFIX:+$MESON_INSTALL_DESTDIR_PREFIX/}$2
name=$(basename "$program")
mkdir -p "$folder"

page() { # page WORD...: a command's; its commands follow
    file=$folder/$(echo "$name $*" | sed 's/ *$//; s/ /-/g').1
    "$program" "$@" --man >"$file.new"
    mv "$file.new" "$file"
    for command in $("$program" "$@" --complete '' | cut -f1 | grep -v '^:files$'); do
        page "$@" "$command"
    done
}
page
