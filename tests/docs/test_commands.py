"""The commands of all docs, run against a stack in the order of their pages. What is not run says why."""

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kb_local.display import print_running
from kb_local.state import Home, StackState
from tests.docs.commands import LANGUAGES, DocumentedCommand, parse_blocks, parse_commands, runnable_commands
from tests.docs.conftest import ROOT, TUTORIAL, DocsStack
from tests.docs.shell import run_page
from tests.own_servers import ollama, vllm

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *(
            page
            for folder in ("services", "contracts", "shared", "client", "local")
            for page in ROOT.glob(f"{folder}/**/*.md")
        ),
    ]
)
CONVENTION = {"KB_API", "KB_SEARCH", "ORG", "KEY", "KB_ID"}
USED = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)")
ASSIGNED = re.compile(r"\b(?P<name>[A-Za-z_]\w*)=")
MAKE_TARGET = re.compile(r"^(?P<target>[a-z-]+):", re.MULTILINE)


WITH_SERVERS = ROOT / "docs/how-to/use-ollama-or-vllm.md"
"""Page whose commands need servers that the machine of a test does not have; others stand in for them."""


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_of_pages() -> dict[str, list[DocumentedCommand]]:
    """Return what is to be run, by page; the tutorial is run before."""
    found = {
        page_name(page): runnable_commands(page.read_text()) for page in PAGES if page not in {TUTORIAL, WITH_SERVERS}
    }
    return {page: runnable for page, runnable in found.items() if runnable}


def test_kb_up_prints_the_variables_of_the_convention(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path / ".kb")
    home.prepare()
    print_running(home, StackState(phase="ready", base_url="http://127.0.0.1:8080"), as_json=False)
    (line,) = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip().startswith("export ")]
    assert {match["name"] for match in ASSIGNED.finditer(line)} == {*CONVENTION, "KB_KAFKA"} - {"KB_ID"}


def test_the_tutorial_leads_to_a_cited_answer(docs_stack: DocsStack) -> None:
    assert docs_stack.variables["KB_ID"]


@pytest.mark.parametrize("page", commands_of_pages())
async def test_the_commands_of_a_page_do_what_it_says(page: str, docs_stack: DocsStack, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    await run_page(page, commands_of_pages()[page], folder=tmp_path, variables=docs_stack.variables)


async def test_the_commands_for_ollama_and_vllm_do_what_their_page_says(docs_stack: DocsStack, tmp_path: Path) -> None:
    async with ollama() as one, vllm() as other:
        ports = {"127.0.0.1:11434": f"127.0.0.1:{one.port}", "127.0.0.1:8000": f"127.0.0.1:{other.port}"}
        commands = [
            replace(command, text=_with(ports, command.text), output=_with(ports, command.output))
            for command in runnable_commands(WITH_SERVERS.read_text())
        ]
        await run_page(page_name(WITH_SERVERS), commands, folder=tmp_path, variables=docs_stack.variables)


def _with(ports: Mapping[str, str], text: str) -> str:
    for of_page, of_test in ports.items():
        text = text.replace(of_page, of_test)
    return text


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    """A block of another language is no command; one of commands that is not run has a reason, or only calls make."""
    targets = {match["target"] for match in MAKE_TARGET.finditer((ROOT / "Makefile").read_text())}
    for block in parse_blocks(page.read_text()):
        assert block.language not in {"bash", "shell", "shell-session"}, f"line {block.line}: use one of {LANGUAGES}"
        for command in parse_commands(block):
            assert set(command.make_targets) <= targets, f"line {command.line}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_use_the_variables_of_the_convention(page: Path) -> None:
    known = set(CONVENTION)
    for block in parse_blocks(page.read_text()):
        for command in parse_commands(block):
            known |= {match["name"] for match in ASSIGNED.finditer(command.text)}
            used = {match["name"] for match in USED.finditer(command.text)}
            assert used <= known, f"line {command.line} uses {used - known}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_examples_in_json_and_python_can_be_read(page: Path) -> None:
    for block in parse_blocks(page.read_text()):
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "python":
            compile(block.text, page_name(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
