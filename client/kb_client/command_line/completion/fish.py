"""Completion for fish: rules for all commands, so that only names need a process when Tab is pressed."""

from collections.abc import Iterator, Sequence

from kb_client.command_line.command_tree import DescribedCommand, DescribedOption, first_sentence
from kb_client.command_line.completion.names import names_of, names_of_arguments

_FUNCTIONS = """\
# Prints the command of the words before the cursor, and the number of its arguments among them.
function __kb_place
    set -l command kb
    set -l arguments 0
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- "$command:$word" $__kb_valued
            set skip 1
        else if contains -- "$command $word" $__kb_commands
            set command "$command $word"
        else if not string match -q -- '-*' "$word"
            set arguments (math $arguments + 1)
        end
    end
    echo $command
    echo $arguments
end

# Succeeds if the words before the cursor are this command and its options.
function __kb_is_at
    set -l place (__kb_place)
    test "$place[1]" = "$argv"
end

# Succeeds if the cursor is at this argument of a command, which has this comparison with the number of those before it.
function __kb_is_argument
    set -l place (__kb_place)
    test "$place[1]" = "$argv[3..-1]"; and test $place[2] $argv[1] $argv[2]
end

function __kb_names
    set -l before
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- "kb:$word" $__kb_valued
            set skip 1
        else if contains -- "kb $word" $__kb_commands
            break
        end
        set -a before $word
    end
    set -l typed (string unescape -- (commandline -ct))
    kb __complete $argv[1] "$typed" $before 2> /dev/null
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
        lines += _rules_of_arguments(each)
    return "\n".join([*lines, ""])


def _rule(option: DescribedOption) -> str:
    words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.choices:
        words.append(f"-x -a {_quoted(' '.join(option.choices))}")
    elif kind := names_of(option):
        words.append(f"-x -a '(__kb_names {kind})'")
    elif option.takes_value:
        words.append("-r")
    return " ".join([*words, f"-d {_quoted(first_sentence(option.help))}"])


def _rules_of_arguments(command: DescribedCommand) -> Iterator[str]:
    for at, kind in enumerate(names_of_arguments(command)):
        if not kind.startswith("-"):
            comparison = "-ge" if kind.endswith("...") else "-eq"
            condition = _quoted(f"__kb_is_argument {comparison} {at} {' '.join(command.path)}")
            yield f"complete -c kb -f -n {condition} -a '(__kb_names {kind.removesuffix('...')})'"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
