"""Shells complete `kb`: real ones, with the printed scripts, without starting a process."""

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
    ("kb", "k"): {"kb", "keys"},
    ("kb", "--profile", "kb", "docs", "pu"): {"push"},
    ("kb", "kb", "list", "--output", "c"): {"csv"},
    ("kb", "agents", "tools", ""): {"list", "available", "add", "edit", "remove"},
    ("kb", "docs", "push", "--pr"): {"--prune"},
    ("kb", "docs", "push", "--kb", "docs", "--pr"): {"--prune"},
}
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
PATH=/nonexistent
_kb
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete_in_bash(script: Path, words: tuple[str, ...]) -> set[str]:
    return _lines("bash", "--norc", "-c", BASH, "bash", str(script), *words)


def complete_in_fish(script: Path, words: tuple[str, ...]) -> set[str]:
    program = f"source {script}; complete -C '{' '.join(words)}'"
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
