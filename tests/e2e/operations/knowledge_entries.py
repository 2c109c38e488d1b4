"""Checks of entries."""

from typing import Any

import pytest

from kb_client.problems import NotFoundError
from kb_contracts.api.knowledge_entries import EntryView
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import StockedOrganization

GIVEN: dict[str, Any] = {
    "title": "Spin-up",
    "content": "Initialize transient LES from converged RANS.",
    "tags": ["les"],
    "type": "rule",
    "knowledge_type": "procedure",
    "info_type": "instructions",
    "entity_id": "user:alice",
}


async def stored_entry(organization: StockedOrganization, entry_id: str) -> Row:
    row = await organization.row("knowledge_entries", entry_id=entry_id)
    return {**row, "cites_30d": 0, "excerpt": row["content"], "character_count": len(row["content"])}


async def new_entry(organization: StockedOrganization) -> str:
    return (await organization.client.knowledge_entries.create(**GIVEN)).entry_id


async def indexed_entry(organization: StockedOrganization) -> str:
    entry_id = await new_entry(organization)
    await organization.until_row("knowledge_entries", entry_id=entry_id, embedding_status="ready")
    return entry_id


async def entries_kb(organization: StockedOrganization) -> str:
    return str((await organization.row("knowledge_bases", kind="knowledge"))["_id"])


@checks("knowledge_entries.create")
async def check_create(organization: StockedOrganization) -> None:
    answer = await organization.client.knowledge_entries.create(entry_id="les-rans-init", **GIVEN)
    assert answer.embedding_status == "pending"
    stored = await stored_entry(organization, "les-rans-init")
    assert_holds(stored, created_by=organization.key_id, **GIVEN)
    await organization.until_row("knowledge_entries", entry_id="les-rans-init", embedding_status="ready")
    assert_shows(
        await organization.client.knowledge_entries.get("les-rans-init"),
        await stored_entry(organization, "les-rans-init"),
    )
    await assert_found(organization, answer)
    # It also belongs to each KB with one of its tags, and is listed first.
    [first, *_] = (await organization.client.knowledge_bases.list()).knowledge_bases
    assert (first.kb_id, first.kind) == (await entries_kb(organization), "knowledge")


async def assert_found(organization: StockedOrganization, entry: EntryView) -> None:
    kb_id = await entries_kb(organization)
    found = await organization.client.knowledge_bases.search(
        kb_id, query=entry.content, metadata_filter={"type": "rule", "entity_id": "user:alice"}, top_k=20
    )
    assert f"entry-{entry.entry_id}" in {result.document_id for result in found.results}


@checks("knowledge_entries.list")
async def check_list(organization: StockedOrganization) -> None:
    entry_id = await indexed_entry(organization)

    async def rows() -> list[Row]:
        return [
            await stored_entry(organization, row["entry_id"])
            for row in await organization.rows("knowledge_entries", tags="les")
        ]

    answer, stored = await undisturbed(lambda: organization.client.knowledge_entries.list(tag="les", limit=100), rows)
    by_id = {row["entry_id"]: row for row in stored}
    assert entry_id in by_id
    assert answer.total_count == len(answer.entries) == len(by_id)
    assert answer.totals.by_source_type == {"rule": len(by_id)}
    for entry in answer.entries:
        assert_shows(entry, by_id[entry.entry_id])


@checks("knowledge_entries.get")
async def check_get(organization: StockedOrganization) -> None:
    entry_id = await indexed_entry(organization)
    answer = await organization.client.knowledge_entries.get(entry_id)
    assert_shows(answer, await stored_entry(organization, entry_id))


@checks("knowledge_entries.update")
async def check_update(organization: StockedOrganization) -> None:
    entry_id = await indexed_entry(organization)
    changes: dict[str, Any] = {"title": "Updated", "content": "Start from RANS.", "info_type": None}
    answer = await organization.client.knowledge_entries.update(entry_id, **changes)
    assert (answer.entry_id, answer.embedding_status) == (entry_id, "pending")
    await organization.until_row(
        "knowledge_entries", entry_id=entry_id, embedding_status="ready", revision=answer.revision
    )
    assert_holds(await stored_entry(organization, entry_id), **{**GIVEN, **changes})
    [chunk] = await organization.chunks(await entries_kb(organization), f"entry-{entry_id}")
    assert chunk["chunk_text"] == "Start from RANS."


@checks("knowledge_entries.delete")
async def check_delete(organization: StockedOrganization) -> None:
    entry_id = await indexed_entry(organization)
    kb_id = await entries_kb(organization)
    await organization.client.knowledge_entries.delete(entry_id)
    assert await organization.rows("knowledge_entries", entry_id=entry_id) == []
    await organization.until_none(f"kb_vectors_{kb_id}", document_id=f"entry-{entry_id}")
    with pytest.raises(NotFoundError):
        await organization.client.knowledge_entries.get(entry_id)


@checks("knowledge_entries.list_chunks")
async def check_list_chunks(organization: StockedOrganization) -> None:
    entry_id = await indexed_entry(organization)
    answer = await organization.client.knowledge_entries.list_chunks(entry_id)
    [row] = await organization.chunks(await entries_kb(organization), f"entry-{entry_id}")
    [chunk] = answer.chunks
    assert (chunk.chunk_id, chunk.text) == (row["_id"], GIVEN["content"])
    assert chunk.embedding_provider.startswith("local/")


@checks("knowledge_entries.retry")
async def check_retry(organization: StockedOrganization) -> None:
    entry_id = await indexed_entry(organization)
    # As an indexer that fails would announce it.
    await organization.database["knowledge_entries"].update_one(
        {"organization_id": organization.organization_id, "entry_id": entry_id}, {"$set": {"embedding_status": "error"}}
    )
    answer = await organization.client.knowledge_entries.retry(entry_id)
    assert answer.embedding_status == "pending"
    await organization.until_row(
        "knowledge_entries", entry_id=entry_id, embedding_status="ready", revision=answer.revision
    )
