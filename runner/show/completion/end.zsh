_runner() {
    local list rest front config line suffix=' '
    local -a found told
    _runner_classify "${(@)words[2,CURRENT-1]}" "$PREFIX"
    IPREFIX+=$front
    PREFIX=$rest
    case $list in
    file) _files ;;
    directory | optional) _files -/ ;;
    *)
        while IFS= read -r line; do
            found+=("${line%%$'\t'*}")
            told+=("${${line%$'\t'}/$'\t'/  -- }")
        done < <(_runner_list "$list")
        [[ $list != set ]] || suffix=''
        compadd -S "$suffix" -l -d told -a found
        ;;
    esac
}

# The function is called by the file that zsh loads it from, but not where a script reads it.
if [[ ${funcstack[1]:-} == _runner ]]; then
    _runner "$@"
else
    compdef _runner runner
fi
