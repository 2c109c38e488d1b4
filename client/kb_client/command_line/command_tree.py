"""The commands of `kb` with their options, as the parsers have them: for completion and the reference page."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_CHOICES: Final = re.compile(r"<([\w-]+(?:\|[\w-]+)+)>")


@dataclass(frozen=True, slots=True)
class DescribedOption:
    names: tuple[str, ...]
    """Names, such as `--output` and `-o`."""
    help: str
    usage: str
    """Names and value, as the help shows them."""
    takes_value: bool
    choices: tuple[str, ...] = ()
    """Values that it takes, if these are few."""
    value: str = ""
    """Word for its value in the help, such as `KB`, if it has one of its own."""


@dataclass(frozen=True, slots=True)
class DescribedArgument:
    usage: str
    help: str
    value: str = ""
    """Word for it in the help, such as `KB`."""
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class DescribedCommand:
    path: tuple[str, ...]
    """Words of the command, which begin with `kb`."""
    help: str
    usage: str
    """Its words with those for options and arguments."""
    options: tuple[DescribedOption, ...]
    arguments: tuple[DescribedArgument, ...]
    examples: tuple[str, ...]
    subcommands: Mapping[str, str]
    """First sentences of its subcommands by their names; empty unless it is a group."""

    @property
    def first_sentence(self) -> str:
        return first_sentence(self.help)


def describe_commands(root: Any) -> Iterator[DescribedCommand]:
    """Yield all commands and groups, each after the group that it is in.

    Args:
        root: command of `typer.main.get_command`, or of a context.
    """
    yield from _walk(root, path=("kb",), parent=None)


def first_sentence(text: str) -> str:
    """Return the beginning of a help text up to its first full stop."""
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


def _walk(command: Any, *, path: tuple[str, ...], parent: Any) -> Iterator[DescribedCommand]:
    context = command.context_class(command, info_name=path[-1], parent=parent)
    subcommands = dict(getattr(command, "commands", {}))
    parameters = command.get_params(context)
    yield DescribedCommand(
        path,
        help=command.help or "",
        usage=" ".join([*path, *command.collect_usage_pieces(context)]),
        options=tuple(_option(each, context) for each in parameters if each.param_type_name == "option"),
        arguments=tuple(_argument(each, context) for each in parameters if each.param_type_name == "argument"),
        examples=tuple(each.strip() for each in (command.epilog or "").split("\n")[2:]),
        subcommands={name: first_sentence(each.help or "") for name, each in subcommands.items()},
    )
    for name, each in subcommands.items():
        yield from _walk(each, path=(*path, name), parent=context)


def _option(parameter: Any, context: Any) -> DescribedOption:
    usage, shown = parameter.get_help_record(context)
    found = _CHOICES.search(usage)
    return DescribedOption(
        names=(*parameter.opts, *parameter.secondary_opts),
        help=shown,
        usage=usage,
        takes_value=not (parameter.is_flag or parameter.count),
        choices=tuple(found[1].split("|")) if found else (),
        value=parameter.metavar or "",
    )


def _argument(parameter: Any, context: Any) -> DescribedArgument:
    usage, shown = parameter.get_help_record(context) or (parameter.metavar or parameter.name, parameter.help or "")
    return DescribedArgument(usage, shown, value=parameter.metavar or "", repeats=parameter.nargs == -1)
