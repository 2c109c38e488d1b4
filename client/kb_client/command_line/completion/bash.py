"""Completion for bash: a function that knows all commands, so that only names need a process when Tab is pressed."""

from collections.abc import Sequence

from kb_client.command_line.command_tree import DescribedCommand
from kb_client.command_line.completion.names import names_of, names_of_arguments
from kb_client.command_line.completion.quoting import in_single_quotes as quoted

_FUNCTIONS = """\
_kb() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=kb subcommands options valued arguments choices names= at word position=0
    local -a before=("${COMP_WORDS[@]:1:COMP_CWORD - 1}")
    _kb_describe
    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [[ " $valued " == *" $word "* ]]; then
            ((at++))
        elif [[ " $subcommands " == *" $word "* ]]; then
            [[ $command == kb ]] && before=("${COMP_WORDS[@]:1:at - 1}")
            command="$command $word"
            _kb_describe
        elif [[ $word != -* ]]; then
            ((position++))
        fi
    done
    COMPREPLY=()
    if [[ " $valued " == *" $previous "* ]]; then
        # Without known values it completes the names of files.
        _kb_choices "$previous"
        [[ -n $choices ]] && COMPREPLY=($(compgen -W "$choices" -- "$current"))
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ -n $subcommands ]]; then
        COMPREPLY=($(compgen -W "$subcommands" -- "$current"))
    else
        _kb_argument
    fi
    [[ -n $names ]] && _kb_names
}

_kb_argument() {
    local -a kinds=($arguments)
    ((${#kinds[@]})) || return
    local last=${kinds[${#kinds[@]} - 1]}
    names=${kinds[position]-}
    [[ -z $names && $last == *... ]] && names=$last
    names=${names%...}
    [[ $names == - ]] && names=
}

_kb_names() {
    local name typed=${current//\\\\/}
    [[ $current == [\\"\\']* ]] && typed=${current#?}
    compopt +o default 2> /dev/null
    while IFS= read -r name; do
        if [[ $current != [\\"\\']* ]]; then
            printf -v name %q "$name"
        elif [[ $name == *[\\"\\'\\`\\\\\\$!]* ]]; then
            continue
        fi
        COMPREPLY+=("$name")
    done < <(kb __complete "$names" "$typed" "${before[@]}" 2> /dev/null)
}

complete -o default -F _kb kb
"""


def bash_script(commands: Sequence[DescribedCommand]) -> str:
    """Return the script of bash."""
    lines = [
        "# Completion of kb for bash, written by `kb completion bash`.",
        "",
        "_kb_describe() {",
        "    case $command in",
    ]
    for each in commands:
        lines += [
            f"    {quoted(' '.join(each.path))})",
            f"        subcommands={quoted(' '.join(each.subcommands))}",
            f"        options={quoted(' '.join(name for option in each.options for name in option.names))}",
            f"        valued={quoted(' '.join(_valued(each)))}",
            f"        arguments={quoted(' '.join(names_of_arguments(each)))} ;;",
        ]
    lines += ["    esac", "}", "", "_kb_choices() {", "    choices=", "    case $command:$1 in"]
    for each in commands:
        for option in each.options:
            patterns = "|".join(quoted(f"{' '.join(each.path)}:{name}") for name in option.names)
            if option.choices:
                lines.append(f"    {patterns}) choices={quoted(' '.join(option.choices))} ;;")
            elif kind := names_of(option):
                lines.append(f"    {patterns}) names={kind} ;;")
    return "\n".join([*lines, "    esac", "}", "", _FUNCTIONS])


def _valued(command: DescribedCommand) -> list[str]:
    return [name for option in command.options if option.takes_value for name in option.names]
