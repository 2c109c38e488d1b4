"""A person uses `kb` on a running system: pushes a folder, searches and asks.

The last file of its folder by name: the oracle of other files does not know of these documents and KBs.
"""

import asyncio
import json
import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from kb_client import AsyncClient
from kb_client.cli import main
from kb_client.files import document_parts
from tests.e2e.running_system import RunningSystem
from tests.e2e.system import CHUNK_SIZE, MODEL

KB = str(Path(sys.executable).with_name("kb"))
TEXTS = {
    "travel.md": "# Travel policy\n\nA night in a hotel in London may cost 220 euros.\n",
    "guides/phones.txt": "A lost phone is reported to the help desk. The help desk locks it.\n",
}


@dataclass(frozen=True, slots=True)
class Shell:
    environment: dict[str, str]

    async def run(self, *arguments: str | Path, status: int = 0, typed: str = "") -> str:
        """Run one command, and return what it printed after checking its exit status."""
        ended_with, printed, errors = await self._run([*map(str, arguments)], typed)
        assert ended_with == status, printed + errors
        return printed if status == 0 else printed + errors

    async def read(self, *arguments: str | Path) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.run(*arguments, "--json"))
        return answer

    async def _run(self, arguments: list[str], typed: str) -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            KB,
            *arguments,
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, errors = (each.decode() for each in await process.communicate(typed.encode()))
        return process.returncode, printed, errors


class QuickShell(Shell):
    """Runs the commands in this process, because most of their time is the start of a program."""

    async def _run(self, arguments: list[str], typed: str) -> tuple[int | None, str, str]:
        return await asyncio.to_thread(self._run_here, arguments, typed)

    def _run_here(self, arguments: list[str], typed: str) -> tuple[int | None, str, str]:
        printed, errors = StringIO(), StringIO()
        with (
            patch.dict(os.environ, self.environment, clear=True),
            patch("sys.stdin", StringIO(typed)),
            redirect_stdout(printed),
            redirect_stderr(errors),
            pytest.raises(SystemExit) as ended,
        ):
            main(arguments)
        return int(ended.value.code or 0), printed.getvalue(), errors.getvalue()


@pytest.fixture
def shell(running: RunningSystem, tmp_path: Path) -> Shell:
    stack = running.system.stack
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KB_")}
    return Shell(
        inherited
        | {
            "HOME": str(tmp_path),
            "NO_PROXY": "*",
            "KB_BASE_URL": stack.base_url,
            "KB_ORGANIZATION": stack.organization_id,
            "KB_API_KEY": stack.api_key,
        }
    )


@pytest.fixture
def quick_shell(shell: Shell) -> QuickShell:
    return QuickShell(shell.environment)


@pytest.fixture
async def folder(running: RunningSystem, tmp_path: Path) -> Path:
    """Files, and a knowledge base with the quick model of the tests that has the name of their folder."""
    folder = tmp_path / f"staff-{uuid4().hex[:8]}"
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    stack = running.system.stack
    async with AsyncClient(stack.base_url, organization=stack.organization_id, api_key=stack.api_key) as client:
        await client.tags.put(folder.name, name=folder.name)
        await client.knowledge_bases.create(
            name=folder.name, tag_ids=[folder.name], embedding_model=MODEL, chunk_size=CHUNK_SIZE, chunk_overlap=0
        )
    return folder


async def test_a_pushed_folder_is_searchable_and_the_second_push_sends_nothing(
    quick_shell: QuickShell, folder: Path
) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    printed = await quick_shell.run("docs", "push", folder)
    assert f"adding to the existing knowledge base '{folder.name}' (0 documents)" in printed
    assert "2 searchable, 1 can't be read" in printed
    assert printed.count("broken.pdf") == printed.count("it is damaged") == 1
    assert "broken.pdf" in await quick_shell.run("docs", "push", folder, "--strict", status=1)
    assert "broken.pdf" not in await quick_shell.run("docs", "push", folder, "--strict", "--exclude", "*.pdf")
    (folder / "broken.pdf").unlink()

    found = await quick_shell.run("search", "hotel in London", "--kb", folder.name, "--top", "1")
    assert "Travel policy" in found
    assert "220 euros" in found
    answer = await quick_shell.run("ask", "Who locks a lost phone?", "--kb", folder.name)
    assert "A lost phone is reported to the help desk." in answer
    assert "] phones" in answer

    second = await quick_shell.read("docs", "push", folder)
    assert (second["counts"]["unchanged"], second["files"]) == (2, [])

    (folder / "travel.md").unlink()
    third = await quick_shell.read("docs", "push", folder, "--prune")
    assert (third["counts"]["unchanged"], third["counts"]["deleted"]) == (1, 1)
    assert third["files"][0]["file"].startswith("Travel policy (")


async def test_another_folder_of_the_same_name_neither_replaces_nor_deletes_documents(
    quick_shell: QuickShell, folder: Path, tmp_path: Path
) -> None:
    await quick_shell.run("docs", "push", folder)
    before = await quick_shell.read("docs", "list", "--tag", folder.name)
    other = tmp_path / "other" / folder.name
    other.mkdir(parents=True)
    (other / "travel.md").write_text("# Another project\n")
    for options in ([], ["--prune", "--yes"], ["--kb", "another one"], ["--dry-run"], ["--json"]):
        refused = await quick_shell.run("docs", "push", other, *options, status=1)
        assert str(folder) in refused
        assert "--adopt" in refused
    assert await quick_shell.read("docs", "list", "--tag", folder.name) == before

    beside = await quick_shell.run("docs", "push", other, "--source", f"other-{folder.name}", "--kb", folder.name)
    assert "(2 documents)" in beside
    assert (await quick_shell.read("docs", "list", "--tag", folder.name))["total_count"] == 3

    (tmp_path / "moved").mkdir()
    moved = Path(shutil.move(folder, tmp_path / "moved" / folder.name))
    (moved / "travel.md").unlink()
    asked = await quick_shell.run("docs", "push", moved, "--adopt", "--prune", status=1)
    assert "1 document that this folder has not pushed" in asked
    assert "--adopt" in await quick_shell.run("docs", "push", moved, "--prune", status=1), "nothing was adopted"
    adopted = await quick_shell.read("docs", "push", moved, "--adopt", "--prune", "--yes")
    assert (adopted["counts"]["unchanged"], adopted["counts"]["deleted"]) == (1, 1)
    assert (await quick_shell.read("docs", "push", moved, "--prune"))["counts"]["unchanged"] == 1


