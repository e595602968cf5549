_runner() {
    local list rest front config line=${COMP_LINE:0:COMP_POINT} last skipped=''
    local -a words
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    _runner_classify "${words[@]:1}"
    case $list in
    file)
        mapfile -t COMPREPLY < <(compgen -f -- "$rest")
        compopt -o filenames
        ;;
    directory | optional)
        mapfile -t COMPREPLY < <(compgen -d -- "$rest")
        compopt -o filenames
        ;;
    *)
        mapfile -t COMPREPLY < <(IFS=$'\n' && compgen -W "$(_runner_list "$list" | cut -f 1)" -- "$rest")
        [[ $list != set ]] || compopt -o nospace
        ;;
    esac
    # Readline sees only what is behind the last `=` or `:`.
    last=${words[-1]}
    [[ $COMP_WORDBREAKS != *=* || $COMP_WORDBREAKS != *:* ]] || skipped=${last%"${last##*[=:]}"}
    COMPREPLY=("${COMPREPLY[@]/#/$front}")
    COMPREPLY=("${COMPREPLY[@]#"$skipped"}")
} 2>/dev/null

complete -F _runner runner
