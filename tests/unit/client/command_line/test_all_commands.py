"""All commands describe themselves, with examples that are their own, and offer `--output`."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from kb_client.cli import create_app
from kb_client.command_line.command_tree import first_sentence

INTERACTIVE = {"completion", "help"}
"""Commands whose output is a script or a help text."""


def walk(command: Any, path: tuple[str, ...] = ("kb",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands and groups with their full names."""
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from walk(each, (*path, name))


ALL = dict(walk(typer.main.get_command(create_app())))
COMMANDS = {path: command for path, command in ALL.items() if not hasattr(command, "commands")}


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_each_command_says_what_it_does_and_each_option_what_it_means(path: tuple[str, ...]) -> None:
    command = ALL[path]
    assert command.help
    assert command.help.split("\n")[0].endswith(".")
    assert not [each.name for each in command.params if not each.help and each.name != "help"]


def test_the_help_has_all_commands_in_sections_with_whole_sentences() -> None:
    shown = CliRunner().invoke(create_app(), ["--help"]).stdout
    top = {path[1]: command for path, command in ALL.items() if len(path) == 2}
    assert "Of other packages" not in shown
    assert "..." not in shown.partition("Options:")[2]
    for name, command in top.items():
        assert re.search(rf"^  {name} ", shown, re.MULTILINE)
        assert first_sentence(command.help) in " ".join(shown.split())


def test_help_is_a_command_too() -> None:
    asked = CliRunner().invoke(create_app(), ["help", "docs", "list"]).stdout
    assert asked == CliRunner().invoke(create_app(), ["docs", "list", "--help"]).stdout.replace("root", "kb")
    assert "there is no command 'dcs'" in CliRunner().invoke(create_app(), ["help", "dcs"]).stderr


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_command_has_examples_of_itself_that_it_understands(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    lines = (command.epilog or "").split("\n")
    assert lines[:1] == ["\b"]
    assert lines[1] == ("Example:" if len(lines) == 3 else "Examples:")
    for line in lines[2:]:
        words = _words_of(line.strip(), path)
        options = {each for parameter in command.params for each in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.split("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert used <= options
        # No key is ever in a list of processes.
        assert not re.search(r"sk-|KEY=\w", line)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_command_offers_the_same_options_for_its_output(path: tuple[str, ...]) -> None:
    if path[1] in INTERACTIVE:
        return
    options = {each for parameter in COMMANDS[path].params for each in parameter.opts}
    assert {"--output", "-o", "--json"} <= options


def _words_of(example: str, path: tuple[str, ...]) -> list[str]:
    """Return the words of an example that follow the name of the command."""
    words = shlex.split(re.split(r" [<|>] ", example)[-1 if " | kb " in example else 0])
    at = words.index("kb")
    assert tuple(words[at : at + len(path)]) == path
    return words[at + len(path) :]
