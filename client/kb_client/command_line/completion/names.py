"""Names that a shell completes a word with: it runs `kb __complete KIND TYPED OPTION...` (`program.py`) after Tab.

The options are those before the command, which say where to ask. Whatever goes wrong, there are no names.
"""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

from kb_client.command_line.command_tree import DescribedArgument, DescribedCommand, DescribedOption

WITHIN_S: Final = 1.0
"""Time limit of all, since the shell does nothing else meanwhile."""
MAX_NAMES: Final = 100
_KINDS: Final = {"KB": "knowledge-bases", "PROFILE": "profiles"}
"""Kinds of names by the word for them in the help of commands."""


def names_of(parameter: DescribedOption | DescribedArgument) -> str | None:
    """Return the kind of names that an option or argument takes, if it takes names."""
    return _KINDS.get(parameter.value)


def names_of_arguments(command: DescribedCommand) -> list[str]:
    """Return the kind of each argument, `-` if it takes no name, followed by `...` if it may be repeated.

    Nothing if no argument takes a name.
    """
    kinds = [f"{names_of(each) or '-'}{'...' if each.repeats else ''}" for each in command.arguments]
    return kinds if any(map(names_of, command.arguments)) else []


def print_names(arguments: Sequence[str]) -> None:
    """Print the names that begin with what is typed, one a line. The process ends when the time is up."""
    if len(arguments) < 2:
        return
    kind, typed, *options = arguments
    limit = threading.Timer(WITHIN_S, os._exit, (0,))
    limit.daemon = True
    limit.start()
    for name in find_names(kind, typed, options):
        print(name)
    sys.stdout.flush()
    limit.cancel()


def find_names(kind: str, typed: str, options: Sequence[str]) -> list[str]:
    """Return the names of a kind that begin with what is typed; none after an error."""
    from kb_client.errors import KbClientError

    with suppress(KbClientError):
        known = _profiles() if kind == "profiles" else _knowledge_bases(typed, options)
        # A shell takes each line for a name.
        return sorted({name for name in known if name.startswith(typed) and name.isprintable()})
    return []


def _profiles() -> Iterator[str]:
    from kb_client.configuration import configuration_path, read_profiles

    yield from read_profiles(configuration_path()).by_name


def _knowledge_bases(typed: str, options: Sequence[str]) -> Iterator[str]:
    from kb_client.command_line.connection import GivenConnection, find_configuration
    from kb_client.sync_client.client import Client

    given = dict(pairwise(options))
    connection = GivenConnection(given.get("--base-url"), given.get("--organization"), given.get("--profile"))
    found = find_configuration(connection)
    with Client(
        found.base_url,
        organization=found.organization,
        api_key=found.api_key,
        origin="cli",
        timeout_s=WITHIN_S,
        max_retries=0,
    ) as client:
        page = client.knowledge_bases.list(name_search=typed or None, limit=MAX_NAMES)
        yield from (each.name for each in page.knowledge_bases)
