"""Entries and files of an organization of its own, through the processes of a running system.

After the files that ask the oracle, by its name: the oracle does not know of these entries.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from kb_contracts.reserved_ids import document_id_of
from kb_shared.mongo.spu_ledger import NAME as SPU_LEDGER
from tests.chaos.document_reader import DocumentReader
from tests.chaos.revisions import Revisions
from tests.e2e.exported import scrape
from tests.e2e.operations.stocking import http_of_new_organization
from tests.e2e.running_system import RunningSystem
from tests.e2e.system import SystemUnderTest
from tests.unit.client.files.pdf_files import assemble, make_pdf
from tests.unit.client.files.test_hostile_files import office_file, with_macros, with_member, word_file, word_text
from tests.waiting import until

EDITS: Final = 50
MAX_MEMORY_KB: Final = 400_000
AWS_KEY: Final = "AKIA" + "Z7QWERTYUIOPASDF"


def bomb_pdf() -> bytes:
    """Return a small PDF whose page unpacks to half a gigabyte."""
    piece, packer = b"BT /F1 12 Tf (again) Tj ET\n" * 40_000, zlib.compressobj(1)
    packed = b"".join(packer.compress(piece) for _ in range(500)) + packer.flush()
    head = b"<< /Filter /FlateDecode /Length %d >> stream\n" % len(packed)
    return assemble([b"x"]).replace(b"<< /Length 1 >> stream\nx", head + packed)


HOSTILE: Final[Mapping[str, tuple[Callable[[], bytes], str]]] = {
    "pages.pdf": (lambda: make_pdf(*[[(72, 700, f"Page {n}")] for n in range(10_000)]), "more than 5000 pages"),
    "bomb.pdf": (bomb_pdf, "400 MB"),
    "macros.docx": (lambda: with_macros(word_file(word_text("good"))), "contains macros"),
    "bomb.docx": (
        lambda: with_member(office_file("docx"), "word/document.xml", b" " * 250_000_000),
        "unpacks to more than 200 MB",
    ),
    "deep.docx": (lambda: word_file("<w:tbl><w:tr><w:tc>" * 3_000 + word_text("deep")), "can't be read"),
    "long.txt": (lambda: b"word " * 10_000_000, "more than 4 MB"),
}
"""Files with what the message of the run says about them."""


@pytest.fixture(scope="module")
async def organization(running: RunningSystem) -> AsyncIterator[SystemUnderTest]:
    """The running system as a new organization sees it."""
    async with http_of_new_organization(running) as http:
        yield replace(running.system, http=http)


async def ask(organization: SystemUnderTest, method: str, path: str, **options: Any) -> dict[str, Any]:
    answer = await organization.http.request(method, path, **options)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def until_ready(organization: SystemUnderTest, path: str) -> None:
    async def is_ready() -> bool:
        return bool((await ask(organization, "GET", path))["embedding_status"] == "ready")

    await until(is_ready, what="the entry is ready")


async def cite(organization: SystemUnderTest, kb_id: str) -> int:
    """Let a run answer from the entry, and return how often it cites it."""
    question = [{"role": "user", "content": "Which edition is it?"}]
    body = {"model": "demo-extractive", "kb_ids": [kb_id], "messages": question, "auto_search": True}
    run = await ask(organization, "POST", "/runs", json=body)
    assert run["citations"]
    return len(run["citations"])


async def test_an_entry_keeps_id_and_citations_through_fifty_edits_and_each_search_shows_one_version(
    organization: SystemUnderTest,
) -> None:
    revisions = Revisions("edited")
    created = await ask(
        organization, "POST", "/knowledge-entries", json={"title": "Edited", "content": "\n\n".join(revisions.newest)}
    )
    path = f"/knowledge-entries/{created['entry_id']}"
    await until_ready(organization, path)
    kb_id = (await ask(organization, "GET", "/knowledge-bases"))["knowledge_bases"][0]["kb_id"]
    cites = await cite(organization, kb_id)
    reader = DocumentReader(organization, kb_id, document_id_of(created["entry_id"]), revisions)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.read_until(stop))
        for edit in range(EDITS):
            text = "\n\n".join(revisions.step())
            changed = await ask(organization, "PATCH", path, json={"title": f"Edition {edit}", "content": text})
            assert changed["entry_id"] == created["entry_id"]
            await until_ready(organization, path)
        stop.set()
    assert reader.violations == []
    assert reader.reads > EDITS
    assert (await ask(organization, "GET", path))["cites_30d"] == cites
    paragraphs = {paragraph for text in revisions.published for paragraph in text}
    charges = await organization.database[SPU_LEDGER].find({"kb_id": kb_id, "operation": "index"}).to_list()
    assert sum(charge["count"] for charge in charges) == len(paragraphs)


async def test_a_credential_is_refused_and_stands_in_no_answer_log_metric_and_check_in(
    organization: SystemUnderTest,
) -> None:
    body = {"title": "How to deploy", "content": f"Log in first.\nThe key is {AWS_KEY}."}
    refused = await organization.http.post("/knowledge-entries", json=body)
    assert refused.status_code == 422
    problem = refused.json()
    assert (problem["type"], problem["pattern"], problem["line"]) == ("sensitive-content", "aws-key", 2)
    not_structured = await organization.http.post("/knowledge:structure", json={"text": body["content"]})
    assert (not_structured.status_code, not_structured.json()["type"]) == (422, "sensitive-content")
    assert (await ask(organization, "GET", "/check-ins"))["total_count"] == 0
    logs = [service.log.read_text() for service in organization.stack.services.values()]
    metrics = str((await scrape(organization.stack)).series)
    assert "aws-key" in metrics
    assert not [text for text in (refused.text, not_structured.text, metrics, *logs) if AWS_KEY in text]


async def test_hostile_files_are_failed_items_and_take_little_memory(organization: SystemUnderTest) -> None:
    sources = {name: await upload(organization, name, make()) for name, (make, _) in HOSTILE.items()}
    for source_id in sources.values():
        await ask(organization, "POST", f"/knowledge-sources/{source_id}/run")

    async def all_have_ended() -> bool:
        shown = [await ask(organization, "GET", f"/knowledge-sources/{each}") for each in sources.values()]
        return all(source["last_run_status"] for source in shown)

    await until(all_have_ended, every_s=0.1)
    for name, source_id in sources.items():
        [run] = (await ask(organization, "GET", f"/knowledge-sources/{source_id}/runs"))["runs"]
        assert (run["status"], run["counts"]["failed"]) == ("error", 1)
        [message] = (await ask(organization, "GET", f"/knowledge-sources/{source_id}/runs/{run['run_id']}"))["messages"]
        assert HOSTILE[name][1] in message
    services = organization.stack.services
    peaks = {each: peak_memory_kb(services[each].pid) for each in ("kb_knowledge", "kb_knowledge.runner")}
    assert max(peaks.values()) < MAX_MEMORY_KB, peaks


async def upload(organization: SystemUnderTest, filename: str, content: bytes) -> str:
    """Return the id of a source that consists of a file."""
    file = await ask(organization, "POST", f"/knowledge-sources/files?filename={filename}", content=content)
    source = {"label": filename, "kind": "file_upload", "config": {"filename": filename, "file_id": file["file_id"]}}
    return str((await ask(organization, "POST", "/knowledge-sources", json=source))["source_id"])


def peak_memory_kb(pid: int) -> int:
    """Return the greatest resident memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
