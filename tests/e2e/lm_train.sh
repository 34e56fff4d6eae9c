#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sambaflow lm train without Python: what it refuses, folders of parts, prepared files. words.sh has it learn.
#
#   lm_train.sh BUILD_FOLDER SOURCE_FOLDER
set -u
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
sambaflow=$build/sambaflow
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $1"
    sed 's/^/     /' out.txt err.txt
}

# refuses NAME STATUS MESSAGE OPTION...
refuses() {
    local name=$1 status=$2 message=$3 got
    shift 3
    "$sambaflow" lm train "$@" >out.txt 2>err.txt </dev/null
    got=$?
    [ "$got" -eq "$status" ] || fail "$name: exit status $got instead of $status"
    grep -qF -- "$message" err.txt || fail "$name: no '$message' in the message"
}
does() {
    local name=$1 text=$2
    shift 2
    "$@" >out.txt 2>err.txt </dev/null || fail "$name: exit status $?"
    grep -qF -- "$text" out.txt || fail "$name: no '$text' in the output"
}

# tensors FILE ROWS LENGTH IDS [TYPES]: a safetensors file of bytes
tensors() {
    local size=$(($2 * $3)) header
    header="{\"input_ids\":{\"dtype\":\"U8\",\"shape\":[$2,$3],\"data_offsets\":[0,$size]}"
    [ $# -lt 5 ] || header+=",\"token_type_ids\":{\"dtype\":\"U8\",\"shape\":[$2,$3],\"data_offsets\":[$size,$((2 * size))]}"
    header+="}"
    while [ $((${#header} % 8)) -ne 0 ]; do header+=" "; done
    printf '%b' "$(printf '\\x%02x\\x%02x\\x00\\x00\\x00\\x00\\x00\\x00' $((${#header} % 256)) $((${#header} / 256)))" >"$1"
    printf '%s' "$header" >>"$1"
    for byte in $4 ${5-}; do printf '%b' "$(printf '\\x%02x' "$byte")"; done >>"$1"
}

# ---- a model of letters: a vocabulary of the text's characters, in which nothing is merged ----
text=$source/examples/data/text.txt
mkdir model bare
tr 'A-Z' 'a-z' <"$text" >story.txt
vocabulary='"?": 0, "\n": 1' next=2
for letter in ' ' "'" , - . ! : ';' 0 1 2 3 4 5 6 7 8 9 {a..z}; do
    vocabulary+=", \"$letter\": $next" next=$((next + 1))
done
cat >model/config.json <<END
{"model_type": "gpt2", "vocab_size": $next, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4,
 "bos_token_id": null, "eos_token_id": null, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
END
cp model/config.json bare
cat >model/tokenizer.json <<END
{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
 "decoder": {"type": "Fuse"}, "truncation": null, "padding": null,
 "model": {"type": "BPE", "vocab": {$vocabulary}, "merges": [], "unk_token": "?", "dropout": null,
  "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false}}
END

# ---- what is refused ----
tensors good.safetensors 4 4 "1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8" "0 1 1 3 0 1 3 2 1 1 1 1 0 0 1 3"
tensors beyond.safetensors 2 3 "1 2 3 4 200 6"
tensors types.safetensors 1 3 "1 2 3" "0 1 7"
tensors nothing.safetensors 1 3 "1 2 3" "0 0 2"
tensors short.safetensors 2 1 "1 2"
tensors none.safetensors 0 4 ""
long=$(printf '1 %.0s' {1..65})
tensors long.safetensors 1 65 "$long"
printf 'x' >data.bin
printf 'a' >one.txt
: >empty.txt
refuses "no model" 1 "which model? Give its folder by --model" --data good.safetensors
refuses "no data" 1 "Give --data PATH" --model model
refuses "data that is not there" 1 "No such file" --model model --data missing.npz
refuses "an unknown kind of file" 1 "or a text (.txt, .text, .md) is expected" --model model --data data.bin
refuses "a text without a tokenizer" 1 "the folder 'bare' has no tokenizer" --model bare --data story.txt
refuses "an empty text" 1 "the text has 0 tokens" --model model --data empty.txt
refuses "a text of one token" 1 "the text has 1 tokens" --model model --data one.txt
refuses "a token beyond the vocabulary" 1 "beyond.safetensors: sequence 1 has token 200 at 1" --model model \
    --data beyond.safetensors
refuses "an unknown type" 1 "sequence 0 has type 7 at token 2" --model model --data types.safetensors
refuses "nothing to learn" 1 "none has a token to learn" --model model --data nothing.safetensors
refuses "prompts of a text" 1 "--learn-prompts: no sequence of the data has a prompt" --model model --data story.txt \
    --learn-prompts
refuses "no sequences" 1 "none has a token to learn" --model model --data none.safetensors
refuses "sequences of one token" 1 "sequences of 1 tokens have no successor" --model model --data short.safetensors
refuses "more tokens than positions" 1 "has learned 64 positions" --model model --data long.safetensors
refuses "a text cut beyond the positions" 1 "has learned 64 positions" --model model --data story.txt --length 65
for lengths in x 3,2 4,4 1 2,, ,2 2,x 9999999999999999999 "$(seq -s, 2 18)"; do
    refuses "lengths $lengths" 64 "expected a number of tokens, 2 or more" --model model --data good.safetensors \
        --length "$lengths"
done
refuses "lengths that do not hold the data" 1 "--length 3: the sequences of good.safetensors have 4 tokens" --model model \
    --data good.safetensors --length 2,3
refuses "another length" 1 "--length 5: the sequences of good.safetensors have 4 tokens" --model model --data good.safetensors \
    --length 5
refuses "a boundary in one article" 1 "no sequence of the data has two articles" --model model --data good.safetensors \
    --attention-boundary article
refuses "an unknown boundary" 1 "expected article or none, given 'page'" --model model --data good.safetensors \
    --attention-boundary page
mkdir parts other
refuses "a folder without data" 1 "has no train_1_of_N.hdf5" --model model --data parts
cp good.safetensors parts/train_1_of_2.safetensors
refuses "a part that is missing" 1 "has 1 of the 2 parts" --model model --data parts
cp good.safetensors parts/train_2_of_3.safetensors
refuses "parts of two splits" 1 "has parts of two splits" --model model --data parts
cp good.safetensors other/train_1_of_1.safetensors
refuses "a fraction of a folder" 1 "--eval-fraction is of a single file" --model model --data other --eval-fraction 0.1
refuses "a target that is a file" 1 "is a file: a folder is expected" --model model --data other --to one.txt
refuses "a target in no folder" 1 "the folder cannot be made" --model model --data other --to no/where
refuses "a batch larger than the data" 1 "a step takes 99 samples but there are only" --model model --data other -b 99
refuses "an option of another command" 64 "there is no option --logits" --model model --data other --logits
[ -z "$(ls no 2>/dev/null)" ] || fail "something was written"

# ---- folders of parts, tests of their own ----
does "a folder without a test" "no test" "$sambaflow" lm train --model model --data other
grep -q "no --to FOLDER" out.txt || fail "nothing says that the model is not kept"
cp good.safetensors other/dev_1_of_1.safetensors
does "a folder with a test" "tokens)" "$sambaflow" lm train --model model --data other -b 3

# ---- prepared files: of five pairs the prompts are not learned, and articles do not see each other ----
if [ -e "$build/libsambaflow-hdf5.so" ]; then
    for number in 1 2 3 4 5; do echo "{\"prompt\": \"say $number\", \"completion\": \"it is $number\"}"; done >pairs.jsonl
    does "prepare" "train" "$sambaflow" prepare -i pairs.jsonl -o prepared -t model --max-seq-length 40 --eos-token '!'
    does "train on prepared files" "to learn" "$sambaflow" lm train --model model --data prepared
    # A pair is "say 1", " it is 1" and the end: 5 tokens and 9, of which the 9 are learned, but for the one that begins the
    # second sequence.
    grep -qF "tokens, 44 to learn" out.txt || fail "train on prepared files: prompts are learned"
    grep -q "^articles       do not see each other" out.txt || fail "train on prepared files: articles see each other"
fi

[ "$failures" -eq 0 ] || exit 1
echo "lm_train: all passed"
