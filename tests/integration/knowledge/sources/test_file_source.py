"""Sources that are one file: real ones are read, hostile ones are failed items."""

import io
from collections.abc import AsyncIterator
from pathlib import Path

import docx
import openpyxl
import pytest

from kb_knowledge.store import source_files
from kb_knowledge.store.knowledge_sources import KnowledgeSource, SourceKind
from kb_knowledge.store.source_files import MAX_FILE_BYTES, FileTooLarge, SourceFileKey
from kb_knowledge.store.source_runs import SourceRunStatus
from tests.integration.knowledge.sources.source_runs import Sources
from tests.unit.client.files.pdf_files import make_pdf
from tests.unit.client.files.test_hostile_files import with_macros


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


async def upload(sources: Sources, filename: str, content: bytes) -> KnowledgeSource:
    file_id, size = await source_files.put(
        sources.database, sources.organization_id, _pieces(content), filename=filename
    )
    assert size == len(content)
    return await sources.add(SourceKind.FILE_UPLOAD, {"filename": filename, "file_id": file_id})


def a_document(text: str) -> bytes:
    document, file = docx.Document(), io.BytesIO()
    document.add_heading("Travel", level=1)
    document.add_paragraph(text)
    document.save(file)
    return file.getvalue()


async def test_files_become_entries_and_a_new_version_updates_the_same_one(sources: Sources) -> None:
    await sources.run(
        await upload(sources, "meals.pdf", make_pdf([(72, 700, "A meal costs 28 euros.")], [(72, 700, "Second page.")]))
    )
    source = await upload(sources, "travel.docx", a_document("A night costs 140 euros."))
    assert (await sources.run(source)).counts == {"created": 1}
    assert (await sources.run(source)).counts == {"unchanged": 1}
    assert "A meal costs 28 euros." in sources.entries.items["meals.pdf"].text
    assert sources.entries.items["travel.docx"].text == "# Travel\n\nA night costs 140 euros."

    replaced = await upload(sources, "travel.docx", a_document("A night costs 150 euros."))
    change = {"$set": {"config": dict(replaced.config)}}
    await sources.database["knowledge_sources"].update_one(source.key.to_query(), change)
    assert (await sources.run(source)).counts == {"updated": 1}
    assert len(sources.entries.items) == 2


async def test_what_of_a_file_was_not_read_is_a_message_of_the_run(sources: Sources) -> None:
    workbook, file = openpyxl.Workbook(), io.BytesIO()
    workbook.active.append(["Tent", 12])
    workbook.active.append(["All", "=SUM(B1:B1)"])
    workbook.save(file)
    run = await sources.run(await upload(sources, "tents.xlsx", file.getvalue()))
    assert run.counts == {"created": 1}
    assert [message.partition(": ")[2] for message in run.messages] == [
        "warning: 1 formula has no result; open and save the file once in Excel"
    ]


@pytest.mark.parametrize(
    ("filename", "content"),
    [
        ("a.pdf", make_pdf([(72, 700, "x")])[:300]),
        ("a.docx", b"PK\x03\x04 no archive"),
        ("a.docx", with_macros(a_document("Text."))),
        ("a.txt", bytes(range(32)) * 100),
        ("a.html", b"<div>" * 30_000),
        ("a.txt", b"word " * 900_000),
    ],
)
async def test_a_hostile_file_is_a_failed_item(sources: Sources, filename: str, content: bytes) -> None:
    run = await sources.run(await upload(sources, filename, content))
    assert (run.status, run.counts) == (SourceRunStatus.ERROR, {"failed": 1})
    assert run.messages
    assert sources.entries.items == {}


async def test_files_are_limited_kept_apart_and_deleted_when_unused(sources: Sources, tmp_path: Path) -> None:
    with pytest.raises(FileTooLarge):
        await upload(sources, "a.txt", bytes(MAX_FILE_BYTES + 1))
    source = await upload(sources, "a.txt", b"Used.")
    file_id = source.config["file_id"]
    assert await source_files.save(sources.database, SourceFileKey("other", file_id), tmp_path / "other") is None
    assert not (tmp_path / "other").exists()
    unused, _ = await source_files.put(sources.database, sources.organization_id, _pieces(b"Unused."), filename="b.txt")
    assert await source_files.delete_unused(sources.database) == 0

    old = {"$set": {"uploadDate": source.created_at - source_files.UNUSED_KEPT}}
    await sources.database[source_files.FILES].update_many({}, old)
    assert await source_files.delete_unused(sources.database) == 1
    deleted, kept = (SourceFileKey(sources.organization_id, each) for each in (unused, file_id))
    assert await source_files.save(sources.database, deleted, tmp_path / "deleted") is None
    assert await source_files.save(sources.database, kept, tmp_path / "kept") == len(b"Used.")
    assert (tmp_path / "kept").read_bytes() == b"Used."
