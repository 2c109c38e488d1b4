"""Completion for zsh: a function that knows all commands, so that no process is started when Tab is pressed."""

from collections.abc import Iterable, Sequence

from kb_client.command_line.command_tree import DescribedCommand, first_sentence
from kb_client.command_line.completion.quoting import in_single_quotes as quoted

_FUNCTIONS = """\
_kb() {
    local command=kb word choices
    local -a subcommands options valued values
    integer at
    _kb_describe
    for ((at = 2; at < CURRENT; at++)); do
        word=${words[at]}
        if (( ${valued[(Ie)$word]} )); then
            ((at++))
        elif (( ${subcommands[(I)${word}:*]} )); then
            command="$command $word"
            _kb_describe
        fi
    done
    if (( ${valued[(Ie)${words[CURRENT - 1]}]} )); then
        _kb_choices "${words[CURRENT - 1]}"
        if (( $#values )); then
            compadd -a values
        else
            _files
        fi
    elif [[ ${words[CURRENT]} == -* ]]; then
        _describe -o option options
    elif (( $#subcommands )); then
        _describe command subcommands
    else
        _files
    fi
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
            f"        valued=({' '.join(name for o in each.options if o.takes_value for name in o.names)}) ;;",
        ]
    lines += ["    esac", "}", "", "_kb_choices() {", "    values=()", "    case $command:$1 in"]
    for each in commands:
        for option in each.options:
            if option.choices:
                patterns = "|".join(quoted(f"{' '.join(each.path)}:{name}") for name in option.names)
                lines.append(f"    {patterns}) values=({' '.join(option.choices)}) ;;")
    return "\n".join([*lines, "    esac", "}", "", _FUNCTIONS])


def _described(words: Iterable[tuple[str, str]]) -> str:
    return " ".join(quoted(f"{word}:{about.replace(':', chr(92) + ':')}") for word, about in words)
