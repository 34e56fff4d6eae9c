#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `sambaflow lm generate` and `lm chat` on a model of random weights with a tokenizer of a few words: prompts from everywhere,
# text as it is made, JSON, seeds, and what is refused. tests/python/test_lm_generate.py holds texts against those of
# transformers.
#
#   lm_generate.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$(realpath "$0")")/calls.sh"
sambaflow=$build/sambaflow

mkdir model
cat >model/config.json <<'END'
{"model_type": "llama", "vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "eos_token_id": 10}
END
cat >model/tokenizer.json <<'END'
{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
 "decoder": null, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5,
 "f": 6, "g": 7, "h": 8, "i": 9, "z": 10}}}
END
generate() { "$sambaflow" lm generate --model model --max-new-tokens 9 --threads 1 "$@"; }
same() { [ "$1" = "$2" ] || fail "$3: '$1' and '$2'"; }

generate --prompt 'a b c' >one.txt 2>told.txt
grep -q "warning: the folder 'model' has no weights: random ones are taken" told.txt ||
    fail "random weights go unsaid: $(cat told.txt)"
grep -q '^prompt 3 tokens, .* a second; new [0-9]* tokens, .* a second$' told.txt || fail "no speed: $(cat told.txt)"
printf 'a b c' | generate >two.txt 2>/dev/null
printf 'a b c' >prompt.txt
generate --prompt-file prompt.txt >three.txt 2>/dev/null
generate --prompt 'a b c' --chunk 1 >four.txt 2>/dev/null
for other in two three four; do cmp one.txt $other.txt || fail "$other: another text"; done
[ -s one.txt ] || fail "no text"

# ids are those of the words, and JSON has the same
ids=$(generate --prompt-ids 1,2,3 2>/dev/null)
generate --prompt 'a b c' --json >one.json 2>/dev/null
same "$(tr -d ' \n' <one.json | grep -oE '"ids":\[[0-9,]*\]' | grep -oE '[0-9]+' | tr '\n' ' ')" "$ids" "ids"
grep -q '"end": "\(length\|stop\)"' one.json || fail "no end"

# sequences side by side are what each is alone
generate --prompt 'a b c' --prompt 'i' --json >both.json 2>/dev/null
generate --prompt 'i' --json >second.json 2>/dev/null
texts() { grep '"text"' "$1"; }
same "$(texts both.json)" "$(texts one.json)
$(texts second.json)" "two sequences"

# random, by its seed
random() { generate --prompt 'a b c' --temperature 1.5 --top-k 8 --top-p 0.95 --min-p 0.01 --ignore-eos --seed "$@" 2>/dev/null; }
same "$(random 1)" "$(random 1)" "a seed"
[ "$(random 1)" != "$(random 2)" ] || [ "$(random 1)" != "$(random 3)" ] || fail "seeds change nothing"

# a smaller model drafts: greedy text stays what it is, and random text has its seed
cp -r model small
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' small/config.json
generate --prompt 'a b c' --draft small >drafted.txt 2>told.txt
cmp one.txt drafted.txt || fail "a draft: another text"
grep -q '^draft [0-9]* tokens, [0-9]* % of them accepted, in [0-9]* runs$' told.txt || fail "a draft: $(cat told.txt)"
generate --prompt 'a b c' --draft small --draft-tokens 2 --draft-base float32 --json 2>/dev/null | grep -q '"acceptance": ' ||
    fail "a draft: no acceptance"
same "$(random 1 --draft small)" "$(random 1 --draft small)" "a seed of a draft"

