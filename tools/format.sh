#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Layout of C by clang-format and of Python by ruff, in the versions below: others lay out otherwise. And no line of more than 130
# columns, but where a line is a row: tables of documentation, messages and statements (.txt), .def, data.
# Usage: tools/format.sh BUILD_FOLDER [--write]; without it, only says what differs. FORMAT=no in the environment of `make
# check` leaves it out.
set -eu
build=$1 write=${2:-} limit=130
env=$build/format-env
if ! git ls-files --error-unmatch tools/format.sh >/dev/null 2>&1; then
    echo "format: this is no checkout of git, which knows the project's files: the layout is not checked" >&2
    exit 0
fi
versions="clang-format==16.0.6 ruff==0.17.6"
if [ "$(cat "$env/ready" 2>/dev/null)" != "$versions" ]; then
    tools/install-packages.sh python >&2
    echo "sambaflow: making $env with $versions" >&2
    rm -rf "$env"
    python3 -m venv "$env"
    # shellcheck disable=SC2086
    if ! "$env/bin/pip" install --quiet --disable-pip-version-check $versions >"$build/format-env.log" 2>&1; then
        cat "$build/format-env.log" >&2
        echo "sambaflow: $versions could not be installed from PyPI; FORMAT=no make check leaves the layout unchecked" >&2
        exit 1
    fi
    echo "$versions" >"$env/ready"
fi
bad=0
if [ "$write" = --write ]; then
    git ls-files -z '*.c' '*.h' | xargs -0 "$env/bin/clang-format" -i
    git ls-files -z '*.py' '*.pyi' | xargs -0 "$env/bin/ruff" check --quiet --fix
    git ls-files -z '*.py' '*.pyi' | xargs -0 "$env/bin/ruff" format --quiet
else
    dry="$env/bin/clang-format --dry-run --Werror"
    git ls-files -z '*.c' '*.h' | xargs -0 -P "$(nproc)" -n 40 $dry 2>"$build/format.log" || {
        grep 'error:' "$build/format.log" | cut -d: -f1 | sort -u | sed 's/^/format: not as clang-format lays it out: /' >&2
        bad=1
    }
    git ls-files -z '*.py' '*.pyi' | xargs -0 "$env/bin/ruff" format --quiet --diff >"$build/format.log" 2>&1 || {
        sed -n 's/^--- /format: not as ruff lays it out: /p' "$build/format.log" >&2
        bad=1
    }
    git ls-files -z '*.py' '*.pyi' | xargs -0 "$env/bin/ruff" check --quiet --output-format concise >&2 || bad=1
fi
# Python's own check (E501) has its exceptions beside the lines. Of Markdown, tables and listings are rows.
# ONNX's schema is as it is.
rows='\.(py|pyi|txt|def|json|jsonl|jinja|gz|svg|pef|npz|npy|safetensors)$'
rows="$rows|^tests/(fuzz/(corpus|found)|unit/files)/|LICENSE|onnx\\.proto\$"
git ls-files | grep -vE "$rows" |
    tr '\n' '\0' |
    xargs -0 awk -v limit=$limit '
        FNR == 1 { listing = 0 }
        FILENAME ~ /\.md$/ && /^ *```/ { listing = !listing }
        length > limit && !(FILENAME ~ /\.md$/ && (listing || /^\|/)) {
            print "format: " FILENAME ":" FNR ": " length " columns, " limit " is the limit" > "/dev/stderr"
            bad = 1
        }
        END { exit bad }' || bad=1
[ $bad = 0 ] || {
    echo "format: make format lays out what the tools can; long lines of prose and shell are wrapped by hand" >&2
    exit 1
}
