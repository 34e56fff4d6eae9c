#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a user meets before any command runs: the nearest name for a misspelt command or option, each command's own help and
# version, what shells complete, manual pages. All commands are found by asking the programs, so a new one is tested too.
#
#   command_lines.sh BUILD_FOLDER SOURCE_FOLDER
set -u
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
sambaflow=$build/sambaflow logreg=$build/examples/logreg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $1"
    sed 's/^/     /' out.txt err.txt
}

# refuses MESSAGE COMMAND...: exit status 64, as of all wrong command lines, and the message
refuses() {
    local message=$1
    shift
    "$@" >out.txt 2>err.txt </dev/null
    [ $? -eq 64 ] || fail "exit status of: $*"
    grep -qF -- "$message" err.txt || fail "no '$message': $*"
}

refuses "'rnu' is no command (did you mean run?): give compile, inspect, run, " "$sambaflow" rnu m.pef
refuses "'comple' is no command (did you mean compile?)" "$sambaflow" comple m.onnx
refuses "'xyzzy' is no command: give " "$sambaflow" xyzzy
refuses "give a command: compile, inspect, " "$sambaflow"
refuses "prepare is the first word where it is a command" "$sambaflow" --json prepare
refuses "there is no option --num-itterations: did you mean --num-iterations?" "$sambaflow" run m.pef --num-itterations 3
refuses "there is no option --num-itterations: did you mean --num-iterations?" "$sambaflow" run m.pef --num-itterations=3
refuses "sambaflow: there is no option --frobnicate" "$sambaflow" run m.pef --frobnicate
refuses "--save is not an option of tune" "$sambaflow" tune m.pef --save x
refuses "there is no option --max-seq-lenght: did you mean --max-seq-length?" "$sambaflow" prepare --max-seq-lenght 4
refuses "'trian' is no command (did you mean train?): give compile, train, " "$sambaflow" lm trian
refuses "give a command: compile, train, save" "$sambaflow" lm
refuses "there is no option --mdoel: did you mean --model?" "$sambaflow" lm generate --mdoel x
refuses "there is no option --tpye: did you mean --type?" "$sambaflow" lm export --model a --to b --tpye f16
refuses "--type is not an option of save" "$sambaflow" lm save --model a --load b --to c --type f16
refuses "give the model's folder by --model FOLDER and the GGUF file to write by --to FILE" "$sambaflow" lm export --model a
refuses "--type: expected f32, f16, bf16, q8_0 or q4_0, given 'f8'" "$sambaflow" lm export --model a --to b --type f8
refuses "'trian' is no command (did you mean train?): give compile, run, train, " "$logreg" trian
refuses "there is no option --batchsize: did you mean --batch-size?" "$logreg" compile --batchsize 3
refuses "there is no option --num-itterations: did you mean --num-iterations?" "$logreg" measure-performance --num-itterations 3

# What the programs say of themselves.
"$sambaflow" run --help >out.txt 2>err.txt || fail "run --help"
grep -q -- "--section-types" out.txt || fail "run --help has no --section-types"
grep -q -- "--network" out.txt && fail "run --help has scale's --network"
grep -q "^Usage: sambaflow run " out.txt || fail "run --help does not begin with the command"
grep -q "What is modelled:" out.txt && fail "run --help has the heading of scale"
"$logreg" compile --help >out.txt 2>err.txt || fail "compile --help of an application"
grep -q -- "--dump-after" out.txt || fail "compile --help has no --dump-after"
grep -q -- "--checkpoint-dir" out.txt && fail "compile --help has run's --checkpoint-dir"
"$sambaflow" lm export --help >out.txt 2>err.txt && grep -q -- "--no-tokenizer" out.txt || fail "lm export --help"
"$sambaflow" --help >out.txt 2>err.txt && grep -q "scale  .*Say how fast" out.txt || fail "--help lists no commands"

