"""Completion for zsh: a function that knows all commands, so that only names need a process when Tab is pressed."""

from collections.abc import Iterable, Sequence

from kb_client.command_line.command_tree import DescribedCommand, first_sentence
from kb_client.command_line.completion.names import names_of, names_of_arguments
from kb_client.command_line.completion.quoting import in_single_quotes as quoted

_FUNCTIONS = """\
_kb() {
    local command=kb word names
    local -a subcommands options valued arguments values before
    integer at position=1
    before=("${(@)words[2,CURRENT-1]}")
    _kb_describe
    for ((at = 2; at < CURRENT; at++)); do
        word=${words[at]}
        if (( ${valued[(Ie)$word]} )); then
            ((at++))
        elif (( ${subcommands[(I)${word}:*]} )); then
            [[ $command == kb ]] && before=("${(@)words[2,at-1]}")
            command="$command $word"
            _kb_describe
        elif [[ $word != -* ]]; then
            ((position++))
        fi
    done
    if (( ${valued[(Ie)${words[CURRENT - 1]}]} )); then
        _kb_choices "${words[CURRENT - 1]}"
        if [[ -n $names ]]; then
            _kb_names
        elif (( $#values )); then
            compadd -a values
        else
            _files
        fi
    elif [[ ${words[CURRENT]} == -* ]]; then
        _describe -o option options
    elif (( $#subcommands )); then
        _describe command subcommands
    else
        names=${arguments[position]}
        [[ -z $names && ${arguments[-1]} == *... ]] && names=${arguments[-1]}
        names=${names%...}
        if [[ -n $names && $names != - ]]; then
            _kb_names
        else
            _files
        fi
    fi
}

_kb_names() {
    local -a found
    found=("${(@f)$(kb __complete $names "${(Q)PREFIX}" "${before[@]}" 2> /dev/null)}")
    found=(${found:#})
    compadd -a found
}

compdef _kb kb
# Found in fpath, this file is the body of the function, which then has not completed anything yet.
if [[ ${funcstack[1]} == _kb ]]; then
    _kb "$@"
fi
"""


def zsh_script(commands: Sequence[DescribedCommand]) -> str:
    """Return the script of zsh."""
    lines = [
        "#compdef kb",
        "# Completion of kb for zsh, written by `kb completion zsh`.",
        "",
        "_kb_describe() {",
        "    case $command in",
    ]
    for each in commands:
        options = [(name, first_sentence(option.help)) for option in each.options for name in option.names]
        lines += [
            f"    {quoted(' '.join(each.path))})",
            f"        subcommands=({_described(each.subcommands.items())})",
            f"        options=({_described(options)})",
            f"        valued=({' '.join(name for o in each.options if o.takes_value for name in o.names)})",
            f"        arguments=({' '.join(names_of_arguments(each))}) ;;",
        ]
    lines += ["    esac", "}", "", "_kb_choices() {", "    values=() names=", "    case $command:$1 in"]
    for each in commands:
        for option in each.options:
            patterns = "|".join(quoted(f"{' '.join(each.path)}:{name}") for name in option.names)
            if option.choices:
                lines.append(f"    {patterns}) values=({' '.join(option.choices)}) ;;")
            elif kind := names_of(option):
                lines.append(f"    {patterns}) names={kind} ;;")
    return "\n".join([*lines, "    esac", "}", "", _FUNCTIONS])


def _described(words: Iterable[tuple[str, str]]) -> str:
    return " ".join(quoted(f"{word}:{about.replace(':', chr(92) + ':')}") for word, about in words)
