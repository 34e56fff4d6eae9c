# SPDX-License-Identifier: Apache-2.0
# Completion for bash, of sambaflow and of applications made with samba_app: the program itself says what a word may become, by
# its option --complete. For an application: complete -F _sambaflow ./digits

_sambaflow() {
    local line=${COMP_LINE:0:COMP_POINT} current candidate
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        if [[ $candidate == :files ]]; then
            compopt -o default
            return
        fi
        COMPREPLY+=("${candidate#"${current%"${current##*=}"}"}") # bash has the part before '=' as a word of its own
    done < <("${words[@]:0:${#words[@]}-1}" --complete "$current" 2>/dev/null)
}
complete -F _sambaflow sambaflow
