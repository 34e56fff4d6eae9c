#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `sambaflow lm serve` asked by curl, with models of random weights and a tokenizer of a few words: texts are those of `lm
# generate` and `lm chat`, whole and streamed, alone and many at once; refusals by their status; limits of bytes, time and the
# queue; clients that hang up; the end by signals. tests/python/test_serve.py asks by OpenAI's own package.
#
#   serve.sh BUILD_FOLDER
set -euo pipefail
build=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/calls.sh"
sambaflow=$build/sambaflow
served=
trap 'if [ -n "$served" ]; then kill -9 "$served" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT

model() { # NAME HIDDEN LAYERS POSITIONS MORE
    mkdir "$1"
    cat >"$1/config.json" <<END
{"model_type": "llama", "vocab_size": 11, "hidden_size": $2, "intermediate_size": $2, "num_hidden_layers": $3,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": $4$5}
END
    cat >"$1/tokenizer.json" <<'END'
{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
 "decoder": null, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5,
 "f": 6, "g": 7, "h": 8, "i": 9, "z": 10}}}
END
    cat >"$1/chat_template.jinja" <<'END'
{% for m in messages %}{{ m.role[0] }} {{ m.content }} z {% endfor %}{% if add_generation_prompt %}a{% endif %}
END
}
model model 8 2 64 ', "eos_token_id": 10'
model small 8 1 64 ', "eos_token_id": 10'
model slow 256 4 8192 '' # some thousand tokens a second at most, and no end

# ---- the server, and what it is asked ----

start() { # WORDS: sets url
    "$sambaflow" lm serve --port 0 --threads 1 "$@" >served.txt 2>log.txt &
    served=$!
    for _ in $(seq 600); do
        if grep -q '^[^ ]* at http://127.0.0.1:[0-9]*/v1$' served.txt; then break; fi
        kill -0 "$served" 2>/dev/null || fail "no server with $*: $(cat log.txt)"
        sleep 0.05
    done
    url=$(sed 's/^[^ ]* at //; s/\/v1$//' served.txt)
}
end() { # by SIGTERM
    kill -TERM "$served"
    wait "$served" || fail "exit status $? of a server that was ended: $(cat log.txt)"
    served=
}
ask() { curl -sS --max-time 60 "$@"; }
json() { # PATH BODY MORE
    local path=$1 body=$2
    shift 2
    ask -H 'Content-Type: application/json' -d "$body" "$@" "$url$path"
}
complete() { json /v1/completions "$@"; }
chat() { json /v1/chat/completions "$@"; }
of() { python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }
pieces() { # of events: an expression of each choice c
    python3 -c '
import json, sys
lines = [line for line in sys.stdin.read().split("\n\n") if line]
assert all(line.startswith("data: ") for line in lines), lines
assert lines[-1] == "data: [DONE]", lines
for line in lines[:-1]:
    for c in json.loads(line[6:])["choices"]:
        print(eval(sys.argv[1]), end="")' "$1"
}
same() { [ "$1" = "$2" ] || fail "$3: '$1' and '$2'"; }
status() { # STATUS WORDS CURL...
    local expected=$1 words=$2 got
    shift 2
    got=$(ask -o body.txt -w '%{http_code}' "$@") || fail "no answer: $*"
    same "$got" "$expected" "$*: $(cat body.txt)"
    grep -qF -- "$words" body.txt || fail "$*: $(cat body.txt)"
}
asked() { # N: waits until the model has so many requests
    for _ in $(seq 600); do
        if ask "$url/health" | grep -q "\"requests\":$1}"; then return; fi
        sleep 0.02
    done
    fail "the model never has $1 requests"
}
refuses() { # STATUS WORDS PATH BODY
    status "$1" "$2" -H 'Content-Type: application/json' -d "$4" "$url$3"
}

# ---- texts ----

generate() { "$sambaflow" lm generate --model model --threads 1 "$@" 2>/dev/null; }
start --model model
same "$(ask "$url/health" | of 'd["status"]')" ok health
same "$(ask "$url/v1/models" | of 'd["data"][0]["id"]')" model models
same "$(ask "$url/v1/models/model" | of 'd["owned_by"]')" sambaflow "a model"

greedy='"temperature": 0, "max_tokens": 9'
text=$(generate --prompt 'a b c' --max-new-tokens 9)
[ -n "$text" ] || fail "no text"
complete "{\"model\": \"model\", \"prompt\": \"a b c\", $greedy}" >one.json
same "$(of 'd["choices"][0]["text"]' <one.json)" "$text" "a completion"
made=$(generate --prompt 'a b c' --max-new-tokens 9 --json | of 'd["sequences"][0]["new_tokens"]')
same "$(of '(d["usage"]["prompt_tokens"], d["usage"]["completion_tokens"], d["object"])' <one.json)" \
    "(3, $made, 'text_completion')" usage
