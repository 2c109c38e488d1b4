"""Writes the reference page of the command line from its parsers.

python scripts/generate_command_line_page.py FILE    by default docs/reference/command-line.md
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import typer.main

from kb_client.cli import create_app
from kb_client.command_line.command_tree import DescribedCommand, DescribedOption, describe_commands

PAGE: Final = Path(__file__).parents[1] / "docs/reference/command-line.md"
_OF_ALL: Final = frozenset({"--output", "--json", "--help"})
_HEADING: Final = "## Commands\n\n"
"""Heading of what is written; what is above it in the page stays as it is."""


def render(commands: Sequence[DescribedCommand]) -> str:
    """Return the page with its part by hand."""
    lines = [f"- [`{' '.join(each.path)}`](#{'-'.join(each.path)}): {each.first_sentence}" for each in _shown(commands)]
    sections = ["\n".join(_section(each)) for each in _shown(commands)]
    by_hand = PAGE.read_text(encoding="utf-8").partition(_HEADING)[0]
    return by_hand + _HEADING + "\n".join(lines) + "\n\n" + "\n\n".join(sections) + "\n"


def _shown(commands: Sequence[DescribedCommand]) -> list[DescribedCommand]:
    """Return the commands without groups, in the order of their names."""
    return sorted((each for each in commands if not each.subcommands), key=lambda each: each.path)


def _section(command: DescribedCommand) -> Iterator[str]:
    yield f"### {' '.join(command.path)}"
    yield ""
    yield f"`{command.usage.replace('{', '').replace('}', '')}`"
    yield ""
    yield re.sub(r"(?<!\n)\n(?!\n)", " ", command.help)
    rows = [(re.sub(r" <[^>]*>$", "", each.usage), each.help) for each in command.arguments]
    rows += [(each.usage, each.help) for each in command.options if not _OF_ALL & set(each.names)]
    if rows:
        yield ""
        yield "| argument or option | meaning |"
        yield "|---|---|"
        yield from (f"| `{_cell(usage)}` | {_cell(meaning)} |" for usage, meaning in rows)
    if formats := _formats(command.options):
        yield ""
        yield f"Output: {', '.join(f'`{each}`' for each in formats)}."
    yield ""
    yield "```text"
    yield from command.examples
    yield "```"


def _formats(options: Sequence[DescribedOption]) -> tuple[str, ...]:
    return next((each.choices for each in options if "--output" in each.names), ())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    page.write_text(render(list(describe_commands(typer.main.get_command(create_app())))), encoding="utf-8")


if __name__ == "__main__":
    main()