async def test_a_long_file_is_sent_in_parts_of_which_a_change_sends_few(
    quick_shell: QuickShell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_parts, "MOST_TOKENS", 500)
    monkeypatch.setattr(document_parts, "_LONGEST", (1_000,))
    sections = [f"# Rule {number}\n\n{'It holds for all. ' * 20}" for number in range(8)]
    file = folder / "travel.md"
    file.write_text("\n\n".join(sections))
    first = await quick_shell.read("docs", "push", folder)
    parts = [each for each in first["files"] if each["document_id"].startswith("staff") and "travel" in each["file"]]
    assert len(parts) > 3
    assert {each["outcome"] for each in first["files"]} == {"searchable"}
    # The file itself is told last: with it, an interrupted push is known to have been complete.
    assert first["counts"]["failed"] == 0
    assert (await quick_shell.read("docs", "push", folder, "--prune"))["counts"]["unchanged"] == 2

    sections[-1] += "A lost ticket is reported."
    file.write_text("\n\n".join(sections))
    second = await quick_shell.read("docs", "push", folder, "--prune")
    assert second["counts"]["searchable"] == len(second["files"]) == 2, "the changed part, and the first one"
    assert "lost ticket" in await quick_shell.run("search", "lost ticket", "--kb", folder.name, "--top", "1")

    file.write_text(sections[0])
    assert (await quick_shell.read("docs", "push", folder))["counts"]["searchable"] == 1
    listed = await quick_shell.read("docs", "list", "--tag", folder.name)
    assert listed["total_count"] == 2, "parts that are left over are deleted"


async def test_nothing_is_asked_about_a_document_that_does_not_exist(quick_shell: QuickShell) -> None:
    refused = await quick_shell.run("docs", "delete", "Ticket 7", status=1)
    assert "there is no document with the id 'Ticket 7'" in refused
    assert "--yes" not in refused


async def test_a_knowledge_base_that_is_refused_leaves_no_tag_behind(
    running: RunningSystem, quick_shell: QuickShell, folder: Path
) -> None:
    tag = f"{folder.name}-new"
    refused = await quick_shell.run("kb", "create", "new", "--tag", tag, "--model", "no-such-model", status=1)
    assert "no-such-model" in refused
    stack = running.system.stack
    async with AsyncClient(stack.base_url, organization=stack.organization_id, api_key=stack.api_key) as client:
        assert (await client.tags.list(name_search=tag)).total_count == 0


async def test_a_dry_run_sends_nothing(shell: Shell, folder: Path) -> None:
    assert "Nothing was sent" in await shell.run("docs", "push", folder, "--dry-run")
    listed = await shell.read("docs", "list", "--tag", folder.name)
    assert listed["total_count"] == 0


async def test_knowledge_bases_are_named_by_their_names_and_errors_say_what_to_do(shell: Shell, folder: Path) -> None:
    shown = await shell.read("kb", "show", folder.name.upper())
    assert shown["name"] == folder.name
    changed = await shell.read("kb", "edit", folder.name, "--description", "Rules for travel")
    assert changed["description"] == "Rules for travel"
    unknown = await shell.run("kb", "show", "no such one", status=1)
    assert "error: there is no knowledge base 'no such one'" in unknown
    assert "--yes" in await shell.run("kb", "delete", folder.name, status=1)
    assert "Usage" in await shell.run("kb", "list", "--wrong", status=2)


async def test_prompts_and_agents_are_made_and_asked(quick_shell: QuickShell, folder: Path) -> None:
    await quick_shell.run("docs", "push", folder)
    name = folder.name
    await quick_shell.run("prompts", "create", name, "--content", "Who locks a lost phone?", "--kb", name)
    assert "A lost phone is reported to the help desk." in await quick_shell.run("prompts", "run", name)
    agent = await quick_shell.read("agents", "create", name, "--instructions", "Answer briefly.", "--kb", name)
    assert [each["kb_name"] for each in agent["tools"]] == [name]
    printed = await quick_shell.run("chat", "--agent", name, "--json", typed="Who locks a lost phone?\nAnd a hotel?\n")
    first, _second = (json.loads(line) for line in printed.splitlines())
    assert "help desk" in first["answer"]
    edited = await quick_shell.read("agents", "edit", name, "--max-iterations", "3")
    assert (edited["max_iterations"], edited["instructions"]) == (3, "Answer briefly.")
    for kind in ("agents", "prompts"):
        await quick_shell.run(kind, "delete", name, "--yes")
        assert name not in await quick_shell.run(kind, "list", "--output", "csv", "--limit", "0")


async def test_the_key_of_a_provider_is_read_from_the_standard_input(shell: Shell) -> None:
    printed = await shell.run("providers", "set", "mistral", typed="sk-of-a-test-1234\n")
    assert "1234" in printed
    assert "sk-of" not in printed
    assert "mistral" in (await shell.run("providers", "list", "--output", "ids")).splitlines()
    await shell.run("providers", "delete", "mistral", "--yes")