same "$(complete "{\"prompt\": [1, 2, 3], $greedy}" | of 'd["choices"][0]["text"]')" "$text" "a prompt of ids"
same "$(complete "{\"prompt\": \"a b c\", \"echo\": true, $greedy}" | of 'd["choices"][0]["text"]')" "a b c$text" "echo"
complete "{\"prompt\": \"a b c\", \"stream\": true, $greedy}" >stream.txt
same "$(pieces 'c["text"]' <stream.txt)" "$text" "a stream"
same "$(pieces 'c["finish_reason"] or ""' <stream.txt)" "$(of 'd["choices"][0]["finish_reason"]' <one.json)" "a stream's end"
complete "{\"prompt\": \"a b c\", \"stream\": true, \"stream_options\": {\"include_usage\": true}, $greedy}" >stream.txt
grep -q '"choices":\[\],"usage":{"prompt_tokens":3' stream.txt || fail "a stream's usage: $(cat stream.txt)"

# the same random numbers as lm generate
random() { generate --prompt 'a b c' --max-new-tokens 9 --temperature 1.5 --top-k 8 --top-p 0.95 --min-p 0.01; }
sampled='"seed": 0, "temperature": 1.5, "top_k": 8, "top_p": 0.95, "min_p": 0.01, "max_tokens": 9'
same "$(complete "{\"prompt\": \"a b c\", $sampled}" | of 'd["choices"][0]["text"]')" "$(random)" "sampling"

# several, as several prompts of lm generate
all='[s["text"] for s in d["sequences"]]' answers='[c["text"] for c in d["choices"]]'
same "$(complete "{\"prompt\": [\"a b c\", \"i\"], $greedy}" | of "$answers")" \
    "$(generate --prompt 'a b c' --prompt i --max-new-tokens 9 --json | of "$all")" prompts
same "$(complete '{"prompt": "b", "n": 2, "temperature": 1.5, "seed": 0, "max_tokens": 9}' | of "$answers")" \
    "$(generate --prompt b --prompt b --max-new-tokens 9 --temperature 1.5 --json | of "$all")" n

# what ends a text
word=$(echo "$text" | cut -d' ' -f3)
same "$(complete "{\"prompt\": \"a b c\", \"stop\": [\"$word\"], $greedy}" |
    of '(d["choices"][0]["text"], d["choices"][0]["finish_reason"])')" \
    "('$(generate --prompt 'a b c' --max-new-tokens 9 --stop "$word")', 'stop')" "stop"
same "$(complete '{"prompt": "a b c", "temperature": 0, "max_tokens": 1}' | of 'd["choices"][0]["finish_reason"]')" length length

# conversations: those of lm chat, and what was said before is kept
spoken=$("$sambaflow" lm chat --model model --max-new-tokens 9 --threads 1 --message 'b c' --message 'd e f' 2>/dev/null)
first=$(echo "$spoken" | head -1)
turn='{"role": "user", "content": "b c"}'
chat "{\"messages\": [$turn], $greedy}" >chat.json
same "$(of 'd["choices"][0]["message"]["content"]' <chat.json)" "$first" "a chat"
more="$turn, {\"role\": \"assistant\", \"content\": \"$first\"},"
more="$more {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"d e f\"}]}"
chat "{\"messages\": [$more], $greedy}" >chat.json
same "$(of 'd["choices"][0]["message"]["content"]' <chat.json)" "$(echo "$spoken" | tail -1)" "a second turn"
kept=$(of 'd["usage"]["prompt_tokens_details"]["cached_tokens"]' <chat.json)
[ "$kept" -ge 6 ] || fail "of a conversation $kept tokens are kept"
chat "{\"messages\": [$more], \"stream\": true, $greedy}" >stream.txt
same "$(pieces 'c["delta"].get("content", "")' <stream.txt)" "$(echo "$spoken" | tail -1)" "a streamed chat"
same "$(pieces 'c["delta"].get("role", "")' <stream.txt)" assistant "a streamed chat's role"

