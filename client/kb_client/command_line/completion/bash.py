"""Completion for bash: a function that knows all commands, so that no process is started when Tab is pressed."""

from collections.abc import Sequence

from kb_client.command_line.command_tree import DescribedCommand
from kb_client.command_line.completion.quoting import in_single_quotes as quoted

_FUNCTIONS = """\
_kb() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=kb subcommands options valued choices at word
    _kb_describe
    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [[ " $valued " == *" $word "* ]]; then
            ((at++))
        elif [[ " $subcommands " == *" $word "* ]]; then
            command="$command $word"
            _kb_describe
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
    fi
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
            f"        valued={quoted(' '.join(_valued(each)))} ;;",
        ]
    lines += ["    esac", "}", "", "_kb_choices() {", "    choices=", "    case $command:$1 in"]
    for each in commands:
        for option in each.options:
            if option.choices:
                patterns = "|".join(quoted(f"{' '.join(each.path)}:{name}") for name in option.names)
                lines.append(f"    {patterns}) choices={quoted(' '.join(option.choices))} ;;")
    return "\n".join([*lines, "    esac", "}", "", _FUNCTIONS])


def _valued(command: DescribedCommand) -> list[str]:
    return [name for option in command.options if option.takes_value for name in option.names]
