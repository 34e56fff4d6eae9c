#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The walk of docs/words.md, without Python: every command of the page runs, in its order, and prints what the page shows, but for
# numbers. What a model writes by sampling is not compared: its words are counted.
#
#   words.sh BUILD_FOLDER SOURCE_FOLDER [--write]    --write: puts what was printed into the page
set -u
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd) write=${3-}
page=$source/docs/words.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
ln -s "$source/examples" examples
PATH=$build:$PATH
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $1"
}

# What lines say without their numbers, the columns' width and the commands' common end.
# A busy machine is told of, which no page is.
masked() { sed -E '/^other programs had /d; s/[0-9]+(\.[0-9]+)?(e-?[0-9]+)?/N/g; s/ +/ /g; s/ $//'; }

# Of the lines of a training the first and the last four epochs, with "..." between.
shortened() {
    awk '/^epoch/ { epochs[++n] = $0; next } n && !done { show() } { print } END { if (n && !done) show() }
        function show(i) {
            for (i = 1; i <= n; i++) if (i <= 2 || i > n - 2) print epochs[i]; else if (i == 3) print "..."
            done = 1
        }'
}

# The command of the page whose first line is "$1", with its further lines and what the page shows, in command and shown
finish() {
    [ -n "$command" ] || return 0
    local code=0
    (eval "${command//$'\\\n'/ }") >out.txt 2>err.txt </dev/null || code=$?
    [ $code -eq 0 ] || fail "exit status $code of: $command"
    shortened <out.txt >now.txt
    case $command in *" lm generate "*) cat out.txt >>written.txt ;; esac
    { printf '$ %s\n' "$command" && cat now.txt; } >>new.txt
    case $command in
    *" lm generate "*) [ -s out.txt ] || fail "nothing came of: $command" ;;
    *)
        if [ -z "$write" ] && ! diff <(printf '%s' "$shown" | masked) <(masked <now.txt) >diff.txt; then
            fail "other words than the page's (<) of: $command"
            cat diff.txt err.txt
        fi
        ;;
    esac
    command='' shown=''
}

command='' shown='' inside='' more=''
: >new.txt
while IFS= read -r line; do
    if [ -n "$inside" ] && [ "$line" = '```' ]; then
        finish
        inside=''
        echo "$line" >>new.txt
    elif [ -z "$inside" ]; then
        [ "$line" != '```console' ] || inside=yes
        printf '%s\n' "$line" >>new.txt
    elif [ -n "$more" ]; then
        command+=$'\n'$line
        case $line in *\\) ;; *) more='' ;; esac
    elif [ "${line#'$ '}" != "$line" ]; then
        finish
        command=${line#'$ '}
        case $line in *\\) more=yes ;; esac
    else
        shown+=$line$'\n'
    fi
done <"$page"

tr -cs "A-Za-z'" '\n' <examples/data/text.txt | sort -u >words.txt
tr -cs "A-Za-z'" '\n' <written.txt | grep -E '..' >new_words.txt
all=$(wc -l <new_words.txt) known=$(grep -cxFf words.txt new_words.txt)
echo "words: $known of $all words of two letters and more are the text's"
[ "$all" -ge 20 ] && [ $((known * 2)) -ge "$all" ] || fail "it writes no words: $(cat written.txt)"

if [ -n "$write" ]; then cp new.txt "$page"; fi
[ "$failures" -eq 0 ] || exit 1
echo "words: all of docs/words.md"