# many at once are what each is alone
words=(a b c d e f g h)
for i in "${!words[@]}"; do generate --prompt "${words[i]} ${words[i / 2]}" --max-new-tokens 40 >"alone$i.txt"; done
asking=()
for times in 1 2 3; do
    for i in "${!words[@]}"; do
        complete "{\"prompt\": \"${words[i]} ${words[i / 2]}\", \"temperature\": 0, \"max_tokens\": 40, \"n\": $times}" \
            >"many$times$i.json" &
        asking+=($!)
    done
done
wait "${asking[@]}"
for times in 1 2 3; do
    for i in "${!words[@]}"; do
        same "$(of '{c["text"] for c in d["choices"]}.pop()' <"many$times$i.json")" "$(cat "alone$i.txt")" "many at once"
        same "$(of 'len(d["choices"])' <"many$times$i.json")" "$times" "many at once"
    done
done

# ---- refusals ----

refuses 400 'the body is no JSON' /v1/completions '{"prompt": '
refuses 400 '"param":"max_token"' /v1/completions '{"prompt": "a", "max_token": 1}'
refuses 400 '"code":"unsupported_parameter"' /v1/chat/completions "{\"messages\": [$turn], \"tools\": [{}]}"
refuses 400 'has 64 tokens and there is room for 64' /v1/completions "{\"prompt\": \"$(printf 'a %.0s' $(seq 64))\"}"
refuses 404 '"code":"model_not_found"' /v1/completions '{"model": "gpt-4", "prompt": "a"}'
refuses 404 'there is no such path' /v1/embeddings '{}'
status 404 model_not_found "$url/v1/models/gpt-4"
status 405 'this path takes POST' "$url/v1/completions"
status 405 'this path takes GET' -X DELETE "$url/health"
status 415 'Content-Type: application/json' -d '{"prompt": "a"}' "$url/v1/completions"
status 403 'pages of this origin' -H 'Origin: http://example.com' "$url/v1/models"
head -c 2000000 /dev/zero | tr '\0' ' ' >large.txt
status 413 'more than the 1048576 bytes' -H 'Content-Type: application/json' --data-binary @large.txt "$url/v1/completions"
status 413 'more than the 1048576 bytes' -H 'Content-Type: application/json' -H 'Transfer-Encoding: chunked' \
    --data-binary @large.txt "$url/v1/completions"
printf '{"prompt": "a\377"}' >bytes.txt
status 400 'no JSON' -H 'Content-Type: application/json' --data-binary @bytes.txt "$url/v1/completions"
printf 'NO HTTP\r\n\r\n' >/dev/tcp/127.0.0.1/"${url##*:}"
same "$(ask "$url/health" | of 'd["status"]')" ok "health after all of it"
grep -q '^POST /v1/completions 200, prompt 3 tokens, 0 of them kept, new [0-9]* tokens, [0-9.]* a second$' log.txt ||
    fail "the log: $(head -5 log.txt)"
grep -q '^GET /health 200$' log.txt || fail "the log has no health"
refused 'give another --port' "$sambaflow" lm serve --model model --port "${url##*:}"
end

# ---- keys, pages, a draft ----

printf 'secret\n\nother \r\n' >keys.txt
start --model model --api-key-file keys.txt --cors http://localhost:3000 --quiet --draft small --max-request-size 1K
same "$(ask "$url/health" | of 'd["status"]')" ok "health without a key"
status 401 invalid_api_key "$url/v1/models"
status 401 invalid_api_key -H 'Authorization: Bearer secre' "$url/v1/models"
status 200 sambaflow -H 'Authorization: Bearer other' "$url/v1/models"
key='Authorization: Bearer secret'
same "$(complete "{\"prompt\": \"a b c\", $greedy}" -H "$key" | of 'd["choices"][0]["text"]')" "$text" "a draft"
complete "{\"prompt\": \"a b c\", \"stream\": true, $greedy}" -H "$key" >stream.txt
same "$(pieces 'c["text"]' <stream.txt)" "$text" "a draft's stream"
ask -i -H 'Origin: http://localhost:3000' "$url/health" >page.txt
grep -qi '^access-control-allow-origin: http://localhost:3000' page.txt || fail "a page: $(cat page.txt)"
ask -i -X OPTIONS -H 'Origin: http://localhost:3000' -H 'Access-Control-Request-Method: POST' "$url/v1/completions" >page.txt
grep -q '^HTTP/1.1 204' page.txt || fail "a page's question: $(cat page.txt)"
status 403 'pages of this origin' -H 'Origin: http://localhost:3001' "$url/health"
status 413 'more than the 1024 bytes' -H 'Content-Type: application/json' -H "$key" \
    -d "{\"prompt\": \"$(printf 'a %.0s' $(seq 1000))\"}" "$url/v1/completions"
