# SPDX-License-Identifier: Apache-2.0
# Completion for fish, of sambaflow and of applications made with samba_app: the program itself says what a word may become, by
# its option --complete. For an application: complete -c digits -f -a '(__sambaflow_complete)'

function __sambaflow_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words --complete "$current" 2>/dev/null)
    if contains -- :files $found
        __fish_complete_path "$current"
    else
        printf '%s\n' $found
    end
end
complete -c sambaflow -f -a '(__sambaflow_complete)'
