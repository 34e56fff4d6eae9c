#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lines and branches of src/ that tests reach, by gcov: a table of folders, and BUILD_FOLDER-coverage/lines.txt, every file with
# the lines that no test reached. Kernels count once, whichever instruction set ran them. Branches that only a failed assertion
# takes are left out.
# Usage: tools/coverage.sh BUILD_FOLDER [TEST]...; without names, all of `make check`'s.
set -eu
build=$1-coverage
shift
tools/install-packages.sh coverage
[ -f "$build/build.ninja" ] || meson setup "$build" -Db_coverage=true -Dbuildtype=plain -Dc_args=-O1 >/dev/null
ninja -C "$build" --quiet
find "$build" -name '*.gcda' -delete
SAMBAFLOW_SEED=${SAMBAFLOW_SEED:-1} meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 4 "$@" \
    >"$build/tests.log" || { tail -30 "$build/tests.log" >&2; exit 1; }
gcovr --root . --filter 'src/' --exclude-unreachable-branches --exclude-throw-branches --gcov-ignore-parse-errors \
    -j "$(nproc)" --json "$build/coverage.json" --txt "$build/lines.txt" "$build" 2>"$build/gcovr.log" ||
    { tail -5 "$build/gcovr.log" >&2; exit 1; }
python3 - "$build/coverage.json" <<'END'
import collections, json, sys

folders = collections.defaultdict(lambda: [0, 0, 0, 0])
for file in json.load(open(sys.argv[1]))["files"]:
    found = folders["/".join(file["file"].split("/")[:-1])]
    for line in file["lines"]:
        if line.get("gcovr/noncode"):
            continue
        found[0] += line["count"] > 0
        found[1] += 1
        found[2] += sum(b["count"] > 0 for b in line["branches"])
        found[3] += len(line["branches"])
folders = dict(sorted(folders.items()))
folders["all"] = [sum(column) for column in zip(*folders.values())]
print(f"{'folder':<28}{'lines':>8}{'reached':>9}{'branches':>10}{'reached':>9}")
for name, (hit, lines, taken, branches) in folders.items():
    print(f"{name:<28}{lines:>8}{hit / max(lines, 1):>9.1%}{branches:>10}{taken / max(branches, 1):>9.1%}")
END
