"""Completion for fish: rules for all commands, so that no process is started when Tab is pressed."""

from collections.abc import Sequence

from kb_client.command_line.command_tree import DescribedCommand, DescribedOption, first_sentence

_FUNCTIONS = """\
# Succeeds if the words before the cursor are this command and its options.
function __kb_is_at
    set -l command kb
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- "$command:$word" $__kb_valued
            set skip 1
        else if contains -- "$command $word" $__kb_commands
            set command "$command $word"
        end
    end
    test "$command" = "$argv"
end
"""


def fish_script(commands: Sequence[DescribedCommand]) -> str:
    """Return the script of fish."""
    valued = [
        _quoted(f"{' '.join(each.path)}:{name}")
        for each in commands
        for option in each.options
        if option.takes_value
        for name in option.names
    ]
    lines = [
        "# Completion of kb for fish, written by `kb completion fish`.",
        f"set -g __kb_commands {' '.join(_quoted(' '.join(each.path)) for each in commands)}",
        f"set -g __kb_valued {' '.join(valued)}",
        "",
        _FUNCTIONS,
        "complete -c kb -e",
    ]
    for each in commands:
        condition = f"-n {_quoted('__kb_is_at ' + ' '.join(each.path))}"
        for name, about in each.subcommands.items():
            lines.append(f"complete -c kb -f {condition} -a {name} -d {_quoted(about)}")
        lines += [f"complete -c kb {condition} {_rule(option)}" for option in each.options]
    return "\n".join([*lines, ""])


def _rule(option: DescribedOption) -> str:
    words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.choices:
        words.append(f"-x -a {_quoted(' '.join(option.choices))}")
    elif option.takes_value:
        words.append("-r")
    return " ".join([*words, f"-d {_quoted(first_sentence(option.help))}"])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
