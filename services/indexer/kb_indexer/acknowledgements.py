"""Acknowledges new revisions that change nothing: writes their number and announces it, and writes nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb_contracts.metadata import MetadataWarning
from kb_contracts.outcomes import DocumentIndexed
from kb_indexer.source import SOURCE
from kb_indexer.state_reader import StateReader
from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import document_index, documents
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import tracing


@dataclass(frozen=True, slots=True, eq=False)
class _Unchanged:
    indexed: IndexedDocument
    revision: int
    warnings: tuple[MetadataWarning, ...]
    traceparent: str

    def build_announcement(self, sequences: Mapping[str, int]) -> Announcement:
        row = self.indexed
        outcome = DocumentIndexed(
            organization_id=row.organization_id,
            kb_id=row.kb_id,
            document_id=row.document_id,
            revision=self.revision,
            chunk_count=row.chunk_count,
            warnings=self.warnings or None,
        )
        return Announcement(outcome, sequences[row.document_id], self.traceparent)


class _Changed(Exception):
    """One of the rows is no longer as it was read."""


class Acknowledgements:
    """Acknowledges new revisions of documents without other drift, concurrent ones in one transaction."""

    def __init__(self, database: Database, *, state_reader: StateReader) -> None:
        self._database = database
        self._state_reader = state_reader
        self._recorded = BatchLoader(self._record_all)

    async def acknowledge(self, kb: KnowledgeBase, document: Document, indexed: IndexedDocument) -> bool:
        """Write the revision of the document's text; return False, without a write, if it has other drift."""
        live = await self._state_reader.live_chunks(kb, document.document_id)
        if document.text is None or live != indexed.chunk_count:
            return False
        unchanged = _Unchanged(indexed, document.text.revision, document.warnings, tracing.current())
        return bool(await self._recorded(unchanged))

    async def _record_all(self, unchanged: Sequence[_Unchanged]) -> Mapping[_Unchanged, bool]:
        by_organization: dict[str, list[_Unchanged]] = {}
        for each in unchanged:
            by_organization.setdefault(each.indexed.organization_id, []).append(each)
        done: dict[_Unchanged, bool] = {}
        for organization_id, theirs in by_organization.items():
            done |= dict.fromkeys(theirs, await self._record_of_organization(organization_id, theirs))
        return done

    async def _record_of_organization(self, organization_id: str, unchanged: Sequence[_Unchanged]) -> bool:
        async def work(session: MongoSession) -> None:
            revisions = [(each.indexed, each.revision) for each in unchanged]
            if not await document_index.acknowledge(self._database, session, revisions):
                raise _Changed
            document_ids = {each.indexed.document_id for each in unchanged}
            sequences = await documents.advance_sequences(
                self._database, session, organization_id, document_ids=document_ids
            )
            await announce(
                self._database, session, *(each.build_announcement(sequences) for each in unchanged), source=SOURCE
            )

        try:
            await in_transaction(self._database, work)
        except _Changed:
            return False
        return True
