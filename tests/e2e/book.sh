#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The pages of the book that need no Python package run as they stand, and the sources of the whole book can be made: each public
# function has its comment, each command its help. The other pages: tests/python/test_book.py.
#
#   book.sh BUILD_FOLDER SOURCE_FOLDER
set -eu
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"
python3 tests/docs/book.py --build "$build" $(grep -L '^```python$' docs/tutorial.md docs/guides/*.md)
python3 tools/docs/stage.py . "$build" "$work/book"
for page in index tutorial reference/c/session.h reference/python/sambaflow.runtime reference/commands/sambaflow-run; do
    ls "$work/book/$page".* >/dev/null
done
functions=$(cat include/sambaflow/*.h "$build"/include/sambaflow/*.h | grep -oE '^SAMBA_API [^;(]*\bsamba_[a-z0-9_]+\(' |
    grep -oE 'samba_[a-z0-9_]+\($' | tr -d '(' | sort -u)
for name in $functions; do
    grep -rqE "^(\.\. c:function::| +)[^:]*\b$name\(" "$work/book/reference/c" || { echo "the book has no $name" && exit 1; }
done
echo "book: $(echo "$functions" | wc -l) functions of the headers are in it"
