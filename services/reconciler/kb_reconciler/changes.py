"""Finds the documents that changed in a period, and the KBs that they concern."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from kb_shared.mongo import document_index, documents, knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

_BATCH: Final = 1_000


async def find_changes(
    database: Database, *, since: datetime, until: datetime
) -> AsyncIterator[tuple[KnowledgeBase, list[str]]]:
    """Yield active KBs, each with documents that changed from `since` to `until` and may concern it."""
    async for batch in documents.iterate_changed(database, since=since, until=until, size=_BATCH):
        for organization_id, tags_of in batch.items():
            rows = await document_index.find_of_documents(database, organization_id, tags_of.keys())
            for kb in await knowledge_bases.find_of_organization(database, organization_id):
                if kb.status is not Status.ACTIVE:
                    continue
                concerned = [
                    document_id
                    for document_id, tag_ids in tags_of.items()
                    if not tag_ids.isdisjoint(kb.tag_ids)
                    or any(row.kb_id == kb.kb_id for row in rows.get(document_id, ()))
                ]
                if concerned:
                    yield kb, concerned
