"""Reads the current state of documents and KBs; concurrent reads share one command.

Values come from the primary, never from memory, and a majority of the members has them: a decision that there is
nothing to do may rest on them. They are no older than what this process has written in `seen_by_later_reads` and in
transactions.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo import (
    document_index,
    document_texts,
    documents,
    index_jobs,
    knowledge_bases,
    organizations,
    vectors,
)
from kb_shared.mongo.bulk_lookup import OrganizationKey, bulk_lookup, in_parts
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.document_texts import StoredText
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import majority_reads
from kb_shared.mongo.organizations import OrganizationSettings
from kb_shared.mongo.vectors import Chunks

Found = TypeVar("Found")


class StateReader:
    """Batch loaders of one process, each for one kind of row."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.document: BatchLoader[OrganizationKey, Document] = BatchLoader(
            bulk_lookup(database, _in_majority(documents.find_by_ids))
        )
        self.knowledge_base: BatchLoader[OrganizationKey, KnowledgeBase] = BatchLoader(
            bulk_lookup(database, _in_majority(knowledge_bases.find_by_ids))
        )
        self.text: BatchLoader[OrganizationKey, StoredText] = BatchLoader(
            bulk_lookup(database, _in_majority(document_texts.find_all))
        )
        self.jobs_of: BatchLoader[OrganizationKey, dict[str, IndexJobState]] = BatchLoader(
            bulk_lookup(database, _in_majority(index_jobs.find_states))
        )
        self.indexed_of: BatchLoader[OrganizationKey, list[IndexedDocument]] = BatchLoader(
            bulk_lookup(database, _in_majority(document_index.find_of_documents))
        )
        self.knowledge_bases_of: BatchLoader[str, list[KnowledgeBase]] = BatchLoader(self._knowledge_bases_of)
        self.settings_of: BatchLoader[str, OrganizationSettings] = BatchLoader(self._settings_of)
        self.indexed: BatchLoader[MembershipKey, IndexedDocument] = BatchLoader(self._indexed)
        self._live: BatchLoader[tuple[Chunks, str], int] = BatchLoader(self._count_live)

    async def live_chunks(self, kb: KnowledgeBase, document_id: str) -> int:
        """Count the live chunks of the document in the KB."""
        return await self._live((vectors.chunks_of(self._database, kb), document_id)) or 0

    async def _knowledge_bases_of(self, organization_ids: Sequence[str]) -> Mapping[str, list[KnowledgeBase]]:
        async def ask(organization_id: str) -> list[KnowledgeBase]:
            async with majority_reads(self._database) as majority:
                return await knowledge_bases.find_of_organization(majority, organization_id)

        return dict(zip(organization_ids, await run_all_or_cancel(map(ask, organization_ids)), strict=True))

    async def _settings_of(self, organization_ids: Sequence[str]) -> Mapping[str, OrganizationSettings]:
        async with majority_reads(self._database) as majority:
            return await organizations.find_all_settings(majority, organization_ids)

    async def _indexed(self, wanted: Sequence[MembershipKey]) -> Mapping[MembershipKey, IndexedDocument]:
        async def ask(kb: KnowledgeBaseKey, document_ids: Collection[str]) -> Mapping[MembershipKey, IndexedDocument]:
            async with majority_reads(self._database) as majority:
                rows = await document_index.find_by_ids(majority, kb, document_ids)
            return {row.key: row for row in rows.values()}

        return await in_parts(((key.knowledge_base, key.document_id) for key in wanted), ask)

    async def _count_live(self, wanted: Sequence[tuple[Chunks, str]]) -> Mapping[tuple[Chunks, str], int]:
        async def ask(chunks: Chunks, document_ids: Collection[str]) -> Mapping[tuple[Chunks, str], int]:
            async with majority_reads(self._database) as majority:
                counts = await vectors.count_live(chunks.within(majority), document_ids)
            return {(chunks, document_id): count for document_id, count in counts.items()}

        return await in_parts(wanted, ask)


def _in_majority(
    find: Callable[[Database, str, Collection[str]], Awaitable[Mapping[str, Found]]],
) -> Callable[[Database, str, Collection[str]], Awaitable[Mapping[str, Found]]]:
    async def find_in_majority(
        database: Database, organization_id: str, identities: Collection[str]
    ) -> Mapping[str, Found]:
        async with majority_reads(database) as majority:
            return await find(majority, organization_id, identities)

    return find_in_majority
