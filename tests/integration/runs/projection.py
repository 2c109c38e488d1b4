"""Documents as the indexer projects them from what upstream says, without an indexer."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kb_shared.mongo import document_texts, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import AppliedEvent, Document, TagsFacet, TextFacet
from kb_shared.mongo.keys import DocumentKey

MARCH = datetime(2026, 3, 15, tzinfo=UTC)
TAGS = TagsFacet(1, "d", ("tag-of-no-kb",))
"""Tags of no KB."""


async def hear_of_text(
    database: Database, organization_id: str, document_id: str, text: str, *, name: str = "a.pdf", revision: int = 1
) -> None:
    """The text comes, or comes again."""
    text_id = await document_texts.put(database, DocumentKey(organization_id, document_id), text)
    facet = TextFacet(revision, f"d{revision}", text_id, name, MARCH)
    await _write(database, organization_id, document_id, text=facet, tags=TAGS)


async def hear_of_tags(database: Database, organization_id: str, document_id: str) -> None:
    """Before the text."""
    await _write(database, organization_id, document_id, text=None, tags=TAGS)


async def hear_of_deletion(database: Database, organization_id: str, document_id: str) -> None:
    await _write(database, organization_id, document_id, text=None, tags=None, metadata=None, deleted_revision=9)


async def _write(database: Database, organization_id: str, document_id: str, **fields: Any) -> None:
    before = await documents.find(database, DocumentKey(organization_id, document_id)) or Document(
        organization_id, document_id
    )
    event = AppliedEvent("e", "test", 1, "", MARCH)
    assert await documents.write_all(database, [documents.DocumentChange(replace(before, **fields), event)])