end
if grep -q '^[A-Z]* /' log.txt; then fail "--quiet: $(cat log.txt)"; fi

# ---- time: those who are slow, those who wait, those who go ----

start --model slow --timeout 2 --sequences 1
long='"temperature": 0, "max_tokens": 8000'
SECONDS=0
refuses 504 'the 2 seconds that it may take' /v1/completions "{\"prompt\": \"a\", $long}"
[ "$SECONDS" -le 10 ] || fail "an answer that was late took $SECONDS seconds"
complete "{\"prompt\": \"a\", \"stream\": true, $long}" >stream.txt
tail -3 stream.txt | grep -q '"type":"server_error"' || fail "a stream that was late: $(tail -3 stream.txt)"
exec 5<>/dev/tcp/127.0.0.1/"${url##*:}" # a head that comes byte by byte and never ends
printf 'GET /health HTTP/1.1\r\nHost: a\r\nX-Slow: ' >&5
SECONDS=0
while [ "$SECONDS" -lt 30 ]; do
    printf 'x' 2>/dev/null >&5 || break
    code=0
    read -r -t 0.2 -u 5 -N 1 || code=$?
    [ "$code" -gt 128 ] || break # not a timeout of read: the other side has ended
done
exec 5>&-
[ "$SECONDS" -lt 15 ] || fail "a request that does not come holds its connection"
end

start --model slow --sequences 1 --queue 1
comes() { # STREAM: sets client
    curl -sS -H 'Content-Type: application/json' -d "{\"prompt\": \"a\", \"stream\": $1, $long}" "$url/v1/completions" \
        >gone.txt 2>&1 &
    client=$!
}
goes() { # PROCESS COUNT: a client that hangs up, the so manyth
    kill "$1"
    wait "$1" 2>/dev/null || true
    for _ in $(seq 200); do
        if [ "$(grep -c 'the client has gone$' log.txt)" = "$2" ]; then return; fi
        sleep 0.05
    done
    fail "clients that hang up: $(cat log.txt)"
}
comes false
first=$client
asked 1
comes true
asked 2
ask -i -H 'Content-Type: application/json' -d '{"prompt": "c"}' "$url/v1/completions" >third.txt
grep -q '^HTTP/1.1 503' third.txt || fail "a full queue: $(cat third.txt)"
grep -qi '^retry-after: ' third.txt || fail "a full queue says no time: $(cat third.txt)"
goes "$client" 1 # which waits
goes "$first" 2
comes true
asked 1
goes "$client" 3
asked 0
same "$(complete '{"prompt": "a b", "temperature": 0, "max_tokens": 2}' | of 'd["usage"]["completion_tokens"]')" 2 "those after"

# what is on its way ends; a second signal does not wait for it
complete '{"prompt": "a", "stream": true, "temperature": 0, "max_tokens": 600}' >stream.txt &
answer=$!
asked 1
end
wait "$answer" || fail "the answer on its way was cut"
tail -2 stream.txt | grep -q 'data: \[DONE\]' || fail "the answer on its way has no end: $(tail -2 stream.txt)"
start --model slow
complete "{\"prompt\": \"a\", $long}" >cut.txt 2>&1 &
answer=$!
asked 1
kill -INT "$served"
sleep 0.3
kill -0 "$served" || fail "one signal cuts an answer"
SECONDS=0
end
[ "$SECONDS" -le 5 ] || fail "a second signal waits"
wait "$answer" || true
grep -q 'the server ends' cut.txt || fail "an answer that was cut: $(cat cut.txt)"

# ---- command lines ----

refused 'which model?' "$sambaflow" lm serve
refused '--sequences 2 with --draft' "$sambaflow" lm serve --model model --draft small --sequences 2
refused 'expected bytes from 1 to 1073741824' "$sambaflow" lm serve --model model --max-request-size 0K
refused 'is no address' "$sambaflow" lm serve --model model --host no.such.host.invalid --port 0
printf '\n \n' >keys.txt
refused 'has no key' "$sambaflow" lm serve --model model --port 0 --api-key-file keys.txt
refused 'libmicrohttpd-dev' env SAMBAFLOW_PLUGINS=/nowhere "$sambaflow" lm serve --model model --port 0
refused 'prompt' "$sambaflow" lm serve --model model --prompt a
rm model/chat_template.jinja
start --model model
grep -q 'no chat, completions alone' log.txt || fail "nothing said of a template that is not there"
refuses 400 'this model does not chat' /v1/chat/completions "{\"messages\": [$turn]}"
end
