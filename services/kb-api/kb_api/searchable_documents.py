"""Waits until documents are searchable.

The waits of a process look at the same moments, so one lookup serves all of them: its cost depends on the number of
organizations, not of waits.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from time import monotonic
from typing import Final

from kb_api import document_revisions
from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.http.concurrency_limit import ConcurrencyLimit
from kb_shared.membership import Action, belongs, decide
from kb_shared.mongo import document_index, documents, index_jobs, index_queries, knowledge_bases, vectors
from kb_shared.mongo.bulk_lookup import OrganizationKey, bulk_lookup
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase

LOOKED_AT_EVERY_S: Final = 0.25
_DOCUMENTS_AT_ONCE: Final = 1_000
_MAX_WAITS: Final = 200
_MAX_WAITS_OF_ORGANIZATION: Final = 25
"""Number of waits of an organization: half of the requests that it may have in progress, so that others have room."""
_NEWEST_CHUNKS: Final = 100
_GIVEN_UP: Final = frozenset({IndexJobState.FAILED, IndexJobState.PAUSED})


class Reached(StrEnum):
    """State of a document in all KBs together that it belongs to."""

    ON_ITS_WAY = "on_its_way"
    INDEXED = "indexed"
    """It is indexed in all of them; the search indexes may lag."""
    STOPPED = "stopped"
    """It goes no further by itself: no KB takes it, or its indexing has failed or is paused in one of them."""


class SearchableDocuments:
    """The waits of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._limit = ConcurrencyLimit("waits", _MAX_WAITS, limit_of_organization=_MAX_WAITS_OF_ORGANIZATION)
        self._find_reached = BatchLoader(bulk_lookup(database, _find_reached), at_most=_DOCUMENTS_AT_ONCE)

    async def wait(self, document: DocumentKey, *, timeout_s: float) -> bool:
        """Wait until searches find the newest accepted text of a document in all KBs that it belongs to.

        Returns:
            Whether that is so. False if it takes longer than `timeout_s`, if no KB takes the document, or if its
            indexing has failed or is paused in one of them.

        Raises:
            RequestError: 429 or 503, too many waits.
        """
        deadline = monotonic() + timeout_s
        key = OrganizationKey(document.organization_id, document.document_id)
        with self._limit.request_slot(document.organization_id):
            async with pause_turn():
                while True:
                    reached = await self._find_reached(key)
                    if reached is Reached.STOPPED:
                        return False
                    if reached is Reached.INDEXED and await self._is_in_search_indexes(key):
                        return True
                    if monotonic() >= deadline:
                        return False
                    # All waits end at multiples of this time.
                    await asyncio.sleep(LOOKED_AT_EVERY_S - monotonic() % LOOKED_AT_EVERY_S)

    async def _is_in_search_indexes(self, key: OrganizationKey) -> bool:
        rows = await document_index.find_of_documents(self._database, key.organization_id, [key.identity])
        kbs = {kb.kb_id: kb for kb in await knowledge_bases.find_of_organization(self._database, key.organization_id)}
        found = await run_all_or_cancel(
            _is_searchable(self._database, kbs[row.kb_id], row)
            for row in rows.get(key.identity, [])
            if row.kb_id in kbs
        )
        return all(found)


async def _find_reached(
    database: Database, organization_id: str, document_ids: Collection[str]
) -> Mapping[str, Reached]:
    """Return how far documents have come; a document that is not projected yet is on its way."""
    accepted = await document_revisions.find_texts(database, organization_id, document_ids=document_ids)
    # Read what is indexed before what should be, for the reason given in `kb_shared.membership.drift`.
    indexed = await document_index.find_of_documents(database, organization_id, document_ids)
    jobs = await index_jobs.find_states(database, organization_id, document_ids)
    projected = await documents.find_by_ids(database, organization_id, document_ids)
    kbs = await knowledge_bases.find_of_organization(database, organization_id)
    return {
        document_id: decide_reached(
            projected.get(document_id),
            kbs,
            accepted_text_revision=accepted.get(document_id),
            indexed=indexed.get(document_id, ()),
            jobs=jobs.get(document_id, {}),
        )
        for document_id in document_ids
    }


def decide_reached(
    document: Document | None,
    kbs: Sequence[KnowledgeBase],
    *,
    accepted_text_revision: int | None,
    indexed: Sequence[IndexedDocument],
    jobs: Mapping[str, IndexJobState],
) -> Reached:
    """Decide how far a document has come.

    Args:
        document: as projected; None before its first event.
        kbs: all of the organization.
        accepted_text_revision: greatest revision of a text that was accepted over HTTP.
        indexed: what is indexed of the document.
        jobs: states of its jobs by KB.
    """
    if document is None:
        return Reached.ON_ITS_WAY
    if document.text is None:
        deleted = document.deleted_revision
        is_awaited = deleted is None or (accepted_text_revision is not None and accepted_text_revision > deleted)
        return Reached.ON_ITS_WAY if is_awaited else Reached.STOPPED
    if accepted_text_revision is not None and document.text.revision < accepted_text_revision:
        return Reached.ON_ITS_WAY
    rows = {row.kb_id: row for row in indexed}
    places = [kb for kb in kbs if belongs(document, kb)]
    undone = [kb for kb in places if decide(document, kb, rows.get(kb.kb_id)) is not Action.NOTHING]
    if not places or any(jobs.get(kb.kb_id) in _GIVEN_UP for kb in undone):
        return Reached.STOPPED
    return Reached.ON_ITS_WAY if undone else Reached.INDEXED


async def _is_searchable(database: Database, kb: KnowledgeBase, row: IndexedDocument) -> bool:
    """Return whether both search indexes of a KB have the chunks that came last, as far as any did."""
    chunks = vectors.chunks_of(database, kb)
    ids = await vectors.find_newest_ids(chunks, row.document_id, version=row.version, limit=_NEWEST_CHUNKS)
    if not ids:
        return True
    return await index_queries.any_in_text_index(
        chunks, row.document_id, ids
    ) and await index_queries.any_in_vector_index(chunks, row.document_id, ids, dimensions=kb.embedding_dimensions)
