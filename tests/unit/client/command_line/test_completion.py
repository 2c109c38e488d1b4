"""Shells complete `kb`: real ones, with the printed scripts. Only for names they start a process."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kb_client.cli import create_app
from kb_client.command_line.command_tree import describe_commands
from kb_client.command_line.completion.command import ShellName, completion_script
from tests.unit.client.command_line.answering_api import CommandRunner

COMMANDS = list(describe_commands(typer.main.get_command(create_app())))
TRIALS = {
    ("kb", "kb", "sh"): {"show"},
    ("kb", "k"): {"kb", "keys", "knowledge"},
    ("kb", "--profile", "kb", "docs", "pu"): {"push"},
    ("kb", "kb", "list", "--output", "c"): {"csv"},
    ("kb", "agents", "tools", ""): {"list", "available", "add", "edit", "remove"},
    ("kb", "docs", "push", "--pr"): {"--prune"},
    ("kb", "docs", "push", "--kb", "docs", "--pr"): {"--prune"},
}
NAMES = {
    ("kb", "kb", "show", ""): ["knowledge-bases", ""],
    ("kb", "kb", "pause", "one", "an"): ["knowledge-bases", "an"],
    ("kb", "agents", "tools", "add", "helper", ""): ["knowledge-bases", ""],
    ("kb", "docs", "push", "folder", "--kb", "ha"): ["knowledge-bases", "ha"],
    ("kb", "--profile", "kb", "search", "lost phone", "--kb", ""): ["knowledge-bases", "", "--profile", "kb"],
    ("kb", "--profile", "pro"): ["profiles", "pro", "--profile"],
    ("kb", "config", "use", ""): ["profiles", ""],
}
"""Arguments with which a shell asks for names, by the words of the line."""
BASH = """
source "$1"; PATH=$2; shift 2
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_kb
printf '%s\\n' "${COMPREPLY[@]}"
"""
PROGRAM = """#!/bin/bash
echo 'no shell shows this' >&2
[[ $1 == __complete ]] || exit
shift
printf '%s\\n' "$@" > "${0%/*}/asked"
printf '%s\\n' handbook 'Employee Handbook' 'a`b'
"""
"""A program `kb` that notes what it is asked for."""


def complete_in_bash(script: Path, words: tuple[str, ...], path: str = "/nonexistent") -> set[str]:
    return _lines("bash", "--norc", "-c", BASH, "bash", str(script), path, *words)


def complete_in_fish(script: Path, words: tuple[str, ...], path: str = "/nonexistent") -> set[str]:
    line = " ".join(word.replace(" ", "\\ ") for word in words)
    program = f"source {script}; set PATH {path}; complete -C '{line}'"
    return {each.split("\t")[0] for each in _lines("fish", "--no-config", "-c", program)}


def _lines(*program: str) -> set[str]:
    ended = subprocess.run(program, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return set(ended.stdout.split("\n")) - {""}


SHELLS = {"bash": complete_in_bash} | ({"fish": complete_in_fish} if shutil.which("fish") else {})
"""Shells of this machine that can complete without a terminal."""


@pytest.mark.parametrize("words", TRIALS, ids=" ".join)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_options_and_their_values(
    tmp_path: Path, shell: Any, words: tuple[str, ...]
) -> None:
    (script := tmp_path / "kb").write_text(completion_script(COMMANDS, shell))
    assert SHELLS[shell](script, words) == TRIALS[words]


@pytest.mark.parametrize("words", NAMES, ids=" ".join)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_asks_for_the_names_that_an_option_or_argument_takes(
    tmp_path: Path, shell: Any, words: tuple[str, ...]
) -> None:
    (script := tmp_path / "completion").write_text(completion_script(COMMANDS, shell))
    (program := tmp_path / "kb").write_text(PROGRAM)
    program.chmod(0o700)
    names = SHELLS[shell](script, words, str(tmp_path))
    assert (tmp_path / "asked").read_text().split("\n")[:-1] == NAMES[words]
    if shell == "bash":
        # As they have to be written.
        assert names == {"handbook", "Employee\\ Handbook", "a\\`b"}


def test_in_quotation_marks_bash_completes_only_names_that_mean_nothing_there(tmp_path: Path) -> None:
    (script := tmp_path / "completion").write_text(completion_script(COMMANDS, "bash"))
    (program := tmp_path / "kb").write_text(PROGRAM)
    program.chmod(0o700)
    words = ("kb", "kb", "show", '"Empl')
    assert complete_in_bash(script, words, str(tmp_path)) == {"handbook", "Employee Handbook"}
    assert (tmp_path / "asked").read_text() == "knowledge-bases\nEmpl\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_has_all_commands_and_options(kb: CommandRunner, shell: ShellName) -> None:
    result = kb(None, "completion", shell)  # type: ignore[arg-type]  # no request is made
    assert result.status == 0
    assert result.printed == completion_script(COMMANDS, shell)
    for command in COMMANDS:
        assert " ".join(command.path) in result.printed
        for name in command.options[0].names:
            assert name.lstrip("-") in result.printed


def test_help_texts_can_not_break_a_script() -> None:
    zsh = completion_script(COMMANDS, "zsh")
    assert "organization'\\''s own keys" in zsh
    assert "organization\\'s own keys" in completion_script(COMMANDS, "fish")
