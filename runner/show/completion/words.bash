# For bash and zsh. Each line of _runner_table has, with tabs between them: the name of a list; a word of this list; what
# the word means, if it is told; and for a command or an option the list that its arguments or its value are of (-: it
# takes none; file, directory, optional and strategy are of files).

# Prints the words of list $1, each with a tab and its meaning behind it.
_runner_list() {
    local list word help values folder=.
    while IFS=$'\t' read -r list word help values; do
        [[ $list != "$1" ]] || printf '%s\t%s\n' "$word" "$help"
    done < <(_runner_table)
    if [[ $1 == strategy ]]; then
        [[ $config != */* ]] || folder=${config%/*}
        find "$folder/strategies" -name '*.yaml' 2>/dev/null | sed 's|.*/\(.*\)\.yaml$|\1\tstrategy file|'
    fi
}

# Prints of what list the values of word $2 of list $1 are.
_runner_find_values() {
    local list word help values
    while IFS=$'\t' read -r list word help values; do
        [[ $list != "$1" || $word != "$2" ]] || echo "$values"
    done < <(_runner_table)
}

# Tells of the words behind `runner`, the last of which is completed: in `list` what it may be, in `rest` the part of it
# that this is, in `front` the part before, and in `config` the run file among the words.
_runner_classify() {
    local word previous=''
    list=command rest='' front='' config=''
    for word in "$@"; do
        previous=$rest rest=$word
        [[ $word != *.yaml ]] || config=$word
    done
    [[ $# -gt 1 ]] || return 0
    list=$(_runner_find_values "option $1" "$previous")
    if [[ $rest == -* && ${list:-optional} == *optional ]]; then
        list="option $1"
        if [[ $rest == *=* ]]; then
            list=$(_runner_find_values "$list" "${rest%%=*}")
            front=${rest%%=*}= rest=${rest#*=}
        fi
    elif [[ ${list:--} == - ]]; then
        list=$(_runner_find_values command "$1")
    fi
    [[ $list != set || $rest != *=* ]] || list="set ${rest%%=*}"
}
