#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the stored inputs of the harnesses over files, tests/fuzz/corpus, anew, where the harness does not make them itself
# (files/replay.c): small models' PEFs, graphs that were wrong once, archives, ONNX models. What a harness has found,
# corpus/NAME/found-*, stays.
# Usage: tests/fuzz/make_corpus.sh BUILD_FOLDER
set -eu
build=$1 corpus=$(dirname "$0")/corpus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in pef graph data; do
    mkdir -p "$corpus/$name"
    find "$corpus/$name" -type f ! -name 'found-*' -delete
done
"$build/tests/fuzz/fuzz_data" --seeds "$work"
cp "$(dirname "$0")"/found/*.txt "$corpus/graph/"
python3 - "$corpus/data" "$work" <<'END' # what the library reads and never writes: archives of arrays and packed IDX
import gzip, io, sys, zipfile

folder, made = sys.argv[1:]
npy = open(f"{made}/x.npy", "rb").read()[1:]
for name, how in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", how) as file:
        for member in ("x.npy", "y.npy"):
            file.writestr(zipfile.ZipInfo(member), npy, how)
    open(f"{folder}/{name}.npz", "wb").write(b"\1" + archive.getvalue())
idx = open(f"{made}/x-idx3-ubyte", "rb").read()[1:]
open(f"{folder}/x-idx3-ubyte.gz", "wb").write(b"\4" + gzip.compress(idx, mtime=0))
END
# A model of each operator among the test cases of the ONNX project (its licence stands beside the folder), where its package is.
if python3 -c "import onnx" 2>/dev/null; then
    mkdir -p "$corpus/onnx"
    find "$corpus/onnx" -type f ! -name 'found-*' -delete
    python3 - "$corpus/onnx" <<'END'
import sys

from onnx.backend.test.case.node import collect_testcases

seen = {}
for case in collect_testcases(None):
    model = case.model.SerializeToString()
    kinds = tuple(sorted({node.op_type for node in case.model.graph.node}))
    if len(model) <= 1500 and (kinds not in seen or len(model) < len(seen[kinds][1])):
        seen[kinds] = (case.name, model)
for name, model in seen.values():
    open(f"{sys.argv[1]}/{name}.onnx", "wb").write(model)
END
    # Models that we wrote, whose nodes say which operators they are.
    "$build/tests/fuzz/fuzz" --write "$work" --count 60 --seed 1 >/dev/null
    find "$work" -name '*.onnx' -size -5k | while read -r file; do cp "$file" "$corpus/onnx/written-$(basename "$file")"; done
fi
model() { # NAME PROGRAM ARGUMENT...
    name=$1 program=$2
    shift 2
    "$build/examples/$program" compile --pef-name "$name" --output-folder "$work" "$@" >/dev/null
    cp "$work/$name/$name.pef" "$corpus/pef/$name.pef"
}
model lenet-inference lenet --batch-size 2 --inference
model lenet lenet --batch-size 2
model gpt2 gpt2 --inference --batch-size 1 --n-layer 1 --n-head 2 --n-embd 8 --block-size 4 --vocab-size 16
model lstm lstm --inference --batch-size 1 --num-layers 1 --hidden-size 4 --block-size 3 --vocab-size 8
du -sh "$corpus"
