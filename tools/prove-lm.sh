#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What docs/text.md, prepare.md, lm.md and generate.md promise of language models, measured whole: two hours, 60 GB of disk. What
# a part prints is kept as BUILD_FOLDER/prove-lm/PART.log. The first four may run beside each other; the last wants a quiet
# machine.
# Usage: tools/prove-lm.sh BUILD_FOLDER [PART ...] (all, one after the other). PYTHON=PATH: one that tests/python/python.sh made,
# as it is: for parts beside each other
#   text     50 MB of mixed text by each tokenizer: ids, texts, speed; TOKENIZERS=FOLDER: real families' files (docs/text.md)
#   prepare  500 drawn preparations beside the second implementation, 50 kills, 10 GB of text in 500 MB of memory
#   tests    the tests of language models with two seeds
#   fuzz     a million changed tokenizers, chat templates and GGUF files each, under AddressSanitizer
#   speed    generation, prompts, fine-tuning and memory beside llama.cpp, PyTorch and PEFT
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- text prepare tests fuzz speed
logs=$build/prove-lm
mkdir -p "$logs"
python=${PYTHON:-$(tests/python/python.sh "$build")}
export SAMBAFLOW_BUILD=$build PATH=$(dirname "$python"):$PATH

part_text() {
    [ -z "${TOKENIZERS:-}" ] || "$python" bench/text_families.py "$TOKENIZERS" --mb 50
    "$python" bench/text_families.py --mb 50
}

part_prepare() {
    PREPARE_DRAWS=500 PREPARE_KILLS=50 SAMBAFLOW_SEED=$RANDOM "$python" -m pytest -q tests/python/test_prepare.py
    local folder
    folder=$(mktemp -d "$logs/large.XXXXXX")
    "$python" tests/python/large_text.py "$folder/in.jsonl" 10
    "$python" tests/python/large_tokenizer.py "$folder/tokenizer.json"
    "$python" -c '
import os, subprocess, sys
_, status, usage = os.wait4(subprocess.Popen(sys.argv[1:]).pid, 0)
print("greatest resident set", usage.ru_maxrss // 1024, "MiB")
sys.exit(status != 0)' "$build/sambaflow" prepare -i "$folder/in.jsonl" -o "$folder/out" -t "$folder/tokenizer.json" \
        --eos-token "<|endoftext|>" --num-training-splits 8 --num-dev-splits 1 --memory 450000000
    "$python" -c '
import h5py, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.hdf5")):
    print(path.name, h5py.File(path)["input_ids"].shape)' "$folder/out"
    rm -rf "$folder"
}

part_tests() {
    for seed in 1 $RANDOM; do
        echo "SAMBAFLOW_SEED=$seed"
        SAMBAFLOW_SEED=$seed "$python" -m pytest -q -n 2 --dist loadfile tests/python/test_lm*.py tests/python/test_gguf*.py \
            tests/python/test_serve.py tests/python/test_words.py tests/python/test_chat.py tests/python/test_text*.py
    done
}

part_fuzz() {
    [ -e "$build/asan/build.ninja" ] || meson setup "$build/asan" --buildtype debugoptimized -Db_sanitize=address >/dev/null
    local name
    for name in text chat gguf; do
        ninja -C "$build/asan" "tests/fuzz/fuzz_$name" | tail -1
        echo "fuzz_$name"
        "$build/asan/tests/fuzz/fuzz_$name" --changes 1000000 tests/fuzz/corpus/$name
    done
}

part_speed() {
    local models=$logs/models
    "$python" -c 'import xllamacpp' 2>/dev/null || pip install --quiet xllamacpp >&2 ||
        echo "llama.cpp's package cannot be installed: it is left out"
    local precisions=(--precision fp32)
    "$build/bench/peak" 1 | grep -q '"bf16_gflops": 0\.0' || precisions+=(--precision bf16)
    "$python" bench/lm_generate.py --build "$build" --keep "$models"
    "$python" bench/lm_train.py --build "$build" --keep "$models" --turns 5 "${precisions[@]}"
    "$python" bench/lm_train.py --build "$build" --keep "$models" --memory
}

for part in "$@"; do
    case $part in
    text | prepare | tests | fuzz | speed) ;;
    *)
        echo "prove-lm: '$part' is no part: give text, prepare, tests, fuzz or speed" >&2
        exit 2
        ;;
    esac
    echo "prove-lm: $part, into $logs/$part.log"
    "part_$part" 2>&1 | tee "$logs/$part.log"
done