# a conversation: each reply is what generate makes of the text so far
cat >model/chat_template.jinja <<'END'
{% for m in messages %}{{ m.role[0] }} {{ m.content }} z {% endfor %}{% if add_generation_prompt %}a{% endif %}
END
chat() { "$sambaflow" lm chat --model model --max-new-tokens 9 --threads 1 "$@" 2>/dev/null; }
printf 'b c\n\nd e f\n' | chat >spoken.txt
first=$(generate --prompt 'u b c z a' 2>/dev/null)
second=$(generate --prompt "u b c z a $first z u d e f z a" 2>/dev/null)
same "$(cat spoken.txt)" "$first
$second" "a conversation"
same "$(chat --message 'b c' --message 'd e f')" "$(cat spoken.txt)" "messages"
chat --message 'b c' --message 'd e f' --json >spoken.json
same "$(grep -c '"role": "assistant"' spoken.json)" 2 "JSON"
grep -qF "\"content\": \"$second\"" spoken.json || fail "JSON: $(cat spoken.json)"
same "$(chat --system 'h i' --message 'b')" "$(generate --prompt 's h i z u b z a' 2>/dev/null)" "a system's words"
same "$(chat --template '{{ messages[0].content }}' --message 'b c')" "$(generate --prompt 'b c' 2>/dev/null)" "a template"
random_chat() { chat --message b --message b --temperature 1 --seed "$1"; }
same "$(random_chat 4)" "$(random_chat 4)" "a seed of a conversation"

refuses() { # SENTENCE WORDS
    local sentence=$1
    shift
    if "$sambaflow" lm generate "$@" >out.txt 2>err.txt </dev/null; then fail "not refused: $*"; fi
    grep -qF -- "$sentence" err.txt || fail "$*: $(cat err.txt)"
    [ ! -s out.txt ] || fail "$*: text all the same"
}
refuses "which model?" --prompt a
refuses "a prompt is given by --prompt" --model model a
refuses "a prompt has no tokens" --model model
refuses "more than the capacity of 2 tokens" --model model --prompt 'a b c' --capacity 2
refuses "vocabulary has 11 tokens" --model model --prompt-ids 11
refuses "give all prompts as ids, or none" --model model --prompt-ids 1 --prompt a
refuses "has no effect" --model model --prompt a --top-k 3
: >model/pytorch_model.bin
refuses "has weights in \"pytorch_model.bin\", and neither model.safetensors" --model model --prompt a
mv model/pytorch_model.bin model/model-00001-of-00002.safetensors
refuses "has weights in \"model-00001-of-00002.safetensors\"" --model model --prompt a
rm model/model-00001-of-00002.safetensors
refuses "nowhere/config.json" --model nowhere --prompt a
refuses "give its folder by --draft" --model model --prompt a --draft-tokens 3
refuses "give its folder by --draft" --model model --prompt a --draft-base int8
refuses "expected float32, bfloat16, int8 or int4" --model model --prompt a --draft small --draft-base int2
refuses "random ones are float32" --model model --prompt a --base int8
sed -i 's/"z": 10/"z": 9, "i": 10/; s/"i": 9, //' small/tokenizer.json
refuses "a draft needs the same tokenizer" --model model --prompt a --draft small
sed -i 's/, "i": 10//' small/tokenizer.json
refuses "has 10 tokens and the model's 11: a draft needs the same" --model model --prompt a --draft small
if "$sambaflow" lm chat --model model --prompt a >out.txt 2>err.txt; then fail "chat takes --prompt"; fi
grep -qF "prompt" err.txt || fail "$(cat err.txt)"
if "$sambaflow" lm chat --model model --message a --template tols >out.txt 2>err.txt; then fail "a misspelt template"; fi
grep -qF "no chat template of the name 'tols'" err.txt || fail "$(cat err.txt)"
for option in --logits --no-dropout '--lora-rank 2 --lora-dropout 0.5'; do
    # shellcheck disable=SC2086
    if "$sambaflow" lm compile --model model --inference $option >out.txt 2>err.txt; then fail "no effect: $option"; fi
    grep -qF "are training's: leave them or --inference out" err.txt || fail "$(cat err.txt)"
done
rm model/chat_template.jinja
if "$sambaflow" lm chat --model model --message a >out.txt 2>err.txt; then fail "chat without a template"; fi
grep -qF "template" err.txt || fail "$(cat err.txt)"
rm model/tokenizer.json
refuses "tokenizer" --model model --prompt a
if generate --prompt-ids 1 >/dev/full 2>err.txt; then fail "a full disk goes unseen"; fi
generate --prompt-ids 1 >/dev/null 2>&1 || fail "ids need no tokenizer"