for words in "help run" "help lm train" help; do # as --help
    # shellcheck disable=SC2086
    "$sambaflow" $words >out.txt 2>err.txt || fail "$words"
    # shellcheck disable=SC2086
    "$sambaflow" ${words#help} --help | cmp - out.txt >err.txt || fail "$words is not --help"
    awk 'length > 79 { exit 1 }' out.txt || fail "$words: a line of more than 79 columns"
done

# Each command there is: --help, --version, a manual page.
words() { "$@" --complete '' | cut -f1 | grep -v '^:files$'; }
count=0
page() { # page TITLE COMMAND...
    local title=$1 word
    shift
    count=$((count + 1))
    "$@" --help >out.txt 2>err.txt && grep -q "^Usage: " out.txt || fail "--help: $*"
    "$@" --version >out.txt 2>err.txt && grep -q "0\.[0-9]" out.txt || fail "--version: $*"
    [ -s "man/$title.1" ] || fail "no page $title.1"
    grep -q "^\.SH OPTIONS" "man/$title.1" || fail "$title.1 has no options"
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww -z "man/$title.1" >out.txt 2>err.txt || fail "groff: $title.1"
        [ -s err.txt ] && fail "groff warns of $title.1"
    fi
    for word in $(words "$@"); do page "$title-$word" "$@" "$word"; done
}
: >out.txt >err.txt
"$source/tools/make_man.sh" "$sambaflow" man >out.txt 2>err.txt || fail "make_man.sh"
page sambaflow "$sambaflow"
[ "$count" -eq 21 ] || fail "$count commands instead of 21: a new one counts here"
[ "$(find man -name '*.1' | wc -l)" -eq "$count" ] || fail "other pages than commands"

# completes EXPECTED COMMAND... : the words that complete the last one
completes() {
    local expected=$1
    shift
    "${@:1:$#-1}" --complete "${@: -1}" >out.txt 2>err.txt || fail "exit status: $*"
    [ "$(cut -f1 out.txt | tr '\n' ' ')" = "$expected" ] || fail "instead of '$expected': $*"
}
completes "measure-performance measure-sections machine " "$sambaflow" m
completes "save serve " "$sambaflow" lm s
completes "--section-types --section-ids --save --seed " "$sambaflow" run --s
completes "measure-performance measure-sections machine " "$sambaflow" help m
completes ":files " "$sambaflow" run m
completes ":files " "$sambaflow" run m.pef --save x
completes ":files " "$sambaflow" run m.pef --save=x
completes "" "$sambaflow" run m.pef --num-iterations ''
completes "fp32 bf16 " "$logreg" compile --precision ''
completes "--precision=bf16 " "$logreg" compile --precision=b
completes "constant " "$logreg" run --lr-schedule con
completes "--type " "$sambaflow" lm export --ty
completes "q8_0 q4_0 " "$sambaflow" lm export --type q

# bash does what the script says; the others are read where they are installed.
# shellcheck source=/dev/null
. "$source/tools/completion/sambaflow.bash"
compopt() { :; }
typed() { # typed EXPECTED LINE
    COMP_LINE=$2 COMP_POINT=${#2} COMPREPLY=()
    _sambaflow
    [ "${COMPREPLY[*]-}" = "$1" ] || fail "bash completes '$2' to '${COMPREPLY[*]-}' instead of '$1'"
}
: >out.txt >err.txt
PATH=$build:$build/examples:$PATH
typed "run report" "sambaflow r"
typed "--no-tokenizer" "sambaflow lm export --no"
typed "bf16" "logreg compile --precision=b" # bash has "--precision=" already
typed "" "sambaflow run m.pef --save x"
if command -v zsh >/dev/null; then
    # What it hands to zsh's own functions. With -o, which is for options, zsh would show no command.
    offered() { # offered EXPECTED WORD...
        local expected=$1
        shift
        # shellcheck disable=SC2016
        zsh -f -c '_describe() { [[ $1 = -* ]] && print -- "$1"; print -rl -- "${(@P)2%%:*}"; }; _files() { print :files; }
            file=$1; shift; words=("$@"); CURRENT=$#; source $file' zsh "$source/tools/completion/_sambaflow" "$@" \
            >out.txt 2>err.txt
        [ "$(tr '\n' ' ' <out.txt)" = "$expected" ] || fail "zsh offers '$(cat out.txt)' instead of '$expected': $*"
    }
    offered "run report " sambaflow r
    offered "--section-types --section-ids --save --seed " sambaflow run --s
    offered ":files " sambaflow run m
fi
if command -v fish >/dev/null; then
    offers=$(fish -c "source '$source/tools/completion/sambaflow.fish'; complete -C 'sambaflow lm tr'" 2>err.txt | cut -f1)
    [ "$offers" = train ] || fail "fish offers '$offers' instead of train"
fi

[ "$failures" -eq 0 ] && echo "all as expected, $count commands"
exit $((failures > 0))
